"""Disks that are full and folders that cannot be written: nothing is lost, and the error says why.

A limit on the length of files stands for the full disk: writing fails in the middle, as it does
there. Such a limit is the process's own and needs no rights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, nd
from hybridjit._core.config import override
from hybridjit.errors import MXNetError
from hybridjit.formats.atomic import together, write_atomically
from hybridjit.gluon import nn

resource = pytest.importorskip("resource")

ROOM = 8_000  # bytes: enough for a graph, not for the weights below
X = nd.ones((2, 100))


@contextmanager
def full_disk(room: int = ROOM) -> Iterator[None]:
    """No file grows beyond ``room`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def make_net(scale: float) -> nn.HybridSequential:
    """A net of about 50 KB with every weight ``scale``."""
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(100, in_units=100), nn.Dense(20, in_units=100))
    net.initialize(mx.init.Constant(scale))
    net.hybridize()
    return net


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def checkpoint(net: gluon.HybridBlock, prefix: str) -> None:
    args = {name: param.data() for name, param in net.collect_params().items()}
    mx.model.save_checkpoint(prefix, 0, net(mx.sym.var("data")), args, {})


WRITERS: dict[str, Callable[[gluon.HybridBlock, str], object]] = {
    "export": lambda net, place: net.export(place),
    "save_parameters": lambda net, place: net.save_parameters(place),
    "collect_params().save": lambda net, place: net.collect_params().save(place),
    "nd.save": lambda net, place: nd.save(place, {"w": net[0].weight.data()}),
    "save_checkpoint": checkpoint,
    "save": lambda net, place: net.save(place),
}


@pytest.mark.parametrize("how", WRITERS)
def test_old_files_stay(tmp_path, how):
    """All files or none: a new graph with old weights would be an inconsistent network."""
    write, place = WRITERS[how], str(tmp_path / "model")
    old, new = make_net(0.01), make_net(0.02)
    new.add(nn.Activation("relu"))
    old(X), new(X)
    write(old, place)
    before = contents(tmp_path)
    with full_disk(), pytest.raises(MXNetError, match=f"{tmp_path}.*large"):
        write(new, place)
    assert contents(tmp_path) == before
    write(new, place)  # and with room again it works
    after = contents(tmp_path)
    assert after.keys() == before.keys() and after != before


@pytest.mark.parametrize("how", WRITERS)
def test_where_nothing_can_be_written(tmp_path, how):
    (tmp_path / "file").write_text("no folder")
    net = make_net(0.01)
    net(X)
    with pytest.raises(MXNetError, match=f"{tmp_path}/file/model.*Not a directory"):
        WRITERS[how](net, str(tmp_path / "file" / "model"))
    assert contents(tmp_path) == {"file": b"no folder"}


def test_files_that_belong_together_wait_for_each_other(tmp_path):
    def write_a() -> None:
        write_atomically(tmp_path / "a", [b"first"])
        assert not (tmp_path / "a").exists()

    together(write_a, lambda: write_atomically(tmp_path / "b", [b"second"]))
    assert contents(tmp_path) == {"a": b"first", "b": b"second"}

    def interrupted() -> None:
        write_atomically(tmp_path / "a", [b"third"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together(interrupted)
    assert contents(tmp_path) == {"a": b"first", "b": b"second"}
    write_atomically(tmp_path / "a", [b"alone"])
    assert (tmp_path / "a").read_bytes() == b"alone"


def test_a_net_compiles_and_runs_on_a_full_disk(tmp_path):
    """The cache gets one warning, the results are the same, and no unfinished object stays."""
    net = make_net(0.01)
    more = nn.Dense(37, in_units=20), nn.Dense(23, in_units=37)  # kernels of no other test
    for layer in more:
        layer.initialize(mx.init.Constant(0.01))
    net.add(*more)
    with (
        override(cache_dir=str(tmp_path / "objects")),
        full_disk(100),
        pytest.warns(RuntimeWarning, match="cannot be written") as said,
    ):
        found = [net(x).asnumpy() for x in (X, nd.ones((2, 10, 10)), nd.ones((3, 100)))]
    net.hybridize(active=False)
    for array in found:
        np.testing.assert_allclose(array[:2], net(X).asnumpy(), rtol=1e-5)
    assert len(said) == 1
    assert os.listdir(tmp_path / "objects") == []


def test_dumps_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        override(dump=("plan",), dump_dir=str(tmp_path / "file")),
        pytest.raises(MXNetError, match="plan.txt cannot be written: Not a directory"),
    ):
        make_net(0.01)(X)
    np.testing.assert_allclose(make_net(0.01)(X).asnumpy(), 1.0, rtol=1e-5)
