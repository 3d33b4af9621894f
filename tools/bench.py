"""The project's own measurements: kernels against the peak of a core, calls, networks, peers.

    python tools/bench.py                                kernels, calls, the digits
    python tools/bench.py --only kernels --match 28x28   some kernels
    python tools/bench.py --models DIR --threads 1,2     networks: DIR/NAME-symbol.json and so on
    python tools/bench.py --only start --models DIR      import, first results cold and warm
    python tools/bench.py --peers DIR -- --nets lenet    tools/peers/compare.py DIR --nets lenet

Every kernel is measured by itself on one thread, in the layout that it has inside a network, with
warm caches; its share of the peak is one of the multiply-adds per second that this host was just
measured to do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hybridjit import gluon, load, nd, sym
from hybridjit._core.options import Options
from hybridjit._core.text_table import milliseconds, table
from hybridjit.cli.arguments import counts
from hybridjit.cli.model import Model, parameters, read_model, stand_in, variable_types
from hybridjit.codegen.peak import measure_flops
from hybridjit.codegen.targets import find_target
from hybridjit.compilation import compile_graph
from hybridjit.compiler import new_log
from hybridjit.ir.roles import sort_variables
from hybridjit.profiling import Report, algorithm, measure, profile
from hybridjit.runtime.profiling import bytes_moved
from hybridjit.runtime.threads import threads

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
SECTIONS = ("kernels", "calls", "digits")
START = "start"  # not among those that run by themselves: it takes a process for every figure


@dataclass(frozen=True)
class Case:
    """One operator on one shape, channels last as inside a compiled network."""

    name: str
    shape: tuple[int, ...]
    make: Callable[[Any], Any]
    winograd: bool = True


def conv(
    size: int, channels: int, filters: int, window: int, stride: int = 1, groups: int = 1,
    winograd: bool = True,
) -> Case:  # fmt: skip
    """A square convolution of one image, with bias and relu."""

    def make(x: Any) -> Any:
        y = sym.Convolution(
            x, kernel=(window, window), num_filter=filters, pad=(window // 2,) * 2,
            stride=(stride, stride), num_group=groups, layout="NHWC", name="conv",
        )  # fmt: skip
        return sym.relu(y)

    name = f"{size}x{size}, {channels}->{filters}, {window}x{window}"
    name += f"/{stride}" if stride > 1 else ""
    name += ", depthwise" if groups > 1 else ""
    name += "" if winograd else ", no Winograd"
    return Case(name, (1, size, size, channels), make, winograd)


def dense(rows: int, inputs: int, outputs: int) -> Case:
    return Case(
        f"dense {rows} x {inputs} -> {outputs}",
        (rows, inputs),
        lambda x: sym.FullyConnected(x, num_hidden=outputs, name="dense"),
    )


def pool(size: int, channels: int, window: int, stride: int, how: str) -> Case:
    return Case(
        f"{how} pool {size}x{size}, {channels}, {window}x{window}/{stride}",
        (1, size, size, channels),
        lambda x: sym.Pooling(
            x, kernel=(window, window), stride=(stride, stride), pool_type=how, layout="NHWC"
        ),
    )


CASES = (
    conv(56, 64, 64, 3, winograd=False),
    conv(28, 128, 128, 3, winograd=False),
    conv(14, 256, 256, 3, winograd=False),
    conv(7, 512, 512, 3, winograd=False),
    conv(56, 64, 64, 3),
    conv(28, 128, 128, 3),
    conv(14, 256, 256, 3),
    conv(7, 512, 512, 3),
    conv(224, 3, 64, 7, stride=2),
    conv(112, 3, 32, 3, stride=2),
    conv(56, 64, 256, 1),
    conv(28, 512, 128, 1),
    conv(14, 256, 1024, 1),
    conv(7, 2048, 512, 1),
    conv(14, 1024, 512, 1, stride=2),
    conv(56, 128, 128, 3, groups=128),
    conv(14, 512, 512, 3, groups=512),
    dense(1, 2048, 1000),
    dense(1, 25088, 4096),
    dense(64, 1024, 1024),
    pool(112, 64, 3, 2, "max"),
    pool(7, 2048, 7, 1, "avg"),
)


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    at = words.index("--") if "--" in words else len(words)
    own, rest = words[:at], words[at + 1 :]
    args = _parser().parse_args(own)
    if args.peers:
        return run_peers(args.peers, rest)
    if START in args.only:
        print(starts(args.models or DIGITS, args.match))
        return 0
    target = find_target()
    peak = measure_flops(target)
    print(f"{target}: peak of one core {1e-9 * peak:.1f} GFLOP/s")
    if args.models:
        print(networks(args.models, args.match, args.threads, args.seconds))
        return 0
    if "kernels" in args.only:
        print(kernels(args.match, args.seconds))
    if "calls" in args.only:
        print(calls(args.seconds))
    if "digits" in args.only and DIGITS.is_dir():
        print(digits(args.seconds))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure kernels, calls and networks.")
    parser.add_argument(
        "--only", nargs="+", choices=(*SECTIONS, START), default=SECTIONS, help="parts to run"
    )
    parser.add_argument("--match", default="", help="kernels or networks with this in their name")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row (0.5)")
    parser.add_argument("--threads", type=counts, default=[1], help="for networks, such as 1,2")
    parser.add_argument(
        "--models", type=Path, help="a folder of NAME-symbol.json, NAME-0000.params"
    )
    parser.add_argument(
        "--peers",
        type=Path,
        help="compare engines in this folder of tools/peers/setup.sh instead; its options after --",
    )
    return parser


# Kernels


def kernels(match: str, seconds: float) -> str:
    """The table of kernels, each alone on one thread."""
    with threads(1):
        rows = [_kernel_row(case, seconds) for case in CASES if match in case.name]
    heading = ("kernel", "ms", "GFLOP/s", "of peak", "GB/s", "algorithm", "spec")
    return table(rows, heading, right={1, 2, 3, 4})


def _kernel_row(case: Case, seconds: float) -> tuple[str, ...]:
    report = measured(case, seconds)
    parts = report.profile.parts
    took = sum(part.seconds for part in parts)
    called = [part.call for part in parts if part.call is not None]
    rate = 2 * sum(call.work for call in called) / took
    steps = report.profile.plan.steps
    return (
        case.name,
        milliseconds(took),
        f"{1e-9 * rate:.1f}",
        f"{100 * rate / report.peak:.1f}%",
        f"{1e-9 * sum(map(bytes_moved, steps)) / took:.1f}",
        " + ".join(algorithm(call.spec) for call in called),
        " | ".join(str(call.spec) for call in called),
    )


def measured(case: Case, seconds: float) -> Report:
    """One case, compiled and measured."""
    outputs = case.make(sym.var("data")).outputs
    model = Model(case.name, outputs, (), sort_variables(outputs, ()), None)
    inputs, params = variable_types(model, {"data": case.shape}, {})
    executable = compile_graph(outputs, inputs, params, Options(winograd=case.winograd), new_log())
    executable.bind(parameters(model, params))
    return measure(executable, [stand_in(n, t) for n, t in inputs.items()], seconds)


# Calls


class TinyNet(gluon.HybridBlock):
    """Two dense layers, 64 -> 64 -> 10: the overhead of a call."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.hidden = gluon.nn.Dense(64, activation="relu")
            self.out = gluon.nn.Dense(10)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.out(self.hidden(x))


def calls(seconds: float) -> str:
    """The time of ``net(x)`` on a tiny network, and how much of it is native."""
    net = TinyNet()
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.ones((1, 64))
    with threads(1):
        whole = usual_seconds(lambda: net(x), seconds)
        native = profile(net, x, seconds=seconds).profile.total
    return (
        f"call of a net 64 -> 64 -> 10: {1e6 * whole:.2f} us, of which {1e6 * native:.2f} us in "
        f"kernels: {1e6 * (whole - native):.2f} us for the call"
    )


def usual_seconds(call: Callable[[], Any], seconds: float) -> float:
    """The lower quartile of the mean times of twenty batches of calls."""
    call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    count = max(1, int(seconds / 20 / max(once, 1e-7)))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    return sorted(times)[len(times) // 4]


def digits(seconds: float) -> str:
    """The example network, one operator after the other and compiled."""
    net = load(str(DIGITS / "digits"))
    images = np.load(DIGITS / "digits-test.npz")["images"]
    lines = []
    for batch in (1, 64):
        enlarged = np.kron(images[:batch] / 16, np.ones((1, 3, 3)))
        x = nd.array(np.pad(enlarged, ((0, 0), (2, 2), (2, 2)))[:, np.newaxis])
        with threads(1):
            net.hybridize(active=False)
            eager = usual_seconds(lambda x=x: net(x), seconds)
            net.hybridize()
            compiled = usual_seconds(lambda x=x: net(x), seconds)
        lines.append(
            f"digits, batch {batch}: eager {milliseconds(eager)} ms, hybridized "
            f"{milliseconds(compiled)} ms, {eager / compiled:.1f} times faster"
        )
    return "\n".join(lines)


# Networks


def networks(folder: Path, match: str, thread_counts: list[int], seconds: float) -> str:
    """A row for each network of the folder and number of threads.

    NAME-io.npz, where there is one, holds an input ``x`` and the right output ``y``; the error is
    the largest difference in units of the output's standard deviation. Without it the input is a
    random image of 224x224.
    """
    rows = []
    for file in sorted(folder.glob("*-symbol.json")):
        if match in file.name:
            rows += list(_network_rows(file, thread_counts, seconds))
    heading = ("network", "threads", "ms", "GFLOP/s", "of peak", "compile s", "error")
    return table(rows, heading, right=range(1, 7))


def _network_rows(
    file: Path, thread_counts: list[int], seconds: float
) -> Iterator[tuple[str, ...]]:
    params = file.with_name(file.name.replace("-symbol.json", "-0000.params"))
    model = read_model(str(file), str(params), {})
    recorded = file.with_name(file.name.replace("-symbol.json", "-io.npz"))
    stored = np.load(recorded) if recorded.exists() else {}
    x = np.ascontiguousarray(stored["x"]) if "x" in stored else random_image()
    inputs, types = variable_types(model, {model.inputs[0]: x.shape}, {})
    start = time.perf_counter()
    executable = compile_graph(model.outputs, inputs, types, log=new_log(), name=model.name)
    compiled = time.perf_counter() - start
    executable.bind(parameters(model, types))
    error = ""
    if "y" in stored:
        gap = np.abs(executable([x])[0] - stored["y"]).max()
        error = f"{gap / stored['y'].std():.1e}"
    for count in thread_counts:
        with threads(count):
            report = measure(executable, [x], seconds)
        took = report.profile.whole
        work = 2 * sum(part.call.work for part in report.profile.parts if part.call is not None)
        yield (
            model.name, str(count), milliseconds(took), f"{1e-9 * work / took:.1f}",
            f"{100 * work / took / report.most:.0f}%", f"{compiled:.2f}", error,
        )  # fmt: skip


# Starts: every figure in a separate process

_ROUNDS = 5
_IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
_FIRST = """
import json, resource, sys, time
import numpy as np
import hybridjit
prefix, shape = sys.argv[1], json.loads(sys.argv[2])
x = hybridjit.nd.array(np.sin(np.arange(np.prod(shape))).reshape(shape))
start = time.perf_counter()
net = hybridjit.load(prefix)
read = time.perf_counter()
net(x).asnumpy()
first = time.perf_counter()
net(x).asnumpy()
second = time.perf_counter()
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([first - start, read - start, second - first, used]))
"""


def starts(folder: Path, match: str) -> str:
    """Medians of fresh processes: imports, then each network with an empty and a filled cache.

    The time to the first output is without the import: files read, compiled, weights bound.
    """
    imports = [
        (name, f"{_median(lambda name=name: _import_seconds(name)):.3f}")
        for name in ("numpy", "hybridjit", "llvmlite.binding")
    ]
    rows = []
    for file in sorted(folder.glob("*-symbol.json")):
        if match in file.name:
            rows += _start_rows(file)
    heading = ("network", "cache", "first output s", "files read s", "second call s", "peak MB")
    return "\n".join(
        [table(imports, ("import", "s"), right={1}), table(rows, heading, right=range(2, 6))]
    )


def _import_seconds(name: str) -> float:
    return float(_printed(_IMPORT.format(name)))


def _start_rows(file: Path) -> list[tuple[str, ...]]:
    prefix = str(file).removesuffix("-symbol.json")
    recorded = Path(f"{prefix}-io.npz")
    shape = list(np.load(recorded)["x"].shape) if recorded.exists() else [1, 1, 28, 28]
    rows: dict[str, list[list[float]]] = {"empty": [], "filled": []}
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory(prefix="hybridjit-start-") as cache:
            for found in rows.values():  # the first fills the cache
                words = (prefix, json.dumps(shape))
                text = _printed(_FIRST, *words, HYBRIDJIT_CACHE_DIR=f"{cache}/objects")
                found.append(json.loads(text))
    return [
        (Path(prefix).name, kind, *(f"{statistics.median(column):.3f}" for column in zip(*found)))
        for kind, found in rows.items()
    ]


def _printed(program: str, *words: str, **settings: str) -> str:
    """The output of a program in a separate interpreter."""
    environment = {**os.environ, **settings}
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(_ROUNDS))


def random_image() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)


def run_peers(folder: Path, rest: list[str]) -> int:
    """The side-by-side comparison in the folder that ``tools/peers/setup.sh`` made.

    A ``compare.py`` of the folder's own comes first.
    """
    own, ours = folder / "compare.py", Path(__file__).resolve().parent / "peers" / "compare.py"
    program = own if own.exists() else ours
    if not own.exists() and not (folder / "models").is_dir():
        print(f"{folder}: there is no comparison to run; tools/peers/setup.sh", file=sys.stderr)
        return 2
    return subprocess.run(
        [sys.executable, str(program), str(folder), *rest], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
