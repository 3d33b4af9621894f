"""Existing MXNet programs run unchanged; data and pictures are prepared as MXNet does it."""

from __future__ import annotations

import gzip
import importlib
import struct
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import gluon, image, nd
from hybridjit.compat.absent import ABSENT, why_absent
from hybridjit.compat.placeholders import PLACEHOLDERS
from hybridjit.gluon import data
from hybridjit.gluon.data.vision import transforms
from patience import PATIENCE

ALIASES = """
    import hybridjit
    hybridjit.install_as_mxnet()
    hybridjit.install_as_mxnet()
    import mxnet
    import mxnet as mx
    from mxnet import nd, sym, gluon, init, autograd
    import mxnet.ndarray as ndarray
    import mxnet.symbol
    import mxnet.initializer
    import mxnet.gluon.model_zoo.vision as vision
    from mxnet.gluon import nn
    from mxnet.gluon.block import HybridBlock, SymbolBlock
    from mxnet.gluon.nn import Dense
    from mxnet.gluon.nn.basic_layers import BatchNorm
    from mxnet.gluon.nn.conv_layers import MaxPool2D
    from mxnet.gluon.parameter import Parameter
    from mxnet.gluon.data.vision.transforms import ToTensor
    from mxnet.ndarray.ndarray import NDArray, array
    from mxnet.symbol.symbol import Symbol, Variable
    from mxnet.context import cpu
    from mxnet.base import MXNetError
    from mxnet.contrib.ndarray import box_nms
    from mxnet import image as img

    assert mx.nd is nd is ndarray is hybridjit.nd and mxnet.symbol is hybridjit.sym is sym
    assert HybridBlock is hybridjit.gluon.HybridBlock and SymbolBlock is gluon.SymbolBlock
    assert NDArray is hybridjit.NDArray and array is nd.array and Symbol is hybridjit.Symbol
    assert nn.Dense is Dense and nn.BatchNorm is BatchNorm and nn.MaxPool2D is MaxPool2D
    assert mx.init is mxnet.initializer is init and mx.img is img and vision.__name__ == (
        "hybridjit.gluon.model_zoo.vision"
    )
    assert box_nms is nd.contrib.box_nms
    assert mx.__version__ == "1.9.1" and hybridjit.__version__ != mx.__version__
    assert (1, 4) <= tuple(int(n) for n in mx.__version__.split(".")[:2]) < (2, 0)
    assert hybridjit.nd.__spec__.name == "hybridjit.nd"
    assert mx.cpu() == cpu() and "gluon" in dir(mx) and MXNetError is hybridjit.MXNetError
    print("fine")
"""

# A file and its expected output: MXNet's code as people write it, nothing of hybridjit in it.
PROGRAM = """
    import sys
    import mxnet as mx
    import numpy as np
    from mxnet import autograd, gluon, lr_scheduler, nd
    from mxnet.gluon import Trainer, nn
    import neighbour

    class Schedule(lr_scheduler.LRScheduler):
        def __call__(self, update):
            return 0.1

    @mx.operator.register("mine")
    class Mine(mx.operator.CustomOpProp):
        pass

    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super(Net, self).__init__(**kwargs)
            with self.name_scope():
                self.body = nn.Dense(4, activation="relu")

        def hybrid_forward(self, F, x):
            return F.tanh(self.body(x))

    if __name__ == "__main__":
        net = Net()
        net.initialize(mx.init.Xavier(), ctx=mx.cpu())
        x = nd.array(np.ones((2, 3), dtype=np.float))
        eager = net(x)
        net.hybridize()
        assert nd.abs(net(x) - eager).max().asscalar() < 1e-6
        trainer = Trainer(net.collect_params(), "sgd", {"lr_scheduler": Schedule()})
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(2)
        assert trainer.learning_rate == 0.1
        print(sys.argv[1:], neighbour.__name__, __name__)
"""


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE
    )


def program(tmp_path: Path, text: str) -> str:
    (tmp_path / "program.py").write_text(textwrap.dedent(text))
    return str(tmp_path / "program.py")


def test_mxnet_is_hybridjits_own_modules(tmp_path):
    done = run(program(tmp_path, ALIASES))
    assert done.stdout == "fine\n", done.stderr


def test_importing_mxnet_enters_its_modules(tmp_path):
    """Packages for several frameworks look for these in ``sys.modules``."""
    text = """
        import mxnet, sys
        assert sys.modules["mxnet.ndarray"] is mxnet.nd
        assert sys.modules["mxnet.symbol"] is mxnet.sym
        print({"mxnet.gluon", "mxnet.autograd", "mxnet.context"} <= {*sys.modules})
    """
    done = run("-m", "hybridjit.run", program(tmp_path, text))
    assert done.stdout == "True\n", done.stderr


def test_a_program_runs_unchanged(tmp_path):
    (tmp_path / "neighbour.py").write_text("")
    done = run("-m", "hybridjit.run", program(tmp_path, PROGRAM), "a", "-b")
    assert done.stdout == "['a', '-b'] neighbour __main__\n", done.stderr


def test_a_module_runs_unchanged(tmp_path):
    program(tmp_path, "import sys, mxnet; print(mxnet.__version__, sys.argv[1:], __name__)")
    done = run("-m", "hybridjit.run", "-m", "program", "x", cwd=tmp_path)
    assert done.stdout == "1.9.1 ['x'] __main__\n", done.stderr


@pytest.mark.parametrize("module", ["mxnet.test_utils", "mxnet.gluon.utils", "mxnet.metric"])
def test_a_module_of_mxnet_runs(module, tmp_path):
    done = run("-m", "hybridjit.run", "-m", module, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


OLD_NUMPY = """
    import math
    import mxnet as mx
    import numpy as np
    from numpy import asscalar, float_

    assert np.float is float and np.object is object and np.unicode is str
    assert float_ is np.float64 and np.unicode_ is np.str_ and np.string_ is np.bytes_
    assert np.bool8 is np.bool_ and np.complex_ is np.complex128 and np.int0 is np.intp
    assert np.Inf == np.PINF == -np.NINF == math.inf and np.isnan(np.NaN)
    assert asscalar(np.array([1.5])) == 1.5 == asscalar(mx.nd.array([1.5]).asnumpy())
    assert np.in1d([[1, 2], [3, 4]], [2, 3]).tolist() == [False, True, True, False]
    assert np.row_stack(([1, 2], [3, 4])).shape == (2, 2) and np.trapz([1, 2, 3]) == 4
    assert np.product([2, 3]) == 6 and np.cumproduct([2, 3]).tolist() == [2, 6]
    assert np.sometrue([0, 1]) and not np.alltrue([0, 1]) and np.round_(1.26, 1) == 1.3
    assert np.msort([[3, 1], [2, 4]]).tolist() == [[2, 1], [3, 4]] and np.alen([[1, 2]]) == 1
    assert np.cast["float32"]([1, 2]).dtype == np.float32 and np.nbytes["int16"] == 2
    assert np.asfarray([1, 2]).dtype == float and np.asfarray([1], "f4").dtype == np.float32
    assert np.find_common_type([np.float32], [np.int64, np.float64]) == np.float32
    assert np.find_common_type([np.int32], [np.float32]) == np.float64
    assert np.find_common_type([], []) is None
    assert np.obj2sctype("f4") is np.float32 and np.issctype(np.int32) and not np.issctype(3)
    assert np.issubsctype("f4", np.floating) and not np.issubclass_(3, int)
    assert np.sctype2char("f4") == "f" and np.float16 in np.sctypes["float"]
    assert np.math.pi == math.pi and np.mat([[1, 2]]).shape == (1, 2) and np.rank([[1]]) == 2
    assert issubclass(np.AxisError, IndexError) and np.lib.pad is np.pad
    low, high = np.byte_bounds(np.zeros(3))
    assert high - low == 24

    found = np.fromstring(b"\\x01\\x02\\x03\\x04", dtype=np.uint8, count=3)
    found[0] = 7  # it is nobody else's
    assert found.tolist() == [7, 2, 3] and np.fromstring(b"").shape == (0,)
    assert np.fromstring("ab", np.uint8).tolist() == [97, 98]
    assert np.fromstring("1 2", sep=" ").tolist() == [1, 2]
    try:
        np.fromstring(b"abc", dtype=np.uint16)
    except ValueError as error:
        assert "multiple of element size" in str(error)
    assert "%f %d" % (mx.nd.array([1.5]), mx.nd.array([2])) == "1.500000 2"
    print("fine")
"""


def test_names_that_numpy_took_away(tmp_path):
    done = run("-m", "hybridjit.run", program(tmp_path, OLD_NUMPY))
    assert done.stdout == "fine\n", done.stderr


def test_names_that_python_took_away(tmp_path):
    text = (
        "import collections, time; print(issubclass(dict, collections.Mapping), time.clock() > 0)"
    )
    done = run("-m", "hybridjit.run", program(tmp_path, text))
    assert done.stdout == "True True\n", done.stderr


def test_submodules_of_packages_that_mxnet_had_loaded(tmp_path):
    text = (
        "import multiprocessing, urllib, http, importlib\n"
        "import mxnet\n"
        "print(multiprocessing.pool.Pool, urllib.request.urlopen, http.client, importlib.util)\n"
        "multiprocessing.pools\n"
    )
    done = run("-m", "hybridjit.run", program(tmp_path, text))
    assert done.stdout.startswith("<class 'multiprocessing.pool.Pool'>")
    assert "module 'multiprocessing' has no attribute 'pools'" in done.stderr


def test_numpys_names_are_left_alone_without_the_program(tmp_path):
    text = "import hybridjit, numpy as np; print('product' in vars(np), 'float_' in vars(np))"
    has = {name: str(name in vars(np)) for name in ("product", "float_")}
    assert run(program(tmp_path, text)).stdout.split() == list(has.values())


@pytest.mark.parametrize("arguments", [[], ["nowhere.py"], ["--what"]])
def test_run_prints_its_usage_for_wrong_arguments(arguments):
    done = run("-m", "hybridjit.run", *arguments)
    assert done.returncode == 2 and "hybridjit.run" in done.stderr and not done.stdout


def test_another_mxnet_loses_unless_it_was_first(tmp_path):
    (tmp_path / "mxnet.py").write_text("__version__ = 'other'")
    text = """
        import hybridjit
        hybridjit.install_as_mxnet()
        import mxnet
        assert mxnet.__version__ == "1.9.1"
    """
    assert run(program(tmp_path, text)).returncode == 0
    done = run(program(tmp_path, "import mxnet\n" + textwrap.dedent(text)))
    assert "ImportError" in done.stderr and "call it before the first" in done.stderr


UNKNOWN = """
    import hybridjit
    hybridjit.install_as_mxnet()
    import mxnet as mx

    def refused(statement):
        try:
            exec(statement)
        except ImportError as error:
            assert not isinstance(error, AttributeError)
            return str(error)

    # MXNet's, not here: why, and what to do.
    for statement in ["from mxnet import rtc", "import mxnet.tvmop"]:
        assert "hybridjit" in refused(statement) and ":" in refused(statement), statement
    assert not hasattr(mx, "rtc") and hasattr(mx.nd, "relu")
    from mxnet import np, npx
    import mxnet.numpy, mxnet.numpy_extension
    assert mxnet.numpy is np is mx.np and mxnet.numpy_extension is npx
    from mxnet.numpy import linalg
    assert linalg is np.linalg
    # In neither: Python's own words.
    for statement in ["from mxnet import blob", "from mxnet.gluon.nn import Blob"]:
        assert "cannot import name" in refused(statement), statement
    assert "No module named 'mxnet.blob'" in refused("import mxnet.blob")
    print("fine")
"""


def test_names_that_are_not_here(tmp_path):
    done = run(program(tmp_path, UNKNOWN))
    assert done.stdout == "fine\n", done.stderr


def module_at(path: str):
    return importlib.import_module(f"hybridjit.{path}" if path else "hybridjit")


# Undocumented names that gluon-ts, gluon-nlp and others import.
PACKAGES = """
    import hybridjit
    hybridjit.install_as_mxnet()
    import mxnet as mx
    from mxnet.base import NDArrayHandle, py_str
    from mxnet.contrib.amp import amp
    from mxnet.executor_manager import _split_input_slice
    from mxnet.gluon.block import _flatten
    from mxnet.gluon.loss import _reshape_like
    from mxnet.gluon.contrib.estimator.event_handler import TrainBegin
    from mxnet.gluon.data.dataloader import ForkingPickler, _as_in_context
    from mxnet.gluon.model_zoo import model_store
    from mxnet.gluon.utils import _get_repo_file_url, _get_repo_url
    from mxnet.initializer import *
    from mxnet.io import io
    from mxnet.metric import check_label_shapes, ndarray
    from mxnet.ndarray.utils import load, save
    from mxnet.ndarray.contrib import adamw_update, mp_adamw_update
    from mxnet.ndarray.ndarray import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX, _GRAD_REQ_MAP, py_slice
    from mxnet.ndarray.ndarray import _STORAGE_TYPE_CSR, _STORAGE_TYPE_ID_TO_STR
    from mxnet.ndarray.ndarray import _STORAGE_TYPE_STR_TO_ID
    from mxnet.symbol import symbol
    import numpy as np

    assert py_slice is slice and _STORAGE_TYPE_STR_TO_ID["csr"] == 2 == _STORAGE_TYPE_CSR
    assert _STORAGE_TYPE_ID_TO_STR == {-1: "undefined", 0: "default", 1: "row_sparse", 2: "csr"}
    assert _DTYPE_NP_TO_MX[np.int64] == 6 and _DTYPE_NP_TO_MX[None] == -1
    assert _DTYPE_MX_TO_NP[2] is np.float16 and symbol._DTYPE_MX_TO_NP is _DTYPE_MX_TO_NP
    assert _GRAD_REQ_MAP == {"null": 0, "write": 1, "add": 3}

    x, s = mx.nd.ones((1,)), mx.sym.var("s")
    assert _reshape_like(mx.nd, mx.nd.ones(4), mx.nd.ones((2, 2))).shape == (2, 2)
    assert _flatten([x, (s, None)], "input") == ([x, s, None], [0, [0, -1]])
    assert isinstance(x, mx.gluon.tensor_types) and isinstance(s, mx.gluon.tensor_types)
    assert not amp._amp_initialized and ndarray is mx.nd
    assert random is mx.random and Xavier is mx.init.Xavier
    assert io.DataBatch is mx.io.DataBatch and load is mx.nd.load
    (moved,) = _as_in_context((x,), mx.cpu(1))
    assert moved.context == mx.cpu(1) and x.context == mx.cpu(0)
    model_store._model_sha1.update({"my_model": "0123456789abcdef"})
    assert model_store.short_hash("my_model") == "01234567"
    assert _get_repo_file_url("a/b", "c.zip") == _get_repo_url() + "a/b/c.zip"
    assert adamw_update is mx.nd.contrib.adamw_update is not mp_adamw_update
    print("fine")
"""


def test_names_that_packages_import(tmp_path):
    done = run(program(tmp_path, PACKAGES))
    assert done.stdout == "fine\n", done.stderr


# Private functions of MXNet that public programs call, and what MXNet returns.
PRIVATE_FUNCTIONS = """
    import hybridjit
    hybridjit.install_as_mxnet()
    import mxnet as mx
    import numpy as np
    from mxnet.base import _LIB, _Null, _NullType, c_array_buf, c_handle_array, c_str_array, mx_uint
    from mxnet.contrib.onnx.onnx2mx.import_model import get_model_metadata, import_model
    from mxnet.contrib.onnx.onnx2mx.import_to_gluon import import_to_gluon
    from mxnet.gluon.data.dataloader import _thread_worker_initializer
    from mxnet.gluon.data.dataset import _DownloadedDataset
    from mxnet.gluon.nn.conv_layers import _infer_weight_shape, _Pooling
    from mxnet.gluon.rnn.rnn_cell import _cells_begin_state, _cells_state_info, _format_sequence
    from mxnet.gluon.rnn.rnn_cell import _get_begin_state, _mask_sequence_variable_length
    from mxnet.gluon.rnn.rnn_cell import _reverse_sequences
    from mxnet.gluon.utils import _brief_print_list, _indent
    from mxnet.io import _init_data
    from mxnet.io.utils import _getdata_by_idx, _has_instance
    from mxnet.model import _multiple_callbacks

    x = mx.nd.arange(12).reshape((2, 3, 2))
    steps, axis, F, batch = _format_sequence(3, x, "NTC", False)
    assert (len(steps), axis, F, batch) == (3, 1, mx.nd, 2) and steps[1].shape == (2, 2)
    assert _format_sequence(None, x, "NTC", None)[0] is x
    cell = mx.gluon.rnn.LSTMCell(4)
    assert [s.shape for s in _get_begin_state(cell, F, None, x, 2)] == [(2, 4)] * 2
    assert len(_cells_begin_state([cell, cell], batch_size=2)) == 4
    assert _cells_state_info([cell], 3)[1] == {"shape": (3, 4), "__layout__": "NC"}
    kept = _mask_sequence_variable_length(F, steps, 3, mx.nd.array([1, 3]), 1, True)
    assert kept[:, :, 0].asnumpy().tolist() == [[0, 0, 0], [6, 8, 10]]
    turned = _reverse_sequences(steps, 3, mx.nd.array([2, 3]))
    assert turned[0][:, 0].asnumpy().tolist() == [2, 10]
    assert _indent("a\\nb", 2) == "a\\n  b"
    assert _brief_print_list(range(9)) == "'0', '1', '2', ..., '5', '6', '7', '8'"
    pair = _init_data([np.zeros(2), np.ones(2)], allow_empty=False, default_name="data")
    assert [name for name, _ in pair] == ["_0_data", "_1_data"]
    assert _init_data(None, True, "x") == []
    assert _has_instance(pair, mx.nd.NDArray) and not _has_instance(pair, str)
    assert _getdata_by_idx(_init_data(np.arange(4), False, "data"), [2, 0])[0][1][0] == 2
    seen = []
    _multiple_callbacks([seen.append, seen.append], 1), _multiple_callbacks(None, 2)
    assert seen == [1, 1]
    shape = (2, 3, 8, 8)
    sizes = _infer_weight_shape("Convolution", shape, dict(kernel=(3, 3), num_filter=4))
    assert sizes == [shape, (4, 3, 3, 3), (4,)]
    pool = _Pooling((2, 2), None, 0, True, False, "avg", "NCHW")
    assert pool(mx.nd.ones(shape)).shape == (2, 3, 4, 4)
    _thread_worker_initializer(True, True)
    assert mx.util.is_np_array()
    _thread_worker_initializer(False, False)

    class Squares(_DownloadedDataset):
        def _get_data(self):
            self._data, self._label = [1, 4], [0, 1]

    assert Squares("folder/in", lambda *pair: pair)[1] == (4, 1)
    assert len(Squares("folder", None)) == 2
    assert mx.nd.sum(x, axis=_Null, keepdims=_Null).shape == (1,)
    assert mx.sym.BatchNorm(mx.sym.var("x"), eps=_Null).tojson() == mx.sym.BatchNorm(
        mx.sym.var("x"), name="batchnorm0").tojson()
    for use in (lambda: _LIB.MXSetNumOMPThreads(2), lambda: c_str_array(["a"])):
        try:
            use()
        except (AttributeError, mx.MXNetError) as error:
            assert "calls MXNet's C library" in str(error)
        else:
            raise AssertionError("MXNet's library was called")
    print("fine")
"""


def test_private_functions_that_programs_call(tmp_path):
    done = run(program(tmp_path, PRIVATE_FUNCTIONS), cwd=tmp_path)
    assert done.stdout == "fine\n", done.stderr


STARS = """
    import hybridjit
    hybridjit.install_as_mxnet()
    from mxnet.test_utils import *
    assert mx.__version__ == "1.9.1" and os.path and sys.path and time.time and logging.info
    from mxnet.contrib.quantization import *
    assert cpu() == mx.cpu() and np.ones(1) and warnings.warn
    from mxnet.ndarray import *
    assert FullyConnected is mx.nd.FullyConnected and zeros is mx.nd.zeros
    assert contrib is mx.nd.contrib
    from mxnet.symbol import *
    assert FullyConnected is mx.sym.FullyConnected and Variable is mx.sym.Variable
    assert broadcast_add and SoftmaxOutput and "box_nms" in mx.sym.contrib.__all__
    print("fine")
"""


def test_stars_import_what_mxnet_has(tmp_path):
    done = run(program(tmp_path, STARS))
    assert done.stdout == "fine\n", done.stderr


def test_nothing_absent_is_present():
    for modules, _, _ in ABSENT:
        for path in modules:
            present = [name for name in dir(module_at(path)) if why_absent(path, name)]
            assert not present, f"{path}: {present} are there and listed as absent"


@pytest.mark.parametrize("path", PLACEHOLDERS)
def test_placeholders_can_be_derived_from_and_say_why_not(path):
    names, reason = PLACEHOLDERS[path]
    for name in names:
        derived = type("Derived", (getattr(module_at(path), name),), {})
        with pytest.raises(mx.MXNetError, match=f"{path}.{name} .*hybridjit") as error:
            derived("sgd", learning_rate=1)
        assert reason in str(error.value)


class TestData:
    def test_datasets_index_filter_and_transform(self):
        pairs = data.ArrayDataset(np.arange(10), list(range(10, 20)))
        assert pairs[3] == (3, 13) and len(pairs) == 10
        assert data.ArrayDataset(nd.arange(4))[1] == 1.0
        numbers = data.SimpleDataset(list(range(10)))
        assert list(numbers.filter(lambda x: x % 2)) == [1, 3, 5, 7, 9]
        assert [list(numbers.shard(3, i)) for i in range(3)] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
        assert list(numbers.take(2)) == [0, 1] and len(numbers.take(None)) == 10
        assert pairs.transform(lambda a, b: a + b)[1] == 12
        assert pairs.transform_first(lambda a: -a, lazy=False)[2] == (-2, 12)
        with pytest.raises(AssertionError, match="must have the same length"):
            data.ArrayDataset(np.arange(3), [1])
        with pytest.raises(TypeError, match="Invalid sampler type"):
            numbers.sample(3)

    @pytest.mark.parametrize(
        "last_batch, rounds",
        [
            ("keep", [[[0, 1, 2], [3, 4, 5], [6]]] * 2),
            ("discard", [[[0, 1, 2], [3, 4, 5]]] * 2),
            ("rollover", [[[0, 1, 2], [3, 4, 5]], [[6, 0, 1], [2, 3, 4]]]),
        ],
    )
    def test_batch_sampler_treats_the_last_batch_as_requested(self, last_batch, rounds):
        sampler = data.BatchSampler(data.SequentialSampler(7), 3, last_batch)
        for batches in rounds:
            assert len(sampler) == len(batches) and list(sampler) == batches

    def test_loader_stacks_pairs_with_workers(self):
        pairs = data.ArrayDataset(np.arange(10.0), [nd.full((2,), i) for i in range(10)])
        loader = data.DataLoader(pairs, 4, num_workers=2, pin_memory=True)
        batches = list(loader)
        assert len(loader) == len(batches) == 3 and loader is not batches
        numbers, arrays = batches[1]
        assert numbers.dtype == np.float64 and arrays.dtype == np.float32
        assert arrays.asnumpy().tolist() == [[4, 4], [5, 5], [6, 6], [7, 7]]
        shuffled = [x for batch in data.DataLoader(range(50), 7, shuffle=True) for x in batch]
        seen = [int(x.asscalar()) for x in shuffled]
        assert sorted(seen) == list(range(50)) != seen
        with pytest.raises(ValueError, match="batch_size must be specified"):
            data.DataLoader(pairs)
        with pytest.raises(ValueError, match="shuffle must not be specified"):
            data.DataLoader(pairs, 2, shuffle=True, sampler=data.SequentialSampler(3))


class TestPictures:
    """Files as the data sets' authors made them, with a few pictures."""

    def test_mnist_reads_compressed_and_plain_files(self, tmp_path):
        pixels = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
        packed = gzip.compress(struct.pack(">4I", 0x803, 3, 28, 28) + pixels.tobytes())
        (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(packed)
        labels = tmp_path / "t10k-labels-idx1-ubyte"
        labels.write_bytes(struct.pack(">2I", 0x801, 3) + bytes([7, 2, 1]))
        digits = data.vision.MNIST(str(tmp_path), train=False)
        digit, label = digits[1]
        assert len(digits) == 3 and label == 2 and label.dtype == np.int32
        assert digit.dtype == np.uint8 and (digit.asnumpy()[:, :, 0] == pixels[1]).all()
        labels.write_bytes(struct.pack(">2I", 0x801, 4) + bytes([7, 2, 1]))
        with pytest.raises(mx.MXNetError, match="not an IDX file of bytes with 1 axes"):
            data.vision.MNIST(str(tmp_path), train=False)
        with pytest.raises(mx.MXNetError, match="train-images.*is missing.*get it from"):
            data.vision.FashionMNIST(str(tmp_path))

    @pytest.mark.parametrize(
        ("name", "folder"),
        [("MNIST", "mnist"), ("FashionMNIST", "fashion-mnist")]
        + [("CIFAR10", "cifar10"), ("CIFAR100", "cifar100")],
    )
    def test_the_folder_of_all_data(self, name, folder, tmp_path, monkeypatch):
        monkeypatch.setenv("MXNET_HOME", str(tmp_path))
        with pytest.raises(mx.MXNetError, match=f"in {tmp_path}/datasets/{folder}, and"):
            getattr(data.vision, name)()
        monkeypatch.delenv("MXNET_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        with pytest.raises(mx.MXNetError, match=f"in {tmp_path}/home/.mxnet/datasets/{folder}, "):
            getattr(data.vision, name)()

    def test_cifar100_reads_fine_and_coarse_labels(self, tmp_path):
        rows = np.arange(4 * 3074, dtype=np.int64).astype(np.uint8).reshape(4, 3074)
        rows.tofile(tmp_path / "test.bin")
        for fine in (False, True):
            picture, label = data.vision.CIFAR100(str(tmp_path), fine, train=False)[2]
            assert label == rows[2, int(fine)] and picture.shape == (32, 32, 3)
            assert picture.asnumpy()[1, 3].tolist() == rows[2, [37, 37 + 1024, 37 + 2048]].tolist()
        (tmp_path / "test_batch.bin").write_bytes(bytes(3074))
        with pytest.raises(mx.MXNetError, match="multiple of 3073 bytes, got 3074"):
            data.vision.CIFAR10(str(tmp_path), train=False)

    def test_a_folder_for_each_class(self, tmp_path, monkeypatch):
        for name in ("cat/b.jpg", "cat/a.PNG", "dog/c.jpeg", "dog/notes.txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(b"")
        with pytest.warns(UserWarning, match="notes.txt of type .txt"):
            folders = data.vision.ImageFolderDataset(str(tmp_path), flag=0)
        assert folders.synsets == ["cat", "dog"]
        names = [(path.rpartition("/")[2], label) for path, label in folders.items]
        assert names == [("a.PNG", 0), ("b.jpg", 0), ("c.jpeg", 1)]
        monkeypatch.setattr(image, "imread", lambda path, flag: f"{path[-6:]} {flag}")
        assert folders[2] == ("c.jpeg 0", 1)


def picture(height: int = 5, width: int = 7, dtype: str = "uint8") -> nd.NDArray:
    """Numbers of a congruential generator, the same everywhere."""
    count = np.arange(height * width * 3, dtype=np.int64)
    return nd.array((count * count * 7919 + count * 104729) % 256, dtype=dtype).reshape(
        (height, width, 3)
    )


class TestTransforms:
    def test_transforms_prepare_images_for_imagenet_networks(self):
        steps = [transforms.Resize(6, keep_ratio=True), transforms.CenterCrop(4)]
        steps += [transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), (1, 2, 4))]
        x = picture(9, 12)
        y = transforms.Compose([*steps, transforms.Cast("float16")])(x)
        assert y.shape == (3, 4, 4) and y.dtype == np.float16
        resized = nd.image.resize(x, size=(8, 6)).asnumpy()
        expected = resized[1:5, 2:6].transpose(2, 0, 1) / 255
        expected = (expected - np.array([0.1, 0.2, 0.3])[:, None, None]) / np.array(
            [1, 2, 4]
        ).reshape(3, 1, 1)
        np.testing.assert_allclose(y.asnumpy(), expected, atol=1e-3)

    def test_part_of_a_network(self):
        net = gluon.nn.HybridSequential()
        net.add(transforms.CropResize(1, 0, 4, 3, (6, 8)), transforms.ToTensor())
        net.add(transforms.Normalize(0.5, 2))
        x = nd.stack(picture(), picture())
        eager = net(x)
        net.hybridize()
        assert eager.shape == (2, 3, 8, 6)
        np.testing.assert_allclose(net(x).asnumpy(), eager.asnumpy(), rtol=1e-6)

    def test_functions_are_transforms_too(self):
        assert transforms.Compose([lambda x: x + 1, lambda x: x * 2])(nd.ones((1,))).asscalar() == 4


# Rows of the second channel of picture() in another (width, height): results of MXNet 1.9.1.
RESIZED = [
    (0, (3, 4), [[8, 110, 12], [2, 172, 142], [106, 88, 126], [64, 114, 220]]),
    (1, (3, 4), [[71, 82, 172], [176, 83, 155], [136, 90, 100], [102, 101, 157]]),
    (2, (3, 4), [[69, 82, 185], [212, 83, 158], [148, 89, 70], [84, 101, 159]]),
    (3, (3, 4), [[70, 80, 162], [143, 115, 159], [122, 121, 126], [123, 156, 153]]),
    (4, (3, 4), [[65, 80, 189], [215, 86, 159], [145, 92, 59], [71, 99, 154]]),
    (0, (5, 2), [[8, 84, 110, 12, 144], [106, 250, 88, 126, 70]]),
    (1, (5, 2), [[43, 174, 62, 134, 180], [86, 132, 75, 163, 123]]),
    (
        2,
        (9, 2),
        [[0, 141, 219, 139, 53, 92, 159, 189, 175], [74, 82, 126, 133, 66, 198, 159, 89, 121]],
    ),
    (
        3,
        (9, 6),
        [
            [8, 62, 95, 107, 86, 23, 87, 167, 226],
            [3, 150, 188, 145, 60, 108, 148, 175, 179],
            [64, 194, 193, 119, 101, 128, 122, 138, 199],
            [89, 165, 154, 99, 105, 155, 110, 102, 182],
            [77, 100, 123, 131, 72, 190, 142, 103, 129],
            [132, 101, 157, 229, 106, 159, 175, 169, 142],
        ],
    ),
    (
        4,
        (2, 9),
        [
            [80, 89],
            [147, 138],
            [247, 183],
            [255, 139],
            [228, 63],
            [160, 62],
            [124, 121],
            [122, 173],
            [133, 196],
        ],
    ),
]


class TestImage:
    @pytest.mark.parametrize("method, size, expected", RESIZED)
    def test_resized_as_mxnet_does(self, method, size, expected):
        resized = image.imresize(picture(), *size, method)
        assert resized[:, :, 1].asnumpy().tolist() == expected

    def test_crops_equal_slices(self):
        x = picture()
        cropped, place = image.center_crop(x, (3, 2))
        assert place == (2, 1, 3, 2)
        assert (cropped.asnumpy() == x.asnumpy()[1:3, 2:5]).all()
        enlarged, place = image.center_crop(x, (10, 3))
        assert enlarged.shape == (3, 10, 3) and place == (0, 1, 7, 2)
        assert image.scale_down((7, 5), (10, 20)) == (2, 5)
        assert image.random_crop(x, (3, 3))[0].shape == (3, 3, 3)

    @pytest.mark.parametrize("size, expected", [((10, 20), (13, 26)), ((47, 33), (18, 13))])
    def test_the_short_side(self, size, expected):
        assert image.resize_short(nd.zeros((*size, 3)), 13).shape == (*expected, 3)

    @pytest.mark.parametrize(
        "kind, row",
        [
            (0, [9, 9, 9, 9]),
            (1, [0, 0, 3, 3]),
            (2, [0, 0, 3, 3]),
            (3, [9, 6, 9, 6]),
            (4, [9, 6, 9, 6]),
        ],
    )
    def test_borders_follow_their_kind(self, kind, row):
        x = nd.arange(12).reshape((2, 2, 3))
        bordered = image.copyMakeBorder(x, 1, 1, 1, 1, kind, 9)
        assert bordered.shape == (4, 4, 3) and bordered[0, :, 0].asnumpy().tolist() == row

    def test_normalized_in_place(self):
        x = nd.ones((2, 2, 3))
        assert image.color_normalize(x, nd.array([1, 2, 3]), nd.array([1, 2, 4])) is x
        assert x[0, 0].asnumpy().tolist() == [0, -0.5, -0.5]

    def test_decoding_raises_for_other_data(self, tmp_path):
        with pytest.raises(ValueError, match="bytes, bytearray or numpy.ndarray"):
            image.imdecode("text")
        with pytest.raises(mx.MXNetError, match="empty"):
            image.imdecode(b"")
        with pytest.raises(mx.MXNetError, match="nowhere.jpg"):
            image.imread(str(tmp_path / "nowhere.jpg"))

    def test_order_of_colours(self, monkeypatch, tmp_path):
        """Images of OpenCV's decoder in BGR order arrive in RGB order."""
        blue_first = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        flags = {"IMREAD_COLOR": 1, "IMREAD_GRAYSCALE": 0, "IMREAD_IGNORE_ORIENTATION": 128}
        decoder = types.SimpleNamespace(**flags)
        monkeypatch.setitem(sys.modules, "cv2", decoder)
        decoder.imdecode = lambda data, mode: blue_first if mode & 1 else blue_first[:, :, 0]
        (tmp_path / "a.png").write_bytes(b"anything")
        read = image.imread(str(tmp_path / "a.png"))
        assert read.dtype == np.uint8 and (read.asnumpy() == blue_first[:, :, ::-1]).all()
        assert (image.imdecode(b"anything", to_rgb=0).asnumpy() == blue_first).all()
        assert image.imdecode(b"anything", 0).shape == (2, 4, 1)
        decoder.imdecode = lambda data, mode: None
        with pytest.raises(mx.MXNetError, match="a.png: Decoding failed"):
            image.imread(str(tmp_path / "a.png"))

    def test_without_a_decoder(self, monkeypatch):
        for name in ("cv2", "PIL", "PIL.Image"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(mx.MXNetError, match="pip install pillow"):
            image.imdecode(b"\x89PNG")


def test_downloads_are_left_to_the_user(tmp_path):
    url, file = "https://example.org/net.params", tmp_path / "net.params"
    with pytest.raises(mx.MXNetError, match="save https.* as .*net.params"):
        gluon.utils.download(url, path=str(tmp_path))
    file.write_bytes(b"abc")
    sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d"
    assert gluon.utils.download(url, path=str(tmp_path), sha1_hash=sha1) == str(file)
    with pytest.raises(mx.MXNetError, match="does not have the SHA-1"):
        gluon.utils.download(url, path=str(file), sha1_hash="0" * 40)
