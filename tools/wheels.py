"""Build the wheel and the source distribution, and try them on every interpreter that is found.

usage: python tools/wheels.py [--out FOLDER] [--python PATH ...] [--tests FILE ...]

Each interpreter gets an empty environment with the wheel, in a folder outside of the checkout. A
program defines a network there, compares eager with compiled results, trains one step, exports,
imports, and runs commands. The distributions are made of a copy of the files that git tracks, and
must contain all of them. ``--tests`` runs these files of tests/unit in each environment as well.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 10)
NAMES = ("python3.10", "python3.11", "python3.12", "python3.13", "python3.14", "python3.14t")
PROBE = (
    "import sys, sysconfig; print(*sys.version_info[:3], "
    "int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))))"
)
PROGRAM = """
import os, sys
import numpy as np
import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit.gluon import nn
root = os.path.dirname(os.path.realpath(mx.__file__))
assert root.startswith(os.path.realpath(sys.prefix)), f"imported from {root}, not from the wheel"
mx.random.seed(1)
net = nn.HybridSequential()
net.add(nn.Conv2D(8, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Dense(10))
net.initialize(mx.init.Xavier())
x = nd.random.uniform(shape=(4, 1, 12, 12))
eager = net(x).asnumpy()
net.hybridize()
np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-4, atol=1e-5)
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
loss = gluon.loss.SoftmaxCrossEntropyLoss()
before = net[3].weight.data().asnumpy()
with autograd.record():
    value = loss(net(x), nd.array([3, 1, 4, 1]))
value.backward()
trainer.step(4)
assert (net[3].weight.data().asnumpy() != before).any(), "a training step changed no weight"
net.export("wheel")
again = mx.load("wheel")
np.testing.assert_allclose(again(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)
rows = gluon.data.DataLoader(gluon.data.ArrayDataset(x), 2, num_workers=2)
assert sum(len(batch) for batch in rows) == 4
"""
COMMANDS = (
    ["doctor", "--quick"],
    ["inspect", "wheel"],
    ["view", "wheel", "--shape", "data=4,1,12,12", "-o", "wheel.html"],
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the distributions in this folder")
    parser.add_argument("--python", nargs="+", help="interpreters, instead of all that are found")
    parser.add_argument("--tests", nargs="+", default=[], help="files of tests/unit to run")
    args = parser.parse_args()
    found = interpreters(args.python)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        wheel = built((args.out or work / "dist").resolve(), work)
        failed = [version for version, path in found if not tried(version, path, wheel, args.tests)]
    print(f"{len(found) - len(failed)} of {len(found)} interpreters passed")
    return 1 if failed or not found else 0


def interpreters(named: list[str] | None) -> list[tuple[str, str]]:
    """Versions and paths of the interpreters that hybridjit can run on, one for each version."""
    versions = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    paths = named or [
        *glob.glob(f"{versions}/versions/*/bin/python3"),
        *filter(None, map(shutil.which, NAMES)),
        sys.executable,
    ]
    found: dict[tuple[int, ...], tuple[str, str]] = {}
    for path in paths:
        done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True)
        *numbers, free = map(int, done.stdout.split() or [0, 0])
        if tuple(numbers[:2]) >= OLDEST:
            found.setdefault((*numbers, free), (".".join(map(str, numbers)) + "t" * free, path))
    return [found[key] for key in sorted(found)]


def built(out: Path, work: Path) -> Path:
    """The wheel, made of the source distribution of a copy of the tracked files."""
    tracked = run(["git", "ls-files"], ROOT).split("\n")
    files = {name for name in tracked if (ROOT / name).is_file()}
    for name in files:
        (work / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, work / "copy" / name)
    builder = environment(sys.executable, work / "builder", ["build"])
    run([builder, "-m", "build", "--outdir", str(out), str(work / "copy")])
    (source,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        installed = {f"src/{name}" for name in archive.namelist()}
    missing = files - packed | {name for name in files if name.startswith("src/")} - installed
    if missing or not wheel.name.endswith("-py3-none-any.whl"):
        raise SystemExit(f"{source.name} or {wheel.name} is wrong; missing: {sorted(missing)}")
    print(f"built {source.name} ({len(packed)} files) and {wheel.name} ({len(installed)} files)")
    return wheel


def tried(version: str, path: str, wheel: Path, tests: list[str]) -> bool:
    """Whether programs, commands and tests pass in an environment with the wheel alone."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        try:
            python = environment(path, work / "env", [str(wheel)])
            run([python, "-W", "error", "-c", PROGRAM], work)
            for command in COMMANDS:
                run([python, "-m", "hybridjit", *command], work)
            if tests:
                run([python, "-m", "pip", "install", "--quiet", "pytest"])
                shutil.copytree(ROOT / "tests", work / "checkout" / "tests")
                for name in ("pyproject.toml", "examples", "docs", "tools", "README.md"):
                    (work / "checkout" / name).symlink_to(ROOT / name)
                names = [f"tests/unit/{name}" for name in tests]
                said = run([python, "-m", "pytest", "-q", *names], work / "checkout")
                print(said.strip().splitlines()[-1])
        except subprocess.CalledProcessError as error:
            print(f"{version}: {' '.join(map(str, error.cmd))[:200]}\n{error.output}")
            return False
        versions = run([python, "-m", "pip", "list", "--format=freeze"]).split()
        print(
            f"{version}: passed, with {', '.join(v for v in versions if not v.startswith('pip'))}"
        )
        return True


def environment(python: str, folder: Path, packages: list[str]) -> str:
    """The interpreter of a new virtual environment with these packages."""
    run([python, "-m", "venv", str(folder)])
    made = str(folder / "bin" / "python")
    run([made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    return made


def run(command: list[str], folder: Path | None = None) -> str:
    """The output of a command; CalledProcessError with the output where it fails."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command,
        cwd=folder,
        env=own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
