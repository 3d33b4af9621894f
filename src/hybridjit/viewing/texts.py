"""Texts of strangers, made short enough to be shown.

In: names, attributes, listings of any length. Out: texts with a limit, and two that were different
stay so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

MOST_OF_NAME = 160
MOST_OF_TEXT = 600


def short_name(name: str, most: int = MOST_OF_NAME) -> str:
    """The name; of a long one its beginning and a hash, so that two long names differ."""
    if len(name) <= most:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name[: most - 13]}…{digest}"


def short_text(text: str, most: int = MOST_OF_TEXT) -> str:
    """The text; of a long one its beginning, and how much there was."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def shared_limit(sizes: Sequence[int], budget: int) -> int:
    """The largest limit such that ``sizes``, each cut to it, stay within ``budget`` together."""
    left = budget
    for place, size in enumerate(sorted(sizes)):
        fair = left // (len(sizes) - place)
        if size > fair:
            return fair
        left -= size
    return max(sizes, default=0)
