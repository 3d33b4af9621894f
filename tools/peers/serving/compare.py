"""The web service of examples/serving on hybridjit, ONNX Runtime and MXNet, under concurrent load.

    pip install --target WEB -r examples/serving/requirements.txt
    python tools/peers/serving/compare.py --mxnet PYTHON --peers PYTHON --web WEB

The three services differ in the module ``model`` only: web server, batches, workers and threads
are the same. All run at once; clients load one after the other, in rounds. A client sends its next
request when the last one was answered. Printed are requests a second, the 99th percentile of the
time of a request, and CPU time of the service's processes a request; ``--json RECORD`` writes a
record of ``docs/performance``.
"""

import argparse
import asyncio
import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from records import cpu_and_commit, write_record  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SERVING, DIGITS = ROOT / "examples" / "serving", ROOT / "examples" / "digits"
TITLES = {"hybridjit": "hybridjit", "onnxruntime": "ONNX Runtime", "mxnet": "MXNet"}
MODULES = {"hybridjit": "hybridjit", "onnxruntime": "onnxruntime", "mxnet": "mxnet"}
IMAGES = [(3, size, size) for size in (128, 160, 192, 224, 256, 288)]
LENGTHS = [(steps,) for steps in (16, 24, 32, 48, 64, 80, 96, 128)]
# Of each load: the network, its title, the shapes of samples, and MAX_BATCH.
LOADS = {
    "digits": ("digits", "Digits, 1x28x28", [(1, 28, 28)], 32),
    "fixed": ("mobilenet", "MobileNet 1.0, 3x224x224", [(3, 224, 224)], 8),
    "varying": ("mobilenet", "MobileNet 1.0, 6 sizes", IMAGES, 8),
    "lengths": ("bert-like", "Encoder of 4 layers, 8 lengths", LENGTHS, 8),
}
TOLERANCE = 1e-3  # of the largest value of a result
# Requests of a connection. The kernel gives a connection to one of the workers: with 8 connections
# for a whole turn one worker may have 7 of them, and the other is idle.
REQUESTS = 8


def sample(shape, network):
    """One request's samples: a batch of one."""
    generator = np.random.RandomState(sum(shape))
    made = generator.randint(0, 1000, shape) if network == "bert-like" else generator.rand(*shape)
    return made.astype(np.float32)[None]


def body_of(rows):
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()


class Service:
    """One engine's gunicorn on a free port."""

    def __init__(self, engine, python, folder, load, options):
        network, _, shapes, most = LOADS[load]
        self.folder = Path(folder) / f"{engine}-{load}"
        shutil.copytree(SERVING, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        if engine != "hybridjit":
            shutil.copy(HERE / "model.py", self.folder)
        self.port = free_port()
        settings = {
            **{"MODEL": f"{folder}/{network}", "MAX_BATCH": str(most), "ENGINE": engine},
            **{"SHAPE": ";".join(",".join(map(str, shape)) for shape in shapes)},
            **{"BIND": f"127.0.0.1:{self.port}", "WORKERS": str(options.workers)},
            **{"OMP_NUM_THREADS": "1", "HYBRIDJIT_NUM_THREADS": "1"},
            "PYTHONPATH": os.pathsep.join(filter(None, paths(engine, options))),
        }
        self.log = (self.folder / "log").open("w")
        self.process = subprocess.Popen(
            [python, "-m", "gunicorn", "-c", "gunicorn.conf.py", "app:app"],
            **{"cwd": self.folder, "env": os.environ | settings},
            **{"stdout": self.log, "stderr": self.log},
        )
        self.times, self.seconds, self.cpu = [], 0.0, 0.0

    def wait_until_ready(self):
        """Raises RuntimeError with the end of the log if the service ends."""
        while self.process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=5)
                return
            time.sleep(0.2)
        raise RuntimeError((self.folder / "log").read_text()[-400:])

    def predict(self, rows):
        url = f"http://127.0.0.1:{self.port}/predict-npy"
        with urllib.request.urlopen(urllib.request.Request(url, body_of(rows))) as answer:
            return np.load(io.BytesIO(answer.read()))

    def load(self, bodies, clients, seconds):
        """One turn: this many clients for this many seconds."""
        begin, cpu = time.perf_counter(), self.cpu_seconds()
        self.times += asyncio.run(loaded(self.port, bodies, clients, begin + seconds))
        self.seconds += time.perf_counter() - begin
        self.cpu += self.cpu_seconds() - cpu

    def cpu_seconds(self):
        """CPU time of the workers."""
        workers = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                  for pid in workers.split()]  # fmt: skip
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()


def paths(engine, options):
    """Folders before the installed packages of an engine's interpreter."""
    return (options.web, str(ROOT / "src") if engine == "hybridjit" else None)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def loaded(port, bodies, clients, end):
    """The seconds of each request of all clients."""
    starts = [len(bodies) * each // clients for each in range(clients)]
    found = await asyncio.gather(*(client(port, bodies, start, end) for start in starts))
    return [seconds for times in found for seconds in times]


async def client(port, bodies, number, end):
    """Requests with the bodies in turn until the end, REQUESTS through a connection."""
    times = []
    while time.perf_counter() < end:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(REQUESTS):
            begin = time.perf_counter()
            await request(reader, writer, bodies[number % len(bodies)])
            times.append(time.perf_counter() - begin)
            number += 1
        writer.close()
    return times


async def request(reader, writer, body):
    """Send one request and read its response."""
    head = f"POST /predict-npy HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await answered(reader)


async def answered(reader):
    """Read one response. Raises RuntimeError for another status than 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length:")[2].split()[0])
    body = await reader.readexactly(length)
    if " 200 " not in head.partition("\r\n")[0]:
        raise RuntimeError(body.decode(errors="replace"))


def write_models(folder, names, options):
    """The networks as MXNet's files and as ONNX files with open sizes."""
    drawn = sorted({LOADS[name][0] for name in names} - {"digits"})
    networks = [str(HERE.parent / "varying" / "networks.py"), folder, *drawn]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run([options.python, *networks], check=True, env=environment)
    for file in ("digits-symbol.json", "digits-0000.params"):
        shutil.copy(DIGITS / file, folder)
    program = (
        "import sys, hybridjit as mx; p = sys.argv[1] + '/digits'\n"
        "mx.onnx.export_model(p + '-symbol.json', p + '-0000.params', [(1, 1, 28, 28)],\n"
        "    onnx_file_path=p + '.onnx', dynamic=True)"
    )
    subprocess.run([options.python, "-c", program, folder], check=True, env=environment)


def started(load, folder, options):
    """The services that start; the others are named and left out."""
    pythons = {"hybridjit": options.python, "onnxruntime": options.peers, "mxnet": options.mxnet}
    services = {}
    for engine, python in pythons.items():
        if not python:
            print(f"  left out: {engine}: no interpreter was given for it", file=sys.stderr)
            continue
        service = Service(engine, python, folder, load, options)
        try:
            service.wait_until_ready()
            services[engine] = service
        except RuntimeError as error:
            print(f"  left out: {engine}, {load}: {error}", file=sys.stderr)
    return services


def require_equal(load, services):
    """Raises AssertionError where two services answer the same request differently."""
    network, _, shapes, _ = LOADS[load]
    for shape in shapes:
        wanted, *others = (each.predict(sample(shape, network)) for each in services.values())
        for found in others:
            assert np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max(), (load, shape)


def measured(load, folder, options):
    """Rows of a load: one of each number of clients and each quantity."""
    network, title, shapes, _ = LOADS[load]
    bodies = [body_of(sample(shape, network)) for shape in shapes]
    services = started(load, folder, options)
    try:
        require_equal(load, services)
        for clients in options.clients:
            for service in services.values():
                service.load(bodies, clients, min(1.0, options.seconds))
                service.times, service.seconds, service.cpu = [], 0.0, 0.0
            for _ in range(options.rounds):
                for service in services.values():
                    service.load(bodies, clients, options.seconds)
            yield from rows_of(f"{title}, {clients} clients", services)
    finally:
        for service in services.values():
            service.close()


def rows_of(title, services):
    """Requests a second, 99th percentile and CPU time of a request, with ratios."""
    found = {name: (len(s.times) / s.seconds, 1e3 * float(np.quantile(s.times, 0.99)),
                    1e3 * s.cpu / len(s.times)) for name, s in services.items()}  # fmt: skip
    quantities = ("requests/s", "p99, ms", "CPU ms a request")
    for number, quantity in enumerate(quantities):
        cells = {name: values[number] for name, values in found.items()}
        texts = [f"{cells[name]:.4g}" if name in cells else "-" for name in TITLES]
        others = [cells[name] for name in cells if name != "hybridjit"]
        best = (min if number else max)(others, default=None)
        ratio = f"{cells['hybridjit'] / best:.2f}" if best and "hybridjit" in cells else "-"
        yield [f"{title}: {quantity}", *texts, ratio]


def version_of(engine, python):
    words = [python, "-c", f"import {MODULES[engine]} as m; print(m.__version__)"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def record(rows, options):
    """A record as ``docs/performance`` has them."""
    peers = {"onnxruntime": options.peers, "mxnet": options.mxnet}
    names = [f"{TITLES[e]} {version_of(e, python)}" for e, python in peers.items() if python]
    command = "python tools/peers/serving/compare.py --mxnet PYTHON --peers PYTHON --web WEB"
    return {
        "title": f"The web service, {options.workers} workers of one thread each",
        "unit": "; ".join([*names, "ratio to the best other"]),
        **cpu_and_commit(options.note),
        "commands": [f"{command} --seconds {options.seconds:g} --rounds {options.rounds}"],
        "columns": ["Network, load, quantity", *TITLES.values(), "ratio"],
        "rows": rows,
        "geometric_mean": {},
    }


def read_options(arguments):
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--python", default=sys.executable, help="interpreter with hybridjit")
    made.add_argument("--mxnet", help="interpreter with MXNet 1.9.1")
    made.add_argument("--peers", help="interpreter with ONNX Runtime")
    made.add_argument("--web", help="folder with the packages of the web server")
    made.add_argument("--loads", nargs="+", default=list(LOADS), choices=list(LOADS))
    made.add_argument("--clients", nargs="+", type=int, default=[8, 64])
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--seconds", type=float, default=4.0, help="of a turn (4)")
    made.add_argument("--rounds", type=int, default=3, help="turns of each engine (3)")
    made.add_argument("--note", default="", help="words on the machine, for the record")
    made.add_argument("--json", help="record to write")
    return made.parse_args(arguments)


def main(arguments=None):
    options = read_options(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_models(folder, options.loads, options)
        for load in options.loads:
            for row in measured(load, folder, options):
                print("  ".join(row), flush=True)
                rows.append(row)
    write_record(options.json, record(rows, options))


if __name__ == "__main__":
    main()
