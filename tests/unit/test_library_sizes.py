"""C libraries whose calls give sizes: bits, bounds, refused sizes, workspaces, threads."""

from __future__ import annotations

import ctypes
import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from test_library import STRICT, ran, tool, write
from test_onnx_symbolic import called, encoder, tokens, written

import hybridjit
from hybridjit import gluon, nd, sym
from hybridjit._core.config import override
from hybridjit._core.symbolic import Scope, value_of
from hybridjit._core.symbolic.instructions import Instructions, Operation
from hybridjit.cli import main
from hybridjit.errors import DTypeError, MXNetError, ShapeError
from hybridjit.gluon import nn
from hybridjit.library import interface as kinds
from hybridjit.library.grid import MOST_COMBINATIONS, Bound, Grid
from patience import PATIENCE

Shape = tuple[int, ...]


class Net(NamedTuple):
    """A network, its ``--shape``, the bounds, and sizes of calls."""

    make: Callable[[], gluon.HybridBlock]
    shape: str
    bounds: tuple[str, ...]
    shapes: tuple[Shape, ...]


def rows() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Dense(16, flatten=False, activation="relu"), nn.Dense(5, flatten=False))
    return net


def images() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 3, 2, 1))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(5))
    return net


def sequences() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Dense(12, flatten=False), gluon.rnn.LSTM(8, bidirectional=True))
    net.add(nn.Dense(3, flatten=False))
    return net


def strided() -> gluon.HybridBlock:
    """A first layer with strides, which is computed as one without: the border is a pass's."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 7, 2, 3, use_bias=False), nn.GlobalAvgPool2D(), nn.Dense(5))
    return net


class Attention(gluon.HybridBlock):
    """Self-attention with learned positions: a part of a parameter that depends on the length."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.places = self.params.get("places", shape=(1, 40, 8))
            self.dense = nn.Dense(8, flatten=False, in_units=8)

    def hybrid_forward(self, F, x, places):
        x = F.broadcast_add(x, F.slice_like(places, x, axes=(1,)))
        scores = F.linalg.gemm2(x, self.dense(x), transpose_b=True)
        return F.linalg.gemm2(F.softmax(scores), x)


NETS = {
    "rows": Net(rows, "data=N,T,8", ("T<=40", "N<=3"), ((1, 1, 8), (3, 7, 8), (2, 40, 8))),
    "images": Net(
        images, "data=N,3,H,W", ("H<=32", "W<=24"),
        ((1, 3, 4, 4), (2, 3, 32, 24), (3, 3, 17, 9), (1, 3, 31, 4)),
    ),
    "sequences": Net(
        sequences, "data=T,B,6", ("T<=30", "B<=4"),
        ((1, 1, 6), (30, 4, 6), (7, 3, 6), (5, 1, 6), (30, 1, 6)),
    ),
    "strided": Net(
        strided, "data=N,3,H,W", ("32<=H<=48", "H%16==0", "32<=W<=48", "W%16==0"),
        ((1, 3, 32, 48), (3, 3, 48, 48)),
    ),
    "attention": Net(
        Attention, "data=2,T,8", ("2<=T<=40", "T%2==0"), ((2, 2, 8), (2, 40, 8), (2, 18, 8)),
    ),
}  # fmt: skip


class Built(NamedTuple):
    """A compiled library, and the network."""

    path: Path
    net: gluon.HybridBlock
    shapes: tuple[Shape, ...]

    def expected(self, x: np.ndarray) -> np.ndarray:
        result: np.ndarray = self.net(nd.array(x)).asnumpy()
        return result


def array_of(shape: Shape) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def this_cpu():
    with override(target=""):
        yield


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Built]:
    """Compile a network of NETS once for these options."""
    known: dict[object, Built] = {}

    def build(name: str, *options: str) -> Built:
        if (name, options) not in known:
            known[name, options] = compiled(name, tmp_path_factory.mktemp(name), options)
        return known[name, options]

    return build


def compiled(name: str, folder: Path, options: tuple[str, ...]) -> Built:
    case = NETS[name]
    net = case.make()
    hybridjit.random.seed(0)
    net.initialize(hybridjit.init.Xavier())
    net.hybridize()
    net(nd.array(array_of(case.shapes[0])))
    net.export(str(folder / "net"))
    bounds = [word for bound in case.bounds for word in ("--bound", bound)]
    words = ["compile", str(folder / "net"), "--shape", case.shape, *bounds, *options]
    assert main([*words, "--library", str(folder)]) == 0
    return Built(folder / "net.so", net, case.shapes)


class TestBits:
    @pytest.mark.parametrize("name", NETS)
    def test_they_are_the_networks_in_any_order(self, build, name):
        built = build(name)
        library = hybridjit.library.load(built.path)
        for shape in (*built.shapes, *reversed(built.shapes)):
            x = array_of(shape)
            np.testing.assert_array_equal(library(x), built.expected(x))

    def test_of_several_cpus_with_mapped_weights_and_threads(self, build, monkeypatch):
        monkeypatch.setattr("hybridjit.library.sized_entries.WORTH_SHARING", 0)
        built = build("images", "--weights", "file", "--threads", "--target", "avx2,sse2")
        one, two = (hybridjit.library.load(built.path, threads=n) for n in (1, 2))
        for shape in built.shapes:
            x = array_of(shape)
            np.testing.assert_array_equal(one(x), two(x))
            with override(target=one.target):
                net = hybridjit.load(str(built.path.with_name("net")))
                np.testing.assert_allclose(one(x), net(nd.array(x)).asnumpy(), rtol=1e-4, atol=1e-5)

    def test_of_calls_in_threads(self, build):
        built = build("sequences")
        library = hybridjit.library.load(built.path)
        arrays = [array_of(shape) for shape in built.shapes]
        wanted = [built.expected(x) for x in arrays]
        wrong: list[Shape] = []

        def work(seed: int) -> None:
            order = random.Random(seed)
            for _ in range(40):
                number = order.randrange(len(arrays))
                if not np.array_equal(library(arrays[number]), wanted[number]):
                    wrong.append(arrays[number].shape)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_of_bound_arrays(self, build):
        built = build("rows")
        x = array_of((2, 9, 8))
        call = hybridjit.library.load(built.path).bind(x)
        x[...] = array_of((2, 10, 8))[:, :9]
        np.testing.assert_array_equal(call()[0], built.expected(x))


class Raw:
    """The functions of a library as C sees them."""

    def __init__(self, path: Path) -> None:
        self.functions = ctypes.CDLL(str(path))
        self.functions.net_error_text.restype = ctypes.c_char_p
        self.functions.net_description.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        assert self.functions.net_init(ctypes.byref(self.context), None, 1) == 0
        self.facts = json.loads(self.functions.net_description())

    def shapes(self, *sizes: int) -> tuple[int, list[int], int]:
        """Code, shapes and bytes of a workspace."""
        made, room = (ctypes.c_int64 * 8)(*[-1] * 8), ctypes.c_size_t()
        given = (ctypes.c_int64 * len(sizes))(*sizes)
        code = self.functions.net_shapes(self.context, given, made, ctypes.byref(room))
        return code, [n for n in made if n != -1], room.value

    def text(self, code: int) -> str:
        return self.functions.net_error_text(code).decode()

    def run(self, x: np.ndarray, y: np.ndarray, *sizes: int, room: int = -1) -> int:
        """A call, with a workspace of ``room`` bytes; -1 selects that of the context."""
        pair = ctypes.c_uint64 * 2
        given = (ctypes.c_int64 * len(sizes))(*sizes)
        memory = np.zeros(max(room, 0) + 64, np.uint8)
        start = None if room < 0 else ctypes.c_void_p(memory.ctypes.data + -memory.ctypes.data % 64)
        return self.functions.net_run(
            self.context, pair(x.ctypes.data, x.nbytes), pair(y.ctypes.data, y.nbytes), given,
            start, ctypes.c_size_t(max(room, 0)),
        )  # fmt: skip


def test_an_onnx_file_with_open_sizes(tmp_path):
    path = written(encoder(), tmp_path)
    shapes = [word for name in ("ids", "mask", "types") for word in ("--shape", f"{name}=B,T")]
    bounds = ["--bound", "B<=2", "--bound", "5<=T<=7"]
    words = ["compile", str(path), *shapes, *bounds, "--library", str(tmp_path)]
    assert main(words) == 0
    library = hybridjit.library.load(path.with_suffix(".so"))
    net = hybridjit.onnx.load(path)
    for batch, length in ((1, 5), (2, 7), (2, 6)):
        arrays = tokens(batch, length)
        for mine, wanted in zip(library(**arrays), called(net, arrays), strict=True):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize(
    "name, compute",
    [
        ("exp", lambda F, x, part: F.broadcast_add(x, F.exp(part))),
        ("sum", lambda F, x, part: F.broadcast_add(x, F.sum(part, axis=1, keepdims=True))),
        ("batch_dot", lambda F, x, part: F.batch_dot(x, part, transpose_b=True)),
    ],
)
def test_computations_on_parameters_and_sizes_are_refused(tmp_path, capsys, name, compute):
    """NumPy would compute them once, with other bits than a kernel."""
    x, places = sym.var("data"), sym.var("places")
    part = sym.slice_like(places, x, axes=(1,))
    write(tmp_path / "net", compute(sym, x, part), places=nd.ones((1, 40, 8)))
    words = ["compile", str(tmp_path / "net"), "--shape", "data=1,T,8", "--bound", "2<=T<=5"]
    assert main([*words, "--library", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "only moves values that depend on parameters" in said and f"({name})" in said


class TestSizes:
    def test_shapes_and_workspace(self, build):
        raw = Raw(build("images").path)
        code, shape, room = raw.shapes(3, 17, 9)
        assert (code, shape) == (0, [3, 5]) and room % 64 == 0
        larger = raw.shapes(3, 32, 24)[2]
        assert raw.shapes(7, 17, 9)[2] == room < larger
        assert [size["name"] for size in raw.facts["sizes"]] == ["N", "H", "W"]

    @pytest.mark.parametrize("size", [0, -1, 33, 2**31, 2**62, 2**63 - 1, -(2**63)])
    @pytest.mark.parametrize("place", [1, 2])
    def test_out_of_bounds(self, build, size, place):
        raw = Raw(build("images").path)
        sizes = [1, 20, 20]
        sizes[place] = size
        code, shape, room = raw.shapes(*sizes)
        assert code == kinds.BOUND | place << 8 and not shape and not room
        assert raw.text(code) == f"the size {'NHW'[place]} must be 1 to {(0, 32, 24)[place]}"
        x, y = np.zeros(1200, np.float32), np.full(5, 7, np.float32)
        assert raw.run(x, y, *sizes) == code and (y == 7).all()

    @pytest.mark.parametrize("batch", [0, -1, 2**45, 2**62, 2**63 - 1, -(2**63)])
    def test_batches_that_do_not_fit(self, build, batch):
        raw = Raw(build("images").path)
        code, _, _ = raw.shapes(batch, 20, 20)
        assert code == kinds.BATCH and "N must be at least 1" in raw.text(code)

    def test_the_step_of_a_size(self, build):
        raw = Raw(build("attention").path)
        code, _, _ = raw.shapes(7)
        assert code == kinds.BOUND
        assert raw.text(code) == "the size T must be 2 to 40, in steps of 2"

    def test_sizes_that_the_network_refuses(self, build):
        built = build("images")
        raw = Raw(built.path)
        code, _, _ = raw.shapes(1, 2, 20)
        assert code & 255 == kinds.REFUSED
        assert "kernel size exceed input" in raw.text(code) and "H = 2" in raw.text(code)
        with pytest.raises(MXNetError, match="kernel size exceed input"):
            hybridjit.library.load(built.path)(array_of((1, 3, 2, 20)))
        with pytest.raises(MXNetError, match="kernel size exceed input"):
            built.expected(array_of((1, 3, 2, 20)))

    def test_arrays_and_workspaces_that_do_not_fit(self, build):
        raw = Raw(build("rows").path)
        x, y = np.zeros((2, 9, 8), np.float32), np.full((2, 9, 5), 7, np.float32)
        room = raw.shapes(2, 9)[2]
        assert raw.run(x[:1], y, 2, 9) == kinds.SIZE
        assert raw.run(x, y[:1], 2, 9) == kinds.SIZE | 1 << 8
        assert "the bytes of shape (N, T, 8)" in raw.text(kinds.SIZE)
        assert raw.run(x, y, 2, 9, room=room - 1) == kinds.ROOM
        assert raw.run(x, x, 2, 9) == kinds.SIZE | 1 << 8
        assert (y == 7).all()
        assert raw.run(x, y, 2, 9, room=room) == 0 and not (y == 7).any()

    def test_no_pointer_is_read_that_is_null(self, build):
        raw = Raw(build("rows").path)
        sizes, room = (ctypes.c_int64 * 2)(2, 9), ctypes.c_size_t()
        call = raw.functions.net_shapes
        assert call(None, sizes, None, None) == call(raw.context, None, None, None) == kinds.NULL
        assert call(raw.context, sizes, None, ctypes.byref(room)) == 0 and room.value
        assert raw.functions.net_run(raw.context, sizes, sizes, None, None, 0) == kinds.NULL

    def test_the_loader_compares_arrays(self, build):
        library = hybridjit.library.load(build("rows").path)
        with pytest.raises(ShapeError, match=r"\(2, 9, 8\), got \(2, 9, 7\)"):
            library(array_of((2, 9, 7)))
        with pytest.raises(ShapeError, match="must have shape"):
            library(array_of((2, 9)))
        with pytest.raises(DTypeError):
            library(array_of((2, 9, 8)).astype(np.float64))
        with pytest.raises(MXNetError, match="T must be 1 to 40"):
            library(array_of((2, 41, 8)))
        with pytest.raises(MXNetError, match="T must be 1 to 40"):
            library(array_of((2, 0, 8)))

    @pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as on Linux")
    @pytest.mark.parametrize("side", ["end", "start"])
    @pytest.mark.parametrize("name, sizes", [("images", ["2,4,4", "1,32,24"]),
                                             ("sequences", ["1,1", "30,4"])])  # fmt: skip
    def test_kernels_stay_in_the_workspace(self, build, side, name, sizes):
        program = Path(__file__).parent.parent / "support" / "guarded_library.py"
        words = [sys.executable, program, build(name).path, side, *sizes]
        assert ran(*words).split() == sizes


_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(void)
{
    net_context *context;
    if (net_abi_version() != NET_ABI_VERSION || net_init(&context, NULL, 1))
        return 1;
    for (int64_t h = 1; h <= 33; h += 4) {
        int64_t sizes[NET_SIZES], shape[NET_OUTPUT_SIZES];
        size_t room;
        sizes[NET_SIZE_N] = 2, sizes[NET_SIZE_H] = h, sizes[NET_SIZE_W] = 9;
        int code = net_shapes(context, sizes, shape, &room);
        if (code) {
            printf("%d %d\\n", (int)h, NET_ERROR_KIND(code));
            continue;
        }
        net_input x = {calloc(2 * 3 * 9, 4 * (size_t)h), 2 * 3 * 9 * 4 * (size_t)h};
        net_output y = {calloc(10, 4), 10 * NET_OUTPUT0_ELEMENT_BYTES};
        code = net_run(context, &x, &y, sizes, NULL, 0);
        printf("%d %d %d %d\\n", (int)h, code, (int)shape[0], (int)shape[1]);
        free((void *)x.data), free(y.data);
    }
    net_free(context);
    return 0;
}
"""


def test_the_header_in_c(build, tmp_path):
    path = build("images").path
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    source.write_text(_PROGRAM)
    words = [*STRICT, "-O1", f"-I{path.parent}", source, path.with_suffix(".o"), "-lm"]
    ran(tool("gcc"), *words, "-o", program)
    lines = ran(program).splitlines()
    assert lines[0] == f"1 {kinds.REFUSED}" and lines[-1] == f"33 {kinds.BOUND}"
    assert lines[1:-1] == [f"{h} 0 2 5" for h in range(5, 33, 4)]


class TestOptions:
    @pytest.mark.parametrize(
        "words, text",
        [
            (["data=N,T,8"], "the size T needs an upper bound"),
            (["data=N,T,8", "--bound", "T>=2"], "the size T needs an upper bound"),
            (["data=N,T,8", "--bound", "T<=0"], "they must contain a size"),
            (["data=N,T,8", "--bound", "T<=9", "--bound", "T%16==0"], "they must contain a size"),
            (
                ["data=N,T,8", "--bound", "T<=9", "--bound", "K<=9"],
                "no size of --shape has this name",
            ),
            (["data=N,T,8", "--bound", "T<=99999999999"], "at most 2147483647"),
            (["data=N,T,8", "--bound", "T<=2000000"], "combinations of sizes"),
            (["data=N,T,8", "--bound", "T<=9"], "--bound 'N<=8'"),
        ],
    )
    def test_wrong_ones_are_refused(self, build, capsys, tmp_path, words, text):
        model = str(build("rows").path.with_name("net"))
        assert main(["compile", model, "--library", str(tmp_path), "--shape", *words]) in (1, 2)
        assert text in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("text", ["T", "T<5", "T<=x", "t<=5", "T%0==0", "T<=" + "9" * 99])
    def test_bounds_are_parsed(self, capsys, text):
        with pytest.raises(SystemExit):
            main(["compile", "x", "--shape", "data=N,T", "--bound", text])
        said = capsys.readouterr().err
        assert any(text in said for text in ("a bound such as", "a step is at least 1", "compares"))


def test_a_grid_has_a_limit():
    with pytest.raises(MXNetError, match=f"at most {MOST_COMBINATIONS} combinations"):
        Grid([Bound("H", 1, 2048), Bound("W", 1, 2048)])
    assert Grid([Bound("H", 32, 2048, 32), Bound("W", 32, 2048, 32)]).count == 64 * 64


def executed(instructions: Instructions, sizes: list[int]) -> list[int]:
    """The registers, computed in Python."""
    registers = [*sizes]
    for operation, a, b in instructions.rows:
        if operation == Operation.CONSTANT:
            registers.append(a)
            continue
        x, y = registers[a], registers[b]
        registers.append(
            {
                Operation.ADD: lambda x, y: x + y,
                Operation.MULTIPLY: lambda x, y: x * y,
                Operation.DIVIDE: lambda x, y: x // y,
                Operation.DIVIDE_UP: lambda x, y: -(-x // y),
                Operation.REMAINDER: lambda x, y: x % y,
                Operation.MAXIMUM: max,
            }[Operation(operation)](x, y)
        )
    return registers


def test_instructions_compute_expressions():
    scope = Scope()
    a, b = scope.symbol("a", 13), scope.symbol("b", 5)
    forms = [a, a * b - 7, (a + 3) // 4 * b, -(-a // 3), (a * a) % b, a // (b + 2), 5 - a, 3]
    scope.close()
    instructions = Instructions(scope)
    places = [instructions.of(form) for form in forms]
    for sizes in ([13, 5], [1, 1], [900, 31]):
        found = executed(instructions, sizes)
        values = dict(zip("ab", sizes))
        wanted = [f if isinstance(f, int) else value_of(f, values) for f in forms]
        assert [found[place] for place in places] == wanted
    assert len(instructions.rows) == len({*instructions.rows})


def test_fractions_are_refused():
    scope = Scope()
    a, b = scope.symbol("a", 13), scope.symbol("b", 5)
    with pytest.raises(MXNetError, match="computes sizes in integers"):
        Instructions(scope).of(a / b)
    with pytest.raises(MXNetError, match="computes sizes in integers"):
        Instructions(scope).of(a * 0.5)


def test_without_the_compiler(build):
    """A library with sizes is loaded and called without llvmlite."""
    program = (
        "import sys, numpy, hybridjit\n"
        "library = hybridjit.library.load(sys.argv[1])\n"
        "print(library(numpy.zeros((2, 9, 8), 'f4')).shape, 'llvmlite' in sys.modules)\n"
    )
    words = [sys.executable, "-c", program, str(build("rows").path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.split("\n")[0] == "(2, 9, 5) False"
