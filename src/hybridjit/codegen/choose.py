"""Choose: a planned step and a target become kernel calls. All heuristics are here.

In: a Step with its views. Out: its calls, each a KernelSpec with its arguments. Numbers are
derived from the target, with the derivation or the measurement beside them. Nothing that changes
the order of a sum depends on the batch, the thread count or an address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir.graph import Group, Use, Value
from ..ir.plan import Step, View
from ..target import Target
from ..types import product
from .packing import ChannelPacking, ConvPacking, DepthwisePacking, Packing
from .spec import (
    ConvSpec,
    DepthwiseSpec,
    Instr,
    Ints,
    KernelSpec,
    PointwiseSpec,
    PoolSpec,
    Program,
    SoftmaxSpec,
)


@dataclass(frozen=True)
class Address:
    """The address of a view's first element."""

    view: View


@dataclass(frozen=True)
class Packed:
    """The address of parameter ``index`` of the run graph, packed for its kernel.

    ``index`` None stands for zeros: the bias of a layer that has none.
    """

    index: int | None
    packing: Packing
    size: int = 0


@dataclass(frozen=True)
class Call:
    """One kernel and its arguments in order; ``work`` counts its multiplications, about."""

    spec: KernelSpec
    args: tuple[Address | Packed | int, ...]
    work: int = 0


def choose(step: Step, params: dict[Value, int], target: Target) -> tuple[Call, ...]:
    """The kernel calls of a step; none for a host step. ``params`` numbers the weights."""
    chooser = _CHOOSERS.get(step.kind)
    return chooser(step, params, target) if chooser else ()


# --- programs and operands ---


def build_program(group: Group, anchored: bool) -> tuple[Program, tuple[Use, ...]]:
    """The group's pointwise part, and the uses that are its operands, in order.

    With an anchor, value 0 is the anchor's result and the operands follow.
    """
    members = group.epilogue if anchored else group.members
    own = set(group.members)
    operands = tuple(dict.fromkeys(u for m in members for u in m.inputs if u.value not in own))
    number: dict[Value, int] = {group.anchor: 0} if anchored else {}
    base = len(number)
    at = {use: base + i for i, use in enumerate(operands)}
    instrs = []
    for value in members:
        args = tuple(number[u.value] if u.value in number else at[u] for u in value.inputs)
        instrs.append(Instr(value.op.name, args, _attrs_off_default(value)))  # type: ignore[union-attr]
        number[value] = base + len(operands) + len(instrs) - 1
    outputs = tuple(number[v] for v in group.outputs)
    return Program(base + len(operands), tuple(instrs), outputs), operands


def _attrs_off_default(value: Value) -> tuple[tuple[str, Any], ...]:
    assert value.op is not None
    defaults = {a.name: a.default for a in value.op.attrs}
    pairs = sorted((k, v) for k, v in value.attrs.items() if v != defaults[k])
    return tuple(pairs)


def broadcast_strides(view: View, shape: Ints) -> Ints:
    """The view's strides over an index space ``shape``; 0 along axes that it repeats on."""
    missing = len(shape) - len(view.shape)
    own = (0,) * missing + tuple(
        0 if size == 1 else stride for size, stride in zip(view.shape, view.strides)
    )
    return own


def _views_of(step: Step, uses: tuple[Use, ...]) -> list[View]:
    table = dict(zip(step.group.inputs, step.reads))
    return [table[use] for use in uses]


# --- pointwise ---

# Elements of a one-axis space that are one unit of work: large enough that taking it costs
# nothing, small enough to share out.
_BLOCK = 2048


def _choose_pointwise(step: Step, params: dict[Value, int], target: Target) -> tuple[Call, ...]:
    program, operands = build_program(step.group, anchored=False)
    return (_pointwise_call(program, _views_of(step, operands), list(step.writes)),)


def _choose_copy(step: Step, params: dict[Value, int], target: Target) -> tuple[Call, ...]:
    return (_pointwise_call(Program(1), list(step.reads), list(step.writes)),)


def _pointwise_call(program: Program, reads: list[View], writes: list[View]) -> Call:
    shape = writes[0].shape
    strides = [broadcast_strides(v, shape) for v in (*reads, *writes)]
    sizes, columns = collapse(shape, strides)
    if len(sizes) > 1 and sizes[-1] > 2 * _BLOCK:
        sizes, columns = _split_inner(sizes, columns)
    split = len(reads)
    spec = PointwiseSpec(
        dims=sizes[1:],
        reads=tuple(columns[:split]),
        writes=tuple(columns[split:]),
        program=program,
        block=_BLOCK if len(sizes) == 1 else 0,
    )
    args = (*map(Address, reads), *map(Address, writes), sizes[0])
    return Call(spec, args, product(shape))


def collapse(shape: Ints, strides: list[Ints]) -> tuple[Ints, list[Ints]]:
    """The index space with size-1 axes dropped and axes merged that lie one after the other."""
    axes = [i for i, size in enumerate(shape) if size != 1] or [len(shape) - 1]
    sizes = [shape[i] if shape else 1 for i in axes] if shape else [1]
    columns = [[s[i] for i in axes] if shape else [1] for s in strides]
    at = len(sizes) - 2
    while at >= 0:
        if all(c[at] == c[at + 1] * sizes[at + 1] for c in columns):
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
            for c in columns:
                del c[at]
        at -= 1
    return tuple(sizes), [tuple(c) for c in columns]


def _split_inner(sizes: Ints, columns: list[Ints]) -> tuple[Ints, list[Ints]]:
    """Cut a long innermost axis in two, so that there is work to share."""
    inner = sizes[-1]
    piece = next((p for p in range(_BLOCK, 255, -1) if inner % p == 0), None)
    if piece is None:
        return sizes, columns
    return (*sizes[:-1], inner // piece, piece), [(*c[:-1], c[-1] * piece, c[-1]) for c in columns]


# --- convolution and dense layers ---


def _choose_conv(step: Step, params: dict[Value, int], target: Target) -> tuple[Call, ...]:
    anchor = step.group.anchor
    program, operands = build_program(step.group, anchored=True)
    x = _views_of(step, anchor.inputs[:1])[0]
    attrs = anchor.attrs
    rank = len(anchor.shape) - 2
    weight = anchor.inputs[1].value
    groups = attrs["num_group"]
    geometry = {
        "inp": _three(x.shape[1:-1], 1),
        "out": _three(anchor.shape[1:-1], 1),
        "kernel": _three(attrs["kernel"], 1),
        "stride": _three(attrs["stride"] or (1,) * rank, 1),
        "dilate": _three(attrs["dilate"] or (1,) * rank, 1),
        "pad": _three(attrs["pad"] or (0,) * rank, 0),
    }
    xs = _five(x.strides, rank)
    reads = tuple(
        _five(broadcast_strides(v, anchor.shape), rank) for v in _views_of(step, operands)
    )
    writes = tuple(_five(v.strides, rank) for v in step.writes)
    channels = x.shape[-1]
    one_each = groups == channels == anchor.shape[-1] and channels > 1
    extra = [Address(v) for v in (*_views_of(step, operands), *step.writes)]
    if one_each and xs[4] == 1:
        spec: KernelSpec = DepthwiseSpec(
            **geometry,
            channels=channels,
            xs=xs,
            reads=reads,
            writes=writes,
            program=program,
            **_depthwise_tile(geometry, target),
        )
        packing: Packing = DepthwisePacking(target.lanes)
        bias_packing = ChannelPacking(1, target.lanes)
    else:
        geometry, (xs, *rest) = _flattened(geometry, [xs, *reads, *writes])
        reads, writes = tuple(rest[: len(reads)]), tuple(rest[len(reads) :])
        spec = _conv_spec(
            geometry, groups, channels // groups, anchor.shape[-1] // groups, target,
            xs=xs, reads=reads, writes=writes, program=program,
        )  # fmt: skip
        packing = ConvPacking(groups, target.lanes, spec.nv, spec.taps)  # type: ignore[attr-defined]
        bias_packing = ChannelPacking(groups, target.lanes)
    bias = _bias(anchor, params, bias_packing)
    args = (Address(x), Packed(params[weight], packing), bias, *extra, x.shape[0])
    return (Call(spec, args, product(anchor.shape) * weight.type.size // anchor.shape[-1]),)


def _choose_gemm(step: Step, params: dict[Value, int], target: Target) -> tuple[Call, ...]:
    """A dense layer: one image, one row, a column for each row of data."""
    anchor = step.group.anchor
    program, operands = build_program(step.group, anchored=True)
    x = _views_of(step, anchor.inputs[:1])[0]
    rows, size = x.shape
    one = (1, 1, 1)
    geometry = {
        "inp": (1, 1, rows), "out": (1, 1, rows), "kernel": one, "stride": one, "dilate": one,
        "pad": (0, 0, 0),
    }  # fmt: skip
    spec = _conv_spec(
        geometry, 1, size, anchor.shape[1], target,
        xs=_columns(x.strides),
        reads=tuple(
            _columns(broadcast_strides(v, anchor.shape)) for v in _views_of(step, operands)
        ),
        writes=tuple(_columns(v.strides) for v in step.writes),
        program=program,
    )  # fmt: skip
    packing = ConvPacking(1, target.lanes, spec.nv, spec.taps)
    bias = _bias(anchor, params, ChannelPacking(1, target.lanes))
    weight = Packed(params[anchor.inputs[1].value], packing)
    extra = [Address(v) for v in (*_views_of(step, operands), *step.writes)]
    return (Call(spec, (Address(x), weight, bias, *extra, 1), product(anchor.shape) * size),)


def _bias(anchor: Value, params: dict[Value, int], packing: ChannelPacking) -> Packed:
    channels = anchor.shape[-1]
    if len(anchor.inputs) > 2:
        return Packed(params[anchor.inputs[2].value], packing)
    return Packed(None, packing, channels)


def _three(values: Ints, default: int) -> Ints:
    """Per-axis numbers as (depth, height, width)."""
    return (default,) * (3 - len(values)) + tuple(values)


def _five(strides: Ints, rank: int) -> Ints:
    """Strides of [n, spatial..., c] as (n, d, h, w, c)."""
    return (strides[0], *(0,) * (3 - rank), *strides[1:])


def _columns(strides: Ints) -> Ints:
    return (0, 0, 0, strides[0], strides[1])


def _flattened(
    geometry: dict[str, Ints], strides: list[Ints]
) -> tuple[dict[str, Ints], list[Ints]]:
    """A 1x1 convolution whose lines follow each other is one long line."""
    plain = geometry["kernel"] == geometry["stride"] == (1, 1, 1) and geometry["pad"] == (0, 0, 0)
    depth, height, width = geometry["out"]

    def follows(s: Ints) -> bool:
        lines = height == 1 or s[2] == s[3] * width
        return lines and (depth == 1 or s[1] == s[3] * width * height)

    if not plain or not all(follows(s) for s in strides):
        return geometry, strides
    line = (1, 1, depth * height * width)
    return geometry | {"inp": line, "out": line}, [(s[0], 0, 0, s[3], s[4]) for s in strides]


def _conv_spec(
    geometry: dict[str, Ints], groups: int, ic: int, oc: int, target: Target, **rest: Any
) -> ConvSpec:
    xs = rest["xs"]
    columns = geometry["out"][2]
    mr, nv = register_tile(columns, -(-oc // target.lanes), target)
    few = xs[4] != 1 or ic < 8
    taps = few and geometry["kernel"][2] <= 16 and product(geometry["kernel"]) > 1
    unroll = 1 if taps else 4
    units = _units_of(geometry, mr)
    rows = _rows_in_cache(geometry, ic * groups, units, target)
    return ConvSpec(
        **geometry, groups=groups, ic=ic, oc=oc, mr=mr, nv=nv, unroll=unroll, taps=taps,
        rows=rows, **rest,
    )  # fmt: skip


def register_tile(columns: int, vectors: int, target: Target) -> tuple[int, int]:
    """The register tile: output columns x vectors of channels.

    The accumulators, a row of B and a broadcast of A share the registers. Two vectors of B let a
    pair of FMAs use each broadcast; with few columns more vectors keep eight independent sums
    going, which hides the latency of an FMA (4 cycles x 2 units). Measured, 32 registers of 16
    lanes: 12x2 and 7x2 reach 96 to 100 % of peak, 8x3 and 6x4 95 %, 14x2 85 % in a convolution
    (its addresses no longer fit the integer registers), 7x4 spills.
    """
    most = {1: 14, 2: 12, 3: 8, 4: 6, 6: 4, 8: 1}
    if target.vector_registers < 32:
        most = {1: 12, 2: 6, 3: 4, 4: 3, 6: 2, 8: 1}
    if vectors == 1:
        nv = 1
    elif columns >= 6:
        nv = 3 if vectors % 3 == 0 and vectors % 2 else 2
    else:
        nv = {1: 8, 2: 6, 3: 4, 4: 4, 5: 4}[columns]
        nv = max(n for n in most if n <= min(nv, vectors))
    return min(columns, most[nv]), nv


def _units_of(geometry: dict[str, Ints], mr: int) -> int:
    """How many lines of work one image is, see ``kernels.conv``: tiles, or rows with edges."""
    depth, height, width = geometry["out"]
    reach = (width - 1) * geometry["stride"][2] + (geometry["kernel"][2] - 1) * geometry["dilate"][
        2
    ]
    uniform = geometry["pad"][2] <= 0 and reach - geometry["pad"][2] < geometry["inp"][2]
    return depth * height * (-(-width // mr) if uniform else 1)


def _rows_in_cache(geometry: dict[str, Ints], channels: int, units: int, target: Target) -> int:
    """Lines done for all output channels before the next: their input fills a quarter of L2."""
    nbytes = product(geometry["inp"]) * channels * 4
    if nbytes <= target.l2_bytes // 2:
        return units
    return max(1, min(units, units * (target.l2_bytes // 4) // nbytes))


def _depthwise_tile(geometry: dict[str, Ints], target: Target) -> dict[str, int]:
    """Columns and vectors in registers; the filters of one row of taps stay there too."""
    columns = min(geometry["out"][2], 8 if target.vector_registers >= 32 else 4)
    return {"cols": columns, "nv": 1}


# --- pooling and softmax ---


def _choose_pool(step: Step, params: dict[Value, int], target: Target) -> tuple[Call, ...]:
    anchor = step.group.anchor
    program, operands = build_program(step.group, anchored=True)
    x = _views_of(step, anchor.inputs[:1])[0]
    attrs, rank = anchor.attrs, len(anchor.shape) - 2
    whole = attrs["global_pool"]
    kernel = x.shape[1:-1] if whole else attrs["kernel"]
    stride = (1,) * rank if whole else attrs["stride"] or (1,) * rank
    pad = (0,) * rank if whole else attrs["pad"] or (0,) * rank
    spec = PoolSpec(
        how=attrs["pool_type"],
        inp=_three(x.shape[1:-1], 1),
        out=_three(anchor.shape[1:-1], 1),
        kernel=_three(kernel, 1),
        stride=_three(stride, 1),
        pad=_three(pad, 0),
        channels=x.shape[-1],
        xs=_five(x.strides, rank),
        reads=tuple(
            _five(broadcast_strides(v, anchor.shape), rank) for v in _views_of(step, operands)
        ),
        writes=tuple(_five(v.strides, rank) for v in step.writes),
        count_pad=attrs["count_include_pad"] is not False,
        program=program,
    )
    extra = [Address(v) for v in (*_views_of(step, operands), *step.writes)]
    work = product(anchor.shape) * product(spec.kernel)
    return (Call(spec, (Address(x), *extra, x.shape[0]), work),)


def _choose_softmax(step: Step, params: dict[Value, int], target: Target) -> tuple[Call, ...]:
    anchor = step.group.anchor
    axis = anchor.attrs["axis"] % len(anchor.shape)
    inner = product(anchor.shape[axis + 1 :])
    assert anchor.op is not None
    spec = SoftmaxSpec(how=anchor.op.name, size=anchor.shape[axis], inner=inner)
    rows = product(anchor.shape[:axis])
    args = (Address(step.reads[0]), Address(step.writes[0]), rows)
    return (Call(spec, args, 10 * product(anchor.shape)),)


_CHOOSERS = {
    "pointwise": _choose_pointwise,
    "copy": _choose_copy,
    "conv": _choose_conv,
    "gemm": _choose_gemm,
    "pool": _choose_pool,
    "softmax": _choose_softmax,
}
