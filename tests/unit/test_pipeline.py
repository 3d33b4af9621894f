"""The pipeline: facts that order it, the verifiers, dumps and reports, and leaving passes out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiling import assert_near, call, compiled, plan_of, run_compiled, run_reference, var
from fuzz_cases import difference
from hybridjit._core.config import override
from hybridjit._core.types import FLOAT32, UNKNOWN, TensorType, type_of
from hybridjit.compilation import compile_graph
from hybridjit.compiler import CHOICES, PIPELINE, STAGES, Checked, Pass, new_log, run_pass
from hybridjit.errors import InternalError, ShapeError
from hybridjit.ir import verify as verifier
from hybridjit.ir.graph import Graph, Use, Value, from_symbol, make
from hybridjit.ir.mode import Purpose
from hybridjit.ir.node import Output
from hybridjit.ir.plan import Plan
from hybridjit.ops import lookup
from hybridjit.passes.infer import infer_node_types
from hybridjit.passes.plan import verify_plan as plan_verifier
from hybridjit.passes.plan.fuse import fuse
from hybridjit.passes.rewrite.hoist import hoist
from random_graphs import random_graph
from recorded import NETWORKS, arrays_of, as_list, block_of

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
ALL_FACTS = frozenset({"typed", "hoisted", "grouped"})

# --- the order of the passes ---


def test_each_pass_has_its_requirements_met():
    facts = {"typed"}
    for row in PIPELINE:
        assert row.needs in facts, f"{row.name} needs {row.needs}, which no pass before it gives"
        if row.gives:
            assert row.gives not in facts, f"{row.gives} is given twice"
            facts.add(row.gives)
    assert {"typed", "hoisted", "grouped"} <= facts


def test_passes_have_names_and_descriptions():
    names = [row.name for row in PIPELINE]
    assert len(set(names)) == len(names) and set(names) <= set(STAGES)
    assert all(row.description and row.description[-1] != "." for row in PIPELINE)


# --- the verifier of graphs ---


def graph_of(outputs: Sequence[Output], **arrays: np.ndarray) -> Graph:
    """A typed graph; ``x`` is its input, all else parameters."""
    types = {n: type_of(a) for n, a in arrays.items()}
    return from_symbol(outputs, {"x": types["x"]}, infer_node_types(outputs, types))


def small() -> Graph:
    """relu(x) + w, then its sum."""
    y = call("elemwise_add", call("relu", var("x")), var("w"))
    return graph_of([call("sum", y, axis=(1,))], x=X, w=X)


def grouped() -> Graph:
    return fuse(hoist(small()))


def value_of(graph: Graph, op: str) -> Value:
    return next(v for v in graph.values if v.op is lookup(op))


def with_value(graph: Graph, op: str, **changes: object) -> Graph:
    """The graph with one value changed, and whatever reads it built on the changed one."""
    old = value_of(graph, op)
    new: dict[Value, Value] = {old: replace(old, **changes)}
    for value in graph.values:
        if value is not old and any(use.value in new for use in value.inputs):
            inputs = tuple(Use(new.get(u.value, u.value), u.index) for u in value.inputs)
            new[value] = replace(value, inputs=inputs)
    return replace(graph, outputs=tuple(Use(new.get(u.value, u.value)) for u in graph.outputs))


def turned_round(graph: Graph) -> Graph:
    """Users before their operands."""
    other = replace(graph)
    other.__dict__["values"] = tuple(reversed(graph.values))
    return other


def with_groups(change: Callable[[tuple], tuple]) -> Graph:
    graph = grouped()
    return replace(graph, groups=change(graph.groups))


WRONG_TYPE = (TensorType((9, 9), FLOAT32),)
PLANTED: dict[str, tuple[str, Callable[[], Graph]]] = {
    "used before it is defined": ("A1", lambda: turned_round(small())),
    "a name twice": ("A2", lambda: with_value(small(), "relu", name="w")),
    "a parameter that is not listed": ("A3", lambda: replace(small(), params=())),
    "an output that does not exist": (
        "A4",
        lambda: replace(small(), outputs=(Use(value_of(small(), "sum"), 1),)),
    ),
    "too few inputs": ("A5", lambda: with_value(small(), "elemwise_add", inputs=())),
    "an unknown type": ("T1", lambda: with_value(small(), "relu", types=(UNKNOWN,))),
    "a type that is not the rule's": (
        "T2 the rule gives f32",
        lambda: with_value(small(), "sum", types=WRONG_TYPE),
    ),
    "inputs that the rule refuses": (
        "T2 the rule refuses",
        lambda: with_value(small(), "relu", types=WRONG_TYPE),
    ),
    "fixed, but not hoisted": (
        "H1",
        lambda: graph_of([call("elemwise_add", var("x"), call("exp", var("w")))], x=X, w=X),
    ),
    "in two groups": ("G1 in groups", lambda: with_groups(lambda g: (*g, g[0]))),
    "in no group": ("G1 in no group", lambda: with_groups(lambda g: g[:-1])),
    "read too early": ("G2", lambda: with_groups(lambda g: g[::-1])),
    "read outside, but not given": (
        "G3",
        lambda: with_groups(lambda g: (replace(g[0], outputs=()), *g[1:])),
    ),
}


def test_a_sound_graph_passes():
    verifier.verify(small(), frozenset({"typed"}), "infer")
    verifier.verify(grouped(), ALL_FACTS, "fuse")


@pytest.mark.parametrize("what", PLANTED)
def test_verifier_finds(what: str):
    code, plant = PLANTED[what]
    with pytest.raises(InternalError) as caught:
        verifier.verify(plant(), ALL_FACTS, "the planted pass")
    message = str(caught.value)
    assert message.startswith("bug in hybridjit: the graph is invalid after the planted pass")
    assert code in message
    assert "<-- " in message or code == "A4"


@pytest.mark.parametrize("changes", [{"types": WRONG_TYPE}, {"attrs": {"keepdims": True}}], ids=str)
def test_verified_values_do_not_exempt_changed_copies(changes: dict[str, Any]):
    """A copy that says the same of the same types is right; any other is looked at."""
    graph, verified = small(), verifier.Verified()
    verifier.verify(graph, frozenset({"typed"}), "infer", verified)
    verifier.verify(with_value(graph, "relu", name="other"), frozenset({"typed"}), "x", verified)
    attrs = {**value_of(graph, "sum").attrs, **changes.get("attrs", {})}
    planted = with_value(graph, "sum", **{**changes, "attrs": attrs})
    with pytest.raises(InternalError, match="T2"):
        verifier.verify(planted, frozenset({"typed"}), "the planted pass", verified)


def test_every_listed_invariant_is_planted():
    for module, planted in ((verifier, PLANTED), (plan_verifier, PLANTED_PLANS)):
        listed = set(re.findall(r"^ *([A-Z]\d)  ", module.__doc__, re.MULTILINE))
        assert listed == {code.split()[0] for code, _ in planted.values()}


def test_a_pass_that_breaks_a_graph_is_named():
    def breaks(graph: Graph, fired: list[str]) -> Graph:
        return with_value(graph, "relu", types=WRONG_TYPE)

    row = Pass("broken", breaks, "a planted mistake")
    with pytest.raises(InternalError, match="invalid after broken"):
        run_pass(row, small(), Checked(), new_log())
    with override(verify=False):
        run_pass(row, small(), Checked(), new_log())


# --- the verifier of plans ---


def chain() -> Plan:
    """Three steps, two intermediates."""
    y = call("softmax", call("log_softmax", call("softmax", var("x"))))
    return plan_of([y], {"x": X})


def with_buffer(plan: Plan, **changes: object) -> Plan:
    """The plan with its first arena buffer changed."""
    first = next(b for b in plan.buffers if b.kind == "arena")
    buffers = tuple(replace(b, **changes) if b is first else b for b in plan.buffers)
    return replace(plan, buffers=buffers)


def with_step(plan: Plan, number: int, **changes: object) -> Plan:
    steps = tuple(replace(s, **changes) if s.number == number else s for s in plan.steps)
    return replace(plan, steps=steps)


def moved(plan: Plan, number: int, by: int) -> Plan:
    view = plan.steps[number].reads[0]
    return with_step(plan, number, reads=(replace(view, offset=view.offset + by),))


def updating() -> Plan:
    """The softmax updates the input, by a copy after the product that reads the input."""
    x = var("x")
    new = call("softmax", call("exp", x))
    outputs = [call("dot", new, x, transpose_b=True), new]
    return plan_of(outputs, {"x": X}, purpose=Purpose(updates=((1, "x"),)))


def writing_its_input() -> Plan:
    plan = plan_of([call("exp", var("y")), var("x")], {"x": X, "y": X})
    return with_step(plan, 1, writes=plan.steps[1].reads)


def updated_early() -> Plan:
    plan = updating()
    *before, product, copy = plan.steps
    late = (replace(copy, number=product.number), replace(product, number=copy.number))
    return replace(plan, steps=(*before, *late))


def product_in_place() -> Plan:
    """The product would write in place of the copy, over an operand that it reads repeatedly."""
    plan = updating()
    return with_step(plan, 2, writes=plan.steps[-1].writes)


PLANTED_PLANS: dict[str, tuple[str, Callable[[], Plan]]] = {
    "two in one place": (
        "P1",
        lambda: replace(chain(), buffers=tuple(replace(b, offset=0) for b in chain().buffers)),
    ),
    "not aligned": ("P2", lambda: with_buffer(chain(), offset=4)),
    "beyond the arena": ("P2", lambda: with_buffer(chain(), offset=chain().arena_bytes)),
    "beyond the buffer": ("P3 step 1 reaches elements 1..12 of 12", lambda: moved(chain(), 1, 1)),
    "before the buffer": ("P3", lambda: moved(chain(), 2, -1)),
    "read before written": ("P4", lambda: replace(chain(), steps=chain().steps[1:])),
    "an input that is not updated": ("P5 step 1 writes input 0", writing_its_input),
    "an update left out": (
        "P5 nothing writes output 1 to input 0",
        lambda: replace(updating(), steps=updating().steps[:-1]),
    ),
    "an update too early": ("P6 step 3 does not find the old value of input 0", updated_early),
    "a product in its operand's place": ("P6 step 2 writes over what it reads", product_in_place),
    "an output elsewhere": (
        "P7 output 0 lies in input 0, not whole in output 0",
        lambda: replace(updating(), outputs=updating().outputs[1:] * 2),
    ),
}


def test_a_sound_plan_passes():
    plan_verifier.verify_plan(chain())
    plan_verifier.verify_plan(updating())


@pytest.mark.parametrize("what", PLANTED_PLANS)
def test_plan_verifier_finds(what: str):
    code, plant = PLANTED_PLANS[what]
    with pytest.raises(InternalError) as caught:
        plan_verifier.verify_plan(plant())
    assert code in str(caught.value)
    assert str(caught.value).startswith("bug in hybridjit: the memory plan is invalid\nplan graph")


# --- dumps and reports ---


def simple() -> tuple[list[Output], dict[str, TensorType]]:
    return [call("relu", call("Flatten", var("x")))], {"x": TensorType((2, 3, 4), FLOAT32)}


def test_stages_reach_the_sink_in_order():
    seen: list[tuple[int, str]] = []
    outputs, inputs = simple()
    log = new_log(("all",), lambda number, stage, text: seen.append((number, stage)))
    compile_graph(outputs, inputs, {}, log=log)
    assert seen == list(enumerate(STAGES))


def test_only_wanted_stages_are_dumped():
    seen: dict[str, str] = {}
    outputs, inputs = simple()
    log = new_log(("plan", "asm"), lambda number, stage, text: seen.__setitem__(stage, text))
    compile_graph(outputs, inputs, {}, log=log)
    assert list(seen) == ["plan", "asm"]
    assert seen["plan"].startswith("plan graph   1 steps") and "ret" in seen["asm"]


def test_dump_writes_numbered_files(tmp_path: Path):
    outputs, inputs = simple()
    with override(dump=("infer", "fuse"), dump_dir=str(tmp_path)):
        compile_graph(outputs, inputs, {}, name="two words")
        compile_graph(outputs, inputs, {}, log=new_log(("infer",)), name="again")
    folders = {folder.name.split("-")[1]: folder for folder in tmp_path.iterdir()}
    assert set(folders) == {"two_words", "again"}
    first = folders["two_words"]
    fuse_stage = STAGES.index("fuse")
    assert sorted(p.name for p in first.iterdir()) == ["01-infer.txt", f"{fuse_stage:02}-fuse.txt"]
    assert "graph two words (x: f32[2,3,4])" in (first / "01-infer.txt").read_text()


def test_dump_prints_without_a_folder(capsys):
    outputs, inputs = simple()
    compile_graph(outputs, inputs, {}, log=new_log(("trace",)))
    assert capsys.readouterr().err.startswith("==== trace\nsymbol graph\n  %0  x")


def test_an_unknown_stage_is_warned_of():
    with pytest.warns(UserWarning, match="no stage is called fues; known are trace, infer"):
        new_log(("fues",))


def test_timing_lists_every_pass(capsys):
    outputs, inputs = simple()
    with override(timing=True):
        compile_graph(outputs, inputs, {})
    text = capsys.readouterr().err
    times = {name: float(ms) for ms, name in re.findall(r"^ +([\d.]+) ms +(\S+)", text, re.M)}
    assert {row.name for row in PIPELINE} <= times.keys()
    assert times["total"] >= times["kernels"] > 0


def test_explain_reports_values_that_were_not_fused(capsys):
    y = call("broadcast_add", call("Pooling", var("x"), global_pool=True), var("x"))
    with override(explain=True):
        compile_graph([y], {"x": TensorType((1, 2, 3, 3), FLOAT32)}, {})
    assert "not fused: broadcast_add into pooling, because" in capsys.readouterr().err


# --- leaving passes out ---

SKIPPED = [*((choice,) for choice in CHOICES), CHOICES]


@pytest.mark.parametrize("names", SKIPPED, ids=",".join)
@pytest.mark.parametrize("net", ["net_resnet_v1", "net_mobilenet_v2", "net_se"])
def test_a_network_without_passes_gives_the_same_numbers(net: str, names: tuple[str, ...]):
    assert net in NETWORKS
    block = block_of(net)
    inputs, wanted = arrays_of(net)
    block.hybridize()
    with override(skip=names):
        assert_near(as_list(block(*inputs)), wanted, 1e-4)


@pytest.mark.parametrize("names", SKIPPED, ids=",".join)
def test_random_graphs_without_passes_agree(names: tuple[str, ...]):
    with override(skip=names):
        for seed in range(200, 205):
            assert not difference(random_graph(seed)), seed


def test_a_skipped_pass_is_left_out():
    outputs, _ = simple()
    arrays = {"x": np.ones((2, 3, 4), np.float32)}
    assert [s.kind for s in plan_of(outputs, arrays).steps] == ["pointwise"]
    with override(skip=("expand",)):
        assert [s.kind for s in plan_of(outputs, arrays).steps] == ["host", "pointwise"]


def test_two_dense_layers_read_one_flattened_image():
    rng = np.random.default_rng(2)
    shapes = {"x": (2, 3, 5, 4), "w": (6, 3, 3, 3), "a": (4, 36), "b": (7, 36)}
    arrays = {n: rng.standard_normal(s).astype("f4") for n, s in shapes.items()}
    image = call("Convolution", var("x"), var("w"), kernel=(3, 3), num_filter=6, no_bias=True)
    flat = call("Flatten", image)
    outputs = [
        call("FullyConnected", flat, var(n), name=n + n, num_hidden=shapes[n][0], no_bias=True)
        for n in "ab"
    ]
    found = run_compiled(outputs, arrays, ["w", "a", "b"])
    assert_near(found, run_reference(outputs, arrays))


def test_nothing_is_fused_and_no_place_is_shared_when_that_is_left_out():
    for seed in range(20, 26):
        case = random_graph(seed)
        with override(skip=("fuse", "plan")):
            plan = plan_of(case.outputs, case.arrays, case.params)
        assert all(len(group.members) == 1 for group in plan.graph.groups)
        places = sorted((b.offset, b.offset + b.nbytes) for b in plan.buffers if b.kind == "arena")
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
        writes = [view.buffer for step in plan.steps if step.kind != "copy" for view in step.writes]
        assert len(set(writes)) == len(writes)


def test_switches_that_change_code_make_another_signature():
    """A net that was compiled as usual compiles again when a pass is left out, and only then."""
    block = block_of("net_se")
    block.hybridize()
    inputs, _ = arrays_of("net_se")
    block(*inputs)
    cache = block._cached.graph.cache
    with override(explain=False, check=False):
        block(*inputs)
    assert cache.compiled == 1
    executable = compiled([call("relu", var("x"))], {"x": X})
    assert executable([X])[0].min() == 0


# --- graphs that cannot be compiled ---


def test_errors_of_inference_name_node_and_operands():
    outputs = [call("elemwise_add", var("x"), var("y"), name="plus0")]
    with pytest.raises(ShapeError) as caught:
        run_compiled(outputs, {"x": X, "y": X[:2]})
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("Error in operator elemwise_add 'plus0':")
    assert "(3,4)" in lines[0] and "(2,4)" in lines[0]
    assert [line.split() for line in lines[1:3]] == [
        ["lhs", "x", "f32[3,4]"],
        ["rhs", "y", "f32[2,4]"],
    ]


def test_a_value_that_a_pass_makes_gets_its_types_from_the_rule():
    x = Value(None, "x", {}, (), (type_of(X),))
    assert make(lookup("sum"), "s", [Use(x)], axis=(1,)).types == (TensorType((3,), FLOAT32),)


def test_the_same_outputs_compile_to_the_same_numbers_twice():
    case = random_graph(17)
    found = [run_compiled(case.outputs, case.arrays, case.params) for _ in range(2)]
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)
    assert_near(found[0], run_reference(case.outputs, case.arrays), 1e-4)
