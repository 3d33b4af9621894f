"""``mx.runtime.Features``: the build features of MXNet, for programs that query them.

Input: a feature's name. Output: whether it is available. The features concern GPUs, other libraries
and the compilation of MXNet, so all of them are off; ``hybridjit doctor`` reports the facts of this
installation.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

_NAMES = (
    *("CUDA", "CUDNN", "NCCL", "CUDA_RTC", "TENSORRT", "CPU_SSE", "CPU_SSE2", "CPU_SSE3"),
    *("CPU_SSE4_1", "CPU_SSE4_2", "CPU_SSE4A", "CPU_AVX", "CPU_AVX2", "OPENMP", "SSE", "F16C"),
    *("JEMALLOC", "BLAS_OPEN", "BLAS_ATLAS", "BLAS_MKL", "BLAS_APPLE", "LAPACK", "MKLDNN"),
    *("OPENCV", "CAFFE", "PROFILER", "DIST_KVSTORE", "CXX14", "INT64_TENSOR_SIZE"),
    *("SIGNAL_HANDLER", "DEBUG", "TVM_OP"),
)


class Feature(NamedTuple):
    """One feature of MXNet's build."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


class Features(OrderedDict[str, Feature]):
    """All features by name."""

    def __init__(self) -> None:
        super().__init__((name, Feature(name, False)) for name in _NAMES)

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Whether the feature is available. Raises RuntimeError for an unknown name."""
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(
                f"Feature '{name}' is unknown, known features are: {list(self.keys())}"
            )
        return self[name].enabled


def feature_list() -> list[Feature]:
    """All features."""
    return list(Features().values())
