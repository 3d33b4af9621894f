"""Detectors over image sizes: few compilations, with the bits of a compilation for each size."""

from __future__ import annotations

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit.gluon import nn

pytestmark = pytest.mark.usefixtures("unoptimised_kernels")

CLASSES, WIDTH = 3, 8
SIZES = [(97, 120), (128, 96), (150, 111), (96, 96)]


def sequence(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    return net


def unit(channels, kernel=3, stride=1):
    conv = nn.Conv2D(channels, kernel, stride, kernel // 2, use_bias=False)
    return sequence(conv, nn.BatchNorm(), nn.Activation("relu"))


class SSD(gluon.HybridBlock):
    """Anchors of three scales, detection by MXNet's operators."""

    def __init__(self):
        super().__init__()
        first = sequence(unit(WIDTH, 3, 2), unit(WIDTH, 3, 2), unit(2 * WIDTH, 3, 2))
        self.stages = sequence(first, unit(2 * WIDTH, 3, 2), unit(2 * WIDTH, 3, 2))
        self.scores = sequence(*(nn.Conv2D(4 * (CLASSES + 1), 3, padding=1) for _ in range(3)))
        self.boxes = sequence(*(nn.Conv2D(16, 3, padding=1) for _ in range(3)))

    def hybrid_forward(self, F, x):
        scores, boxes, anchors = [], [], []
        for i, layers in enumerate(zip(self.stages, self.scores, self.boxes)):
            x = layers[0](x)
            for found, layer in zip((scores, boxes), layers[1:]):
                found.append(F.flatten(F.transpose(layer(x), axes=(0, 2, 3, 1))))
            sizes = (0.1 + 0.2 * i, 0.15 + 0.2 * i)
            prior = F.contrib.MultiBoxPrior(x, sizes=sizes, ratios=(1, 2, 0.5))
            anchors.append(F.reshape(prior, shape=(1, -1)))
        chances = F.softmax(F.reshape(F.concat(*scores, dim=1), shape=(0, -1, CLASSES + 1)))
        return F.contrib.MultiBoxDetection(
            F.transpose(chances, axes=(0, 2, 1)), F.concat(*boxes, dim=1),
            F.reshape(F.concat(*anchors, dim=1), shape=(1, -1, 4)), threshold=0.1, nms_topk=50,
        )  # fmt: skip


class YOLO(gluon.HybridBlock):
    """Two scales: the coarse one is enlarged, cut to the fine one and joined to it; offsets of
    cells are a constant that is cut too.
    """

    def __init__(self):
        super().__init__()
        self.stages = sequence(
            sequence(unit(WIDTH, 3, 2), unit(WIDTH, 3, 2), unit(WIDTH, 3, 2)), unit(WIDTH, 3, 2)
        )
        self.tips = sequence(unit(WIDTH, 1), unit(WIDTH, 1))
        self.heads = sequence(*(nn.Conv2D(2 * (5 + CLASSES), 1) for _ in range(2)))
        down, across = np.meshgrid(np.arange(32), np.arange(32), indexing="ij")
        cells = np.stack([across, down], -1)[None, None].astype(np.float32)
        self.cells = self.params.get_constant("cells", cells)

    def hybrid_forward(self, F, x, cells):
        fine = self.stages[0](x)
        coarse = self.tips[0](self.stages[1](fine))
        cut = F.slice_like(F.UpSampling(coarse, scale=2, sample_type="nearest"), fine, axes=(2, 3))
        tips = coarse, self.tips[1](F.concat(cut, fine, dim=1))
        rows = [self._rows(F, *each, cells) for each in zip(tips, self.heads, (16, 8))]
        found = F.contrib.box_nms(F.concat(*rows, dim=1), topk=50, id_index=0, valid_thresh=0.01)
        return F.slice_axis(found, axis=1, begin=0, end=30)

    def _rows(self, F, tip, head, stride, cells):
        flat = F.transpose(F.reshape(head(tip), shape=(0, 2 * (5 + CLASSES), -1)), axes=(0, 2, 1))
        parts = F.reshape(flat, shape=(0, -1, 2, 5 + CLASSES))
        offsets = F.reshape(F.slice_like(cells, tip, axes=(2, 3)), shape=(1, -1, 1, 2))
        middle = F.sigmoid(F.slice_axis(parts, axis=-1, begin=0, end=2))
        middle = F.broadcast_add(middle, offsets) * stride
        size = F.exp(F.slice_axis(parts, axis=-1, begin=2, end=4)) * stride
        scores = F.sigmoid(F.slice_axis(parts, axis=-1, begin=4, end=None))
        best = F.max(scores, axis=-1, keepdims=True)
        kind = F.expand_dims(F.argmax(scores, axis=-1), axis=-1)
        rows = F.concat(kind, best, middle - size / 2, middle + size / 2, dim=-1)
        return F.reshape(rows, shape=(0, -1, 6))


class CenterNet(gluon.HybridBlock):
    """The largest values of a heat map, and the elements of other maps at their positions."""

    def __init__(self):
        super().__init__()
        self.features = sequence(
            unit(WIDTH, 3, 2), unit(WIDTH, 3, 2), unit(2 * WIDTH, 3, 2),
            nn.Conv2DTranspose(WIDTH, 4, 2, 1), nn.Activation("relu"),
        )  # fmt: skip
        self.heat, self.size = nn.Conv2D(CLASSES, 1), nn.Conv2D(2, 1)

    def hybrid_forward(self, F, x):
        y = self.features(x)
        heat = F.sigmoid(self.heat(y))
        peak = F.Pooling(heat, kernel=(3, 3), pad=(1, 1), pool_type="max")
        kept = F.reshape(heat * F.broadcast_equal(heat, peak), shape=(0, -1))
        scores, places = F.topk(kept, k=20, ret_typ="both")
        rows, columns = (
            F.cast(F.slice_axis(F.shape_array(heat), axis=0, begin=i, end=i + 1), dtype="float32")
            for i in (2, 3)
        )
        cell = F.broadcast_mod(places, rows * columns)
        sizes = F.reshape(F.transpose(self.size(y), axes=(0, 2, 3, 1)), shape=(0, -1, 2))
        samples = F.broadcast_add(F.zeros_like(cell), F.expand_dims(
            F.contrib.arange_like(cell, axis=0), axis=1
        ))  # fmt: skip
        found = F.gather_nd(sizes, F.stack(samples, cell, axis=0))
        middle = F.stack(
            F.broadcast_mod(cell, columns), F.floor(F.broadcast_div(cell, columns)), axis=2
        )
        return scores, F.concat(middle - found / 2, middle + found / 2, dim=2)


class RCNN(gluon.HybridBlock):
    """Regions that a network proposes at all cells, the best of which are pooled and classified."""

    def __init__(self):
        super().__init__()
        self.features = sequence(*(unit(2 * WIDTH, 3, 2) for _ in range(3)))
        self.proposals = sequence(unit(WIDTH), nn.Conv2D(3 * 5, 1))
        self.top = sequence(nn.Dense(4 * WIDTH, activation="relu"), nn.Dense(CLASSES + 1 + 4))

    def hybrid_forward(self, F, x):
        y = self.features(x)
        anchors = F.contrib.MultiBoxPrior(y, sizes=(0.2, 0.4), ratios=(1, 2))
        found = F.reshape(F.transpose(self.proposals(y), axes=(0, 2, 3, 1)), shape=(0, -1, 5))
        score = F.sigmoid(F.slice_axis(found, axis=2, begin=0, end=1))
        shift = 0.1 * F.slice_axis(found, axis=2, begin=1, end=5)
        rows = F.concat(score, F.broadcast_add(anchors, shift), dim=2)
        rows = F.contrib.box_nms(rows, overlap_thresh=0.6, topk=60, coord_start=1, score_index=0)
        best = F.slice_axis(rows, axis=1, begin=0, end=16)
        boxes = F.reshape(F.slice_axis(best, axis=2, begin=1, end=5), shape=(-1, 4))
        boxes = F.concat(F.zeros_like(F.slice_axis(boxes, axis=1, begin=0, end=1)), 90 * boxes)
        pooled = F.contrib.ROIAlign(y, boxes, pooled_size=(4, 4), spatial_scale=0.125)
        return self.top(pooled), boxes


@pytest.mark.parametrize("kind", [SSD, YOLO, CenterNet, RCNN])
def test_few_compilations_serve_all_sizes_with_the_bits_of_each(kind):
    net = kind()
    net.initialize(mx.init.Xavier())
    random = np.random.default_rng(0)
    images = [nd.array(random.normal(size=(1, 3, *size)).astype("float32")) for size in SIZES]
    net.hybridize(dynamic=False)
    expected = [results(net, x) for x in images]
    net.hybridize()
    for x, wanted in zip((*images, *images[::-1]), (*expected, *expected[::-1])):
        for mine, right in zip(results(net, x), wanted, strict=True):
            np.testing.assert_array_equal(mine, right)
    assert net._cached.graph.cache.compiled <= 2


def results(net, x):
    found = net(x)
    return [y.asnumpy() for y in (found if isinstance(found, (list, tuple)) else [found])]


class Pyramid(gluon.HybridBlock):
    """Maps that are enlarged, cut to the finer map and added; one is resized to another."""

    def __init__(self):
        super().__init__()
        self.stages = sequence(*(unit(WIDTH, 3, 2) for _ in range(3)))

    def hybrid_forward(self, F, x):
        fine = self.stages[0](x)
        middle = self.stages[1](fine)
        coarse = F.UpSampling(self.stages[2](middle), scale=2, sample_type="nearest")
        middle = middle + F.slice_like(coarse, middle, axes=(2, 3))
        large = F.contrib.BilinearResize2D(middle, fine, mode="like")
        gates = F.sigmoid(F.contrib.AdaptiveAvgPooling2D(large, output_size=1))
        return F.broadcast_mul(large, gates) + fine


def compilations_over(net, sizes) -> int:
    """Compilations over image sizes; results have the bits of a compilation for each alone."""
    net.initialize(mx.init.Normal(0.3))
    inputs = [nd.random.normal(shape=(1, 3, *size)) for size in sizes]
    net.hybridize(dynamic=False)
    expected = [net(x).asnumpy() for x in inputs]
    net.hybridize()
    for x, wanted in zip(inputs, expected):
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)
    return net._cached.graph.cache.compiled


def test_deep_maps_of_one_row_or_column_share_a_variant_with_larger_ones():
    assert compilations_over(SSD(), [(97, 120), (40, 33), (32, 70), (90, 20), (30, 30)]) == 2


def test_enlarged_maps_that_are_cut_or_not_share_a_variant():
    assert compilations_over(Pyramid(), [(96, 128), (92, 75), (117, 77), (40, 82), (64, 64)]) == 2
