"""Every class, function, method and property that a program can name says what it is."""

import importlib
import inspect
from types import ModuleType

import pytest

import hybridjit

NAMESPACES = [
    *("nd", "sym", "gluon", "mod", "model", "metric", "io", "image", "initializer", "rnn"),
    *("autograd", "context", "executor", "monitor", "callback", "visualization", "random"),
    *("test_utils", "profiling", "registry", "compat", "types", "verification"),
]
FUNCTIONS = ("load", "memory_stats", "override", "set_num_threads", "threads")


def is_protocol(owner):
    return getattr(owner, "_is_protocol", False)


def undocumented_members(owner):
    """Public methods and properties of a class for which neither it nor a base has words."""
    for name, value in vars(owner).items():
        function = value.fget if isinstance(value, property) else value
        function = getattr(function, "__func__", function)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if not any(inspect.getdoc(vars(c)[name]) for c in owner.__mro__ if name in vars(c)):
            yield f"{owner.__module__}.{owner.__qualname__}.{name}"


def undocumented(module, seen):
    """What is public in a module and in those below it, and lacks a docstring."""
    seen.add(module.__name__)
    for name, value in list(vars(module).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, ModuleType):
            below = value.__name__.startswith(f"{module.__name__}.")
            if below and value.__name__ not in seen:
                yield from undocumented(value, seen)
        elif getattr(value, "__module__", None) == module.__name__:
            if not value.__doc__ and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{module.__name__}.{name}"
            if inspect.isclass(value) and not is_protocol(value):
                yield from undocumented_members(value)


@pytest.mark.parametrize("name", NAMESPACES)
def test_namespace(name):
    missing = sorted(undocumented(importlib.import_module(f"hybridjit.{name}"), set()))
    assert not missing, f"without a docstring: {', '.join(missing)}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    assert getattr(hybridjit, name).__doc__


def test_what_has_none_is_named():
    class Bare:
        def method(self):
            pass

        @property
        def attribute(self):
            return 1

    module = ModuleType("bare")
    Bare.__module__ = "bare"
    module.Bare = Bare
    found = [name.rpartition(".")[2] for name in undocumented(module, set())]
    assert found == ["Bare", "method", "attribute"]
