"""Compile random graphs and compare them with the NumPy references.

    python tools/fuzz_graphs.py --seed 1000 --count 200      seeds 1000 to 1199
    python tools/fuzz_graphs.py --count 1000 --variants 4     4,000 graphs
    python tools/fuzz_graphs.py --count 1000 --gradients      forward and backward, as in training,
                                                              with frozen parameters and operators
                                                              of zero gradient
    python tools/fuzz_graphs.py --count 1000 --sizes          symbolic sizes beside fixed ones, bit
                                                              for bit; with --gradients too
    python tools/fuzz_graphs.py --count 1000 --int8           networks in 8 bits: the same bits for
                                                              all targets, threads and batches, and
                                                              the values of their definition; with
                                                              --sizes symbolic sizes beside fixed
    python tools/fuzz_graphs.py --count 1000 --numpy          operators of NumPy mode alone, shapes
                                                              without axes or elements, several
                                                              element types; with the others too
    python tools/fuzz_graphs.py --count 1000 --wide          many channels on maps of few pixels;
                                                              with --gradients and --sizes too
    python tools/fuzz_graphs.py --replay fuzz-cases/seed-1042.json

A graph that differs, or that fails to compile, is saved in ``--folder`` and the command that
replays it is printed. Exit code: 0 if all agree, 1 if not.

LLVM's optimiser is most of the time that a graph takes. So kernels stay for the graphs to come,
and fifteen of sixteen are compiled without it: the target are mistakes of this package.
``--optimised`` has all of them as users get them.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import sys
import time
import traceback
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from fuzz_cases import difference, read, save  # noqa: E402
from fuzz_gradients import gradient_difference  # noqa: E402
from fuzz_int8 import int8_difference  # noqa: E402
from fuzz_sizes import size_difference  # noqa: E402
from growing import Generator  # noqa: E402
from hybridjit._core.config import override  # noqa: E402
from hybridjit.codegen.emit import compile_pool  # noqa: E402
from hybridjit.codegen.llvm.jit import compile_object  # noqa: E402
from numpy_graphs import NumpyGenerator  # noqa: E402
from random_graphs import RandomGraph, random_graph  # noqa: E402
from random_int8 import random_int8  # noqa: E402
from wide_graphs import WideGenerator  # noqa: E402

REPORT = 200
OPTIMISED = 16  # one kernel in this number
KEPT = 12_000  # kernels; each is a few mappings of the 65,530 that Linux gives a process


class Shelf:
    """The kernels that were used last: they are there for the next graph that needs them."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kernels: OrderedDict[Any, Any] = OrderedDict()

    def keep(self, executable: Any) -> None:
        for spec, kernel in executable.code.kernels.items():
            self._kernels[spec] = kernel
            self._kernels.move_to_end(spec)
        while len(self._kernels) > self._most:
            self._kernels.popitem(last=False)


SHELF = Shelf()


def compile_mostly_quickly(
    text: str, target: Any, with_passes: bool = True, level: int = 3
) -> bytes:
    """One kernel of a few with LLVM's optimiser; always the same ones."""
    is_optimised = zlib.crc32(text.encode()) % OPTIMISED == 0
    return compile_object(text, target, with_passes and is_optimised, level if is_optimised else 0)


@dataclass(frozen=True)
class Comparison:
    """Graphs that are drawn, and the property that is compared."""

    gradients: bool = False
    sizes: bool = False
    int8: bool = False
    numpy: bool = False
    wide: bool = False

    def case(self, seed: int, variant: int) -> RandomGraph:
        if self.int8:
            return random_int8(seed, variant)
        kind = WideGenerator if self.wide else NumpyGenerator if self.numpy else Generator
        return random_graph(seed, variant, self.gradients, kind)

    def verdict(self, case: RandomGraph) -> str:
        """Error of a case, including exceptions; empty without an error."""
        try:
            if self.int8:
                return int8_difference(case, self.sizes, SHELF.keep)
            if self.sizes:
                return size_difference(case, self.gradients, SHELF.keep)
            return (gradient_difference if self.gradients else difference)(case, SHELF.keep)
        except Exception:
            return traceback.format_exc(limit=-4).strip()

    def __str__(self) -> str:
        """The options of the command."""
        return "".join(f" --{name}" for name, is_set in vars(self).items() if is_set)


@dataclass(frozen=True)
class Job:
    """Seeds from ``first`` to ``end`` - 1, each of them in ``variants``."""

    first: int
    end: int
    variants: int
    folder: Path
    is_optimised: bool
    comparison: Comparison


def run(job: Job) -> int:
    """Seeds one after the other; how many graphs are wrong."""
    faulthandler.enable(sys.__stderr__)
    if job.is_optimised:
        return _run_seeds(job)
    quick = {"compile_object": compile_mostly_quickly, "can_start_workers": lambda: False}
    as_it_was = {name: getattr(compile_pool, name) for name in quick}
    vars(compile_pool).update(quick)
    try:
        with override(cache_dir="off"):  # other processes must not get such code
            return _run_seeds(job)
    finally:
        vars(compile_pool).update(as_it_was)


def _run_seeds(job: Job) -> int:
    failures, start = 0, time.monotonic()
    for seed in range(job.first, job.end):
        for variant in range(job.variants):
            case = job.comparison.case(seed, variant)
            wrong = job.comparison.verdict(case)
            if wrong:
                failures += 1
                replay = f"python tools/fuzz_graphs.py --replay {save(case, job.folder)}"
                print(f"{wrong}\n  {replay}{job.comparison}", flush=True)
        done = (seed + 1 - job.first) * job.variants
        if done % REPORT < job.variants or seed + 1 == job.end:
            took = time.monotonic() - start
            print(f"seeds {job.first}..{seed}: {done} graphs, {failures} wrong, {took:.0f} s",
                  flush=True)  # fmt: skip
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--variants", type=int, default=1, help="graphs of each seed")
    parser.add_argument("--gradients", action="store_true", help="train them: forward and backward")
    parser.add_argument("--sizes", action="store_true", help="symbolic sizes beside fixed ones")
    parser.add_argument("--int8", action="store_true", help="networks in 8 bits")
    parser.add_argument("--numpy", action="store_true", help="operators of NumPy mode alone")
    parser.add_argument("--wide", action="store_true", help="many channels on few pixels")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--optimised", action="store_true", help="LLVM's optimiser for all kernels")
    parser.add_argument("--replay", type=Path, help="a saved case to run instead")
    parser.add_argument("--folder", type=Path, default=Path("fuzz-cases"), help="for failures")
    arguments = parser.parse_args()
    if arguments.gradients and arguments.int8:
        parser.error("a network in 8 bits is not trained: give --gradients or --int8")
    comparison = Comparison(**{name: getattr(arguments, name) for name in vars(Comparison())})
    if arguments.replay:
        wrong = comparison.verdict(read(arguments.replay))
        print(wrong or "agrees")
        return 1 if wrong else 0
    share = -(-arguments.count // arguments.processes)
    end = arguments.seed + arguments.count
    how = arguments.variants, arguments.folder, arguments.optimised, comparison
    jobs = [
        Job(first, min(first + share, end), *how) for first in range(arguments.seed, end, share)
    ]
    if len(jobs) == 1:
        failures = run(jobs[0])
    else:
        with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
            failures = sum(pool.map(run, jobs))
    print(f"{arguments.count * arguments.variants} graphs, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
