"""``Block.summary``: a table of layers, output shapes and parameter counts.

Input: a block that is initialised and not hybridized, and inputs for one call. Output: text on
stdout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .parameter import Parameter
from .saving import Tree

_ROW = "{:>20}  {:>42} {:>15}"
_WIDTH = 80


@dataclass
class _Row:
    """One layer, or the input."""

    name: str
    output: str
    params: list[Parameter] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(_size(p) for p in self.params)


def print_summary(block: Tree, inputs: tuple[object, ...]) -> None:
    """Call ``block`` once with ``inputs``, and print the output shapes of each layer."""
    rows = [_Row("Input", _shapes_text(inputs))]
    layers, record = _layers(block), _recorder(rows)
    try:
        for layer in layers:
            layer.register_forward_hook(record)
        block(*inputs)
        _take_off(layers, record)
    except BaseException:
        _take_off(layers, record)
        raise
    print("\n".join(_table(rows)))


def _take_off(layers: list[Tree], hook: object) -> None:
    for layer in layers:
        layer._forward_hooks.pop(id(hook), None)


def _layers(block: Tree) -> list[Tree]:
    """Every block inside, without duplicates and plain containers."""
    found: dict[int, Tree] = {}

    def visit(child: Tree) -> None:
        if not child.is_container:
            found[id(child)] = child

    _require_eager(block)
    block.apply(visit)
    return list(found.values())


def _require_eager(block: Tree) -> None:
    """Raise AssertionError for the outermost block that is hybridized."""
    assert not getattr(block, "_active", False), (
        f'"{block.name}" must not be hybridized to print summary. '
        "Call hybridize(active=False) first."
    )
    for child in block._children.values():
        _require_eager(child)


def _recorder(rows: list[_Row]) -> Callable[[Tree, object, object], None]:
    def record(block: Tree, _: object, outputs: object) -> None:
        name = f"{type(block).__name__}-{len(rows)}"
        rows.append(_Row(name, _shapes_text(outputs), list(block._reg_params.values())))

    return record


def _table(rows: list[_Row]) -> list[str]:
    params = [p for row in rows for p in row.params]
    total = sum(_size(p) for p in params)
    fixed = sum(_size(p) for p in params if p.grad_req == "null")
    unique = sum(_size(p) for p in {id(p): p for p in params}.values())
    return [
        "-" * _WIDTH,
        _ROW.format("Layer (type)", "Output Shape", "Param #"),
        "=" * _WIDTH,
        *(_ROW.format(row.name, row.output, row.count) for row in rows),
        "=" * _WIDTH,
        "Parameters in forward computation graph, duplicate included",
        f"   Total params: {total}",
        f"   Trainable params: {total - fixed}",
        f"   Non-trainable params: {fixed}",
        f"Shared params in forward computation graph: {total - unique}",
        f"Unique parameters in model: {unique}",
        "-" * _WIDTH,
    ]


def _size(param: Parameter) -> int:
    return int(np.prod(param.data().shape))


def _shapes_text(value: object) -> str:
    """``(2, 4)``; several shapes separated by commas, without the outer brackets."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    text = str(_shapes(value))
    return text[1:-1] if isinstance(value, (list, tuple)) else text


def _shapes(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_shapes(item) for item in value]
    return getattr(value, "shape", value)
