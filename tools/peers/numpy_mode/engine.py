"""One package that runs one network of NumPy mode: ``engine.py PACKAGE NETWORK infer|train``.

Times are CPU seconds, as ../turns.py prints them: a hybridized call, or a step of Adam.
"""

import importlib
import sys
import time
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from turns import bound_threads, serve


def main(package, name, task):
    bound_threads(1)
    warnings.filterwarnings("ignore")
    import numpy
    from networks import BATCHES, NETWORKS

    mx = importlib.import_module(package)
    mx.npx.set_np()
    random = numpy.random.RandomState(0)
    net = NETWORKS[name](mx)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    inputs = [mx.np.array(each, dtype="float32") for each in BATCHES[name](random)]
    *rows, classes = net(*inputs).shape
    labels = mx.np.array(random.randint(0, classes, rows), dtype="float32")
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-4})

    def infer():
        net(*inputs).wait_to_read()

    def train():
        with mx.autograd.record():
            loss = criterion(net(*inputs), labels)
        loss.backward()
        trainer.step(rows[0])
        mx.npx.waitall()

    run = {"infer": infer, "train": train}[task]
    run()
    serve(run, time.process_time)


if __name__ == "__main__":
    main(*sys.argv[1:])
