"""One gluon layer, built and called; the same code runs with MXNet and with hybridjit.

In: the library ``mx`` and a request: the layer's path below ``mx.gluon`` and its arguments, how to
call it, the names of its input arrays, a seed for its parameters. Out: the arrays that it returns,
and a description: its parameters' names, shapes and types, and its repr.
"""

import zlib

import numpy as np


def call_layer(mx, request, arrays, hybrid):
    """Returns (list of NDArrays, facts). The layer is called a first time to learn its shapes."""
    with mx.name.NameManager():
        layer = built(mx, request["layer"])
        net = unrolling(mx, layer, request) if request["call"] == "unroll" else layer
        text = repr(net)
        if hybrid:
            net.hybridize()
        net.initialize()
        inputs = [arrays[name] for name in request["inputs"]]
        if request["call"] == "states" and len(inputs) > 1:
            inputs = [inputs[0], inputs[1:]]
        net(*inputs)
        fill(mx, net, request["seed"])
        result = flat(net(*inputs))
    params = net._collect_params_with_prefix().items()
    facts = [[name, list(p.shape), np.dtype(p.dtype).name] for name, p in sorted(params)]
    return result, {"params": facts, "text": text}


def built(mx, description):
    """The layer ``[path, arguments]``; arguments that are such lists themselves are layers too."""
    path, given, *more = description
    make = mx.gluon
    for part in path.split("."):
        make = getattr(make, part)
    layer = make(**{name: argument(mx, value) for name, value in given.items()})
    with layer.name_scope():
        for child in more:
            layer.add(built(mx, child))
    return layer


def argument(mx, value):
    if not isinstance(value, list):
        return value
    return built(mx, value) if value and isinstance(value[0], str) else tuple(value)


def unrolling(mx, cell, request):
    class Unrolled(mx.gluon.HybridBlock):
        """A cell over all steps, with given states or none."""

        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.cell = cell

        def hybrid_forward(self, F, x, *states):
            lengths, states = (states[0], states[1:]) if request["lengths"] else (None, states)
            return self.cell.unroll(
                request["steps"], x, list(states) or None, request["layout"], request["merge"],
                lengths,
            )  # fmt: skip

    return Unrolled()


def fill(mx, net, seed):
    """Numbers that follow from the seed and the parameter's place in the layer."""
    for name, param in net._collect_params_with_prefix().items():
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        values = rng.normal(size=param.shape) * 0.4
        if name.endswith(("var", "gamma")):
            values = np.abs(values) + 0.5
        param.set_data(mx.nd.array(values.astype(param.dtype), dtype=param.dtype))


def flat(result):
    if not isinstance(result, (list, tuple)):
        return [result]
    return [array for part in result for array in flat(part)]
