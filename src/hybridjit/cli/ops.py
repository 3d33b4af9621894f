"""``hybridjit ops``: the table of operators."""

from __future__ import annotations

import argparse

from ..ops import Kind, OpDef, all_ops
from ..passes.compounds_vision import OF_SHAPES
from ..passes.simplify import TAKEN_APART
from ..table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "kernel: the family of kernels that computes the operator in compiled code; "
        "parts: those of the operators that it is made of do; "
        "constant: its result, which does not depend on data, is computed once, before any call; "
        "host: its NumPy meaning does, as a step of the compiled plan. types: the element types "
        "that the kernels take; float16 is computed in single precision."
    )


def run(args: argparse.Namespace) -> int:
    found = sorted(
        (op for op in all_ops() if not op.internal), key=lambda op: op.name.lstrip("_").lower()
    )
    rows = [(op.name, kernel(op), " ".join(kernel_types(op)), " ".join(op.aliases)) for op in found]
    print(table(rows, ("operator", "kernel", "types", "aliases")))
    on_host = sum(kernel(op) == "host" for op in found)
    print(f"{len(found)} operators, {len(found) - on_host} of them with kernels")
    return 0


def kernel(op: OpDef) -> str:
    """The kernel family; ``parts``, where several operators make it; ``host``."""
    if op.name in TAKEN_APART:
        return "parts"
    if op.name in _CONSTANTS:
        return "constant"
    if op.kind is Kind.RANDOM or (op.kind is Kind.POINTWISE and op.scalar is None):
        return "host"
    return op.kind.value


# What is made of a shape or of attributes alone.
_CONSTANTS = (*OF_SHAPES, "_arange", "_eye", "_full", "_linspace", "_ones", "_zeros")
_ALL = ("all",)
_FLOATS = ("float32", "float64", "float16")
_TYPES = {
    Kind.IDENTITY: _ALL,
    Kind.POINTWISE: _ALL,
    Kind.MOVEMENT: _ALL,
    Kind.REDUCE: _ALL,
    Kind.GATHER: _ALL,
    Kind.SOFTMAX: _FLOATS,
    Kind.CONV: _FLOATS,
    Kind.GEMM: _FLOATS,
    Kind.POOL: _FLOATS,
    Kind.NORM: _FLOATS,
}


def kernel_types(op: OpDef) -> tuple[str, ...]:
    """The element types that its kernels take: ``all`` that the operator does, or by name."""
    if kernel(op) in ("host", "constant"):
        return ()
    if op.name in TAKEN_APART:
        return TAKEN_APART[op.name]
    if op.name.startswith(("_contrib_interleaved_matmul_", "_linalg_gemm")):
        return ("float32", "float64")
    return _TYPES.get(op.kind, ("float32", "float64"))
