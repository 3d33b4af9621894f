"""Parts that are loaded when a program asks for them are the same as those that always are."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

import hybridjit
from hybridjit.compat.modules import LATE

# Modules of a program that defines a network and runs it eagerly. NumPy's own modules and the
# standard library's that it loads are not counted: they differ from version to version.
MOST_MODULES = 294

PROCESS = """
import os, sys, traceback
from importlib import import_module
import numpy
before = set(sys.modules)
import hybridjit
names = set(sys.modules) - before - {"__main__"}
loaded = {id(sys.modules[name]) for name in names}  # some have two names
from hybridjit.compat import absent, elsewhere, placeholders
from hybridjit.compat.modules import part_of

def module_at(path):
    return sys.modules["hybridjit" + "." * bool(path) + path]

def require(path, names):
    missing = [name for name in names if name not in vars(module_at(path))]
    assert not missing, (path, missing)

for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            exec(eval(line))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Fresh:
    """A process that has imported the package and no more; each program runs in a fork of it."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, "-c", PROCESS], **pipes)

    def run(self, program: str) -> None:
        self._process.stdin.write(repr(textwrap.dedent(program)) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "0\n", "see the trace"

    def end(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    process = Fresh()
    yield process
    process.end()


def test_the_import_loads_few_modules(fresh):
    """Each takes 0.1 to 0.5 ms of every start: a new one has to be needed by every program.

    Other modules are named in ``_LATE`` of ``__init__.py``, in ``names_of`` of another package, or
    imported through ``late.Late``.
    """
    # Of Python 3.10, `dataclasses` loads `inspect` and `dis`, which NumPy does not load before.
    most = MOST_MODULES + 2 * (sys.version_info < (3, 11))
    fresh.run(f"assert len(loaded) <= {most}, len(loaded)")


def test_a_compiled_eager_call_does_not_load_the_passes_of_training(fresh):
    program = """
        hybridjit.nd.softmax(hybridjit.nd.ones((64, 4096)))
        assert "hybridjit.codegen.emit.generate" in sys.modules
        late = ("trained", "passes.training.differentiate", "passes.training.partition")
        assert not {"hybridjit." + name for name in late} & {*sys.modules}
    """
    fresh.run(program)


@pytest.mark.parametrize("part", LATE)
def test_a_part_is_complete_however_it_is_loaded(fresh, part):
    """Imported by its own path first, it has MXNet's names as if everything had been loaded."""
    program = f"""
        part = {part!r}
        assert "hybridjit." + part not in sys.modules
        import hybridjit.{part}
        for path, _, names in elsewhere._rows():
            if part_of(path) == part:
                require(path, names)
        for path, (names, _) in placeholders.PLACEHOLDERS.items():
            if part_of(path) == part:
                require(path, names)
        for paths, patterns, reason in absent.ABSENT:
            for path in paths:
                if part_of(path) == part:
                    try:
                        getattr(module_at(path), patterns[0].strip("*"))
                    except AttributeError as error:
                        assert reason in str(error) or "*" in patterns[0], (path, error)
                    else:
                        assert "*" in patterns[0], (path, patterns[0])
    """
    fresh.run(program)


def test_permanent_modules_have_all_names(fresh):
    program = """
        for path, source, names in elsewhere._rows():
            if not part_of(path):
                require(path, names)
                assert not part_of(source), source
        for path, (names, _) in placeholders.PLACEHOLDERS.items():
            if not part_of(path):
                require(path, names)
    """
    fresh.run(program)


@pytest.mark.parametrize(
    "short, path",
    [
        ("img", "image.detection"),
        ("module", "mod.base_module"),
        ("mon", "monitor"),
        ("viz", "visualization"),
        ("kv", "kvstore.local"),
        ("init", "initializer"),
        ("rnd", "random"),
        ("ndarray", "nd.random"),
        ("symbol", "sym.symbol"),
    ],
)
def test_a_second_name_is_no_second_module(fresh, short, path):
    """Whichever is imported first."""
    top, _, below = path.partition(".")
    second = f"hybridjit.{short}" + f".{below}" * bool(below)
    for first in (f"import {second}", f"import hybridjit.{path}", ""):
        program = f"""
            {first}
            assert import_module({second!r}) is import_module("hybridjit.{path}")
            assert hybridjit.{short} is hybridjit.{top} is sys.modules["hybridjit.{short}"]
        """
        fresh.run(program)


def test_all_is_there_for_who_asks():
    for module in (hybridjit, hybridjit.gluon, hybridjit.gluon.contrib, hybridjit.contrib):
        for name in module.__all__:
            assert getattr(module, name) is not None
            assert name in dir(module)
        with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
            module.no_such_name  # noqa: B018


def test_the_profiler_of_steps_is_found_by_its_name(fresh):
    fresh.run("import hybridjit as mx; assert callable(mx.profiling.profile)")


def test_eager_calls_load_no_pass(fresh):
    """A layer runs line by line without the compiler; the first hybridized call loads it."""
    program = """
        net = hybridjit.gluon.nn.Dense(3)
        net.initialize()
        net(hybridjit.nd.ones((2, 4)))
        assert not {"hybridjit.compiler", "hybridjit.passes.plan.fuse"} & sys.modules.keys()
    """
    fresh.run(program)


def test_reading_onnx_files_loads_no_writer_and_no_pass(fresh):
    """The exporter is loaded when a program asks for it."""
    program = """
        hybridjit.onnx.load("examples/digits/digits.onnx")
        late = ("onnx.export", "onnx.writers", "verification", "compiler", "io", "gluon.bound")
        assert not {"hybridjit." + name for name in late} & {*sys.modules}
        assert "export_model" in dir(hybridjit.onnx)
        assert hybridjit.onnx.export.export_model is hybridjit.contrib.onnx.export_model
    """
    fresh.run(program)


def test_hybridizing_loads_no_iterators(fresh):
    program = """
        net = hybridjit.gluon.nn.Dense(3)
        net.hybridize()
        assert "hybridjit.io" not in sys.modules
    """
    fresh.run(program)
