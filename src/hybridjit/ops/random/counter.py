"""Counter-based random bits for dropout: a function of a key and of each element's index.

Input: a key of two words, drawn from the generator for every call. Output: 32 bits for each
element, equal in NumPy and in kernels, for any number of threads and in any order.

A word is mixed by two multiplications and three shifted exclusive ors: Wellons 2018, "lowbias32",
applied twice, each time with a word of the key, so that calls have different bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.symbolic import Size
from ..._core.types import TensorType, product
from ..attrs import AttrValue
from ..building import Builder, X
from ..gradient import none_at_all
from ..record import Traits
from ..registry import lookup, register
from ..rules import Types, broadcast, merged
from ..signatures import ScalarBuilder, V
from .draws import generator

INT32 = np.dtype(np.int32)
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B))
_LAST = 16
_WORDS = 1 << 32


def _mixed(word: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Bits of the word combined with the key, mixed."""
    h = np.asarray(word ^ key).view(np.uint32)
    _mix(h, np.empty_like(h))
    return h.view(INT32)


def _mix(h: np.ndarray, room: np.ndarray) -> None:
    """Mix words in place; ``room`` is workspace of equal size."""
    for shift, factor in _ROUNDS:
        np.right_shift(h, np.uint32(shift), out=room)
        np.bitwise_xor(h, room, out=h)
        np.multiply(h, np.uint32(factor), out=h)
    np.right_shift(h, np.uint32(_LAST), out=room)
    np.bitwise_xor(h, room, out=h)


def _scalar_mixed(b: ScalarBuilder[V], word: V, key: V) -> V:
    h = b.xor(word, key)
    for shift, factor in _ROUNDS:
        h = b.mul(b.xor(h, b.shifted_right(h, shift)), b.const(_signed(factor)))
    return b.xor(h, b.shifted_right(h, _LAST))


def _signed(word: int) -> int:
    return word - _WORDS if word >= _WORDS // 2 else word


def _infer_mixed(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    words = TensorType(None, INT32)
    return broadcast(merged(ins, (words, words)), outs)


def _key() -> tuple[np.ndarray, np.ndarray]:
    first, second = generator().integers(0, _WORDS, (2, 1), np.uint32).view(INT32)
    return first, second


def _infer_key(ins: Types, outs: Types, **attrs: AttrValue) -> tuple[Types, Types]:
    word = TensorType((1,), INT32)
    return ins, merged(outs, (word, word))


MIXED_BITS = register(
    "_mixed_bits",
    "word key",
    internal=True,
    infer=_infer_mixed,
    ref=_mixed,
    scalar=_scalar_mixed,
    grad=none_at_all,
    doc="32 bits as a function of a word and a key.",
)
DROPOUT_KEY = register(
    "_dropout_key",
    "",
    internal=True,
    infer=_infer_key,
    ref=_key,
    grad=none_at_all,
    outputs=("first", "second"),
    traits=Traits(random=True),
    doc="Two words, the key of all factors of one dropout.",
)


def bits_by_counter(shape: tuple[int, ...]) -> np.ndarray:
    """Random bits, as int32, for each element of an array of this shape."""
    words = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint32)
    room = np.empty_like(words)
    for key in _key():
        np.bitwise_xor(words, key.view(np.uint32), out=words)
        _mix(words, room)
    return words.view(INT32).reshape(shape)


def bits_of(g: Builder[X], shape: tuple[int, ...]) -> X:
    """:func:`bits_by_counter` on any builder."""
    first, second = g.outputs(DROPOUT_KEY, at="key")
    count = product(shape)
    stop = count if isinstance(count, Size) else float(count)
    given: dict[str, Any] = {"start": 0.0, "stop": stop, "dtype": INT32}
    numbers = g.op(lookup("_arange"), at="numbers", **given)
    numbers = g.op(lookup("_reshape_to"), numbers, at="shaped", shape=shape)
    once = g.op(MIXED_BITS, numbers, first, at="once")
    return g.op(MIXED_BITS, once, second, at="bits")


def limit_of(keep: float) -> int:
    """Upper limit, as int32, of bits that mean "kept", with probability ``keep``.

    The probability is a positive multiple of 2 ** -32.
    """
    return max(round(keep * _WORDS), 1) - 1 - _WORDS // 2
