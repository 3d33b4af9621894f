"""A block with its structure in files: ``Block.save`` and ``Block.load``.

Input: a block and a prefix. Output: ``<prefix>-model.json`` and ``<prefix>-model.params``, or the
block in the stored state. The description contains no code: it is read into a block that the
program has built. Blocks are matched by class and by position in the traversal of children, never
by name, because names contain a counter of the process.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from ..errors import ModelFormatError
from ..formats.atomic import together, write_atomically
from ..formats.json_stream import read_file
from .saving import Tree, load_parameters, save_parameters
from .trace import Trace


def save_model(block: Tree, prefix: str) -> None:
    """Write names, children and graphs to ``<prefix>-model.json``, and values to the other file."""
    text = json.dumps(dict([_described(block, itertools.count())]))
    together(
        lambda: save_parameters(block, f"{prefix}-model.params", False),
        lambda: write_atomically(f"{prefix}-model.json", [text.encode()]),
    )


def _described(block: Tree, places: Iterator[int]) -> tuple[str, dict[str, object]]:
    """A block's key and its description, including children."""
    key = _key(block, next(places))
    found: dict[str, object] = {"orig_name": block.name, **block._described_graph()}
    found["children"] = {child.name: name for name, child in block._children.items()}
    found.update(_described(child, places) for child in block._children.values())
    return key, found


def _key(block: Tree, place: int) -> str:
    return f"{type(block).__name__.lower()}{place}"


def described_graph(traced: Trace | None) -> dict[str, object]:
    """MXNet's description of a hybrid block's graph; empty if it never ran as a graph."""
    if traced is None:
        return {"hybridized": False}
    return {
        "in_format": traced.in_format,
        "out_format": traced.out_format,
        "inputs": [symbol.tojson() for symbol in traced.inputs],
        "symbol": traced.symbol.tojson(),
        "hybridized": True,
    }


def load_model(block: Tree, prefix: str) -> None:
    """Set names, values and hybridization from files; the next calls trace graphs again.

    Raises ModelFormatError if the description is malformed, KeyError if it has another structure,
    and the exceptions of :func:`load_parameters`.
    """
    path = f"{prefix}-model.json"
    _Description(path).restore(block, _read(path))
    load_parameters(block, f"{prefix}-model.params", None, False, False, False, "current")


def _read(path: str) -> dict[str, object]:
    content = read_file(path)
    if not isinstance(content, dict) or len(content) != 1:
        raise ModelFormatError(f"{path}: must describe exactly one block")
    return content


class _Description:
    """Simultaneous traversal of a block and its description."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._places = itertools.count()
        self._names: dict[
            int, str
        ] = {}  # new names of parameters by id, because blocks may share them

    def restore(self, block: Tree, among: dict[str, object]) -> None:
        """Find the block's description in ``among``, and apply it."""
        saved = self._entry(block, among)
        self._rename(block, saved["orig_name"])
        block._forget_graph(activate=bool(saved.get("hybridized")))
        for child in block._children.values():
            self.restore(child, saved)
        _rename_children(block, saved["children"])

    def _entry(self, block: Tree, among: dict[str, object]) -> dict[str, Any]:
        key = _key(block, next(self._places))
        if key not in among:
            raise KeyError(f"{self._path}: has no block {key}: the network has another structure")
        saved = among[key]
        if (
            not isinstance(saved, dict)
            or not isinstance(saved.get("orig_name"), str)
            or not isinstance(saved.get("children"), dict)
            or not all(isinstance(name, str) for name in saved["children"].values())
        ):
            raise ModelFormatError(f"{self._path}: {key} is not a description of a block")
        return saved

    def _rename(self, block: Tree, name: str) -> None:
        """Restore the names of the block and its parameters.

        Parameters without the block's prefix keep their names.
        """
        own, start = block.params, len(block.params.prefix)
        if block.name != name and start:
            for old, param in own.items():
                param.rename(self._names.setdefault(id(param), f"{name}_{old[start:]}"))
            own.rekey()
        block._name = name


def _rename_children(block: Tree, names: dict[str, str]) -> None:
    """Restore the keys of the children, from which paths in the parameter file are made."""
    keys = [names.get(child.name, key) for key, child in block._children.items()]
    if len(set(keys)) == len(keys):  # children with equal keys share an entry there
        children = list(block._children.values())
        block._children.clear()
        block._children.update(zip(keys, children))
