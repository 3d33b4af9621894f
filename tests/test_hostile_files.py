"""Files that lie: thousands of mutated ones must end in MXNetError, in little memory and time.

The mutations know the formats: they change single fields to values that matter (bounds, other
magic numbers, counts that do not fit), cut, join and repeat. The seeds are fixed.
"""

import copy
import json
import random
import resource
import struct
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import pytest

from hybridjit.errors import ModelFormatError, MXNetError
from hybridjit.io import params, symbol_json
from hybridjit.ops.registry import all_names
from params_written_by_mxnet import FILES, MAGIC, written

SYMBOLS = Path(__file__).parent / "fixtures" / "symbols"
MEMORY = 64 << 20
SECONDS = 10.0  # of the processor for one file, traced; far more than any needs

NUMBERS = (0, 1, 2, 3, 5, 6, 7, 12, 31, 32, 33, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
LARGE = (2**40, 2**48, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
MAGICS = (0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA)


@pytest.fixture(autouse=True)
def limited_memory():
    """A reader that goes wild gets a MemoryError, and the machine survives."""
    if sys.platform != "linux":
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + (2 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


class Bounds:
    """Runs a reader on one file after another and holds it to its promises."""

    def __init__(self, read):
        self.read = read
        self.accepted = 0
        self.refused = 0

    def __call__(self, data):
        start = time.process_time()
        tracemalloc.start()
        try:
            result = self.read(data)
            self.accepted += 1
        except MXNetError as error:
            assert str(error)
            result = None
            self.refused += 1
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert time.process_time() - start < SECONDS
        assert peak <= 2 * len(data) + MEMORY, f"{peak} bytes for a file of {len(data)}"
        return result


# Array files


def mutated_params(rng: random.Random, data: bytes) -> bytes:
    """One change: a number of 1, 4 or 8 bytes, a cut, a repeated or a missing stretch."""
    kind = rng.choice(["field", "field", "field", "bytes", "cut", "repeat", "remove", "join"])
    at = rng.randrange(0, len(data) + 1)
    if kind == "field":
        at = min(at - at % 4, max(len(data) - 8, 0))  # most fields lie at multiples of four
        value = rng.choice(NUMBERS + LARGE + MAGICS)
        size = rng.choice([4, 8])
        packed = struct.pack("<Q", value)[:size]
        return data[:at] + packed + data[at + size :]
    if kind == "bytes":
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    stretch = data[at : at + rng.choice([1, 4, 8, 16, 40])]
    if kind == "repeat":
        return data[:at] + stretch * rng.choice([2, 3, 50]) + data[at:]
    if kind == "remove":
        return data[:at] + data[at + len(stretch) :]
    return data[:at] + written(rng.choice(sorted(FILES)))[24:]


def test_mutated_array_files():
    rng = random.Random(20240501)
    check = Bounds(params.loads)
    sources = [written(name) for name in sorted(FILES)]
    for case in range(4000):
        data = sources[case % len(sources)]
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            data = mutated_params(rng, data)
        arrays = check(data)
        if arrays:
            again = params.dumps(arrays)
            assert params.dumps(params.loads(again)) == again
    assert check.refused > 1000 and check.accepted > 200


def record(dims, storage=0, stored=(), aux=(), code=0, magic=0xF993FAC9):
    """The head of a record, without any data behind it."""
    head = struct.pack("<Ii", magic, storage)
    if storage:
        head += struct.pack(f"<i{len(stored)}q", len(stored), *stored)
    head += struct.pack(f"<i{len(dims)}q", len(dims), *dims) + struct.pack("<iii", 1, 0, code)
    return head + b"".join(struct.pack("<iiq", 6, 1, count) for count in aux)


def file_of(content: bytes, arrays=1):
    return bytes.fromhex(MAGIC) + struct.pack("<Q", arrays) + content


BOMBS = {
    "dense": record((2**33,)),
    "dense in many dims": record((2**10,) * 4),
    "overflow to zero": record((2**32, 2**32)),
    "zero and overflow": record((2**62, 2**62, 0)),
    "row sparse": record((2**28, 1), 1, (0, 1), (0,)),
    "row sparse, two at once": record((2**22, 1), 1, (0, 1), (0,)) * 9,
    "csr columns": record((1, 2**40), 2, (0,), (2, 0)) + bytes(16),
    "csr rows": record((2**40, 1), 2, (0,), (2**40 + 1, 0)),
    "bfloat16": record((2**35,), code=12),
    "old dims": struct.pack("<I32I", 32, *(2**32 - 1,) * 32),
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_file_with_large_array(name):
    check = Bounds(params.loads)
    content = BOMBS[name]
    check(file_of(content, 9 if "two" in name else 1))
    assert check.refused == 1


def test_many_empty_arrays():
    """Four bytes of file make one Python object: bounded by the number of arrays."""
    check = Bounds(params.loads)
    check(file_of(bytes(4 << 20), 1 << 20))
    assert check.refused == 1
    check(file_of(bytes(1 << 20), 1 << 16))
    assert check.accepted == 1


def test_long_names():
    check = Bounds(params.loads)
    body = struct.pack("<I", 0) + struct.pack("<QQ", 1, 2**62)
    check(file_of(body))
    assert check.refused == 1


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


def places(tree, path=()):
    """The path of every value in a JSON tree."""
    yield path
    if isinstance(tree, dict):
        for key in tree:
            yield from places(tree[key], (*path, key))
    elif isinstance(tree, list):
        for index in range(len(tree)):
            yield from places(tree[index], (*path, index))


def mutated_tree(rng: random.Random, tree, names):
    """One change to one value: replaced, removed, repeated, another operator, another text."""
    tree = copy.deepcopy(tree)
    path = rng.choice([p for p in places(tree) if p])
    parent = tree
    for step in path[:-1]:
        parent = parent[step]
    last = path[-1]
    kind = rng.choice(["value", "text", "remove", "repeat", "operator", "number"])
    if kind == "text" and isinstance(parent[last], str):
        parent[last] = rng.choice(TEXTS)
    elif kind == "operator" and "nodes" in tree and isinstance(tree["nodes"], list):
        node = rng.choice(tree["nodes"] or [{}])
        if isinstance(node, dict):
            node["op"] = rng.choice(names)
    elif kind == "number" and isinstance(parent[last], int):
        parent[last] += rng.choice([-1, 1, 1000])
    elif kind == "remove":
        del parent[last]
    elif kind == "repeat" and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[last]))
    else:
        parent[last] = rng.choice(VALUES)
    return tree


def mutated_text(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    kind = rng.choice(["cut", "change", "repeat", "remove"])
    if kind == "cut":
        return text[:at]
    if kind == "change":
        return text[:at] + rng.choice('[]{},:"0-9\\ex\0') + text[at + 1 :]
    stretch = text[at : at + rng.choice([1, 5, 60])]
    if kind == "repeat":
        return text[:at] + stretch * rng.choice([2, 30]) + text[at:]
    return text[:at] + text[at + len(stretch) :]


def test_mutated_graph_files():
    rng = random.Random(20240502)
    check = Bounds(symbol_json.loads)
    names = [*sorted(all_names()), "NoSuchOp", "_foreach", "null"]
    sources = [path.read_text(encoding="utf-8") for path in sorted(SYMBOLS.glob("*.json"))]
    trees = [json.loads(text, strict=False) for text in sources]
    for case in range(2000):
        tree = trees[case % len(trees)]
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            tree = mutated_tree(rng, tree, names)
        text = json.dumps(tree)
        if case % 4 == 0:
            text = mutated_text(rng, text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a version that is newer
            outputs = check(text)
        if outputs is not None:
            again = symbol_json.dumps(outputs)
            assert symbol_json.dumps(symbol_json.loads(again)) == again
    assert check.refused > 1000 and check.accepted > 200


def test_every_operator_with_nasty_attributes():
    """Whatever text an attribute has, parsing it and counting inputs and outputs stays bounded."""
    rng = random.Random(20240503)
    check = Bounds(symbol_json.loads)
    data = {"op": "null", "name": "data", "inputs": []}
    for name, op in sorted(all_names().items()):
        for _ in range(4):
            attrs = {a.name: rng.choice(TEXTS) for a in op.attrs if rng.random() < 0.7}
            inputs = [[0, 0, 0]] * rng.randrange(6)
            node = {"op": name, "name": "n", "attrs": attrs, "inputs": inputs}
            top = {"nodes": [data, node], "arg_nodes": [0], "heads": [[1, 0, 0]]}
            version = {"mxnet_version": ["int", rng.choice([800, 904, 10901])]}
            check(json.dumps({**top, "attrs": version}))
    assert check.refused > 0 and check.accepted > 0


PLAUSIBLE = {"int": "1", "long": "1", "float": "1.0", "double": "1.0", "bool": "1"}
PLAUSIBLE |= {"shape": "(1, 1)", "ints": "(1,)", "floats": "(1.0,)", "dtype": "float32"}


@pytest.mark.parametrize("version", [800, 10901])
def test_every_number_of_every_operator_at_its_largest(version):
    """No attribute is a count of inputs or outputs that nobody bounds."""
    check = Bounds(symbol_json.loads)
    data = {"op": "null", "name": "data", "inputs": []}
    for op in set(all_names().values()):
        usual = {
            a.name: a.choices[0] if a.choices else PLAUSIBLE.get(a.base, "x")
            for a in op.attrs
            if a.required
        }
        for attr in op.attrs:
            if attr.base in ("int", "long"):
                attrs = {**usual, attr.name: "9" * 18}
                node = {"op": op.name, "name": "n", "attrs": attrs, "inputs": [[0, 0, 0]]}
                top = {"nodes": [data, node], "arg_nodes": [0], "heads": [[1, 0, 0]]}
                check(json.dumps({**top, "attrs": {"mxnet_version": ["int", version]}}))
    assert check.refused > 0


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes": [' + "[]," * 800_000 + "[]]}",
        '{"nodes": [' + "{}," * 300_000 + "{}]}",
        '{"nodes": [' + '{"":0},' * 300_000 + "{}]}",
        '{"nodes": [' + '"aa",' * 300_000 + '""]}',
        '{"nodes": [' + "7," * 500_000 + "7]}",
        "[" * 200_000,
        '{"a":' * 200_000,
        '{"nodes": ' + "9" * 200_000 + "}",
        '"' + "\\u2603" * 300_000 + '"',
    ],
    ids=["lists", "objects", "pairs", "strings", "numbers", "deep", "deep pairs", "digits", "text"],
)
def test_large_texts(text):
    check = Bounds(symbol_json.loads)
    check(text)
    assert check.refused == 1


def test_chain_that_is_long():
    """Depth of the graph is no depth of the stack."""
    data = {"op": "null", "name": "d", "inputs": []}
    chain = [{"op": "relu", "name": "r", "inputs": [[i, 0, 0]]} for i in range(5_000)]
    top = {"nodes": [data, *chain], "arg_nodes": [0], "heads": [[5_000, 0, 0]]}
    check = Bounds(symbol_json.loads)
    outputs = check(json.dumps(top))
    assert symbol_json.dumps(outputs).count('"relu"') == 5_000


def test_the_bounds_would_notice():
    """A reader that allocates what the file says, or lets another exception out, fails here."""
    with pytest.raises(AssertionError, match="bytes for a file of 4"):
        Bounds(lambda data: bytes(MEMORY + 100))(b"1234")
    with pytest.raises(IndexError):
        Bounds(lambda data: data[9])(b"1234")
    with pytest.raises(ModelFormatError):
        raise ModelFormatError("what the reader raises is an MXNetError")
