"""The environment switches as records: name, default, parser, meaning, whether code changes.

Switches are read from ``HYBRIDJIT_<NAME>`` once, at import. :func:`override` sets them for a
``with`` block (tests, the command line). The hot path does not read the environment.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import did_you_mean
from .frozen import dataclass
from .lazy import Late

if TYPE_CHECKING:
    import difflib
else:
    difflib = Late("difflib")  # only for an error

R = TypeVar("R")
PREFIX = "HYBRIDJIT_"
MAX_THREADS = 1024  # systems refuse to start more, after seconds spent on the first ones

_FLAGS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off", ""), False),
}
_SHOWN = 40  # characters of a value in a message


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


# Names of passes before version 0.2, accepted by SKIP for one more release.
_FORMER_NAMES = {
    "borders": "views-again",
    "columns": "layout-dense",
    "half": "lower-float16",
    "merge": "merge-dense",
    "narrow": "lower-bfloat16",
    "on-rows": "hoist-pointwise",
    "samples": "infer-batch-axis",
    "sums": "sum-channel-groups",
    "tables": "precompute-embeddings",
}


def _choices(text: str) -> tuple[str, ...]:
    return tuple(_FORMER_NAMES.get(name, name) for name in _names(text))


def _flag(text: str) -> bool:
    try:
        return _FLAGS[text.strip().lower()]
    except KeyError:
        raise ValueError("it is 1, true, yes or on, or else 0, false, no, off or empty") from None


def _check(text: str) -> bool | str:
    if text.strip().lower() == "indices":
        return "indices"
    try:
        return _flag(text)
    except ValueError as error:
        raise ValueError(f"{error}; or `indices`") from None


def one_of(*values: str) -> Callable[[str], str]:
    """A parser that accepts these values only."""

    def parse(text: str) -> str:
        found = text.strip().lower()
        if found not in values:
            raise ValueError(f"it is {' or '.join(values)}{did_you_mean(found, values)}")
        return found

    return parse


# CPUs that HYBRIDJIT_TARGET names; the code generator knows the features of each.
TARGETS = (
    *("native", "amx", "avx512bf16", "avx512", "avx2", "sse2", "neon", "generic"),
    *("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"),
)


def _target(text: str) -> str:
    found = text.strip()
    if found and found not in TARGETS:
        raise ValueError(f"it is {', '.join(TARGETS)} or empty{did_you_mean(found, TARGETS)}")
    return found


def thread_count(text: str) -> int | None:
    """The number that ``text`` spells; None for blanks. Raises ValueError for anything else."""
    digits = text.strip()
    if not digits:
        return None
    is_short = digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_THREADS))
    if not is_short or not 1 <= int(digits) <= MAX_THREADS:
        raise ValueError(f"the number of threads is an integer from 1 to {MAX_THREADS}")
    return int(digits)


def home_expanded(text: str) -> str:
    """The folder, with ``~`` (or ``~name``) at its beginning replaced by the home directory.

    Raises ValueError where the home directory is unknown.
    """
    path = os.path.expanduser(text)
    if path.startswith("~"):
        raise ValueError(
            f"no home is known for {shown_value(path.split('/')[0])}; a folder of that name where "
            "the program runs is ./~..."
        )
    return path


def shown_value(text: str) -> str:
    """A user's value for a message, cut after a few characters."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


@dataclass(frozen=True)
class Switch:
    """One switch: name, default, parser, meaning, and whether it belongs in a cache key."""

    name: str
    default: str
    parse: Callable[[str], Any]
    meaning: str
    changes_code: bool = False

    def value(self, given: object) -> Any:
        """The parsed value of ``given``: a string as the environment has it, or the value itself.

        Raises ValueError, naming the switch, for a string that is not a value of it.
        """
        if not isinstance(given, str):
            return given
        try:
            return self.parse(given)
        except ValueError as error:
            raise ValueError(f"{PREFIX}{self.name}={shown_value(given)}: {error}") from None


SWITCHES = (
    Switch("DUMP", "", _names, "stages to print: `infer,...,fuse,plan,spec,llvm,asm` or `all`"),
    Switch(
        "DUMP_DIR", "", home_expanded, "write the dumped stages to numbered files in this folder"
    ),
    Switch("SKIP", "", _choices, "passes or kernel choices to leave out", True),
    Switch("VERIFY", "1", _flag, "0 turns off the verifier that runs after each pass"),
    Switch(
        "CHECK",
        "",
        _check,
        "`1`: compare each step with NumPy, in fenced memory, report the first that differs, and "
        "refuse indices and labels out of range; `indices`: the latter alone, which is fast",
        True,
    ),
    Switch("TIMING", "", _flag, "print the compile time of each pass and each kernel"),
    Switch(
        "TRACEBACK", "short", one_of("short", "full"), "`full`: errors show internal frames too"
    ),
    Switch(
        "EXPLAIN", "", _flag, "print reasons for compilations, kernel choices and missed fusions"
    ),
    Switch(
        "TARGET",
        "",
        _target,
        "compile for another CPU: `avx512` (without AMX), `avx2`, `sse2` or `neon`",
        True,
    ),
    Switch("TUNED", "", home_expanded, "file of `hybridjit tune` that chooses kernels", True),
    Switch(
        "NUM_THREADS",
        "",
        thread_count,
        "number of threads, and of compiling processes; unset: the CPUs of this process",
    ),
    Switch(
        "EAGER",
        "native",
        one_of("native", "numpy"),
        "`numpy`: costly eager calls, and updates of parameters, compute by NumPy alone, without "
        "machine code",
    ),
    Switch(
        "PORTABLE",
        "",
        _flag,
        "`1`: portable forms of functions that Linux alone has, such as `/proc` and `memfd`",
    ),
    Switch("CACHE_DIR", "", home_expanded, "folder of compiled objects; `off`: none"),
)
_BY_NAME = {switch.name: switch for switch in SWITCHES}
_CHANGING_CODE = attrgetter(*(switch.name.lower() for switch in SWITCHES if switch.changes_code))


class Config:
    """The current value of every switch, as attributes in lower case."""

    dump: tuple[str, ...]
    dump_dir: str
    skip: tuple[str, ...]
    verify: bool
    check: bool | str
    timing: bool
    traceback: str
    explain: bool
    target: str
    tuned: str
    num_threads: int | None
    eager: str
    portable: bool
    cache_dir: str

    def __init__(self, environ: dict[str, str]) -> None:
        for switch in SWITCHES:
            text = environ.get(PREFIX + switch.name, switch.default)
            setattr(self, switch.name.lower(), switch.value(text))
        for name in environ:
            if name.startswith(PREFIX) and name[len(PREFIX) :] not in _BY_NAME:
                _warn_unknown(name)

    @property
    def checks_steps(self) -> bool:
        """Whether each step of a compiled network is compared with NumPy."""
        return bool(self.check) and self.check != "indices"

    def fingerprint(self) -> object:
        """The values of the switches that change generated code, for cache keys."""
        return _CHANGING_CODE(self)


def _warn_unknown(name: str) -> None:
    near = difflib.get_close_matches(name, [PREFIX + s.name for s in SWITCHES], 1, 0.5)
    hint = f", did you mean {near[0]}?" if near else ""
    warnings.warn(f"unknown environment variable {name}{hint}", stacklevel=2)


def or_ending_command(function: Callable[[], R]) -> R:
    """The function's result. A ValueError ends the command ``hybridjit`` with its text alone.

    The package is imported before the command's own code runs; programs get the exception.
    """
    try:
        return function()
    except ValueError as error:
        text = str(error)
    if _is_command():
        print(f"hybridjit: {text}", file=sys.stderr)
        raise SystemExit(2)
    raise ValueError(text)


def _is_command() -> bool:
    """Whether the process runs ``hybridjit`` or ``python -m hybridjit``."""
    name, _ = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))
    return name == "hybridjit" or (name == "-m" and "hybridjit" in sys.orig_argv[1:4])


config = or_ending_command(lambda: Config(dict(os.environ)))


def override(**values: object) -> AbstractContextManager[Config]:
    """Set switches for a ``with`` block.

    Parameters
    ----------
    **values
        Switches in lower case, without ``HYBRIDJIT_``. A string is read like the environment's.

    Raises
    ------
    ValueError
        For an unknown switch, and for a string that is not a value of it.

    Examples
    --------
    >>> with mx.override(num_threads=1) as config:
    ...     config.num_threads
    1
    """
    unknown = [name for name in values if name.upper() not in _BY_NAME]
    if unknown:
        known = [name.lower() for name in _BY_NAME]
        way = did_you_mean(unknown[0].lower(), known)
        raise ValueError(f"no such switch: {', '.join(unknown)}{way}; there are {', '.join(known)}")
    return _overriding({n: _BY_NAME[n.upper()].value(value) for n, value in values.items()})


@contextmanager
def _overriding(settled: Mapping[str, object]) -> Iterator[Config]:
    before = {name: getattr(config, name) for name in settled}
    try:
        _set(settled)
        yield config
        _set(before)
    except BaseException:
        _set(before)
        raise


# Called after a switch that changes generated code was set for a ``with`` block: networks that
# remember the code of their latest call look for it again.
LISTENERS: list[Callable[[], None]] = []


def _set(values: Mapping[str, object]) -> None:
    before = config.fingerprint()
    for name, value in values.items():
        setattr(config, name, value)
    if config.fingerprint() != before:
        for notice in LISTENERS:
            notice()


def switch_table() -> str:
    """The table of switches, as ``hybridjit switches`` and docs/ print it."""
    rows = [f"| `{PREFIX}...` | Meaning | In cache key |", "|---|---|---|"]
    rows += [
        f"| `{s.name}` | {s.meaning} | {'yes' if s.changes_code else 'no'} |" for s in SWITCHES
    ]
    return "\n".join(rows)
