"""Run plans with every buffer adjacent to inaccessible memory (Linux).

Each input, weight, result, intermediate and scratch gets separate pages between two pages without
access. A network runs with its memory at the very end of these pages, and again at the very
beginning. A kernel that reads or writes one element too far ends the process, so this runs as a
separate program:

    python tests/support/guarded.py [--open | --too-far end|start]

prints a line for each network before it runs and, last, the kinds of kernels that ran, with the
element type after a colon if it is not float32.

Where this CPU imitates a narrower kind, LLVM does not optimise: the addresses of accesses are the
emitters', and test_generated_code.py compiles all kinds for each CPU with optimisation.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from compiling import assert_near, call, compiled, plan_of, run_reference, var
from hybridjit._core.config import config
from hybridjit._core.frozen import fields_of
from hybridjit._core.options import Options
from hybridjit._core.symbolic import Scope
from hybridjit._core.types import DTYPE_NAMES, type_of
from hybridjit.codegen.call import Address, Argument, Call, Flag, Scratch, Shared
from hybridjit.codegen.emit.generate import choose_calls
from hybridjit.codegen.emit.pool_memory import POLL_SLOTS
from hybridjit.codegen.spec import KernelSpec
from hybridjit.codegen.targets import find_target
from hybridjit.compilation import compile_variant
from hybridjit.compiler import new_log
from hybridjit.ir.node import Output
from hybridjit.ir.plan import Step, View
from hybridjit.ir.plan_image import Packed
from hybridjit.ir.sized import sized
from hybridjit.runtime.binding import PackedStore
from hybridjit.runtime.executable import Executable
from hybridjit.runtime.variant import Variant
from neighbours import (
    LAYERS,
    LIVE,
    STORED,
    TAILS,
    Layer,
    Network,
    bordered_pixels,
    conv,
    deconv,
    dense,
    dense_of_bytes,
    in_bfloat16,
    in_double,
    inside,
    layer,
    live,
    matrices_of_bytes,
    network,
    of_bytes,
    of_nibbles,
    of_stored,
    pool,
    pool_of_bytes,
    recurrent,
    table_of_bytes,
)
from random_graphs import random_graph
from unoptimised import folder_of_objects, optimise_nothing

PAGE = mmap.PAGESIZE
NO_ACCESS = 0
AT_END = (True, False)
THREADS = 3  # every kernel is called once for each, one after the other
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_GO_ON = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(lambda poll: 0)
_POLL = (ctypes.c_void_p * POLL_SLOTS)(ctypes.cast(_GO_ON, ctypes.c_void_p))
_LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """``nbytes`` of memory at the end or the start of its pages, between two forbidden ones."""

    def __init__(self, nbytes: int, at_end: bool) -> None:
        inner = max(1, -(-nbytes // PAGE)) * PAGE
        self._map = mmap.mmap(-1, inner + 2 * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for page in (base, base + PAGE + inner):
            if _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NO_ACCESS):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = base + PAGE + (inner - nbytes if at_end else 0)
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(self.address))

    def close(self) -> None:
        self._map.close()


class GuardedRun:
    """One run of an executable, with separate memory for every buffer of the plan."""

    def __init__(self, executable: Executable, at_end: bool) -> None:
        self.executable = executable
        self.at_end = at_end
        self.plan = executable.plan
        self.regions: list[Guarded] = []
        self.flags: list[Guarded] = []
        self.buffers = [self._new(b.nbytes) for b in self.plan.buffers]

    def _new(self, nbytes: int, fill: int = 0xFF) -> Guarded:
        region = Guarded(nbytes, self.at_end)
        region.bytes[:] = fill  # 0xFF everywhere is a NaN
        self.regions.append(region)
        return region

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        for buffer, region in zip(self.plan.buffers, self.buffers):
            if buffer.kind == "input":
                region.bytes[:] = inputs[buffer.index].reshape(-1).view(np.uint8)
            elif buffer.kind == "weight":
                array = self.executable.binding.value(buffer.index)  # type: ignore[union-attr]
                region.bytes[:] = array.reshape(-1).view(np.uint8)
        for step, row in zip(self.plan.steps, self.executable.code.calls):
            self._run_step(step, row)
        found = [self.array(view).copy() for view in self.plan.outputs]
        for region in self.regions:
            region.close()
        return found

    def _run_step(self, step: Step, row: Sequence[Call]) -> None:
        if not row:
            results = self.executable.reference(step, [self.array(v) for v in step.reads])
            for view, result in zip(step.writes, results):
                self.array(view)[...] = result.reshape(view.shape)
        wanted = (a.nbytes for c in row for a in c.args if isinstance(a, Shared))
        self.shared = self._new(max(wanted, default=0))
        for kernel_call in row:
            numbers = [self._number(a) for a in kernel_call.args]
            slots = self._new(8 * len(numbers))
            slots.bytes[:] = np.array(numbers, np.int64).view(np.uint8)
            kernel = KERNEL(self.executable.code.kernels[kernel_call.spec].address)
            for thread in range(THREADS):
                kernel(slots.address, thread, THREADS, ctypes.addressof(_POLL))
        if row and any(flag.bytes.any() for flag in self.flags):
            self.executable.reference(step, [self.array(v) for v in step.reads])
            self.flags.clear()

    def _number(self, argument: Argument) -> int:
        if isinstance(argument, int):
            return argument
        if isinstance(argument, Scratch):
            return self._new(THREADS * argument.nbytes, fill=0).address
        if isinstance(argument, Shared):
            return self.shared.address + argument.offset
        if isinstance(argument, Flag):
            self.flags.append(self._new(8, fill=0))
            return self.flags[-1].address
        if isinstance(argument, Packed):
            source = self._source(argument)
            held = np.dtype(argument.element)
            region = self._new(held.itemsize * argument.packing.size(source))
            argument.packing.pack(source, region.bytes.view(held))
            return region.address
        view = argument.view
        return self.buffers[view.buffer].address + view.offset * view.dtype.itemsize

    def _source(self, argument: Packed) -> np.ndarray:
        if argument.index is None:
            return np.zeros(argument.size, argument.element)
        return self.executable.binding.value(argument.index)  # type: ignore[union-attr]

    def array(self, view: View) -> np.ndarray:
        whole = self.buffers[view.buffer].bytes.view(view.dtype)
        strides = [s * view.dtype.itemsize for s in view.strides]
        return np.lib.stride_tricks.as_strided(whole[view.offset :], view.shape, strides)


USED_TAILS = ("nothing", "residual-relu", "gate", "twice")
# Where this CPU stands for a narrower kind, half of them: it runs each layer with all by itself.
TAILS_OF = {"avx2": USED_TAILS[:2], "sse2": USED_TAILS[2:]}


def networks() -> Iterator[tuple[str, Network]]:
    """Every kind of kernel, with its edges: odd sizes, strides, dilation, groups, operands."""
    for name, (make, shape) in LAYERS.items():
        for tail in TAILS_OF.get(config.target, USED_TAILS):
            assert tail in TAILS
            yield f"{name} {tail}", network(make, shape, tail)
    for size in (1, 3, 8, 17, 33):
        yield f"conv {size}", network(inside(conv(size, pad=(1, 1))), (1, size, 3, 4))
        yield f"row {size}", network(conv(3, (1, 3), pad=(0, 1)), (1, 2, 1, size))
        depthwise = inside(conv(size, (5, 3), num_group=size, stride=(2, 2), pad=(2, 1)))
        yield f"depthwise {size}", network(depthwise, (2, size, 5, 6))
        wide = conv(size, (1, 35), num_group=size, stride=(1, 2), pad=(0, 17))
        yield f"wide depthwise {size}", network(inside(wide), (2, size, 1, 23))
        long = conv(size, (1, 11), pad=(0, 5))
        yield f"long row {size}", network(inside(long), (1, size, 1, 500))
        turned = inside(deconv(size, (3, 4), stride=(2, 3), pad=(1, 0)))
        yield f"deconv {size}", network(turned, (1, size, 3, 4))
        yield f"dense {size}", network(dense(size), (size, 5))
        yield f"transpose {size}", network(layer("transpose", axes=(0, 2, 1)), (2, size, 35))
        yield f"pool {size}", network(inside(pool(kernel=(2, 3), pool_type="avg")), (1, size, 3, 4))
        yield f"softmax {size}", network(layer("softmax"), (2, size))
        yield f"across {size}", network(layer("softmax", axis=1), (2, 3, size))
        yield f"mean {size}", network(layer("mean", axis=(1,), keepdims=True), (2, size))
        for along, axis, other in ((True, (2,), (1, 3, 1)), (False, (1,), (2, 1, size))):
            spread = layer("_mean_square_about", var("other", other), axis=axis)
            yield f"spread {size} {along}", network(spread, (2, 3, size))
            pair = layer("_sums_about", var("twin", (2, 3, size)), var("other", other), axis=axis)
            yield f"sums {size} {along}", network(pair, (2, 3, size))
            yield f"moments {size} {along}", network(layer("_moments", axis=axis), (2, 3, size))
        yield (
            f"batch-dot {size}",
            network(layer("batch_dot", var("other", (2, 3, size))), (2, 2, 3)),
        )
        scaled = inside(layer("InstanceNorm", var("w"), var("b")))
        yield f"instance {size}", network(scaled, (2, size, 5, 3))
        yield f"norm {size}", network(layer("LayerNorm", var("w"), var("b")), (3, size))
        lengths = inside(layer("L2Normalization", mode="channel"))
        yield f"lengths {size}", network(lengths, (2, size, 2, 3))
        yield f"strided {size}", strided(size)
        yield f"bytes {size}", of_bytes(size, (2, 5, 6, 9), pad=(1, 1))
        yield f"bytes in lines {size}", of_bytes(size, (2, 6, 5 + size % 3, 1), (2, 5))
        yield f"bytes of 3 {size}", of_bytes(size, (1, 6, 7, 3), (3, 3), stride=(2, 2))
        yield f"bytes dense {size}", dense_of_bytes(size % 7 + 1, size, 70)
        yield f"bytes of a row {size}", dense_of_bytes(1, 70, size)
        yield f"bytes in tiles {size}", of_bytes(size, (2, 6, 9, 4 * size), stride=(2, 1))
        yield f"bytes in strips {size}", of_bytes(size, (2, 9, 19, 24), pad=(1, 1))
        yield f"bytes at points {size}", of_bytes(size + 47, (2, 15, 20, 64), pad=(1, 1))
        yield f"bytes of rows {size}", dense_of_bytes(size + 4, 4 * size + 12, 37)
        yield f"bytes pooled {size}", pool_of_bytes((2, 5, 6, size))
        yield f"bytes of pixels {size}", bordered_pixels(size % 3 + 2, size)
        yield f"bytes by bytes {size}", matrices_of_bytes(size % 7 + 1, size + 3, size)
        yield f"bytes by columns {size}", matrices_of_bytes(3, size + 64, size, turned=True)
        yield f"table {size}", table_of_bytes(size)
        yield f"nibbles {size}", of_nibbles(size % 7 + 1, 48, size, 16)
        each = {"num_group": size, "pad": (1, 1)}
        yield f"bytes depthwise {size}", of_bytes(size, (2, 5, 6, size), **each)
        far = {"num_group": size, "stride": (2, 2), "pad": (2, 1)}
        yield f"bytes strided {size}", of_bytes(size, (1, 7, 6, size), (5, 3), **far)
    yield "selected in a heap", network(layer("topk", k=33, ret_typ="both"), (2, 4301))
    for size in (3, 17):
        yield f"lrn {size}", network(inside(layer("LRN", nsize=7)), (2, size, 2, 3))
        yield f"lrn first {size}", network(layer("LRN", nsize=3), (1, 4, 1, size))
        kept = layer("_contrib_box_nms", id_index=0, overlap_thresh=0.0, out_format="center")
        yield f"suppress {size}", network(kept, (2, size, 6))
        yield f"suppress {size} float64", in_double(network(kept, (2, size, 6)))
        others = var("o", (2, 4 * size)), var("a", (1, size, 4))
        best = layer("_contrib_MultiBoxDetection", *others, threshold=-9, nms_topk=9)
        shown = network(best, (2, 3, size))
        yield f"detect {size}", shown
        yield f"detect {size} float64", in_double(shown)
        limits = {"before": 4 * size - 1, "after": 3 * size, "threshold": 0.1}
        proposed = network(layer("_proposals", **limits), (2, 4 * size, 5))
        yield f"propose {size}", proposed
        yield f"propose {size} float64", in_double(proposed)
        ordered = network(layer("topk", k=size - 1, ret_typ="both"), (3, 4 * size))
        yield f"order {size}", ordered
        yield f"order {size} float64", in_double(ordered)
        selected = network(layer("topk", k=2, ret_typ="both"), (3, 16 * size))
        yield f"selected {size}", selected
        yield f"selected {size} float64", in_double(selected)
        resized = layer("_contrib_BilinearResize2D", height=7, width=2)
        yield f"resize {size}", network(inside(resized), (2, size, 3, 5))
        varying = network(conv(size, num_group=3 if size == 3 else 1), (1, 6, 4, 5))
        yield f"live weights {size}", live(varying)
        yield f"live filters {size}", live(network(conv(size, num_group=size), (1, size, 4, 5)))
        for number, net in enumerate(at_places(size)):
            yield f"at places {number} {size}", net
        lengths = call("softmax", var("x"), var("n"), use_length=True, axis=1)
        given = {"x": np.ones((2, 4, size), np.float32), "n": np.ones((2, size), np.int32)}
        yield f"lengths {size}", Network([lengths], given, [])
        yield f"norm {size}", network(layer("InstanceNorm", var("w"), var("b")), (1, 2, size))
        yield f"length {size}", network(layer("L2Normalization", mode="channel"), (1, 2, size))
        for number, net in enumerate(by_index(size)):
            yield f"by index {number} {size}", net
        for dtype in DTYPE_NAMES:
            yield f"{dtype} {size}", of_type(dtype, size)
        for mode in ("lstm", "gru", "rnn_relu"):
            yield f"{mode} {size}", network(recurrent(mode, size), (2, 7, 3))
    for stored in STORED:  # a convolution by Winograd's way, and plain ones
        for filters, channels, size in ((35, 33, 20), (7, 5, 6), (40, 17, 3)):
            weight, shape = (filters, channels, 3, 3), (1, channels, size, size)
            whole = of_stored("Convolution", shape, weight, stored, num_filter=filters)
            yield f"{stored} {filters}", whole
    for name, (make, shape) in LIVE.items():
        yield f"live {name}", live(network(make, shape))
        yield f"live {name} float64", live(in_double(network(make, shape)))
    for name, (make, shape) in LAYERS.items():
        yield f"{name} float64", in_double(network(make, shape, "residual-relu"))
    for number, net in enumerate(at_places(3)):
        yield f"at places {number} float64", in_double(net)
    for size in (4, 13, 25):  # each thread has separate tiles, or none
        yield f"few filters {size}", network(inside(conv(9, pad=(1, 1))), (2, 40, size, size))
        few = network(inside(conv(16, pad=(1, 1))), (2, 40, size, size), "residual-relu")
        yield f"few filters {size} added", few._replace(options=Options(winograd="always"))
    for size in (12, 13):  # of whole tiles, and not
        tiles = network(inside(conv(16, (5, 5))), (2, 6, size, size), "residual-relu")
        yield f"whole tiles {size}", tiles._replace(options=Options(winograd="always"))
    for tail in ("nothing", "residual-relu", "twice"):  # half of the filters do not fill blocks
        parts = network(inside(conv(96, (1, 1))), (2, 64, 3, 5), tail)
        yield f"strassen {tail}", parts._replace(options=Options(winograd="always"))
        uneven = network(inside(conv(90, (1, 1))), (2, 64, 3, 5), tail)
        yield f"strassen {tail} of 90", uneven._replace(options=Options(winograd="always"))
    chunks = network(inside(conv(64, (1, 1))), (2, 4096, 7, 9))
    yield "strassen chunks", chunks._replace(options=Options(winograd="always"))
    yield from in_16_bits()
    for seed in range(10):
        case = random_graph(seed)
        yield f"random {seed}", Network(case.outputs, case.arrays, case.params)
    for rows, keys, width, values in ((1, 1, 1, 1), (5, 17, 9, 33), (26, 257, 40, 16)):
        yield f"attention {rows} {keys}", attention(rows, keys, width, values)
    for size in (1, 3, 17, 70):
        for number, net in enumerate(of_any_size(size)):
            yield f"of any size {number} {size}", net
    for sizes in ((17, 33, 5), (1, 50, 17), (9, 3, 40), (40, 70, 50)):
        for turned in ((False, False), (False, True), (True, False)):
            yield f"products of any size {sizes} {turned}", products_of_any_size(*sizes, *turned)


def in_16_bits() -> Iterator[tuple[str, Network]]:
    """Products of bfloat16, with odd sizes, and other writers and readers of bfloat16."""
    for name in (
        "conv1x1",
        "conv-dilated",
        "conv-grouped",
        "depthwise",
        "maxpool",
        "conv-winograd",
    ):
        make, shape = LAYERS[name]
        yield f"{name} bfloat16", in_bfloat16(network(make, shape, "residual-relu"))
    for pad in ((0, 0), (1, 1)):
        first = inside(conv(65, pad=pad))
        yield f"few channels {pad} bfloat16", in_bfloat16(network(first, (1, 3, 9, 16)))
    for name in ("lstm", "gru", "rnn"):
        make, shape = LAYERS[name]
        yield f"{name} bfloat16", in_bfloat16(network(make, shape))
    for size in (9, 32):
        for rows in (1, 17):
            yield f"dense {rows} {size} bfloat16", in_bfloat16(network(dense(size), (rows, size)))
        for pixels in (1, 16):
            whole = inside(conv(size, pad=(1, 1)))
            shape = (1, size, pixels, 3)
            yield f"conv {pixels} {size} bfloat16", in_bfloat16(network(whole, shape))
        for k in (2, 17):
            both = layer("batch_dot", var("other", (2, k, size)))
            yield f"batch-dot {k} {size} bfloat16", in_bfloat16(network(both, (2, 5, k)))
            turned = layer("batch_dot", var("other", (2, size, k)), transpose_b=True)
            yield f"turned {k} {size} bfloat16", in_bfloat16(network(turned, (2, 3, k)))
        for kind in ("max", "avg"):
            yield f"windows {kind} {size} bfloat16", in_bfloat16(behind_a_product(size, kind))


def attention(rows: int, keys: int, width: int, values: int) -> Network:
    """Attention with a factor, biases of every broadcast, a mask and lengths; heads are strided."""
    shapes = {
        "q": (2, rows, 3, width),
        "k": (2, keys, 3, width),
        "v": (2, keys, 3, values),
        "f": (1,),
        "a": (2, 1, 1, keys),
        "b": (1, 3, rows, keys),
        "m": (2, 1, rows, keys),
    }
    random = np.random.default_rng(rows + keys)
    arrays = {n: random.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    heads = [call("transpose", var(n), axes=(0, 2, 1, 3)) for n in "qkv"]
    others = [var(n) for n in "fabmn"]
    arrays["m"] = (arrays["m"] > 0).astype(np.float32)
    arrays["n"] = random.integers(0, keys + 2, (2, 3, rows))
    attrs = {"has_factor": True, "biases": 2, "fill": -1e9, "after": "where", "use_length": True}
    output = call("_attention", *heads, *others, **attrs)
    return Network([output], arrays, [])


def products_of_any_size(m: int, n: int, k: int, *turned: bool) -> Network:
    """Products of activations with sizes from the call; some are transposed."""
    shapes = [(3, *(size[::-1] if is_turned else size)) for size, is_turned in zip(
        ((m, k), (k, n)), turned or (False, False)
    )]  # fmt: skip
    random, names = np.random.default_rng(m + n + k), ("x", "y")
    arrays = {x: random.normal(size=s).astype(np.float32) for x, s in zip(names, shapes)}
    transposed = dict(zip(("transpose_a", "transpose_b"), turned))
    product = call("batch_dot", var("x"), var("y"), **transposed)
    return Network([call("relu", product)], arrays, [], Options(dynamic=True))


def of_any_size(size: int) -> Iterator[Network]:
    """Kernels whose sizes the call gives, in rows that are shorter and longer than a vector."""
    x, random = var("x"), np.random.default_rng(size)
    ones, twice = {"x": (2, size, 5)}, {"x": (2, 5, size)}
    numbers = {"w": (5,), "b": (5,)}
    steps = call("slice_axis", var("n"), axis=0, begin=0, end=6)
    for output, shapes in (
        (call("sum", x, axis=2), twice),
        (call("mean", x, axis=1), ones),
        (call("max", x, axis=1), {"x": (2, 4, size)}),
        (call("argmax", x, axis=2), twice),
        (call("argmax", x, axis=1), ones),
        (call("norm", call("transpose", x, axes=(0, 2, 1)), axis=2), {"x": (2, size, 3)}),
        (call("sum", call("Cast", x, dtype="float16"), axis=2), twice),
        (call("sum", call("Cast", x, dtype="int32"), axis=1), {"x": (2, 4, size)}),
        (call("_moments", x, axis=2), twice),
        (call("_moments", x, axis=1), ones),
        (call("InstanceNorm", x, var("w"), var("b")), {**twice, **numbers}),
        (call("L2Normalization", x, mode="channel"), {"x": (2, 5, size, 3)}),
        (call("LRN", x, nsize=3), {"x": (2, 5, size, 3)}),
        (call("LayerNorm", x, var("w"), var("b")), {**ones, **numbers}),
        (call("sort", x, axis=1), {"x": (3, size)}),
        (call("topk", x, k=min(3, size), ret_typ="both"), {"x": (2, 3, size)}),
        (call("take", x, var("n"), axis=1, mode="wrap"), {**ones, "n": (4,)}),
        (call("pick", x, var("n"), axis=1), {"x": (2, 4, size), "n": (2, size)}),
        (call("gather_nd", x, call("_mod_scalar", var("n"), scalar=2.0)), {**ones, "n": (1, 7)}),
        (
            call("SequenceReverse", x, steps, use_sequence_length=True),
            {"x": (size, 6, 2), "n": (8,)},
        ),
        (call("SequenceMask", x, steps, use_sequence_length=True), {"x": (size, 6, 2), "n": (8,)}),
        (call("softmax", x, axis=1), ones),
    ):
        arrays = {n: random.normal(0, 5, s).astype(np.float32) for n, s in shapes.items()}
        yield Network([output], arrays, [], Options(dynamic=True))


def behind_a_product(size: int, kind: str) -> Network:
    """Windows of operands stored in 16 bits: filters of one channel, pooled."""
    plain = {"no_bias": True, "num_filter": size}
    first = call("relu", call("Convolution", var("x"), var("v"), kernel=(1, 1), **plain))
    second = call("Convolution", first, var("w"), kernel=(3, 2), num_group=size, **plain)
    output = call("Pooling", second, kernel=(2, 3), stride=(2, 1), pool_type=kind)
    shapes = {"x": (2, 9, 6, 7), "v": (size, 9, 1, 1), "w": (size, 1, 3, 2)}
    random = np.random.default_rng(size)
    arrays = {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
    return Network([output], arrays, ["v", "w"])


def of_type(dtype: str, size: int) -> Network:
    """Conversion, a border, elements backwards, and reductions along and across."""
    x = var("x")
    border = {"mode": "reflect", "before": (0, 2, 1), "after": (0, 0, 2), "value": 0.0}
    outputs = [
        call("Cast", call("reverse", x, axis=2), dtype="float16", name="half"),
        call("Cast", call("transpose", x, axes=(0, 2, 1)), dtype="int32", name="whole"),
        call("_pad_axes", x, **border),
        call("sum", x, axis=2, name="along"),
        call("max", x, axis=(0, 1), name="across"),
        call("min", call("transpose", x, axes=(2, 1, 0)), axis=1, name="turned"),
    ]
    if dtype != "bool":
        outputs.append(call("argmax", x, axis=1))
    values = np.random.default_rng(size).uniform(0, 100, (2, 3, size))
    return Network(outputs, {"x": values.astype(dtype)}, [])


def at_places(size: int) -> Iterator[Network]:
    """Sampling in and beyond an image."""
    random = np.random.default_rng(size)
    image, places = var("x"), var("y")
    boxes = np.array([[0, -3, -2, 9, 8], [1, 2, 2, 3, 3], [5, 0, 0, 1, 1]], np.float32)
    grid = random.normal(0, 2, (2, 2, 3, 4)).astype(np.float32)
    x = random.normal(0, 1, (2, size, 4, 5)).astype(np.float32)
    bins = {"pooled_size": (2, 3), "spatial_scale": 0.5}
    for op, second, attrs in (
        ("BilinearSampler", grid, {}),
        ("_contrib_ROIAlign", boxes, {**bins, "sample_ratio": 2}),
        ("ROIPooling", boxes, bins),
    ):
        yield Network([call(op, image, places, **attrs)], {"x": x, "y": second}, [])


def by_index(size: int) -> Iterator[Network]:
    """Selection by index, with indices that are not there."""
    random = np.random.default_rng(size)
    table, at = var("x"), var("y")
    named = {"mode": "wrap"}
    vectors = call("_mod_scalar", at, scalar=4.0)
    rows, steps = (5, 4, size), (4, 6, size)
    for output, shapes in (
        (call("take", table, at, axis=1, **named), (rows, (7,))),
        (call("pick", table, at, axis=1), (rows, (5, size))),
        (call("gather_nd", table, vectors), (rows, (2, 7))),
        (call("scatter_nd", table, vectors, shape=(4, 4, size)), ((6, size), (2, 6))),
        (call("_add_at", table, vectors, shape=(4, 4, size)), ((6, size), (2, 6))),
        (call("one_hot", at, depth=size), ((1,), (6,))),
        (call("SequenceReverse", table, at, use_sequence_length=True), (steps, (6,))),
        (call("SequenceMask", table, at, use_sequence_length=True), (steps, (6,))),
        (call("SequenceLast", table, at, use_sequence_length=True), (steps, (6,))),
    ):
        arrays = {n: random.normal(0, 5, s).astype(np.float32) for n, s in zip("xy", shapes)}
        yield Network([output], arrays, [])


def strided(size: int) -> Network:
    """Pointwise with a transposed, a sliced and a repeated operand."""
    turned = call("transpose", var("x"), axes=(1, 0))
    cut = call("slice", var("y"), begin=(0, 1), end=(size, 6), step=(1, 2))
    wide = call("broadcast_to", var("z"), shape=(size, 3))
    total = call("elemwise_mul", call("elemwise_add", turned, cut), wide)
    shapes = {"x": (3, size), "y": (size, 6), "z": (1, 3)}
    random = np.random.default_rng(size)
    arrays = {n: random.normal(0, 1, s).astype(np.float32) for n, s in shapes.items()}
    return Network([total], arrays, [])


def reaching_too_far(executable: Executable, at_end: bool) -> Executable:
    """The same executable with its first kernel's input moved by one element."""
    first, *rest = executable.code.calls
    (moved,) = first
    argument = moved.args[0]
    assert isinstance(argument, Address)
    view = argument.view
    there = replace(view, offset=view.offset + (1 if at_end else -1))
    changed = replace(moved, args=(Address(there), *moved.args[1:]))
    executable.code = replace(executable.code, calls=((changed,), *rest))
    return executable


def weights_of(filters: int, kernel: tuple[int, ...] = (3, 3), **attrs: object) -> Layer:
    """The gradient of a convolution by its weight, with its result as its result's gradient."""
    forward, both = conv(filters, kernel, **attrs), {"kernel": kernel, **attrs}
    return lambda x: call("_convolution_by_weight", x, forward(x), **both)


def unpooled(**attrs: object) -> Layer:
    """The gradient of maximum pooling, with its result as its result's gradient."""

    def make(x: Output) -> Output:
        y = call("Pooling", x, **attrs)
        return call("_back_from_max_pooling", x, y, call("negative", y), **attrs)

    return make


def tops(x: Output) -> Output:
    """The first two channels."""
    return call("slice_axis", x, axis=1, begin=0, end=2)


# Layers of images whose sizes are given, each with its channels, and the sizes that they run at;
# kernels are chosen for the first size that no variant serves.
OPEN_LAYERS: dict[str, tuple[Layer, int]] = {
    "conv3x3": (inside(conv(40, pad=(1, 1))), 5),
    "conv3x3 few channels": (conv(7, stride=(2, 2), pad=(1, 1)), 3),
    "conv7x7": (conv(33, (7, 7), stride=(2, 2), pad=(3, 3)), 3),
    "conv dilated": (inside(conv(18, dilate=(2, 3), pad=(2, 3))), 9),
    "conv grouped": (inside(conv(32, num_group=2, pad=(1, 1))), 32),
    "conv1x1": (inside(conv(18, (1, 1))), 17),
    "conv1x1 strided": (inside(conv(18, (1, 1), stride=(2, 3))), 17),
    "strassen": (inside(conv(70, (1, 1))), 64),
    "depthwise": (inside(conv(40, num_group=40, pad=(1, 1))), 40),
    "depthwise strided": (
        inside(conv(17, (5, 3), num_group=17, stride=(2, 2), pad=(2, 1))), 17
    ),
    "depthwise wide": (inside(conv(17, (1, 35), num_group=17, pad=(0, 17))), 17),
    "depthwise dilated": (
        inside(conv(33, (5, 5), num_group=33, dilate=(2, 2), pad=(3, 3))), 33
    ),
    "deconv": (inside(deconv(20, (4, 4), stride=(2, 2), pad=(1, 1))), 6),
    "max": (inside(pool(kernel=(3, 2), stride=(2, 1), pad=(1, 0), pool_type="max")), 21),
    "full": (inside(pool(kernel=(3, 3), stride=(2, 2), pooling_convention="full")), 7),
    "average": (
        inside(pool(kernel=(2, 3), pad=(1, 1), pool_type="avg", count_include_pad=False)), 16
    ),
    "global": (inside(pool(kernel=(1, 1), global_pool=True, pool_type="avg")), 9),
    "reflected": (
        layer("_pad_axes", mode="reflect", before=(0, 0, 2, 1), after=(0, 0, 0, 3), value=0.0), 2
    ),
    "border": (
        layer("_pad_axes", mode="constant", before=(0, 0, 2, 1), after=(0, 0, 1, 3), value=2.0), 2
    ),
    "twice": (inside(layer("UpSampling", scale=2, sample_type="nearest", num_args=1)), 5),
    "bilinear": (
        inside(layer("_contrib_BilinearResize2D", scale_height=2, scale_width=3, mode="odd_scale")),
        17,
    ),
    "weights": (weights_of(35, pad=(1, 1)), 19),
    "weights of few channels": (weights_of(7, (5, 5), stride=(2, 2), pad=(3, 2)), 3),
    "weights dilated": (weights_of(18, dilate=(2, 1), pad=(2, 1)), 9),
    "weights grouped": (weights_of(18, num_group=3, pad=(1, 0)), 12),
    "weights 1x1": (weights_of(33, (1, 1)), 17),
    "weights 1x1 strided": (weights_of(16, (1, 1), stride=(2, 3)), 32),
    "weights depthwise": (weights_of(35, (3, 5), num_group=35, pad=(1, 2)), 35),
    "weights depthwise strided": (weights_of(9, num_group=9, stride=(2, 2), pad=(0, 1)), 9),
    "unpooled": (unpooled(kernel=(3, 2), stride=(2, 1), pad=(1, 0), pool_type="max"), 21),
    "regions": (

        layer("_contrib_ROIAlign", var("w", (6, 5)), pooled_size=(3, 4), spatial_scale=1.0), 18
    ),
    "regions, largest": (
        layer("ROIPooling", var("w", (6, 5)), pooled_size=(3, 4), spatial_scale=1.0), 18
    ),
    "samples": (lambda x: call("BilinearSampler", x, call("tanh", tops(x))), 18),
    "unpooled apart": (unpooled(kernel=(2, 2), stride=(2, 3), pool_type="max"), 7),
}  # fmt: skip
OPEN_SIZES = ((14, 23), (23, 14), (9, 40), (31, 9), (16, 16), (8, 13))
ALGORITHMS: tuple[bool | str, ...] = (False, True, "always")  # of products, as in ``Options``


class SizedRun(GuardedRun):
    """A run of an executable for some of many sizes, whose calls have symbolic numbers."""

    def __init__(self, executable: Executable, at_end: bool, sizes: dict[str, int]) -> None:
        super().__init__(executable, at_end)
        self.sizes = sizes

    def _run_step(self, step: Step, row: Sequence[Call]) -> None:
        calls = [
            replace(each, args=tuple(sized(argument, self.sizes) for argument in each.args))
            for each in row
        ]
        super()._run_step(step, calls)

    def _number(self, argument: Argument) -> int:
        if isinstance(argument, (Address, Scratch, Shared)):
            fields = {n: sized(getattr(argument, n), self.sizes) for n in fields_of(argument)}
            argument = type(argument)(**fields)
        return super()._number(argument)


def added(make: Layer, channels: int, size: tuple[int, int]) -> Network:
    """A layer of images of this size, added to itself."""

    def twice(x: Output) -> Output:
        return call("elemwise_add", make(x), make(call("negative", x)), name="layer")

    return network(twice, (2, channels, *size))


def kernels_of(make: Layer, channels: int, winograd: bool | str) -> tuple[KernelSpec, ...]:
    """The kernels of :func:`added` at all sizes; they tell algorithms apart."""
    target, found = find_target(config.target), []
    for size in OPEN_SIZES:
        net = added(make, channels, size)
        plan = plan_of(net.outputs, net.arrays, net.params)
        calls = choose_calls(plan, target, winograd, new_log())
        found += [kernel_call.spec for row in calls for kernel_call in row]
    return tuple(found)


def run_open(make: Layer, channels: int, options: Options) -> int:
    """A layer at all sizes, added to itself: in bounds, and with the bits of code for each size.

    Returns how many compilations it took.
    """
    variants: list[Variant] = []
    for size in OPEN_SIZES:
        net = added(make, channels, size)
        expected = compiled(net.outputs, net.arrays, net.params, options=options)(net.inputs)
        (x,) = (n for n in net.arrays if n not in net.params)
        types = [type_of(net.arrays[x])]
        variant = next((v for v in variants if v.sizes_for(types) is not None), None)
        if variant is None:
            scope = Scope()
            open_ = types[0].with_shape((2, channels, *map(scope.symbol, "hw", size)))
            fixed = {n: type_of(net.arrays[n]) for n in net.params}
            variant = compile_variant(net.outputs, {x: open_}, fixed, scope, options)
            variants.append(variant)
        sizes = variant.sizes_for(types)
        executable = variant.at(sizes)
        executable.bind({n: net.arrays[n] for n in net.params}, PackedStore())
        for at_end in AT_END:
            found = SizedRun(executable, at_end, dict(zip(scope.symbols, sizes)))(net.inputs)
            for mine, wanted in zip(found, expected, strict=True):
                np.testing.assert_array_equal(mine, wanted)
    return len(variants)


def main_open() -> None:
    """All layers of images whose sizes are given, by all algorithms; prints how many compilations
    each takes.
    """
    for name, (make, channels) in OPEN_LAYERS.items():
        print(name, flush=True)
        different = {kernels_of(make, channels, winograd): winograd for winograd in ALGORITHMS}
        for winograd in different.values():
            count = run_open(make, channels, Options(winograd=winograd))
            print("  winograd", winograd, count, flush=True)


def main_too_far(place: str) -> None:
    """One element is read beyond the pages of a buffer, which ends the process."""
    net = network(layer("relu"), (4, 33))
    executable = compiled(net.outputs, net.arrays)
    GuardedRun(reaching_too_far(executable, place == "end"), place == "end")(net.inputs)


def main() -> None:
    """All networks, each compiled once."""
    kinds: set[str] = set()
    for name, net in networks():
        print(name, flush=True)
        executable = compiled(net.outputs, net.arrays, net.params, options=net.options)
        specs = {kernel_call.spec for row in executable.code.calls for kernel_call in row}
        kinds |= {s.kind if str(s.element) == "float32" else f"{s.kind}:{s.element}" for s in specs}
        expected = run_reference(net.outputs, net.arrays)
        tolerance = 1e-4 if net.options.precision == "float32" else 2e-2
        for at_end in AT_END:
            assert_near(guarded_run(executable, net, at_end)(net.inputs), expected, tolerance)
    print(*sorted(kinds))


def guarded_run(executable: Executable, net: Network, at_end: bool) -> GuardedRun:
    if not net.options.dynamic:
        return GuardedRun(executable, at_end)
    sizes = [size for array in net.inputs for size in array.shape]
    return SizedRun(executable, at_end, {f"s{i}": size for i, size in enumerate(sizes)})


if __name__ == "__main__":
    if config.target:
        os.environ["XDG_CACHE_HOME"] = folder_of_objects() or ""
        config.cache_dir = "" if folder_of_objects() else "off"
        optimise_nothing()
    if "--open" in sys.argv:
        main_open()
    elif "--too-far" in sys.argv:
        main_too_far(sys.argv[-1])
    else:
        main()
