"""Typical mistakes: the exception has MXNet's type and few lines, its text names the way out.

Each row is a mistake: a name, the type, a part of the text, and the program. Programs run eagerly
and hybridized.
"""

from __future__ import annotations

import traceback

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, metric, nd, sym
from hybridjit.gluon import nn, rnn

MOST = 22  # lines of a traceback with two frames of the program and five operands


def made(hybridized: bool, *layers: gluon.Block) -> gluon.Block:
    net = nn.HybridSequential()
    net.add(*(layers or (nn.Dense(4, in_units=3),)))
    net.initialize()
    if hybridized:
        net.hybridize()
    return net


class Written(gluon.HybridBlock):
    """A block of one function of F and the inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


def traced(function):
    net = Written(function)
    net.hybridize()
    return net(nd.ones((2, 3)))


class WithoutSuper(gluon.HybridBlock):
    def __init__(self):
        self.dense = nn.Dense(3)


def trainer(h, name, **arguments):
    return gluon.Trainer(made(h).collect_params(), name, arguments)


def twice(h):
    x = nd.ones((1, 3))
    x.attach_grad()
    with autograd.record():
        y = made(h)(x)
    y.backward()
    y.backward()


def assigned():
    nd.ones((2, 3))[:] = nd.ones((4, 5))


def hybrid():
    net = Written(lambda F, x: F.relu(x))
    net.hybridize()
    return net


def stranger():
    """A function that calls a block from outside of the block that it belongs to."""
    dense = nn.Dense(2, in_units=3)
    dense.initialize()
    return lambda F, x: dense(x)


def loaded(written):
    """Parameters of one network, as this method writes them, read by another from a graph."""
    one, other = made(True), made(True)
    for net, name in ((one, "one"), (other, "other")):
        net(X)
        net.export(name)
    if written == "save_parameters":
        one.save_parameters("one-0000.params")
    mx.load("other").load_parameters("one-0000.params")


def stepped(h):
    net = made(True)
    step = mx.train_step(net, gluon.loss.L2Loss(), gluon.Trainer(net.collect_params(), "sgd"))
    step(np.ones((2, 3)), np.ones((2, 4)))


X = nd.ones((2, 3))
CONV = {"channels": 4, "kernel_size": 3, "in_channels": 3}
FC = sym.FullyConnected(sym.var("x"), num_hidden=3)
CELOSS = gluon.loss.SoftmaxCELoss()
# fmt: off
MISTAKES = [
    ("width", mx.MXNetError, "weight has 3 inputs, data has 5", lambda h: made(h)(nd.ones((2, 5)))),
    ("NumPy array", ValueError, r"pass nd.array\(x\)", lambda h: made(h)(np.ones((2, 3)))),
    ("list", ValueError, "must be one NDArray", lambda h: made(h)([[1, 2, 3]])),
    ("float64", mx.MXNetError, r"x.astype\('float32'\)", lambda h: made(h)(X.astype("float64"))),
    ("integers", mx.MXNetError, r"x.astype\('float32'\)", lambda h: made(h)(X.astype("int32"))),
    ("not initialized", RuntimeError, "has not been initialized", lambda h: nn.Dense(3)(X)),
    ("no argument", TypeError, "missing 1 required", lambda h: made(h)()),
    ("two arguments", TypeError, "positional arguments", lambda h: made(h)(X, X)),
    ("asnumpy", Exception, "operators of F", lambda h: traced(lambda F, x: x.asnumpy())),
    ("if", Exception, "F.where", lambda h: traced(lambda F, x: x if F.sum(x) > 0 else -x)),
    ("shape", AttributeError, "reshape with 0", lambda h: traced(lambda F, x: x.shape[0])),
    ("NumPy function", Exception, "use functions of F", lambda h: traced(lambda F, x: np.exp(x))),
    ("slice", TypeError, "F.slice_axis", lambda h: traced(lambda F, x: F.relu(x)[:, -1])),
    ("blocks in a list", AssertionError, "register_child", lambda h: traced(stranger())),
    ("no result", TypeError, "returned None", lambda h: traced(lambda F, x: None)),
    ("no super", AttributeError, "call super", lambda h: WithoutSuper()),
    ("optimizer", ValueError, "did you mean 'adam'", lambda h: trainer(h, "adm")),
    ("lr", TypeError, "did you mean 'learning_rate'", lambda h: trainer(h, "sgd", lr=0.1)),
    ("weight_decay", TypeError, "mean 'wd'", lambda h: trainer(h, "adam", weight_decay=0.1)),
    ("argument", TypeError, "did you mean 'activation'", lambda h: nn.Dense(3, activate="relu")),
    ("activation", Exception, "act_type must be one of relu", lambda h: made(h, nn.Dense(3, activation="rel"))(X)),  # noqa: E501
    ("operator", AttributeError, "did you mean 'softmax'", lambda h: nd.sofmax(X)),
    ("symbol", AttributeError, "did you mean 'Convolution'", lambda h: sym.Convoluton(X)),
    ("layer", AttributeError, "did you mean 'Dense'", lambda h: nn.Dens(3)),
    ("recurrent", AttributeError, "did you mean 'LSTM'", lambda h: rnn.LSTMM(3)),
    ("loss", AttributeError, "mean 'SoftmaxCrossEntropyLoss'", lambda h: gluon.loss.SoftmaxCrossEntropy()),  # noqa: E501
    ("initializer", AssertionError, "mean 'xavier'", lambda h: made(h).initialize("xaver", force_reinit=True)),  # noqa: E501
    ("metric", AssertionError, "did you mean 'accuracy'", lambda h: metric.create("acuracy")),
    ("model", ValueError, "mean 'resnet18_v2'", lambda h: gluon.model_zoo.vision.get_model("resnet18_v3")),  # noqa: E501
    ("GPU", mx.MXNetError, r"ctx=mx.cpu\(\)", lambda h: nd.ones((2,), ctx=mx.gpu())),
    ("one-hot labels", mx.MXNetError, "sparse_label=False", lambda h: CELOSS(nd.ones((4, 3)), nd.ones((4, 3)))),  # noqa: E501
    ("labels", mx.MXNetError, "size 8 into shape", lambda h: gluon.loss.L2Loss()(nd.ones((4, 3)), nd.ones((4, 2)))),  # noqa: E501
    ("not recorded", mx.MXNetError, r"autograd.record\(\)", lambda h: made(h)(X).backward()),
    ("backward twice", mx.MXNetError, "retain_graph=True", twice),
    ("stale gradient", UserWarning, "ignore_stale_grad=True", lambda h: trainer(h, "sgd").step(1)),
    ("batch of 0", ZeroDivisionError, "division by zero", lambda h: trainer(h, "sgd").step(0)),
    ("no file", mx.MXNetError, "none.params: No such file", lambda h: made(h).load_parameters("none.params")),  # noqa: E501
    ("no model", mx.MXNetError, "none-symbol.json: No such file", lambda h: mx.load("none")),
    ("small image", mx.MXNetError, "covers 7 cells .* has 4", lambda h: made(h, nn.Conv2D(4, 7, in_channels=3))(nd.ones((1, 3, 4, 4)))),  # noqa: E501
    ("channels", mx.MXNetError, "needs 3 input channels, but data has 4", lambda h: made(h, nn.Conv2D(**CONV))(nd.ones((1, 4, 8, 8)))),  # noqa: E501
    ("no batch axis", mx.MXNetError, r"4D .* got \(3,8,8\)", lambda h: made(h, nn.Conv2D(**CONV))(nd.ones((3, 8, 8)))),  # noqa: E501
    ("broadcast", mx.MXNetError, r"shapes \(2,3\) \(3,2\)", lambda h: X + nd.ones((3, 2))),
    ("concat", mx.MXNetError, r"shape \(\?,3\), got \(\?,2\)", lambda h: nd.concat(X, nd.ones((3, 2)), dim=0)),  # noqa: E501
    ("reshape", mx.MXNetError, r"size 6 into shape \(4, 2\)", lambda h: X.reshape((4, 2))),
    ("dot", mx.MXNetError, "contracts 3 elements, but rhs 2", lambda h: nd.dot(X, X)),
    ("index", IndexError, "5 is out of bounds for axis 0 with size 2", lambda h: X[5]),
    ("assignment", ValueError, r"shape \(4,5\), target of shape \(2,3\)", lambda h: assigned()),
    ("asscalar", ValueError, "not a scalar", lambda h: X.asscalar()),
    ("truth", ValueError, "multiple elements is ambiguous", lambda h: bool(X)),
    ("saved list", TypeError, "dict str->NDArray", lambda h: nd.save("x.params", [1, 2])),
    ("saved, not exported", AssertionError, r"export\(\)", lambda h: loaded("save_parameters")),
    ("another prefix", AssertionError, "argument prefix", lambda h: loaded("export")),
    ("summary", AssertionError, "active=False", lambda h: hybrid().summary(X)),
    ("step of NumPy arrays", TypeError, r"pass nd.array\(x\)", lambda h: stepped(h)),
    ("export", RuntimeError, "run forward", lambda h: made(h).export("x")),
    ("layout of LSTM", mx.MXNetError, "sequence length, batch size", lambda h: made(h, rnn.LSTM(4, input_size=3))(X)),  # noqa: E501
    ("lengths of data", AssertionError, "length 3 while array", lambda h: gluon.data.ArrayDataset(nd.ones(3), nd.ones(2))),  # noqa: E501
    ("ragged batch", ValueError, r"these have \(2,\), \(3,\): pad them", lambda h: list(gluon.data.DataLoader([np.ones(2), np.ones(3)], 2))),  # noqa: E501
    ("bind", ValueError, "missing in `args`", lambda h: FC.bind(mx.cpu(), {"x": X})),
    ("simple_bind", RuntimeError, "do not decide the shape of x", lambda h: FC.simple_bind(mx.cpu(), y=(2, 3))),  # noqa: E501
    ("infer_shape", mx.MXNetError, r"Candidates: \['x'", lambda h: FC.infer_shape(y=(2, 3))),
    ("keyword", TypeError, "the inputs are 'x'", lambda h: gluon.SymbolBlock(sym.tanh(sym.var("x")), sym.var("x"))(data=X)),  # noqa: E501
    ("set_data", AssertionError, r"shape \(2, 2\) is incompatible", lambda h: made(h)[0].weight.set_data(nd.ones((2, 2)))),  # noqa: E501
]
# fmt: on


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize(
    ("kind", "text", "program"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
@pytest.mark.filterwarnings("error:Gradient of Parameter")
def test_a_mistake_names_the_way_out(kind, text, program, hybridized, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text) as caught:
        program(hybridized)
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert len(lines) <= MOST, "\n".join(lines)
