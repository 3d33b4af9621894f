"""Call every operator with hostile numbers in its arrays, by NumPy and compiled in fenced memory.

    python tools/fuzz_data.py --count 100000            cases 0 to 99999
    python tools/fuzz_data.py --replay 4711             one case

Coordinates, indices and lengths are NaN, infinite, huge, negative; axes are empty. The outcome
is a documented exception, or the same both ways; nothing outside a buffer is touched and every case
ends. Exit code: 0 if all cases are so, 1 if one is not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from operator_cases import data_case, verdict  # noqa: E402
from watched import run_watched  # noqa: E402


def judged(number: int) -> tuple[str, bool]:
    case = data_case(number)
    wrong, ran = verdict(case, at_end=number % 2 == 0)
    return (f"{case}\n  {wrong}" if wrong else ""), ran


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=1000, help="how many")
    parser.add_argument("--replay", type=int, metavar="CASE", help="one case instead")
    args = parser.parse_args()
    if args.replay is None:
        replay = "python tools/fuzz_data.py --replay"
        return 1 if run_watched(judged, args.seed, args.count, replay) else 0
    print(data_case(args.replay))
    print(judged(args.replay)[0] or "agrees, or is refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
