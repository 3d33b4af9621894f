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
}
PACKAGE = {
    "optim": "write gluon.Trainer(net.collect_params(), 'adam', {'learning_rate': 0.001})",
    "nn": "layers are in gluon.nn",
    "tensor": "write nd.array(values)",
    "no_grad": "only calls within autograd.record() are recorded",
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
    "rand": "write F.random.uniform(shape=shape)",
    "randn": "write F.random.normal(shape=shape)",
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
}


_TABLES = {
    "BLOCKS": BLOCKS,
    "ARRAYS": ARRAYS,
    "PACKAGE": PACKAGE,
    "LAYERS": LAYERS,
    "OPERATORS": OPERATORS,
}


def way(name: str, table: str) -> str:
    """``": write x.asnumpy()"`` for a name of the table, otherwise ""."""
    names = _TABLES.get(table, {})
    return f": {names[name]}" if name in names else ""
