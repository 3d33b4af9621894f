"""Page of a block: trace it, compile it for its arrays, optionally measure it."""

from __future__ import annotations

import os

from ..gluon import HybridBlock
from ..nd import NDArray
from ..optimizer import Optimizer
from ..profiling import traced
from .comparing import compare, read_document
from .document import Subject, inference_document, training_document
from .page import Page, write_page
from .schema import Document

Path = str | os.PathLike[str]


def view(
    net: HybridBlock,
    *arrays: NDArray,
    path: Path | None = None,
    profile: bool = False,
    seconds: float = 2.0,
    train: bool = False,
    optimizer: str | Optimizer = "sgd",
    against: Path | HybridBlock | None = None,
) -> Page:
    """Write a page that shows the stages, the plan and the kernels of ``net`` for these arrays.

    Parameters
    ----------
    net : HybridBlock
        The network; it is not changed.
    *arrays : NDArray
        Arguments of a call.
    path : str or path, optional
        The file; by default the network's name and ``.html``.
    profile : bool
        Whether every step is measured.
    seconds : float
        Duration of the measurement.
    train : bool
        Whether the page shows a training step: forward, backward, update.
    optimizer : str or Optimizer
        Optimizer of that step.
    against : str, path or HybridBlock, optional
        JSON of ``hybridjit view --json``, or another network for the same arrays: the page shows
        the changes from it to ``net``, step by step, and sums of both.

    Returns
    -------
    Page
        The path of the file; a notebook shows the page.

    Raises
    ------
    ModelFormatError
        For a damaged ``against``.
    MXNetError
        If the file cannot be written. Other errors are those of a call.

    Examples
    --------
    >>> net = nn.Dense(2, in_units=3)
    >>> net.initialize()
    >>> str(mx.view(net, nd.ones((1, 3)), path="dense.html"))
    'dense.html'
    """

    def document_of(net: HybridBlock) -> Document:
        found = traced(net, *arrays)
        subject = Subject(
            found.name, found.outputs, found.inputs, found.params, found.wanted, found.options
        )
        measured = seconds if profile else 0.0
        if train:
            return training_document(subject, measured, optimizer)
        return inference_document(subject, measured)

    before = None
    if against is not None:
        if isinstance(against, HybridBlock):
            before = document_of(against)
        else:
            before = read_document(against)
    document = document_of(net)
    if before is not None:
        document["comparison"] = compare(before, document)
    return write_page(document, f"{net.name}.html" if path is None else path)
