"""Names of PyTorch's that programs try on Gluon's objects, each with the way here."""

from __future__ import annotations

_MODE = "there is no mode to set: calls within autograd.record() train, others predict"
_CPU = "arrays are on the CPU"
BLOCKS = {
    "eval": _MODE,
    "train": _MODE,
    "parameters": "write collect_params()",
    "named_parameters": "write collect_params()",
    "state_dict": "write save_parameters(path)",
    "load_state_dict": "write load_parameters(path)",
    "zero_grad": "backward replaces gradients unless grad_req is 'add'",
    "to": f"{_CPU}; cast(dtype) changes the element type",
    "cuda": _CPU,
    "cpu": _CPU,
    "half": "write cast('float16')",
    "float": "write cast('float32')",
    "fit": "write a loop over batches, or gluon.contrib.estimator.Estimator(net, loss).fit(loader)",
    "compile": "write hybridize(); Trainer takes the optimizer",
    "evaluate": "call the network and update a metric",
    "modules": "write apply(function)",
    "requires_grad_": "write collect_params().setattr('grad_req', 'null')",
    "add_module": "write add(layer), or register_child(layer)",
    "weight": "parameters belong to layers, as in net[0].weight",
    "bias": "parameters belong to layers, as in net[0].bias",
    "list_arguments": "it is not a symbol; net(sym.var('data')) makes one",
}
ARRAYS = {
    "view": "write x.reshape(shape)",
    "numpy": "write x.asnumpy()",
    "item": "write x.asscalar()",
    "permute": "write x.transpose(axes)",
    "unsqueeze": "write x.expand_dims(axis)",
    "float": "write x.astype('float32')",
    "long": "write x.astype('int64')",
    "to": "write x.astype(dtype), or x.as_in_context(ctx)",
    "cpu": _CPU,
    "cuda": _CPU,
    "requires_grad_": "write x.attach_grad()",
    "contiguous": "arrays are contiguous",
    "append": "write nd.concat(x, y, dim=0)",
    "tolist": "write x.asnumpy().tolist()",
    "device": "write x.context",
    "data": "write x.detach()",
    "t": "write x.T",
    "type": "write x.astype(dtype)",
    "double": "write x.astype('float64')",
    "int": "write x.astype('int32')",
    "half": "write x.astype('float16')",
    "matmul": "write nd.dot(x, y)",
    "mm": "write nd.dot(x, y)",
    "clone": "write x.copy()",
    "zero_": "write x[:] = 0",
    "fill_": "write x[:] = value",
    "add_": "write x += y",
    "numel": "write x.size",
    "std": "write x.asnumpy().std()",
    "any": "write x.asnumpy().any()",
    "all": "write x.asnumpy().all()",
}
NO_VALUES = frozenset({"item", "numpy", "tolist", "std", "any", "all"})  # of a symbol
PACKAGE = {
    "optim": "write gluon.Trainer(net.collect_params(), 'adam', {'learning_rate': 0.001})",
    "nn": "layers are in gluon.nn",
    "tensor": "write nd.array(values)",
    "no_grad": "only calls within autograd.record() are recorded",
    "Tensor": "arrays are nd.NDArray; write nd.array(values)",
    "array": "write nd.array(values)",
    "zeros": "write nd.zeros(shape)",
    "ones": "write nd.ones(shape)",
    "arange": "write nd.arange(stop)",
    "from_numpy": "write nd.from_numpy(x), or nd.array(x) for a copy",
    "save": "write nd.save(path, arrays), net.save_parameters(path) or net.export(path)",
    "device": "write cpu()",
    "seed": "write random.seed(number)",
    "manual_seed": "write random.seed(number)",
    "cuda": _CPU,
}
OPERATORS = {
    "array": "constants of a traced block are parameters, self.params.get_constant(name, values)",
    "swish": "write x * F.sigmoid(x)",
    "silu": "write x * F.sigmoid(x)",
    "gelu": "write F.LeakyReLU(x, act_type='gelu')",
    "leaky_relu": "write F.LeakyReLU(x, slope=0.01)",
    "elu": "write F.LeakyReLU(x, act_type='elu')",
    "matmul": "write F.dot, or F.batch_dot for a batch of matrices",
    "mm": "write F.dot",
    "bmm": "write F.batch_dot",
    "cat": "write F.concat(*arrays, dim=1)",
    "permute": "write F.transpose(x, axes=axes)",
    "unsqueeze": "write F.expand_dims(x, axis=0)",
    "conv2d": "write F.Convolution",
    "max_pool2d": "write F.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type='max')",
    "interpolate": "write F.UpSampling or F.contrib.BilinearResize2D",
    "einsum": "write np.einsum on arrays of NumPy mode",
    "save": "write y.save(path), a method of symbols",
    "rand": "write F.random.uniform(shape=shape)",
    "randn": "write F.random.normal(shape=shape)",
}
NUMPY = {
    **{name: f"write npx.{name}" for name in ("relu", "sigmoid", "softmax", "log_softmax")},
    **{name: f"write npx.{name}" for name in ("one_hot", "topk", "pick", "batch_dot", "embedding")},
    **{name: f"write npx.{name}" for name in ("convolution", "pooling", "batch_norm", "set_np")},
    "cat": "write np.concatenate",
    "float": "write np.float32",
    "int": "write np.int32",
}
LAYERS = {
    "Linear": "write Dense(units)",
    "ReLU": "write Activation('relu')",
    "Sigmoid": "write Activation('sigmoid')",
    "Tanh": "write Activation('tanh')",
    "Module": "derive from HybridBlock",
    "Identity": "write HybridLambda(lambda F, x: x)",
    "LSTM": "recurrent layers are in gluon.rnn",
    "GRU": "recurrent layers are in gluon.rnn",
    "RNN": "recurrent layers are in gluon.rnn",
    "CrossEntropyLoss": "losses are in gluon.loss: SoftmaxCrossEntropyLoss()",
    "MSELoss": "losses are in gluon.loss: L2Loss()",
    "Softmax": "write HybridLambda('softmax')",
    "LogSoftmax": "write HybridLambda('log_softmax')",
    "ModuleList": "write HybridSequential",
    "Upsample": "write HybridLambda(lambda F, x: F.UpSampling(x, scale=2, sample_type='nearest'))",
    "ConvTranspose1d": "write Conv1DTranspose",
    "ConvTranspose2d": "write Conv2DTranspose",
    "ConvTranspose3d": "write Conv3DTranspose",
    "AdaptiveAvgPool2d": "write GlobalAvgPool2D, or F.contrib.AdaptiveAvgPooling2D",
    "Parameter": "write self.params.get(name, shape=shape), or gluon.Parameter",
    "functional": "functions are in nd and sym, which hybrid_forward takes as F",
    **dict.fromkeys(("LSTMCell", "GRUCell", "RNNCell"), "recurrent cells are in gluon.rnn"),
}
LOSSES = {
    "MSELoss": "write L2Loss(), half of the squared error",
    "BCELoss": "write SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)",
    "BCEWithLogitsLoss": "write SigmoidBinaryCrossEntropyLoss()",
    "NLLLoss": "write SoftmaxCrossEntropyLoss(from_logits=True)",
    "CrossEntropyLoss": "write SoftmaxCrossEntropyLoss()",
    "SmoothL1Loss": "write HuberLoss()",
}
TRANSFORMS = {
    "RandomHorizontalFlip": "write RandomFlipLeftRight()",
    "RandomVerticalFlip": "write RandomFlipTopBottom()",
    "ColorJitter": "write RandomColorJitter()",
    "Pad": "write a gluon.Block of nd.pad",
    "Lambda": "write a gluon.Block, or dataset.transform_first(function)",
}
INITIALIZERS = {
    "XavierUniform": "write Xavier()",
    "XavierNormal": "write Xavier(rnd_type='gaussian')",
    "GlorotUniform": "write Xavier()",
    **dict.fromkeys(("Kaiming", "HeNormal", "KaimingNormal"), "write MSRAPrelu(slope=0)"),
    "Zeros": "write Zero()",
    "Ones": "write One()",
}
SCHEDULES = {
    "StepLR": "write FactorScheduler(step, factor)",
    "MultiStepLR": "write MultiFactorScheduler(step, factor)",
    "CosineAnnealingLR": "write CosineScheduler(max_update)",
    "ExponentialLR": "write FactorScheduler(1, factor)",
}
TRAINERS = {
    "zero_grad": "backward replaces gradients unless grad_req is 'add'",
    "lr": "write learning_rate",
    "param_groups": "write learning_rate, set_learning_rate(rate), or lr_mult of a parameter",
    "state_dict": "write save_states(path)",
    "load_state_dict": "write load_states(path)",
}


_TABLES = {
    "BLOCKS": BLOCKS,
    "ARRAYS": ARRAYS,
    "PACKAGE": PACKAGE,
    "LAYERS": LAYERS,
    "OPERATORS": OPERATORS,
    "NUMPY": NUMPY,
    "LOSSES": LOSSES,
    "TRANSFORMS": TRANSFORMS,
    "INITIALIZERS": INITIALIZERS,
    "SCHEDULES": SCHEDULES,
    "TRAINERS": TRAINERS,
}


def way(name: str, table: str) -> str:
    """``": write x.asnumpy()"`` for a name of the table, otherwise ""."""
    names = _TABLES.get(table, {})
    return f": {names[name]}" if name in names else ""
