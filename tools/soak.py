"""Many signatures of one net, one after the other: does the process grow?

    python tools/soak.py --signatures 5000 [--seed 0]

Prints how much memory and how many mappings the process has gained since the first signatures
(which fill what is bounded), and fails when that is more than 30 MB, or any mapping. Objects are
not kept on disk: everything is compiled.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from pathlib import Path

from hybridjit import gluon, memory_stats, nd, override, threads

_MOST_BYTES = 30 << 20
_WARM_UP = 200


def make_net() -> gluon.nn.HybridSequential:
    """A kernel of each common kind: convolutions, pooling, a dense layer, softmax."""
    net = gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(gluon.nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=3))
        net.add(gluon.nn.MaxPool2D(2))
        net.add(gluon.nn.Conv2D(8, 1, in_channels=16))
        net.add(gluon.nn.GlobalAvgPool2D())
        net.add(gluon.nn.Dense(10, in_units=8))
        net.add(gluon.nn.HybridLambda("softmax"))
    net.initialize()
    return net


def shapes(seed: int) -> list[tuple[int, ...]]:
    """Distinct inputs in random order."""
    found = [(n, 3, h, w) for n in (1, 2, 3) for h in range(4, 46) for w in range(4, 46)]
    random.Random(seed).shuffle(found)
    return found


def mappings() -> int:
    try:
        return len(Path("/proc/self/maps").read_text().splitlines())
    except OSError:
        return 0


def soak(signatures: int, seed: int = 0) -> tuple[int, int]:
    """Bytes and mappings that the process gained after its warm-up."""
    net = make_net()
    net.hybridize()
    start = (0, 0)
    for number, shape in enumerate(shapes(seed)[: signatures + _WARM_UP]):
        if number == _WARM_UP:
            gc.collect()
            start = (memory_stats()["resident_bytes"], mappings())
        net(nd.ones(shape))
        if number % 500 == 0:
            print(number, memory_stats(), "mappings", mappings(), flush=True)
    gc.collect()
    return memory_stats()["resident_bytes"] - start[0], mappings() - start[1]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signatures", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    with override(cache_dir="off"), threads(1):
        grown, mapped = soak(args.signatures, args.seed)
    print(f"{args.signatures} signatures: {grown / 1e6:+.1f} MB, {mapped:+d} mappings")
    return 0 if grown <= _MOST_BYTES and mapped <= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
