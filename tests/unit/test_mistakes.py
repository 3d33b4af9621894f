"""Typical mistakes: the exception has MXNet's type and few lines, its text names the way out.

Each row is a mistake: a name, the type, a part of the text, and the program. Programs run eagerly
and hybridized.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, metric, nd, profiling, sym
from hybridjit.gluon import nn, rnn

MOST = 15  # lines that a program prints


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


def recorded(function):
    with autograd.record():
        y = function()
    y.backward()


def frozen(hybridized):
    net = made(hybridized)
    net.collect_params().setattr("grad_req", "null")
    recorded(lambda: net(X))


def doubled_in_place():
    x = nd.ones((2, 3))
    x.attach_grad()
    y = x * 2
    y[:] = 3
    return y


def of_another(hybridized, *layers):
    """The parameters of a network with these layers, read by another."""
    made(hybridized, *layers).save_parameters("other.params")
    made(hybridized).load_parameters("other.params")


def half(hybridized):
    net = made(hybridized)
    net.cast("float16")
    return net


def near_model(name):
    Path("my_model-symbol.json").write_text("{}")
    mx.load(name)


def of_file(name):
    Path(name).write_text("some text")
    mx.load(name)


def of_bytes(hybridized, content):
    Path("some.params").write_bytes(content)
    made(hybridized).load_parameters("some.params")


def imported(names, params="net-0000.params"):
    """A network whose files are read under these names of inputs."""
    net = made(True)
    net(X)
    net.export("net")
    return gluon.SymbolBlock.imports("net-symbol.json", names, params)


class Scaled(gluon.HybridBlock):
    """A block whose hybrid_forward does not take its parameter."""

    def __init__(self):
        super().__init__()
        self.scale = self.params.get("scale", shape=(3,))

    def hybrid_forward(self, F, x):
        return x * 2


class Empty(gluon.HybridBlock):
    """A block without hybrid_forward."""


class WithoutF(gluon.HybridBlock):
    def hybrid_forward(self, x):
        return x


class Broken(gluon.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise KeyError("picture 0 is broken")


def only(h, block):
    """An initialized block alone."""
    block.initialize()
    if h:
        block.hybridize()
    return block


def in_place(first):
    x = nd.ones((2, 3))
    x.attach_grad()
    y = x if first else x * 2
    y += 1
    return y


def head(shape):
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = x * 2
    y.backward(nd.ones(shape))


def of_type(h, dtype):
    made(h, nn.Dense(4, in_units=3, dtype=dtype)).save_parameters("net.params")
    made(h).load_parameters("net.params")


def capped(size):
    net = made(True)
    net.hybridize(cache_size=size)
    net(X)


class Unreadable(gluon.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise ValueError(f"sample {index} is broken")


class Residual(gluon.HybridBlock):
    """A sum of two widths."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(5)

    def hybrid_forward(self, F, x):
        return x + self.dense(x)


class Shifted(Scaled):
    """A block that uses its parameter as an operand, in place of the argument."""

    def hybrid_forward(self, F, x, scale):
        return x + self.scale


def replaced(net):
    net.dense = nn.Dense(3)
    net.dense = 3


def exported(net):
    net(X)
    net.export("no/x")


def record_of(key):
    file = mx.recordio.MXIndexedRecordIO("x.idx", "x.rec", "w")
    file.write_idx(0, b"record")
    file.close()
    mx.recordio.MXIndexedRecordIO("x.idx", "x.rec", "r").read_idx(key)


def set_item(F, x):
    x[0] = 1
    return x


def on(context):
    net = nn.Dense(3, in_units=3)
    net.initialize(ctx=mx.cpu(0))
    return net(nd.ones((2, 3), ctx=context))


def partly(h):
    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dense(2))
    net[0].initialize()
    if h:
        net.hybridize()
    return net(nd.ones((2, 3)))


def called_again(h, layer, first, second):
    net = made(h, layer)
    net(first)
    net(second)


def of_dict(h, arrays):
    nd.save("some.params", arrays)
    made(h).load_parameters("some.params")


def head_of_numpy():
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = x * 2
    y.backward(np.ones((2, 3)))


def written_over():
    x = nd.ones((2, 3))
    x.attach_grad()
    return nd.relu(x, out=x)


def module_of():
    return mx.mod.Module(SOFTMAX)


def reshaped_module():
    module = module_of()
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.init_params()
    module.reshape([("data", (2, 5))], [("softmax_label", (2,))])


def empty_records():
    mx.recordio.MXRecordIO("some.rec", "w").close()
    return "some.rec"


X = nd.ones((2, 3))
TRANSFORMS = gluon.data.vision.transforms
SOFTMAX = sym.SoftmaxOutput(
    sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), name="softmax"
)
CONV = {"channels": 4, "kernel_size": 3, "in_channels": 3}
FC = sym.FullyConnected(sym.var("x"), num_hidden=3)
CELOSS = gluon.loss.SoftmaxCELoss()
CELOSS_CLASS = gluon.loss.SoftmaxCELoss
# fmt: off
MISTAKES = [
    ("width", mx.MXNetError, "weight has 3 inputs, data has 5", lambda h: made(h)(nd.ones((2, 5)))),
    ("NumPy array", ValueError, r"pass nd.array\(x\)", lambda h: made(h)(np.ones((2, 3)))),
    ("NumPy array for a graph", AssertionError, r"pass nd.array\(x\), or call net.predict", lambda h: gluon.SymbolBlock(sym.tanh(sym.var("x")), sym.var("x"))(np.ones((2, 3)))),
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
    ("activation", Exception, "act_type must be one of relu", lambda h: made(h, nn.Dense(3, activation="rel"))(X)),
    ("operator", AttributeError, "did you mean 'softmax'", lambda h: nd.sofmax(X)),
    ("symbol", AttributeError, "did you mean 'Convolution'", lambda h: sym.Convoluton(X)),
    ("layer", AttributeError, "did you mean 'Dense'", lambda h: nn.Dens(3)),
    ("recurrent", AttributeError, "did you mean 'LSTM'", lambda h: rnn.LSTMM(3)),
    ("loss", AttributeError, "mean 'SoftmaxCrossEntropyLoss'", lambda h: gluon.loss.SoftmaxCrossEntropy()),
    ("initializer", AssertionError, "mean 'xavier'", lambda h: made(h).initialize("xaver", force_reinit=True)),
    ("metric", AssertionError, "did you mean 'accuracy'", lambda h: metric.create("acuracy")),
    ("model", ValueError, "mean 'resnet18_v2'", lambda h: gluon.model_zoo.vision.get_model("resnet18_v3")),
    ("GPU", mx.MXNetError, r"ctx=mx.cpu\(\)", lambda h: nd.ones((2,), ctx=mx.gpu())),
    ("one-hot labels", mx.MXNetError, "sparse_label=False", lambda h: CELOSS(nd.ones((4, 3)), nd.ones((4, 3)))),
    ("labels", mx.MXNetError, "size 8 into shape", lambda h: gluon.loss.L2Loss()(nd.ones((4, 3)), nd.ones((4, 2)))),
    ("not recorded", mx.MXNetError, r"autograd.record\(\)", lambda h: made(h)(X).backward()),
    ("backward twice", mx.MXNetError, "retain_graph=True", twice),
    ("stale gradient", UserWarning, "ignore_stale_grad=True", lambda h: trainer(h, "sgd").step(1)),
    ("batch of 0", ZeroDivisionError, "divided by batch_size, got 0: pass", lambda h: trainer(h, "sgd").step(0)),
    ("no file", mx.MXNetError, "none.params: No such file", lambda h: made(h).load_parameters("none.params")),
    ("no model", mx.MXNetError, "^none: No such file.* no none-symbol.json", lambda h: mx.load("none")),
    ("name of a model", mx.MXNetError, "did you mean 'my_model'", lambda h: near_model("mymodel")),
    ("folder of a model", mx.MXNetError, "^no/x: No such file.* no folder no", lambda h: mx.load("no/x")),
    ("device for a model", mx.MXNetError, "^/dev/null: it is neither a file nor a folder", lambda h: mx.load("/dev/null")),
    ("text for a model", mx.MXNetError, r"^x.txt: a model's file is named PREFIX-symbol.json", lambda h: of_file("x.txt")),
    ("parameters for a model", mx.MXNetError, r"^x.params: there is no graph .* x-symbol.json. net.load_parameters", lambda h: of_file("x.params")),
    ("parameters of an epoch", mx.MXNetError, r"^x-0000.params: there is no graph .* x-symbol.json\. ", lambda h: of_file("x-0000.params")),
    ("small image", mx.MXNetError, "covers 7 cells .* has 4", lambda h: made(h, nn.Conv2D(4, 7, in_channels=3))(nd.ones((1, 3, 4, 4)))),
    ("channels", mx.MXNetError, "needs 3 input channels, but data has 4", lambda h: made(h, nn.Conv2D(**CONV))(nd.ones((1, 4, 8, 8)))),
    ("no batch axis", mx.MXNetError, r"4D .* got \(3,8,8\)", lambda h: made(h, nn.Conv2D(**CONV))(nd.ones((3, 8, 8)))),
    ("broadcast", mx.MXNetError, r"shapes \(2,3\) \(3,2\)", lambda h: X + nd.ones((3, 2))),
    ("concat", mx.MXNetError, r"shape \(\?,3\), got \(\?,2\)", lambda h: nd.concat(X, nd.ones((3, 2)), dim=0)),
    ("reshape", mx.MXNetError, r"size 6 into shape \(4, 2\)", lambda h: X.reshape((4, 2))),
    ("dot", mx.MXNetError, "contracts 3 elements, but rhs 2", lambda h: nd.dot(X, X)),
    ("index", IndexError, "5 is out of bounds for axis 0 with size 2", lambda h: X[5]),
    ("assignment", ValueError, r"shape \(4,5\), target of shape \(2,3\)", lambda h: assigned()),
    ("asscalar", ValueError, r"shape \(2,3\); write x\.mean\(\)\.asscalar", lambda h: X.asscalar()),
    ("number", TypeError, r"only size-1 arrays .* of shape \(2,3\)", lambda h: int(X)),
    ("number of none", TypeError, "only size-1 arrays", lambda h: float(nd.array([]))),
    ("truth", ValueError, r"is ambiguous. Write x\.asnumpy\(\)\.any\(\)", lambda h: bool(X)),
    ("saved list", TypeError, "dict str->NDArray", lambda h: nd.save("x.params", [1, 2])),
    ("saved, not exported", AssertionError, r"export\(\)", lambda h: loaded("save_parameters")),
    ("another prefix", AssertionError, "argument prefix", lambda h: loaded("export")),
    ("summary", AssertionError, "active=False", lambda h: hybrid().summary(X)),
    ("step of NumPy arrays", TypeError, r"pass nd.array\(x\)", lambda h: stepped(h)),
    ("export", RuntimeError, "run forward", lambda h: made(h).export("x")),
    ("layout of LSTM", mx.MXNetError, "sequence length, batch size", lambda h: made(h, rnn.LSTM(4, input_size=3))(X)),
    ("lengths of data", AssertionError, "length 3 while array", lambda h: gluon.data.ArrayDataset(nd.ones(3), nd.ones(2))),
    ("ragged batch", ValueError, r"these have \(2,\), \(3,\): pad them", lambda h: list(gluon.data.DataLoader([np.ones(2), np.ones(3)], 2))),
    ("bind", ValueError, "missing in `args`", lambda h: FC.bind(mx.cpu(), {"x": X})),
    ("simple_bind", RuntimeError, "do not decide the shape of x", lambda h: FC.simple_bind(mx.cpu(), y=(2, 3))),
    ("infer_shape", mx.MXNetError, r"Candidates: \['x'", lambda h: FC.infer_shape(y=(2, 3))),
    ("keyword", TypeError, "the inputs are 'x'", lambda h: gluon.SymbolBlock(sym.tanh(sym.var("x")), sym.var("x"))(data=X)),
    ("set_data", AssertionError, r"shape \(2, 2\) is incompatible", lambda h: made(h)[0].weight.set_data(nd.ones((2, 2)))),
    ("misspelt needed argument", TypeError, r"Conv2D.* 'kernel_sise'; .* 'kernel_size'", lambda h: nn.Conv2D(8, kernel_sise=3)),
    ("needed argument", TypeError, r"Conv2D.__init__\(\) missing .* 'kernel_size'", lambda h: nn.Conv2D(8)),
    ("layers as arguments", AttributeError, r"net.add\(", lambda h: nn.Sequential(nn.Dense(3))),
    ("p of Dropout", TypeError, "'p'; it takes axes, params, prefix, rate", lambda h: nn.Dropout(p=0.5)),
    ("batch_first", TypeError, "'batch_first'; it takes .*layout", lambda h: rnn.LSTM(4, batch_first=True)),
    ("reduction", TypeError, "'reduction'; it takes .*weight", lambda h: CELOSS_CLASS(reduction="mean")),
    ("class of a layer", TypeError, "a name such as 'relu'", lambda h: nn.Dense(3, activation=nn.ELU)),
    ("units as text", TypeError, "must consist of integers", lambda h: made(h, nn.Dense("4"))(X)),
    ("Linear", AttributeError, r"write Dense\(units\)", lambda h: nn.Linear(3, 4)),
    ("ReLU", AttributeError, "Activation", lambda h: nn.ReLU()),
    ("BatchNorm2d", AttributeError, "did you mean 'BatchNorm'", lambda h: nn.BatchNorm2d(3)),
    ("optim", AttributeError, r"gluon.Trainer\(", lambda h: mx.optim.Adam([])),
    ("nn of the package", AttributeError, "gluon.nn", lambda h: mx.nn.Dense(3)),
    ("eval", AttributeError, r"autograd.record\(\)", lambda h: made(h).eval()),
    ("parameters", AttributeError, r"collect_params\(\)", lambda h: made(h).parameters()),
    ("state_dict", AttributeError, r"save_parameters\(path\)", lambda h: made(h).state_dict()),
    ("cuda", AttributeError, "on the CPU", lambda h: made(h).cuda()),
    ("view", AttributeError, "x.reshape", lambda h: X.view(-1)),
    ("view of a symbol", AttributeError, "x.reshape", lambda h: traced(lambda F, x: x.view(-1))),
    ("numpy", AttributeError, r"x.asnumpy\(\)", lambda h: X.numpy()),
    ("item", AttributeError, r"x.asscalar\(\)", lambda h: X.item()),
    ("permute", AttributeError, "x.transpose", lambda h: X.permute(1, 0)),
    ("float of a symbol", TypeError, "has not computed values", lambda h: traced(lambda F, x: float(x.sum()))),
    ("network for a trainer", ValueError, r"pass net.collect_params\(\)", lambda h: gluon.Trainer(made(h), "sgd")),
    ("rate for a trainer", TypeError, r"\{'learning_rate': 0.1\}, got 0.5", lambda h: gluon.Trainer(made(h).collect_params(), "sgd", 0.5)),
    ("no gradient requested", mx.MXNetError, r"x.attach_grad\(\)", lambda h: recorded(lambda: X * 2)),
    ("frozen network", mx.MXNetError, "grad_req other than 'null'", lambda h: frozen(h)),
    ("assigned while recording", mx.MXNetError, "record section", lambda h: recorded(doubled_in_place)),
    ("names for numbers", TypeError, "could not convert string", lambda h: nd.array(["a", "b"])),
    ("ragged rows", TypeError, "inhomogeneous", lambda h: nd.array([[1, 2], [3]])),
    ("complex numbers", TypeError, "real numbers, got complex128", lambda h: nd.array([1j])),
    ("operand of NumPy", AssertionError, r"NumPy array of shape \(3, 2\): pass nd.array", lambda h: nd.dot(X, np.ones((3, 2)))),
    ("list for concat", AssertionError, r"as f\(\*arrays\)", lambda h: nd.concat([X, X], dim=1)),
    ("sizes one by one", mx.MXNetError, r"nd.zeros\(\(2, 3\)\)", lambda h: nd.zeros(2, 3)),
    ("axis for dim", mx.MXNetError, "known attributes: dim", lambda h: nd.concat(X, X, axis=1)),
    ("size for shape", mx.MXNetError, "known attributes: .*shape", lambda h: nd.random.normal(size=(2, 3))),
    ("axis out of range", mx.MXNetError, "axis 5 is out of range for 2", lambda h: X.sum(axis=5)),
    ("uneven split", mx.MXNetError, "3 is not divisible into 2", lambda h: nd.split(X, 2)),
    ("mixed dtypes", mx.MXNetError, "expected float32, got float64", lambda h: X + X.astype("float64")),
    ("channels last", mx.MXNetError, r"needs 3 input channels, but data has 8; if the data are NHWC, pass x.transpose\(\(0, 3, 1, 2\)\)", lambda h: made(h, nn.Conv2D(**CONV))(nd.ones((1, 8, 8, 3)))),
    ("grey images with channels last", mx.MXNetError, r"the input has 1, or 1 with padding; if the data are NHWC, pass x.transpose", lambda h: made(h, nn.Conv2D(4, 3, in_channels=8))(nd.ones((2, 8, 8, 1)))),
    ("arrays in a list", AssertionError, r"pass them one by one", lambda h: made(h)([X])),
    ("operator of nd", AssertionError, "takes operators from F", lambda h: traced(lambda F, x: nd.relu(x))),
    ("array in a traced block", TypeError, r"shape \(2, 3\): a block makes a constant by self.params.get_constant", lambda h: traced(lambda F, x: x + nd.ones((2, 3)))),
    ("NumPy array in a traced block", AssertionError, "a block makes a constant", lambda h: traced(lambda F, x: F.dot(x, np.ones((3, 2))))),
    ("heads of NumPy", TypeError, "heads are NDArrays", lambda h: autograd.backward(np.ones(3))),
    ("request of a gradient", KeyError, "one of 'null', 'write', 'add', got 'sum'", lambda h: X.attach_grad("sum")),
    ("rate as text", TypeError, "learning_rate of SGD is a number, got '0.1'", lambda h: trainer(h, "sgd", learning_rate="0.1")),
    ("decay of None", TypeError, "wd of SGD is a number, got None", lambda h: trainer(h, "sgd", wd=None)),
    ("rate of None", TypeError, "learning_rate of Ftrl is a number, got None", lambda h: trainer(h, "ftrl", learning_rate=None)),
    ("class of an initializer", AssertionError, r"write Xavier\(\)", lambda h: made(h).initialize(mx.init.Xavier, force_reinit=True)),
    ("padding of another library", TypeError, r"got 'same': kernel_size // 2", lambda h: nn.Conv2D(4, 3, padding="same")),
    ("data of a network in float16", mx.MXNetError, r"x.astype\('float16'\)", lambda h: half(h)(X)),
    ("list of layers", ValueError, r"add\(\*layers\)", lambda h: made(h, [nn.Dense(3)])),
    ("function for a layer", ValueError, "nn.HybridLambda", lambda h: made(h, lambda x: x)),
    ("profile of a Block", TypeError, "is a HybridBlock, got Sequential", lambda h: profiling.profile(gluon.nn.Sequential(), X)),
    ("size of a batch as text", ValueError, "at least 1, got '2'", lambda h: gluon.data.DataLoader([1, 2], "2")),
    ("loader of empty batches", ValueError, "at least 1, got 0", lambda h: gluon.data.DataLoader([1, 2], 0)),
    ("one image", mx.MXNetError, r"got \(3,8,8\); a batch of one is x.expand_dims\(0\)", lambda h: made(h, nn.MaxPool2D())(nd.ones((3, 8, 8)))),
    ("labels of another batch", mx.MXNetError, r"index \(5\) must be \(4\)", lambda h: CELOSS(nd.ones((4, 3)), nd.ones(5))),
    ("no label", TypeError, "missing 1 required .* 'label'", lambda h: gluon.loss.L2Loss()(X)),
    ("lengths of labels", ValueError, "labels 4 .* predictions 3", lambda h: metric.Accuracy().update(nd.ones(4), nd.ones((3, 2)))),
    ("one state of two", Exception, "state_cell", lambda h: made(h, rnn.LSTM(4, input_size=3))[0](nd.ones((5, 2, 3)), nd.ones((1, 2, 4)))),
    ("parameters of a wider network", AssertionError, r"expected \(4, 3\) vs saved \(5, 3\)", lambda h: of_another(h, nn.Dense(5, in_units=3))),
    ("parameters of a deeper network", ValueError, "Set ignore_extra=True", lambda h: of_another(h, nn.Dense(4, in_units=3), nn.Dense(2, in_units=4))),
    ("pickle", mx.MXNetError, "it is a pickle", lambda h: of_bytes(h, b"\x80\4" + bytes(99))),
    ("graph for parameters", mx.MXNetError, "it is JSON", lambda h: of_bytes(h, b'{"nodes": [' + bytes(99))),
    ("name of a parameter", KeyError, "did you mean 'own_weight'", lambda h: nn.Dense(3, prefix="own_").collect_params()["own_weigt"]),
    ("no shape", ValueError, "invalid shape: None", lambda h: gluon.Parameter("w").initialize()),
    ("no batch size", ValueError, "batch_size must be specified", lambda h: gluon.data.DataLoader([1])),
    ("no ONNX file", mx.MXNetError, "none.onnx: No such file", lambda h: mx.load("none.onnx")),
    ("no pretrained file", mx.MXNetError, "pretrained=False", lambda h: gluon.model_zoo.vision.alexnet(pretrained=True, root=".")),
    ("Block in HybridSequential", ValueError, "try HybridSequential", lambda h: made(h, gluon.nn.Sequential())),
    # a third list
    ("format", TypeError, r"write x.asscalar\(\)", lambda h: f"{made(h)(X):.4f}"),
    ("format of a symbol", TypeError, "format string", lambda h: traced(lambda F, x: F.relu(x, name=f"{x:.2f}"))),
    ("@", TypeError, r"write nd.dot\(x, y\)", lambda h: X @ X),
    ("list for an operand", TypeError, r"write|pass nd.array\(x\)", lambda h: X + [1, 2, 3]),
    ("int of a symbol", TypeError, "has not computed values", lambda h: traced(lambda F, x: int(x.sum()))),
    ("item in a traced block", AttributeError, "no attribute 'item': a traced block has not", lambda h: traced(lambda F, x: x.item())),
    ("tolist", AttributeError, r"x.asnumpy\(\).tolist\(\)", lambda h: X.tolist()),
    ("append", AttributeError, "nd.concat", lambda h: X.append(1)),
    ("device of an array", AttributeError, "x.context", lambda h: X.device),
    ("clone", AttributeError, r"x.copy\(\)", lambda h: X.clone()),
    ("zero_", AttributeError, r"x\[:\] = 0", lambda h: X.zero_()),
    ("numel", AttributeError, "x.size", lambda h: X.numel()),
    ("type of an array", AttributeError, "x.astype", lambda h: X.type("float32")),
    ("dim of softmax", mx.MXNetError, "unknown attribute dim; did you mean 'axis'", lambda h: nd.softmax(X, dim=1)),
    ("dim of a sum", mx.MXNetError, "did you mean 'axis'", lambda h: X.sum(dim=1)),
    ("size of random numbers", mx.MXNetError, "unknown attribute size; did you mean 'shape'", lambda h: traced(lambda F, x: F.random.normal(size=(2, 3)))),
    ("axis of concat in a block", mx.MXNetError, "did you mean 'dim'", lambda h: traced(lambda F, x: F.concat(x, x, axis=1))),
    ("channels for BatchNorm", ValueError, r"axis 16 is out of range for 4 .* follows from the data", lambda h: made(h, nn.BatchNorm(16))(nd.ones((1, 16, 4, 4)))),
    ("width for LayerNorm", ValueError, r"axis 512 is out of range for 2 .* in_channels", lambda h: made(h, nn.LayerNorm(512))(nd.ones((2, 512)))),
    ("lambda without F", TypeError, "takes F and data, as lambda F, x", lambda h: made(h, nn.HybridLambda(lambda x: x))(X)),
    ("hybrid_forward without F", TypeError, r"takes 2 positional arguments but 3", lambda h: only(h, WithoutF())(X)),
    ("no hybrid_forward", NotImplementedError, "Empty does not define hybrid_forward", lambda h: only(h, Empty())(X)),
    ("data for a layer's prefix", AttributeError, "make the block, then call it", lambda h: nn.Flatten(X)),
    ("layer in hybrid_forward", AssertionError, "made in __init__", lambda h: traced(lambda F, x: nn.Dense(3)(x))),
    ("operand left out", AssertionError, "an input that the call of an operator left out", lambda h: traced(lambda F, x: F.FullyConnected(x, num_hidden=3))),
    ("operands left out", mx.MXNetError, r"expects 3 inputs \(condition, x, y\), but got 1", lambda h: nd.where(X > 0)),
    ("bias left out", mx.MXNetError, r"expects 3 inputs \(data, weight, bias\), but got 2", lambda h: nd.FullyConnected(X, X, num_hidden=2)),
    ("kernel left out", mx.MXNetError, "required attribute kernel of shape is missing", lambda h: nd.Convolution(nd.ones((1, 3, 8, 8)), nd.ones((4, 3, 3, 3)), num_filter=4, no_bias=True)),
    ("depth left out", mx.MXNetError, "required attribute depth of int", lambda h: nd.one_hot(X)),
    ("Softmax", AttributeError, r"HybridLambda\('softmax'\)", lambda h: nn.Softmax()),
    ("ModuleList", AttributeError, "write HybridSequential", lambda h: nn.ModuleList()),
    ("ConvTranspose2d", AttributeError, "write Conv2DTranspose", lambda h: nn.ConvTranspose2d(3, 4, 3)),
    ("functional", AttributeError, "takes as F", lambda h: nn.functional.relu(X)),
    ("MSELoss", AttributeError, r"write L2Loss\(\)", lambda h: gluon.loss.MSELoss()),
    ("BCELoss", AttributeError, "from_sigmoid=True", lambda h: gluon.loss.BCELoss()),
    ("Kaiming", AttributeError, "MSRAPrelu", lambda h: mx.init.Kaiming()),
    ("StepLR", AttributeError, "FactorScheduler", lambda h: mx.lr_scheduler.StepLR(10)),
    ("AdamW", AttributeError, "did you mean 'Adam'", lambda h: mx.optimizer.AdamW()),
    ("name of a metric", AttributeError, "did you mean 'Accuracy'", lambda h: metric.Acuracy()),
    ("RandomHorizontalFlip", AttributeError, "RandomFlipLeftRight", lambda h: gluon.data.vision.transforms.RandomHorizontalFlip()),
    ("function of a model", AttributeError, "did you mean 'resnet50_v", lambda h: gluon.model_zoo.vision.resnet50_v3()),
    ("zeros of the package", AttributeError, r"nd.zeros\(shape\)", lambda h: mx.zeros((2,))),
    ("Tensor", AttributeError, r"nd.array\(values\)", lambda h: mx.Tensor([1])),
    ("manual_seed", AttributeError, r"random.seed\(number\)", lambda h: mx.manual_seed(1)),
    ("fit", AttributeError, r"Estimator\(net, loss\)", lambda h: made(h).fit(X)),
    ("compile", AttributeError, r"hybridize\(\)", lambda h: made(h).compile()),
    ("weight of a network", AttributeError, r"net\[0\].weight", lambda h: made(h).weight),
    ("network for a Module", AttributeError, r"net\(sym.var\('data'\)\)", lambda h: mx.mod.Module(made(h))),
    ("zero_grad of a trainer", AttributeError, "grad_req is 'add'", lambda h: trainer(h, "sgd").zero_grad()),
    ("assigned learning rate", AttributeError, r"set_learning_rate\(0.1\)", lambda h: setattr(trainer(h, "sgd"), "learning_rate", 0.1)),
    ("arrays for a trainer", ValueError, "list or dict of Parameters, got list of", lambda h: gluon.Trainer([X], "sgd")),
    ("no batch size of a step", TypeError, "missing 1 required .* 'batch_size'", lambda h: trainer(h, "sgd").step()),
    ("one step of a schedule", AssertionError, "list of counts of updates, got 10", lambda h: mx.lr_scheduler.MultiFactorScheduler(step=10)),
    ("text for a count of updates", AssertionError, "an integer, got '9'", lambda h: mx.lr_scheduler.CosineScheduler("9")),
    ("order of a schedule", ValueError, "increasing integer list", lambda h: mx.lr_scheduler.MultiFactorScheduler([10, 5])),
    ("gradient by an array", mx.MXNetError, r"Call x.attach_grad\(\)", lambda h: autograd.grad(X * 2, X)),
    ("predictions before labels", mx.MXNetError, "labels first, then predictions", lambda h: metric.Accuracy().update(nd.ones((4, 3)), nd.ones(4))),
    ("one context", TypeError, r"write \[cpu\(0\)\]", lambda h: gluon.utils.split_and_load(X, mx.cpu())),
    ("name of a context", AttributeError, r"such as mx.cpu\(\), got 'cpu'", lambda h: made(h).initialize(ctx="cpu", force_reinit=True)),
    ("parts of a sample", TypeError, "transform_first passes the first", lambda h: gluon.data.ArrayDataset(np.ones((4, 3)), np.ones(4)).transform(lambda x: x)[0]),
    ("name of an output", ValueError, "there are x_output|there are fullyconnected", lambda h: FC["nothing"]),
    ("count of arguments", ValueError, "1 arrays for x, fullyconnected", lambda h: FC.bind(mx.cpu(), [X])),
    ("file without arrays", ValueError, r"needs the arrays of a call.*export_onnx\(.x.onnx., x\)", lambda h: made(h).export_onnx("x.onnx")),
    ("unknown switch", ValueError, "no such switch: treads; did you mean 'num_threads'.; there are .*num_threads", lambda h: mx.override(treads=1).__enter__()),
    ("size of a cache as text", ValueError, "at least 1, got '4'", lambda h: capped("4")),
    ("precision", ValueError, "one of 'float32', 'bfloat16', 'int8', got 'fp16'", lambda h: made(h).hybridize(precision="fp16")),
    ("trainer of a step", TypeError, "must be a gluon.Trainer", lambda h: mx.train_step(made(h), gluon.loss.L2Loss(), "adam")),
    # a second list
    ("shapes of a loss", (ValueError, mx.MXNetError), r"(16 into shape|elements \(4,4\) into) \(4, ?3\)", lambda h: only(h, gluon.loss.L2Loss())(nd.ones((4, 3)), nd.ones((4, 4)))),
    ("axis of a loss", mx.MXNetError, "axis 2 is out of range for 2", lambda h: only(h, CELOSS_CLASS(axis=2))(nd.ones((4, 3)), nd.ones(4))),
    ("NumPy labels", (AssertionError, ValueError), r"pass nd.array\(x\)", lambda h: only(h, CELOSS_CLASS())(nd.ones((4, 3)), np.ones(4))),
    ("labels of CTC", mx.MXNetError, r"data \(T, N, C\) and label \(N, L\)", lambda h: only(h, gluon.loss.CTCLoss())(nd.ones((4, 3)), nd.ones((4, 3)))),
    ("argument of a loss", TypeError, "'delta'; it takes .*rho", lambda h: gluon.loss.HuberLoss(delta=1)),
    ("axis of softmax", mx.MXNetError, "axis 2 is out of range for 2", lambda h: nd.softmax(X, axis=2)),
    ("stack", mx.MXNetError, r"shape \(2,3\), got \(3,2\)", lambda h: nd.stack(X, nd.ones((3, 2)))),
    ("axes of transpose", mx.MXNetError, "not a permutation of 2", lambda h: X.transpose((0, 1, 2))),
    ("squeeze", mx.MXNetError, "axis 1 has size 3", lambda h: X.squeeze(axis=1)),
    ("index of pick", mx.MXNetError, r"index \(3\) must be \(2\)", lambda h: nd.pick(X, nd.ones(3))),
    ("index of take", mx.MXNetError, "5 is not in the range 0 to 1", lambda h: nd.take(X, nd.array([5]), mode="raise")),
    ("index of gather_nd", IndexError, "5 is out of bounds", lambda h: nd.gather_nd(X, nd.array([[5], [0]])).asnumpy()),
    ("too many indices", IndexError, r"\(3\) for array with 2 dim", lambda h: X[0, 0, 0]),
    ("fraction as index", ValueError, "key 1.5", lambda h: X[1.5]),
    ("top k", mx.MXNetError, "top 7 of 3", lambda h: nd.topk(X, k=7)),
    ("leaf in place", mx.MXNetError, "inplace operations like", lambda h: recorded(lambda: in_place(True))),
    ("result in place", mx.MXNetError, "inplace operations like", lambda h: recorded(lambda: in_place(False))),
    ("shape of a head", mx.MXNetError, r"\(2,3\), but its gradient has shape \(3,3\)", lambda h: head((3, 3))),
    ("name of last_batch", ValueError, "one of 'keep', 'discard'", lambda h: list(gluon.data.DataLoader([1], 1, last_batch="drop"))),
    ("sampler and shuffle", ValueError, "shuffle must not be specified", lambda h: gluon.data.DataLoader([1, 2], 1, True, gluon.data.SequentialSampler(2))),
    ("batchify", TypeError, "missing 1 required .* 'b'", lambda h: list(gluon.data.DataLoader([1, 2], 2, batchify_fn=lambda a, b: a))),
    ("sample", KeyError, "picture 0 is broken", lambda h: list(gluon.data.DataLoader(Broken(), 2))),
    ("sample in a thread", KeyError, "picture 0 is broken", lambda h: list(gluon.data.DataLoader(Broken(), 2, num_workers=1, thread_pool=True))),
    ("class of an optimizer", AttributeError, r"'sgd' or an object, .*: write SGD\(\)", lambda h: trainer(h, mx.optimizer.SGD)),
    ("arguments twice", AssertionError, "optimizer_params must be None", lambda h: trainer(h, mx.optimizer.SGD(), wd=0)),
    ("states", FileNotFoundError, "none.states: No such file", lambda h: trainer(h, "sgd").load_states("none.states")),
    ("rows of a metric", ValueError, "labels 4 .* predictions 3", lambda h: metric.MSE().update(nd.ones(4), nd.ones((3, 1)))),
    ("k of a metric", ValueError, "top_k is 5, but predictions have 3 classes", lambda h: metric.TopKAccuracy(5).update([nd.ones(4)], [nd.ones((4, 3))])),
    ("classes of F1", ValueError, "binary classification", lambda h: metric.F1().update([nd.array([0, 1, 2])], [nd.ones((3, 3))])),
    ("count of labels", ValueError, "labels 2 .* predictions 1", lambda h: metric.Accuracy().update([nd.ones(4)] * 2, [nd.ones((4, 3))])),
    ("other context", RuntimeError, r"not initialized on context cpu\(2\)", lambda h: on(mx.cpu(2))),
    ("context as text", TypeError, r"pass a context such as mx.cpu\(\)", lambda h: X.as_in_context("gpu")),
    ("parameters of another dtype", AssertionError, "cast_dtype=True", lambda h: of_type(h, "float64")),
    ("name of an input", AssertionError, r"no input x: \['data', ", lambda h: imported(["x"])),
    ("epoch of a file", mx.MXNetError, "net-0001.params: No such file", lambda h: imported(["data"], "net-0001.params")),
    ("dtype of an input", mx.MXNetError, r"x.astype\('float32'\)", lambda h: imported(["data"])(X.astype("float16"))),
    ("no checkpoint", mx.MXNetError, "none-symbol.json: No such file", lambda h: mx.model.load_checkpoint("none", 0)),
    ("graph", mx.MXNetError, "the document has no nodes", lambda h: sym.load_json("{}")),
    ("array plus NumPy's", TypeError, r"not supported: pass nd.array\(x\)", lambda h: X + np.ones((2, 3))),
    ("NumPy's plus array", TypeError, r"not supported: pass nd.array\(x\)", lambda h: np.ones((2, 3)) + X),
    ("matmul", AttributeError, "write F.dot", lambda h: nd.matmul(X, X)),
    ("swish", AttributeError, r"write x \* F.sigmoid", lambda h: only(h, Written(lambda F, x: F.swish(x)))(X)),
    ("array in a block", AttributeError, "get_constant", lambda h: traced(lambda F, x: x * F.array([1]))),
    ("item of a symbol", TypeError, "item assignment: .* F.where", lambda h: traced(set_item)),
    ("dictionary as result", ValueError, "must be .* list of Symbol or NDArray", lambda h: traced(lambda F, x: {"y": x})),
    ("width of LSTM", mx.MXNetError, "input size of 5, the last axis of the data has 3", lambda h: made(h, rnn.LSTM(4, input_size=5))(nd.ones((5, 2, 3)))),
    ("state of LSTM", (ValueError, mx.MXNetError), r"\(1, ?3, ?4\)", lambda h: only(h, rnn.LSTM(4, input_size=3))(nd.ones((5, 2, 3)), [nd.ones((1, 3, 4))] * 2)),
    ("no states", TypeError, "'states'", lambda h: only(h, rnn.LSTMCell(4, input_size=3))(X)),
    ("axis of BatchNorm", ValueError, "axis 3 is out of range for 2", lambda h: made(h, nn.BatchNorm(axis=3))(X)),
    ("channels of LayerNorm", mx.MXNetError, r"gamma has shape \(5\), data has 3", lambda h: made(h, nn.LayerNorm(in_channels=5))(X)),
    ("rank for a pool", mx.MXNetError, r"4D .* got \(2,3,4\)", lambda h: made(h, nn.MaxPool2D())(nd.ones((2, 3, 4)))),
    ("padding as text", TypeError, "padding is an integer or 2 integers, got 'same'", lambda h: nn.Conv2D(4, 3, padding="same")),
    ("size of a pool as text", TypeError, "pool_size is an integer or 2 integers, got '2'", lambda h: nn.MaxPool2D("2")),
    ("groups", mx.MXNetError, "3 does not divide 4", lambda h: made(h, nn.Conv2D(groups=3, **CONV))(nd.ones((1, 3, 8, 8)))),
    ("class in a network", ValueError, r"Call the class to make a layer: Dense\(", lambda h: made(h, nn.Dense)),
    ("parameter not taken", TypeError, r"def hybrid_forward\(self, F, x, scale\)", lambda h: only(h, Scaled())(X)),
    ("result of a loop's body", ValueError, r"returns \(output, states\)", lambda h: only(h, Written(lambda F, x: F.contrib.foreach(lambda row, s: [row, s, s], x, x)[0]))(X)),
    ("uneven slices", ValueError, "even_split=False", lambda h: gluon.utils.split_and_load(nd.ones((3, 2)), [mx.cpu(0), mx.cpu(1)])),
    ("no image", mx.MXNetError, "none.jpg: No such file", lambda h: mx.image.imread("none.jpg")),
    ("no records", mx.MXNetError, "none.rec: No such file", lambda h: mx.io.ImageRecordIter(path_imgrec="none.rec", data_shape=(3, 4, 4), batch_size=1)),
    ("axes of an image", mx.MXNetError, r"must have 3 axes, .* got \(3,3\)", lambda h: gluon.data.vision.transforms.ToTensor()(nd.ones((3, 3)))),
    ("NumPy arrays for a metric", AttributeError, r"pass nd.array\(x\)", lambda h: metric.Accuracy().update(np.ones(3), np.ones((3, 2)))),
    ("NumPy arrays in lists", AttributeError, r"pass nd.array\(x\)", lambda h: metric.MAE().update([nd.ones(3)], [np.ones(3)])),
    ("size of pictures", IndexError, r"\(channels, height, width\), got \(224, 224\)", lambda h: mx.image.CreateAugmenter((224, 224))),
    ("parameters for a graph", mx.MXNetError, "it is a file of parameters", lambda h: (nd.save("x.params", {"x": nd.ones(9)}), sym.load("x.params"))),
    ("data before a call", gluon.parameter.DeferredInitializationError, "first forward pass", lambda h: made(h, nn.Dense(3))[0].weight.data()),
    # a third list
    ("children without values", RuntimeError, "_weight' has not been initialized", lambda h: partly(h)),
    ("widths of layers", mx.MXNetError, "weight has 4 inputs, data has 3", lambda h: made(h, nn.Dense(3, in_units=4), nn.Dense(3, in_units=4))(nd.ones((2, 4)))),
    ("convolution of vectors", mx.MXNetError, r"should be 4D .*, got \(1,192\)", lambda h: made(h, nn.Flatten(), nn.Conv2D(**CONV))(nd.ones((1, 3, 8, 8)))),
    ("Dense without flatten", mx.MXNetError, "weight has 24 inputs, data has 8", lambda h: made(h, nn.Dense(4, flatten=False, in_units=24))(nd.ones((2, 3, 8)))),
    ("another width after a call", mx.MXNetError, "weight has 3 inputs, data has 5", lambda h: called_again(h, nn.Dense(3), X, nd.ones((2, 5)))),
    ("other channels after a call", mx.MXNetError, "needs 3 input channels, but data has 1", lambda h: called_again(h, nn.Conv2D(4, 3), nd.ones((1, 3, 8, 8)), nd.ones((1, 1, 8, 8)))),
    ("labels of a smaller map", mx.MXNetError, r"index \(4,4,4\) must be \(4,8,8\)", lambda h: only(h, CELOSS_CLASS(axis=1))(nd.ones((4, 3, 8, 8)), nd.ones((4, 4, 4)))),
    ("labels in double precision", mx.MXNetError, r"x.astype\('float32'\)", lambda h: only(h, gluon.loss.L1Loss())(X, X.astype("float64"))),
    ("batch of CTC labels", mx.MXNetError, "label has 3 sequences, but data has 4", lambda h: gluon.loss.CTCLoss(layout="TNC")(nd.ones((20, 4, 5)), nd.ones((3, 2)))),
    ("axis of log_softmax", mx.MXNetError, "axis 2 is out of range for 2", lambda h: nd.log_softmax(X, axis=2)),
    ("arrays of both modes", TypeError, "as_np_ndarray", lambda h: X + mx.np.ones((2, 3))),
    ("array of nd in NumPy mode", TypeError, "as_np_ndarray", lambda h: mx.np.ones((2, 3)) + X),
    ("number for a symbol", AssertionError, r"int 0: write F.zeros_like\(x\)", lambda h: traced(lambda F, x: F.where(x, x, 0))),
    ("mask as index of a symbol", TypeError, "F.slice_axis", lambda h: traced(lambda F, x: x[x > 0])),
    ("rows of a symbol", IndexError, "selects an output, not a row", lambda h: traced(lambda F, x: F.concat(x[0], x[1], dim=0))),
    ("missing parameter", AssertionError, "Set allow_missing=True", lambda h: of_dict(h, {"0.weight": nd.ones((4, 3))})),
    ("further parameter", ValueError, "Set ignore_extra=True", lambda h: of_dict(h, {"0.weight": nd.ones((4, 3)), "0.bias": nd.ones(4), "1.bias": X})),
    ("betas", TypeError, "'betas'; did you mean 'beta1'", lambda h: trainer(h, "adam", betas=(0.9, 0.99))),
    ("text of optimizer arguments", TypeError, r"\{'learning_rate': 0.1\}, got 'lr=1'", lambda h: gluon.Trainer(made(h).collect_params(), "sgd", "lr=1")),
    ("data for a trainer", ValueError, "list or dict of Parameters, got list of", lambda h: gluon.Trainer([p.data() for p in made(h).collect_params().values()], "sgd")),
    ("request for parameters", AssertionError, "'write', 'add', or 'null', but got 'addd'", lambda h: made(h).collect_params().setattr("grad_req", "addd")),
    ("NumPy array as gradient", AttributeError, r"pass nd.array\(x\)", lambda h: head_of_numpy()),
    ("operator in place", mx.MXNetError, "out side of a record section", lambda h: recorded(lambda: written_over())),
    ("data cut off the graph", mx.MXNetError, r"autograd.record\(\)", lambda h: recorded(lambda: nd.array(made(h)(X).asnumpy()))),
    ("generator of samples", TypeError, r"list\(elements\)", lambda h: gluon.data.DataLoader((i for i in range(3)), 2)),
    ("dictionary of samples", KeyError, r"ArrayDataset\(data, label\)", lambda h: list(gluon.data.DataLoader({"a": 1}, 1))),
    ("number of samples", TypeError, "a sample at each index", lambda h: gluon.data.ArrayDataset(5)),
    ("two samplers", ValueError, "must not be specified if batch_sampler", lambda h: gluon.data.DataLoader([1], 1, batch_sampler=[[0]])),
    ("axis of a metric", mx.MXNetError, "labels first, then predictions", lambda h: metric.Accuracy(axis=5).update([nd.ones(4)], [nd.ones((4, 3))])),
    ("list with a wrong metric", AssertionError, "did you mean 'loss'", lambda h: metric.create(["acc", "los"])),
    ("number for a metric", AttributeError, "function of label and prediction, got 3", lambda h: metric.CustomMetric(3)),
    ("array for a SymbolBlock", AttributeError, "made of symbols, got NDArray", lambda h: gluon.SymbolBlock(X, X)),
    ("label of another name", KeyError, "label_name='softmax_label'", lambda h: module_of().bind([("data", (2, 3))], [("y", (2,))])),
    ("no labels to train on", AssertionError, "pass them to the iterator", lambda h: module_of().fit(mx.io.NDArrayIter(np.ones((2, 3)), batch_size=2), num_epoch=1)),
    ("shape of a bound module", mx.MXNetError, "weight has 3 inputs, data has 5", lambda h: reshaped_module()),
    ("name of a data input", ValueError, "don't match names specified by data_names", lambda h: module_of().bind([("x", (2, 3))])),
    ("symbol of a bucket", ValueError, r"\(symbol, data_names, label_names\), got Symbol", lambda h: mx.mod.BucketingModule(lambda key: SOFTMAX, default_bucket_key=3)),
    ("loader for a module", AttributeError, "provide_data", lambda h: module_of().fit(gluon.data.DataLoader([1, 2], 2), num_epoch=1)),
    ("two unknown sizes", mx.MXNetError, "one size may be -1", lambda h: X.reshape((-1, -1))),
    ("device", KeyError, "unknown device type 'tpu': one of cpu, gpu", lambda h: mx.Context("tpu")),
    ("shape of records", mx.MXNetError, r"\(channels, height, width\), got \(4, 4\)", lambda h: mx.io.ImageRecordIter(path_imgrec=empty_records(), data_shape=(4, 4), batch_size=1)),
    ("array for a decoder", mx.MXNetError, "the bytes of a file, got an NDArray", lambda h: mx.image.imdecode(nd.ones((4, 4, 3)))),
    ("name for a store's optimizer", AttributeError, r"optimizer.create\('sgd'\)", lambda h: mx.kv.create("local").set_optimizer("sgd")),
    ("distribution of Xavier", ValueError, "one of uniform, gaussian, got 'normal'", lambda h: mx.init.Xavier(rnd_type="normal")("w_weight", nd.ones((2, 2)))),
    ("pattern of parameters", re.error, "is a regular expression", lambda h: made(h).collect_params("[")),
    ("text for a norm", AssertionError, "max_norm is a number, got '1'", lambda h: gluon.utils.clip_global_norm([X], "1")),
    ("request of an executor", RuntimeError, "'write', 'add' or 'null', got 'yes'", lambda h: FC.simple_bind(mx.cpu(), x=(2, 3), grad_req="yes")),
    # a fourth list
    ("step before a call", gluon.parameter.DeferredInitializationError, "first forward pass", lambda h: gluon.Trainer(made(h, nn.Dense(3)).collect_params(), "sgd").step(1)),
    ("rate for a schedule", TypeError, r"FactorScheduler\(1000, 0.9\), got 0.1; learning_rate", lambda h: trainer(h, "sgd", lr_scheduler=0.1)),
    ("batch size as text", TypeError, "batch_size is a number, got '2'", lambda h: trainer(h, "sgd").step("2")),
    ("own parameters of a container", TypeError, r"pass net.collect_params\(\)", lambda h: gluon.Trainer(made(h).params, "sgd")),
    ("pattern without a parameter", TypeError, "check the pattern", lambda h: gluon.Trainer(made(h).collect_params("conv.*"), "sgd")),
    ("argument of a metric", TypeError, "argument 'k'; it takes .*top_k", lambda h: metric.create("top_k_accuracy", k=5)),
    ("misspelt argument of a metric", TypeError, "'topk'; did you mean 'top_k'", lambda h: metric.TopKAccuracy(topk=5)),
    ("list of pairs for an optimizer", TypeError, r"\{'learning_rate': 0.1\}, got \[", lambda h: gluon.Trainer(made(h).collect_params(), "sgd", [("wd", 0)])),
    ("rate beside a schedule", UserWarning, "already been defined", lambda h: trainer(h, "sgd", lr_scheduler=mx.lr_scheduler.FactorScheduler(9)).set_learning_rate(1)),
    ("heads without gradients", AssertionError, "lists of the same length", lambda h: autograd.backward([X], [X, X])),
    ("unknown custom operator", mx.MXNetError, r"@mx.operator.register\('nothing'\)", lambda h: nd.Custom(X, op_type="nothing")),
    ("constant without a value", TypeError, "missing 1 required .* 'value'", lambda h: mx.init.Constant()),
    ("number for an initializer", AssertionError, "got 0.1", lambda h: made(h).initialize(0.1, force_reinit=True)),
    ("vector for Xavier", ValueError, "at least 2D", lambda h: mx.init.Xavier()("x_weight", nd.ones(3))),
    ("count of layers", IndexError, "5 for 1 layers", lambda h: made(h)[5]),
    ("layer replaced by a number", TypeError, "Changing attribute type for dense", lambda h: replaced(made(h))),
    ("sum of two widths", (mx.MXNetError, ValueError), r"\(2,3\),? (got )?\(2,5\)", lambda h: only(h, Residual())(X)),
    ("shape of a symbol", AttributeError, "reshape with 0 and -1", lambda h: traced(lambda F, x: x.reshape((x.shape[0], -1)))),
    ("context of a symbol", AttributeError, r"F.zeros_like\(x\)", lambda h: traced(lambda F, x: F.zeros((2, 3), ctx=x.context))),
    ("type of a symbol", AttributeError, "x.astype", lambda h: traced(lambda F, x: F.cast(x, x.dtype))),
    ("array as result", TypeError, r"Written.hybrid_forward returned an NDArray of shape \(3,\)", lambda h: traced(lambda F, x: nd.ones(3))),
    ("number as result", ValueError, "got 3 of type", lambda h: traced(lambda F, x: 3)),
    ("text as input", ValueError, "type of the args: got str", lambda h: made(h)("x")),
    ("nothing as input", ValueError, "type of the args: got NoneType", lambda h: made(h)(None)),
    ("numbers as input", ValueError, r"got list. For a list of numbers x pass nd.array\(x\)", lambda h: made(h)([1, 2])),
    ("two inputs of one", TypeError, "takes 3 positional arguments but 4", lambda h: made(h)(X, X)),
    ("inputs of Dense in second place", TypeError, "got 10: the number of inputs follows .* in_units", lambda h: nn.Dense(64, 10)),
    ("name in capitals", (ValueError, mx.MXNetError), "must be one of relu, .*, got 'ReLU'", lambda h: made(h, nn.Dense(3, activation="ReLU"))(X)),
    ("stride", TypeError, "'stride'; did you mean 'strides'", lambda h: nn.Conv2D(4, 3, stride=2)),
    ("rate above 1", mx.MXNetError, "between 0 and 1, got 2.0", lambda h: recorded(lambda: made(h, nn.Dropout(2.0))(X))),
    ("misspelt function of a layer", AssertionError, "reluu is not found in ndarray; did you mean 'relu'", lambda h: nn.Lambda("reluu")),
    ("states of no batch", mx.MXNetError, r"write begin_state\(batch_size=N\)", lambda h: rnn.LSTM(4).begin_state()),
    ("states of no batch for a cell", mx.MXNetError, r"write begin_state\(batch_size=N\)", lambda h: rnn.LSTMCell(4).begin_state()),
    ("steps of a sequence", AssertionError, "5 steps, the data has 4", lambda h: rnn.LSTMCell(4).unroll(5, nd.ones((2, 4, 3)))),
    ("both directions in one step", NotImplementedError, "use unroll", lambda h: only(h, rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.LSTMCell(4)))(X, [X] * 4)),
    ("no folder to export to", mx.MXNetError, "no/x-symbol.json: No such .* there is no folder no", lambda h: exported(made(True))),
    ("no folder to save in", mx.MXNetError, "there is no folder no", lambda h: made(h).save_parameters("no/net.params")),
    ("prefix for parameters", mx.MXNetError, "did you mean 'net.params'", lambda h: (made(h).save_parameters("net.params"), made(h).load_parameters("net"))),
    ("files in the wrong order", mx.MXNetError, "it is a file of parameters", lambda h: (made(h).save_parameters("x.params"), gluon.SymbolBlock.imports("x.params", ["data"]))),
    ("classes of a model", TypeError, "'num_classes'; did you mean 'classes'", lambda h: gluon.model_zoo.vision.alexnet(num_classes=10)),
    ("sizes with a fraction", mx.MXNetError, r"integers of at least 0, got \(2.5, 3\)", lambda h: nd.zeros((2.5, 3))),
    ("negative size", mx.MXNetError, r"integers of at least 0, got \(2, -3\)", lambda h: nd.ones((2, -3))),
    ("operand of maximum", TypeError, r"^maximum\(\) missing 1 .* 'rhs'", lambda h: nd.maximum(X)),
    ("matrices for a batch", mx.MXNetError, r"at least 3, got \(2,3\) and \(2,3\)", lambda h: nd.batch_dot(X, X)),
    ("padding of a matrix", mx.MXNetError, "4 or 5 axes, got 2", lambda h: nd.pad(X, mode="constant", pad_width=(1, 1, 1, 1))),
    ("one bound of two", mx.MXNetError, "a_max of float is missing", lambda h: nd.clip(X, 0)),
    ("copy to another shape", mx.MXNetError, r"\(2,3\), the other has \(5\)", lambda h: X.copyto(nd.ones(5))),
    ("text as seed", ValueError, "must be int, got 'a'", lambda h: mx.random.seed("a")),
    ("sample in a worker", ValueError, "sample 0 is broken", lambda h: list(gluon.data.DataLoader(Unreadable(), 2, num_workers=1))),
    ("one transform", AttributeError, r"write Compose\(\[ToTensor\(\)\]\)", lambda h: TRANSFORMS.Compose(TRANSFORMS.ToTensor())),
    ("picture in bytes", mx.MXNetError, r"got uint8: ToTensor\(\)", lambda h: TRANSFORMS.Normalize(0.5)(nd.ones((3, 4, 4), dtype="uint8"))),
    ("size of an iterator's batch", TypeError, "an integer, got '2'", lambda h: mx.io.NDArrayIter(np.ones((4, 3)), batch_size="2")),
    ("key of a record", KeyError, "5: .*x.idx has 1 keys: 0", lambda h: record_of(5)),
    ("mode of a record file", ValueError, "Invalid flag rw", lambda h: mx.recordio.MXRecordIO("x.rec", "rw")),
    ("shape without a name", TypeError, r"\[\('data', \(2, 3\)\)\], got \(2, 3\)", lambda h: module_of().bind((2, 3))),
    ("module that is not bound", AssertionError, "call bind", lambda h: module_of().init_params()),
    ("network for a drawing", TypeError, r"got HybridSequential; net\(sym.var\('data'\)\)", lambda h: mx.viz.plot_network(made(h))),
    ("save of a symbol", AttributeError, "a method of symbols", lambda h: sym.save("x.json")),
    ("name of a variable", TypeError, "a string .*, got .*int", lambda h: sym.var(3)),
    ("number as label", AttributeError, r"got 1: pass nd.array\(x\)", lambda h: gluon.loss.L2Loss()(X, 1)),
    ("parameter as operand", TypeError, "argument of its", lambda h: only(h, Shifted())(X)),
    ("scores and labels exchanged", mx.MXNetError, r"index \(4,3\) must be \(1\)", lambda h: CELOSS(nd.ones(4), nd.ones((4, 3)))),
    ("weights of samples", mx.MXNetError, r"\(2,3\) \(5,1\)", lambda h: only(h, gluon.loss.L2Loss())(X, X, nd.ones((5, 1)))),
    ("function of npx", AttributeError, "write npx.relu", lambda h: mx.np.relu(X)),
]
# fmt: on


HELPERS = ("test_a_mistake_names_the_way_out", *(n for n, v in globals().items() if callable(v)))


def printed(error: BaseException) -> list[str]:
    """The lines that a program prints for this error: without the frames of functions here."""
    said = traceback.TracebackException.from_exception(error)
    said.stack[:] = [
        frame
        for frame in said.stack
        if frame.filename != __file__ or frame.name not in (*HELPERS, "hybrid_forward")
    ]
    return "".join(said.format()).splitlines()


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize(
    ("kind", "text", "program"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
@pytest.mark.filterwarnings("error:Gradient of Parameter")
def test_a_mistake_names_the_way_out(kind, text, program, hybridized, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=text) as caught:
        program(hybridized)
    lines = printed(caught.value)
    assert len(lines) <= MOST, "\n".join(lines)


@pytest.mark.parametrize("name, near", [("precison", "precision"), ("static_aloc", "static_alloc")])
def test_a_misspelt_flag_of_hybridize_is_named(name, near):
    with pytest.warns(UserWarning, match=f"no flag '{name}'; did you mean '{near}'") as caught:
        made(False).hybridize(**{name: False})
    assert {one.filename for one in caught} == {__file__}


def test_flags_of_mxnet_give_no_warning(recwarn):
    made(False).hybridize(static_alloc=True, is_dynamic=False, flag_of_another_library=1)
    assert not recwarn.list
