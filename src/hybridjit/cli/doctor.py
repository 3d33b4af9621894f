"""``hybridjit doctor``: report of this machine, and the consequences for hybridjit.

Output: versions, the CPU and the target of its code, threads, measured peaks, and switches that are
set. If llvmlite cannot be loaded, the report states it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import platform
from importlib import import_module, metadata
from pathlib import Path

from .._core import host
from .._core.config import PREFIX, SWITCHES, config
from .._core.limits import loading_compiler
from .._core.text_table import table
from ..errors import OutOfMemoryError
from ..runtime.threads import explained_default, thread_limits
from .arguments import add_json, print_json

Rows = list[tuple[str, str]]
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="measure nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    rows = [*_versions(), *_processor(), *_threads()]
    code = 0
    try:
        with loading_compiler():
            machine = import_module(".machine", __package__)
    except (ImportError, OSError, OutOfMemoryError) as error:
        rows.append(("compiler", f"NONE: llvmlite cannot be loaded ({error}); eager mode works"))
        code = 1
    else:
        rows += machine.compiler_rows()
        rows += [] if args.quick else machine.measured_rows()
    rows += _switches()
    print_json(_by_label(rows)) if args.json else print(table(rows))
    return code


def _by_label(rows: Rows) -> dict[str, list[str]]:
    """The values of each label; a row without a label continues the previous one."""
    found: dict[str, list[str]] = {}
    for label, text in rows:
        found.setdefault(label or [*found][-1], []).append(text)
    return found


def _versions() -> Rows:
    python = f"{platform.python_version()} ({platform.python_implementation()})"
    return [
        ("hybridjit", version("hybridjit")),
        ("Python", f"{python} on {platform.system()} {platform.machine()}"),
        ("NumPy", version("numpy")),
        ("llvmlite", version("llvmlite")),
    ]


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> Rows:
    return [("CPU", _cpu_name()), ("caches", ", ".join(_caches()) or "unknown")]


def _cpu_name() -> str:
    try:
        lines = host.system_text("/proc/cpuinfo").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _caches() -> list[str]:
    """Sizes of CPU 0's data caches, such as ``L1d 48K``."""
    found: list[str] = []
    if host.is_portable():
        return found
    for index in sorted(_CACHES.glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction":
            found.append(f"L{level}{'d' if kind == 'Data' else ''} {size}")
    return found


def _threads() -> Rows:
    count, reason = explained_default()
    if config.num_threads:
        count, reason = config.num_threads, f"{PREFIX}NUM_THREADS"
    limits = [
        f"{name} {'unknown' if limit is None and name != 'cgroup quota' else limit or 'none'}"
        for name, limit in thread_limits().items()
    ]
    omp = os.environ.get("OMP_NUM_THREADS")
    limits += [f"OMP_NUM_THREADS {omp}"] if omp else []
    return [("threads", f"{count}, decided by {reason}"), ("", ", ".join(limits))]


def _switches() -> Rows:
    """Every switch whose value is not the default."""
    found = [
        (f"{PREFIX}{switch.name}", str(value))
        for switch in SWITCHES
        if (value := getattr(config, switch.name.lower())) != switch.parse(switch.default)
    ]
    if not found:
        return [("switches", "none set")]
    return [("switches" if i == 0 else "", f"{n}={v}") for i, (n, v) in enumerate(found)]
