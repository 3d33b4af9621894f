"""The hybrid tutorial: write a network once, run it line by line, compile it, ship it as files.

    python examples/tutorial.py
    python examples/tutorial.py --repeats 10       fewer calls to measure

With ``mxnet`` for ``hybridjit`` in its imports, the same program runs on MXNet 1.9.1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from hybridjit import gluon, nd, sym
from hybridjit.gluon import nn

DIGITS = Path(__file__).parent / "digits"


class Net(gluon.HybridBlock):
    """A small convolutional network. ``F`` is ``nd`` or ``sym``: the code is the same for both."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.traces = []
        with self.name_scope():
            self.conv1, self.pool1 = nn.Conv2D(6, kernel_size=5), nn.MaxPool2D(pool_size=2)
            self.conv2, self.pool2 = nn.Conv2D(16, kernel_size=5), nn.MaxPool2D(pool_size=2)
            self.fc1, self.fc2 = nn.Dense(120), nn.Dense(84)
            # A layer may own a parameter directly; it arrives in hybrid_forward by its name.
            self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

    def hybrid_forward(self, F, x, fc3_weight):
        self.traces.append(F.__name__.rpartition(".")[2])
        x = self.pool1(F.relu(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        x = x.reshape((0, -1))  # 0 keeps the batch, -1 joins the rest
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return F.dot(x, fc3_weight, transpose_b=True)


def milliseconds(net, x, repeats):
    """The mean time of a call, result included."""
    start = time.perf_counter()
    for _ in range(repeats):
        net(x).wait_to_read()
    return 1e3 * (time.perf_counter() - start) / repeats


def same(title, left, right):
    """Print the largest difference between two results; raise if it is no rounding."""
    gap = float(np.abs(left.asnumpy() - right.asnumpy()).max())
    print(f"   {title}: largest difference {gap:.1e}")
    assert gap < 1e-4, f"{title}: {gap}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="The hybrid tutorial.")
    parser.add_argument("--repeats", type=int, default=200, help="calls to measure")
    repeats = parser.parse_args(arguments).repeats

    print("1. Define a network and load its parameters")
    net = Net(prefix="net_")
    net.load_parameters(str(DIGITS / "digits.params"))
    x = nd.random.uniform(shape=(1, 1, 28, 28))
    names = list(net.collect_params().keys())
    print(f"   {len(names)} parameters: {names[0]} ... {names[-1]}")

    print("2. Run it eagerly: hybrid_forward runs in every call, and a debugger can step into it")
    eager = net(x)
    slow = milliseconds(net, x, repeats)
    print(f"   F was {net.traces[0]}, in {len(net.traces)} calls; {slow:.3f} ms a call")

    print("3. Compile it: hybrid_forward runs once more, with symbols, and never again")
    net.traces.clear()
    net.hybridize(static_alloc=True, static_shape=True)
    compiled = net(x)
    fast = milliseconds(net, x, repeats)
    print(f"   F was {net.traces[0]}, {len(net.traces)} time; {fast:.3f} ms a call")
    same("compiled against eager", compiled, eager)

    print("4. Other shapes need nothing; a parameter that changes takes effect at the next call")
    print(f"   a batch of three gives {net(nd.random.uniform(shape=(3, 1, 28, 28))).shape}")
    weight = net.fc3_weight.data().copy()
    net.fc3_weight.set_data(weight * 2)
    same("twice the last weights, twice the result", net(x), 2 * eager)
    net.fc3_weight.set_data(weight)

    print("5. Look at the network as a graph")
    graph = net(sym.var("data"))
    print(f"   {graph.list_arguments()[:3]} ... -> {graph.list_outputs()}")

    with tempfile.TemporaryDirectory() as folder:
        print("6. Export: a graph and its parameters, in MXNet's own formats")
        net.export(f"{folder}/net", epoch=1)
        names = sorted(p.name for p in Path(folder).iterdir())
        print(f"   {', '.join(names)}")

        print("7. Import: the files are the network; the class above is not needed")
        again = gluon.SymbolBlock.imports(
            f"{folder}/net-symbol.json", ["data"], f"{folder}/net-0001.params"
        )
        same("imported against eager", again(x), eager)


if __name__ == "__main__":
    main()
