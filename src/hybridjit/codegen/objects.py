"""The disk cache of compiled objects: machine code by what it was made from.

A key covers the kernel's spec, the target with the CPU features that it uses, LLVM's version and
this package's own code generator, so a stale object cannot be found. Files carry a digest of their
content; anything that does not match is passed over and written again. The folder belongs to the
user alone: one that others could write to is not used. Whatever fails (a full disk, a read-only
one) costs the cache and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from ..config import config
from ..target import Target

MAGIC = b"hybridjit object 2\n"
MAX_BYTES = 256 * 1024 * 1024
_DIGEST_BYTES = 32


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
    """The name of the object for a kernel: a digest of all that its code depends on."""
    parts = (
        spec_text,
        repr(target),
        repr(llvm.llvm_version_info),
        llvmlite.__version__,
        _generator_digest(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@lru_cache(maxsize=1)
def _generator_digest() -> str:
    """A digest of what generated code follows from: the emitters and the scalar formulas."""
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for folder in ("codegen", "ops"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def load_object(key: str) -> bytes | None:
    """The object kept under ``key``; None if there is none that can be trusted."""
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / key
    try:
        if not _is_private(folder):
            return None
        data = path.read_bytes()
        os.utime(path)
    except OSError:
        return None
    head = len(MAGIC) + _DIGEST_BYTES
    code = data[head:]
    if not data.startswith(MAGIC) or _digest(key, code) != data[len(MAGIC) : head]:
        return None
    return code


def _digest(key: str, code: bytes) -> bytes:
    """Covers the name too: a file under another's name is damage like any other."""
    return hashlib.sha256(key.encode() + b"\0" + code).digest()


def store_object(key: str, code: bytes) -> None:
    """Keep an object. Other processes see the whole file or none."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(folder):
            return
        handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + _digest(key, code) + code)
            os.replace(name, folder / key)
        except OSError:
            os.unlink(name)
            raise
    except OSError:
        return


def prune(limit: int = MAX_BYTES) -> None:
    """Remove the objects that were not used for longest until ``limit`` bytes are left."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        found = [(entry.stat(), entry.path) for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return
    total = sum(status.st_size for status, _ in found)
    for status, path in sorted(found, key=lambda item: item[0].st_mtime):
        if total <= limit:
            return
        total -= status.st_size
        try:
            os.unlink(path)
        except OSError:
            continue


def _is_private(folder: Path) -> bool:
    """Whether only this user can write there."""
    if not hasattr(os, "getuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
