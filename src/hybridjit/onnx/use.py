"""A node of an ONNX graph as translations ask for it: attributes by name and kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelFormatError
from ..formats.onnx import messages
from ..formats.onnx.tensors import read_array


def key_of(node: messages.Node) -> str:
    """The name of a node's operator, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


class Use:
    """One use of an ONNX operator.

    key    the operator's name, with its domain unless that is ONNX's own
    opset  the version of the operators that the model asks for
    """

    def __init__(self, node: messages.Node, number: int, opset: int, folder: str | None) -> None:
        self.op_type = node.op_type
        self.key = key_of(node)
        self.inputs = node.input
        self.outputs = node.output
        self.name = node.name or next(filter(None, node.output), f"{node.op_type}{number}")
        self.opset = opset
        self._attributes = {a.name: a for a in node.attribute}
        self._folder = folder

    def __str__(self) -> str:
        return f"{self.op_type} '{self.name}'"

    def __contains__(self, name: str) -> bool:
        return name in self._attributes

    def number(self, name: str, default: int = 0) -> int:
        """A whole number."""
        found = self._attributes.get(name)
        return default if found is None else self._require(found.i, name)

    def real(self, name: str, default: float = 0.0) -> float:
        """A number with a fraction."""
        found = self._attributes.get(name)
        return default if found is None else self._require(found.f, name)

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        found = self._attributes.get(name)
        return default if found is None else _decoded(self._require(found.s, name))

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Whole numbers."""
        found = self._attributes.get(name)
        return tuple(default if found is None else found.ints)

    def reals(self, name: str, default: Sequence[float] = ()) -> tuple[float, ...]:
        """Numbers."""
        found = self._attributes.get(name)
        return tuple(default if found is None else found.floats)

    def texts(self, name: str) -> tuple[str, ...]:
        """Texts, none where the node has no such attribute."""
        found = self._attributes.get(name)
        return () if found is None else tuple(map(_decoded, found.strings))

    def array(self, name: str) -> np.ndarray | None:
        """The elements of a tensor, None where the node has no such attribute."""
        found = self._attributes.get(name)
        return None if found is None else read_array(self._require(found.t, name), self._folder)

    def graph(self, name: str) -> messages.Graph:
        """A graph. Raises ModelFormatError where the node has none of this name."""
        found = self._attributes.get(name)
        if found is None:
            raise ModelFormatError(f"{self}: it has no graph '{name}'")
        return self._require(found.g, name)

    def element_code(self, name: str) -> int:
        """ONNX's code of a tensor's element type, 0 where the node has no such attribute."""
        found = self._attributes.get(name)
        return 0 if found is None else self._require(found.t, name).data_type

    def _require(self, value: messages.M | None, name: str) -> messages.M:
        if value is None:
            raise ModelFormatError(f"{self}: its attribute '{name}' has a value of another kind")
        return value


def _decoded(value: memoryview) -> str:
    return str(value, "utf-8", "replace")
