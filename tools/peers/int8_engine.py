"""One engine and one network in 8 bits, in a process: ``int8_engine.py ENGINE FOLDER FILE THREADS``

FILE is NAME-MODE, such as ``bert-static``. Prints one JSON line {"error", "rss_mb", "version"} and
then times of runs, as turns.py says: CPU time with one thread, else elapsed time. ``error`` is the
root mean square of the differences from the float32 output, over that output's standard deviation.
"""

import sys

from turns import bound_threads, clock_for, serve


def inputs(recorded):
    return [recorded[f"x{i}"] for i in range(sum(key.startswith("x") for key in recorded))]


def first(made):
    return made[0] if isinstance(made, (list, tuple)) else made


def load_hybridjit(folder, file, threads, recorded):
    """The quantized ONNX file."""
    import hybridjit as mx

    net, xs = mx.onnx.load(f"{folder}/{file}.onnx"), list(map(mx.nd.array, inputs(recorded)))
    return mx.__version__, lambda: first(net(*xs)).asnumpy()


def load_calibrated(folder, file, threads, recorded):
    """The float32 network with ``precision="int8"``."""
    import hybridjit as mx

    name, mode = file.split("-")
    if mode != "static":
        sys.exit("precision='int8' takes calibrated ranges")
    net, x = mx.onnx.load(f"{folder}/{name}.onnx"), mx.nd.array(recorded["x0"])
    net.hybridize(precision="int8", calibration=[mx.nd.array(batch) for batch in recorded["data"]])
    return mx.__version__, lambda: net(x).asnumpy()


def load_onnxruntime(folder, file, threads, recorded):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    path, providers = f"{folder}/{file}.onnx", ["CPUExecutionProvider"]
    session = ort.InferenceSession(path, options, providers=providers)
    names = [given.name for given in session.get_inputs()]
    feed = dict(zip(names, inputs(recorded)))
    return ort.__version__, lambda: session.run(None, feed)[0]


def load_openvino(folder, path, threads, recorded):
    import openvino as ov

    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(f"{folder}/{path}", "CPU", hints).create_infer_request()
    feed = dict(enumerate(inputs(recorded)))
    return ov.__version__.split("-")[0], lambda: request.infer(feed)[0]


def load_nncf(folder, file, threads, recorded):
    """OpenVINO's own quantized network."""
    return load_openvino(folder, f"{file}-nncf.xml", threads, recorded)


LOADERS = {
    "hybridjit": load_hybridjit,
    "hybridjit-calibrated": load_calibrated,
    "onnxruntime": load_onnxruntime,
    "openvino": lambda folder, file, *rest: load_openvino(folder, f"{file}.onnx", *rest),
    "openvino-nncf": load_nncf,
}


def main(engine, folder, file, threads):
    bound_threads(threads)
    import numpy as np

    recorded = dict(np.load(f"{folder}/{file.split('-')[0]}-io.npz"))
    version, run = LOADERS[engine](folder, file, int(threads), recorded)
    y, right = run(), recorded["y"]
    error = float(np.sqrt(np.mean((y - right) ** 2)) / right.std())
    serve(run, clock_for(threads), error=error, version=version)


if __name__ == "__main__":
    main(*sys.argv[1:])
