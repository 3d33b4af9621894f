"""A symbol compiled and run, the same by the NumPy references, and how near is near enough.

In: outputs of nodes and an array for every variable. Out: arrays, or an AssertionError with the
largest difference in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hybridjit._core.config import config
from hybridjit._core.options import Options
from hybridjit._core.symbolic import Scope
from hybridjit._core.types import TensorType, type_of
from hybridjit.codegen.targets import find_target
from hybridjit.compilation import compile_graph, compile_variant
from hybridjit.compiler import new_log, plan_graph
from hybridjit.ir.graph import from_symbol
from hybridjit.ir.interpret import interpret
from hybridjit.ir.mode import INFERENCE, Purpose
from hybridjit.ir.node import Node, Output, apply, variable
from hybridjit.ir.plan import Plan
from hybridjit.ops import lookup
from hybridjit.ops.attrs import attr_text
from hybridjit.passes.infer import infer_node_types
from hybridjit.runtime.binding import PackedStore
from hybridjit.runtime.executable import Executable

# Largest difference as a part of the largest result: a kernel sums in another order than NumPy.
TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
# Every target that this host can run; the widest is the host itself.
TARGETS = ("native", "avx2", "sse2")

Arrays = Mapping[str, np.ndarray]


def is_available(target: str) -> bool:
    """Whether this host can run code for ``target``."""
    try:
        find_target(target)
    except ValueError:
        return False
    return True


AVAILABLE = tuple(t for t in TARGETS if is_available(t))


def has_tiles() -> bool:
    """Whether products of bytes use tile registers, for HYBRIDJIT_TARGET."""
    return find_target(config.target).has_tiles


# The same for products of bytes, which use the tile registers of a host that has them.
OF_BYTES = (*AVAILABLE, "avx512") if find_target().has_tiles else AVAILABLE


def var(name: str, shape: tuple[int, ...] | None = None) -> Output:
    """A variable, with its shape if nothing else tells it."""
    return Output(variable(name, {"__shape__": str(shape)} if shape else {}))


def call(op: str, *inputs: Output, name: str = "", **attrs: object) -> Output:
    """The first output of ``op`` on ``inputs``; attributes as Python values."""
    return Output(node(op, *inputs, name=name, **attrs))


def node(op: str, *inputs: Output, name: str = "", **attrs: object) -> Node:
    text = {key.rstrip("_"): attr_text(value) for key, value in attrs.items()}
    return apply(lookup(op), name or op.strip("_").lower(), inputs, text)


def plan_of(
    outputs: Sequence[Output],
    arrays: Arrays,
    params: Sequence[str] = (),
    log: object = None,
    purpose: Purpose = INFERENCE,
) -> Plan:
    """The plan of a graph whose variables in ``params`` are parameters, all others inputs."""
    given = {n: type_of(a) for n, a in arrays.items() if n not in params}
    fixed = {n: type_of(arrays[n]) for n in params}
    log = log or new_log()
    return plan_graph(outputs, given, fixed, log, purpose=purpose)  # type: ignore[arg-type]


def compiled(
    outputs: Sequence[Output],
    arrays: Arrays,
    params: Sequence[str] = (),
    purpose: Purpose = INFERENCE,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Executable:
    """The executable, bound to those of ``arrays`` that are ``params``."""
    given = {n: type_of(a) for n, a in arrays.items() if n not in params}
    fixed = {n: type_of(arrays[n]) for n in params}
    if options.dynamic is True:
        return _compiled_for_all(outputs, given, {n: arrays[n] for n in params}, options)
    executable = compile_graph(outputs, given, fixed, options, new_log(), purpose=purpose)
    executable.bind({n: arrays[n] for n in params})
    return executable


def symbolic_types(given: dict[str, TensorType]) -> tuple[Scope, dict[str, TensorType]]:
    """The types with a symbol for each size, which is its hint."""
    scope, sizes = Scope(), {}
    for name, t in given.items():
        dims = tuple(scope.symbol(f"s{len(scope.symbols)}", size) for size in t.dims)
        sizes[name] = t.with_shape(dims)
    return scope, sizes


def _compiled_for_all(
    outputs: Sequence[Output],
    given: dict[str, TensorType],
    params: dict[str, np.ndarray],
    options: Options,
) -> Executable:
    """That of a variant for all sizes of the inputs, for the sizes that these have."""
    scope, sizes = symbolic_types(given)
    fixed = {name: type_of(array) for name, array in params.items()}
    variant = compile_variant(outputs, sizes, fixed, scope, options, new_log())
    own = variant.sizes_for([*given.values()])
    assert own is not None
    executable = variant.at(own)
    assert isinstance(executable, Executable)
    variant.bind(executable, params, PackedStore())
    return executable


def run_compiled(
    outputs: Sequence[Output], arrays: Arrays, params: Sequence[str] = ()
) -> list[np.ndarray]:
    executable = compiled(outputs, arrays, params)
    return executable([np.ascontiguousarray(a) for n, a in arrays.items() if n not in params])


def run_reference(outputs: Sequence[Output], arrays: Arrays) -> list[np.ndarray]:
    """The graph as it was written, no pass applied, one NumPy reference after the other."""
    given = {n: type_of(a) for n, a in arrays.items()}
    graph = from_symbol(outputs, given, infer_node_types(outputs, given))
    named = {v: arrays[v.name] for v in graph.inputs}
    return [np.asarray(a) for a in interpret(graph, named)]


def assert_near(
    found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float | None = None
) -> None:
    """Equal shapes and types; integers exact, floats within ``tolerance`` of the largest value."""
    assert len(found) == len(wanted)
    for number, (mine, right) in enumerate(zip(found, wanted)):
        assert mine.shape == right.shape, f"output {number}: {mine.shape}, not {right.shape}"
        assert mine.dtype == right.dtype, f"output {number}: {mine.dtype}, not {right.dtype}"
        if right.dtype.kind != "f":
            np.testing.assert_array_equal(mine, right)
        elif right.size:
            limit = TOLERANCE[right.dtype.name] if tolerance is None else tolerance
            _assert_floats_near(mine, right, limit, number)


def _assert_floats_near(
    found: np.ndarray, wanted: np.ndarray, tolerance: float, number: int
) -> None:
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    gap = np.abs(found[finite].astype(np.float64) - wanted[finite])
    scale = np.abs(wanted[finite].astype(np.float64)).max(initial=0.0)
    worst = float(gap.max(initial=0.0)) if np.isfinite(found[finite]).all() else np.inf
    assert worst <= tolerance * scale, (
        f"output {number} differs by {worst:.3g}; the largest value is {scale:.3g}, "
        f"allowed is {tolerance:g} of it"
    )
