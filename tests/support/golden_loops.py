"""The longest innermost loop of a kernel, from its LLVM IR, where most of the time is spent.

Registers and labels are numbered anew, and vectors of equal constants are written as LLVM writes
them, ``splat (float 1.0)``: so a change before the loop changes no line of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LABEL = re.compile(r"^([\w.]+):$")
_BRANCH = re.compile(r"label %([\w.]+)")
_SPLAT = re.compile(r"<(\w+ [^,<>]+)(?:, \1)+>")
_NUMBERED = re.compile(r"%([A-Za-z_]\w*(?:\.[A-Za-z]\w*)*\.)\d+\b")

Blocks = dict[str, list[str]]


def longest_loop(module: str) -> str:
    """The innermost loop on vectors that has the most lines; all of a module without one."""
    blocks = blocks_of(module)
    loops = _loops(blocks)
    innermost = [loop for loop in loops if not any(set(o) < set(loop) for o in loops)]
    texts = [[line for b in loop for line in (f"{b}:", *blocks[b])] for loop in innermost]
    if not texts:
        return "\n".join(["no loop", *module.splitlines()])
    return "\n".join(["its longest innermost loop", *renumbered(max(texts, key=_weight))])


def _weight(lines: list[str]) -> tuple[bool, int]:
    """Loops over vectors before loops over the remainder."""
    return any(" load <" in line or " store <" in line for line in lines), len(lines)


def blocks_of(module: str) -> Blocks:
    """The basic blocks of the one function, by label, in order."""
    blocks: Blocks = {}
    body: list[str] = []
    for line in module.splitlines():
        if match := _LABEL.match(line):
            body = blocks.setdefault(match[1], [])
        elif line == "}":
            break
        else:
            body.append(line)
    return blocks


def _loops(blocks: Blocks) -> list[list[str]]:
    """The blocks of every loop: those that lie on a way from its head back to it."""
    after = {label: _BRANCH.findall(lines[-1]) for label, lines in blocks.items()}
    before: dict[str, list[str]] = {label: [] for label in blocks}
    for label, targets in after.items():
        for target in targets:
            before[target].append(label)
    order = list(blocks)
    found = []
    for head in order:
        ends = [label for label in before[head] if _dominates(head, label, before, order[0])]
        if ends:
            found.append([b for b in order if b in _natural(head, ends, before)])
    return found


def _dominates(head: str, label: str, before: dict[str, list[str]], entry: str) -> bool:
    """Whether every way from the entry to ``label`` leads over ``head``."""
    return entry == head or entry not in _natural(head, [label], before)


def _natural(head: str, ends: list[str], before: dict[str, list[str]]) -> set[str]:
    """``head``, and all from which ``ends`` are reached without it."""
    found, pending = {head}, list(ends)
    while pending:
        label = pending.pop()
        if label not in found:
            found.add(label)
            pending += before[label]
    return found


def renumbered(lines: list[str]) -> Iterator[str]:
    """The same lines with registers and labels numbered in the order in which they appear."""
    numbers: dict[str, str] = {}

    def short(match: re.Match[str]) -> str:
        kind = match[1]
        return numbers.setdefault(match[0], f"%{kind}{len(numbers)}")

    for line in lines:
        if match := _LABEL.match(line):
            line = f"%{match[1]}"
            yield _NUMBERED.sub(short, line)[1:] + ":"
        else:
            yield _SPLAT.sub(r"splat (\1)", _NUMBERED.sub(short, line))
