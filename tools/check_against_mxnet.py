"""Compare hybridjit with real MXNet 1.9.1: exported networks, and random operator cases.

    python tools/check_against_mxnet.py                          an environment with MXNet is built
    python tools/check_against_mxnet.py --mxnet-python PATH      one that exists is used
    python tools/check_against_mxnet.py --cases 2000 --seed 7 --threads 1,2,3 --target native,sse2

Exported networks go through ``SymbolBlock.imports`` and ``mod.Module`` of MXNet. Random cases are
graphs and parameter files that hybridjit writes and MXNet reads; MXNet runs them in one process,
hybridjit eagerly and hybridized in one process for each choice of target and threads. Each
difference is printed with the command that replays it. Exit code: 0 without differences.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hybridjit.errors import MXNetError
from hybridjit.io import params, symbol_json
from hybridjit.name import NameManager
from mxnet_side import cases_nn, cases_rest, cases_tensor
from mxnet_side.draw import Build, Case, Draw, draw_params
from mxnet_side.exports import Exported, export_all

SERVERS = Path(__file__).parent / "mxnet_side"
REQUIREMENTS = ("numpy<1.24", "mxnet==1.9.1")
KINDS: dict[str, tuple[int, Build]] = {**cases_nn.KINDS, **cases_tensor.KINDS, **cases_rest.KINDS}
# Kinds whose cases mean the same in another floating type.
ANY_FLOAT = (*cases_nn.KINDS, "unary", "binary", "scalar", "reduction", "movement", "joining")
# MXNet fuses graphs for oneDNN by itself, wrongly where a convolution's result is used twice.
MXNET_SETTINGS = {"OMP_NUM_THREADS": "1", "MXNET_SUBGRAPH_BACKEND": "NONE"}
PATIENCE = 120.0  # seconds for one answer

Answer = list[np.ndarray] | str  # outputs, or why there are none


class Server:
    """A process that answers one request per line, started again when it dies."""

    def __init__(self, python: str, script: str, **environment: str) -> None:
        self.command = [python, str(SERVERS / script)]
        self.environment = {**os.environ, **environment}
        self.process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, Any], out: Path | None = None) -> Answer:
        """The arrays that the answer wrote to ``out``, or a text that says why not."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, env=self.environment,
            )  # fmt: skip
        request = {**request, "out": str(out)}
        line = self._exchange(self.process, json.dumps(request))
        if line is None:
            self.stop()
            return "CRASHED or took too long"
        answer = json.loads(line)
        if "refused" in answer:
            return answer["refused"]
        return _listed(params.load(out)) if out is not None else []

    def _exchange(self, process: subprocess.Popen[str], line: str) -> str | None:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            return (process.stdout.readline() or None) if ready else None
        except BrokenPipeError:
            return None

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _listed(arrays: dict[str, np.ndarray] | list[np.ndarray]) -> list[np.ndarray]:
    return list(arrays.values()) if isinstance(arrays, dict) else arrays


@dataclass(frozen=True)
class Way:
    """One way to run a case with hybridjit."""

    target: str
    threads: int
    winograd: bool | str | None
    compiled: bool = True

    def __str__(self) -> str:
        if not self.compiled:
            return "eager"
        winograd = {None: "default", "always": "on", False: "off"}[self.winograd]
        return f"--target {self.target} --threads {self.threads} --winograd {winograd}"


@dataclass
class Report:
    """What was found, printed as it is found."""

    prefix: str
    cases: int = 0
    differences: int = 0

    def difference(self, what: str, why: str, replay: str) -> None:
        self.differences += 1
        print(f"DIFFERENCE {what}: {why}\n    {self.prefix} {replay}", flush=True)


def draw_of(seed: int, number: int) -> tuple[Draw, str]:
    """The stream of choices of one case, and the first of them: its kind."""
    draw = Draw(seed, number)
    weights = np.array([weight for weight, _ in KINDS.values()], float)
    return draw, str(draw.rng.choice(list(KINDS), p=weights / weights.sum()))


def composed(kind: str, draw: Draw) -> Case:
    """The case, with names that do not depend on the cases before it; a few not in float32."""
    with NameManager():
        case = KINDS[kind][1](draw)
    dtype = draw.pick(*["float32"] * 16, "float64", "float16")
    if kind == "normalisation" and dtype == "float16":  # MXNet adds up in half precision too
        dtype = "float64"
    if kind in ANY_FLOAT and dtype != "float32":
        case.inputs = {
            name: array.astype(dtype) if array.dtype == np.float32 else array
            for name, array in case.inputs.items()
        }
        if dtype == "float16":
            case.tolerance = 0.05 if kind == "reduction" else 5e-3
    return case


def compare(ours: Answer, theirs: list[np.ndarray], tolerance: float) -> str:
    """What is different, in words; empty when nothing is."""
    if isinstance(ours, str):
        return f"hybridjit refuses: {ours}"
    if len(ours) != len(theirs):
        return f"{len(ours)} outputs, MXNet has {len(theirs)}"
    for position, (a, b) in enumerate(zip(ours, theirs)):
        why = _compare_arrays(a, b, tolerance)
        if why:
            return f"output {position}: {why}"
    return ""


def _compare_arrays(a: np.ndarray, b: np.ndarray, tolerance: float) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)}, MXNet has {b.dtype}{list(b.shape)}"
    if a.dtype.kind != "f":
        wrong = a != b
        return f"{wrong.sum()} of {a.size} values differ" if wrong.any() else ""
    a, b = a.astype(np.float64), b.astype(np.float64)
    odd = ~np.isfinite(b)
    if not np.array_equal(a[odd], b[odd], equal_nan=True) or not np.isfinite(a[~odd]).all():
        return "inf or nan in other places"
    scale = max(np.abs(b[~odd]).max(initial=0.0), 1e-3)
    error = np.abs(a[~odd] - b[~odd]).max(initial=0.0) / scale
    return f"off by {error:.2e} of the largest value {scale:.3g}" if error > tolerance else ""


class Checker:
    """Runs cases on both sides, in one folder for their files."""

    def __init__(self, mxnet: Server, ways: list[Way], report: Report, folder: Path) -> None:
        self.mxnet = mxnet
        self.ways = ways
        self.report = report
        self.folder = folder
        self.skipped: Counter[str] = Counter()
        self.ours = {
            (way.target, way.threads): Server(
                sys.executable, "serve_hybridjit.py", **_switches(way)
            )
            for way in ways
        }

    def stop(self) -> None:
        for server in (self.mxnet, *self.ours.values()):
            server.stop()

    def case(self, seed: int, number: int, kind: str | None) -> None:
        """Draw one case, run it everywhere, report what differs."""
        draw, drawn = draw_of(seed, number)
        kind = kind or drawn
        replay = f"--seed {seed} --case {number} --kind {kind}"
        self.report.cases += 1
        try:
            case = composed(kind, draw)
            arrays = draw_params(draw, case)
        except AttributeError as error:
            self.report.difference(kind, f"hybridjit lacks it: {error}", replay)
            return
        except (MXNetError, ValueError) as error:
            self._refused(seed, number, kind, str(error).splitlines()[0], replay)
            return
        paths = self._write(case, arrays)
        theirs = self.mxnet.ask({"do": "run", **paths}, self.folder / "theirs.params")
        if isinstance(theirs, str):
            self.skipped[f"{kind}: {theirs[:100]}"] += 1
            return
        found: dict[str, list[Way]] = {}
        for way in self.ways:
            why = compare(self._run(way, paths), theirs, case.tolerance)
            if why:
                found.setdefault(why, []).append(way)
        for why, ways in found.items():
            attrs = " ".join(f"{k}={v}" for k, v in case.symbol.list_attr().items())
            what = f"{kind} {case.symbol.name} {attrs} [{ways[0]}]"
            more = f" and {len(ways) - 1} more of {len(self.ways)} ways" if len(ways) > 1 else ""
            switches = f" {ways[0]}" if ways[0].compiled else ""
            self.report.difference(what + more, why, replay + switches)

    def _run(self, way: Way, paths: dict[str, str]) -> Answer:
        request = {**paths, "compiled": way.compiled, "winograd": way.winograd}
        return self.ours[way.target, way.threads].ask(request, self.folder / "ours.params")

    def _refused(self, seed: int, number: int, kind: str, why: str, replay: str) -> None:
        """Hybridjit does not take the graph: a difference if MXNet takes it."""
        try:
            case = composed(kind, draw_of(seed, number)[0])
        except (MXNetError, ValueError):
            self.skipped[f"{kind}: not composed: {why[:100]}"] += 1
            return
        symbol_json.save(self.folder / "case.json", case.symbol.outputs)
        shapes = {name: array.shape for name, array in case.inputs.items()}
        types = {name: array.dtype.name for name, array in case.inputs.items()}
        path = str(self.folder / "case.json")
        request = {"do": "accepts", "symbol": path, "shapes": shapes, "types": types}
        if self.mxnet.ask(request) == []:
            self.report.difference(kind, f"hybridjit refuses: {why}", replay)
        else:
            self.skipped[f"{kind}: both refuse"] += 1

    def _write(self, case: Case, arrays: dict[str, np.ndarray]) -> dict[str, str]:
        paths = {k: str(self.folder / f"case.{k}") for k in ("symbol", "params", "inputs")}
        symbol_json.save(paths["symbol"], case.symbol.outputs)
        params.save(paths["params"], arrays)
        params.save(paths["inputs"], case.inputs)
        return paths

    def export(self, net: Exported) -> None:
        """One exported network through every way in which MXNet reads one."""
        inputs = str(self.folder / "inputs.params")
        params.save(inputs, net.inputs)
        files = {"symbol": f"{net.prefix}-symbol.json", "params": f"{net.prefix}-0000.params"}
        for do in ("block", "module"):
            self.report.cases += 1
            request = {"do": do, "prefix": net.prefix, "inputs": inputs, **files}
            theirs = self.mxnet.ask(request, self.folder / "theirs.params")
            why = theirs if isinstance(theirs, str) else compare(net.outputs, theirs, 1e-4)
            if why:
                self.report.difference(f"export {net.name} through {do}", why, "--cases 0")
        self._saved_parameters(net)

    def _saved_parameters(self, net: Exported) -> None:
        """MXNet reads the file of save_parameters, writes it again, and we load that."""
        self.report.cases += 1
        again = self.folder / "again.params"
        request = {"do": "parameters", "params": f"{net.prefix}.params"}
        answer = self.mxnet.ask(request, again)
        if isinstance(answer, str):
            why = answer
        else:
            same = again.read_bytes() == Path(f"{net.prefix}.params").read_bytes()
            why = "" if same else "MXNet writes other bytes"
        if why:
            self.report.difference(f"save_parameters of {net.name}", why, "--cases 0")


def _switches(way: Way) -> dict[str, str]:
    target = "" if way.target == "native" else way.target
    return {"HYBRIDJIT_TARGET": target, "HYBRIDJIT_NUM_THREADS": str(way.threads)}


def ways_of(options: argparse.Namespace) -> Iterator[Way]:
    """Eager once, then every combination of the choices."""
    winograd = {"default": [None], "on": ["always"], "off": [False], "both": ["always", False]}
    targets = options.target.split(",")
    counts = [int(count) for count in options.threads.split(",")]
    yield Way(targets[0], counts[0], None, compiled=False)
    for target, count, flag in product(targets, counts, winograd[options.winograd]):
        yield Way(target, count, flag)


def mxnet_python(path: str | None, folder: Path) -> str:
    """The interpreter with MXNet: ``path``, or that of a new environment in ``folder``."""
    if path:
        return path
    base = sys.executable if sys.version_info < (3, 12) else shutil.which("python3.11")
    if base is None:
        raise SystemExit("MXNet 1.9.1 needs Python 3.11 or older: give --mxnet-python")
    print(f"building an environment with {', '.join(REQUIREMENTS)} in {folder}", flush=True)
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "-q", "install", *REQUIREMENTS], check=True)
    return python


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mxnet-python", help="interpreter of an environment with MXNet 1.9.1")
    parser.add_argument("--cases", type=int, default=300, help="random cases (default 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one case only")
    parser.add_argument("--kind", choices=sorted(KINDS), help="draw this kind only")
    parser.add_argument("--target", default="native", help="for example native,avx2,sse2")
    parser.add_argument("--threads", default="1", help="for example 1,2,3,4")
    parser.add_argument("--winograd", default="default", choices=["default", "on", "off", "both"])
    parser.add_argument("--no-exports", action="store_true", help="random cases only")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = mxnet_python(options.mxnet_python, folder / "mxnet")
        mxnet = Server(python, "serve_mxnet.py", **MXNET_SETTINGS)
        given = f" --mxnet-python {python}" if options.mxnet_python else ""
        report = Report(f"python {sys.argv[0]}{given}")
        checker = Checker(mxnet, list(ways_of(options)), report, folder)
        try:
            run(checker, options)
        finally:
            checker.stop()
    for why, count in checker.skipped.most_common(12):
        print(f"skipped {count}: {why}")
    print(f"{checker.skipped.total()} cases were skipped: MXNet refuses them")
    print(f"{report.cases} cases, {report.differences} differences")
    return 1 if report.differences else 0


def run(checker: Checker, options: argparse.Namespace) -> None:
    if options.case is not None:
        checker.case(options.seed, options.case, options.kind)
        return
    if not options.no_exports:
        for net in export_all(checker.folder, options.seed):
            checker.export(net)
    start = time.monotonic()
    for number in range(options.cases):
        checker.case(options.seed, number, options.kind)
        if (number + 1) % 100 == 0:
            spent = time.monotonic() - start
            print(f"... {number + 1} cases in {spent:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
