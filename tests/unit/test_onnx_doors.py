"""Inputs and outputs of ONNX files through every door: their order, their names, their sizes."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from test_onnx import FOLDER, PYTORCH, info, model_of, node, numbers

import hybridjit
from hybridjit import autograd, gluon, nd, profiling, sym
from hybridjit.batch import Predictor
from hybridjit.cli import main
from hybridjit.errors import MXNetError, ShapeError
from hybridjit.formats.onnx.messages import Dimension, Model, write
from hybridjit.formats.onnx.tensors import read_array
from hybridjit.onnx.blocks import KEPT, SizedBlock
from hybridjit.onnx.files import read_file
from recorded import arrays_of, as_list

FIXTURES = sorted([*FOLDER.glob("*.onnx"), *PYTORCH.glob("*.onnx")])
HEADS, WIDTH, WORDS, LONGEST = 2, 8, 11, 16


def written(model: Model, folder: Path, name: str = "net") -> Path:
    """The file of a model."""
    path = folder / f"{name}.onnx"
    path.write_bytes(b"".join(write(model)))
    return path


def declared(path: Path) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs in a file."""
    graph = read_file(path).graph
    assert graph is not None
    held = {tensor.name for tensor in graph.initializer}
    return [i.name for i in graph.input if i.name not in held], [o.name for o in graph.output]


def example(path: Path) -> dict[str, np.ndarray]:
    """Arrays for the inputs of a fixture."""
    names, _ = declared(path)
    if path.parent == PYTORCH:
        return {names[0]: np.load(path.with_suffix(".npz"))["x"]}
    return dict(zip(names, (x.asnumpy() for x in arrays_of(path.stem)[0])))


def called(block: gluon.Block, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """A block's outputs for inputs in the order of the mapping."""
    return as_list(block(*(nd.array(a, dtype=a.dtype) for a in arrays.values())))


def close(found: list[np.ndarray], right: list[np.ndarray]) -> None:
    for one, other in zip(found, right, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


# Networks that ask for the sizes of their inputs, and read them in another order


def encoder(batch: int | None = None, steps: int | None = None) -> Model:
    """One layer in the shape of BERT: ids, mask and types of tokens, all of int64 and one shape.

    The graph reads the types first; the position embedding depends on the steps.
    """
    nodes = [
        node("Gather", "type_table types", "of_types"),
        node("Gather", "table ids", "of_ids"),
        node("Add", "of_types of_ids", "both"),
        node("Shape", "ids", "sizes"),
        node("Gather", "sizes one", "steps"),
        node("Unsqueeze", "steps zero", "end"),
        node("Slice", "places zero end one_axis", "position_ids"),
        node("Gather", "place_table position_ids", "of_places"),
        node("Add", "both of_places", "x"),
        node("Unsqueeze", "mask axes", "wide"),
        node("Cast", "wide", "seen", to=1),
        node("Sub", "unity seen", "hidden"),
        node("Mul", "hidden low", "bias"),
        node("Gather", "sizes nought", "batch"),
        node("Unsqueeze", "batch zero", "batch_1"),
        node("Concat", "batch_1 end parts", "apart", axis=0),
        node("Concat", "batch_1 end whole", "together", axis=0),
        node("MatMul", "x wq", "q"),
        node("Reshape", "q apart", "q_parts"),
        node("Transpose", "q_parts", "q_heads", perm=(0, 2, 1, 3)),
        node("Reshape", "x apart", "k_parts"),
        node("Transpose", "k_parts", "k_heads", perm=(0, 2, 3, 1)),
        node("Transpose", "k_parts", "v_heads", perm=(0, 2, 1, 3)),
        node("MatMul", "q_heads k_heads", "scores"),
        node("Add", "scores bias", "biased"),
        node("Softmax", "biased", "weights", axis=-1),
        node("MatMul", "weights v_heads", "sums"),
        node("Transpose", "sums", "steps_first", perm=(0, 2, 1, 3)),
        node("Reshape", "steps_first together", "hidden_states"),
        node("ReduceMean", "hidden_states", "pooled", axes=(1,), keepdims=0),
    ]
    for number, each in enumerate(nodes):
        each.name = f"/layer/{each.op_type}_{number}"
    constants = {
        "type_table": 2 * numbers(2, WIDTH),
        "table": numbers(WORDS, WIDTH),
        "place_table": numbers(LONGEST, WIDTH)[::-1].copy(),
        "places": np.arange(LONGEST)[None],
        "wq": numbers(WIDTH, WIDTH),
        "one": np.array(1),
        "nought": np.array(0),
        "zero": np.array([0]),
        "one_axis": np.array([1]),
        "axes": np.array([1, 2]),
        "parts": np.array([HEADS, WIDTH // HEADS]),
        "whole": np.array([WIDTH]),
        "unity": np.ones(1, "f4"),
        "low": np.full(1, -1e4, "f4"),
    }
    model = model_of(nodes, {}, constants)
    assert model.graph is not None
    model.graph.input = [info(name, (batch, steps), 7) for name in ("ids", "mask", "types")]
    for each in model.graph.input:
        shape = each.type.tensor_type.shape  # type: ignore[union-attr]
        names = ("batch", "steps")
        shape.dim = [d if d.dim_value else Dimension(dim_param=n) for d, n in zip(shape.dim, names)]
    model.graph.output = [info("pooled", ()), info("hidden_states", ())]
    return model


def tokens(batch: int, steps: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of the encoder."""
    draw = np.random.default_rng(seed)
    mask = np.ones((batch, steps), np.int64)
    mask[:, steps // 2 + 1 :] = draw.integers(0, 2, (batch, steps - steps // 2 - 1))
    return {
        "ids": draw.integers(0, WORDS, (batch, steps)),
        "mask": mask,
        "types": draw.integers(0, 2, (batch, steps)),
    }


def encoded(model: Model, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of the encoder by NumPy."""
    assert model.graph is not None
    c = {t.name: read_array(t) for t in model.graph.initializer}
    b, s = given["ids"].shape
    x = c["table"][given["ids"]] + c["type_table"][given["types"]] + c["place_table"][:s]
    heads = (b, s, HEADS, WIDTH // HEADS)
    q, k = (y.reshape(heads).swapaxes(1, 2) for y in (x @ c["wq"], x))
    scores = q @ k.swapaxes(2, 3) + (1 - given["mask"][:, None, None]) * -1e4
    e = np.exp(scores - scores.max(-1, keepdims=True))
    made = (e / e.sum(-1, keepdims=True) @ k).swapaxes(1, 2).reshape(b, s, WIDTH)
    return [made.mean(1), made]


@pytest.fixture(scope="module")
def open_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(encoder(), tmp_path_factory.mktemp("open"), "encoder")


@pytest.fixture(scope="module")
def fixed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(encoder(1, 6), tmp_path_factory.mktemp("fixed"), "encoder")


# Names and order


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_every_door_has_the_files_names_in_its_order(path, tmp_path):
    inputs, outputs = declared(path)
    arrays = example(path)
    given = [nd.array(array, dtype=array.dtype) for array in arrays.values()]
    net = hybridjit.onnx.load(path)
    net.hybridize(False)
    right = as_list(net(*given))
    assert list(net.input_names) == inputs
    as_symbols = net(*map(sym.var, inputs))
    group = as_symbols if isinstance(as_symbols, sym.Symbol) else sym.Group(list(as_symbols))
    assert [name.removesuffix("_output") for name in group.list_outputs()] == outputs
    close(as_list(net(**dict(zip(inputs, given)))), right)

    net.export(str(tmp_path / "again"))
    again = hybridjit.load(str(tmp_path / "again"))
    again.hybridize(False)
    assert list(again.input_names) == inputs
    close(called(again, arrays), right)

    net.export_onnx(str(tmp_path / "again.onnx"), *given)
    assert declared(tmp_path / "again.onnx") == (inputs, outputs)
    assert list(Predictor(path)._network().input_names) == inputs
    assert list(profiling.nets.traced(net, *given).inputs) == inputs


SEVERAL = [path for path in FIXTURES if max(map(len, declared(path))) > 1]


@pytest.mark.parametrize("path", [*SEVERAL, PYTORCH / "vit.onnx"], ids=lambda p: p.stem)
def test_libraries_have_the_files_names_in_its_order(path, tmp_path, capsys):
    inputs, outputs = declared(path)
    arrays = example(path)
    shapes = [
        word
        for name, array in arrays.items()
        for word in ("--shape", f"{name}={','.join(map(str, array.shape))}")
    ]
    assert main(["compile", str(path), *shapes, "--library", str(tmp_path), "--name", "net"]) == 0
    header = (tmp_path / "net.h").read_text()
    assert re.findall(r'_INPUT\d+_NAME "(.*)"', header) == inputs
    assert re.findall(r'_OUTPUT\d+_NAME "(.*)"', header) == outputs
    library = hybridjit.library.load(tmp_path / "net.so")
    assert (library.inputs, library.outputs) == (inputs, outputs)
    given = {n: a.astype(d) for (n, a), d in zip(arrays.items(), library.dtypes)}
    right = called(hybridjit.onnx.load(path), arrays)
    for found in (library(*given.values()), library(**given)):
        close(found if isinstance(found, list) else [found], right)


def test_inputs_of_one_type_are_not_exchanged(open_file, tmp_path, capsys):
    """The graph reads types, ids, then the mask, and all have one type."""
    given = tokens(2, 6)
    right = encoded(encoder(), given)
    net = hybridjit.onnx.load(open_file)
    close(called(net, given), right)
    net.export(str(tmp_path / "again"))
    again = hybridjit.load(str(tmp_path / "again"))
    assert again.input_names == ("ids", "mask", "types")
    close(called(again, given), right)
    by_name = {name: nd.array(given[name], dtype="int64") for name in ("types", "mask", "ids")}
    close(as_list(again(**by_name)), right)

    shapes = [w for n in given for w in ("--shape", f"{n}=2,6", "--dtype", f"{n}=int64")]
    for number, model in enumerate((open_file, tmp_path / "again")):
        name = f"net{number}"
        assert (
            main(["compile", str(model), *shapes, "--library", str(tmp_path), "--name", name]) == 0
        )
        library = hybridjit.library.load(tmp_path / f"{name}.so")
        assert library.inputs == ["ids", "mask", "types"]
        close(library(*given.values()), right)
        close(library(**given), right)
        capsys.readouterr()
        assert main(["profile", str(model), *shapes, "--seconds", "0.01"]) == 0
        first_line = capsys.readouterr().out.splitlines()[0]
        assert re.findall(r"(\w+) i64", first_line) == ["ids", "mask", "types"]


UNREAD = {"first": 7, "x": 1, "mask": 7, "y": 1, "last": 1}  # names and ONNX's element types


@pytest.fixture(scope="module")
def unread_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose graph reads two of five inputs, the later one first."""
    model = model_of([node("Sub", "y x", "gap")], {}, {})
    assert model.graph is not None
    model.graph.input = [info(name, (2, 3), code) for name, code in UNREAD.items()]
    model.graph.output = [info("gap", ())]
    return written(model, tmp_path_factory.mktemp("unread"), "net")


def unread_arrays() -> dict[str, np.ndarray]:
    return {
        n: numbers(2, 3).astype("f4" if c == 1 else "i8") + ord(n[0]) for n, c in UNREAD.items()
    }


def test_inputs_that_no_node_reads_keep_their_places(unread_file, tmp_path):
    arrays, names = unread_arrays(), [*UNREAD]
    right = [arrays["y"] - arrays["x"]]
    net = hybridjit.onnx.load(unread_file)
    net.export(str(tmp_path / "net"))
    again = hybridjit.load(str(tmp_path / "net"))
    again.export(str(tmp_path / "other"))
    given = [nd.array(array, dtype=array.dtype) for array in arrays.values()]
    again.export_onnx(str(tmp_path / "again.onnx"), *given)
    assert declared(tmp_path / "again.onnx")[0] == names
    blocks = [
        net,
        again,
        hybridjit.load(str(tmp_path / "other")),
        pickle.loads(pickle.dumps(again)),
    ]
    for block in (*blocks, hybridjit.onnx.load(tmp_path / "again.onnx")):
        for active in (True, False):
            block.hybridize(active)
            assert list(block.input_names) == names
            close(called(block, arrays), right)
            close(as_list(block(**dict(reversed([*zip(names, given)])))), right)
        assert list(profiling.nets.traced(block, *given).inputs) == names
    rows = Predictor(str(tmp_path / "net"), outputs=("gap",))(arrays)
    np.testing.assert_allclose(rows["gap"], right[0])
    fewer = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["x", "y"])
    fewer.export(str(tmp_path / "fewer"))
    assert hybridjit.load(str(tmp_path / "fewer")).input_names == ("x", "y")


def test_export_model_takes_shapes_of_all_inputs_or_of_those_that_are_read(unread_file, tmp_path):
    graph, arguments, states = hybridjit.onnx.import_model(unread_file)
    for shapes, names in (([(2, 3)] * 5, [*UNREAD]), ([(2, 3)] * 2, ["x", "y"])):
        path = tmp_path / "again.onnx"
        hybridjit.onnx.export_model(graph, [arguments, states], shapes, onnx_file_path=path)
        assert declared(path) == (names, ["gap"])
    with pytest.raises(ShapeError, match="5 inputs .first, x, mask, y, last., but 3 shapes"):
        hybridjit.onnx.export_model(graph, [arguments, states], [(2, 3)] * 3)


@pytest.mark.parametrize("kind", ["onnx", "symbol"])
def test_commands_know_inputs_that_no_node_reads(kind, unread_file, tmp_path, capsys):
    model, arrays = str(unread_file), unread_arrays()
    if kind == "symbol":
        model = str(tmp_path / "net")
        hybridjit.onnx.load(unread_file).export(model)
    types = [w for n, a in arrays.items() for w in ("--dtype", f"{n}={a.dtype.name}")]
    shapes = [w for n in arrays for w in ("--shape", f"{n}=2,3")] + types
    words = [model, *shapes, "--library", str(tmp_path), "--name", "libnet"]
    assert main(["compile", *words]) == 0
    assert re.findall(r'_INPUT\d+_NAME "(.*)"', (tmp_path / "libnet.h").read_text()) == [*UNREAD]
    library = hybridjit.library.load(tmp_path / "libnet.so")
    assert library.inputs == [*UNREAD]
    for found in (library(*arrays.values()), library(**dict(reversed(arrays.items())))):
        np.testing.assert_allclose(found, arrays["y"] - arrays["x"])
    capsys.readouterr()
    assert main(["profile", model, *shapes, "--seconds", "0.01"]) == 0
    first_line = capsys.readouterr().out.splitlines()[0]
    assert re.findall(r"(\w+) [fi]\d\d", first_line) == [*UNREAD]
    assert main(["inspect", model, "--json", *shapes]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == [*UNREAD]


def test_a_file_of_a_graph_may_state_unread_inputs_badly(tmp_path):
    """Positions in letters, a name without characters, and the name of another variable."""
    x, y = sym.var("x"), sym.var("y", attr={"__unread_input_x__": "far", "__unread_input_1__": ""})
    y._set_attr(**{"__unread_input_0__": "x", "__unread_input_2__": "late"})
    (tmp_path / "net-symbol.json").write_text((x + y).tojson())
    nd.save(str(tmp_path / "net-0000.params"), {"arg:w": nd.zeros(1)})
    net = hybridjit.load(str(tmp_path / "net"))
    assert net.input_names == ("late", "x", "y", "far")


def test_a_python_blocks_unread_argument_is_an_input_of_its_files(tmp_path):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y, z):
            return z - x

    net, arrays = Net(), [nd.array([i]) for i in (1, 5, 7)]
    net.hybridize()
    with pytest.warns(UserWarning, match="1-th input to HybridBlock is not used"):
        right = net(*arrays).asnumpy()
    net.export(str(tmp_path / "net"))
    again = hybridjit.load(str(tmp_path / "net"))
    assert again.input_names == ("data0", "data1", "data2")
    np.testing.assert_array_equal(again(*arrays).asnumpy(), right)


@pytest.mark.parametrize("name", ["lib", "library", "libnet", "net"])
def test_a_library_has_any_name(name, unread_file, tmp_path):
    words = [str(unread_file), "--library", str(tmp_path), "--name", name]
    assert main(["compile", *words]) == 0
    loaded = hybridjit.library.load(tmp_path / f"{name}.so")
    assert loaded.inputs == [*UNREAD]


def test_a_python_blocks_signature_is_the_order(tmp_path):
    """The block reads its second argument first; attributes of variables carry the order."""

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, query, key, scale=None):
            made = F.broadcast_sub(key * 2, query)
            return made if scale is None else made * scale

    net = Net()
    net.hybridize()
    x, y = nd.array(numbers(2, 3)), nd.array(numbers(2, 3) + 1)
    right = net(x, y).asnumpy()
    np.testing.assert_array_equal(net(key=y, query=x).asnumpy(), right)
    net.export(str(tmp_path / "net"))
    again = hybridjit.load(str(tmp_path / "net"))
    assert again.input_names == ("data0", "data1")
    np.testing.assert_array_equal(again(x, y).asnumpy(), right)
    np.testing.assert_array_equal(again(data1=y, data0=x).asnumpy(), right)
    assert list(profiling.nets.traced(again, x, y).inputs) == ["data0", "data1"]
    other = gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data1", "data0"], str(tmp_path / "net-0000.params")
    )
    np.testing.assert_array_equal(other(y, x).asnumpy(), right)
    other.export(str(tmp_path / "other"))
    assert hybridjit.load(str(tmp_path / "other")).input_names == ("data1", "data0")


@pytest.mark.parametrize(
    "named, message",
    [
        ({"x": 1}, "unexpected keyword argument 'x'; the inputs are 'ids', 'mask', 'types'"),
        ({"ids": 1, "types": 1}, "missing the argument 'mask'"),
    ],
)
def test_wrong_names_of_arguments(named, message, open_file):
    net = hybridjit.onnx.load(open_file)
    with pytest.raises(TypeError, match=message):
        net(**{name: nd.zeros((1, 2)) for name in named})
    with pytest.raises(TypeError, match="multiple values for argument 'ids'"):
        net(nd.zeros((1, 2)), ids=nd.zeros((1, 2)))


def test_outputs_of_one_node_keep_their_names(tmp_path):
    nodes = [node("Split", "x", "left right", axis=1), node("Identity", "left", "same")]
    model = model_of(nodes, {"x": (2, 4)}, opset=11)
    assert model.graph is not None
    model.graph.output = [info(name, ()) for name in ("same", "right", "left", "x")]
    path = written(model, tmp_path)
    net, x = hybridjit.onnx.load(path), numbers(2, 4)
    right = [x[:, :2], x[:, 2:], x[:, :2], x]
    close(called(net, {"x": x}), right)
    assert [s.name for s in net(sym.var("x"))] == ["same", "right", "left", "x"]
    net.export_onnx(str(tmp_path / "again.onnx"), nd.array(x))
    again = tmp_path / "again.onnx"
    assert declared(again)[1][:3] == ["same", "right", "left"]
    close(called(hybridjit.onnx.load(again), {"x": x}), right)


# Sizes


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_other_sizes_are_right_or_refused_by_name(path, tmp_path):
    """Another value of a fixed size is rejected everywhere; a symbolic size gives equal results."""
    inputs, _ = declared(path)
    arrays, net = example(path), hybridjit.onnx.load(path)
    net.export(str(tmp_path / "again"))
    again = hybridjit.load(str(tmp_path / "again"))
    for name, shape in net.input_shapes.items():
        if shape is None or name not in again.input_names:
            continue
        for axis, size in enumerate(shape):
            other = {**arrays, name: np.repeat(arrays[name], 2, axis)}
            if size is None:
                net.hybridize(False)
                close(called(hybridjit.onnx.load(path), other), called(net, other))
                continue
            sizes = rf"\({','.join(map(str, other[name].shape))},?\)"
            for active in (True, False):
                net.hybridize(active)
                with pytest.raises(ShapeError, match=rf"input '{name}' takes .*got {sizes}"):
                    called(net, other)
            read = {n: a for n, a in other.items() if n in again.input_names}
            with pytest.raises(ShapeError, match=rf"input '{name}' takes .*got {sizes}"):
                called(again, read)


@pytest.mark.parametrize("given", [None, (1, 6)], ids=["open", "with shapes"])
def test_each_size_of_a_call_has_its_numbers(given, open_file):
    shapes = given and dict.fromkeys(("ids", "mask", "types"), given)
    net = hybridjit.onnx.load(open_file, shapes=shapes)
    for active in (True, False):
        net.hybridize(active)
        for batch, steps in [(1, 6), (2, 6), (1, 1), (3, LONGEST), (2, 5), (1, 6)]:
            arrays = tokens(batch, steps)
            close(called(net, arrays), encoded(encoder(), arrays))
    assert isinstance(net, SizedBlock)
    for steps in range(1, LONGEST + 1):
        for batch in (1, 2):
            called(net, tokens(batch, steps))
    assert len(net._blocks) <= KEPT


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_padding_for_equal_sizes_follows_each_size(stride, tmp_path):
    """``auto_pad`` depends on the remainder of the size by the stride."""
    use = node("Conv", "x w", auto_pad="SAME_UPPER", kernel_shape=(3,), strides=(stride,))
    model = model_of([use], {"x": (None, 1, None)}, {"w": np.ones((1, 1, 3), np.float32)})
    net = hybridjit.onnx.load(written(model, tmp_path))
    net.hybridize()
    for size in (64, 7, 8, 9):
        x, count = numbers(2, 1, size), -(-size // stride)
        pad = max((count - 1) * stride + 3 - size, 0)
        whole = np.pad(x, ((0, 0), (0, 0), (pad // 2, pad - pad // 2)))
        windows = np.lib.stride_tricks.sliding_window_view(whole, 3, axis=2)[:, :, ::stride]
        close(called(net, {"x": x}), [windows.sum(-1)])


def test_sizes_that_the_graph_has_no_numbers_for(open_file):
    net = hybridjit.onnx.load(open_file)
    with pytest.raises(MXNetError):
        called(net, tokens(1, LONGEST + 1))
    close(called(net, tokens(1, 4)), encoded(encoder(), tokens(1, 4)))


def test_fixed_sizes_stay_fixed_through_files(open_file, fixed_file, tmp_path, capsys):
    """A graph that was made for one size refuses others as MXNet's files, in other blocks, as ONNX
    and in libraries."""
    right = encoded(encoder(), tokens(1, 6))
    sizes = dict.fromkeys(("ids", "mask", "types"), (1, 6))
    for number, net in enumerate(
        [hybridjit.onnx.load(fixed_file), hybridjit.onnx.load(open_file, shapes=sizes)]
    ):
        arrays = [nd.array(a, dtype=a.dtype) for a in tokens(1, 6).values()]
        other = [nd.array(a, dtype=a.dtype) for a in tokens(2, 6).values()]
        close(as_list(net(*arrays)), right)
        net.export(str(tmp_path / f"{number}"))
        again = hybridjit.load(str(tmp_path / f"{number}"))
        close(as_list(again(*arrays)), right)
        assert again.input_shapes["mask"] == (1, 6)
        for active in (True, False):
            again.hybridize(active)
            with pytest.raises(ShapeError, match=r"input 'mask' takes shape \(1,6\), got \(2,6\)"):
                again(arrays[0], other[1], arrays[2])

        file = net.export_onnx(str(tmp_path / f"{number}.onnx"), *arrays, dynamic=True)
        written_again = hybridjit.onnx.load(file)
        assert written_again.input_shapes == dict.fromkeys(written_again.input_names, (1, 6))
        with pytest.raises(ShapeError, match="the graph fixes the size 1 of axis 0 of input 'ids'"):
            net.export_onnx(file, *arrays, dynamic=True, dynamic_input_shapes=[("n", 6)] * 3)

        class Outer(gluon.HybridBlock):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def hybrid_forward(self, F, ids, mask, types):
                return self.inner(ids, mask, types)[0] + 0

        outer = Outer(again)
        outer.hybridize()
        close(as_list(outer(*arrays)), right[:1])
        with pytest.raises(
            ShapeError, match="_identity_with_attr_like_rhs 'outer[0-9]+_[a-z]+_sizes'"
        ):
            outer(*other)
        capsys.readouterr()
        shapes = [w for n in sizes for w in ("--shape", f"{n}=2,6")]
        files = [f"{tmp_path / str(number)}-symbol.json"]
        assert main(["profile", *files, *shapes, "--seconds", "0.01"]) == 1
        assert "takes shape (1,6), got (2,6)" in capsys.readouterr().err


def test_all_graphs_of_a_block_train_the_same_parameters(open_file):
    net = hybridjit.onnx.load(open_file)
    params = net.collect_params()
    assert {"table", "type_table"} <= set(params)  # before the first call
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1.0})
    for batch, steps in ((2, 4), (1, 7)):
        arrays = [nd.array(a, dtype=a.dtype) for a in tokens(batch, steps).values()]
        before = net(*arrays)[0].asnumpy()
        table = params["table"].data().asnumpy()
        with autograd.record():
            loss = net(*arrays)[0].sum()
        loss.backward()
        trainer.step(1)
        assert np.abs(params["table"].data().asnumpy() - table).max() > 0
        assert np.abs(net(*arrays)[0].asnumpy() - before).max() > 0


def test_changes_of_a_block_hold_for_all_its_graphs(open_file):
    net = hybridjit.onnx.load(open_file)
    small, large = tokens(1, 2), tokens(2, 5)
    right = [called(net, small), called(net, large)]
    twins = [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    for twin in twins:
        close(called(twin, large), right[1])
    net.hybridize(precision="bfloat16")
    rough = called(net, tokens(3, 5))
    assert not np.array_equal(rough[1], called(twins[0], tokens(3, 5))[1])
    assert net.verify(*(nd.array(a, dtype=a.dtype) for a in small.values())).agrees
    names = set()
    net.hybridize()
    net.register_op_hook(lambda tensor, op, array: names.add(op))
    called(net, tokens(3, 2))
    assert "softmax" in names


def test_a_file_that_changed_is_not_read_again(open_file, tmp_path):
    path = written(encoder(), tmp_path)
    net = hybridjit.onnx.load(path)
    called(net, tokens(1, 3))
    os.utime(path, ns=(1, 1))
    for length in (3, 4):
        close(called(net, tokens(1, length)), encoded(encoder(), tokens(1, length)))
    net.hybridize(dynamic=False)
    with pytest.raises(MXNetError, match="has changed since the network was loaded"):
        called(net, tokens(1, 4))
    path.unlink()
    with pytest.raises(MXNetError, match=re.escape(str(path))):
        called(net, tokens(1, 4))


def test_predictors_of_open_and_of_fixed_batches(open_file, fixed_file):
    """Batches of any size: at the file's own, where it has one."""
    arrays = tokens(5, 6)
    right = encoded(encoder(), arrays)
    for path in (open_file, fixed_file):
        for shapes in (None, dict.fromkeys(arrays, (6,))):
            predictor = Predictor(path, dtype="int64", batch_size=4, shapes=shapes)
            close(list(predictor(*arrays.values())), right)
            close(list(predictor(dict(reversed(arrays.items()))).values()), right)


def test_predictors_of_files_without_a_batch(tmp_path):
    path = written(model_of([node("Add", "x z")], {"x": (2, 3), "z": (1, 3)}), tmp_path)
    with pytest.raises(MXNetError, match="is not a batch: 'x' \\(2, 3\\), 'z'"):
        Predictor(path)(numbers(2, 3), numbers(2, 3))
