"""Blocks that run their children one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType

from ..block import Block, rows_text
from ..hybrid_block import HybridBlock
from ..parameter import ParameterDict
from ..types import Tensor


class _Chain(Block):
    """What both kinds of Sequential have in common: a list of children."""

    is_container = True

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        for block in blocks:
            self.register_child(block)

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, key: int | slice) -> Block:
        """A child; for a slice a new container of the same class and prefix with these children."""
        found = list(self._children.values())[key]
        if not isinstance(found, list):
            return found
        part = type(self)(prefix=self.prefix)
        part.add(*found)
        return part

    def __iter__(self) -> Iterator[Block]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return rows_text(self, self._children.items())


class Sequential(_Chain):
    """Children of any kind, run in order."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active: bool = True, **kwargs: object) -> None:
        """Hybridize each child for itself; warns when a HybridSequential would do better."""
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. "
                "Consider using HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Chain, HybridBlock):
    """Hybrid children, run in order."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        for block in self._children.values():
            x = block(x)
        return x
