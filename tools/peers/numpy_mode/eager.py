"""Eager calls of NumPy mode beside the classic calls of the same purpose, in turns, in one process.

Each line of ``eager.txt`` is ``NumPy mode | classic``. Prints the ratio and the CPU microseconds of
both, the minimum of the rounds; ``*`` marks ratios above the limit.
"""

import argparse
import contextlib
import gc
import math
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from turns import bound_threads


def names(mx, side, is_recorded):
    """What the calls refer to; ``x_`` is the classic array of ``x``, ``o`` one for results."""
    import numpy

    random = numpy.random.RandomState(0)
    values, positive = random.normal(size=(side, side)), random.uniform(0.5, 2, (side, side))
    arrays = {
        "x": values,
        "y": positive,
        "row": values[:1],
        "thin": values[:, None],
        "w": positive[0],
    }
    arrays |= {"images": values[None, None], "batch": values[None], "mask": values > 0}
    integers = {"at": random.randint(0, side, 5), "one": random.randint(0, side, side)}
    integers["pairs"] = random.randint(0, side, (2, 5))
    found = {"np": mx.np, "npx": mx.npx, "nd": mx.nd, "cpu": mx.cpu(), "side": side}
    found |= {"s": (side, side), "n": side * side, "raw": values.astype("float32")}
    for some, dtype in ((arrays, "float32"), (integers, "int32")):
        for name, value in some.items():
            found[name] = mx.np.array(value, dtype=dtype)
            found[name + "_"] = mx.nd.array(value, dtype=dtype)
            if is_recorded and dtype == "float32":
                found[name].attach_grad()
                found[name + "_"].attach_grad()
    found["o"], found["o_"] = mx.np.zeros((side, side)), mx.nd.zeros((side, side))
    found["mask"] = found["mask"] > 0
    return found


def repeated(call, found):
    """Function that makes the call as often as its argument says."""
    assigned = "x_" if "_" in call else "x"
    text = f"def run(times):\n    global {assigned}\n    for _ in range(times):\n        {call}\n"
    made = dict(found)
    exec(text, made)
    return made["run"]


def cpu_seconds(run, times):
    start = time.process_time()
    run(times)
    return time.process_time() - start


def best_of(runs, rounds, seconds):
    """Least CPU seconds of one call, for each of the functions, which take turns."""
    times = []
    for run in runs:
        run(3)
        times.append(max(1, int(seconds / max(cpu_seconds(run, 20) / 20, 1e-8))))
    best = [math.inf] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            best[i] = min(best[i], cpu_seconds(run, times[i]) / times[i])
    return best


def taken_by(call, found, error):
    """Whether the call can be recorded: MXNet refuses to assign to recorded arrays."""
    try:
        repeated(call, found)(3)
    except error:
        return False
    return True


def timed(mx, calls, side, options):
    """Least CPU seconds of each call; NaN where they cannot be recorded."""
    found = [names(mx, side, options.record) for _ in calls]
    with mx.autograd.record() if options.record else contextlib.nullcontext():
        if options.record and not all(map(taken_by, calls, found, [mx.MXNetError] * 2)):
            return math.nan, math.nan
        runs = [repeated(call, some) for call, some in zip(calls, found)]
        return best_of(runs, options.rounds, options.seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sides", nargs="+", type=int, default=[10, 100], help="of the matrices")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=0.001, help="per call and round")
    parser.add_argument("--limit", type=float, default=1.1)
    parser.add_argument("--record", action="store_true", help="calls under autograd.record()")
    parser.add_argument("--match", default="", help="only lines with this text")
    options = parser.parse_args()
    bound_threads(1)
    import hybridjit as mx

    gc.disable()
    ratios = []
    for line in (Path(__file__).parent / "eager.txt").read_text().splitlines():
        for side in options.sides if options.match in line else ():
            ours, classic = timed(mx, line.split(" | "), side, options)
            if math.isnan(ours):
                continue
            ratios.append(ours / classic)
            mark = "*" if ratios[-1] > options.limit else " "
            figures = f"{ratios[-1]:5.2f} {ours * 1e6:8.2f} {classic * 1e6:8.2f} us"
            print(f"{mark} {figures} {side:4} {line}", flush=True)
    above = sum(ratio > options.limit for ratio in ratios)
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.3f}, {above} of {len(ratios)} above {options.limit}")


if __name__ == "__main__":
    main()
