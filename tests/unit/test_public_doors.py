"""Errors of public calls: the program's line, one frame of hybridjit, at most 15 lines.

Each row is a public call that fails. Frames of internal functions are left out of its traceback.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, image, io, kvstore, metric, nd, npx, profiling, recordio, sym
from hybridjit import np as mnp
from hybridjit._core import frames
from hybridjit._core.config import override
from hybridjit.gluon import data, nn, rnn
from hybridjit.gluon.data.vision import transforms
from patience import PATIENCE

MOST = 15  # lines, of which the program's last frame takes two and a note one
X = nd.ones((2, 3))
Y = mnp.ones((2, 3))
FC = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc")
HEAD = sym.SoftmaxOutput(FC, name="softmax")


def made(hybridized: bool, *layers: gluon.Block) -> gluon.Block:
    net = nn.HybridSequential()
    net.add(*(layers or (nn.Dense(4, in_units=3),)))
    net.initialize()
    if hybridized:
        net.hybridize()
    return net


def trainer() -> gluon.Trainer:
    return gluon.Trainer(made(False).collect_params(), "sgd")


def head_gradient() -> None:
    x = nd.ones(3)
    x.attach_grad()
    with autograd.record():
        y = x * 2
    autograd.backward([y], [nd.ones(4)])


def recorded() -> None:
    with autograd.record():
        made(True)(nd.ones((2, 5)))


def one_step() -> None:
    net = made(True)
    own = gluon.Trainer(net.collect_params(), "sgd")
    mx.train_step(net, gluon.loss.L2Loss(), own)(nd.ones((2, 5)), nd.ones((2, 4)))


def fitted(labels: int, names: tuple[str, ...] = ("data",), **arguments: object) -> None:
    batches = io.NDArrayIter(np.ones((8, 3), "float32"), np.zeros(labels), 4)
    mx.mod.Module(HEAD, names).fit(batches, num_epoch=1, **arguments)


def store() -> kvstore.KVStore:
    found = kvstore.create("local")
    found.init(3, X)
    return found


def bound() -> mx.executor.Executor:
    return FC.simple_bind(mx.cpu(), data=(2, 3))


class Failing(data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, idx):
        raise KeyError("no sample")


DOORS: dict[str, Callable[[], object]] = {
    "call": lambda: made(False)(nd.ones((2, 5))),
    "compiled call": lambda: made(True)(nd.ones((2, 5))),
    "recorded call": recorded,
    "convolution": lambda: made(True, nn.Conv2D(3, 3, in_channels=3))(nd.ones((1, 4, 8, 8))),
    "backward": head_gradient,
    "grad": lambda: autograd.grad([X], [X]),
    "mark_variables": lambda: autograd.mark_variables([X], [X], "some"),
    "Function": lambda: autograd.Function()(X),
    "Trainer": lambda: gluon.Trainer([1], "sgd"),
    "Trainer of a block": lambda: gluon.Trainer(made(False), "sgd"),
    "Trainer.step": lambda: trainer().step(1),
    "Trainer.load_states": lambda: trainer().load_states("none"),
    "Trainer.save_states": lambda: trainer().save_states("none/x"),
    "train_step": one_step,
    "fit": lambda: fitted(7),
    "fit of an unknown optimizer": lambda: fitted(8, optimizer="sgdx"),
    "Module": lambda: fitted(8, ("x",)),
    "Module.forward": lambda: mx.mod.Module(FC, label_names=None).forward(io.DataBatch([X])),
    "Module.load": lambda: mx.mod.Module.load("none", 0),
    "load_checkpoint": lambda: mx.model.load_checkpoint("none", 0),
    "Executor.forward": lambda: bound().forward(data=nd.ones((2, 7))),
    "Executor.forward of another name": lambda: bound().forward(x=nd.ones((2, 7))),
    "Executor.backward": lambda: bound().backward([nd.ones((2, 7))]),
    "operator": lambda: nd.dot(X, X),
    "operator's attribute": lambda: nd.Pooling(X, kernl=2),
    "array": lambda: nd.array([[1, 2], [3]]),
    "zeros": lambda: nd.zeros((-2, 3)),
    "arange": lambda: nd.arange(1, 2, 0),
    "reshape": lambda: X.reshape((4, 2)),
    "sum of arrays": lambda: X + nd.ones((3, 2)),
    "index": lambda: X[5],
    "assignment": lambda: X.__setitem__(slice(None), nd.ones((4, 5))),
    "astype": lambda: X.astype("some"),
    "copyto": lambda: X.copyto(nd.ones((9,))),
    "as_in_context": lambda: X.as_in_context(mx.gpu(0)),
    "tostype": lambda: X.tostype("some"),
    "nd.load": lambda: nd.load("bad.params"),
    "nd.save": lambda: nd.save("none/x", [X]),
    "random": lambda: nd.random.normal(0, -1, shape=(2,)),
    "Custom": lambda: nd.Custom(X, op_type="some"),
    "np.dot": lambda: mnp.dot(Y, Y),
    "np.add": lambda: Y + mnp.ones((3, 2)),
    "np.reshape": lambda: Y.reshape(4, 4),
    "np.concatenate": lambda: mnp.concatenate([Y, mnp.ones((2, 4))]),
    "np.array": lambda: mnp.array([[1], [2, 3]]),
    "np.linalg": lambda: mnp.linalg.inv(mnp.zeros((2, 2))),
    "np.random": lambda: mnp.random.normal(0, -1, size=(2,)),
    "np.where": lambda: mnp.where(mnp.ones(2), mnp.ones(3), mnp.ones(4)),
    "npx": lambda: npx.softmax(mnp.ones(2), axis=4),
    "infer_shape": lambda: FC.infer_shape(data=(2, 3), y=(3,)),
    "sym.load": lambda: sym.load("bad-symbol.json"),
    "sym.save": lambda: FC.save("none/x"),
    "sym.load_json": lambda: sym.load_json("{"),
    "symbol's attribute": lambda: sym.Pooling(FC, kernl=2),
    "Group": lambda: sym.Group([1]),
    "DataLoader": lambda: data.DataLoader([1]),
    "samples of a DataLoader": lambda: list(data.DataLoader(Failing(), 2)),
    "threads of a DataLoader": lambda: list(data.DataLoader(Failing(), 2, False, None, "keep",
                                                            num_workers=1, thread_pool=True)),
    "ragged batch": lambda: list(data.DataLoader([np.ones(2), np.ones(3)], 2)),
    "ArrayDataset": lambda: data.ArrayDataset(nd.ones(3), nd.ones(2)),
    "RecordFileDataset": lambda: data.RecordFileDataset("none.rec"),
    "ImageFolderDataset": lambda: data.vision.ImageFolderDataset("none"),
    "transform": lambda: transforms.ToTensor()(nd.ones(2)),
    "push": lambda: store().push(4, X),
    "pull": lambda: store().pull(3, out=nd.ones((5, 5))),
    "onnx.load": lambda: mx.onnx.load("bad.onnx"),
    "import_model": lambda: mx.contrib.onnx.import_model("none.onnx"),
    "export_model": lambda: mx.contrib.onnx.export_model("a", "b", [(1,)], np.float32, "c.onnx"),
    "export_onnx": lambda: made(True).export_onnx("x.onnx", nd.ones((2, 9))),
    "library.load": lambda: mx.library.load("bad.so"),
    "load": lambda: mx.load("bad.onnx"),
    "SymbolBlock.imports": lambda: gluon.SymbolBlock.imports("bad-symbol.json", ["x"]),
    "metric": lambda: metric.Accuracy().update([nd.ones(3)], [nd.ones((4, 3))]),
    "metric.create": lambda: metric.create("some"),
    "CSVIter": lambda: io.CSVIter(data_csv="none.csv", data_shape=(3,), batch_size=1),
    "ImageRecordIter": lambda: io.ImageRecordIter(path_imgrec="none.rec", data_shape=(3, 4, 4),
                                                  batch_size=1),
    "MXRecordIO": lambda: recordio.MXRecordIO("none.rec", "r"),
    "imread": lambda: image.imread("none.jpg"),
    "imdecode": lambda: image.imdecode(b"abc"),
    "initialize": lambda: made(False).initialize("some", force_reinit=True),
    "load_parameters": lambda: made(False).load_parameters("bad.params"),
    "save_parameters": lambda: made(False).save_parameters("none/x"),
    "data": lambda: nn.Dense(3).weight.data(),
    "gradient": lambda: nn.Dense(3).weight.grad(),
    "set_data": lambda: made(False)[0].weight.set_data(nd.ones((9, 9))),
    "cast": lambda: made(False).cast("some"),
    "bind": lambda: made(True).bind(X, out=nd.ones(3)),
    "verify": lambda: made(True).verify(nd.ones((2, 9))),
    "predict": lambda: made(True).predict(np.ones((2, 5), "float32")),
    "export": lambda: made(True).export("x"),
    "summary": lambda: made(False).summary(nd.ones((2, 7))),
    "profile": lambda: profiling.profile(made(True), nd.ones((2, 7))),
    "split_and_load": lambda: gluon.utils.split_and_load(X, [mx.gpu(0)]),
    "loss": lambda: gluon.loss.L2Loss()(nd.ones((4, 3)), nd.ones((4, 2))),
    "recurrent layer": lambda: made(True, rnn.LSTM(4, input_size=3))(X),
    "unroll": lambda: rnn.LSTMCell(3).unroll(2, X),
    "pretrained": lambda: gluon.model_zoo.vision.resnet18_v1(pretrained=True, root="none"),
    "optimizer": lambda: mx.optimizer.create("some"),
    "update": lambda: mx.optimizer.SGD().update(0, X, nd.ones((3, 3)), None),
    "schedule": lambda: mx.lr_scheduler.FactorScheduler(0),
    "Context": lambda: mx.Context("some"),
    "amp": lambda: mx.contrib.amp.init("some"),
    "set_num_threads": lambda: mx.set_num_threads(0),
    "print_summary": lambda: mx.viz.print_summary(FC, {"y": (1,)}),
    "profiler": lambda: mx.profiler.set_config(some=1),
    "absent": lambda: mx.rtc,
}  # fmt: skip


@pytest.fixture
def _files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad-symbol.json").write_text("{}")
    for name in ("bad.onnx", "bad.params", "bad.so"):
        (tmp_path / name).write_bytes(b"no such format")


def last_call(error: BaseException) -> list[str]:
    """Names of hybridjit's functions in the traceback; it begins at the program's last line."""
    entry = error.__traceback__
    assert entry is not None
    while entry.tb_next is not None and not frames._is_own(entry.tb_next.tb_frame):
        entry = entry.tb_next
    error.__traceback__ = entry
    rest = traceback.extract_tb(entry)[1:]
    assert all(one.filename.startswith(frames._PACKAGE) for one in rest), rest
    return [one.name for one in rest]


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.usefixtures("_files")
def test_a_public_call_that_fails_has_one_frame(name):
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("error")
        DOORS[name]()
    error = caught.value
    is_own_sample = isinstance(error, KeyError)
    names = [] if is_own_sample else last_call(error)
    lines = "".join(traceback.format_exception(error)).splitlines()
    assert is_own_sample or len(lines) <= MOST, "\n".join(lines)
    # Python's operators and shapes call the public function of the same meaning.
    assert len(names) <= 2, names


def test_a_failing_sample_of_a_worker_shows_the_datasets_line():
    with pytest.raises(KeyError) as caught:
        list(data.DataLoader(Failing(), 2, num_workers=1))
    assert 'raise KeyError("no sample")' in str(caught.value.__cause__)
    assert "_batchify" not in str(caught.value.__cause__)
    with override(traceback="full"), pytest.raises(KeyError) as caught:
        list(data.DataLoader(Failing(), 2, num_workers=1))
    assert "_batchify" in str(caught.value.__cause__)


def test_generators_yield_and_end():
    @frames.public
    def numbers(stop):
        yield from range(stop)
        raise ValueError("the end")

    found = []
    with contextlib.suppress(ValueError):
        for number in numbers(stop=3):
            found.append(number)
    assert found == [0, 1, 2] and numbers.__name__ == "numbers"


def test_warnings_name_the_programs_line(tmp_path):
    """Python may warn of files that earlier tests left open, at the line that runs then."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="not a directory") as first:
        data.vision.ImageFolderDataset(str(tmp_path))
    with pytest.warns(UserWarning, match="already initialized") as second:
        made(False).initialize()
    for caught in (first, second):
        assert {one.filename for one in caught if one.category is UserWarning} == {__file__}


def test_a_program_prints_few_lines():
    program = "import hybridjit as mx\nmx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))\n"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert len(done.stderr.splitlines()) <= MOST and "contracts 3 elements" in done.stderr
