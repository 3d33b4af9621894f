"""The nd and sym namespaces: every operator a documented function; names, contexts, the package."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd, sym
from hybridjit.name import NameManager, Prefix
from hybridjit.nd.ndarray import FUNCTIONS as ND_FUNCTIONS
from hybridjit.ops import all_names, all_ops, lookup
from hybridjit.ops.namespace import FLUENT, SUBMODULES, input_slots, is_variadic
from hybridjit.sym.symbol import FUNCTIONS as SYM_FUNCTIONS

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
NAMESPACES = [pytest.param(nd, ND_FUNCTIONS, id="nd"), pytest.param(sym, SYM_FUNCTIONS, id="sym")]


def test_public_operators_are_mxnets():
    """An operator that passes make says so (``internal``): its operands are not checked."""
    fixture = Path(__file__).parent.parent / "fixtures" / "mxnet_operators.txt"
    mxnets = set(fixture.read_text(encoding="utf-8").split())
    ours = set(all_names())  # which loads the operators of NumPy mode
    aliases = sys.modules["hybridjit.ops.numpy_mode.aliases"]
    # MXNet has nd.linalg.syevd alone, graphs of gradients, and resize as a custom operator
    other = {"linalg_syevd", "_grad_add", "_npi_resize_fallback"}
    other |= {"_npx_index_add", "_npx_index_update"}  # MXNet 2.0's
    assert ours - mxnets <= other | set(aliases.LATER)
    assert len(mxnets & ours) > 450


@pytest.mark.parametrize("module, functions", NAMESPACES)
class TestNamespace:
    def test_every_name_is_there(self, module, functions):
        for name, op in all_names().items():
            place = module._internal if name.startswith("_") else module
            assert callable(getattr(place, name)), name
            for room in SUBMODULES:
                if name.startswith(f"_{room}_"):
                    assert callable(getattr(getattr(module, room), name[len(room) + 2 :])), name
            assert op is lookup(name)

    def test_functions_are_documented(self, module, functions):
        for name, function in functions[""].items():
            op = lookup(name)
            assert function.__name__ == name
            assert function.__module__.startswith(module.__name__)
            assert function.__doc__.startswith(op.doc)
            parameters = list(inspect.signature(function).parameters)
            first = ("data",) if is_variadic(op) else input_slots(op)
            assert parameters[: len(first)] == list(first)
            assert all(attr.name in parameters for attr in op.attrs)
            assert "name" in parameters and "out" in parameters

    def test_arrays_and_symbols_have_fluent_methods(self, module, functions):
        cls = nd.NDArray if module is nd else sym.Symbol
        for name in FLUENT:
            assert callable(getattr(cls, name)), name

    def test_looks_like_a_module(self, module, functions):
        assert isinstance(module, ModuleType)
        assert "relu" in dir(module)
        assert "box_nms" in dir(module.contrib)
        assert module.op.relu is module.relu
        with pytest.raises(AttributeError):
            module.no_such_operator  # noqa: B018


DICTIONARIES = """
    import threading
    import hybridjit
    from hybridjit import nd, sym
    from hybridjit.nd.ndarray import FUNCTIONS

    assert not FUNCTIONS["contrib"]._made and len(FUNCTIONS[""]._made) < 20  # as import leaves it
    own, seen = nd.contrib.foreach, []
    for F in (nd, sym):
        threads = [threading.Thread(target=lambda: seen.append("box_decode" in F.contrib.__dict__))
                   for _ in range(8)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        for room in (F, F.contrib, F.linalg, F.image, F.random, F.sparse, F.op, F._internal):
            names = vars(room)
            assert names is room.__dict__ and set(dir(room)) <= names.keys(), room
            assert all(names[name] is getattr(room, name) for name in names)
    assert seen == [True] * 16
    assert "box_nms" in vars(nd.contrib) and "box_nms" not in vars(nd) and "relu" in vars(sym)
    assert nd.contrib.foreach is own is vars(nd.contrib)["foreach"]
    from hybridjit.nd.contrib import *
    assert box_nms is nd.contrib.box_nms
    hybridjit.install_as_mxnet()
    import mxnet
    assert {"nd", "sym", "gluon", "cpu"} <= vars(mxnet).keys() and vars(mxnet)["nd"] is nd
    assert mxnet.__dict__["__version__"] == "1.9.1" and "__path__" in vars(mxnet)
    print("fine")
"""


def test_names_stand_in_the_modules_dictionaries():
    """Lazily created names can be looked up, as gluon-cv does to choose between operators."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DICTIONARIES)], capture_output=True, text=True
    )
    assert done.stdout == "fine\n", done.stderr


def test_nd_and_sym_have_their_specific_names():
    for name in ("add", "subtract", "equal", "logical_xor", "array", "empty", "moveaxis", "save"):
        assert hasattr(nd, name) and not hasattr(sym, name), name
    for name in ("var", "Variable", "Group", "load_json", "pow", "hypot"):
        assert hasattr(sym, name) and not hasattr(nd, name), name


def test_slots_of_optional_inputs():
    assert input_slots(lookup("FullyConnected")) == ("data", "weight", "bias")
    assert input_slots(lookup("LeakyReLU")) == ("data", "gamma")
    assert input_slots(lookup("Concat")) == ()
    assert input_slots(lookup("RNN")) == (
        "data",
        "parameters",
        "state",
        "state_cell",
        "sequence_length",
    )


def test_every_operator_can_be_called():
    """Each function sorts its tensors under names that the operator knows."""
    for op in all_ops():
        if op.internal or is_variadic(op) or not callable(op.inputs):
            continue
        known = input_slots(op)
        assert len(set(known)) == len(known)
        required = {a.name: (a.choices or ("1",))[0] for a in op.attrs if a.required}
        names = op.input_names(op.parse(required))
        assert set(names) <= set(known), op.name


def test_stubs_are_fresh():
    sys.path.insert(0, str(TOOLS))
    try:
        import gen_stubs  # noqa: PLC0415
    finally:
        sys.path.remove(str(TOOLS))
    for path, text in gen_stubs.stubs().items():
        assert path.read_text() == text, f"{path.name} is stale: run python tools/gen_stubs.py"


# The package


def test_public_names():
    assert mx.ndarray is mx.nd and mx.symbol is mx.sym and mx.init is mx.initializer
    assert mx.nd.__name__ == "hybridjit.nd"
    assert issubclass(mx.MXNetError, RuntimeError)
    assert mx.base.MXNetError is mx.MXNetError
    assert mx.NDArray is nd.NDArray and mx.Symbol is sym.Symbol
    for name in mx.__all__:
        assert hasattr(mx, name), name
    assert mx.__version__


@pytest.mark.parametrize(
    "line",
    [
        "from hybridjit import nd, sym, gluon, autograd, init",
        "from hybridjit.gluon import nn",
        "from hybridjit import ndarray as nd, symbol as sym",
        "from hybridjit.ndarray import NDArray",
        "from hybridjit.symbol import Symbol",
        "import hybridjit.ndarray as nd; nd.zeros((1,))",
        "import hybridjit.symbol as sym; sym.var('x')",
        "from hybridjit.base import MXNetError",
        "from hybridjit.context import cpu, Context",
        "from hybridjit.name import NameManager, Prefix",
        "from hybridjit.attribute import AttrScope",
        "import hybridjit.random; hybridjit.random.seed(1)",
        "from hybridjit.nd import linalg, contrib, random",
        "from hybridjit.model import load_checkpoint",
        "from hybridjit.util import is_np_array; assert is_np_array() is False",
        "import hybridjit.numpy as np; assert np is mx.np is mx.numpy",
        "import hybridjit.numpy.random as r, hybridjit.numpy.linalg; assert r is mx.np.random",
        "from hybridjit.numpy.multiarray import zeros_like; assert zeros_like is mx.np.zeros_like",
        "import hybridjit.numpy_extension as npx; assert npx is mx.npx",
        "import hybridjit.ndarray.utils, hybridjit.io.utils",
        "import hybridjit.contrib.onnx as onnx; assert onnx is mx.onnx is mx.contrib.onnx",
        "import hybridjit.contrib.ndarray, hybridjit.contrib.symbol",
    ],
)
def test_import_lines(line):
    exec(line, {"mx": mx})


# Contexts


def test_contexts_compare_by_type_and_number():
    assert mx.cpu() == mx.cpu(0) == mx.Context("cpu") == mx.Context(mx.cpu())
    assert mx.cpu(1) != mx.cpu(0) and mx.cpu() != mx.cpu_pinned() and mx.cpu() != "cpu"
    assert [repr(c) for c in (mx.cpu(), mx.gpu(1), mx.cpu_pinned())] == [
        "cpu(0)",
        "gpu(1)",
        "cpu_pinned(0)",
    ]
    assert (mx.gpu().device_type, mx.gpu().device_typeid, mx.gpu(3).device_id) == ("gpu", 2, 3)
    assert len({mx.cpu(), mx.cpu(0), mx.cpu(1)}) == 2
    assert mx.num_gpus() == mx.context.num_gpus() == 0
    with pytest.raises(KeyError, match="unknown device type 'tpu'"):
        mx.Context("tpu")


def test_current_context():
    assert mx.current_context() == mx.Context.default_ctx == mx.cpu(0)
    with mx.cpu(1), mx.cpu(2):
        assert mx.current_context() == mx.cpu(2)
    with pytest.raises(KeyError), mx.cpu(1):
        raise KeyError
    assert mx.current_context() == mx.cpu(0)


def test_the_current_context_is_assigned_by_mxnets_names():
    try:
        mx.Context.default_ctx = mx.cpu(3)
        assert mx.current_context() == mx.cpu(3) == mx.Context._default_ctx.value
        with mx.cpu(1) as inner:
            mx.Context._default_ctx.value = mx.cpu(4)
            assert nd.ones(1).context == mx.cpu(4)
            mx.Context.default_ctx = inner
        assert mx.current_context() == mx.cpu(3)
        with pytest.raises(TypeError, match="Context"):
            mx.Context.default_ctx = "cpu"
    finally:
        mx.Context.default_ctx = mx.cpu()


def test_gpus_are_names_only():
    for call in (
        lambda: nd.ones((1,), ctx=mx.gpu()),
        lambda: nd.array([1], ctx=mx.gpu()),
        lambda: nd.ones((1,)).as_in_context(mx.gpu()),
        lambda: nd.ones((1,)).copyto(mx.gpu()),
    ):
        with pytest.raises(mx.MXNetError, match="not implemented for GPU"):
            call()


# Names


def test_names_are_shared_by_the_process():
    first = NameManager.current.get(None, "some_hint")
    second = sym.relu(sym.var("x"), name=None).name
    assert first == "some_hint0" and second.startswith("relu")
    assert NameManager.current.get(None, "some_hint") == "some_hint1"
    assert NameManager.current.get("given", "some_hint") == "given"


def test_scopes_belong_to_their_thread():
    seen = []

    def work():
        seen.append((NameManager.current, mx.current_context(), mx.autograd.is_training()))
        with Prefix("other_"), mx.cpu(7), mx.autograd.record():
            barrier.wait()
            barrier.wait()

    barrier = threading.Barrier(2)
    with Prefix("mine_") as mine, mx.cpu(3), mx.AttrScope(__a__="1"):
        thread = threading.Thread(target=work)
        thread.start()
        barrier.wait()
        assert NameManager.current is mine
        assert mx.current_context() == mx.cpu(3)
        assert not mx.autograd.is_training()
        barrier.wait()
        thread.join()
    manager, context, training = seen[0]
    assert manager is NameManager.current and manager is not mine
    assert (context, training) == (mx.cpu(0), False)


def test_names_from_many_threads_differ():
    with NameManager() as manager:
        names: list[str] = []

        def work():
            names.extend(manager.get(None, "hint") for _ in range(2000))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(names)) == len(names) == 8000


@pytest.mark.parametrize("call", [nd.softmax, nd.log_softmax, nd.topk, nd.cast, nd.cumsum])
def test_no_element_type_said_out_loud_is_float64(call):
    """As MXNet has it: None means the same as in NumPy. Omitted arguments have their defaults."""
    x = nd.ones((2, 3))
    assert call(x, dtype=None).dtype == np.float64
    assert sym.softmax(sym.var("x"), dtype=None, name="s").attr_dict() == {
        "s": {"dtype": "float64"}
    }
    assert nd.softmax(x).dtype == np.float32 and x.softmax(dtype=None).dtype == np.float64
    assert x.astype("int32").astype(None).dtype == np.float32


def test_candidates_are_distinct_and_follow_the_law():
    mx.random.seed(1)
    draw = mx.nd._internal._sample_unique_zipfian
    classes, tries = draw(793472, shape=(4, 8192))
    for row in classes.asnumpy():
        assert np.unique(row).size == 8192 and row.min() >= 0 and row.max() < 793472
    assert ((tries.asnumpy() > 14500) & (tries.asnumpy() < 17000)).all()
    first = draw(20, shape=(20000, 1))[0].asnumpy().ravel()
    expected = np.log(np.arange(1.5, 21)) - np.log(np.maximum(np.arange(0.5, 20), 1))
    expected[-1] += np.log(20) - np.log(20.5)
    shares = np.bincount(first, minlength=20) / 20000
    np.testing.assert_allclose(shares, expected / np.log(20), atol=0.012)
    assert np.sort(draw(7, shape=(3, 7))[0].asnumpy(), 1).tolist() == [list(range(7))] * 3
