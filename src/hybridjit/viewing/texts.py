"""Untrusted strings, shortened for display.

Input: names, attributes, listings of any length. Output: strings of limited length; different
inputs stay different.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

MOST_OF_NAME = 160
MOST_OF_TEXT = 600


def short_name(name: str, most: int = MOST_OF_NAME) -> str:
    """The name; a long one is replaced by its start and a hash, so that long names stay
    different."""
    if len(name) <= most:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name[: most - 13]}…{digest}"


def short_text(text: str, most: int = MOST_OF_TEXT) -> str:
    """The string; a long one is replaced by its start and its length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def shared_limit(sizes: Sequence[int], budget: int) -> int:
    """The largest limit for which the sum of ``sizes``, each cut to it, is within ``budget``."""
    left = budget
    for place, size in enumerate(sorted(sizes)):
        fair = left // (len(sizes) - place)
        if size > fair:
            return fair
        left -= size
    return max(sizes, default=0)
