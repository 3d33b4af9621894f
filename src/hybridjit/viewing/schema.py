"""Schema of the document: a compilation and its run as JSON.

These types document every key, its contents and its unit. ``require_document`` checks a document
from a file against them. Names, attributes and other strings come from untrusted graphs: each is
shortened, none is trusted.

Steps, buffers, kernels and values are referred to by their indices in the lists that contain them.
Sizes are in bytes, times in seconds.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from typing import Any, TypedDict

from ..errors import ModelFormatError
from ..formats.json_stream import JSON

FORMAT = "hybridjit-view"
VERSION = 3
Reference = tuple[str, int]  # name of a value, and index of its output


class Value(TypedDict):
    """One value of a graph: a use of an operator, an input or a parameter.

    role    ``input``, ``parameter`` or ``operator``; ``variable`` for both inputs and parameters
            in the first stage
    attrs   attributes that differ from their defaults, as strings
    inputs  its operands: name of the value, and index of its output
    types   of each output, ``f32[1,64,56,56]``; empty in the stage before types are known
    bytes   of all outputs together
    source  the user's line, ``file:line in function``; empty for a graph from a file
    """

    name: str
    op: str
    role: str
    attrs: dict[str, str]
    inputs: list[Reference]
    types: list[str]
    bytes: int
    source: str


class Rule(TypedDict):
    """A rewrite rule that fired in a pass, and the values that it fired on."""

    title: str
    values: list[str]


class Group(TypedDict):
    """The values that become one kernel, of this ``kind``; ``name`` is that of their layer."""

    kind: str
    name: str
    members: list[str]


class Stage(TypedDict):
    """A graph after a stage of the pipeline.

    values      indices in the document's ``values``, inputs before users; empty if there are more
                than :data:`..graphs.MOST_VALUES`
    counts      number of uses of each operator
    added, removed, changed     names, compared with the previous stage; changed values differ in
                operator, attributes, operands or types
    bind        indices in ``values``: the graph that computes parameters at bind time
    notes       other messages of the pass about its choices
    """

    name: str
    description: str
    values: list[int]
    outputs: list[Reference]
    counts: dict[str, int]
    added: list[str]
    removed: list[str]
    changed: list[str]
    rules: list[Rule]
    notes: list[str]
    groups: list[Group]
    bind: list[int]


class View(TypedDict):
    """A step's access to a value: offset and strides count elements of ``dtype``."""

    value: Reference
    buffer: int
    offset: int
    shape: list[int]
    strides: list[int]
    dtype: str


class Call(TypedDict):
    """A kernel call of a step.

    multiplications     approximate number
    reason              reason for this kernel, with the costs of candidates; empty without a choice
    weights             packing of each weight, ``name packing``
    """

    kernel: int
    multiplications: int
    reason: str
    weights: list[str]


class Step(TypedDict):
    """The execution of a group. ``calls`` is empty for a host step, which runs on NumPy."""

    number: int
    kind: str
    name: str
    algorithm: str
    members: list[str]
    fused: list[str]
    reads: list[View]
    writes: list[View]
    note: str
    source: str
    bytes: int
    calls: list[Call]


class Buffer(TypedDict):
    """A block of memory: ``input``, ``weight``, ``output``, ``saved`` or ``arena``.

    offset          bytes from the start of the arena
    first, last     the steps between which it is in use
    values          names of the values stored in it
    """

    kind: str
    index: int
    bytes: int
    offset: int
    first: int
    last: int
    values: list[str]


class Plan(TypedDict):
    """The buffers of all values.

    live        used bytes of the arena at each step
    peak_step   the step with the most used bytes; -1 without steps
    notes       outputs that update inputs, and saved outputs
    """

    arena_bytes: int
    live_bytes: int
    live: list[int]
    peak_step: int
    buffers: list[Buffer]
    notes: list[str]


class Listing(TypedDict):
    """A code listing. ``lines`` is the total count; ``hot`` are the first and last line, from 0, of
    the innermost loop in ``text`` with the most multiplications; ``[-1, -1]`` without loops."""

    text: str
    lines: int
    hot: tuple[int, int]


class Kernel(TypedDict):
    """One machine code function, and all steps that call it."""

    name: str
    kind: str
    algorithm: str
    spec: str
    steps: list[int]
    llvm: Listing | None
    assembly: Listing | None


class Timed(TypedDict):
    """The time of one kernel call (``kernel`` -1: a host step) within a run.

    seconds     mean over the faster half of the runs
    once        in one run, the middle one of that half
    spans       in that run: thread, begin and end of its part, in seconds from the call's begin;
                the calling thread has number 0; a part may begin before the previous call has ended
    flops       operations of the definition, two for a multiply-add
    bytes       read and written by the step, each element once
    of_peak     operations per second relative to the peak of all threads; 1 is the peak
    """

    step: int
    kernel: int
    algorithm: str
    seconds: float
    once: float
    spans: list[tuple[int, float, float]]
    share: float
    flops: float
    bytes: int
    of_peak: float


class Profile(TypedDict):
    """The time of every kernel call.

    total, whole, start     sum of the calls, time of an unwatched run, overhead between calls
    peak, bandwidth         peak operations and bytes per second of all threads
    text                    the table as ``hybridjit profile`` prints it
    """

    threads: int
    rounds: int
    total: float
    whole: float
    start: float
    peak: float
    bandwidth: float
    parts: list[Timed]
    text: str


class Part(TypedDict):
    """One executable: ``inference``, or ``forward`` and ``backward``.

    samples     number of samples of a batch that run one by one; the part describes one of them
    times       seconds of each stage of the compilation
    """

    name: str
    samples: int
    stages: list[Stage]
    steps: list[Step]
    plan: Plan
    kernels: list[Kernel]
    profile: Profile | None
    notes: list[str]
    times: dict[str, float]


class Histogram(TypedDict):
    """A histogram: ``counts`` of equal intervals between ``low`` and ``high``.

    sampled     number of values counted; in large arrays they are evenly spaced
    """

    low: float
    high: float
    counts: list[int]
    mean: float
    deviation: float
    sampled: int
    not_finite: int


class Parameter(TypedDict):
    """A parameter.

    steps       per part, the steps that read it or a value computed from it at bind time
    histogram   None without a finite element
    """

    name: str
    type: str
    bytes: int
    steps: list[list[int]]
    histogram: Histogram | None


class Saved(TypedDict):
    """A forward value that the backward graph reads. ``reason`` names its readers."""

    value: Reference
    type: str
    bytes: int
    reason: str


class Update(TypedDict):
    """The update of one parameter by the optimizer; without seconds if not profiled."""

    name: str
    rule: str
    seconds: float | None
    bytes: int


class Training(TypedDict):
    """Records that forward and backward share.

    stages      the joint graph
    gradients   the variables with gradients; ``states`` are those that training updates
    """

    stages: list[Stage]
    saved: list[Saved]
    gradients: list[str]
    states: list[str]
    updates: list[Update]


class Machine(TypedDict):
    """The target CPU of the code."""

    text: str
    cpu: str
    vector_bytes: int
    vector_registers: int


class Change(TypedDict):
    """A step before and after, by name: ``same``, ``other kernel``, ``new`` or ``gone``.

    For an absent step integers are -1, strings empty and seconds None.
    """

    name: str
    what: str
    steps: tuple[int, int]
    operators: tuple[str, str]
    algorithms: tuple[str, str]
    specs: tuple[str, str]
    seconds: tuple[float | None, float | None]


class ComparedPart(TypedDict):
    """Totals of both plans, before and after, and every step."""

    name: str
    steps: tuple[int, int]
    arena_bytes: tuple[int, int]
    live_bytes: tuple[int, int]
    seconds: tuple[float | None, float | None]
    changes: list[Change]


class Comparison(TypedDict):
    """Comparison with an earlier document, ``before``."""

    before: str
    parts: list[ComparedPart]


class Document(TypedDict):
    """The complete document.

    values      of all stages, without duplicates
    lines       the source lines of values, if the files are readable
    blocks      the Gluon blocks around each value of a traced network, outermost first; values of
                a graph from a file have none
    """

    format: str
    version: int
    hybridjit: str
    name: str
    mode: str
    inputs: dict[str, str]
    machine: Machine
    values: list[Value]
    lines: dict[str, str]
    blocks: dict[str, list[str]]
    parts: list[Part]
    training: Training | None
    parameters: list[Parameter]
    comparison: Comparison | None


def require_document(found: object, name: str) -> Document:
    """``found`` if it is a document. Raises ModelFormatError that names the first error."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ModelFormatError(f"{name}: not a document of hybridjit view")
    if found.get("version") not in range(1, VERSION + 1):
        version = str(found.get("version"))[:20]
        raise ModelFormatError(
            f"{name}: document version {version} is not supported, only 1 to {VERSION}"
        )
    try:
        if found["version"] == 1:
            _add_version_2(found)
        if found["version"] == 2:
            found |= {"version": VERSION, "blocks": {}}
        _require(found, Document, "the document")
        _require_places(typing.cast(Document, found))
    except _Wrong as error:
        raise ModelFormatError(f"{name}: damaged document: {error}") from None
    return typing.cast(Document, found)


def _add_version_2(found: dict[str, JSON]) -> None:
    """Add to a document of version 1 the keys that it lacks: no spans, and no comparison."""
    found["version"], found["comparison"] = 2, None
    for part in _listed(found.get("parts")):
        for timed in _listed((part.get("profile") or {}).get("parts")):
            timed |= {"once": timed.get("seconds"), "spans": []}


def _listed(found: Any) -> list[dict[str, Any]]:
    """The records of a list; none of something else, which a check reports afterwards."""
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


class _Wrong(Exception):
    """Error in a document, with its location."""


def _require(found: JSON, wanted: Any, place: str) -> None:
    """Raise _Wrong unless ``found`` conforms to the type ``wanted``, recursively."""
    kind, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if typing.is_typeddict(wanted):
        _require_keys(found, typing.get_type_hints(wanted), place)
    elif kind is list:
        _require_kind(found, list, place)
        for number, item in enumerate(found):
            _require(item, inner[0], f"{place}[{number}]")
    elif kind is tuple:
        _require_kind(found, (list, tuple), place)
        if len(found) != len(inner):
            raise _Wrong(f"{place} must have {len(inner)} items, got {len(found)}")
        for number, (item, one) in enumerate(zip(found, inner)):
            _require(item, one, f"{place}[{number}]")
    elif kind is dict:
        _require_kind(found, dict, place)
        for item in found.values():
            _require(item, inner[1], f"an entry of {place}")
    elif inner:  # a type or None
        if found is not None:
            _require(found, next(t for t in inner if t is not type(None)), place)
    else:
        _require_plain(found, wanted, place)


def _require_keys(found: JSON, wanted: Mapping[str, Any], place: str) -> None:
    _require_kind(found, dict, place)
    if missing := sorted(wanted.keys() - found.keys()):
        raise _Wrong(f"{place} lacks {', '.join(missing)}")
    for key, one in wanted.items():
        _require(found[key], one, f"{place}.{key}")


def _require_plain(found: JSON, wanted: type, place: str) -> None:
    """Check for a string, an integer, or a finite number."""
    _require_kind(found, (float, int) if wanted is float else wanted, place)
    if isinstance(found, bool) or (wanted is float and not math.isfinite(found)):
        raise _Wrong(f"{place} must be a {wanted.__name__}, got {found}")


def _require_kind(found: JSON, wanted: Any, place: str) -> None:
    if not isinstance(found, wanted):
        first = wanted[0] if isinstance(wanted, tuple) else wanted
        raise _Wrong(f"{place} must be a {first.__name__}, got {type(found).__name__}")


def _require_places(document: Document) -> None:
    """Check that all indices refer to existing steps and kernels, and that times are not
    negative."""
    for part in document["parts"]:
        steps, kernels = len(part["steps"]), len(part["kernels"])
        for step in part["steps"]:
            for call in step["calls"]:
                _require_within(call["kernel"], 0, kernels, f"a kernel of step {step['number']}")
        for timed in part["profile"]["parts"] if part["profile"] else ():
            _require_within(timed["step"], 0, steps, "a step of the profile")
            _require_within(timed["kernel"], -1, kernels, "a kernel of the profile")
            if timed["seconds"] < 0:
                raise _Wrong(f"a time must be at least 0 seconds, got {timed['seconds']}")


def _require_within(number: int, first: int, end: int, what: str) -> None:
    if not first <= number < end:
        raise _Wrong(f"{what} must be between {first} and {end - 1}, got {number}")
