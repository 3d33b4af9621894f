"""Compare hybridjit with real MXNet 1.9.1: exported networks, and random operator cases.

    python tools/check_against_mxnet.py                          an environment with MXNet is built
    python tools/check_against_mxnet.py --mxnet-python PATH      one that exists is used
    python tools/check_against_mxnet.py --cases 2000 --seed 7 --threads 1,2,3 --target native,sse2
    python tools/check_against_mxnet.py --cases 200 --operator Pooling
    python tools/check_against_mxnet.py --cases 1000 --gradients     in training mode, by executors

Exported networks go through ``SymbolBlock.imports`` and ``mod.Module`` of MXNet. Random cases are
files that both sides read: every operator in turn, on its own, with any legal attributes and
element types or with a mistake; in between graphs, and every layer, cell and loss of gluon in turn,
with any arguments, which both sides build. MXNet runs them in one process, hybridjit eagerly,
through ``nd`` and hybridized, in one process for each choice of target and threads. Each difference
is printed with the command that replays it. Exit code: 0 without.
"""

from __future__ import annotations

import argparse
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
from hybridjit.formats.mxnet import params, symbol_json
from hybridjit.name import NameManager
from hybridjit.ops import lookup
from mxnet_side import cases_nn, cases_rest, cases_tensor
from mxnet_side.draw import Build, Case, Draw, draw_params
from mxnet_side.exports import Exported, export_all
from mxnet_side.layers import LAYERS, LayerCase
from mxnet_side.recipes import OPERATORS
from mxnet_side.sides import Answer, Meaning, Server, compare, compare_types_found, is_rule
from mxnet_side.singles import Single, graph_text, input_names, single

REQUIREMENTS = ("numpy<1.24", "mxnet==1.9.1")
KINDS: dict[str, tuple[int, Build]] = {**cases_nn.KINDS, **cases_tensor.KINDS, **cases_rest.KINDS}
# Kinds whose cases mean the same in another floating type.
ANY_FLOAT = (*cases_nn.KINDS, "unary", "binary", "scalar", "reduction", "movement", "joining")
# MXNet fuses graphs for oneDNN by itself, wrongly where a convolution's result is used twice.
MXNET_SETTINGS = {"OMP_NUM_THREADS": "1", "MXNET_SUBGRAPH_BACKEND": "NONE"}
# The shape of their results depends on values: hybridized nets refuse them by name.
BY_VALUE = ("_contrib_boolean_mask",)
# Distributions' densities and proposals of boxes infer forwards only.
FORWARD_ONLY = ("_random_pdf_", "_contrib_Proposal", "_contrib_MultiProposal")
# Whose gradients are MXNet's own mistakes.
GRADIENT_QUIRKS = {"_image_to_tensor": "its gradient is not turned back, nor scaled"}
# MXNet's own code may support cases that oneDNN does not.
PLAIN_SETTINGS = {**MXNET_SETTINGS, "MXNET_MKLDNN_ENABLED": "0"}


@dataclass(frozen=True)
class Way:
    """One way to run a case with hybridjit."""

    target: str
    threads: int
    winograd: bool | str | None
    how: str = "compiled"  # or "eager", or "nd": the function of that name, for one operator

    def __str__(self) -> str:
        if self.how != "compiled":
            return self.how
        winograd = {None: "default", "always": "on", False: "off"}[self.winograd]
        return f"--target {self.target} --threads {self.threads} --winograd {winograd}"


@dataclass
class Report:
    """Findings, printed immediately."""

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
    if kind == "deconvolution" and "dilate" in case.symbol.tojson():
        dtype = "float32"  # in double precision MXNet's own code takes the stride for it
    if kind in ANY_FLOAT and dtype != "float32":
        case.inputs = {
            name: array.astype(dtype) if array.dtype == np.float32 else array
            for name, array in case.inputs.items()
        }
        if dtype == "float16":
            case.tolerance = 0.05 if kind == "reduction" else 5e-3
    return case


class Checker:
    """Runs cases on both sides, in one folder for their files."""

    def __init__(self, mxnet: str, ways: list[Way], report: Report, folder: Path) -> None:
        self.mxnet = Server(mxnet, "serve_mxnet.py", **MXNET_SETTINGS)
        self.plain = Server(mxnet, "serve_mxnet.py", **PLAIN_SETTINGS)
        self.ways = ways
        self.report = report
        self.folder = folder
        self.skipped: Counter[str] = Counter()
        self.refused = self.strict = 0
        self.operators: set[str] = set()
        self.layers: set[str] = set()
        self.ours = {
            (way.target, way.threads): Server(
                sys.executable, "serve_hybridjit.py", **_switches(way)
            )
            for way in ways
        }

    def stop(self) -> None:
        for server in (self.mxnet, self.plain, *self.ours.values()):
            server.stop()

    def case(self, seed: int, number: int, kind: str | None) -> None:
        """Draw one case, run it everywhere, report differences."""
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
        ways = [way for way in self.ways if way.how != "nd"]
        found = self._differences(ways, paths, theirs, case.tolerance)
        attrs = " ".join(f"{k}={v}" for k, v in case.symbol.list_attr().items())
        self._report(found, f"{kind} {case.symbol.name} {attrs}", replay)
        self._infer(draw, paths["symbol"], case.inputs, f"{kind} {case.symbol.name}", replay)

    def single(self, seed: int, number: int, name: str) -> None:
        """Draw one case of one operator, run it everywhere, report differences."""
        draw = Draw(seed, number)
        case = single(draw, name)
        replay = f"--seed {seed} --case {number} --operator {name}"
        self.report.cases += 1
        paths, names = self._write_single(case), input_names(case)
        theirs = self._theirs(paths)
        if isinstance(theirs, str) and not (case.is_mistaken and is_rule(theirs)):
            self.skipped[f"{name}: {theirs[:100]}"] += 1
            return
        values = case.has_values and not case.is_mistaken
        ways = [way for way in self.ways if name not in BY_VALUE or way.how != "compiled"]
        meaning = None if case.is_mistaken else case.meaning
        found = self._differences(ways, paths, theirs, case.tolerance, values, meaning)
        if isinstance(theirs, str):
            self.refused += 1
        elif case.is_mistaken and any(why.startswith("hybridjit refuses") for why in found):
            self.strict += 1  # MXNet reads whatever lies there
            return
        else:
            self.operators.add(name)
        self._report(found, str(case), replay)
        is_refused = isinstance(theirs, str)
        if not is_refused and not case.is_mistaken and not name.startswith(FORWARD_ONLY):
            self._infer(draw, paths["symbol"], dict(zip(names, case.arrays)), str(case), replay)

    def gradients(self, seed: int, number: int, name: str) -> None:
        """Draw one case of one operator, train it on both sides, report differences."""
        case = single(Draw(seed, number), name)
        if case.is_mistaken or not case.has_values or case.meaning is not None or _draws(case):
            return
        if name == "RNN" and case.attrs["mode"].startswith("rnn") and case.attrs["num_layers"] > 1:
            self.skipped[f"{name}: plain cells in layers, MXNet's gradients are no slopes"] += 1
            return
        if name in BY_VALUE:
            return
        if name in GRADIENT_QUIRKS:
            self.skipped[f"{name}: {GRADIENT_QUIRKS[name]}"] += 1
            return
        self.report.cases += 1
        request = {"do": "gradients", "seed": number, **self._write_single(case)}
        theirs = self.mxnet.ask(request, self.folder / "theirs.params")
        if isinstance(theirs, str):
            self.skipped[f"{name}: {theirs[:100]}"] += 1
            return
        self.operators.add(name)
        server = self.ours[self.ways[0].target, self.ways[0].threads]
        ours = server.ask(request, self.folder / "ours.params")
        why = compare(ours, theirs, max(10 * case.tolerance, 2e-4))
        if why:
            replay = f"--seed {seed} --case {number} --operator {name} --gradients"
            self.report.difference(f"gradients of {case}", why, replay)

    def layer(self, seed: int, number: int, name: str) -> None:
        """Draw one layer of gluon, build and call it everywhere, report differences."""
        case = LAYERS[name](Draw(seed, number), name)
        replay = f"--seed {seed} --case {number} --layer {name}"
        self.report.cases += 1
        request, out = self._write_layer(case, seed), self.folder / "theirs.params"
        theirs, facts = self.mxnet.ask_more(request, out)
        if isinstance(theirs, str):
            theirs, facts = self.plain.ask_more(request, out)
        if isinstance(theirs, str):
            self.skipped[f"{name}: {theirs[:100]}"] += 1
            return
        self.layers.add(name)
        found: dict[str, list[Way]] = {}
        for way in (way for way in self.ways if way.how != "nd"):
            server = self.ours[way.target, way.threads]
            ours, more = server.ask_more({**request, "how": way.how}, self.folder / "ours.params")
            why = compare(ours, theirs, case.tolerance)
            if not why and more != facts:
                why = f"it is {more}, MXNet has {facts}"
            if why:
                found.setdefault(why, []).append(way)
        self._report(found, str(case), replay)

    def _write_layer(self, case: LayerCase, seed: int) -> dict[str, Any]:
        names = [f"in{i}" for i in range(len(case.arrays))]
        path = str(self.folder / "case.params")
        params.save(path, dict(zip(names, case.arrays)))
        return {
            "do": "layer", "layer": case.layer, "call": case.call, "inputs": names,
            "arrays": path, "seed": seed, "steps": case.steps, "layout": case.layout,
            "merge": case.merge, "lengths": case.lengths,
        }  # fmt: skip

    def _infer(
        self, draw: Draw, symbol: str, arrays: dict[str, np.ndarray], what: str, replay: str
    ) -> None:
        """Inference from some of the inputs' shapes, partly unknown, and types."""
        shapes = {
            name: [0 if draw.chance(0.15) else size for size in array.shape]
            for name, array in arrays.items()
            if draw.chance(0.7) and array.shape
        }
        types = {name: a.dtype.name for name, a in arrays.items() if draw.chance(0.6)}
        request = {"do": "infer", "symbol": symbol, "shapes": shapes, "types": types}
        ours = next(iter(self.ours.values())).tell(request)
        why = compare_types_found(ours, self.mxnet.tell(request))
        if why:
            self.report.difference(f"{what} from {shapes} {types}", why, replay)

    def _theirs(self, paths: dict[str, str]) -> Answer:
        out = self.folder / "theirs.params"
        theirs = self.mxnet.ask({"do": "run", **paths}, out)
        return self.plain.ask({"do": "run", **paths}, out) if isinstance(theirs, str) else theirs

    def _differences(
        self, ways: list[Way], paths: dict[str, str], theirs: Answer, tolerance: float,
        has_values: bool = True, meaning: Meaning | None = None,
    ) -> dict[str, list[Way]]:  # fmt: skip
        """Differences, with the ways of running."""
        found: dict[str, list[Way]] = {}
        for way in ways:
            why = compare(self._run(way, paths), theirs, tolerance, has_values, meaning)
            if why:
                found.setdefault(why, []).append(way)
        return found

    def _report(self, found: dict[str, list[Way]], what: str, replay: str) -> None:
        for why, ways in found.items():
            more = f" and {len(ways) - 1} more of {len(self.ways)} ways" if len(ways) > 1 else ""
            switches = f" {ways[0]}" if ways[0].how == "compiled" else ""
            self.report.difference(f"{what} [{ways[0]}]{more}", why, replay + switches)

    def _run(self, way: Way, paths: dict[str, str]) -> Answer:
        request = {"do": "run", **paths, "how": way.how, "winograd": way.winograd}
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

    def _paths(self) -> dict[str, str]:
        return {k: str(self.folder / f"case.{k}") for k in ("symbol", "params", "inputs")}

    def _write_single(self, case: Single) -> dict[str, str]:
        paths = self._paths()
        Path(paths["symbol"]).write_text(graph_text(case))
        arrays = dict(zip(input_names(case), map(np.asarray, case.arrays)))
        arrays = arrays or {"in0": np.ones(1, np.float32)}
        aux = {f"aux:{name}": array for name, array in arrays.items() if name[:3] == "aux"}
        params.save(paths["params"], aux)
        params.save(paths["inputs"], {k: v for k, v in arrays.items() if k[:3] != "aux"})
        return paths

    def _write(self, case: Case, arrays: dict[str, np.ndarray]) -> dict[str, str]:
        paths = self._paths()
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


def _draws(case: Single) -> bool:
    """Whether the operator draws numbers in training."""
    op = lookup(case.op)
    used = op.traits.training(op.parse(case.texts)) if op.traits.training else None
    return op.is_random or (used is not None and used.is_random)


def _switches(way: Way) -> dict[str, str]:
    target = "" if way.target == "native" else way.target
    return {"HYBRIDJIT_TARGET": target, "HYBRIDJIT_NUM_THREADS": str(way.threads)}


def ways_of(options: argparse.Namespace) -> Iterator[Way]:
    """Eager and ``nd`` once, then every combination of the choices."""
    winograd = {"default": [None], "on": ["always"], "off": [False], "both": ["always", False]}
    targets = options.target.split(",")
    counts = [int(count) for count in options.threads.split(",")]
    yield Way(targets[0], counts[0], None, "eager")
    yield Way(targets[0], counts[0], None, "nd")
    if options.eager:
        return
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
    parser.add_argument("--kind", choices=sorted(KINDS), help="draw this kind of graph only")
    parser.add_argument("--operator", choices=sorted(OPERATORS), help="this operator only")
    parser.add_argument("--layer", choices=sorted(LAYERS), help="this layer of gluon only")
    parser.add_argument("--target", default="native", help="for example native,avx2,sse2")
    parser.add_argument("--threads", default="1", help="for example 1,2,3,4")
    parser.add_argument("--winograd", default="default", choices=["default", "on", "off", "both"])
    parser.add_argument("--gradients", action="store_true", help="train operators instead")
    parser.add_argument("--eager", action="store_true", help="compile nothing")
    parser.add_argument("--no-exports", action="store_true", help="random cases only")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = mxnet_python(options.mxnet_python, folder / "mxnet")
        given = f" --mxnet-python {python}" if options.mxnet_python else ""
        report = Report(f"python {sys.argv[0]}{given}")
        checker = Checker(python, list(ways_of(options)), report, folder)
        try:
            run(checker, options)
        finally:
            checker.stop()
    for why, count in checker.skipped.most_common(12):
        print(f"skipped {count}: {why}")
    print(f"{checker.skipped.total()} cases were skipped: MXNet has no answer on this machine")
    print(
        f"{checker.refused} mistakes that both refuse, {checker.strict} that hybridjit alone does"
    )
    print(f"{len(checker.operators)} of {len(OPERATORS)} operators on their own")
    print(f"{len(checker.layers)} of {len(LAYERS)} layers on their own")
    print(f"{report.cases} cases, {report.differences} differences")
    return 1 if report.differences else 0


def run(checker: Checker, options: argparse.Namespace) -> None:
    if options.case is not None:
        one(checker, options, options.case)
        return
    if not options.no_exports and not options.gradients:
        for net in export_all(checker.folder, options.seed):
            checker.export(net)
    start = time.monotonic()
    for number in range(options.cases):
        one(checker, options, number)
        if (number + 1) % 100 == 0:
            spent = time.monotonic() - start
            print(f"... {number + 1} cases in {spent:.0f} s", flush=True)


def one(checker: Checker, options: argparse.Namespace, number: int) -> None:
    """Odd numbers are the operators in turn, even ones graphs and the layers in turn."""
    if options.gradients:
        name = options.operator or OPERATORS[number % len(OPERATORS)]
        checker.gradients(options.seed, number, name)
        return
    is_free = options.operator is options.layer is options.kind is None
    if options.operator or (is_free and number % 2):
        name = options.operator or OPERATORS[number // 2 % len(OPERATORS)]
        checker.single(options.seed, number, name)
    elif options.layer or (is_free and number % 4 == 2):
        name = options.layer or list(LAYERS)[number // 4 % len(LAYERS)]
        checker.layer(options.seed, number, name)
    else:
        checker.case(options.seed, number, options.kind)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
