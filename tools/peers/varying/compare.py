"""Networks at sizes that vary from call to call: hybridjit beside MXNet, ONNX Runtime and OpenVINO.

    python tools/peers/varying/compare.py --mxnet PYTHON --peers PYTHON --threads 1 2

``--mxnet`` is an interpreter with MXNet, ``--peers`` one with ONNX Runtime and OpenVINO; engines
without one are left out. The engines are processes that take turns, a few sizes each, first in a
pass over sizes that they have not seen, then in a second pass. A cell is the mean time of a call,
compilation included: CPU time with one thread, elapsed time with more, which needs a quiet
machine. The third row of a network has the calls of the first pass after hybridjit's third
compilation, or its last one; kernels for further classes of sizes are compiled in these calls.
With ``--dynamic``, the axes that vary are declared to hybridjit, as the ONNX files declare theirs.
Byte code of hybridjit is written first: without it the first call compiles 110 modules in 150 ms.
``--json RECORD`` writes a record of ``docs/performance``.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from records import cpu_and_commit, write_record  # noqa: E402
from turns import compile_bytes  # noqa: E402

HERE = Path(__file__).resolve().parent
NAMES = {"lstm": "Embedding + LSTM + Dense", "resnet18": "ResNet-18", "mobilenet": "MobileNet 1.0",
         "bert-like": "Encoder of 4 layers", "bert-base": "Encoder as BERT-base",
         "tagger": "Embedding + GRU + Dense", "text": "Convolutions of words",
         "detector": "ResNet-18 with heads of SSD",
         "mobilenet-v2": "MobileNetV2 1.0", "yolo": "Darknet-53 with heads of YOLOv3",
         "densenet": "DenseNet-121", "squeezenet": "SqueezeNet 1.1"}  # fmt: skip
ENGINES = ("hybridjit", "mxnet", "onnxruntime", "openvino")
TITLES = {"mxnet": "MXNet", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
PASSES = ("first pass", "second pass", "first pass after 3 compilations")
MOST_COMPILATIONS = 3
TOLERANCE = 1e-3  # of the largest value of an output


class Engine:
    """One engine's process. ``calls`` has the numbers of ``engine.called``."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        line = self.process.stdout.readline()
        while line and not line.startswith("{"):
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read()[-400:])
        self.info = json.loads(line)
        self.calls = []

    def run(self, first, count):
        self.process.stdin.write(f"{first} {count}\n")
        self.process.stdin.flush()
        self.calls += json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def started(options, folder, net, threads):
    pythons = {"hybridjit": options.python, "mxnet": options.mxnet}
    engines = {}
    for name in options.engines:
        python = pythons.get(name, options.peers)
        script = str(HERE / "engine.py")
        try:
            if not python:
                raise RuntimeError("no interpreter was given for it")
            numbers = threads, options.every, int(options.dynamic)
            arguments = [name, folder, net, *map(str, numbers)]
            engines[name] = Engine([python, script, *arguments])
        except (OSError, RuntimeError) as error:
            print(f"  left out: {name}, {net}: {error}", file=sys.stderr)
    return engines


def measured(options, folder, net, threads):
    """CPU and wall milliseconds a call of each engine in the PASSES; versions of the engines."""
    engines = started(options, folder, net, threads)
    if not engines:
        return {}, {}
    sizes = next(iter(engines.values())).info["sizes"]
    for _ in range(2):
        for first in range(0, sizes, options.turn):
            for engine in engines.values():
                engine.run(first, options.turn)
    found = {}
    start = max(first_after_compilations(engine.calls[:sizes]) for engine in engines.values())
    for name, engine in engines.items():
        engine.close()
        passes = engine.calls[:sizes], engine.calls[sizes:], engine.calls[start:sizes]
        found[name] = [[1e3 * statistics.mean(call[i] for call in each) for i in (0, 1)]
                       for each in passes if each]  # fmt: skip
    require_equal(net, {name: engine.calls for name, engine in engines.items()})
    return found, {name: engine.info["version"] for name, engine in engines.items()}


def first_after_compilations(calls):
    """The number of the first call after ``MOST_COMPILATIONS`` compilations, or after the last."""
    counts = [0, *(call[3] for call in calls)]
    most = min(MOST_COMPILATIONS, counts[-1])
    return counts.index(next(count for count in counts if count >= most))


def require_equal(net, calls):
    """Raises AssertionError where the outputs of two engines differ in their largest value."""
    names = list(calls)
    for one, *others in zip(*calls.values()):
        for name, other in zip(names[1:], others):
            assert math.isclose(one[2], other[2], rel_tol=TOLERANCE), (net, names[0], name)


def rows_of(net, found, threads):
    """A row for each pass: hybridjit's time, the others', and ratios to the fastest."""
    clock = 0 if threads == 1 else 1
    for number, name in enumerate(PASSES[: min(map(len, found.values()))]):
        cells = {engine: passes[number][clock] for engine, passes in found.items()}
        others = [cells[engine] for engine in TITLES if engine in cells]
        ours = cells.get("hybridjit")
        ratio = f"{ours / min(others):.2f}" if ours and others else "-"
        texts = [f"{cells[e]:.3f}" if e in cells else "-" for e in ENGINES]
        yield [f"{NAMES[net]}, {name}", *texts, ratio]


def record(rows, versions, threads, options):
    """A record as ``docs/performance`` has them."""
    engines = ["hybridjit", *(f"{TITLES[e]} {versions[e]}" for e in TITLES if e in versions)]
    columns = ["hybridjit", *(TITLES[e] for e in TITLES)]
    title = f"Sizes that vary from call to call, {threads} thread{'s' * (threads > 1)}"
    kind = "CPU time" if threads == 1 else "elapsed time"
    command = "python tools/peers/varying/compare.py --mxnet PYTHON --peers PYTHON"
    dynamic = " --dynamic" if options.dynamic else ""
    return {
        "title": title,
        "unit": f"ms of {kind} a call; {', '.join(engines[1:])}",
        **cpu_and_commit(options.note),
        "commands": [f"{command} --threads {threads} --every {options.every}{dynamic}"],
        "columns": ["Network", *columns, "ratio to the fastest other"],
        "rows": rows,
        "geometric_mean": {},
    }


def text_of(made):
    """The record as a table."""
    table = [made["columns"], *made["rows"]]
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in table)
    head = f"{made['title']} ({made['unit']})\n{made['cpu']}, {made['date']}, {made['commit']}"
    return "\n".join([head, *lines])


def read_options(arguments):
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--python", default=sys.executable, help="interpreter with hybridjit")
    made.add_argument("--mxnet", help="interpreter with MXNet 1.9.1")
    made.add_argument("--peers", help="interpreter with ONNX Runtime and OpenVINO")
    made.add_argument("--nets", nargs="+", default=list(NAMES)[:4], choices=list(NAMES))
    made.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    made.add_argument("--threads", nargs="+", type=int, default=[1])
    made.add_argument("--every", type=int, default=1, help="take each N-th size only (1)")
    made.add_argument("--dynamic", action="store_true", help="declare the axes that vary")
    made.add_argument("--turn", type=int, default=8, help="sizes of an engine's turn (8)")
    made.add_argument("--note", default="", help="words on the machine, for the record")
    made.add_argument("--json", help="record to write; {} stands for the number of threads")
    return made.parse_args(arguments)


def main(arguments=None):
    options = read_options(arguments)
    compile_bytes(options.python)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [options.python, str(HERE / "networks.py"), folder, *options.nets], check=True
        )
        for threads in options.threads:
            rows, versions = [], {}
            for net in options.nets:
                found, known = measured(options, folder, net, threads)
                rows += rows_of(net, found, threads)
                versions.update(known)
            made = record(rows, versions, threads, options)
            print(text_of(made), flush=True)
            write_record(options.json, made, threads)


if __name__ == "__main__":
    main()
