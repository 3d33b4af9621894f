"""Malicious files, made from files of MXNet, for the fuzzers and their tests.

In: the number of a case. Out: its bytes, the same for the same number. The mutations know the
formats: they change single fields to values that matter (bounds, other magic numbers, counts that
do not fit, other operators), cut, join and repeat, and make graphs whose attributes multiply over
nodes and versions.
"""

from __future__ import annotations

import json
import random
import re
import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hybridjit.ops.registry import all_names, lookup
from params_written_by_mxnet import FILES, written

SYMBOLS = Path(__file__).parent.parent / "fixtures" / "symbols"

NUMBERS = (0, 1, 2, 3, 5, 6, 7, 12, 31, 32, 33, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
LARGE = (2**40, 2**48, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
MAGICS = (0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA)
TIMES = (1, 1, 1, 2, 4)  # mutations of one file

# Array files


def params_case(number: int) -> bytes:
    """Case ``number``: one of MXNet's own small files, mutated."""
    rng = random.Random(number)
    sources = params_sources()
    return mutated(mutated_bytes, rng, sources[number % len(sources)])


@cache
def params_sources() -> list[bytes]:
    return [written(name) for name in sorted(FILES)]


def mutated(change, rng, data):
    """``data`` after one or more changes."""
    for _ in range(rng.choice(TIMES)):
        data = change(rng, data)
    return data


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """One change: a number of 1, 4 or 8 bytes, a cut, a repeated or a missing stretch."""
    kind = rng.choice(("field", "field", "field", "bytes", "cut", "repeat", "remove", "join"))
    at = rng.randrange(0, len(data) + 1)
    if kind == "field":
        at = min(at - at % 4, max(len(data) - 8, 0))  # most fields lie at multiples of four
        value = rng.choice(NUMBERS + LARGE + MAGICS)
        size = rng.choice((4, 8))
        packed = struct.pack("<Q", value)[:size]
        return data[:at] + packed + data[at + size :]
    if kind == "bytes":
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    stretch = data[at : at + rng.choice((1, 4, 8, 16, 40))]
    if kind == "repeat":
        return data[:at] + stretch * rng.choice((2, 3, 50)) + data[at:]
    if kind == "remove":
        return data[:at] + data[at + len(stretch) :]
    return data[:at] + rng.choice(params_sources())[24:]


# ONNX files

ONNX = Path(__file__).parent.parent / "fixtures" / "onnx"


def onnx_case(number: int) -> bytes:
    """Case ``number``: one of the files that MXNet's exporter wrote, mutated."""
    sources = onnx_sources()
    return mutated(mutated_bytes, random.Random(number), sources[number % len(sources)])


@cache
def onnx_sources() -> list[bytes]:
    return [path.read_bytes() for path in sorted(ONNX.glob("*.onnx"))]


# Graph files

TEXTS = (
    *("", "None", "-1", "0", "1", "1e999", "nan", "True", "()", "(1,)", "(0, 0)", "(1, 2, 3, 4)"),
    *("9" * 18, "9" * 400, "(" * 500, "(" + "1," * 5000 + ")", "1" * 3000 + "x", "\0", "\u2603"),
    *("(-1, -1)", "(9999999999, 9999999999)", "float16", "NHWC", "max", "full", "both", "lstm"),
)
VALUES = (
    *(None, True, 0, -1, 1, 2, 7, 10**18, 1.5, "", "null", "data"),
    *([], {}, [[]], [0, 0, 0], [9, 9]),
)
# Characters of one byte to four in memory, raw and escaped, and halves of pairs.
WIDE = (
    *("\xe9", "\u2603", "\U0001f600", "\ufeff", "\ud83d"),
    *("\\u00e9", "\\u2603", "\\ud83d\\ude00", "\\ud83d", "\\ude00"),
)
LONG = (*(0, 1, 100) * 9, 70_000)  # characters before one of them: fewer than a window, and more
VERSIONS = (-1, 0, 700, 800, 899, 900, 903, 904, 905, 1000, 10000, 10901, 20000, 2**31, 10**18)
COUNTS = (-1, 0, 1, 2, 3, 100, 1000, 4096, 16383, 16384, 16385, 2**31, 10**18)
_TEXTS = tuple(map(json.dumps, TEXTS))
_VALUES = tuple(map(json.dumps, VALUES))
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:"\s]+')


class Span(NamedTuple):
    """A value in JSON text; ``item`` is where its key begins, or itself when it has none."""

    item: int
    start: int
    end: int


def spans(text: str) -> list[Span]:
    """Where each value of a JSON text stands, all but the whole."""
    found: list[Span] = []
    within: list[tuple[int, int]] = []  # the containers that are open: item and start
    item = -1  # where the item under way begins, once its first token was seen
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        sign = text[start]
        if item < 0:
            item = start
        if sign in "[{":
            within.append((item, start))
            item = -1
        elif sign in "]}":
            found.append(Span(*within.pop(), end))
        elif sign == ",":
            item = -1
        elif sign == ":":
            item = found.pop().start
        else:
            found.append(Span(item, start, end))
    return found[:-1]


def symbol_case(number: int) -> str:
    """Case ``number``: one of MXNet's graph files with values replaced, removed, repeated."""
    rng = random.Random(number)
    if rng.random() < 0.03:
        text = multiplied(rng)
        return text if rng.random() < 0.5 else mutated(mutated_letters, rng, text)
    sources = symbol_sources()
    return mutated_graph(rng, *sources[number % len(sources)])


@cache
def symbol_sources() -> list[tuple[str, list[Span]]]:
    """The contents of the fixtures, and the positions of their values."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SYMBOLS.glob("*.json"))]
    return [(text, spans(text)) for text in texts]


@cache
def operator_names() -> list[str]:
    return [json.dumps(n) for n in (*sorted(all_names()), "NoSuchOp", "_foreach", "null")]


@cache
def whole_attributes() -> list[tuple[str, str]]:
    """Every operator with each integer attribute: some are counts."""
    ops = [lookup(name) for name in sorted(all_names())]
    return [(op.name, a.name) for op in ops for a in op.attrs if a.base in ("int", "long")]


def multiplied(rng: random.Random) -> str:
    """A small text whose nodes each ask for much, all of them for more."""
    nodes = [{"op": "null", "name": rng.choice(("x", "x" * 4000)), "inputs": []}]
    for _ in range(rng.choice((1, 1, 3))):
        nodes += [_asking(rng, len(nodes))] * rng.choice((1, 1, 2, 2, 9, 9, 300))
    heads = [[rng.randrange(len(nodes)), rng.choice((0, 0, 1, 16383)), 0]] * rng.choice(
        (1, 1, 1, 1, 999)
    )
    attrs = {"mxnet_version": ["int", rng.choice(VERSIONS)]}
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": heads, "attrs": attrs})


def _asking(rng: random.Random, earlier: int) -> dict[str, object]:
    op, attr = rng.choice(whole_attributes())
    texts = {attr: str(rng.choice(COUNTS))}
    if rng.random() < 0.3:
        texts |= {f"__{i}__": rng.choice(WIDE[:3]) * 9 for i in range(rng.choice((1, 40)))}
    if rng.random() < 0.2:
        texts[f"{rng.choice(('weight', 'arg0', 'data'))}_lr_mult"] = "1"
    inputs = [[rng.randrange(earlier), 0, rng.choice((0, 2**62))]] * rng.choice(
        (0, 0, 0, 1, 1, 2, 30)
    )
    name = rng.choice(("n", "n" * 4000, "n\U0001f600"))
    return {"op": op, "name": name, rng.choice(("attr", "param", "attrs")): texts, "inputs": inputs}


def mutated_graph(rng: random.Random, text: str, places: list[Span]) -> str:
    """The text after changes to values that do not contain each other, and maybe to its letters."""
    before = len(text)
    for place in sorted(rng.choices(places, k=rng.choice(TIMES)), reverse=True):
        if place.end <= before:
            text = _changed(rng, text, place)
            before = place.item
    return mutated_letters(rng, text) if rng.random() < 0.25 else text


def _changed(rng: random.Random, text: str, place: Span) -> str:
    item, start, end = place
    kind = rng.choice(("value", "text", "remove", "repeat", "operator", "number", "wide"))
    old = text[start:end]
    if kind == "operator" and text.startswith('"op"', item):
        return text[:start] + rng.choice(operator_names()) + text[end:]
    if kind == "text" and old[0] == '"':
        return text[:start] + rng.choice(_TEXTS) + text[end:]
    if kind == "wide" and old[0] == '"':
        return f"{text[: end - 1]}{'a' * rng.choice(LONG)}{rng.choice(WIDE)}{text[end - 1 :]}"
    if kind == "number" and old.isdigit():
        return text[:start] + str(int(old) + rng.choice((-1, 1, 1000))) + text[end:]
    if kind == "remove":
        rest = text[end:].lstrip()
        return text[:item] + (rest[1:] if rest[:1] == "," else rest)
    if kind == "repeat":
        times = rng.choice((1, 1, 30 if end - item < 10_000 else 1))
        return text[:item] + (text[item:end] + ", ") * times + text[item:]
    return text[:start] + rng.choice(_VALUES) + text[end:]


def mutated_letters(rng: random.Random, text: str) -> str:
    """One change that knows nothing of JSON."""
    at = rng.randrange(len(text) or 1)
    kind = rng.choice(("cut", "change", "repeat", "remove"))
    if kind == "cut":
        return text[:at]
    if kind == "change":
        return text[:at] + rng.choice((*'[]{},:"0-9\\ex\0', *WIDE)) + text[at + 1 :]
    stretch = text[at : at + rng.choice((1, 5, 60))]
    if kind == "repeat":
        return text[:at] + stretch * rng.choice((2, 30)) + text[at:]
    return text[:at] + text[at + len(stretch) :]
