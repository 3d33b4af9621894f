"""Plans beside compiled objects: the code of a graph that an earlier process planned.

Input: the key of a plan. Output: the plan and its machine code without a pass, or None. A record
names its kernels by their specs; if the object of one is gone, the graph is planned again. Records
have the protection of objects: see :mod:`.objects`.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, overload

import numpy as np

from ..._core.compile_log import CompileLog
from ..._core.target import Target
from ...ir.plan import Plan
from ...ir.plan_image import Image, Packed
from ...ir.stored_plan import NotStorableError, StoredPlan, image_of, plan_of, stored_text
from ..call import Call
from .generate import (
    Code,
    NotStoredError,
    Request,
    StoredSpec,
    code_of,
    loaded,
    packs_of,
)
from .keys import record_key
from .objects import cache_folder, keep_within_limit, load_record, store_record

Calls = tuple[tuple[Call, ...], ...]
# The sources that determine a plan: the passes, and all that they read.
PLANNERS = ("codegen", "ops", "passes", "ir", "control", "_core", "compilation.py", "compiler.py")
_PLACES = {
    **dict.fromkeys(
        (
            *("AbreastPacking", "ChannelPacking", "ConvPacking", "DepthwisePacking", "Line"),
            *("NibblePacking", "PairPacking", "PhasePacking", "QuadPacking", "RecurrentPacking"),
            *("StrassenPacking", "WinogradPacking"),
        ),
        "..packing",
    ),
    "QuadRowsPacking": "..kinds.byte_depthwise",
    **dict.fromkeys(("ByteWinogradPacking", "LowsPacking"), "..kinds.byte_winograd.spec"),
}


class _LateCalls(Sequence[tuple[Call, ...]]):
    """The kernel calls of each step, chosen again when one is read."""

    def __init__(self, whole: Callable[[], tuple[Plan, Calls]]) -> None:
        self._whole = whole

    def __len__(self) -> int:
        return len(self._whole()[1])

    @overload
    def __getitem__(self, index: int) -> tuple[Call, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> Calls: ...
    def __getitem__(self, index: int | slice) -> tuple[Call, ...] | Calls:
        return self._whole()[1][index]


def plan_key(text: str, target: Target) -> str | None:
    """The name of the record of a graph's plan; None without a cache."""
    if cache_folder() is None:
        return None
    versions = (np.__version__, platform.python_version())
    return record_key(PLANNERS, "plan", text, repr(target), *versions)


def load_plan(
    key: str, target: Target, log: CompileLog, whole: Callable[[], tuple[Plan, Calls]]
) -> tuple[StoredPlan, Code, int, bool] | None:
    """The plan stored under a key, its code, the batch if its samples run one by one, or 0, and
    whether another plan has the last layers.

    ``whole`` makes the plan and its calls.
    """
    record = load_record(key)
    if record is None:
        return None
    facts = json.loads(record)
    specs = tuple(StoredSpec(text.partition(" ")[0], text) for text in facts["specs"])
    try:
        kernels = loaded([Request(specs, log, tuple(facts["packs"]))], target, 1)
    except NotStoredError:
        return None
    plan = plan_of(facts, log.name, lambda: whole()[0])
    image = image_of(facts, _class_named)
    code = code_of(target, _LateCalls(whole), kernels, image, bool(facts["packs"]))
    return plan, code, facts["samples"], facts["has_last"]


def store_plan(key: str, plan: Plan, code: Code, samples: int = 0, has_last: bool = False) -> None:
    """Store a plan and its calls, unless they have parts that no record can hold."""
    more = {
        "specs": [str(spec) for spec in code.kernels],
        "packs": packs_of(plan, code.calls),
        "samples": samples,
        "has_last": has_last,
    }
    assert isinstance(code.image, Image), "sizes are those of this call"
    try:
        text = stored_text(plan, code.image, _PLACES, more)
    except NotStorableError:
        return
    store_record(key, text.encode())
    keep_within_limit(len(text))


def _class_named(name: str) -> Callable[..., Any]:
    """The class of a packing, by its name in a record."""
    return Packed if name == "Packed" else getattr(import_module(_PLACES[name], __package__), name)
