"""Growing a random graph: each new node reads existing values of suitable types.

In: a seed and growers. Out: a graph of 5 to 40 nodes, and an array for every variable. The kinds
of nodes are in ``random_graphs.py``.

One graph in ten is drawn freely. The others are *familiar*: their sizes and attributes come from
few values, common ones far more often than rare ones, so that most of their kernels have been
compiled for a graph before; their combinations vary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiling import node, var
from hybridjit._core.types import UNKNOWN, TensorType, type_of
from hybridjit.errors import MXNetError
from hybridjit.ir.node import Output, topological

Shape = tuple[int, ...]
FREE = 0.1  # the share of graphs that are drawn freely
# Parameters of a familiar graph: sizes of its inputs, and of every axis but the first. Where a
# node would make another size, it is left out but for a small chance.
FAMILIAR_INPUTS = ((8, 5, 5), (3, 6, 4), (16, 3, 3), (16,), (7,), (8, 5), (3, 4, 3))
FAMILIAR_SIZES = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 16, 40})
UNFAMILIAR = 0.01
# The type that a graph computes in; nodes of other types stand in it here and there.
TYPES = (*(np.dtype(np.float32),) * 16, *(np.dtype(np.float64),) * 3, np.dtype(np.float16))


@dataclass
class RandomGraph:
    """A graph; ``arrays`` has one array for each variable, ``inputs`` names those that vary."""

    seed: int
    variant: int = 0
    outputs: list[Output] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)

    @property
    def params(self) -> list[str]:
        return [name for name in self.arrays if name not in self.inputs]

    @property
    def name(self) -> str:
        return f"seed-{self.seed}" + (f"-{self.variant}" if self.variant else "")


class Generator:
    """Grows a graph: each new node takes values that are there, newer ones more often."""

    least, most = 1, 6000  # elements of a result
    longest = 41  # nodes, of a graph in seven; half as many of the others

    def __init__(self, seed: int, with_steps: bool = False) -> None:
        self.growers = [*GROWERS, *STEPS] if with_steps else GROWERS
        self.random = np.random.default_rng(seed)
        self.graph = RandomGraph(seed)
        self.pool: list[tuple[Output, Shape]] = []
        self.of_other_types: list[Output] = []
        self.read: set[Output] = set()
        self.types: dict[Output, TensorType] = {}
        self.params: dict[tuple[Shape, float, bool, bool], Output] = {}
        self.count = 0
        self.is_free = bool(self.random.random() < FREE)
        self.dtype = TYPES[int(self.random.integers(len(TYPES)))]

    def run(self) -> RandomGraph:
        self._start()
        is_long = self.random.random() < 0.15
        wanted = int(self.random.integers(5, self.longest if is_long else self.longest // 2 + 1))
        while self.count < wanted:
            x, shape = self._pick()
            grow = self.growers[int(self.random.integers(len(self.growers)))]
            grow(self, x, shape)
        self._choose_outputs()
        return self.graph

    def _start(self) -> None:
        kinds = [self._image, self._image, self._image, self._row, self._series, self._volume]
        for index in range(int(self.random.integers(1, 3))):
            shape = kinds[int(self.random.integers(len(kinds)))]()
            if not self.is_free:
                shape = (self.between(1, 4), *self.one_of(*FAMILIAR_INPUTS))
            x = self._variable(f"data{index}", shape)
            self.graph.inputs.append(f"data{index}")
            self.pool.append((x, shape))

    def _image(self) -> Shape:
        batch, channels = self.between(1, 4), self.one_of(1, 3, 4, 8, 15, 16, 17, 24, 33)
        return (batch, channels, self.between(3, 13), self.between(3, 13))

    def _row(self) -> Shape:
        return (self.between(1, 5), self.one_of(1, 7, 16, 33, 50))

    def _series(self) -> Shape:
        return (self.between(1, 3), self.one_of(2, 8, 17), self.between(4, 15))

    def _volume(self) -> Shape:
        return (self.between(1, 2), self.one_of(2, 8), *(self.between(2, 6) for _ in range(3)))

    def _pick(self) -> tuple[Output, Shape]:
        newest = self.pool[-4:] if self.random.random() < 0.7 else self.pool
        return newest[int(self.random.integers(len(newest)))]

    def _choose_outputs(self) -> None:
        leaves = [x for x, _ in self.pool if x not in self.read and x.node.op is not None]
        inner = [x for x, _ in self.pool if x in self.read and x.node.op is not None]
        if inner and self.random.random() < 0.3:
            leaves.append(inner[int(self.random.integers(len(inner)))])
        if self.random.random() < 0.1:
            leaves.append(leaves[0])
        if self.of_other_types and self.random.random() < 0.5:
            leaves.append(self.of_other_types[self.between(0, len(self.of_other_types) - 1)])
        self.graph.outputs = leaves

    def vary(self, variant: int) -> RandomGraph:
        """The graph once more with other results, and with some parameters as inputs.

        So other nodes are fused, share memory and depend on parameters alone, in kernels that
        are mostly the same.
        """
        self.graph.variant = variant
        self.random = np.random.default_rng((self.graph.seed, variant))
        made = [x for x, _ in self.pool if x.node.op is not None] + self.of_other_types
        wanted = [made[self.between(0, len(made) - 1)] for _ in range(self.between(1, 5))]
        if sum(n.op is not None for n in topological(wanted)) >= 5:
            self.graph.outputs = wanted
        used = {n.name for n in topological(self.graph.outputs) if n.is_variable}
        self.graph.arrays = {n: a for n, a in self.graph.arrays.items() if n in used}
        given = self.graph.inputs
        chosen = [n for n in self.graph.arrays if n in given or self.random.random() < 0.2]
        self.graph.inputs = chosen or list(self.graph.arrays)[:1]
        return self.graph

    # --- for the growers ---

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included; mostly an end if familiar."""
        if not self.is_free and self.random.random() < 0.95:
            return low if self.random.random() < 0.6 else high
        return int(self.random.integers(low, high + 1))

    def one_of(self, *values: Any) -> Any:
        """One of them; the first ones more often if familiar."""
        if self.is_free or self.random.random() < 0.05:
            return values[int(self.random.integers(len(values)))]
        return values[min(int(self.random.geometric(0.55)) - 1, len(values) - 1)]

    def maybe(self, chance: float = 0.5) -> bool:
        return bool(self.random.random() < chance)

    def _variable(self, name: str, shape: Shape, scale: float = 1.0) -> Output:
        return self._variable_of(name, self.random.normal(0, scale, shape).astype(self.dtype))

    def _variable_of(self, name: str, values: np.ndarray) -> Output:
        self.graph.arrays[name] = values
        made = var(name, values.shape)
        self.types[made] = type_of(values)
        return made

    def param(
        self, shape: Shape, scale: float = 1.0, positive: bool = False, is_state: bool = False
    ) -> Output:
        """A parameter; now and then one that another node reads already.

        A state is shared with other states alone. A training step writes it: on the tape a node
        that reads it for an argument has the new values in backward, in a compiled graph
        the old ones.
        """
        kind = (shape, scale, positive, is_state)
        if kind in self.params and self.maybe(0.15):
            return self.params[kind]
        name = f"p{len(self.graph.arrays)}"
        made = self._variable(name, shape, scale)
        if positive:
            self.graph.arrays[name] = np.abs(self.graph.arrays[name]) + self.dtype.type(0.5)
        self.params[kind] = made
        return made

    def indices(self, shape: Shape, size: int) -> Output:
        """A parameter with numbers from 0 to ``size`` - 1; float32 in a graph of any type."""
        values = self.random.integers(0, size, shape).astype(np.float32)
        return self._variable_of(f"p{len(self.graph.arrays)}", values)

    def like(self, shape: Shape) -> Output | None:
        """Another value of this shape, or None."""
        found = [x for x, other in self.pool if other == shape]
        return found[int(self.random.integers(len(found)))] if found else None

    def _is_familiar(self, found: Sequence[TensorType]) -> bool:
        """Whether a node with these results may stand in this graph."""
        if self.is_free or self.random.random() < UNFAMILIAR:
            return True
        return all(FAMILIAR_SIZES.issuperset(t.dims[1:]) for t in found)

    def add(self, op: str, *inputs: Output | None, **attrs: object) -> Output | None:
        """Append a node if its operator accepts its inputs and nothing grows too large.

        Its first output; None if it was not appended, or if an input was not. Any later node may
        read it if it is of the graph's type; if not, it may be a result of the graph.
        """
        if None in inputs:
            return None
        made = node(op, *inputs, name=f"n{self.count}_{op.strip('_').lower()}", **attrs)
        types = tuple(self.types[x] for x in inputs)
        assert made.op is not None
        outs = (UNKNOWN,) * len(made.output_names)
        try:
            found = made.op.infer(types, outs, **made.attrs)[1]
        except MXNetError:
            return None
        if any(not self.least <= t.size <= self.most for t in found) or not self._is_familiar(
            found
        ):
            return None
        self.count += 1
        self.read.update(inputs)
        for index, type_ in enumerate(found):
            self.types[Output(made, index)] = type_
            if type_.dtype == self.dtype:
                self.pool.append((Output(made, index), type_.dims))
            else:
                self.of_other_types.append(Output(made, index))
        return Output(made)


Grower = Callable[[Generator, Output, Shape], None]
GROWERS: list[Grower] = []
STEPS: list[Grower] = []  # drawn where graphs are trained: a backward path ends at their nodes


def grower(weight: int, ends_paths: bool = False) -> Callable[[Grower], Grower]:
    """Register a way to grow, drawn ``weight`` times as often as one of weight 1."""

    def register(function: Grower) -> Grower:
        (STEPS if ends_paths else GROWERS).extend([function] * weight)
        return function

    return register
