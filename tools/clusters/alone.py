"""The job of examples/batch in one process: ``python alone.py MODEL IMAGES.npy RESULTS.npy``."""

from __future__ import annotations

import sys

import numpy as np

from hybridjit.batch import Predictor


def main(model: str, images: str, results: str) -> None:
    np.save(results, Predictor(model, batch_size=16)(np.load(images, mmap_mode="r")))


if __name__ == "__main__":
    main(*sys.argv[1:])
