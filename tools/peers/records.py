"""Records of measurements in JSON, as ``docs/performance`` has them."""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def cpu_name():
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))


def cpu_and_commit(note):
    """The fields of a record that say where and when it was measured."""
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=HERE,
                            capture_output=True, text=True, check=False).stdout.strip()  # fmt: skip
    return {
        "cpu": cpu_name() + (f", {note}" if note else ""),
        "date": datetime.date.today().isoformat(),
        "commit": commit,
    }


def write_record(path, made, threads=""):
    """Write a record, if a path was given; ``{}`` in it stands for the number of threads."""
    if path:
        text = json.dumps(made, indent=1) + "\n"
        Path(path.format(threads)).write_text(text, encoding="utf-8")
