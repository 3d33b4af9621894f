"""Time ONNX files on hybridjit and on ONNX Runtime, in turns, with one thread.

    python tools/onnx_speed.py                  the files of tests/fixtures/pytorch
    python tools/onnx_speed.py a.onnx b.onnx    others, whose inputs stand beside them as x in .npz

Needs the package onnxruntime. Prints for each the CPU time of a call in milliseconds (the median
of the rounds), the largest difference of the outputs in deviations of ONNX Runtime's, and the
median of the rounds' ratios; of these the mean. Exit code: 1 where the mean is above 0.9 or an
output is further off than 1e-4, else 0.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy reads it

import numpy as np
import onnxruntime

import hybridjit as mx
from hybridjit import nd
from onnx_roundtrip import PYTORCH, TOLERANCE, gap

MOST = 0.9
_ROUND = 0.02  # seconds of calls in a round of one engine, at least
_WARM = 20  # calls that are not counted


class Row(NamedTuple):
    """Results of a file: milliseconds of both engines, their ratio, difference of outputs."""

    ours: float
    theirs: float
    ratio: float
    off: float


def measure(file: Path, rounds: int) -> Row:
    """Time a file's network on its input."""
    x = np.load(file.with_suffix(".npz"))["x"]
    net, array = mx.onnx.load(file), nd.array(x, dtype=x.dtype)
    session = _session(file)
    given = {session.get_inputs()[0].name: x}
    calls = (lambda: net(array), lambda: session.run(None, given))
    (right,) = calls[1]()
    off = gap([calls[0]().asnumpy()], [right])
    for call in calls:
        _seconds(call, _WARM)
    count = max(5, int(_ROUND / _seconds(calls[1], _WARM)))
    times = np.array([[_seconds(call, count) for call in calls] for _ in range(rounds)])
    ours, theirs = np.median(times, axis=0) * 1e3
    return Row(ours, theirs, float(np.median(times[:, 0] / times[:, 1])), off)


def _session(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _seconds(call: Callable[[], object], count: int) -> float:
    """CPU time of a call."""
    begin = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begin) / count


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    mx.set_num_threads(1)
    rows = []
    print("| file | hybridjit, ms | ONNX Runtime, ms | ratio | off by |\n|---|---|---|---|---|")
    for file in options.files or sorted(PYTORCH.glob("*.onnx")):
        rows.append(row := measure(file, options.rounds))
        print(
            f"| {file.stem} | {row.ours:.4f} | {row.theirs:.4f} | {row.ratio:.2f} | {row.off:.1g} |"
        )
    mean = np.mean([row.ratio for row in rows])
    print(f"mean ratio {mean:.2f} (ONNX Runtime {onnxruntime.__version__})")
    return 0 if mean <= MOST and all(row.off <= TOLERANCE for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
