"""Random matrices for tests of linear algebra, and properties of MXNet builds for its tests."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np

from .._core.types import product
from ..context import Context
from ..nd import NDArray, array


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """A random orthonormal matrix of ``n`` rows."""
    return np.linalg.qr(np.random.randn(n, n))[0]


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random well-conditioned matrix with real eigenvalues: similar to a diagonal one."""
    basis = new_orthonormal_matrix_2d(n) + 0.1 * np.triu(np.random.rand(n, n), 1)
    return basis @ np.diag(np.random.uniform(-1.0, 1.0, n)) @ np.linalg.inv(basis)


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """A random symmetric matrix."""
    basis = new_orthonormal_matrix_2d(n)
    made = basis @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ basis.T
    return (made + made.T) / 2


def _batch(make: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.array([make(shape[-1]) for _ in range(product(shape[:-2]))]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """A batch of random matrices with real eigenvalues."""
    return _batch(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """A batch of random symmetric matrices."""
    return _batch(new_sym_matrix_with_real_eigvals_2d, shape)


def get_identity_mat(size: int) -> NDArray:
    """The identity matrix of ``size`` rows, in float32."""
    return array(np.eye(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Two identity matrices, of shape (2, size, size)."""
    return array([np.eye(size)] * 2)


def get_cuda_compute_capability(ctx: Context) -> NoReturn:
    """Raise ValueError: contexts are CPUs."""
    raise ValueError(
        f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}"
    )


def is_cd_run() -> bool:
    """Whether the environment variable ``CD_JOB`` has the value 1."""
    return os.environ.get("CD_JOB", "0") == "1"


def has_tvm_ops() -> bool:
    """Whether TVM generated operators: always False."""
    return False


def is_op_runnable() -> bool:
    """Whether operators run on the current context: always True on CPUs."""
    return True


def effective_dtype(dat: Any) -> np.dtype:
    """The element type that determines the tolerance of a comparison."""
    return np.dtype(dat.dtype)
