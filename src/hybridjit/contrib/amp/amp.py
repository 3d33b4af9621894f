"""Automatic mixed precision: ``hybridize(precision="bfloat16")`` by MXNet's functions.

Input: blocks and graphs. Output: converted blocks and graphs, or the default precision of blocks
hybridized later. The compiler chooses the operators that multiply bfloat16, forward and backward.
Parameters and gradients remain float32. bfloat16 has the same range of exponents, therefore losses
are scaled by 1.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..._core.frames import public
from ...context import Context
from ...errors import MXNetError
from ...gluon import HybridBlock, SymbolBlock, Trainer
from ...gluon.precision import DEFAULT
from ...ir.node import with_precision
from ...mod.bucketing_module import BucketingModule, Generated
from ...nd import NDArray
from ...sym import Symbol

T = TypeVar("T")
Arrays = dict[str, NDArray]
Names = Sequence[Any] | None

_amp_initialized = False


# Factor of the gradients, ``rescale_grad``, of each prepared trainer.
_ORIGINAL_SCALES: WeakKeyDictionary[Trainer, float] = WeakKeyDictionary()


@public
def init(
    target_dtype: object = "float16",
    target_precision_ops: Names = None,
    conditional_fp32_ops: Names = None,
    fp32_ops: Names = None,
) -> None:
    """Make blocks that are hybridized from now on multiply bfloat16 by default.

    Raises MXNetError for another ``target_dtype``, and for lists of operators.
    """
    global _amp_initialized  # noqa: PLW0603 (MXNet's name, which packages read)
    _require_bfloat16(target_dtype)
    _require_no_lists(
        target_precision_ops=target_precision_ops,
        conditional_fp32_ops=conditional_fp32_ops,
        fp32_ops=fp32_ops,
    )
    if not _amp_initialized:
        logging.info("Using AMP")
    DEFAULT.precision = "bfloat16"
    _amp_initialized = True


@public
def convert_hybrid_block(
    block: HybridBlock,
    target_dtype: object = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Names = None,
    excluded_sym_names: Names = None,
    ctx: Context | None = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """A SymbolBlock of the block's graph that multiplies bfloat16, with copies of its parameters.

    ``ctx`` is their context (default: the block's first). They remain float32, whatever
    ``cast_optional_params`` is. Raises RuntimeError unless the block was hybridized and called,
    and MXNetError for another ``target_dtype`` and for lists of operators.
    """
    _require_bfloat16(target_dtype)
    _require_no_lists(
        target_dtype_ops=target_dtype_ops,
        fp32_ops=fp32_ops,
        conditional_fp32_ops=conditional_fp32_ops,
        excluded_sym_names=excluded_sym_names,
    )
    traced = block._exportable()
    if traced is None:
        raise RuntimeError(
            "Please first call block.hybridize() and then run forward with this block at least "
            "once before calling convert_hybrid_block."
        )
    converted = SymbolBlock(traced.symbol, list(traced.inputs))
    arrays = {name: param.data().asnumpy() for name, param in block.collect_params().items()}
    converted.collect_params().load_dict(
        arrays, ctx, ignore_extra=True, cast_dtype=True, dtype_source="saved"
    )
    converted._precision = "bfloat16"
    converted.hybridize()
    return converted


@public
def convert_symbol(
    sym: Symbol,
    target_dtype: object = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Names = None,
    excluded_sym_names: Names = None,
    data_names: Names = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """A copy of a graph whose products use bfloat16 when it is compiled for inference.

    Its nodes have an attribute for that, without casts; ``save`` writes the attribute with
    ``remove_amp_cast=False``. ``data_names`` and ``cast_optional_params`` have no effect. Raises
    MXNetError for another ``target_dtype`` and for lists of operators.
    """
    assert isinstance(sym, Symbol), "First argument to convert_symbol should be Symbol"
    _require_bfloat16(target_dtype)
    _require_no_lists(
        target_dtype_ops=target_dtype_ops,
        fp32_ops=fp32_ops,
        conditional_fp32_ops=conditional_fp32_ops,
        excluded_sym_names=excluded_sym_names,
    )
    return Symbol(with_precision(sym.outputs, "bfloat16"))


@public
def convert_model(
    sym: Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    target_dtype: object = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Names = None,
    excluded_sym_names: Names = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, Arrays, Arrays]:
    """:func:`convert_symbol` of the graph, and the parameters, which remain float32."""
    lists = (target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names)
    return convert_symbol(sym, target_dtype, *lists), arg_params, aux_params


def convert_bucketing_module(
    bucketing_mod: BucketingModule,
    target_dtype: object = "float16",
    target_dtype_ops: Names = None,
    fp32_ops: Names = None,
    conditional_fp32_ops: Names = None,
    excluded_sym_names: Names = None,
    cast_optional_params: bool = False,
) -> BucketingModule:
    """A module of the same buckets and values whose graphs multiply bfloat16. It is not bound.

    Graphs of later buckets also do. Raises AssertionError for a module without values, MXNetError
    as :func:`convert_symbol`.
    """
    assert isinstance(bucketing_mod, BucketingModule), (
        "module should be instance of bucketing module"
    )
    assert bucketing_mod.params_initialized, (
        "bucketing_mod params should be initialized for mixed precision conversion"
    )
    lists = (target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names)

    def converted(key: Hashable) -> Generated:
        symbol, data_names, label_names = bucketing_mod._sym_gen(key)
        return convert_symbol(symbol, target_dtype, *lists), data_names, label_names

    symbols = {
        key: convert_symbol(module._symbol, target_dtype, *lists)
        for key, module in bucketing_mod._buckets.items()
    }
    args, auxs = bucketing_mod.get_params()
    key, options = bucketing_mod._default_bucket_key, bucketing_mod._options
    return BucketingModule.load_dict(symbols, converted, key, args, auxs, **options)


@public
def init_trainer(optimizer_or_trainer: Trainer) -> None:
    """Prepare a trainer for ``scale_loss``. Raises AssertionError before ``init``, TypeError for
    other objects."""
    assert _amp_initialized, "AMP not initialized, did you forget to call amp.init()?"
    trainer = _as_trainer(optimizer_or_trainer)
    _ORIGINAL_SCALES[trainer] = trainer._scale


@contextmanager
def scale_loss(loss: T, optimizer_or_trainer: Trainer) -> Iterator[T]:
    """Yield the loss unchanged, because its scale is 1.

    Raises AssertionError for a trainer without ``init_trainer``.
    """
    assert optimizer_or_trainer in _ORIGINAL_SCALES, (
        "Loss scaler is not initialized, did you forget to call amp.init_trainer()?"
    )
    optimizer_or_trainer._scale = _ORIGINAL_SCALES[optimizer_or_trainer]
    yield loss


def unscale(optimizer_or_trainer: Trainer) -> None:
    """Multiply all gradients by the trainer's ``rescale_grad`` now, and not in the next step.

    For programs that clip gradients. Raises TypeError for other objects than a Trainer.
    """
    trainer = _as_trainer(optimizer_or_trainer)
    for param in trainer._params:
        if param.grad_req != "null" and trainer._scale != 1.0:
            for grad in param.list_grad():
                grad *= trainer._scale
    trainer._scale = 1.0


def _as_trainer(found: object) -> Trainer:
    if not isinstance(found, Trainer):
        raise TypeError(f"AMP is currently only compatible with Gluon Trainer, got {type(found)}")
    return found


def list_lp16_ops(target_dtype: object = "bfloat16") -> list[str]:
    """The operators that multiply bfloat16. Raises MXNetError for another ``target_dtype``."""
    _require_bfloat16(target_dtype)
    return ["Convolution", "FullyConnected", "RNN", "batch_dot"]


def _require_bfloat16(target_dtype: object) -> None:
    if target_dtype != "bfloat16":
        raise MXNetError(f"target_dtype must be 'bfloat16', got {target_dtype!r}")


def _require_no_lists(**lists: Names) -> None:
    for name, listed in lists.items():
        if listed:
            raise MXNetError(
                f"{name} must be None: in bfloat16 the compiler chooses the operators; got {listed}"
            )
