"""Symbol with its operators, and ``call``, which creates all their nodes.

Input: symbols and attribute values. Output: symbols. Operators are strict, as in MXNet: ``+``
creates ``elemwise_add``, which does not broadcast. ``binding.py``, a higher layer that methods
import when they are called, implements evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from .._core.frames import public
from .._core.lazy import Above, Late
from .._core.types import DType, Number, Shape, Sizes
from ..context import Context
from ..errors import MXNetError, NotImplementedForSymbol
from ..formats.mxnet import symbol_json
from ..ir.node import Output
from ..ops.namespace import FLUENT, Method, is_variadic, namespace
from ..ops.record import OpDef
from .compose import compose
from .infer import (
    Lists,
    by_argument_name,
    decided_shapes,
    infer_shapes,
    infer_types,
    is_complete,
    shown_shapes,
)
from .outputs import Outputs, substituted

if TYPE_CHECKING:
    from . import binding
    from .executor import Arrays, Executor, NDArray, Requests
else:  # lazy: for programs without Gluon; imports the compiler
    binding = Late(".binding", __package__)

numpy_mode = Above("sym.np")
quantization = Above("contrib.quantization.functions")

_NUMBERS = (float, int, np.generic)
Operand: TypeAlias = "Symbol | Number"
ARRAY_ONLY = (
    "asnumpy",
    "asscalar",
    "copy",
    "detach",
    "as_in_context",
    "wait_to_read",
    "backward",
)


class Symbol(Outputs):
    """Outputs of a graph that is not computed yet; created by ``sym.var`` or an operator."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == makes a node

    def __reduce__(self) -> tuple[Callable[[str], Symbol], tuple[str]]:
        return _restored, (self.tojson(False),)

    def __setstate__(self, state: dict[str, str]) -> None:
        """Set the symbol from MXNet's pickled state, its graph as JSON."""
        self.outputs = Symbol(symbol_json.loads(state["handle"])).outputs

    # Inference and evaluation

    @public
    def infer_shape(self, *args: Shape | None, **kwargs: Shape | None) -> Any:
        """Shapes of arguments, outputs and auxiliary states, from some arguments' shapes.

        Returns ``(None, None, None)`` with a warning if they do not determine all shapes. Raises
        MXNetError for inconsistent shapes.
        """
        return decided_shapes(self, by_argument_name(self, args, kwargs))

    @public
    def infer_shape_partial(self, *args: Shape | None, **kwargs: Shape | None) -> Lists[Shape]:
        """:func:`infer_shape` with ``()`` for an unknown shape and 0 for an unknown size.

        With ``np_shape`` these are None and -1.
        """
        return shown_shapes(infer_shapes(self, by_argument_name(self, args, kwargs)))

    @public
    def infer_type(self, *args: DType | None, **kwargs: DType | None) -> Any:
        """Dtypes of arguments, outputs and auxiliary states, from some arguments' dtypes."""
        found = self.infer_type_partial(*args, **kwargs)
        return found if is_complete(found) else (None, None, None)

    def infer_type_partial(
        self, *args: DType | None, **kwargs: DType | None
    ) -> Lists[type[np.generic]]:
        """:func:`infer_type` with None for an unknown dtype."""
        return infer_types(self, by_argument_name(self, args, kwargs))

    @public
    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """List of the outputs, computed from arrays by argument name."""
        return binding.evaluate(self, ctx, kwargs)

    @public
    def bind(
        self,
        ctx: Context | None,
        args: Arrays,
        args_grad: Arrays | None = None,
        grad_req: Requests = "write",
        aux_states: Arrays | None = None,
        **kwargs: object,
    ) -> Executor:
        """Executor on these arrays (a dictionary, or a list in argument order).

        ``args_grad`` has arrays for gradients, ``grad_req`` how to store them: "write", "add" or
        "null", for all, as a list or by name.
        """
        return binding.bind(self, ctx, args, aux_states, args_grad, grad_req)

    @public
    def simple_bind(
        self,
        ctx: Context | None,
        grad_req: Requests = "write",
        type_dict: Mapping[str, DType] | None = None,
        stype_dict: Mapping[str, str] | None = None,
        group2ctx: Mapping[str, Context] | None = None,
        shared_arg_names: object = None,
        shared_exec: object = None,
        shared_buffer: object = None,
        **kwargs: object,
    ) -> Executor:
        """Executor on new arrays of zeros, from the shapes of some arguments.

        ``grad_req`` selects how gradients are stored, in new arrays unless it is "null".
        ``group2ctx`` maps each ``AttrScope(ctx_group=)`` to the context of its variables. The
        ``shared_`` arguments, which save memory in MXNet, have no effect. Raises MXNetError for an
        argument with a sparse storage type.
        """
        return binding.simple_bind(self, ctx, type_dict, stype_dict, kwargs, grad_req, group2ctx)

    def optimize_for(self, backend: str, *args: object, **kwargs: object) -> Symbol:
        """The graph that MXNet's backend of this name makes of the symbol.

        ``MKLDNN_QUANTIZE`` fuses layers as before and after
        :func:`contrib.quantization.quantize_model`; for other names, this is the symbol itself.
        """
        return self.get_backend_symbol(backend)

    def get_backend_symbol(self, backend: str) -> Symbol:
        """The graph that MXNet's backend of this name makes of the symbol.

        ``MKLDNN_QUANTIZE`` fuses layers as before and after
        :func:`contrib.quantization.quantize_model`; for other names, this is the symbol itself.
        """
        if backend != "MKLDNN_QUANTIZE":
            return self
        finished: Symbol = quantization.finished(self)
        return finished

    @public
    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Graph in MXNet's symbol JSON."""
        return symbol_json.dumps(self.outputs, remove_amp_cast)

    @public
    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Write the graph to a ``-symbol.json`` file. Raises TypeError unless ``fname`` is a
        string."""
        if not isinstance(fname, str):
            raise TypeError("fname need to be string")
        symbol_json.save(fname, self.outputs, remove_amp_cast)

    def __call__(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> Symbol:
        """Copy with variables replaced, as in ``net(data=other)``; ``name`` renames its node."""
        if args and kwargs:
            raise TypeError(
                "compose only accept input Symbols either as positional or keyword arguments, "
                "not both"
            )
        if args:
            raise MXNetError("General composition only support kwargs for now")
        names = self.list_inputs()
        for key, value in kwargs.items():
            if not isinstance(value, Symbol):
                raise TypeError(f"Compose expect `Symbol` as arguments, got {type(value)}")
            if key not in names:
                raise MXNetError(f"keyword argument name {key} not found. Candidates: {names}")
        values = {key: single_output(key, value) for key, value in kwargs.items()}
        return kind_of(kwargs.values())(substituted(self.outputs, values, name))

    # Methods that are operators

    def reshape(self, *args: object, **kwargs: object) -> Symbol:
        """Operator ``reshape`` with the shape as one tuple."""
        return _PUBLIC["reshape"](self, *args, **kwargs)

    def astype(self, *args: object, **kwargs: object) -> Symbol:
        """Operator ``cast``."""
        return _PUBLIC["cast"](self, *args, **kwargs)

    def flatten(self, inplace: bool = False, **kwargs: object) -> Symbol:
        """Array with two axes, the first unchanged."""
        return _PUBLIC["flatten"](self, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: object) -> Symbol:
        """Array with a new axis of size 1."""
        return _PUBLIC["expand_dims"](self, axis=axis, **kwargs)

    def squeeze(self, axis: Sizes | None = None, inplace: bool = False, **kwargs: object) -> Symbol:
        """Array without the given axes of size 1, by default all."""
        return _PUBLIC["squeeze"](self, axis=axis, **kwargs)

    def diag(self, k: int = 0, **kwargs: object) -> Symbol:
        """``k``-th diagonal, or a matrix with this diagonal."""
        return _PUBLIC["diag"](self, k, **kwargs)

    def split_v2(
        self, indices_or_sections: Sizes, axis: int = 0, squeeze_axis: bool = False
    ) -> Symbol:
        """Split along ``axis`` into a number of equal slices, or at these indices."""
        return split_v2(self, indices_or_sections, axis, squeeze_axis)

    def as_nd_ndarray(self) -> Symbol:
        """Return the symbol itself."""
        return self

    def as_np_ndarray(self) -> Any:
        """Symbol of NumPy mode with the same outputs."""
        return numpy_mode._Symbol(self.outputs)

    # Python's operators

    def __neg__(self) -> Symbol:
        return multiply(self, -1.0)

    def __abs__(self) -> Symbol:
        return _PUBLIC["abs"](self)

    def __add__(self, other: Operand) -> Symbol:
        return add(self, other)

    def __radd__(self, other: Operand) -> Symbol:
        return add(other, self)

    def __sub__(self, other: Operand) -> Symbol:
        return subtract(self, other)

    def __rsub__(self, other: Operand) -> Symbol:
        return subtract(other, self)

    def __mul__(self, other: Operand) -> Symbol:
        return multiply(self, other)

    def __rmul__(self, other: Operand) -> Symbol:
        return multiply(other, self)

    def __truediv__(self, other: Operand) -> Symbol:
        return divide(self, other)

    def __rtruediv__(self, other: Operand) -> Symbol:
        return divide(other, self)

    def __mod__(self, other: Operand) -> Symbol:
        return modulo(self, other)

    def __rmod__(self, other: Operand) -> Symbol:
        return modulo(other, self)

    def __pow__(self, other: Operand) -> Symbol:
        return _power(self, other)

    def __rpow__(self, other: Operand) -> Symbol:
        return _from_base(other, self)

    def __eq__(self, other: Operand) -> Symbol:  # type: ignore[override]
        return _equal(self, other)

    def __ne__(self, other: Operand) -> Symbol:  # type: ignore[override]
        return _not_equal(self, other)

    def __gt__(self, other: Operand) -> Symbol:
        return _greater(self, other)

    def __ge__(self, other: Operand) -> Symbol:
        return _greater_equal(self, other)

    def __lt__(self, other: Operand) -> Symbol:
        return _lesser(self, other)

    def __le__(self, other: Operand) -> Symbol:
        return _lesser_equal(self, other)

    # Methods that only arrays support

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TypeError(
            "'Symbol' object does not support item assignment: a traced block cannot change "
            "computed values; make new ones by F.where, F.concat or F.slice_axis"
        )

    def __iadd__(self, other: object) -> NoReturn:
        raise NotImplementedForSymbol("__iadd__", "+=", other, 1)

    def __isub__(self, other: object) -> NoReturn:
        raise NotImplementedForSymbol("__isub__", "-=", other, 1)

    def __imul__(self, other: object) -> NoReturn:
        raise NotImplementedForSymbol("__imul__", "*=", other, 1)

    def __itruediv__(self, other: object) -> NoReturn:
        raise NotImplementedForSymbol("__itruediv__", "/=", other, 1)

    def __bool__(self) -> NoReturn:
        raise NotImplementedForSymbol("__bool__", "bool")

    def __float__(self) -> NoReturn:
        raise TypeError(
            "float() takes numbers, got a Symbol: a traced block has not computed values; "
            "use operators of F, or call the block without hybridize()"
        )

    def __int__(self) -> NoReturn:
        raise TypeError(
            "int() takes numbers, got a Symbol: a traced block has not computed values; "
            "use operators of F, or call the block without hybridize()"
        )

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedForSymbol("__array__")


def _no_symbol(found: object) -> str:
    """The text for an operand of another class, with the way out."""
    if isinstance(found, (list, tuple)) and any(isinstance(one, Symbol) for one in found):
        return f"a {type(found).__name__} of symbols: pass them one by one, as f(*symbols)"
    if isinstance(found, (int, float)):
        made = "F.zeros_like(x)" if found == 0 else f"F.ones_like(x) * {found}"
        return f"{type(found).__name__} {found}: write {made}"
    return f"{type(found).__name__} {found}" if not hasattr(found, "shape") else _constant(found)


def _constant(found: Any) -> str:
    """The text for an array or a parameter in a traced block."""
    if hasattr(found, "grad_req"):
        return (
            f"a {type(found).__name__}: hybrid_forward takes a parameter as the argument of its "
            "name"
        )
    return (
        f"a {type(found).__name__} of shape {found.shape}: a block makes a constant by "
        "self.params.get_constant(name, array), and hybrid_forward takes it by its name"
    )


def call(op: OpDef, called: str, tensors: dict[str, Symbol], given: dict[str, Any]) -> Symbol:
    """Call a function of the ``sym`` namespace with its arguments."""
    name, attr = given.pop("name", None), given.pop("attr", None)
    given.pop("out", None)
    for key in [key for key, value in given.items() if isinstance(value, Symbol)]:
        tensors[key] = given.pop(key)
    for key, tensor in tensors.items():
        if not isinstance(tensor, Symbol):
            who = "Positional arguments" if is_variadic(op) else f"Argument {key}"
            raise AssertionError(f"{who} must be Symbol instances, but got {_no_symbol(tensor)}")
    inputs = {key: single_output(key, tensor) for key, tensor in tensors.items()}
    node = compose(op, called.lower(), inputs, given, name, attr)
    kind = kind_of(tensors.values())
    return kind(Output(node, i) for i in range(len(node.output_names)))


def kind_of(operands: Iterable[Any]) -> type[Symbol]:
    """Class of a result of these operands: that of NumPy mode if one has it."""
    return next((type(x) for x in operands if type(x) is not Symbol), Symbol)


def single_output(name: str, symbol: Symbol) -> Output:
    """Single output of ``symbol``. Raises MXNetError if it has several."""
    if len(symbol.outputs) != 1:
        raise MXNetError(
            f"input {name} needs one output, but {symbol!r} has {len(symbol.outputs)}: "
            "select one with [i]"
        )
    return symbol.outputs[0]


FUNCTIONS = namespace(call, ("name", "attr", "out"))
_PUBLIC, _INTERNAL = FUNCTIONS[""], FUNCTIONS["_internal"]

for _name in FLUENT:
    setattr(Symbol, _name, Method(_PUBLIC, _name, Symbol))


def _array_only(name: str) -> Callable[..., NoReturn]:
    def method(self: Symbol, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedForSymbol(name)

    method.__doc__ = f"Raises NotImplementedForSymbol: only arrays have {name}."
    return method


for _name in ARRAY_ONLY:
    setattr(Symbol, _name, _array_only(_name))


def _binary(
    word: str,
    scalar_word: str,
    reversed_word: str,
    plain: Callable[..., Number] | None = None,
) -> Callable[[Operand, Operand], Any]:
    """Function of a Python operator: strict on symbols, numbers become attributes.

    The words are the names of operators in MXNet's front end; nodes are named after them.
    """

    def function(lhs: Operand, rhs: Operand) -> Any:
        if isinstance(lhs, Symbol) and isinstance(rhs, Symbol):
            return _INTERNAL[word](lhs, rhs)
        if isinstance(lhs, Symbol) and isinstance(rhs, _NUMBERS):
            return _INTERNAL[scalar_word](lhs, scalar=rhs)
        if isinstance(rhs, Symbol) and isinstance(lhs, _NUMBERS):
            return _INTERNAL[reversed_word](rhs, scalar=lhs)
        if plain is not None and isinstance(lhs, _NUMBERS) and isinstance(rhs, _NUMBERS):
            return plain(lhs, rhs)
        strange = rhs if isinstance(lhs, (Symbol, *_NUMBERS)) else lhs
        way = f", {_constant(strange)}" if hasattr(strange, "shape") else ""
        raise TypeError(f"type {type(strange)} not supported{way}")

    called = word.lstrip("_").lower()
    function.__doc__ = f"{called} of two symbols of equal shape, or of a symbol and a number."
    return function


add = _binary("_Plus", "_PlusScalar", "_PlusScalar")
subtract = _binary("_Minus", "_MinusScalar", "_RMinusScalar")
multiply = _binary("_Mul", "_MulScalar", "_MulScalar")
divide = _binary("_Div", "_DivScalar", "_RDivScalar")
modulo = _binary("_Mod", "_ModScalar", "_RModScalar")
_power = _binary("_Power", "_PowerScalar", "_RPowerScalar", pow)
_maximum = _binary("_Maximum", "_MaximumScalar", "_MaximumScalar", max)
_minimum = _binary("_Minimum", "_MinimumScalar", "_MinimumScalar", min)
_hypot = _binary("_Hypot", "_HypotScalar", "_HypotScalar", np.hypot)
_from_base = _binary("_Power", "_PowerScalar", "_rpower_scalar")
_equal = _binary("_equal", "_equal_scalar", "_equal_scalar")
_not_equal = _binary("_not_equal", "_not_equal_scalar", "_not_equal_scalar")
_greater = _binary("_greater", "_greater_scalar", "_lesser_scalar")
_greater_equal = _binary("_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar")
_lesser = _binary("_lesser", "_lesser_scalar", "_greater_scalar")
_lesser_equal = _binary("_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar")


def power(base: Operand, exp: Operand) -> Any:
    """``base ** exp`` of two symbols of equal shape, or of a symbol and a number."""
    return _power(base, exp)


def maximum(left: Operand, right: Operand) -> Any:
    """The larger element of two symbols of equal shape, or of a symbol and a number."""
    return _maximum(left, right)


def minimum(left: Operand, right: Operand) -> Any:
    """The smaller element of two symbols of equal shape, or of a symbol and a number."""
    return _minimum(left, right)


def hypot(left: Operand, right: Operand) -> Any:
    """``sqrt(left ** 2 + right ** 2)`` of two symbols of equal shape, or of a symbol and a
    number."""
    return _hypot(left, right)


def split_v2(
    ary: Symbol, indices_or_sections: Sizes, axis: int = 0, squeeze_axis: bool = False
) -> Symbol:
    """Split along ``axis`` into a number of equal slices, or at these indices."""
    if isinstance(indices_or_sections, int):
        return _INTERNAL["_split_v2"](ary, [], axis, squeeze_axis, indices_or_sections)
    return _INTERNAL["_split_v2"](ary, [0, *indices_or_sections], axis, squeeze_axis, 0)


def _restored(text: str) -> Symbol:
    return Symbol(symbol_json.loads(text))
