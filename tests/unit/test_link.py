"""Images: a plan's kernel calls as data, which depend on no address of this process."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from compiling import Arrays, call, compiled, plan_of, var
from hybridjit.codegen.emit.generate import choose_calls
from hybridjit.codegen.emit.link import link
from hybridjit.codegen.targets import find_target
from hybridjit.compiler import new_log
from hybridjit.ir.mode import Purpose
from hybridjit.ir.node import Output
from hybridjit.ir.plan import Plan, contiguous_strides
from hybridjit.ir.plan_image import Base, Image
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.instance import Instance

LARGEST = 1 << 40  # below every address that a process has on the systems of today


def network() -> tuple[list[Output], dict[str, np.ndarray], list[str]]:
    """A convolution by Winograd, a dense layer, a weight as it is, a gather that may raise."""
    random = np.random.default_rng(1)
    arrays = {
        "x": random.normal(0, 1, (2, 64, 16, 16)).astype(np.float32),
        "at": np.array([3, 1], np.int32),
        "w": random.normal(0, 0.1, (64, 64, 3, 3)).astype(np.float32),
        "v": random.normal(0, 0.1, (10, 64 * 256)).astype(np.float32),
        "b": random.normal(0, 1, (10,)).astype(np.float32),
        "table": random.normal(0, 1, (5, 10)).astype(np.float32),
    }
    layer = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 64, "no_bias": True}
    x = call("Pooling", var("x"), kernel=(1, 1))  # a region, with channels last
    y = call("softmax", call("Convolution", x, var("w"), **layer), axis=1)
    y = call("FullyConnected", y, var("v"), var("b"), num_hidden=10)
    taken = call("take", var("table"), var("at"), mode="raise")
    outputs = [call("broadcast_add", y, taken), call("exp", y)]
    return outputs, arrays, ["w", "v", "b", "table"]


def linked(plan: Plan) -> Image:
    return link(plan, choose_calls(plan, find_target(""), "always", new_log()))


def image_of() -> Image:
    return linked(plan_of(*network()))


def test_an_image_is_data():
    image = image_of()
    assert image_of() == image, "the same calls, the same image"
    assert pickle.loads(pickle.dumps(image)) == image
    assert all(-LARGEST < number < LARGEST for number in image.slots)


def test_every_slot_is_a_number_or_an_address():
    image = image_of()
    slots = [r.slot for r in image.relocations]
    slots += [slot for slot, _, _ in (*image.inputs, *image.outputs)]
    assert len(set(slots)) == len(slots)
    assert all(image.slots[slot] == 0 for slot in slots)
    starts = [call.slot for call in image.calls]
    assert starts == sorted(set(starts)) and starts[0] == 0 and starts[-1] < len(image.slots)
    assert sum(image.counts) == len(image.calls)


def test_relocations_use_all_bases():
    image = image_of()
    bases = {r.base for r in image.relocations}
    assert bases == set(Base) - {Base.SHARED}
    assert {number for _, number, _ in image.inputs} == {0, 1}
    assert {number for _, number, _ in image.outputs} == {0, 1}
    assert len(image.packed) == len(set(image.packed)) > 1
    assert len(image.flagged) == 1
    assert image.scratch_bytes > 0 and image.work > 0


def test_memory_of_all_threads():
    """A weight that is an input and multiplies several rows is packed, once for all threads."""
    outputs, arrays, _ = network()
    plan = plan_of(outputs, arrays)
    image = linked(plan)
    assert image.shared_bytes > 0
    assert [each.index for each in image.packed] == [None], "zeros, for the bias left out"
    assert Base.SHARED in {r.base for r in image.relocations}


def test_places_in_a_buffer_are_offsets_in_bytes():
    plan = plan_of([call("slice_axis", call("exp", var("x")), axis=0, begin=1, end=2)], THREE)
    image = linked(plan)
    (last,) = [plan.steps[-1]]
    offset = last.reads[0].offset * 4
    assert offset == contiguous_strides((3, 5))[0] * 4
    assert offset in {r.offset for r in image.relocations} | {patch[2] for patch in image.inputs}


THREE: Arrays = {"x": np.ones((3, 5), np.float32)}


def test_an_instance_puts_addresses_where_the_image_says():
    outputs, arrays, params = network()
    executable = compiled(outputs, arrays, params)
    assert isinstance(executable, Executable) and executable.binding is not None
    image = executable.code.image
    instance = Instance(executable, executable.binding, 2)
    for slot, base, number, offset in image.relocations:
        if base is Base.ARENA:
            assert instance.slots[slot] == instance.arena.address + offset
        if base is Base.PACKED:
            assert instance.slots[slot] == executable.binding.packed(image.packed[number])
    given = [arrays["x"], arrays["at"]]
    made = [np.empty(shape, dtype) for shape, dtype in executable.output_types]
    instance.connect(*given, *made)
    for slot, number, offset in image.inputs:
        assert instance.slots[slot] == given[number].ctypes.data + offset
    for slot, number, offset in image.outputs:
        assert instance.slots[slot] == made[number].ctypes.data + offset


def test_an_instance_follows_arrays_that_move():
    outputs, arrays, params = network()
    executable = compiled(outputs, arrays, params)
    assert isinstance(executable, Executable) and executable.binding is not None
    instance = Instance(executable, executable.binding, 1)
    made = [np.empty(shape, dtype) for shape, dtype in executable.output_types]
    here, there = ([arrays["x"].copy(), arrays["at"].copy()] for _ in range(2))

    def stands(given: list[np.ndarray]) -> bool:
        places = {(slot, given[n].ctypes.data + offset) for slot, n, offset in inputs}
        return all(instance.slots[slot] == address for slot, address in places)

    inputs = executable.code.image.inputs
    for given in (here, there, here):
        instance.connect(*given, *made)
        assert stands(given)
    instance.connect(*there[:1])
    assert stands([there[0], here[1]]), "arrays that are not given are not the ones of before"


def test_an_instance_takes_arrays_alone():
    outputs, arrays, params = network()
    executable = compiled(outputs, arrays, params)
    assert isinstance(executable, Executable) and executable.binding is not None
    instance = Instance(executable, executable.binding, 1)
    slots = list(instance.slots)
    for entry in (instance.connect, instance.run_all):
        with pytest.raises(TypeError, match="a kernel's operand is not an array"):
            entry(arrays["x"].tolist())
    assert list(instance.slots) == slots
    rows = arrays["x"].view(np.recarray)  # an array's subclass
    instance.connect(rows)
    slot, _, offset = next(patch for patch in executable.code.image.inputs if patch[1] == 0)
    assert instance.slots[slot] == rows.ctypes.data + offset


def test_updated_inputs_are_written_through_the_input():
    new = call("elemwise_add", var("x"), call("exp", var("x")))
    plan = plan_of([new], THREE, purpose=Purpose(updates=((0, "x"),)))
    image = linked(plan)
    assert not image.outputs and {number for _, number, _ in image.inputs} == {0}
