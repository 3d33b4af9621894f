"""The half of a kernel kind's record that code generation reads: how it is computed.

Each file or folder of ``codegen/kinds`` registers one kind or a few; the other half, what the kind
takes, is the record of the same name in ``ir/kinds.py``.
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


# Of the kinds that are loaded.
CODES: dict[str, KernelCode] = {}
# The emitter of every spec that one of them gives, by the spec's ``kind``.
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
