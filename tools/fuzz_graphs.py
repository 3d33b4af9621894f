"""Compile random graphs and compare them with the NumPy references.

    python tools/fuzz_graphs.py --seed 1000 --count 200      seeds 1000 to 1199
    python tools/fuzz_graphs.py --replay fuzz-cases/seed-1042.json

A graph that differs, or that fails to compile, is saved in ``--folder`` and the command that
replays it is printed. Exit code: 0 if all agree, 1 if not.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fuzz_cases import difference, read, save  # noqa: E402
from random_graphs import RandomGraph, random_graph  # noqa: E402


def verdict(case: RandomGraph) -> str:
    """What is wrong with a case, an exception included; empty if nothing is."""
    try:
        return difference(case)
    except Exception:
        return traceback.format_exc(limit=-4).strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many graphs")
    parser.add_argument("--replay", type=Path, help="a saved case to run instead")
    parser.add_argument("--folder", type=Path, default=Path("fuzz-cases"), help="for failures")
    arguments = parser.parse_args()
    if arguments.replay:
        wrong = verdict(read(arguments.replay))
        print(wrong or "agrees")
        return 1 if wrong else 0
    failures = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        case = random_graph(seed)
        wrong = verdict(case)
        if wrong:
            failures += 1
            path = save(case, arguments.folder)
            print(f"{wrong}\n  python tools/fuzz_graphs.py --replay {path}", flush=True)
    print(f"{arguments.count} graphs, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
