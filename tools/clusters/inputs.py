"""The images of the jobs, and a ResNet-50 of random weights: ``python inputs.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from hybridjit import nd
from hybridjit.gluon.model_zoo import vision


def main(folder: Path) -> None:
    generator = np.random.default_rng(0)
    np.save(folder / "digits.npy", generator.random((10_000, 1, 28, 28), "float32"))
    for count in (128, 640):
        np.save(folder / f"pictures{count}.npy", generator.random((count, 3, 224, 224), "float32"))
    network = vision.resnet50_v1()
    network.initialize()
    network.hybridize()
    network(nd.zeros((1, 3, 224, 224)))
    network.export(str(folder / "resnet50"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
