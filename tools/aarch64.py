"""Run tests as AArch64 code with NEON vectors, on a CPU of another kind.

    python tools/aarch64.py FOLDER                       graphs of MXNet, gradients, every operator
    python tools/aarch64.py FOLDER [arguments of pytest]

FOLDER gets, once, a Python for AArch64: Debian's packages unpacked, and wheels of NumPy, llvmlite
and pytest. Nothing is installed elsewhere. pytest runs there under qemu-aarch64, on one thread.
Needs Debian or a system like it: apt-get, dpkg-deb, and the package qemu-user. An instruction takes
some 20 times as long as on the CPU itself. Tests that start Python again need the kernel to know
such programs (the package qemu-user-binfmt).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    *("tests/record/test_recorded.py", "tests/record/test_recorded_gradients.py"),
    *("tests/unit/test_compiled.py", "-k", "not target and not at_random"),
]
PACKAGES = ("python3", "libstdc++6")
WHEELS = ("numpy", "llvmlite", "pytest")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
TOOLS = {"apt-get": "apt", "dpkg-deb": "dpkg", "qemu-aarch64": "qemu-user"}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    missing = [f"{name} (package {TOOLS[name]})" for name in TOOLS if not shutil.which(name)]
    if missing:
        raise SystemExit(f"needs {', '.join(missing)}")
    folder = Path(sys.argv[1]).resolve()
    if not (folder / "made").exists():
        make(folder)
    return run(folder, sys.argv[2:] or TESTS)


def make(folder: Path) -> None:
    """The packages and the wheels, unpacked."""
    (folder / "site").mkdir(parents=True, exist_ok=True)
    for package in packages(folder / "apt"):
        subprocess.run(["dpkg-deb", "-x", package, folder / "system"], check=True)
    version = python_of(folder).name.removeprefix("python")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    pip += ["--python-version", version, "--target", str(folder / "site")]
    pip += [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run([*pip, *WHEELS], check=True)
    (folder / "made").touch()


def packages(folder: Path) -> list[Path]:
    """Debian's packages for AArch64 with dependencies, by a separate apt."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    settings = folder / "apt.conf"
    settings.write_text(
        f'Dir::State "{folder}"; Dir::State::lists "{folder}/lists";\n'
        f'Dir::State::status "{folder}/status"; Dir::Cache "{folder}/cache";\n'
        'APT::Architecture "arm64"; APT::Architectures {"arm64";};\n'
    )
    apt = ["apt-get", "-qq", "-c", str(settings)]
    subprocess.run([*apt, "update"], check=True)
    wanted = ["install", "-y", "--download-only", "--no-install-recommends", *PACKAGES]
    subprocess.run([*apt, *wanted], check=True)
    return sorted((folder / "cache" / "archives").glob("*.deb"))


def python_of(folder: Path) -> Path:
    """The interpreter, under its full name."""
    found = sorted((folder / "system" / "usr" / "bin").glob("python3.*[0-9]"))
    if not found:
        raise SystemExit(f"the packages {', '.join(PACKAGES)} hold no usr/bin/python3.N")
    return found[-1]


def run(folder: Path, arguments: list[str]) -> int:
    """Exit status of pytest."""
    settings = {
        "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(ROOT / "src")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HYBRIDJIT_NUM_THREADS": "1",
    }
    words = [word for name, value in settings.items() for word in ("-E", f"{name}={value}")]
    words += [str(python_of(folder)), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    command = ["qemu-aarch64", "-L", str(folder / "system"), *words]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
