"""Compile random graphs and compare them with the NumPy references.

    python tools/fuzz_graphs.py --seed 1000 --count 200      seeds 1000 to 1199
    python tools/fuzz_graphs.py --replay fuzz-cases/seed-1042.json

A graph that differs, or that fails to compile, is saved in ``--folder`` and the command that
replays it is printed. Exit code: 0 if all agree, 1 if not.

LLVM's optimiser is most of the time that a graph takes. So kernels stay for the graphs to come,
and fifteen of sixteen are compiled without it: what is looked for are mistakes of this package.
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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fuzz_cases import difference, read, save  # noqa: E402
from hybridjit.codegen import crew  # noqa: E402
from hybridjit.codegen.jit import compile_object  # noqa: E402
from hybridjit.config import override  # noqa: E402
from random_graphs import RandomGraph, random_graph  # noqa: E402

REPORT = 200
OPTIMISED = 16  # one kernel of so many
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


def compile_mostly_quickly(text: str, target: Any, with_passes: bool = True) -> bytes:
    """One kernel of a few with LLVM's optimiser; always the same ones."""
    is_optimised = zlib.crc32(text.encode()) % OPTIMISED == 0
    return compile_object(text, target, with_passes and is_optimised, 3 if is_optimised else 0)


def verdict(case: RandomGraph) -> str:
    """What is wrong with a case, an exception included; empty if nothing is."""
    try:
        return difference(case, SHELF.keep)
    except Exception:
        return traceback.format_exc(limit=-4).strip()


def run(job: tuple[int, int, Path, bool]) -> int:
    """Seeds one after the other; how many are wrong."""
    first, count, folder, is_optimised = job
    faulthandler.enable(sys.__stderr__)
    if is_optimised:
        return _run_seeds(first, count, folder)
    as_it_was = crew.compile_object, crew.can_start_workers
    crew.compile_object, crew.can_start_workers = compile_mostly_quickly, lambda: False
    try:
        with override(cache_dir="off"):  # nobody else is to have such code
            return _run_seeds(first, count, folder)
    finally:
        crew.compile_object, crew.can_start_workers = as_it_was


def _run_seeds(first: int, count: int, folder: Path) -> int:
    failures, start = 0, time.monotonic()
    for done, seed in enumerate(range(first, first + count), 1):
        case = random_graph(seed)
        wrong = verdict(case)
        if wrong:
            failures += 1
            path = save(case, folder)
            print(f"{wrong}\n  python tools/fuzz_graphs.py --replay {path}", flush=True)
        if done % REPORT == 0 or done == count:
            took = time.monotonic() - start
            print(f"seeds {first}..{seed}: {failures} wrong, {took:.0f} s", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many graphs")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--optimised", action="store_true", help="LLVM's optimiser for all kernels")
    parser.add_argument("--replay", type=Path, help="a saved case to run instead")
    parser.add_argument("--folder", type=Path, default=Path("fuzz-cases"), help="for failures")
    arguments = parser.parse_args()
    if arguments.replay:
        wrong = verdict(read(arguments.replay))
        print(wrong or "agrees")
        return 1 if wrong else 0
    share = -(-arguments.count // arguments.processes)
    end = arguments.seed + arguments.count
    jobs = [
        (first, min(share, end - first), arguments.folder, arguments.optimised)
        for first in range(arguments.seed, end, share)
    ]
    if len(jobs) == 1:
        failures = run(jobs[0])
    else:
        with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
            failures = sum(pool.map(run, jobs))
    print(f"{arguments.count} graphs, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
