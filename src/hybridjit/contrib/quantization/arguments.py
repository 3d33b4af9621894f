"""Checks of the arguments of quantization's functions."""

from __future__ import annotations

from collections.abc import Sequence

from ... import sym
from ...context import Context
from ...sym import Symbol

_DTYPES = ("int8", "uint8", "auto")
_MODES = ("full", "smart")
_GRANULARITIES = ("tensor-wise", "channel-wise")
CALIBRATIONS = ("none", "naive", "entropy", "customize")


def require_one(what: str, found: str | None, choices: Sequence[str]) -> None:
    """Raise ValueError unless ``found`` is one of ``choices``."""
    if found not in choices:
        expected = ", ".join(f"`{choice}`" for choice in choices)
        raise ValueError(f"unknown {what} {found} received, expected one of {expected}")


def require_choices(
    dtype: str, mode: str, granularity: str, calibration: str | None, ctx: Context
) -> None:
    """Raise ValueError for a word that is not among those of its argument."""
    require_one("quantized_dtype", dtype, _DTYPES)
    require_one("quantize_mode", mode, _MODES)
    require_one("quantize_granularity", granularity, _GRANULARITIES)
    require_one("calibration mode", calibration or "none", CALIBRATIONS)
    require_cpu(ctx)


def require_cpu(ctx: Context) -> None:
    """Raise ValueError unless ``ctx`` is one context of a CPU."""
    if not isinstance(ctx, Context):
        raise ValueError(f"currently only supports single ctx, while received {ctx}")
    if ctx.device_type != "cpu":
        raise ValueError(f"quantized networks run on CPUs, got ctx={ctx}")


def require_lists(names: object, operators: object) -> None:
    """Raise ValueError unless both exclusions are lists or None."""
    for what, found, members in (
        ("excluded_sym_names", names, "symbols"),
        ("excluded_op_names", operators, "operators"),
    ):
        if found is not None and not isinstance(found, list):
            raise ValueError(
                f"{what} must be a list of strings representing the names of the {members} that "
                f"will not be quantized, while received type {type(found)}"
            )


def loaded(symbol: str | Symbol) -> Symbol:
    """The symbol, read if a file's name is given. Raises ValueError for something else."""
    if isinstance(symbol, str):
        return sym.load(symbol)
    if isinstance(symbol, Symbol):
        return symbol
    raise ValueError(
        f"sym must be a Symbol or the name of a symbol file, while received type {type(symbol)}"
    )
