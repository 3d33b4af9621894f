"""A batch job on Dask: a plug-in loads the network once in every worker.

    python examples/batch/on_dask.py MODEL IMAGES.npy RESULTS.npy --workers 2

MODEL is the beginning of MXNet's two files, or an .onnx file. It needs
`pip install "dask[dataframe,distributed]"`. On a cluster, give Client its address; files lie where
every worker sees them under the same name.
"""

from __future__ import annotations

import argparse

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster, Worker, WorkerPlugin

from hybridjit.batch import Predictor

ROWS = 32  # of a partition: few, so that workers end at about the same time


class Loaded(WorkerPlugin):
    """Loads the network when a worker starts, and when one that died is replaced."""

    name = "hybridjit"

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def setup(self, worker: Worker) -> None:
        self.predictor.load()


def read(start: int, images: str) -> pd.DataFrame:
    """The records from ``start`` on."""
    rows = np.load(images, mmap_mode="r")[start : start + ROWS]
    return pd.DataFrame({"id": np.arange(start, start + len(rows)), "data": list(rows)})


def predict(client: Client, model: str, images: str) -> pd.DataFrame:
    """Columns ``id`` and ``output``."""
    predictor = Predictor(model, key="id", batch_size=16)
    client.register_plugin(Loaded(predictor))
    starts = range(0, len(np.load(images, mmap_mode="r")), ROWS)
    empty = pd.DataFrame({"id": np.empty(0, int), "data": np.empty(0, object)})
    records = dd.from_map(read, starts, images=images, meta=empty)
    return records.map_partitions(
        predictor.frame, meta=empty.rename(columns={"data": "output"})
    ).compute()


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a network over images on Dask.")
    parser.add_argument("model")
    parser.add_argument("images")
    parser.add_argument("results")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    dask.config.set({"dataframe.convert-string": False})
    # Dask sets OMP_NUM_THREADS to 1, and a worker runs as many calls at a time as it has threads.
    cluster = LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        results = predict(client, args.model, args.images)
    np.save(args.results, np.stack(results.sort_values("id")["output"]))


if __name__ == "__main__":
    main()
