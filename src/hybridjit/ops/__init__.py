"""All operators, with their semantics in NumPy. Importing this package registers them.

Each folder contains a family of operators; the modules of this folder are shared by them.
"""

# ruff: noqa: F401 - importing a file registers its operators

from . import bfloat16, byte_matrices, byte_rows, internal, nibbles, optimizer, quantized
from .elementwise import activation, binary, element_type, unary
from .linalg import matrices, products, spectra, triangles
from .nn import (
    batchnorm,
    convolution,
    deconvolution,
    embedding_table,
    length_norm,
    matrix_products,
    normalization,
    pooling,
    pooling_back,
    softmax,
    softmax_loss,
)
from .random import density, draws, unique
from .record import OpDef
from .registry import all_names, all_ops, close, lookup, run_ref
from .sequence import attention, ctc, fused_rnn, hawkes, padded
from .tensor import (
    by_index,
    identity,
    joining,
    movement,
    new_arrays,
    ordering,
    placed,
    primitives,
    reductions,
    reshape,
    selection,
    slicing,
    stored_rows,
)
from .vision import (
    bilinear_samples,
    boxes,
    colours,
    correlation,
    deformable,
    multibox,
    overlaps,
    pictures,
    position_sensitive,
    proposal,
    region_bins,
    resolution,
    roi_align,
    roi_pooling,
    roi_rotated,
    targets,
    upsampling,
    warp,
)

close(
    late={
        f"{__name__}.numpy_mode": ("_np",),
        f"{__name__}.int8.operators": (
            "_contrib_quantize",
            "_contrib_requantize",
            "_contrib_dequantize",
            "_contrib_calibrate_entropy",
        ),
    }
)

__all__ = ["OpDef", "all_names", "all_ops", "lookup", "run_ref"]
