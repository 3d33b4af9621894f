"""One engine and one network in a process: ``engine.py ENGINE FOLDER NAME THREADS EVERY DYNAMIC``.

``DYNAMIC`` is 1 if the axes that vary are declared to hybridjit, as an ONNX file declares its own.
Prints one JSON line with the engine's version. Then, for each line ``FIRST COUNT`` on its standard
input, it calls the network at ``COUNT`` sizes and prints the JSON list of CPU seconds, wall
seconds, the largest value of each output, and hybridjit's number of compilations after it.
"""

import json
import os
import sys
import time

from networks import NETWORKS, data_of, varying_axes


def load_hybridjit(prefix, threads, axes=None):
    import hybridjit as mx

    net = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
    net.hybridize(dynamic={"data": axes} if axes else None)
    return mx.__version__, lambda x: net(mx.nd.array(x)).asnumpy()


def load_mxnet(prefix, threads):
    import mxnet as mx

    net = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
    net.hybridize(static_alloc=True)
    return mx.__version__, lambda x: net(mx.nd.array(x)).asnumpy()


def load_onnxruntime(prefix, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    providers = ["CPUExecutionProvider"]
    session = ort.InferenceSession(f"{prefix}.onnx", options, providers=providers)
    name = session.get_inputs()[0].name
    return ort.__version__, lambda x: session.run(None, {name: x})[0]


def load_openvino(prefix, threads):
    import openvino as ov

    hints = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(f"{prefix}.onnx", "CPU", hints).create_infer_request()
    return ov.__version__.split("-")[0], lambda x: request.infer({0: x})[0]


LOADERS = {
    "hybridjit": load_hybridjit,
    "mxnet": load_mxnet,
    "onnxruntime": load_onnxruntime,
    "openvino": load_openvino,
}


def compilations():
    """The number of hybridjit's compilations so far; 0 in the process of another engine."""
    package = sys.modules.get("hybridjit")
    return package.compile_stats()["compilations"] if package else 0


def called(run, x):
    """CPU seconds of the process, wall seconds, the largest value of the output, compilations."""
    cpu, wall = time.process_time(), time.perf_counter()
    y = run(x)
    seconds = time.process_time() - cpu, time.perf_counter() - wall
    return *seconds, float(abs(y).max()), compilations()


def main(engine, folder, name, threads, every, dynamic):
    for variable in ("OMP_NUM_THREADS", "HYBRIDJIT_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = threads
    os.environ["HYBRIDJIT_CACHE_DIR"] = f"{folder}/objects-{name}-{threads}"  # empty at first
    axes = [varying_axes(name)] if int(dynamic) and engine == "hybridjit" else []
    version, run = LOADERS[engine](f"{folder}/{name}", int(threads), *axes)
    inputs = [data_of(name, shape) for shape in NETWORKS[name][1][:: int(every)]]
    print(json.dumps({"version": version, "sizes": len(inputs)}), flush=True)
    for line in sys.stdin:
        first, count = map(int, line.split())
        print(json.dumps([called(run, x) for x in inputs[first : first + count]]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
