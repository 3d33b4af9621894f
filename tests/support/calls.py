"""Public functions called with wrong types and shapes, which must raise documented exceptions.

Input: the number of a case. Output: a :class:`Call`, the same for the same number; and for an
exception, whether it is legitimate: of a documented type, and raised deliberately, by a ``raise``
or ``assert`` of this package or by Python for unknown arguments, rather than by an internal
failure.
"""

from __future__ import annotations

import dis
import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import numpy as np

import hybridjit as mx
from hybridjit import gluon, nd, sym
from hybridjit.cli import main
from hybridjit.errors import InternalError, MXNetError
from hybridjit.ops.attrs import Attr
from hybridjit.ops.namespace import is_variadic
from hybridjit.ops.record import OpDef
from hybridjit.ops.registry import all_names

PACKAGE = str(Path(mx.__file__).parent)

# Exceptions that users may have to catch. MXNetError is a RuntimeError.
DOCUMENTED = (
    MXNetError,
    RuntimeError,
    TypeError,
    ValueError,
    AssertionError,
    IndexError,
    KeyError,
    AttributeError,
    FileNotFoundError,  # of functions that read a file
    NotImplementedError,
    DeprecationWarning,  # MXNet raises it for removed functions
)

# Where plain numbers meet as in Python, and in MXNet: divided by zero, raised to high powers.
PLAIN_NUMBERS = ("nd/ndarray.py", "sym/symbol.py", "ops/random/sampling.py")


@dataclass
class Call:
    """A function and its arguments; ``then`` is called with the result."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    then: Callable[[Any], Any] | None = None
    strict: bool = False

    def run(self) -> Any:
        result = self.function(*self.args, **self.kwargs)
        return self.then(result) if self.then else result

    def __str__(self) -> str:
        words = [_shown(a) for a in self.args]
        words += [f"{k}={_shown(v)}" for k, v in self.kwargs.items()]
        return f"{self.name}({', '.join(words)})"


def _shown(value: Any) -> str:
    if isinstance(value, nd.NDArray):
        return f"nd{value.shape}:{np.dtype(value.dtype).name}"
    return repr(value).replace("\n", " ")[:80]


def complaint(error: BaseException, strict: bool) -> str:
    """Description of an illegitimate exception; empty for a legitimate one.

    ``strict`` also requires that it was raised deliberately: for operators, whose arguments are
    all looked at. Classes and functions of Gluon are Python and complain as Python does.
    """
    if isinstance(error, InternalError):
        return "a bug by its own words"
    if isinstance(error, MXNetError):
        return "" if str(error) else "says nothing"
    if isinstance(error, MemoryError):
        return ""  # the request exceeds this machine
    if isinstance(error, (ZeroDivisionError, OverflowError)) and where(error).startswith(
        PLAIN_NUMBERS
    ):
        return ""
    if type(error) not in DOCUMENTED and not isinstance(error, TypeError):
        return f"{type(error).__name__} is not documented"
    if strict and not is_on_purpose(error):
        return f"{type(error).__name__} broke out of the inside"
    return ""


def is_on_purpose(error: BaseException) -> bool:
    """Whether this package raised it, or Python refused the arguments of a public function."""
    trace = error.__traceback__
    assert trace is not None
    last, depth = trace, 0
    while last.tb_next is not None:
        last, depth = last.tb_next, depth + 1
    if not last.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return depth <= 1 and isinstance(error, (TypeError, AttributeError))
    return _raises(last)


def _raises(trace: TracebackType) -> bool:
    code = trace.tb_frame.f_code.co_code
    return dis.opname[code[trace.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def where(error: BaseException) -> str:
    """The innermost line in this package, to tell findings apart."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(PACKAGE):
            found = f"{name[len(PACKAGE) + 1 :]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


# Values

SHAPES = ((), (0,), (1,), (3,), (2, 3), (3, 2), (1, 1), (2, 3, 4), (0, 3), (1, 3, 4, 4),
          (2, 4, 5, 5), (1, 2, 3, 4, 4), (4,), (2, 2))  # fmt: skip
DTYPES = ("float32",) * 6 + ("float64", "float16", "int32", "int64", "int8", "uint8", "bool")
INTS = (0, 1, 2, 3, 4, 5, -1, -2, -3, 7, 31, 100, -100, 2**31, -(2**31), 2**40, 2**62, 2**70)
WORDS = ("", "None", "data", "weight", "float32", "float16", "complex64", "object", "int32", "NHWC",
         "NCHW", "max", "avg", "relu", "valid", "full", "x y", "(1, 2)", "1", "-1", "\0", "\u2603",
         "%s{0}", "null", "write", "add", "lstm", "cpu", "default", "csr")  # fmt: skip
OBJECTS = (object(), len, dict, 1j, Ellipsis, NotImplemented, b"ab", frozenset({1}), range(3))


def number(rng: random.Random) -> Any:
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice((0.0, 0.5, -1.5, 1e30, float("nan"), float("inf")))
    if kind == 1:
        return rng.choice((True, False, np.float32(2), np.int64(3), np.bool_(True)))
    return rng.choice(INTS)


def shape(rng: random.Random) -> Any:
    if rng.random() < 0.7:
        return rng.choice(SHAPES)
    items = [rng.choice((0, 1, 2, 3, -1, None, 1.5, 2**40, "1")) for _ in range(rng.randrange(5))]
    return tuple(items) if rng.random() < 0.7 else items


def array(rng: random.Random) -> nd.NDArray:
    """Small numbers, so that they can be indices too."""
    dims, dtype = rng.choice(SHAPES), rng.choice(DTYPES)
    size = int(np.prod(dims))
    values = np.arange(size) % 5 - (rng.random() < 0.3)
    return nd.array(values.reshape(dims).astype(dtype), dtype=dtype)


def symbol(rng: random.Random) -> Any:
    kind = rng.randrange(4)
    x = sym.var("x", shape=rng.choice(SHAPES) if kind == 1 else None)
    if kind == 2:
        return sym.relu(x)
    return sym.Group([x, sym.var("y")]) if kind == 3 else x


def anything(rng: random.Random) -> Any:
    """A value of any type that a user might pass."""
    kind = rng.randrange(12)
    if kind < 3:
        return array(rng)
    if kind == 3:
        return number(rng)
    if kind == 4:
        return rng.choice(WORDS)
    if kind == 5:
        return shape(rng)
    if kind == 6:
        return symbol(rng)
    if kind == 7:
        return None
    if kind == 8:
        return [anything(rng) for _ in range(rng.randrange(3))]
    if kind == 9:
        return np.ones(rng.choice(SHAPES), rng.choice((*DTYPES, "complex64", "object", "U3")))
    if kind == 10:
        return {rng.choice(WORDS): anything(rng) for _ in range(rng.randrange(3))}
    return rng.choice(OBJECTS)


def attribute(rng: random.Random, attr: Attr) -> Any:
    """A value for an operator's attribute: mostly one that it may have."""
    if rng.random() < 0.1:
        return anything(rng)
    if attr.choices:
        return rng.choice(attr.choices)
    base = attr.base
    if base == "bool":
        return rng.random() < 0.5
    if base in ("int", "long"):
        return rng.choice((0, 1, 2, 3, -1, -2, *INTS))
    if base in ("float", "double"):
        return rng.choice((0.0, 0.5, 1.0, 2, -1.0, 1e-5, float("inf")))
    if base == "dtype":
        return rng.choice(DTYPES)
    if base in ("shape", "ints", "floats"):
        return shape(rng)
    return rng.choice(WORDS)


# Calls


def call_case(number_: int) -> Call:
    """Case ``number_``."""
    rng = random.Random(number_)
    makers = (operator_call,) * 11 + (method_call,) * 4 + (function_call,) * 3 + (layer_call,) * 2
    if number_ % 2000 == 0:
        return command_call(rng)
    return makers[rng.randrange(len(makers))](rng)


@cache
def operators() -> list[tuple[str, OpDef]]:
    return sorted(all_names().items())


@cache
def _functions(kind: str) -> dict[str, Callable[..., Any]]:
    """The functions of nd or sym by the operator's name."""
    module = nd if kind == "nd" else sym
    return {name: getattr(module._internal if name.startswith("_") else module, name, None)
            for name, _ in operators()}  # fmt: skip


def operator_call(rng: random.Random) -> Call:
    """An operator, eagerly or as a symbol, with about the tensors and attributes that it takes."""
    name, op = rng.choice(operators())
    kind = "nd" if rng.random() < 0.75 else "sym"
    function = _functions(kind)[name]
    if function is None:
        return operator_call(rng)
    tensor = array if kind == "nd" else symbol
    count = _tensor_count(rng, op)
    if rng.random() < 0.5:  # all of one shape and type, as most operators want them
        state = rng.getstate()

        def same(_: random.Random) -> Any:
            rng.setstate(state)
            return tensor(rng)

        args = [same(rng) for _ in range(count)]
    else:
        args = [anything(rng) if rng.random() < 0.1 else tensor(rng) for _ in range(count)]
    kwargs = {a.name: attribute(rng, a) for a in op.attrs
              if a.required and rng.random() < 0.97 or rng.random() < 0.3}  # fmt: skip
    if is_variadic(op):
        kwargs.pop("num_args", None)
    if rng.random() < 0.05:
        kwargs[rng.choice(("out", "name", "attr", "ctx", "nothing", "dtype"))] = anything(rng)
    then = None if kind == "nd" else _look_at_symbol(rng)
    return Call(f"{kind}.{name}", function, tuple(args), kwargs, then, strict=True)


def _tensor_count(rng: random.Random, op: OpDef) -> int:
    if rng.random() < 0.1 or callable(op.inputs) or is_variadic(op):
        return rng.randrange(4)
    return len(op.inputs)


def _look_at_symbol(rng: random.Random) -> Callable[[Any], Any]:
    """Operations that usually follow on a symbol."""
    kind = rng.randrange(4)
    given = rng.choice(SHAPES)

    def look(made: sym.Symbol) -> Any:
        if kind == 0:
            return made.infer_shape_partial(x=given)
        if kind == 1:
            return sym.load_json(made.tojson())
        if kind == 2:
            return made.list_outputs(), made.list_arguments(), made.get_internals()
        return made.infer_type(x=np.float32)

    return look


def method_call(rng: random.Random) -> Call:
    """A method or an operator of an array or a symbol."""
    of_array = rng.random() < 0.6
    target = array(rng) if of_array else symbol(rng)
    name = rng.choice(_methods(type(target)))
    args = [anything(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
    kwargs = {}
    if rng.random() < 0.3:
        kwargs[rng.choice(("axis", "shape", "dtype", "keepdims", "data", "x"))] = anything(rng)
    return Call(f"{type(target).__name__}.{name}", getattr(target, name), tuple(args), kwargs)


@cache
def _methods(kind: type) -> list[str]:
    operators_ = ["__getitem__", "__setitem__", "__add__", "__radd__", "__mul__", "__pow__",
                  "__sub__", "__truediv__", "__eq__", "__lt__", "__iadd__", "__len__", "__iter__",
                  "__neg__", "__bool__", "__call__"]  # fmt: skip
    public = [n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n, None))]
    return [n for n in (*public, *operators_) if n in dir(kind)]


@cache
def _public_functions() -> list[tuple[str, Callable[..., Any]]]:
    """Functions and classes other than operators."""
    modules: Mapping[str, ModuleType] = {
        "nd": nd, "sym": sym, "init": mx.init, "random": mx.random, "autograd": mx.autograd,
        "gluon.utils": gluon.utils, "context": mx.context, "mx": mx, "model": mx.model,
        "nd.random": nd.random, "nd.sparse": nd.sparse, "sym.random": sym.random,
    }  # fmt: skip
    skipped = {"set_num_threads", "install_as_mxnet", "threads", "explain_absent", "UPPER",
               "place_elsewhere", "place_placeholders", "download", "waitall", "override",
               "set_default_context",
               "replace_file"}  # fmt: skip
    found = []
    for place, module in modules.items():
        for name in getattr(module, "__all__", dir(module)):
            thing = getattr(module, name, None)
            if name.startswith("_") or name in skipped or isinstance(thing, ModuleType):
                continue
            ours = getattr(thing, "__module__", "") or ""
            if callable(thing) and ours.startswith("hybridjit"):
                found.append((f"{place}.{name}", thing))
    return found


def function_call(rng: random.Random) -> Call:
    """A function other than operators: creation, files, initialisers, contexts."""
    name, function = rng.choice(_public_functions())
    args, kwargs = _arguments(rng, function)
    return Call(name, function, args, kwargs)


def _arguments(
    rng: random.Random, function: Callable[..., Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """About as many arguments as the function has, some of them by name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    args, kwargs = [], {}
    for parameter in parameters:
        if parameter.name == "self" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.default is parameter.empty and rng.random() < 0.95:
            args.append(plausible(rng, parameter.name))
        elif rng.random() < 0.25 and parameter.kind is not parameter.VAR_POSITIONAL:
            kwargs[parameter.name] = plausible(rng, parameter.name)
    return tuple(args), kwargs


def plausible(rng: random.Random, name: str) -> Any:
    """A value that a parameter of this name may well take; sometimes anything."""
    if rng.random() < 0.2:
        return anything(rng)
    if "shape" in name or name in ("strides", "kernel_size", "pool_size", "padding", "dilation"):
        return rng.choice((1, 2, 3, (1, 1), (2, 2), shape(rng)))
    if "dtype" in name:
        return rng.choice((*DTYPES, "complex64", None, np.float32))
    if name in ("data", "x", "array", "arr", "inputs", "label", "pred", "source_array", "arrays"):
        return array(rng) if rng.random() < 0.8 else symbol(rng)
    if name in ("name", "prefix", "fname", "layout", "activation", "mode"):
        return rng.choice(WORDS)
    if name == "params":
        return None
    if name in ("ctx", "context"):
        return rng.choice((mx.cpu(), None, "cpu", mx.cpu(1)))
    return rng.choice((0, 1, 2, 3, 4, True, False, 0.5, -1, anything(rng)))


@cache
def _layers() -> list[type]:
    modules = (gluon.nn, gluon.rnn, gluon.loss, gluon.contrib.nn, gluon.contrib.rnn)
    found = {thing for module in modules for thing in vars(module).values()
             if isinstance(thing, type) and issubclass(thing, gluon.Block)}  # fmt: skip
    return sorted(found, key=lambda thing: (thing.__module__, thing.__name__))


def layer_call(rng: random.Random) -> Call:
    """A layer with arguments at random, then called with arrays, sometimes hybridized."""
    layer = rng.choice(_layers())
    args, kwargs = _arguments(rng, layer)
    # A million layers, or filters, are legitimate: they are made one after the other.
    args = tuple(a if type(a) is not int else min(a, 100) for a in args)
    kwargs = {k: a if type(a) is not int else min(a, 100) for k, a in kwargs.items()}
    inputs = [array(rng) if rng.random() < 0.9 else anything(rng)
              for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3)))]  # fmt: skip
    hybridized, whole = rng.random() < 0.06, rng.random() < 0.3

    def use(made: gluon.Block) -> Any:
        made.initialize()
        if hybridized:
            made.hybridize()
        if whole:
            repr(made), made.collect_params()
        return made(*inputs)

    return Call(f"gluon.{layer.__name__}", layer, args, kwargs, use)


def command_call(rng: random.Random) -> Call:
    """The command line with words at random."""
    examples = Path(__file__).parent.parent.parent / "examples" / "digits"
    files = [str(examples / "digits-symbol.json"), str(examples / "digits-0000.params"), "nothing",
             str(examples / "digits-test.npz"), str(examples)]  # fmt: skip
    command = rng.choice(("inspect", "run", "verify", "dump", "ops", "switches", "compile", "what"))
    words = [command, rng.choice(files)] if rng.random() < 0.9 else [command]
    options = ("--params", "--shape", "--input", "--output", "--after", "--dtype", "--target",
               "--tolerance", "--kernel", "--steps", "--eager")  # fmt: skip
    values = (*files, "data=1,1,28,28", "data=1", "data=x.npy", "data=float32", "avx2", "plan", "=",
              "data=-1,2", "1e-3", *WORDS[:12])  # fmt: skip
    for _ in range(rng.randrange(4)):
        words += [rng.choice(options), rng.choice(values)]

    def run(*arguments: str) -> None:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
        assert code in (0, 1, 2), f"exit code {code}"

    return Call("hybridjit", run, tuple(words))
