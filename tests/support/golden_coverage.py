"""Required subjects of golden cases: each must be used in one, and unused in a similar one.

A subject is a kind of kernel, a kind of group (unless a kernel has the same name), a pass, a rule
of a pass, an operator with an expansion, or a decision of the plan about memory. The lists come
from the registries, so that new kinds, rules or expansions without cases are found.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping

from hybridjit import passes
from hybridjit._core.types import type_of
from hybridjit.codegen.kinds import all_emitters
from hybridjit.compiler import PIPELINE, TRAINING
from hybridjit.ir.kinds import KINDS
from hybridjit.ir.rewrite import Rule
from hybridjit.ops.building import ON_TYPES, parts_of
from hybridjit.ops.registry import OpDef, all_names, lookup
from hybridjit.passes.lower.expand import title
from samples import samples

# Decisions of the plan about memory and about batches.
PLAN = {
    "plan view": "every view is strides over what is there, and moves nothing",
    "plan copy": "a step copies, because strides will not do",
    "plan join": "what is concatenated is written into its slice of the result",
    "plan in-place": "a result takes the place of an operand that is read for the last time",
    "plan share": "two buffers lie at one place, at different times",
    "plan update": "a kernel writes a result over the input that it updates",
    "plan update-copied": "a result is copied over the input that it updates, at the end",
    "plan saved": "an output is saved for a later call of another executable",
    "plan by-sample": "the samples of a batch run one by one",
}


def all_rules() -> dict[str, Rule]:
    """Every titled rule of the passes, by the name of its function."""
    found = {}
    for module in pkgutil.walk_packages(passes.__path__, f"{passes.__name__}."):
        values = vars(importlib.import_module(module.name)).values()
        found.update({r.apply.__name__: r for r in values if isinstance(r, Rule)})
    return dict(sorted(found.items()))


def expanded_operators() -> dict[str, OpDef]:
    """Every operator with an expansion, by name."""
    found = {op.name: op for op in map(lookup, all_names()) if op.expand is not None}
    return dict(sorted(found.items()))


def may_stay(op: OpDef) -> bool:
    """Whether the operator stays as it is on one of its samples, one with elements."""
    for sample in samples(op):
        types = [type_of(array) for array in sample.arrays]
        attrs = op.parse(sample.attrs)
        if all(t.size for t in types) and parts_of(op, ON_TYPES, types, attrs) is None:
            return True
    return False


RULES = all_rules()
EXPANDED = expanded_operators()
# Kernels of symbolic sizes, which no case has: ``test_variants.py`` compares their bits.
OF_SYMBOLIC_SIZES = {"sized_matmul"}
# Every subject, and in words when it is at work.
SUBJECTS = {
    **{
        f"kernel {kind}": f"a step's kernel is of the kind {kind}"
        for kind in sorted(set(all_emitters()) - OF_SYMBOLIC_SIZES)
    },
    **{
        f"group {kind.name}": f"a group or a step is of the kind {kind.name}"
        for kind in KINDS
        if kind.name not in all_emitters()
    },
    **{f"pass {row.name}": row.description for row in (TRAINING, *PIPELINE)},
    **PLAN,
    **{f"rule {name}": rule.title for name, rule in RULES.items()},
    **{f"expand {name}": title(op) for name, op in EXPANDED.items()},
}
Claims = Mapping[str, list[str]]


def missing(acts: Claims, must_not: Claims) -> list[str]:
    """For each subject without a case, instructions. Claims are cases' names by subject."""
    wanted = [("acts", acts, "where it is"), ("must not", must_not, "where it must not be")]
    return [
        f"{subject} ({meaning}): add a case {where}, which says `{key}: {subject}`"
        for subject, meaning in SUBJECTS.items()
        for key, claims, where in wanted
        if not claims.get(subject) and not (key == "must not" and is_always(subject))
    ]


def is_always(subject: str) -> bool:
    """Whether it is at work wherever it could be, so that a counterexample does not exist."""
    kind, _, name = subject.partition(" ")
    return kind == "expand" and not may_stay(EXPANDED[name])


def unknown(subjects: Iterable[str]) -> list[str]:
    """Those that are none."""
    return [s for s in subjects if s not in SUBJECTS]
