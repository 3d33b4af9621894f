"""The disk cache of compiled objects: retrieval, and untrusted contents."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hybridjit import gluon, nd
from hybridjit._core.config import override
from hybridjit.codegen.emit import generate, keys, objects
from hybridjit.codegen.targets import find_target
from patience import PATIENCE
from reading import address_space, hurry

NAME = "spec of a kernel"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder was complained of before."""
    for name, empty in (("_told", set()), ("_looked_at", set()), ("_complaints", [])):
        monkeypatch.setattr(objects, name, empty)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cache that holds an object, and where it is."""
    place = tmp_path / "objects"
    with override(cache_dir=str(place)):
        objects.store_object(key(), b"machine code")
        yield place


def key(name: str = NAME) -> str:
    return keys.object_key(name, find_target())


def complaint() -> str:
    """The one thing that there is to say."""
    with pytest.warns(RuntimeWarning) as found:
        objects.warn_of_cache()
    assert len(found) == 1
    return str(found[0].message)


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``path`` be another user's."""
    if os.getuid() == 0:
        os.chown(path, 4321, -1)
    else:
        me = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: me + 1)


def test_an_object_comes_back(folder):
    assert objects.load_object(key()) == b"machine code"
    assert objects._complaints == []


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> tuple[int, int]:
    return tuple(path.stat().st_mode & 0o777 for path in (folder, folder / key()))


@pytest.mark.parametrize(
    ("mask", "wanted"),
    [
        (0o022, (0o755, 0o644)),
        (0o027, (0o750, 0o640)),
        (0o077, (0o700, 0o600)),
        (0o002, (0o755, 0o644)),  # group-writable folders are not trusted
        (0o000, (0o755, 0o644)),
    ],
)
def test_a_folder_that_was_named_honours_the_umask(tmp_path, mask, wanted):
    place = tmp_path / "objects"
    with umask(mask), override(cache_dir=str(place)):
        objects.store_object(key(), b"machine code")
        assert modes(place) == wanted
        assert objects.load_object(key()) == b"machine code"
    assert objects._complaints == []


def test_the_users_own_folder_is_private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with umask(0o022), override(cache_dir=""):
        objects.store_object(key(), b"machine code")
    assert modes(tmp_path / "hybridjit") == (0o700, 0o600)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_reads_objects_that_root_stored():
    """As in an image that root builds and an ordinary user runs."""
    with tempfile.TemporaryDirectory() as place, umask(0o022):
        os.chmod(place, 0o755)
        with override(cache_dir=f"{place}/objects"):
            objects.store_object(key(), b"machine code")
            child = os.fork()
            if child == 0:
                os.setuid(4321)
                os._exit(objects.load_object(key()) != b"machine code")
            assert os.waitpid(child, 0)[1] == 0


# ---- untrusted contents -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 5, 20, 50, -1])
def test_a_truncated_object(folder, size):
    path = folder / key()
    path.write_bytes(path.read_bytes()[:size])
    assert objects.load_object(key()) is None
    assert "damaged" in complaint()
    objects.store_object(key(), b"machine code")
    assert objects.load_object(key()) == b"machine code"


def test_an_object_with_any_bit_changed(folder):
    path = folder / key()
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert objects.load_object(key()) is None, at
    assert "damaged" in complaint()


def test_an_object_of_another_user(folder, monkeypatch):
    give_away(folder / key(), monkeypatch)
    assert objects.load_object(key()) is None
    assert str(folder) in complaint()


def test_an_object_that_others_may_write(folder):
    (folder / key()).chmod(0o666)
    assert objects.load_object(key()) is None
    assert str(folder) in complaint()


def test_a_link_in_place_of_an_object(folder, tmp_path):
    (folder / key()).rename(tmp_path / "elsewhere")
    (folder / key()).symlink_to(tmp_path / "elsewhere")
    assert objects.load_object(key()) is None
    assert "cannot be read" in complaint()


def make_device(path: Path) -> None:
    """A device as /dev/zero. Raises PermissionError without the capability CAP_MKNOD."""
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


def may_make_devices() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            make_device(Path(folder) / "zero")
        except PermissionError:
            return False
    return True


def in_its_place(path: Path, kind: str) -> None:
    """Another kind of file in place of an object."""
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "directory":
        path.mkdir(mode=0o700)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
        path.chmod(0o700)
    elif kind == "device":
        make_device(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
        path.chmod(0o600)


@pytest.fixture
def room() -> Iterator[None]:
    """2 GB of memory more than the process has, and ten seconds."""
    with hurry(10), address_space(2 << 30):
        yield


DEVICE = pytest.param(
    "device",
    marks=pytest.mark.skipif(not may_make_devices(), reason="device files take CAP_MKNOD"),
)
KINDS = ["pipe", "directory", "socket", DEVICE, "sparse"]


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("kind", KINDS)
def test_special_files_in_place_of_objects_are_ignored(folder, kind, monkeypatch):
    """Nothing is waited for, no memory taken, no descriptor left: one complaint."""
    monkeypatch.chdir(folder)  # a socket's name is short
    in_its_place(Path(key()), kind)
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        assert objects.load_object(key()) is None
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert ("damaged" if kind == "sparse" else "cannot be read") in complaint()
    objects.store_object(key(), b"code")
    if kind != "directory":
        assert objects.load_object(key()) == b"code"


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_compiles_despite_special_files_in_the_cache(folder, kind, monkeypatch):
    net = gluon.nn.Dense(7, in_units=5)
    net.initialize()
    right = output(net, monkeypatch)
    monkeypatch.chdir(folder)
    files = [path for path in Path().iterdir() if path.name != key()]
    assert len(files) >= 3  # the driver, a kernel, the plan
    for path in files:
        in_its_place(path, kind)
    with pytest.warns(RuntimeWarning, match="Only time is lost") as found:
        np.testing.assert_array_equal(output(net, monkeypatch), right)
    assert len(found) == 1


def test_an_object_that_is_too_large_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(objects, "_MAX_OBJECT", 1000)
    objects.store_object(key("large"), bytes(1000))
    objects.store_object(key("small"), bytes(900))
    assert objects.load_object(key("large")) is None
    assert objects.load_object(key("small")) == bytes(900)
    assert objects._complaints == []


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_folder_that_others_may_write(folder, mode):
    folder.chmod(mode)
    assert objects.load_object(key()) is None
    objects.store_object("another", b"code")
    assert not (folder / "another").exists()
    assert "others may write" in complaint()


def test_a_folder_of_another_user(folder, monkeypatch):
    give_away(folder, monkeypatch)
    assert objects.load_object(key()) is None
    objects.store_object("another", b"code")
    assert not (folder / "another").exists()
    assert "another user" in complaint()


def test_another_cpu(folder, monkeypatch):
    """Its objects have other names; a folder with nothing else in it is worth a word."""
    other = replace(find_target(), features="+mmx", cpu="pentium-mmx")
    assert objects.load_object(keys.object_key(NAME, other)) is None
    assert "another CPU" in complaint()


def test_a_folder_of_other_files(tmp_path):
    """Names other than those of objects contain no CPU."""
    tmp_path.chmod(0o700)
    (tmp_path / "net-symbol.json").write_text("{}")
    with override(cache_dir=str(tmp_path)):
        assert objects.load_object(key()) is None
        said = complaint()
    assert "'net-symbol.json', and no compiled objects" in said and "CPU" not in said


def test_another_version_is_no_other_cpu(folder):
    """Other properties of a CPU are in the key, but do not identify this machine."""
    other = keys.object_key(NAME, replace(find_target(), l2_bytes=1))
    assert other != key() and objects.load_object(other) is None
    assert objects._complaints == []


@pytest.mark.parametrize(
    "what", ["llvm", "binding", "generator", "spec", "features"]
)  # inputs of code generation
def test_a_key_covers_all_that_code_follows_from(what, monkeypatch):
    before, name, target = key(), NAME, find_target()
    if what == "llvm":
        facts = replace(keys.machine_facts(), llvm="(99, 0, 0)")
        monkeypatch.setattr(keys, "machine_facts", lambda: facts)
    elif what == "binding":
        monkeypatch.setattr(keys.llvmlite, "__version__", "99.0")
    elif what == "generator":
        monkeypatch.setattr(keys, "_sources_digest", lambda names: "other")
    elif what == "spec":
        name = NAME + " "
    else:
        target = replace(target, features=target.features + ",+new")
    assert keys.object_key(name, target) != before


# ---- where nothing can be kept ------------------------------------------------------------------


KEY = """
from hybridjit.codegen.emit.keys import object_key
from hybridjit.codegen.targets import find_target
print(object_key("a spec", find_target("sse2")))
"""


@pytest.mark.parametrize(
    "file, changes",
    [
        ("_core/target.py", True),
        ("_core/types.py", True),
        ("codegen/llvm/builder.py", True),
        ("ops/casting.py", True),
        ("gluon/loss/regression.py", False),
    ],
)
def test_a_change_of_the_code_generator_makes_another_key(file, changes, tmp_path):
    """Code depends on the target, so that a changed target finds no older object."""
    package = tmp_path / "hybridjit"
    shutil.copytree(keys.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))

    def key() -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", KEY]
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    before = key()
    with (package / file).open("a") as source:
        source.write("\nANOTHER_CONSTANT = 1\n")
    assert (key() != before) is changes


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with override(cache_dir=str(tmp_path / "file" / "objects")):
        assert objects.load_object(key()) is None
        objects.store_object(key(), b"code")
    assert "HYBRIDJIT_CACHE_DIR" in complaint()


def test_a_full_disk(folder):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        objects.store_object("large", bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(folder) == [key()]  # nothing unfinished stays
    assert "cannot be written" in complaint()
    assert objects.load_object(key()) == b"machine code"


def test_a_folder_that_can_only_be_read(folder, monkeypatch):
    """As in a container image: objects are used, though access times cannot be written."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert objects.load_object(key()) == b"machine code"
    assert objects._complaints == []


def test_a_complaint_is_made_once(folder):
    for name in ("first", "second"):
        (folder / name).write_bytes(b"nothing good")
        assert objects.load_object(name) is None
    assert "damaged" in complaint()
    objects.load_object("first")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objects.warn_of_cache()


# ---- size ---------------------------------------------------------------------------------------


def test_the_least_recently_used_object_is_removed_first(folder):
    newest, middle, oldest = names = [key(name) for name in ("newest", "middle", "oldest")]
    for age, name in enumerate(names):
        objects.store_object(name, bytes(1000))
        os.utime(folder / name, (0, 1_000_000_000 - age))
    objects.load_object(oldest)  # now it is the newest
    left = sum(path.stat().st_size for path in folder.iterdir()) - 1
    objects.prune(left)
    assert not (folder / middle).exists()
    assert (folder / oldest).exists() and (folder / newest).exists()


def test_a_compilation_keeps_the_size_within_the_limit(folder, monkeypatch):
    monkeypatch.setattr(objects.prune, "__defaults__", (10_000,))
    monkeypatch.setattr(objects, "BETWEEN_LOOKS", 1)
    for number in range(20):
        objects.store_object(key(f"object {number}"), bytes(5000))
    net = gluon.nn.Dense(3, in_units=2)
    net.initialize()
    net.hybridize()
    monkeypatch.setattr(generate, "_KERNELS", {})
    net(nd.ones((1, 2)))
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 10_000


def test_the_folder_is_looked_at_now_and_then(monkeypatch):
    """As often as bytes are stored: all of 60,000 objects take a second."""
    looks = []
    monkeypatch.setattr(objects, "prune", lambda: looks.append(1))
    for _ in range(2000):
        objects.keep_within_limit(objects.BETWEEN_LOOKS // 10)
    assert 100 < len(looks) < 300  # 200 and seven deviations
    objects.keep_within_limit(0)
    assert len(looks) < 300


def test_files_that_are_no_objects_stay(folder):
    """The folder may be one in which a user keeps something else."""
    (folder / "thesis.tex").write_bytes(bytes(5000))
    (folder / ".new-left").write_bytes(bytes(5000))
    for name in ("thesis.tex", ".new-left"):
        os.utime(folder / name, (0, 1))
    objects.prune(1000)
    assert sorted(os.listdir(folder)) == [key(), "thesis.tex"]


def test_oversized_files_are_removed_first(folder):
    with (folder / key("sparse")).open("wb") as file:
        file.truncate(1 << 40)
    objects.prune(1000)
    assert os.listdir(folder) == [key()]


# ---- a network -----------------------------------------------------------------------------------


def output(net: gluon.HybridBlock, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A network's results with nothing in memory, neither kernels nor the driver."""
    monkeypatch.setattr(generate, "_KERNELS", {})
    monkeypatch.setattr(generate, "_DRIVERS", {})
    net.hybridize()
    return net(nd.ones((2, 5))).asnumpy()


def test_a_network_from_damaged_objects(tmp_path, monkeypatch):
    """Whatever the files hold, the numbers are the same, with one warning; then all is well."""
    net = gluon.nn.Dense(7, activation="tanh", in_units=5)
    net.initialize()
    folder = tmp_path / "objects"
    with override(cache_dir=str(folder)):
        right = output(net, monkeypatch)
        files = sorted(folder.iterdir())
        assert len(files) >= 3  # the driver, a kernel, the plan
        files[0].write_bytes(files[2].read_bytes())
        files[1].write_bytes(os.urandom(4000))
        with pytest.warns(RuntimeWarning, match="damaged") as found:
            np.testing.assert_array_equal(output(net, monkeypatch), right)
        assert len(found) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            monkeypatch.setattr(objects, "_told", set())
            np.testing.assert_array_equal(output(net, monkeypatch), right)


RACE = """
import sys
from hybridjit import gluon, nd
net = gluon.nn.Dense(9, in_units=4)
net.initialize("ones")
net.hybridize()
assert (net(nd.ones((3, 4))).asnumpy() == 4).all()
"""


def test_processes_that_fill_one_cache_at_once(tmp_path):
    environment = {**os.environ, "HYBRIDJIT_CACHE_DIR": str(tmp_path / "objects")}
    command = [sys.executable, "-W", "error", "-c", RACE]
    running = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [process.wait(PATIENCE) for process in running] == [0, 0, 0]
    assert not list((tmp_path / "objects").glob(".new-*"))
