"""The compiler's view of this machine, for ``hybridjit doctor``. Loads llvmlite."""

from __future__ import annotations

from .._core.config import config
from .._core.target import Target
from ..codegen.emit.objects import cache_folder
from ..codegen.llvm.jit import llvm_version
from ..codegen.peak import measure_flops, measure_read_bandwidth
from ..codegen.targets import find_target
from ..errors import MXNetError

Rows = list[tuple[str, str]]


def compiler_rows() -> Rows:
    """LLVM, the target of generated code, and the folder of cached objects."""
    target = chosen()
    fma = "with" if target.has_fma else "without"
    return [
        ("LLVM", llvm_version()),
        ("host CPU", f"{find_target().cpu}, {target.triple}"),
        ("target", f"{target}, {fma} fused multiply-add"),
        ("vector width", f"{8 * target.vector_bytes} bits, {target.lanes} float32"),
        ("compiled objects", str(cache_folder() or "not kept")),
    ]


def measured_rows() -> Rows:
    """Peak rates of one core, measured now."""
    target = chosen()
    return [
        ("peak of one core", f"{measure_flops(target) / 1e9:.1f} GFLOP/s (float32)"),
        ("memory, one core", f"{measure_read_bandwidth(target) / 1e9:.1f} GB/s read"),
    ]


def chosen() -> Target:
    """The target that HYBRIDJIT_TARGET selects. Raises MXNetError if this host cannot run it."""
    try:
        return find_target(config.target)
    except ValueError as error:
        raise MXNetError(str(error)) from None
