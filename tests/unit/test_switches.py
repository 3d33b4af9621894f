"""Switches and other environment variables: effects, or clear errors."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from hybridjit import sym
from hybridjit._core.config import (
    _FORMER_NAMES,
    MAX_THREADS,
    PREFIX,
    TARGETS,
    Config,
    config,
    override,
)
from hybridjit.cli import main
from hybridjit.codegen import targets
from hybridjit.compiler import PIPELINE, new_log
from hybridjit.runtime import threads
from hybridjit.runtime.threads import explained_default
from patience import PATIENCE

NO_COUNTS = ["²", "9" * 5000, "1e3", "x", "0", "-3", "1.5", "3 4", str(MAX_THREADS + 1), "١"]


@pytest.mark.parametrize("text", NO_COUNTS, ids=[t[:5] for t in NO_COUNTS])
def test_numbers_of_threads_that_are_none(text, monkeypatch):
    """Our switch refuses them; other libraries' variable is passed over, with a warning."""
    with pytest.raises(ValueError) as refused:
        Config({f"{PREFIX}NUM_THREADS": text})
    assert f"{PREFIX}NUM_THREADS='{text[:5]}" in str(refused.value)
    assert f"an integer from 1 to {MAX_THREADS}" in str(refused.value)
    assert len(str(refused.value)) < 200
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    usual = explained_default()
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    with pytest.warns(UserWarning, match=f"OMP_NUM_THREADS='{text[:5]}.* is not used: the number"):
        assert explained_default() == usual


@pytest.mark.parametrize(
    "text, count", [("3", 3), (" 3 ", 3), ("007", 7), ("3,2,1", 3), ("1024", 1024)]
)
def test_numbers_of_threads(text, count, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert explained_default() == (count, "OMP_NUM_THREADS")
    if "," not in text:
        assert Config({f"{PREFIX}NUM_THREADS": text}).num_threads == count


@pytest.mark.parametrize("text", ["", " ", ",2"])
def test_no_number_of_threads_is_no_wish(text, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert explained_default()[0] == max(1, min(filter(None, threads.thread_limits().values())))


def test_the_first_call_computes_whatever_the_environment_says():
    program = (
        "from hybridjit import nd\nfrom hybridjit.gluon import nn\n"
        "net = nn.Dense(3)\nnet.initialize()\nnet.hybridize()\nprint(net(nd.ones((2, 4))).shape)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "²", "HYBRIDJIT_CACHE_DIR": "off"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "(2, 3)\n", done.stderr
    assert "OMP_NUM_THREADS='²' is not used" in done.stderr


@pytest.mark.parametrize("name", ["CACHE_DIR", "DUMP_DIR"])
def test_a_folder_below_the_users_home(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    attribute = name.lower()
    assert getattr(Config({PREFIX + name: "~/x"}), attribute) == str(tmp_path / "x")
    assert getattr(Config({PREFIX + name: "a/~/x"}), attribute) == "a/~/x"
    with override(**{attribute: "~/x"}):
        assert getattr(config, attribute) == str(tmp_path / "x")
    with pytest.raises(ValueError, match=f"{PREFIX}{name}='~nobody-here/x': no home is known for"):
        Config({PREFIX + name: "~nobody-here/x"})


def test_the_cache_to_fill_may_be_below_the_users_home(tmp_path, monkeypatch, capsys):
    graph = sym.FullyConnected(sym.var("data"), num_hidden=23)  # a size that no other test compiles
    graph.save(str(tmp_path / "odd-symbol.json"))
    words = ["compile", str(tmp_path / "odd"), "--shape", "data=19,29", "--cache"]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main([*words, "~/objects"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["objects", "odd-symbol.json"]
    with pytest.raises(SystemExit):
        main([*words, "~nobody-here/x"])
    assert "no home is known for '~nobody-here'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["VERIFY", "CHECK", "TIMING", "EXPLAIN"])
def test_yes_and_no(name):
    attribute = name.lower()
    for text, value in {
        "1": True,
        "Yes": True,
        " on ": True,
        "0": False,
        "": False,
        "Off": False,
    }.items():
        assert getattr(Config({PREFIX + name: text}), attribute) is value
    with pytest.raises(ValueError, match=f"{PREFIX}{name}='fales': it is 1, true, yes or on, or"):
        Config({PREFIX + name: "fales"})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("TARGET", "avx9", "HYBRIDJIT_TARGET='avx9': it is native, amx, avx512bf16, avx512"),
        ("SKIP", "foo", "HYBRIDJIT_SKIP: there is no 'foo'; known are lower-float16"),
        ("SKIP", "layout,fusee", "HYBRIDJIT_SKIP: there is no 'fusee'; did you mean 'fuse'?"),
        ("DUMP", "fus", "HYBRIDJIT_DUMP: there is no 'fus'; did you mean 'fuse'?"),
        ("VERIFY", "maybe", "HYBRIDJIT_VERIFY='maybe': it is 1, true"),
        ("TRACEBACK", "long", "HYBRIDJIT_TRACEBACK='long': it is short or full"),
        ("NUM_THREADS", "many", "HYBRIDJIT_NUM_THREADS='many': the number of threads"),
    ],
)
def test_a_value_that_does_not_exist_is_an_error_at_import(name, text, says):
    environment = {**os.environ, PREFIX + name: text}
    command = [sys.executable, "-c", "import hybridjit"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and says in lines[-1] and len(lines) <= 15, done.stderr


@pytest.mark.parametrize(("name", "text"), [("TARGET", "avx9"), ("SKIP", "foo")])
def test_a_command_ends_with_the_message_alone(name, text):
    environment = {**os.environ, PREFIX + name: text}
    command = [sys.executable, "-m", "hybridjit", "switches"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"hybridjit: HYBRIDJIT_{name}") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TARGET", "sse2"),
        ("SKIP", "layout,by-sample"),
        ("SKIP", "half,on-rows"),
        ("DUMP", "fuse,asm"),
        ("DUMP", "all"),
    ],
)
def test_values_that_exist(name, text):
    environment = {**os.environ, PREFIX + name: text}
    command = [sys.executable, "-W", "error", "-c", "import hybridjit"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_former_names_of_passes_are_read_as_their_new_names():
    with override(skip="half,layout,on-rows") as config:
        assert config.skip == ("lower-float16", "layout", "hoist-pointwise")
    assert set(_FORMER_NAMES.values()) <= {row.name for row in PIPELINE}


def test_targets_are_those_of_the_code_generator():
    known = {*targets._PORTABLE, *targets._ALIASES, "native", "generic", "amx"}
    assert set(TARGETS) == known


def test_unknown_names_in_skip_are_reported():
    with override(skip=("layout", "lay-out")), pytest.warns(UserWarning) as told:
        new_log()
    assert "HYBRIDJIT_SKIP cannot leave out lay-out; known are lower-float16" in str(
        told[0].message
    )


@pytest.mark.parametrize("text", ["²", "9" * 5000, "0"], ids=["power", "long", "zero"])
def test_counts_on_the_command_line(text, capsys):
    with pytest.raises(SystemExit):
        main(["bench", "x-symbol.json", "--threads", text])
    assert "expected an integer, at least 1" in capsys.readouterr().err
