"""Docstrings of the names that users call: their examples run, and they describe each argument."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd, sym
from hybridjit.gluon import nn
from hybridjit.ops import all_ops, manual
from hybridjit.ops.manual import attribute_text, input_text
from hybridjit.ops.namespace import SUBMODULES, input_slots

ROOT = Path(__file__).parent.parent.parent
GENERATED = re.compile(r"<!-- generated: api (\S+) ([^>]*) -->")
# The names of the page of the API, by their module.
API = [
    (module, name)
    for module, names in GENERATED.findall((ROOT / "docs/reference/api.md").read_text("utf-8"))
    for name in names.split()
]
PUBLIC = tuple(f"_{room}_" for room in SUBMODULES)
HAS_CODEC = any(map(importlib.util.find_spec, ("cv2", "PIL")))
NAMES = {"mx": mx, "nd": nd, "np": np, "sym": sym, "nn": nn, "gluon": gluon, "autograd": autograd}


def described(doc: str) -> set[str]:
    """The names under "Parameters"."""
    section = doc.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = re.findall(r"^(\*{0,2}\w[\w, *]*?)(?: : .*)?$", section, re.M)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def doc_of(thing: object) -> str:
    """The docstring; of a class, also that of its constructor, which ``help`` prints as well."""
    docs = [inspect.getdoc(thing)]
    if inspect.isclass(thing):
        docs.append(inspect.getdoc(thing.__init__))
    return "\n\n".join(doc or "" for doc in docs)


@pytest.mark.parametrize(("module", "name"), API, ids=lambda part: part)
def test_docstring_describes_each_argument(module, name):
    thing = getattr(import_module(module), name)
    same = re.search(r"parameters as in :class:`(\w+)`", doc_of(thing))
    thing = getattr(import_module(module), same[1]) if same else thing
    doc = doc_of(thing)
    taken = {n for n in inspect.signature(thing).parameters if n not in ("self", "unknown")}
    assert taken - described(doc) == set()
    assert described(doc) - taken == set()
    assert not re.search(r"[^\n] -{4,}", doc), "a heading and its line are one line"


@pytest.mark.parametrize(("module", "name"), API, ids=lambda part: part)
def test_examples_of_a_docstring_run(module, name, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    thing = getattr(import_module(module), name)
    finder = doctest.DocTestFinder(recurse=inspect.isclass(thing))
    tests = [test for test in finder.find(thing, name, globs=dict(NAMES)) if test.examples]
    assert tests, "no example"
    if any("pack_img" in test.docstring for test in tests) and not HAS_CODEC:
        pytest.skip("the example encodes a picture: neither OpenCV nor Pillow is installed")
    said: list[str] = []
    for test in tests:
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not said, "".join(said)


METHODS = [
    *(mx.mod.BaseModule.fit, mx.mod.BaseModule.predict, mx.mod.BaseModule.iter_predict),
    *(mx.mod.BaseModule.score, mx.mod.BaseModule.set_params),
    *(mx.mod.Module.bind, mx.mod.Module.load, mx.mod.Module.save_checkpoint),
    *(mx.mod.Module.forward, mx.mod.Module.backward, mx.mod.Module.init_optimizer),
    mx.mod.Module.init_params,
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_docstring_of_a_method_describes_each_argument(method):
    taken = {name for name in inspect.signature(method).parameters if name != "self"}
    assert described(doc_of(method)) == taken


# Operators

OPERATORS = [op for op in all_ops() if not op.internal]


def test_manual_describes_each_argument_of_each_operator():
    missing = []
    for op in OPERATORS:
        if not op.name.startswith("_") or op.name.startswith(PUBLIC):
            missing += [f"{op.name}.{a.name}" for a in op.attrs if not attribute_text(op, a)]
            missing += [f"{op.name}.{i}" for i in input_slots(op) if not input_text(op, i)]
    assert missing == []


def test_manual_has_no_entry_that_nothing_uses():
    names = {op.name for op in OPERATORS}
    used = set(names)
    for op in OPERATORS:
        for name in (*(attr.name for attr in op.attrs), *input_slots(op)):
            used |= {name, f"{op.name}.{name}"}
    entries = {*manual.ATTRIBUTES, *manual.INPUTS, *manual.EXAMPLES} - {"*data"}
    assert entries - used == set()
    assert set(manual.EXAMPLES) <= names


@pytest.mark.parametrize("name", manual.EXAMPLES)
def test_example_of_an_operator_runs(name):
    test = doctest.DocTestParser().get_doctest(manual.EXAMPLES[name], {"nd": nd}, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert test.examples and not said, "".join(said)


def test_help_of_an_operator_has_arguments_errors_and_example():
    doc = inspect.getdoc(nd.topk)
    assert described(doc) == set(inspect.signature(nd.topk).parameters)
    assert "MXNetError" in doc and ">>> nd.topk" in doc
