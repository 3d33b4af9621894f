"""Inception v3 (Szegedy et al., 1512.00567)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ....context import Context
from ... import nn
from ...contrib.nn import HybridConcurrent
from ...hybrid_block import HybridBlock
from ...naming import BlockArgs
from ...types import Tensor, Unpack
from ..model_store import load_pretrained

# One convolution: channels, kernel, stride, padding.
Pair = int | tuple[int, int]
Conv = tuple[int, Pair, int, Pair]


def _conv(channels: int, kernel: Pair, stride: int = 1, padding: Pair = 0) -> nn.HybridSequential:
    block = nn.HybridSequential(prefix="")
    block.add(
        nn.Conv2D(channels, kernel, stride, padding, use_bias=False),
        nn.BatchNorm(epsilon=0.001),
        nn.Activation("relu"),
    )
    return block


def _branch(*convs: Conv, pool: HybridBlock | None = None) -> nn.HybridSequential:
    block = nn.HybridSequential(prefix="")
    if pool is not None:
        block.add(pool)
    block.add(*[_conv(*conv) for conv in convs])
    return block


def _joined(prefix: str, *makers: Callable[[], nn.HybridSequential]) -> HybridConcurrent:
    """Branches concatenated along the channels, made inside of the block's scope."""
    block = HybridConcurrent(axis=1, prefix=prefix)
    with block.name_scope():
        for make in makers:
            block.add(make())
    return block


def _averaged(channels: int) -> nn.HybridSequential:
    return _branch((channels, 1, 1, 0), pool=nn.AvgPool2D(3, 1, 1))


def _block_a(pool_features: int, prefix: str) -> HybridConcurrent:
    return _joined(
        prefix,
        lambda: _branch((64, 1, 1, 0)),
        lambda: _branch((48, 1, 1, 0), (64, 5, 1, 2)),
        lambda: _branch((64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)),
        lambda: _averaged(pool_features),
    )


def _block_b(prefix: str) -> HybridConcurrent:
    return _joined(
        prefix,
        lambda: _branch((384, 3, 2, 0)),
        lambda: _branch((64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 2, 0)),
        lambda: _branch(pool=nn.MaxPool2D(3, 2)),
    )


def _block_c(channels_7x7: int, prefix: str) -> HybridConcurrent:
    c, row, column = channels_7x7, ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    return _joined(
        prefix,
        lambda: _branch((192, 1, 1, 0)),
        lambda: _branch((c, 1, 1, 0), (c, *row), (192, *column)),
        lambda: _branch((c, 1, 1, 0), (c, *column), (c, *row), (c, *column), (192, *row)),
        lambda: _averaged(192),
    )


def _block_d(prefix: str) -> HybridConcurrent:
    row, column = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    return _joined(
        prefix,
        lambda: _branch((192, 1, 1, 0), (320, 3, 2, 0)),
        lambda: _branch((192, 1, 1, 0), (192, *row), (192, *column), (192, 3, 2, 0)),
        lambda: _branch(pool=nn.MaxPool2D(3, 2)),
    )


def _split(*convs: Conv) -> nn.HybridSequential:
    """The convolutions, then a 1x3 and a 3x1 convolution with 384 channels each, concatenated."""
    block = nn.HybridSequential(prefix="")
    block.add(_branch(*convs))
    ends = HybridConcurrent(axis=1, prefix="")
    ends.add(_branch((384, (1, 3), 1, (0, 1))), _branch((384, (3, 1), 1, (1, 0))))
    block.add(ends)
    return block


def _block_e(prefix: str) -> HybridConcurrent:
    return _joined(
        prefix,
        lambda: _branch((320, 1, 1, 0)),
        lambda: _split((384, 1, 1, 0)),
        lambda: _split((448, 1, 1, 0), (384, 3, 1, 1)),
        lambda: _averaged(192),
    )


class Inception3(HybridBlock):
    """For images of 299 x 299."""

    def __init__(self, classes: int = 1000, **kwargs: Unpack[BlockArgs]) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(
                _conv(32, 3, 2),
                _conv(32, 3),
                _conv(64, 3, 1, 1),
                nn.MaxPool2D(3, 2),
                _conv(80, 1),
                _conv(192, 3),
                nn.MaxPool2D(3, 2),
                _block_a(32, "A1_"),
                _block_a(64, "A2_"),
                _block_a(64, "A3_"),
                _block_b("B_"),
                _block_c(128, "C1_"),
                _block_c(160, "C2_"),
                _block_c(160, "C3_"),
                _block_c(192, "C4_"),
                _block_d("D_"),
                _block_e("E1_"),
                _block_e("E2_"),
                nn.AvgPool2D(8),
                nn.Dropout(0.5),
            )
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:  # type: ignore[override]
        return self.output(self.features(x))


def inception_v3(
    pretrained: bool = False, ctx: Context | None = None, root: str | None = None, **kwargs: Any
) -> Inception3:
    """Inception V3 (Szegedy et al., 2016) for images of 299x299."""
    net = Inception3(**kwargs)
    if pretrained:
        load_pretrained(net, "inceptionv3", ctx, root)
    return net
