"""Where a network spends its time: every step of its compiled plan, with the line it comes from.

In: a block and arrays, or a bound executable. Out: a report, which prints as a table and can be
written as a Chrome trace. Importing this package loads LLVM.
"""

from .nets import profile
from .report import Report, algorithm, measure, part_name
from .training import TrainingReport, profile_training

__all__ = [
    "Report",
    "TrainingReport",
    "algorithm",
    "measure",
    "part_name",
    "profile",
    "profile_training",
]
