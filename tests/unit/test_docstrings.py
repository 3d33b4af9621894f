"""Every class, function, method and property that a program can name has a docstring."""

import functools
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import hybridjit

# Modules that programs do not import: the compiler, and the commands.
INTERNAL = {
    *(
        "_core",
        "codegen",
        "compilation",
        "compiler",
        "ir",
        "ops",
        "passes",
        "formats",
        "cli",
        "runtime",
    ),
    *("fused", "__main__"),
}
# The translations of operators from and to ONNX, which its module calls.
BEHIND = ("hybridjit.onnx.operators", "hybridjit.onnx.writers")
PARTS = sorted({m.name for m in pkgutil.iter_modules(hybridjit.__path__)} - INTERNAL)


def is_protocol(owner):
    return getattr(owner, "_is_protocol", False)


def is_function(value):
    return inspect.isfunction(value) or isinstance(value, functools._lru_cache_wrapper)


def function_of(member):
    """The function of a member of a class; None if it is a value."""
    if isinstance(member, property):
        return member.fget
    found = getattr(member, "__func__", getattr(member, "func", member))
    return found if is_function(found) else None


def undocumented_members(owner):
    """Public methods and properties of a class for which neither it nor a base has words."""
    for name, value in vars(owner).items():
        if name.startswith("_") or function_of(value) is None:
            continue
        if not any(inspect.getdoc(vars(c)[name]) for c in owner.__mro__ if name in vars(c)):
            yield f"{owner.__module__}.{owner.__qualname__}.{name}"


def undocumented(module):
    """Public names of a module without a docstring."""
    for name, value in list(vars(module).items()):
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if not inspect.isclass(value):
            if is_function(value) and not value.__doc__:
                yield f"{module.__name__}.{name}"
            continue
        if not vars(value).get("__doc__"):
            yield f"{module.__name__}.{name}"
        if not is_protocol(value):
            yield from undocumented_members(value)


def modules_of(part):
    """The part as a module, and all modules in it."""
    module = importlib.import_module(f"hybridjit.{part}")
    yield module
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
        if not found.name.startswith(BEHIND):
            yield importlib.import_module(found.name)


@pytest.mark.parametrize("part", PARTS)
def test_public_functions_of_each_part_have_docstrings(part):
    missing = [name for module in modules_of(part) for name in undocumented(module)]
    assert not missing, f"without a docstring: {', '.join(missing)}"


def test_names_of_the_package():
    values = {name: getattr(hybridjit, name) for name in hybridjit.__all__}
    assert not [name for name, value in values.items() if callable(value) and not value.__doc__]


def test_undocumented_names_are_reported():
    class Bare:
        def method(self):
            pass

        @property
        def attribute(self):
            return 1

        @functools.cached_property
        def kept(self):
            return 1

    @functools.lru_cache
    def quick():
        pass

    module = ModuleType("bare")
    Bare.__module__ = quick.__module__ = "bare"
    module.Bare, module.quick = Bare, quick
    found = [name.rpartition(".")[2] for name in undocumented(module)]
    assert found == ["Bare", "method", "attribute", "kept", "quick"]


@pytest.mark.parametrize("module", ["nd", "np", "nd.random", "np.random"])
def test_functions_describe_their_arguments(module):
    """Of the functions with arguments of usual names, each describes all of these."""
    found = importlib.import_module(f"hybridjit.{module}")
    usual = {"axis", "out", "dtype", "ctx", "loc", "scale", "lam", "lhs", "rhs", "keepdims", "size"}
    missing = []
    for name in dir(found):
        function = getattr(found, name)
        if name.startswith(("_", "invoke")) or not is_function(inspect.unwrap(function)):
            continue
        official = getattr(function, "__module__", "").startswith("numpy")
        names = usual & set(inspect.signature(function).parameters)
        text = inspect.getdoc(function) or ""
        absent = [n for n in names if not official and f"{n} : " not in text]
        missing += [f"{name}({', '.join(absent)})"] if absent else []
    assert missing == []
