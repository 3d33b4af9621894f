"""The passes: every rewrite rule where it applies and where it only seems to, then golden files.

Each case is also run by the interpreter before and after: a rewrite may not change a number.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
import pytest

from compiling import Arrays, assert_near, call, run_compiled, run_reference, var
from expansion_cases import CONV, IMAGE, NORM, Case, Shape, one
from hybridjit._core.async_safety import uncollected
from hybridjit._core.config import override
from hybridjit._core.types import type_of
from hybridjit.compilation import compile_graph
from hybridjit.compiler import PIPELINE, new_log
from hybridjit.ir.graph import Graph, from_symbol
from hybridjit.ir.interpret import interpret
from hybridjit.ir.node import Output
from hybridjit.ir.rewrite import Rule
from hybridjit.ops.elementwise.binary import ADD
from hybridjit.ops.nn.softmax import SOFTMAX
from hybridjit.ops.tensor.joining import CONCAT
from hybridjit.passes.infer import infer_node_types
from hybridjit.passes.layouts import choose as layout
from hybridjit.passes.layouts import group_norm, joined_phases, space_to_depth
from hybridjit.passes.lower import float16 as half
from hybridjit.passes.lower.expand import expand
from hybridjit.passes.plan.fuse import fuse
from hybridjit.passes.rewrite import channel_group_sums as sums_of_parts
from hybridjit.passes.rewrite import dense_pixels as pixels
from hybridjit.passes.rewrite import fold_batchnorm, views
from hybridjit.passes.rewrite import hoist_pointwise as on_rows
from hybridjit.passes.rewrite import precompute_embeddings as tables
from hybridjit.passes.rewrite.hoist import hoist


def arrays_for(shapes: dict[str, Shape], dtype: str = "float32") -> dict[str, np.ndarray]:
    random = np.random.default_rng(len(shapes))
    arrays = {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
    arrays["x"] = arrays["x"].astype(dtype)
    return {n: np.abs(a) + 0.5 if n.endswith("var") else a for n, a in arrays.items()}


def typed(outputs: Sequence[Output], arrays: Arrays) -> Graph:
    """The graph before any pass; ``x`` and ``y`` are its inputs."""
    types = {n: type_of(a) for n, a in arrays.items()}
    inputs = {n: t for n, t in types.items() if n in ("x", "y")}
    return from_symbol(outputs, inputs, infer_node_types(outputs, types))


def values_of(graph: Graph, arrays: Arrays) -> list[np.ndarray]:
    given = {v: arrays[v.name] for v in (*graph.inputs, *graph.params)}
    return [np.asarray(a) for a in interpret(graph, given)]


def ops_of(graph: Graph) -> list[str]:
    return [v.op.name for v in graph.values if v.op is not None]


def conv(x: Output, **attrs: object) -> Output:
    return call("Convolution", x, var("w"), var("b"), kernel=(3, 3), num_filter=4, **attrs)


def norm(x: Output, **attrs: object) -> Output:
    return call("BatchNorm", x, *(var(n) for n in NORM), **attrs)


def dense(x: Output, units: int = 5, **attrs: object) -> Output:
    return call("FullyConnected", x, var("w"), no_bias=True, num_hidden=units, **attrs)


def turned_twice(first: Shape, second: Shape) -> Callable[[], list[Output]]:
    return lambda: [call("transpose", call("transpose", var("x"), axes=first), axes=second)]


def pooled_flat(shape: Shape) -> Callable[[], list[Output]]:
    """A dense layer on a pooled image under another shape."""

    def outputs() -> list[Output]:
        pooled = call("Pooling", var("x"), kernel=(2, 2))
        return [dense(call("Reshape", pooled, shape=shape))]

    return outputs


def weighted(axis: int) -> Callable[[], list[Output]]:
    """Two halves of a convolution's channels, weighted, and their sum; or each half's own sum."""

    def outputs() -> list[Output]:
        halves = call("Reshape", call("relu", conv(var("x"))), shape=(0, 2, 2, 3, 4))
        return [call("sum", call("broadcast_mul", halves, var("p")), axis=axis)]

    return outputs


def first_layer(kernel: Shape, stride: Shape) -> Callable[[], list[Output]]:
    """A convolution of few channels, which are last."""

    def outputs() -> list[Output]:
        attrs = {"kernel": kernel, "stride": stride, "pad": (3, 1), "num_filter": 32}
        return [call("Convolution", var("x"), var("w"), var("b"), layout="NHWC", **attrs)]

    return outputs


def transposed_layer(filters: int) -> Callable[[], list[Output]]:
    """A transposed convolution of 4x3 taps and stride 2, whose channels are last."""

    def outputs() -> list[Output]:
        attrs = {"kernel": (4, 3), "stride": (2, 2), "pad": (1, 1), "adj": (0, 1)}
        inputs = (var("x"), var("w"), var("b"))
        attrs |= {"num_filter": filters, "no_bias": False}
        return [call("Deconvolution", *inputs, layout="NHWC", **attrs)]

    return outputs


def normed_groups(groups: int, eps: float = 1e-5) -> Callable[[], list[Output]]:
    """Group normalization between convolutions, as PyTorch exports it."""

    def outputs() -> list[Output]:
        first = call("Convolution", var("x"), var("w"), var("b"), kernel=(3, 3), num_filter=4)
        rows = call("Reshape", first, shape=(0, groups, -1))
        rows = call("InstanceNorm", rows, var("p"), var("q"), eps=eps)
        return [call("relu", call("Reshape", rows, shape=(2, 4, 3, 4)))]

    return outputs


def pixel(pad: tuple[int, int]) -> Callable[[], list[Output]]:
    """A 1x1 convolution whose result has one pixel."""

    def outputs() -> list[Output]:
        attrs = {"kernel": (1, 1), "stride": (3, 3), "pad": pad, "num_filter": 4}
        return [call("relu", call("Convolution", var("x"), var("w"), var("b"), **attrs))]

    return outputs


# For each rule: where it applies, and where it looks as if it should and must not.
CASES: dict[Rule, tuple[Case, Case]] = {
    on_rows.pointwise_on_rows: (
        Case(lambda: [call("elemwise_add", call("relu", call("Reshape", dense(var("x")),
                                                            shape=(2, 2, 5))), var("y"))],
             {"x": (4, 3), "w": (5, 3), "y": (2, 2, 5)}),
        Case(lambda: [call("broadcast_add", call("Reshape", dense(var("x")), shape=(2, 2, 5)),
                           var("y"))],
             {"x": (4, 3), "w": (5, 3), "y": (1, 2, 5)}),
    ),
    on_rows.rows_behind_dense: (
        Case(lambda: [dense(call("transpose", var("x"), axes=(1, 0, 2)), flatten=False)],
             {"x": (2, 3, 6), "w": (5, 6)}),
        Case(lambda: [dense(call("transpose", var("x"), axes=(0, 2, 1)), flatten=False)],
             {"x": (2, 6, 3), "w": (5, 6)}),
    ),
    on_rows.rows_before_look_up: (
        Case(lambda: [call("transpose", call("take", var("w"), var("x")), axes=(1, 0, 2))],
             {"x": (2, 3), "w": (4, 5)}),
        Case(lambda: [call("transpose", call("take", var("w"), var("x")), axes=(2, 0, 1))],
             {"x": (2, 3), "w": (4, 5)}),
    ),
    tables.dense_on_table: (
        Case(lambda: [dense(call("take", var("v"), var("x")))],
             {"x": (6,), "v": (4, 32), "w": (5, 32)}),
        Case(lambda: [dense(call("take", var("v"), var("x")), flatten=True)],
             {"x": (2, 3), "v": (4, 32), "w": (5, 96)}),
    ),
    tables.pointwise_on_table: (
        Case(lambda: [call("relu", call("take", call("exp", var("v")), var("x")))],
             {"x": (6,), "v": (4, 3)}),
        Case(lambda: [call("relu", call("take", var("v"), var("x")))],
             {"x": (6,), "v": (4, 3)}),
    ),
    views.merge_reshapes: (
        Case(lambda: [call("Reshape", call("Flatten", var("x")), shape=(4, 6))],
             {"x": (2, 3, 4)}),
        Case(lambda: [call("Reshape", call("transpose", var("x")), shape=(4, 6))],
             {"x": (2, 3, 4)}),
    ),
    views.merge_transposes: (
        Case(turned_twice((2, 0, 1), (1, 0, 2)), {"x": (2, 3, 4)}),
        Case(lambda: [call("transpose", call("relu", call("transpose", var("x"))))],
             {"x": (2, 3, 4)}),
    ),
    views.transpose_of_ones: (
        Case(one("transpose", "x", axes=(1, 0, 2)), {"x": (3, 1, 4)}),
        Case(one("transpose", "x", axes=(2, 1, 0)), {"x": (3, 1, 4)}),
    ),
    half.half_in_single: (
        Case(one("log_softmax", "x"), {"x": (2, 5)}, "float16"),
        Case(one("log_softmax", "x"), {"x": (2, 5)}),
    ),
    fold_batchnorm.fold_into_producer: (
        Case(lambda: [norm(conv(var("x")), fix_gamma=False)], {"x": IMAGE, **CONV, **NORM}),
        Case(lambda: [norm(conv(var("x")), axis=2)], {"x": (2, 3, 6, 6), **CONV, **NORM}),
    ),
    fold_batchnorm.to_scale_and_shift: (
        Case(lambda: [norm(var("x"), axis=-1)], {"x": (2, 3, 4), **NORM}),
        Case(lambda: [norm(var("x"))], {"x": (0, 4, 5), **NORM}, "float16"),
    ),
    sums_of_parts.sum_of_parts: (
        Case(weighted(1), {"x": IMAGE, **CONV, "p": (2, 2, 2, 1, 1)}),
        Case(weighted(2), {"x": IMAGE, **CONV, "p": (2, 2, 2, 1, 1)}),
    ),
    pixels.pixel_as_row: (
        Case(pixel((0, 0)), {"x": (2, 3, 1, 1), "w": (4, 3, 1, 1), "b": (4,)}),
        Case(pixel((1, 1)), {"x": (2, 3, 1, 1), "w": (4, 3, 1, 1), "b": (4,)}),
    ),
    space_to_depth.plain_windows: (
        Case(first_layer((7, 5), (2, 2)), {"x": (2, 19, 18, 3), "w": (32, 7, 5, 3), "b": (32,)}),
        Case(first_layer((7, 5), (2, 1)), {"x": (2, 19, 18, 3), "w": (32, 7, 5, 3), "b": (32,)}),
    ),
    joined_phases.joined_phases: (
        Case(transposed_layer(3), {"x": (2, 5, 6, 7), "w": (7, 4, 3, 3), "b": (3,)}),
        Case(transposed_layer(5), {"x": (2, 5, 6, 7), "w": (7, 4, 3, 5), "b": (5,)}),
    ),
    group_norm.norm_of_groups: (
        Case(normed_groups(2), {"x": IMAGE, **CONV, "p": (2,), "q": (2,)}),
        Case(normed_groups(3), {"x": IMAGE, **CONV, "p": (3,), "q": (3,)}),
    ),
    layout.dense_after_flatten: (
        Case(pooled_flat((0, -1)), {"x": (2, 3, 4, 5), "w": (5, 36)}),
        Case(pooled_flat((4, -1)), {"x": (2, 3, 4, 5), "w": (5, 18)}),
    ),
}  # fmt: skip


def canonical(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The rows of the pipeline before ``fold-bn``."""
    fired = [] if fired is None else fired
    for row in PIPELINE[: [row.name for row in PIPELINE].index("fold-bn")]:
        graph = row.run(graph, fired)
    return graph


def in_regions(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The rows that put channels last."""
    for run in (layout.choose_layouts, layout.layout_dense, views.merge_views):
        graph = run(graph, fired)
    return graph


# The pass that applies the rules of a module.
PASSES: dict[ModuleType, Callable[..., Graph]] = {
    half: half.lower_float16,
    on_rows: on_rows.hoist_pointwise,
    views: views.merge_views,
    fold_batchnorm: fold_batchnorm.fold_batchnorm,
    group_norm: in_regions,
    joined_phases: joined_phases.join_phases,
    layout: in_regions,
    sums_of_parts: sums_of_parts.sum_channel_groups,
    pixels: pixels.dense_pixels,
    space_to_depth: space_to_depth.space_to_depth,
    tables: tables.precompute_embeddings,
}


def all_rules() -> list[Rule]:
    return [r for module in PASSES for r in vars(module).values() if isinstance(r, Rule)]


def test_every_rule_has_its_two_cases():
    missing = [rule.apply.__name__ for rule in all_rules() if rule not in CASES]
    assert not missing, f"add a case where it applies and one where it must not: {missing}"


@pytest.mark.parametrize("applies", [True, False], ids=["applies", "must-not"])
@pytest.mark.parametrize("rule", CASES, ids=lambda r: r.apply.__name__)
def test_rewrite_rules_apply_where_expected(rule: Rule, applies: bool):
    case = CASES[rule][0 if applies else 1]
    arrays = arrays_for(case.shapes, case.dtype)
    before = typed(case.outputs(), arrays)
    home = sys.modules[rule.apply.__module__]
    if home is not half:  # the others need canonical spellings
        before = expand(before)
    fired: list[str] = []
    run = PASSES[home]
    after = run(before, fired)
    assert any(note.endswith(f": {rule.title}") for note in fired) == applies, fired
    assert [u.type for u in after.outputs] == [u.type for u in before.outputs]
    assert_near(values_of(after, arrays), values_of(before, arrays))
    assert run(after, again := []) is after, f"a second run finds more: {again}"


# --- hoist ---


def through(outputs: Sequence[Output], arrays: Arrays, *passes: Callable[..., Graph]) -> Graph:
    graph = typed(outputs, arrays)
    for run in passes:
        graph = run(graph, [])
    return graph


def bound_values(graph: Graph, arrays: Arrays) -> list[np.ndarray]:
    """A hoisted graph's outputs: its bind graph gives its parameters."""
    assert graph.bind is not None
    fixed = interpret(graph.bind, {v: arrays[v.name] for v in graph.bind.params})
    given = dict(zip(graph.params, fixed)) | {v: arrays[v.name] for v in graph.inputs}
    return [np.asarray(a) for a in interpret(graph, given)]


def check_hoisted(outputs: Sequence[Output], shapes: dict[str, Shape]) -> Graph:
    arrays = arrays_for(shapes)
    before = typed(outputs, arrays)
    after = hoist(before)
    assert_near(bound_values(after, arrays), values_of(before, arrays))
    assert [u.type for u in after.bind.outputs] == [v.type for v in after.params]
    return after


def test_hoist_moves_values_that_depend_on_parameters_only():
    scaled = call("elemwise_mul", call("exp", var("w")), var("v"))
    graph = check_hoisted([call("elemwise_add", var("x"), scaled)], dict.fromkeys("xwv", (2, 3)))
    assert ops_of(graph) == ["elemwise_add"]
    assert ops_of(graph.bind) == ["exp", "elemwise_mul"]


def test_hoist_keeps_values_that_depend_on_inputs():
    mixed = call("exp", call("elemwise_mul", var("x"), var("w")))
    graph = check_hoisted([call("elemwise_add", mixed, var("w"))], dict.fromkeys("xw", (2, 3)))
    assert ops_of(graph) == ["elemwise_mul", "exp", "elemwise_add"]
    assert ops_of(graph.bind) == []


def test_hoist_keeps_an_output_that_is_fixed():
    graph = check_hoisted([call("exp", var("w")), var("w"), var("x")], dict.fromkeys("xw", (2, 3)))
    assert ops_of(graph) == [] and ops_of(graph.bind) == ["exp"]


def test_hoist_moves_constants_and_leaves_random_numbers():
    """A random operator that depends on nothing gives something new at every call."""
    constant = call("_full", shape=(2, 3), value=2.0)
    drawn = call("_random_uniform", shape=(2, 3))
    total = call("elemwise_add", call("elemwise_mul", var("x"), constant), drawn)
    graph = hoist(typed([total], arrays_for({"x": (2, 3)})))
    assert ops_of(graph.bind) == ["_full"]
    assert "_random_uniform" in ops_of(graph)


# --- layout ---


def layout_of(outputs: Sequence[Output], shapes: dict[str, Shape]) -> tuple[Graph, list[str]]:
    """The graph after layout and hoist (the weights' transpositions are gone), and its ops."""
    arrays = arrays_for(shapes)
    before = typed(outputs, arrays)
    after = through(outputs, arrays, canonical, in_regions, hoist)
    assert_near(bound_values(after, arrays), values_of(before, arrays))
    return after, ops_of(after)


def pooled(x: Output) -> Output:
    return call("Pooling", x, kernel=(2, 2), pool_type="avg")


def test_layout_transposes_at_the_borders_of_a_region_only():
    y = call("relu", conv(var("x"), pad=(1, 1)))
    z = pooled(call("elemwise_add", call("sigmoid", y), y))
    _, ops = layout_of([z], {"x": IMAGE, **CONV})
    assert ops.count("transpose") == 2
    assert ops[0] == ops[-1] == "transpose"


def test_layout_leaves_a_graph_without_windows():
    outputs = [call("relu", call("transpose", var("x"), axes=(0, 2, 3, 1)))]
    graph = typed(outputs, arrays_for({"x": IMAGE}))
    assert layout.choose_layouts(graph) is graph


def test_layout_moves_the_axis_of_concat_and_softmax():
    y = pooled(var("x"))
    joined = call("softmax", call("Concat", y, call("relu", y), dim=1, num_args=2), axis=1)
    graph, ops = layout_of([joined], {"x": IMAGE})
    assert ops.count("transpose") == 2
    concat = next(v for v in graph.values if v.op is CONCAT)
    softmax = next(v for v in graph.values if v.op is SOFTMAX)
    assert concat.attrs["dim"] == 3 and softmax.attrs["axis"] == 3


def test_layout_aligns_an_operand_of_another_rank():
    """A vector along the last axis lies along the last but one then, channels along the last."""
    total = call("broadcast_add", pooled(var("x")), var("p"))
    total = call("broadcast_mul", total, var("scale"))
    graph, ops = layout_of([total], {"x": IMAGE, "p": (5,), "scale": (3, 1, 1)})
    assert next(v for v in graph.values if v.op is ADD.broadcasting).shape == (2, 4, 5, 3)
    assert ops[-1] == "transpose"


@pytest.mark.parametrize(
    "begin, end, step",
    [((0, 1), (2, 3), ()), ((0, None, 3, 0), (2, None, 0, None), (1, 2, -2, 3))],
    ids=str,
)
def test_layout_follows_a_part(begin, end, step):
    cut = call("slice", pooled(var("x")), begin=begin, end=end, step=step)
    _, ops = layout_of([pooled(call("relu", cut))], {"x": (2, 3, 9, 10)})
    assert ops.count("transpose") == 2
    assert ops[0] == ops[-1] == "transpose"


def test_places_are_rows_of_channels():
    """A transpose of joined places costs nothing, and is not one to MXNet's order."""
    flat = call("Reshape", conv(var("x"), pad=(1, 1)), shape=(0, 0, -1))
    rows = call("transpose", flat, axes=(0, 2, 1))
    total = call("elemwise_mul", call("erf", rows), rows)
    attrs = {"no_bias": True, "num_hidden": 5, "flatten": False}
    result = call("FullyConnected", total, var("v"), **attrs)
    _, ops = layout_of([result], {"x": IMAGE, **CONV, "v": (5, 4)})
    assert ops.count("transpose") == 1 and ops[0] == "transpose"
    assert ops.index("elemwise_mul") < ops.index("_reshape_to")


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_normalization_stays_in_the_region(groups):
    """By moments of channels: only the data and the result are transposed."""
    first = conv(var("x"), pad=(1, 1))
    normed = call("GroupNorm", first, var("p"), var("q"), num_groups=groups, eps=0.1)
    shapes = {"x": IMAGE, **CONV, "p": (groups,), "q": (groups,)}
    _, ops = layout_of([pooled(call("relu", normed))], shapes)
    assert ops.count("transpose") == 2 and "GroupNorm" not in ops
    assert ops[0] == ops[-1] == "transpose"


def test_layout_looks_behind_a_transpose():
    """Explicit transposes to MXNet's order are removed with channels last."""
    first = call("transpose", var("x"), axes=(0, 3, 1, 2))
    scaled = call("broadcast_mul", call("relu", first), var("p"))
    graph, ops = layout_of([pooled(scaled)], {"x": (2, 8, 10, 3), "p": (3, 1, 1)})
    assert ops.count("transpose") == 1
    assert ops[-1] == "transpose"


def test_sums_over_parts_of_the_channels_stay_in_the_region():
    """A mean of the sums is their weight: only the data and the result are transposed."""
    first = call("relu", conv(var("x"), pad=(1, 1)))
    halves = call("Reshape", first, shape=(0, 2, 2, 5, 6))
    middle = call("mean", call("sum", halves, axis=1), axis=(2, 3), keepdims=True)
    both = call("Concat", middle, call("sigmoid", middle), dim=1, num_args=2)
    gates = call("Reshape", both, shape=(0, 2, 2, 1, 1))
    last = pooled(call("sum", call("broadcast_mul", halves, gates), axis=1))
    arrays = arrays_for({"x": (2, 3, 5, 6), **CONV})
    graph = through([last], arrays, canonical, sums_of_parts.sum_channel_groups, in_regions, hoist)
    assert_near(bound_values(graph, arrays), run_reference([last], arrays))
    turned = [v for v in graph.values if v.op is not None and v.op.name == "transpose"]
    assert len(turned) == 2 and turned[-1] is graph.outputs[0].value
    (found,) = run_compiled([last], arrays, ["w", "b"])
    assert_near([found], run_reference([last], arrays))


def test_layout_keeps_channels_last_that_the_user_chose():
    outputs = [call("Pooling", var("x"), kernel=(2, 2), layout="NHWC", pool_type="sum")]
    graph = typed(outputs, arrays_for({"x": IMAGE}))
    assert layout.choose_layouts(graph) is graph


# --- fuse ---


def groups_of(outputs: Sequence[Output], shapes: dict[str, Shape]) -> tuple[list[str], list[str]]:
    """Groups as ``kind(op op)`` without views, and reasons against fusion."""
    notes: list[str] = []
    graph = typed(outputs, arrays_for(shapes))
    for run in (canonical, in_regions, hoist):
        graph = run(graph, [])
    graph = fuse(graph, notes)
    rows = [
        f"{g.kind}({' '.join(v.op.name for v in g.members if v.op)})"
        for g in graph.groups
        if g.kind != "view"
    ]
    return rows, [n for n in notes if n.startswith("not fused")]


def test_fuse_includes_pointwise_values_of_the_same_shape():
    y = call("relu", call("elemwise_add", conv(var("x")), var("y")))
    rows, notes = groups_of([y], {"x": IMAGE, "y": (2, 4, 3, 4), **CONV})
    assert rows == ["conv(Convolution elemwise_add relu)"] and not notes


def test_fuse_excludes_values_of_another_shape():
    y = call("broadcast_add", call("Pooling", var("x"), global_pool=True), var("x"))
    rows, notes = groups_of([y], {"x": IMAGE})
    assert rows == ["pool(Pooling)", "pointwise(broadcast_add)"]
    assert notes == [
        "not fused: broadcast_add into pooling, because f32[2,1,1,3] is not its shape f32[2,5,6,3]"
    ]


def test_fuse_makes_no_cycle():
    """total needs the second convolution, which needs the first: it can join the second only."""
    first = conv(var("x"), pad=(1, 1))
    second = call("Convolution", call("softmax", first), var("v"), no_bias=True, kernel=(1, 1),
                  num_filter=4, name="second")  # fmt: skip
    total = call("elemwise_add", first, second, name="total")
    rows, notes = groups_of([total], {"x": IMAGE, "v": (4, 4, 1, 1), **CONV})
    assert rows == ["conv(Convolution)", "softmax(softmax)", "conv(Convolution elemwise_add)"]
    assert not notes


def test_fuse_leaves_kernels_without_an_epilogue():
    rows, _ = groups_of([call("relu", call("softmax", var("x")))], {"x": (3, 4)})
    assert rows == ["softmax(softmax)", "pointwise(relu)"]


def test_fuse_assigns_values_without_kernel_to_the_host():
    arrays, outputs = arrays_for({"x": (2, 3, 4)}), one("_np_cumsum", "x", axis=1)
    graph = fuse(through(outputs(), arrays, canonical, in_regions, hoist))
    assert "host" in [g.kind for g in graph.groups]


# --- equal values ---


def test_equal_values_are_computed_once():
    """By operator, attributes, operands and type; random ones never are equal."""
    x = var("x")
    twice = [call("relu", x, name=name) for name in ("first", "second")]
    other = [call("_plus_scalar", y, scalar=s) for y, s in zip(twice, (0.0, -0.0))]
    again = call("_plus_scalar", twice[1], scalar=0.0)
    drawn = [call("_sample_uniform", x, y, name=n) for n, y in zip("ab", twice)]
    outputs = [*twice, *other, again, *drawn]
    arrays = {"x": np.array([-1.0, 0.5, 2.0], np.float32)}
    before = typed(outputs, arrays)
    fired: list[str] = []
    after = canonical(before, fired)
    first, second, plus, minus, equal, *draws = (use.value for use in after.outputs)
    assert first is second and plus is equal and plus is not minus
    assert draws[0] is not draws[1]
    assert "second: is first" in fired
    executable = compile_graph(outputs[:5], {"x": type_of(arrays["x"])}, {}, log=new_log())
    executable.bind({})
    found = executable([arrays["x"]])
    assert all(a is not b for a, b in zip(found, found[1:]))
    assert_near(found, run_reference(outputs[:5], arrays))


@pytest.mark.parametrize("rows", [1, 3, 14, 40])
def test_merged_layers_have_the_bits_of_separate_layers(rows):
    """Sums are added up in the same order, at any width and place among the columns."""
    widths = (16, 33, 5)
    weights = {n: (var(f"w{n}"), var(f"b{n}")) for n in widths}
    layers = [call("FullyConnected", var("x"), *weights[n], num_hidden=n) for n in widths]
    outputs = [call("dot", layer, var(f"c{n}")) for n, layer in zip(widths, layers)]
    random = np.random.default_rng(rows)
    arrays = {"x": random.normal(size=(rows, 70)).astype(np.float32)}
    for n in widths:
        arrays[f"w{n}"] = random.normal(size=(n, 70)).astype(np.float32)
        arrays[f"c{n}"] = random.normal(size=(n, 4)).astype(np.float32)
        arrays[f"b{n}"] = random.normal(size=n).astype(np.float32)
    found = []
    for skip in ((), ("merge-dense",)):
        with override(skip=skip):
            types = {name: type_of(array) for name, array in arrays.items()}
            executable = compile_graph(outputs, {"x": types.pop("x")}, types)
            executable.bind(arrays)
            found.append(executable([arrays["x"]]))
            assert len(executable.plan.steps) == (6 if skip else 4)
    for merged, apart in zip(*found):
        np.testing.assert_array_equal(merged, apart)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("size", [(9, 8), (1, 5), (7, 7)])
@pytest.mark.parametrize("steps", [((2, 2), (1, 1)), ((1, 3), (2, 1))])
def test_pixels_that_strided_layers_skip_are_not_computed(batch, size, steps):
    """Two strided layers after a residual sum whose data is read completely
    by another layer: the results are equal, computed at fewer pixels.
    """

    def layer(data, name, kernel, stride=(1, 1)):
        pad = tuple(k // 2 for k in kernel)
        args = (data, var(f"{name}_w"), var(f"{name}_b"))
        return call("Convolution", *args, kernel=kernel, stride=stride, pad=pad, num_filter=16)

    x, (stride, inner) = var("x"), steps
    wide = call("relu", layer(layer(x, "a", (3, 3)), "b", (1, 1), inner))
    rest = layer(x, "r", (1, 1), inner)
    total = call("relu", call("elemwise_add", call("broadcast_mul", wide, var("scale")), rest))
    outputs = [layer(total, "c", (1, 1), stride), layer(total, "d", (1, 1), stride), rest]
    random = np.random.default_rng(7)
    arrays = {"x": random.normal(size=(batch, 16, *size)).astype(np.float32)}
    for name in "abrcd":
        shape = (16, 16, *((3, 3) if name == "a" else (1, 1)))
        arrays[f"{name}_w"] = random.normal(size=shape).astype(np.float32) / 8
        arrays[f"{name}_b"] = random.normal(size=16).astype(np.float32)
    arrays["scale"] = random.normal(size=(1, 16, 1, 1)).astype(np.float32)
    types = {name: type_of(array) for name, array in arrays.items()}
    executable = compile_graph(outputs, {"x": types.pop("x")}, types)
    executable.bind(arrays)
    assert_near(executable([arrays["x"]]), run_reference(outputs, arrays))
    plan = getattr(executable, "one", executable).plan
    sums = [step.writes[0].shape[1:3] for step in plan.steps if len(step.group.members) > 2]
    assert sums == [tuple(-(-d // (s * i)) for d, s, i in zip(size, stride, inner))]


def test_garbage_is_looked_for_again_after_passes():
    """Settings of a program take effect, and are restored if a pass raises."""

    @uncollected
    def collects(fails: bool = False) -> bool:
        if fails:
            raise ValueError
        return gc.isenabled()

    assert not collects()
    assert gc.isenabled()
    with pytest.raises(ValueError):
        collects(fails=True)
    assert gc.isenabled()
    try:
        gc.disable()
        assert not collects()
        assert not gc.isenabled()
    finally:
        gc.enable()
