"""Files that lie: thousands of mutated ones must end in MXNetError, in little memory and time.

The mutations know the formats: they change single fields to values that matter (bounds, other
magic numbers, counts that do not fit), cut, join and repeat. The seeds are fixed.
"""

import json
import random
import re
import struct

import numpy as np
import pytest

from hostile import SYMBOLS, TEXTS, mutated, mutated_bytes, mutated_graph, mutated_letters, spans
from hybridjit import gluon, nd, sym
from hybridjit._core.types import FLOAT32, TensorType
from hybridjit.errors import ModelFormatError, MXNetError, ShapeError, UnknownOpError
from hybridjit.formats.mxnet import params, symbol_json
from hybridjit.ir.node import Output, apply, variable
from hybridjit.ops.attrs import attr_text
from hybridjit.ops.registry import all_names, all_ops, lookup
from hybridjit.passes.infer import infer_node_types
from params_written_by_mxnet import MAGIC, written
from reading import FORMATS, MEMORY, Bounds, address_space


@pytest.fixture(autouse=True)
def limited_memory():
    with address_space(2 << 30):
        yield


# Files near those that MXNet wrote: tools/fuzz_files.py runs millions of these cases


def test_mutated_array_files():
    with FORMATS["params"]() as (make, read):
        check = Bounds(read)
        for number in range(4000):
            arrays = check(make(number))
            if arrays:
                again = params.dumps(arrays)
                assert params.dumps(params.loads(again)) == again
    assert check.refused > 1000 and check.accepted > 200


def test_mutated_graph_files():
    with FORMATS["json"]() as (make, read):
        check = Bounds(read)
        for number in range(2000):
            outputs = check(make(number))
            if outputs is not None:
                again = symbol_json.dumps(outputs)
                assert symbol_json.dumps(symbol_json.loads(again)) == again
    assert check.refused > 1000 and check.accepted > 200


def test_damaged_objects():
    """Of a cached object whose file was changed, nothing is believed; nor of another's file."""
    with FORMATS["objects"]() as (make, read):
        check = Bounds(read, traced=False)
        for number in range(2000):
            check(make(number))
    assert check.refused > 1900


def test_names_under_which_anything_lies():
    with FORMATS["special"]() as (make, read):
        check = Bounds(read, traced=False)
        for number in range(1000):
            check(make(number))
    assert check.refused > 800 and check.accepted > 30


@pytest.mark.parametrize("name", ["csr", "list", "v3"])
def test_every_prefix_and_many_mutations_of_array_files(name):
    data, check = written(name), Bounds(params.loads)
    for end in range(len(data)):
        check(data[:end])
    assert check.accepted == 0
    for number in range(300):
        check(mutated(mutated_bytes, random.Random(number), data))


@pytest.mark.parametrize("name", ["act_prelu", "old_0_9_2", "softmax_length"])
def test_every_prefix_and_many_mutations_of_graph_files(name):
    text = (SYMBOLS / f"{name}.json").read_text(encoding="utf-8").rstrip()
    check, places = Bounds(symbol_json.loads), spans(text)
    for end in range(len(text)):
        check(text[:end])
    assert check.accepted == 0
    for number in range(150):
        rng = random.Random(number)
        check(mutated_graph(rng, text, places))
        check(mutated(mutated_letters, rng, text))


def test_a_number_gives_one_case_and_many_kinds_of_error():
    for kind in FORMATS:
        errors = set()
        with FORMATS[kind]() as (make, read):
            assert make(7) == make(7)
            for number in range(400):
                try:
                    read(make(number))
                except MXNetError as error:
                    errors.add(re.sub(r"\d+", "", str(error))[:60])
        assert kind == "objects" or len(errors) > 20


# Array files that ask for much


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
    "row sparse, none of very many": record((1, 0), 1, (1, 0, 2**30, 2**17), (2**40,)),
    "csr columns": record((1, 2**40), 2, (0,), (2, 0)) + bytes(16),
    "csr rows": record((2**40, 1), 2, (0,), (2**40 + 1, 0)),
    "bfloat16": record((2**35,), code=12),
    "old dims": struct.pack("<I32I", 32, *(2**32 - 1,) * 32),
}


def test_half_floats_of_a_large_file():
    """They double: beside the result there is room for few of them at a time."""
    count = 45_000_000
    check = Bounds(params.loads)
    (array,) = check(file_of(record((count,), code=12) + bytes(2 * count) + bytes(8)))
    assert array.shape == (count,) and array.dtype == np.float32


@pytest.mark.parametrize("storage", ["csr", "row sparse"])
def test_positions_of_a_large_sparse_file(storage):
    """Five bytes for each value in the file; positions take sixteen."""
    count, rows, columns = 10_000_000, 1000, 60_000
    stored = struct.pack("<Iiiq", 0xF993FAC9, 2, 1, count)
    shape = struct.pack("<i2qiii", 2, rows, columns, 1, 0, 3)
    starts = np.linspace(0, count, rows + 1).astype("<i8")
    aux = struct.pack("<iiqiiq", 6, 1, rows + 1, 4, 1, count)
    content = starts.tobytes()
    if storage != "csr":
        stored = struct.pack("<Iii2q", 0xF993FAC9, 1, 2, count, 1)
        shape = struct.pack("<i2qiii", 2, rows * columns, 1, 1, 0, 3)
        aux, content = struct.pack("<iiq", 4, 1, count), b""
    places = (np.arange(count) % columns).astype("<i4")
    data = np.ones(count, np.uint8).tobytes() + content + places.tobytes()
    check = Bounds(params.loads)
    (array,) = check(file_of(stored + shape + aux + data + bytes(8)))
    wanted = 10_000_000 if storage == "csr" else 60_000
    assert array.sum() == wanted and array.size == rows * columns


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


# Graph files that ask for much


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
    """No attribute is an unbounded count of inputs or outputs."""
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
                largest = 2**31 - 1 if attr.base == "int" else 2**63 - 1
                attrs = {**usual, attr.name: str(largest)}
                node = {"op": op.name, "name": "n", "attrs": attrs, "inputs": [[0, 0, 0]]}
                top = {"nodes": [data, node], "arg_nodes": [0], "heads": [[1, 0, 0]]}
                check(json.dumps({**top, "attrs": {"mxnet_version": ["int", version]}}))
    assert check.refused > 0


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes": [' + "[]," * 2_500_000 + "[]]}",
        '{"nodes": [' + "{}," * 2_000_000 + "{}]}",
        '{"nodes": [' + '{"":0},' * 700_000 + "{}]}",
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


@pytest.mark.parametrize("text", ["²", "--5", "9" * 5000, "(1, ²)", "1" * 20, "x", "(3"])
@pytest.mark.parametrize("key", ["__dtype__", "__shape__"])
def test_hints_of_variables_that_say_nothing(key, text):
    """Declarations of variables are untrusted text too: invalid types are ignored."""
    data = {"op": "null", "name": "data", "attrs": {key: text}, "inputs": []}
    node = {"op": "relu", "name": "r", "inputs": [[0, 0, 0]]}
    top = {"nodes": [data, node], "arg_nodes": [0], "heads": [[1, 0, 0]]}
    graph = sym.load_json(json.dumps(top))
    assert graph.infer_shape_partial() == ([()], [()], [])
    assert graph.infer_type_partial()[0] in ([None], [np.float32])
    block = gluon.SymbolBlock(graph, [sym.var("other")])
    assert block.collect_params()["data"].dtype == np.float32


def test_operators_that_passes_make_are_not_for_files():
    """Their operands are not checked: neither a file nor a user can name them."""
    internal = [op for op in all_ops() if op.internal and not op.traits.in_files]
    assert len(internal) > 5
    for op in internal:
        node = {"op": op.name, "name": "n", "inputs": [[0, 0, 0]]}
        top = {"nodes": [{"op": "null", "name": "d", "inputs": []}, node], "arg_nodes": [0]}
        with pytest.raises(UnknownOpError, match=f"Operator {op.name} is not registered"):
            symbol_json.loads(json.dumps({**top, "heads": [[1, 0, 0]]}))
        assert not hasattr(nd._internal, op.name) and not hasattr(sym._internal, op.name)


HUGE = {
    "tile": {"reps": (2**30, 2**30)},
    "_zeros": {"shape": (2**40, 2**40)},
    "_arange": {"start": 0, "stop": 2**60},
}


@pytest.mark.parametrize("name", HUGE)
def test_results_that_no_memory_holds(name):
    """The size is found too large in Python's integers, eagerly and compiled."""
    op, given = lookup(name), {k: attr_text(v) for k, v in HUGE[name].items()}
    inputs = [nd.ones((2,)) for _ in op.input_names(op.parse(given))]
    with pytest.raises(ShapeError, match="larger than any memory"):
        nd.invoke(op, inputs, given)
    node = apply(op, "n", [Output(variable("x"))] * len(inputs), given)
    with pytest.raises(ShapeError, match="larger than any memory"):
        infer_node_types([Output(node)], {"x": TensorType((2,), FLOAT32)})


def test_chain_that_is_long():
    """Depth of the graph does not become depth of the stack."""
    data = {"op": "null", "name": "d", "inputs": []}
    chain = [{"op": "relu", "name": "r", "inputs": [[i, 0, 0]]} for i in range(5_000)]
    top = {"nodes": [data, *chain], "arg_nodes": [0], "heads": [[5_000, 0, 0]]}
    check = Bounds(symbol_json.loads)
    outputs = check(json.dumps(top))
    assert symbol_json.dumps(outputs).count('"relu"') == 5_000


def test_the_bounds_would_notice():
    """A reader that allocates the size in the file, or lets another exception out, fails here."""
    with pytest.raises(AssertionError, match="bytes for a file of 4"):
        Bounds(lambda data: bytes(MEMORY + 100))(b"1234")
    with pytest.raises(IndexError):
        Bounds(lambda data: data[9])(b"1234")
    with pytest.raises(ModelFormatError):
        raise ModelFormatError("the reader must raise an MXNetError")
