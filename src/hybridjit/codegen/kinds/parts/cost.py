"""What a program costs: beside the product whose results it takes, and to compile."""

from __future__ import annotations

from functools import lru_cache

from ....ops.registry import lookup
from ...spec import Instr, Program

# What a formula may ask of its numbers and still be a few instructions.
_SHORT = frozenset(
    ("const", "scalar", "add", "sub", "mul", "neg", "abs", "max", "min", "eq", "ne", "lt", "le")
    + ("gt", "ge", "below", "above", "is_nan", "select", "mask_and", "mask_or", "mask_not")
)


# What a formula may ask for so that LLVM's passes make nothing better of it: longer ones gain up
# to 7 %, these nothing, and the passes are half of the time to compile them.
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
    """What the formula of an operation asks of its numbers."""
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
    """Numbers of which only the questions are kept."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> object:
        self.names.add(name)
        return lambda *_, **__: self
