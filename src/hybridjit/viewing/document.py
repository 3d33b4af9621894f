"""Document of a network: compile it, record the compilation, and optionally measure it.

Input: a graph, and an array for every variable. Output: a :class:`.schema.Document`.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata

import numpy as np

from .._core.compile_log import CompileLog
from .._core.config import config
from .._core.options import Options
from .._core.symbolic import hint_of, scope_of, sizes_in
from .._core.types import TensorType, type_of
from ..codegen.targets import find_target
from ..compilation import TrainingLogs, compile_graph, compile_training, compile_variant
from ..compiler import JOINT_STAGES, new_log
from ..ir.node import Output
from ..optimizer import Optimizer, create
from ..profiling import Report, TrainingReport, measure, measure_training
from ..runtime.executable import Executable
from ..runtime.split_batch import SplitBatch
from ..trained import Trained
from .code import kernels
from .graphs import ValueTable, Watcher, block_paths, reference, stages
from .parameters import parameters
from .plans import plan_record, readers, steps
from .profiles import profile_record
from .schema import FORMAT, VERSION, Document, Part, Profile, Saved, Training, Update
from .texts import short_name, short_text

_MOST_NOTES = 2_000


@dataclass(frozen=True)
class Subject:
    """A graph to present, and an array for every variable.

    wanted      the variables with gradients in a training step
    options     options of the compiler
    symbolic    the inputs' types with symbols for sizes; empty if all sizes are integers
    """

    name: str
    outputs: tuple[Output, ...]
    inputs: Mapping[str, np.ndarray]
    params: Mapping[str, np.ndarray]
    wanted: Collection[str] = ()
    options: Options = Options()
    symbolic: Mapping[str, TensorType] = field(default_factory=dict)

    @property
    def input_types(self) -> dict[str, TensorType]:
        """The types of the inputs by name."""
        return {name: type_of(array) for name, array in self.inputs.items()}

    @property
    def param_types(self) -> dict[str, TensorType]:
        """The types of the parameters by name."""
        return {name: type_of(array) for name, array in self.params.items()}


@dataclass(frozen=True)
class Watched:
    """A compilation's log, and the results of its stages."""

    log: CompileLog
    watcher: Watcher

    @staticmethod
    def new(*stage_names: tuple[str, ...]) -> Watched:
        """Make a log; ``stage_names`` replaces the stages of inference."""
        watched = Watched(new_log(config.dump, None, *stage_names), Watcher())
        watched.log.watch = watched.watcher
        return watched


def inference_document(subject: Subject, seconds: float = 0.0) -> Document:
    """The document of inference; profiled if ``seconds`` is not 0.

    Raises the exceptions of compilation.
    """
    executable, samples, watched = _compiled(subject)
    report = None
    if seconds:
        executable.bind(subject.params)
        inputs = [array[:1] if samples > 1 else array for array in subject.inputs.values()]
        report = measure(executable, inputs, seconds)
    table = ValueTable()
    part = _part("inference", executable, watched, report, table)
    part["samples"] = samples
    return _document(subject, table, [part], [executable], None)


def _compiled(subject: Subject) -> tuple[Executable, int, Watched]:
    """The executable, the number of samples of a call, and the record of its compilation."""
    watched = Watched.new()
    given = subject.input_types
    if subject.symbolic:
        return *_of_variant(subject, watched), watched
    found = compile_graph(
        subject.outputs, given, subject.param_types, subject.options, watched.log, subject.name
    )
    if isinstance(found, Executable):
        return found, 1, watched
    first = {name: t.with_shape((1, *t.dims[1:])) for name, t in given.items()}
    one = Watched.new()
    again = compile_graph(
        subject.outputs, first, subject.param_types, subject.options, one.log, subject.name
    )
    assert not isinstance(again, SplitBatch)
    one.log.notes.insert(0, f"the {found.samples} samples run one by one: this is the code for one")
    return again, found.samples, one


def _of_variant(subject: Subject, watched: Watched) -> tuple[Executable, int]:
    """As :func:`_compiled`, for the sizes that the symbols stand for; guards are notes."""
    scope = scope_of(next(sizes_in(tuple(t.dims for t in subject.symbolic.values()))))
    values = {name: int(hint_of(size)) for name, size in scope.symbols.items()}
    graph = (subject.outputs, subject.symbolic, subject.param_types)
    variant = compile_variant(*graph, scope, subject.options, watched.log, subject.name)
    sizes = ", ".join(f"{name} = {value}" for name, value in values.items())
    watched.log.notes[:0] = [
        f"steps, memory and kernels are those for {sizes}; code serves all sizes with these guards",
        *(f"guard: {guard}" for guard in variant.guards),
    ]
    found = variant.at(tuple(values.values()))
    if isinstance(found, SplitBatch):
        return found.one, found.samples
    return found, 1


def training_document(
    subject: Subject, seconds: float = 0.0, optimizer: str | Optimizer = "sgd"
) -> Document:
    """The document of a training step.

    Raises the exceptions of compilation, and ValueError for an unknown optimizer.
    """
    rule = create(optimizer) if isinstance(optimizer, str) else copy.deepcopy(optimizer)
    logs = [Watched.new(JOINT_STAGES), Watched.new(), Watched.new()]
    types = {**subject.input_types, **subject.param_types}
    trained = compile_training(
        subject.outputs,
        types,
        subject.wanted,
        True,
        name=subject.name,
        logs=TrainingLogs(*(watched.log for watched in logs)),
    )
    report = None
    if seconds:
        arrays = {**subject.inputs, **subject.params}
        report = measure_training(trained, arrays, seconds, rule, tuple(subject.inputs))
    table = ValueTable()
    training = _training(subject, trained, logs[0], report, type(rule).__name__, table)
    ahead = report.forward if report else None
    parts = [_part("forward", trained.forward, logs[1], ahead, table)]
    executables = [trained.forward]
    if trained.backward is not None:
        back = report.backward if report else None
        parts.append(_part("backward", trained.backward, logs[2], back, table))
        executables.append(trained.backward)
    return _document(subject, table, parts, executables, training)


def _training(
    subject: Subject,
    trained: Trained,
    watched: Watched,
    report: TrainingReport | None,
    rule: str,
    table: ValueTable,
) -> Training:
    parts, joint = trained.parts, trained.joint
    saved: list[Saved] = [
        {
            "value": reference(use),
            "type": str(use.type),
            "bytes": use.type.nbytes,
            "reason": short_text(reason),
        }
        for use, reason in zip(parts.saved, parts.reasons)
    ]
    return {
        "stages": stages(watched.watcher, table),
        "saved": saved,
        "gradients": [short_name(name) for name in joint.gradients],
        "states": [short_name(name) for name in joint.updates],
        "updates": _updates(subject, trained, report, rule),
    }


def _updates(
    subject: Subject, trained: Trained, report: TrainingReport | None, rule: str
) -> list[Update]:
    """The updates of the optimizer: measured, or with the bytes that they will read and write."""
    measured = {update.name: update for update in report.updates} if report else {}
    learned = [name for name in trained.joint.gradients if name not in subject.inputs]
    found: list[Update] = []
    for name in learned:
        one = measured.get(name)
        nbytes = one.nbytes if one else 3 * subject.params[name].nbytes
        took = one.seconds if one else None
        found.append({"name": short_name(name), "rule": rule, "seconds": took, "bytes": nbytes})
    return found


def _part(
    name: str,
    executable: Executable,
    watched: Watched,
    report: Report | None,
    table: ValueTable,
) -> Part:
    of_kernels = kernels(executable.plan, executable.code)
    profile: Profile | None = None if report is None else profile_record(report, of_kernels)
    return {
        "name": name,
        "samples": 1,
        "stages": stages(watched.watcher, table),
        "steps": steps(executable.plan, executable.code, of_kernels),
        "plan": plan_record(executable.plan),
        "kernels": of_kernels,
        "profile": profile,
        "notes": [short_text(note) for note in watched.log.notes[:_MOST_NOTES]],
        "times": {name: took for name, _, took in watched.log.times},
    }


def _document(
    subject: Subject,
    table: ValueTable,
    parts: list[Part],
    executables: Sequence[Executable],
    training: Training | None,
) -> Document:
    target = find_target(config.target)
    return {
        "format": FORMAT,
        "version": VERSION,
        "hybridjit": metadata.version("hybridjit"),
        "name": short_name(subject.name),
        "mode": "training" if training else "inference",
        "inputs": {
            short_name(n): str(subject.symbolic.get(n, t)) for n, t in subject.input_types.items()
        },
        "machine": {
            "text": str(target),
            "cpu": target.cpu,
            "vector_bytes": target.vector_bytes,
            "vector_registers": target.vector_registers,
        },
        "values": table.records,
        "lines": table.lines(),
        "blocks": block_paths(subject.outputs),
        "parts": parts,
        "training": training,
        "parameters": parameters(subject.params, [readers(e.plan) for e in executables]),
        "comparison": None,
    }
