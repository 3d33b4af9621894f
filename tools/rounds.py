"""Run a sample of the tests, or all of them in rounds: for this CPU and for narrower kinds.

    python tools/rounds.py [arguments of pytest]
    python tools/rounds.py --all [arguments of pytest]

Without ``--all`` tests run for this CPU alone. Of each test function at most SAMPLE cases run,
drawn by ``--seed``, and the files of SLOW do not. Test files among the arguments run whole.

With ``--all`` there is a round for each kind of CPU that this one can imitate. The round for this
CPU runs all tests. The others (HYBRIDJIT_TARGET) run those that run generated code; test_vmath.py
and test_generated_code.py cover the kinds themselves. Test files among the arguments run in every
round instead. Of each test function in the files of HALVED, a narrower kind runs half of the cases,
the next kind the other half. Tests with the mark ``any_cpu`` run for this CPU alone.

A round is split into parts, groups of files that a process of pytest runs. One process more than
there are cores, at most WORKERS, take one part after the other, the longest first: tests that wait
for time, files or other processes leave a fifth of a core idle. The output of a part is printed
when it ends, and the last line is the summary of all. Exit code: that of the first part that fails,
else 0.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hybridjit.codegen.targets import find_target

ROOT = Path(__file__).parent.parent
KINDS = ("avx512", "avx2", "sse2")
RUN_GENERATED_CODE = (
    "compiled",
    "kernels",
    "recorded",
    "fuzz_graphs",
    "runtime",
    "promises",
    "examples",
)
HALVED = ("compiled", "kernels", "fuzz_graphs")
WORKERS = 4
LONGEST = 45.0
"""Seconds of a part; a longer file is a part by itself."""

# Seconds of the files that take more than USUAL; they decide the parts and their order.
USUAL = 3.0
SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("compiled", "kernels"), 90.0),
    **dict.fromkeys(("generated_code", "library", "listening", "pages", "winograd"), 35.0),
    **dict.fromkeys(("gradients", "live_parameters", "toy_operators", "variants"), 25.0),
    **dict.fromkeys(("interrupts", "library_training", "verification", "view_page"), 20.0),
    **dict.fromkeys(("docs", "recorded_gradients", "serving", "training_variants"), 20.0),
    **dict.fromkeys(("digits_training", "fuzz_graphs", "memory_of_training", "prose"), 15.0),
    **dict.fromkeys(("hostile_data", "library_sizes", "processes", "registry", "rounds"), 12.0),
    **dict.fromkeys(("cli", "examples", "golden", "pipeline", "runtime", "storm"), 12.0),
    **dict.fromkeys(("batch", "bfloat16_training", "compat", "onnx", "types_of_programs"), 10.0),
    **dict.fromkeys(("compile_pool", "hostile_files", "recorded", "recorded_sizes"), 8.0),
    **dict.fromkeys(("training_bits", "vmath", "variants_of_detectors", "whole_files"), 8.0),
    **dict.fromkeys(("json_stream", "objects", "optimizer", "quantized", "verify_training"), 6.0),
}
# A sample of the tests: cases of each function, and files that take longest for their number.
SAMPLE = 3
SLOW = (
    *("batch", "bfloat16", "bfloat16_training", "compile_pool", "digits_training"),
    *("generated_code", "hostile_data", "hostile_files", "interrupts", "json_stream", "kernels"),
    *("library", "library_sizes", "library_training", "listening", "live_parameters"),
    *("memory_of_training", "pages", "processes", "quantize_command", "rounds", "serving"),
    *("storm", "toy_kernel", "toy_operators", "training_bits", "training_variants"),
    *("types_of_programs", "variants", "variants_of_detectors", "verification"),
    *("verify_training", "view_page", "whole_files", "winograd"),
)
NO_TESTS_CHOSEN = 5
"""pytest's exit code; a part may have none of the tests that the arguments choose."""


class Part(NamedTuple):
    """Files that a process of pytest runs, for this CPU (kind "") or for a narrower kind.

    half    the half of the cases that runs; None for all cases
    """

    kind: str
    files: Sequence[str]
    seconds: float
    half: int | None = None

    @property
    def options(self) -> list[str]:
        """Arguments of pytest that select the cases."""
        half = [] if self.half is None else [f"--half={self.half}"]
        return [*half, "-m", "not any_cpu"] if self.kind else half

    @property
    def heading(self) -> str:
        on = f"as on a CPU with {self.kind} and no more" if self.kind else "as on this CPU"
        cases = "" if self.half is None else ", half of the cases"
        return f"==== {on}{cases}: {', '.join(Path(file).stem for file in self.files)}"


class Ended(NamedTuple):
    """The exit code of a part and pytest's counts: passed, failed, skipped ..."""

    status: int
    counts: Counter[str]


def narrower_kinds() -> Sequence[str]:
    """Kinds of CPU that this one can imitate, the widest first."""
    here = find_target().name
    here = "avx512" if here == "amx" else here  # differs in products of bytes, whose tests name it
    return KINDS[KINDS.index(here) + 1 :] if here in KINDS else ()


def named_files(arguments: Sequence[str]) -> list[str]:
    """Test files, folders and tests among the arguments."""
    return [a for a in arguments if not a.startswith("-") and Path(a.split("::")[0]).exists()]


def name_of(file: str) -> str:
    return Path(file).stem.removeprefix("test_")


def all_files() -> list[str]:
    """Paths of the test files, which are in the folders of ``tests``."""
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/*/test_*.py"))


def parts_of(files: Sequence[str], kind: str = "", longest: float = LONGEST) -> list[Part]:
    """The files in parts of at most ``longest`` seconds, if a file is not longer by itself."""
    groups: list[tuple[float, list[str]]] = []
    for file in sorted(files, key=seconds_of, reverse=True):
        seconds = seconds_of(file)
        at = next((i for i, (sum_, _) in enumerate(groups) if sum_ + seconds <= longest), None)
        if at is None:
            groups.append((seconds, [file]))
        else:
            groups[at] = groups[at][0] + seconds, [*groups[at][1], file]
    return [Part(kind, sorted(names), seconds) for seconds, names in groups]


def seconds_of(file: str) -> float:
    return SECONDS.get(name_of(file), USUAL)


def parts_of_all(arguments: Sequence[str]) -> list[Part]:
    """The parts of every round."""
    chosen = named_files(arguments)
    if chosen:
        return [Part(kind, chosen, 0.0) for kind in ("", *narrower_kinds())]
    narrower = [
        part for at, kind in enumerate(narrower_kinds()) for part in parts_of_kind(kind, at % 2)
    ]
    return [*parts_of(all_files()), *narrower]


def parts_of_kind(kind: str, half: int) -> list[Part]:
    """The parts of a round for a narrower kind, which runs one half of the cases of HALVED."""
    files = [file for file in all_files() if name_of(file) in RUN_GENERATED_CODE]
    halved = [file for file in files if name_of(file) in HALVED]
    whole = [file for file in files if file not in halved]
    halves = [Part(kind, [file], seconds_of(file) / 2, half) for file in halved]
    return [*parts_of(whole, kind), *halves]


def parts_of_sample(arguments: Sequence[str]) -> list[Part]:
    """The parts of a sample, or the files among the arguments."""
    chosen = named_files(arguments)
    if chosen:
        return [Part("", chosen, 0.0)]
    return parts_of([file for file in all_files() if name_of(file) not in SLOW])


def run(parts: Sequence[Part], options: Sequence[str]) -> list[Ended]:
    """Run the parts, as many at a time as there are workers; print each one's output as it ends."""
    waiting = sorted(parts, key=lambda part: part.seconds)
    running: list[tuple[Part, subprocess.Popen[bytes], Path]] = []
    ended: list[Ended] = []
    workers = min(WORKERS, len(os.sched_getaffinity(0)) + 1)
    with tempfile.TemporaryDirectory() as folder, killed_at_exit(running):
        while waiting or running:
            while waiting and len(running) < workers:
                log = Path(folder) / f"{len(waiting)}.log"
                running.append((waiting[-1], start(waiting.pop(), options, log), log))
            for part, process, log in list(running):
                if process.poll() is not None:
                    running.remove((part, process, log))
                    ended.append(report(part, process.returncode, log))
            time.sleep(0.05)
    return ended


def start(part: Part, options: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """The process of a part, which writes into ``log`` and keeps compiled objects beside it."""
    environment = os.environ | ({"HYBRIDJIT_TARGET": part.kind} if part.kind else {})
    environment["OBJECTS_OF_TESTS"] = str(log.parent / "objects")
    # Hundreds of tests start Python; without compiled modules each takes 0.75 s longer.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", *part.files, *part.options, *options]
    with open(log, "wb") as out:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT
        )


@contextlib.contextmanager
def killed_at_exit(
    running: Sequence[tuple[Part, subprocess.Popen[bytes], Path]],
) -> Iterator[None]:
    """End the processes that still run when the block is left."""
    try:
        yield
    finally:
        for _, process, _ in running:
            process.kill()
            process.wait()


def report(part: Part, status: int, log: Path) -> Ended:
    """Print the output of a part that has ended."""
    text = log.read_text(errors="replace")
    print(f"\n{part.heading}\n{text}", flush=True)
    last = text.rstrip().rpartition("\n")[2]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", last)}
    return Ended(status, Counter(counts))


def summary(ended: Sequence[Ended], seconds: float) -> str:
    """The counts of all parts in one line, the failures first."""
    counts: Counter[str] = sum((part.counts for part in ended), Counter())
    words = ("failed", "error", "errors", "passed", "skipped", "deselected", "xfailed", "warnings")
    shown = [f"{counts[word]} {word}" for word in words if counts[word]]
    return f"{', '.join(shown) or 'no tests ran'} in {seconds:.0f}s"


def status_of(ended: Sequence[Ended]) -> int:
    """The exit code of the first part that failed; that no test was chosen counts if all say so."""
    statuses = [part.status for part in ended]
    if all(status == NO_TESTS_CHOSEN for status in statuses):
        return NO_TESTS_CHOSEN
    return next((status for status in statuses if status not in (0, NO_TESTS_CHOSEN)), 0)


def main(arguments: Sequence[str]) -> int:
    whole = "--all" in arguments
    arguments = [argument for argument in arguments if argument != "--all"]
    chosen = named_files(arguments)
    options = [argument for argument in arguments if argument not in chosen]
    began = time.monotonic()
    if whole:
        ended = run(parts_of_all(arguments), options)
    else:
        ended = run(
            parts_of_sample(arguments), [*([] if chosen else [f"--sample={SAMPLE}"]), *options]
        )
    if not whole and not chosen:
        left_out = ", ".join(SLOW)
        print(f"a sample: without the files {left_out}; `sh tools/test --all` runs all tests")
    print(summary(ended, time.monotonic() - began))
    return status_of(ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
