"""The commands take ONNX files wherever they take MXNet's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from test_onnx import model_of, node, numbers

import hybridjit as mx
from hybridjit import nd
from hybridjit.cli import main
from hybridjit.formats.onnx import messages

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits"
FILE = f"{DIGITS}.onnx"
SHAPE = ["--shape", "data=2,1,28,28"]


@pytest.fixture
def printed(capsys):
    """The output of a command that ends with ``code``; its error for a code above 0."""

    def of(*words: str, code: int = 0) -> str:
        assert main(words) == code
        captured = capsys.readouterr()
        return captured.err if code and not captured.out else captured.out

    return of


@pytest.fixture
def arrays(tmp_path):
    """A file with an input, and the result of MXNet's files."""
    x = np.random.default_rng(2).random((2, 1, 28, 28), np.float32)
    np.save(tmp_path / "x.npy", x)
    return str(tmp_path / "x.npy"), mx.load(str(DIGITS))(nd.array(x)).asnumpy()


def test_inspect_lists_an_onnx_model(printed):
    out = printed("inspect", FILE, *SHAPE)
    assert "inputs: 1\n  data  f32[2,1,28,28]\n" in out and "parameters: 9, 44416 elements" in out
    assert re.search(r"^  Convolution +2  conv ", out, re.M) and "multiply-adds: " in out


def test_inspect_of_unknown_operators(printed, tmp_path):
    path = tmp_path / "foo.onnx"
    model = model_of([node("Foo", "x", "a"), node("Relu", "a")], {"x": (1, 2)})
    path.write_bytes(b"".join(messages.write(model)))
    out = printed("inspect", str(path), code=1)
    assert "ONNX's Foo is not supported: node 1 'the_foo'" in out
    assert "operators that are not supported: 1" in out and "outputs: 1\n  y\n" in out


def test_dump_prints_the_stages_of_an_onnx_model(printed):
    out = printed("dump", FILE, *SHAPE, "--after", "fuse")
    assert "(data: f32[2,1,28,28])" in out


@pytest.mark.parametrize("eager", [[], ["--eager"]])
def test_run_computes_an_onnx_model(eager, printed, arrays, tmp_path):
    file, right = arrays
    printed("run", FILE, "--input", f"data={file}", "--output", str(tmp_path / "y.npy"), *eager)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), right, rtol=1e-4, atol=1e-5)


def test_run_of_sizes_that_the_file_leaves_open(printed, arrays, tmp_path):
    """Nodes that ask for them get those of the input's file."""
    path = tmp_path / "open.onnx"
    nodes = [node("Size", "x", "n"), node("Cast", "n", "count", to=1), node("Mul", "x count")]
    path.write_bytes(b"".join(messages.write(model_of(nodes, {"x": (None, 1, 28, 28)}))))
    assert "give the shapes" in printed("bench", str(path), code=1)
    printed("run", str(path), "--input", f"x={arrays[0]}", "--output", str(tmp_path / "y.npy"))
    x = np.load(arrays[0])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x * x.size)
    assert "agree" in printed("verify", str(path), "--input", f"x={arrays[0]}")


def test_a_library_for_any_batch(printed, tmp_path):
    """The file holds the parameters, and its nodes ask for the batch."""
    nodes = [
        node("Shape", "x", "batch", end=1),
        node("Concat", "batch rest", "sizes", axis=0),
        node("Reshape", "x sizes", "flat"),
        node("MatMul", "flat w"),
    ]
    constants = {"rest": np.array([-1]), "w": numbers(6, 4)}
    path = tmp_path / "net.onnx"
    path.write_bytes(b"".join(messages.write(model_of(nodes, {"x": (None, 2, 3)}, constants))))
    printed("compile", str(path), "--shape", "x=N,2,3", "--library", str(tmp_path))
    library = mx.library.load(tmp_path / "net.so")
    for batch in (1, 3):
        x = numbers(batch, 2, 3)
        np.testing.assert_allclose(
            library(x), x.reshape(batch, 6) @ constants["w"], rtol=1e-4, atol=1e-5
        )


def test_verify_accepts_an_onnx_model(printed, arrays):
    assert "agree" in printed("verify", FILE, "--input", arrays[0])


def test_bench_and_profile(printed):
    out = printed("bench", FILE, *SHAPE, "--seconds", "0.01", "--batch", "1,3", "--threads", "1")
    assert "random" not in out and len(out.splitlines()) == 4
    assert "digits_conv0_fwd" in printed("profile", FILE, *SHAPE, "--seconds", "0.05")


def test_parameters_are_in_the_file(printed):
    error = printed("inspect", FILE, "--params", f"{DIGITS}-0000.params", code=2)
    assert "contains its parameters" in error
