"""The page of a block: traced, compiled for its arrays, measured where that is wanted."""

from __future__ import annotations

import os

from ..gluon import HybridBlock
from ..nd import NDArray
from ..optimizer import Optimizer
from ..profiling import traced
from .comparing import compare, read_document
from .document import Subject, inference_document, training_document
from .page import Page, write_page

Path = str | os.PathLike[str]


def view(
    net: HybridBlock,
    *arrays: NDArray,
    path: Path | None = None,
    profile: bool = False,
    seconds: float = 2.0,
    train: bool = False,
    optimizer: str | Optimizer = "sgd",
    against: Path | None = None,
) -> Page:
    """Write a page that shows what the compiler makes of ``net`` for these arrays.

    path     of the file (default: the net's name and ``.html``); what is returned is it, and a
             notebook shows the page
    profile  also measure every step, for about ``seconds``
    train    show a step of training: forward, backward, and what ``optimizer`` updates
    against  JSON that ``hybridjit view --json`` wrote earlier: show what changed since
    Nothing of the net changes. Raises what a call of the net raises, ModelFormatError for a
    damaged ``against``, and MXNetError where the file cannot be written.
    """
    before = None if against is None else read_document(against)
    found = traced(net, *arrays)
    subject = Subject(
        found.name, found.outputs, found.inputs, found.params, found.wanted, found.options
    )
    measured = seconds if profile else 0.0
    if train:
        document = training_document(subject, measured, optimizer)
    else:
        document = inference_document(subject, measured)
    if before is not None:
        document["comparison"] = compare(before, document)
    return write_page(document, f"{net.name}.html" if path is None else path)
