"""Write the .pyi files that show editors and type checkers the operators of nd and sym.

    python tools/gen_stubs.py

In: the registry, and the imports of ``nd/__init__.py`` and ``sym/__init__.py``. Out: their stubs
and those of the sub-modules that hold nothing else. A test compares the files with the output of
this tool.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import hybridjit
from hybridjit.nd.ndarray import FUNCTIONS as ND_FUNCTIONS
from hybridjit.ops.attrs import Attr
from hybridjit.ops.namespace import input_slots, is_variadic
from hybridjit.ops.record import OpDef
from hybridjit.ops.registry import lookup
from hybridjit.sym.symbol import FUNCTIONS as SYM_FUNCTIONS

PACKAGE = Path(hybridjit.__file__).parent
NAMESPACES = {
    "nd": ("NDArray", "ndarray", ND_FUNCTIONS),
    "sym": ("Symbol", "symbol", SYM_FUNCTIONS),
}
FILLED = ("image", "linalg", "sparse")  # sub-modules whose own names are imported
WIDTH = 100
_UNBROKEN = "\xa0"  # a space at which no line ends
_ARRAYS = ("NDArray", "ndarray")
# Operators whose arguments for GPUs are accepted and have no effect.
_TUNED_ON_GPUS = {
    *("BatchNorm", "BatchNorm_v1", "BilinearSampler", "Convolution", "Convolution_v1"),
    *("Deconvolution", "Dropout", "GridGenerator", "Pooling", "Pooling_v1", "SpatialTransformer"),
}
ATTRIBUTE_TYPES = {
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "single": "float",
    "bool": "bool",
    "shape": "_Sizes",
    "ints": "_Sizes",
    "floats": "_Sizes",
    "dtype": "Any",
    "layout": "str",
    "string": "str",
}


def stubs() -> dict[Path, str]:
    """The text of every stub file, by path."""
    texts = {}
    for namespace, (tensor, module, functions) in NAMESPACES.items():
        folder = PACKAGE / namespace
        own = _own_imports(folder / "__init__.py")
        free = set(functions[""]) - {name for _, name in own}
        texts[folder / "__init__.pyi"] = "\n".join(
            [
                *_header(f"Functions of the ``{namespace}`` namespace.", tensor, None),
                *_import_lines(own),
                "",
                *_shared(tensor),
                *_aliases(folder / "__init__.py"),
                *_definitions("", free, tensor, {}),
                "",
                *_assignments("", free, {}),
                "",
            ]
        )
        for room in FILLED:
            heading = f"Functions of ``{namespace}.{room}``."
            whole = _by_operator("", free)
            defined = [*_definitions(room, functions[room], tensor, whole)]
            names = [*_assignments(room, functions[room], whole)]
            lines = _header(heading, tensor, module) if defined else [_TITLE.format(heading), ""]
            own = [f"from {m} import {n} as {n}" for m, n in _own_imports(folder / f"{room}.py")]
            if own:
                at = next(i for i, line in enumerate(lines) if line.startswith("from ."))
                lines[at : at + 1] = sorted([*own, lines[at]])  # as ruff has them
            if any(" = _whole." in line for line in names):
                at = lines.index("from typing_extensions import Unpack") + 2 if defined else 2
                lines[at:at] = [f"import hybridjit.{namespace} as _whole", ""]
            if defined:
                lines += ["", *_shared(tensor)]
                defined += [""] if names else []
            texts[folder / f"{room}.pyi"] = "\n".join([*lines, *defined, *names, ""])
    return texts | numpy_stubs()


# ---- NumPy mode ----------------------------------------------------------------------------------

# Functions of mx.np that give several arrays, or something else.
_SEVERAL = """array_split atleast_1d atleast_2d atleast_3d average broadcast_arrays dsplit
genfromtxt histogram hsplit meshgrid nonzero shape split unique vsplit where asnumpy
may_share_memory shares_memory"""


def numpy_stubs() -> dict[Path, str]:
    """The text of the stubs of ``np``, ``npx`` and of their forms on symbols."""
    texts = {}
    for folder, tensor, module in (("np", "ndarray", "arrays"), ("sym/np", "_Symbol", "symbols")):
        package = import_module(f"hybridjit.{folder.replace('/', '.')}")
        for room in ("", "linalg", "random"):
            inside = getattr(package, room) if room else package
            lines = [_TITLE.format(f"Functions of ``{package.__name__[10:]}``."), ""]
            lines += ["from typing import Any" + ("" if room else ", TypedDict"), ""]
            constants = [] if room else _numpy_constants(package)
            lines += ["import numpy as _onp"] if constants else []
            lines += [] if room else ["from typing_extensions import Unpack", ""]
            lines += [] if room else [f"from . import {x} as {x}" for x in ("linalg", "random")]
            lines += [f"from .{module} import {tensor}{'' if room else f' as {tensor}'}", ""]
            lines += [*([] if room else _UFUNC), *constants, *_signatures(inside, tensor), ""]
            path = PACKAGE / folder / f"{room or '__init__'}.pyi"
            texts[path] = "\n".join(lines)
        extension = import_module(f"hybridjit.{folder.replace('np', 'npx').replace('/', '.')}")
        texts[PACKAGE / f"{folder}x.pyi"] = "\n".join(_extension(extension, tensor, module))
    return texts


def _numpy_constants(package: ModuleType) -> list[str]:
    """Element types and numbers that ``mx.np`` has; ``sym.np`` has none."""
    found = {name: getattr(package, name) for name in sorted(vars(package)) if name[0] != "_"}
    types = [n for n, x in found.items() if isinstance(x, type) and x.__module__ == "numpy"]
    lines = [f"{n} = _onp.{'bool_' if n == 'bool_' else found[n].__name__}" for n in types]
    lines += [f"{n}: float" for n, x in found.items() if isinstance(x, float)]
    return [*lines, ""] if lines else []


def _signatures(module: ModuleType, tensor: str) -> Iterator[str]:
    """A definition for each function of a module, from its own signature."""
    shown = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
    for name, function in sorted(vars(module).items()):
        if name not in shown or not inspect.isroutine(function):
            continue
        if _is_official(function):  # its signature depends on the version of NumPy
            yield _laid_out(name, ["*args: Any", "**kwargs: Any"], "Any")
            continue
        parameters = [*_named_parameters(name, inspect.signature(function))]
        yield _laid_out(name, parameters, "Any" if name in _SEVERAL.split() else tensor)


# The keywords of the functions of mx.np that take them as **kwargs; of others, see _UFUNC.
_KEYWORDS = {
    **dict.fromkeys(("amax", "amin", "max", "min", "all", "any"), ()),
    **dict.fromkeys(("matmul", "nan_to_num", "multinomial"), ()),
    "einsum": ("out: Any = None", "optimize: Any = False"),
    "eye": ('order: str = "C"', "ctx: Any = None"),
    "meshgrid": ("copy: bool = True", "sparse: bool = False", 'indexing: str = "xy"'),
    "pad": ("constant_values: Any = 0", 'reflect_type: str = "even"'),
    **dict.fromkeys(("rand", "randn"), ("dtype: Any = None", "ctx: Any = None")),
}
_ANY_NAMES = ("savez",)  # the names of arrays in a file
_UFUNC = [  # keywords of NumPy's functions of elements, of which one value is supported
    *("class _Ufunc(TypedDict, total=False):", "    where: Any", "    order: str"),
    *("    casting: str", "    subok: bool", "    dtype: Any", ""),
]


def _named_parameters(name: str, signature: inspect.Signature) -> Iterator[str]:
    """The parameters, with ``**kwargs`` replaced by the keywords that the function takes."""
    known = signature.parameters.values()
    for p in known:
        if p.kind is not p.VAR_KEYWORD or name in _ANY_NAMES:
            yield _typed(p)
        elif name not in _KEYWORDS:
            yield "**kwargs: Unpack[_Ufunc]"
        elif _KEYWORDS[name]:
            yield from () if any(q.kind is q.VAR_POSITIONAL for q in known) else ("*",)
            yield from _KEYWORDS[name]


def _is_official(function: object) -> bool:
    return getattr(function, "__module__", "") in ("numpy", "hybridjit.np.fallback")


def _typed(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    known = p.annotation if isinstance(p.annotation, str) else "Any"
    kind = known if re.fullmatch(r"(Any|int|float|bool|str)( \| None)?", known) else "Any"
    if p.default is p.empty:
        return f"{star}{p.name}: {kind}"
    plain = isinstance(p.default, (bool, int, float, str)) or p.default in (None, ())
    return f"{p.name}: {kind} = {_literal(p.default) if plain else '...'}"


def _literal(value: object) -> str:
    return repr(value).replace("'", '"')


def _extension(module: ModuleType, tensor: str, kind: str) -> list[str]:
    """The stub of ``npx``: its own functions, and one for each operator that it names."""
    functions = vars(module)["EXTENSIONS"]
    of_operators = {n for n in functions if not n.startswith("_")}
    own = {n: f for n, f in vars(module).items() if n not in of_operators or n == "reshape"}
    plain = ModuleType("own")
    vars(plain).update({n: f for n, f in own.items() if n not in _IMPORTED})
    lines = _header(f"Functions of ``{module.__name__[10:]}``.", tensor, f"np.{kind}")
    lines += ["", *_shared(tensor), "image: Any", "random: Any", ""]
    lines += _signatures(plain, "Any")
    for name in sorted(of_operators - {"reshape"}):
        op = lookup(f"_npx_{name}")
        parameters = [*_parameters(op, tensor)]
        lines.append(_laid_out(name, parameters, _result(op, tensor)))
    return [*lines, ""]


_IMPORTED = ("arrived", "attach", "bound", "import_module", "partial")


_TITLE = '"""{} Made from the registry by tools/gen_stubs.py."""'


def _by_operator(room: str, names: Iterable[str]) -> dict[OpDef, str]:
    """The name under which each operator's definition stands: its own, or its first."""
    table: dict[OpDef, str] = {}
    for name in sorted(names):
        if not keyword.iskeyword(name):
            op = _operator(room, name)
            if op not in table or name == op.name:
                table[op] = name
    return table


def _operator(room: str, name: str) -> OpDef:
    return lookup(f"_{room}_{name}" if room else name)


def _header(heading: str, tensor: str, module: str | None) -> list[str]:
    lines = [
        _TITLE.format(heading),
        "",
        f"from collections.abc import {'' if tensor in _ARRAYS else 'Mapping, '}Sequence",
        "from typing import Any, TypedDict",
        "",
        "from typing_extensions import Unpack",
        "",
    ]
    if module is not None:
        lines.append(f"from .{module} import {tensor}")
    return lines


def _own_imports(path: Path) -> list[tuple[str, str]]:
    """(module, name) of everything that a namespace imports from its own folder."""
    imports = []
    body = ast.parse(path.read_text()).body
    guarded = [node.body for node in body if isinstance(node, ast.If)]  # for type checkers alone
    for node in itertools.chain(body, *guarded):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            shown = [alias for alias in node.names if not (alias.asname or "").startswith("_")]
            imports += [(f".{node.module or ''}", alias.name) for alias in shown]
    return imports


def _import_lines(imports: list[tuple[str, str]]) -> list[str]:
    hidden = {name for _, name in imports if name.startswith("_") or name == "FUNCTIONS"}
    lines = [f"from {m} import {n} as {n}" for m, n in imports if n not in hidden]
    return lines


def _shared(tensor: str) -> list[str]:
    """Types that the definitions share: sizes, and arguments that each operator accepts."""
    accepted = ["ctx: Any", "out: Any"] if tensor in _ARRAYS else ["attr: Mapping[str, str] | None"]
    fields = (f"    {field}" for field in (*accepted, "name: str | None"))
    return ["_Sizes = int | Sequence[Any]", "", "class _Call(TypedDict, total=False):", *fields, ""]


def _aliases(path: Path) -> Iterator[str]:
    """Plain assignments such as ``pow = power``."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            yield from (ast.unparse(node), "")


Whole = Mapping[OpDef, str]  # the definitions of the namespace that a sub-module shares


def _definitions(room: str, names: Iterable[str], tensor: str, whole: Whole) -> Iterator[str]:
    """A definition for each operator that has none elsewhere."""
    for op, name in sorted(_by_operator(room, names).items(), key=lambda pair: pair[1]):
        if op not in whole:
            yield _laid_out(name, list(_parameters(op, tensor)), _result(op, tensor))


def _assignments(room: str, names: Iterable[str], whole: Whole) -> Iterator[str]:
    """The other names of definitions."""
    defined = _by_operator(room, names)
    for name in sorted(names):
        op = None if keyword.iskeyword(name) else _operator(room, name)
        if op in whole:
            yield f"{name} = _whole.{whole[op]}"
        elif op is not None and defined[op] != name:
            yield f"{name} = {defined[op]}"


def _laid_out(name: str, parameters: list[str], result: str) -> str:
    """A definition on one line, or with as many parameters on each line as fit."""
    inside = ", ".join(parameters)
    if len(f"def {name}({inside}) -> {result}: ...") <= WIDTH:
        return f"def {name}({inside}) -> {result}: ..."
    unbroken = " ".join(f"{parameter.replace(' ', _UNBROKEN)}," for parameter in parameters)
    filled = textwrap.fill(unbroken, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"def {name}(\n{filled.replace(_UNBROKEN, ' ')}\n) -> {result}: ..."


def _parameters(op: OpDef, tensor: str) -> Iterator[str]:
    if is_variadic(op):
        yield f"*data: {tensor}"
    for name in input_slots(op):
        yield f"{name}: {tensor} | None = ..."
    for attr in op.attrs:
        kind = "str" if attr.choices else ATTRIBUTE_TYPES[attr.base]
        yield f"{attr.name}: {kind}{_optional(attr)} = {_default(attr)}"
    if op.name in _TUNED_ON_GPUS:
        yield from (f"{name}: Any = ..." for name in ("workspace", "cudnn_tune", "cudnn_off"))
    yield "**call: Unpack[_Call]"


def _optional(attr: Attr) -> str:
    admits = attr.type.endswith("?") and ATTRIBUTE_TYPES.get(attr.base) != "Any"
    return " | None" if admits else ""


def _default(attr: Attr) -> str:
    is_plain = isinstance(attr.default, (bool, int, float, str)) or attr.default in (None, ())
    return repr(attr.default).replace("'", '"') if is_plain and not attr.required else "..."


def _result(op: OpDef, tensor: str) -> str:
    return tensor if tensor in ("Symbol", "_Symbol") or op.outputs == ("output",) else "Any"


def main() -> None:
    for path, text in stubs().items():
        path.write_text(text)
        print(f"{path.relative_to(PACKAGE)}: {text.count('def ')} functions")


if __name__ == "__main__":
    main()
