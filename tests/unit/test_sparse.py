"""Sparse arrays: contents, storage types of results, and files.

MXNet 1.9.1's results are in the tests: storage types, stored places, values.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, nd
from hybridjit.base import NotSupportedForSparseNDArray
from hybridjit.nd.sparse import CSRNDArray, RowSparseNDArray

# Row 1 is stored as zeros, so is the place (0, 2).
VALUES = np.float32([1, 0, 3])
MATRIX = np.float32([[1, 0, 0], [0, 0, 0], [0, 3, 0]])


def csr(values=VALUES, columns=(0, 2, 1), starts=(0, 2, 2, 3)) -> CSRNDArray:
    return nd.sparse.csr_matrix((values, list(columns), list(starts)), shape=(3, 3))


def rows(values=((1, 2), (3, 4), (0, 0)), numbers=(1, 3, 4), count=6) -> RowSparseNDArray:
    return nd.sparse.row_sparse_array((np.float32(values), list(numbers)), shape=(count, 2))


def made(stype: str) -> nd.NDArray:
    """A matrix in a storage type."""
    return nd.array(MATRIX).tostype(stype)


def parts(x) -> tuple:
    """The stored parts of a sparse array, as lists."""
    indices = [x.indices.asnumpy().tolist()]
    starts = [x.indptr.asnumpy().tolist()] if x.stype == "csr" else []
    return (*starts, *indices, x.data.asnumpy().tolist())


def test_sparse_arrays_have_mxnets_attributes():
    a, b = csr(), rows()
    assert (a.stype, a.shape, a.dtype, a.indices.dtype) == ("csr", (3, 3), np.float32, np.int64)
    assert (b.stype, b.shape, b.ndim, len(b)) == ("row_sparse", (6, 2), 2, 6)
    np.testing.assert_array_equal(a.asnumpy(), MATRIX)
    assert b.asnumpy().tolist() == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0], [0, 0]]
    assert repr(a) == "\n<CSRNDArray 3x3 @cpu(0)>"
    assert repr(b) == "\n<RowSparseNDArray 6x2 @cpu(0)>"
    a.data[:] = 5
    assert a.asnumpy()[0].tolist() == [5, 0, 5]


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_copies_are_of_the_same_kind(stype):
    x = made(stype)
    for other in (x.copy(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), nd.array(x)):
        assert type(other) is type(x) and parts(other) == parts(x)
        other.data[:] = 7
        np.testing.assert_array_equal(x.asnumpy(), MATRIX)
    assert x.astype("float64").dtype == np.float64
    assert x.astype("float32", copy=False) is x
    assert x.as_in_context(mx.cpu(1)).context == mx.cpu(1)
    dense = nd.zeros((3, 3))
    x.copyto(dense)
    np.testing.assert_array_equal(dense.asnumpy(), MATRIX)
    y = nd.zeros((3, 3), stype=stype)
    dense.copyto(y)
    assert parts(y) == parts(x)


def test_making_them():
    same = nd.sparse.csr_matrix((np.float32([1, 2, 3]), ([2, 0, 2], [1, 0, 1])), shape=(3, 3))
    assert parts(same) == ([0, 1, 1, 2], [0, 1], [2, 4])  # values of one place are added
    assert nd.sparse.csr_matrix(([1.5], [3], [0, 1])).shape == (1, 4)
    assert nd.sparse.csr_matrix((2, 3)).shape == (2, 3)
    assert nd.sparse.row_sparse_array((4, 2, 3)).shape == (4, 2, 3)
    assert nd.sparse.row_sparse_array(np.eye(2)).dtype == np.float64
    assert nd.sparse.csr_matrix([[1, 0]]).dtype == np.float32
    assert nd.empty((2, 3), stype="csr").stype == "csr"
    assert nd.sparse.zeros("default", (2,)).stype == "default"
    for bad in (
        lambda: nd.sparse.csr_matrix((2, 2), shape=(3, 2)),
        lambda: nd.sparse.csr_matrix(rows()),
        lambda: nd.sparse.row_sparse_array(csr()),
        lambda: nd.sparse.csr_matrix(([], [], [0])),
        lambda: nd.sparse.zeros("sparse", (2, 2)),
        lambda: nd.sparse.array(np.ones((2, 2))),
        lambda: nd.ones((3,)).tostype("csr"),
        lambda: csr().tostype("row_sparse"),
        lambda: rows().tostype("csr"),
    ):
        with pytest.raises(ValueError):
            bad()


def test_check_format_raises_for_invalid_indices():
    for columns, starts in (
        ((0, 2, 1), (0, 5, 2, 3)), ((2, 1, 1), (0, 2, 2, 3)), ((1, 2, 1), (0, 2, 2, 4)),
        ((0, 2, 1), (0, -2, 2, 3)), ((0, 2, 9), (0, 2, 2, 3)),
    ):  # fmt: skip
        with pytest.raises(mx.MXNetError):
            csr(VALUES, columns, starts).check_format()
    for numbers in ((1, 9), (1, 0), (1, -2)):
        with pytest.raises(mx.MXNetError, match="ascending order"):
            rows(((1, 2), (3, 4)), numbers).check_format()
    csr().check_format()
    rows().check_format()


def test_parts_of_them():
    x = csr()
    assert parts(x[1:3]) == ([0, 0, 1], [1], [3])
    assert parts(x[-1]) == ([0, 1], [1], [3])
    assert x[:] is x
    assert parts(nd.slice(x, begin=(0, 1), end=(3, 3))) == ([0, 1, 1, 2], [1, 0], [0, 3])
    assert parts(nd.take(x, nd.array([2, 0, 9]))) == ([0, 1, 3, 4], [1, 0, 2, 1], [3, 1, 0, 3])
    assert nd.slice(x, begin=(0,), end=(3,), step=(2,)).stype == "default"
    assert len(list(x)) == 3
    for key in ((0, 1), slice(None, None, 2), None):
        with pytest.raises(ValueError):
            x[key]
    with pytest.raises(IndexError):
        x[3]
    with pytest.raises(ValueError):
        rows()[0]


def test_writing_them():
    x, y = csr(), rows()
    x[:] = nd.ones((3, 3))
    assert x.data.shape == (9,)
    y[:] = 2  # every row is stored, MXNet says
    assert parts(y)[0] == [0, 1, 2, 3, 4, 5]
    x[:] = np.zeros((3, 3))
    assert x.data.shape == (0,)
    for bad in (lambda: x.__setitem__(slice(None), 2), lambda: x.__setitem__(slice(0, 1), 2)):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(mx.MXNetError, match="shape"):
        x[:] = np.ones((2, 2))
    with pytest.raises(TypeError):
        x[0] = 1
    with pytest.raises(NotSupportedForSparseNDArray):
        x.reshape((9, 1))


C, R, D = "csr", "row_sparse", "default"
BINARY = {  # of the Python operator, by storage types, as MXNet answers
    "__add__": {(C, C): C, (R, R): R, (C, R): D, (C, D): D, (R, D): D, (C, 0.0): C, (C, 2.0): D},
    "__sub__": {(C, C): C, (R, R): R, (C, R): D, (C, D): D, (R, D): D, (R, 0.0): R, (R, 2.0): D},
    "__mul__": {(C, C): C, (R, R): R, (C, R): D, (C, D): C, (R, D): R, (C, 2.0): C, (R, 0.0): R},
    "__truediv__": {(C, C): D, (R, R): D, (C, D): C, (R, D): D, (C, 2.0): C, (R, -2.0): R},
    "__gt__": {(C, C): D, (C, 0.0): C, (C, 2.0): C, (C, -2.0): D},
    "__eq__": {(C, C): D, (C, 0.0): D, (C, 2.0): C},
    "__ge__": {(R, 0.0): D, (R, 2.0): R},
    "__lt__": {(R, 0.0): R, (R, 2.0): D},
    "__pow__": {(C, 2.0): D},
}


@pytest.mark.parametrize("stype", [C, R])
def test_storage_with_a_dense_array_on_the_left(stype):
    """The dense array's operator answers, which broadcasts; numbers keep the sparse one."""
    x, y = nd.array(MATRIX + 1), made(stype)
    for found, right in ((x * y, (MATRIX + 1) * MATRIX), (x + y, 2 * MATRIX + 1)):
        assert found.stype == D
        np.testing.assert_array_equal(found.asnumpy(), right)
    assert (2 * y).stype == (0 + y).stype == stype and (2 + y).stype == D
    assert nd.sparse.multiply(x, y).stype == stype
    assert nd.sparse.divide(y, x).stype == D


@pytest.mark.parametrize("name", BINARY)
def test_storage_of_binary_operators(name):
    for (left, right), wanted in BINARY[name].items():
        x = made(left)
        y = nd.array(MATRIX + 1).tostype(right) if isinstance(right, str) else right
        found = getattr(x, name)(y)
        assert found.stype == wanted, (left, right)
        plain = y.asnumpy() if isinstance(right, str) else np.float32(right)
        with np.errstate(all="ignore"):
            wanted_values = getattr(MATRIX, name)(plain)
        if wanted == C and name == "__truediv__":
            wanted_values = np.nan_to_num(wanted_values)
        np.testing.assert_allclose(found.asnumpy(), wanted_values, rtol=1e-6)


def test_sums_store_the_union_of_rows():
    a, b = rows(), rows(((1, 2), (3, 4)), (1, 5))
    assert parts(a + b) == ([1, 3, 4, 5], [[2, 4], [3, 4], [0, 0], [3, 4]])
    assert parts(a - b) == ([1, 3, 4, 5], [[0, 0], [3, 4], [0, 0], [-3, -4]])
    assert parts(a * b) == ([1, 3, 4, 5], [[1, 4], [0, 0], [0, 0], [0, 0]])
    assert parts(nd.add_n(a, b, a)) == ([1, 3, 4, 5], [[3, 6], [6, 8], [0, 0], [3, 4]])
    other = csr(np.float32([5, 7]), (0, 0), (0, 1, 1, 2))
    assert parts(csr() + other) == ([0, 1, 1, 3], [0, 0, 1], [6, 7, 3])
    assert parts(csr() * other) == ([0, 1, 1, 1], [0], [5])
    assert parts(csr() - csr()) == ([0, 0, 0, 0], [], [])
    assert parts(-csr()) == ([0, 2, 2, 3], [0, 2, 1], [-1, -0.0, -3])
    x = rows()
    x += b
    assert parts(x) == parts(a + b)


UNARY = "abs sign round rint ceil floor trunc fix square sqrt relu expm1 log1p sin tan arcsin \
arctan sinh tanh arcsinh arctanh degrees radians negative cbrt identity BlockGrad"


def test_functions_of_one_array():
    for name in UNARY.split():
        for stype in (C, R):
            found = getattr(nd, name)(made(stype))
            assert found.stype == stype, name
            wanted = getattr(nd, name)(nd.array(MATRIX)).asnumpy()
            np.testing.assert_array_equal(found.asnumpy(), wanted)
    for name in ("cos", "exp", "log", "sigmoid", "ones_like", "transpose", "sum", "mean", "norm"):
        found = getattr(nd, name)(made(C))
        assert found.stype == D
        np.testing.assert_array_equal(
            found.asnumpy(), getattr(nd, name)(nd.array(MATRIX)).asnumpy()
        )
    assert parts(nd.zeros_like(csr())) == ([0, 0, 0, 0], [], [])
    assert nd.clip(csr(), -1, 1).stype == C and nd.clip(csr(), 0.5, 1).stype == D
    assert nd.concat(csr(), csr(), dim=0).stype == C and nd.concat(csr(), csr(), dim=1).stype == D


def test_retained_rows():
    found = nd.sparse.retain(rows(), nd.array([0, 3, 5]))
    assert parts(found) == ([0, 3, 5], [[0, 0], [3, 4], [0, 0]])
    assert parts(rows().retain([3])) == ([3], [[3, 4]])
    assert nd._internal._square_sum(rows(), axis=1).asnumpy().tolist() == [0, 5, 0, 25, 0, 0]
    kept = nd._internal._square_sum(rows(), axis=1, keepdims=True)
    assert parts(kept) == ([1, 3, 4], [[5], [25], [0]])


DOT = {  # storage types, transposes, result
    (C, D, False, False): D, (C, D, True, False): R, (C, R, False, False): D,
    (C, R, True, False): R, (C, D, False, True): D, (C, D, True, True): D,
    (D, C, False, False): C, (D, C, False, True): C, (D, C, True, False): D,
    (C, C, False, False): D, (R, D, False, False): D, (R, R, True, False): D,
}  # fmt: skip


def test_sparse_products_equal_dense_products():
    random = np.random.default_rng(0)
    a = np.float32(random.random((4, 4)) * (random.random((4, 4)) < 0.5))
    b = np.float32(random.random((4, 4)) * (random.random((4, 1)) < 0.5))
    for (left, right, across, down), wanted in DOT.items():
        x, y = nd.array(a).tostype(left), nd.array(b).tostype(right)
        found = nd.sparse.dot(x, y, transpose_a=across, transpose_b=down)
        assert found.stype == wanted
        exact = (a.T if across else a) @ (b.T if down else b)
        np.testing.assert_allclose(found.asnumpy(), exact, rtol=1e-5)
        for stype in (C, R, D):
            forced = nd.dot(x, y, transpose_a=across, transpose_b=down, forward_stype=stype)
            assert forced.stype == stype
            np.testing.assert_allclose(forced.asnumpy(), exact, rtol=1e-5)
    assert parts(nd.dot(csr(), nd.ones((3, 2)), transpose_a=True))[0] == [0, 1, 2]


def test_products_in_pieces(monkeypatch):
    monkeypatch.setattr("hybridjit.nd.sparse_arrays.products._PIECE", 7)
    random = np.random.default_rng(1)
    a = np.float32(random.random((6, 5)) * (random.random((6, 5)) < 0.6))
    b = np.float32(random.random((5, 3)))
    np.testing.assert_allclose(nd.dot(nd.array(a).tostype(C), nd.array(b)).asnumpy(), a @ b, 1e-5)
    c = np.float32(random.random((6, 3)))
    found = nd.dot(nd.array(a).tostype(C), nd.array(c), transpose_a=True)
    np.testing.assert_allclose(found.asnumpy(), a.T @ c, 1e-5)


def test_gradients_by_rows():
    weight = nd.ones((5, 2))
    weight.attach_grad(stype=R)
    kept = weight.grad
    with autograd.record():
        y = nd.Embedding(nd.array([1, 1, 3]), weight, 5, 2, sparse_grad=True)
        loss = (y * nd.array([[1], [2], [0]]).broadcast_to((3, 2))).sum()
    loss.backward()
    assert parts(weight.grad) == ([1, 3], [[3, 3], [0, 0]])  # row 3 occurs, with a gradient of 0
    assert parts(kept) == parts(weight.grad)
    with autograd.record():
        loss = nd.dot(csr(), weight[1:4]).sum() + (weight * 2).sum()
    loss.backward()
    assert weight.grad.stype == R
    assert weight.grad.asnumpy().tolist() == [[2, 2], [3, 3], [5, 5], [2, 2], [2, 2]]


def test_gradients_of_products():
    weight = nd.ones((3, 2))
    for request, times in (("write", 1), ("add", 2)):
        weight.attach_grad(request, stype=R)
        for _ in range(2):
            with autograd.record():
                y = nd.dot(csr(), weight)
            y.backward()
        assert weight.grad.stype == R
        np.testing.assert_array_equal(weight.grad.asnumpy()[:, 0], np.float32([1, 3, 0]) * times)


def test_gradients_of_sparse_arrays():
    for stype in (C, R):
        x = made(stype)
        x.attach_grad()
        assert x.grad.stype == stype
        with autograd.record():
            y = nd.square(x) * 3
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), 6 * MATRIX)
        x.attach_grad(stype=D)
        assert x.grad.stype == D


def test_sparse_arrays_are_saved_and_loaded(tmp_path):
    name = str(tmp_path / "arrays")
    arrays = {"a": rows(), "b": csr(), "c": nd.ones((2,)), "d": nd.sparse.zeros(C, (2, 3))}
    nd.save(name, arrays)
    for found in (nd.load(name), nd.load_frombuffer((tmp_path / "arrays").read_bytes())):
        assert [x.stype for x in found.values()] == [R, C, D, C]
        assert parts(found["a"]) == parts(rows()) and parts(found["b"]) == parts(csr())


def test_the_bytes_of_a_file(tmp_path):
    """MXNet 1.9.1's file of one row_sparse array with two rows and two columns."""
    name = str(tmp_path / "array")
    nd.save(name, [nd.sparse.row_sparse_array((np.float32([[1, 2]]), [1]), shape=(2, 2))])
    found = (tmp_path / "array").read_bytes()
    assert found == FILE, found.hex()


FILE = bytes.fromhex(
    "120100000000000000000000000000000100000000000000c9fa93f90100000002000000010000000000000002000000000000000200000002000000000000000200000000000000010000000000000000000000060000000100000001000000000000000000803f0000004001000000000000000000000000000000"
)


def test_dense_programs_load_nothing_of_it():
    program = "import sys, hybridjit; print([m for m in sys.modules if 'sparse_arrays' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    "call",
    ["nd.cast_storage(x, stype='csr')", "nd.dot(x, x, forward_stype='csr')"],
)
def test_the_first_call_that_asks_for_a_storage_gets_it(call: str):
    """Sparse arrays are loaded by the call itself."""
    program = f"from hybridjit import nd; x = nd.ones((2, 2)); print({call}.stype)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "csr", done.stderr


def test_rows_of_a_number_are_refused():
    with pytest.raises(mx.MXNetError, match=r"at least 1 axis, got shape \(\)"):
        nd.array(np.float32(3)).reshape(()).tostype("row_sparse")


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_a_recorded_copy_by_array_passes_the_gradient(stype):
    x = nd.array([[0, 2], [3, 0]])
    x.attach_grad()
    with autograd.record():
        y = nd.array(x.tostype(stype), dtype="float64")
        z = y * 2
    z.backward()
    assert (y.stype, y.dtype) == (stype, np.float64)
    assert x.grad.asnumpy().tolist() == [[2, 2], [2, 2]]
