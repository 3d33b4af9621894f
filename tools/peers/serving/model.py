"""The module ``model`` of examples/serving with ONNX Runtime or MXNet inside, by ENGINE.

Both take batches of any size, so nothing is filled up. One call uses one thread, as hybridjit's.
"""

import os

import numpy as np

Refused = RuntimeError  # which MXNet's errors are


def memory_stats():
    """No counters: these engines have none that hybridjit's compare with."""
    return {}


def on_onnxruntime(path):
    """A function from a batch to the first output of PATH.onnx."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{path}.onnx", options, ["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda batch: session.run(None, {name: batch})[0]


def on_mxnet(path):
    """A function from a batch to the first output of PATH-symbol.json."""
    import mxnet as mx

    net = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    net.hybridize()
    return lambda batch: net(mx.nd.array(batch)).asnumpy()


ENGINES = {"onnxruntime": on_onnxruntime, "mxnet": on_mxnet}


class Model:
    """The interface of the example's class of this name."""

    def __init__(self, path, shapes, max_batch):
        self.shapes, self.max_batch = tuple(shapes), max_batch
        self.predict = ENGINES[os.environ["ENGINE"]](path)

    def warm_up(self):
        for shape in self.shapes:
            for size in range(1, self.max_batch + 1):
                self.predict(np.zeros((size, *shape), np.float32))

    def reload_if_changed(self):
        return False
