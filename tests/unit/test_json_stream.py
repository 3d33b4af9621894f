"""JSON value by value: equal to Python's parser, wherever windows split the text."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator

import pytest

from hybridjit.errors import ModelFormatError
from hybridjit.formats import json_stream
from hybridjit.formats.json_stream import SLACK, Budget, JsonStream, parse

PIECES = ["a", "é", "☃", "😀", '"', "\\", "\n", "/", "\x01", " ", ":", ",", "{", "}", "[", "]"]


def value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(8 if depth < 4 else 6)
    if kind == 0:
        return rng.choice([0, -1, 10 ** rng.randrange(18), 1.5e300, -0.25])
    if kind == 1:
        return rng.choice([True, False, None])
    if kind < 6:
        return "".join(rng.choices(PIECES, k=rng.randrange(12)))
    if kind == 6:
        return [value(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {
        f"{rng.random()}{value(rng, 5)}": value(rng, depth + 1) for _ in range(rng.randrange(5))
    }


def members(data: bytes) -> dict[str, object]:
    stream = JsonStream(data, Budget(len(data)))
    found = {name: stream.value() for name in stream.members()}
    stream.finish()
    return found


def elements(data: bytes) -> list[object]:
    stream = JsonStream(data, Budget(len(data)))
    found = list(stream.elements())
    stream.finish()
    return found


def readers(data: bytes) -> Iterator[object]:
    """The result of each way to read the text; None if it is rejected."""
    start = data.lstrip(b" \t\n\r")[:1]
    for read in (parse, *([members] if start == b"{" else [elements] if start == b"[" else [])):
        try:
            yield read(data)
        except ModelFormatError:
            yield None


@pytest.mark.parametrize("window", [4, 5, 7, 16, 64, 1 << 16])
def test_windows_of_any_size(window, monkeypatch):
    monkeypatch.setattr(json_stream, "_WINDOW", window)
    rng = random.Random(window)
    for _ in range(500):
        right = value(rng)
        text = json.dumps(right, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
        for found in readers(text.encode()):
            assert found == right


@pytest.mark.parametrize("window", [4, 16, 1 << 16])
def test_malformed_json_raises_like_the_json_module(window, monkeypatch):
    monkeypatch.setattr(json_stream, "_WINDOW", window)
    rng, refused = random.Random(window), 0
    for _ in range(1000):
        data = bytearray(json.dumps(value(rng), ensure_ascii=False).encode())
        data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data
        try:
            right = json.loads(data.decode(), strict=False)
        except ValueError:
            right, refused = None, refused + 1
        for found in readers(bytes(data)):
            assert found == right or right is None
            assert (found is None) == (right is None)
    assert refused > 300


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "Expecting value at byte 0"),
        (" [1 2]", "Expecting ',' delimiter at byte 4"),
        ('{"é": tru}', "Expecting value at byte 7"),
        ('"ab', "Unterminated string starting at at byte 0"),
        ("[1] 2", "Extra data at byte 4"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 20, "number of 20 digits"),
    ],
)
def test_malformed_json_raises_with_its_reason(text, why):
    with pytest.raises(ModelFormatError, match=why):
        parse(text.encode())


def test_bytes_that_are_no_text():
    with pytest.raises(ModelFormatError, match="not UTF-8 at byte 100002"):
        parse(b'["' + b"a" * 100_000 + b'\xe9"]')
    with pytest.raises(ModelFormatError, match="not UTF-8 at byte 4"):
        parse(b'"abc\xf0\x9f')


LONG = {
    "lists": "[" + "[]," * 500_000 + "0]",
    "objects": "[" + "{}," * 500_000 + "0]",
    "one object": '{"x":' + ",".join(["0"] + [f'"{i:x}":0' for i in range(200_000)]) + "}",
    "strings": "[" + '"ab",' * 400_000 + "0]",
    "wide strings": "[" + '"☃☃",' * 250_000 + "0]",
    "numbers": "[" + "300," * 575_000 + "0]",
    "fractions": "[" + "1.5," * 575_000 + "0]",
    "a string": '"' + "a" * 20_000_000 + '"',
    "a wide string": '"' + "a" * 10_000_000 + '😀"',
    "an escape": '"' + "a" * 10_000_000 + '\\ud83d\\ude00"',
    "escapes": '"' + "\\n" * 5_000_000 + '"',
    "escaped quotes": '"' + '\\"' * 2_500_000 + '"',
}


@pytest.mark.parametrize("kind", LONG)
def test_long_values(kind, monkeypatch):
    """Read or refused, they never take more than is promised, here with a smaller constant part."""
    slack = SLACK // 2
    monkeypatch.setattr(json_stream, "SLACK", slack)
    data = LONG[kind].encode()
    tracemalloc.start()
    try:
        parse(data)
    except ModelFormatError as error:
        assert "would need more than" in str(error)
    taken = tracemalloc.get_traced_memory()[1] + len(data)
    tracemalloc.stop()
    assert taken <= 2 * len(data) + slack


@pytest.mark.parametrize("kind", ["a string", "escapes", "escaped quotes"])
def test_long_strings_are_read(kind):
    assert parse(LONG[kind].encode()) == json.loads(LONG[kind])
