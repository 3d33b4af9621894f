"""Read millions of hostile files and hold the readers to their promises.

    python tools/fuzz_files.py params --count 5000000           cases 0 to 4999999
    python tools/fuzz_files.py json --seed 7000000 --count 100000 --processes 2
    python tools/fuzz_files.py json --replay 7000042
    python tools/fuzz_files.py params --near FILE ...           every prefix of real files, and
                                                                --count mutations of each

Formats are ``params``, ``json``, ``onnx``, ``objects`` (cached machine code) and ``special`` (array
and graph files under names that may hold anything: pipes, devices, folders). A case that breaks a
promise is printed with the command that replays it. Exit code: 0 if none does, 1 if one does.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import random
import resource
import sys
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from hostile import mutated, mutated_bytes, mutated_graph, mutated_letters, spans  # noqa: E402
from reading import FORMATS, MEMORY, Bounds, Data, address_space  # noqa: E402

TRACED = 500  # one case of this number is traced to the byte; the others are bounded by the process
REPORT = 100_000
FINDINGS = 20  # number of findings after which a run ends

Cases = Iterable[tuple[str, Data]]  # command that replays it, and the file


def check(read: Callable[[Data], object], cases: Cases, every: int, name: str) -> int:
    """Read all cases; how many break a promise. Says how far it is."""
    bounds, found, start = Bounds(read), 0, time.monotonic()
    number = 0
    for number, (where, data) in enumerate(cases, 1):
        bounds.traced = number % every == 0
        try:
            bounds(data)
        except Exception:
            found += 1
            print(f"{where}\n{traceback.format_exc(limit=-3)}", flush=True)
            if found == FINDINGS:
                break
        if number % REPORT == 0:
            print(f"{name}: {number} files, {found} wrong", flush=True)
    took = time.monotonic() - start
    print(
        f"{name}: {number} files, {bounds.accepted} read, {bounds.refused} refused, {found} wrong, "
        f"{took:.0f} s, peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB",
        flush=True,
    )
    return found


def run(job: tuple[str, int, int]) -> int:
    """Cases of a format; the process may grow by the memory of one of these small files."""
    kind, first, count = job
    faulthandler.enable(sys.__stderr__)
    with FORMATS[kind]() as (make, read):
        read_safely(read, make(first))
        cases = (
            (f"python tools/fuzz_files.py {kind} --replay {n}", make(n))
            for n in range(first, first + count)
        )
        with address_space(2 * MEMORY):
            return check(read, cases, TRACED, f"{kind} {first}..{first + count - 1}")


def read_safely(read: Callable[[Data], object], data: Data) -> None:
    """A first read: lazy imports happen before memory is bounded."""
    try:
        Bounds(read)(data)
    except Exception:
        traceback.print_exc()


def near(kind: str, path: Path, seed: int, count: int) -> int:
    """Every prefix of a file, and ``count`` mutations of it; each is traced to the byte."""
    data: Data = path.read_bytes()
    if kind == "json":
        data = data.decode("utf-8")
    tracemalloc.start()
    with FORMATS[kind]() as (_, read), address_space(2 * MEMORY + 4 * len(data)):
        cuts = ((f"first {n} of {path}", data[:n]) for n in range(len(data)))
        found = check(read, cuts, 1, f"prefixes of {path.name}")
        found += check(read, _changed(data, seed, count), 1, f"mutations of {path.name}")
    tracemalloc.stop()
    return found


def _changed(data: Data, seed: int, count: int) -> Iterator[tuple[str, Data]]:
    places = spans(data) if isinstance(data, str) else []
    for number in range(seed, seed + count):
        rng = random.Random(number)
        if isinstance(data, bytes):
            yield f"mutation {number}", mutated(mutated_bytes, rng, data)
        elif number % 4:
            yield f"mutation {number}", mutated_graph(rng, data, places)
        else:
            yield f"mutation {number}", mutated(mutated_letters, rng, data)


def replay(kind: str, number: int) -> int:
    with FORMATS[kind]() as (make, read):
        print(repr(make(number)))
        Bounds(read)(make(number))
    print("keeps its promises")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=100_000, help="how many")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--replay", type=int, metavar="CASE", help="one case instead")
    parser.add_argument("--near", type=Path, nargs="+", metavar="FILE", help="real files instead")
    args = parser.parse_args()
    if args.replay is not None:
        return replay(args.format, args.replay)
    if args.near:
        found = [near(args.format, path, args.seed, args.count) for path in args.near]
        return 1 if any(found) else 0
    share = -(-args.count // args.processes)
    starts = range(args.seed, args.seed + args.count, share)
    jobs = [(args.format, s, min(share, args.seed + args.count - s)) for s in starts]
    if len(jobs) == 1:
        return 1 if run(jobs[0]) else 0
    with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
        return 1 if any(pool.map(run, jobs)) else 0


if __name__ == "__main__":
    sys.exit(main())
