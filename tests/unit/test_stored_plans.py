"""Plans beside objects: a network that an earlier process compiled runs without a pass."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from hybridjit import compiler, gluon, nd
from hybridjit._core.config import override
from hybridjit.codegen import packing
from hybridjit.codegen.emit import generate, keys, objects, stored_plans
from hybridjit.codegen.kinds import byte_depthwise
from hybridjit.gluon import nn
from hybridjit.runtime.executable import Executable

SHAPE = (2, 8, 12, 12)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "objects"
    with override(cache_dir=str(place)):
        yield place


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that are planned."""
    names: list[str] = []
    plan_graph = compiler.plan_graph

    def noted(*args: object, **options: object) -> object:
        names.append("planned")
        return plan_graph(*args, **options)

    monkeypatch.setattr(compiler, "plan_graph", noted)
    return names


def image_network() -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="kept_")
    with net.name_scope():
        net.add(
            nn.Conv2D(16, 3, padding=1, in_channels=8),
            nn.BatchNorm(in_channels=16),
            nn.Activation("relu"),
            nn.Conv2D(16, 3, padding=1, groups=16, in_channels=16),
            nn.Conv2DTranspose(6, 4, strides=2, padding=1, in_channels=16),
            nn.GlobalAvgPool2D(),
            nn.Dense(5, in_units=6),
        )
    return net


def dense() -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="kept_")
    with net.name_scope():
        net.add(nn.Dense(32, activation="tanh", in_units=8 * 144), nn.Dense(3, in_units=32))
    return net


def recurrent() -> gluon.HybridBlock:
    return gluon.rnn.LSTM(16, layout="NTC", input_size=12, prefix="kept_")


def filled(make: Callable[[], gluon.HybridBlock], **flags: object) -> gluon.HybridBlock:
    """The network with the same weights each time."""
    net = make()
    net.initialize()
    random = np.random.default_rng(3)
    for name, param in net.collect_params().items():
        low, high = (0.5, 1.5) if "var" in name else (-0.3, 0.3)
        param.set_data(nd.array(random.uniform(low, high, param.shape)))
    net.hybridize(**flags)
    return net


def data(shape: tuple[int, ...] = SHAPE) -> nd.NDArray:
    return nd.array(np.random.default_rng(5).normal(0, 1, shape))


def executable_of(net: gluon.HybridBlock) -> Executable:
    return net._cached.graph._latest.executable


CASES = {
    "image": (image_network, SHAPE, {}),
    "dense": (dense, SHAPE, {}),
    "bfloat16": (dense, SHAPE, {"precision": "bfloat16"}),
    "recurrent": (recurrent, (2, 5, 12), {}),
    "winograd": (image_network, SHAPE, {"winograd": "always"}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kept_network_runs_without_a_pass(name, planned):
    make, shape, flags = CASES[name]
    x = data(shape)
    first = filled(make, **flags)
    wanted = first(x).asnumpy()
    assert planned == ["planned"]
    again = filled(make, **flags)
    found = again(x).asnumpy()
    assert planned == ["planned"], "the plan is that of the first network"
    assert found.tobytes() == wanted.tobytes()
    one, other = executable_of(first), executable_of(again)
    assert one.room == other.room and one.nbytes == other.nbytes
    for mine, theirs in zip(one.tables, other.tables):
        assert np.array_equal(mine, theirs)
    assert one.code.image.packed == other.code.image.packed
    assert [str(s) for s in one.code.kernels] == [str(s) for s in other.code.kernels]


def test_a_batch_that_runs_sample_by_sample_is_kept(planned, monkeypatch):
    monkeypatch.setattr("hybridjit.passes.plan.split_batch._CACHE_BYTES", 0)
    x = data((4, 8, 40, 40))
    wanted = filled(image_network)(x).asnumpy()
    count = len(planned)
    again = filled(image_network)
    assert again(x).asnumpy().tobytes() == wanted.tobytes()
    assert len(planned) == count
    assert executable_of(again).samples == 4


@pytest.mark.parametrize("is_lost", [False, True])
def test_last_layers_of_a_batch_are_kept(planned, monkeypatch, own_cache, is_lost):
    monkeypatch.setattr("hybridjit.passes.plan.split_batch._CACHE_BYTES", 0)
    monkeypatch.setattr("hybridjit.passes.plan.last_layers._LEAST_BYTES", 0)
    x = data((4, 8, 40, 40))
    wanted = filled(image_network)(x).asnumpy()
    count = len(planned)
    (record,) = own_cache.glob("*-last")
    if is_lost:
        record.unlink()
    again = filled(image_network)
    assert again(x).asnumpy().tobytes() == wanted.tobytes()
    assert (len(planned) > count) == is_lost
    assert executable_of(again).last is not None
    assert len(executable_of(again).last.plan.steps) == 1


def test_parameters_of_a_kept_network_can_change():
    x = data()
    filled(image_network)(x)
    fresh, again = filled(image_network), filled(image_network)
    again(x)
    for net in (fresh, again):
        for param in net.collect_params().values():
            param.set_data(param.data() * 1.5)
    with override(cache_dir="off"):
        wanted = fresh(x).asnumpy()
    assert again(x).asnumpy().tobytes() == wanted.tobytes()


def test_the_plan_is_made_again_when_it_is_read(planned):
    x = data()
    first = filled(image_network)
    first(x)
    again = filled(image_network)
    again(x)
    assert len(planned) == 1
    one, other = executable_of(first), executable_of(again)
    assert len(other.plan.steps) == len(one.plan.steps) and len(planned) == 2
    assert [call.spec for row in one.code.calls for call in row] == [
        call.spec for row in other.code.calls for call in row
    ]
    assert len(planned) == 2


def test_a_kept_network_is_checked_step_by_step(planned):
    x = data()
    wanted = filled(image_network)(x).asnumpy()
    again = filled(image_network)
    again(x)
    with override(check=True):
        found = again(x).asnumpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)
    assert len(planned) == 2


def other_activation() -> nn.HybridSequential:
    net = dense()
    net[0].act._act_type = "relu"
    return net


@pytest.mark.parametrize("what", ["shape", "dtype", "precision", "winograd", "attribute", "target"])
def test_other_plans_have_other_keys(what, planned):
    x = data()
    filled(dense)(x)
    if what == "shape":
        filled(dense)(data((3, *SHAPE[1:])))
    elif what == "dtype":
        net = filled(dense)
        net.cast("float64")
        net(x.astype("float64"))
    elif what == "precision":
        filled(dense, precision="bfloat16")(x)
    elif what == "winograd":
        filled(dense, winograd=False)(x)
    elif what == "target":
        with override(target="sse2"):
            filled(dense)(x)
    else:
        filled(other_activation)(x)
    assert len(planned) == 2


@pytest.mark.parametrize("switch", ["explain", "timing", "dump", "skip"])
def test_a_user_who_wants_to_see_a_compilation_sees_one(switch, planned, capfd):
    x = data()
    filled(dense)(x)
    values = {"dump": "plan", "skip": "views"}
    with override(**{switch: values.get(switch, True)}):
        filled(dense)(x)
    assert len(planned) == 2


def records(folder: Path) -> list[Path]:
    """The records of plans."""
    found = folder.glob(f"{objects.RECORD}-*")
    return [path for path in found if b'"packed"' in path.read_bytes()]


@pytest.mark.parametrize("damage", ["truncated", "changed", "gone"])
def test_a_damaged_record_is_replaced(damage, own_cache, planned, monkeypatch):
    monkeypatch.setattr(objects, "_told", set())
    x = data()
    wanted = filled(dense)(x).asnumpy()
    (record,) = records(own_cache)
    whole = record.read_bytes()
    if damage == "gone":
        record.unlink()
        found = filled(dense)(x)
    else:
        record.write_bytes(whole[:-9] if damage == "truncated" else whole[:-1] + b" ")
        with pytest.warns(RuntimeWarning, match="damaged"):
            found = filled(dense)(x)
            objects.warn_of_cache()
    assert found.asnumpy().tobytes() == wanted.tobytes()
    assert len(planned) == 2 and record.read_bytes() == whole


def test_a_plan_without_its_objects_is_made_again(own_cache, planned, monkeypatch):
    x = data()
    wanted = filled(dense)(x).asnumpy()
    for path in own_cache.iterdir():
        if not path.name.startswith(objects.RECORD):
            path.unlink()
    monkeypatch.setattr(generate, "_KERNELS", {})
    assert filled(dense)(x).asnumpy().tobytes() == wanted.tobytes()
    assert len(planned) == 2


def test_a_change_of_a_pass_makes_another_key(monkeypatch, planned):
    x = data()
    filled(dense)(x)
    digest = keys._sources_digest
    monkeypatch.setattr(
        keys, "_sources_digest", lambda names: digest(names) + "!" * ("passes" in names)
    )
    filled(dense)(x)
    assert len(planned) == 2


def test_steps_that_numpy_runs_are_not_kept(own_cache):
    class Unique(gluon.HybridBlock):
        def hybrid_forward(self, F: object, x: object) -> object:
            return F.linalg.gelqf(x)[0]

    net = Unique()
    net.hybridize()
    net(data((3, 4)))
    assert not records(own_cache)


def test_a_loop_is_not_kept(own_cache):
    class Loop(gluon.HybridBlock):
        def hybrid_forward(self, F: object, x: object) -> object:
            total, _ = F.contrib.foreach(lambda row, sum_: (row + sum_, sum_), x, F.sum(x, axis=0))
            return total

    net = Loop()
    net.hybridize()
    net(data((3, 4)))
    assert not records(own_cache)


def test_records_know_every_packing():
    """A class without a place makes its networks ones that are planned in each process."""
    found = {
        name
        for module in (packing, byte_depthwise)
        for name, item in vars(module).items()
        if inspect.isclass(item) and name.endswith("Packing") and hasattr(item, "pack")
    }
    assert found - {"Packing"} <= stored_plans._PLACES.keys()
    for name in stored_plans._PLACES:
        assert stored_plans._class_named(name).__name__ == name


def test_a_kept_network_loads_no_pass_and_no_kernel_kind(own_cache):
    program = """
        import sys, numpy as np, hybridjit as mx
        from hybridjit.gluon import nn
        net = nn.HybridSequential(prefix="kept_")
        with net.name_scope():
            net.add(nn.Dense(32, activation="tanh", in_units=12), nn.Dense(3, in_units=32))
        net.initialize(mx.init.One())
        net.hybridize()
        print(net(mx.nd.ones((2, 12))).asnumpy().tolist())
        print(sorted(name for name in sys.modules if name.startswith("hybridjit.")))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environ = {**os.environ, "HYBRIDJIT_CACHE_DIR": str(own_cache)}
    outs = [
        subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    first, second = (out.splitlines() for out in outs)
    assert first[0] == second[0]
    loaded = ast.literal_eval(second[1])
    assert "hybridjit.compiler" in ast.literal_eval(first[1])
    assert "hybridjit.compiler" not in loaded
    late = (
        "hybridjit.passes.plan.fuse",
        "hybridjit.codegen.kinds.dense",
        "hybridjit.codegen.llvm.jit",
    )
    assert not [name for name in loaded if name.startswith(late)]
