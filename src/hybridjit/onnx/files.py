"""ONNX files: their messages, and their graphs for given sizes of inputs.

Files are untrusted: reading results in a graph or an MXNetError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .._core.async_safety import uncollected
from .._core.safe_open import open_file
from .._core.symbolic import Scope
from .._core.types import PartialShape, Shape
from ..errors import ModelFormatError, MXNetError
from ..formats.atomic import system_errors
from ..formats.onnx import messages
from .graph import (
    declared_interface,
    example_shapes,
    input_shapes,
    make_graph,
    open_sizes,
    symbolic_shapes,
)
from .open_sizes import Imported
from .operators import KNOWN

Path = str | os.PathLike[str]
_MAX_BYTES = 1 << 31  # limit of a message's length in bytes


def read_file(path: Path) -> messages.Model:
    """Messages of a file. Raises MXNetError if it cannot be read, ModelFormatError."""
    with system_errors(path), open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > _MAX_BYTES:
            raise ModelFormatError(f"{size} bytes: a model can have at most {_MAX_BYTES}")
        file.seek(0)
        return messages.read_model(file.read(size))


class ModelFile:
    """ONNX file that is read again for other sizes, as long as it does not change.

    shapes    of the inputs, in order; sizes are None if symbolic, the shape is None if unknown
    declared  types of the inputs and of the outputs by name
    """

    @uncollected
    def __init__(self, path: Path) -> None:
        self.name, self.path = os.fspath(path), os.path.abspath(os.fspath(path))
        self._version = self._seen()
        with self._named_in_errors():
            self._model: messages.Model | None = read_file(path)
            self.shapes: dict[str, PartialShape | None] = input_shapes(self._model)
            self.declared = declared_interface(self._model)
            self._sizes = open_sizes(self._model)

    @property
    def is_open(self) -> bool:
        """Whether an input has a symbolic size."""
        return any(shape is None or None in shape for shape in self.shapes.values())

    def forget(self) -> None:
        """Release the file's bytes."""
        self._model = None

    @uncollected
    def graph(self, shapes: Mapping[str, Shape]) -> Imported:
        """Graph for these shapes. Raises the errors of :func:`hybridjit.onnx.load`."""
        with self._named_in_errors():
            return make_graph(self._messages(), KNOWN, os.path.dirname(self.path), shapes)

    def symbolic(self, shapes: Mapping[str, Shape]) -> tuple[Scope, Imported] | None:
        """The graph for sizes of a call in which those that are open are symbols of the scope.

        None where none is. Raises as :meth:`graph`.
        """
        scope, made = symbolic_shapes(self._sizes, shapes)
        return (scope, self.graph(made)) if scope.symbols else None

    def examples(self) -> list[dict[str, Shape]]:
        """Possible shapes of inputs; none if a number of axes is unknown."""
        return example_shapes(self._messages())

    def _messages(self) -> messages.Model:
        if self._model is not None:
            return self._model
        if self._seen() != self._version:
            raise MXNetError(
                f"{self.name} has changed since the network was loaded from it, but must be read "
                "again for the sizes of this call: load it again"
            )
        return read_file(self.path)

    def _seen(self) -> tuple[int, int]:
        """Size in bytes, and time of the last change."""
        with system_errors(self.name):
            state = os.stat(self.path)
        return state.st_size, state.st_mtime_ns

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except ModelFormatError as error:
            raise ModelFormatError(f"{self.name}: {error}") from None
