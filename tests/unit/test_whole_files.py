"""Memory of a graph file is bounded, even if attributes multiply over nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from hybridjit import sym
from hybridjit.errors import ModelFormatError, UnknownOpError
from hybridjit.formats.mxnet import symbol_json
from reading import MEMORY, SECONDS, Bounds, Reading, address_space, read_apart

DATA = {"op": "null", "name": "data", "inputs": []}


@pytest.fixture(autouse=True)
def limited_memory() -> Iterator[None]:
    with address_space(3 << 30):
        yield


def file_of(nodes: list[dict], version: int = 10901, **top: object) -> str:
    whole: dict[str, object] = {
        "nodes": [DATA, *nodes],
        "arg_nodes": [0],
        "heads": [[len(nodes), 0, 0]],
        "attrs": {"mxnet_version": ["int", version]},
        **top,
    }
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)


def node(op: str, name: str = "n", inputs: int = 0, **attrs: str) -> dict:
    return {"op": op, "name": name, "attrs": attrs, "inputs": [[0, 0, 0]] * inputs}


MANY = {"num_args": "16384"}
HIDDEN = {f"__{i}__": "x" for i in range(300)}
MULTIPLIED = {
    "joins": [node("Concat", **MANY)] * 40,
    "sums": [node("add_n", **MANY)] * 40,
    "resizes": [node("UpSampling", **MANY, scale="2", sample_type="nearest")] * 40,
    "casts": [node("amp_multicast", num_outputs="16384")] * 40,
    "attributes": [node("Concat", **MANY, **HIDDEN)],
    "long attributes": [node("Concat", **MANY, __x__="x" * 100_000)],
    "long names": [node("Concat", "n" * 4000, **MANY)] * 4,
    "normalisations": [node("BatchNorm", inputs=1)] * 7000,
}


@pytest.mark.parametrize("kind", MULTIPLIED)
def test_inputs_that_old_files_leave_out(kind):
    """Some hundred bytes each: excessive graphs are rejected before they are made."""
    check = Bounds(symbol_json.loads)
    check(file_of(MULTIPLIED[kind], 800))
    assert check.refused == 1


def test_inputs_that_honest_old_files_leave_out():
    names = sym.load_json(file_of([node("Concat", "c", **MANY)], 800)).list_arguments()
    assert names == [f"c_arg{i}" for i in range(16384)]
    layers = [node("BatchNorm", f"bn{i}", 1) for i in range(5000)]
    graph = sym.load_json(file_of(layers, 800, heads=[[i, 0, 0] for i in range(1, 5001)]))
    assert len(graph.list_auxiliary_states()) == 10_000


@pytest.mark.parametrize("version", [800, 10901])
def test_outputs_of_all_nodes_together(version):
    splits = [node("SliceChannel", inputs=1, num_outputs="16384")] * 100
    with pytest.raises(
        ModelFormatError, match="the graph has 278528 outputs, at most 262144 are allowed"
    ):
        symbol_json.loads(file_of(splits, version))
    assert symbol_json.loads(file_of(splits[:16], version))


@pytest.mark.parametrize("version", [903, 10901])
def test_inputs_that_newer_files_leave_out(version):
    """The first such node is refused, not the last after a name was made for each input."""
    nodes = [node("Concat", "c", weight_lr_mult="1", **MANY)] * 30_000
    start = time.process_time()
    with pytest.raises(Exception, match=r"expects 16384 inputs|lr_mult") as caught:
        symbol_json.loads(file_of(nodes, version))
    assert time.process_time() - start < 5 and len(str(caught.value)) < 1000


LAYER = {
    "kernel": "(3, 3)", "stride": "(1, 1)", "pad": "(1, 1)", "num_filter": "640", "no_bias": "True",
    "layout": "NCHW", "num_group": "1",
}  # fmt: skip


def states(count: int) -> str:
    """Two states for each normalisation, written under versions that are large numbers."""
    nodes = [{**DATA, "name": ""} for _ in range(2 * count)] + [
        {**node("BatchNorm"), "inputs": [[0, 0]] * 3 + [[k, 0, 10**18 + k] for k in (i, i + 1)]}
        for i in range(1, 2 * count, 2)
    ]
    return file_of(nodes)


FULL = {
    "variables": lambda: file_of([{**DATA, "name": ""}] * 32_767),
    "defaults": lambda: file_of([node("Pooling", "", 1)] * 32_767),
    "states": lambda: states(10_900),
    # as MXNet indents them, 9 MB: the size of a graph's text
    "indented": lambda: json.dumps(
        json.loads(file_of([node("Convolution", f"conv{i}", 2, **LAYER) for i in range(23_000)])),
        indent=2,
    ),
    "inputs": lambda: file_of([node("add_n", "", 16_384, **MANY)] * 6),
    "tuples": lambda: file_of(
        [node("slice", "", 1, begin=f"({'300,' * 4096})", end=f"({'400,' * 4096})")] * 30
    ),
    "left out": lambda: file_of([node("Concat", "c", **MANY)], 800),
    "wide heads": lambda: file_of([{**DATA, "name": "d😀"}], heads=[[1, 0, 0]] * 400_000),
}
TOO_FULL = {
    "names of attributes": lambda: file_of(
        [{**DATA, "attrs": {f"__{i}_{k}__": "xy" for k in range(20)}} for i in range(12_000)]
    ),
    "short heads": lambda: file_of([], heads=[[0, 0]] * 900_000),
    "arg_nodes": lambda: file_of([], arg_nodes=[0] * 1_000_000),
    "rows": lambda: file_of([], node_row_ptr=[300] * 2_000_000),
    "graph attributes": lambda: file_of([], attrs={f"a{i}": ["int", i] for i in range(200_000)}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, tuple[int, Reading]]:
    """By kind: the length of the file, and how reading it went."""
    folder = tmp_path_factory.mktemp("whole")
    kinds = {**FULL, **TOO_FULL}
    paths = [folder / f"{number}-symbol.json" for number in range(len(kinds))]
    for path, make in zip(paths, kinds.values()):
        path.write_text(make(), encoding="utf-8")
    sizes = [path.stat().st_size for path in paths]
    return dict(zip(kinds, zip(sizes, read_apart(paths))))


@pytest.mark.parametrize("kind", [*FULL, *TOO_FULL])
def test_files_as_full_as_they_may_be(kind, found):
    """Whether they are read or refused, the process grows by no more than is promised."""
    size, reading = found[kind]
    assert reading.grew <= 2 * size + MEMORY
    assert reading.seconds < SECONDS
    assert bool(reading.error) == (kind in TOO_FULL)


WIDE = {
    "raw": "\U0001f600",
    "escaped": "\\ud83d\\ude00",
    "two bytes": "\u2603",
    "two bytes, escaped": "\\u2603",
    "latin": "\xe9",
}


@pytest.mark.parametrize("as_bytes", [False, True], ids=["text", "bytes"])
@pytest.mark.parametrize("kind", WIDE)
def test_one_wide_character_in_a_long_text(kind, as_bytes):
    text = file_of([]).replace('"name":"data"', '"name":"data","attrs":{"__x__":"ATTR"}')
    text = text.replace("ATTR", "a" * 20_000_000 + WIDE[kind])
    check = Bounds(symbol_json.loads)
    data = text.encode() if as_bytes else text
    check(data, len(text.encode()))


def test_wide_characters_in_a_large_graph():
    """One emoji widens only its neighbourhood, not the complete string."""
    names = [f"{'😀☃é'[i % 3]}{'x' * 300}{i}" for i in range(9000)]
    check = Bounds(symbol_json.loads)
    text = file_of(
        [{**DATA, "name": name} for name in names], heads=[[i + 1, 0, 0] for i in range(9000)]
    )
    assert [output.name for output in check(text, len(text.encode()))] == names


@pytest.mark.parametrize("read", ["loads", "outline"])
def test_very_many_operators_that_are_unknown(read, tmp_path):
    """Suggestions are computed only for the few names in the message."""
    nodes = [node(f"NoSuchOperator{i}", f"n{i}", 1) for i in range(5000)]
    path = tmp_path / "n-symbol.json"
    path.write_text(file_of(nodes))
    start = time.process_time()
    if read == "loads":
        with pytest.raises(UnknownOpError, match="NoSuchOperator19 is not registered") as caught:
            symbol_json.load(path)
        assert len(str(caught.value)) < 10_000
    else:
        lines, _ = symbol_json.load_outline(path)
        assert [bool(line.problem) for line in lines] == [False] + [True] * 5000
    assert time.process_time() - start < 5


def test_messages_shorten_long_values():
    for text in (
        file_of([{**DATA, "name": "x" * 4000, "inputs": [[9, 0, 0]]}]),
        file_of([node("relu", "x" * 4000, 1), {**DATA, "op": 7}]),
        file_of([{**DATA, "inputs": "y" * 1_000_000}]),
        file_of([node("slice", "n", 1, begin="z" * 60_000, end="1")]),
        file_of([], heads=[["w" * 1_000_000, 0, 0]]),
    ):
        with pytest.raises(Exception) as caught:
            symbol_json.loads(text)
        assert len(str(caught.value)) < 1500


def test_parts_in_any_order_and_twice():
    parts = {
        "heads": [[1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
        "arg_nodes": [0],
        "nodes": [DATA, node("relu", "r", 1)],
    }
    for order in (list(parts), list(parts)[::-1]):
        text = json.dumps({key: parts[key] for key in order})
        assert symbol_json.loads(text)[0].name == "r_output"
    with pytest.raises(ModelFormatError, match="heads occurs twice in the document"):
        symbol_json.loads('{"heads": [[0, 0, 0]], ' + json.dumps(parts)[1:])
