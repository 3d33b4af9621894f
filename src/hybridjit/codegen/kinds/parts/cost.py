"""Costs of a program: of its instructions beside the product, and of compiling it."""

from __future__ import annotations

from functools import lru_cache

from ....ops.registry import lookup
from ...spec import Instr, Program

# Operations that a formula may use and still be a few instructions.
_SHORT = frozenset(
    ("const", "scalar", "add", "sub", "mul", "neg", "abs", "max", "min", "eq", "ne", "lt", "le")
    + ("gt", "ge", "below", "above", "is_nan", "select", "mask_and", "mask_or", "mask_not")
)


# Operations that a formula may use without a gain from LLVM's passes: longer formulas gain up to 7
# %, these nothing, and the passes take half of the compile time.
_PLAIN = _SHORT | {"div", "exp", "sqrt", "tanh"}


@lru_cache(maxsize=1024)
def is_plain(program: Program) -> bool:
    """Whether LLVM's passes gain nothing."""
    return all(_asks(instr) <= _PLAIN for instr in program.instrs)


@lru_cache(maxsize=1024)
def is_long(program: Program) -> bool:
    """Whether it takes many instructions: a function, a division, another element type."""
    return any(instr.dtype != "float32" or _asks(instr) - _SHORT for instr in program.instrs)


def _asks(instr: Instr) -> set[str]:
    """The operations that the formula of an instruction uses."""
    op = lookup(instr.op)
    assert op.scalar is not None, f"{instr.op} has no scalar formula"
    asked = _Asked()
    op.scalar(
        asked,
        *(asked for _ in instr.args),
        **{a.name: a.default for a in op.attrs} | dict(instr.attrs),
    )
    return asked.names


class _Asked:
    """A stand-in for numbers that records the operations applied to it."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> object:
        self.names.add(name)
        return lambda *_, **__: self
