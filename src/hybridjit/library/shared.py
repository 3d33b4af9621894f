"""Linking a shared library from an object with an installed linker.

Input: an object's path. Output: the path of the library, or the reason for its absence. ``cc`` is
the system's compiler; ``ziglang`` is a compiler in a Python package.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from .._core.target import Target
from ..errors import MXNetError

_SECONDS = 600


def find_linker(target: Target) -> list[str] | None:
    """Command that links for this CPU, without arguments; None without a linker."""
    machine = target.triple.split("-")[0]
    names = [f"{machine}-linux-gnu-gcc"]
    if machine == os.uname().machine:
        names = [os.environ.get("CC", ""), "cc", "gcc", "clang", *names]
    for name in filter(None, names):
        if (found := shutil.which(name)) is not None:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu"]
    return None


def link_shared(linker: Sequence[str], code: str, output: str) -> None:
    """Link a shared library. Raises MXNetError with the linker's message if it fails."""
    options = [
        "-shared",
        "-Wl,-z,noexecstack",
        "-Wl,-z,defs",
        f"-Wl,-soname,{os.path.basename(output)}",
    ]
    command = [*linker, *options, "-o", output, code, "-lm", "-lpthread"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MXNetError(f"{linker[0]}: {error}") from None
    if done.returncode:
        raise MXNetError(f"{' '.join(linker)} cannot link {output}: {done.stderr.strip()}")
