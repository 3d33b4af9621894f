"""Errors in programs of users: few frames, the user's line, the nearest name, the way out."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
import types

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit._core import frames
from hybridjit._core.config import override
from hybridjit.gluon import nn
from patience import PATIENCE

MOST = 22  # lines of a traceback, of which the program's own frames here take six
WAYS = [False, True]


def trainer_of_one() -> gluon.Trainer:
    dense = nn.Dense(2, in_units=3)
    dense.initialize()
    return gluon.Trainer(dense.collect_params(), "sgd")


def made(net: gluon.Block, hybridized: bool) -> gluon.Block:
    net.initialize()
    if hybridized:
        net.hybridize()
    return net


def stacked(hybridized: bool) -> gluon.Block:
    net = nn.HybridSequential()
    net.add(nn.HybridSequential(), nn.Dense(2))
    net[0].add(nn.Dense(4, in_units=3))
    return made(net, hybridized)


def own_frames(error: BaseException) -> list[str]:
    """hybridjit's functions in a traceback."""
    entries = traceback.extract_tb(error.__traceback__)
    return [e.name for e in entries if e.filename.startswith(frames._PACKAGE)]


class Block(gluon.HybridBlock):
    def __init__(self, work) -> None:
        super().__init__()
        self.work = work

    def hybrid_forward(self, F, x):
        return self.work(F, x)


# ---- tracebacks


def trained(hybridized: bool) -> None:
    net = stacked(hybridized)
    step = mx.train_step(net, gluon.loss.L2Loss(), gluon.Trainer(net.collect_params(), "sgd"))
    step(nd.ones((2, 5)), nd.ones((2, 2)))


FAILING = {
    "width": lambda hybridized: stacked(hybridized)(nd.ones((2, 5))),
    "dtype": lambda hybridized: stacked(hybridized)(nd.ones((2, 3), dtype="float64")),
    "numpy": lambda hybridized: stacked(hybridized)(np.ones((2, 3))),
    "not initialized": lambda hybridized: nn.Dense(3)(nd.ones((2, 3))),
    "labels": lambda hybridized: made(gluon.loss.SoftmaxCELoss(), hybridized)(
        nd.ones((4, 3)), nd.ones((4, 3))
    ),
    "operator": lambda hybridized: nd.FullyConnected(
        nd.ones((2, 3)), nd.ones((4, 5)), num_hidden=4
    ),
    "attribute": lambda hybridized: mx.sym.Pooling(mx.sym.var("x"), kernl=(2, 2)),
    "backward": lambda hybridized: nd.ones((2,)).backward(),
    "step": lambda hybridized: trainer_of_one().step(0),
    "train_step": trained,
    "in a block": lambda hybridized: made(Block(lambda F, x: F.reshape(x)), hybridized)(nd.ones(2)),
}


@pytest.mark.parametrize("hybridized", WAYS)
@pytest.mark.parametrize("name", FAILING)
def test_a_traceback_has_the_programs_frames_and_public_calls(name, hybridized):
    with pytest.raises(Exception) as caught:
        FAILING[name](hybridized)
    said = "".join(traceback.format_exception(caught.value))
    assert len(said.splitlines()) <= MOST, said
    assert own_frames(caught.value)[0] in ("__call__", "function", "backward", "step")
    entries = traceback.extract_tb(caught.value.__traceback__)
    own = [entry.filename.startswith(frames._PACKAGE) for entry in entries]
    assert not any(before and after for before, after in zip(own, own[1:])), said


def test_all_frames_where_that_is_wished():
    with override(traceback="full"), pytest.raises(ValueError) as caught:
        stacked(True)(nd.ones((2, 5)))
    assert len(own_frames(caught.value)) > 5
    with pytest.raises(ValueError, match="HYBRIDJIT_TRACEBACK='some': it is short or full"):
        override(traceback="some").__enter__()


def test_frames_of_the_program_inside_a_call_stay():
    def work(F, x):
        return inner(F, x)

    def inner(F, x):
        raise KeyError("the program's own")

    with pytest.raises(KeyError) as caught:
        made(Block(work), True)(nd.ones((2, 3)))
    names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-4:] == ["__call__", "hybrid_forward", "work", "inner"]
    if sys.version_info >= (3, 11):
        assert "HYBRIDJIT_TRACEBACK=full" in caught.value.__notes__[0]


def test_a_cause_is_printed_where_it_has_a_line_of_the_program():
    """The other causes are in the exception's own text."""

    class Deferred(Block):
        def __init__(self, work) -> None:
            super().__init__(work)
            self.weight = self.params.get("weight", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, weight):
            return self.work(F, x * weight)

    def failing(F, x):
        raise KeyError("the program's own")

    causes = []
    for net in (Deferred(failing), nn.Dense(3, activation="rel")):
        with pytest.raises(ValueError, match="Deferred initialization failed") as caught:
            made(net, False)(nd.ones((2, 3)))
        causes.append(caught.value.__cause__)
    assert isinstance(causes[0], KeyError) and causes[1] is None


def test_a_script_prints_few_lines():
    program = """if True:
        from hybridjit import nd
        from hybridjit.gluon import nn
        net = nn.Dense(3, in_units=2)
        net.initialize()
        net.hybridize()
        net(nd.ones((2, 5)))
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "created at <string>:7" in done.stderr
    assert len(done.stderr.splitlines()) <= 15, done.stderr


def test_exceptions_that_are_interrupts_keep_their_frames():
    def work(F, x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        made(Block(work), False)(nd.ones(2))
    assert len(own_frames(caught.value)) > 1


def test_a_notebook_prints_an_interrupt_without_own_frames(monkeypatch):
    """The usual end of a cell that trains; 103 lines with all frames."""

    def work(F, x):
        raise KeyboardInterrupt

    printed = []
    printer = types.SimpleNamespace(structured_traceback=lambda *given: printed.append(given))
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(InteractiveTB=printer)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    with pytest.raises(KeyboardInterrupt) as caught:
        made(Block(work), False)(nd.ones(2))
    caught.value._render_traceback_()
    frames = traceback.extract_tb(printed[0][2])
    assert {frame.filename for frame in frames} == {__file__}
    assert frames[-1].name == "work"


# ---- cells of notebooks


def line_of(file: str) -> str:
    """The line that an error names for code in this file."""
    space: dict[str, object] = {"nd": nd}
    exec(compile("\n\ndef f():\n    nd.ones((2, 3)).reshape((4, 4))\n", file, "exec"), space)
    exec(compile("\ntry:\n    nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))\nexcept Exception as e:\n"
                 "    said = str(e)\n", file, "exec"), space)  # fmt: skip
    return str(space["said"]).splitlines()[-1].strip()


def test_a_notebooks_cell_has_its_name(monkeypatch):
    file = "/tmp/ipykernel_17/3141592.py"
    assert line_of(file) == f"created at {file}:3 in <module>"
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={file: 3}))
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert line_of(file) == "created at Cell In[3], line 3"
    assert line_of("<ipython-input-12-0a1b2c>") == "created at Cell In[12], line 3"
    assert line_of("script.py") == "created at script.py:3 in <module>"
    notebook.get_ipython = lambda: None  # type: ignore[attr-defined]
    assert line_of(file) == f"created at {file}:3 in <module>"


class Shell:
    """The part of a notebook's shell that prints an exception: the names of its frames' files."""

    compile = types.SimpleNamespace(_filename_map={})

    class InteractiveTB:
        @staticmethod
        def structured_traceback(kind, error, trace, offset, context):
            assert (offset, context) == (None, 3)
            return [frame.filename for frame in traceback.extract_tb(trace)]


@pytest.mark.parametrize("style", ["short", "full"])
@pytest.mark.parametrize(
    "work",
    [
        lambda: made(nn.Dense(3, in_units=4), True)(nd.ones((2, 3))),  # an MXNetError
        lambda: nd.ones((2, 3)).reshape((4, 4)),  # one that no public call shortens
        lambda: nn.Dense(3, activate="relu"),  # another exception
        lambda: mx.tools,  # names that modules and objects do not have
        lambda: nd.nothing,
        lambda: mx.sym.nothing,
        lambda: mx.np.nothing,
        lambda: mx.npx.nothing,
        lambda: nn.Dens,
        lambda: nd.ones(3).nothing,
        lambda: mx.sym.var("x").nothing,
        lambda: nn.Dense(3).nothing,
        lambda: trainer_of_one().nothing,
    ],
)
def test_a_notebook_prints_frames_of_the_program_alone(work, style, monkeypatch):
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = Shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    with mx.override(traceback=style), pytest.raises(Exception) as caught:  # noqa: PT011
        work()
    with mx.override(traceback=style):
        printed = getattr(caught.value, "_render_traceback_", lambda: [frames._PACKAGE])()
    assert any(file.startswith(frames._PACKAGE) for file in printed) is (style == "full")
    if isinstance(caught.value, mx.MXNetError):  # as from a worker process
        assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


# ---- names


@pytest.mark.parametrize(
    ("work", "kind", "hint"),
    [
        (lambda: mx.optimizer.create("adm"), ValueError, "'adam'"),
        (lambda: mx.optimizer.create("sgd", momentm=0.9), TypeError, "'momentum'"),
        (lambda: mx.metric.create("acuracy"), AssertionError, "'accuracy'"),
        (lambda: mx.init.create("xvier"), AssertionError, "'xavier'"),
        (lambda: nn.Dense(3, activaton="relu"), TypeError, "'activation'"),
        (lambda: nn.Conv2D(3, 3, paddin=1), TypeError, "'padding'"),
        (lambda: nn.BatchNorm(axs=1), TypeError, "'axis'"),
        (lambda: gluon.rnn.LSTM(3, biderectional=True), TypeError, "'bidirectional'"),
        (lambda: gluon.loss.SoftmaxCELoss(sparse_lable=False), TypeError, "'sparse_label'"),
        (lambda: nd.sofmax(nd.ones(2)), AttributeError, "'softmax'"),
        (lambda: mx.sym.Convoluton(mx.sym.var("x")), AttributeError, "'Convolution'"),
        (lambda: nd.contrib.box_nmss(nd.ones(2)), AttributeError, "'box_nms'"),
        (lambda: mx.np.concatenat([nd.ones(2)]), AttributeError, "'concatenate'"),
        (lambda: mx.npx.reluu(nd.ones(2)), AttributeError, "'relu'"),
        (lambda: gluon.Trainr({}, "sgd"), AttributeError, "'Trainer'"),
        (lambda: nd.Pooling(nd.ones((1, 1, 2, 2)), kernl=(1, 1)), mx.MXNetError, "'kernel'"),
        (lambda: gluon.model_zoo.vision.get_model("resnet50_v3"), ValueError, "'resnet50_v2'"),
    ],
)  # fmt: skip
def test_the_nearest_name_is_suggested(work, kind, hint):
    with pytest.raises(kind, match=f"did you mean {hint}\\?"):
        work()


@pytest.mark.parametrize(
    "work",
    [
        lambda: mx.optimizer.create("qqq"),
        lambda: nn.Dense(3, zzz=1),
        lambda: nd.qwertz(1),
        lambda: mx.metric.create("qqq"),
    ],
)
def test_nothing_is_suggested_where_nothing_is_near(work):
    with pytest.raises((ValueError, TypeError, AttributeError, AssertionError)) as caught:
        work()
    assert "did you mean" not in str(caught.value)


def test_blocks_of_programs_take_their_arguments():
    class Own(gluon.HybridBlock):
        def __init__(self, width, **kwargs):
            super().__init__(**kwargs)

    assert Own(3, prefix="own_").prefix == "own_"
    with pytest.raises(TypeError, match="Own.__init__.*'widht'; did you mean 'width'"):
        Own(width=3, widht=4)


# ---- ways out

OUT = {
    "value": (lambda F, x: x * float(x.asnumpy()[0, 0]), "have no values: compute with operators"),
    "scalar": (lambda F, x: x * x.sum().asscalar(), "have no values: compute with operators of F"),
    "condition": (lambda F, x: x if x.sum() > 0 else -x, "choose by F.where"),
    "NumPy": (lambda F, x: np.tanh(x), "use functions of F, such as F.tanh"),
    "nothing": (lambda F, x: None, "hybrid_forward returned None, not its results"),
}


@pytest.mark.parametrize("name", OUT)
def test_errors_of_traced_blocks_name_a_remedy(name):
    work, way = OUT[name]
    with pytest.raises((mx.MXNetError, TypeError), match=way):
        made(Block(work), True)(nd.ones((2, 3)))


def test_super_was_forgotten():
    class Forgetful(gluon.HybridBlock):
        def __init__(self):
            self.dense = nn.Dense(3)

    class Older(gluon.Block):
        def __init__(self):
            self.weight = self.params.get("weight", shape=(1,))

    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) at the beginning"):
        Forgetful()
    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) at the beginning"):
        Older()
    with pytest.raises(AttributeError, match="'Dense' object has no attribute 'wieght'$"):
        _ = nn.Dense(3).wieght
    assert not hasattr(nn.Dense(3), "nothing")


@pytest.mark.parametrize("hybridized", WAYS)
def test_one_hot_labels_of_a_sparse_loss(hybridized):
    loss = made(gluon.loss.SoftmaxCrossEntropyLoss(), hybridized)
    with pytest.raises(mx.MXNetError, match="sparse_label=False"), autograd.record():
        loss(nd.ones((4, 3)), nd.ones((4, 3)))
    with pytest.raises(mx.MXNetError) as caught:
        loss(nd.ones((4, 3)), nd.ones((5,)))
    assert "sparse_label" not in str(caught.value)


def test_a_summary_names_the_network_that_is_hybridized():
    with pytest.raises(AssertionError, match='^"outer" must not be hybridized'):
        made(nn.HybridSequential(prefix="outer_"), True).summary(nd.ones((2, 3)))
    net = stacked(False)
    net[0].hybridize()
    with pytest.raises(AssertionError, match=f'^"{net[0].name}" must not be hybridized'):
        net.summary(nd.ones((2, 3)))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("net", "; did you mean 'net-0000.params'?"),
        ("net-0001.params", "; did you mean 'net-0000.params'?"),
        ("nets.params", "; did you mean 'net.params'?"),
        ("none/net.params", ": there is no folder none"),
        ("qqq", ""),
    ],
)
def test_parameters_of_a_missing_file_name_the_nearest(name, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = nn.Dense(3, in_units=3)
    net.initialize()
    files = ["net-0000.params"] if hint.endswith("0000.params'?") else ["net.params"]
    for file in files:
        net.save_parameters(file)
    with pytest.raises(mx.MXNetError) as caught:
        net.load_parameters(name)
    assert str(caught.value) == f"{name}: No such file or directory{hint}"


def test_missing_files_are_errors_of_mxnet_and_of_the_system():
    trainer = trainer_of_one()
    for work in (lambda: nd.load("none"), lambda: trainer.load_states("none")):
        for kind in (mx.MXNetError, FileNotFoundError):
            with pytest.raises(kind, match="^none: No such file or directory") as caught:
                work()
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value) and str(again) == str(caught.value)
    with pytest.raises(OSError, match="Is a directory"):
        nd.load(".")


def test_names_that_differ_in_their_prefix_alone(tmp_path):
    file = str(tmp_path / "net.params")
    stored, net = (nn.Dense(3, in_units=3, prefix=prefix) for prefix in ("one_", "two_"))
    stored.initialize()
    stored.collect_params().save(file)
    with pytest.raises(AssertionError, match="prefix='one_' instead of 'two_'"):
        net.load_parameters(file)
    with pytest.raises(AssertionError, match="sets it, and hybridjit.load reads a graph"):
        net.collect_params().load_dict({"weight": nd.ones(1)}, allow_missing=True)


def test_a_numpy_array_for_a_block():
    with pytest.raises(ValueError, match=r"pass nd\.array\(x\)"):
        stacked(False)(np.ones((2, 3)))
