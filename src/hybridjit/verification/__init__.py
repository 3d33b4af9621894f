"""Comparison of compiled and eager execution: ``net.verify`` and ``hybridjit verify``."""

from ..runtime.checking import TOLERANCE, TOLERANCES
from .inference import find_culprits, verify_graph
from .training import verify_training
from .verdict import THREADS, Checked, Gap, Special, Verdict, gap_between

__all__ = [
    "THREADS",
    "TOLERANCE",
    "TOLERANCES",
    "Checked",
    "Gap",
    "Special",
    "Verdict",
    "find_culprits",
    "gap_between",
    "verify_graph",
    "verify_training",
]
