"""Routines: kernels that references call on arrays, outside of plans.

Each file has the specs of one family, whose fields are the arguments of ``ops.native.routine``. A
routine's arguments are the addresses of arrays, then numbers; all sizes are arguments, so that one
object in the cache serves every call.
"""

from __future__ import annotations

from ..kinds.record import ROUTINES, Emitter
from ..spec import KernelSpec
from .bilinear_back import BilinearBackSpec, emit_bilinear_back
from .bins import BinsSpec, emit_bins
from .ctc import CtcSpec, emit_ctc
from .draw import DrawSpec, emit_draw
from .eliminate import EliminateSpec, emit_eliminate
from .hawkes import HawkesSpec, emit_hawkes
from .moved_bins import MovedBinsSpec, emit_moved_bins
from .panel import PanelSpec, emit_panel
from .reflect import ReflectSpec, emit_reflect
from .resample import NearestSpec, ResampleSpec, emit_nearest, emit_resample
from .resize_back import ResizeBackSpec, emit_resize_back
from .select import SelectSpec, emit_select
from .trsm import TrsmSpec, emit_trsm
from .weighted import WeightedSpec, emit_weighted

_SPECS: dict[str, tuple[type[KernelSpec], Emitter]] = {
    "bilinear_back": (BilinearBackSpec, emit_bilinear_back),
    "bins": (BinsSpec, emit_bins),
    "ctc": (CtcSpec, emit_ctc),
    "draw": (DrawSpec, emit_draw),
    "eliminate": (EliminateSpec, emit_eliminate),
    "hawkes": (HawkesSpec, emit_hawkes),
    "moved_bins": (MovedBinsSpec, emit_moved_bins),
    "nearest": (NearestSpec, emit_nearest),
    "panel": (PanelSpec, emit_panel),
    "reflect": (ReflectSpec, emit_reflect),
    "resample": (ResampleSpec, emit_resample),
    "resize_back": (ResizeBackSpec, emit_resize_back),
    "select": (SelectSpec, emit_select),
    "trsm": (TrsmSpec, emit_trsm),
    "weighted": (WeightedSpec, emit_weighted),
}
ROUTINES.update({spec.kind: emit for spec, emit in _SPECS.values()})


def routine_spec(name: str, facts: tuple[object, ...]) -> KernelSpec:
    """The spec of a routine's kernel."""
    return _SPECS[name][0](*facts)
