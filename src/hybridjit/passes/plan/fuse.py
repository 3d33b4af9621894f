"""Fuse: group the values that become one kernel.

An anchor (convolution, dense layer, pooling, softmax, ...) is joined by the downstream pointwise
values of its result's shape. Pointwise values without an anchor form groups, and two such groups
merge if one is the only reader of the other.

Views (reshape, transpose, slice, broadcast) move no elements and get no kernel here; the memory
plan turns them into addresses, or into copies where strides cannot express them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np

from ..._core.config import config
from ..._core.types import FLOAT32, INT32
from ...ir.graph import Graph, Group, Value
from ...ir.kinds import POINTWISE, VIEW, KernelKind, is_in, kind_of
from ...ops.bfloat16 import TO_BFLOAT16
from ...ops.quantized import BYTES, FROM_BYTES, TO_BYTES
from ...ops.tensor.primitives import RESHAPE_TO

# Element types of pointwise values after a product of bytes.
_IN_INTEGERS = (FLOAT32, INT32, *BYTES)
_OF_BYTES = ("byte_matmul", "byte_pool", "byte_product")


@dataclass
class _Building:
    """A group under construction.

    needs    the groups that must run earlier, as bits
    sources  the numbers of the groups whose values it reads, or that must run earlier for another
             reason
    """

    number: int
    kind: KernelKind
    members: list[Value] = field(default_factory=list)
    needs: int = 0
    sources: set[int] = field(default_factory=set)


def fuse(graph: Graph, fired: list[str] | None = None) -> Graph:
    """The same graph with its groups, in an order that can be executed."""
    return replace(graph, groups=_Fusion(graph, fired if fired is not None else []).run())


def _dequantizes(group: _Building) -> bool:
    return all(member.op is FROM_BYTES for member in group.members)


def _is_of(dtypes: Collection[np.dtype], value: Value) -> bool:
    """Whether all operands and results have one of the types."""
    types = (*value.types, *(use.type for use in value.inputs))
    return all(t.dtype in dtypes for t in types)


class _Fusion:
    def __init__(self, graph: Graph, log: list[str]) -> None:
        self.graph = graph
        self.log = log
        self.groups: list[_Building] = []
        self.owner: dict[Value, _Building] = {}
        self.needed = 0  # the groups that some other group needs, as bits

    def run(self) -> tuple[Group, ...]:
        for value in self.graph.values:
            if value.op is None:
                continue
            kind = kind_of(value, self.graph)
            may_join = kind is POINTWISE and "fuse" not in config.skip
            may_join = may_join and value.op is not FROM_BYTES
            host = self._joinable(value) if may_join else None
            self._join(value, host or self._new(kind))
            if host is not None:
                self._take_in(value, host)
        self._delay_updates()
        ordered = self._demanded() if self.graph.purpose.goes_back else self._ordered()
        return tuple(self._finished(g) for g in ordered if g.members)

    def _new(self, kind: KernelKind) -> _Building:
        group = _Building(len(self.groups), kind)
        self.groups.append(group)
        return group

    def _join(self, value: Value, group: _Building) -> None:
        group.members.append(value)
        self.owner[value] = group
        self._put_behind(group, self._sources(value, group))

    def _take_in(self, value: Value, host: _Building) -> None:
        """Merge the pointwise groups that only ``value`` and its group read into that group; into
        one with an anchor, those that only dequantize bytes.

        None of them needs the host group; otherwise ``value`` could not have joined it.
        """
        for other in list(self._sources(value, host)):
            if other.kind is not POINTWISE or not other.members:
                continue
            if host.kind is not POINTWISE and not _dequantizes(other):
                continue
            if self._is_private(other, host):
                sources = [self.groups[n] for n in other.sources if n != host.number]
                self._put_behind(host, sources)
                first = len(host.members) - 1 if _dequantizes(other) else 0
                host.members[first:first] = other.members
                self.owner.update(dict.fromkeys(other.members, host))
                host.sources.discard(other.number)
                other.members, other.sources = [], set()

    def _is_private(self, group: _Building, host: _Building, reader: Value | None = None) -> bool:
        """Whether the host has the same shape and is the only reader of the group's values, with
        ``reader``, which may join the host.
        """
        repeats = self.graph.purpose.repeats
        one, other = group.members[0], host.members[0]
        if one.shape != other.shape or (one.name in repeats) != (other.name in repeats):
            return False
        users = {user for member in group.members for user in self.graph.uses[member]}
        owners = (self.owner.get(user) for user in users if user is not reader)
        is_read = any(owner is not group and owner is not host for owner in owners)
        return not is_read and not any(m in self.graph.output_values for m in group.members)

    def _put_behind(self, group: _Building, others: Iterable[_Building]) -> None:
        """Order the group after the others, and after all groups that they need."""
        before = group.needs
        for other in others:
            group.needs |= other.needs | 1 << other.number
            group.sources.add(other.number)
        group.needs &= ~(1 << group.number)  # a reader of its bytes joined it
        if group.needs == before:
            return
        self.needed |= group.needs
        if self.needed >> group.number & 1:
            for later in self.groups:
                if later.needs >> group.number & 1:
                    later.needs |= group.needs

    def _delay_updates(self) -> None:
        """Order the update of an input after the readers of its old value, if possible.

        The update is then written over the old value, without a copy at the end.
        """
        for output, number in self.graph.updated.items():
            value = self.graph.outputs[output].value
            while value.op is RESHAPE_TO:
                value = value.inputs[0].value
            writer = self.owner.get(value)
            if writer is None:
                continue
            for reader in self._readers(self.graph.inputs[number]):
                if reader is not writer and not reader.needs >> writer.number & 1:
                    self._put_behind(writer, (reader,))

    def _readers(self, value: Value) -> Iterator[_Building]:
        """The groups that read a value, directly or through views."""
        for user in self.graph.uses[value]:
            group = self.owner[user]
            yield group
            if group.kind is VIEW:
                yield from self._readers(user)

    def _sources(self, value: Value, group: _Building) -> Iterator[_Building]:
        for use in value.inputs:
            other = self.owner.get(use.value)
            if other is not None and other is not group:
                yield other

    def _joinable(self, value: Value) -> _Building | None:
        """The latest group on whose result this pointwise value can be computed, if any; one that
        only dequantizes bytes comes last.
        """
        candidates = {group.number: group for group in self._candidates(value)}
        key = {number: (not _dequantizes(group), number) for number, group in candidates.items()}
        for number in sorted(candidates, key=key.__getitem__, reverse=True):
            group = candidates[number]
            reason = self._obstacle(value, group)
            if not reason:
                return group
            if group.kind.has_epilogue:
                name = group.members[0].name
                self.log.append(f"not fused: {value.name} into {name}, because {reason}")
        return None

    def _candidates(self, value: Value) -> Iterator[_Building]:
        """The groups of the operands, and those of the bytes that operands are dequantized from."""
        for use in value.inputs:
            source = use.value
            while source is not None and (group := self.owner.get(source)) is not None:
                yield group
                if source.op is not FROM_BYTES or not _dequantizes(group):
                    break
                source = source.inputs[0].value

    def _obstacle(self, value: Value, group: _Building) -> str:
        if not group.kind.has_epilogue and not self._is_quantized(value, group):
            return f"a {group.kind.name} has no epilogue"
        dtype = group.members[0].type.dtype
        is_rounded = value.op in (TO_BFLOAT16, TO_BYTES) and dtype == FLOAT32
        if group.kind.name in _OF_BYTES:
            is_rounded = _is_of(_IN_INTEGERS, value)
        if group.kind is not POINTWISE and not is_rounded and not is_in(dtype, value):
            return f"a {group.kind.name} kernel ends in {dtype}"
        if group.members[0].shape != value.shape:
            return f"{group.members[0].type} is not its shape {value.type}"
        repeats = self.graph.purpose.repeats
        if (value.name in repeats) != (group.members[0].name in repeats):
            return "one of them is computed again from checkpoints"
        for other in self._sources(value, group):
            if any(each.needs >> group.number & 1 for each in self._before(other, group, value)):
                return f"{other.members[0].name}, which it also reads, needs that one first"
        return ""

    def _is_quantized(self, value: Value, group: _Building) -> bool:
        """Whether ``value`` is the only reader of an anchor's result, which becomes bytes."""
        anchor = group.members[0]
        is_alone = self.graph.uses[anchor] == (value,) and anchor not in self.graph.output_values
        return value.op is TO_BYTES and is_alone and group.kind.ends_in_bytes(anchor)

    def _before(self, other: _Building, host: _Building, value: Value) -> list[_Building]:
        """The groups that stay before the host if ``value`` joins it: another group, or what that
        one reads, if it only dequantizes bytes and is merged into the host.
        """
        if not (_dequantizes(other) and self._is_private(other, host, value)):
            return [other]
        return [self.groups[number] for number in other.sources if number != host.number]

    def _ordered(self) -> list[_Building]:
        """Groups in an order in which each comes after those it needs; ties by number."""
        waits = {group.number: len(group.sources) for group in self.groups}
        users: dict[int, list[int]] = {number: [] for number in waits}
        for group in self.groups:
            for number in group.sources:
                users[number].append(group.number)
        ready = [number for number, count in waits.items() if not count]
        order: list[_Building] = []
        while ready:
            number = heappop(ready)
            order.append(self.groups[number])
            for user in users[number]:
                waits[user] -= 1
                if not waits[user]:
                    heappush(ready, user)
        return order

    def _demanded(self) -> list[_Building]:
        """Each group just before the first group that needs it, so that its values live shortly.

        Groups that no group needs (gradients and updates) come in order of increasing depth: from
        the end of the forward pass to its beginning, a weight's gradient before the step to the
        layer below, and recomputed values just before their readers. Among the groups that one
        group needs, the deepest comes first: the others would wait for it.
        """
        order: dict[int, None] = {}
        depths = self._depths()
        needed = {number for group in self.groups for number in group.sources}
        ends = (n for n in range(len(self.groups)) if n not in needed)
        pending = sorted(ends, key=lambda n: (depths[n], n), reverse=True)
        while pending:
            number = pending[-1]
            waits = [n for n in self.groups[number].sources if n not in order]
            if number in order or not waits:
                order[pending.pop()] = None
            else:
                pending += sorted(waits, key=lambda n: (depths[n], -n))
        return [self.groups[number] for number in order]

    def _depths(self) -> dict[int, int]:
        """For each group, the length of the longest chain of groups that it depends on."""
        depths: dict[int, int] = {}
        for group in self._ordered():
            depths[group.number] = 1 + max((depths[n] for n in group.sources), default=0)
        return depths

    def _finished(self, group: _Building) -> Group:
        def is_read_outside(value: Value) -> bool:
            users = self.graph.uses[value]
            return value in self.graph.output_values or any(
                self.owner[u] is not group for u in users
            )

        outputs = tuple(v for v in group.members if is_read_outside(v))
        return Group(group.kind.name, tuple(group.members), outputs or (group.members[-1],))
