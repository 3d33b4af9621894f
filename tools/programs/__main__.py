"""Runs programs of MXNet's example folder, and of gluon-cv's scripts, on hybridjit, unchanged.

usage: python tools/programs MXNET [GLUONCV] [--only PART] [--work DIR] [--python PYTHON] [--mxnet]

MXNET and GLUONCV are checkouts of the two projects (MXNet's branch v1.9.x). Their programs, and the
code of notebooks, are copied to DIR, or to a folder that goes away; small data is made up there,
and each program runs in a separate process. Prints a table: the program, its subject, how long it
took and the last line that it said about its loss. PYTHON (this one by default) needs the imports
of the programs: graphviz, imageio, matplotlib, mxboard with protobuf<3.21, pandas<3, pillow,
opencv-python-headless, pynose, requests, scikit-learn, scipy, tqdm, yacs. With --mxnet the programs
run on the MXNet that is installed there instead of hybridjit, for comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from listing import PROGRAMS, Program

SOURCE = Path(__file__).resolve().parents[2] / "src"
COPIED = ("example", "tests/nightly/estimator", "tests/python")
SAYS = re.compile(
    r"loss|acc|error|mse|rmse|perplexity|ppl|likelihood|psnr|nll|auc|iou|cost|reward|elbo|map", re.I
)
NUMBER = re.compile(r"[=: ](\d+\.?\d*(e-?\d+)?|nan|inf)", re.I)


@dataclass
class Outcome:
    """How a program went: its seconds, and its last output, or the reason of its failure."""

    program: Program
    seconds: float
    fine: bool
    said: str

    def row(self) -> str:
        mark = self.said if self.fine else f"FAILED: {self.said}"
        return f"| `{self.program.path}` | {self.program.what} | {self.seconds:.0f} | {mark} |"


def main(given: list[str]) -> int:
    options = parsed(given)
    with tempfile.TemporaryDirectory() as spare:
        work = (options.work or Path(spare)).resolve()
        programs = [p for p in PROGRAMS if wanted(p, options)]
        copy_sources(options, work)
        print("| program | what it is | seconds | what it ended with |\n|---|---|---|---|")
        outcomes = [run_one(program, work, options) for program in programs]
    failed = sum(not outcome.fine for outcome in outcomes)
    print(f"\n{len(outcomes) - failed} of {len(outcomes)} programs ran to their end", flush=True)
    return 1 if failed else 0


def parsed(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/programs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("mxnet_source", metavar="MXNET", type=Path)
    parser.add_argument("gluoncv_source", metavar="GLUONCV", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="a pattern: programs whose path has it")
    parser.add_argument("--work", type=Path, help="where to copy the programs to")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--mxnet", action="store_true", help="run on the MXNet installed there")
    return parser.parse_args(given)


def wanted(program: Program, options: argparse.Namespace) -> bool:
    there = options.gluoncv_source or not program.path.startswith("scripts/")
    return bool(there) and re.search(options.only, program.path) is not None


def copy_sources(options: argparse.Namespace, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    sources = [(options.mxnet_source, name) for name in COPIED]
    if options.gluoncv_source:
        sources += [(options.gluoncv_source, name) for name in ("scripts", "gluoncv")]
    for source, name in sources:
        shutil.copytree(source / name, work / name, dirs_exist_ok=True)
    for notebook in (work / "example").rglob("*.ipynb"):
        notebook.with_suffix(".py").write_text(code_of(notebook), encoding="utf-8")


def code_of(notebook: Path) -> str:
    """The code of a notebook's cells, without commands to the notebook itself."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    lines = [
        line.rstrip("\n")
        for cell in cells
        if cell["cell_type"] == "code"
        for line in [*cell["source"], ""]
    ]
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


def run_one(program: Program, work: Path, options: argparse.Namespace) -> Outcome:
    path = work / program.path
    folder = path.parent if program.folder is None else work / program.folder
    for where, make in program.data.items():
        make((folder / where).resolve())
    outcome = timed(program, folder, command(program, path, options), environment(work, options))
    print(outcome.row(), flush=True)
    return outcome


def command(program: Program, path: Path, options: argparse.Namespace) -> list[str]:
    start = [] if options.mxnet else ["-m", "hybridjit.run"]
    python = os.path.abspath(shutil.which(options.python) or options.python)
    return [python, *start, str(path), *program.arguments.split()]


def environment(work: Path, options: argparse.Namespace) -> dict[str, str]:
    paths = [str(work)] if options.mxnet else [str(SOURCE), str(work)]
    ours = {
        "PYTHONPATH": os.pathsep.join(paths),
        "MXNET_HOME": str(work / "home"),
        "HOME": str(work / "home"),
        "MPLBACKEND": "Agg",
    }
    return {**os.environ, **ours}


def timed(
    program: Program, folder: Path, arguments: list[str], variables: dict[str, str]
) -> Outcome:
    begin = time.perf_counter()
    log = folder / f"{Path(program.path).stem}.log"
    with open(log, "wb") as output:
        try:
            code = subprocess.run(
                arguments,
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=program.limit,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    seconds = time.perf_counter() - begin
    said = folder / program.log if code == 0 and program.log else log
    lines = said.read_text(errors="replace").replace("\r", "\n").splitlines()
    if code == 0:
        return Outcome(program, seconds, True, last_said(lines, program))
    reason = (
        f"no end after {program.limit} s"
        if code is None
        else next(reversed([*filter(None, lines)]), "")
    )
    return Outcome(program, seconds, False, reason)


def last_said(lines: list[str], program: Program) -> str:
    says = re.compile(program.says, re.I) if program.says else SAYS
    said = [line for line in lines if says.search(line) and NUMBER.search(line)]
    line = re.sub(r"\s+", " ", said[-1] if said else "").strip().replace("|", "/")
    return re.sub(r"^(INFO|DEBUG):root:|^[\d-]+ [\d:,]+ ", "", line)[-110:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
