"""A block with its structure in files: ``Block.save`` and ``Block.load``.

In: a block and a prefix. Out: ``<prefix>-model.json`` and ``<prefix>-model.params``, or the block
as they describe it. The description holds no code: it is read into a block that the same program
built. Blocks are paired by their class and their place in the walk through the children, never by
their names, which count up with every block that a process makes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._core.safe_open import open_file
from ..errors import ModelFormatError
from ..formats.atomic import system_errors, together, write_atomically
from ..formats.json_stream import parse
from .saving import load_parameters, save_parameters

if TYPE_CHECKING:
    from .block import Block
    from .trace import Trace


def save_model(block: Block, prefix: str) -> None:
    """Write names, children and graphs to ``<prefix>-model.json``, values to the other file."""
    text = json.dumps(dict([_described(block, itertools.count())]))
    together(
        lambda: save_parameters(block, f"{prefix}-model.params", False),
        lambda: write_atomically(f"{prefix}-model.json", [text.encode()]),
    )


def _described(block: Block, places: Iterator[int]) -> tuple[str, dict[str, object]]:
    """A block's key and its description, children inside."""
    key = _key(block, next(places))
    found: dict[str, object] = {"orig_name": block.name, **block._described_graph()}
    found["children"] = {child.name: name for name, child in block._children.items()}
    found.update(_described(child, places) for child in block._children.values())
    return key, found


def _key(block: Block, place: int) -> str:
    return f"{type(block).__name__.lower()}{place}"


def described_graph(traced: Trace | None) -> dict[str, object]:
    """What MXNet writes of a hybrid block's graph; None where the block never ran as one."""
    if traced is None:
        return {"hybridized": False}
    return {
        "in_format": traced.in_format,
        "out_format": traced.out_format,
        "inputs": [symbol.tojson() for symbol in traced.inputs],
        "symbol": traced.symbol.tojson(),
        "hybridized": True,
    }


def load_model(block: Block, prefix: str) -> None:
    """Take over names, values and what was hybridized; graphs are traced again when called.

    Raises ModelFormatError when the description is not one of a block, KeyError when it is of
    another structure, and what :func:`load_parameters` raises.
    """
    path = f"{prefix}-model.json"
    _Description(path).restore(block, _read(path))
    load_parameters(block, f"{prefix}-model.params", None, False, False, False, "current")


def _read(path: str) -> dict[str, object]:
    with system_errors(path), open_file(path) as file:
        data = file.read()
    try:
        content = parse(data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    if not isinstance(content, dict) or len(content) != 1:
        raise ModelFormatError(f"{path}: does not describe one block")
    return content


class _Description:
    """The walk through a block and its description at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._places = itertools.count()
        self._names: dict[int, str] = {}  # new names of parameters, which blocks may share

    def restore(self, block: Block, among: dict[str, object]) -> None:
        """Find the block's own description in ``among`` and let it take that over."""
        saved = self._entry(block, among)
        self._rename(block, saved["orig_name"])
        block._forget_graph(activate=bool(saved.get("hybridized")))
        for child in block._children.values():
            self.restore(child, saved)
        _rename_children(block, saved["children"])

    def _entry(self, block: Block, among: dict[str, object]) -> dict[str, Any]:
        key = _key(block, next(self._places))
        if key not in among:
            raise KeyError(f"{self._path}: describes no block {key}: the net has another structure")
        saved = among[key]
        if (
            not isinstance(saved, dict)
            or not isinstance(saved.get("orig_name"), str)
            or not isinstance(saved.get("children"), dict)
            or not all(isinstance(name, str) for name in saved["children"].values())
        ):
            raise ModelFormatError(f"{self._path}: {key} is no description of a block")
        return saved

    def _rename(self, block: Block, name: str) -> None:
        """The block's and its own parameters' names as they were when it was saved.

        Parameters without a prefix are not named for their block, and stay as they are.
        """
        own, start = block.params, len(block.params.prefix)
        if block.name != name and start:
            for old, param in own.items():
                param.rename(self._names.setdefault(id(param), f"{name}_{old[start:]}"))
            own.rekey()
        block._name = name


def _rename_children(block: Block, names: dict[str, str]) -> None:
    """The keys of the children as they were: paths in the file of values are made of them."""
    keys = [names.get(child.name, key) for key, child in block._children.items()]
    if len(set(keys)) == len(keys):  # children of one name share a row there
        children = list(block._children.values())
        block._children.clear()
        block._children.update(zip(keys, children))
