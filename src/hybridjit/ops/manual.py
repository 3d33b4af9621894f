"""Descriptions of operators' arguments and examples of their use, for documentation.

``ATTRIBUTES`` and ``INPUTS`` describe an argument by its name, or by ``operator.name`` where one
operator uses the name differently. ``EXAMPLES`` are lines of a Python session with ``nd``, which a
test runs. The registry states types, defaults and the summary; nothing here repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping

from .attrs import Attr
from .record import OpDef

_BOXES = "Boxes: corner (xmin, ymin, xmax, ymax) or center (x, y, width, height)."
_WINDOW = "One integer per spatial axis."
_PER_WEIGHT = "One value per weight."
_LENGTH_FLAG = "Whether the lengths are given as an input; otherwise all steps count."
_ANCHORS = "Anchors (1, number of anchors, 4), as corners."
_ROIS = "Regions (number, 5): index in the batch, then the corners in image coordinates."
_ENDS = "value of the range of"
_SHAPE_1 = " Shape (1,)."
_CALIBRATED = "value of the calibrated range; quantized operators use it."

ATTRIBUTES: Mapping[str, str] = {
    "_contrib_dequantize.out_type": "Element type of the result.",
    "a": "Coefficient of x^2.",
    "a_max": "Largest value.",
    "a_min": "Smallest value.",
    "act_type": "Activation function.",
    "adj": "Elements added to one end of each spatial axis of the output.",
    "align_corners": "Whether the corner pixels of input and output coincide.",
    "aligned": "Whether coordinates are shifted by half a pixel.",
    "alpha": "Factor of the product.",
    "atol": "Allowed absolute difference.",
    "axes": "Axes; all of them, or the operator's default, if left out.",
    "axis": "Axis; negative ones count from the last.",
    "axis1": "First of the two axes of the matrices.",
    "axis2": "Second of the two axes of the matrices.",
    "b": "Coefficient of x.",
    "background_id": "Class of the background; -1: none.",
    "begin": "First index of each leading axis; None: the end where the step begins.",
    "beta": "Second parameter.",
    "beta1": "Decay of the mean of gradients.",
    "beta2": "Decay of the mean of squared gradients.",
    "bias_correction": "Whether the means are divided by 1 - beta^t.",
    "bidirectional": "Whether each layer runs in both directions.",
    "blank_label": "Class of the blank: the first one or the last one.",
    "block_size": "Height and width of a block.",
    "c": "Constant term.",
    "cast_narrow": "Whether all are cast to the narrowest type in place of the widest.",
    "center_crop": "Whether the part is taken from the centre; ``offset`` is then ignored.",
    "clip": "Whether coordinates are clipped to the image.",
    "clip_grad": "Bound of each gradient element; negative: none.",
    "clip_gradient": "Bound of each gradient element after rescaling; negative: none.",
    "clip_weights": "Bound of each weight after the step; negative: none.",
    "compute_size": "Accepted for MXNet's files; not used.",
    "constant_value": "Value of the border in the mode constant.",
    "coord_start": "Position of the first coordinate in a row.",
    "count_include_pad": "Whether padding counts as zeros in an average.",
    "depth": "Number of classes: the length of the new axis.",
    "deterministic": "Accepted for MXNet's files; results are deterministic.",
    "dilate": f"Distance of the window's taps. {_WINDOW} Default: 1.",
    "dim": "Axis along which arrays are concatenated.",
    "dim1": "First axis.",
    "dim2": "Second axis.",
    "dtype": "Element type of the result.",
    "enable_float_output": "Whether the result is float32 instead of bytes and their range.",
    "end": "Index after the last one of each axis; None: the end.",
    "eps": "Added to the variance.",
    "epsilon": "Added to the divisor.",
    "equal_nan": "Whether NaN equals NaN.",
    "eta": "Factor of the learning rates.",
    "exclude": "Whether ``axis`` names the axes that are kept, not those that are reduced.",
    "feature_stride": "Pixels of the image per cell of the feature map.",
    "fix_gamma": "Whether ones are used in place of gamma.",
    "flatten": "Whether all axes after the first are joined; else the last axis is contracted.",
    "force_suppress": "Whether boxes of other classes are suppressed too.",
    "format": _BOXES,
    "forward_stype": "Storage type of the result: default, csr or row_sparse.",
    "gamma1": "Decay of the mean of squared gradients.",
    "gamma2": "Decay of the previous step.",
    "get_prob": "Whether the logarithm of the probability of each draw is returned as well.",
    "global_pool": "Whether the window covers all spatial axes.",
    "grad_scale": "Factor of the gradient.",
    "group_size": "Number of bins along an axis that have separate channels; 0: pooled_size.",
    "h_w": "Height and width of the part.",
    "heads": "Number of attention heads.",
    "height": "Height of the result in pixels.",
    "high": "End of the interval, not included.",
    "id_index": "Position of the class in a row; -1: no classes.",
    "ignore_label": "Label whose samples do not count.",
    "im2col_step": "Accepted for MXNet's files; not used.",
    "in_format": _BOXES,
    "init_output": "Whether the result is written; otherwise it is combined with ``out``.",
    "input_dim": "Number of rows of the weight.",
    "interp": "Interpolation: 0 nearest, 1 bilinear.",
    "iou_loss": "Whether offsets are added to the corners in place of centre and size.",
    "is_ascend": "Whether the order is ascending; otherwise the largest come first.",
    "is_int": "Accepted for MXNet's files; not used.",
    "is_log": "Whether the logarithm of the density is returned.",
    "is_multiply": "Whether patches are multiplied; otherwise absolute differences are summed.",
    "k": "Number of elements.",
    "keep_highest": "Accepted for old files; not used.",
    "keep_ratio": "Whether ``size`` is that of the shorter side, and the aspect ratio is kept.",
    "keepdims": "Whether reduced axes stay, with size 1.",
    "kernel": f"Size of the window. {_WINDOW}",
    "kernel_size": "Size of a patch.",
    "key": "Accepted for MXNet's files; not used.",
    "knorm": "Constant term of the divisor.",
    "lam": "Rate.",
    "lamda1": "Weight of the L1 regularization.",
    "layout": "Order of the axes; channels first if left out.",
    "lazy_update": "Whether a row_sparse gradient updates its own rows only.",
    "lhs_axes": "Axes of lhs that are broadcast.",
    "lhs_begin": "First axis of lhs that is replaced.",
    "lhs_end": "Axis of lhs after the last that is replaced.",
    "loc": "Mean.",
    "low": "Begin of the interval.",
    "lower": "Whether the lower triangle is meant.",
    "lower_bound": "Lower bound of the weight's norm; negative: none.",
    "lr": "Learning rate.",
    "lrs": f"Learning rates. {_PER_WEIGHT}",
    "lstm_state_clip_max": "Upper bound of an LSTM's cell state.",
    "lstm_state_clip_min": "Lower bound of an LSTM's cell state.",
    "lstm_state_clip_nan": "Whether the bounds apply to NaN.",
    "margin": "Margin of the support vectors.",
    "max_calib_range": f"Largest {_CALIBRATED}",
    "max_displacement": "Largest displacement of the second patch.",
    "mean": "Mean of each channel.",
    "min_calib_range": f"Smallest {_CALIBRATED}",
    "minimum_negative_samples": "Smallest number of negative anchors.",
    "mode": "Variant of the operator.",
    "momentum": "Decay of the previous step.",
    "mu": "Mean.",
    "multi_input_mode": "How several inputs are combined.",
    "multi_output": "Whether axis 1 holds the classes, for each position of the further axes.",
    "ndev": "Accepted for MXNet's files; statistics are those of one device.",
    "negative_mining_ratio": "Negative anchors per positive one; negative: all anchors count.",
    "negative_mining_thresh": "Overlap below which an anchor may be negative.",
    "nms_threshold": "Overlap above which the box of the lower score is suppressed.",
    "nms_topk": "Number of boxes before suppression; -1: all.",
    "no_bias": "Whether the bias is omitted.",
    "no_trans": "Whether the offsets are omitted.",
    "normalization": "Divisor of the gradient: none, the batch size, or the labels that count.",
    "nsize": "Number of neighbouring channels.",
    "num_args": "Number of inputs; given by the call.",
    "num_arrays": "Number of inputs; given by the call.",
    "num_deformable_group": "Number of groups of channels with their own offsets.",
    "num_filter": "Number of output channels.",
    "num_group": "Number of groups of channels that do not influence each other.",
    "num_groups": "Number of groups of channels.",
    "num_hidden": "Size of the last axis of the output.",
    "num_layers": "Number of layers.",
    "num_outputs": "Number of outputs.",
    "num_quantized_bins": "Number of levels: 255 of int8, 511 of values that are never negative.",
    "num_weights": "Number of weights; inputs are those of the first weight, then the second, ...",
    "off_value": "Value of the other elements.",
    "offset": "Offset.",
    "offsets": "Position of the centre in its cell: (y, x).",
    "on_value": "Value at the index.",
    "ord": "Order of the norm: 1 or 2.",
    "out_dtype": "Element type of the result.",
    "out_format": _BOXES,
    "out_grad": "Whether the gradient is multiplied by the output gradient.",
    "out_type": "Element type of the bytes; auto: uint8 if the calibrated minimum is not negative.",
    "output_dim": "Number of output channels or elements of a row.",
    "output_mean_var": "Whether mean and variance are returned as well.",
    "output_score": "Whether the scores are returned as well.",
    "output_size": "Size of the spatial axes of the result.",
    "overlap_thresh": "Overlap above which the box of the lower score is suppressed.",
    "overlap_threshold": "Overlap from which an anchor matches a box.",
    "p": "Probability.",
    "p_value": "Exponent of the norm of pool_type lp.",
    "pad": f"Elements added at both ends. {_WINDOW} Default: 0.",
    "pad_size": "Border of zeros around both inputs.",
    "pad_width": "Elements before and after each axis: (before 0, after 0, before 1, ...).",
    "part_size": "Number of bins along an axis that have separate offsets; 0: pooled_size.",
    "penalty": "Factor of the regularization.",
    "pool_type": "Reduction of a window.",
    "pooled_size": "Number of bins: (height, width), or one integer for both.",
    "pooling_convention": "Rounding of sizes: valid down, full up, same as if padded.",
    "position_sensitive": "Whether each bin reads its own channels.",
    "preserve_shape": "Whether the softmax is over the last axis and the shape is kept.",
    "projection_size": "Size of the projection of an LSTM's hidden state.",
    "ratios": "Aspect ratios of the anchors.",
    "regularization_coefficient": "Factor of the loss.",
    "repeat": "Number of times that each value occurs.",
    "repeats": "Number of times that each element is repeated.",
    "reps": "Number of repetitions of each axis.",
    "rescale_grad": "Factor of the gradient before everything else.",
    "ret_typ": "Result: value, indices, both, or a mask of ones and zeros.",
    "reverse": "Whether the codes are read from the last axis to the first.",
    "rhs_axes": "Axes of rhs to whose sizes lhs is broadcast.",
    "rhs_begin": "First axis of rhs that is taken.",
    "rhs_end": "Axis of rhs after the last that is taken.",
    "rightside": "Whether the triangle is the right factor.",
    "rpn_min_size": "Smallest side of a region in pixels.",
    "rpn_post_nms_top_n": "Number of regions after suppression.",
    "rpn_pre_nms_top_n": "Number of regions before suppression.",
    "rtol": "Allowed difference relative to b.",
    "sample_per_part": "Samples of a bin along an axis.",
    "sample_ratio": "Samples of a bin along an axis; -1: as its size requires.",
    "sample_type": "Nearest cell or bilinear interpolation.",
    "sampler_type": "Interpolation.",
    "sampling_ratio": "Samples of a bin along an axis; -1: as its size requires.",
    "scalar": "Factor.",
    "scale": "Standard deviation.",
    "scale_height": "Factor of the height.",
    "scale_width": "Factor of the width.",
    "scales": "Sizes of the anchors, in units of the stride.",
    "score_index": "Position of the score in a row.",
    "shape": "Shape of the result.",
    "size": "Size.",
    "sizes": "Sizes of the anchors as fractions of the image.",
    "slope": "Factor of the negative elements.",
    "smooth_alpha": "Part of the probability that is spread over the other classes.",
    "sparse_grad": "Whether the gradient is row_sparse.",
    "sparseness_target": "Wanted mean activation.",
    "spatial_scale": "Cells of the feature map per pixel of the image.",
    "squeeze_axis": "Whether the split axis is removed; it then has size 1 in each part.",
    "start": "First value.",
    "state_outputs": "Whether the last states are returned as well.",
    "state_size": "Size of the hidden state.",
    "std": "Standard deviation of each channel.",
    "std0": "Factor of the offset of x.",
    "std1": "Factor of the offset of y.",
    "std2": "Factor of the offset of the width.",
    "std3": "Factor of the offset of the height.",
    "step": "Step of each axis; negative steps read backwards. None: 1.",
    "steps": "Distance of the cells as fractions of the image; -1: from the feature map.",
    "stride": f"Step of the window. {_WINDOW} Default: 1.",
    "stride1": "Step of the first patch.",
    "stride2": "Step of the second patch.",
    "stype": "Storage type: default, csr or row_sparse.",
    "t": "Number of the step, from 1.",
    "target_shape": "Height and width of the result.",
    "temperature": "Divisor of the data; None: 1.",
    "threshold": "Smallest score that counts.",
    "topk": "Number of boxes or pairs that are considered; -1: all.",
    "trans_std": "Factor of the offsets.",
    "transform_type": "Kind of the transformation.",
    "transpose": "Whether A is transposed.",
    "transpose_a": "Whether the first operand is transposed.",
    "transpose_b": "Whether the second operand is transposed.",
    "upper_bound": "Upper bound of the weight's norm; negative: none.",
    "use_data_lengths": _LENGTH_FLAG,
    "use_global_stats": "Whether the moving statistics are used in training too.",
    "use_ignore": "Whether samples with ``ignore_label`` have no gradient.",
    "use_label_lengths": "Whether label lengths are an input; otherwise labels are padded.",
    "use_length": "Whether ``length`` is given.",
    "use_linear": "Whether the loss is linear in the violation; otherwise quadratic.",
    "use_sequence_length": _LENGTH_FLAG,
    "valid_thresh": "Smallest score, or value, that counts.",
    "value": "Value of the steps after a sample's length.",
    "variances": "Factors of the four offsets.",
    "wd": "Weight decay: its product with the weight is added to the gradient.",
    "wd_lh": "Weight decay that is applied to the weight directly.",
    "wds": f"Weight decays. {_PER_WEIGHT}",
    "width": "Width of the result in pixels.",
    "x": "Left edge in pixels.",
    "y": "Upper edge in pixels.",
    # Operators that use a name in another sense.
    "LRN.alpha": "Factor of the energy.",
    "LRN.beta": "Exponent of the divisor.",
    "hard_sigmoid.alpha": "Slope.",
    "hard_sigmoid.beta": "Value at 0.",
    "ftrl_update.beta": "Added to the root of the accumulated squares.",
    "_linalg_gemm.beta": "Factor of C.",
    "_random_gamma.alpha": "Shape parameter.",
    "_random_gamma.beta": "Scale parameter.",
    "_random_gamma_like.alpha": "Shape parameter.",
    "_random_gamma_like.beta": "Scale parameter.",
    "_random_generalized_negative_binomial.alpha": "Dispersion.",
    "_random_generalized_negative_binomial_like.alpha": "Dispersion.",
    "_random_negative_binomial.k": "Number of successes.",
    "_random_negative_binomial_like.k": "Number of successes.",
    "diag.k": "Diagonal: 0 the main one, positive above it, negative below it.",
    "topk.axis": "Axis of the order; None: the flattened array.",
    "topk.k": "Number of elements; below 1: all.",
    "topk.dtype": "Element type of the indices.",
    "argsort.dtype": "Element type of the indices.",
    "argsort.axis": "Axis of the order; None: the flattened array.",
    "sort.axis": "Axis of the order; None: the flattened array.",
    "argmax.axis": "Axis; None: the flattened array.",
    "argmin.axis": "Axis; None: the flattened array.",
    "sum.axis": "Axis or axes that are reduced; left out: all.",
    "mean.axis": "Axis or axes that are reduced; left out: all.",
    "prod.axis": "Axis or axes that are reduced; left out: all.",
    "max.axis": "Axis or axes that are reduced; left out: all.",
    "min.axis": "Axis or axes that are reduced; left out: all.",
    "nansum.axis": "Axis or axes that are reduced; left out: all.",
    "nanprod.axis": "Axis or axes that are reduced; left out: all.",
    "norm.axis": "Axis or axes that are reduced; left out: all.",
    "moments.axes": "Axes that are reduced; left out: all.",
    "transpose.axes": "Order of the axes; left out: reversed.",
    "Dropout.axes": "Axes along which all elements share one draw.",
    "Dropout.p": "Probability of 0.",
    "Dropout.mode": "training drops in training only, always in inference too.",
    "RNN.p": "Probability of 0 between layers, in training.",
    "RNN.mode": "Kind of the cells.",
    "take.mode": "Indices out of range: clip to the ends, wrap around, or raise an error.",
    "pick.mode": "Indices out of range: clip to the ends, or wrap around.",
    "Pad.mode": "Border: one value, the edge's, or its mirror image.",
    "L2Normalization.mode": "Whether a sample, a pixel's channels or a channel has length 1.",
    "SoftmaxActivation.mode": "instance: the last axis; channel: axis 1.",
    "slice_axis.begin": "First index; negative ones count from the end.",
    "slice_axis.end": "Index after the last one; None: the end.",
    "_contrib_arange_like.step": "Difference of neighbours.",
    "_contrib_arange_like.axis": "Axis whose length the result has; None: the whole shape.",
    "Reshape.shape": "New shape. 0 keeps a size, -1 is the remaining size, -2 keeps all further "
    "sizes, -3 joins two axes, -4 splits one into the two sizes that follow.",
    "Reshape.target_shape": "Shape, as old files name it.",
    "broadcast_to.shape": "Shape of the result; 0 keeps a size.",
    "scatter_nd.shape": "Shape of the result.",
    "_ravel_multi_index.shape": "Shape of the array that is indexed.",
    "_unravel_index.shape": "Shape of the array that is indexed.",
    "broadcast_axis.size": "Sizes of the axes.",
    "broadcast_axis.axis": "Axes of size 1 that are repeated.",
    "_image_resize.size": "Width and height, or one integer for both.",
    "_contrib_box_nms.topk": "Number of boxes before suppression; -1: all.",
    "MakeLoss.valid_thresh": "Values above it count for the normalization valid.",
    "UpSampling.scale": "Factor of height and width.",
    "UpSampling.num_filter": "Channels of the weight of bilinear interpolation.",
    "smooth_l1.scalar": "Steepness s.",
    "_contrib_gradientmultiplier.scalar": "Factor of the gradient.",
    "_linalg_extractdiag.offset": "Diagonal: 0 the main one, positive above it.",
    "_linalg_makediag.offset": "Diagonal: 0 the main one, positive above it.",
    "_linalg_extracttrian.offset": "Diagonal at which the triangle begins.",
    "_linalg_maketrian.offset": "Diagonal at which the triangle begins.",
    "_linalg_gemm.axis": "Axis of the matrices' rows.",
    "_linalg_gemm2.axis": "Axis of the matrices' rows.",
    "Crop.offset": "Upper left corner of the part: (y, x).",
    "LeakyReLU.lower_bound": "Smallest slope of act_type rrelu.",
    "LeakyReLU.upper_bound": "Largest slope of act_type rrelu.",
    "SliceChannel.axis": "Axis that is split.",
    "stack.axis": "Position of the new axis.",
    "expand_dims.axis": "Position of the new axis.",
    "multi_lars.eps": "Added to the divisor.",
    "L2Normalization.eps": "Added to the sum of squares.",
    "_contrib_MultiBoxPrior.clip": "Whether anchors are clipped to the image.",
    "_contrib_box_decode.clip": "Bound of the exponents of sizes; negative: none.",
    "_contrib_Proposal.threshold": "Overlap above which the region of the lower score is removed.",
    "_contrib_MultiProposal.threshold": "Overlap above which the region of the lower score is "
    "removed.",
    "_image_crop.width": "Width of the part in pixels.",
    "_image_crop.height": "Height of the part in pixels.",
    "_np_cumsum.axis": "Axis; None: the flattened array.",
    "Cast.dtype": "Element type of the result.",
    "_sample_multinomial.shape": "Number of draws for each distribution.",
    "_sample_multinomial.dtype": "Element type of the indices.",
    "alpha_std": "Standard deviation of the random light.",
    "_image_adjust_lighting.alpha": "Strength of each of the three components.",
    "brightness": "Maximal distance of the brightness factor from 1.",
    "contrast": "Maximal distance of the contrast factor from 1.",
    "hue": "Maximal rotation of the hue, as a fraction of the circle.",
    "saturation": "Maximal distance of the saturation factor from 1.",
    "max_factor": "Largest factor that is drawn.",
    "min_factor": "Smallest factor that is drawn.",
    "out_dim": "Length of the last axis of the result.",
    "processing_batch_size": "Accepted for MXNet's files; not used.",
    "_contrib_getnnz.axis": "None counts the whole matrix, 1 each row.",
}

INPUTS: Mapping[str, str] = {
    "*data": "The input arrays.",
    "A": "Matrix, or a batch of matrices in the last two axes.",
    "B": "Matrix, or a batch of matrices in the last two axes.",
    "C": "Matrix, or a batch of matrices, in the shape of the product.",
    "a": "First array.",
    "alpha": "Parameter of each distribution.",
    "anchor": _ANCHORS,
    "anchors": "Anchors (1 or batch, number, 4).",
    "attention": "Attention weights (batch * heads, queries, keys).",
    "b": "Second array.",
    "bbox_pred": "Predicted offsets (batch, 4 * anchors, height, width).",
    "beta": "Shift of each channel.",
    "bias": "Bias, one element per output channel.",
    "cls_pred": "Scores of the classes (batch, classes, anchors).",
    "cls_prob": "Probabilities of the classes.",
    "condition": "Values of which nonzero ones select x.",
    "d": "State: scale of the last step.",
    "data": "Input array.",
    "data1": "First feature map (batch, channels, height, width).",
    "data2": "Second feature map, in the same shape.",
    "data_lengths": "Number of valid steps of each sample.",
    "delta": "State: the last step.",
    "g": "Direction of the step.",
    "gamma": "Scale of each channel.",
    "grad": "Gradient, in the shape of the weight.",
    "grads_sum_sq": "Sum of squares of each gradient.",
    "grid": "Coordinates (batch, 2, height, width): x and y from -1 to 1.",
    "high": "End of the interval of each distribution.",
    "hist": "Number of values in each bin, float32.",
    "hist_edges": "Bounds of the bins, one more than bins.",
    "history": "State: sum of squared gradients.",
    "im_info": "Height, width and scale of each image (batch, 3).",
    "ind": "Index vectors along the first axis.",
    "index": "Indices.",
    "index_vector": "Indices of the rows that are replaced.",
    "indices": "Indices, in any element type.",
    "k": "Number of successes of each distribution.",
    "keys_values": "Keys and values, interleaved by head.",
    "label": "Labels.",
    "label_lengths": "Number of labels of each sample.",
    "lam": "Rate of each distribution.",
    "length": "Number of valid elements along the axis, in the shape without it.",
    "lhs": "First operand.",
    "lhs_max": f"Largest {_ENDS} lhs.{_SHAPE_1}",
    "lhs_min": f"Smallest {_ENDS} lhs.{_SHAPE_1}",
    "like": "Array whose height and width the result gets.",
    "loc": "Affine matrices (batch, 6).",
    "loc_pred": "Predicted offsets (batch, 4 * anchors).",
    "low": "Begin of the interval of each distribution.",
    "lrs": "Learning rate of each weight.",
    "mask": "Factors of the taps.",
    "matches": "Index of the box that each sample matches.",
    "max_bias": f"Largest {_ENDS} bias.{_SHAPE_1}",
    "max_data": f"Largest {_ENDS} data.{_SHAPE_1}",
    "max_range": f"Largest {_ENDS} data.{_SHAPE_1}",
    "max_weight": f"Largest {_ENDS} weight.{_SHAPE_1}",
    "mean": "State: mean of the gradients.",
    "means": "Means of the four offsets.",
    "min_bias": f"Smallest {_ENDS} bias.{_SHAPE_1}",
    "min_data": f"Smallest {_ENDS} data.{_SHAPE_1}",
    "min_range": f"Smallest {_ENDS} data.{_SHAPE_1}",
    "min_weight": f"Smallest {_ENDS} weight.{_SHAPE_1}",
    "mom": "State: the last step.",
    "moving_avg": "State: mean activation of each channel.",
    "moving_mean": "Moving mean of each channel; updated in training.",
    "moving_var": "Moving variance of each channel; updated in training.",
    "mu": "Mean of each distribution.",
    "n": "State: mean or sum of squared gradients.",
    "new_tensor": "Rows that replace the old ones.",
    "offset": "Offsets of the taps (batch, 2 * taps * groups, height, width).",
    "old_tensor": "Array whose rows are replaced.",
    "p": "Probability of each distribution.",
    "parameters": "All weights, then all biases, in one vector.",
    "queries": "Queries (queries, batch, heads * size).",
    "queries_keys_values": "Queries, keys and values, interleaved by head.",
    "r1": "Norm of the weight.",
    "r2": "Norm of the direction.",
    "refs": "Boxes that anchors match.",
    "rhs": "Second operand.",
    "rhs_max": f"Largest {_ENDS} rhs.{_SHAPE_1}",
    "rhs_min": f"Smallest {_ENDS} rhs.{_SHAPE_1}",
    "rois": _ROIS,
    "sample": "Samples at which the density is computed.",
    "samples": "1 positive, -1 negative, 0 ignored; one per anchor.",
    "sequence_length": "Number of valid steps of each sample.",
    "shape_like": "Array whose sizes the result gets.",
    "sigma": "Standard deviation of each distribution.",
    "state": "Initial hidden state (layers * directions, batch, state_size).",
    "state_cell": "Initial cell state of an LSTM.",
    "stds": "Standard deviations of the four offsets.",
    "trans": "Offsets of the bins.",
    "v": "State: mean of squared gradients.",
    "val": "Values for each index vector.",
    "var": "State: mean of squared gradients.",
    "wds": "Weight decay of each weight.",
    "weight": "Weight.",
    "weight32": "float32 copy of the weight, which is updated too.",
    "weights_sum_sq": "Sum of squares of each weight.",
    "x": "Values where the condition is nonzero.",
    "y": "Values elsewhere.",
    "z": "State of the optimizer.",
    "take.a": "Array from which rows are taken.",
    "batch_take.a": "Matrix (rows, columns).",
    "_np_cumsum.a": "Input array.",
    "LeakyReLU.gamma": "Slope of act_type prelu: one element, or one per channel.",
    "pick.index": "Index for each row, in the shape without the axis.",
    "_contrib_boolean_mask.index": "One value per row; rows with nonzero ones are kept.",
    "gather_nd.indices": "Index vectors along the first axis.",
    "scatter_nd.indices": "Index vectors along the first axis.",
    "FullyConnected.weight": "Weight (num_hidden, features).",
    "Convolution.weight": "Weight (num_filter, channels / num_group, *kernel).",
    "Deconvolution.weight": "Weight (channels, num_filter / num_group, *kernel).",
    "Embedding.weight": "Table (input_dim, output_dim).",
    "Embedding.data": "Indices, in any shape and element type.",
    "one_hot.indices": "Indices; those out of range give rows of ``off_value``.",
    "SoftmaxOutput.label": "Class numbers; read in training only.",
    "RNN.data": "Sequences (steps, batch, features).",
    "_contrib_hawkesll.lda": "Base rates (N, K) of each mark.",
    "_contrib_hawkesll.alpha": "Branching ratios (K,): how much an event excites its mark.",
    "_contrib_hawkesll.beta": "Decays (K,) of the excitation.",
    "_contrib_hawkesll.state": "Excitation (N, K) that earlier events left.",
    "_contrib_hawkesll.lags": "Times (N, T) from one event to the next.",
    "_contrib_hawkesll.marks": "Marks (N, T) of the events, int32.",
    "_contrib_hawkesll.valid_length": "Number of events (N,) that count.",
    "_contrib_hawkesll.max_time": "Time (N,) at which observation ends.",
    "_contrib_count_sketch.h": "Element of the result (1, columns) that each column is added to.",
    "_contrib_count_sketch.s": "Sign (1, columns) of each column.",
    "_contrib_edge_id.u": "Rows.",
    "_contrib_edge_id.v": "Columns.",
    "fill_element_0index.lhs": "Matrix (N, M).",
    "fill_element_0index.mhs": "Values (N,).",
    "fill_element_0index.rhs": "Columns (N,).",
}

EXAMPLES: Mapping[str, str] = {
    "transpose": """
>>> nd.transpose(nd.array([[1, 2], [3, 4]])).asnumpy()
array([[1., 3.],
       [2., 4.]], dtype=float32)
""",
    "slice": """
>>> nd.slice(nd.array([[1, 2, 3], [4, 5, 6]]), begin=(0, 1), end=(2, 3)).asnumpy()
array([[2., 3.],
       [5., 6.]], dtype=float32)
""",
    "slice_axis": """
>>> nd.slice_axis(nd.array([[1, 2, 3]]), axis=1, begin=0, end=-1).asnumpy()
array([[1., 2.]], dtype=float32)
""",
    "broadcast_to": """
>>> nd.broadcast_to(nd.array([[1], [2]]), shape=(2, 3)).asnumpy()
array([[1., 1., 1.],
       [2., 2., 2.]], dtype=float32)
""",
    "broadcast_axis": """
>>> nd.broadcast_axis(nd.array([[1], [2]]), axis=1, size=2).asnumpy()
array([[1., 1.],
       [2., 2.]], dtype=float32)
""",
    "broadcast_add": """
>>> nd.broadcast_add(nd.array([[1], [2]]), nd.array([[10, 20]])).asnumpy()
array([[11., 21.],
       [12., 22.]], dtype=float32)
""",
    "elemwise_add": """
>>> nd.elemwise_add(nd.array([1, 2]), nd.array([10, 20])).asnumpy()
array([11., 22.], dtype=float32)
""",
    "relu": """
>>> nd.relu(nd.array([-1, 2])).asnumpy()
array([0., 2.], dtype=float32)
""",
    "Activation": """
>>> nd.Activation(nd.array([-1, 2]), act_type="relu").asnumpy()
array([0., 2.], dtype=float32)
""",
    "LeakyReLU": """
>>> nd.LeakyReLU(nd.array([-1, 2]), act_type="leaky", slope=0.5).asnumpy()
array([-0.5,  2. ], dtype=float32)
""",
    "clip": """
>>> nd.clip(nd.array([-3, 0.5, 3]), a_min=-1, a_max=1).asnumpy()
array([-1. ,  0.5,  1. ], dtype=float32)
""",
    "add_n": """
>>> nd.add_n(nd.ones(2), nd.ones(2), nd.ones(2)).asnumpy()
array([3., 3.], dtype=float32)
""",
    "Cast": """
>>> nd.Cast(nd.array([1.7, -1.7]), dtype="int32").asnumpy()
array([ 1, -1], dtype=int32)
""",
    "Convolution": """
>>> data, weight = nd.ones((1, 3, 8, 8)), nd.ones((4, 3, 3, 3))
>>> nd.Convolution(data, weight, no_bias=True, kernel=(3, 3), num_filter=4).shape
(1, 4, 6, 6)
""",
    "Deconvolution": """
>>> data, weight = nd.ones((1, 3, 8, 8)), nd.ones((3, 4, 2, 2))
>>> nd.Deconvolution(data, weight, kernel=(2, 2), stride=(2, 2), num_filter=4).shape
(1, 4, 16, 16)
""",
    "FullyConnected": """
>>> data, weight, bias = nd.ones((2, 3)), nd.ones((4, 3)), nd.zeros(4)
>>> nd.FullyConnected(data, weight, bias, num_hidden=4).asnumpy()
array([[3., 3., 3., 3.],
       [3., 3., 3., 3.]], dtype=float32)
""",
    "dot": """
>>> nd.dot(nd.array([[1, 2]]), nd.array([[3], [4]])).asnumpy()
array([[11.]], dtype=float32)
""",
    "batch_dot": """
>>> nd.batch_dot(nd.ones((5, 2, 3)), nd.ones((5, 4, 3)), transpose_b=True).shape
(5, 2, 4)
""",
    "_linalg_gemm2": """
>>> nd.linalg.gemm2(nd.ones((2, 3)), nd.ones((3, 2)), alpha=2).asnumpy()
array([[6., 6.],
       [6., 6.]], dtype=float32)
""",
    "_linalg_potrf": """
>>> nd.linalg.potrf(nd.array([[4, 2], [2, 5]])).asnumpy()
array([[2., 0.],
       [1., 2.]], dtype=float32)
""",
    "_linalg_inverse": """
>>> nd.linalg.inverse(nd.array([[2, 0], [0, 4]])).asnumpy()
array([[0.5 , 0.  ],
       [0.  , 0.25]], dtype=float32)
""",
    "_linalg_det": """
>>> nd.linalg.det(nd.array([[2, 0], [0, 4]])).asnumpy().tolist()
[8.0]
""",
    "sum": """
>>> nd.sum(nd.array([[1, 2], [3, 4]]), axis=1).asnumpy()
array([3., 7.], dtype=float32)
>>> nd.sum(nd.array([[1, 2], [3, 4]]), axis=1, keepdims=True).shape
(2, 1)
""",
    "mean": """
>>> nd.mean(nd.array([[1, 2], [3, 4]]), axis=0).asnumpy()
array([2., 3.], dtype=float32)
""",
    "prod": """
>>> nd.prod(nd.array([2, 3])).asnumpy()
array([6.], dtype=float32)
""",
    "max": """
>>> nd.max(nd.array([[1, 2], [3, 4]]), axis=0).asnumpy()
array([3., 4.], dtype=float32)
""",
    "min": """
>>> nd.min(nd.array([[1, 2], [3, 4]]), axis=0).asnumpy()
array([1., 2.], dtype=float32)
""",
    "norm": """
>>> nd.norm(nd.array([3, 4])).asnumpy()
array([5.], dtype=float32)
""",
    "BatchNorm": """
>>> one, zero = nd.ones(2), nd.zeros(2)
>>> nd.BatchNorm(nd.ones((1, 2, 3)), one, zero, zero, one).shape
(1, 2, 3)
""",
    "LayerNorm": """
>>> nd.LayerNorm(nd.array([[1, 3]]), nd.ones(2), nd.zeros(2)).asnumpy().round(3)
array([[-1.,  1.]], dtype=float32)
""",
    "take": """
>>> nd.take(nd.array([[1, 2], [3, 4], [5, 6]]), nd.array([2, 0])).asnumpy()
array([[5., 6.],
       [1., 2.]], dtype=float32)
""",
    "pick": """
>>> nd.pick(nd.array([[1, 2], [3, 4]]), nd.array([1, 0])).asnumpy()
array([2., 3.], dtype=float32)
""",
    "one_hot": """
>>> nd.one_hot(nd.array([1, 0]), depth=3).asnumpy()
array([[0., 1., 0.],
       [1., 0., 0.]], dtype=float32)
""",
    "gather_nd": """
>>> nd.gather_nd(nd.array([[1, 2], [3, 4]]), nd.array([[0, 1], [1, 0]])).asnumpy()
array([2., 3.], dtype=float32)
""",
    "scatter_nd": """
>>> nd.scatter_nd(nd.array([5, 6]), nd.array([[0, 2]]), shape=(4,)).asnumpy()
array([5., 0., 6., 0.], dtype=float32)
""",
    "Embedding": """
>>> table = nd.array([[0, 1], [2, 3], [4, 5]])
>>> nd.Embedding(nd.array([2, 0]), table, input_dim=3, output_dim=2).asnumpy()
array([[4., 5.],
       [0., 1.]], dtype=float32)
""",
    "Pooling": """
>>> nd.Pooling(nd.ones((1, 2, 8, 8)), kernel=(2, 2), stride=(2, 2), pool_type="max").shape
(1, 2, 4, 4)
""",
    "softmax": """
>>> nd.softmax(nd.array([[1, 1]])).asnumpy()
array([[0.5, 0.5]], dtype=float32)
""",
    "log_softmax": """
>>> nd.log_softmax(nd.array([[0, 0]])).asnumpy().round(4)
array([[-0.6931, -0.6931]], dtype=float32)
""",
    "SoftmaxOutput": """
>>> nd.SoftmaxOutput(nd.array([[0, 0]]), nd.array([1])).asnumpy()
array([[0.5, 0.5]], dtype=float32)
""",
    "_random_uniform": """
>>> nd.random.uniform(0, 1, shape=(2, 3)).shape
(2, 3)
""",
    "_random_normal": """
>>> nd.random.normal(0, 1, shape=(2, 3)).shape
(2, 3)
""",
    "_random_randint": """
>>> nd.random.randint(0, 10, shape=(3,)).dtype
<class 'numpy.int32'>
""",
    "CTCLoss": """
>>> nd.CTCLoss(nd.zeros((4, 1, 3)), nd.array([[1, 2]])).shape
(1,)
""",
    "BlockGrad": """
>>> nd.BlockGrad(nd.array([1, 2])).asnumpy()
array([1., 2.], dtype=float32)
""",
    "Dropout": """
>>> nd.Dropout(nd.ones(3), p=0.5).asnumpy()
array([1., 1., 1.], dtype=float32)
""",
    "Concat": """
>>> nd.concat(nd.array([[1], [2]]), nd.array([[3], [4]]), dim=1).asnumpy()
array([[1., 3.],
       [2., 4.]], dtype=float32)
""",
    "stack": """
>>> nd.stack(nd.array([1, 2]), nd.array([3, 4])).asnumpy()
array([[1., 2.],
       [3., 4.]], dtype=float32)
""",
    "tile": """
>>> nd.tile(nd.array([1, 2]), reps=(2, 2)).asnumpy()
array([[1., 2., 1., 2.],
       [1., 2., 1., 2.]], dtype=float32)
""",
    "repeat": """
>>> nd.repeat(nd.array([1, 2]), repeats=2).asnumpy()
array([1., 1., 2., 2.], dtype=float32)
""",
    "SwapAxis": """
>>> nd.swapaxes(nd.ones((2, 3, 4)), 0, 2).shape
(4, 3, 2)
""",
    "Pad": """
>>> nd.pad(nd.ones((1, 1, 2, 2)), mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)).shape
(1, 1, 4, 4)
""",
    "SequenceMask": """
>>> data, length = nd.ones((3, 2)), nd.array([1, 3])
>>> nd.SequenceMask(data, length, use_sequence_length=True).asnumpy()
array([[1., 1.],
       [0., 1.],
       [0., 1.]], dtype=float32)
""",
    "argmax": """
>>> nd.argmax(nd.array([[1, 3, 2]]), axis=1).asnumpy()
array([1.], dtype=float32)
""",
    "argmin": """
>>> nd.argmin(nd.array([[1, 3, 2]]), axis=1).asnumpy()
array([0.], dtype=float32)
""",
    "topk": """
>>> data = nd.array([[3, 1, 2]])
>>> nd.topk(data, k=2).asnumpy()
array([[0., 2.]], dtype=float32)
>>> nd.topk(data, k=2, ret_typ="value").asnumpy()
array([[3., 2.]], dtype=float32)
""",
    "sort": """
>>> nd.sort(nd.array([3, 1, 2])).asnumpy()
array([1., 2., 3.], dtype=float32)
""",
    "argsort": """
>>> nd.argsort(nd.array([3, 1, 2])).asnumpy()
array([1., 2., 0.], dtype=float32)
""",
    "Reshape": """
>>> nd.reshape(nd.ones((2, 3, 4)), shape=(0, -1)).shape
(2, 12)
>>> nd.reshape(nd.ones((2, 3, 4)), shape=(-3, 0)).shape
(6, 4)
""",
    "Flatten": """
>>> nd.flatten(nd.ones((2, 3, 4))).shape
(2, 12)
""",
    "expand_dims": """
>>> nd.expand_dims(nd.ones((2, 3)), axis=1).shape
(2, 1, 3)
""",
    "squeeze": """
>>> nd.squeeze(nd.ones((2, 1, 3))).shape
(2, 3)
""",
    "where": """
>>> nd.where(nd.array([1, 0]), nd.array([1, 2]), nd.array([3, 4])).asnumpy()
array([1., 4.], dtype=float32)
""",
    "_contrib_boolean_mask": """
>>> nd.contrib.boolean_mask(nd.array([[1], [2], [3]]), nd.array([1, 0, 1])).asnumpy()
array([[1.],
       [3.]], dtype=float32)
""",
    "SliceChannel": """
>>> [part.shape for part in nd.split(nd.ones((2, 6)), num_outputs=3, axis=1)]
[(2, 2), (2, 2), (2, 2)]
""",
    "_contrib_box_iou": """
>>> nd.contrib.box_iou(nd.array([[0, 0, 2, 2]]), nd.array([[1, 0, 3, 2]])).asnumpy().round(4)
array([[0.3333]], dtype=float32)
""",
    "_contrib_box_nms": """
>>> boxes = nd.array([[0, 0.9, 0, 0, 2, 2], [0, 0.8, 0, 0, 2, 2]])  # class, score, corners
>>> nd.contrib.box_nms(boxes, overlap_thresh=0.5, id_index=0).asnumpy()[:, 1]
array([ 0.9, -1. ], dtype=float32)
""",
    "_image_to_tensor": """
>>> nd.image.to_tensor(nd.zeros((4, 5, 3), dtype="uint8")).shape
(3, 4, 5)
""",
    "_image_resize": """
>>> nd.image.resize(nd.zeros((4, 5, 3), dtype="uint8"), size=(10, 8)).shape
(8, 10, 3)
""",
    "UpSampling": """
>>> nd.UpSampling(nd.ones((1, 1, 2, 2)), scale=2, sample_type="nearest").shape
(1, 1, 4, 4)
""",
    "_contrib_ROIAlign": """
>>> data, rois = nd.ones((1, 2, 8, 8)), nd.array([[0, 0, 0, 4, 4]])
>>> nd.contrib.ROIAlign(data, rois, pooled_size=(2, 2), spatial_scale=1).shape
(1, 2, 2, 2)
""",
    "sgd_update": """
>>> weight, grad = nd.array([1.0]), nd.array([2.0])
>>> nd.sgd_update(weight, grad, lr=0.1, out=weight).asnumpy()
array([0.8], dtype=float32)
""",
}
_RAISES = "For shapes, element types and attribute values that the operator does not accept."
_OPTIONS = {
    "out": ("NDArray, optional", "Array that receives the result."),
    "name": ("str, optional", "Name of the node; arrays have none."),
    "attr": ("dict, optional", "Attributes of the node, strings by name."),
}
_TYPES = {
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "bool": "bool",
    "shape": "tuple of int",
    "ints": "tuple of int or None",
    "floats": "tuple of float",
    "dtype": "str or numpy.dtype",
    "layout": "str",
    "string": "str",
}


def attribute_text(op: OpDef, attr: Attr) -> str:
    """The description of an attribute; "" if there is none."""
    return ATTRIBUTES.get(f"{op.name}.{attr.name}", ATTRIBUTES.get(attr.name, ""))


def attribute_type(attr: Attr) -> str:
    """The type of an attribute in words, with its default."""
    known = _TYPES.get(attr.base, "")
    kind = known or "{" + ", ".join(map(repr, attr.choices)) + "}"
    if attr.required:
        return kind
    return f"{kind}, default {attr.default if attr.base == 'dtype' else repr(attr.default)}"


def input_text(op: OpDef, name: str) -> str:
    """The description of an input; "" if there is none."""
    return INPUTS.get(f"{op.name}.{name}", INPUTS.get(name, ""))


def documentation(op: OpDef, inputs: tuple[str, ...], options: tuple[str, ...]) -> str:
    """The docstring of the operator's functions: every argument, and an example."""
    rows = [(name, "NDArray or Symbol", input_text(op, name)) for name in inputs]
    rows += [(attr.name, attribute_type(attr), attribute_text(op, attr)) for attr in op.attrs]
    rows += [(name, *_OPTIONS[name]) for name in options]
    lines = [op.doc, "", "Parameters", "----------"]
    for name, kind, text in rows:
        lines += [f"{name} : {kind}", f"    {text}"]
    lines += ["", "Raises", "------", "MXNetError", f"    {_RAISES}"]
    if op.name in EXAMPLES:
        lines += ["", "Examples", "--------", EXAMPLES[op.name].strip()]
    return "\n".join(lines)
