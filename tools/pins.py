"""The axes of operators' inputs whose sizes are constants of a compilation, even if they vary.

    python tools/pins.py                     every operator with samples
    python tools/pins.py Pooling RNN         these

Each sample of ``tests/samples*.py`` is compiled once for each axis, with the size of the axis as a
symbol; axes of all inputs with the same size share it, or, if that pins it, only this axis has it.
An axis is listed if guards of the graph, or of the kernels, then allow one value alone. No machine
code is made. Only axes of 3 and more elements are tried: code may depend on fewer.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from hybridjit._core.symbolic import Branch, Scope  # noqa: E402
from hybridjit._core.types import TensorType, type_of  # noqa: E402
from hybridjit.codegen.emit import templates  # noqa: E402
from hybridjit.compilation import compile_variant  # noqa: E402
from hybridjit.errors import MXNetError  # noqa: E402
from hybridjit.ir.node import Output, apply, variable  # noqa: E402
from hybridjit.ops import OpDef, all_ops  # noqa: E402
from hybridjit.runtime.variant import BUGS  # noqa: E402
from samples import samples  # noqa: E402
from sampling import Sample  # noqa: E402

FEWEST = 3
PARAMETERS = {"weight", "bias", "gamma", "beta", "moving_mean", "moving_var", "parameters"}


def parameters(names: tuple[str, ...]) -> set[str]:
    """Those of an operator's inputs that networks have as parameters."""
    return set() if "grad" in names else PARAMETERS.intersection(names)


def pinned(op: OpDef, sample: Sample, types: list[TensorType]) -> str:
    """Why the only symbol of these types is a constant; "" if it is none."""
    (scope,) = {n.scope for t in types for n in t.dims if not isinstance(n, int)}
    names = op.input_names(op.parse(sample.attrs))
    inputs = [Output(variable(name)) for name in names]
    node = apply(op, op.name, inputs, sample.attrs)
    outputs = [Output(node, i) for i in range(len(node.output_names))]
    given = dict(zip(names, types))
    fixed = {name: given.pop(name) for name in parameters(names)}
    (size,) = scope.symbols.values()
    try:
        variant = compile_variant(outputs, given, fixed, scope)
    except MXNetError as error:
        return f"refused: {error}"
    except BUGS as error:
        return f"bug: {error!r}"
    (made,) = variant._templates._classes
    return "graph" if variant.pinned else "kernel" if _is_pinned(made.branch, size) else ""


def _is_pinned(branch: Branch, size: object) -> bool:
    text = str(size)
    return any(g.test == "==" and str(g.left) == text for g in branch.guards)


def attempts(
    types: list[TensorType], data: set[int], place: int, axis: int
) -> Iterator[list[TensorType]]:
    """The types with a symbol for all axes of this size; and for the one axis alone."""
    size = types[place].dims[axis]
    for together in (True, False):
        scope = Scope()
        symbol = scope.symbol("n", size)
        yield [
            t.with_shape(tuple(
                symbol if (i, j) == (place, axis) or together and n == size and i in data else n
                for j, n in enumerate(t.dims)
            ))
            for i, t in enumerate(types)
        ]  # fmt: skip


def pins(op: OpDef) -> Iterator[str]:
    """A line for each axis that is pinned in all samples that have it, and for each bug."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for sample in samples(op):
        types = list(map(type_of, sample.arrays))
        names = op.input_names(op.parse(sample.attrs))
        data = {i for i, name in enumerate(names) if name not in parameters(names)}
        for i in sorted(data):
            for axis, size in enumerate(types[i].dims):
                if size >= FEWEST:
                    reasons = [pinned(op, sample, t) for t in attempts(types, data, i, axis)]
                    place = (names[i], axis, types[i].ndim)
                    found.setdefault(place, []).append(min(reasons, key=len))
                    for reason in reasons:
                        if reason.startswith("bug"):
                            yield f"{sample.name}, axis {axis} of {names[i]}: {reason}"
    for (name, axis, rank), reasons in found.items():
        if all(reasons):
            yield f"axis {axis} of {rank} of {name}: {', '.join(sorted(set(reasons)))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="operators; all by default")
    names = parser.parse_args().names
    warnings.simplefilter("ignore")
    templates.loaded_code = lambda *arguments: (None, None)  # type: ignore[assignment]
    for op in all_ops():
        if op.outputs and (op.name in names or not names and not op.internal):
            for line in pins(op):
                print(f"{op.name}: {line}", flush=True)


if __name__ == "__main__":
    main()
