"""Run a sample of the tests, or all of them in rounds: for this CPU and for narrower kinds.

    python tools/rounds.py [arguments of pytest]
    python tools/rounds.py --all [arguments of pytest]

Without ``--all`` tests run for this CPU alone. Of each test function at most SAMPLE cases run,
drawn by ``--seed``, and the files of SLOW do not. Test files among the arguments run whole.

With ``--all`` there is a round for each kind of CPU that this one can imitate. The round for this
CPU runs all tests. The others (HYBRIDJIT_TARGET) run those that run generated code; test_vmath.py
and test_generated_code.py see to the kinds by themselves. Test files among the arguments run in
every round instead.

The narrower rounds run one after the other while the round for this CPU runs beside them; where no
test is chosen, they are followed by a part of this CPU's tests, so that two cores have as much to
do. The output of the rest follows, so the last line is its summary. Exit code: that of the first
round that fails, else 0.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from hybridjit.codegen.llvm.jit import find_target

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
# Tests after the narrower rounds: about as long as the rest is longer than these.
BEHIND = (
    "compile_pool",
    "generated_code",
    "kernels",
    "listening",
    "live_parameters",
    "memory_of_training",
    "onnx",
    "pages",
    "recorded_gradients",
    "storm",
    "toy_operators",
    "training_bits",
    "training_variants",
    "verification",
    "whole_files",
    "winograd",
)
# A sample of the tests: cases of each function, and files that take longest for their number.
SAMPLE = 4
SLOW = (
    *("batch", "bfloat16_training", "compile_pool", "generated_code", "hostile_data"),
    *("interrupts", "kernels", "library", "library_training", "listening"),
    *("memory_of_training", "pages", "serving", "storm", "toy_kernel", "toy_operators"),
    *("training_bits", "training_variants", "variants", "verification", "whole_files", "winograd"),
)
NO_TESTS_CHOSEN = 5
"""pytest's exit code; a narrower round may have none of the tests that the arguments choose."""


def narrower_kinds() -> Sequence[str]:
    """Kinds of CPU that this one can imitate, the widest first."""
    here = find_target().name
    return KINDS[KINDS.index(here) + 1 :] if here in KINDS else ()


def names_files(arguments: Sequence[str]) -> bool:
    """Whether test files are among the arguments."""
    return any(not a.startswith("-") and Path(a.split("::")[0]).exists() for a in arguments)


def file_of(name: str) -> str:
    """Path of a test file, which is in one of the folders of ``tests``."""
    (found,) = ROOT.glob(f"tests/*/test_{name}.py")
    return str(found.relative_to(ROOT))


def files_behind(arguments: Sequence[str]) -> list[str]:
    """Files of this CPU's tests that run behind the narrower rounds; none where some are chosen."""
    if names_files(arguments) or any(a in ("-k", "-m") for a in arguments):
        return []
    return [file_of(name) for name in BEHIND]


def narrower_arguments(arguments: Sequence[str]) -> list[str]:
    """Arguments of pytest in a narrower round: its own files, unless the arguments name some."""
    if names_files(arguments):
        return list(arguments)
    return [*map(file_of, RUN_GENERATED_CODE), *arguments]


def run_narrower_rounds(arguments: Sequence[str]) -> int:
    for kind in narrower_kinds():
        print(f"\n==== as on a CPU with {kind} and no more", flush=True)
        environment = os.environ | {"HYBRIDJIT_TARGET": kind}
        command = [sys.executable, "-m", "pytest", *narrower_arguments(arguments)]
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if status not in (0, NO_TESTS_CHOSEN):
            return status
    return run_behind(arguments)


def run_behind(arguments: Sequence[str]) -> int:
    files = files_behind(arguments)
    if not files:
        return 0
    print("\n==== as on this CPU, a part", flush=True)
    command = [sys.executable, "-m", "pytest", *files, *arguments]
    return subprocess.run(command, cwd=ROOT).returncode


@contextlib.contextmanager
def round_for_this_cpu(
    arguments: Sequence[str], log: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """The round, which runs and writes into ``log``; it is ended when the block is left."""
    left_out = [f"--ignore={file}" for file in files_behind(arguments)]
    command = [sys.executable, "-m", "pytest", *left_out, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def show(process: subprocess.Popen[bytes], log: Path) -> int:
    """Print the past and further output of the process, until it ends; its exit code."""
    with open(log, "rb") as lines:
        while True:
            ended = process.poll() is not None
            sys.stdout.buffer.write(lines.read())
            sys.stdout.flush()
            if ended:
                return process.returncode
            time.sleep(0.2)


def run_sample(arguments: Sequence[str]) -> int:
    chosen = names_files(arguments)
    left_out = [] if chosen else [f"--ignore={file_of(name)}" for name in SLOW]
    drawn = [] if chosen else [f"--sample={SAMPLE}"]
    command = [sys.executable, "-m", "pytest", *drawn, *left_out, *arguments]
    status = subprocess.run(command, cwd=ROOT).returncode
    if not chosen:
        print(
            f"a sample: without the files {', '.join(SLOW)}; `sh tools/test --all` runs all tests"
        )
    return status


def run_all(arguments: Sequence[str]) -> int:
    with (
        tempfile.NamedTemporaryFile(suffix=".log") as log,
        round_for_this_cpu(arguments, log) as process,
    ):
        status = run_narrower_rounds(arguments)
        if status == 0:
            print("\n==== as on this CPU", flush=True)
            status = show(process, Path(log.name))
    return status


def main(arguments: Sequence[str]) -> int:
    run = run_all if "--all" in arguments else run_sample
    return run([argument for argument in arguments if argument != "--all"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
