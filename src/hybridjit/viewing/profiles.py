"""Profiles as records.

Input: a report. Output: a :class:`.schema.Profile`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.emit.module import kernel_name
from ..codegen.peak import measure_read_bandwidth
from ..profiling import Report, flops, lane_flops, part_name
from ..runtime.profiling import bytes_moved
from .schema import Kernel, Profile, Timed
from .texts import short_text

_MOST_OF_TABLE = 200_000


def profile_record(report: Report, kernels: Sequence[Kernel]) -> Profile:
    """The record of a report of an executable with these kernels."""
    found = report.profile
    places = {kernel["name"]: place for place, kernel in enumerate(kernels)}
    total = found.total or 1.0
    parts: list[Timed] = [
        {
            "step": part.step.number,
            "kernel": -1 if part.call is None else places[kernel_name(part.call.spec)],
            "algorithm": part_name(part),
            "seconds": part.seconds,
            "once": part.once,
            "spans": list(part.spans),
            "share": part.seconds / total,
            "flops": flops(part),
            "bytes": bytes_moved(part.step),
            "of_peak": lane_flops(part) / part.seconds / report.most if part.seconds else 0.0,
        }
        for part in found.parts
    ]
    return {
        "threads": found.threads,
        "rounds": found.rounds,
        "total": found.total,
        "whole": found.whole,
        "start": found.start,
        "peak": report.most,
        "bandwidth": measure_read_bandwidth(report.target) * found.threads,
        "parts": parts,
        "text": short_text(str(report), _MOST_OF_TABLE),
    }
