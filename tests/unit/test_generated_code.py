"""Properties of the machine code: hot loops, registers, calls. Not its text, which LLVM may change.

Assembly is made for each kind of x86 CPU, whatever this one is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from compiling import call, plan_of, symbolic_types, var
from guarded import at_places, networks
from hybridjit._core.target import Target
from hybridjit._core.types import type_of
from hybridjit.codegen.call import Setting
from hybridjit.codegen.choices import Choices
from hybridjit.codegen.emit.driver import emit_driver
from hybridjit.codegen.emit.module import emit_kernel, kernel_name
from hybridjit.codegen.kinds import all_emitters, choose
from hybridjit.codegen.kinds.conv.spec import ConvSpec
from hybridjit.codegen.kinds.dense.spec import DenseSpec
from hybridjit.codegen.llvm import ir
from hybridjit.codegen.llvm.jit import assembly, optimised
from hybridjit.codegen.llvm.types import F32, I32, constant_of
from hybridjit.codegen.spec import KernelSpec
from hybridjit.codegen.targets import find_target, portable_target
from hybridjit.compiler import new_log, plan_graph
from hybridjit.ir.node import Output, apply
from hybridjit.ops import all_ops, lookup
from neighbours import (
    LAYERS,
    Network,
    conv,
    conv_weight,
    dense,
    dense_of_bytes,
    inside,
    layer,
    network,
    of_bytes,
)
from samples import samples

pytestmark = pytest.mark.skipif(
    not find_target().triple.startswith("x86_64"), reason="the instructions are those of x86"
)
TARGETS = {
    name: replace(
        find_target(), name=name, cpu=cpu, features="", vector_bytes=width,
        vector_registers=registers, has_fma=has_fma,
    )
    for name, cpu, width, registers, has_fma in (
        ("avx512", "x86-64-v4", 64, 32, True),
        ("avx2", "x86-64-v3", 32, 16, True),
        ("sse2", "x86-64", 16, 16, False),
    )
}  # fmt: skip
WIDE = ("avx512", "avx2")


@dataclass(frozen=True)
class Loop:
    """An innermost loop: the instructions from its label to the jump back."""

    lines: tuple[str, ...]

    def count(self, pattern: str) -> int:
        return sum(bool(re.match(pattern, line)) for line in self.lines)


def instructions(text: str) -> list[str]:
    """Labels and instructions of assembly, without directives and comments."""
    lines = (re.sub(r"\s*#.*", "", line).strip() for line in text.splitlines())
    return [re.sub(r"\s+", " ", line) for line in lines if line and line[0] != "."
            or re.match(r"\.LBB\w+:", line)]  # fmt: skip


def innermost_loops(text: str) -> Iterator[Loop]:
    """Loops without a loop inside, in the order of the listing."""
    lines = instructions(text)
    where = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    spans = []
    for at, line in enumerate(lines):
        jump = re.match(r"j\w+ (\.LBB\w+)$", line)
        if jump and where[jump[1]] < at:
            spans.append((where[jump[1]], at))
    for first, last in spans:
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in spans):
            yield Loop(tuple(lines[first + 1 : last + 1]))


@cache
def listing(spec: KernelSpec, target: Target) -> str:
    """The code of a part of a kernel's work; code between parts is the same everywhere."""
    whole = assembly(str(emit_kernel(spec, target)), target, spec.needs_passes)
    part, *rest = whole.split(".size\tpart,")
    assert len(rest) == 1 and kernel_name(spec) in rest[0]
    return part


def specs_of(net: Network, target: Target, winograd: bool = True) -> list[KernelSpec]:
    if net.options.dynamic:
        return specs_for_all_sizes(net, target)
    plan = plan_of(net.outputs, net.arrays, net.params)
    setting = Setting({v: i for i, v in enumerate(plan.graph.params)}, target, winograd)
    return [kernel_call.spec for step in plan.steps for kernel_call in choose(step, setting)]


def specs_for_all_sizes(net: Network, target: Target) -> list[KernelSpec]:
    """Those of a network without parameters whose sizes are all symbolic."""
    scope, types = symbolic_types({name: type_of(array) for name, array in net.arrays.items()})
    plan = plan_graph(net.outputs, types, {}, new_log())
    hints = {name: int(size.hint) for name, size in scope.symbols.items()}
    setting = Setting({}, target, choices=Choices(scope, hints, {}, {}))
    return [kernel_call.spec for step in plan.steps for kernel_call in choose(step, setting)]


def conv_spec(net: Network, target: Target) -> ConvSpec | DenseSpec:
    (found,) = (
        s for s in specs_of(net, target, winograd=False) if isinstance(s, ConvSpec | DenseSpec)
    )
    return found


@pytest.mark.parametrize(
    "width, registers, cpu, feature, instruction",
    [
        (32, 16, "alderlake", "+avxvnni", r"\{vex\} vpdpbusd .*%ymm"),
        (64, 32, "icelake-server", "+avx512vnni", "vpdpbusd .*%zmm"),
    ],
)
def test_quads_are_one_instruction_where_the_cpu_has_it(
    width, registers, cpu, feature, instruction
):
    """A tile of a convolution of bytes: no widening to 16 bits, and no vectors on the stack."""
    target = replace(
        TARGETS["avx2"], cpu=cpu, features=feature, vector_bytes=width, vector_registers=registers
    )
    (spec,) = specs_of(of_bytes(64, (1, 9, 9, 64), pad=(1, 1)), target)
    loops = [*innermost_loops(listing(spec, target))]
    products = max(loop.count(instruction) for loop in loops)
    assert products >= 8 and not any(loop.count("vpmaddwd") for loop in loops)
    assert not any(loop.count(r"vmov.*[yz]mm\d+, .*%rsp") for loop in loops)


def test_tiles_of_bytes_are_loaded_once_for_two_products_each():
    features = "+avx512vnni,+amx-tile,+amx-int8"
    target = replace(TARGETS["avx512"], name="amx", cpu="icelake-server", features=features)
    (spec,) = specs_of(of_bytes(64, (1, 9, 9, 64), pad=(1, 1)), target)
    loop = max(innermost_loops(listing(spec, target)), key=lambda loop: loop.count("tdpbusd"))
    assert loop.count("tdpbusd") == loop.count("tileloadd") == 4


@pytest.mark.parametrize(
    "features, counts", [("+dotprod", {"sdot": 32}), ("+dotprod,+i8mm", {"usdot": 16})]
)
def test_quads_are_dot_products_on_neon(features, counts):
    """A tile of a dense layer of bytes; with sdot alone, sums of weights are added."""
    target = replace(portable_target("neon"), features=features)
    (spec,) = specs_of(dense_of_bytes(8, 64, 64), target)
    text = listing(spec, target)
    for name, least in counts.items():
        assert len(re.findall(rf"\t{name}\t", text)) >= least, text
    assert "smlal" not in text


PRODUCT = "vfmadd|v?mulps"


def hottest(text: str) -> Loop:
    return max(innermost_loops(text), key=lambda loop: loop.count(PRODUCT))


# Columns of results are multiples of 12 and of 6, so that there are whole tiles.
MULTIPLICATIONS: dict[str, Network] = {
    "conv3x3": network(inside(conv(64, pad=(1, 1))), (1, 64, 24, 24)),
    "conv1x1": network(inside(conv(128, (1, 1))), (1, 64, 12, 12)),
    "conv-strided": network(inside(conv(64, stride=(2, 2), pad=(1, 1))), (1, 64, 24, 48)),
    "dense": network(dense(256), (48, 512)),
    "dense-one-row": network(dense(1024), (1, 512)),
}


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("name", MULTIPLICATIONS)
class TestHotLoop:
    """acc[m, v] += x[m, c] * w[c, v], several channels a round: nothing in it but that."""

    def test_one_fma_for_each_product(self, name: str, target: str):
        spec = conv_spec(MULTIPLICATIONS[name], TARGETS[target])
        loop = hottest(listing(spec, TARGETS[target]))
        assert loop.count("vfmadd") == spec.mr * spec.nv * spec.unroll
        assert loop.count("vmulps|vaddps") == 0

    def test_no_call_and_nothing_on_the_stack(self, name: str, target: str):
        spec = conv_spec(MULTIPLICATIONS[name], TARGETS[target])
        loop = hottest(listing(spec, TARGETS[target]))
        assert loop.count("call") == 0
        assert not [line for line in loop.lines if "(%rsp" in line]

    def test_everything_is_loaded_once(self, name: str, target: str):
        """A row of weights as vectors, unless the one product that wants it loads it itself; a
        number of x for each row of the tile; no register copied into another."""
        spec = conv_spec(MULTIPLICATIONS[name], TARGETS[target])
        loop = hottest(listing(spec, TARGETS[target]))
        rows = spec.nv * spec.unroll
        assert loop.count(r"vmov[au]ps") + loop.count(r"vfmadd.*\(") == rows
        assert loop.count("vbroadcastss") == spec.mr * spec.unroll
        assert loop.count(r"vmovaps %") == 0

    def test_accumulators_fill_the_registers(self, name: str, target: str):
        """Three quarters of them; one row of data has eight sums, enough to hide an FMA's time."""
        spec = conv_spec(MULTIPLICATIONS[name], TARGETS[target])
        least = 8 if spec.mr == 1 else 0.75 * TARGETS[target].vector_registers
        assert spec.mr * spec.nv >= least

    def test_little_else_than_arithmetic(self, name: str, target: str):
        spec = conv_spec(MULTIPLICATIONS[name], TARGETS[target])
        loop = hottest(listing(spec, TARGETS[target]))
        loads = (spec.mr + spec.nv) * spec.unroll
        assert len(loop.lines) <= spec.mr * spec.nv * spec.unroll + loads + 10


@pytest.mark.parametrize("target", WIDE)
def test_groups_ask_for_the_weights_of_the_next(target: str):
    """Where all groups have one block of channels, the next block is the next group's."""

    def asked(groups: int) -> int:
        net = network(inside(conv(16 * groups, pad=(1, 1), num_group=groups)), (1, 256, 24, 24))
        return hottest(listing(conv_spec(net, TARGETS[target]), TARGETS[target])).count("prefetch")

    assert asked(16) > 0
    assert asked(1) == 0


def summed(x: Output) -> Output:
    """A residual sum of x and a 1x1 convolution of x, with channels last."""
    return inside(lambda y: call("elemwise_add", conv(256, (1, 1))(y), y, name="sum"))(x)


@pytest.mark.parametrize("target", WIDE)
def test_products_prefetch_the_next_addend(target: str):
    plain = network(inside(conv(256, (1, 1))), (1, 256, 24, 24))
    loops = [
        hottest(listing(conv_spec(net, TARGETS[target]), TARGETS[target]))
        for net in (plain, network(summed, (1, 256, 24, 24)))
    ]
    asked = [loop.count("prefetch") for loop in loops]
    assert asked[1] > asked[0]
    assert loops[0].count("vfmadd") == loops[1].count("vfmadd")


@pytest.mark.parametrize("target", WIDE)
def test_sums_over_positions_ask_for_the_next_positions(target: str):
    """Both operands of the gradient by a weight: the data, and the gradients of all filters."""
    net = network(inside(conv_weight((8, 256, 56, 56), (1, 1))), (8, 64, 56, 56))
    (spec,) = (s for s in specs_of(net, TARGETS[target]) if s.kind == "conv_weight")
    text = listing(spec, TARGETS[target])
    assert spec.blocks > 1
    assert sum("prefetch" in line for line in instructions(text)) >= 2
    assert "prefetch" not in "".join(hottest(text).lines)


# The second has register tiles of 13 rows where there are 32 registers.
TRANSFORMED: dict[str, Network] = {
    "winograd": network(inside(conv(128, pad=(1, 1))), (1, 128, 28, 28)),
    "winograd 1x7": network(inside(conv(192, (1, 7), pad=(0, 3))), (1, 192, 17, 17)),
    "strassen": network(inside(conv(512, (1, 1))), (1, 512, 14, 14)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("target", WIDE)
def test_transformed_products_run_in_registers(target: str, name: str):
    net, kind = TRANSFORMED[name], name.split()[0]
    (spec,) = (s for s in specs_of(net, TARGETS[target]) if s.kind == kind)
    loops = innermost_loops(listing(spec, TARGETS[target]))
    rows = spec.mr * spec.unroll
    fitting = [loop for loop in loops if loop.count("vbroadcastss") == rows]
    products = min(fitting, key=lambda loop: len(loop.lines))  # the transforms are longer
    assert products.count("vfmadd") == rows * spec.nv
    assert products.count("call") == 0
    assert not [line for line in products.lines if "(%rsp" in line]


# Layers of real networks: tiles at the edges, first layers of few channels, one number a tap.
EDGES: dict[str, Network] = {
    "edges3x3": network(inside(conv(64, pad=(1, 1))), (1, 64, 14, 14)),
    "edges5x5": network(inside(conv(48, (5, 5), pad=(2, 2))), (1, 48, 27, 27)),
    "edges1x7": network(inside(conv(160, (1, 7), pad=(0, 3))), (1, 128, 17, 17)),
    "edges-long": network(inside(conv(64, (1, 11), pad=(0, 5))), (1, 64, 1, 288)),
    "edges-strided": network(inside(conv(64, stride=(2, 2), pad=(1, 1))), (1, 64, 28, 28)),
    "edges-sum": network(summed, (1, 256, 24, 24)),
    "first7x7": network(conv(64, (7, 7), stride=(2, 2), pad=(3, 3)), (1, 3, 112, 112)),
    "first3x3": network(conv(32, stride=(2, 2), pad=(1, 1)), (1, 3, 112, 112)),
    "first-valid": network(conv(64, stride=(2, 2)), (1, 3, 112, 112)),
    "first11x11": network(conv(64, (11, 11), stride=(4, 4), pad=(2, 2)), (1, 3, 112, 112)),
    "patches": network(conv(64, (16, 16), stride=(16, 16)), (1, 3, 112, 112)),
    "digits": network(conv(6, (5, 5)), (1, 1, 28, 28)),
    "depthwise": network(inside(conv(64, num_group=64, pad=(1, 1))), (1, 64, 28, 28)),
    "groups-of-4": network(inside(conv(64, num_group=16, pad=(1, 1))), (1, 64, 28, 28)),
    "groups-of-8": network(inside(conv(64, num_group=8, pad=(1, 1))), (1, 64, 28, 28)),
    "groups-of-2": network(inside(conv(64, num_group=32, stride=(2, 2))), (1, 64, 28, 28)),
    "attention": network(layer("batch_dot", var("other", (4, 64, 96))), (4, 48, 64)),
}


# A CPU that works on half of 64 bytes at a time, and layers whose last vector is half of one.
ZEN4 = replace(TARGETS["avx512"], cpu="znver4")
HALVES: dict[str, Network] = {
    "1x1": network(inside(conv(24, (1, 1))), (1, 320, 24, 24)),
    "1x1, three": network(inside(conv(40, (1, 1))), (1, 320, 24, 24)),
    "1x1, short": network(inside(conv(24, (1, 1))), (1, 96, 24, 24)),
    "one": network(inside(conv(8, (1, 1))), (1, 96, 24, 24)),
    "3x3": network(inside(conv(24, pad=(1, 1))), (1, 24, 24, 24)),
    "first": network(conv(24, stride=(2, 2), pad=(1, 1)), (1, 3, 112, 112)),
    "digits": network(conv(6, (5, 5)), (1, 1, 28, 28)),
    "dense": network(dense(24), (48, 512)),
    "attention": network(layer("batch_dot", var("other", (4, 64, 24))), (4, 48, 64)),
}


@pytest.mark.parametrize("name", HALVES)
def test_half_a_vector_is_multiplied_as_half_of_one(name: str):
    """In registers, and a number of x is loaded once for whole vectors and for the half.

    Tiles of one vector are whole, or half of one.
    """
    specs = specs_of(HALVES[name], ZEN4, winograd=False)
    (spec,) = (s for s in specs if s.kind in ("conv", "dense", "matmul"))
    loops = [loop for loop in innermost_loops(listing(spec, ZEN4)) if loop.count(PRODUCT) >= 2]
    assert any(loop.count("vfmadd.*ymm") for loop in loops)
    for loop in loops:
        halves, all_ = loop.count("vfmadd.*ymm"), loop.count("vfmadd")
        assert halves * spec.nv == all_ > 0 or (spec.nv == 1 and halves == 0 < all_)
        assert not [line for line in loop.lines if "(%rsp" in line], loop
        loaded = loop.count(r"vbroadcastss .*\(") + loop.count("vfmadd.*1to")
        assert loaded * spec.nv <= all_
        assert loop.count("vbroadcastss %") == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*MULTIPLICATIONS, *EDGES])
def test_no_loop_of_products_touches_the_stack(name: str, target: str):
    net = {**MULTIPLICATIONS, **EDGES}[name]
    specs = specs_of(net, TARGETS[target], winograd=False)
    (spec,) = (s for s in specs if s.kind in ("conv", "dense", "depthwise", "matmul"))
    loops = [
        loop for loop in innermost_loops(listing(spec, TARGETS[target])) if loop.count(PRODUCT) >= 2
    ]
    assert loops, "a kernel of products has a loop of products"
    for loop in loops:
        assert not [line for line in loop.lines if "(%rsp" in line], loop
        assert loop.count("call") == 0


def test_edges_of_long_rows_have_short_code():
    """Rows of tiles of the same shapes: in the long one, few columns are in tiles at an edge."""
    sizes = []
    for columns in (96, 288):
        net = network(inside(conv(64, (1, 11), pad=(0, 5))), (1, 64, 1, columns))
        spec = conv_spec(net, TARGETS["avx512"])
        sizes.append(len(instructions(listing(spec, TARGETS["avx512"]))))
    assert sizes[1] < 0.7 * sizes[0]


def test_without_fma_there_is_none():
    spec = conv_spec(MULTIPLICATIONS["conv1x1"], TARGETS["sse2"])
    text = listing(spec, TARGETS["sse2"])
    assert "vfmadd" not in text
    assert hottest(text).count("mulps") == spec.mr * spec.nv * spec.unroll


# --- registers and calls of every kernel ---


@cache
def all_specs(target: str) -> tuple[KernelSpec, ...]:
    """Kernels of every kind, with and without epilogues."""
    found = [
        spec
        for name, (make, shape) in LAYERS.items()
        for tail in ("nothing", "residual-relu")
        for spec in specs_of(network(make, shape, tail), TARGETS[target])
        if tail == "nothing" or name in ("conv3x3", "depthwise", "dense", "maxpool")
    ]
    return tuple(dict.fromkeys(found))


def one_of_each_kind(target: Target) -> dict[str, KernelSpec]:
    """The first spec of each kind among the networks that run in guarded memory."""
    found: dict[str, KernelSpec] = {}
    for _, net in networks():
        for spec in specs_of(net, target):
            found.setdefault(spec.kind, spec)
        if set(found) == set(all_emitters()):
            break
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_registers_are_those_of_the_target(target: str):
    allowed = {"avx512": {"xmm", "ymm", "zmm"}, "avx2": {"xmm", "ymm"}, "sse2": {"xmm"}}[target]
    seen: Counter[str] = Counter()
    for spec in all_specs(target):
        used = set(re.findall(r"%([xyz]mm)\d", listing(spec, TARGETS[target])))
        assert used <= allowed, f"{spec} uses {used}"
        seen.update(used)
    assert set(seen) == allowed


@pytest.mark.parametrize("target", ["avx2", "sse2"])
def test_no_mask_registers_below_avx512(target: str):
    for spec in all_specs(target):
        assert not re.search(r"%k[0-7]\b", listing(spec, TARGETS[target])), spec


def test_llvm_options_do_not_affect_other_users_of_llvmlite():
    """LLVM's switches, which kernels are compiled with, are the process's."""
    target = find_target()
    text = str(emit_kernel(conv_spec(MULTIPLICATIONS["conv3x3"], target), target))

    def of_others() -> str:
        module, machine = optimised(text, target)
        return str(machine.emit_assembly(module))

    before = of_others()
    assert assembly(text, target) != before, "the switches change nothing"
    assert of_others() == before


def test_constants_are_written_once_for_all_lanes():
    """LLVM reads the same from less text, of which kernels have megabytes."""
    floats, ints = ir.VectorType(F32, 16), ir.VectorType(I32, 16)
    texts = [
        str(constant_of(kind, x).ref) for kind, x in ((floats, 0.0), (floats, -0.0), (ints, 0))
    ]
    assert len(set(texts)) == 3 and max(map(len, texts)) < 40
    for kind, x in ((floats, -0.0), (floats, 0.1), (floats, np.inf), (ints, -7)):
        one = constant_of(kind.element, x).pair
        both = [constant_of(kind, x).pair, f"{kind.text} <{', '.join([one] * kind.count)}>"]
        codes = [f"define {kind.text} @f() {{\n  ret {text}\n}}\n" for text in both]
        assert len({assembly(code, TARGETS["avx512"]) for code in codes}) == 1


@pytest.mark.parametrize("target", ["avx2", "sse2"])
def test_no_kernel_calls_anything(target: str):
    """Kernels of every kind: no library function, not even one that LLVM puts in by itself.

    Loops that a file, data or a batch can make long poll, by an address.
    """
    others = one_of_each_kind(TARGETS[target])
    assert set(others) == set(all_emitters()) - {"byte_tiles"}  # which need AMX
    of_images = [spec for net in at_places(3) for spec in specs_of(net, TARGETS[target])]
    for spec in (*all_specs(target), *others.values(), *of_images):
        calls = re.findall(r"\bcall\w*\s+(\S+)", listing(spec, TARGETS[target]))
        polls = [name for name in calls if name.startswith("*")]
        assert calls == polls, f"{spec} calls {calls}"
        summed = ("conv_weight", "winograd_weight", "lines_weight", "depthwise_weight")
        given = ("sized_matmul", "attention", "nibble_dense")  # loops as long as a call says
        assert not polls or spec.kind in ("region", "scatter", "join_parts", *summed, *given)


def test_a_kernel_goes_from_part_to_part_and_polls_between_them():
    (spec,) = specs_of(network(dense(256), (48, 512)), TARGETS["avx2"])
    whole = assembly(str(emit_kernel(spec, TARGETS["avx2"])), TARGETS["avx2"], spec.needs_passes)
    calls = re.findall(r"\bcall\w*\s+(\S+)", whole)
    assert len(calls) == 2 and calls[0] == "part" and calls[1].startswith("*")


def pointwise_names() -> list[str]:
    return [op.name for op in all_ops() if op.is_pointwise]


@pytest.mark.parametrize("name", pointwise_names())
def test_no_scalar_formula_calls_anything(name: str):
    """The functions of C's library would be slow, and other bits on another system."""
    op = lookup(name)
    known = list(samples(op))
    single = (s for s in known if all(a.dtype == np.float32 for a in s.arrays))
    sample = next(single, known[0])  # bits are mixed in integers only
    arrays = {f"x{i}": a for i, a in enumerate(sample.arrays)}
    made = apply(op, "made", map(var, arrays), sample.attrs)
    specs = specs_of(Network([Output(made)], arrays, []), TARGETS["avx2"])
    assert not any(re.search(r"\bcall", listing(spec, TARGETS["avx2"])) for spec in specs)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint8"])
def test_no_element_type_calls_anything(dtype: str):
    """Conversions, divisions and reductions of other types, with and without their instructions."""
    x = np.ones((3, 37), dtype)
    outputs = [
        call("Cast", var("x"), dtype="float16" if dtype == "float64" else "float64"),
        *(call(n, var("x"), name=n) for n in ("tanh", "sin", "round")),
        *(call(n, var("x"), var("x"), name=n) for n in ("broadcast_mod", "broadcast_div")),
        *(call(n, var("x"), axis=0, name=n) for n in ("mean", "prod", "argmax")),
    ]
    for target in ("avx512", "sse2"):
        for spec in specs_of(Network(outputs, {"x": x}, []), TARGETS[target]):
            calls = re.findall(r"\bcall\w*\s+(\S+)", listing(spec, TARGETS[target]))
            assert not calls, f"{spec} on {target} calls {calls}"


def test_a_pointwise_kernel_is_a_vector_loop_and_a_tail():
    net = network(lambda x: call("sqrt", x, name="layer"), (3, 50))
    (spec,) = specs_of(net, TARGETS["avx2"])
    vector, tail = innermost_loops(listing(spec, TARGETS["avx2"]))
    assert vector.count("vsqrtps") == 1 and tail.count("vsqrt[ps]s") == 1
    assert len(vector.lines) <= 6


def test_the_driver_calls_kernels_by_address():
    """By name only its own functions are called, the system's of threads and time, and Python's."""
    text = assembly(str(emit_driver(TARGETS["avx2"])), TARGETS["avx2"])
    named = set(re.findall(r"\bcallq?\s+([A-Za-z_]\w*)", text))
    own = {"alone", "barrier", "call", "hear", "run", "sleep", "start_workers", "together"}
    assert {n for n in named - own if not n.startswith(("pthread_", "Py"))} <= {
        "clock_gettime",
        "sched_yield",
    }
    assert re.search(r"\bcallq?\s+\*", text)


# --- the listing is read rightly ---

NESTED = """
f:
    xorl %eax, %eax
.LBB0_1:                # outer
    movl $0, %ecx
.LBB0_2:
    vfmadd231ps (%rdi), %ymm0, %ymm1
    addq $1, %rcx
    jl .LBB0_2
    movq 8(%rsp), %rax
    jne .LBB0_1
    jmp .LBB0_3
.LBB0_3:
    retq
"""


def test_innermost_loops_of_a_listing():
    (loop,) = innermost_loops(NESTED)
    assert loop.lines[-1] == "jl .LBB0_2" and len(loop.lines) == 3
    assert loop.count("vfmadd") == 1 and loop.count("movq") == 0


@pytest.mark.parametrize("target", WIDE)
def test_a_long_program_is_written_once_for_all_tiles(target: str):
    """A sigmoid divides, and the product does not: one division per vector of a row."""

    def gate(x: Output) -> Output:
        return call("sigmoid", dense(256)(x))

    spec = conv_spec(network(gate, (48, 512)), TARGETS[target])
    assert isinstance(spec, DenseSpec)
    lines = instructions(listing(spec, TARGETS[target]))
    assert sum(line.startswith("vdivps") for line in lines) == spec.nv
