"""Arguments that several commands share, and their parsing."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from string import ascii_uppercase
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._core.config import config, home_expanded, override, shown_value
from .._core.target import Target
from .._core.types import DTYPE_NAMES
from ..compilation import find_target
from ..formats.model_files import ENDINGS, SYMBOL, TARS, ZIPS
from ..formats.model_files import model_files as files_of_model
from ..ir.mode import PRECISIONS

Item = TypeVar("Item")
_LONGEST_BOUND = 64  # characters


class UsageError(Exception):
    """The command line does not fit the model: exit code 2."""


def add_model(parser: argparse.ArgumentParser, params: str = "") -> None:
    """Add MODEL and ``--params``. ``params`` describes a call without parameters."""
    parser.add_argument(
        "symbol",
        metavar="MODEL",
        help="beginning of the names of MODEL-symbol.json and MODEL-0000.params, or one of these "
        "files, an .onnx file, a folder, or an archive of a model service",
    )
    parser.add_argument(
        "--params",
        metavar="FILE",
        help="the .params file; by default the one that belongs to MODEL and --epoch, if it "
        f"exists{params}",
    )
    parser.add_argument(
        "--epoch", metavar="N", type=epoch, help="number in the name of the .params file (0)"
    )


@contextmanager
def model_files(args: argparse.Namespace) -> Iterator[None]:
    """Set ``args.symbol`` and ``args.params`` to the files of MODEL, as ``hybridjit.load`` finds
    them; the files of an archive exist inside the ``with`` block.

    Raises UsageError for options that do not fit the kind of MODEL, MXNetError for several models.
    """
    path, params = args.symbol, args.params
    is_file = path.endswith((".json", ".params", ".onnx")) or _is_other_file(path)
    if is_file and args.epoch is not None and not is_onnx(path):
        raise UsageError("--epoch needs a MODEL that is the prefix of its files' names")
    if params and args.epoch is not None:
        raise UsageError("--epoch chooses a file, and --params names one: omit one of them")
    if _is_other_file(path):
        yield
        return
    with files_of_model(path, 0 if params else args.epoch) as found:
        if is_onnx(found.graph) and (params or args.epoch is not None):
            raise UsageError(f"{path} contains its parameters: omit --params and --epoch")
        args.symbol = found.graph
        is_named = args.epoch is not None or path.endswith(".params")
        if not params and found.params and (is_named or os.path.exists(found.params)):
            args.params = found.params
        yield


def _is_other_file(path: str) -> bool:
    """Whether the path is a graph's file whose name has none of the usual endings."""
    usual = (SYMBOL, *ENDINGS, *ZIPS, *TARS)
    return not path.endswith(usual) and (path.endswith(".json") or os.path.isfile(path))


def is_onnx(path: str) -> bool:
    """Whether a file's name has the suffix of ONNX."""
    return path.endswith(".onnx")


def add_measuring(parser: argparse.ArgumentParser, seconds: float) -> None:
    """Add ``--threads``, and ``--seconds`` with this default."""
    parser.add_argument(
        "--threads", metavar="N", type=count, help="number of threads (default: as for a call)"
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=duration,
        default=seconds,
        help=f"duration of the measurement in seconds ({seconds:g})",
    )


def add_shapes(
    parser: argparse.ArgumentParser,
    shape: Callable[[str], tuple[str, tuple[Any, ...]]] | None = None,
    more: str = "",
) -> None:
    """Add ``--shape``, read by ``shape`` (:func:`named_shape` by default), and ``--dtype``.

    more  an addition to the help of ``--shape``
    """
    parser.add_argument(
        "--shape",
        metavar="NAME=N,N,...",
        type=shape or named_shape,
        action="append",
        default=[],
        help=f"shape of an input; repeat for each input{more}",
    )
    parser.add_argument(
        "--dtype",
        metavar="NAME=DTYPE",
        type=named_dtype,
        action="append",
        default=[],
        help="element type of an input (default: the graph's, else float32)",
    )
    parser.add_argument(
        "--input",
        metavar="[NAME=]FILE.npy",
        type=input_file,
        action="append",
        default=[],
        help="array of an input, in place of its shape (NAME= is optional for a single input)",
    )


def add_target(parser: argparse.ArgumentParser, more: str = "") -> None:
    what = "compile for a narrower CPU: avx512, avx2, sse2 or neon"
    parser.add_argument("--target", help=f"{what}{more}")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON document, no table")


def print_json(document: object) -> None:
    """Print a document of ``--json``."""
    print(json.dumps(document, indent=1))


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add ``--precision``, the multiplication type of contractions, and the ranges of 8 bits."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="bfloat16: dense layers, convolutions and products multiply 16-bit values; int8: "
        "dense layers and convolutions multiply bytes, in the ranges of --calibration",
    )
    parser.add_argument(
        "--calibration",
        metavar="TABLE",
        help="ranges of the data of layers for --precision int8; hybridjit quantize writes them",
    )
    add_exclude(parser)


def add_exclude(parser: argparse.ArgumentParser) -> None:
    """Add ``--exclude``."""
    parser.add_argument(
        "--exclude",
        metavar="LAYER",
        action="append",
        default=[],
        help="convolution or dense layer that stays in float32; repeat for each",
    )


@contextmanager
def chosen_target(name: str | None) -> Iterator[Target]:
    """Compile for ``--target`` within the block, by default for HYBRIDJIT_TARGET.

    Raises UsageError if this host cannot run the target.
    """
    with ExitStack() as scopes:
        try:
            scopes.enter_context(override(target=name or config.target))
            target = find_target()
        except ValueError as error:
            raise UsageError(str(error)) from None
        yield target


def named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``data=16,1,28,28``. No sizes: the shape of a scalar."""
    name, sizes = _named(text, "data=1,3,224,224")
    try:
        shape = tuple(int(size) for size in sizes.strip("()[]").split(",") if size.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: sizes must be integers") from None
    if any(size < 0 for size in shape):
        raise argparse.ArgumentTypeError(f"{text!r}: sizes must not be negative")
    return name, shape


def symbolic_shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    """``data=N,T,64``: capital letters name symbolic sizes; otherwise as :func:`named_shape`."""
    name, _, sizes = text.rpartition("=")
    parts = [part.strip() for part in sizes.strip("()[]").split(",")]
    letters = [part if len(part) == 1 and part in ascii_uppercase else "" for part in parts]
    if not name or not any(letters):
        return named_shape(text)
    plain = ",".join("1" if letter else part for part, letter in zip(parts, letters))
    name, shape = named_shape(f"{name}={plain}")
    return name, tuple(letter or size for letter, size in zip(letters, shape))


_BOUND = re.compile(
    r"(?:(?P<low>\d+)\s*<=\s*)?(?P<name>[A-Z])\s*(?:<=\s*(?P<high>\d+)|>=\s*(?P<least>\d+)"
    r"|%\s*(?P<step>\d+)\s*==\s*0)?"
)


class BoundText(NamedTuple):
    """A condition on a named size; a limit that it does not state is None."""

    name: str
    low: int | None
    high: int | None
    step: int | None


def bound(text: str) -> BoundText:
    """``T<=512``, ``8<=T<=512``, ``T>=8`` or ``H%32==0``."""
    found = _BOUND.fullmatch(text.strip())
    if found is None or len(text) > _LONGEST_BOUND:
        raise argparse.ArgumentTypeError(
            f"{shown_value(text)}: expected a bound such as T<=512, 8<=T<=512, T>=8 or H%32==0"
        )
    low, high, step = (
        None if number is None else int(number)
        for number in (found["low"] or found["least"], found["high"], found["step"])
    )
    if low is high is step is None:
        raise argparse.ArgumentTypeError(f"{text}: a bound compares the size with a number")
    if step == 0:
        raise argparse.ArgumentTypeError(f"{shown_value(text)}: a step is at least 1")
    return BoundText(found["name"], low, high, step)


def named_dtype(text: str) -> tuple[str, np.dtype]:
    """``data=float32``."""
    name, dtype = _named(text, "data=float32")
    if dtype not in DTYPE_NAMES:
        known = ", ".join(DTYPE_NAMES)
        raise argparse.ArgumentTypeError(f"{text!r}: element types are {known}")
    return name, DTYPE_NAMES[dtype]


def input_file(text: str) -> tuple[str, str]:
    """``data=x.npy``, or ``x.npy`` with an empty name."""
    name, _, file = text.rpartition("=")
    return name, file


def count(text: str) -> int:
    """An integer from 1 to 999,999,999."""
    digits = text.strip()
    is_short = digits.isascii() and digits.isdigit() and len(digits) < 10
    if not is_short or int(digits) < 1:
        shown = shown_value(text)
        raise argparse.ArgumentTypeError(f"{shown}: expected an integer, at least 1")
    return int(digits)


def duration(text: str) -> float:
    """Seconds, from 0 to a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        shown = shown_value(text)
        raise argparse.ArgumentTypeError(f"{shown}: expected a number of seconds, from 0 to 86400")
    return seconds


def folder(text: str) -> str:
    """A folder; ``~`` is expanded even if the shell did not."""
    try:
        return home_expanded(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{shown_value(text)}: {error}") from None


def epoch(text: str) -> int:
    """An integer, at least 0."""
    return 0 if text.strip() == "0" else count(text)


def counts(text: str) -> list[int]:
    """``1,2,4``: positive integers."""
    return [count(part) for part in text.split(",")]


def once(pairs: list[tuple[str, Item]], option: str) -> dict[str, Item]:
    """Repeated NAME=... options as a dictionary. Raises UsageError for a repeated name."""
    found: dict[str, Item] = {}
    for name, item in pairs:
        if name in found:
            raise UsageError(f"{option} is given twice for {name!r}")
        found[name] = item
    return found


def _named(text: str, example: str) -> tuple[str, str]:
    name, equals, rest = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=..., for example {example}")
    return name, rest
