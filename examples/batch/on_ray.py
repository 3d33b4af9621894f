"""A batch job on Ray Data: every worker holds the network and reads its own records.

    python examples/batch/on_ray.py MODEL IMAGES.npy RESULTS.npy --workers 2

MODEL is the beginning of MXNet's two files, or an .onnx file. It needs `pip install "ray[data]"`.
On a cluster, files lie where every worker sees them under the same name.
"""

from __future__ import annotations

import argparse

import numpy as np
import ray

from hybridjit.batch import Predictor

ROWS = 32  # of a task: few, so that workers end at about the same time


def read(batch: dict[str, np.ndarray], images: str) -> dict[str, np.ndarray]:
    """The records of these numbers."""
    return {"id": batch["id"], "data": np.load(images, mmap_mode="r")[batch["id"]]}


def predict(model: str, images: str, workers: int) -> ray.data.Dataset:
    """Columns ``id`` and ``output``; rows come as they are ready."""
    count = len(np.load(images, mmap_mode="r"))
    numbers = ray.data.range(count, override_num_blocks=-(-count // ROWS))
    return numbers.map_batches(read, fn_kwargs={"images": images}).map_batches(
        Predictor,
        fn_constructor_args=(model,),
        fn_constructor_kwargs={"key": "id", "batch_size": 16},
        batch_size=16,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=1,  # Ray sets OMP_NUM_THREADS to it: a worker computes on so many threads
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a network over images on Ray Data.")
    parser.add_argument("model")
    parser.add_argument("images")
    parser.add_argument("results")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    # One more than there are actors: reading takes one.
    ray.init(num_cpus=args.workers + 1, include_dashboard=False)
    parts = list(predict(args.model, args.images, args.workers).iter_batches(batch_size=None))
    order = np.argsort(np.concatenate([part["id"] for part in parts]))
    np.save(args.results, np.concatenate([part["output"] for part in parts])[order])


if __name__ == "__main__":
    main()
