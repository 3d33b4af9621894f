"""Steps and plans as records.

Input: an executable's plan, and its calls. Output: :class:`.schema.Step` and
:class:`.schema.Plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._core.symbolic import hint_of
from ..codegen.call import Call
from ..codegen.emit.module import kernel_name
from ..ir.graph import Graph, Use, walk
from ..ir.plan import Buffer, Plan, Step, View
from ..ir.plan_image import Packed
from ..ir.print import purpose_lines
from ..profiling import algorithm, fused_operators, user_source
from ..runtime.instance import Code
from ..runtime.profiling import bytes_moved
from . import schema
from .graphs import reference
from .texts import short_name, short_text

_MOST_OF_REASON = 2_000


def steps(plan: Plan, code: Code, kernels: Sequence[schema.Kernel]) -> list[schema.Step]:
    """A record for each step of an executable with these kernels."""
    places = {kernel["name"]: place for place, kernel in enumerate(kernels)}
    return [_step(step, row, plan, places) for step, row in zip(plan.steps, code.calls)]


def _step(step: Step, row: Sequence[Call], plan: Plan, places: Mapping[str, int]) -> schema.Step:
    group = step.group
    op = group.anchor.op
    return {
        "number": step.number,
        "kind": step.kind,
        "name": short_name(step.name),
        "algorithm": algorithm(row[-1].spec) if row else f"host {op.name if op else 'copy'}",
        "members": [short_name(member.name) for member in group.members],
        "fused": fused_operators(step),
        "reads": [_view(use, view) for use, view in zip(group.inputs, step.reads)],
        "writes": [_view(use, view) for use, view in zip(group.results, step.writes)],
        "note": short_text(step.note),
        "source": short_text(user_source(step)),
        "bytes": bytes_moved(step),
        "calls": [_call(call, plan, places) for call in row],
    }


def _call(call: Call, plan: Plan, places: Mapping[str, int]) -> schema.Call:
    weights = [
        f"{short_name(plan.graph.params[a.index].name)} {a.packing}"
        for a in call.args
        if isinstance(a, Packed) and a.index is not None
    ]
    return {
        "kernel": places[kernel_name(call.spec)],
        "multiplications": hint_of(call.work),
        "reason": short_text(call.reason, _MOST_OF_REASON),
        "weights": [short_text(weight) for weight in weights],
    }


def _view(use: Use, view: View) -> schema.View:
    return {
        "value": reference(use),
        "buffer": view.buffer,
        "offset": view.offset,
        "shape": list(view.shape),
        "strides": list(view.strides),
        "dtype": str(view.dtype.name),
    }


def plan_record(plan: Plan) -> schema.Plan:
    """Every buffer, and the live bytes of the arena at each step."""
    live = _live(plan)
    values = _values_in(plan)
    return {
        "arena_bytes": plan.arena_bytes,
        "live_bytes": plan.live_bytes,
        "live": live,
        "peak_step": live.index(max(live)) if live else -1,
        "buffers": [_buffer(buffer, values[buffer.number]) for buffer in plan.buffers],
        "notes": [short_text(line) for line in purpose_lines(plan)],
    }


def _live(plan: Plan) -> list[int]:
    change = [0] * (len(plan.steps) + 1)
    for buffer in plan.buffers:
        if buffer.kind == "arena" and plan.steps:
            change[buffer.first] += buffer.nbytes
            change[min(buffer.last, len(plan.steps) - 1) + 1] -= buffer.nbytes
    live, now = [], 0
    for step in range(len(plan.steps)):
        now += change[step]
        live.append(now)
    return live


def _buffer(buffer: Buffer, values: Mapping[str, None]) -> schema.Buffer:
    return {
        "kind": buffer.kind,
        "index": buffer.index,
        "bytes": buffer.nbytes,
        "offset": buffer.offset,
        "first": buffer.first,
        "last": buffer.last,
        "values": list(values),
    }


def _values_in(plan: Plan) -> dict[int, dict[str, None]]:
    """The names of the values in each buffer, by its index."""
    found: dict[int, dict[str, None]] = {buffer.number: {} for buffer in plan.buffers}
    for step in plan.steps:
        writes = zip(step.group.results, step.writes)
        reads = zip(step.group.inputs, step.reads)
        for use, view in (*writes, *reads):
            found[view.buffer][short_name(use.value.name)] = None
    return found


def readers(plan: Plan) -> dict[str, list[int]]:
    """The steps that read each variable, or a value computed from it at bind time."""
    found: dict[str, list[int]] = {}
    for (kind, index), numbers in _readers_of_buffers(plan).items():
        is_input = kind == "input"
        names = [plan.graph.inputs[index].name] if is_input else _sources(plan.graph, index)
        for name in names:
            found.setdefault(name, []).extend(numbers)
    return {name: sorted(set(numbers)) for name, numbers in found.items()}


def _readers_of_buffers(plan: Plan) -> dict[tuple[str, int], list[int]]:
    given = {b.number: (b.kind, b.index) for b in plan.buffers if b.kind in ("input", "weight")}
    found: dict[tuple[str, int], list[int]] = {}
    for step in plan.steps:
        for place in dict.fromkeys(given[v.buffer] for v in step.reads if v.buffer in given):
            found.setdefault(place, []).append(step.number)
    return found


def _sources(graph: Graph, index: int) -> list[str]:
    """The names of the variables from which parameter ``index`` of the graph is computed."""
    if graph.bind is None:
        return [graph.params[index].name]
    return [value.name for value in walk([graph.bind.outputs[index]]) if value.op is None]
