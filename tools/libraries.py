"""Networks as C libraries beside the networks themselves: bits, start, speed, sizes.

    python tools/libraries.py --models DIR                 all DIR/NAME-symbol.json
    python tools/libraries.py --models DIR lenet resnet50  some of them
    python tools/libraries.py --models DIR --threads 2

Compiles each with mapped weights, compares a call's bits with ``net(x)``, and measures in a C
program how long loading the library, making a context and the first call take together, by the
clock and of the processor's time; then later calls in pairs with ``net.bind``: the processor's time
for both, and the median of their ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import hybridjit
from hybridjit import nd
from hybridjit._core.text_table import table
from hybridjit.cli import main as command
from hybridjit.errors import MXNetError

PROGRAM = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef struct { void *data; size_t bytes; } array;
typedef int (*init_function)(void **, const char *, int);
typedef int (*run_function)(void *, array *, array *, int64_t, void *, size_t);
static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}
/* LIBRARY NAME WEIGHTS INPUT BYTES BYTES THREADS REPEATS */
int main(int argc, char **argv)
{
    array in = {malloc(strtoul(argv[5], 0, 10)), strtoul(argv[5], 0, 10)};
    array out = {malloc(strtoul(argv[6], 0, 10)), strtoul(argv[6], 0, 10)};
    FILE *file = fopen(argv[4], "rb");
    if (argc != 9 || fread(in.data, 1, in.bytes, file) != in.bytes)
        return 100;
    int repeats = atoi(argv[8]);
    char init[200], run[200];
    void *context;
    double start = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    void *library = dlopen(argv[1], RTLD_NOW);
    snprintf(init, sizeof init, "%s_init", argv[2]);
    snprintf(run, sizeof run, "%s_run", argv[2]);
    init_function made = (init_function)dlsym(library, init);
    run_function ran = (run_function)dlsym(library, run);
    int code = made(&context, argv[3], atoi(argv[7]));
    if (code == 0)
        code = ran(context, &in, &out, 1, NULL, 0);
    printf("%f %f ", now(CLOCK_MONOTONIC) - start, now(CLOCK_PROCESS_CPUTIME_ID) - used);
    ran(context, &in, &out, 1, NULL, 0);
    used = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < repeats; i++)
        ran(context, &in, &out, 1, NULL, 0);
    printf("%f\\n", (now(CLOCK_PROCESS_CPUTIME_ID) - used) / repeats);
    return code;
}
"""
ROUNDS = 9


def build(stem: Path, folder: Path, shape: tuple[int, ...], threads: int) -> Path:
    """A library with its weights in a file; the path without an ending."""
    sizes = ",".join(map(str, shape))
    words = ["compile", str(stem), "--shape", f"data={sizes}", "--library", str(folder)]
    with contextlib.redirect_stdout(io.StringIO()):
        code = command([*words, "--weights", "file", *(["--threads"] if threads > 1 else [])])
    if code:
        raise MXNetError(f"{stem.name}: no library")
    return folder / stem.name.replace(".", "_")


def program(folder: Path) -> Path:
    """The C program."""
    source, made = folder / "program.c", folder / "program"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-O1", str(source), "-o", str(made), "-ldl"], check=True)
    return made


class InC:
    """A library's network in the C program: each call is a process."""

    def __init__(self, path: Path, x: np.ndarray, nbytes: int, threads: int) -> None:
        given = path.with_suffix(".in")
        x.tofile(given)
        files = [program(path.parent), f"{path}.so", path.name, f"{path}.weights", given]
        self._words = [str(word) for word in (*files, x.nbytes, nbytes, threads)]

    def __call__(self, repeats: int) -> list[float]:
        """Milliseconds: to the first result, by the clock and the processor's; a later call."""
        done = subprocess.run(
            [*self._words, str(repeats)], capture_output=True, text=True, check=True
        )
        return [float(word) for word in done.stdout.split()]


def cpu_time(call: Callable[[], object], repeats: int) -> float:
    """The processor's milliseconds for a call, all threads of the process together."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return 1e3 * (time.process_time() - start) / repeats


def in_pairs(ours: InC, theirs: Callable[[], object]) -> list[float]:
    """The least times to the first result; medians of a call of both, and of their ratios."""
    theirs()
    repeats = max(2, int(60 / max(1e-3, cpu_time(theirs, 3))))
    rounds = []
    for _ in range(ROUNDS):
        before = cpu_time(theirs, repeats)
        wall, used, call = ours(repeats)
        beside = (before + cpu_time(theirs, repeats)) / 2
        rounds.append((wall, used, call, beside, call / beside))
    walls, used_times, *others = zip(*rounds)
    return [min(walls), min(used_times), *map(statistics.median, others)]


def measured(stem: Path, threads: int) -> list[str]:
    """A row of the table."""
    with np.load(f"{stem}-io.npz") as arrays:
        x = arrays["x"]
    net = hybridjit.load(str(stem))
    net.hybridize()
    wanted = net(nd.array(x, dtype=x.dtype))
    with tempfile.TemporaryDirectory() as name, hybridjit.threads(threads):
        folder = Path(name)
        path = build(stem, folder, x.shape, threads)
        loaded = hybridjit.library.load(f"{path}.so", threads=threads)
        given = x.astype(loaded.dtypes[0])
        same = np.array_equal(loaded(given), wanted.asnumpy())
        bound = net.bind(nd.array(x, dtype=x.dtype), out=wanted)
        ours = InC(path, given, wanted.asnumpy().nbytes, threads)
        wall, used, call, beside, ratio = in_pairs(ours, bound)
        code, weights = (Path(f"{path}.{e}").stat().st_size for e in ("so", "weights"))
    return [
        stem.name,
        "same" if same else "OTHER",
        f"{wall:.2f}",
        f"{used:.2f}",
        f"{call:.4f}",
        f"{beside:.4f}",
        f"{ratio:.3f}",
        f"{code / 1e3:.0f}",
        f"{weights / 1e6:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    found = sorted(p.name.removesuffix("-symbol.json") for p in args.models.glob("*-symbol.json"))
    head = ["network", "bits", "first ms", "of CPU", "call ms", "bind ms", "ratio", "kB", "MB"]
    rows = []
    for name in args.names or found:
        rows.append(measured(args.models / name, args.threads))
        print(*rows[-1], flush=True)
    print(table(rows, head))


if __name__ == "__main__":
    main()
