"""Train networks under many conditions: do gradients and parameters keep their bits?

    python tools/training_bits.py [--steps 10] [--optimizers sgd adam lamb] [--nets images rows]

Each network is trained on 1 to 4 threads with each optimizer, has its samples at each place of
batches of each size, and its arrays at each address modulo 64. A line for each; exit code 0 if all
bits are the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from bits_of_training import NETS, Net, after_steps, at_offset, of_sample  # noqa: E402
from hybridjit.runtime import executable  # noqa: E402

OPTIMIZERS = ("sgd", "nag", "adam", "rmsprop", "adagrad", "ftrl", "signum", "lamb")


def places_of(count: int) -> Iterator[list[int]]:
    """Batches of every size with sample 1 in every place."""
    others = [i for i in range(count) if i != 1]
    for size in range(1, count + 1):
        for place in range(size):
            yield [*others[:place], 1, *others[place : size - 1]]


def conditions(name: str, net: Net, steps: int, optimizers: list[str]) -> Iterator[tuple[str, int]]:
    """The variation, and the number of different results."""
    for optimizer in optimizers:
        found = {tuple(after_steps(net, count, steps, optimizer)) for count in (1, 2, 3, 4)}
        yield f"1 to 4 threads, {optimizer}, {steps} steps", len(found)
    if name == "plain":  # in the others samples depend on each other, or NumPy sums over them
        batches = [*places_of(net.shape[net.axis])]
        yield f"{len(batches)} places", len({of_sample(net, each, 1) for each in batches})
    yield "16 addresses", len({tuple(at_offset(net, offset)) for offset in range(0, 64, 4)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--optimizers", nargs="+", default=OPTIMIZERS)
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS))
    args = parser.parse_args()
    executable.WORTH_SHARING = 0  # small as they are, they run on all threads
    wrong = 0
    for name in args.nets:
        for what, count in conditions(name, NETS[name], args.steps, args.optimizers):
            print(f"{name}, {what}: {'the same bits' if count == 1 else f'{count} RESULTS'}")
            wrong += count > 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
