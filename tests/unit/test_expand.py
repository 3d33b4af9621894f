"""Expansions of operators, on graph values, types, arrays and symbols.

Every operator that has an expansion is run on its samples; the cases of ``expansion_cases`` say
where one applies and where it must not.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_passes import arrays_for, typed, values_of

from compiling import assert_near
from expansion_cases import EXPANSIONS
from hybridjit import random, sym
from hybridjit._core.types import UNKNOWN, type_of
from hybridjit.ir.graph import Graph, from_symbol
from hybridjit.ir.interpret import interpret
from hybridjit.ir.node import Output, apply, variable
from hybridjit.ops import OpDef, all_ops, lookup, run_ref
from hybridjit.ops.building import ON_ARRAYS, ON_TYPES, as_results, parts_of
from hybridjit.passes.infer import infer_node_types
from hybridjit.passes.lower.expand import expand, title
from samples import Sample, samples

EXPANDING = [op for op in all_ops() if op.expand is not None]
CASES = [pytest.param(op, s, id=f"{op.name}-{s.name}") for op in EXPANDING for s in samples(op)]


def graph_of(op: OpDef, sample: Sample) -> tuple[Graph, dict[str, np.ndarray]]:
    """One node over variables, before any pass."""
    arrays = {f"x{i}": a for i, a in enumerate(sample.arrays)}
    node = apply(op, "node", [Output(variable(n)) for n in arrays], sample.attrs)
    outputs = [Output(node, i) for i in range(len(node.output_names))]
    types = {n: type_of(a) for n, a in arrays.items()}
    return from_symbol(outputs, types, infer_node_types(outputs, types)), arrays


@pytest.mark.parametrize("op, sample", CASES)
def test_an_expansion_equals_its_operator(op: OpDef, sample: Sample):
    """As graph values, as types and as arrays; and the expansion does not expand further."""
    attrs, types = op.parse(sample.attrs), [type_of(a) for a in sample.arrays]
    graph, arrays = graph_of(op, sample)
    after = expand(graph, fired := [])
    assert [u.type for u in after.outputs] == [u.type for u in graph.outputs]
    random.seed(3)  # random draws have the same order
    wanted = [np.asarray(y) for y in run_ref(op, list(sample.arrays), attrs)]
    random.seed(3)
    given = {v: arrays[v.name] for v in (*after.inputs, *after.params)}
    assert_near([np.asarray(y) for y in interpret(after, given)], wanted)
    assert expand(after, again := []) is after, again
    parts = parts_of(op, ON_TYPES, types, attrs)
    if parts is None or any(y.size == 0 for y in wanted):
        assert not fired
        return
    blank = (UNKNOWN,) * len(op.output_names(attrs))
    assert as_results(parts) == op.infer(tuple(types), blank, **attrs)[1]
    assert fired == [f"node: {title(op)}"]
    random.seed(3)
    with np.errstate(all="ignore"):
        assert_near(as_results(parts_of(op, ON_ARRAYS, sample.arrays, attrs)), wanted)


@pytest.mark.parametrize("op", EXPANDING, ids=lambda op: op.name)
def test_every_expansion_is_seen(op: OpDef):
    """Some sample expands: samples that all stay whole would test nothing."""
    assert any(
        parts_of(op, ON_TYPES, [type_of(a) for a in s.arrays], op.parse(s.attrs)) is not None
        for s in samples(op)
    )
    assert "  =>  " in title(op)


@pytest.mark.parametrize("applies", [True, False], ids=["applies", "must-not"])
@pytest.mark.parametrize("name", EXPANSIONS)
def test_expansions_apply_where_expected(name: str, applies: bool):
    op = lookup(name.split()[0])
    case = EXPANSIONS[name][0 if applies else 1]
    arrays = arrays_for(case.shapes, case.dtype)
    before = typed(case.outputs(), arrays)
    after = expand(before, fired := [])
    assert any(note.endswith(f": {title(op)}") for note in fired) == applies, fired
    assert [u.type for u in after.outputs] == [u.type for u in before.outputs]
    assert_near(values_of(after, arrays), values_of(before, arrays))
    assert expand(after, again := []) is after, f"a second run finds more: {again}"


def test_names_of_nodes_may_equal_names_of_expansions():
    def expanded(name):
        x = sym.relu(sym.var("x"), name=name)
        made = sym.dot(x, x, transpose_a=True, name="product")
        return expand(typed(made.outputs, {"x": np.ones((2, 3), "float32")})).values

    part = next(v.name for v in expanded("relu") if v.name.startswith("product:"))
    names = [v.name for v in expanded(part)]
    assert part in names and len(set(names)) == len(names)
