"""Garbage collection pauses while a graph is read: its thousands of objects are all in use."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

import hybridjit as mx
from hybridjit import sym
from hybridjit.errors import ModelFormatError

LAYERS = 400


def graph() -> sym.Symbol:
    x = sym.var("data")
    for number in range(LAYERS):
        x = sym.FullyConnected(x, num_hidden=4, name=f"fc{number}")
        x = sym.Activation(x, act_type="relu", name=f"act{number}")
    return x


def collections_of(read: Callable[[], object]) -> int:
    """The number of collections during a call."""
    found: list[str] = []

    def note(phase: str, info: object) -> None:
        found.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        read()
    finally:
        gc.callbacks.remove(note)
    return found.count("start")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> str:
    made = str(tmp_path_factory.mktemp("graph") / "net")
    net = mx.gluon.SymbolBlock(graph(), sym.var("data"))
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((1, 4)))
    net.export(made)
    mx.onnx.export_model(
        f"{made}-symbol.json", f"{made}-0000.params", [(1, 4)], onnx_file_path=f"{made}.onnx"
    )
    return made


def test_a_graph_is_read_without_collections(prefix):
    text = graph().tojson()
    assert collections_of(lambda: sym.load_json(text)) <= 1
    assert gc.isenabled()


def test_networks_of_files_are_made_with_few_collections(prefix):
    """Parameters are read outside of the pause: a file of them may take a second."""
    for path in (prefix, f"{prefix}.onnx"):  # imports
        mx.load(path)
    for path in (prefix, f"{prefix}.onnx"):
        assert collections_of(lambda path=path: mx.load(path)) <= 12
        assert gc.isenabled()


def test_collection_continues_after_a_file_that_is_refused():
    with pytest.raises(ModelFormatError):
        sym.load_json('{"nodes": 1}')
    assert gc.isenabled()
