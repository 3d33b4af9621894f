"""What the golden cases have to show: each subject at work, and left alone where it must be.

A subject is a kind of kernel (which code there is) or of group (what the passes make of a value,
where no kernel has the same name), a pass, a rule of a pass, or what the plan does with memory. The
lists come from the registries, so a new kind or rule without cases is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hybridjit.codegen.kinds import KERNELS
from hybridjit.compiler import PIPELINE
from hybridjit.ir.kinds import KINDS
from hybridjit.ir.rewrite import Rule
from hybridjit.passes import fold_batchnorm, half, layout, on_rows, views

# What the plan does with memory, and with a batch.
PLAN = {
    "plan view": "every view is strides over what is there, and moves nothing",
    "plan copy": "a step copies, because strides will not do",
    "plan join": "what is concatenated is written into its slice of the result",
    "plan in-place": "a result takes the place of an operand that is read for the last time",
    "plan share": "two buffers lie at one place, at different times",
    "plan by-sample": "the samples of a batch run one by one",
}


def all_rules() -> dict[str, Rule]:
    """The titled rules of passes, by the names of their functions.

    Expansions have their cases in ``expansion_cases.py``, with the numbers.
    """
    modules = (half, on_rows, views, fold_batchnorm, layout)
    values = (value for module in modules for value in vars(module).values())
    return {r.apply.__name__: r for r in values if isinstance(r, Rule)}


RULES = all_rules()
# Every subject, and in words when it is at work.
SUBJECTS = {
    **{f"kernel {kind}": f"a step's kernel is of the kind {kind}" for kind in sorted(KERNELS)},
    **{
        f"group {kind.name}": f"a group or a step is of the kind {kind.name}"
        for kind in KINDS
        if kind.name not in KERNELS
    },
    **{f"pass {row.name}": row.description for row in PIPELINE},
    **PLAN,
    **{f"rule {name}": rule.title for name, rule in RULES.items()},
}
Claims = Mapping[str, list[str]]


def missing(acts: Claims, must_not: Claims) -> list[str]:
    """For each subject that lacks a case, what to write. Claims are cases' names by subject."""
    wanted = [("acts", acts, "where it is"), ("must not", must_not, "where it must not be")]
    return [
        f"{subject} ({meaning}): add a case {where}, which says `{key}: {subject}`"
        for subject, meaning in SUBJECTS.items()
        for key, claims, where in wanted
        if not claims.get(subject)
    ]


def unknown(subjects: Iterable[str]) -> list[str]:
    """Those that are none."""
    return [s for s in subjects if s not in SUBJECTS]
