"""The document: what is shown of a compilation and its run, as JSON.

These types are its documentation: every key, what it holds, in which unit. ``require_document``
checks a document that was read against them. Names, attributes and texts come from graphs that
anybody may have written: each is shortened, none is trusted.

Steps, buffers, kernels and values are named by their places in the lists that hold them. Bytes
and seconds are whole bytes and seconds.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from typing import Any, TypedDict

from ..errors import ModelFormatError
from ..formats.json_stream import JSON

FORMAT = "hybridjit-view"
VERSION = 1
Reference = tuple[str, int]  # a value's name, and the number of its output


class Value(TypedDict):
    """One value of a graph: an operator's use, an input or a parameter.

    role    ``input``, ``parameter`` or ``operator``; ``variable`` for either in the first stage
    attrs   what is off default, as text
    inputs  the values that it reads, by name, and which of their outputs
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
    """The values that become one kernel; ``kind`` says which."""

    kind: str
    name: str
    members: list[str]


class Stage(TypedDict):
    """A graph as a stage of the pipeline left it.

    values   places in the document's ``values``, inputs before users; empty where there are more
             than :data:`..graphs.MOST_VALUES` of them
    counts   how often each operator is used
    added, removed, changed  names, against the stage before; changed are those whose operator,
             attributes, operands or types are others
    bind     places in ``values``: the graph that computes parameters when they are bound
    notes    what else the pass said of its choices
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
    """How a step sees a value: offset and strides count elements of ``dtype``."""

    value: Reference
    buffer: int
    offset: int
    shape: list[int]
    strides: list[int]
    dtype: str


class Call(TypedDict):
    """A kernel call of a step.

    multiplications  about how many it does
    reason           why this kernel, with the costs that were considered; empty without a choice
    weights          how each weight is packed, ``name packing``
    """

    kernel: int
    multiplications: int
    reason: str
    weights: list[str]


class Step(TypedDict):
    """One group at work. ``calls`` is empty for a host step, which runs in NumPy."""

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
    """A piece of memory: ``input``, ``weight``, ``output``, ``saved`` or ``arena``.

    offset       bytes from the arena's start
    first, last  the steps between which it holds something
    values       names of what lies in it
    """

    kind: str
    index: int
    bytes: int
    offset: int
    first: int
    last: int
    values: list[str]


class Plan(TypedDict):
    """Where everything lies.

    live       bytes of the arena that hold something, at each step
    peak_step  the step at which most do; -1 without a step
    notes      which outputs update inputs, and which are saved
    """

    arena_bytes: int
    live_bytes: int
    live: list[int]
    peak_step: int
    buffers: list[Buffer]
    notes: list[str]


class Listing(TypedDict):
    """Code as text. ``lines`` counts all of them; ``hot`` are the first and last line, from 0, of
    the innermost loop in ``text`` that multiplies most; ``[-1, -1]`` without a loop."""

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

    flops    operations of the definition, two for a multiply-add
    bytes    that the whole step reads and writes, each element once
    of_peak  operations a second against the peak of all threads; 1 is all of it
    """

    step: int
    kernel: int
    algorithm: str
    seconds: float
    share: float
    flops: float
    bytes: int
    of_peak: float


class Profile(TypedDict):
    """The time of every kernel call.

    total, whole, start  the parts together, a run that was not watched, what lies outside of parts
    peak, bandwidth      operations and bytes a second of all threads, at most
    text                 the table as ``hybridjit profile`` prints it
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

    samples  how many samples of a batch run one after the other; what is shown is one of them
    times    seconds of each stage of the compilation
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
    """How numbers spread: ``counts`` between ``low`` and ``high``, evenly.

    sampled  how many numbers were looked at; large arrays are looked at evenly spaced places
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

    steps      for each part, those that read it or what is computed from it when it is bound
    histogram  None without a finite element
    """

    name: str
    type: str
    bytes: int
    steps: list[list[int]]
    histogram: Histogram | None


class Saved(TypedDict):
    """What the backward graph reads of the forward one. ``reason`` names its readers."""

    value: Reference
    type: str
    bytes: int
    reason: str


class Update(TypedDict):
    """The optimizer's step of one parameter; no seconds without a profile."""

    name: str
    rule: str
    seconds: float | None
    bytes: int


class Training(TypedDict):
    """What forward and backward have in common.

    stages     the joint graph
    gradients  the variables whose gradients are computed; ``states`` those that training moves
    """

    stages: list[Stage]
    saved: list[Saved]
    gradients: list[str]
    states: list[str]
    updates: list[Update]


class Machine(TypedDict):
    """The CPU that the code is for."""

    text: str
    cpu: str
    vector_bytes: int
    vector_registers: int


class Change(TypedDict):
    """A step before and after, by name: ``same``, ``other kernel``, ``new`` or ``gone``.

    Numbers are -1, texts empty and seconds None where there is none.
    """

    name: str
    what: str
    steps: tuple[int, int]
    specs: tuple[str, str]
    seconds: tuple[float | None, float | None]


class ComparedPart(TypedDict):
    """Both plans in numbers, before and after, and every step."""

    name: str
    steps: tuple[int, int]
    arena_bytes: tuple[int, int]
    live_bytes: tuple[int, int]
    seconds: tuple[float | None, float | None]
    changes: list[Change]


class Comparison(TypedDict):
    """Against another document, which is ``before``."""

    before: str
    parts: list[ComparedPart]


class Document(TypedDict):
    """All of it.

    values   of all stages; each value once, however many stages have it
    lines    the text of the users' lines that values name, where the files are there
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
    parts: list[Part]
    training: Training | None
    parameters: list[Parameter]
    comparison: Comparison | None


def require_document(found: object, name: str) -> Document:
    """``found`` if it is a document. Raises ModelFormatError that names the first wrong place."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ModelFormatError(f"{name}: is no document of hybridjit view")
    if found.get("version") != VERSION:
        version = str(found.get("version"))[:20]
        raise ModelFormatError(f"{name}: is version {version} of a document, this reads {VERSION}")
    try:
        _require(found, Document, "the document")
        _require_places(typing.cast(Document, found))
    except _Wrong as error:
        raise ModelFormatError(f"{name}: is damaged: {error}") from None
    return typing.cast(Document, found)


class _Wrong(Exception):
    """What is wrong with a document, and where."""


def _require(found: JSON, wanted: Any, place: str) -> None:
    """Raises _Wrong unless ``found`` is of the type ``wanted``, all the way down."""
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
            raise _Wrong(f"{place} has {len(inner)} items, got {len(found)}")
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
    """A text, a whole number, or a number that is finite."""
    _require_kind(found, (float, int) if wanted is float else wanted, place)
    if isinstance(found, bool) or (wanted is float and not math.isfinite(found)):
        raise _Wrong(f"{place} is a {wanted.__name__}, got {found}")


def _require_kind(found: JSON, wanted: Any, place: str) -> None:
    if not isinstance(found, wanted):
        first = wanted[0] if isinstance(wanted, tuple) else wanted
        raise _Wrong(f"{place} is a {first.__name__}, got {type(found).__name__}")


def _require_places(document: Document) -> None:
    """That every number names a step or a kernel that is there, and no time is below 0."""
    for part in document["parts"]:
        steps, kernels = len(part["steps"]), len(part["kernels"])
        for step in part["steps"]:
            for call in step["calls"]:
                _require_within(call["kernel"], 0, kernels, f"a kernel of step {step['number']}")
        for timed in part["profile"]["parts"] if part["profile"] else ():
            _require_within(timed["step"], 0, steps, "a step of the profile")
            _require_within(timed["kernel"], -1, kernels, "a kernel of the profile")
            if timed["seconds"] < 0:
                raise _Wrong(f"a time is at least 0 seconds, got {timed['seconds']}")


def _require_within(number: int, first: int, end: int, what: str) -> None:
    if not first <= number < end:
        raise _Wrong(f"{what} is between {first} and {end - 1}, got {number}")
