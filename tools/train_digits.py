"""The losses of the digits network beside MXNet's, for every recorded optimizer and schedule.

    python tools/train_digits.py              all 23 runs of 44 steps, eager and compiled
    python tools/train_digits.py adam lamb    these alone

Prints for each run the largest difference relative to the tolerance: 1e-5 of the loss, and 20 times
the difference of MXNet with oneDNN from MXNet without it. Exit code: 1 if one is above 1 before the
step from which the sign of a rounding decides (``KINKS`` in ``test_digits_training.py``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from test_digits_training import KINKS, LOSSES, RUNS, losses, share_of_bound  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="runs; all of them where none is named")
    names = parser.parse_args(arguments).names or list(RUNS)
    if unknown := [name for name in names if name not in RUNS]:
        parser.error(f"no run is called {unknown[0]}; there are {', '.join(RUNS)}")
    held = [_holds(name, hybrid) for name in names for hybrid in (False, True)]
    sys.exit(0 if all(held) else 1)


def _holds(name: str, hybrid: bool) -> bool:
    """Print one run; whether it is within its bound as long as it can be."""
    found = losses(name, len(LOSSES[name]), hybrid)
    steps = KINKS.get(name, len(found))
    share, whole = share_of_bound(name, found[:steps]), share_of_bound(name, found)
    way = "compiled" if hybrid else "eager"
    later = f", {whole:.3g} behind a kink at step {steps}" if name in KINKS else ""
    print(f"{name:28} {way:9} {share:.3f} of the bound{later}", flush=True)
    return share < 1


if __name__ == "__main__":
    main()
