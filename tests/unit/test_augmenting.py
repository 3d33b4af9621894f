"""Pictures changed at random: MXNet's results without random draws, and the range of draws."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd
from hybridjit.gluon.data.vision import transforms

PICTURE = np.array(
    [
        [[172, 47, 117], [192, 67, 251], [195, 103, 9]],
        [[211, 21, 242], [36, 87, 70], [216, 88, 140]],
    ]
)

# MXNet 1.9.1's results for PICTURE: of uint8 by the factor 1.3, of float32 by 0.7.
BYTES = {
    "brightness": [
        [[223, 61, 152], [249, 87, 255], [253, 133, 11]],
        [[255, 27, 255], [46, 113, 91], [255, 114, 182]],
    ],
    "contrast": [
        [[191, 28, 119], [217, 54, 255], [221, 101, 0]],
        [[242, 0, 255], [14, 80, 58], [248, 82, 149]],
    ],
    "hue": [
        [[142, 172, 46], [250, 155, 67], [8, 195, 65]],
        [[242, 166, 20], [59, 36, 87], [165, 215, 88]],
    ],
}
FLOATS = {
    "brightness": [120.4, 32.9, 81.9],
    "contrast": [152.52576, 65.02576, 114.02576],
    "hue": [47.0, 91.99984, 172.0],
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_mxnets(name):
    found = getattr(nd.image, f"random_{name}")(nd.array(PICTURE, dtype="uint8"), 1.3, 1.3)
    assert found.dtype == np.uint8
    # A number whose fraction is lost may be one off: MXNet's sums have another order.
    assert np.abs(found.asnumpy().astype(int) - BYTES[name]).max() <= 1


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_mxnets(name):
    floats = getattr(nd.image, f"random_{name}")(nd.array(PICTURE), 0.7, 0.7).asnumpy()
    np.testing.assert_allclose(floats[0, 0], FLOATS[name], atol=2e-3)


def test_saturation_keeps_the_grey_of_a_pixel():
    grey = np.array([0.299, 0.587, 0.114])
    found = nd.image.random_saturation(nd.array(PICTURE), 0.7, 0.7).asnumpy()
    np.testing.assert_allclose(found @ grey, PICTURE @ grey, rtol=1e-5)
    np.testing.assert_allclose(np.ptp(found, axis=2), 0.7 * np.ptp(PICTURE, axis=2), rtol=1e-4)


def test_light_is_mxnets():
    found = nd.image.adjust_lighting(nd.array(PICTURE, dtype="uint8"), alpha=(0.1, 0.2, -0.3))
    assert found.asnumpy()[0, 0].tolist() == [169, 44, 112]
    assert found.asnumpy()[1, 2].tolist() == [213, 85, 135]


# MXNet's imrotate by 30 degrees, of an image of its random numbers.
TURNED = {
    (): [0.15816, 0.39211, 0.57258, 0.79585, 0.40329],
    ("zoom_in",): [0.67258, 0.39562, 0.47331, 0.8198, 0.75962],
    ("zoom_out",): [0.0, 0.0, 0.34368, 0.51966, 0.0],
}
SOURCE = [
    [0.3834415, 0.791725, 0.5288949, 0.5680445, 0.9255966],
    [0.071036056, 0.0871293, 0.020218397, 0.83261985, 0.77815676],
    [0.87001216, 0.9786183, 0.7991586, 0.46147937, 0.7805292],
    [0.11827443, 0.639921, 0.14335328, 0.9446689, 0.52184832],
]


@pytest.mark.parametrize("zoom", TURNED)
def test_turning_is_mxnets(zoom):
    found = mx.image.imrotate(nd.array([SOURCE]), 30, **dict.fromkeys(zoom, True))
    np.testing.assert_allclose(found.asnumpy()[0, 0], TURNED[zoom], atol=2e-5)
    batch = mx.image.imrotate(nd.array([[SOURCE]] * 2), nd.array([30, 0]), **dict.fromkeys(zoom, 1))
    np.testing.assert_allclose(batch[0].asnumpy(), found.asnumpy(), atol=1e-6)
    np.testing.assert_allclose(batch[1].asnumpy(), [SOURCE], atol=1e-6)


def test_turning_refuses():
    x = nd.array([SOURCE])
    for error, args in (
        (ValueError, (x, 30, True, True)),
        (TypeError, (x.astype("uint8"), 30)),
        (TypeError, (x, nd.array([30]))),
        (ValueError, (x[0], 30)),
        (ValueError, (x.reshape((1, 1, 4, 5)), nd.array([1, 2]))),
    ):
        with pytest.raises(error):
            mx.image.imrotate(*args)
    with pytest.raises(TypeError, match="ToTensor"):
        transforms.Rotate(30)(x.astype("uint8"))
    assert transforms.RandomRotation((-10, 10))(x).shape == x.shape
    for wrong in (((10, -10),), ((0, 1), False, False, 2)):
        with pytest.raises(ValueError):
            transforms.RandomRotation(*wrong)


RANDOM = [
    transforms.RandomFlipLeftRight(),
    transforms.RandomFlipTopBottom(),
    transforms.RandomBrightness(0.3),
    transforms.RandomContrast(0.3),
    transforms.RandomSaturation(0.3),
    transforms.RandomHue(0.3),
    transforms.RandomColorJitter(0.2, 0.2, 0.2, 0.2),
    transforms.RandomLighting(0.5),
    transforms.RandomApply(transforms.RandomBrightness(0.3)),
    transforms.RandomResizedCrop(6),
    transforms.RandomCrop(7, pad=2),
]


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_draws_differ_and_follow_the_seed(transform):
    x = nd.array(np.random.default_rng(0).integers(0, 256, (9, 8, 3)), dtype="uint8")
    before = x.asnumpy()

    def drawn():
        mx.random.seed(3)
        random.seed(3)
        return [transform(x).asnumpy() for _ in range(12)]

    first, second = drawn(), drawn()
    assert all((a == b).all() for a, b in zip(first, second))
    assert len({a.tobytes() for a in first}) > 1
    assert all(a.dtype == np.uint8 and a.shape[2] == 3 for a in first)
    assert (x.asnumpy() == before).all()


def test_flips_and_sizes():
    x = nd.array(np.arange(2 * 3 * 3).reshape(2, 3, 3), dtype="uint8")
    seen = {transforms.RandomFlipLeftRight()(x).asnumpy().tobytes() for _ in range(40)}
    assert seen == {x.asnumpy().tobytes(), x.asnumpy()[:, ::-1].tobytes()}
    seen = {transforms.RandomFlipTopBottom()(x).asnumpy().tobytes() for _ in range(40)}
    assert seen == {x.asnumpy().tobytes(), x.asnumpy()[::-1].tobytes()}
    assert transforms.RandomResizedCrop((5, 4))(x).shape == (4, 5, 3)
    both = transforms.Compose([transforms.RandomResizedCrop(4), transforms.ToTensor()])
    assert both(x).shape == (3, 4, 4)


def test_a_random_part_lies_inside_and_has_its_area():
    x = nd.array(np.zeros((40, 60, 3)), dtype="uint8")
    for _ in range(50):
        _, (x0, y0, w, h) = mx.image.random_size_crop(x, (5, 5), (0.2, 0.5), (0.5, 2.0))
        assert 0 <= x0 <= 60 - w and 0 <= y0 <= 40 - h
        assert 0.15 < w * h / 2400 < 0.56 and 0.4 < w / h < 2.3
    assert mx.image.random_size_crop(x, (5, 5), 5.0, (1, 1))[1] == (27, 17, 5, 5)


class TestHybrid:
    class Negative(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return 255 - x

    @pytest.mark.parametrize("dtype", ["uint8", "float32"])
    @pytest.mark.parametrize("hybridize", [False, True])
    def test_a_transform_is_applied_as_often_as_asked(self, dtype, hybridize):
        mx.random.seed(1)
        x = nd.array(np.arange(24).reshape(2, 4, 3), dtype=dtype)
        block = transforms.HybridRandomApply(self.Negative(), 0.25)
        block.hybridize(hybridize)
        found = [block(x).asnumpy() for _ in range(200)]
        assert {y.dtype.name for y in found} == {dtype}
        negative = [bool((y == 255 - x.asnumpy()).all()) for y in found]
        assert all((y == x.asnumpy()).all() for y, changed in zip(found, negative) if not changed)
        assert 25 < sum(negative) < 75

    def test_a_composition_is_one_graph(self):
        x = nd.array(np.arange(24).reshape(2, 4, 3), dtype="uint8")
        steps = [transforms.ToTensor(), transforms.Normalize(1, 2)]
        composed = transforms.HybridCompose(steps)
        together = transforms.Compose(steps)(x)
        assert (composed(x).asnumpy() == together.asnumpy()).all()
        assert isinstance(composed, mx.gluon.HybridBlock) and composed._active
        net = mx.gluon.nn.HybridSequential()
        net.add(composed, mx.gluon.nn.Flatten())
        assert net(x).shape == (3, 8)

    def test_other_blocks_are_refused(self):
        with pytest.raises(ValueError, match=r"(?s)CenterCrop.* is not a HybridBlock"):
            transforms.HybridCompose([transforms.CenterCrop(2)])
        with pytest.raises(AssertionError, match="is not a HybridBlock"):
            transforms.HybridRandomApply([transforms.ToTensor()])


def test_a_jitter_of_strengths_0_returns_the_image():
    x = nd.array(np.arange(2 * 3 * 3).reshape(2, 3, 3), dtype="uint8")
    for y in (
        transforms.RandomColorJitter(0, 0, 0, 0)(x),
        nd.image.random_color_jitter(x, 0, 0, 0, 0),
    ):
        assert (y.asnumpy() == x.asnumpy()).all()
