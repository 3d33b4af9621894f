"""Every example runs, at tiny size, as a user would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

OUT = "a folder of its own"

# The arguments of each example, and a line that it must print.
RUNS = {
    "digits.py": (("--count", "12"), "compiled   12 of 12 right (100.00 %)"),
    "digits_training.py": (("--epochs", "1", "--out", OUT), "The loss, epoch by epoch:"),
    "tour.py": (("--out", OUT), "Notice: Dropout is the identity at inference: it is gone."),
    "training.py": ((), "3. Three hundred steps, compiled: a loss of"),
    "tutorial.py": (("--repeats", "2"), "F was sym, 1 time"),
}


def run(name: str, *arguments: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """One example in a separate process, started from another folder."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        encoding=encoding,
        env=environment,
        timeout=PATIENCE,
    )


def test_every_example_is_listed():
    assert sorted(RUNS) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", RUNS)
def test_each_example_runs_and_prints_its_line(name, tmp_path):
    arguments, line = RUNS[name]
    done = run(name, *(str(tmp_path) if a == OUT else a for a in arguments))
    assert done.returncode == 0, done.stderr
    assert line in done.stdout
    assert done.stderr == ""


@pytest.mark.any_cpu
def test_digits_draws_in_ascii_where_it_must():
    done = run("digits.py", "--count", "1", encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert "####" in done.stdout


@pytest.mark.any_cpu
def test_digits_fails_when_the_numbers_are_off(tmp_path):
    """With one image's recorded logits changed, the exit code and the message say so."""
    program = f"""
import sys
sys.path.insert(0, {str(EXAMPLES)!r})
import numpy as np
import digits
data = dict(np.load(digits.FOLDER / "digits-test.npz"))
data["logits"][0, 0] += 1e-3
np.load = lambda path: data
sys.exit(digits.main(["--count", "2"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "Not as MXNet" in done.stderr


def test_digits_command_shows_the_generated_code():
    """The command that the example prints runs and shows assembly."""
    lines = run("digits.py", "--count", "1").stdout.splitlines()
    words = lines[lines.index("To see the generated code:") + 1].split()
    assert words[-1] == "plan,spec,asm"
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "plan " in done.stdout and ".text" in done.stdout
