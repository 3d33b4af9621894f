"""Answers requests with real MXNet; runs in MXNet's own environment, one process for many cases.

In: one JSON object per line on standard input. Out: one JSON object per line on standard output,
``{"ok": true}`` or ``{"refused": "why"}``; arrays travel in MXNet's binary files.
"""

import json
import os
import sys
import warnings
from collections import namedtuple

warnings.filterwarnings("ignore")

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from gradient_call import call_gradients  # noqa: E402
from layer_call import call_layer  # noqa: E402

Batch = namedtuple("Batch", ["data"])


def run(request):
    """Bind the graph to arrays by name, run it, write the outputs."""
    symbol = mx.sym.load(request["symbol"])
    arrays = {name.partition(":")[2]: a for name, a in load(request["params"]).items()}
    arrays.update(load(request["inputs"]))
    args = {name: arrays[name] for name in symbol.list_arguments()}
    aux = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), args, aux_states=aux, grad_req="null")
    write(request, executor.forward(is_train=False))


def gradients(request):
    """Train the graph once, write its outputs and gradients."""
    states = {name.partition(":")[2]: a for name, a in load(request["params"]).items()}
    write(request, call_gradients(mx, request, {**states, **load(request["inputs"])}, states))


def accepts(request):
    """Whether MXNet itself takes the graph: infers its shapes, and runs it on zeros."""
    shapes = {name: tuple(shape) for name, shape in request["shapes"].items()}
    symbol = mx.sym.load(request["symbol"])
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", type_dict=request["types"], **shapes)
    for output in executor.forward(is_train=False):
        output.wait_to_read()


def infer(request):
    """Shapes and element types that follow from some inputs'; None where not all of them do."""
    symbol = mx.sym.load(request["symbol"])
    shapes = {name: tuple(shape) for name, shape in request["shapes"].items()}
    return {"shapes": symbol.infer_shape(**shapes), "types": types_of(symbol, request["types"])}


def types_of(symbol, types):
    lists = symbol.infer_type(**types)
    return [t and [np.dtype(each).name if each else None for each in t] for t in lists]


def layer(request):
    """Build and call a layer of gluon, write its results."""
    result, facts = call_layer(mx, request, load(request["arrays"]), False)
    write(request, result)
    return facts


def block(request):
    """Load an exported network as gluon users do, run it, write the outputs."""
    arrays = load(request["inputs"])
    net = mx.gluon.SymbolBlock.imports(request["symbol"], list(arrays), request["params"])
    result = net(*arrays.values())
    write(request, result if isinstance(result, (list, tuple)) else [result])


def module(request):
    """Load an exported network as Module users do, run it, write the outputs."""
    arrays = load(request["inputs"])
    symbol, arg_params, aux_params = mx.model.load_checkpoint(request["prefix"], 0)
    net = mx.mod.Module(symbol, list(arrays), label_names=None)
    net.bind([(name, array.shape) for name, array in arrays.items()], for_training=False)
    net.set_params(arg_params, aux_params)
    net.forward(Batch(list(arrays.values())), is_train=False)
    write(request, net.get_outputs())


def parameters(request):
    """Read a file of ``save_parameters`` and write its arrays again."""
    mx.nd.save(request["out"], mx.nd.load(request["params"]))


def load(path):
    return mx.nd.load(path) or {}


def write(request, outputs):
    mx.nd.save(request["out"], [output.copy() for output in outputs])


DO = {f.__name__: f for f in (run, gradients, accepts, infer, layer, block, module, parameters)}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output is not an answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, "found": DO[request["do"]](request)}
        except Exception as error:
            answer = {"refused": f"{type(error).__name__}: {last_line(error)}"}
        print(json.dumps(answer), file=answers, flush=True)


def last_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


if __name__ == "__main__":
    main()
