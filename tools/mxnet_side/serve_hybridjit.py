"""Answers requests with hybridjit; a separate process, so that a crash is a finding.

The switches (``HYBRIDJIT_TARGET``, ``HYBRIDJIT_NUM_THREADS``) are in the environment. In: one JSON
object per line on standard input. Out: one per line, ``{"ok": true}`` or ``{"refused": "why"}``.
"""

import ast
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
from gradient_call import call_gradients  # noqa: E402
from layer_call import call_layer  # noqa: E402

import hybridjit as mx  # noqa: E402
from hybridjit import gluon  # noqa: E402


def run(request):
    """Import the two files, run eagerly or hybridized, write the outputs."""
    arrays = mx.nd.load(request["inputs"]) or {}
    if request["how"] == "nd":
        outputs = call(request["symbol"], {**arrays, **states(request["params"])})
    else:
        outputs = call_block(request, arrays)
    mx.nd.save(request["out"], outputs if isinstance(outputs, list) else [outputs])


def gradients(request):
    """Train the graph once, write its outputs and gradients."""
    known = states(request["params"])
    arrays = {**known, **(mx.nd.load(request["inputs"]) or {})}
    mx.nd.save(request["out"], call_gradients(mx, request, arrays, known))


def infer(request):
    """Shapes and element types that follow from some inputs'; None where not all of them do."""
    symbol = mx.sym.load(request["symbol"])
    shapes = {name: tuple(shape) for name, shape in request["shapes"].items()}
    return {"shapes": symbol.infer_shape(**shapes), "types": types_of(symbol, request["types"])}


def types_of(symbol, types):
    lists = symbol.infer_type(**types)
    return [t and [np.dtype(each).name if each else None for each in t] for t in lists]


def call_block(request, arrays):
    net = gluon.SymbolBlock.imports(request["symbol"], list(arrays), request["params"])
    flags = {} if request["winograd"] is None else {"winograd": request["winograd"]}
    net.hybridize(active=request["how"] == "compiled", **flags)
    for _ in range(2 if request["how"] == "compiled" else 1):  # twice: buffers are used again
        result = net(*arrays.values())
    return list(result) if isinstance(result, tuple) else result


def layer(request):
    """Build and call a layer of gluon, write its results."""
    arrays = mx.nd.load(request["arrays"])
    result, facts = call_layer(mx, request, arrays, request["how"] == "compiled")
    mx.nd.save(request["out"], result)
    return facts


def call(path, arrays):
    """The one node of a graph as a call of its function."""
    graph = json.loads(Path(path).read_text())
    node = next(node for node in graph["nodes"] if node["name"] == "node")
    tensors = [arrays[graph["nodes"][i]["name"]] for i, _, _ in node["inputs"]]
    given = {key: value_of(text) for key, text in node["attrs"].items()}
    room = mx.nd._internal if node["op"].startswith("_") else mx.nd.op
    result = getattr(room, node["op"])(*tensors, **given)
    results = result if isinstance(result, list) else [result]
    return results if tensors else [*results, *arrays.values()]


def states(path):
    return {name.partition(":")[2]: array for name, array in (mx.nd.load(path) or {}).items()}


def value_of(text):
    """Arguments as a user writes them: a number or a tuple where the text is one. A None of nd
    means that
    an attribute is not given, so it remains a string."""
    if text == "None":
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


DO = {f.__name__: f for f in (run, gradients, infer, layer)}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output is not an answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, "found": DO[request["do"]](request)}
        except Exception as error:
            lines = str(error).splitlines() or [""]
            answer = {"refused": f"{type(error).__name__}: {lines[0][:300]}"}
            if not isinstance(error, (mx.MXNetError, AssertionError)):
                answer["refused"] += "\n" + traceback.format_exc()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
