"""``hybridjit view``: a network, its compilation and its run as one JSON document.

In: a graph and shapes. Out: what ``dump`` and ``profile`` say, as data; the keys are described in
``viewing/schema.py``.
"""

from __future__ import annotations

import argparse
import json

from ..formats.atomic import write_atomically
from ..runtime.threads import get_num_threads, threads
from ..viewing import (
    Document,
    Subject,
    compare,
    inference_document,
    read_document,
    training_document,
)
from .arguments import add_model, add_shapes, add_target, chosen_target, count
from .model import learned, model_of, parameters, stand_in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, " (without it, random ones)")
    add_shapes(parser)
    parser.add_argument("--profile", action="store_true", help="measure every step, too")
    parser.add_argument("--seconds", metavar="S", type=float, default=2.0, help="to measure (2)")
    parser.add_argument("--threads", metavar="N", type=count, help="default: what a call uses")
    parser.add_argument("--train", action="store_true", help="forward and backward of training")
    parser.add_argument(
        "--optimizer", metavar="NAME", default="sgd", help="what updates parameters then (sgd)"
    )
    parser.add_argument("-o", "--out", metavar="FILE", help="where to write (default: print it)")
    parser.add_argument("--json", action="store_true", required=True, help="as JSON")
    parser.add_argument(
        "--against", metavar="FILE", help="JSON of an earlier view: show what changed since"
    )
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    before = None if args.against is None else read_document(args.against)
    with chosen_target(args.target), threads(args.threads or get_num_threads()):
        document = _document(args)
    if before is not None:
        document["comparison"] = compare(before, document)
    text = json.dumps(document, separators=(",", ":"))
    if not args.out:
        print(text)
        return 0
    write_atomically(args.out, [text.encode()])
    print(args.out)
    return 0


def _document(args: argparse.Namespace) -> Document:
    model, input_types, param_types = model_of(args)
    inputs = {name: stand_in(name, wanted) for name, wanted in input_types.items()}
    params = parameters(model, param_types)
    seconds = args.seconds if args.profile else 0.0
    if not args.train:
        read = {name: params[name] for name in param_types}
        return inference_document(Subject(model.name, model.outputs, inputs, read), seconds)
    arrays, wanted = learned(model, inputs, params)
    fixed = {name: array for name, array in arrays.items() if name not in inputs}
    subject = Subject(model.name, model.outputs, inputs, fixed, wanted)
    return training_document(subject, seconds, args.optimizer)
