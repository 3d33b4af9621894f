"""The line on a terminal that says how far a long compilation is."""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
from collections.abc import Callable

import numpy as np
import pytest

from compiling import call, compiled, var
from hybridjit._core.config import override
from hybridjit.codegen.emit import progress

SIZES = itertools.count(3)


def compile_something() -> None:
    """New kernels, at least two: the target decides on a copy of the weight, and the first
    compilation of a process has the driver too.
    """
    size = next(SIZES)
    arrays = {"x": np.ones((3, 1009), np.float32), "w": np.ones((size, 1009), np.float32)}
    dense = call("FullyConnected", var("x"), var("w"), num_hidden=size, no_bias=True)
    with override(cache_dir="off"):
        compiled([call("softmax", dense)], arrays)


@pytest.fixture
def terminal(monkeypatch):
    """Run a function with standard error on a terminal, and return the output."""
    if not hasattr(os, "openpty"):
        pytest.skip("the test needs a pseudo terminal, which Windows does not have")

    def shown(work: Callable[[], object]) -> str:
        there, here = os.openpty()
        with open(here, "w") as stream:
            monkeypatch.setattr(sys, "stderr", stream)  # not before: pytest sets it for each phase
            work()
            stream.write("end")
            stream.flush()
            text = b""
            while not text.endswith(b"end"):
                text += os.read(there, 65536)
        os.close(there)
        return text.decode().removesuffix("end")

    return shown


def test_a_long_compilation_says_how_far_it_is(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.0)
    text = terminal(compile_something)
    seen = re.findall(r"hybridjit: compiling graph, kernel (\d+) of (\d+)\r", text)
    count = len(seen)
    assert seen == [(f"{n}", f"{count}") for n in range(1, count + 1)] and count > 1
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")  # the line is taken back


def test_a_short_one_says_nothing(terminal):
    assert progress._LONG == 2.0
    assert terminal(compile_something) == ""


def test_a_file_gets_no_line(monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.0)
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        compile_something()
        assert stream is None or stream.getvalue() == ""


def test_a_line_is_taken_back_when_the_compilation_is_interrupted(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.0)
    step = progress.Progress.step

    def interrupted(self: progress.Progress) -> None:
        step(self)
        raise KeyboardInterrupt

    def work() -> None:
        with pytest.raises(KeyboardInterrupt):
            compile_something()

    monkeypatch.setattr(progress.Progress, "step", interrupted)
    text = terminal(work)
    assert "kernel 1 of " in text and text.endswith("\r\x1b[K")
