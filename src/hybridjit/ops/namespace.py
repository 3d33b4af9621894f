"""Python functions for operators: the contents of ``nd`` and ``sym``.

Input: the registry, and an ``invoke`` function that performs a call. Output: functions with
signature and documentation, grouped into the namespace and its submodules (``contrib``, ``linalg``,
...). A call separates its arguments into tensors by input name and attributes by name; ``invoke``
interprets them. A function is created on first access: creating all 1,300 takes 25 ms of every
import, and 30,000 objects that every garbage collection visits. Reading a module's ``__dict__``
creates all.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import Parameter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .._core.frames import FAILURES, shortened
from .._core.lazy import Late
from .._core.types import NULL
from ..errors import missing_attribute
from .attrs import IGNORED, Attr, attr_text
from .record import OpDef
from .registry import all_names, find, lookup

if TYPE_CHECKING:
    from . import manual
else:
    manual = Late(".manual", __package__)  # imported with the first function: 0.4 ms

Function = Callable[..., Any]
# invoke(op, called name, tensors by input name, other arguments by name)
Invoke = Callable[[OpDef, str, dict[str, Any], dict[str, Any]], Any]

SUBMODULES = ("contrib", "linalg", "image", "random", "sparse")

# Methods of both arrays and symbols; each is the function of the same name.
_FLUENT = """
    abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort
    broadcast_axes broadcast_like broadcast_to cbrt ceil clip cos cosh degrees depth_to_space exp
    expm1 fix flip floor log log10 log1p log2 log_softmax max mean min nanprod nansum norm one_hot
    ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt
    shape_array sigmoid sign sin sinh size_array slice slice_axis slice_like softmax softmin sort
    space_to_depth split sqrt square sum swapaxes take tan tanh tile topk transpose trunc
    zeros_like
"""
FLUENT = tuple(_FLUENT.split())


class Functions(Mapping[str, Function]):
    """Functions of a namespace or of a submodule, by name.

    Names with a leading underscore are in ``_internal``, but ``_contrib_X`` is ``contrib.X``.
    """

    def __init__(self, room: str, invoke: Invoke, options: tuple[str, ...]) -> None:
        self.module = ""  # value of the functions' ``__module__``
        is_cut = room in SUBMODULES or room in ("npx", "npi")
        self._prefix = f"_{room}_" if is_cut else "_" if room else ""
        self._cut = len(self._prefix) if is_cut else 0
        self._invoke = invoke
        self._options = options
        self._made: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        if name in self._made:
            return self._made[name]
        op = find(self._operator_name(name)) if name in self else None
        if op is None:
            raise KeyError(name)
        function = _function(op, name, self._invoke, self._options)
        function.__module__ = self.module
        return self._made.setdefault(name, function)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._has(self._operator_name(name))

    def __iter__(self) -> Iterator[str]:
        return (name[self._cut :] for name in all_names() if self._has(name))

    def __len__(self) -> int:
        return sum(map(self._has, all_names()))

    def _operator_name(self, name: str) -> str:
        return self._prefix[: self._cut] + name

    def _has(self, name: str) -> bool:
        is_here = name.startswith(self._prefix or "_") == bool(self._prefix)
        return is_here and find(name) is not None


class Method:
    """Function as a method, created and added to its class on first access."""

    def __init__(self, functions: Functions, name: str, owner: type) -> None:
        self._functions = functions
        self._name = name
        self._owner = owner

    def __get__(self, instance: object, owner: type) -> Function:
        function = self._functions[self._name]
        setattr(self._owner, self._name, function)
        return function.__get__(instance, owner)  # type: ignore[attr-defined]


def namespace(invoke: Invoke, options: tuple[str, ...]) -> dict[str, Functions]:
    """All functions, by submodule and name. ``""`` is the namespace itself.

    ``options`` are the parameters after the attributes (``out``, ``name``, ``attr``).
    """
    return {room: Functions(room, invoke, options) for room in ("", "_internal", *SUBMODULES)}


class _Namespace(ModuleType):
    """Module whose ``__dict__`` and ``__all__`` create the remaining functions."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All names of the module. Code in the module reads its names without this property."""
        names = _names_of(self)
        functions = names.get("_not_made")
        if functions is not None:
            names.update((name, functions[name]) for name in functions if name not in names)
            public = {name for name in functions if not name.startswith("_")}
            own = names.get("__all__") or [name for name in names if not name.startswith("_")]
            names["__all__"] = sorted({*own, *public})  # MXNet's ``import *`` binds operators
            names.pop("_not_made", None)  # last: other threads may read concurrently
        return names

    @property
    def __all__(self) -> list[str]:
        """The module's own names and the operators."""
        names: list[str] = vars(self)["__all__"]
        return names


_names_of = vars(ModuleType)["__dict__"].__get__  # the dictionary of a module of any class


def attach(module: ModuleType, functions: Functions) -> None:
    """Add these functions to ``module``, except names that it defines.

    The module's own ``__getattr__`` handles other names.
    """
    functions.module = module.__name__
    own = _names_of(module).get("__getattr__")

    def __getattr__(name: str) -> Function:
        if name not in functions:
            if own is not None:
                try:
                    return own(name)
                except AttributeError:
                    if name.startswith("_"):
                        raise
            raise missing_attribute(module.__name__, name, others="OPERATORS")
        setattr(module, name, functions[name])
        return functions[name]

    module.__getattr__ = __getattr__  # type: ignore[method-assign]
    module.__dir__ = lambda: sorted({*_names_of(module), *functions})  # type: ignore[method-assign]
    module._not_made = functions  # type: ignore[attr-defined]
    module.__class__ = _Namespace


def attr_texts(op: OpDef, given: Mapping[str, object]) -> dict[str, str]:
    """Strings of the attributes that a caller passed.

    None becomes "None" if the attribute admits it, otherwise the attribute is omitted, as NULL is.
    """
    texts = {}
    for key, value in given.items():
        if value is NULL:
            continue
        if value is not None:
            texts[key] = attr_text(value)
        elif key in op.optional:
            texts[key] = "None"
    return texts


def input_slots(op: OpDef) -> tuple[str, ...]:
    """Names of all inputs that the operator can have for any attributes; () if variadic."""
    return _input_slots(op.name)


@cache
def _input_slots(main_name: str) -> tuple[str, ...]:
    op = lookup(main_name)
    if is_variadic(op):
        return ()
    if not callable(op.inputs):
        return tuple(name.lstrip("*") for name in op.inputs)
    lists = [op.input_names(attrs) for attrs in _attribute_variants(op)]
    longest = max(lists, key=len, default=())
    rest = dict.fromkeys(n for names in lists for n in names if n not in longest)
    return (*longest, *rest)


def is_variadic(op: OpDef) -> bool:
    """Whether the operator accepts any number of tensors."""
    return count_attribute(op) is not None


def count_attribute(op: OpDef) -> str | None:
    """Attribute that counts the tensors (``num_args``); None if their number is fixed."""
    if not callable(op.inputs):
        return "num_args" if op.is_variadic else None
    return _count_attribute(op.name)


@cache
def _count_attribute(main_name: str) -> str | None:
    op = lookup(main_name)
    assert callable(op.inputs)
    read = _parameters(op.inputs)
    counts = [a.name for a in op.attrs if a.type == "int" and a.name in read]
    return counts[0] if counts else None


def signature(op: OpDef, options: tuple[str, ...]) -> inspect.Signature:
    """Tensors, then attributes in declared order, then ``options``, all by position or keyword."""
    kind = Parameter.KEYWORD_ONLY if is_variadic(op) else Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter(name, kind, default=None) for name in input_slots(op)]
    if is_variadic(op):
        parameters = [Parameter("data", Parameter.VAR_POSITIONAL)]
    for attr in op.attrs:
        parameters.append(Parameter(attr.name, kind, default=attr.default))
    parameters += [Parameter(name, kind, default=None) for name in options]
    return inspect.Signature(parameters)


def _function(op: OpDef, name: str, invoke: Invoke, options: tuple[str, ...]) -> Function:
    make = _variadic_function if is_variadic(op) else _fixed_function
    function = make(op, name, invoke, options)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = _documentation(op.name, options)
    function.__signature__ = _shared_signature(op.name, options)  # type: ignore[attr-defined]
    return function


def _fixed_function(op: OpDef, called: str, invoke: Invoke, options: tuple[str, ...]) -> Function:
    inputs = input_slots(op)
    names = (*inputs, *(attr.name for attr in op.attrs), *options)
    typed = any(attr.name == "dtype" for attr in op.attrs)

    def function(*args: object, **kwargs: object) -> Any:
        if len(args) > len(names):
            raise TypeError(
                f"{called}() takes from 0 to {len(names)} positional arguments "
                f"but {len(args)} were given"
            )
        given = dict(zip(names, args))
        for key in given.keys() & kwargs.keys():
            raise TypeError(f"{called}() got multiple values for argument '{key}'")
        given.update(kwargs)
        if typed and given.get("dtype", "") is None:
            given["dtype"] = "float64"  # meaning of None in NumPy and MXNet's functions
        tensors = {n: t for n in inputs if (t := given.pop(n, None)) is not None}
        try:
            return invoke(op, called, tensors, given)
        except FAILURES as error:
            raise shortened(error)

    return function


def _variadic_function(
    op: OpDef, called: str, invoke: Invoke, options: tuple[str, ...]
) -> Function:
    count = count_attribute(op)
    assert count is not None

    def function(*args: object, **given: object) -> Any:
        tensors = {f"arg{i}": tensor for i, tensor in enumerate(args)}
        for key in [k for k in given if k[:3] == "arg" and k[3:].isdigit()]:
            tensors[key] = given.pop(key)
        given.setdefault(count, len(tensors))
        try:
            return invoke(op, called, tensors, given)
        except FAILURES as error:
            raise shortened(error)

    return function


@cache
def _shared_signature(main_name: str, options: tuple[str, ...]) -> inspect.Signature:
    """One signature object for all names of an operator: creating it is the most expensive part."""
    return signature(lookup(main_name), options)


@cache
def _documentation(main_name: str, options: tuple[str, ...]) -> str:
    op = lookup(main_name)
    return manual.documentation(op, ("*data",) if is_variadic(op) else input_slots(op), options)


def _attribute_variants(op: OpDef) -> Iterator[dict[str, object]]:
    """Attribute values that cover every choice that the operator's inputs may depend on."""
    base = {attr.name: attr.default for attr in op.attrs if attr.name not in IGNORED}
    assert callable(op.inputs)
    read = _parameters(op.inputs)
    finite = {a.name: _values(a) for a in op.attrs if a.name in read and _values(a)}
    for values in itertools.product(*finite.values()):
        yield {**base, **dict(zip(finite, values))}


def _parameters(function: Function) -> tuple[str, ...]:
    """Names of a function's parameters."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _values(attr: Attr) -> tuple[object, ...]:
    """All values of an attribute that has few values."""
    return (False, True) if attr.base == "bool" else attr.choices
