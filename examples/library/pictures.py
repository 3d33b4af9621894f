"""Writes the digits' test pictures as the examples of this folder read them.

    python pictures.py digits-test.npz pictures.f32 [labels.f32]

360 pictures of 28 x 28 little-endian floats of 4 bytes, one after the other; labels too, where a
file is named for them.
"""

from __future__ import annotations

import sys

import numpy as np


def main() -> None:
    """Every pixel of 8 x 8 becomes 3 x 3, with a border of two around the picture."""
    source, target, *more = sys.argv[1:]
    with np.load(source) as arrays:
        images, labels = arrays["images"].astype("<f4") / 16, arrays["labels"].astype("<f4")
    enlarged = np.kron(images, np.ones((1, 3, 3), "<f4"))
    np.pad(enlarged, ((0, 0), (2, 2), (2, 2))).tofile(target)
    if more:
        labels.tofile(more[0])


if __name__ == "__main__":
    main()
