"""Sentences for networks of several lengths: words as integers, and batches by length.

Input: lists of words, or of integers. Output: integers with their vocabulary; batches whose label
is the data shifted by one step.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Hashable, Sequence

import numpy as np

from .. import nd
from .._core.types import DType
from ..io import DataBatch, DataDesc, DataIter
from ..nd import NDArray

Sentences = Sequence[Sequence[Hashable]]


def encode_sentences(
    sentences: Sentences,
    vocab: dict[Hashable, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Hashable = "\n",
    start_label: int = 0,
    unknown_token: Hashable | None = None,
) -> tuple[list[list[int]], dict[Hashable, int]]:
    """The sentences as lists of integers, and the vocabulary.

    Without ``vocab`` a vocabulary is made that starts at ``start_label`` and omits
    ``invalid_label``. A word outside of a given one is replaced by ``unknown_token``; raises
    AssertionError if that is None.
    """
    is_new = vocab is None
    known = {invalid_key: invalid_label} if vocab is None else vocab
    following = start_label
    coded = []
    for sentence in sentences:
        numbers = []
        for word in sentence:
            if word not in known and not (is_new and unknown_token is None):
                assert unknown_token is not None, f"Unknown token {word}"
                word = unknown_token
            if word not in known:
                following += following == invalid_label
                known[word] = following
                following += 1
            numbers.append(known[word])
        coded.append(numbers)
    return coded, known


class BucketSentenceIter(DataIter):
    """Batches of sentences of similar length, for a BucketingModule.

    A sentence is assigned to the shortest bucket that can hold it, and padded with
    ``invalid_label``; longer sentences and empty buckets are omitted. Only complete batches are
    returned, in a new random order after each ``reset``. ``buckets`` are by default the lengths
    with at least one batch of sentences. Raises ValueError if all buckets are empty.
    """

    def __init__(
        self,
        sentences: Sentences,
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: DType = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__(batch_size)
        if layout.find("N") not in (0, 1) or layout.find("T") not in (0, 1):
            raise ValueError(
                f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)"
            )
        counts = np.bincount([len(sentence) for sentence in sentences])
        common = [length for length, count in enumerate(counts) if count >= batch_size]
        by_bucket = _by_bucket(sentences, sorted(buckets or common))
        if not by_bucket:
            raise ValueError("all sentences are longer than the largest bucket: nothing to batch")
        self.buckets = list(by_bucket)
        self.default_bucket_key = max(self.buckets)
        self.batch_size = batch_size
        self.invalid_label = invalid_label
        self.data_name = data_name
        self.label_name = label_name
        self.dtype = dtype
        self.layout = layout
        self.major_axis = layout.find("N")
        self.data = [self._filled(length, found) for length, found in by_bucket.items()]
        self.provide_data = [self._described(data_name, self.default_bucket_key)]  # type: ignore[misc]
        self.provide_label = [self._described(label_name, self.default_bucket_key)]  # type: ignore[misc]
        self.idx = [
            (bucket, start)
            for bucket, rows in enumerate(self.data)
            for start in range(0, len(rows) - batch_size + 1, batch_size)
        ]
        self.reset()

    def _filled(self, length: int, sentences: Sentences) -> np.ndarray:
        """The sentences of a bucket as rows."""
        rows = np.full((len(sentences), length), self.invalid_label, self.dtype)
        for row, sentence in zip(rows, sentences):
            row[: len(sentence)] = sentence
        return rows

    def _described(self, name: str, length: int) -> DataDesc:
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return DataDesc(name, shape, layout=self.layout)

    def reset(self) -> None:
        """Restart in a new random order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata: list[NDArray] = []
        self.ndlabel: list[NDArray] = []
        for rows in self.data:
            np.random.shuffle(rows)
            label = np.full_like(rows, self.invalid_label)
            label[:, :-1] = rows[:, 1:]
            self.nddata.append(nd.array(rows, dtype=self.dtype))
            self.ndlabel.append(nd.array(label, dtype=self.dtype))

    def next(self) -> DataBatch:
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, start = self.idx[self.curr_idx]
        self.curr_idx += 1
        place = slice(start, start + self.batch_size)
        data, label = self.nddata[bucket][place], self.ndlabel[bucket][place]
        if self.major_axis == 1:
            data, label = data.T, label.T
        key = self.buckets[bucket]
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=key,
            provide_data=[self._described(self.data_name, key)],
            provide_label=[self._described(self.label_name, key)],
        )


def _by_bucket(sentences: Sentences, buckets: list[int]) -> dict[int, list[Sequence[Hashable]]]:
    """The sentences of each non-empty bucket, by its length; ``buckets`` are ascending."""
    found: dict[int, list[Sequence[Hashable]]] = {length: [] for length in buckets}
    left_out = 0
    for sentence in sentences:
        place = bisect.bisect_left(buckets, len(sentence))
        if place == len(buckets):
            left_out += 1
        else:
            found[buckets[place]].append(sentence)
    print(f"WARNING: discarded {left_out} sentences longer than the largest bucket.")
    return {length: inside for length, inside in found.items() if inside}
