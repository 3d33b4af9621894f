"""What the README says is so: its code runs, its commands work, its tables are the code's own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridjit
from hybridjit.config import switch_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "hybridjit"


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
    return [text for name, text in fenced if name == language]


COMMANDS = [
    line.partition("  #")[0].strip()
    for block in blocks("sh")
    for line in block.splitlines()
    if line.startswith("hybridjit ")
]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A working folder with the examples in it, as the checkout has them, and an image."""
    np.save(tmp_path / "x.npy", np.ones((1, 1, 28, 28), np.float32))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": "off", **settings}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)


def test_python_blocks_run_one_after_the_other(checkout):
    program = "\n".join(blocks("python"))
    done = run(sys.executable, "-W", "error", "-c", program)
    assert done.returncode == 0, done.stderr
    difference, shape = done.stdout.splitlines()
    assert float(difference) < 1e-6 and shape == "(1, 10)"
    assert (checkout / "small-symbol.json").exists() and (checkout / "small-0000.params").exists()
    assert "==== fuse" in done.stderr and "==== plan" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, checkout):
    done = run(sys.executable, "-m", *shlex.split(command))
    assert done.returncode == 0, done.stderr
    if "--out" in command:
        names = sorted(path.name for path in (checkout / "stages").rglob("*.txt"))
        assert names[:2] == ["00-trace.txt", "01-infer.txt"]
    else:
        assert done.stdout


def test_commands_of_the_shell_exist():
    scripts = re.findall(r"^sh (\S+)", "\n".join(blocks("sh")), re.M)
    assert scripts and all((ROOT / script).is_file() for script in scripts)


@pytest.mark.parametrize("script", ["tools/demo", "tools/test", "tools/environment"])
def test_scripts_are_well_formed(script):
    done = run("sh", "-n", str(ROOT / script))
    assert done.returncode == 0, done.stderr


def test_the_table_of_switches_is_the_one_of_the_code():
    assert switch_table() in README
    assert switch_table() in run(sys.executable, "-m", "hybridjit", "switches").stdout


def test_the_map_names_what_is_there():
    """Every folder of the package is on the map, and every name on the map is a file or folder."""
    listing = next(block for block in blocks("") if block.startswith("src/hybridjit/"))
    named = [re.split(r" {2,}", line.strip())[0] for line in listing.splitlines()]
    words = {word.rstrip("/") for name in named for word in name.split()}
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= words
    for word in words - {"src/hybridjit"}:
        places = [top / word for top in (PACKAGE, PACKAGE / "codegen", PACKAGE / "ops", ROOT)]
        assert any(place.exists() for place in places), word


def test_links_and_files_exist():
    linked = re.findall(r"\]\(([^)#]+)\)", README)
    quoted = re.findall(r"`((?:examples|src|tests|tools)/[\w./-]+\.\w+)`", README)
    missing = [name for name in linked + quoted if "*" not in name and not (ROOT / name).exists()]
    assert missing == []


def test_every_promise_names_tests_that_exist():
    text = README.partition("## What you can rely on\n")[2].partition("\n## ")[0]
    promises = re.split(r"^- ", text, flags=re.M)[1:]
    assert len(promises) > 10
    for promise in promises:
        named = re.findall(r"`(test_\w+\.py)::(\w+)`", promise)
        assert named, f"no test holds this promise: {promise[:60]}"
        for file, name in named:
            source = (ROOT / "tests" / file).read_text(encoding="utf-8")
            found = re.search(rf"^(?:def|class) {name}\b", source, re.M)
            assert found and name.lower().startswith("test"), f"{file} has no {name}"


def test_the_version_is_said_once():
    assert "version" not in re.findall(
        r"^(\w+) =", (ROOT / "pyproject.toml").read_text().partition("[tool")[0], re.M
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+", hybridjit.__version__)
