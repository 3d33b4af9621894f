"""Small data sets made up on the spot, in the files that MXNet's example programs read.

Every function takes the folder to write to and the sizes; its output depends only on these.
Pictures have a pattern for each class, sentences follow a chain of words: there is something to
learn.
"""

from __future__ import annotations

import bz2
import gzip
import io
import random
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

import hybridjit as mx

Pictures = tuple[np.ndarray, np.ndarray]


def pictures(count: int, size: int = 28, channels: int = 1, classes: int = 10) -> Pictures:
    """``count`` pictures (count, size, size, channels) of 8 bits and their classes (count,)."""
    draw = np.random.default_rng(classes)
    coarse = draw.integers(100, 256, (classes, 7, 7, channels))
    coarse *= draw.random((classes, 7, 7, 1)) < 0.3
    patterns = coarse.repeat(-(-size // 7), 1).repeat(-(-size // 7), 2)[:, :size, :size]
    labels = draw.integers(0, classes, count)
    noise = draw.integers(0, 12, (count, size, size, channels))
    return np.minimum(patterns[labels] + noise, 255).astype(np.uint8), labels.astype(np.uint8)


def encoded(picture: np.ndarray, form: str = "JPEG") -> bytes:
    """The bytes of a file that holds ``picture``."""
    file = io.BytesIO()
    Image.fromarray(picture.squeeze()).save(file, form)
    return file.getvalue()


def mnist(folder: Path, train: int = 2400, test: int = 400) -> None:
    """The four idx files of MNIST, compressed and not."""
    folder.mkdir(parents=True, exist_ok=True)
    values, labels = pictures(train + test)
    for name, part in (("train", slice(0, train)), ("t10k", slice(train, None))):
        ours, theirs = values[part], labels[part]
        head = struct.pack(">IIII", 2051, len(ours), 28, 28)
        _both(folder / f"{name}-images-idx3-ubyte", head + ours.tobytes())
        _both(
            folder / f"{name}-labels-idx1-ubyte",
            struct.pack(">II", 2049, len(theirs)) + theirs.tobytes(),
        )


def _both(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))


def cifar10(folder: Path, count: int = 100) -> None:
    """The six binary files of CIFAR-10, ``count`` pictures in each."""
    folder.mkdir(parents=True, exist_ok=True)
    values, labels = pictures(6 * count, 32, 3)
    rows = np.concatenate(
        [labels[:, None], values.transpose(0, 3, 1, 2).reshape(len(values), -1)], 1
    )
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for name, part in zip(names, np.split(rows, 6), strict=True):
        (folder / name).write_bytes(part.tobytes())


def records(path: Path, count: int, size: int = 32, classes: int = 10, form: str = "PNG") -> None:
    """A record file of labelled pictures with its index: ``path``, and .idx beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for index, (picture, label) in enumerate(zip(*pictures(count, size, 3, classes), strict=True)):
        header = mx.recordio.IRHeader(0, float(label), index, 0)
        writer.write_idx(index, mx.recordio.pack(header, encoded(picture, form)))
    writer.close()


def boxes(path: Path, count: int = 24, size: int = 96, classes: int = 3) -> None:
    """A record file of pictures with one to three rectangles of a colour for each class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    writer = mx.recordio.MXRecordIO(str(path), "w")
    for index in range(count):
        picture, objects = rectangles(draw, size, classes)
        label = [2.0, 5.0, *(value for row in objects for value in row)]
        header = mx.recordio.IRHeader(0, label, index, 0)
        writer.write(mx.recordio.pack(header, encoded(picture)))
    writer.close()


def rectangles(draw: np.random.Generator, size: int, classes: int) -> tuple[np.ndarray, list]:
    """A picture (size, size, 3) and its objects: class, left, top, right, bottom as parts of it."""
    colours = np.random.default_rng(classes).integers(80, 256, (classes, 3))
    picture = draw.integers(0, 40, (size, size, 3)).astype(np.uint8)
    objects = []
    for _ in range(draw.integers(1, 4)):
        kind, (top, left) = int(draw.integers(classes)), draw.integers(0, size // 2, 2)
        height, width = draw.integers(size // 5, size // 2, 2)
        picture[top : top + height, left : left + width] = colours[kind]
        edges = np.array([left, top, left + width, top + height]) / size
        objects.append([float(kind), *edges.tolist()])
    return picture, objects


def few_records(path: Path) -> None:
    records(path, 160, 28, 5)


def cifar_records(folder: Path) -> None:
    """cifar/train.rec and cifar/test.rec, as MXNet's test_utils fetches them."""
    records(folder / "cifar" / "train.rec", 640)
    records(folder / "cifar" / "test.rec", 160)
    (folder / "cifar" / "train.lst").write_text("")
    (folder / "cifar" / "test.lst").write_text("")


def words(seed: int, vocabulary: int = 120) -> Iterator[str]:
    """Words without end, each of which has four that follow it."""
    draw = random.Random(seed)
    following = [random.Random(i).sample(range(vocabulary), 4) for i in range(vocabulary)]
    word = 0
    while True:
        word = draw.choice(following[word])
        yield f"w{word}"


def sentences(count: int, seed: int, shortest: int = 5, longest: int = 38) -> list[str]:
    source, draw = words(seed), random.Random(seed)
    return [
        " ".join(next(source) for _ in range(draw.randint(shortest, longest))) for _ in range(count)
    ]


def corpus(folder: Path, names: tuple[str, str, str], count: int = 600) -> None:
    """Three text files, one sentence a line, the first of ``count`` lines and the others of a
    sixth."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        lines = sentences(count if seed == 0 else count // 6, seed)
        (folder / name).write_text("".join(f" {line} \n" for line in lines))


def sherlock(folder: Path) -> None:
    corpus(
        folder, ("sherlockholmes.train.txt", "sherlockholmes.valid.txt", "sherlockholmes.test.txt")
    )


def ptb(folder: Path) -> None:
    corpus(folder, ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"))


def wikitext2(folder: Path) -> None:
    """The three text files of WikiText-2, unpacked, and the archive that they come in."""
    names = ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens")
    corpus(folder, names)
    with zipfile.ZipFile(folder / "wikitext-2-v1.zip", "w") as archive:
        for name in names:
            archive.write(folder / name, f"wikitext-2/{name}")


def movielens(folder: Path, users: int = 200, items: int = 300, count: int = 6000) -> None:
    """MovieLens-100K: user, film and stars, in u.data, u1.base and u1.test, and u.item."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) + "\n" for row in _ratings(users, items, count)]
    (folder / "u.data").write_text("".join(lines))
    (folder / "u1.base").write_text("".join(lines[: count * 4 // 5]))
    names = (f"{item}|film {item}|01-Jan-1995||http://x.org/{item}\n" for item in range(1, 1683))
    (folder / "u.item").write_text("".join(names))
    (folder / "u1.test").write_text("".join(lines[count * 4 // 5 :]))
    (folder.parent / f"{folder.name}.zip").write_bytes(b"")


def movielens_10m(folder: Path) -> None:
    """MovieLens-10M, split: r1.train and r1.test with :: between the columns."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["::".join(map(str, row)) + "\n" for row in _ratings(200, 300, 6000)]
    (folder / "r1.train").write_text("".join(lines[:5000]))
    (folder / "r1.test").write_text("".join(lines[5000:]))
    (folder.parent / "ml-10m.zip").write_bytes(b"")


def _ratings(users: int, items: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    draw = np.random.default_rng(0)
    taste, kind = draw.normal(size=(users, 3)), draw.normal(size=(items, 3))
    for time in range(count):
        user, item = int(draw.integers(users)), int(draw.integers(items))
        stars = int(np.clip(np.rint(3 + taste[user] @ kind[item]), 1, 5))
        yield user + 1, item + 1, stars, time


def polarity(folder: Path, count: int = 300) -> None:
    """Sentences of two moods: rt-polarity.pos and rt-polarity.neg."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (mood, mark) in enumerate((("pos", "good"), ("neg", "bad"))):
        lines = sentences(count, seed, 4, 18)
        (folder / f"rt-polarity.{mood}").write_text("".join(f"{line} {mark}\n" for line in lines))


def years(folder: Path, rows: int = 2000, columns: int = 90) -> None:
    """YearPredictionMSD in the form of LibSVM, packed: a year, then numbered features."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    features, weights = draw.normal(size=(rows, columns)), draw.normal(size=columns)
    targets = 1990 + features @ weights
    lines = [
        f"{target:.3f} " + " ".join(f"{i + 1}:{value:.4f}" for i, value in enumerate(row))
        for target, row in zip(targets, features, strict=True)
    ]
    (folder / "YearPredictionMSD.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))


def grey_pictures(folder: Path, count: int = 96, size: int = 32) -> None:
    """PNG files of one channel."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, picture in enumerate(pictures(count, size)[0]):
        (folder / f"img{index}.png").write_bytes(encoded(picture, "PNG"))


def bsds500(folder: Path, count: int = 8, size: int = 320) -> None:
    """The pictures of BSDS500: images/train and images/test."""
    for part in ("train", "test"):
        (folder / "images" / part).mkdir(parents=True, exist_ok=True)
        for index, picture in enumerate(pictures(count, size, 3)[0]):
            (folder / "images" / part / f"{index}.jpg").write_bytes(encoded(picture))


def cityscapes(folder: Path, count: int = 16, size: int = 128) -> None:
    """Streets of rectangles: leftImg8bit with pictures, gtFine with a class for each pixel."""
    draw = np.random.default_rng(0)
    classes = np.array([7, 8, 11])  # road, sidewalk, building
    for part in ("train", "val"):
        places = [folder / kind / part / "town" for kind in ("leftImg8bit", "gtFine")]
        for place in places:
            place.mkdir(parents=True, exist_ok=True)
        for index in range(count):
            picture, objects = rectangles(draw, size, 2)
            mask = np.full((size, size), classes[0], np.uint8)
            for kind, *edges in objects:
                left, top, right, bottom = (round(edge * size) for edge in edges)
                mask[top:bottom, left:right] = classes[1 + int(kind)]
            name = f"town_{index:06d}_000019"
            (places[0] / f"{name}_leftImg8bit.png").write_bytes(encoded(picture, "PNG"))
            (places[1] / f"{name}_gtFine_labelIds.png").write_bytes(encoded(mask, "PNG"))


def named_entities(folder: Path, count: int = 300) -> None:
    """ner_dataset.csv: sentences of words, each with two tags."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["Sentence #,Word,POS,Tag"]
    for number, sentence in enumerate(sentences(count, 0, 5, 9), 1):
        for place, word in enumerate(sentence.split()):
            first = f"Sentence: {number}" if place == 0 else ""
            rows.append(f"{first},{word},NN,{'U-geo' if int(word[1:]) % 5 == 0 else 'O'}")
    (folder / "ner_dataset.csv").write_text("\n".join(rows))
