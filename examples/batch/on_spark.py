"""A batch job on Spark: Python workers load the network once, and map frames of records.

    python examples/batch/on_spark.py MODEL IMAGES.npy RESULTS.npy --workers 2
    python examples/batch/on_spark.py MODEL IMAGES.npy RESULTS.npy --workers 2 --udf

The second one takes Spark's predict_batch_udf on a column of flat images. MODEL is the beginning of
MXNet's two files, or an .onnx file. It needs Java and `pip install pyspark pandas pyarrow`. On a
cluster, submit it; files lie where every worker sees them under the same name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, FloatType

from hybridjit.batch import Predictor

ROWS = 32  # of a partition: few, so that workers end at about the same time


def records(frames: Iterator[pd.DataFrame], images: str) -> Iterator[pd.DataFrame]:
    """The records of these numbers."""
    held = np.load(images, mmap_mode="r")
    for frame in frames:
        rows = held[frame["id"].to_numpy()]
        yield frame.assign(data=list(rows.reshape(len(rows), -1)))


def predict(numbers: DataFrame, model: str, images: str) -> DataFrame:
    """Columns ``id`` and ``output``, a flat list in each row."""
    shape = np.load(images, mmap_mode="r").shape[1:]
    predictor = Predictor(model, shapes={"data": shape}, key="id", batch_size=16)
    return numbers.mapInPandas(
        lambda frames: predictor.frames(records(frames, images)), "id long, output array<float>"
    )


def predict_by_function(numbers: DataFrame, model: str, images: str) -> DataFrame:
    """The same by a function of a column."""
    shape = np.load(images, mmap_mode="r").shape[1:]
    predictor = Predictor(model, batch_size=16)
    function = predict_batch_udf(
        predictor.here,
        return_type=ArrayType(FloatType()),
        batch_size=16,
        input_tensor_shapes=[list(shape)],
    )
    read = numbers.mapInPandas(lambda frames: records(frames, images), "id long, data array<float>")
    return read.select("id", function("data").alias("output"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a network over images on Spark.")
    parser.add_argument("model")
    parser.add_argument("images")
    parser.add_argument("results")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--udf", action="store_true", help="by predict_batch_udf")
    args = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have this environment
    spark = (
        SparkSession.builder.master(f"local[{args.workers},4]")  # a task is tried four times
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS))
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")  # of results, too
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    count = len(np.load(args.images, mmap_mode="r"))
    numbers = spark.range(count, numPartitions=-(-count // ROWS))
    mapped = predict_by_function if args.udf else predict
    # Sorted here: Spark's orderBy computes everything once more, to sample where to cut.
    rows = mapped(numbers, args.model, args.images).toPandas().sort_values("id")
    np.save(args.results, np.stack(rows["output"]).astype(np.float32))
    spark.stop()


if __name__ == "__main__":
    main()
