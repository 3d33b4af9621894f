"""How long steps of ResNet-18 wait for their pictures.

    python tools/feed.py                        JPEGs of 500x375, 16 a batch, 1 and 2 workers
    python tools/feed.py --workers 0 2 --batch 32 --steps 12 [--thread-pool]

Makes JPEG files as ImageNet's are, of smooth colours under noise, 70 KB each. A DataLoader reads
and decodes them, takes random parts of them at 224x224, mirrors and normalizes, as training does.
Prints for each number of workers how long the first batch took, the share of the later steps that
was spent waiting for batches, and images a second; first of all for a batch that is always the
same. It needs Pillow or OpenCV.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit._core.image_codecs import encoded
from hybridjit.gluon.data.vision import ImageFolderDataset, transforms
from hybridjit.gluon.model_zoo import vision

_CLASSES = 10
_MEAN, _DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
_SETTLING = 2  # steps that are not counted


class Fed(NamedTuple):
    """Seconds until the first batch was there, of waiting, and of all counted steps."""

    first: float
    waited: float
    whole: float


def make_files(folder: Path, count: int) -> None:
    """JPEGs of 500x375 in a folder for each class."""
    random = np.random.default_rng(0)
    for number in range(count):
        coarse = random.uniform(0, 255, (24, 32, 3))
        smooth = np.kron(coarse, np.ones((16, 16, 1)))[:375, :500]
        pixels = (smooth + random.normal(0, 12, smooth.shape)).clip(0, 255).astype(np.uint8)
        place = folder / f"class{number % _CLASSES}"
        place.mkdir(exist_ok=True)
        (place / f"{number}.jpg").write_bytes(encoded(pixels, ".jpg", 90))


def loader(folder: Path, batch: int, workers: int, thread_pool: bool) -> gluon.data.DataLoader:
    """Batches (batch, 3, 224, 224) with labels, augmented as for training."""
    steps = [
        transforms.RandomResizedCrop(224),
        transforms.RandomFlipLeftRight(),
        transforms.ToTensor(),
        transforms.Normalize(_MEAN, _DEVIATION),
    ]
    dataset = ImageFolderDataset(str(folder)).transform_first(transforms.Compose(steps))
    return gluon.data.DataLoader(
        dataset, batch, True, last_batch="discard", num_workers=workers, thread_pool=thread_pool
    )


class Steps:
    """Training of ResNet-18."""

    def __init__(self) -> None:
        self.net = vision.resnet18_v1(classes=_CLASSES)
        self.net.initialize(mx.init.Xavier())
        self.net.hybridize()
        options = {"learning_rate": 0.01, "momentum": 0.9}
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd", options)
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def step(self, images: nd.NDArray, labels: nd.NDArray) -> None:
        """One step on a batch."""
        with autograd.record():
            value = self.loss(self.net(images), labels)
        value.backward()
        self.trainer.step(len(images))

    def fed_by(self, batches: Iterable[Any], count: int) -> Fed:
        """A number of steps after the first ones."""
        begin = time.perf_counter()
        found: Iterator[Any] = iter(batches)
        first = waited = 0.0
        for number in range(count + _SETTLING):
            asked = time.perf_counter()
            images, labels = next(found)
            got = time.perf_counter()
            if number == 0:
                first = got - begin
            if number == _SETTLING:
                begin, waited = asked, 0.0
            waited += got - asked
            self.step(images, labels)
        return Fed(first, waited, time.perf_counter() - begin)


def forever(batches: Iterable[Any]) -> Iterator[Any]:
    """Round after round."""
    while True:
        yield from batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=12, help="that are counted")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--files", type=int, default=256)
    parser.add_argument("--thread-pool", action="store_true", help="workers are threads")
    args = parser.parse_args()
    steps = Steps()
    random = np.random.default_rng(1)
    shape = (args.batch, 3, 224, 224)
    fixed = (nd.array(random.standard_normal(shape)), nd.zeros((args.batch,)))
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), args.files)
        report("no loader", steps.fed_by(forever([fixed]), args.steps), args)
        for workers in args.workers:
            batches = loader(Path(folder), args.batch, workers, args.thread_pool)
            fed = steps.fed_by(forever(batches), args.steps)
            report(f"{workers} workers", fed, args)


def report(what: str, fed: Fed, args: argparse.Namespace) -> None:
    rate = args.steps * args.batch / fed.whole
    print(
        f"{what:10} {rate:6.1f} samples/s, {100 * fed.waited / fed.whole:4.1f} % of it waiting, "
        f"first batch after {1000 * fed.first:.0f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
