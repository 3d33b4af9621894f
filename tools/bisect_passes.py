"""Find the pass that makes a saved graph wrong.

    python tools/bisect_passes.py fuzz-cases/seed-1042.json

Runs the case with passes and kernel choices left out (HYBRIDJIT_SKIP): first with all of them,
then each by itself. The guilty one is that without which the case agrees. Exit code: 0 if the case
agrees as it is, 1 if a guilty one was found, 2 if leaving out none of them helps.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]

from fuzz_cases import read  # noqa: E402
from fuzz_graphs import Comparison  # noqa: E402
from hybridjit._core.config import override  # noqa: E402
from hybridjit.compiler import CHOICES  # noqa: E402
from hybridjit.verification import THREADS, find_culprits  # noqa: E402
from random_graphs import RandomGraph  # noqa: E402


def without(case: RandomGraph, *names: str) -> str:
    """The error of the case without these passes or choices."""
    with override(skip=names):
        return Comparison().verdict(case)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", type=Path, help="the JSON file of a saved case")
    case = read(parser.parse_args().case)
    wrong = without(case)
    if not wrong:
        print("agrees as it is")
        return 0
    print(f"as it is: {wrong}")
    rest = without(case, *CHOICES)
    print(f"without {', '.join(CHOICES)}: {rest or 'agrees'}")
    found = list(find_culprits(lambda: not Comparison().verdict(case)))
    for name in found:
        how = "NUM_THREADS=1" if name == THREADS else f"SKIP={name}"
        print(f"guilty: {name}; without it the case agrees (HYBRIDJIT_{how})")
    if not found and rest:
        print("none of them: look at the kernels (HYBRIDJIT_CHECK=1)")
    return 1 if found or not rest else 2


if __name__ == "__main__":
    sys.exit(main())
