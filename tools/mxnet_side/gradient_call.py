"""A graph's outputs and gradients by an executor: the same program for MXNet and for hybridjit."""

import numpy as np


def call_gradients(mx, request, arrays, states):
    """The outputs in training mode, then the gradients of floating arguments, by these arrays.

    Head gradients lie between 0.5 and 1.5 and follow from ``seed``.
    """
    symbol = mx.sym.load(request["symbol"])
    args = {name: arrays[name] for name in symbol.list_arguments()}
    aux = {name: states[name] for name in symbol.list_auxiliary_states()}
    floating = [name for name, x in args.items() if np.dtype(x.dtype).kind == "f"]
    grads = {name: mx.nd.zeros(args[name].shape, dtype=args[name].dtype) for name in floating}
    wanted = {name: "write" if name in grads else "null" for name in args}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=wanted, aux_states=aux)
    outputs = [output.copy() for output in executor.forward(is_train=True)]
    random = np.random.RandomState(request["seed"])
    heads = [mx.nd.array(random.uniform(0.5, 1.5, y.shape), dtype=y.dtype) for y in outputs]
    executor.backward(heads)
    return [*outputs, *(grads[name] for name in floating)]
