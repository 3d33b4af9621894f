"""The disk cache of compiled objects: machine code by what it was made from.

A key covers the kernel's spec, the target with the CPU features that it uses, LLVM's version and
this package's own code generator, so a stale object cannot be found. Files carry a digest of their
content; anything that does not match is passed over and written again. The folder belongs to the
user alone (or to root): one that others could write to is not used. Whatever fails (a full disk, a
read-only one) costs the cache, one warning and nothing else.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
import warnings
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from ..._core.config import config
from ..._core.safe_open import open_file
from ..._core.target import Target

MAGIC = b"hybridjit object 2\n"
MAX_BYTES = 256 * 1024 * 1024
# Stored between two looks at the folder, on average; it may be larger than its limit by as much.
BETWEEN_LOOKS = 16 * 1024 * 1024
_MAX_OBJECT = 32 * 1024 * 1024  # a hundred times the largest that was seen
_DIGEST_BYTES = 32
_UNFINISHED = ".new-"
PACKAGE = Path(__file__).resolve().parents[2]
_OWN_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{64}|\.new-.+")  # as `object_key` makes them


def cache_folder() -> Path | None:
    """HYBRIDJIT_CACHE_DIR, else a folder below the user's cache; None for ``off``."""
    if config.cache_dir == "off":
        return None
    if config.cache_dir:
        return Path(config.cache_dir)
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "hybridjit"
    try:
        return Path.home() / ".cache" / "hybridjit"
    except RuntimeError:
        return None


def object_key(spec_text: str, target: Target) -> str:
    """The name of a kernel's object: the CPU, and a digest of all that its code follows from."""
    parts = (
        spec_text,
        repr(target),
        repr(llvm.llvm_version_info),
        llvmlite.__version__,
        _generator_digest(),
    )
    return f"{_cpu_tag(target)}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}"


def _cpu_tag(target: Target) -> str:
    """Of the CPU alone: what later versions know of it besides makes it no other."""
    cpu = (target.name, target.triple, target.cpu, target.features)
    return hashlib.sha256(repr(cpu).encode()).hexdigest()[:8]


# What generated code follows from besides the spec: the emitters, the scalar formulas, and what
# both know of CPUs and element types.
GENERATORS = ("codegen", "ops", "_core/frozen.py", "_core/target.py", "_core/types.py")


@lru_cache(maxsize=1)
def _generator_digest() -> str:
    """A digest of :data:`GENERATORS`."""
    digest = hashlib.sha256()
    for name in GENERATORS:
        place = PACKAGE / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def load_object(key: str) -> bytes | None:
    """The object kept under ``key``; None if there is none that can be trusted."""
    folder = cache_folder()
    if folder is None or not _may_read(folder):
        return None
    path = folder / key
    try:
        data = _read(path)
    except FileNotFoundError:
        _notice_another_cpu(folder, key)
        return None
    except OSError as error:
        _complain(folder, f"an object cannot be read ({error.strerror})")
        return None
    head = len(MAGIC) + _DIGEST_BYTES
    code = data[head:]
    if not data.startswith(MAGIC) or _digest(key, code) != data[len(MAGIC) : head]:
        _complain(folder, "an object is damaged, or somebody else's")
        return None
    with suppress(OSError):  # a folder that cannot be written may be read
        os.utime(path)
    return code


def _notice_another_cpu(folder: Path, key: str) -> None:
    """Complain of a folder that was filled, but for other CPUs than this one, or by others."""
    if folder in _looked_at or not config.cache_dir:
        return
    _looked_at.add(folder)
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if not name.startswith(_UNFINISHED)]
        objects = [name for name in names if _OWN_NAMES.fullmatch(name)]
        if objects and not any(name.startswith(key[:9]) for name in objects):
            _complain(folder, "its objects are for another CPU, this one needs others")
        elif names and not objects:
            _complain(folder, f"it holds {min(names)[:80]!r}, and no compiled objects")


def _read(path: Path) -> bytes:
    """The content of a plain file that nobody but this user or root can write; else, nothing.

    Raises OSError for what is no file; then nothing of it was waited for.
    """
    with open_file(path, follow=False) as file:
        status = os.fstat(file.fileno())
        is_possible = status.st_size <= _MAX_OBJECT and _is_ours(status)
        return file.read(status.st_size) if is_possible else b""


def _digest(key: str, code: bytes) -> bytes:
    """Covers the name too: a file under another's name is damage like any other."""
    return hashlib.sha256(key.encode() + b"\0" + code).digest()


def store_object(key: str, code: bytes) -> None:
    """Keep an object. Other processes see the whole file or none."""
    folder = cache_folder()
    if folder is None or len(code) > _MAX_OBJECT - len(MAGIC) - _DIGEST_BYTES:
        return
    try:
        folder.mkdir(mode=_mode(0o755), parents=True, exist_ok=True)
        if not _may_read(folder):
            return
        temporary = folder / f"{_UNFINISHED}{os.urandom(8).hex()}"
        try:
            with open(temporary, "xb", opener=_created) as file:
                file.write(MAGIC + _digest(key, code) + code)
            os.replace(temporary, folder / key)
        except BaseException:
            with suppress(OSError):  # not there yet, or no longer
                os.unlink(temporary)
            raise
    except OSError as error:
        _complain(folder, f"objects cannot be written ({error.strerror})")


def _created(path: str, flags: int) -> int:
    return os.open(path, flags, _mode(0o644))


def _mode(shared: int) -> int:
    """The mode before the umask: ``shared`` in a folder that was named, else this user's alone.

    A folder that root filled serves all users, as in an image: :func:`_is_ours`. Others never get
    the right to write, without which nobody would trust it.
    """
    return shared if config.cache_dir else shared & 0o700


def keep_within_limit(stored: int) -> None:
    """Prune, now and then: after ``stored`` bytes with a chance of as many in ``BETWEEN_LOOKS``.

    A folder at its limit holds some 60,000 objects, and looking at them takes a second. By chance,
    for processes do not know what others have stored.
    """
    drawn = int.from_bytes(os.urandom(4), "little") / (1 << 32)
    if drawn * BETWEEN_LOOKS < stored:
        prune()


def prune(limit: int = MAX_BYTES) -> None:
    """Remove the objects that were not used for longest until ``limit`` bytes are left.

    What a process that died left unfinished goes with them, and what is too large for an object
    goes first. Other files in the folder are not ours to count or to remove.
    """
    folder = cache_folder()
    if folder is None:
        return
    try:
        if not _may_read(folder):
            return
        entries = [entry for entry in os.scandir(folder) if _OWN_NAMES.fullmatch(entry.name)]
        found = [_age_and_size(entry) for entry in entries if entry.is_file()]
    except OSError:
        return
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            return
        total -= size
        with suppress(OSError):
            os.unlink(path)


def _age_and_size(entry: os.DirEntry[str]) -> tuple[float, int, str]:
    status = entry.stat(follow_symlinks=False)
    age = status.st_mtime if status.st_size <= _MAX_OBJECT else -math.inf
    return age, status.st_size, entry.path


def _may_read(folder: Path) -> bool:
    """Whether what lies there can be trusted. Raises nothing: no folder is an empty one."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return True
    except OSError as error:
        _complain(folder, f"it cannot be looked at ({error.strerror})")
        return False
    if stat.S_ISDIR(status.st_mode) and _is_ours(status):
        return True
    _complain(folder, "it is no folder, belongs to another user, or others may write to it")
    return False


def _is_ours(status: os.stat_result) -> bool:
    """Whether only this user can write there, or root, who can do that anywhere."""
    if not hasattr(os, "getuid"):
        return True
    is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (os.getuid(), 0) and not is_open


# Folders that were complained of; and what has to be said still, by whom a warning may interrupt.
_told: set[Path] = set()
_looked_at: set[Path] = set()
_complaints: list[str] = []


def _complain(folder: Path, what: str) -> None:
    """Once for each folder."""
    if folder not in _told:
        _complaints.append(
            f"hybridjit's cache of compiled objects, {folder}: {what}. Nothing is lost but time; "
            "HYBRIDJIT_CACHE_DIR names another folder, or `off`"
        )
        _told.add(folder)


def warn_of_cache() -> None:
    """Say once what is wrong with the cache, if anything was found to be."""
    while _complaints:
        warnings.warn(_complaints.pop(0), RuntimeWarning, stacklevel=2)
