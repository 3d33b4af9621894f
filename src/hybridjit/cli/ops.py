"""``hybridjit ops``: the table of operators."""

from __future__ import annotations

import argparse

from ..ops import Kind, OpDef, all_ops
from ..table import table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "kernel: the family of kernels that computes the operator in compiled code; "
        "host: its NumPy meaning does, as a step of the compiled plan."
    )


def run(args: argparse.Namespace) -> int:
    found = sorted(
        (op for op in all_ops() if not op.internal), key=lambda op: op.name.lstrip("_").lower()
    )
    rows = [(op.name, kernel(op), " ".join(op.aliases)) for op in found]
    print(table(rows, ("operator", "kernel", "aliases")))
    on_host = sum(kernel(op) == "host" for op in found)
    print(f"{len(found)} operators, {len(found) - on_host} of them with kernels")
    return 0


def kernel(op: OpDef) -> str:
    """The kernel family, or ``host``."""
    if op.kind is Kind.RANDOM or (op.kind is Kind.POINTWISE and op.scalar is None):
        return "host"
    return op.kind.value
