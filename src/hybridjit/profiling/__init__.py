"""Profile of a network: the time of every step of its compiled plan, with its source line.

Input: a block and arrays, or a bound executable. Output: a report, which prints as a table and can
be written as a Chrome trace. Importing this package loads LLVM.
"""

from .nets import profile, traced
from .report import (
    Report,
    algorithm,
    flops,
    fused_operators,
    lane_flops,
    measure,
    part_name,
    user_source,
)
from .training import TrainingReport, measure_training, profile_training

__all__ = [
    "Report",
    "TrainingReport",
    "algorithm",
    "flops",
    "fused_operators",
    "lane_flops",
    "measure",
    "measure_training",
    "part_name",
    "profile",
    "profile_training",
    "traced",
    "user_source",
]
