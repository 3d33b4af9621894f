"""Ranges of the layers of a graph: their collection, and the graph with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from logging import Logger
from typing import Any

from ...context import Context
from ...errors import MXNetError
from ...io import DataIter
from ...sym import Symbol
from .calibration import Arrays, collect_statistics
from .collectors import (
    LayerHistogramCollector,
    LayerOutputMinMaxCollector,
    Range,
    require_ranges,
    thresholds,
)
from .ranges import calibrated_name, with_ranges


def collector_for(
    mode: str | None, dtype: str, layers: Collection[str], logger: Logger | None
) -> LayerHistogramCollector | LayerOutputMinMaxCollector:
    """The collector of a calibration mode: of histograms for "entropy", else of extremes."""
    if mode == "entropy":
        return LayerHistogramCollector(include_layer=layers, logger=logger)
    return LayerOutputMinMaxCollector(dtype, include_layer=layers, logger=logger)


def needed(symbol: Symbol) -> list[str]:
    """Names of the values whose ranges the quantized symbol needs."""
    nodes = dict.fromkeys(output.node for output in symbol.get_internals().outputs)
    return [name for name in map(calibrated_name, nodes) if name is not None]


def collect(
    symbol: Symbol,
    parameters: tuple[Arrays, Arrays],
    data: DataIter,
    names: Sequence[str],
    layers: Sequence[str],
    collector: Any,
    ctx: Context,
    most: int | None,
    logger: Logger | None,
) -> None:
    """Give the values of ``layers`` in runs on ``data`` to the collector; ``most`` examples."""
    data.reset()
    examples = collect_statistics(
        symbol, parameters, data, names, layers, collector, context=ctx, most=most, logger=logger
    )
    if logger:
        logger.info("Collected layer output values from FP32 model using %d examples", examples)


def calibrated(
    symbol: Symbol, collector: Any, mode: str | None, dtype: str, logger: Any
) -> tuple[Symbol, dict[str, Range]]:
    """The symbol with the ranges that the collector found, and these."""
    if mode == "entropy":
        if logger:
            logger.info("Calculating optimal thresholds for quantization")
        table = thresholds(_attribute(collector, "hist_dict"), dtype, logger)
    else:
        table = dict(_attribute(collector, "min_max_dict"))
    require_ranges(table, needed(symbol))
    return Symbol(with_ranges(symbol.outputs, table)), table


def _attribute(collector: Any, name: str) -> Mapping[str, Any]:
    found = getattr(collector, name, None)
    if not isinstance(found, Mapping):
        raise MXNetError(f"the collector has no {name}: it belongs to another calibration mode")
    return found
