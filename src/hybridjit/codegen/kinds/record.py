"""The half of a kernel kind's record that code generation reads: how it is computed.

Each file or folder of ``codegen/kinds`` registers one kind or a few; the other half, what the kind
takes, is the record of the same name in ``ir/kinds.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...ir.plan import Step
from ...records import dataclass
from ...target import TYPES_OF
from ..call import Call, Setting, dtype_name, stored_type
from ..spec import KernelSpec

Chooser = Callable[[Step, Setting], tuple[Call, ...]]
Emitter = Callable[..., None]  # (builder, spec, arguments) -> None, for its own class of spec


@dataclass(frozen=True)
class KernelCode:
    """How a kind of kernel is computed.

    choose    the kernel calls of a planned step: all decisions
    emitters  the code of each class of spec that ``choose`` may give: no decisions
    in_one_type  whether the anchor's operands are all stored in the first one's element type, whose
                 row in ``TYPES_OF`` says what fills the vectors and sums
    """

    name: str
    choose: Chooser
    emitters: Mapping[type[KernelSpec], Emitter]
    in_one_type: bool


_CODES: dict[str, KernelCode] = {}
# The emitter of every spec, by the spec's ``kind``.
KERNELS: dict[str, Emitter] = {}


def register(
    name: str,
    choose: Chooser,
    emitters: Mapping[type[KernelSpec], Emitter],
    in_one_type: bool = False,
) -> KernelCode:
    """Add a kind; its name is that of its record in ``ir/kinds.py``."""
    if name in _CODES:
        raise RuntimeError(f"kernel kind {name!r} is registered twice")
    _CODES[name] = code = KernelCode(name, choose, emitters, in_one_type)
    KERNELS.update({spec.kind: emit for spec, emit in emitters.items()})
    return code


def all_codes() -> tuple[KernelCode, ...]:
    """Every kind that has machine code, in order of registration."""
    return tuple(_CODES.values())


def choose(step: Step, setting: Setting) -> tuple[Call, ...]:
    """The kernel calls of a step; none for a host step."""
    code = _CODES.get(step.kind)
    if code is None:
        return ()
    if code.in_one_type:
        dtype = dtype_name(stored_type(step))
        setting = replace(setting, target=setting.target.of(TYPES_OF[dtype]))
    return code.choose(step, setting)
