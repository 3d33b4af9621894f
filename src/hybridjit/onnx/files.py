"""ONNX files: their messages, and the graphs that they are for given sizes of inputs.

The file is from anybody: it ends in a graph or in an MXNetError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .._core.safe_open import open_file
from .._core.symbolic import Scope
from .._core.types import PartialShape, Shape
from ..errors import ModelFormatError, MXNetError
from ..formats.atomic import system_errors
from ..formats.onnx import messages
from .graph import example_shapes, input_shapes, make_graph, open_sizes, symbolic_shapes
from .open_sizes import Imported
from .operators import KNOWN

Path = str | os.PathLike[str]
_MAX_BYTES = 1 << 31  # what a message can be long by its format


def read_file(path: Path) -> messages.Model:
    """A file's messages. Raises MXNetError for a file that cannot be read, ModelFormatError."""
    with system_errors(path), open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        if size > _MAX_BYTES:
            raise ModelFormatError(f"{size} bytes: a model has at most {_MAX_BYTES}")
        file.seek(0)
        return messages.read_model(file.read(size))


class ModelFile:
    """An ONNX file, which is read again for other sizes as long as it stays what it was.

    shapes  of the inputs, in order: None for sizes that are open, and for a shape that is
    """

    def __init__(self, path: Path) -> None:
        self.name, self.path = os.fspath(path), os.path.abspath(os.fspath(path))
        self._version = self._seen()
        with self._named_in_errors():
            self._model: messages.Model | None = read_file(path)
            self.shapes: dict[str, PartialShape | None] = input_shapes(self._model)
            self._sizes = open_sizes(self._model)

    @property
    def is_open(self) -> bool:
        """Whether a size of an input is."""
        return any(shape is None or None in shape for shape in self.shapes.values())

    def forget(self) -> None:
        """Let go of the file's bytes."""
        self._model = None

    def graph(self, shapes: Mapping[str, Shape]) -> Imported:
        """The graph for these shapes. Raises what :func:`hybridjit.onnx.load` does."""
        with self._named_in_errors():
            return make_graph(self._messages(), KNOWN, os.path.dirname(self.path), shapes)

    def symbolic(self, shapes: Mapping[str, Shape]) -> tuple[Scope, Imported] | None:
        """The graph for sizes of a call in which those that are open are symbols of the scope.

        None where none is. Raises as :meth:`graph`.
        """
        scope, made = symbolic_shapes(self._sizes, shapes)
        return (scope, self.graph(made)) if scope.symbols else None

    def examples(self) -> list[dict[str, Shape]]:
        """Shapes that inputs may have; none where not even the number of axes is known."""
        return example_shapes(self._messages())

    def _messages(self) -> messages.Model:
        if self._model is not None:
            return self._model
        if self._seen() != self._version:
            raise MXNetError(
                f"{self.name} has changed since the network was loaded from it, and it is read "
                "again for the sizes of this call: load it again"
            )
        return read_file(self.path)

    def _seen(self) -> tuple[int, int]:
        """The size in bytes, and the time of the last change."""
        with system_errors(self.name):
            state = os.stat(self.path)
        return state.st_size, state.st_mtime_ns

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except ModelFormatError as error:
            raise ModelFormatError(f"{self.name}: {error}") from None
