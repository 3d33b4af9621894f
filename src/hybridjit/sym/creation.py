"""Creation of symbols: ``sym.var``, ``sym.Group``, ``sym.load``, ``sym.zeros`` and others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._core.frames import public, user_line
from .._core.types import CODE_OF_DTYPE, DType, Sizes
from ..errors import DTypeError
from ..formats.mxnet import symbol_json
from ..ir.node import Output, variable
from ..ops.attrs import attr_text
from .compose import Dumpable, user_texts
from .outputs import STORAGE_CODES
from .symbol import FUNCTIONS, Symbol

_INTERNAL = FUNCTIONS["_internal"]


@public
def var(
    name: str,
    attr: dict[str, str] | None = None,
    shape: Sizes | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: DType | None = None,
    init: str | Dumpable | None = None,
    stype: str | None = None,
    **kwargs: object,
) -> Symbol:
    """Variable. Its properties are stored as attributes (``__shape__``, ``__dtype__``, ...).

    ``stype`` is the storage type of the array that ``simple_bind`` creates. Raises TypeError for a
    name that is not a string, ValueError for another keyword unless it has the form ``__this__``,
    DTypeError for a dtype that MXNet does not have, KeyError for an unknown storage type.
    """
    if not isinstance(name, str):
        raise TypeError(f"Expect a string for variable `name`, got {type(name)}")
    facts = {
        "__shape__": None if shape is None else attr_text(shape),
        "__lr_mult__": None if lr_mult is None else str(lr_mult),
        "__wd_mult__": None if wd_mult is None else str(wd_mult),
        "__dtype__": None if dtype is None else _dtype_code(dtype),
        "__init__": init if init is None or isinstance(init, str) else init.dumps(),
        "__storage_type__": None if stype is None else STORAGE_CODES[stype],
    }
    for key in kwargs:
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end "
                "with double underscores, e.g, __yourattr__"
            )
    facts.update({key: str(value) for key, value in kwargs.items()})
    texts = {**user_texts(attr), **{k: text for k, text in facts.items() if text is not None}}
    return Symbol((Output(variable(name, texts, user_line())),))


Variable = var


@public
def Group(symbols: Iterable[Symbol]) -> Symbol:
    """Group of all outputs of several symbols. Raises TypeError for other objects."""
    members = list(symbols)
    if not members or any(not isinstance(member, Symbol) for member in members):
        raise TypeError("Expected a list of symbols as input")
    return Symbol(output for member in members for output in member.outputs)


@public
def load(fname: object) -> Symbol:
    """Read a ``-symbol.json`` file.

    Raises TypeError unless ``fname`` is a string, MXNetError if the file is missing or does not
    contain a graph.
    """
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    return Symbol(symbol_json.load(fname))


@public
def load_json(json_str: str) -> Symbol:
    """Symbol from a JSON string. Raises TypeError for other types, MXNetError as ``load``."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(symbol_json.loads(json_str))


def zeros(shape: Sizes, dtype: DType | None = None, **kwargs: object) -> Symbol:
    """Array of zeros."""
    return _INTERNAL["_zeros"](shape=shape, dtype=dtype or "float32", **kwargs)


def ones(shape: Sizes, dtype: DType | None = None, **kwargs: object) -> Symbol:
    """Array of ones."""
    return _INTERNAL["_ones"](shape=shape, dtype=dtype or "float32", **kwargs)


def full(shape: Sizes, val: float, dtype: DType | None = None, **kwargs: object) -> Symbol:
    """Array filled with ``val``."""
    dtype = dtype or "float32"
    return _INTERNAL["_full"](shape=shape, dtype=dtype, value=float(val), **kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: DType | None = None,
) -> Symbol:
    """``start``, ``start + step``, ... below ``stop``, each ``repeat`` times."""
    return _INTERNAL["_arange"](
        start=start,
        stop=stop,
        step=step,
        repeat=repeat,
        infer_range=infer_range,
        name=name,
        dtype=dtype or "float32",
    )


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    name: str | None = None,
    dtype: DType | None = None,
) -> Symbol:
    """``num`` evenly spaced values from ``start`` to ``stop``."""
    return _INTERNAL["_linspace"](
        start=start, stop=stop, num=num, endpoint=endpoint, name=name, dtype=dtype or "float32"
    )


def eye(N: int, M: int = 0, k: int = 0, dtype: DType | None = None, **kwargs: object) -> Symbol:
    """Matrix of ``N`` rows and ``M`` columns (0: ``N``) with ones on the ``k``-th diagonal."""
    return _INTERNAL["_eye"](N=N, M=M, k=k, dtype=dtype or "float32", **kwargs)


def histogram(
    a: Symbol, bins: Symbol | int = 10, range: tuple[float, float] | None = None, **kwargs: object
) -> Symbol:
    """Counts per bin and bin edges. ``bins`` is a count, or a Symbol of edges.

    Raises ValueError for a count without a range, because bins cannot depend on values.
    """
    if isinstance(bins, Symbol):
        return _INTERNAL["_histogram"](a, bins, **kwargs)
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    return _INTERNAL["_histogram"](a, bin_cnt=bins, range=range, **kwargs)


def _dtype_code(dtype: DType) -> str:
    """MXNet's integer code of a dtype, as a string."""
    code = CODE_OF_DTYPE.get(np.dtype(dtype))
    if code is None:
        names = ", ".join(known.name for known in CODE_OF_DTYPE)
        raise DTypeError(f"dtype must be one of {names}, got {dtype}")
    return str(code)
