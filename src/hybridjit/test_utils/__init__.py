"""``mx.test_utils``: comparison of arrays and generation of examples, for tests of programs."""

import sys as _sys
from importlib import import_module as _import_module

import numpy as np

from .._core.lazy import arrived as _arrived
from ..context import Context, current_context, set_default_context
from ..errors import missing_attribute as _missing_attribute
from ..nd import array
from ..sym import Symbol
from ..util import getenv, setenv, use_np
from .comparing import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    default_atols,
    default_rtols,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    locationError,
    same,
    same_array,
    same_symbol_structure,
)
from .consistency import check_consistency
from .datasets import (
    download,
    download_model,
    get_bz2_data,
    get_cifar10,
    get_mnist,
    get_mnist_iterator,
    get_mnist_pkl,
    get_mnist_ubyte,
    get_zip_data,
)
from .distributions import (
    chi_square_check,
    gen_buckets_probs_with_ppf,
    mean_check,
    var_check,
    verify_generator,
)
from .examples import (
    DummyIter,
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_tensor,
    create_vector,
    default_context,
    default_dtype,
    np_reduce,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    random_arrays,
    random_sample,
    random_uniform_arrays,
)
from .gradients import (
    check_numeric_gradient,
    check_symbolic_backward,
    default_numeric_eps,
    numeric_grad,
)
from .matrices import (
    effective_dtype,
    get_cuda_compute_capability,
    get_identity_mat,
    get_identity_mat_batch,
    has_tvm_ops,
    is_cd_run,
    is_op_runnable,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
)
from .optimizers import compare_ndarray_tuple, compare_optimizer
from .running import (
    check_gluon_hybridize_consistency,
    check_speed,
    check_symbolic_forward,
    discard_stderr,
    environment,
    is_aarch64_run,
    list_gpus,
    retry,
    simple_forward,
)

# Modules and names of other modules that `from mxnet.test_utils import *` brings into a program.
_MODULES = """
    bz2 errno gzip json logging numbers os platform struct sys time traceback zipfile
"""
_OTHERS = {
    **{name: name for name in _MODULES.split()},
    "OrderedDict": "collections:OrderedDict",
    "contextmanager": "contextlib:contextmanager",
    "Features": "..runtime:Features",
    "np_symbol": "..sym.np:_Symbol",
    "npt": "numpy.testing",
}

__all__ = [
    "Context",
    "DummyIter",
    "Symbol",
    "almost_equal",
    "array",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "assign_each",
    "assign_each2",
    "checkShapes",
    "check_consistency",
    "check_gluon_hybridize_consistency",
    "check_numeric_gradient",
    "check_speed",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "chi_square_check",
    "collapse_sum_like",
    "compare_ndarray_tuple",
    "compare_optimizer",
    "create_2d_tensor",
    "create_sparse_array",
    "create_sparse_array_zd",
    "create_vector",
    "current_context",
    "default_atols",
    "default_context",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "discard_stderr",
    "download",
    "download_model",
    "effective_dtype",
    "environment",
    "gen_buckets_probs_with_ppf",
    "get_atol",
    "get_bz2_data",
    "get_cifar10",
    "get_cuda_compute_capability",
    "get_etol",
    "get_identity_mat",
    "get_identity_mat_batch",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_pkl",
    "get_mnist_ubyte",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "get_zip_data",
    "getenv",
    "has_tvm_ops",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "list_gpus",
    "locationError",
    "mean_check",
    "mx",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
    "np",
    "np_reduce",
    "numeric_grad",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "rand_sparse_ndarray",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
    "retry",
    "rnd",
    "same",
    "same_array",
    "same_symbol_structure",
    "set_default_context",
    "setenv",
    "shuffle_csr_column_indices",
    "simple_forward",
    "use_np",
    "var_check",
    "verify_generator",
    *_OTHERS,
]


_SPARSE = (
    *("create_sparse_array", "create_sparse_array_zd", "rand_sparse_ndarray"),
    "shuffle_csr_column_indices",
)


def __getattr__(name: str) -> object:
    """``rnd`` is numpy.random, whose import takes 10 ms; sparse arrays are imported lazily too.

    ``mx`` is the package under the name by which the program imports it.
    """
    if name in _OTHERS:
        path, _, inside = _OTHERS[name].partition(":")
        module = _import_module(path, __name__)
        return getattr(module, inside) if inside else module
    if name in _SPARSE:
        return getattr(_import_module(".sparse_examples", __name__), name)
    if name == "mx":
        return _package()
    if name == "rnd":
        return np.random
    raise _missing_attribute(__name__, name, __all__)


def _package() -> object:
    """``mxnet`` if the program imports the package by this name, which has MXNet's version."""
    ours, found = _sys.modules[__name__.partition(".")[0]], _sys.modules.get("mxnet")
    return found if getattr(found, "nd", None) is ours.nd else ours


_arrived(__name__)
