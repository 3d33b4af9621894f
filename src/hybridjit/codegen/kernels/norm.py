"""LayerNorm over the last axis: mean, then variance around it, then scale and shift."""

from __future__ import annotations

from typing import Any

from ..builder import Index, LoopBuilder
from ..spec import LayerNormSpec
from ..vmath import VectorMath
from .arguments import Arguments
from .reduce import reduce_line
from .tail import read_vector, write_vector


def emit_layernorm(b: LoopBuilder, spec: LayerNormSpec, args: Arguments) -> None:
    """y = (x - mean x) / sqrt(var x + eps) * gamma + beta, the variance in a second pass."""
    x, gamma, beta, y = (args.pointer(name) for name in ("x", "gamma", "beta", "y"))
    rows = args.integer("rows")
    math = VectorMath(b)
    size = b.constant(float(spec.size), b.load_scalar(gamma))
    begin, end = b.share(rows, args.tid, args.threads)
    with b.loop("row", begin, end) as row:
        line = b.at(x, b.mul(row.index, spec.size))
        target = b.at(y, b.mul(row.index, spec.size))
        mean = b.splat(b.b.fdiv(reduce_line(b, line, spec.size, 0.0, math.add), size))

        def squared(value: Any, mean: Any = mean) -> Any:
            apart = math.sub(value, mean)
            return math.mul(apart, apart)

        total = reduce_line(b, line, spec.size, 0.0, math.add, squared)
        variance = b.splat(b.b.fdiv(total, size))
        scale = math.div(b.splat(1.0), math.sqrt(math.add(variance, b.splat(spec.eps))))

        def normalise(index: Index, lanes: int, line: Any = line, target: Any = target) -> None:
            value = math.mul(math.sub(read_vector(b, line, index, 1, lanes), mean), scale)
            weight = read_vector(b, gamma, index, 1, lanes)
            shifted = b.fma(value, weight, read_vector(b, beta, index, 1, lanes))
            write_vector(b, shifted, target, index, 1, lanes)

        whole = spec.size - spec.size % b.lanes
        if whole:
            with b.loop("i", 0, whole, b.lanes) as i:
                normalise(i.index, b.lanes)
        if spec.size % b.lanes:
            normalise(whole, spec.size % b.lanes)
