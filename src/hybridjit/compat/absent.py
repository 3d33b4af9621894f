"""MXNet's names that hybridjit does not have, each with the reason and an alternative.

Input: a module's path below the package and a name. Output: the message of the error. Names that
exist in neither package are not listed: they get Python's usual error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from types import ModuleType
from typing import NoReturn

from .._core.frames import public
from ..errors import missing_attribute
from .modules import part_of

_ENGINE = (
    "concerns CUDA or MXNet's own engine and build, which hybridjit does not have: leave it out"
)
_TRAINS = (
    "is a part of training that hybridjit does not have: train with gluon.Trainer or Module.fit"
)
_INTEGER = "is of int8 layers that hybridjit does not run: use the float32 layers"
_ONNX = "is internal to MXNet's exporter: call onnx.export_model"
_GRAPHS = "works on graphs stored as sparse arrays, and hybridjit has no operators on graphs"
_LIBRARY = (
    "calls MXNet's C library, which hybridjit does not have: use the functions of nd, sym and gluon"
)
_ITERATORS = (
    "is not among the iterators here: use gluon.data, mx.io.ImageRecordIter or mx.image.ImageIter"
)

# Module paths below the package, patterns of names that MXNet 1.9.1 has there, the reason.
ABSENT: list[tuple[list[str], list[str], str]] = [
    ([""], ["libinfo", "rtc", "th", "torch", "tvmop"], _ENGINE),
    (["onnx"], ["mx2onnx", "get_operator_support"], _ONNX),
    ([""], ["api", "error", "*_doc"], _ENGINE),
    (["nd.ndarray", "sym.symbol"], ["check_call", "c_*", "*Handle"], _LIBRARY),
    (["base"], ["ctypes2*", "register_error", "get_last_ffi_error", "mx_int*"], _LIBRARY),
    (["model"], ["DataParallelExecutorManager"], _TRAINS),
    (
        ["nd.contrib", "sym.contrib"],
        ["intgemm_*", "quantize_asym", "quantized_rnn"],
        _INTEGER,
    ),
    (["nd.contrib", "sym.contrib"], ["dgl_*"], _GRAPHS),
    (["io"], ["ImageDetRecordIter_v1"], _ITERATORS),
]


def why_absent(module: str, name: str) -> str | None:
    """The message for ``module.name``, or None if only Python's usual error applies."""
    for modules, patterns, reason in ABSENT:
        if module in modules and any(fnmatchcase(name, pattern) for pattern in patterns):
            return f"mxnet.{module + '.' if module else ''}{name} {reason}"
    return None


def explain_absent(package: str, part: str) -> None:
    """Make the modules of :data:`ABSENT` raise errors with a reason for missing names.

    Applies to the modules of one lazily loaded part, or with ``part`` "" to the permanent ones.
    """
    for path in {path for modules, _, _ in ABSENT for path in modules if part_of(path) == part}:
        _explain_in(sys.modules[f"{package}.{path}" if path else package], path)


def _explain_in(module: ModuleType, path: str) -> None:
    known = getattr(module, "__getattr__", _nothing(module))
    explained = public(_explaining(module, path, known))
    module.__getattr__ = explained  # type: ignore[method-assign]


def _nothing(module: ModuleType) -> Callable[[str], NoReturn]:
    def __getattr__(name: str) -> NoReturn:
        raise missing_attribute(module.__name__, name)

    return __getattr__


def _explaining(
    module: ModuleType, path: str, known: Callable[[str], object]
) -> Callable[[str], object]:
    """``known``, with its error replaced if there is a reason."""

    def __getattr__(name: str) -> object:
        try:
            return known(name)
        except AttributeError:
            if reason := why_absent(path, name):
                raise AttributeError(reason, name=name, obj=module) from None
            raise

    return __getattr__
