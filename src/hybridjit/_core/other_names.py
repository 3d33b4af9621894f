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


_TABLES = {"BLOCKS": BLOCKS, "ARRAYS": ARRAYS, "PACKAGE": PACKAGE, "LAYERS": LAYERS}


def way(name: str, table: str) -> str:
    """``": write x.asnumpy()"`` for a name of the table, otherwise ""."""
    names = _TABLES.get(table, {})
    return f": {names[name]}" if name in names else ""
