"""Commands agree: every MODEL that ``hybridjit.load`` takes, the same options, completion."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import cli
from hybridjit.cli import COMMANDS, main
from patience import PATIENCE

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"
SYMBOL, PARAMS = DIGITS / "digits-symbol.json", DIGITS / "digits-0000.params"
SHAPE = ["--shape", "data=1,1,28,28"]


@pytest.fixture
def printed(capsys):
    def run(*words: object, code: int = 0) -> str:
        assert main(list(map(str, words))) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        return err if code else out

    return run


@pytest.fixture
def pixels(tmp_path) -> Path:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(3).random((2, 1, 28, 28), np.float32))
    return path


def forms(folder: Path) -> dict[str, Path]:
    """The digits network in each form that ``load`` takes."""
    (folder / "model").mkdir()
    for file in (SYMBOL, PARAMS):
        shutil.copy(file, folder / "model")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(folder / "model", ".")
    with zipfile.ZipFile(folder / "digits.mar", "w") as archive:
        for file in (SYMBOL, PARAMS):
            archive.write(file, file.name)
    net = mx.load(folder / "model" / "digits")
    net.export_onnx(str(folder / "digits.onnx"), mx.nd.zeros((2, 1, 28, 28)))
    made = {"prefix": folder / "model" / "digits", "folder": folder / "model"}
    made |= {"symbol": folder / "model" / SYMBOL.name, "params": folder / "model" / PARAMS.name}
    return made | {n: folder / n for n in ("model.tar.gz", "digits.mar", "digits.onnx")}


def test_every_form_of_a_model_runs(printed, pixels, tmp_path):
    net = mx.load(DIGITS / "digits")
    wanted = net.predict(np.load(pixels))
    for name, path in forms(tmp_path).items():
        found = json.loads(printed("run", path, "--input", pixels, "--json"))["outputs"]
        np.testing.assert_allclose(found[0]["values"], wanted, rtol=1e-4, atol=1e-4, err_msg=name)
        inspected = printed("inspect", path, "--json", "--input", f"data={pixels}")
        assert json.loads(inspected)["inputs"] == ["data"], name


def test_options_that_do_not_fit_the_form(printed, tmp_path):
    (tmp_path / "two").mkdir()
    for name in ("a-symbol.json", "b-symbol.json"):
        shutil.copy(SYMBOL, tmp_path / "two" / name)
    assert "one file *-symbol.json" in printed("inspect", tmp_path / "two", code=1)
    assert "No such file" in printed("inspect", tmp_path / "none.tar.gz", code=1)
    epoch = ("--params", PARAMS, "--epoch", 1)
    assert "omit one of them" in printed("inspect", tmp_path / "two", *epoch, code=2)


@pytest.mark.parametrize("command", ["bench", "profile", "inspect", "run"])
def test_json_is_a_document(command, printed, pixels):
    seconds = ["--seconds", "0.01"] if command in ("bench", "profile") else []
    document = json.loads(printed(command, SYMBOL, "--input", pixels, "--json", *seconds))
    assert isinstance(document, dict) and document


def test_run_names_its_files_in_json(printed, pixels, tmp_path):
    words = ("run", SYMBOL, "--input", pixels, "--output", tmp_path / "y.npy", "--json")
    (row,) = json.loads(printed(*words))["outputs"]
    assert row["file"] == str(tmp_path / "y.npy") and "values" not in row
    assert row["shape"] == [2, 10] and row["dtype"] == "float32"
    assert "give --output once" in printed("run", SYMBOL, "--input", pixels, code=2)


def test_an_array_gives_shape_and_values(printed, pixels):
    words = ("bench", SYMBOL, "--input", f"data={pixels}", "--seconds", "0.01")
    assert json.loads(printed(*words, "--json"))["rows"][0]["batch"] == 2
    assert "omit --shape" in printed(*words, *SHAPE, code=2)
    assert "--batch needs --shape" in printed(*words, "--batch", "4", code=2)
    plan = printed("dump", SYMBOL, "--input", pixels, "--after", "infer")
    assert plan == printed("dump", SYMBOL, "--shape", "data=2,1,28,28", "--after", "infer")


def test_verify_takes_shapes_in_place_of_arrays(printed):
    assert "compiled agrees with eager" in printed("verify", SYMBOL, *SHAPE)
    assert "give --shape data=..." in printed("verify", SYMBOL, code=2)


def test_verify_and_view_take_a_precision(printed, pixels, tmp_path):
    words = (SYMBOL, "--input", pixels, "--precision", "bfloat16")
    assert "agree" in printed("verify", *words)
    page = json.loads(printed("view", *words, "--json"))
    assert "bf16" in json.dumps(page) and "bf16" not in printed("view", SYMBOL, *SHAPE, "--json")


def test_options_have_one_meaning_in_all_commands():
    parsers, _ = cli._all_commands()
    assert parsers.keys() == COMMANDS.keys()
    takes_model = {n for n, p in parsers.items() if any(a.dest == "symbol" for a in p._actions)}
    for option in ("--epoch", "--params", "--input"):
        assert {n for n, p in parsers.items() if option in p._option_string_actions} == takes_model
    precise = {n for n, p in parsers.items() if "--precision" in p._option_string_actions}
    assert precise == takes_model - {"inspect", "quantize"}


# ---- completion


def completed(script: Path, *words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _hybridjit"
    command = ["bash", "-c", program + '; printf "%s\\n" "${COMPREPLY[@]}"']
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_options_and_values(printed, tmp_path):
    script = tmp_path / "completion"
    script.write_text(printed("completion", "bash"))
    assert completed(script, "hybridjit", "be") == ["bench"]
    assert completed(script, "hybridjit", "bench", "--pre") == ["--precision"]
    assert completed(script, "hybridjit", "bench", "--precision", "b") == ["bfloat16"]
    assert completed(script, "hybridjit", "completion", "z") == ["zsh"]
    start = str(DIGITS / "digits-s")
    assert completed(script, "hybridjit", "run", start) == [str(SYMBOL)]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_command_and_option(shell, printed, tmp_path):
    text = printed("completion", shell)
    parsers, meanings = cli._all_commands()
    for name, parser in parsers.items():
        assert name in text and meanings[name].partition("'")[0] in text
        for option in parser._option_string_actions:
            mark = f"-l {option[2:]}" if shell == "fish" else f"*{option}["
            assert not option.startswith("--") or mark in text
    if shutil.which(shell):
        (tmp_path / "script").write_text(text)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True, timeout=PATIENCE)


def test_an_unknown_shell_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "csh"])
    assert "invalid choice: 'csh'" in capsys.readouterr().err


def test_unknown_arguments_are_answered_with_the_usage_of_the_command(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", str(SYMBOL), *SHAPE])
    err = capsys.readouterr().err
    assert caught.value.code == 2 and "usage: hybridjit run" in err and "--input" in err
    assert "unrecognized arguments: --shape data=1,1,28,28" in err


def test_inspect_refuses_the_shape_of_an_input_that_the_graph_lacks(printed):
    text = printed("inspect", SYMBOL, "--shape", "dat=1,1,28,28", code=2)
    assert "no input 'dat'; it has 'data'" in text


@pytest.mark.parametrize("options", [(), ("--json",), ("--shape", "data=1,3,9,9")])
def test_inspect_lists_a_model_whose_parameters_contradict_the_graph(capsys, tmp_path, options):
    net = mx.sym.Convolution(mx.sym.var("data"), num_filter=4, kernel=(3, 3), name="c")
    net.save(str(tmp_path / "wrong-symbol.json"))
    arrays = {"arg:c_weight": mx.nd.zeros((4, 3, 5, 5)), "arg:c_bias": mx.nd.zeros(4)}
    mx.nd.save(str(tmp_path / "wrong-0000.params"), arrays)
    assert main(["inspect", str(tmp_path / "wrong"), *options]) == 1
    out, err = capsys.readouterr()
    listed = "c_weight" if "--json" in options else "c_weight  f32[4,3,5,5]\n  arg  c_bias"
    assert listed in out
    assert "weight has shape (4,3,5,5), but" in err and "(4,3,3,3)" in err
