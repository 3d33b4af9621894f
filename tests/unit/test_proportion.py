"""Operations on a graph take time in proportion to its size, for any form."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from hybridjit import sym
from hybridjit._core.types import FLOAT32, TensorType
from hybridjit.compiler import (
    differentiate_graph,
    new_log,
    plan_graph,
    plan_typed,
    typed_graph,
)
from hybridjit.ir.mode import Purpose
from hybridjit.passes.training.partition import partition

TIMES = 8  # as large is the second graph
MOST = 2 * TIMES  # as much may it take: the square would be 4 times that
GROUND = 2000  # calls that are not worth asking for


def graph(nodes: list[dict], heads: list[tuple[int, int]]) -> sym.Symbol:
    whole = {"nodes": nodes, "arg_nodes": [], "heads": heads}
    return sym.load_json(json.dumps({**whole, "attrs": {"mxnet_version": ["int", 10901]}}))


def node(op: str, name: str, *inputs: tuple[int, int], **attrs: object) -> dict:
    texts = {key: str(value) for key, value in attrs.items()}
    return {"op": op, "name": name, "attrs": texts, "inputs": [list(i) for i in inputs]}


DATA = node("null", "data")


def chain(count: int) -> sym.Symbol:
    """Kernels that are not fused, one after the other."""
    ops = ("relu", "softmax")
    nodes = [node(ops[i % 2], f"n{i}", (i, 0)) for i in range(count)]
    return graph([DATA, *nodes], [(count, 0)])


def star(count: int) -> sym.Symbol:
    """One value that many read."""
    nodes = [node("softmax", f"n{i}", (0, 0)) for i in range(count)]
    return graph([DATA, *nodes], [(i + 1, 0) for i in range(count)])


def pieces(count: int) -> sym.Symbol:
    """One node of many outputs."""
    split = node("_split_v2", "split", (0, 0), sections=count, axis=0, indices="()")
    return graph([DATA, split], [(1, i) for i in range(count)])


def joined(count: int) -> sym.Symbol:
    """Many outputs, a kernel on each, and one node of many inputs."""
    split = node("SliceChannel", "split", (0, 0), num_outputs=count, axis=0)
    kernels = [node("softmax", f"n{i}", (1, i)) for i in range(count)]
    inputs = [(i + 2, 0) for i in range(count)]
    join = node("Concat", "join", *inputs, num_args=count, dim=0)
    return graph([DATA, split, *kernels, join], [(count + 2, 0)])


def nested(count: int) -> sym.Symbol:
    """Each node concatenates the results of the previous one."""
    nodes = [node("Concat", f"n{i}", (i, 0), (0, 0), num_args=2) for i in range(count)]
    return graph([DATA, *nodes], [(count, 0)])


def shuffled(count: int) -> sym.Symbol:
    """Sums of neighbours in no order: types travel back and forth."""
    variables = [node("null", f"v{i}" if i else "data") for i in range(count)]
    order = random.Random(0).sample(range(count - 1), count - 1)
    sums = [node("elemwise_add", f"n{i}", (i, 0), (i + 1, 0)) for i in order]
    return graph([*variables, *sums], [(count + i, 0) for i in range(count - 1)])


FORMS: dict[str, Callable[[int], sym.Symbol]] = {
    form.__name__: form for form in (chain, star, pieces, joined, nested, shuffled)
}


def plan(symbol: sym.Symbol, rows: int) -> None:
    inputs = {name: TensorType((rows, 2), FLOAT32) for name in symbol.list_arguments()}
    plan_graph(symbol.outputs, inputs, {}, new_log(()))


WORK: dict[str, Callable[[sym.Symbol, int], object]] = {
    "names": lambda symbol, rows: (symbol.list_outputs(), symbol.get_internals().list_outputs()),
    "shapes": lambda symbol, rows: symbol.infer_shape(data=(rows, 2)),
    "types": lambda symbol, rows: symbol.infer_type(data="float32"),
    "no types": lambda symbol, rows: symbol.infer_type(),
    "plan": plan,
}


def calls(work: Callable[[sym.Symbol, int], object], symbol: sym.Symbol, rows: int) -> int:
    """How many calls of functions the work makes, Python's and C's: the same on every machine."""
    count = 0

    def counted(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counted)
    try:
        work(symbol, rows)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("form", FORMS)
def test_work_grows_no_faster_than_the_graph(form, work):
    count = 100 if work == "plan" else 200
    small, large = (calls(WORK[work], FORMS[form](n), n) for n in (count, TIMES * count))
    assert large < MOST * small + GROUND


def plan_training(symbol: sym.Symbol, rows: int) -> Iterator[str]:
    """The stages that come before machine code when a graph is trained for the first time."""
    inputs = {name: TensorType((rows, 2), FLOAT32) for name in symbol.list_arguments()}
    log, purpose = new_log(()), Purpose(training=True)
    graph = typed_graph(symbol.outputs, inputs, {}, log, "graph", purpose)
    yield "infer"
    joint = differentiate_graph(graph, list(inputs), log)
    yield "differentiate"
    parts = partition(joint)
    yield "partition"
    plan_typed(parts.forward, log)
    yield "forward"
    plan_typed(parts.backward, log)
    yield "backward"


def opcodes(stages: Iterator[str]) -> dict[str, int]:
    """How many instructions of Python's each stage runs: a loop inside one line counts too."""
    count, counts = 0, {}

    def traced(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        for stage in stages:
            counts[stage], count = count, 0
    finally:
        sys.settrace(before)
    return counts


@pytest.mark.parametrize("form", ["chain", "joined"])
def test_training_takes_work_in_proportion(form):
    small, large = (opcodes(plan_training(FORMS[form](n), n)) for n in (12, TIMES * 12))
    assert not {stage: large[stage] / n for stage, n in small.items() if large[stage] > MOST * n}
