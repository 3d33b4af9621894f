"""One compilation serves many sizes, with the bits of a compilation for each of them."""

from __future__ import annotations

import gc
import itertools
import random
import threading
import weakref

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit._core.config import config
from hybridjit.codegen.choices import Choices
from hybridjit.codegen.emit import generate, templates
from hybridjit.codegen.kinds import choose
from hybridjit.gluon import nn, rnn
from hybridjit.passes.plan import split_batch
from hybridjit.runtime import binding
from hybridjit.runtime.binding import Binding
from hybridjit.runtime.instance import INSTANCES, Instance
from hybridjit.runtime.profiling import Profiler
from hybridjit.runtime.sized_call import SizedInstance
from hybridjit.runtime.variant import Variants
from hybridjit.runtime.workspace import Workspace

pytestmark = pytest.mark.usefixtures("unoptimised_kernels")


class Recurrent(gluon.HybridBlock):
    """Embedding, LSTM and a dense layer for every step; data are (steps, samples)."""

    def __init__(self, make=rnn.LSTM, **kwargs):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.layer = make(20, **kwargs)
        self.dense = nn.Dense(5, flatten=False)

    def hybrid_forward(self, F, x):
        return self.dense(self.layer(self.embedding(x)))


class Attention(gluon.HybridBlock):
    """Self-attention of four heads on (samples, steps, 64)."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(64, flatten=False) for _ in range(4))
        self.norm = nn.LayerNorm()

    def hybrid_forward(self, F, x):
        def heads(dense):
            split = F.transpose(F.reshape(dense(x), shape=(0, 0, 4, -1)), axes=(0, 2, 1, 3))
            return F.reshape(split, shape=(-1, 0, 0), reverse=True)

        scores = F.batch_dot(heads(self.query), heads(self.key), transpose_b=True)
        mixed = F.batch_dot(F.softmax(scores * 0.25), heads(self.value))
        mixed = F.transpose(F.reshape(mixed, shape=(-1, 4, 0, 0), reverse=True), axes=(0, 2, 1, 3))
        return self.norm(self.out(F.reshape(mixed, shape=(0, 0, -1))) + x)


def applied(function):
    return lambda: nn.HybridLambda(function)


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(33, activation="relu"), nn.Dense(7))
    return net


def convolutions():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, activation="relu"), nn.MaxPool2D(2))
    net.add(nn.Conv2D(8, 3), nn.BatchNorm(), nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


NETS = {
    "mlp": (mlp, lambda n, t: (n, 20)),
    "convolutions, batch": (convolutions, lambda n, t: (n, 3, 16, 16)),
    "lstm": (Recurrent, lambda n, t: (t, 2)),
    "lstm, batch": (Recurrent, lambda n, t: (t, n)),
    "bidirectional gru": (
        lambda: Recurrent(rnn.GRU, bidirectional=True, num_layers=2),
        lambda n, t: (t, 3),
    ),
    "attention": (Attention, lambda n, t: (2, t, 64)),
    "attention, batch": (Attention, lambda n, t: (n, t, 64)),
    "suppression": (
        applied(lambda F, x: F.contrib.box_nms(x, overlap_thresh=0.3, topk=20, id_index=0)),
        lambda n, t: (n, t, 6),
    ),
    "softmax": (applied(lambda F, x: F.softmax(x)), lambda n, t: (n, 3, t)),
    "softmax across": (applied(lambda F, x: F.log_softmax(x, axis=1)), lambda n, t: (n, t, 5)),
    "softmax of many columns": (applied(lambda F, x: F.softmax(x, axis=0)), lambda n, t: (3, t)),
    "pointwise, transposed": (
        applied(lambda F, x: F.broadcast_mul(F.transpose(F.relu(x) + 1), F.ones((1, 1)))),
        lambda n, t: (n, t),
    ),
    "joined and cut": (
        applied(lambda F, x: F.concat(x, F.slice_axis(x, axis=1, begin=0, end=1) * 2, dim=1)),
        lambda n, t: (n, t),
    ),
    "products of activations": (
        applied(lambda F, x: F.linalg.gemm2(x, x, transpose_b=True) + F.batch_dot(x, x, 0, 1)),
        lambda n, t: (n, t, 24),
    ),
    "sums over products": (
        applied(lambda F, x: F.batch_dot(x, x, transpose_a=True)),
        lambda n, t: (n, t, 24),
    ),
    "one row of many": (
        applied(lambda F, x: F.batch_dot(F.slice_axis(x, axis=1, begin=0, end=1), x, 0, 1)),
        lambda n, t: (n, t, 24),
    ),
    "statistics of steps": (
        applied(
            lambda F, x: [
                F.sum(x, axis=1), F.max(x, axis=1), F.norm(x, axis=1), F.argmax(x, axis=1)
            ]
        ),
        lambda n, t: (n, t, 5),
    ),
    "statistics of rows": (
        applied(lambda F, x: [F.mean(x, axis=-1), F.argmin(x, axis=-1), *F.moments(x, axes=(2,))]),
        lambda n, t: (n, 3, t),
    ),
    "normalised pictures": (
        applied(
            lambda F, x: [
                F.InstanceNorm(x, F.ones((4,)), F.zeros((4,))),
                F.L2Normalization(x, mode="channel"), F.LRN(x, nsize=3),
            ]
        ),
        lambda n, t: (2, 4, n, t),
    ),
    "order": (
        applied(
            lambda F, x: [F.sort(x, axis=-1), F.argsort(x, axis=1), F.topk(x, ret_typ="value")]
        ),
        lambda n, t: (3, n, t),
    ),
    "by index": (
        applied(
            lambda F, x: [
                F.take(x, F.arange(3), axis=1, mode="wrap"), F.pick(x, F.sum(x, axis=1), axis=1),
                F.gather_nd(x, F.zeros((2, 3))), F.one_hot(x, depth=7),
            ]
        ),
        lambda n, t: (n, t, 6),
    ),
    "sequences": (
        applied(
            lambda F, x: [
                op(x, F.slice_axis(F.sum(x, axis=(0, 2)), axis=0, begin=0, end=3), True)
                for op in (F.SequenceMask, F.SequenceLast, F.SequenceReverse)
            ]
        ),
        lambda n, t: (t, 3, n),
    ),
}  # fmt: skip


def arrays(shape, seed):
    values = np.random.default_rng(seed).uniform(0, 49, shape).astype(np.float32)
    return nd.array(np.floor(values))


def results(net, x) -> list[np.ndarray]:
    found = net(x)
    return [y.asnumpy() for y in (found if isinstance(found, (list, tuple)) else [found])]


def compiled_of(net) -> int:
    (graph,) = [net._cached.graph]
    return graph.cache.compiled


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("seed", [1, 2])
def test_bits_are_those_of_the_specialised_executable_in_any_order(name, seed):
    make, shape = NETS[name]
    net = make()
    net.initialize(mx.init.Normal(0.3))
    sizes = [(1, 1), (2, 5), (3, 17), (8, 2), (5, 33), (13, 8), (64, 3), (2, 40)]
    inputs = [arrays(shape(*size), i) for i, size in enumerate(sizes)]
    net.hybridize(dynamic=False)
    expected = [results(net, x) for x in inputs]
    net.hybridize()
    order = list(range(len(inputs)))
    random.Random(seed).shuffle(order)
    for i in (*order, *reversed(order)):
        for mine, wanted in zip(results(net, inputs[i]), expected[i], strict=True):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("channels, most", [(3, 2), (2, 3)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pictures_that_differ_in_one_side_vary_in_both(layout, channels, most):
    net = applied(lambda F, x: F.Activation(x * 2, act_type="relu"))()
    net.hybridize()
    for height, width in ((36, 28), (36, 32), (24, 20), (32, 36)):
        sides = {"N": 1, "C": channels, "H": height, "W": width}
        net(arrays([sides[axis] for axis in layout], 0))
    assert compiled_of(net) == most


@pytest.mark.parametrize(
    "shapes, axes",
    [
        ([(4, 8, 5, 3), (4, 8, 7, 3)], [2]),
        ([(4, 64, 24, 24), (4, 64, 24, 3)], [3]),
        ([(4, 3, 8, 8), (4, 3, 8, 3)], [2, 3]),
        ([(4, 48, 64, 3), (4, 32, 64, 3)], [1, 2]),
    ],
)
def test_maps_of_width_three_are_no_pictures_with_the_channels_last(shapes, axes):
    """Otherwise the channels of a convolution become symbolic as if they were a height."""
    variants = Variants(["data"])
    assert variants._varying([(shape,) for shape in shapes]) == [(0, axis) for axis in axes]


@pytest.mark.parametrize(
    "name, most", [("mlp", 3), ("lstm", 3), ("convolutions, batch", 3), ("attention", 3)]
)
def test_many_sizes_need_few_compilations(name, most):
    make, shape = NETS[name]
    net = make()
    net.initialize()
    net.hybridize()
    for n, t in zip(range(1, 40), itertools.count(1)):
        net(arrays(shape(n, t), 0))
    assert compiled_of(net) <= most


def test_sums_of_a_reshaped_part_of_an_array_have_the_bits_of_fixed_sizes():
    """Reductions add in an order that depends on the strides of the part."""

    def sums(F, x):
        part = F.exp(x)
        return F.concat(part, F.sin(x), dim=3), F.sum(F.reshape(part, shape=(-1, 4)), axis=0)

    net, fixed = nn.HybridLambda(sums), nn.HybridLambda(sums)
    net.hybridize()
    fixed.hybridize(dynamic=False)
    for n in (32, 8, 14, 38, 64, 130):
        x = arrays((n, 3, 2, 1), n)
        for found, wanted in zip(net(x), fixed(x)):
            np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())
    assert compiled_of(net) <= 3


def test_nine_classes_of_axes_of_one_and_more_elements_keep_their_variants():
    """As do sizes of batch, prompt and cache of a decoder, which have 12."""
    net = nn.HybridLambda(lambda F, x, y: F.broadcast_add(F.exp(x), F.exp(y)))
    net.hybridize()
    counts = []
    for n in (4, 6, 9):
        rows, columns = ([(k, k), (1, k), (k, 1)] for k in (n, 2 * n + 1))
        for (a, b), (c, d) in itertools.product(rows, columns):
            net(nd.ones((a, c)), nd.ones((b, d)))
        counts.append(compiled_of(net))
    assert counts[1] == counts[2]


def test_pictures_larger_than_the_cache_share_the_variant_of_smaller_ones(monkeypatch):
    monkeypatch.setattr(split_batch, "_CACHE_BYTES", 1 << 13)
    net = convolutions()
    net.initialize()
    net.hybridize()
    for side in (8, 9, 10, 24, 32):
        net(arrays((1, 3, side, side), 0))
    assert compiled_of(net) == 2


def test_attention_of_fewer_rows_than_its_kernel_takes_shares_the_variant_of_short_keys():
    make, shape = NETS["attention"]
    net = make()
    net.initialize()
    net.hybridize(dynamic=True)
    for t in (40, 7, 90, 15, 16):
        net(arrays(shape(2, t), 0))
    assert compiled_of(net) == 1


def test_the_first_signature_is_compiled_for_itself():
    net = mlp()
    net.initialize()
    net.hybridize()
    for _ in range(3):
        net(arrays((4, 20), 0))
    assert net._cached.graph._latest.variant is None


def test_dynamic_true_compiles_for_all_sizes_at_once():
    net = mlp()
    net.initialize()
    net.hybridize(dynamic={"data": [0]})
    for n in (9, 12, 30):
        net(arrays((n, 20), 0))
    assert compiled_of(net) == 1


def test_weights_changed_between_sizes_take_effect_in_all_of_them():
    net = mlp()
    net.initialize()
    net.hybridize()
    inputs = [arrays((n, 20), n) for n in (8, 9, 17)]
    for x in inputs:
        net(x)
    for param in net.collect_params().values():
        param.set_data(param.data() * 2)
    found = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic=False)
    for x, mine in zip(inputs, found):
        np.testing.assert_array_equal(mine, net(x).asnumpy())


def test_a_size_that_the_graph_excludes_is_the_same_error_as_for_a_fixed_one():
    messages = []
    for dynamic in (None, False):
        net = nn.Conv2D(4, 5, prefix="window_")
        net.initialize()
        net.hybridize(dynamic=dynamic)
        for n in (6, 8, 9):
            assert net(nd.ones((2, 3, n, n))).shape == (2, 4, n - 4, n - 4)
        with pytest.raises(mx.MXNetError) as error:
            net(nd.ones((2, 3, 3, 3)))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def running_sums():
    """A loop is written out: there is code for each number of its rounds."""

    def summed(F, x):
        return F.contrib.foreach(lambda row, s: (row + s, row + s), x, F.zeros((3,)))[0]

    return nn.HybridLambda(summed)


def test_an_axis_with_a_required_size_compiles_per_size():
    net = running_sums()
    net.hybridize()
    for n in (5, 6, 7, 8, 9):
        x = np.random.default_rng(n).integers(0, 9, (n, 3)).astype(np.float32)
        np.testing.assert_array_equal(net(nd.array(x)).asnumpy(), np.cumsum(x, axis=0))
    assert compiled_of(net) == 5


def test_lengths_of_an_unrolled_loop_are_constants_and_the_log_names_it(caplog):
    net = running_sums()
    net.hybridize()
    for n in (5, 6, 7, 8, 9):
        net(nd.ones((n, 3)))
    assert "_foreach 'hybridlambda" in caplog.text
    assert "is unrolled) does not hold (s0 is axis 0 of 'data', 9 now)" in caplog.text


def test_other_sizes_of_an_unrolled_loop_are_symbolic():
    def counted(F, x):
        rows = F.contrib.foreach(lambda row, s: (F.broadcast_add(row, s), s + 1), x, F.zeros((1,)))
        return rows[0]

    net = nn.HybridLambda(counted)
    net.hybridize()
    for n in (2, 3, 5, 9, 16):
        x = np.random.default_rng(n).integers(0, 9, (4, n)).astype(np.float32)
        np.testing.assert_array_equal(net(nd.array(x)).asnumpy(), x + np.arange(4)[:, None])
    assert compiled_of(net) == 2


def test_the_length_of_a_loop_that_is_too_long_to_be_unrolled_is_symbolic():
    net = running_sums()
    net.hybridize()
    for n in (4001, 4003, 4010, 4100):
        np.testing.assert_array_equal(net(nd.ones((n, 3)))[:, 0].asnumpy(), np.arange(1, n + 1))
    assert compiled_of(net) == 2


@pytest.mark.parametrize("value", ["yes", 1, {"data": 0}, {"data": (-1,)}, {3: (0,)}])
def test_dynamic_is_checked(value):
    with pytest.raises(ValueError, match="dynamic is True, False, None or axes"):
        mlp().hybridize(dynamic=value)


def test_an_unknown_input_in_dynamic_is_named_at_the_first_call():
    net = mlp()
    net.initialize()
    net.hybridize(dynamic={"x": [0]})
    with pytest.warns(UserWarning, match="'x' is not an input of the network; it has data"):
        net(nd.ones((3, 5)))


def test_no_output_of_a_size_is_written_by_another():
    """Executables of one variant work in the same memory: results are the caller's to keep."""
    net = convolutions()
    net.initialize()
    net.hybridize()
    inputs = [arrays((n, 3, 16, 16), n) for n in (2, 3, 4, 3, 2)]
    kept = [(net(x), x) for x in inputs]
    copies = [out.asnumpy().copy() for out, _ in kept]
    for (out, x), copy in zip(kept, copies):
        np.testing.assert_array_equal(out.asnumpy(), copy)
        np.testing.assert_array_equal(net(x).asnumpy(), copy)


def layer(*args, kind=nn.Conv2D, **kwargs):
    return lambda: sequence(kind(*args, **kwargs))


def sequence(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    return net


def grouped():
    return sequence(
        nn.Conv2D(32, 3, padding=1),
        nn.Conv2D(32, 3, padding=1, groups=2),
        nn.Conv2D(32, 3, padding=1, groups=8),
    )


def depthwise(*args, **kwargs):
    return lambda: sequence(nn.Conv2D(40, 1), nn.Conv2D(40, *args, groups=40, **kwargs))


def pooled(pool, **kwargs):
    return lambda: sequence(nn.Conv2D(20, 1), pool(**kwargs))


IMAGES = {
    "3x3": layer(32, 3, padding=1),
    "3x3 without padding": layer(16, 3),
    "3x3 stride 2": layer(24, 3, 2, 1),
    "9x9 stride 3, few channels": layer(5, 9, 3, 4),
    "dilated": layer(32, 3, padding=2, dilation=2),
    "grouped": grouped,
    "1x1": layer(40, 1),
    "1x1 stride 2": layer(40, 1, 2),
    "1x1 by Strassen": lambda: sequence(nn.Conv2D(64, 1), nn.Conv2D(70, 1)),
    "depthwise": depthwise(3, padding=1),
    "depthwise stride 2": depthwise(3, 2, 1),
    "depthwise 5x5 dilated": depthwise(5, padding=3, dilation=2),
    "depthwise of many channels": lambda: sequence(
        nn.Conv2D(96, 1), nn.Conv2D(96, 3, padding=1, groups=96)
    ),
    "transposed": lambda: sequence(
        nn.Conv2D(16, 3, padding=1), nn.Conv2DTranspose(24, 4, 2, 1), nn.Conv2DTranspose(8, 2, 2)
    ),
    "max pooling": pooled(nn.MaxPool2D, pool_size=3, strides=2),
    "max pooling, full": pooled(nn.MaxPool2D, pool_size=3, strides=2, ceil_mode=True),
    "average pooling": pooled(nn.AvgPool2D, pool_size=3, strides=2, padding=1),
    "average pooling, inside": pooled(
        nn.AvgPool2D, pool_size=3, strides=1, padding=1, count_include_pad=False
    ),
    "scaled by 1.5 and 0.75": lambda: applied(
        lambda F, x: F.contrib.BilinearResize2D(x, scale_height=1.5, scale_width=0.75)
    )(),
    "scaled, odd": lambda: applied(
        lambda F, x: F.contrib.BilinearResize2D(
            x, scale_height=2, scale_width=2.5, mode="odd_scale"
        )
    )(),
    "samples": lambda: applied(
        lambda F, x: F.BilinearSampler(x, F.tanh(F.slice_axis(x, axis=1, begin=0, end=2)))
    )(),
    "regions": lambda: applied(
        lambda F, x: F.contrib.ROIAlign(
            x, F.reshape(F.arange(20), shape=(4, 5)) % 20, pooled_size=(3, 4), spatial_scale=0.9
        )
    )(),
    "global average": pooled(nn.GlobalAvgPool2D),
    "global maximum": pooled(nn.GlobalMaxPool2D),
}
SIZES = [(24, 31), (16, 16), (17, 40), (33, 12), (48, 25), (10, 64)]


def test_a_scale_is_rounded_to_single_precision_at_every_size():
    net = applied(lambda F, x: F.contrib.BilinearResize2D(x, scale_height=0.7, scale_width=0.7))()
    net.hybridize()
    found = [net(arrays((1, 1, size, size), 0)).shape[2:] for size in (10, 20, 30)]
    assert found == [(7, 7), (14, 14), (21, 21)]  # in double precision 6, 13, 20


@pytest.mark.parametrize("name", IMAGES)
def test_one_compilation_serves_images_of_all_sizes_with_the_bits_of_each(name):
    net = IMAGES[name]()
    net.initialize(mx.init.Normal(0.3))
    inputs = [arrays((2, 3, *size), i) / 50 for i, size in enumerate(SIZES)]
    net.hybridize(dynamic=False)
    expected = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic={"data": [2, 3]})
    for i in (*range(len(inputs)), *reversed(range(len(inputs)))):
        np.testing.assert_array_equal(net(inputs[i]).asnumpy(), expected[i])
    assert compiled_of(net) <= 2  # small results are computed otherwise than large ones


def test_choices_that_change_bits_are_made_for_each_size():
    """Tiles of Winograd's algorithm depend on the size, and so do the bits of a result."""
    net = layer(128, 3, padding=1, in_channels=128)()
    net.initialize(mx.init.Normal(0.3))
    sizes = [7, 12, 14, 16, 20, 28, 30, 33]
    inputs = [arrays((1, 128, n, n), n) / 50 for n in sizes]
    net.hybridize(dynamic=False)
    expected = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic={"data": [2, 3]})
    for x, wanted in zip(inputs, expected):
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)
    assert compiled_of(net) == 1


def test_steps_with_the_same_choice_are_chosen_once(monkeypatch):
    """Of a second template, only steps whose kernels have other bits."""
    chosen = []
    monkeypatch.setattr(
        generate, "choose", lambda step, setting: chosen.append(step.name) or choose(step, setting)
    )
    net = sequence(nn.Conv2D(128, 3, padding=1), nn.MaxPool2D(2), nn.Conv2D(40, 3, padding=1))
    net.initialize(mx.init.Normal(0.3))
    inputs = [arrays((1, 128, n, n), n) / 50 for n in (12, 14, 16, 30)]
    net.hybridize(dynamic=False)
    expected = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic={"data": [2, 3]})
    counts = []
    for x, wanted in zip(inputs, expected):
        chosen.clear()
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)
        counts.append(len(chosen))
    assert compiled_of(net) == 1
    assert max(counts[1:]) < counts[0]


def test_compilations_and_sizes_are_counted():
    net = mlp()
    net.initialize()
    net.hybridize()
    before = mx.compile_stats()
    for n in (9, 12, 30, 12, 40):
        net(arrays((n, 20), 0))
    after = mx.compile_stats()
    counts = {name: after[name] - before[name] for name in after}
    assert (counts["compilations"], counts["variants"], counts["new_sizes"]) == (2, 1, 2)
    assert counts["evictions"] == 0 and counts["seconds"] > 0


def test_many_classes_of_sizes_are_said_once(caplog):
    net = applied(lambda F, x: F.LRN(x, nsize=3))()
    net.hybridize()
    for n in range(3, 23):
        net(nd.array(np.arange(4 * n).reshape(1, n, 2, 2)))
    said = [record.message for record in caplog.records if "classes of sizes" in record.message]
    assert len(said) == 1 and "17 classes of sizes: s0 = 20 need" in said[0]
    assert "s0 == 20" in said[0]


def test_choices_of_kernels_are_classes_of_one_variant(capsys, monkeypatch):
    """Few rows and many are computed by other kernels: neither the graph nor the plan differs."""
    monkeypatch.setattr(config, "explain", True)
    net = mlp()
    net.initialize()
    net.hybridize(dynamic={"data": [0]})
    before = mx.compile_stats()
    for n in (30, 9, 4, 5, 31):
        net(arrays((n, 20), 0))
    after = mx.compile_stats()
    assert after["compilations"] - before["compilations"] == 1
    assert after["classes"] - before["classes"] == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "kernels for" in line]
    assert len(said) == 1 and "s0 = 4: s0 < 8" in said[0]


def test_a_variant_is_explained_with_its_guards(capsys, monkeypatch):
    monkeypatch.setattr(config, "explain", True)
    net = mlp()
    net.initialize()
    net.hybridize(dynamic={"data": [0]})
    net(arrays((30, 20), 0))
    (said,) = [s for s in capsys.readouterr().err.splitlines() if "a variant for" in s]
    assert "data f32[s0,20]: s0 > 1" in said and "==" not in said


@pytest.mark.parametrize("threads", [1, 3])
def test_states_in_16_bits_take_the_length_from_the_call(threads):
    net = sequence(nn.Embedding(30, 12), rnn.LSTM(40, 2, bidirectional=True))
    net.initialize(mx.init.Normal(0.3))
    inputs = [arrays((t, n), t) % 30 for t, n in ((9, 8), (12, 9), (30, 8), (17, 33), (2, 64))]
    net.hybridize(dynamic=False, precision="bfloat16")
    expected = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic={"data": [0, 1]}, precision="bfloat16")
    before = mx.compile_stats()["classes"]
    with mx.threads(threads):
        for x, wanted in zip(inputs, expected):
            np.testing.assert_array_equal(net(x).asnumpy(), wanted)
    assert mx.compile_stats()["classes"] - before <= 1


def test_equal_sizes_of_unlike_axes_are_no_guard():
    net = Recurrent()
    net.initialize()
    net.hybridize()
    for t, n in ((9, 4), (7, 7), (12, 5), (6, 6), (5, 8)):
        net(arrays((t, n), 0))
    assert compiled_of(net) == 2


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("axes", [(0, 2), (0,)])
def test_means_divide_by_the_count_of_a_call(dtype, axes):
    """35 x 75 and 2051 have no float16, in which a mean would be divided by 2624 or 2052."""

    class Mean(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.mean(x, axis=axes)

    nets = Mean(), Mean()
    for net, dynamic in zip(nets, ({"data": [0]}, False)):
        net.hybridize(dynamic=dynamic)
    for n in (11, 35, 2051, 2053):
        x = nd.array(np.random.default_rng(n).random((n, 8, 75)) + 0.5, dtype=dtype)
        sized, fixed = (net(x).asnumpy() for net in nets)
        np.testing.assert_array_equal(sized, fixed)
        expected = x.asnumpy().astype(np.float64).mean(axes)
        np.testing.assert_allclose(fixed, expected, rtol=max(1e-5, np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_gradient_of_a_mean_takes_its_factor_from_the_sizes(dtype):
    """One variant serves all counts, and rounds the factor as NumPy does."""

    class Mean(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.mean(x, axis=0)

    net, head = Mean(), np.dtype(dtype).type(0.7371)
    net.hybridize(dynamic=True)
    before = mx.compile_stats()["compilations"]
    for n in (3, 35, 521, 999, 2051, 9973, 70001):
        x = nd.ones((n, 1), dtype=dtype)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward(nd.array([head], dtype=dtype))
        factor = np.dtype(dtype).type(1 / n)
        np.testing.assert_array_equal(x.grad.asnumpy(), np.full((n, 1), head * factor))
    assert mx.compile_stats()["compilations"] - before == 1


def test_templates_of_one_variant_are_bounded(monkeypatch):
    """Released code is freed, and compiled again with the same bits."""
    monkeypatch.setattr(templates, "_MOST_TEMPLATES", 1)
    link, made = templates.link_template, []

    def linked(*args):
        template = link(*args)
        made.append(weakref.ref(template))
        return template

    monkeypatch.setattr(templates, "link_template", linked)
    net = layer(128, 3, padding=1, in_channels=128)()
    net.initialize(mx.init.Normal(0.3))
    net.hybridize(dynamic={"data": [2, 3]}, cache_size=1)
    inputs = [arrays((1, 128, n, n), n) / 50 for n in (7, 16, 33)]
    first = [net(x).asnumpy() for x in inputs]
    for x, wanted in zip(inputs, first):
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)
    (variants,) = net._cached.graph._variants.values()
    (variant,) = variants.variants
    assert [len(each.templates) for each in variant._templates._classes] == [1]
    gc.collect()
    (kept,) = (found for ref in made if (found := ref()) is not None)
    assert len(made) > 3 and kept.pattern is not None


def test_a_further_template_evaluates_each_choice_once(monkeypatch):
    """Steps whose choices depend on the same numbers share a key, and the class is not made again.

    What a further class packs is in small pages, because a call waits for it; then they may become
    huge ones.
    """
    net = sequence(*(nn.Conv2D(64, 3, padding=1, in_channels=64) for _ in range(6)))
    net.initialize(mx.init.Normal(0.1))
    net.hybridize(dynamic={"data": [2, 3]})
    net(arrays((1, 64, 40, 40), 0))
    keys, classes, pages = [], [], []
    key_of, made, prepare = Choices.key_of, templates._Class.__init__, Binding.prepare

    def noted_key(self, note):
        keys.append(note.same not in self._known)
        return key_of(self, note)

    monkeypatch.setattr(Choices, "key_of", noted_key)
    monkeypatch.setattr(
        templates._Class, "__init__", lambda self, *a: (classes.append(a), made(self, *a))[0]
    )
    monkeypatch.setattr(
        Binding, "prepare", lambda self, *a, **k: (pages.append(k), prepare(self, *a, **k))[1]
    )
    packed = []
    monkeypatch.setattr(binding, "allow_huge_pages", packed.append)
    net(arrays((1, 64, 5, 5), 0))
    assert len(keys) >= 6 and sum(keys) == 1
    assert not classes and pages == [{"in_small_pages": True}]
    assert len(packed) == 6 and all(array.any() for array in packed)


def specs_of_templates(monkeypatch):
    """The specs, as lines, of each template that is linked from now on."""
    link, made = templates.link_template, []

    def linked(plan, calls, scope, bind):
        made.append([str(call.spec) for row in calls for call in row])
        return link(plan, calls, scope, bind)

    monkeypatch.setattr(templates, "link_template", linked)
    return made


def require_bits_of_fixed_sizes(net, shapes, **options):
    """Compare the bits of a variant with those of executables for each shape."""
    net.hybridize(dynamic={"data": [2, 3]}, **options)
    inputs = [arrays(shape, shape[2]) / 50 for shape in shapes]
    found = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic=False, **options)
    for x, one in zip(inputs, found):
        np.testing.assert_array_equal(net(x).asnumpy(), one)


def test_layers_with_other_channels_share_the_kernels_of_a_variant(monkeypatch):
    """Channels are arguments where they fill the tiles; the bits are those of constant ones."""
    made = specs_of_templates(monkeypatch)
    net = sequence(
        *(nn.Conv2D(n, 1, activation="relu") for n in (64, 64, 128)),
        *(nn.Conv2D(128, 3, padding=1, groups=128), nn.Conv2D(256, 1, activation="relu")),
        nn.Conv2D(256, 3, padding=1, groups=256),
    )
    net.initialize(mx.init.Normal(0.1))
    require_bits_of_fixed_sizes(net, [(2, 8, 40, 56), (2, 8, 13, 31)], winograd=False)
    for kind in ("conv", "depthwise"):
        specs = [spec for spec in made[0] if spec.split()[0] == kind]
        assert 2 * len(set(specs)) == len(specs), specs


def test_layers_by_strassens_algorithm_share_one_kernel(monkeypatch):
    """Channels, filters and the size of a block are arguments; odd numbers of pixels as well."""
    made = specs_of_templates(monkeypatch)
    net = sequence(*(nn.Conv2D(n, 1, activation="relu") for n in (128, 256, 512, 256)))
    net.initialize(mx.init.Normal(0.1))
    shapes = [(2, 128, 14, 15), (1, 128, 9, 7), (1, 128, 2, 3), (2, 128, 23, 27), (1, 128, 1, 2)]
    require_bits_of_fixed_sizes(net, shapes, winograd="always")
    specs = [spec for spec in made[0] if spec.startswith("strassen")]
    assert len(specs) == 4 and len(set(specs)) == 2, specs  # the first reads channels first


@pytest.mark.parametrize("winograd", [True, "always"])
def test_windows_along_a_line_share_one_kernel_for_all_numbers_of_tiles(monkeypatch, winograd):
    """Channels, filters and blocks are arguments; the last rows fill small register tiles."""
    made = specs_of_templates(monkeypatch)
    net = sequence(*(nn.Conv1D(n, 3, activation="relu") for n in (64, 128, 96)))
    net.initialize(mx.init.Normal(0.1))
    net.hybridize(dynamic={"data": [0, 2]}, winograd=winograd)
    shapes = [(n, 32, length) for n in (1, 3) for length in (7, 23, 31, 60, 100, 187, 410)]
    inputs = [arrays(shape, shape[2]) / 50 for shape in shapes]
    found = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic=False, winograd=winograd)
    for x, one in zip(inputs, found):
        np.testing.assert_array_equal(net(x).asnumpy(), one)
    specs = {spec for one in made for spec in one if spec.startswith("winograd")}
    tiles = {spec.split()[1] for spec in specs}
    assert specs and all(" tail=" in spec for spec in specs), specs
    assert len(specs) <= 2 * len(tiles), specs  # one or two vectors of filters


def test_a_further_size_counts_without_the_code_and_the_plan_of_its_variant():
    """Hundreds of sizes are kept: a decoder's cache of keys and values has a new one each token."""
    net = mlp()
    net.initialize()
    net.hybridize()
    for n in (9, 12, 30):
        net(arrays((n, 20), 0))
    alone, *others = net._cached.graph.cache._entries.values()
    assert all(4 * other.nbytes < alone.nbytes for other in others)


def test_further_lengths_and_batches_share_instances():
    """The steps of a template with repeated calls, and initial states, depend on the sizes."""
    net = Recurrent()
    net.initialize()
    net.hybridize()
    sizes = [(9, 7), (12, 3), (60, 5), (50, 4), (30, 6), (9, 5), (60, 4), (5, 3), (31, 6), (12, 3)]
    for t, n in sizes[:4]:
        net(arrays((t, n), 0))
    before = set(INSTANCES)
    found = [net(arrays(size, 1)).asnumpy() for size in sizes]
    assert set(INSTANCES) <= before
    net.embedding.weight.set_data(net.embedding.weight.data() * 2)
    found += [net(arrays(size, 1)).asnumpy() for size in reversed(sizes)]
    net.hybridize(dynamic=False)
    again = [net(arrays(size, 1)).asnumpy() for size in reversed(sizes)]
    net.embedding.weight.set_data(net.embedding.weight.data() / 2)
    wanted = [net(arrays(size, 1)).asnumpy() for size in sizes]
    for one, other in zip(found, [*wanted, *again], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make, sizes", [(Recurrent, (9, 12, 30)), (Attention, (9, 40, 17))])
def test_machine_code_and_numpy_make_the_same_tables_for_further_sizes(make, sizes):
    net = make()
    net.initialize()
    net.hybridize()
    shapes = [(n, 3) if make is Recurrent else (2, n, 64) for n in sizes]
    for shape in shapes:
        net(arrays(shape, 0))
    call = net._cached.graph.cache._entries.popitem()[1].executable
    whole, workspace = call.whole(), Workspace(call.room, 1)
    wanted = Instance(whole, call.binding, 1, workspace)
    found = SizedInstance(call, call.binding, workspace)
    found.write_for(call, call.binding)
    steps, slots, filled = call.lengths
    assert (steps, slots, filled) == tuple(map(len, (wanted._steps, wanted.slots, wanted._places)))
    np.testing.assert_array_equal(found._places[:filled], wanted._places)
    np.testing.assert_array_equal(found._steps[:steps, [0, 2]], wanted._steps[:, [0, 2]])
    begins = [(i._steps[:steps, 1] - i.slots.ctypes.data).tolist() for i in (found, wanted)]
    assert begins[0] == begins[1]
    np.testing.assert_array_equal(found.slots[:slots], wanted.slots)


@pytest.mark.parametrize("kind", [nn.GlobalAvgPool2D, nn.GlobalMaxPool2D])
@pytest.mark.parametrize("width", [9, 10, 13, 16, 17])
def test_pooling_of_wide_windows_of_one_channel_reads_each_element_once(kind, width):
    net = kind()
    net.hybridize()
    x = np.random.default_rng(width).normal(size=(2, 1, 3, width)).astype(np.float32)
    reduced = np.mean if kind is nn.GlobalAvgPool2D else np.max
    expected = reduced(x, axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(net(nd.array(x)).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_constant_number_of_windows_over_a_symbolic_width():
    net = nn.HybridLambda(
        lambda F, x: F.Convolution(
            x, F.ones((2, 3, 1, 3)), kernel=(1, 3), stride=(1, 50), pad=(0, 1), num_filter=2,
            no_bias=True,
        )
    )  # fmt: skip
    shapes = [(1, 3, 4, n) for n in (5, 6, 9, 20)]
    net.hybridize(dynamic=False)
    expected = [net(arrays(shape, 0)).asnumpy() for shape in shapes]
    net.hybridize()
    for shape, wanted in zip(shapes, expected):
        np.testing.assert_array_equal(net(arrays(shape, 0)).asnumpy(), wanted)


def test_an_error_of_the_compiler_for_a_class_of_sizes_is_logged(monkeypatch, caplog):
    """These sizes are compiled alone, with the right numbers, and the log says why."""
    net = nn.Dense(3, in_units=5)
    net.initialize()
    net.hybridize()
    for rows in (2, 3):
        net(nd.ones((rows, 5)))
    (variant,) = net._cached.graph.variants()

    def fails(sizes):
        raise LookupError("no such kernel")

    monkeypatch.setattr(variant._templates, "prepare", fails)
    found = net(nd.ones((9, 5))).asnumpy()
    np.testing.assert_array_equal(found, np.repeat(found[:1], 9, 0))
    assert "because of a bug in hybridjit: LookupError('no such kernel')" in caplog.text


def test_further_sizes_share_the_instances_of_a_template():
    net = mlp()
    net.initialize()
    net.hybridize()
    inputs = [arrays((n, 20), n) for n in (9, 12, 30, 14, 200, 13, 30, 40)]
    for x in inputs[:5]:
        net(x)
    gc.collect()
    before = set(INSTANCES)
    found = [net(x).asnumpy() for x in (*inputs, *reversed(inputs))]
    assert set(INSTANCES) <= before
    net.hybridize(dynamic=False)
    for x, y in zip((*inputs, *reversed(inputs)), found):
        np.testing.assert_array_equal(y, net(x).asnumpy())


def test_idle_instances_of_replaced_parameters_are_freed():
    net = mlp()
    net.initialize()
    net.hybridize()
    inputs = [arrays((n, 20), n) for n in (9, 12, 30)]
    for x in inputs:
        net(x)
    (variants,) = net._cached.graph._variants.values()
    variant = variants.variants[0]
    pattern = variant._templates.entry((30,))[0].pattern
    other = pattern.idle.pop()
    net(inputs[-1])
    pattern.idle.insert(0, other)  # as after two calls at once
    net[0].weight.set_data(net[0].weight.data() * 2)
    net(inputs[-1])
    (kept,) = pattern.idle
    assert kept.binding is not other.binding


@pytest.mark.parametrize("sizes", [(4000, 4001, 4002), (4000, 4001)])
def test_idle_workspaces_free_replaced_parameters(sizes):
    """Of a further size, and of an executable."""
    net = mlp()
    net.initialize()
    net.hybridize()
    inputs = [arrays((n, 20), n) for n in sizes]
    for x in inputs:
        net(x)
    (variants,) = net._cached.graph._variants.values()
    turns = variants.variants[0]._turns
    other = turns._idle.pop()
    net(inputs[-1])
    turns._idle.insert(0, other)  # as after two calls at once
    net[0].weight.set_data(net[0].weight.data() * 2)
    net(inputs[-1])
    first, last = ([*each.instances.values()] for each in turns._idle)
    assert last and not first


def test_a_further_size_is_bound_checked_and_profiled_as_the_first(monkeypatch):
    net = mlp()
    net.initialize()
    net.hybridize()
    inputs = [arrays((n, 20), n) for n in (9, 12, 30)]
    wanted = [net(x).asnumpy() for x in inputs][-1]
    call = net.bind(inputs[-1])
    np.testing.assert_array_equal(call().asnumpy(), wanted)
    monkeypatch.setattr(config, "check", True)
    np.testing.assert_array_equal(net(inputs[-1]).asnumpy(), wanted)
    monkeypatch.setattr(config, "check", False)
    net[0].weight.set_data(net[0].weight.data() * 2)
    net[0].bias.set_data(net[0].bias.data() * 0)
    changed = [net(x).asnumpy() for x in inputs]
    net.hybridize(dynamic=False)
    for x, y in zip(inputs, changed):
        np.testing.assert_array_equal(y, net(x).asnumpy())


def test_all_steps_of_a_recurrent_layer_are_profiled_at_a_further_size():
    """A symbolic number of steps is one repeated call, whose rounds are timed apart."""
    net = Recurrent()
    net.initialize()
    found = []
    for dynamic in (None, False):
        net.hybridize(dynamic=dynamic)
        for t in (5, 9, 12):
            x = arrays((t, 2), 0)
            net(x)
        executable = net._cached.graph.compiled_for([x])
        inputs, outputs = [x._data], [np.empty(*t) for t in executable.output_types]
        parts = Profiler(executable, inputs, outputs).profile(0.01).parts
        found.append([(part.step.kind, int(part.call.work)) for part in parts])
    assert found[0] == found[1]
    assert sum(kind == "recurrent" for kind, _ in found[0]) == 12


def test_threads_call_one_network_at_different_sizes():
    net = mlp()
    net.initialize()
    net.hybridize(dynamic=False)
    inputs = [arrays((n, 24), n) for n in range(1, 25)]
    wanted = [net(x).asnumpy() for x in inputs]
    net.hybridize()
    wrong = []

    def work(seed):
        order = random.Random(seed)
        for _ in range(60):
            number = order.randrange(len(inputs))
            if not np.array_equal(net(inputs[number]).asnumpy(), wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_over_many_sizes_is_bounded(monkeypatch):
    monkeypatch.setattr("hybridjit.runtime.cache.KEPT_BYTES", 1 << 20)
    net = mlp()
    net.initialize()
    net.hybridize()
    gc.collect()
    before = mx.memory_stats()
    for n in range(1, 1001):
        net(nd.zeros((n, 24)))
    cache = net._cached.graph.cache
    assert cache._nbytes == sum(entry.nbytes for entry in cache._entries.values()) <= 1 << 20
    gc.collect()
    after = mx.memory_stats()
    assert after["executables"] - before["executables"] <= len(cache) < 700
    assert after["arena_bytes"] - before["arena_bytes"] < 16 << 20


def test_the_arguments_of_each_time_step_count_as_memory_of_a_size():
    """Without them 2,000 lengths of a training step took 900 MB instead of 256 and the rest."""
    net = Recurrent()
    net.initialize()
    net.hybridize()
    inputs = [arrays((t, 2), 0) for t in (5, 20, 420)]
    for x in inputs:
        net(x)
    short, long = (net._cached.graph.compiled_for([x]) for x in inputs[1:])
    added = sum(long.code.image.counts) - sum(short.code.image.counts)
    assert added >= 400
    own = [run.nbytes - run.room.nbytes * (run._turns is None) for run in (short, long)]
    assert own[1] - own[0] >= long.tables.nbytes - short.tables.nbytes > 8 * added


def encoder():
    """An attention layer, and dense layers that Strassen's algorithm computes at some lengths."""
    net = nn.HybridSequential()
    net.add(Attention(), nn.Dense(256, flatten=False, activation="relu"))
    net.add(nn.Dense(64, flatten=False))
    return net


def filters():
    """Tiles of Winograd's algorithm that depend on the size, windows with a stride, pooling."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, in_channels=16, activation="relu"), nn.MaxPool2D(2))
    net.add(nn.Conv2D(64, 3, strides=2, padding=1), nn.Conv2D(64, 1), nn.GlobalAvgPool2D())
    return net


@pytest.mark.parametrize(
    "make, shapes",
    [
        (encoder, [(1, t, 64) for t in (60, 90, 33, 130, 61)]),
        (filters, [(1, 16, h, w) for h, w in ((40, 56), (48, 40), (64, 64), (41, 57), (50, 33))]),
        (Recurrent, [(t, 16) for t in (30, 25, 40, 8, 33)]),
    ],
    ids=["encoder", "filters", "recurrent"],
)
@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
def test_sizes_that_vary_have_the_same_bits_for_any_number_of_threads(make, shapes, is_training):
    scale = 1 if make is Recurrent else 50
    inputs = [arrays(shape, sum(shape)) / scale for shape in shapes]
    mx.random.seed(3)
    net = make()
    net.initialize(mx.init.Normal(0.3))
    found = []
    for threads in (1, 2, 3):
        net.hybridize()
        with mx.threads(threads):
            found.append([outcome(net, x, is_training) for x in inputs])
    assert compiled_of(net) < len(shapes)
    for others in found[1:]:
        for one, other in zip(found[0], others):
            for a, b in zip(one, other):
                np.testing.assert_array_equal(a, b)


def outcome(net, x, is_training) -> list[np.ndarray]:
    """The output, and in training the gradients of the parameters."""
    if not is_training:
        return results(net, x)
    with autograd.record():
        y = net(x)
    y.backward()
    return [y.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values())]


@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
def test_channels_that_vary_together_with_a_side_leave_the_choice_of_kernels(is_training):
    """A picture with three columns makes the axis of channels symbolic as well."""
    mx.random.seed(3)
    net = nn.Conv2D(1, 4, padding=3, in_channels=8)
    net.initialize(mx.init.Normal(0.3))
    inputs = [arrays((4, 8, side, side), side) / 50 for side in (34, 3, 37, 25, 27, 13)]
    net.hybridize(dynamic=False)
    wanted = [outcome(net, x, is_training) for x in inputs]
    net.hybridize()
    for x, expected in zip(inputs, wanted):
        for a, b in zip(outcome(net, x, is_training), expected):
            np.testing.assert_array_equal(a, b)
