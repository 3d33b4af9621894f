"""A random network in 8 bits: the same bits everywhere, and the values of its definition.

In: a case of ``random_int8.py``. Out: a description of the first difference. The compiled network
is compared with

- its own graph, computed by NumPy in float32: steps of exact operators have its bits;
- itself: in each target, number of threads and place in a batch, and with symbolic sizes;
- the definition in double precision: layers between QuantizeLinear and DequantizeLinear;
- the network without quantization, as far as bytes can be from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from compiling import OF_BYTES, compiled
from fuzz_cases import in_float64, largest_of, run_reference
from fuzz_sizes import size_difference
from growing import RandomGraph
from hybridjit import get_num_threads, override, set_num_threads
from hybridjit._core.options import Options
from hybridjit._core.types import type_of
from hybridjit.ir.calibrated import Ranges, with_ranges
from hybridjit.ir.graph import Graph, Value, from_symbol
from hybridjit.ir.interpret import run_in_order, run_value
from hybridjit.ir.node import Output, topological
from hybridjit.onnx.quantized import quantized
from hybridjit.ops.registry import lookup
from hybridjit.passes.infer import infer_node_types
from hybridjit.runtime.checking import Checker
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.instance import Instance
from hybridjit.runtime.split_batch import SplitBatch
from random_int8 import ranges_of

Arrays = Mapping[str, np.ndarray]
Keep = Callable[[Executable], None]
EIGHT_BITS = Options(precision="int8")
# Operators whose results in machine code have the bits of NumPy's.
EXACT = frozenset(
    ("_to_bytes", "_from_bytes", "_integer_batch_dot", "_integer_convolution", "_integer_dense",
     "_byte_pooling", "Cast",
     "broadcast_add", "elemwise_add", "broadcast_mul", "_mul_scalar", "_plus_scalar", "relu",
     "clip", "Concat", "_pad_axes", "slice", "_reshape_to", "transpose", "_rminus_scalar",
     "_maximum_scalar", "_minimum_scalar", "_div_scalar", "_copy")
)  # fmt: skip
_EXACT_KINDS = {"Activation": ("act_type", "relu"), "Pooling": ("pool_type", "max")}
# Distance from a tie, in levels, at which both bytes are right: rounding errors of double
# precision; those of float32 where a batch norm's factors are multiplied by weights before.
NEAR_TIE, AFTER_NORM = 1e-9, 1e-4
# Noise in levels, four times that of rounding, and its draws: their largest effect bounds errors.
NOISE, DRAWS = 2.0, 8


def int8_difference(case: RandomGraph, sizes: bool, keep: Keep = lambda _: None) -> str:
    """The first difference of a network in 8 bits; empty without one."""
    ranges = ranges_of(case)
    ranged = replace(case, outputs=list(_ranged(case, ranges)))
    if sizes:
        return size_difference(ranged, False, keep)
    executable = _executable(ranged, keep)
    checks = (_from_graph, _from_itself, _from_definition, _from_float32)
    found = (check(case, ranged, ranges, executable, keep) for check in checks)
    return next(filter(None, found), "")


def _ranged(case: RandomGraph, ranges: Ranges) -> tuple[Output, ...]:
    return with_ranges(tuple(case.outputs), case.params, ranges, ())


def _executable(case: RandomGraph, keep: Keep) -> Executable | SplitBatch:
    made = compiled(case.outputs, case.arrays, case.params, options=EIGHT_BITS)
    keep(_one(made))
    return made


def _one(executable: Executable | SplitBatch) -> Executable:
    return executable.one if isinstance(executable, SplitBatch) else executable


def _inputs(case: RandomGraph) -> list[np.ndarray]:
    return [case.arrays[name] for name in case.inputs]


# --- its own graph ---


def _from_graph(
    case: RandomGraph, ranged: RandomGraph, ranges: Ranges, made: Executable, keep: Keep
) -> str:
    """Each step of exact operators has the bits of its reference."""
    one = _one(made)
    given = [x[:1] for x in _inputs(case)] if isinstance(made, SplitBatch) else _inputs(case)
    assert one.binding is not None
    checker = Checker(one, Instance(one, one.binding, 1), [np.ascontiguousarray(x) for x in given])
    for ran in checker.steps():
        if not all(map(_is_exact, ran.step.group.members)):
            continue
        for found, wanted in zip(ran.found, ran.wanted):
            if found.tobytes() != np.ascontiguousarray(wanted).tobytes():
                members = ", ".join(value.describe() for value in ran.step.group.members)
                count = int((found != wanted).sum())
                return f"{count} of {found.size} results of {members} differ from its reference"
    outputs = [x.copy() for x in checker.outputs]
    return _unequal(
        outputs, made(_inputs(case)), "a run step by step", isinstance(made, SplitBatch)
    )


def _is_exact(value: Value) -> bool:
    """Whether machine code computes NumPy's bits."""
    if value.op is None or value.op.name in EXACT:
        return True
    kind = _EXACT_KINDS.get(value.op.name)
    return kind is not None and value.attrs[kind[0]] == kind[1]


def _unequal(
    wanted: list[np.ndarray], found: list[np.ndarray], where: str, is_first: bool = False
) -> str:
    """A description of the first output with other bits, of the first sample only on request."""
    for number, (x, y) in enumerate(zip(wanted, found)):
        y = y[:1] if is_first else y
        if x.shape != y.shape or x.tobytes() != y.tobytes():
            count = int((x != y).sum()) if x.shape == y.shape else -1
            return f"output {number} has other bits by {where}: {count} of {x.size}"
    return ""


# --- itself ---


def _from_itself(
    case: RandomGraph, ranged: RandomGraph, ranges: Ranges, made: Executable, keep: Keep
) -> str:
    """The bits of each number of threads, of each sample alone, and of each target."""
    wanted, before = made(_inputs(case)), get_num_threads()
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            wrong = _unequal(wanted, _executable(ranged, keep)(_inputs(case)), f"{threads} threads")
            if wrong:
                return wrong
    finally:
        set_num_threads(before)
    return _samples_apart(case, ranged, wanted, keep) or _on_targets(case, ranged, wanted, keep)


def _samples_apart(
    case: RandomGraph, ranged: RandomGraph, wanted: list[np.ndarray], keep: Keep
) -> str:
    """Each sample alone, where all operators keep samples apart."""
    count = len(case.arrays[case.inputs[0]])
    if not _keeps_samples(ranged, count):
        return ""
    for at in range(count):
        alone = {n: np.ascontiguousarray(case.arrays[n][at : at + 1]) for n in case.inputs}
        sample = replace(ranged, arrays={**case.arrays, **alone})
        found = _executable(sample, keep)(_inputs(sample))
        wrong = _unequal([x[at : at + 1] for x in wanted], found, f"sample {at} of {count} alone")
        if wrong:
            return wrong
    return ""


def _keeps_samples(case: RandomGraph, count: int) -> bool:
    """Whether outputs for one sample have a first axis of 1, and are those of the definition."""
    if count < 2 or any(case.arrays[name].shape[:1] != (count,) for name in case.inputs):
        return False
    both = []
    for size in (count, 1):
        given = {n: a[:size] if n in case.inputs else a for n, a in case.arrays.items()}
        try:
            both.append(run_reference(case.outputs, given))
        except Exception:
            return False
    return all(
        x.ndim and x.shape[0] == count and y.shape == (1, *x.shape[1:]) and np.allclose(x[:1], y)
        for x, y in zip(*both)
    )


def _on_targets(
    case: RandomGraph, ranged: RandomGraph, wanted: list[np.ndarray], keep: Keep
) -> str:
    """Other targets, if all operators are exact."""
    for target in OF_BYTES[1:]:
        with override(target=target):
            made = _executable(ranged, keep)
        if not all(map(_is_exact, _one(made).plan.graph.values)):
            return ""
        wrong = _unequal(wanted, made(_inputs(case)), f"target {target}")
        if wrong:
            return wrong
    return ""


# --- the definition ---


def _from_definition(
    case: RandomGraph, ranged: RandomGraph, ranges: Ranges, made: Executable, keep: Keep
) -> str:
    """The compiled graph in double precision gives the values of the definition."""
    wide = {name: array.astype(np.float64) for name, array in case.arrays.items()}
    own, _ = _of_plan(_one_of_all(case, ranged).plan.graph, wide)
    graph, held = _definition(case, ranges)
    right, nearest = _evaluated(graph, {v: held[v.name].astype(np.float64) for v in graph.inputs})
    has_norm = any(n.op and n.op.name == "BatchNorm" for n in topological(case.outputs))
    if nearest < (AFTER_NORM if has_norm else NEAR_TIE):
        return ""
    for number, (use, mine) in enumerate(zip(graph.outputs, own)):
        allowed = (1e-4 if has_norm else 1e-7) * max(largest_of(right[use]), 1e-3)
        worst = largest_of(right[use] - mine)
        if not worst <= allowed:
            return f"output {number} is {worst:.3g} from its definition, allowed is {allowed:.3g}"
    return ""


def _one_of_all(case: RandomGraph, ranged: RandomGraph) -> Any:
    """The executable of the whole batch."""
    with override(skip=("by-sample",)):
        return compiled(ranged.outputs, case.arrays, case.params, options=EIGHT_BITS)


def _definition(case: RandomGraph, ranges: Ranges) -> tuple[Graph, Arrays]:
    """Layers on dequantized values, and the arrays of the graph's variables."""
    fixed = {name: case.arrays[name] for name in case.params}
    heads, held = quantized(tuple(case.outputs), fixed, ranges)
    used = {node.name for node in topological(heads) if node.is_variable}
    arrays = {n: a for n, a in {**case.arrays, **held}.items() if n in used}
    types = {name: type_of(array) for name, array in arrays.items()}
    return from_symbol(heads, types, infer_node_types(heads, types)), arrays


def _of_plan(graph: Graph, arrays: Arrays) -> tuple[list[np.ndarray], float]:
    """The outputs of a compiled graph in double precision, with those of its bind graph."""
    assert graph.bind is not None
    bind = graph.bind
    fixed, _ = _evaluated(bind, {v: arrays[v.name] for v in bind.params})
    given = {v: arrays[v.name] for v in graph.inputs}
    given |= {v: fixed[use] for v, use in zip(graph.params, bind.outputs)}
    results, nearest = _evaluated(graph, given)
    return [results[use] for use in graph.outputs], nearest


def _evaluated(
    graph: Graph, given: Mapping[Value, np.ndarray]
) -> tuple[dict[Any, np.ndarray], float]:
    """All values in double precision, and how near a level is to a tie."""
    nearest = [1.0]

    def run(value: Value, operands: list[np.ndarray]) -> list[np.ndarray]:
        name = value.op.name if value.op else ""
        if name == "_to_bytes":
            nearest.append(_distance_from_ties(operands[0] / value.attrs["scale"]))
        exact = _IN_DOUBLE.get(name)
        return [exact(*operands, value.attrs)] if exact else run_value(value, operands)

    results = run_in_order(graph.values, {(v, 0): a for v, a in given.items()}, run)
    return results, min(nearest)


def _distance_from_ties(levels: np.ndarray) -> float:
    inside = levels[(levels > -129) & (levels < 256)]
    return float(np.abs(inside - np.floor(inside) - 0.5).min(initial=1.0))


def _cast(x: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    return x.astype(np.float64 if attrs["dtype"].kind == "f" else attrs["dtype"])


def _weight(data: np.ndarray, scale: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    shape = tuple(-1 if i == attrs["axis"] else 1 for i in range(data.ndim))
    return data.astype(np.float64) * scale.reshape(shape)


def _filter_scale(weight: np.ndarray, attrs: object) -> np.ndarray:
    """The scales of filters in single precision, as in the definition."""
    return lookup("_filter_scale").ref(weight.astype(np.float32)).astype(np.float64)


def _filter_bytes(weight: np.ndarray, scale: np.ndarray, attrs: object) -> np.ndarray:
    return lookup("_filter_bytes").ref(weight.astype(np.float32), scale.astype(np.float32))


# Operators whose references compute in float32.
_IN_DOUBLE: dict[str, Callable[..., np.ndarray]] = {
    "Cast": _cast,
    "_from_bytes": lambda x, attrs: (x.astype(np.float64) - attrs["zero"]) * attrs["scale"],
    "_weight_from_bytes": _weight,
    "_filter_scale": _filter_scale,
    "_filter_bytes": _filter_bytes,
}


# --- the network without quantization ---


def _from_float32(
    case: RandomGraph, ranged: RandomGraph, ranges: Ranges, made: Executable, keep: Keep
) -> str:
    """No output is further from its exact value than noise of some levels takes it."""
    graph, held = _definition(case, ranges)
    wide = {name: array.astype(np.float64) for name, array in case.arrays.items()}
    exact = run_reference(in_float64(case.outputs), wide)
    noisy = [
        _with_noise(graph, held, np.random.default_rng((case.seed, draw))) for draw in range(DRAWS)
    ]
    for number, (found, right) in enumerate(zip(made(_inputs(case)), exact)):
        lost = max(largest_of(outputs[number] - right) for outputs in noisy)
        worst, allowed = largest_of(found - right), lost + 1e-5 * (1 + largest_of(right))
        if not worst <= allowed:
            return f"output {number} is {worst:.3g} from float32, allowed is {allowed:.3g}"
    return ""


def _with_noise(graph: Graph, held: Arrays, random: np.random.Generator) -> list[np.ndarray]:
    """The outputs if each quantized value and weight is off by up to :data:`NOISE` levels."""

    def noise(x: np.ndarray) -> np.ndarray:
        return x + random.uniform(-NOISE, NOISE, x.shape)

    def run(value: Value, operands: list[np.ndarray]) -> list[np.ndarray]:
        name = value.op.name if value.op else ""
        if name == "_to_bytes":
            return [noise(operands[0] / value.attrs["scale"])]
        if name == "_weight_from_bytes":
            return [_weight(noise(operands[0].astype(np.float64)), operands[1], value.attrs)]
        exact = _IN_DOUBLE.get(name)
        return [exact(*operands, value.attrs)] if exact else run_value(value, operands)

    given = {(v, 0): held[v.name].astype(np.float64) for v in graph.inputs}
    results = run_in_order(graph.values, given, run)
    return [results[use] for use in graph.outputs]
