"""Networks as C libraries: bits, headers, rejected arguments, other CPUs, other languages.

Tools that are not there skip their tests: a C compiler, valgrind, nm, qemu.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hybridjit
from hybridjit import gluon, nd, sym
from hybridjit._core.config import override
from hybridjit.cli import main
from hybridjit.codegen.families import family_of
from hybridjit.codegen.targets import find_target
from hybridjit.errors import DTypeError, MXNetError, ShapeError
from hybridjit.library import interface as kinds
from hybridjit.library.header import header_text
from hybridjit.library.interface import Array, Interface
from hybridjit.library.targets import find_targets
from patience import PATIENCE
from recorded import CASES, arrays_of, as_list, block_of
from recorded import FOLDER as RECORDED

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits"
EXAMPLES = ROOT / "examples" / "library"
STRICT = ("-Wall", "-Wextra", "-Werror", "-std=c11", "-pedantic")
IS_X86 = os.uname().machine == "x86_64"


def tool(name: str) -> str:
    """A program's path; the test is skipped if it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: the system provides compilers and emulators")
    return found


def ran(*words: object, status: int = 0) -> str:
    """The output of a program. It ends with ``status``."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def library(
    folder: Path, *options: str, model: Path = DIGITS, shape: str = "data=N,1,28,28"
) -> Path:
    """A library in a folder; returns the path without an ending."""
    words = ["compile", str(model), "--shape", shape, "--library", str(folder), *options]
    assert main(words) == 0
    return folder / model.name


@pytest.fixture(scope="module", autouse=True)
def this_cpu() -> Iterator[None]:
    """Libraries take the widest vectors that there are, whatever kind of CPU is imitated."""
    with override(target=""):
        yield


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network for any batch, for several CPUs, with its weights inside."""
    targets = ["--target", "avx512,avx2,sse2"] if IS_X86 else []
    return library(tmp_path_factory.mktemp("library"), *targets)


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with threads, and its weights in a file."""
    return library(tmp_path_factory.mktemp("mapped"), "--weights", "file", "--threads")


def pictures(count: int = 5) -> np.ndarray:
    return np.random.default_rng(count).random((count, 1, 28, 28), dtype=np.float32)


def scores(images: np.ndarray, target: str = "") -> np.ndarray:
    """Results of the compiled network here, for a narrower CPU if one is named."""
    with override(target=target):
        net = hybridjit.load(str(DIGITS))
        net.hybridize()
        return net(nd.array(images)).asnumpy()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A file of pictures, and the labels that the network gives them, one a line."""
    images = pictures(70)
    path = tmp_path_factory.mktemp("pictures") / "pictures.f32"
    images.astype("<f4").tofile(path)
    return path, "".join(f"{label}\n" for label in scores(images).argmax(1))


def test_kernels_are_those_of_this_cpu_where_none_is_named():
    """Only its costs decide between them, independent of the code for other CPUs."""
    host = find_target()
    (here,) = find_targets("")
    assert family_of(here) is family_of(host)
    if IS_X86:
        assert [target.model for target in find_targets("avx2,sse2")] == ["", ""]


class TestBits:
    @pytest.mark.parametrize("batch", [1, 2, 7])
    def test_they_are_the_networks(self, digits, batch):
        x = pictures(batch)
        found = hybridjit.library.load(f"{digits}.so")(x)
        np.testing.assert_array_equal(found, scores(x))

    def test_of_inputs_at_odd_addresses(self, digits):
        x = pictures(2)
        odd = np.ndarray(x.shape, x.dtype, bytearray(x.nbytes + 1), offset=1)
        odd[...] = x
        assert not odd.flags.aligned
        found = hybridjit.library.load(f"{digits}.so")(odd)
        np.testing.assert_array_equal(found, scores(x))

    def test_of_a_fixed_batch(self, tmp_path):
        stem = library(tmp_path, shape="data=3,1,28,28")
        x = pictures(3)
        loaded = hybridjit.library.load(f"{stem}.so")
        np.testing.assert_array_equal(loaded(x), scores(x))
        with pytest.raises(ShapeError, match=r"\(3, 1, 28, 28\), got \(2, 1, 28, 28\)"):
            loaded(x[:2])

    def test_of_a_batch_that_runs_sample_by_sample(self, tmp_path, monkeypatch):
        monkeypatch.setattr("hybridjit.passes.plan.split_batch._CACHE_BYTES", 0)
        monkeypatch.setattr(
            "hybridjit.passes.plan.split_batch._activation_bytes", lambda step: 1 << 30
        )
        stem = library(tmp_path, shape="data=3,1,28,28")
        assert b"_calls" in Path(f"{stem}.o").read_bytes()
        x = pictures(3)
        np.testing.assert_array_equal(hybridjit.library.load(f"{stem}.so")(x), scores(x))

    def test_with_mapped_weights_and_threads(self, mapped):
        x = pictures(4)
        for threads in (1, 2, 3):
            loaded = hybridjit.library.load(f"{mapped}.so", threads=threads)
            np.testing.assert_array_equal(loaded(x), scores(x))

    def test_on_all_threads(self, tmp_path, monkeypatch):
        """As large as networks whose calls are shared out; the threads end with the context."""
        monkeypatch.setattr("hybridjit.library.variants.WORTH_SHARING", 0)
        stem = library(tmp_path, "--threads")
        x, before = pictures(8), threading_count()
        wanted = scores(x)
        loaded = hybridjit.library.load(f"{stem}.so", threads=3)
        assert threading_count() == before + 2
        for _ in range(50):
            np.testing.assert_array_equal(loaded(x), wanted)
        del loaded
        assert threading_count() == before

    def test_eight_contexts_in_eight_threads(self, mapped):
        x = pictures(6)
        wanted, failures = scores(x), []

        def work() -> None:
            loaded = hybridjit.library.load(f"{mapped}.so")
            for _ in range(200):
                if not np.array_equal(loaded(x), wanted):
                    failures.append("other bits")

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failures == []

    def test_one_library_in_eight_threads(self, digits):
        x = pictures(6)
        wanted, loaded, failures = scores(x), hybridjit.library.load(f"{digits}.so"), []

        def work() -> None:
            for _ in range(200):
                if not np.array_equal(loaded(x), wanted):
                    failures.append("other bits")

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failures == []

    @pytest.mark.parametrize(
        "name",
        ["rnn_lstm", "net_attention", "net_two_inputs", "fp16_pointwise", "f64", "box_nms"],
    )
    def test_of_other_networks(self, tmp_path, name):
        """Recurrent ones, attention, several inputs, other element types; nothing is undefined."""
        inputs, outputs = arrays_of(name)
        pairs = zip(CASES[name]["inputs"], inputs)
        words = ["compile", str(RECORDED / name), "--library", str(tmp_path)]
        for given, array in pairs:
            words += ["--shape", f"{given}={','.join(map(str, array.shape))}"]
            words += ["--dtype", f"{given}={np.dtype(array.dtype).name}"]
        assert main([*words, *(["--target", "avx512,avx2,sse2"] if IS_X86 else [])]) == 0
        block = block_of(name)
        block.hybridize()
        wanted = as_list(block(*inputs))
        found = hybridjit.library.load(tmp_path / f"{name}.so")(*[x.asnumpy() for x in inputs])
        for mine, right in zip(found if isinstance(found, list) else [found], wanted):
            assert mine.dtype == right.dtype
            np.testing.assert_array_equal(mine, right)
        assert undefined(tmp_path / f"{name}.o") == []

    def test_of_a_detector(self, tmp_path):
        """Anchors of two maps, decoded boxes, and suppression, as in single-shot detectors."""
        net, x = detector()
        wanted = net(nd.array(x)).asnumpy()
        assert (wanted[..., 0] >= 0).sum() > 3
        net.export(str(tmp_path / "ssd"))
        stem = library(tmp_path, model=tmp_path / "ssd", shape="data=2,3,32,32")
        np.testing.assert_array_equal(hybridjit.library.load(f"{stem}.so")(x), wanted)

    def test_of_an_order(self, tmp_path):
        x = sym.var("data")
        found = [sym.topk(x, k=5, ret_typ="both"), sym.sort(x, axis=0), sym.argsort(x)]
        write(tmp_path / "order", sym.Group(found))
        stem = library(tmp_path, model=tmp_path / "order", shape="data=6,70")
        data = np.random.default_rng(5).integers(0, 9, (6, 70)).astype(np.float32)
        net = hybridjit.load(str(tmp_path / "order"))
        made = hybridjit.library.load(f"{stem}.so")(data)
        for mine, right in zip(made, net(nd.array(data)), strict=True):
            np.testing.assert_array_equal(mine, right.asnumpy())

    def test_of_a_single_shot_detector(self, tmp_path):
        """Scores, offsets and anchors of two maps become detections in the library."""
        net, x = detector(SingleShot())
        wanted = net(nd.array(x)).asnumpy()
        assert (wanted[..., 0] >= 0).sum() > 3
        net.export(str(tmp_path / "shot"))
        stem = library(tmp_path, model=tmp_path / "shot", shape="data=2,3,32,32")
        np.testing.assert_array_equal(hybridjit.library.load(f"{stem}.so")(x), wanted)

    @pytest.mark.parametrize("pooling", ["ROIPooling", "ROIAlign"])
    def test_of_a_detector_with_proposals(self, tmp_path, pooling):
        """Regions are proposed, pooled, and classified; each class is suppressed on its own."""
        net, x = detector(TwoStages(pooling))
        info = np.array([[32, 32, 1], [30, 24, 1.5]], np.float32)
        wanted = net(nd.array(x), nd.array(info)).asnumpy()
        assert 3 < (wanted[..., 1] >= 0).sum() < wanted[..., 1].size
        net.export(str(tmp_path / "stages"))
        second = ("--shape", "data1=2,3")
        stem = library(tmp_path, *second, model=tmp_path / "stages", shape="data0=2,3,32,32")
        np.testing.assert_array_equal(hybridjit.library.load(f"{stem}.so")(x, info), wanted)

    @pytest.mark.parametrize("made", ["Detector", "SingleShot"])
    def test_of_detectors_for_any_batch(self, tmp_path, made):
        """Anchors are one for all samples; the others' boxes are compared apart."""
        net, x = detector(globals()[made]())
        net(nd.array(x))
        net.export(str(tmp_path / "any"))
        stem = library(tmp_path, model=tmp_path / "any", shape="data=N,3,32,32")
        loaded = hybridjit.library.load(f"{stem}.so")
        for batch in (1, 2, 5):
            x = np.random.default_rng(batch).random((batch, 3, 32, 32), dtype=np.float32)
            np.testing.assert_array_equal(loaded(x), net(nd.array(x)).asnumpy())


class Detector(gluon.HybridBlock):
    """Scores and boxes of three classes at every place of two maps."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.maps, self.heads = gluon.nn.HybridSequential(), gluon.nn.HybridSequential()
            for channels in (16, 24):
                self.maps.add(gluon.nn.Conv2D(channels, 3, 2, 1, activation="relu"))
                self.heads.add(gluon.nn.Conv2D(3 * (3 + 4), 3, padding=1))

    def hybrid_forward(self, F, x):
        found, anchors = [], []
        for layer, head in zip(self.maps, self.heads):
            x = layer(x)
            anchors.append(F.contrib.MultiBoxPrior(x, sizes=(0.2, 0.3), ratios=(1, 2)))
            found.append(F.reshape(F.transpose(head(x), axes=(0, 2, 3, 1)), (0, -1, 7)))
        rows, anchors = F.concat(*found, dim=1), F.concat(*anchors, dim=1)
        scores = F.softmax(F.slice_axis(rows, axis=-1, begin=0, end=3))
        boxes = F.broadcast_add(0.1 * F.slice_axis(rows, axis=-1, begin=3, end=7), anchors)
        best = F.expand_dims(F.argmax(scores, axis=-1), -1)
        parts = best, F.max(scores, axis=-1, keepdims=True), boxes
        rows = F.concat(*parts, dim=-1)
        return F.contrib.box_nms(rows, overlap_thresh=0.4, topk=40, id_index=0)


class SingleShot(Detector):
    """The same maps, with MXNet's operator for detections."""

    def hybrid_forward(self, F, x):
        found, anchors = [], []
        for layer, head in zip(self.maps, self.heads):
            x = layer(x)
            anchors.append(F.contrib.MultiBoxPrior(x, sizes=(0.2, 0.3), ratios=(1, 2)))
            found.append(F.reshape(F.transpose(head(x), axes=(0, 2, 3, 1)), (0, -1, 7)))
        rows, anchors = F.concat(*found, dim=1), F.concat(*anchors, dim=1)
        scores = F.softmax(F.slice_axis(rows, axis=-1, begin=0, end=3))
        offsets = F.flatten(F.slice_axis(rows, axis=-1, begin=3, end=7))
        scores = F.transpose(scores, axes=(0, 2, 1))
        return F.contrib.MultiBoxDetection(scores, offsets, anchors, nms_topk=100)


class TwoStages(gluon.HybridBlock):
    """Eight regions of each image, classified into three classes, as in Faster R-CNN."""

    def __init__(self, pooling: str) -> None:
        super().__init__()
        self._pooling = pooling
        with self.name_scope():
            self.features = gluon.nn.HybridSequential()
            for channels in (8, 16):
                self.features.add(gluon.nn.Conv2D(channels, 3, 2, 1, activation="relu"))
            self.objects, self.offsets = gluon.nn.Conv2D(8, 1), gluon.nn.Conv2D(16, 1)
            self.hidden = gluon.nn.Dense(20, activation="relu")
            self.classes, self.boxes = gluon.nn.Dense(4), gluon.nn.Dense(4)

    def hybrid_forward(self, F, x, info):
        x = self.features(x)
        found = F.softmax(F.reshape(self.objects(x), (2, 2, 4, 8, 8)), axis=1)
        rois = F.contrib.MultiProposal(
            F.reshape(found, (2, 8, 8, 8)), 0.1 * self.offsets(x), info, feature_stride=4,
            scales=(2, 4), ratios=(0.5, 1), rpn_min_size=4, rpn_pre_nms_top_n=100,
            rpn_post_nms_top_n=8, threshold=0.5,
        )  # fmt: skip
        size = {"pooled_size": (3, 3), "spatial_scale": 0.25}
        if self._pooling == "ROIPooling":
            pooled = F.ROIPooling(x, rois, **size)
        else:
            pooled = F.contrib.ROIAlign(x, rois, sample_ratio=2, **size)
        hidden = self.hidden(pooled)
        scores = F.softmax(self.classes(hidden))
        label = F.expand_dims(F.argmax(scores, axis=1), 1)
        corners = F.slice_axis(rois, axis=1, begin=1, end=5) + self.boxes(hidden)
        rows = F.concat(label, F.max(scores, axis=1, keepdims=True), corners, dim=1)
        rows = F.reshape(rows, (2, 8, 6))
        return F.contrib.box_nms(rows, overlap_thresh=0.3, id_index=0, background_id=0)


def detector(net: gluon.HybridBlock | None = None) -> tuple[gluon.HybridBlock, np.ndarray]:
    """A detector with random weights, and two pictures."""
    hybridjit.random.seed(3)
    net = net or Detector()
    net.initialize(hybridjit.init.Xavier())
    net.hybridize()
    return net, np.random.default_rng(3).random((2, 3, 32, 32), dtype=np.float32)


def undefined(path: Path) -> list[str]:
    """Symbols that neither the C library nor libm nor libpthread defines."""
    system = [ctypes.CDLL(name) for name in ("libc.so.6", "libm.so.6", "libpthread.so.0")]
    names = ran(tool("nm"), "-u", "--format=just-symbols", path).split()
    assert names
    return [name for name in names if not any(hasattr(s, name) for s in system)]


def threading_count() -> int:
    """Threads of this process, those that Python does not know too."""
    return len(os.listdir("/proc/self/task"))


class TestLoading:
    def test_no_compiler_is_loaded(self, digits):
        program = f"""
import sys, numpy as np, hybridjit
net = hybridjit.library.load({f"{digits}.so"!r})
print(net(np.zeros((2, 1, 28, 28), np.float32)).shape, net.inputs, net.outputs)
print("llvmlite" in sys.modules, "hybridjit.codegen" in sys.modules)
"""
        printed = ran(sys.executable, "-c", program).splitlines()
        assert printed == ["(2, 10) ['data'] ['digits_dot0_output']", "False False"]

    def test_loading_and_calling_raise_for_wrong_arguments(self, digits):
        loaded = hybridjit.library.load(f"{digits}.so")
        with pytest.raises(DTypeError, match="float32, got float64"):
            loaded(np.zeros((1, 1, 28, 28)))
        with pytest.raises(ShapeError, match="'data'"):
            loaded(np.zeros((1, 28, 28), np.float32))
        with pytest.raises(MXNetError, match="1 inputs, got 2"):
            loaded(pictures(), pictures())

    def test_other_files_are_refused(self, digits, tmp_path):
        (tmp_path / "text.so").write_text("no library")
        with pytest.raises(MXNetError, match="text.so"):
            hybridjit.library.load(tmp_path / "text.so")
        shutil.copy(f"{digits}.so", tmp_path / "other.so")
        with pytest.raises(MXNetError, match="no function other_abi_version"):
            hybridjit.library.load(tmp_path / "other.so")
        assert hybridjit.library.load(tmp_path / "other.so", name="digits").inputs == ["data"]

    def test_a_library_without_threads_has_one(self, digits):
        with pytest.raises(MXNetError, match="compiled without threads"):
            hybridjit.library.load(f"{digits}.so", threads=2)

    @pytest.mark.parametrize(
        "change, text",
        [
            (lambda data: b"", "is not the digits.weights of this library"),
            (lambda data: data[:-64], "is not the digits.weights of this library"),
            (lambda data: data + b"\0", "is not the digits.weights of this library"),
            (lambda data: data[:40] + b"x" + data[41:], "is not the digits.weights"),
        ],
        ids=["empty", "truncated", "longer", "other"],
    )
    def test_other_weights_are_refused(self, mapped, tmp_path, change, text):
        other = tmp_path / "weights"
        other.write_bytes(change(Path(f"{mapped}.weights").read_bytes()))
        with pytest.raises(MXNetError, match=text):
            hybridjit.library.load(f"{mapped}.so", other)

    def test_missing_weights_are_refused(self, mapped, tmp_path):
        with pytest.raises(MXNetError, match="cannot be opened"):
            hybridjit.library.load(f"{mapped}.so", tmp_path / "nothing")

    @pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
    def test_weights_that_are_no_file_are_refused_at_once(self, mapped, tmp_path, kind):
        """In a process, which is ended when it waits for a pipe."""
        path = tmp_path / "weights"
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
        program = "import sys, hybridjit; hybridjit.library.load(*sys.argv[1:])"
        for words in ((f"{mapped}.so", path), (path,)):
            done = subprocess.run(
                [sys.executable, "-c", program, *map(str, words)],
                capture_output=True, text=True, timeout=PATIENCE,
            )  # fmt: skip
            said = next(line for line in done.stderr.splitlines() if "Error: " in line)
            assert "weights" in said or "not a file" in said


class Raw:
    """The functions of a library as C sees them, with nothing checked before."""

    def __init__(self, stem: Path) -> None:
        self.functions = ctypes.CDLL(f"{stem}.so")
        self.functions.digits_error_text.restype = ctypes.c_char_p
        self.functions.digits_workspace_bytes.restype = ctypes.c_size_t
        self.context = ctypes.c_void_p()
        self.x = np.zeros((3, 1, 28, 28), np.float32)
        self.y = np.full((3, 10), 7, np.float32)
        code = self.functions.digits_init(ctypes.byref(self.context), None, 1)
        assert code == 0
        room = self.functions.digits_workspace_bytes(self.context)
        self.raw = np.zeros(room + 128, np.uint8)
        self.room = ctypes.c_size_t(room)
        self.workspace = self.raw.ctypes.data + -self.raw.ctypes.data % 64

    def run(self, **other: object) -> int:
        """A call on three images, with the given changes."""
        given = {
            "context": self.context,
            "x": self.x.ctypes.data,
            "x_bytes": self.x.nbytes,
            "y": self.y.ctypes.data,
            "y_bytes": self.y.nbytes,
            "batch": 3,
            "workspace": self.workspace,
            "room": self.room,
            **other,
        }
        slots = ctypes.c_uint64 * 2
        rows = [slots(given["x"], given["x_bytes"]), slots(given["y"], given["y_bytes"])]
        inputs, outputs = (given.get(n, row) for n, row in zip(("inputs", "outputs"), rows))
        return self.functions.digits_run(
            given["context"],
            inputs,
            outputs,
            ctypes.c_int64(given["batch"]),
            ctypes.c_void_p(given["workspace"]),
            given["room"],
        )


def int_of(value: object) -> object:
    """A number of NumPy's as ctypes takes it."""
    return int(value) if isinstance(value, np.integer) else value


@pytest.fixture(scope="module")
def raw(digits: Path) -> Raw:
    return Raw(digits)


class TestHostileCalls:
    @pytest.mark.parametrize(
        "given, kind, array, text",
        [
            ({"context": None}, kinds.NULL, 0, "NULL"),
            ({"inputs": None}, kinds.NULL, 0, "NULL"),
            ({"outputs": None}, kinds.NULL, 0, "NULL"),
            ({"batch": 0}, kinds.BATCH, 0, "the batch must be 1 to"),
            ({"batch": -1}, kinds.BATCH, 0, "the batch must be 1 to"),
            ({"batch": 2**63 - 1}, kinds.BATCH, 0, "the batch must be 1 to"),
            ({"batch": 2**62 // 3136}, kinds.BATCH, 0, "the batch must be 1 to"),
            ({"batch": 2}, kinds.SIZE, 0, "input 0, 'data', must have 3136 bytes for each"),
            ({"x_bytes": 3 * 3136 - 1}, kinds.SIZE, 0, "input 0"),
            ({"x_bytes": 0}, kinds.SIZE, 0, "input 0"),
            ({"x_bytes": 2**64 - 1}, kinds.SIZE, 0, "input 0"),
            ({"y_bytes": 119}, kinds.SIZE, 1, "output 0, 'digits_dot0_output', must have 40 bytes"),
            ({"y_bytes": 2**63}, kinds.SIZE, 1, "output 0"),
            ({"x": 0}, kinds.NO_ARRAY, 0, "input 0, 'data', has no data"),
            ({"y": 0}, kinds.NO_ARRAY, 1, "output 0"),
            ({"room": 0}, kinds.ROOM, 0, "workspace"),
            ({"room": 1}, kinds.ROOM, 0, "workspace"),
            ({"workspace": None}, kinds.ROOM, 0, "workspace"),
        ],
    )
    def test_sizes_and_pointers(self, raw, given, kind, array, text):
        code = raw.run(**given)
        assert (code & 255, code >> 8) == (kind, array)
        assert text in raw.functions.digits_error_text(code).decode()
        assert (raw.y == 7).all(), "written before it was checked"

    @pytest.mark.parametrize("off", [1, 2, 3])
    def test_alignment_of_arrays(self, raw, off):
        code = raw.run(x=raw.x.ctypes.data + off)
        assert (code & 255, code >> 8) == (kinds.MISALIGNED, 0)
        code = raw.run(y=raw.y.ctypes.data + off)
        assert (code & 255, code >> 8) == (kinds.MISALIGNED, 1)
        assert "multiple of 4 bytes" in raw.functions.digits_error_text(code).decode()

    @pytest.mark.parametrize("off", [1, 8, 32])
    def test_alignment_of_the_workspace(self, raw, off):
        assert raw.run(workspace=raw.workspace + off) == kinds.ROOM

    def test_a_workspace_that_is_a_byte_too_small(self, raw):
        assert raw.run(room=ctypes.c_size_t(raw.room.value - 1)) == kinds.ROOM

    def test_overlapping_arrays_are_errors(self, raw):
        both = np.zeros(3 * 3136 + 120, np.uint8)
        start = both.ctypes.data
        code = raw.run(x=start, y=start + 3 * 3136 - 4)
        assert (code & 255, code >> 8) == (kinds.OVERLAP, 0)
        assert raw.run(x=start, y=start + 3 * 3136) == 0
        code = raw.run(y=raw.workspace + 64)
        assert (code & 255, code >> 8) == (kinds.OVERLAP, 1)

    @pytest.mark.parametrize("room", [2**64 - 1, 2**64 - 64, 2**63])
    def test_overlaps_are_found_for_workspaces_of_any_size(self, raw, room):
        """The end of such a range is before its start."""
        code = raw.run(y=raw.workspace + 64, room=ctypes.c_size_t(room))
        assert (code & 255, code >> 8) == (kinds.OVERLAP, 1)
        assert raw.run(room=ctypes.c_size_t(room)) == 0
        raw.y[:] = 7

    def test_valid_arguments_are_accepted(self, raw):
        assert raw.run(workspace=None, room=ctypes.c_size_t(0)) == 0
        first = raw.y.copy()
        raw.raw[:] = 0xFF  # the contents of a workspace do not matter
        raw.y[:] = 7
        assert raw.run() == 0
        np.testing.assert_array_equal(raw.y, first)
        raw.y[:] = 7

    @pytest.mark.parametrize("threads", [0, -1, 2, 2**31 - 1])
    def test_numbers_of_threads(self, raw, threads):
        made = ctypes.c_void_p(1)
        code = raw.functions.digits_init(ctypes.byref(made), None, threads)
        assert (code, made.value) == (kinds.THREADS, None)

    def test_weights_that_are_inside_have_no_file(self, raw):
        made = ctypes.c_void_p(1)
        code = raw.functions.digits_init(ctypes.byref(made), b"digits.weights", 1)
        assert (code, made.value) == (kinds.OPEN, None)
        assert raw.functions.digits_init(None, None, 1) == kinds.NULL
        raw.functions.digits_free(None)

    def test_any_numbers_end_in_a_code(self, raw):
        """Thousands of calls with sizes and places at random; accepted calls compute."""
        random = np.random.default_rng(5)
        sizes = [0, 1, 40, 119, 120, 121, 3136, 9407, 9408, 2**31, 2**47, 2**63, 2**64 - 1]
        memory = np.zeros(1 << 16, np.uint8)
        start = memory.ctypes.data
        aligned, seen = start + -start % 64, set()
        for _ in range(4000):
            places = [start + int(random.integers(0, 40000)) for _ in range(3)]
            given = {
                "x": random.choice([0, aligned, places[0], places[0] & -4]),
                "y": random.choice([0, aligned, places[1], places[1] & -64]),
                "x_bytes": int(random.choice(sizes + [9408] * 9)),
                "y_bytes": int(random.choice(sizes + [120] * 9)),
                "batch": int(random.choice([3] * 9 + [0, 1, -1, 2**31, 2**62, -(2**63)])),
                "workspace": random.choice([raw.workspace, 0, places[2]]),
                "room": ctypes.c_size_t(random.choice([0, 64, raw.room.value, raw.room.value])),
            }
            if given["workspace"] != raw.workspace:  # its declared size is wrong
                given["room"] = ctypes.c_size_t(min(given["room"].value, 64))
            seen.add(raw.run(**{name: int_of(value) for name, value in given.items()}) & 255)
        assert {0, kinds.BATCH, kinds.ROOM, kinds.SIZE, kinds.NO_ARRAY} <= seen
        assert {kinds.MISALIGNED, kinds.OVERLAP} <= seen

    def test_codes_that_there_are_not_have_a_text(self, raw):
        for code in (-1, 99, 2**31 - 1, 255):
            assert b"no error" in raw.functions.digits_error_text(code)


class TestC:
    @pytest.mark.parametrize("ending", ["o", "a"])
    def test_the_example(self, digits, recorded, tmp_path, ending):
        program = compiled("classify.c", digits, tmp_path, ending)
        path, labels = recorded
        assert ran(program, path) == labels

    def test_the_shared_library_and_a_file_of_weights(self, mapped, recorded, tmp_path):
        program = compiled("classify.c", mapped, tmp_path, "so")
        path, labels = recorded
        assert ran(program, path, f"{mapped}.weights") == labels
        assert "the file of weights" in ran(program, path, path, status=1)

    @pytest.mark.skipif(not IS_X86, reason="its CPU has AVX2 and no more")
    def test_valgrind_finds_nothing(self, digits, recorded, tmp_path):
        valgrind = tool("valgrind")
        program = compiled("classify.c", digits, tmp_path, "o")
        path, labels = recorded
        options = ["-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all"]
        assert ran(valgrind, *options, program, path) == labels

    @pytest.mark.skipif(not IS_X86, reason="its CPU has AVX2 and no more")
    def test_eight_threads_with_contexts_that_have_threads(self, tmp_path, monkeypatch):
        """All bits the same, and all memory and threads are given back, as valgrind sees it."""
        monkeypatch.setattr("hybridjit.library.variants.WORTH_SHARING", 0)
        stem = library(tmp_path, "--threads", "--target", "avx2,sse2")
        (tmp_path / "contexts.c").write_text(CONTEXTS)
        options = [*STRICT, "-g", f"-I{tmp_path}", tmp_path / "contexts.c", f"{stem}.o"]
        program = tmp_path / "contexts"
        ran(tool("gcc"), *options, "-lm", "-lpthread", "-o", program)
        assert ran(program, 20) == "same\n"
        options = ["-q", "--error-exitcode=9", "--leak-check=full", "--fair-sched=yes"]
        assert ran(tool("valgrind"), *options, program, 2) == "same\n"

    def test_the_example_in_cpp(self, digits, recorded, tmp_path):
        """One context in several threads, a workspace for each."""
        options = ["-Wall", "-Wextra", "-Werror", "-std=c++17", "-O1", f"-I{digits.parent}"]
        linked = [f"{digits}.o", "-lm", "-lpthread", "-o", tmp_path / "classify"]
        ran(tool("g++"), *options, EXAMPLES / "classify.cpp", *linked)
        path, labels = recorded
        assert ran(tmp_path / "classify", path) == labels

    def test_the_example_in_java(self, digits, recorded):
        java, (path, labels) = java_of(22), recorded
        options = ["-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED"]
        assert ran(java, *options, EXAMPLES / "Classify.java", f"{digits}.so", path) == labels

    def test_nothing_is_undefined_but_the_systems(self, digits, mapped):
        assert undefined(Path(f"{digits}.o")) == undefined(Path(f"{mapped}.o")) == []

    def test_only_prefixed_names_are_seen(self, mapped):
        names = ran(tool("nm"), "-g", "--defined-only", "--format=just-symbols", f"{mapped}.o")
        assert len(names.split()) == 8
        assert all(name.startswith("digits_") for name in names.split())

    def test_a_hostile_name_stays_a_text(self, tmp_path):
        names = ['"*/ #error', "??/", "a\nb", "%s\\", "ü", "", "int", "int"]
        arrays = tuple(Array(name, np.dtype("int8"), (2,)) for name in names)
        promised = Interface("x", arrays, arrays, False, 1, True, "x.weights", ("sse2",))
        (tmp_path / "x.h").write_text(header_text(promised, "1"))
        source = tmp_path / "x.c"
        source.write_text('#include "x.h"\nconst char *text = X_INPUT1_NAME X_OUTPUT4_NAME;\n')
        ran(tool("gcc"), *STRICT, "-c", source, "-o", tmp_path / "x.o")
        assert b"??/\xc3\xbc\0" in (tmp_path / "x.o").read_bytes()


CONTEXTS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"

enum { WORKERS = 8, PIXELS = 28 * 28, CLASSES = 10 };
static float picture[PIXELS], scores[WORKERS][CLASSES];
static int repeats, codes[WORKERS];

static void *work(void *place)
{
    int number = (int)((float(*)[CLASSES])place - scores);
    digits_input input = {picture, sizeof picture};
    digits_output output = {place, CLASSES * sizeof(float)};
    for (int i = 0; i < repeats; i++) {
        digits_context *context;
        int code = digits_init(&context, NULL, 1 + number % 3);
        for (int call = 0; call < 3; call++)
            code = code ? code : digits_run(context, &input, &output, 1, NULL, 0);
        digits_free(context);
        codes[number] = codes[number] ? codes[number] : code;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[WORKERS];
    repeats = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < PIXELS; i++)
        picture[i] = (float)(i % 29) / 29;
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, work, scores[i]);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        if (codes[i] || memcmp(scores[i], scores[0], sizeof scores[0]))
            return printf("context %d: %s\\n", i, digits_error_text(codes[i])), 1;
    puts("same");
    return 0;
}
"""


def java_of(least: int) -> str:
    """A Java of this version or a newer one."""
    places = [shutil.which("java"), *map(str, Path("/usr/lib/jvm").glob("*/bin/java"))]
    for place in filter(None, places):
        version = re.search(r'version "(\d+)', ran(place, "-version"))
        if version and int(version[1]) >= least:
            return place
    pytest.skip(f"one example needs Java {least} or newer, which is not installed")


def compiled(source: str, stem: Path, folder: Path, ending: str) -> Path:
    """An example, compiled with all warnings and linked with a library."""
    program = folder / Path(source).stem
    linked = [f"{stem}.{ending}", f"-Wl,-rpath,{stem.parent}", "-lm", "-lpthread"]
    options = [*STRICT, "-O1", f"-I{stem.parent}"]
    ran(tool("gcc"), *options, EXAMPLES / source, *linked, "-o", program)
    return program


@pytest.mark.skipif(not IS_X86, reason="AArch64 has one kind of vectors")
class TestTargets:
    def test_the_widest_that_this_cpu_has(self, digits):
        with override(target=""):
            here = hybridjit.compilation.find_target().name
        wanted = "avx512" if here == "amx" else here
        assert hybridjit.library.load(f"{digits}.so").target == wanted

    def test_a_small_cpu_takes_the_small_one(self, digits, recorded, tmp_path):
        program = compiled("classify.c", digits, tmp_path, "o")
        path, labels = recorded
        assert ran(tool("qemu-x86_64"), "-cpu", "qemu64", program, path) == labels

    def test_a_cpu_that_lacks_everything_is_refused(self, recorded, tmp_path):
        stem = library(tmp_path, "--target", "avx512,avx2")
        program = compiled("classify.c", stem, tmp_path, "o")
        said = ran(tool("qemu-x86_64"), "-cpu", "qemu64", program, recorded[0], status=1)
        assert "that the library supports: avx512, avx2" in said

    @pytest.mark.parametrize("target", ["avx2", "sse2"])
    def test_bits_of_a_narrower_one(self, tmp_path, target):
        stem, x = library(tmp_path, "--target", target), pictures()
        loaded = hybridjit.library.load(f"{stem}.so")
        assert loaded.target == target
        np.testing.assert_array_equal(loaded(x), scores(x, target))


class TestBfloat16:
    @pytest.mark.parametrize("target", ["", "avx2"])
    def test_bits_are_those_of_the_network(self, tmp_path, target):
        if target and not IS_X86:
            pytest.skip("the target avx2 exists on x86-64 only")
        words = ["--precision", "bfloat16", *(["--target", target] if target else [])]
        stem, x = library(tmp_path, *words), pictures()
        with override(target=target):
            net = hybridjit.load(str(DIGITS))
            net.hybridize(precision="bfloat16")
            wanted = net(nd.array(x)).asnumpy()
        assert (wanted != scores(x, target)).any()
        np.testing.assert_array_equal(hybridjit.library.load(f"{stem}.so")(x), wanted)

    @pytest.mark.skipif(not IS_X86, reason="an instruction of one kind of CPU")
    def test_a_cpu_without_the_instruction_is_refused(self, recorded, tmp_path):
        """One that has it takes it before the next."""
        words = ["--precision", "bfloat16", "--target"]
        stem = library(tmp_path / "one", *words, "avx512bf16")
        program = compiled("classify.c", stem, tmp_path, "o")
        said = ran(tool("qemu-x86_64"), "-cpu", "max", program, recorded[0], status=1)
        assert "that the library supports: avx512bf16" in said
        both = library(tmp_path / "two", *words, "sse2,avx512,avx512bf16")
        found = hybridjit.library.load(f"{both}.so").target
        has_it = hybridjit.compilation.find_target().has_bfloat16
        assert (found == "avx512bf16") is has_it


class TestRefusals:
    def said(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
        code = main(["compile", *words])
        return code, capsys.readouterr().err

    @pytest.mark.parametrize(
        "options, text",
        [
            (["--shape", "data=1,N,28,28"], "N means any batch size"),
            (["--shape", "data=N,1,28,28", "--target", "avx2,neon"], "one CPU architecture"),
            (["--shape", "data=N,1,28,28", "--target", "z80"], "unknown target 'z80'"),
            (["--shape", "data=N,1,28,28", "--cache", "x"], "give one of them"),
        ],
    )
    def test_wrong_arguments_are_usage_errors(self, capsys, tmp_path, options, text):
        code, said = self.said(capsys, str(DIGITS), "--library", str(tmp_path), *options)
        assert code == 2 and text in said
        assert list(tmp_path.iterdir()) == []

    def test_a_library_has_parameters(self, capsys, tmp_path):
        alone = shutil.copy(f"{DIGITS}-symbol.json", tmp_path / "alone-symbol.json")
        out = tmp_path / "library"
        words = [alone, "--shape", "data=N,1,28,28", "--library", str(out)]
        code, said = self.said(capsys, *map(str, words))
        assert code == 2 and "give --params" in said and not out.exists()

    def test_any_batch_is_for_libraries(self, capsys):
        code, said = self.said(capsys, str(DIGITS), "--shape", "data=N,1,28,28")
        assert code == 2 and "needs --library" in said

    @pytest.mark.parametrize(
        "mixed",
        [
            lambda x: sym.sum(x, axis=0),
            lambda x: sym.reverse(x, axis=0),
            lambda x: sym.slice(x, begin=(None,), end=(None,), step=(-1,)),
            lambda x: sym.broadcast_add(x, sym.argmax(x, axis=0, keepdims=True)),
            lambda x: sym.contrib.box_nms(x),
        ],
        ids=["sum", "reverse", "slice", "argmax", "box_nms"],
    )
    def test_samples_that_meet(self, capsys, tmp_path, mixed):
        write(tmp_path / "mixed", mixed(sym.var("data")))
        words = [str(tmp_path / "mixed"), "--shape", "data=N,6", "--library", str(tmp_path / "out")]
        code, said = self.said(capsys, *words)
        assert code == 1 and "samples of this graph depend on each other" in said

    def test_host_steps_are_all_named(self, capsys, tmp_path):
        x = sym.var("data")
        first, second = sym.topk(x, ret_typ="mask", name="one"), sym.linalg.det(x, name="two")
        write(tmp_path / "host", sym.Group([first, second]))
        words = [
            str(tmp_path / "host"),
            "--shape",
            "data=4,3,3",
            "--library",
            str(tmp_path / "out"),
        ]
        code, said = self.said(capsys, *words)
        assert code == 1 and "topk 'one'" in said and "'two'" in said


def write(stem: Path, graph: sym.Symbol, **params: nd.NDArray) -> None:
    """A model's two files."""
    graph.save(f"{stem}-symbol.json")
    nd.save(f"{stem}-0000.params", {f"arg:{name}": array for name, array in params.items()})


class TestIndices:
    def test_an_index_outside_is_a_code(self, tmp_path):
        x, at = sym.var("x"), sym.var("at", dtype="int32")
        write(tmp_path / "net", sym.take(x, at, axis=0, mode="raise"))
        words = ["compile", str(tmp_path / "net"), "--library", str(tmp_path)]
        assert main([*words, "--shape", "x=5,2", "--shape", "at=3"]) == 0
        loaded = hybridjit.library.load(tmp_path / "net.so")
        data = np.arange(10, dtype=np.float32).reshape(5, 2)
        found = loaded(data, np.array([4, 0, 1], np.int32))
        np.testing.assert_array_equal(found, data[[4, 0, 1]])
        for wrong in (5, -6, 2**31 - 1):
            with pytest.raises(MXNetError, match="an index in an input is out of range"):
                loaded(data, np.array([0, wrong, 1], np.int32))
        np.testing.assert_array_equal(loaded(data, np.array([4, 0, 1], np.int32)), found)


class TestDocumentation:
    def test_commands_of_the_page(self, tmp_path, monkeypatch):
        """As they stand, one after the other."""
        tool("cc")
        page = (ROOT / "docs/howto/c-library.md").read_text()
        commands = page.partition("```sh\n")[2].partition("```")[0].splitlines()
        assert len(commands) == 4
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        printed = [ran("sh", "-c", command) for command in commands]
        with np.load(tmp_path / "examples" / "digits" / "digits-test.npz") as arrays:
            labels = arrays["logits"].argmax(1)
        assert printed[-1].split() == [str(label) for label in labels]


class TestNeon:
    def test_the_example_under_qemu(self, recorded, tmp_path):
        compiler, qemu = tool("aarch64-linux-gnu-gcc"), tool("qemu-aarch64")
        stem = library(tmp_path, "--target", "neon", "--threads")
        program = tmp_path / "classify"
        linked = [f"{stem}.o", "-static", "-lm", "-lpthread"]
        source = EXAMPLES / "classify.c"
        ran(compiler, *STRICT, f"-I{tmp_path}", source, *linked, "-o", program)
        path, labels = recorded
        assert ran(qemu, program, path) == labels


def test_a_library_that_was_compiled_again_is_loaded_again(tmp_path):
    """The system's loader takes a path that it knows for the old library, even once it is gone."""
    weights = nd.array([[1, 2]])
    for number in (1, 2, 3):
        nd.save(str(tmp_path / "net-0000.params"), {"arg:w": weights * number})
        made = sym.FullyConnected(sym.var("data"), sym.var("w"), num_hidden=1, no_bias=True)
        made.save(str(tmp_path / "net-symbol.json"))
        path = library(tmp_path, model=tmp_path / "net", shape="data=1,2")
        for _ in range(2):
            loaded = hybridjit.library.load(f"{path}.so")
            assert loaded(np.ones((1, 2), np.float32)).item() == 3 * number


@pytest.mark.any_cpu
def test_a_library_that_was_cut_off_is_refused(tmp_path):
    """The system's loader maps it, and the process dies by SIGBUS."""
    path = f"{library(tmp_path)}.so"
    whole = Path(path).read_bytes()
    for nbytes in (len(whole) // 2, 4097, 100):
        Path(path).write_bytes(whole[:nbytes])
        with pytest.raises(MXNetError, match=f"has {nbytes} bytes, but .* the file was cut off"):
            hybridjit.library.load(path)
