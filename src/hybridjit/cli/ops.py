"""``hybridjit ops``: the table of operators."""

from __future__ import annotations

import argparse

from .._core.text_table import table
from ..ir.kinds import KIND_NAMED, STORED
from ..ops import OpDef, all_ops
from ..passes.layouts.choose import kernel_of
from .arguments import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "kernel: the kernel kind that computes the operator in compiled code; "
        "parts: kernels of the operators of its expansion; "
        "constant: the result does not depend on data and is computed once, before the first call; "
        "host: NumPy, as a step of the compiled plan. types: element types of the kernels; float16 "
        "is computed in single precision."
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = sorted(
        (op for op in all_ops() if not op.internal), key=lambda op: op.name.lstrip("_").lower()
    )
    if args.json:
        print_json([_record(op) for op in found])
        return 0
    rows = [(op.name, kernel(op), " ".join(kernel_types(op)), " ".join(op.aliases)) for op in found]
    print(table(rows, ("operator", "kernel", "types", "aliases")))
    on_host = sum(kernel(op) == "host" for op in found)
    print(f"{len(found)} operators, {len(found) - on_host} of them with kernels")
    return 0


def _record(op: OpDef) -> dict[str, object]:
    return {
        "name": op.name,
        "kernel": kernel(op),
        "types": [*kernel_types(op)],
        "aliases": [*op.aliases],
    }


def kernel(op: OpDef) -> str:
    """The kernel kind; ``parts`` for an expansion with several kernels; ``host`` without
    kernels."""
    kind = kernel_of(op)
    if kind == "host" and (op.traits.reads_shape or (op.inputs == () and not op.is_random)):
        return "constant"
    return "parts" if kind == "host" and op.expand else kind


def kernel_types(op: OpDef) -> tuple[str, ...]:
    """Element types of the kernels: ``all`` types of the operator, or their names."""
    kind = kernel(op)
    if kind in ("host", "constant") or op.traits.parts_on_host:
        return ()
    found = KIND_NAMED.get(kind)
    in_floats = found.in_floats if found else op.traits.parts_in_floats
    if not in_floats:
        return ("all",)
    return (*(t.name for t in STORED), *(("float16",) if op.traits.in_single else ()))
