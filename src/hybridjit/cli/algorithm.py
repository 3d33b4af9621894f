"""How a kernel works, in a few words, from its spec: ``conv 3x3 tile 7x2``."""

from __future__ import annotations

from typing import Any


def algorithm(spec: Any) -> str:
    """Kind, window and register tile of a kernel; ``--after spec`` prints the rest."""
    words = [spec.kind]
    if spec.kind == "winograd":
        words.append(f"F({spec.m}x{spec.m})")
    how = getattr(spec, "how", None)
    if isinstance(how, str):
        words.append(how)
    window = getattr(spec, "kernel", ())
    if any(size != 1 for size in window):
        words.append(_sizes(window) + _stride(getattr(spec, "stride", ())))
    words += _tile(spec)
    return " ".join(words)


def _sizes(window: tuple[int, ...]) -> str:
    """Per-axis numbers without leading ones that stand for axes that are not there."""
    shown = window[1:] if len(window) == 3 and window[0] == 1 else window
    return "x".join(map(str, shown))


def _stride(stride: tuple[int, ...]) -> str:
    """``/2``; nothing for 1."""
    steps = sorted(set(stride[1:] if len(stride) == 3 and stride[0] == 1 else stride))
    return "" if steps in ([], [1]) else "/" + ",".join(map(str, steps))


def _tile(spec: Any) -> list[str]:
    for rows, columns in (("mr", "nv"), ("cols", "nv")):
        if hasattr(spec, rows) and hasattr(spec, columns):
            return [f"tile {getattr(spec, rows)}x{getattr(spec, columns)}"]
    return []
