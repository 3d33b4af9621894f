"""Write the networks with MXNet 1.9.1 into ./models; setup.sh runs this in MXNet's environment."""

import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")
import mxnet as mx
from mxnet import gluon
from mxnet import onnx as mxonnx
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision


class Net(gluon.HybridBlock):
    """The network of the Gluon hybrid tutorial."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv1 = nn.Conv2D(6, kernel_size=5)
            self.pool1 = nn.MaxPool2D(pool_size=2)
            self.conv2 = nn.Conv2D(16, kernel_size=5)
            self.pool2 = nn.MaxPool2D(pool_size=2)
            self.fc1 = nn.Dense(120)
            self.fc2 = nn.Dense(84)
            self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = x.reshape((0, -1))
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return F.dot(x, fc3_weight, transpose_b=True)


ZOO = [
    "resnet18_v1",
    "resnet50_v1",
    "resnet50_v2",
    "mobilenet1_0",
    "mobilenet_v2_1_0",
    "squeezenet1_1",
    "vgg16",
    "densenet121",
    "inception_v3",
    "alexnet",
]
NETS = {"lenet": (Net, (1, 28, 28))}
for zoo_name in ZOO:
    side = 299 if zoo_name == "inception_v3" else 224
    NETS[zoo_name] = (getattr(vision, zoo_name), (3, side, side))


def made(make, shape):
    """A network with weights from a seed, statistics as a trained one could have, and its input."""
    mx.random.seed(42)
    np.random.seed(42)
    net = make()
    net.initialize(mx.init.MSRAPrelu(slope=0.0))
    x = mx.nd.random.uniform(shape=(1, *shape))
    net(x)  # shapes become known
    for key, p in net.collect_params().items():
        if key.endswith(("running_var", "gamma")):
            p.set_data(mx.nd.random.uniform(0.7, 1.3, shape=p.shape))
        elif key.endswith(("running_mean", "beta")):
            p.set_data(mx.nd.random.uniform(-0.2, 0.2, shape=p.shape))
    return net, x


for name, (make, shape) in NETS.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    net, x = made(make, shape)
    net.hybridize()
    y = net(x)
    net.export(f"models/{name}")
    np.savez(f"models/{name}-io.npz", x=x.asnumpy(), y=y.asnumpy())
    for batch in (1, 8):
        mxonnx.export_model(
            f"models/{name}-symbol.json",
            f"models/{name}-0000.params",
            [(batch, *shape)],
            np.float32,
            f"models/{name}-b{batch}.onnx",
        )
    print(name, y.shape, f"output std {y.asnumpy().std():.3g}", flush=True)
