"""Special files: readers of files neither block nor fill the memory.

Pipes may be legitimate (``<(command)`` in a shell): models, arrays and pictures may come
out of one that a process writes to, up to a bound.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import hybridjit
from hybridjit import gluon, image, model, nd, sym
from hybridjit._core import safe_open as opening
from hybridjit.cli import inputs, main
from hybridjit.errors import MXNetError
from hybridjit.formats.mxnet import params
from hybridjit.gluon.data.vision import CIFAR10, MNIST
from params_written_by_mxnet import FILES, written
from reading import address_space, hurry

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits"
SYMBOL = str(DIGITS / "digits-symbol.json")
Reader = Callable[[str], object]


def net() -> gluon.nn.Dense:
    made = gluon.nn.Dense(3, in_units=2)
    made.initialize()
    return made


def command(*words: str) -> object:
    """A command that is to fail. Its message is on standard error, which the tests do not read."""
    assert main(list(words)) == 1
    raise MXNetError("exit code 1")


def beside(path: str, name: str, source: Path | None = None) -> str:
    """A name in the same folder: a link to the tested file, or to a good file."""
    link = Path(path).parent / name
    if not link.is_symlink():
        link.symlink_to(source or path)
    return str(link)


def prefix(path: str, symbol: bool) -> str:
    beside(path, "m-symbol.json", None if symbol else DIGITS / "digits-symbol.json")
    beside(path, "m-0000.params", DIGITS / "digits-0000.params" if symbol else None)
    return str(Path(path).parent / "m")


def folder_with(path: str, *names: str) -> str:
    for name in names:
        beside(path, name)
    return str(Path(path).parent)


# Where a pipe may stand, and where it may not.
OF_PIPES: dict[str, Reader] = {
    "nd.load": nd.load,
    "sym.load": sym.load,
    "load_parameters": lambda path: net().load_parameters(path),
    "imports": lambda path: gluon.SymbolBlock.imports(path, ["data"]),
    "load, symbol": lambda path: hybridjit.load(prefix(path, True)),
    "load, params": lambda path: hybridjit.load(prefix(path, False)),
    "load_checkpoint": lambda path: model.load_checkpoint(prefix(path, True), 0),
    "imread": image.imread,
    "inspect": lambda path: command("inspect", path),
    "run": lambda path: command("run", SYMBOL, "--params", str(DIGITS / "digits-0000.params"),
                                "--input", f"data={path}", "--output", "/dev/null"),
}  # fmt: skip
OF_FILES: dict[str, Reader] = {
    "Block.load": lambda path: net().load(beside(path, "m-model.json").removesuffix("-model.json")),
    "check_sha1": lambda path: gluon.utils.check_sha1(path, ""),
    "MNIST": lambda path: MNIST(folder_with(path, "train-images-idx3-ubyte")),
    "MNIST, packed": lambda path: MNIST(folder_with(path, "train-images-idx3-ubyte.gz")),
    "CIFAR10": lambda path: CIFAR10(folder_with(path, *(f"data_batch_{i}.bin" for i in range(6)))),
}
READERS = OF_PIPES | OF_FILES


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    with hurry(20), address_space(3 << 30):
        yield


@contextmanager
def pipe_from(path: Path, words: list[str], data: bytes = b"") -> Iterator[str]:
    """A named pipe into which a process writes ``data`` and then the output of its command."""
    os.mkfifo(path)
    held = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that the process can open it
    start = path.with_suffix(".start")
    start.write_bytes(data)
    line = f"cat {start}; exec {' '.join(words)}"
    with path.open("wb") as out, subprocess.Popen(["sh", "-c", line], stdout=out) as process:
        out.close()
        try:
            yield str(path)
        finally:
            process.kill()
            os.close(held)


NAMED: dict[str, Reader] = {
    "nd.load": nd.load,
    "nd.save": lambda path: nd.save(path, [nd.ones(1)]),
    "sym.load": sym.load,
    "load": hybridjit.load,
    "load_parameters": lambda path: net().load_parameters(path),
    "save_parameters": lambda path: net().save_parameters(path),
    "imread": image.imread,
    "a list of images": lambda path: image.ImageIter(
        1, (3, 2, 2), imglist=[[0, path]], path_root="/"
    ).next(),
    "MXRecordIO": lambda path: hybridjit.recordio.MXRecordIO(path, "w"),
    "onnx.load": hybridjit.onnx.load,
    "library.load": hybridjit.library.load,
    "Predictor": lambda path: hybridjit.batch.Predictor(path).load(),
}


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"], ids=ascii)
@pytest.mark.parametrize("door", NAMED)
def test_names_that_no_file_can_have(door, name):
    """A stranger's list of pictures, or request, may hold them."""
    with pytest.raises(MXNetError, match="null character|surrogates not allowed|No such file"):
        NAMED[door](name)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "link to a device"])
def test_readers_reject_special_files_immediately(kind, reader, tmp_path):
    path = tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError if reader == "check_sha1" else MXNetError):
        READERS[reader](str(path))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_without_end(reader, tmp_path, monkeypatch):
    for module in (image.decoding, hybridjit.formats.mxnet.symbol_json, inputs):
        monkeypatch.setattr(module, "_PIPE_BYTES", 50 << 20)
    for module in (params, hybridjit.formats.mxnet.reader):
        monkeypatch.setattr(module, "PIPE_BYTES", 50 << 20)
    with (
        pipe_from(tmp_path / "it", ["cat", "/dev/zero"]) as path,
        pytest.raises(OSError if reader == "check_sha1" else MXNetError) as error,
    ):
        READERS[reader](path)
    if reader in OF_FILES:
        assert "it is a pipe, not a file" in str(error.value)


ENDLESS = {
    "an array": struct.pack("<QQQIii2qiii", 0x112, 0, 1, 0xF993FAC9, 0, 2, 1 << 20, 40, 1, 0, 0),
    "a name": struct.pack("<QQQ", 0x112, 0, 1) + bytes(4) + struct.pack("<QQ", 1, 1 << 27),
    "half floats": struct.pack("<QQQIiiqiii", 0x112, 0, 1, 0xF993FAC9, 0, 1, 1 << 26, 1, 0, 12),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_arrays_from_a_pipe_without_end(what, tmp_path, monkeypatch):
    """The sizes in the header are checked against the bound before reading."""
    for module in (params, hybridjit.formats.mxnet.reader):
        monkeypatch.setattr(module, "PIPE_BYTES", 100 << 20)
    with (
        pipe_from(tmp_path / "it", ["cat", "/dev/zero"], ENDLESS[what]) as path,
        address_space(64 << 20),
        pytest.raises(MXNetError, match=r"takes \d+ bytes, 10485\d+ are left"),
    ):
        nd.load(path)


@pytest.mark.parametrize("name", sorted(FILES))
def test_arrays_from_a_pipe(name, tmp_path):
    right = params.loads(written(name))
    with pipe_from(tmp_path / "it", ["true"], written(name)) as path:
        found = params.load(path)
    pairs = zip(found, right) if isinstance(right, list) else ((found[n], right[n]) for n in right)
    for mine, wanted in pairs:
        np.testing.assert_array_equal(mine, wanted)
        assert mine.dtype == wanted.dtype and mine.flags.writeable


def test_arrays_from_a_pipe_that_ends_too_early(tmp_path):
    for end in range(len(written("int8"))):
        with (
            pipe_from(tmp_path / f"it{end}", ["true"], written("int8")[:end]) as path,
            pytest.raises(MXNetError, match=r"the pipe ends \d+ bytes too early"),
        ):
            nd.load(path)


def test_a_graph_from_a_pipe(tmp_path):
    text = Path(SYMBOL).read_bytes()
    with pipe_from(tmp_path / "it", ["true"], text) as path:
        assert sym.load(path).tojson() == sym.load(SYMBOL).tojson()


def test_inputs_of_a_command_from_a_pipe(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((1, 1, 28, 28), np.float32))
    out = tmp_path / "out.npy"
    words = ["run", SYMBOL, "--params", str(DIGITS / "digits-0000.params"), "--eager"]
    with pipe_from(tmp_path / "it", ["true"], buffer.getvalue()) as path:
        assert main([*words, "--input", f"data={path}", "--output", str(out)]) == 0
    assert np.load(out).shape == (1, 10)


def test_an_input_that_says_it_is_larger_than_memory(tmp_path, capsys):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((1, 1, 28, 28), np.float32))
    data = buffer.getvalue().replace(b"(1, 1, 28, 28), }  ", b"(9" + b"0" * 12 + b",), } ")
    (tmp_path / "x.npy").write_bytes(data)
    words = ["run", SYMBOL, "--input", f"data={tmp_path / 'x.npy'}", "--output", "/dev/null"]
    assert main(words) == 1
    assert "x.npy: " in capsys.readouterr().err


def test_a_pipe_gives_no_more_than_asked(tmp_path):
    with (
        pipe_from(tmp_path / "it", ["true"], bytes(100)) as path,
        opening.open_file(path, 100) as file,
    ):
        assert file.read() == bytes(100)
    with (
        pipe_from(tmp_path / "that", ["true"], bytes(101)) as path,
        opening.open_file(path, 100) as file,
        pytest.raises(OSError, match="more than 100 bytes came out of the pipe"),
    ):
        file.read()
