"""``_Symbol``: a symbol with Python operators, methods and index rules of NumPy mode.

``FRONT`` applies operators to such symbols, for their methods and the functions of ``mx.sym.np``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as onp

from ...errors import NotImplementedForSymbol
from ...ir.node import Output
from ...ops.namespace import Functions as OperatorFunctions
from ...ops.namespace import attr_texts
from ...ops.numpy_api.frontend import Frontend
from ...ops.record import OpDef
from ...ops.registry import lookup
from ..compose import compose
from ..symbol import Symbol, single_output

_NUMBERS = (bool, int, float, onp.generic)
_MARKS = (int, onp.integer, slice)
_PREFIXES = ("_npi_", "_npx_", "_np_")


class _Symbol(Symbol):
    """Outputs of a graph that is not computed yet, with the operators of NumPy mode."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        if len(self.outputs) == 1:
            raise TypeError("len() of a symbol: its shape is not known while a block is traced")
        return len(self.outputs)

    def __iter__(self) -> Iterator[_Symbol]:
        if len(self.outputs) == 1:
            raise TypeError("a symbol of one output cannot be iterated: its shape is not known")
        return (type(self)((output,)) for output in self.outputs)

    def as_np_ndarray(self) -> _Symbol:
        """Return the symbol itself."""
        return self

    def as_nd_ndarray(self) -> Symbol:
        """Classic symbol with the same outputs."""
        return Symbol(self.outputs)

    # Indexing

    def __getitem__(self, key: Any) -> _Symbol:  # type: ignore[override]
        """Part selected by integers and slices; one of several outputs by index or name.

        Raises IndexError for other keys.
        """
        if len(self.outputs) > 1 or isinstance(key, str):
            return super().__getitem__(key)
        parts = key if isinstance(key, tuple) else (key,)
        if any(not isinstance(part, _MARKS) or isinstance(part, bool) for part in parts):
            raise IndexError(
                f"Only integer, slice, or tuple of these types are supported! Received key={key}"
            )
        return _part(self, parts) if parts else self

    # Python's operators

    def __neg__(self) -> _Symbol:
        return _pair("_npi_multiply", self, -1.0)

    def __invert__(self) -> _Symbol:
        return FRONT.op("_npi_bitwise_not", self)

    def __abs__(self) -> NoReturn:
        """Raise AttributeError, as MXNet's symbols do."""
        raise AttributeError("_Symbol object has no attribute abs: use np.abs")

    def __add__(self, other: Any) -> _Symbol:
        return _pair("_npi_add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> _Symbol:
        return _pair("_npi_subtract", self, other)

    def __rsub__(self, other: Any) -> _Symbol:
        return _pair("_npi_rsubtract", self, other)

    def __mul__(self, other: Any) -> _Symbol:
        return _pair("_npi_multiply", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> _Symbol:
        return _pair("_npi_true_divide", self, other)

    def __rtruediv__(self, other: Any) -> _Symbol:
        return _pair("_npi_rtrue_divide", self, other)

    def __mod__(self, other: Any) -> _Symbol:
        return _pair("_npi_mod", self, other)

    def __rmod__(self, other: Any) -> _Symbol:
        return _pair("_npi_rmod", self, other)

    def __pow__(self, other: Any) -> _Symbol:
        return _pair("_npi_power", self, other)

    def __rpow__(self, other: Any) -> _Symbol:
        return _pair("_npi_rpower", self, other)

    def __matmul__(self, other: Any) -> _Symbol:
        return FRONT.op("_npi_matmul", self, other)

    def __and__(self, other: Any) -> _Symbol:
        return _pair("_npi_bitwise_and", self, other)

    def __or__(self, other: Any) -> _Symbol:
        return _pair("_npi_bitwise_or", self, other)

    def __xor__(self, other: Any) -> _Symbol:
        return _pair("_npi_bitwise_xor", self, other)

    def __eq__(self, other: Any) -> _Symbol:  # type: ignore[override]
        return _pair("_npi_equal", self, other)

    def __ne__(self, other: Any) -> _Symbol:  # type: ignore[override]
        return _pair("_npi_not_equal", self, other)

    def __gt__(self, other: Any) -> _Symbol:
        return _pair("_npi_greater", self, other)

    def __ge__(self, other: Any) -> _Symbol:
        return _pair("_npi_greater_equal", self, other)

    def __lt__(self, other: Any) -> _Symbol:
        return _pair("_npi_less", self, other)

    def __le__(self, other: Any) -> _Symbol:
        return _pair("_npi_less_equal", self, other)

    # Methods whose arguments differ from those of the function of the same name

    def reshape(self, *args: Any, order: str = "C") -> _Symbol:  # type: ignore[override]
        """Array reshaped; one size may be -1."""
        shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        return FRONT.op("_np_reshape", self, newshape=tuple(shape), order=order)

    def transpose(self, *axes: Any) -> _Symbol:
        """Array with permuted axes, by default reversed."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return FRONT.op("_np_transpose", self, axes=order)

    @property
    def T(self) -> _Symbol:
        """Array with reversed axes."""
        return self.transpose()

    def flatten(self, order: str = "C", **kwargs: Any) -> _Symbol:  # type: ignore[override]
        """Elements as a vector."""
        return self.reshape(-1)

    def squeeze(self, axis: Any = None, **kwargs: Any) -> _Symbol:  # type: ignore[override]
        """Array without the given axes of size 1, by default all."""
        return FRONT.op("_np_squeeze", self, axis=axis)

    def expand_dims(self, axis: Any, **kwargs: Any) -> _Symbol:  # type: ignore[override]
        """Array with a new axis of size 1."""
        return FRONT.op("expand_dims", self, axis=axis)

    def astype(self, dtype: Any, **kwargs: Any) -> _Symbol:  # type: ignore[override]
        """Array converted to another dtype."""
        return FRONT.op("Cast", self, dtype=onp.dtype(dtype or "float32").name)

    def copy(self) -> NoReturn:
        """Raise NotImplementedForSymbol: only arrays have ``copy``."""
        raise NotImplementedForSymbol("copy")


_INVERSE = {"_npi_rsubtract": "_npi_subtract", "_npi_rtrue_divide": "_npi_true_divide"}
_INVERSE.update(_npi_rmod="_npi_mod", _npi_rpower="_npi_power")


def _pair(name: str, lhs: _Symbol, rhs: Any) -> _Symbol:
    """Node of a Python operator; a number becomes an attribute.

    ``is_int`` is set for every number: eager calls convert the number to an integer array's dtype,
    and a graph must give the same results.
    """
    if isinstance(rhs, Symbol):
        if name in _INVERSE:
            return FRONT.op(_INVERSE[name], rhs, lhs)
        return FRONT.op(name, lhs, rhs)
    if isinstance(rhs, _NUMBERS):
        return FRONT.op(f"{name}_scalar", lhs, scalar=float(rhs), is_int=True)
    raise TypeError(f"type {type(rhs)} not supported")


def _part(x: _Symbol, parts: tuple[Any, ...]) -> _Symbol:
    """Slice, and reshape without the axes that integers selected."""
    begin: list[int | None] = []
    end: list[int | None] = []
    step: list[int | None] = []
    codes: list[int] = []
    for part in parts:
        if isinstance(part, slice):
            marks = part.start, part.stop, part.step
            codes.append(-2)
        else:
            marks = int(part), int(part) + 1 or None, None
            codes.append(-3)
        begin.append(marks[0])
        end.append(marks[1])
        step.append(marks[2])
    found = FRONT.op("slice", x, begin=tuple(begin), end=tuple(end), step=tuple(step))
    if -3 not in codes:
        return found
    return FRONT.op("_npx_reshape", found, newshape=(*codes, -4))


METHODS = """all any argmax argmin argsort broadcast_to clip cumsum dot max mean min prod repeat
round std sum swapaxes take var"""


def add_methods(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Add the methods to the class; the module of the functions calls this once."""
    for name in METHODS.split():
        setattr(_Symbol, name, _method(name, functions[name]))


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: _Symbol, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, function.__doc__
    return method


class SymbolFrontend(Frontend):
    """Frontend of symbols: operators create nodes, named after the function."""

    tensor = _Symbol
    other = Symbol
    is_symbolic = True

    def op(self, name: str, *inputs: Any, out: Any = None, ctx: Any = None, **attrs: Any) -> Any:
        """Results of an operator on symbols of NumPy mode, as one symbol."""
        for x in inputs:
            self.check(name, x)
        op = lookup(name)
        return made(op, hint_of(name), inputs, attrs)

    def several(self, name: str, *inputs: Any, **attrs: Any) -> list[Any]:
        """One symbol for each result."""
        return [_Symbol((output,)) for output in self.op(name, *inputs, **attrs).outputs]


def hint_of(name: str) -> str:
    """Base of the names of an operator's nodes."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :].lower()
    return name.lower().lstrip("_")


def made(
    op: OpDef, hint: str, inputs: Any, attrs: dict[str, Any], name: str | None = None
) -> _Symbol:
    """Symbol of a new node."""
    given = {key: value for key, value in attrs.items() if key != "ctx"}
    names = op.input_names(op.parse(attr_texts(op, given)))
    by_name = {n: single_output(n, x) for n, x in zip(names, inputs)}
    node = compose(op, hint, by_name, given, name)
    return _Symbol(Output(node, i) for i in range(len(node.output_names)))


FRONT = SymbolFrontend()


def call(op: OpDef, called: str, tensors: dict[str, Any], given: dict[str, Any]) -> Any:
    """Call a function of ``sym.npx``, an operator of the registry."""
    for x in tensors.values():
        FRONT.check(called, x)
    name, attr = given.pop("name", None), given.pop("attr", None)
    given.pop("out", None)
    inputs = {key: single_output(key, x) for key, x in tensors.items()}
    node = compose(op, called.lower(), inputs, given, name, attr)
    return _Symbol(Output(node, i) for i in range(len(node.output_names)))


EXTENSIONS = OperatorFunctions("npx", call, ("name", "attr", "out"))
INTERNAL = OperatorFunctions("npi", call, ("name", "attr", "out"))
