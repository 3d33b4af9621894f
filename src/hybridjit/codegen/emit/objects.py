"""The disk cache of compiled objects, by keys of :mod:`.keys`, and of short records.

Files carry a digest of their contents; a file that does not match is ignored and written again. The
folder must belong to the user (or to root): a folder that others can write is not used. A failure
(a full or read-only disk) costs the cache and one warning only.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress

from ..._core.config import config
from ..._core.frames import warn
from ..._core.safe_open import open_file

MAGIC = b"hybridjit object 2\n"
MAX_BYTES = 256 * 1024 * 1024
# Average bytes stored between two checks of the folder, which may exceed its limit by as much.
BETWEEN_LOOKS = 16 * 1024 * 1024
_MAX_OBJECT = 32 * 1024 * 1024  # a hundred times the largest observed
_DIGEST_BYTES = 32
_UNFINISHED = ".new-"
_OWN_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{64}|\.new-.+")  # as `keys` makes them
RECORD = "0" * 8  # begins the keys of records, which are for no CPU


def cache_folder() -> str | None:
    """HYBRIDJIT_CACHE_DIR, else a folder below the user's cache; None for ``off``."""
    if config.cache_dir == "off":
        return None
    if config.cache_dir:
        return config.cache_dir
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return os.path.join(base, "hybridjit")
    home = os.path.expanduser("~")
    return os.path.join(home, ".cache", "hybridjit") if os.path.isabs(home) else None


def load_object(key: str) -> bytes | None:
    """The object stored under ``key``; None if it is absent or not trustworthy."""
    return _loaded(key, _notice_another_cpu)


def load_record(key: str) -> bytes | None:
    """As :func:`load_object`, for a record; its absence says nothing about the folder."""
    return _loaded(key, lambda folder, key: None)


def _loaded(key: str, is_absent: Callable[[str, str], None]) -> bytes | None:
    folder = cache_folder()
    if folder is None or not _may_read(folder):
        return None
    path = os.path.join(folder, key)
    try:
        data = _read(path)
    except FileNotFoundError:
        is_absent(folder, key)
        return None
    except OSError as error:
        _complain(folder, f"an object cannot be read ({error.strerror})")
        return None
    head = len(MAGIC) + _DIGEST_BYTES
    code = data[head:]
    if not data.startswith(MAGIC) or _digest(key, code) != data[len(MAGIC) : head]:
        _complain(folder, "an object is damaged, or somebody else's")
        return None
    with suppress(OSError):  # the folder may be read-only
        os.utime(path)
    return code


def _notice_another_cpu(folder: str, key: str) -> None:
    """Warn of a folder that was filled for other CPUs only, or by other programs."""
    if folder in _looked_at or not config.cache_dir:
        return
    _looked_at.add(folder)
    with suppress(OSError):
        names = [n for n in os.listdir(folder) if not n.startswith((_UNFINISHED, f"{RECORD}-"))]
        objects = [name for name in names if _OWN_NAMES.fullmatch(name)]
        if objects and not any(name.startswith(key[:9]) for name in objects):
            _complain(folder, "its objects are for another CPU, this one needs others")
        elif names and not objects:
            _complain(folder, f"it holds {min(names)[:80]!r}, and no compiled objects")


def _read(path: str) -> bytes:
    """The content of a plain file that only this user or root can write; otherwise b"".

    Raises OSError, without blocking, if it is not a regular file.
    """
    with open_file(path, follow=False) as file:
        status = os.fstat(file.fileno())
        is_possible = status.st_size <= _MAX_OBJECT and _is_ours(status)
        return file.read(status.st_size) if is_possible else b""


def _digest(key: str, code: bytes) -> bytes:
    """A digest that covers the name too: a renamed file is invalid."""
    return hashlib.sha256(key.encode() + b"\0" + code).digest()


def store_object(key: str, code: bytes) -> None:
    """Store an object atomically: other processes see the complete file or none."""
    folder = cache_folder()
    if folder is None or len(code) > _MAX_OBJECT - len(MAGIC) - _DIGEST_BYTES:
        return
    try:
        _write(folder, key, code)
    except OSError as error:
        _complain(folder, f"objects cannot be written ({error.strerror})")


def store_record(key: str, text: bytes) -> None:
    """As :func:`store_object`; that a folder of objects is complete and read-only needs no
    warning."""
    folder = cache_folder()
    if folder is not None:
        with suppress(OSError):
            _write(folder, key, text)


def _write(folder: str, key: str, code: bytes) -> None:
    os.makedirs(folder, mode=_mode(0o755), exist_ok=True)
    if not _may_read(folder):
        return
    temporary = os.path.join(folder, f"{_UNFINISHED}{os.urandom(8).hex()}")
    try:
        with open(temporary, "xb", opener=_created) as file:
            file.write(MAGIC + _digest(key, code) + code)
        os.replace(temporary, os.path.join(folder, key))
    except BaseException:
        with suppress(OSError):  # not created yet, or renamed already
            os.unlink(temporary)
        raise


def _created(path: str, flags: int) -> int:
    return os.open(path, flags, _mode(0o644))


def _mode(shared: int) -> int:
    """The mode before the umask: ``shared`` in a folder that was named, else for this user only.

    A folder that root filled serves all users, as in a container image: see :func:`_is_ours`. Other
    users never get write permission, with which the folder would not be trusted.
    """
    return shared if config.cache_dir else shared & 0o700


def keep_within_limit(stored: int) -> None:
    """Prune with a probability of ``stored`` bytes in ``BETWEEN_LOOKS``.

    A folder at its limit holds some 60,000 objects, and listing them takes a second. The decision
    is random because processes do not know how much others have stored.
    """
    drawn = int.from_bytes(os.urandom(4), "little") / (1 << 32)
    if drawn * BETWEEN_LOOKS < stored:
        prune()


def prune(limit: int = MAX_BYTES) -> None:
    """Remove the least recently used objects until at most ``limit`` bytes are left.

    Unfinished files of dead processes are removed like objects, and files too large for an object
    first. Other files in the folder are neither counted nor removed.
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


def _may_read(folder: str) -> bool:
    """Whether the folder's contents can be trusted; True if it does not exist. Raises nothing."""
    try:
        status = os.stat(folder)
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
    """Whether only this user or root can write there."""
    if not hasattr(os, "getuid"):
        return True
    is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid in (os.getuid(), 0) and not is_open


# Folders already warned of; and pending warnings, which may raise and are therefore deferred.
_told: set[str] = set()
_looked_at: set[str] = set()
_complaints: list[str] = []


def _complain(folder: str, what: str) -> None:
    """Queue a warning, once for each folder."""
    if folder not in _told:
        _complaints.append(
            f"hybridjit's cache of compiled objects, {folder}: {what}. Only time is lost; "
            "HYBRIDJIT_CACHE_DIR names another folder, or `off`"
        )
        _told.add(folder)


def warn_of_cache() -> None:
    """Issue pending warnings about the cache, each once."""
    while _complaints:
        warn(_complaints.pop(0), RuntimeWarning)
