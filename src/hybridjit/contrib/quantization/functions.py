"""The public functions of ``mx.contrib.quantization``."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from logging import Logger
from pathlib import Path
from typing import Any

import numpy as np

from ... import nd, sym
from ..._core.frames import public
from ...context import Context, cpu
from ...errors import MXNetError
from ...gluon import HybridBlock, SymbolBlock
from ...gluon.calibration import inputs_taken
from ...io import DataDesc, DataIter
from ...io.checkpoint import load_checkpoint
from ...ir.node import topological
from ...nd import NDArray
from ...sym import Symbol
from .arguments import (
    CALIBRATIONS,
    loaded,
    require_choices,
    require_cpu,
    require_lists,
    require_one,
)
from .calibration import Arrays, LoaderIter, as_data_iter
from .collectors import Range
from .fuse import fused
from .layers import calibrated, collect, collector_for, needed
from .quantize import Choice, quantized
from .ranges import absorbed, aligned

Quantized = tuple[Symbol, dict[str, NDArray], Arrays]
_CPU = cpu()


@public
def quantize_model(
    sym: str | Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] = ("softmax_label",),
    ctx: Context = _CPU,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: DataIter | None = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Logger | None = None,
) -> Quantized:
    """Quantize a symbol without fusion of layers.

    MXNet 1.9.1 itself gives wrong results for convolutions that are quantized this way, and these
    are followed; :func:`quantize_model_mkldnn` and :func:`quantize_net_v2` fuse layers first.

    Parameters
    ----------
    sym : str or Symbol
        The float32 network, or the name of its file.
    arg_params : dict of str to NDArray
        Its parameters.
    aux_params : dict of str to NDArray
        Its auxiliary states.
    data_names : sequence of str
        Its inputs, in the order of a batch's arrays.
    label_names : sequence of str
        Its labels, which inference does not read.
    ctx : Context
        A CPU.
    excluded_sym_names : list of str, optional
        Nodes that remain in float32.
    excluded_op_names : list of str, optional
        Operators that remain in float32.
    calib_mode : str, optional
        ``none``: ranges are found in each call; ``naive``: those of the calibration data;
        ``entropy``: those that lose least of the data's distribution.
    calib_data : DataIter, optional
        Batches of examples; required unless the mode is ``none``.
    num_calib_examples : int, optional
        Number of examples after which calibration ends; by default all are used.
    quantized_dtype : str
        ``int8``, ``uint8``, or ``auto``: uint8 for values that are never negative.
    quantize_mode : str
        ``full``: all operators that can be quantized; ``smart``: layers, and operators between
        layers.
    quantize_granularity : str
        ``tensor-wise``, or ``channel-wise``: a scale for each row of a fused dense layer.
    logger : logging.Logger, optional
        Receives progress.

    Returns
    -------
    tuple
        The quantized symbol, its parameters, the auxiliary states.

    Raises
    ------
    ValueError
        For an unknown mode or type, and without calibration data.
    ShapeError
        For batches of other shapes than announced.
    MXNetError
        For calibration data with NaN, and ranges that are 0.
    """
    if calib_mode == "customize":
        raise ValueError("quantize_model has no calib_mode customize: call quantize_graph")
    symbol = loaded(sym)
    made, parameters, _, collector = quantize_graph(
        symbol, arg_params, aux_params, ctx, excluded_sym_names, excluded_op_names, calib_mode,
        quantized_dtype, quantize_mode, quantize_granularity, None, logger,
    )  # fmt: skip
    if collector is None:
        return made, parameters, aux_params
    if not isinstance(calib_data, DataIter):
        raise ValueError(
            f"calib_data must be of DataIter type when calib_mode={calib_mode}, while received "
            f"type {type(calib_data)}"
        )
    collect(
        symbol, (arg_params, aux_params), calib_data, data_names, needed(made), collector, ctx,
        num_calib_examples, logger,
    )  # fmt: skip
    return calib_graph(made, arg_params, aux_params, collector, calib_mode, quantized_dtype, logger)


@public
def quantize_model_mkldnn(
    sym: str | Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] = ("softmax_label",),
    ctx: Context = _CPU,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: DataIter | None = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Logger | None = None,
) -> Quantized:
    """Fuse the layers of a symbol, and quantize it.

    Parameters
    ----------
    sym, arg_params, aux_params, data_names, label_names, ctx, excluded_sym_names, \
excluded_op_names, calib_mode, calib_data, num_calib_examples, quantized_dtype, quantize_mode, \
quantize_granularity, logger
        As those of :func:`quantize_model`.

    Returns
    -------
    tuple
        The quantized symbol, its parameters, the auxiliary states.

    Raises
    ------
    ValueError, ShapeError, MXNetError
        As :func:`quantize_model`.
    """
    require_cpu(ctx)
    symbol = Symbol(fused(loaded(sym).outputs))
    made, parameters, states = quantize_model(
        symbol, arg_params, aux_params, data_names, label_names, ctx, excluded_sym_names,
        excluded_op_names, calib_mode, calib_data, num_calib_examples, quantized_dtype,
        quantize_mode, quantize_granularity, logger,
    )  # fmt: skip
    return finished(made), parameters, states


@public
def quantize_graph(
    sym: str | Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    ctx: Context = _CPU,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    LayerOutputCollector: Any = None,
    logger: Logger | None = None,
) -> tuple[Symbol, dict[str, NDArray], Arrays, Any]:
    """Quantize a symbol, and make a collector for its calibration.

    The program passes the collector's ``collect`` to ``set_monitor_callback`` of an executor of the
    float32 network, runs it on data, and calls :func:`calib_graph`.

    Parameters
    ----------
    sym, arg_params, aux_params, ctx, excluded_sym_names, excluded_op_names, quantized_dtype, \
quantize_mode, quantize_granularity, logger
        As those of :func:`quantize_model`.
    calib_mode : str, optional
        As that of :func:`quantize_model`, or ``customize``.
    LayerOutputCollector : object, optional
        The collector of the mode ``customize``: ``collect(name, array)`` receives values, and
        ``min_max_dict`` contains the range of each name.

    Returns
    -------
    tuple
        The quantized symbol without ranges, its parameters, the auxiliary states, the collector
        (None without calibration).

    Raises
    ------
    ValueError
        For an unknown mode or type.
    """
    require_lists(excluded_sym_names, excluded_op_names)
    require_choices(quantized_dtype, quantize_mode, quantize_granularity, calib_mode, ctx)
    choice = Choice(
        excluded_sym_names or (),
        excluded_op_names or (),
        frozenset(arg_params),
        quantize_mode,
        quantized_dtype,
        quantize_granularity == "channel-wise",
    )
    symbol = Symbol(quantized(loaded(sym).outputs, choice))
    collector = LayerOutputCollector
    if calib_mode in (None, "none"):
        collector = None
    elif calib_mode != "customize":
        collector = collector_for(calib_mode, quantized_dtype, needed(symbol), logger)
    elif collector is None:
        raise ValueError("calib_mode=customize needs a LayerOutputCollector")
    return symbol, _quantized_parameters(symbol, arg_params, {}), aux_params, collector


@public
def calib_graph(
    qsym: Symbol,
    arg_params: Arrays,
    aux_params: Arrays,
    collector: Any,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    logger: Any = logging,
) -> Quantized:
    """Set the ranges that a collector found in a quantized symbol.

    Parameters
    ----------
    qsym : Symbol
        The result of :func:`quantize_graph`.
    arg_params : dict of str to NDArray
        Parameters of the float32 network.
    aux_params : dict of str to NDArray
        Its auxiliary states.
    collector : object
        ``min_max_dict`` has the range of each name (``naive``, ``customize``), or ``hist_dict`` its
        histogram (``entropy``).
    calib_mode : str
        ``naive``, ``entropy`` or ``customize``.
    quantized_dtype : str
        ``int8``, ``uint8`` or ``auto``, as for :func:`quantize_graph`.
    logger : optional
        A logger, or the module logging; receives progress.

    Returns
    -------
    tuple
        The calibrated symbol, its parameters, the auxiliary states.

    Raises
    ------
    ValueError
        For another mode.
    MXNetError
        For a table that misses a layer or belongs to another network, and a range that is 0.
    """
    if calib_mode in (None, "none"):
        raise ValueError("please set calibration mode to naive or entropy.")
    require_one("calibration mode", calib_mode, CALIBRATIONS)
    symbol, table = calibrated(qsym, collector, calib_mode, quantized_dtype, logger)
    return symbol, _quantized_parameters(symbol, arg_params, table), aux_params


@public
def quantize_net_v2(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    exclude_layers: list[str] | None = None,
    exclude_layers_match: list[str] | None = None,
    exclude_operators: list[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[DataDesc] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context = _CPU,
    LayerOutputCollector: Any = None,
    logger: Logger | None = None,
) -> SymbolBlock:
    """Fuse the layers of a network, quantize it, and return it as a block.

    Parameters
    ----------
    network : HybridBlock
        The float32 network, with initialized parameters. It is hybridized.
    quantized_dtype : str
        ``int8``, ``uint8``, or ``auto``: uint8 for values that are never negative.
    quantize_mode : str
        ``full``: all operators that can be quantized; ``smart``: layers, and operators between
        layers.
    quantize_granularity : str
        ``tensor-wise``, or ``channel-wise``: a scale for each row of a dense layer. Convolutions
        always have a scale for each filter.
    exclude_layers : list of str, optional
        Nodes that remain in float32.
    exclude_layers_match : list of str, optional
        Parts of names of such nodes.
    exclude_operators : list of str, optional
        Operators that remain in float32.
    calib_data : DataIter or iterable, optional
        Batches of examples, such as a DataLoader; required unless the mode is ``none``.
    data_shapes : list of DataDesc, optional
        Names and shapes of inputs; required without ``calib_data``.
    calib_mode : str, optional
        ``none``: ranges are found in each call; ``naive``: those of the calibration data;
        ``entropy``: those that lose least of the data's distribution; ``customize``.
    num_calib_examples : int, optional
        Number of examples after which calibration ends; by default all are used.
    ctx : Context
        A CPU.
    LayerOutputCollector : object, optional
        The collector of the mode ``customize``, as for :func:`quantize_graph`.
    logger : logging.Logger, optional
        Receives progress.

    Returns
    -------
    SymbolBlock
        The quantized network; it cannot be trained.

    Raises
    ------
    ValueError
        For an unknown mode or type, and without calibration data or shapes.
    ShapeError
        For batches of other shapes than announced.
    MXNetError
        For calibration data with NaN, and ranges that are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridjit import gluon, nd
    >>> from hybridjit.contrib import quantization
    >>> net = gluon.nn.Dense(3)
    >>> net.initialize()
    >>> x = nd.array(np.random.default_rng(0).normal(size=(8, 5)))
    >>> small = quantization.quantize_net_v2(net, calib_data=[x], calib_mode="naive")
    >>> float(abs(small(x) - net(x)).max().asscalar()) < 0.01
    True
    """
    require_choices(quantized_dtype, quantize_mode, quantize_granularity, calib_mode, ctx)
    data = None if calib_data is None else as_data_iter(calib_data)
    shapes = list(data_shapes or _taken(network, data))
    if not shapes:
        raise ValueError("data_shapes required")
    for desc in shapes:
        if not isinstance(desc[0], str):
            raise ValueError(
                "data_shapes has a name and a shape for each input, such as "
                f'[mx.io.DataDesc("data", (1, 3, 224, 224))], got {desc}'
            )
    names = [desc[0] for desc in shapes]
    network.hybridize()
    network(*(nd.zeros(desc[1], ctx=ctx) for desc in shapes))
    symbol, arguments, states = _exported(network)
    excluded = _excluded(symbol, exclude_layers or (), exclude_layers_match or ())
    if logger:
        logger.info("These layers have been excluded %s", excluded)
    float_symbol = Symbol(fused(symbol.outputs))
    made, parameters, states, collector = quantize_graph(
        float_symbol, arguments, states, ctx, excluded, list(exclude_operators or ()), calib_mode,
        quantized_dtype, quantize_mode, quantize_granularity, LayerOutputCollector, logger,
    )  # fmt: skip
    if calib_mode not in (None, "none"):
        if data is None:
            raise ValueError(f"calib_data must be provided when calib_mode={calib_mode}")
        collect(
            float_symbol, (arguments, states), data, names, needed(made), collector, ctx,
            num_calib_examples, logger,
        )  # fmt: skip
        made, parameters, states = calib_graph(
            made, arguments, states, collector, calib_mode, quantized_dtype, logger
        )
    return _as_block(finished(made), names, parameters, states, ctx)


@public
def quantize_net(
    network: HybridBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    exclude_layers: list[str] | None = None,
    exclude_layers_match: list[str] | None = None,
    exclude_operators: list[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[DataDesc] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context = _CPU,
    logger: Logger | None = None,
) -> SymbolBlock:
    """Quantize a network with the granularity ``tensor-wise``; the older name.

    Parameters
    ----------
    network, quantized_dtype, quantize_mode, exclude_layers, exclude_layers_match, \
exclude_operators, calib_data, data_shapes, calib_mode, num_calib_examples, ctx, logger
        As those of :func:`quantize_net_v2`.

    Returns
    -------
    SymbolBlock
        The quantized network.

    Raises
    ------
    ValueError, ShapeError, MXNetError
        As :func:`quantize_net_v2`.
    """
    warnings.warn(
        "WARNING: This will be deprecated after MXNet 2.0, please use quantize_net_v2.",
        stacklevel=2,
    )
    return quantize_net_v2(
        network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers,
        exclude_layers_match, exclude_operators, calib_data, data_shapes, calib_mode,
        num_calib_examples, ctx, None, logger,
    )  # fmt: skip


# Networks


def _taken(network: HybridBlock, data: DataIter | None) -> list[DataDesc]:
    """The arrays of a batch that the network takes. The last ones of a data loader may be labels,
    those of a data iterator are not.
    """
    if data is None:
        return []
    shapes = list(data.provide_data)
    return shapes[: inputs_taken(network)] if isinstance(data, LoaderIter) else shapes


def _exported(network: HybridBlock) -> tuple[Symbol, Arrays, Arrays]:
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(Path(folder) / "network")
        network.export(prefix)
        return load_checkpoint(prefix, 0)


def _excluded(symbol: Symbol, names: Sequence[str], parts: Sequence[str]) -> list[str]:
    """The names, and those of all nodes that contain one of the parts."""
    inner = [output.node.name for output in symbol.get_internals().outputs]
    return [*names, *(name for part in parts for name in inner if part in name)]


def _as_block(
    symbol: Symbol, names: Sequence[str], parameters: Arrays, states: Arrays, ctx: Context
) -> SymbolBlock:
    block = SymbolBlock(symbol, [sym.var(name) for name in names])
    block.collect_params().load_dict(
        {**parameters, **states}, ctx, cast_dtype=True, dtype_source="saved"
    )
    return block


def finished(symbol: Symbol) -> Symbol:
    """The quantized symbol whose layers compute bytes of calibrated ranges themselves."""
    return Symbol(aligned(absorbed(fused(symbol.outputs))))


def _of_quantized_layers(symbol: Symbol) -> set[str]:
    """Names of the float32 parameters of quantized layers."""
    layers = [n for n in topological(symbol.outputs) if n.name.startswith("quantized_")]
    names = {use.node.name for layer in layers for use in layer.inputs if use.node.is_variable}
    return {name.removesuffix("_quantize") for name in names}


def _quantized_parameters(
    symbol: Symbol, parameters: Arrays, table: Mapping[str, Range]
) -> dict[str, NDArray]:
    """Parameters of the quantized symbol: those of ``NAME_quantize`` as int8 with their range.

    Raises MXNetError for infinite and NaN weights of quantized layers.
    """
    found: dict[str, NDArray] = {}
    for name in _of_quantized_layers(symbol) & parameters.keys():
        if not np.isfinite(parameters[name].asnumpy()).all():
            raise MXNetError(
                f"parameter {name} has infinite or NaN elements, which bytes cannot hold: load "
                "sound weights, or exclude the layer"
            )
    for name in symbol.list_arguments():
        original = name.removesuffix("_quantize")
        if name in parameters:
            found[name] = parameters[name]
        elif name != original and original in parameters:
            value = parameters[original]
            made = nd.contrib.quantize(value, nd.min(value), nd.max(value), out_type="int8")
            found.update(zip((name, f"{name}_min", f"{name}_max"), made))
    return found
