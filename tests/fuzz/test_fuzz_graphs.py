"""Random graphs, compiled, against the references; and the tools that replay and bisect."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import hybridjit.compiler
from compiling import call, run_reference, var
from fuzz_cases import difference, expected, read, save
from fuzz_gradients import gradient_difference
from fuzz_int8 import int8_difference
from fuzz_sizes import size_difference
from hybridjit._core.config import override
from hybridjit.codegen.emit import compile_pool
from hybridjit.codegen.kinds.parts import quantize
from hybridjit.codegen.llvm.elements import with_element
from hybridjit.codegen.llvm.types import I32
from hybridjit.compiler import PIPELINE
from hybridjit.ir.graph import Use, make
from hybridjit.ir.node import Output, topological
from hybridjit.ir.rewrite import rewrite, rule
from hybridjit.ops import lookup
from hybridjit.ops.elementwise.unary import RELU
from hybridjit.passes.lower import integers
from hybridjit.passes.training import differentiate
from random_graphs import RandomGraph, random_graph
from random_int8 import random_int8
from wide_graphs import WideGenerator

SIGNED = 5  # a network in 8 bits with signed data
FAILURES = Path(tempfile.gettempdir()) / "hybridjit-fuzz"
TOOLS = Path(__file__).parent.parent.parent / "tools"


@pytest.mark.parametrize("seed, gradients", [(3, False), (12, False), (111, False), (7, True)])
def test_symbolic_sizes_have_the_bits_of_fixed_ones(seed: int, gradients: bool):
    assert not size_difference(random_graph(seed, with_steps=gradients), gradients, lambda _: None)


@pytest.mark.parametrize("first", range(0, 36, 4))
def test_random_graphs_agree(first: int):
    for seed in range(first, first + 4):
        case = random_graph(seed)
        try:
            wrong = difference(case)
        except Exception:
            print(f"python tools/fuzz_graphs.py --replay {save(case, FAILURES)}")
            raise
        assert not wrong, f"{wrong}\npython tools/fuzz_graphs.py --replay {save(case, FAILURES)}"


@pytest.mark.parametrize("seed", [0, 9, 27])
def test_gradients_of_random_graphs_agree(seed: int):
    """Seeds 9 and 27 compute gradients of integers, in double precision."""
    wrong = gradient_difference(random_graph(seed))
    assert not wrong, f"{wrong}\npython tools/fuzz_graphs.py --seed {seed} --count 1 --gradients"


@pytest.mark.parametrize("seed", range(4))
def test_networks_of_many_channels_agree(seed: int):
    wrong = gradient_difference(random_graph(seed, with_steps=True, kind=WideGenerator))
    command = f"python tools/fuzz_graphs.py --seed {seed} --count 1 --wide --gradients"
    assert not wrong, f"{wrong}\n{command}"


def test_a_planted_mistake_in_a_gradient_is_found(monkeypatch):
    def forgetful(reached, use, d, g):
        reached.setdefault(use, d)

    monkeypatch.setattr(differentiate, "_collect", forgetful)
    wrong = [gradient_difference(random_graph(seed)) for seed in (21,)]
    assert any("the tape's" in text or "slope" in text for text in wrong), wrong


@pytest.mark.parametrize("seed", [6, 18, 34])
def test_gradients_agree_where_paths_end(seed: int):
    wrong = gradient_difference(random_graph(seed, with_steps=True))
    assert not wrong, f"{wrong}\npython tools/fuzz_graphs.py --seed {seed} --count 1 --gradients"


def test_planted_mistakes_where_paths_end_are_found(monkeypatch):
    """Statistics that move though their layer is frozen; zero gradients that pass gradients on."""
    new_states = differentiate._new_states
    with monkeypatch.context() as planted:
        planted.setattr(
            differentiate,
            "_new_states",
            lambda graph, needed: new_states(graph, {Use(v) for v in graph.inputs}),
        )
        assert "the state" in gradient_difference(random_graph(18, with_steps=True))
    monkeypatch.setattr(differentiate, "needs_heads", lambda op, attrs, wanted: any(wanted))
    assert "the tape has gradients" in gradient_difference(random_graph(6, with_steps=True))


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_random_networks_agree_in_8_bits(first: int):
    for seed in range(first, first + 4):
        wrong = int8_difference(random_int8(seed), sizes=False)
        assert not wrong, f"{wrong}\npython tools/fuzz_graphs.py --seed {seed} --count 1 --int8"


@pytest.mark.parametrize("seed", [2, 5, 8])
def test_symbolic_sizes_have_the_bits_of_fixed_ones_in_8_bits(seed: int):
    assert not int8_difference(random_int8(seed), sizes=True)


def test_planted_mistakes_in_8_bits_are_found(monkeypatch):
    """A bias for another zero point; bytes that are rounded towards zero."""
    with_bias = integers._with_bias
    with monkeypatch.context() as planted:
        planted.setattr(
            integers, "_with_bias", lambda *given: with_bias(*given[:5], given[5] + 1, given[6])
        )
        wrong = int8_difference(random_int8(SIGNED), sizes=False)
        assert "from its definition" in wrong, wrong
    monkeypatch.setattr(quantize, "_rounded", lambda b, x: b.b.fptosi(x, with_element(x.type, I32)))
    monkeypatch.setattr(compile_pool, "can_start_workers", lambda: False)
    with override(cache_dir="off"):
        wrong = int8_difference(random_int8(SIGNED), sizes=False)
    assert "differ from its reference" in wrong, wrong


def test_a_seed_gives_one_graph(tmp_path):
    texts = [save(random_graph(5), tmp_path / name).read_text() for name in "ab"]
    assert texts[0] == texts[1]


def test_seeds_cover_operators_types_and_results():
    cases = [random_graph(seed, variant) for seed in range(150) for variant in (0, 2)]
    names = {n.op.name for case in cases for n in topological(case.outputs) if n.op}
    assert len(names) > 65
    assert {"Convolution", "Pooling", "FullyConnected", "batch_dot", "LayerNorm"} <= names
    types = [case.arrays[case.inputs[0]].dtype.name for case in cases]
    assert all(types.count(name) >= 5 for name in ("float32", "float64", "float16"))
    assert len({len(case.outputs) for case in cases}) > 5


def test_auxiliary_states_are_not_arguments():
    for seed in range(400):
        edges = [
            (edge, position in n.op.aux_positions(n.attrs))
            for n in topological(random_graph(seed).outputs)
            if n.op
            for position, edge in enumerate(n.inputs)
        ]
        states = {edge for edge, is_state in edges if is_state}
        assert states.isdisjoint(edge for edge, is_state in edges if not is_state), seed


def test_a_variant_has_other_results_of_the_same_nodes():
    one, other = random_graph(3), random_graph(3, 1)
    assert one.name == "seed-3" and other.name == "seed-3-1"
    assert [x.name for x in one.outputs] != [x.name for x in other.outputs]
    shared = one.arrays.keys() & other.arrays.keys()
    assert shared and all((one.arrays[n] == other.arrays[n]).all() for n in shared)
    assert {n.name for n in topological(other.outputs) if n.is_variable} == set(other.arrays)
    assert other.inputs and not difference(other)


def test_a_saved_case_is_the_same_case(tmp_path):
    case = random_graph(11)
    again = read(save(case, tmp_path))
    assert again.inputs == case.inputs and again.seed == 11
    assert again.arrays.keys() == case.arrays.keys()
    for name, array in case.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
    assert difference(again) == ""


# --- a planted mistake is found, saved and traced to its pass ---


def tool(name: str) -> ModuleType:
    """A program of the tools folder as a module."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@rule("relu(x)  =>  abs(x)    planted: wrong for negative x")
def relu_to_abs(value, match):
    if value.op is not RELU:
        return None
    return Use(make(lookup("abs"), value.name, value.inputs, value.source))


@pytest.fixture
def wrong_pass(monkeypatch):
    """The layout pass also turns relu into abs."""

    def with_mistake(row):
        def run(graph, fired):
            return rewrite(row.run(graph, fired), (relu_to_abs,), fired)

        return replace(row, run=run)

    rows = tuple(with_mistake(row) if row.name == "layout" else row for row in PIPELINE)
    monkeypatch.setattr(hybridjit.compiler, "PIPELINE", rows)


def seed_with_relu() -> int:
    """A small graph with an output that is relu of something negative."""
    for seed in range(300):
        case = random_graph(seed)
        if len(topological(case.outputs)) > 20:
            continue
        for output in case.outputs:
            if output.node.op.name == "relu":
                names = {n.name for n in topological([output]) if n.is_variable}
                arrays = {n: a for n, a in case.arrays.items() if n in names}
                if run_reference(output.node.inputs, arrays)[0].min() < 0:
                    return seed
    raise AssertionError("no such graph")


def test_a_planted_mistake_is_found_and_traced(wrong_pass, tmp_path, monkeypatch, capsys):
    seed = seed_with_relu()
    assert "differs by" in difference(random_graph(seed))
    fuzz, bisect = tool("fuzz_graphs"), tool("bisect_passes")
    monkeypatch.setattr(
        sys, "argv", ["", "--seed", str(seed), "--count", "1", "--folder", str(tmp_path)]
    )
    assert fuzz.main() == 1
    path = tmp_path / f"seed-{seed}.json"
    assert f"--replay {path}" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["", str(path)])
    assert bisect.main() == 1
    assert "guilty: layout" in capsys.readouterr().out


def test_replay_and_bisection_of_a_case_that_agrees(tmp_path, monkeypatch, capsys):
    path = save(random_graph(2), tmp_path)
    monkeypatch.setattr(sys, "argv", ["", "--replay", str(path)])
    assert tool("fuzz_graphs").main() == 0
    monkeypatch.setattr(sys, "argv", ["", str(path)])
    assert tool("bisect_passes").main() == 0
    assert "agrees" in capsys.readouterr().out


def case_of(outputs: list[Output], arrays: dict[str, np.ndarray]) -> RandomGraph:
    return RandomGraph(0, 0, outputs, arrays, [])


def test_a_float64_array_does_not_tighten_the_bound_of_float32_results():
    """The sum of terms that nearly cancel has float32's errors whatever else a graph computes."""
    x, wide = np.array([1, 1e-8, -1], np.float32), np.ones(2)
    sums = [call("_np_sum", var(name), name=f"sum_{name}") for name in ("x", "wide")]
    allowed = [each.allowed for each in expected(case_of(sums, {"x": x, "wide": wide}))]
    assert allowed[0] == expected(case_of(sums[:1], {"x": x}))[0].allowed > 1e-8
    assert allowed[1] < 1e-12
