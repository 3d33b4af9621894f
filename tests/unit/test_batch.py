"""Predictors: a network as a function of the batches that engines hand out."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hybridjit
from hybridjit import batch, gluon, nd, sym
from hybridjit.batch import Predictor
from hybridjit.errors import MXNetError
from hybridjit.gluon import nn
from patience import PATIENCE

FOLDER = Path(__file__).parent.parent.parent / "examples" / "digits"
SHAPE = (1, 28, 28)
MODEL = FOLDER / "digits"


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).random((21, *SHAPE), "float32")


@pytest.fixture(scope="module")
def expected(images: np.ndarray) -> np.ndarray:
    return hybridjit.load(str(MODEL))(nd.array(images)).asnumpy()


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    before = hybridjit.get_num_threads()
    yield
    hybridjit.set_num_threads(before)
    batch._network.cache_clear()
    gc.collect()  # other tests compile the same network


class Frame:
    """As much of a pandas data frame as is used."""

    def __init__(self, columns: dict[str, object]) -> None:
        self.held = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Column:
        return Column(self.held[name])

    def drop(self, columns: list[str]) -> Frame:
        return Frame({n: c for n, c in self.held.items() if n not in columns})

    def assign(self, **columns: object) -> Frame:
        return Frame(self.held | columns)


class Column:
    def __init__(self, rows: object) -> None:
        self.rows = rows

    def to_numpy(self) -> np.ndarray:
        if isinstance(self.rows, np.ndarray):
            return self.rows
        cells = np.empty(len(self.rows), object)
        cells[:] = self.rows
        return cells


class TestResults:
    @pytest.mark.parametrize("batch_size", [1, 5, 8, 64])
    def test_any_batches_have_the_same_bits(self, images, expected, batch_size):
        predictor = Predictor(MODEL, batch_size=batch_size)
        assert np.array_equal(predictor(images), expected)
        for count in (0, 1, 3, 20):
            assert np.array_equal(predictor(images[:count]), expected[:count])

    def test_a_dict_of_columns_gives_result_columns(self, images, expected):
        found = Predictor(MODEL, outputs=["logits"])({"data": images, "id": np.arange(21)})
        assert list(found) == ["id", "logits"]
        assert np.array_equal(found["logits"], expected)

    @pytest.mark.parametrize("form", ["flat", "lists", "objects", "float64"])
    def test_records_in_any_form(self, images, expected, form):
        cells = np.empty(len(images), object)
        cells[:] = list(images)
        forms = {
            "flat": images.reshape(21, -1),
            "lists": images.reshape(21, -1).tolist(),
            "objects": cells,
            "float64": images.astype("float64"),
        }
        found = Predictor(MODEL, shapes={"data": SHAPE})({"data": forms[form]})
        assert np.array_equal(found["output"], expected)

    def test_data_frames_get_a_result_column(self, images, expected):
        frame = Frame({"data": images.reshape(21, -1).tolist(), "id": np.arange(21)})
        (found,) = Predictor(MODEL, shapes={"data": SHAPE}).frames([frame])
        assert found.columns == ["id", "output"]
        assert np.array_equal(np.stack(found.held["output"]), expected)

    def test_here_is_a_function_of_the_networks_inputs(self, images, expected):
        function = Predictor(MODEL).here()
        assert len(inspect.signature(function).parameters) == 1
        assert np.array_equal(function(images), expected)

    def test_an_onnx_file_gives_the_same_results(self, images, expected):
        found = Predictor(FOLDER / "digits.onnx", shapes={"data": SHAPE})(images)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    def test_several_inputs_and_outputs(self, tmp_path):
        a, b = sym.var("a"), sym.var("b")
        net = gluon.SymbolBlock(sym.Group([a + b, sym.sum(a * b, axis=1)]), [a, b])
        net.hybridize()
        x, y = np.ones((3, 4), "float32"), np.full((3, 4), 2, "float32")
        net(nd.array(x), nd.array(y))
        net.export(str(tmp_path / "two"))
        predictor = Predictor(tmp_path / "two")
        total, product = predictor(x, y)
        assert np.array_equal(total, x + y) and np.array_equal(product, (x * y).sum(1))
        assert list(predictor({"a": x, "b": y})) == ["output_0", "output_1"]
        assert list(predictor.here()(x, y)) == ["output_0", "output_1"]
        frame = predictor.frame(Frame({"a": x, "b": y}))
        assert list(frame.held["output_1"]) == [8, 8, 8]
        with pytest.raises(MXNetError, match="'a' has 3, 'b' has 2"):
            predictor(x, y[:2])
        with pytest.raises(MXNetError, match="has 2 inputs .a, b., got 1"):
            predictor(x)


class TestWorkers:
    def test_sizes_compile_few_times(self, images):
        predictor = Predictor(MODEL, batch_size=16)
        predictor(images)
        network = predictor._network()
        for count in range(1, 22):
            predictor(images[:count])
        assert predictor._network() is network
        assert len(network._cached) <= 5  # 1, 2, 4, 8, 16

    def test_a_pickle_holds_names_only(self, images, expected):
        packed = pickle.dumps(Predictor(MODEL).load())
        assert len(packed) < 1000
        assert np.array_equal(pickle.loads(packed)(images), expected)

    def test_networks_are_shared_in_a_process(self):
        assert Predictor(MODEL)._network() is Predictor(MODEL)._network()

    def test_files_that_change_are_loaded_again(self, tmp_path, images):
        for ending in ("-symbol.json", "-0000.params"):
            shutil.copy(f"{MODEL}{ending}", tmp_path / f"m{ending}")
        predictor = Predictor(tmp_path / "m")
        before = predictor(images)
        params = nd.load(str(tmp_path / "m-0000.params"))
        nd.save(str(tmp_path / "m-0000.params"), {name: 2 * p for name, p in params.items()})
        os.utime(tmp_path / "m-0000.params", ns=(1, 1))
        assert not np.array_equal(predictor(images), before)

    def test_threads_and_cache(self, tmp_path):
        code = (
            "import sys, hybridjit, numpy as np; from hybridjit.batch import Predictor\n"
            "p = Predictor(sys.argv[1], threads=2, cache_dir=sys.argv[2]).load()\n"
            "p(np.zeros((2, 1, 28, 28), 'float32'))\n"
            "print(hybridjit.get_num_threads())\n"
        )
        command = [sys.executable, "-c", code, str(MODEL), str(tmp_path)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert run.stdout == "2\n", run.stderr
        assert any(tmp_path.iterdir())


class TestErrors:
    def test_the_record_is_named(self, images):
        rows = [*images[:3], images[3, :, :20]]
        columns = {"data": rows, "path": ["a", "b", "c", "d.png"]}
        with pytest.raises(MXNetError, match=r"record 3 .'d.png'. of 'data' has shape \(1, 20, 28"):
            Predictor(MODEL, key="path")(columns)
        with pytest.raises(MXNetError, match=r"record 3 of 'data' has shape .*needs \(1, 28, 28"):
            Predictor(MODEL, shapes={"data": SHAPE})(columns)

    @pytest.mark.parametrize("bad", ["picture", None, b"\x89PNG", [[1], [1, 2]]])
    def test_a_record_that_is_no_array(self, images, bad):
        with pytest.raises(MXNetError, match="record 1 of 'data' is (not an array|missing)"):
            Predictor(MODEL)({"data": [images[0], bad]})

    def test_a_column_is_missing(self, images):
        with pytest.raises(
            MXNetError, match="has the input 'data', but the batch has only the columns 'image'"
        ):
            Predictor(MODEL)({"image": images})

    def test_files_are_missing(self, tmp_path):
        with pytest.raises(MXNetError, match="nothing-symbol.json: No such file"):
            Predictor(tmp_path / "nothing").load()

    def test_an_output_without_the_batch(self, tmp_path):
        net = nn.HybridLambda(lambda F, x: F.sum(x, axis=0))
        net.hybridize()
        net(nd.ones((2, 3)))
        net.export(str(tmp_path / "sum"))
        with pytest.raises(MXNetError, match="its first axis is not the batch"):
            Predictor(tmp_path / "sum")(np.ones((2, 3), "float32"))

    def test_names_of_outputs(self, images):
        with pytest.raises(MXNetError, match="has 1 outputs, got 2 names"):
            Predictor(MODEL, outputs=("a", "b"))(images)

    def test_batch_size(self):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            Predictor(MODEL, batch_size=0)
