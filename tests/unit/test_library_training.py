"""Steps of training as C libraries: the bits of train_step, states, rejected arguments."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_library import (
    DIGITS,
    EXAMPLES,
    IS_X86,
    ROOT,
    STRICT,
    int_of,
    pictures,
    ran,
    tool,
    undefined,
)
from test_train_step import NETS, Made, batches

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit._core.config import override
from hybridjit.cli import main
from hybridjit.errors import DTypeError, MXNetError, ShapeError
from hybridjit.gluon import nn
from hybridjit.library import interface as kinds

STEPS = 12
SGD = {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.01}


@pytest.fixture(scope="module", autouse=True)
def this_cpu() -> Iterator[None]:
    with override(target=""):
        yield


def exported(made: Made, batch: tuple[nd.NDArray, ...], folder: Path, **words: object) -> Path:
    """The library of a step that was not called; the path without an ending."""
    step = mx.train_step(made.net, made.loss, made.trainer)
    paths = step.export_library(str(folder), *batch, name="net", **words)
    return Path(paths[0]).with_suffix("")


def arrays_of(batch: tuple[nd.NDArray, ...]) -> list[np.ndarray]:
    return [x.asnumpy() for x in batch]


def assert_bits(made: Made, loaded: mx.library.TrainingLibrary, given: list[tuple]) -> None:
    """Both learn the same from these batches: every loss, and then every parameter."""
    step = mx.train_step(made.net, made.loss, made.trainer)
    rates = np.random.RandomState(3).uniform(0.001, 0.1, len(given))
    for batch, rate in zip(given, rates):
        made.trainer.set_learning_rate(rate)
        wanted = step(*batch)
        found = loaded.step(*arrays_of(batch), learning_rate=rate)
        pairs = zip(found, wanted) if isinstance(found, list) else [(found, wanted)]
        for mine, right in pairs:
            np.testing.assert_array_equal(mine.reshape(right.shape), right.asnumpy())
    for name, param in made.net.collect_params().items():
        np.testing.assert_array_equal(loaded.get(name), param.data().asnumpy(), err_msg=name)


def lenet() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2))
    net.add(nn.Conv2D(16, 5, activation="tanh"), nn.AvgPool2D(2), nn.Dense(20), nn.Dense(10))
    return net


def normed() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2))
    net.add(nn.Dense(5), nn.LayerNorm(), nn.Dense(2))
    return net


class Chosen(gluon.HybridBlock):
    """Rows of a weight, by numbers that have to be rows' numbers."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(4, 3))

    def hybrid_forward(self, F, x, weight):
        return F.take(weight, x, axis=0, mode="raise")


CROSS = gluon.loss.SoftmaxCrossEntropyLoss
CASES = {
    **{name: NETS[name] for name in ("dense", "recurrent", "two inputs")},
    "lenet": (lenet, CROSS, [(8, 1, 28, 28)], (8,)),
    "normed": (normed, CROSS, [(4, 3, 6, 6)], (4,)),
}
OPTIMIZERS = {
    "sgd": {"wd": 0.01, "clip_gradient": 0.5},
    "nag": {"momentum": 0.8},
    "signum": {"wd_lh": 0.001},
    "adam": {"wd": 0.001},
    "adagrad": {"wd": 0.0},
    "rmsprop": {"wd": 0.0},
    "RMSProp": {"centered": True, "clip_weights": 3.0},
    "ftrl": {"lamda1": 0.001},
    "adadelta": {"wd": 0.01, "clip_gradient": 0.3},
}


class TestBits:
    @pytest.mark.parametrize("name", CASES)
    def test_they_are_train_steps(self, tmp_path, name):
        case = CASES[name]
        made, given = Made(case, "sgd", dict(SGD)), batches(case, STEPS)
        loaded = mx.library.load(f"{exported(made, given[0], tmp_path)}.so")
        assert_bits(made, loaded, given)

    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_of_every_optimizer_with_a_kernel(self, tmp_path, name):
        case = CASES["dense"]
        made, given = Made(case, name, dict(OPTIMIZERS[name])), batches(case, STEPS)
        params = list(made.net.collect_params().values())
        params[0].lr_mult, params[1].wd_mult = 0.5, 0.0
        loaded = mx.library.load(f"{exported(made, given[0], tmp_path)}.so")
        assert_bits(made, loaded, given)

    def test_of_half_weights_with_copies(self, tmp_path):
        made = Made(CASES["dense"])
        made.net.cast("float16")
        params = made.net.collect_params()
        made.trainer = gluon.Trainer(params, "sgd", {**SGD, "multi_precision": True})
        given = [tuple(x.astype("float16") for x in b) for b in batches(CASES["dense"], STEPS)]
        loaded = mx.library.load(f"{exported(made, given[0], tmp_path)}.so")
        assert_bits(made, loaded, given)
        name = next(iter(params))
        copy = loaded.get(f"{name}:weight32")
        assert copy.dtype == np.float32
        np.testing.assert_array_equal(loaded.get(name), copy.astype(np.float16))

    def test_training_goes_on_where_python_is(self, tmp_path):
        """A library begins with the values, states and counts that there are."""
        made, given = Made(CASES["dense"], "adam", {"wd": 0.01}), batches(CASES["dense"], STEPS)
        step = mx.train_step(made.net, made.loss, made.trainer)
        for batch in given[:3]:
            step(*batch)
        loaded = mx.library.load(f"{exported(made, given[0], tmp_path)}.so")
        assert loaded.get("num_update") == 3
        assert_bits(made, loaded, given[3:])

    def test_parameters_that_stay_as_they_are(self, tmp_path):
        made, given = Made(CASES["dense"], "sgd", dict(SGD)), batches(CASES["dense"], STEPS)
        fixed = list(made.net.collect_params().values())[:2]
        for param in fixed:
            param.grad_req = "null"
        loaded = mx.library.load(f"{exported(made, given[0], tmp_path)}.so")
        assert f"{fixed[0].name}:mom" not in loaded.states
        assert_bits(made, loaded, given)

    def test_with_threads_and_mapped_weights(self, tmp_path, monkeypatch):
        monkeypatch.setattr("hybridjit.library.variants.WORTH_SHARING", 0)
        made, given = Made(CASES["lenet"], "adam", {"wd": 0.01}), batches(CASES["lenet"], STEPS)
        stem = exported(made, given[0], tmp_path, threads=True, weights="file")
        learned = []
        for threads in (1, 2, 3):
            loaded = mx.library.load(f"{stem}.so", threads=threads)
            losses = [loaded.step(*arrays_of(b), learning_rate=0.01) for b in given]
            learned.append([*losses, *map(loaded.get, loaded.states)])
        for other in learned[1:]:
            for mine, right in zip(other, learned[0]):
                np.testing.assert_array_equal(mine, right)
        assert_bits(made, mx.library.load(f"{stem}.so", threads=2), given)

    def test_of_products_in_bfloat16(self, tmp_path):
        """The default CPU is this one, with the instructions that Python's step has."""
        made, given = Made(CASES["lenet"], "sgd", dict(SGD)), batches(CASES["lenet"], STEPS)
        made.net.hybridize(precision="bfloat16")
        loaded = mx.library.load(f"{exported(made, given[0], tmp_path)}.so")
        assert_bits(made, loaded, given)

    @pytest.mark.skipif(not IS_X86, reason="other CPUs have no vectors to choose from")
    def test_of_a_narrower_cpu(self, tmp_path):
        made, given = Made(CASES["normed"], "sgd", dict(SGD)), batches(CASES["normed"], STEPS)
        loaded = mx.library.load(f"{exported(made, given[0], tmp_path, target='sse2')}.so")
        assert loaded.target == "sse2"
        with override(target="sse2"):
            assert_bits(made, loaded, given)


def commanded(folder: Path, *options: str) -> Path:
    """The digits network as the command makes it."""
    words = ["compile", str(DIGITS), "--shape", "data=20,1,28,28", "--shape", "label=20"]
    words += ["--train", "softmax_cross_entropy", "--optimizer", "sgd,momentum=0.9"]
    assert main([*words, "--name", "trainer", "--library", str(folder), *options]) == 0
    return folder / "trainer"


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For several CPUs."""
    targets = ["--target", "avx512,avx2,sse2"] if IS_X86 else []
    return commanded(tmp_path_factory.mktemp("trainer"), *targets)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For this CPU, with the kernels of train_step."""
    return commanded(tmp_path_factory.mktemp("native"))


def labelled(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures, and labels at random."""
    return pictures(count), np.random.default_rng(1).integers(0, 10, count).astype(np.float32)


def assert_commanded(stem: Path, precision: str = "float32") -> list[float]:
    """Check that losses and states equal a train_step's; return the losses."""
    net = mx.load(str(DIGITS))
    net.hybridize(precision=precision)
    sgd = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9, "learning_rate": 0.02})
    step = mx.train_step(net, gluon.loss.SoftmaxCrossEntropyLoss(), sgd)
    loaded, (x, y) = mx.library.load(f"{stem}.so"), labelled(20)
    assert (loaded.inputs, loaded.outputs) == (["data", "label"], ["loss"])
    losses = []
    for _ in range(STEPS):
        wanted = step(nd.array(x), nd.array(y)).asnumpy()
        np.testing.assert_array_equal(loaded.step(x, y, learning_rate=0.02), wanted)
        losses += wanted.tolist()
    for name, param in net.collect_params().items():
        np.testing.assert_array_equal(loaded.get(name), param.data().asnumpy())
    return losses


class TestLearned:
    def test_the_command_equals_train_step(self, native):
        assert_commanded(native)

    def test_the_command_takes_a_precision(self, native, tmp_path):
        losses = assert_commanded(commanded(tmp_path, "--precision", "bfloat16"), "bfloat16")
        assert losses != assert_commanded(native)

    def test_states_transfer_training_to_another_context(self, trainer):
        first, second = (mx.library.load(f"{trainer}.so") for _ in range(2))
        x, y = labelled(20)
        for _ in range(3):
            first.step(x, y, learning_rate=0.02)
        for name in first.states:
            second.set(name, first.get(name))
        assert second.get("num_update") == 3
        for _ in range(3):
            wanted = first.step(x, y, learning_rate=0.02)
            np.testing.assert_array_equal(second.step(x, y, learning_rate=0.02), wanted)

    def test_contexts_train_independently(self, trainer):
        x, y = labelled(20)
        alone = mx.library.load(f"{trainer}.so")
        wanted = [alone.step(x, y, learning_rate=0.02) for _ in range(20)]
        failures = []

        def work() -> None:
            mine = mx.library.load(f"{trainer}.so")
            found = [mine.step(x, y, learning_rate=0.02) for _ in range(20)]
            if not np.array_equal(found, wanted):
                failures.append("other bits")

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failures == []

    def test_wrong_states_and_arrays_raise(self, trainer):
        loaded, (x, y) = mx.library.load(f"{trainer}.so"), labelled(20)
        before = loaded.get("num_update")
        with pytest.raises(MXNetError, match="no state has this name"):
            loaded.get("weight")
        with pytest.raises(MXNetError, match="no state has this name"):
            loaded.set("weight", x)
        with pytest.raises(ShapeError, match="state 'digits_conv0_bias' must have shape"):
            loaded.set("digits_conv0_bias", np.zeros(9, np.float32))
        with pytest.raises(DTypeError, match="state 'digits_conv0_bias' must have type"):
            loaded.set("digits_conv0_bias", np.zeros(6))
        with pytest.raises(ShapeError, match="input 'label'"):
            loaded.step(x, y[:3], learning_rate=0.1)
        for rate in (float("nan"), 1e39, -1e39):
            with pytest.raises(MXNetError, match="rate must be finite in float32"):
                loaded.step(x, y, learning_rate=rate)
        with pytest.raises(MXNetError, match="no state has this name"):
            loaded.get("\ud800")
        with pytest.raises(TypeError, match="a state is named by a string, got int"):
            loaded.set(0, x)
        with pytest.raises(TypeError, match="integer"):
            loaded.seed(1.5)
        with pytest.raises(MXNetError, match="compiled with --train"):
            loaded(x)
        assert loaded.get("num_update") == before

    def test_an_index_outside_changes_nothing(self, tmp_path):
        made = Made((Chosen, gluon.loss.L2Loss, [(5,)], (5, 3)), "adam", {"wd": 0.01})
        batch = (nd.array(np.arange(5) % 4), nd.array(np.ones((5, 3))))
        loaded = mx.library.load(f"{exported(made, batch, tmp_path)}.so")
        x, y = arrays_of(batch)
        loaded.step(x, y, learning_rate=0.1)
        before = [loaded.get(name) for name in loaded.states]
        for wrong in (4, -5, 1e9):
            with pytest.raises(MXNetError, match="out of range: weights and states did not change"):
                loaded.step(np.full(5, wrong, np.float32), y, learning_rate=0.1)
        for name, array in zip(loaded.states, before):
            np.testing.assert_array_equal(loaded.get(name), array)
        loaded.step(x, y, learning_rate=0.1)
        assert loaded.get("num_update") == 2

    def test_nothing_is_undefined_but_the_systems(self, trainer):
        assert undefined(Path(f"{trainer}.o")) == []
        names = ran(tool("nm"), "-g", "--defined-only", "--format=just-symbols", f"{trainer}.o")
        assert len(names.split()) == 12
        assert all(name.startswith("trainer_") for name in names.split())


class Raw:
    """The functions of a library as C sees them, with nothing checked before."""

    def __init__(self, stem: Path) -> None:
        self.functions = ctypes.CDLL(f"{stem}.so")
        self.functions.trainer_error_text.restype = ctypes.c_char_p
        self.functions.trainer_state_name.restype = ctypes.c_char_p
        for name in ("workspace_bytes", "state_bytes"):
            getattr(self.functions, f"trainer_{name}").restype = ctypes.c_size_t
        self.context = ctypes.c_void_p()
        self.x, self.y = labelled(20)
        self.loss = np.full(20, 7, np.float32)
        assert self.functions.trainer_init(ctypes.byref(self.context), None, 1) == 0
        room = self.functions.trainer_workspace_bytes(self.context)
        self.raw = np.zeros(room + 128, np.uint8)
        self.room = ctypes.c_size_t(room)
        self.workspace = self.raw.ctypes.data + -self.raw.ctypes.data % 64

    def step(self, **other: object) -> int:
        """A step, with the given changes."""
        given = {
            "context": self.context,
            "x": self.x.ctypes.data,
            "x_bytes": self.x.nbytes,
            "y": self.y.ctypes.data,
            "y_bytes": self.y.nbytes,
            "loss": self.loss.ctypes.data,
            "loss_bytes": self.loss.nbytes,
            "rate": 0.01,
            "workspace": self.workspace,
            "room": self.room,
            **other,
        }
        inputs = (ctypes.c_uint64 * 4)(*[given[n] for n in ("x", "x_bytes", "y", "y_bytes")])
        outputs = (ctypes.c_uint64 * 2)(given["loss"], given["loss_bytes"])
        return self.functions.trainer_step(
            given["context"],
            given.get("inputs", inputs),
            given.get("outputs", outputs),
            ctypes.c_double(given["rate"]),
            ctypes.c_void_p(given["workspace"]),
            given["room"],
        )

    def access(self, what: str, name: bytes | None, data: object, nbytes: int) -> int:
        function = getattr(self.functions, f"trainer_{what}")
        return function(self.context, name, data, ctypes.c_size_t(nbytes))

    def learned(self) -> bytes:
        """All that the context holds."""
        parts = []
        for number in range(self.functions.trainer_state_bytes(0) and 10**4):
            name = self.functions.trainer_state_name(ctypes.c_size_t(number))
            if name is None:
                break
            size = self.functions.trainer_state_bytes(ctypes.c_size_t(number))
            data = ctypes.create_string_buffer(size)
            assert self.access("get", name, data, size) == 0
            parts.append(data.raw)
        return b"".join(parts)


@pytest.fixture(scope="module")
def raw(trainer: Path) -> Raw:
    return Raw(trainer)


class TestHostileCalls:
    @pytest.mark.parametrize(
        "given, kind, array, text",
        [
            ({"context": None}, kinds.NULL, 0, "NULL"),
            ({"inputs": None}, kinds.NULL, 0, "NULL"),
            ({"outputs": None}, kinds.NULL, 0, "NULL"),
            ({"x_bytes": 0}, kinds.SIZE, 0, "input 0, 'data', must have 62720 bytes"),
            ({"y_bytes": 2**64 - 1}, kinds.SIZE, 1, "input 1, 'label'"),
            ({"loss_bytes": 79}, kinds.SIZE, 2, "output 0, 'loss', must have 80 bytes"),
            ({"y": 0}, kinds.NO_ARRAY, 1, "input 1"),
            ({"loss": 2}, kinds.MISALIGNED, 2, "output 0"),
            ({"workspace": 64}, 0, 0, ""),
            ({"room": ctypes.c_size_t(64)}, kinds.ROOM, 0, "the workspace"),
            ({"workspace": None}, kinds.ROOM, 0, "the workspace"),
            ({"rate": float("nan")}, kinds.RATE, 0, "the learning rate must be finite"),
            ({"rate": float("-inf")}, kinds.RATE, 0, "the learning rate must be finite"),
            ({"rate": 2.0**128 - 2.0**103}, kinds.RATE, 0, "must be finite in float32"),
        ],
    )
    def test_wrong_arguments_are_a_code(self, raw, given, kind, array, text):
        if given.get("workspace") == 64:  # where nothing is, in no room
            given, kind, text = {**given, "room": ctypes.c_size_t(0)}, kinds.ROOM, "the workspace"
        before = raw.learned()
        code = raw.step(**given)
        assert (code & 255, code >> 8) == (kind, array)
        assert text in raw.functions.trainer_error_text(code).decode()
        assert (raw.loss == 7).all() and raw.learned() == before

    def test_get_and_set_check_their_arguments(self, raw):
        data, name = ctypes.create_string_buffer(24), b"digits_conv0_bias"
        size = 24
        for what in ("get", "set"):
            assert raw.access(what, name, data, size) == 0
            assert raw.access(what, None, data, size) == kinds.NULL
            assert raw.access(what, name, None, size) == kinds.NULL
            assert raw.access(what, b"", data, size) == kinds.NO_STATE
            assert raw.access(what, name + b"x", data, size) == kinds.NO_STATE
            assert raw.access(what, b"x" * 10**6, data, size) == kinds.NO_STATE
            for wrong in (0, 23, 25, 2**63, 2**64 - 1):
                code = raw.access(what, name, data, wrong)
                assert code & 255 == kinds.STATE_SIZE
                said = raw.functions.trainer_error_text(code).decode()
                assert "'digits_conv0_bias', must have 24 bytes" in said
                number = ctypes.c_size_t(code >> 8)
                assert raw.functions.trainer_state_name(number) == name
        for number in (10**6, 2**63, 2**64 - 1):
            assert raw.functions.trainer_state_name(ctypes.c_size_t(number)) is None
            assert raw.functions.trainer_state_bytes(ctypes.c_size_t(number)) == 0

    @pytest.mark.parametrize("count", [-1, -(2**63), 2**63 - 1, 2**53 + 1])
    def test_a_count_that_trains_to_nan_is_refused(self, raw, trainer, count):
        before, data = raw.learned(), np.zeros(9, np.uint8)
        data[1:] = np.array([count], np.int64).view(np.uint8)  # it may begin anywhere
        code = raw.access("set", b"num_update", ctypes.c_void_p(data.ctypes.data + 1), 8)
        assert code & 255 == kinds.STATE_VALUE
        said = raw.functions.trainer_error_text(code).decode()
        assert "'num_update', must be 0 to 9007199254740992 (2**53)" in said
        assert raw.learned() == before
        with pytest.raises(MXNetError, match=r"'num_update', must be 0 to 9007199254740992"):
            mx.library.load(f"{trainer}.so").set("num_update", np.array(count, np.int64))

    @pytest.mark.parametrize("count", [0, 1, 2**53])
    def test_any_valid_update_count_works(self, trainer, count):
        loaded, (x, y) = mx.library.load(f"{trainer}.so"), labelled(20)
        loaded.set("num_update", np.array(count, np.int64))
        assert np.isfinite(loaded.step(x, y, learning_rate=0.01)).all()
        assert loaded.get("num_update") == count + 1
        assert all(np.isfinite(loaded.get(name)).all() for name in loaded.states)

    def test_arrays_that_meet(self, raw):
        before = raw.learned()
        code = raw.step(loss=raw.x.ctypes.data)
        assert (code & 255, code >> 8) == (kinds.OVERLAP, 0)
        code = raw.step(loss=raw.workspace + 64)
        assert (code & 255, code >> 8) == (kinds.OVERLAP, 2)
        assert raw.learned() == before

    def test_any_numbers_end_in_a_code(self, raw):
        """Thousands of calls with sizes and places at random; accepted calls compute."""
        random, seen = np.random.default_rng(5), set()
        sizes = [0, 1, 79, 81, 2**31, 2**47, 2**63, 2**64 - 1]
        for _ in range(3000):
            given: dict[str, object] = {}
            for name, right in (("x", raw.x), ("y", raw.y), ("loss", raw.loss)):
                start = right.ctypes.data
                given[name] = random.choice([start] * 9 + [0, start + 1, start + 2])
                given[f"{name}_bytes"] = int(random.choice(sizes + [right.nbytes] * 40))
            given["rate"] = float(random.choice([0.01, 0.01, 0.01, np.nan, np.inf, -0.01]))
            given["workspace"] = random.choice([raw.workspace, raw.workspace, 0, raw.workspace + 8])
            given["room"] = ctypes.c_size_t(random.choice([raw.room.value] * 3 + [0, 64]))
            seen.add(raw.step(**{name: int_of(value) for name, value in given.items()}) & 255)
        wanted = {0, kinds.ROOM, kinds.SIZE, kinds.NO_ARRAY, kinds.MISALIGNED, kinds.RATE}
        assert wanted <= seen

    def test_a_context_has_one_call_at_a_time(self, raw):
        """Concurrent calls return an error; every completed step is counted."""
        before = np.frombuffer(raw.learned()[-8:], np.int64)[0]
        codes: list[int] = []

        def work() -> None:
            data = ctypes.create_string_buffer(8)
            loss = np.zeros(20, np.float32)
            for _ in range(100):
                code = raw.step(workspace=0, room=ctypes.c_size_t(0), loss=loss.ctypes.data)
                codes.append(code)
                raw.access("get", b"num_update", data, 8)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert set(codes) <= {0, kinds.BUSY}
        after = np.frombuffer(raw.learned()[-8:], np.int64)[0]
        assert after - before == codes.count(0) > 0


class TestC:
    def test_the_example(self, trainer, tmp_path):
        """Its output equals the means of train_step's losses; a second run continues."""
        tool("gcc")
        x, y = labelled(60)
        x.tofile(tmp_path / "x")
        y.tofile(tmp_path / "y")
        program = compiled(trainer, tmp_path)
        words = [tmp_path / "x", tmp_path / "y"]
        whole = ran(program, *words, 4).split()
        assert whole == means(x, y, 4)
        kept = [*words, 2, tmp_path / "learned"]
        assert ran(program, *kept).split() + ran(program, *kept).split() == whole
        (tmp_path / "learned").write_bytes(b"x")
        assert "does not hold" in ran(program, *kept, status=1)

    def test_commands_of_the_page(self, tmp_path, monkeypatch):
        """Unchanged, one after the other; the loss falls considerably."""
        tool("cc")
        page = (ROOT / "docs/howto/c-library.md").read_text()
        section = page.partition("## A training step\n")[2]
        commands = section.partition("```sh\n")[2].partition("```")[0].splitlines()
        assert len(commands) == 4
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        losses = [ran("sh", "-c", command) for command in commands][-1].split()
        assert len(losses) == 5 and float(losses[-1]) < 0.5 * float(losses[0])

    @pytest.mark.parametrize("way", ["valgrind", "sanitizers"])
    def test_tools_find_nothing(self, trainer, tmp_path, way):
        x, y = labelled(20)
        x.tofile(tmp_path / "x")
        y.tofile(tmp_path / "y")
        words = [tmp_path / "x", tmp_path / "y", 1, tmp_path / "learned"]
        if way == "valgrind":
            before = [tool("valgrind"), "-q", "--error-exitcode=9", "--leak-check=full"]
            program = compiled(trainer, tmp_path)
        else:
            before, program = [], compiled(trainer, tmp_path, "-fsanitize=address,undefined", "-g")
        with override(target="avx2" if way == "valgrind" and IS_X86 else ""):
            wanted = means(x, y, 1)
        assert ran(*before, program, *words).split() == wanted


def compiled(stem: Path, folder: Path, *options: str) -> Path:
    """The example, compiled with all warnings."""
    program = folder / "train"
    given = [*STRICT, "-O1", *options, f"-I{stem.parent}", EXAMPLES / "train.c", f"{stem}.o"]
    ran(tool("gcc"), *given, "-lm", "-o", program)
    return program


def means(x: np.ndarray, y: np.ndarray, epochs: int) -> list[str]:
    """The mean losses of epochs, as the example prints them, for the code of this CPU."""
    net = mx.load(str(DIGITS))
    sgd = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    step = mx.train_step(net, gluon.loss.SoftmaxCrossEntropyLoss(), sgd)
    found = []
    for _ in range(epochs):
        parts = [
            step(nd.array(x[i : i + 20]), nd.array(y[i : i + 20])) for i in range(0, len(x), 20)
        ]
        found.append(np.concatenate([p.asnumpy() for p in parts]).astype(float).mean())
    return [f"{value:.6f}" for value in found]


class TestRefusals:
    @pytest.mark.parametrize(
        "options, text",
        [
            (["--shape", "data=4,1,28,28", "--train", "l2"], "give --shape label=..."),
            (
                ["--shape", "data=N,1,28,28", "--shape", "label=4", "--train", "l2"],
                "give a number for N",
            ),
            (
                ["--shape", "data=4,1,28,28", "--train", "l9"],
                "unknown loss 'l9'; the losses are CTCLoss",
            ),
            (["--shape", "data=4,1,28,28", "--train", "l2,x=1"], "the loss with {'x': 1}"),
            (["--shape", "data=4,1,28,28", "--optimizer", "sgd"], "--optimizer needs --train"),
        ],
    )
    def test_wrong_arguments_are_usage_errors(self, capsys, tmp_path, options, text):
        words = ["compile", str(DIGITS), "--library", str(tmp_path), *options]
        assert main(words) == 2
        assert text in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []

    def test_unsupported_optimizers_are_errors(self, capsys, tmp_path):
        words = ["compile", str(DIGITS), "--library", str(tmp_path), "--train", "l1"]
        words += ["--shape", "data=4,1,28,28", "--shape", "label=4,10", "--optimizer"]
        assert main([*words, "what"]) == 2
        assert "Cannot find optimizer what" in capsys.readouterr().err
        assert main([*words, "sgd,momentum=0.9,x=1"]) == 2
        assert main([*words, "lamb"]) == 1
        assert "LAMB has no kernel" in capsys.readouterr().err

    def test_graphs_that_contain_a_loss_are_errors(self, capsys, tmp_path):
        head = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
        mx.sym.SoftmaxOutput(head, name="softmax").save(str(tmp_path / "m-symbol.json"))
        params = {"arg:fc_weight": nd.ones((2, 3)), "arg:fc_bias": nd.ones((2,))}
        nd.save(str(tmp_path / "m-0000.params"), params)
        words = ["compile", str(tmp_path / "m"), "--library", str(tmp_path / "out")]
        words += ["--shape", "data=4,3", "--shape", "label=4", "--train", "softmax_ce"]
        assert main(words) == 2
        assert "ends in a loss, which reads 'softmax_label'" in capsys.readouterr().err

    def test_of_python(self, tmp_path):
        made, batch = Made(CASES["dense"]), batches(CASES["dense"], 1)[0]
        bound = mx.train_step(made.net, made.loss, made.trainer, clip_global_norm=1.0)
        with pytest.raises(MXNetError, match="clip_global_norm"):
            bound.export_library(str(tmp_path), *batch)
        step = mx.train_step(made.net, made.loss, made.trainer)
        with pytest.raises(ValueError, match="'inside' or 'file'"):
            step.export_library(str(tmp_path), *batch, weights="outside")
        made.trainer._optimizer.begin_num_update = -1
        with pytest.raises(MXNetError, match=r"num_update must be 0 to .* got -1"):
            step.export_library(str(tmp_path), *batch)
        made.trainer._optimizer.begin_num_update = 0
        next(iter(made.net.collect_params().values())).grad_req = "add"
        with pytest.raises(MXNetError, match="has grad_req 'add'"):
            step.export_library(str(tmp_path), *batch)
        assert list(tmp_path.iterdir()) == []


class TestChance:
    @pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**32 + 7, 2**64 - 1])
    def test_dropout_is_pythons(self, dropping, seed):
        """Every word that is drawn, in every step, behind the same seed."""
        made, stem = dropping
        loaded = mx.library.load(f"{stem}.so")
        loaded.seed(seed)
        for name, param in made.net.collect_params().items():
            loaded.set(name, param.data().asnumpy())
        mx.random.seed(seed)
        assert_bits(made, loaded, batches(NETS["states"], STEPS))

    def test_a_state_of_chance_is_a_generators(self, dropping):
        loaded = mx.library.load(f"{dropping[1]}.so")
        before = loaded.get("random_state")
        for wrong in (before * 0, before & ~np.array([0, 0, 1, 0], np.uint64)):
            with pytest.raises(MXNetError, match="two 128-bit numbers, the second odd"):
                loaded.set("random_state", wrong)
        assert (loaded.get("random_state") == before).all()


@pytest.fixture(scope="module")
def dropping(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Path]:
    """A network with two Dropouts and BatchNorm, and its library."""
    case = (dropped, *NETS["states"][1:])
    made = Made(case, "nag", {"wd": 0.01})
    return made, exported(made, batches(case, 1)[0], tmp_path_factory.mktemp("dropping"))


def dropped() -> gluon.HybridBlock:
    net = NETS["states"][0]()
    net.add(nn.Dropout(0.5, axes=(0,)), nn.Dense(2))
    return net
