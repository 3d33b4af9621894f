"""How much of 16 threads the units of work of a kernel leave idle, by construction, at batch 1.

A kernel is written with its integer arguments as numbers that are known, so that the number of its
units is one.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_generated_code import TARGETS

from compiling import compiled, plan_of, var
from hybridjit._core.target import Target
from hybridjit.codegen.call import Call, Setting
from hybridjit.codegen.kinds import all_emitters, choose
from hybridjit.codegen.kinds.parts.arguments import Arguments
from hybridjit.codegen.llvm import ir
from hybridjit.codegen.llvm.builder import LoopBuilder, Part
from hybridjit.codegen.llvm.indices import Index
from hybridjit.codegen.llvm.types import I64, PTR, Value
from hybridjit.runtime.threads import threads
from neighbours import Network, conv, dense, dense_across, inside, layer, network

THREADS = 16
PRODUCTS = ("conv", "depthwise", "winograd", "strassen", "dense", "matmul")


class Known(Arguments):
    """Arguments of a call, of which the integers are known."""

    def __init__(self, builder: LoopBuilder, given: tuple[Value, ...], call: Call) -> None:
        slots, thread, threads = given
        super().__init__(builder, slots, thread, thread, threads)
        self.call = call

    def integer(self, name: str) -> Value:
        self._next += 1
        return self.call.args[self._next - 1]


class Counting(LoopBuilder):
    """Keeps numbers that are known, and the number of units."""

    units: Index | None = None

    def quotient_up(self, a: Index, divisor: Index) -> Index:
        known = isinstance(a, int) and isinstance(divisor, int)
        return -(-a // divisor) if known else super().quotient_up(a, divisor)

    def max(self, a: Index, b: Index) -> Index:
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else super().max(a, b)

    def share(self, units: Index, tid: Value, threads: Value) -> tuple[Value, Value]:
        self.units = units
        return super().share(units, tid, threads)


def units_of(call: Call, target: Target) -> int:
    module = ir.Module("units")
    module.triple = target.triple
    kinds = [PTR, I64, I64, PTR, I64, I64, PTR]
    function = ir.Function(module, ir.FunctionType(I64, kinds), "part")
    builder = Counting(function, target.of(call.spec.element), Part(*function.args[3:]))
    all_emitters()[call.spec.kind](builder, call.spec, Known(builder, function.args[:3], call))
    assert isinstance(builder.units, int)
    return builder.units


def idle(net: Network, target: Target) -> float:
    """The part of the threads' time in which they wait for the last units of a product."""
    plan = plan_of(net.outputs, net.arrays, net.params)
    params = {v: i for i, v in enumerate(plan.graph.params)}
    setting = Setting(params, target, sample_rows=plan.graph.rows_of_sample)
    calls = [c for step in plan.steps for c in choose(step, setting)]
    (product,) = (c for c in calls if c.spec.kind in PRODUCTS)
    units = units_of(product, target)
    return 1 - units / (THREADS * -(-units // THREADS))


def attention(heads: int, steps: int, width: int) -> dict[str, Network]:
    scores = layer("batch_dot", var("other", (heads, steps, width)), transpose_b=True)
    values = layer("batch_dot", var("other", (heads, steps, width)))
    name = f"{heads} heads of {steps} steps"
    return {
        f"scores of {name}": network(scores, (heads, steps, width)),
        f"values of {name}": network(values, (heads, steps, steps)),
    }


FULL: dict[str, Network] = {
    **attention(12, 128, 64),
    **attention(3, 196, 64),
    **attention(8, 77, 64),
    "dense of 128 rows": network(dense(768), (128, 768)),
    "dense of 196 rows": network(dense(192), (196, 192)),
    "dense of 1024 rows": network(dense(1024), (1024, 256)),
    "places of sequences, to 3072": network(dense_across(3072), (1, 128, 768)),
    "Strassen of 14x14": network(inside(conv(512, (1, 1))), (1, 512, 14, 14)),
    "first layer": network(conv(64, (7, 7), stride=(2, 2), pad=(3, 3)), (1, 3, 224, 224)),
    "1x1 of 56x56": network(inside(conv(64, (1, 1))), (1, 256, 56, 56)),
    "1x1 of 14x14": network(inside(conv(1024, (1, 1))), (1, 256, 14, 14)),
    "1x1 of 7x7": network(inside(conv(2048, (1, 1))), (1, 512, 7, 7)),
    "groups of 16": network(inside(conv(512, num_group=32, pad=(1, 1))), (1, 512, 14, 14)),
}
# A row of a depthwise layer, a block of Winograd's tiles or of Strassen's pairs and the last dense
# layer are units that are not cut further.
IDLE: dict[str, Network] = {
    "depthwise of 14 rows": network(inside(conv(512, num_group=512, pad=(1, 1))), (1, 512, 14, 14)),
    "depthwise of 7 rows": network(inside(conv(1024, num_group=1024, pad=(1, 1))), (1, 1024, 7, 7)),
    "Winograd of 14x14": network(inside(conv(256, pad=(1, 1))), (1, 256, 14, 14)),
    "places of sequences": network(dense_across(768), (1, 128, 768)),
    "one row": network(dense(1000), (1, 2048)),
}


@pytest.mark.parametrize("name", FULL)
def test_products_leave_a_tenth_of_16_threads_idle_at_most(name: str):
    assert idle(FULL[name], TARGETS["avx512"]) <= 0.1


@pytest.mark.parametrize("name", IDLE)
def test_layers_with_idle_threads_are_listed(name: str):
    assert idle(IDLE[name], TARGETS["avx512"]) > 0.1


@pytest.mark.parametrize(
    "name", ["scores of 3 heads of 196 steps", "values of 3 heads of 196 steps"]
)
def test_parts_of_a_product_have_the_same_bits_for_any_threads(name: str):
    """A block of columns is packed by each thread that has some of its parts."""
    net = FULL[name]
    executable = compiled(net.outputs, net.arrays)
    found = []
    for count in (1, 2, 3, 5, 7):
        with threads(count):
            found.append(executable(list(net.arrays.values()))[0])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
