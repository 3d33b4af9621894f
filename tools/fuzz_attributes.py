"""Change attributes; compile the graph, and compare with NumPy.

    python tools/fuzz_attributes.py --count 10000            cases 0 to 9999 of each kind
    python tools/fuzz_attributes.py --kind graphs            of one kind alone
    python tools/fuzz_attributes.py --replay 4711            one case of each, with its graph

``graphs`` are graphs that MXNet wrote; ``operators`` are single calls of every operator, with many
dimensions, huge and tiny numbers, counts of a thousand million. Only documented exceptions may come
out, memory and time are bounded, and results must agree. Exit code: 0 if all cases do, 1 if one
does not.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import mutants  # noqa: E402
import operator_cases  # noqa: E402
from watched import run_watched  # noqa: E402


def of_operator(number: int) -> tuple[str, bool]:
    case = operator_cases.attribute_case(number)
    wrong, ran = operator_cases.verdict(case, at_end=number % 2 == 0)
    return (f"{case}\n  {wrong}" if wrong else ""), ran


VERDICTS = {"graphs": mutants.verdict, "operators": of_operator}
TEXTS = {"graphs": mutants.mutant_text, "operators": operator_cases.attribute_case}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=1000, help="how many of each kind")
    parser.add_argument("--kind", choices=VERDICTS, help="graphs or operators, instead of both")
    parser.add_argument("--replay", type=int, metavar="CASE", help="one case instead")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds = [args.kind] if args.kind else list(VERDICTS)
    wrong = 0
    for kind in kinds:
        if args.replay is None:
            replay = f"python tools/fuzz_attributes.py --kind {kind} --replay"
            wrong += run_watched(VERDICTS[kind], args.seed, args.count, replay)
        else:
            print(TEXTS[kind](args.replay))
            print(VERDICTS[kind](args.replay)[0] or "agrees, or is refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
