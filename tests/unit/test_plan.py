"""The memory plan, run with tags for numbers, and measured.

Every element that an operator computes gets a unique tag. Operators that only move elements
move tags, by their references; steps of the plan move tags through simulated memory. A step that
reads another tag than the graph says reads a wrong or dead element, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from compiling import call, plan_of, var
from hybridjit._core.symbolic import Scope
from hybridjit._core.types import type_of
from hybridjit.ir.graph import Graph, Use, Value
from hybridjit.ir.mode import Purpose
from hybridjit.ir.node import Output
from hybridjit.ir.plan import Buffer, Plan, Step, View, contiguous_strides
from hybridjit.ops import run_ref
from hybridjit.passes.infer import infer_node_types
from hybridjit.passes.plan.offsets import assign_offsets
from hybridjit.passes.plan.plan_memory import reshaped_strides
from random_graphs import RandomGraph, random_graph
from recorded import CASES, NETWORKS, arrays_of, block_of

MOVEMENT = frozenset({"_reshape_to", "transpose", "slice", "broadcast_to", "Concat"})
UNWRITTEN = -1


class Tags:
    """The contents of every output of every value of a graph, as int64 tags."""

    def __init__(self, graph: Graph) -> None:
        self._next = 0
        self.of: dict[Use, np.ndarray] = {}
        for value in graph.values:
            for index, tags in enumerate(self._made_by(value)):
                self.of[Use(value, index)] = tags

    def _made_by(self, value: Value) -> list[np.ndarray]:
        if value.op is not None and value.op.name in MOVEMENT:
            return run_ref(value.op, [self.of[use] for use in value.inputs], value.attrs)
        return [self._fresh(t.dims) for t in value.types]

    def _fresh(self, shape: tuple[int, ...]) -> np.ndarray:
        count = int(np.prod(shape))
        self._next += count
        return np.arange(self._next - count, self._next).reshape(shape)


class Memory:
    """The memory of a plan; each element of the arena, whatever its buffer, exists once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._arena = np.full(plan.arena_bytes // 4 + 1, UNWRITTEN)
        self._others = {
            b.number: np.full(b.nbytes // 4, UNWRITTEN) for b in plan.buffers if b.kind != "arena"
        }

    def places(self, view: View) -> np.ndarray:
        """The index of each element of the view in its memory."""
        found = np.full(view.shape, view.offset)
        for axis, stride in enumerate(view.strides):
            along = [-1 if i == axis else 1 for i in range(len(view.shape))]
            found = found + (np.arange(view.shape[axis]) * stride).reshape(along)
        buffer = self.plan.buffers[view.buffer]
        return found + (buffer.offset // 4 if buffer.kind == "arena" else 0)

    def holder(self, view: View) -> np.ndarray:
        return self._others.get(view.buffer, self._arena)

    def read(self, view: View) -> np.ndarray:
        return self.holder(view)[self.places(view)]

    def write(self, view: View, tags: np.ndarray) -> None:
        self.holder(view)[self.places(view)] = tags


def simulate(plan: Plan) -> None:
    """Run the plan with tags. Raises AssertionError at the first wrong element."""
    graph, memory = plan.graph, Memory(plan)
    tags = Tags(graph)
    for buffer in plan.buffers:
        if buffer.kind in ("input", "weight"):
            value = (graph.inputs if buffer.kind == "input" else graph.params)[buffer.index]
            shape = value.type.dims
            view = View(buffer.number, 0, shape, contiguous_strides(shape), np.dtype(np.float32))
            memory.write(view, tags.of[Use(value)])
    for step in plan.steps:
        assert_apart(step, memory)
        for use, view in zip(reads_of(step), step.reads, strict=True):
            np.testing.assert_array_equal(
                memory.read(view), tags.of[use], f"step {step.number} reads {use.value.name}"
            )
        for use, view in zip(writes_of(step), step.writes, strict=True):
            memory.write(view, tags.of[use])
    for use, view in zip(graph.outputs, plan.outputs, strict=True):
        assert plan.buffers[view.buffer].kind in ("output", "saved", "input")
        assert view.is_contiguous
        np.testing.assert_array_equal(memory.read(view), tags.of[use])


def reads_of(step: Step) -> Sequence[Use]:
    if step.group.kind == "copy":
        return [copied(step)]
    return step.group.inputs


def writes_of(step: Step) -> Sequence[Use]:
    if step.group.kind == "copy":
        return [copied(step)]
    return step.group.results


def copied(step: Step) -> Use:
    """The operand of a copy: the output of this shape."""
    (value,) = step.group.members
    fitting = [i for i, t in enumerate(value.types) if t.dims == step.reads[0].shape]
    return Use(value, fitting[0])


def assert_apart(step: Step, memory: Memory) -> None:
    """A result may take the place of an operand of the pointwise part, element for element."""
    anchor = set(step.group.anchor.inputs) if step.kind != "pointwise" else set()
    for number, view in enumerate(step.writes):
        mine = memory.places(view)
        assert len(np.unique(mine)) == mine.size, "a result lies on itself"
        for other in step.writes[:number]:
            if memory.holder(other) is memory.holder(view):
                assert not np.intersect1d(mine, memory.places(other)).size
        for use, source in zip(reads_of(step), step.reads):
            if memory.holder(source) is not memory.holder(view):
                continue
            theirs = memory.places(source)
            if np.intersect1d(mine, theirs).size:
                assert use not in anchor, f"step {step.number} writes over what it still reads"
                np.testing.assert_array_equal(mine, theirs)


def purpose_for(plan: Plan, seed: int) -> Purpose:
    """Updates of some inputs by outputs of their type; some of the last outputs are saved."""
    random = np.random.default_rng(seed)
    outputs = plan.graph.outputs
    saved = int(random.integers(0, len(outputs) + 1)) if random.random() < 0.5 else 0
    free = list(random.permutation(len(outputs) - saved))
    updates = []
    for value in plan.graph.inputs:
        fitting = [i for i in free if outputs[i].type == value.type]
        if fitting:
            free.remove(fitting[0])
            updates.append((int(fitting[0]), value.name))
    return Purpose(updates=tuple(updates), saved=saved)


def with_inputs(case: RandomGraph, plan: Plan, seed: int) -> list[Output]:
    """The outputs, and some values of the graph that may update an input, in any order."""
    random = np.random.default_rng(seed)
    types = {t for value in plan.graph.inputs for t in value.types}
    nodes = infer_node_types(case.outputs, {n: type_of(a) for n, a in case.arrays.items()})
    more = [Output(node) for node, found in nodes.items() if found[0] in types]
    chosen = [more[i] for i in random.permutation(len(more))[:4]]
    outputs = [*case.outputs, *chosen]
    return [outputs[i] for i in random.permutation(len(outputs))]


def is_simulable(plan: Plan) -> bool:
    """Whether all elements are of four bytes."""
    return all(
        t.dtype is not None and t.dtype.itemsize == 4 for v in plan.graph.values for t in v.types
    )


def plan_of_block(name: str) -> Plan:
    """The plan of a recorded graph for its recorded inputs."""
    block = block_of(name)
    block.hybridize()
    inputs, _ = arrays_of(name)
    traced = block._traced(inputs)
    arrays = dict(zip(traced.input_names, (x.asnumpy() for x in inputs)))
    read = set(traced.symbol.list_inputs())
    params = {n: p.data().asnumpy() for n, p in block.collect_params().items() if n in read}
    return plan_of(traced.outputs, {**arrays, **params}, list(params))


# --- plans of many graphs, run with tags ---


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_graphs(first: int):
    simulated = 0
    for seed in range(first, first + 20):
        case = random_graph(seed)
        plan = plan_of(case.outputs, case.arrays, case.params)
        if is_simulable(plan):
            simulate(plan)
            simulated += 1
    assert simulated >= 3, "too few of these graphs only move elements: 4 to 11 did"


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_random_graphs_that_update_their_inputs(first: int):
    ways = set()
    for seed in range(first, first + 100):
        case = random_graph(seed)
        outputs = with_inputs(case, plan_of(case.outputs, case.arrays), seed)
        purpose = purpose_for(plan_of(outputs, case.arrays), seed)
        plan = plan_of(outputs, case.arrays, purpose=purpose)
        if is_simulable(plan):
            simulate(plan)
            ways |= {step.kind == "copy" for step in updating(plan)}
    assert ways == {True, False}


def updating(plan: Plan) -> list[Step]:
    """The steps that write to an input."""
    return [s for s in plan.steps if any(plan.buffers[v.buffer].kind == "input" for v in s.writes)]


@pytest.mark.parametrize("name", CASES)
def test_recorded_graphs(name: str):
    plan = plan_of_block(name)
    if is_simulable(plan):
        simulate(plan)


def test_most_recorded_graphs_are_simulable():
    assert sum(is_simulable(plan_of_block(name)) for name in NETWORKS) >= len(NETWORKS) - 1


# --- the simulation finds planted mistakes ---


def two_branches() -> Plan:
    x = np.zeros((4, 6), np.float32)
    total = call("elemwise_add", call("softmax", var("x")), call("log_softmax", var("x")))
    return plan_of([call("softmax", total)], {"x": x})


def with_view(plan: Plan, step: int, **changes: object) -> Plan:
    """The plan with the first operand of a step seen otherwise."""
    old = plan.steps[step]
    reads = (replace(old.reads[0], **changes), *old.reads[1:])
    steps = tuple(replace(s, reads=reads) if s is old else s for s in plan.steps)
    return replace(plan, steps=steps)


def test_simulation_finds_mistakes():
    plan = two_branches()
    simulate(plan)
    in_one_place = replace(plan, buffers=tuple(replace(b, offset=0) for b in plan.buffers))
    for wrong in (in_one_place, with_view(plan, 3, strides=(1, 4)), with_view(plan, 2, offset=1)):
        with pytest.raises((AssertionError, IndexError)):
            simulate(wrong)


def test_simulation_finds_a_result_over_an_operand_that_is_still_read():
    plan = two_branches()
    first = plan.steps[0]
    onto_input = replace(first, writes=(replace(first.writes[0], buffer=first.reads[0].buffer),))
    with pytest.raises(AssertionError, match="writes over what it still reads"):
        simulate(replace(plan, steps=(onto_input, *plan.steps[1:])))


# --- how much memory ---


def largest_live_set(plan: Plan) -> int:
    """Bytes that hold something at one step, at most; lives as the steps show them."""
    touched: dict[int, list[int]] = {}
    for step in plan.steps:
        for view in (*step.reads, *step.writes):
            if plan.buffers[view.buffer].kind == "arena":
                touched.setdefault(view.buffer, []).append(step.number)
    sizes = {n: -(-plan.buffers[n].nbytes // 64) * 64 for n in touched}
    at_step = (
        sum(sizes[n] for n, steps in touched.items() if steps[0] <= step.number <= steps[-1])
        for step in plan.steps
    )
    return max(at_step, default=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_arena_is_near_the_largest_live_set(name: str):
    plan = plan_of_block(name)
    assert largest_live_set(plan) <= plan.arena_bytes <= 1.1 * largest_live_set(plan)
    assert plan.live_bytes <= plan.arena_bytes


@pytest.mark.parametrize("seed", range(20))
def test_offsets_of_random_lives(seed: int):
    """Many buffers with random lives: apart while they live, and not far above the least."""
    random = np.random.default_rng(seed)
    buffers = []
    for number in range(60):
        first = int(random.integers(0, 50))
        last = first + int(random.integers(0, 12))
        nbytes = int(random.integers(1, 4000))
        buffers.append(Buffer(number, "arena", 0, nbytes, 0, first, last))
    laid, arena = assign_offsets(buffers)
    for i, a in enumerate(laid):
        assert a.offset % 64 == 0 and a.offset + a.nbytes <= arena
        for b in laid[i + 1 :]:
            if a.first <= b.last and b.first <= a.last:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
    live = max(sum(b.nbytes for b in buffers if b.first <= s <= b.last) for s in range(62))
    assert live <= arena <= 1.6 * live


# --- views ---


def kinds(plan: Plan) -> list[str]:
    return [step.kind for step in plan.steps]


def in_region(outputs: Callable[[Output], list[Output]], **shapes: tuple[int, ...]) -> Plan:
    """The plan of ``outputs`` of a pooled image, which has channels last, for these weights."""
    arrays = {"x": np.zeros((2, 8, 6, 6), np.float32)}
    arrays |= {n: np.zeros(s, np.float32) for n, s in shapes.items()}
    x = call("Pooling", var("x"), kernel=(1, 1), name="first")
    plan = plan_of(outputs(x), arrays, list(shapes))
    simulate(plan)
    return plan


def conv(x: Output, weight: str, filters: int) -> Output:
    return call("Convolution", x, var(weight), no_bias=True, kernel=(3, 3), pad=(1, 1),
                num_filter=filters, name=f"conv_{weight}")  # fmt: skip


def pooled(x: Output) -> Output:
    return call("Pooling", x, global_pool=True, pool_type="avg", name="last")


def test_a_dense_block_copies_nothing():
    """Every layer's result is written straight into its slice of the final concatenation."""

    def block(x: Output) -> list[Output]:
        for number in range(3):
            y = conv(call("relu", x), f"w{number}", 4)
            x = call("Concat", x, y, dim=1, num_args=2, name=f"join{number}")
        return [pooled(x)]

    shapes = {f"w{i}": (4, 8 + 4 * i, 3, 3) for i in range(3)}
    plan = in_region(block, **shapes)
    written = [s for s in plan.steps if s.kind == "conv"]
    assert len(written) == 3 and len({s.writes[0].buffer for s in written}) == 1
    assert "copy" not in kinds(plan)[1:-1]  # but for the input's and the output's order of axes


def test_a_concatenated_input_is_copied():
    """Variables cannot be written in place."""
    x = np.zeros((2, 3), np.float32)
    plan = plan_of([call("Concat", var("x"), var("y"), dim=1, num_args=2)], {"x": x, "y": x})
    simulate(plan)
    assert kinds(plan) == ["copy", "copy"]


def test_an_operand_concatenated_twice_is_copied_per_position():
    y = call("softmax", var("x"))
    plan = plan_of([call("Concat", y, y, dim=0, num_args=2)], {"x": np.zeros((2, 3), np.float32)})
    simulate(plan)
    assert kinds(plan).count("copy") == 2


def test_a_residual_sum_reuses_the_buffer_of_its_dead_operand():
    """conv(relu(x)) + x: the sum is written where x was."""

    def block(x: Output) -> list[Output]:
        y = conv(call("sigmoid", x), "w", 8)
        return [pooled(call("relu", call("elemwise_add", y, x)))]

    plan = in_region(block, w=(8, 8, 3, 3))
    step = next(s for s in plan.steps if s.kind == "conv")
    assert step.writes[0].buffer == step.reads[-1].buffer


def test_a_residual_that_is_read_again_stays():
    def block(x: Output) -> list[Output]:
        y = call("elemwise_add", conv(call("sigmoid", x), "w", 8), x, name="plus")
        return [pooled(call("elemwise_mul", conv(y, "v", 8), x, name="times"))]

    plan = in_region(block, w=(8, 8, 3, 3), v=(8, 8, 3, 3))
    first = next(s for s in plan.steps if s.kind == "conv")
    assert first.writes[0].buffer not in {v.buffer for v in first.reads}


def test_views_are_strides():
    turned = call("transpose", call("softmax", var("x")), axes=(1, 0))
    cut = call("slice", turned, begin=(1, 0), end=(4, 2), step=(2, 1))
    plan = plan_of([call("relu", cut)], {"x": np.zeros((2, 5), np.float32)})
    simulate(plan)
    assert kinds(plan) == ["softmax", "pointwise"]
    view = plan.steps[1].reads[0]
    assert (view.offset, view.shape, view.strides) == (1, (2, 2), (2, 5))


def test_an_output_is_written_by_its_producer():
    y = call("relu", call("softmax", var("x")))
    plan = plan_of([y], {"x": np.zeros((2, 5), np.float32)})
    assert kinds(plan) == ["softmax", "pointwise"]
    assert plan.buffers[plan.steps[-1].writes[0].buffer].kind == "output"


def test_an_output_is_written_through_reshapes():
    y = call("softmax", var("x"))
    flat = call("Reshape", y, shape=(-1,))
    plan = plan_of([flat, y], {"x": np.zeros((2, 5), np.float32)})
    simulate(plan)
    assert kinds(plan) == ["softmax", "copy"]
    assert [plan.buffers[view.buffer].index for view in plan.outputs] == [0, 1]


def test_an_output_twice_and_an_input_as_output_are_copied():
    y = call("relu", var("x"))
    plan = plan_of([y, y, var("x")], {"x": np.zeros((2, 5), np.float32)})
    simulate(plan)
    assert kinds(plan) == ["pointwise", "copy", "copy"]
    assert len({view.buffer for view in plan.outputs}) == 3


# --- reshaping without moving ---


@pytest.mark.parametrize("seed", range(40))
def test_strides_of_a_reshaped_view_are_numpys(seed: int):
    """Where strides are found, they are right; where NumPy needs no copy, they are found."""
    random = np.random.default_rng(seed)
    sizes = [int(n) for n in random.choice([1, 2, 3, 4, 6], 4)]
    array = np.arange(int(np.prod(sizes))).reshape(sizes)
    array = array.transpose(random.permutation(4))[:, :: int(random.choice([1, 1, 2]))]
    factors = _factors(array.size)
    random.shuffle(factors)
    parts = np.split(np.array(factors), np.sort(random.integers(0, len(factors) + 1, 2)))
    target = tuple(int(np.prod(p)) for p in parts)
    strides = tuple(s // array.itemsize for s in array.strides)
    found = reshaped_strides(array.shape, strides, target)
    wanted = array.reshape(target)
    if found is None:
        assert not np.shares_memory(wanted, array)
    else:
        view = np.lib.stride_tricks.as_strided(array, target, [s * array.itemsize for s in found])
        np.testing.assert_array_equal(view, wanted)


@pytest.mark.parametrize("hint, is_split", [(8, True), (7, False)])
def test_whether_symbolic_axes_can_be_split_is_a_guard(hint: int, is_split: bool):
    """Two parts of ``s`` rows of 3 elements, which do not follow each other, as rows of 6."""
    scope = Scope()
    rows = scope.symbol("s0", hint)
    found = reshaped_strides((2, rows, 3), (6 * rows, 3, 1), (2, rows // 2, 6))
    assert found == ((6 * rows, 6, 1) if is_split else None)
    other = {"s0": 2 * hint + 1 + hint % 2}
    assert not all(guard.is_satisfied(other) for guard in scope.guards.values())


def _factors(number: int) -> list[int]:
    factors, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors
