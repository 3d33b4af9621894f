"""Recorded graphs at sizes that vary: bits beside those of specialised executables, compilations.

    python tools/recorded_sizes.py                       the graphs of tests/fixtures
    python tools/recorded_sizes.py --gradients conv      gradients of graphs whose names have "conv"
    python tools/recorded_sizes.py --folder FOLDER       other graphs: NAME-symbol.json, -io.npz
    python tools/recorded_sizes.py --onnx FILE ...       ONNX files of one input, beside each an
                                                         .npz with an input ``x``, an output ``y``

Each axis that a graph leaves open has five sizes; see ``tests/support/sized_records.py``. Prints
each difference, and each axis that needs a compilation for each size. Exit code: 0 if all bits are
equal.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from hybridjit._core.config import config  # noqa: E402
from sized_records import FOLDERS, Outcome, cases, file_outcomes, outcomes, read  # noqa: E402

Work = tuple[str, Callable[[], Iterator[Outcome]]]


def recorded(folders: Sequence[Path], gradients: bool) -> Iterator[Work]:
    """Name and comparisons of each recorded graph."""
    for folder, name, inputs in cases(folders):
        yield name, lambda f=folder, n=name, i=inputs: outcomes(read(f, n, i), gradients)


def files(paths: Sequence[Path]) -> Iterator[Work]:
    """Name and comparisons of each ONNX file."""
    for path in paths:
        yield path.stem, lambda p=path: file_outcomes(p)


def report(name: str, compare: Callable[[], Iterator[Outcome]]) -> tuple[int, int]:
    """Print differences and constant axes of one graph; the numbers of axes and differences."""
    axes = wrong = 0
    try:
        for found in compare():
            axes += 1
            if found.difference:
                wrong += 1
                print(f"{name}: {found.axes}: {found.difference}", flush=True)
            elif found.is_constant:
                print(f"{name}: {found.axes} is a constant", flush=True)
    except Exception:
        wrong += 1
        print(f"{name}: {traceback.format_exc(limit=-4).strip()}", flush=True)
    return axes, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="", help="part of the names of the graphs")
    parser.add_argument("--folder", type=Path, action="append", help="folder with cases.json")
    parser.add_argument("--onnx", type=Path, nargs="+", default=[], help="ONNX files instead")
    parser.add_argument("--gradients", action="store_true", help="compare gradients too")
    args = parser.parse_args(arguments)
    config.cache_dir = "off"
    axes = wrong = 0
    folders = args.folder or FOLDERS
    for name, compare in files(args.onnx) if args.onnx else recorded(folders, args.gradients):
        if args.part in name:
            more, bad = report(name, compare)
            axes, wrong = axes + more, wrong + bad
    print(f"{axes} open axes, {wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
