"""The options of commands that show or measure a training step.

Input: a parser. Output: ``--train`` and ``--optimizer`` in it.
"""

from __future__ import annotations

import argparse

from .. import optimizer


def add_step(parser: argparse.ArgumentParser, help_of_train: str) -> None:
    """``--train`` without a loss, and ``--optimizer``."""
    parser.add_argument("--train", action="store_true", help=help_of_train)
    parser.add_argument(
        "--optimizer",
        metavar="NAME",
        type=_optimizer,
        default="sgd",
        help="optimizer of --train (sgd)",
    )


def _optimizer(name: str) -> str:
    """The name of an optimizer."""
    try:
        optimizer.create(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name
