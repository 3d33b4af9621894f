"""Blocks that run their children in sequence."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ..._core.frames import warn
from ..block import Block, rows_text
from ..hybrid_block import HybridBlock
from ..parameter import ParameterDict
from ..types import Tensor


class _Chain(Block):
    """Base of Sequential and HybridSequential: a list of children."""

    is_container = True

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        for block in blocks:
            self.register_child(block)

    def __len__(self) -> int:
        return len(self._children)

    def __getitem__(self, key: int | slice) -> Block:
        """A child; for a slice a new container with the same class and prefix."""
        layers = list(self._children.values())
        try:
            found = layers[key]
        except IndexError:
            count = len(layers)
            raise IndexError(f"list index out of range: {key} for {count} layers") from None
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
    """A chain of blocks: each child receives the output of the previous one.

    Children are added by ``add`` and accessed by index; a slice is a new chain of them.
    Use :class:`HybridSequential` if all children are hybrid: it compiles the whole chain.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Examples
    --------
    >>> net = nn.Sequential()
    >>> net.add(nn.Dense(8), nn.Lambda(lambda x: x * 2))
    >>> net.initialize()
    >>> net(nd.ones((1, 4))).shape
    (1, 8)
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active: bool = True, **kwargs: object) -> None:
        """Hybridize each child separately; warns if HybridSequential is possible."""
        if self._children and all(isinstance(c, HybridBlock) for c in self._children.values()):
            warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. "
                "Consider using HybridSequential for the best performance."
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Chain, HybridBlock):
    """A chain of hybrid blocks, which ``hybridize()`` compiles as one graph.

    Children are added by ``add`` and accessed by index; a slice is a new chain of them.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters.
    params : ParameterDict, optional
        Parameters to share.

    Raises
    ------
    ValueError
        By ``add``, for a child that is not a HybridBlock.

    Examples
    --------
    >>> net = nn.HybridSequential()
    >>> net.add(nn.Dense(8, activation="relu"), nn.Dense(2))
    >>> net.initialize()
    >>> net.hybridize()
    >>> net(nd.ones((1, 4))).shape
    (1, 2)
    >>> len(net), net[1]
    (2, Dense(8 -> 2, linear))
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        for block in self._children.values():
            x = block(x)
        return x
