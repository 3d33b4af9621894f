"""Examples of operators: lines of a Python session with ``nd``, which a test runs."""

from collections.abc import Mapping

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
