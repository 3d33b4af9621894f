"""Exceptions from the general rules of gradient tests, with reasons."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LOSS = "a loss: whatever comes back, it gives its own gradient"

_ZERO = "boxes and places are taken as given: 0, as in MXNet"

_UNCHANGED = "passes gradients unchanged, as in MXNet"
_CHANGES = _names(
    "brightness contrast saturation hue color_jitter lighting flip_left_right flip_top_bottom"
)

# Operators whose gradient is not their slope, in MXNet either.
NO_SLOPE = {
    "_contrib_getnnz": "a count",
    "_contrib_edge_id": "edges are taken as given: 0, as in MXNet",
    "_image_adjust_lighting": _UNCHANGED,
    **{f"_image_random_{name}": _UNCHANGED for name in _CHANGES},
    "BlockGrad": "stops gradients",
    "_contrib_MultiBoxDetection": _ZERO,
    "_contrib_MultiBoxTarget": _ZERO,
    "_detections": _ZERO,
    "_proposals": _ZERO,
    "_ordered": "what it is made for says what comes back",
    "_contrib_MultiProposal": _ZERO,
    "_contrib_Proposal": _ZERO,
    "_contrib_bipartite_matching": _ZERO,
    "_contrib_box_decode": _ZERO,
    "_contrib_box_encode": _ZERO,
    "_contrib_box_iou": _ZERO,
    "_npi_bincount": _ZERO,
    "_npi_eig": _ZERO,
    "_npi_eigvals": _ZERO,
    "_npi_percentile": _ZERO,
    "_npi_unique": _ZERO,
    "_ravel_multi_index": _ZERO,
    "make_loss": _LOSS,
    "MakeLoss": _LOSS,
    "LinearRegressionOutput": _LOSS,
    "LogisticRegressionOutput": _LOSS,
    "MAERegressionOutput": _LOSS,
    "SVMOutput": _LOSS,
    "SoftmaxOutput": _LOSS,
    "_IdentityAttachKLSparseReg_training": "adds the slope of a penalty that is no result",
    "_contrib_box_nms": "box formats are changed behind the gradient's back, as in MXNet",
    "_rnn_kept_steps": "what steps keep serves the way back alone",
    "_contrib_round_ste": "passes gradients straight through a step",
    "_contrib_sign_ste": "passes gradients straight through a step",
    "_to_bfloat16": "made behind the gradient's back, for inference",
    "_from_bfloat16": "made behind the gradient's back, for inference",
}

_MOVING = (3, 4)  # the moving mean and variance

# Positions of operands that are constants to a gradient although results depend on them, or step
# with them: their gradients are never requested.
CONSTANTS = {
    "_contrib_hawkesll": (3, 4, 5, 6, 7),  # of the state too, as in MXNet
    "fill_element_0index": (2,),
    "_contrib_count_sketch": (1,),
    "CTCLoss": (1, 2, 3),
    "Embedding": (0,),
    "_contrib_SparseEmbedding": (0,),
    "SequenceMask": (1,),  # lengths
    "SequenceLast": (1,),
    "SequenceReverse": (1,),
    "softmax_cross_entropy": (1,),  # the label
    "_random_pdf_poisson": (0,),  # counts
    "_random_pdf_negative_binomial": (0,),
    "_random_pdf_generalized_negative_binomial": (0,),
    "_contrib_ROIAlign": (1,),  # regions
    "_roi_align_back": (1,),
    "ROIPooling": (1,),
    "_contrib_PSROIPooling": (1,),
    "_position_sensitive_back": (1,),
    "_contrib_DeformablePSROIPooling": (1,),
    "BatchNorm": _MOVING,
    "BatchNorm_v1": _MOVING,
    "_contrib_BatchNormWithReLU": _MOVING,
    "_contrib_SyncBatchNorm": _MOVING,
    "_BatchNorm_training": _MOVING,
    "_BatchNormWithReLU_training": _MOVING,
    "_BatchNorm_v1_training": _MOVING,
}

# Operators that read one triangle of a symmetric matrix: slopes are along symmetric directions.
SYMMETRIC = _names("_linalg_potrf _linalg_syevd _npi_cholesky _npi_eigh _npi_eigvalsh")

# Positions of the results whose head gradients count, where those of the others are ignored.
HEADS = {
    "_contrib_hawkesll": (0,),
    "LayerNorm": (0,),
    "GroupNorm": (0,),
    "BatchNorm": (0,),
    "BatchNorm_v1": (0,),
    "_contrib_BatchNormWithReLU": (0,),
    "_contrib_SyncBatchNorm": (0,),
}

# Operators no sample of which has floats that results follow from: their gradients are 0.
NOTHING_TO_COMPARE = _names(
    """
    _add_exactly
    _byte_layer_norm
    _byte_pooling
    _byte_softmax
    _from_bytes
    _in_range
    _integer_batch_dot
    _integer_convolution
    _integer_dense
    _to_bytes
    _nibble_dense
    _scale_exactly
    _weight_from_nibbles
    _zero_bias
    _channel_numbers
    _contrib_index_array
    _image_crop
    _image_to_tensor
    _mixed_bits
    _np_all
    _np_any
    _npi_argmax
    _npi_argmin
    _npi_bitwise_and
    _npi_bitwise_and_scalar
    _npi_bitwise_not
    _npi_bitwise_or
    _npi_bitwise_or_scalar
    _npi_bitwise_xor
    _npi_bitwise_xor_scalar
    _npi_diag_indices_from
    _npi_equal
    _npi_equal_scalar
    _npi_greater
    _npi_greater_equal
    _npi_greater_equal_scalar
    _npi_greater_scalar
    _npi_isfinite
    _npi_isinf
    _npi_isnan
    _npi_isneginf
    _npi_isposinf
    _npi_lcm
    _npi_lcm_scalar
    _npi_less
    _npi_less_equal
    _npi_less_equal_scalar
    _npi_less_scalar
    _npi_logical_not
    _npi_not_equal
    _npi_not_equal_scalar
    _npi_share_memory
    _npi_where_scalar2
    _npx_constraint_check
    _npx_nonzero
    _tap_grid
    _unravel_index
    amp_multicast
    argsort
    one_hot
    shape_array
    size_array
    """
)

# MXNet refuses these too.
NONE_IN_MXNET = _names(
    """
    _contrib_RROIAlign
    _contrib_allclose
    _histogram
    _image_resize
    _npi_delete
    _npi_insert_scalar
    _npi_insert_slice
    _npi_insert_tensor
    _slice_assign
    _slice_assign_scalar
    _shuffle
    all_finite
    argmax_channel
    batch_take
    khatri_rao
    multi_all_finite
    """
)

# For inference only.
OF_BYTES = _names(
    """
    _contrib_calibrate_entropy
    _contrib_dequantize
    _contrib_quantize
    _contrib_quantize_v2
    _contrib_quantized_act
    _contrib_quantized_batch_norm
    _contrib_quantized_concat
    _contrib_quantized_conv
    _contrib_quantized_elemwise_add
    _contrib_quantized_elemwise_mul
    _contrib_quantized_embedding
    _contrib_quantized_flatten
    _contrib_quantized_fully_connected
    _contrib_quantized_pooling
    _contrib_requantize
    """
)

# Made by passes that run after gradients were taken.
OF_PASSES = _names(
    """
    _attention
    _bn_scale
    _bn_shift
    _instance_norm_last
    _lrn_last
    _resize_last
    _rnn_rounded_steps
    _roi_align_last
    _roi_pooling_last
    _rounded_to_bfloat16
    _sample_last
    _weight_from_bytes
    _filter_scale
    _filter_bytes
    """
)

# Gradient operators, which are not differentiated: MXNet refuses second ones of these.
OF_SECOND_ORDER = _names(
    """
    _back_from_ctc_loss
    _hawkesll_slopes
    _back_from_correlation
    _back_from_max_pooling
    _rnn_projected_steps_back
    _rnn_steps_back
    _bilinear_sampler_back
    _box_nms_back
    _deformable_pooling_back
    _roi_pooling_back
    _back_from_sample_cells
    """
)
