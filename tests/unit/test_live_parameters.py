"""Live parameters: weights that are inputs, and change from call to call with nothing bound anew.

Their layers run in kernels, with the bits that the same weights give as parameters wherever the
same algorithm is chosen, but for Winograd's filters, which are rounded more often then.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from combining import one_in
from compiling import (
    AVAILABLE,
    assert_near,
    call,
    compiled,
    plan_of,
    run_compiled,
    run_reference,
    var,
)
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit._core.types import type_of
from hybridjit.codegen.kinds.conv import choose
from hybridjit.codegen.spec import KernelSpec
from hybridjit.compilation import compile_graph
from hybridjit.compiler import new_log
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.threads import threads
from neighbours import LIVE, STORED, Network, conv, in_double, inside, live, network, of_stored

pytestmark = pytest.mark.usefixtures("unoptimised_kernels")

TARGETS = ["" if t == "native" else t for t in AVAILABLE]
SHAPES = ((7, 5, 6), (35, 33, 9), (16, 48, 4), (3, 4, 5))  # filters, channels, size of an image
HOST_TARGETS = [pytest.param("" if t == "native" else t, id=t) for t in AVAILABLE]
# Layers for which another algorithm may be chosen where weights are packed at every call.
OTHERWISE = (
    "conv3x3", "conv-winograd", "conv-winograd-at-once", "conv3d-flat", "deconv-winograd",
    "deconv-small-groups", "conv-eights",
)  # fmt: skip
WINOGRAD = Options(winograd="always")
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
TYPES = {"float32": lambda net: net, "float64": in_double}


def kernels(executable: Executable) -> list[str]:
    """The kinds of the kernels that run, in order."""
    return [each.spec.kind for row in executable.code.calls for each in row]


def with_winograd(net: Network, winograd: bool | str) -> Executable:
    """The network compiled with this option, and bound."""
    given = {n: type_of(a) for n, a in net.arrays.items() if n not in net.params}
    fixed = {n: type_of(net.arrays[n]) for n in net.params}
    options = Options(winograd=winograd)
    executable = compile_graph(net.outputs, given, fixed, options, new_log())
    executable.bind({n: net.arrays[n] for n in net.params})
    assert isinstance(executable, Executable)
    return executable


def products(executable: Executable) -> list[KernelSpec]:
    """Kernels other than packing."""
    specs = [each.spec for row in executable.code.calls for each in row]
    return [spec for spec in specs if spec.kind not in ("pack", "filters")]


def same_bits(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return [y.tobytes() for y in found] == [y.tobytes() for y in wanted]


# --- weights in kernels ---


@pytest.mark.parametrize("target, name, dtype", one_in(2, TARGETS, LIVE, TYPES))
def test_layers_run_in_kernels(target: str, name: str, dtype: str):
    """No step is NumPy's, the numbers are the reference's, and the bits those of parameters.

    But for Winograd's filters, which are transformed in single precision.
    """
    net = TYPES[dtype](network(*LIVE[name], tail="relu"))
    with override(target=target):
        fixed, varying = (compiled(net.outputs, net.arrays, p) for p in (net.params, []))
        assert "host" not in [step.kind for step in varying.plan.steps]
        found = varying(live(net).inputs)
        assert_near(found, run_reference(net.outputs, net.arrays), TOLERANCE[dtype])
        is_same = products(varying) == products(fixed) or name not in OTHERWISE
        if is_same and "filters" not in kernels(varying):
            assert same_bits(found, fixed(net.inputs))


ALGORITHMS: dict[str, tuple[bool | str, int]] = {
    "direct": (False, 4), "F(2x2)": ("always", 2), "F(4x4)": ("always", 4),
}  # fmt: skip


@pytest.fixture(params=ALGORITHMS)
def winograd(request, monkeypatch) -> bool | str:
    """The option with which one algorithm is taken wherever it is possible."""
    option, m = ALGORITHMS[request.param]
    spec_of = choose.winograd_spec
    monkeypatch.setattr(choose, "winograd_spec", lambda layer, target, _: spec_of(layer, target, m))
    return option


@pytest.mark.parametrize("target, stored, shape", one_in(2, TARGETS, STORED, SHAPES))
def test_weights_in_any_order(target: str, stored: str, shape, winograd: bool | str):
    """Filters, channels or taps in a row, or none of them: the bits are those of parameters.

    By Winograd's way, whose live filters are transformed in single precision, the numbers are.
    """
    filters, channels, size = shape
    weight, image = (filters, channels, 3, 3), (1, channels, size, size)
    net = of_stored("Convolution", image, weight, stored, num_filter=filters)
    fixed = net._replace(params=["w"])
    with override(target=target):
        varying = with_winograd(net, winograd)
        assert ("filters" if winograd else "pack") in kernels(varying)
        found = varying(net.inputs)
        assert_alike(found, with_winograd(fixed, winograd)(fixed.inputs), winograd)
    assert_near(found, run_reference(net.outputs, net.arrays), 2e-5)


@pytest.mark.parametrize("op", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("target, stored, side", one_in(2, TARGETS, STORED, (2, 4, 5)))
def test_other_square_windows_by_winograd(target: str, stored: str, side: int, op: str):
    """With six points of a line at most, the error is within 2e-5 of the scale."""
    filters, channels = 33, 17
    weight = {"Convolution": (filters, channels), "Deconvolution": (channels, filters)}[op]
    net = of_stored(
        op, (2, channels, 9, 7), (*weight, side, side), stored, num_filter=filters, pad=(1, 1)
    )
    with override(target=target):
        varying = with_winograd(net, "always")
        found = [c.spec for row in varying.code.calls for c in row if c.spec.kind == "filters"]
        (spec,) = found
        assert spec.side == side and spec.m + side - 1 <= 6
        assert_near(varying(net.inputs), run_reference(net.outputs, net.arrays), 2e-5)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("target", HOST_TARGETS)
def test_transposed_convolutions_with_weights_in_any_order(
    target: str, stored: str, winograd: bool | str
):
    """Strided phases, and those of stride 1, which Winograd's way computes."""
    for weight, attrs in (
        ((6, 9, 4, 3), {"stride": (2, 2), "pad": (1, 0)}),
        ((33, 17, 3, 3), {"pad": (1, 1)}),
        ((12, 1, 3, 3), {"num_group": 12, "stride": (2, 1)}),
    ):
        groups = attrs.get("num_group", 1)
        image = (2, weight[0], 5, 6)
        filters = {"num_filter": weight[1] * groups}
        net = of_stored("Deconvolution", image, weight, stored, **filters, **attrs)
        with override(target=target):
            fixed = with_winograd(net._replace(params=["w"]), winograd)
            found = with_winograd(net, winograd)(net.inputs)
            assert_alike(found, fixed(net.inputs[:1]), winograd)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("op", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("target", HOST_TARGETS)
def test_filters_that_are_transformed_where_they_are_multiplied(
    target: str, op: str, stored: str, monkeypatch
):
    """In any order, for blocks of tiles of several images, the last of them smaller."""
    monkeypatch.setattr(choose, "winograd_sizes", lambda layer, target: ())
    of_several = choose.live_winograd_specs
    monkeypatch.setattr(
        choose,
        "live_winograd_specs",
        lambda layer, target: of_several(replace(layer, images=max(4, layer.images)), target),
    )
    weight, attrs = (64, 64, 3, 3), {"num_filter": 64, "pad": (1, 1)}
    net = of_stored(op, (7, 64, 7, 6), weight, stored, **attrs)
    with override(target=target):
        varying = with_winograd(net, "always")
        assert kernels(varying).count("winograd") == 1 and "filters" not in kernels(varying)
        found = varying(net.inputs)
        one = [net.inputs[0][5:6], *net.inputs[1:]]
        single = compiled(net.outputs, dict(zip(net.arrays, one)), [], options=WINOGRAD)
        assert same_bits([y[5:6] for y in found], single(one))
    assert_near(found, run_reference(net.outputs, net.arrays), 2e-5)


def assert_alike(found: list[np.ndarray], wanted: list[np.ndarray], winograd: bool | str) -> None:
    """The same bits; by Winograd's way the same but for rounding."""
    if winograd:
        assert_near(found, wanted, 5e-6)
    else:
        assert same_bits(found, wanted)


def test_calls_pack_only_operands_that_are_not_parameters():
    """A weight that is fixed beside a bias that is not, and the other way round.

    Without Winograd, which pays sooner where filters are transformed once.
    """
    net, direct = network(*LIVE["conv3x3"]), Options(winograd=False)
    for params in (["w"], ["b"]):
        executable = compiled(net.outputs, net.arrays, params, options=direct)
        assert kernels(executable).count("pack") == 1
        whole = compiled(net.outputs, net.arrays, net.params, options=direct)
        given = [a for n, a in net.arrays.items() if n not in params]
        assert same_bits(executable(given), whole(net.inputs))


@pytest.mark.parametrize("name", LIVE)
def test_weights_that_change_take_effect(name: str):
    net = live(network(*LIVE[name]))
    executable = compiled(net.outputs, net.arrays)
    random = np.random.default_rng(3)
    for _ in range(3):
        for known in ("w", "b"):
            if known in net.arrays:
                net.arrays[known][...] = random.normal(0, 0.1, net.arrays[known].shape)
        assert_near(executable(net.inputs), run_reference(net.outputs, net.arrays), 2e-5)


@pytest.mark.parametrize("name", LIVE)
def test_any_number_of_threads(name: str, monkeypatch):
    """A kernel that packs cuts its work by the number of threads, and writes the same."""
    net = live(network(*LIVE[name]))
    executable = compiled(net.outputs, net.arrays)
    monkeypatch.setattr(executable, "is_small", False)
    monkeypatch.setattr(executable, "_is_quick", False)
    found = []
    for count in (1, 2, 3, 4):
        with threads(count):
            found.append([y.tobytes() for y in executable(net.inputs)])
    assert all(outputs == found[0] for outputs in found)


@pytest.mark.parametrize("rows", [1, 2, 7, 31, 54, 90])
@pytest.mark.parametrize("of_columns", [False, True], ids=["rows", "columns"])
def test_a_row_s_bits_do_not_depend_on_the_number_of_rows(rows: int, of_columns: bool):
    """Weights are packed by a kernel or by each thread for itself: the sums are the same."""
    random = np.random.default_rng(rows)
    size, units = 300, 150
    arrays = {
        "x": random.normal(0, 1, (rows, size)),
        "w": random.normal(0, 1, (size, units) if of_columns else (units, size)),
        "b": random.normal(0, 1, units),
    }
    arrays = {n: a.astype(np.float32) for n, a in arrays.items()}
    w = call("transpose", var("w"), axes=(1, 0)) if of_columns else var("w")
    outputs = [call("FullyConnected", var("x"), w, var("b"), num_hidden=units)]
    (many,) = run_compiled(outputs, arrays)
    (fixed,) = run_compiled(outputs, arrays, ["w", "b"])
    assert many.tobytes() == fixed.tobytes()
    (last,) = run_compiled(outputs, {**arrays, "x": arrays["x"][-1:]})
    assert last.tobytes() == many[-1:].tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [17, 300, 2570])
def test_one_row_has_the_bits_of_two_and_packs_nothing(size: int, target: str):
    """Sums of partial sums included."""
    random = np.random.default_rng(size)
    arrays = {"x": (2, size), "w": (45, size), "b": (45,)}
    arrays = {n: random.normal(0, 1, shape).astype(np.float32) for n, shape in arrays.items()}
    outputs = [call("FullyConnected", var("x"), var("w"), var("b"), num_hidden=45)]
    with override(target=target):
        (two,) = run_compiled(outputs, arrays)
        first = {**arrays, "x": arrays["x"][:1]}
        executable = compiled(outputs, first)
        (one,) = executable([*first.values()])
        (spec,) = executable.code.kernels
    assert one.tobytes() == two[:1].tobytes()
    assert spec.in_place
    assert spec.scratch_floats(16) == 0


def test_both_ways_of_a_dense_layer_are_taken():
    taken = set()
    for rows in (2, 200):
        arrays = {"x": np.ones((rows, 300), np.float32), "w": np.ones((300, 150), np.float32)}
        taken |= set(kernels(compiled([call("dot", var("x"), var("w"))], arrays)))
    assert taken == {"matmul", "pack", "dense"}


def test_winograd_is_chosen_only_where_it_pays_with_its_transforms():
    """Filters of few places cost more to transform at a call than the products save."""
    chosen = {}
    for size in (3, 40):
        net = network(inside(conv(64, pad=(1, 1))), (1, 64, size, size))
        executable = compiled(net.outputs, net.arrays, net.params)
        chosen[size] = (kernels(executable), kernels(compiled(net.outputs, net.arrays)))
    assert "winograd" in chosen[40][0] and "filters" in chosen[40][1]
    assert "filters" not in chosen[3][1]


def test_batchnorm_does_not_scale_live_weights():
    """They would be scaled at every call: the results are, where they are computed."""
    x, w = np.ones((1, 3, 6, 6), np.float32), np.ones((8, 3, 3, 3), np.float32)
    arrays = {"x": x, "w": w, **{n: np.full(8, 0.5, np.float32) for n in ("g", "b", "m", "v")}}
    product = call("Convolution", var("x"), var("w"), kernel=(3, 3), num_filter=8, no_bias=True)
    outputs = [call("BatchNorm", product, *map(var, "gbmv"), fix_gamma=False)]
    plan = plan_of(outputs, arrays, list("gbmv"))
    (step,) = [step for step in plan.steps if step.kind == "conv"]
    assert [v.op.name for v in step.group.epilogue] == ["broadcast_mul", "broadcast_add"]
    found = run_compiled(outputs, arrays, list("gbmv"))
    assert_near(found, run_reference(outputs, arrays))
