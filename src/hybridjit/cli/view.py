"""``hybridjit view``: a network, its compilation and its run as an HTML page or as JSON.

Input: a graph and shapes. Output: one file that opens from a disk and loads no other file. With
``--json`` the document behind the page; ``viewing/schema.py`` describes its keys.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from .._core.options import Options
from .._core.symbolic import hint_of
from ..formats.atomic import write_atomically
from ..formats.model_files import ENDINGS, TARS, ZIPS
from ..runtime.threads import get_num_threads, threads
from ..viewing import (
    Document,
    Subject,
    compare,
    inference_document,
    read_document,
    training_document,
    write_page,
)
from .arguments import (
    UsageError,
    add_measuring,
    add_model,
    add_precision,
    add_shapes,
    add_target,
    chosen_target,
    model_files,
    symbolic_shape,
)
from .model import example_inputs, learned, model_of, parameters
from .step import add_step
from .symbols import symbolic_shapes, with_symbols


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    add_shapes(parser, symbolic_shape, "; a capital letter is a symbolic size: data=N,3,H,W")
    parser.add_argument("--profile", action="store_true", help="measure every step")
    add_measuring(parser, 2)
    add_step(parser, "show forward and backward of a training step")
    parser.add_argument("-o", "--out", metavar="FILE", help="output file (default: NAME.html)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument(
        "--json",
        action="store_true",
        help="write JSON instead of the page, to FILE or to standard output",
    )
    parser.add_argument(
        "--against",
        metavar="FILE",
        help="JSON of an earlier view, or another model, which is compiled for the same shapes: "
        "the page shows the changes from it to MODEL, and sums of both",
    )
    add_precision(parser)
    parser.epilog = "For a network in Python call hybridjit.view(net, x)."
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    if args.json and args.open:
        raise UsageError("--open needs a page, and --json writes none")
    with chosen_target(args.target), threads(args.threads or get_num_threads()):
        before = None if args.against is None else _before(args)
        document = _document(args)
    if before is not None:
        document["comparison"] = compare(before, document)
    if args.json:
        _write_json(document, args.out)
        return 0
    page = write_page(document, args.out or f"{Path(document['name']).name}.html")
    print(page)
    if args.open:
        page.open()
    return 0


def _before(args: argparse.Namespace) -> Document:
    """The document of ``--against``: read, or made of another model with the same options."""
    path = args.against
    is_document = path.endswith(".json") or os.path.isfile(path)
    if is_document and not path.endswith((*ENDINGS, *TARS, *ZIPS)):
        return read_document(path)
    other = argparse.Namespace(**{**vars(args), "symbol": path, "params": None, "epoch": None})
    with model_files(other):
        return _document(other)


def _write_json(document: Document, path: str | None) -> None:
    text = json.dumps(document, separators=(",", ":"))
    if path is None:
        print(text)
    else:
        write_atomically(path, [text.encode()])
        print(path)


def _document(args: argparse.Namespace) -> Document:
    scope, sized = symbolic_shapes(args.shape)
    if scope.symbols and args.train:
        raise UsageError("--train needs sizes that are integers: --shape has letters")
    args.shape = [(name, tuple(map(hint_of, shape))) for name, shape in sized.items()]
    model, input_types, param_types = model_of(args, any_batch=bool(scope.symbols))
    inputs, options = example_inputs(args, input_types), Options(precision=args.precision)
    params = parameters(model, param_types)
    seconds = args.seconds if args.profile else 0.0
    if not args.train:
        read = {name: params[name] for name in param_types}
        types = with_symbols(input_types, sized) if scope.symbols else {}
        subject = Subject(model.name, model.outputs, inputs, read, (), options, types)
        return inference_document(subject, seconds)
    arrays, wanted = learned(model, inputs, params)
    fixed = {name: array for name, array in arrays.items() if name not in inputs}
    subject = Subject(model.name, model.outputs, inputs, fixed, wanted, options)
    return training_document(subject, seconds, args.optimizer)
