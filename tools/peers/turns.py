"""Engines that take turns, each in a separate process: both sides of the conversation.

A process prints one JSON line about its first call; then, for each line N on its standard input,
it runs N times and prints the JSON list of seconds per run. Only the standard library is used
here: no environment has more in common with the others.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

# The side of an engine


def bound_threads(threads):
    """To be called before NumPy is imported: its BLAS reads the environment then."""
    for variable in ("OMP_NUM_THREADS", "HYBRIDJIT_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)


def clock_for(threads):
    """CPU time with one thread, which other programs do not prolong; else elapsed time."""
    return time.process_time if int(threads) == 1 else time.perf_counter


def serve(run, clock=time.perf_counter, **found):
    """Report the first result and its memory; then run as often as requested."""
    found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found), flush=True)
    for line in sys.stdin:
        print(json.dumps([timed(run, clock) for _ in range(int(line))]), flush=True)


def timed(run, clock):
    start = clock()
    run()
    return clock() - start


# The side of a comparison


def parser(description, nets, engines, rounds, seconds):
    """The options that all comparisons have, with these defaults."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("dir", type=Path, help="the folder that setup.sh made")
    made.add_argument("--nets", nargs="+", default=nets)
    made.add_argument("--engines", nargs="+", default=engines)
    made.add_argument("--threads", nargs="+", type=int, default=[1])
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--seconds", type=float, default=seconds, help="per engine and round")
    made.add_argument("--python", default=sys.executable, help="interpreter with hybridjit")
    made.add_argument("--json", type=Path, help="also write all figures here")
    return made


def read_options(parser):
    options = parser.parse_args()
    options.dir = options.dir.resolve()
    compile_bytes(options.python)
    return options


BYTES = """
import compileall, importlib.util
compileall.compile_dir(importlib.util.find_spec("hybridjit").submodule_search_locations[0], quiet=2)
"""


def compile_bytes(python):
    """Byte code of hybridjit, as pip makes it at installation, also for the other engines.

    A checkout has none where PYTHONDONTWRITEBYTECODE is set: each start then reads the source, 0.3
    of the 0.9 s that a transformer takes until its first step has ended.
    """
    subprocess.run([python, "-c", BYTES], check=True)


def write_figures(options, rows):
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


class Engine:
    """One engine's process; ``count`` runs take about as long as was asked for."""

    def __init__(self, command, seconds):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            raise RuntimeError(line + self.process.stderr.read()[-600:])
        self.info = json.loads(line)
        once = statistics.median(self.run(3))
        self.count = max(1, min(20000, int(seconds / once)))

    def run(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def take_turns(commands, rounds, seconds):
    """Each engine's median of every round, and its own measurement with the median of those.

    ``commands`` has a command by the name of each engine. One that does not start is left out.
    """
    engines = started(commands, seconds)
    medians = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            medians[name].append(statistics.median(engine.run(engine.count)))
    said = {}
    for name, engine in engines.items():
        said[name] = dict(ms=1e3 * statistics.median(medians[name]), **engine.info)
        engine.close()
    return medians, said


def started(commands, seconds):
    engines = {}
    for name, command in commands.items():
        try:
            engines[name] = Engine(command, seconds)
        except (OSError, RuntimeError) as error:
            print(f"  left out: {name}: {error}", file=sys.stderr)
    return engines


def ratio_to_best(medians, ours, others):
    """The ratio to the fastest of the others in the same rounds; empty without both sides."""
    others = [name for name in others if name in medians]
    if ours not in medians or not others:
        return {}
    best = min(others, key=lambda name: statistics.median(medians[name]))
    pairs = sorted(a / b for a, b in zip(medians[ours], medians[best]))
    return {"best": best, "ratio": statistics.median(pairs), "low": pairs[0], "high": pairs[-1]}


def ratio_text(found, what="ratio"):
    """Such as "ratio 0.82 [0.80-0.85] to openvino-f32"; empty for no ratio."""
    if not found:
        return ""
    spread = f"[{found['low']:.2f}-{found['high']:.2f}]"
    return f"{what} {found['ratio']:.2f} {spread} to {found['best']}  "


def mean_text(rows, key):
    """The geometric mean of the rows' ratios; None for rows without."""
    ratios = [row[key]["ratio"] for row in rows if row.get(key)]
    return f"{statistics.geometric_mean(ratios):.3f}" if ratios else None
