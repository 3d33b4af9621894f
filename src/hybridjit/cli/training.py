"""``hybridjit compile --library DIR --train LOSS``: the training step of a library.

Input: a model's files, a loss and an optimizer with their arguments. Output: a training step as
plain data, as of ``hybridjit.train_step``.
"""

from __future__ import annotations

import argparse
import ast
import inspect
from typing import Any

import numpy as np

from .. import nd
from .._core.types import FLOAT32
from ..errors import MXNetError
from ..gluon import loss as losses
from ..gluon.step_library import training_of
from ..gluon.train_step import train_step
from ..gluon.trainer import Trainer
from ..library.training import Training
from ..loading import make_block
from .arguments import UsageError, once
from .model import listed, model_of

_DEFAULT = "sgd"


def add_training(parser: argparse.ArgumentParser) -> None:
    """``--train`` and ``--optimizer``."""
    parser.add_argument(
        "--train",
        metavar="LOSS[,NAME=VALUE...]",
        type=_called,
        help="write a library that trains with this loss of gluon.loss and its arguments; labels "
        "need a shape too: --shape label=64",
    )
    parser.add_argument(
        "--optimizer",
        metavar="OPTIMIZER[,NAME=VALUE...]",
        type=_called,
        help="optimizer of --train with its arguments: sgd,momentum=0.9 (default: sgd)",
    )


def training_of_files(args: argparse.Namespace) -> Training:
    """The step, and the default name of the library. Raises UsageError."""
    loss = _made("loss", _loss_class(args.train[0]), args.train[1])
    labels = _labels(args, loss)
    _require_sizes([*args.shape, *labels.items()])
    dtypes = once(args.dtype, "--dtype")
    args.dtype = [(name, dtype) for name, dtype in args.dtype if name not in labels]
    args.any_batch, args.bounds = False, ()
    model, input_types, _ = model_of(args)
    args.name = args.name or model.name
    if model.params is None:
        raise UsageError("training starts from the network's parameters: give --params")
    if model.roles.labels:
        raise UsageError(
            f"the graph ends in a loss, which reads {listed(model.roles.labels)}: "
            "--train needs a graph without its loss"
        )
    net = make_block(model.outputs, model.roles, model.params)
    net.hybridize(precision=args.precision)
    name, words = args.optimizer or (_DEFAULT, {})
    trainer = _made("optimizer", lambda **kw: Trainer(net.collect_params(), name, kw), words)
    arrays = [np.zeros(input_types[n].dims, input_types[n].dtype) for n in model.inputs]
    arrays += [np.zeros(shape, dtypes.get(name, FLOAT32)) for name, shape in labels.items()]
    step = train_step(net, loss, trainer, labels=len(labels))
    given = [nd.array(array, dtype=array.dtype) for array in arrays]
    return training_of(step, given, [*model.inputs, *labels])


def _called(text: str) -> tuple[str, dict[str, object]]:
    """A name with arguments: ``sgd,momentum=0.9``."""
    name, *words = text.split(",")
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise argparse.ArgumentTypeError(f"arguments must be NAME=VALUE, got {word!r}")
        found[key] = _value(value)
    return name.strip(), found


def _value(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _loss_class(name: str) -> object:
    """The loss class of a name, in any case, with or without "Loss" and "_"."""
    known = {_plain(each): each for each in losses.__all__ if each != "Loss"}
    if _plain(name) not in known:
        raise UsageError(
            f"unknown loss {name!r}; the losses are {', '.join(sorted(known.values()))}"
        )
    return getattr(losses, known[_plain(name)])


def _plain(name: str) -> str:
    return name.lower().replace("_", "").removesuffix("loss")


def _made(what: str, make: Any, words: dict[str, object]) -> Any:
    """Make a loss or an optimizer. Raises UsageError for arguments that it does not accept."""
    try:
        return make(**words)
    except (TypeError, ValueError, AssertionError, MXNetError) as error:
        raise UsageError(f"the {what} with {words}: {error}") from None


def _labels(args: argparse.Namespace, loss: Any) -> dict[str, tuple[int, ...]]:
    """The loss's arguments after the prediction, with shapes, which are removed from the
    inputs'."""
    shapes = once(args.shape, "--shape")
    _, _, *taken = inspect.signature(loss.hybrid_forward).parameters.values()
    found = {p.name: shapes[p.name] for p in taken if p.name in shapes}
    missing = [p.name for p in taken if p.default is p.empty and p.name not in found]
    if missing:
        options = " ".join(f"--shape {name}=..." for name in missing)
        raise UsageError(f"the shape of {listed(missing)} is unknown: give {options}")
    if list(found) != [p.name for p in taken][: len(found)]:
        raise UsageError(f"the loss needs {listed([p.name for p in taken])} in this order")
    args.shape = [(name, shape) for name, shape in args.shape if name not in found]
    return found


def _require_sizes(shapes: list[tuple[str, tuple[int, ...]]]) -> None:
    for name, shape in shapes:
        if any(isinstance(size, str) for size in shape):
            raise UsageError(f"training depends on the batch size: give a number for N in '{name}'")
