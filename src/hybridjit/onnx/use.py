"""Node of an ONNX graph with attributes by name and kind, for readers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelFormatError
from ..formats.onnx import messages
from ..formats.onnx.tensors import read_array


def key_of(node: messages.Node) -> str:
    """Name of a node's operator, with its domain unless that is ONNX's."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


class Use:
    """Use of an ONNX operator.

    key    the operator's name, with its domain unless that is ONNX's
    opset  version of the operators that the model requires
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
        """Integer attribute."""
        found = self._attributes.get(name)
        return default if found is None else self._require(found.i, name)

    def real(self, name: str, default: float = 0.0) -> float:
        """Float attribute."""
        found = self._attributes.get(name)
        return default if found is None else self._require(found.f, name)

    def text(self, name: str, default: str = "") -> str:
        """String attribute."""
        found = self._attributes.get(name)
        return default if found is None else _decoded(self._require(found.s, name))

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Integers of an attribute."""
        found = self._attributes.get(name)
        return tuple(default if found is None else found.ints)

    def reals(self, name: str, default: Sequence[float] = ()) -> tuple[float, ...]:
        """Floats of an attribute."""
        found = self._attributes.get(name)
        return tuple(default if found is None else found.floats)

    def texts(self, name: str) -> tuple[str, ...]:
        """Strings of an attribute, empty if absent."""
        found = self._attributes.get(name)
        return () if found is None else tuple(map(_decoded, found.strings))

    def array(self, name: str) -> np.ndarray | None:
        """Elements of a tensor attribute, None if absent."""
        found = self._attributes.get(name)
        return None if found is None else read_array(self._require(found.t, name), self._folder)

    def graph(self, name: str) -> messages.Graph:
        """Graph attribute. Raises ModelFormatError if absent."""
        found = self._attributes.get(name)
        if found is None:
            raise ModelFormatError(f"{self}: its graph '{name}' is missing")
        return self._require(found.g, name)

    def element_code(self, name: str) -> int:
        """ONNX's code of the element type of a tensor attribute, 0 if absent."""
        found = self._attributes.get(name)
        return 0 if found is None else self._require(found.t, name).data_type

    def _require(self, value: messages.M | None, name: str) -> messages.M:
        if value is None:
            raise ModelFormatError(f"{self}: its attribute '{name}' has a value of another kind")
        return value


def _decoded(value: memoryview) -> str:
    return str(value, "utf-8", "replace")
