"""Batch jobs on Ray, Dask and Spark, each with two workers, beside one process.

    python tools/clusters FOLDER                  all three
    python tools/clusters FOLDER --engines ray    some
    python tools/clusters FOLDER --rounds 3       one process and the engine in turns, three times

Makes an environment in FOLDER with the engines and this project (Spark needs Java), and runs
examples/batch there: 10,000 images through the digits network, 640 through a ResNet-50 of random
weights, and those again with a worker killed on the way. Prints for each whether every bit equals
the result of one process, and how many images a second two workers take beside two threads of one
process that runs just before: of the images beyond the first 128, so that the start of an engine
does not count. Of several rounds it is the median. Exit code: 0 if all bits are right and the
killed workers cost nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from killing import kill_a_worker

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDED = {
    "ray": ["ray[data]"],
    "dask": ["dask[dataframe,distributed]"],
    "spark": ["pyspark", "pandas", "pyarrow"],
}
LONGEST = 1200  # seconds for a job
# Ray's workers give way to all other processes, and Java recompiles hot code with optimisation
# in the first minute: a job of a minute would measure that.
SETTINGS = {"RAY_worker_niceness": "0", "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
FEW, ALL = 128, 640  # images through ResNet-50: whole batches in whole tasks, as many a worker


@dataclass(frozen=True)
class Job:
    """A network, its images and its results, as names of files in a folder."""

    folder: Path
    model: str
    images: str

    def results(self, engine: str) -> Path:
        """The folder of an engine's results."""
        return self.folder / f"{self.images}-{engine}.npy"

    def command(self, script: Path, engine: str) -> list[str]:
        """The words that run it."""
        files = (self.model, str(self.folder / f"{self.images}.npy"), str(self.results(engine)))
        return [str(self.folder / "env" / "bin" / "python"), str(script), *files]


def make_environment(folder: Path, engines: list[str]) -> None:
    """A Python in ``folder`` with the engines and this project."""
    if not (folder / "env").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    needed = [name for engine in engines for name in NEEDED[engine]]
    pip = [str(folder / "env" / "bin" / "pip"), "install", "--quiet"]
    subprocess.run([*pip, *needed, str(ROOT)], check=True)


def run(job: Job, engine: str, kill: bool = False) -> float:
    """Seconds that a job took on an engine. Raises SystemExit with its log if it failed."""
    name = "alone.py" if engine == "alone" else f"on_{engine}.py"
    folder = Path(__file__).parent if engine == "alone" else ROOT / "examples" / "batch"
    mark = f"{job.images}-{engine}-{time.time_ns()}"
    environment = os.environ | SETTINGS | {"BATCH_JOB": mark, "HYBRIDJIT_NUM_THREADS": "2"}
    if engine != "alone":
        del environment["HYBRIDJIT_NUM_THREADS"]  # workers compute on data from the engine
    begin = time.perf_counter()
    with open(job.folder / f"{job.images}-{engine}.log", "w+") as log:
        command = job.command(folder / name, engine)
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        if kill:
            print(f"  killed {kill_a_worker(process, mark)}", flush=True)
        if process.wait(LONGEST):
            log.seek(0)
            raise SystemExit(f"{engine}: {log.read()[-4000:]}")
    return time.perf_counter() - begin


def has_same_bits(job: Job, engine: str) -> bool:
    """Whether an engine's results are those of one process."""
    return job.results(engine).read_bytes() == job.results("alone").read_bytes()


def rate(engine: str, few: Job, many: Job) -> float:
    """Images a second of those beyond the first."""
    first, whole = run(few, engine), run(many, engine)
    return (ALL - FEW) / (whole - first)


def try_engine(engine: str, digits: Job, few: Job, many: Job, rounds: int) -> bool:
    """Run the jobs on an engine; print the results; return whether all are right."""
    run(digits, engine)
    right = [has_same_bits(digits, engine)]
    rates = [(rate("alone", few, many), rate(engine, few, many)) for _ in range(rounds)]
    right.append(has_same_bits(many, engine))
    many.results(engine).unlink()
    run(many, engine, kill=True)
    right.append(has_same_bits(many, engine))
    words = ["same bits" if fine else "OTHER BITS" for fine in right]
    print(
        f"{engine}: digits {words[0]}, ResNet-50 {words[1]}, with a killed worker {words[2]}; "
        f"{median(there for _, there in rates):.1f} samples/s, "
        f"{median(there / here for here, there in rates):.2f} of two threads in one process "
        f"({', '.join(f'{there:.1f} to {here:.1f}' for here, there in rates)})",
        flush=True,
    )
    return all(right)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engines", nargs="+", choices=list(NEEDED), default=list(NEEDED))
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    make_environment(folder, args.engines)
    python = str(folder / "env" / "bin" / "python")
    subprocess.run([python, str(Path(__file__).parent / "inputs.py"), str(folder)], check=True)
    digits = Job(folder, str(ROOT / "examples" / "digits" / "digits"), "digits")
    few, many = (Job(folder, str(folder / "resnet50"), f"pictures{n}") for n in (FEW, ALL))
    run(digits, "alone")
    good = [try_engine(engine, digits, few, many, args.rounds) for engine in args.engines]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
