"""Tables of text: columns as wide as their widest cell; formatting of times."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def table(
    rows: Sequence[Sequence[str]], heading: Sequence[str] = (), right: Collection[int] = ()
) -> str:
    """Lines of aligned cells; ``right`` are the columns of right-aligned numbers."""
    lines = [list(heading), *map(list, rows)] if heading else [list(row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def cell(text: str, column: int) -> str:
        return text.rjust(widths[column]) if column in right else text.ljust(widths[column])

    return "\n".join("  ".join(cell(t, i) for i, t in enumerate(line)).rstrip() for line in lines)


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def milliseconds(seconds: float) -> str:
    """Three decimals, or four below a millisecond."""
    return f"{1e3 * seconds:.{3 if seconds >= 1e-3 else 4}f}"
