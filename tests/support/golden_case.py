"""Golden cases: a small program and the compiler's output for it, in one text file.

In: a file below ``tests/golden``. Out: the case, the compiler's output for its program, and the
file as it should be. Nothing is compiled to machine code, and nothing depends on this machine:
targets are the records of :data:`TARGETS`. A file reads

    A relu is computed in the kernel of the convolution before it.
    acts: kernel conv, pass fuse

    x = data f32[1,8,8,3]
    y = Convolution(x, kernel=(3,3), num_filter=4, layout="NHWC")
    return relu(y)
    ---- fuse
    ...
    ---- spec avx2
    ...

The first line describes the case in one sentence. Keys may follow it:

    acts, must not  subjects that the case must use, or must not use although it seems possible;
                    ``golden_coverage`` lists them
    skip            parts of the compiler to leave out, as HYBRIDJIT_SKIP names them
    winograd        always, or never
    training        yes: the graph is one of training
    updates         pairs of an output's number and the input that it updates: `0 w, 2 m`
    saved           number of the last outputs that a later call reads
    precision       bfloat16: storage type of the operands of products

The program declares inputs (``data``) and parameters (``param``) and calls the functions of
``hybridjit.sym``, or internal operators by name; a value is named as the
variable that it is assigned to. A parameter that is left out is made by its operator. Each ruler
names a stage, and for ``spec``, ``llvm`` and ``explain`` a target; ``error`` stands for the error
that refuses the program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from golden_coverage import RULES, Claims, unknown
from golden_loops import longest_loop
from hybridjit import sym
from hybridjit._core.compile_log import CompileLog
from hybridjit._core.config import override
from hybridjit._core.target import Target
from hybridjit._core.types import DTYPE_NAMES, TensorType
from hybridjit.codegen.emit.generate import choose_calls, spec_text
from hybridjit.codegen.emit.module import emit_kernel
from hybridjit.compilation import plan_one_sample
from hybridjit.compiler import PIPELINE, STAGES, TRAINING, new_log, plan_graph
from hybridjit.errors import MXNetError
from hybridjit.ir.mode import Purpose
from hybridjit.ir.node import Output, apply
from hybridjit.ir.plan import Plan, Step
from hybridjit.name import NameManager
from hybridjit.ops.attrs import attr_text
from hybridjit.ops.record import OpDef
from hybridjit.ops.registry import lookup
from hybridjit.passes.lower.expand import expand

FOLDER = Path(__file__).parent.parent / "golden"
RULER = "---- "
NOT_REACHED = "not reached"
WIDTH = 100
_X86 = "x86_64-unknown-linux-gnu"
TARGETS = {
    t.name: t
    for t in (
        Target("avx512", _X86, "x86-64-v4", "", 64, 32, True),
        Target("avx512-bf16", _X86, "x86-64-v4", "+avx512bf16", 64, 32, True),
        Target("amx", _X86, "x86-64-v4", "+amx-tile,+amx-int8", 64, 32, True),
        Target("avx2", _X86, "x86-64-v3", "", 32, 16, True),
        Target("sse2", _X86, "x86-64", "", 16, 16, False),
        Target("neon", "aarch64-unknown-linux-gnu", "generic", "", 16, 32, True),
    )
}
PLAIN_STAGES = tuple(stage for stage in STAGES if stage not in ("spec", "llvm", "asm"))
RULERS = (
    *PLAIN_STAGES,
    "error",
    *(f"{stage} {name}" for stage in ("spec", "llvm", "explain") for name in TARGETS),
)
KEYS = ("acts", "must not", "skip", "winograd", "training", "updates", "saved", "precision")
_WINOGRAD: dict[str, bool | str] = {"": True, "always": "always", "never": False}
_TYPES = {str(TensorType((), dtype))[:-2]: dtype for dtype in DTYPE_NAMES.values()}
_LISTED = re.compile(r"^ +%\d+ +(\S+) +(\w+)\(", re.MULTILINE)
_DECLARED = re.compile(r"(\w+) = (data|param) (\w+)\[([\d,]*)\]$")
_KERNEL = re.compile(r"\w+_[0-9a-f]{12}  ")


class CaseError(Exception):
    """A malformed case, with reason and location."""


@dataclass
class Case:
    """A file's parts. ``sections`` is the expected output by ruler."""

    name: str
    title: str
    keys: dict[str, str]
    program: str
    first_line: int
    sections: dict[str, str]

    def subjects(self, key: str) -> list[str]:
        """The subjects of ``acts`` or ``must not``."""
        return [part.strip() for part in self.keys.get(key, "").split(",") if part.strip()]

    @property
    def targets(self) -> list[str]:
        """Those that a ruler names."""
        return list(dict.fromkeys(r.split()[1] for r in self.sections if " " in r))


@dataclass
class Outcome:
    """The compiler's output for a program: an output for each ruler, and facts."""

    texts: dict[str, str] = field(default_factory=dict)
    facts: set[str] = field(default_factory=set)


def all_files() -> list[Path]:
    """Every case below ``tests/golden``."""
    return sorted(FOLDER.rglob("*.txt"))


# --- reading and writing ---


def read_case(path: Path) -> Case:
    """The case in a file. Raises CaseError."""
    name = path.relative_to(FOLDER).with_suffix("").as_posix()
    return parse_case(name, path.read_text(encoding="utf-8"))


def parse_case(name: str, text: str) -> Case:
    """The parts of a case. Raises CaseError naming the rule that the text breaks."""
    head, *rest = re.split(f"^{RULER}", text, flags=re.MULTILINE)
    lines = head.splitlines()
    blank = lines.index("") if "" in lines else len(lines)
    title, keys = (lines or [""])[0], dict(_keys(name, lines[1:blank]))
    if not title.endswith("."):
        raise CaseError(f"{name}: the first line is a sentence that ends in a full stop: {title!r}")
    sections = {}
    for part in rest:
        ruler, _, body = part.partition("\n")
        if ruler not in RULERS or ruler in sections:
            raise CaseError(
                f"{name}: {ruler!r} is not a ruler, or is repeated; rulers are {RULERS}"
            )
        sections[ruler] = body.rstrip("\n")
    case = Case(name, title, keys, "\n".join(lines[blank:]), blank + 1, sections)
    if strange := unknown(case.subjects("acts") + case.subjects("must not")):
        raise CaseError(f"{name}: {', '.join(strange)}: no subject is called that")
    if not sections:
        raise CaseError(f"{name}: no ruler with expected output, such as {RULER}fuse")
    return case


def _keys(name: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        key, colon, value = line.partition(": ")
        if key not in KEYS or not colon:
            raise CaseError(f"{name}: {line!r} is no `key: value` with a key of {KEYS}")
        yield key, value


def case_text(case: Case, texts: dict[str, str]) -> str:
    """The file with these outputs after its rulers."""
    head = [case.title, *(f"{key}: {value}" for key, value in case.keys.items()), case.program]
    parts = ["\n".join(head).rstrip("\n")]
    parts += [f"{RULER}{ruler}\n{texts.get(ruler, NOT_REACHED)}" for ruler in case.sections]
    return "\n".join(parts) + "\n"


# --- programs ---


class _Names(dict[str, Any]):
    """A program's variables, then the names of ``hybridjit.sym``."""

    def __missing__(self, name: str) -> Any:
        if hasattr(sym, name):
            return getattr(sym, name)
        try:
            return partial(_apply, lookup(name))
        except MXNetError:
            raise CaseError(f"no variable and no operator is called {name}") from None


def _apply(op: OpDef, *inputs: sym.Symbol, name: str, **attrs: object) -> sym.Symbol:
    """An operator that only passes and gradients use, which ``sym`` does not have."""
    text = {key: attr_text(value) for key, value in attrs.items()}
    return sym.Symbol([Output(apply(op, name, [x.outputs[0] for x in inputs], text))])


Types = dict[str, TensorType]


def run_program(case: Case) -> tuple[sym.Symbol, Types, Types]:
    """The program's results, and the types of its inputs and parameters."""
    types: dict[str, Types] = {"data": {}, "param": {}}
    names, lines = _Names(), []
    for line in case.program.splitlines():
        if match := _DECLARED.match(line):
            name, kind, dtype, sizes = match.groups()
            types[kind][name] = _type(case, dtype, sizes)
            line = f"{name} = var(name={name!r})"
        lines.append(re.sub(r"^return ", "returned = ", line))
    tree = ast.parse("\n".join(lines), "program")
    ast.increment_lineno(tree, case.first_line - 1)
    for statement in tree.body:
        _name_result(statement)
    exec(compile(tree, "program", "exec"), {"__builtins__": {}}, names)
    if "returned" not in names:
        raise CaseError(f"{case.name}: the program returns nothing")
    result = names["returned"]
    outputs = sym.Group(list(result)) if isinstance(result, tuple) else result
    return outputs, types["data"], types["param"]


def _type(case: Case, dtype: str, sizes: str) -> TensorType:
    if dtype not in _TYPES:
        raise CaseError(f"{case.name}: {dtype} is none of {', '.join(_TYPES)}")
    return TensorType(tuple(map(int, sizes.split(",") if sizes else ())), np.dtype(_TYPES[dtype]))


def _name_result(statement: ast.stmt) -> None:
    """``y = relu(x)`` becomes ``y = relu(x, name="y")``; calls within calls number themselves."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return
    target = statement.targets[0]
    name = target.id if isinstance(target, ast.Name) else "several"
    if not any(keyword.arg == "name" for keyword in statement.value.keywords):
        named = ast.keyword("name", ast.Constant("result" if name == "returned" else name))
        statement.value.keywords.append(named)
        ast.fix_missing_locations(statement)


# --- output of the compiler ---


def outcome_of(case: Case) -> Outcome:
    """Compile the program as far as the plan, and its kernels as far as LLVM's text."""
    outcome = Outcome()

    def keep(number: int, stage: str, text: str) -> None:
        outcome.texts[stage] = "\n".join(line.rstrip() for line in text.splitlines())

    skip = tuple(part.strip() for part in case.keys.get("skip", "").split(",") if part.strip())
    with override(skip=skip, verify=True), NameManager():
        try:
            _compile(case, outcome, new_log(PLAIN_STAGES, keep))
        except MXNetError as error:
            outcome.texts["error"] = f"{type(error).__name__}: {error}"
            outcome.facts.add("error")
    return outcome


def _compile(case: Case, outcome: Outcome, log: CompileLog) -> None:
    symbol, inputs, params = run_program(case)
    plan = plan_graph(symbol.outputs, inputs, params, log, "case", purpose_of(case))
    one_log = new_log()
    one = plan_one_sample(plan, symbol.outputs, inputs, params, one_log)
    outcome.facts |= {*_pass_facts(outcome.texts), *_plan_facts(plan)}
    if all(len(group.members) == 1 for group in plan.graph.groups):
        outcome.facts.discard("pass fuse")
    if one is not None:
        outcome.facts.add("plan by-sample")
    for name in case.targets or ["avx2"]:
        _choose(case, outcome, one or plan, TARGETS[name], log.notes + one_log.notes)


def purpose_of(case: Case) -> Purpose:
    """The purpose of the case's graph."""
    pairs = [part.split() for part in case.keys.get("updates", "").split(",") if part]
    updates = tuple((int(number), name) for number, name in pairs)
    is_training = case.keys.get("training") == "yes"
    saved, precision = int(case.keys.get("saved", "0")), case.keys.get("precision", "float32")
    winograd = case.keys.get("winograd") != "never"
    return Purpose(is_training, updates, saved, precision=precision, winograd=winograd)


def _choose(case: Case, outcome: Outcome, plan: Plan, target: Target, notes: list[str]) -> None:
    """The outputs that depend on a target."""
    log = new_log()
    calls = choose_calls(plan, target, _WINOGRAD[case.keys.get("winograd", "")], log)
    specs = dict.fromkeys(call.spec for row in calls for call in row)
    outcome.facts |= {f"kernel {spec.kind}" for spec in specs}
    outcome.texts |= {
        f"spec {target.name}": _wrapped(spec_text(plan, calls, target)),
        f"explain {target.name}": "\n".join([*notes, *log.notes]) or "nothing",
    }
    if f"llvm {target.name}" in case.sections:
        loops = [f"{spec.kind}: {longest_loop(str(emit_kernel(spec, target)))}" for spec in specs]
        outcome.texts[f"llvm {target.name}"] = "\n".join(loops)


def _wrapped(text: str) -> str:
    """Without the names of kernels, which are hashes, and no line longer than a screen is wide."""
    return "\n".join(
        piece for line in text.splitlines() for piece in _pieces(_KERNEL.sub("", line))
    )


def _pieces(line: str) -> Iterator[str]:
    while len(line) > WIDTH and (cut := line.rfind(" ", 20, WIDTH)) > 0:
        yield line[:cut].rstrip()
        line = " " * 11 + line[cut:].lstrip()
    yield line


# --- facts about a case ---


def _pass_facts(texts: dict[str, str]) -> Iterator[str]:
    """The passes that changed the graph, and their notes: rules by title."""
    listing = texts["infer"]
    for row in (TRAINING, *PIPELINE):
        text = texts.get(row.name, "")
        notes = [line[4:] for line in text.splitlines() if line.startswith("  # ")]
        yield from (f"noted {note}" for note in notes)
        if text and not re.search(rf"^{row.name}: no change$|^  # 0 values moved", text, re.M):
            yield f"pass {row.name}"
        if row.run is expand:
            yield from _expansions(listing, notes)
        listing = text if text.startswith("graph ") else listing


def _expansions(before: str, notes: Iterable[str]) -> Iterator[str]:
    """The operators that were there, and those of them that were taken apart."""
    noted = {note.partition(": ")[0] for note in notes}
    for name, op in _LISTED.findall(before):
        yield f"uses {op}"
        if name in noted:
            yield f"expand {op}"


def _plan_facts(plan: Plan) -> Iterator[str]:
    """The kernels of the groups, and the memory of the steps."""
    kinds = {*(group.kind for group in plan.graph.groups), *(step.kind for step in plan.steps)}
    yield from (f"group {kind}" for kind in kinds)
    if "view" in kinds and "copy" not in kinds:
        yield "plan view"
    if "copy" in kinds:
        yield "plan copy"
    if _shares(plan):
        yield "plan share"
    if any(buffer.kind == "saved" for buffer in plan.buffers):
        yield "plan saved"
    for step in plan.steps:
        yield from _step_facts(plan, step)


def _step_facts(plan: Plan, step: Step) -> Iterator[str]:
    read = {view.buffer for view in step.reads}
    for view in step.writes:
        if view.buffer in read:
            yield "plan in-place"
        if plan.buffers[view.buffer].kind == "input":
            yield "plan update-copied" if step.kind == "copy" else "plan update"
        nbytes = int(np.prod(view.shape)) * view.dtype.itemsize
        if nbytes < plan.buffers[view.buffer].nbytes and step.kind != "copy":
            yield "plan join"


def _shares(plan: Plan) -> bool:
    """Whether two buffers of the arena have bytes in common."""
    arena = sorted((b.offset, b.nbytes) for b in plan.buffers if b.kind == "arena" and b.nbytes)
    return any(a + size > b for (a, size), (b, _) in zip(arena, arena[1:]))


def claims(cases: Iterable[Case]) -> tuple[Claims, Claims]:
    """By subject, the names of the cases that show it at work, and of those where it is not."""
    found: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for case in cases:
        for key, table in zip(("acts", "must not"), found):
            for subject in case.subjects(key):
                table.setdefault(subject, []).append(case.name)
    return found


def is_fact(subject: str, facts: set[str]) -> bool:
    """Whether a subject was at work."""
    if subject.startswith("rule "):
        title = RULES[subject.removeprefix("rule ")].title
        return any(fact.startswith("noted ") and fact.endswith(f": {title}") for fact in facts)
    return subject in facts


def wrong_claims(case: Case, facts: set[str]) -> list[str]:
    """Claims of the case that are not true."""
    acts, must_not = case.subjects("acts"), case.subjects("must not")
    uses = ", ".join(sorted(fact[5:] for fact in facts if fact.startswith("uses ")))
    wrong = [
        f"acts: {s}, but it does not; the program uses {uses}"
        for s in acts
        if not is_fact(s, facts)
    ]
    wrong += [f"must not: {s}, but it does" for s in must_not if is_fact(s, facts)]
    unused = [s for s in must_not if s.startswith("expand ") and f"uses {s[7:]}" not in facts]
    return wrong + [f"must not: {s}, but the program has none" for s in unused]
