"""``hybridjit dump``: print stages of a compilation, or write them to numbered files.

Input: a graph, and shapes, in which letters are symbolic sizes. Output: the text of HYBRIDJIT_DUMP,
and the guards of symbolic sizes. Stages before ``spec`` do not need LLVM; compilation ends after
the last requested stage.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from .._core.compile_log import write_stage
from .._core.options import Options
from .._core.symbolic import hint_of
from ..compilation import compile_graph, compile_variant
from ..compiler import STAGES, new_log, plan_graph, purpose_with
from .arguments import (
    UsageError,
    add_model,
    add_precision,
    add_shapes,
    add_target,
    chosen_target,
    symbolic_shape,
)
from .model import model_of
from .symbols import guards_text, symbolic_shapes, with_symbols

_CODE_STAGES = ("llvm", "asm")
_LLVM_STAGES = ("spec", *_CODE_STAGES)
_KERNEL_MARK = "; kernel "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, their types are inferred)")
    add_shapes(parser, symbolic_shape, "; a capital letter is a symbolic size: data=N,3,H,W")
    parser.add_argument(
        "--after",
        metavar="STAGE,...",
        type=stages,
        required=True,
        help=f"stages to print: {', '.join(STAGES)}, or all",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        help="restrict llvm and asm to kernels whose name contains this (see --after spec)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="write the stages to NN-STAGE.txt files in this folder",
    )
    add_precision(parser)
    add_target(parser)


def stages(text: str) -> tuple[str, ...]:
    """``plan,spec`` in the order of compilation; ``all`` means every stage."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [stage for stage in wanted if stage not in (*STAGES, "all")]
    if unknown or not wanted:
        known = ", ".join((*STAGES, "all"))
        raise argparse.ArgumentTypeError(f"unknown stage {text!r}; stages are {known}")
    return STAGES if "all" in wanted else tuple(s for s in STAGES if s in wanted)


def run(args: argparse.Namespace) -> int:
    if args.kernel and not set(args.after) & set(_CODE_STAGES):
        raise UsageError("--kernel needs --after llvm or --after asm")
    scope, sized = symbolic_shapes(args.shape)
    args.shape = [(name, tuple(map(hint_of, shape))) for name, shape in sized.items()]
    model, input_types, param_types = model_of(args, any_batch=bool(scope.symbols))
    input_types = with_symbols(input_types, sized)
    sink = _Sink(args.after, args.out, args.kernel)
    log = new_log(args.after, sink)
    graph, options = (model.outputs, input_types, param_types), Options(precision=args.precision)
    with suppress(_EnoughSeen):
        if any(stage in _LLVM_STAGES for stage in args.after):
            with chosen_target(args.target):
                if scope.symbols:
                    compile_variant(*graph, scope, options, log, model.name)
                else:
                    compile_graph(*graph, options, log, model.name)
        else:
            plan_graph(*graph, log, model.name, purpose_with(options))
    if scope.symbols:
        sink.show(len(STAGES), "guards", guards_text(scope))
    for stage in args.after:
        if stage not in sink.seen:
            sink.show(STAGES.index(stage), stage, f"{stage} was disabled by HYBRIDJIT_SKIP")
    return 0


class _EnoughSeen(Exception):
    """Ends a compilation after the last requested stage."""


class _Sink:
    """Receives the stages; ends the compilation after the last requested one."""

    def __init__(self, wanted: tuple[str, ...], folder: Path | None, kernel: str | None) -> None:
        self.wanted = wanted
        self.seen: set[str] = set()
        self._folder = folder
        self._kernel = kernel

    def __call__(self, number: int, stage: str, text: str) -> None:
        self.seen.add(stage)
        if self._kernel and stage in _CODE_STAGES:
            text = narrowed(text, self._kernel)
        self.show(number, stage, text)
        if stage == self.wanted[-1]:
            raise _EnoughSeen

    def show(self, number: int, stage: str, text: str) -> None:
        if self._folder is not None:
            print(write_stage(self._folder, number, stage, text))
        elif len(self.wanted) > 1:
            print(f"==== {stage}\n{text}")
        else:
            print(text)


def narrowed(text: str, name: str) -> str:
    """The parts of an llvm or asm listing for kernels whose name contains ``name``.

    Raises UsageError with a list of all kernels if there is none.
    """
    parts = [_KERNEL_MARK + part for part in ("\n" + text).split("\n" + _KERNEL_MARK)[1:]]
    names = [part[len(_KERNEL_MARK) :].split(None, 1)[0] for part in parts]
    exact = [part for part, found in zip(parts, names) if found == name]
    chosen = exact or [part for part, found in zip(parts, names) if name in found]
    if not chosen:
        raise UsageError(
            f"no kernel name contains {name!r}; the kernels are\n  " + "\n  ".join(names)
        )
    return "\n".join(chosen)
