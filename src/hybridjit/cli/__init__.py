"""The command line: ``hybridjit COMMAND ...``, with a module for each command.

Only the module of the chosen command is imported, so that ``hybridjit ops`` does not load the
compiler.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module, metadata

from .._core.limits import explained_shortage
from ..errors import MXNetError, OutOfMemoryError, did_you_mean
from .arguments import UsageError, model_files

COMMANDS = {
    "inspect": "list a model's operators, inputs and parameters, and unknown operators",
    "dump": "print stages of a compilation",
    "run": "run a model on arrays from files",
    "verify": "compare a compiled model with NumPy, step by step, and find the faulty pass",
    "quantize": "calibrate a model for 8 bits: write ranges, an ONNX file or MXNet's files",
    "compile": "fill the cache of compiled objects, or write a C library",
    "bench": "measure a model: compile time, first call, latency, memory",
    "profile": "time every step of a compiled model",
    "tune": "choose the kernels of a model by measurement on this machine",
    "view": "show a model's stages, plan, kernels and profile as one HTML page",
    "ops": "list the operators",
    "switches": "list the HYBRIDJIT_... environment variables",
    "doctor": "report CPU, threads, versions and cache of this machine",
    "completion": "print a script that completes commands and options in bash, zsh or fish",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line. Exit codes: 0 success; 1 a problem with the model or its files; 2 usage.

    Raises SystemExit as argparse does, for ``--help`` and for unknown arguments.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        # The process ends with the command. Python would search for cycles several times first.
        atexit.register(gc.freeze)
    try:
        with explained_shortage():
            parser = _parser(words[0] if words else "")
    except OutOfMemoryError as error:
        print(f"hybridjit {words[0]}: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        return _no_compiler(words[0], error)
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        near = did_you_mean(words[0], COMMANDS)
        parser.error(f"unknown command {words[0]!r}{near or ': known are ' + ', '.join(COMMANDS)}")
    args, unknown = parser.parse_known_args(words)
    if unknown:  # with the usage of the command, which argparse does not print
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        with model_files(args) if "symbol" in args else nullcontext():
            code = args.run(args)
        sys.stdout.flush()
        return code
    except ImportError as error:
        return _no_compiler(args.command, error)
    except UsageError as error:
        print(f"hybridjit {args.command}: {error}", file=sys.stderr)
        return 2
    except (MXNetError, OSError, MemoryError) as error:
        return _problem(error, args)
    except KeyboardInterrupt:
        return 130


def _problem(error: Exception, args: argparse.Namespace) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of the output, such as head, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if args.traceback:
        traceback.print_exception(error)
    else:
        print(f"hybridjit {args.command}: {error}", file=sys.stderr)
    return 1


def _no_compiler(command: str, error: ImportError) -> int:
    if not (error.name or "").startswith("llvmlite"):
        raise error
    print(f"hybridjit {command}: llvmlite cannot be loaded: {error}", file=sys.stderr)
    return 1


def _parser(chosen: str) -> argparse.ArgumentParser:
    """The parser of all commands; only the chosen command has arguments."""
    parser = argparse.ArgumentParser(
        prog="hybridjit",
        description="Run, inspect and measure networks in MXNet's -symbol.json and .params files.",
    )
    version = f"hybridjit {metadata.version('hybridjit')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name == chosen:
            _complete(sub, name)
    return parser


def _complete(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    """The parser with the arguments of a command."""
    module = import_module(f".{command}", __package__)
    module.add_arguments(parser)
    parser.add_argument("--traceback", action="store_true", help="print the traceback of an error")
    parser.set_defaults(run=module.run, all_commands=_all_commands, parser=parser)
    return parser


def _all_commands() -> tuple[dict[str, argparse.ArgumentParser], dict[str, str]]:
    """The complete parser of each command, and its meaning."""
    made = {name: _complete(argparse.ArgumentParser(prog=name), name) for name in COMMANDS}
    return made, COMMANDS
