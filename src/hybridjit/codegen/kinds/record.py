"""The part of a kernel kind's record that code generation reads.

Each file or folder of ``codegen/kinds`` registers one or several kinds; the other part of a record,
the values that a kind computes, is under the same name in ``ir/kinds.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..._core.frozen import dataclass
from ...ir.plan import Step
from ..call import Call, Setting
from ..spec import KernelSpec

Chooser = Callable[[Step, Setting], tuple[Call, ...]]
Emitter = Callable[..., None]  # (builder, spec, arguments) -> None, for its own class of spec


@dataclass(frozen=True)
class KernelCode:
    """The code generation of a kernel kind.

    choose    the kernel calls of a planned step: all decisions
    emitters  the code of each class of spec that ``choose`` may return: no decisions
    in_one_type  whether the anchor's operands are all stored in the first one's element type, whose
                 entry in ``TYPES_OF`` gives the types of lanes and sums
    """

    name: str
    choose: Chooser
    emitters: Mapping[type[KernelSpec], Emitter]
    in_one_type: bool


# Kinds that are loaded.
CODES: dict[str, KernelCode] = {}
# The emitter of every spec of a loaded kind, by the spec's ``kind``.
KERNELS: dict[str, Emitter] = {}
# The emitters of kernels outside of plans, by the spec's ``kind``: see ``codegen/routines``.
ROUTINES: dict[str, Emitter] = {}


def register(
    name: str,
    choose: Chooser,
    emitters: Mapping[type[KernelSpec], Emitter],
    in_one_type: bool = False,
) -> KernelCode:
    """Add a kind; its name is that of its record in ``ir/kinds.py``."""
    if name in CODES:
        raise RuntimeError(f"kernel kind {name!r} is registered twice")
    CODES[name] = code = KernelCode(name, choose, emitters, in_one_type)
    KERNELS.update({spec.kind: emit for spec, emit in emitters.items()})
    return code
