"""Kernels as records: spec, algorithm, LLVM IR and assembly, with the hot loop.

Input: loaded code. Output: :class:`.schema.Kernel` records. Each kernel is compiled once more to
obtain its listings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..codegen.emit.module import emit_kernel, kernel_name
from ..codegen.llvm.jit import listings
from ..codegen.spec import KernelSpec
from ..ir.plan import Plan
from ..profiling import algorithm
from ..runtime.instance import Code
from .schema import Kernel, Listing
from .texts import shared_limit, short_text

# Limit of characters of all listings of an executable together.
_IR_BUDGET = 900_000
_ASSEMBLY_BUDGET = 600_000
_MOST_OF_SPEC = 2_000
_LABEL = re.compile(r'^(?:"([^"]+)"|([.$\w]+)):')
_TARGETS = re.compile(r'label %(?:"([^"]+)"|([.\w]+))|^\s+[a-z.]+\s(?:[^,]*,)*\s*(\.?[.$\w]+)\s*$')
_MULTIPLIES = re.compile(r"@llvm\.fma|\bfmul\b|\bvfn?m(?:add|sub)|mulp[sd]\b|\bfml[as]\b|\bfmul\b")
_ON_VECTORS = re.compile(r"<\d+ x |[%\s]{?[xyz]mm|\bv\d+\.\d")


def kernels(plan: Plan, code: Code, with_texts: bool = True) -> list[Kernel]:
    """A record for each kernel of an executable, in the order of the first steps that call it."""
    steps: dict[KernelSpec, list[int]] = {}
    for step, row in zip(plan.steps, code.calls):
        for call in row:
            of_spec = steps.setdefault(call.spec, [])
            if step.number not in of_spec:
                of_spec.append(step.number)
    records = [_kernel(spec, numbers) for spec, numbers in steps.items()]
    if with_texts:
        _add_listings(records, list(steps), code)
    return records


def _kernel(spec: KernelSpec, steps: list[int]) -> Kernel:
    return {
        "name": kernel_name(spec),
        "kind": spec.kind,
        "algorithm": algorithm(spec),
        "spec": short_text(str(spec), _MOST_OF_SPEC),
        "steps": steps,
        "llvm": None,
        "assembly": None,
    }


def _add_listings(records: Sequence[Kernel], specs: Sequence[KernelSpec], code: Code) -> None:
    target = code.target
    texts = [listings(str(emit_kernel(s, target)), target, s.needs_passes) for s in specs]
    most_ir = shared_limit([len(ir) for ir, _ in texts], _IR_BUDGET)
    most_assembly = shared_limit([len(assembly) for _, assembly in texts], _ASSEMBLY_BUDGET)
    for record, (ir, assembly) in zip(records, texts):
        record["llvm"] = listing(ir, most_ir)
        record["assembly"] = listing(_without_directives(assembly), most_assembly)


def _without_directives(assembly: str) -> str:
    """The assembly without directives for linkers and unwinders."""
    noise = re.compile(r"^\s+\.(?:cfi_|p2align|type|size|file|section|ident|addrsig)")
    return "\n".join(line for line in assembly.splitlines() if not noise.match(line))


def listing(text: str, most: int) -> Listing:
    """A listing of about ``most`` characters at most, with its hot loop marked. The loop has
    priority; a comment states the number of omitted lines."""
    lines = text.splitlines()
    first, last = hot_loop(lines)
    if len(text) <= most:
        return {"text": text, "lines": len(lines), "hot": (first, last)}
    start, end = _window(lines, max(first, 0), max(last, 0), most)
    before = [f"; {start} preceding lines are omitted"] if start else []
    after = [f"; {len(lines) - end} following lines are omitted"] if end < len(lines) else []
    shift = start - len(before)
    hot = (first - shift, min(last, end - 1) - shift) if first >= 0 else (-1, -1)
    return {
        "text": "\n".join([*before, *lines[start:end], *after]),
        "lines": len(lines),
        "hot": hot,
    }


def _window(lines: Sequence[str], first: int, last: int, most: int) -> tuple[int, int]:
    """Lines around [first, last] with at most ``most`` characters; at least the loop's start."""
    start, end, left = first, first, most
    while end < len(lines) and end <= last and left > len(lines[end]):
        left -= len(lines[end]) + 1
        end += 1
    while start > 0 and left > len(lines[start - 1]):
        start -= 1
        left -= len(lines[start]) + 1
    while end < len(lines) and left > len(lines[end]):
        left -= len(lines[end]) + 1
        end += 1
    return start, end


def hot_loop(lines: Sequence[str]) -> tuple[int, int]:
    """The innermost loop with the most work, as its first and last line; (-1, -1) without loops.

    Candidates are loops that mostly multiply vectors (transforms of Winograd also multiply, but run
    less often than its sums); the one with the most multiplications is chosen. Without candidates
    it is the longest loop on vectors. A loop extends from a label to a later jump to it.
    """
    loops = _loops(lines)
    innermost = [
        a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)
    ]

    def weight(loop: tuple[int, int]) -> tuple[bool, int, bool, int]:
        inside = [line for line in lines[loop[0] : loop[1] + 1] if _ON_VECTORS.search(line)]
        multiplies = sum(map(bool, map(_MULTIPLIES.search, inside)))
        is_dense = 2 * multiplies > len(inside) > 0
        return is_dense, multiplies, bool(inside), loop[1] - loop[0]

    return max(innermost, key=weight, default=(-1, -1))


def _loops(lines: Sequence[str]) -> list[tuple[int, int]]:
    labels: dict[str, int] = {}
    ends: dict[str, int] = {}
    for number, line in enumerate(lines):
        if match := _LABEL.match(line):
            labels[match[1] or match[2]] = number
            continue
        if line[:1] == "}":
            labels.clear()
        for target in _jumps(line, labels):
            ends[target] = number
    return [(start, ends[name]) for name, start in _starts(lines, ends).items()]


def _jumps(line: str, labels: Mapping[str, int]) -> list[str]:
    found = [a or b or c for a, b, c in _TARGETS.findall(line.partition("#")[0].rstrip())]
    return [name for name in found if name in labels]


def _starts(lines: Sequence[str], ends: Mapping[str, int]) -> dict[str, int]:
    """The last position of each label before its jump: functions of a module repeat labels."""
    starts: dict[str, int] = {}
    for number, line in enumerate(lines):
        match = _LABEL.match(line)
        name = (match[1] or match[2]) if match else ""
        if name in ends and number <= ends[name]:
            starts[name] = number
    return starts
