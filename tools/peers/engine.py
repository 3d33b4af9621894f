"""One engine, one network, one process: ``engine.py ENGINE MODELS NAME BATCH THREADS``.

Prints one JSON line {"compile_s", "error", "rss_mb"} and then times of runs, as turns.py says: CPU
time with one thread, else elapsed time. ``error`` is the largest difference from the recorded
output, over that output's standard deviation. Each engine is imported where it is used: no
environment has them all.
"""

import os
import sys
import time
import warnings

from turns import bound_threads, clock_for, serve


def load_hybridjit(prefix, batch, threads, x, **precision):
    import hybridjit as mx

    symbol = f"{prefix}-symbol.json"
    if os.path.exists(symbol):
        net = mx.gluon.SymbolBlock.imports(symbol, ["data"], f"{prefix}-0000.params")
    else:
        net = mx.onnx.load(f"{prefix}-b{batch}.onnx")
    net.hybridize(static_alloc=True, static_shape=True, **precision)
    data = mx.nd.array(x, dtype=x.dtype)
    return lambda: net(data).asnumpy()


def load_mxnet(prefix, batch, threads, x):
    warnings.filterwarnings("ignore")
    import mxnet as mx

    net = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
    data = mx.nd.array(x)
    net.optimize_for(data, backend="MKLDNN", static_alloc=True, static_shape=True)
    return lambda: net(data).asnumpy()


def load_onnxruntime(prefix, batch, threads, x):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(
        f"{prefix}-b{batch}.onnx", options, providers=["CPUExecutionProvider"]
    )
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)[0]


def load_openvino(prefix, batch, threads, x, precision):
    import openvino as ov

    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": precision,
    }
    model = ov.Core().compile_model(f"{prefix}-b{batch}.onnx", "CPU", hints)
    request = model.create_infer_request()
    return lambda: request.infer({0: x})[0]


def load_ncnn(prefix, batch, threads, x):
    """ncnn goes through Winograd in f32, so it is the one to beat on 3x3 networks."""
    import ncnn
    import numpy as np

    if len(x) != 1:
        sys.exit("ncnn takes batch 1 only")
    folder, name = os.path.split(prefix)
    model = ncnn.Net()
    model.opt.num_threads, model.opt.use_vulkan_compute = threads, False
    for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(model.opt, f"use_{option}", False)
    files = f"{folder}/ncnn/{name}.ncnn"
    if model.load_param(f"{files}.param") or model.load_model(f"{files}.bin"):
        sys.exit(f"ncnn cannot load {name}")

    def run():
        extractor = model.create_extractor()
        extractor.input("in0", ncnn.Mat(x[0]))
        return np.array(extractor.extract("out0")[1])[None]

    return run


LOADERS = {
    "hybridjit": load_hybridjit,
    "hybridjit-bf16": lambda *args: load_hybridjit(*args, precision="bfloat16"),
    "mxnet": load_mxnet,
    "onnxruntime": load_onnxruntime,
    "openvino-f32": lambda *args: load_openvino(*args, "f32"),
    "openvino-bf16": lambda *args: load_openvino(*args, "bf16"),
    "ncnn": load_ncnn,
}


def main(engine, models, name, batch, threads):
    bound_threads(threads)
    import numpy as np

    recorded = np.load(f"{models}/{name}-io.npz")
    x = np.ascontiguousarray(np.repeat(recorded["x"], int(batch), axis=0))
    start = time.perf_counter()
    run = LOADERS[engine](f"{models}/{name}", int(batch), int(threads), x)
    y = run()
    took = time.perf_counter() - start
    error = float(np.abs(y - recorded["y"]).max() / recorded["y"].std())
    serve(run, clock_for(threads), compile_s=took, error=error)


if __name__ == "__main__":
    main(*sys.argv[1:])
