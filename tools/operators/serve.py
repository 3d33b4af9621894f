"""Times operators for ``__main__.py``, with MXNet or with hybridjit: ``python serve.py MODULE``.

In: one JSON object per line on standard input: operator, operands, attributes, mode. Out: one per
line on standard output, ``{"seconds": CPU time of a call}`` or ``{"refused": reason}``.
"""

import ast
import importlib
import json
import os
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")
FLOATS = {"h": "float16", "f": "float32", "d": "float64"}
ENDS = {"low": -2.5, "high": 2.5}
mx = importlib.import_module(sys.argv[1])


def operand(text, rng):
    """An array from ``KIND SHAPE`` such as ``f 32x100``, ``u8 480x640x3`` or ``i10 4x7``.

    ``h`` is float16, ``d`` float64, ``s8`` int8, ``low`` and ``high`` the ends of a range of bytes.
    """
    kind, _, size = text.partition(" ")
    shape = tuple(int(n) for n in size.split("x"))
    if kind in FLOATS:
        return mx.nd.array(rng.standard_normal(shape), dtype=FLOATS[kind])
    if kind == "p":  # between 0.1 and 0.9
        return mx.nd.array(rng.uniform(0.1, 0.9, shape), dtype="float32")
    if kind == "u8":
        return mx.nd.array(rng.integers(0, 256, shape), dtype="uint8")
    if kind in ENDS:
        return mx.nd.full(shape, ENDS[kind])
    if kind == "s8":
        return mx.nd.array(rng.integers(-128, 128, shape), dtype="int8")
    if kind == "spd":  # matrices with a Cholesky factor
        draws = rng.standard_normal(shape)
        return mx.nd.array(draws @ draws.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1]))
    if kind == "tri":
        return mx.nd.array(np.tril(rng.uniform(0.1, 1, shape)) + 3 * np.eye(shape[-1]))
    if kind.startswith("box"):  # corners, in units of the number behind, 1 without one
        low = rng.uniform(0, 0.6, (*shape[:-1], 2))
        corners = np.concatenate([low, low + rng.uniform(0.05, 0.4, low.shape)], -1)
        return mx.nd.array(corners * float(kind[3:] or 1))
    if kind.startswith("roi"):  # batch index, then corners
        low = rng.uniform(0, 0.6, (*shape[:-1], 2))
        corners = np.concatenate([low, low + rng.uniform(0.05, 0.4, low.shape)], -1)
        rows = np.concatenate([np.zeros((*shape[:-1], 1)), corners * float(kind[3:])], -1)
        return mx.nd.array(rows)
    if kind.startswith("n"):  # the same as int32
        return mx.nd.array(rng.integers(1, int(kind[1:]), shape), dtype="int32")
    if kind.startswith("i"):  # integers from 1 to the following number, exclusive
        return mx.nd.array(rng.integers(1, int(kind[1:]), shape), dtype="float32")
    raise ValueError(text)


def function(place, path):
    """``image.resize`` of a namespace."""
    for part in path.split("."):
        place = getattr(place, part)
    return place


class One(mx.gluon.HybridBlock):
    """One operator as a network."""

    def __init__(self, path, attrs):
        super().__init__()
        self._path, self._attrs = path, attrs

    def hybrid_forward(self, F, x, *others):
        return function(F, self._path)(x, *others, **self._attrs)


class Draw(One):
    """An operator without operands; a block needs one."""

    def hybrid_forward(self, F, x):
        return function(F, self._path)(**self._attrs)


def call_of(request):
    """A function of no arguments that computes the operator and waits for it."""
    rng = np.random.default_rng(0)
    is_drawn = request["operands"] == ["none"]
    arrays = [operand("f 1" if is_drawn else text, rng) for text in request["operands"]]
    attrs = {k: literal(v) for k, v in request["attrs"].items()}
    net = (Draw if is_drawn else One)(request["op"], attrs)
    if request["hybrid"]:
        net.hybridize(static_alloc=True, static_shape=True)
    if not request["backward"]:
        return lambda: waited(net(*arrays))
    for array in arrays:
        if np.dtype(array.dtype).kind == "f":
            array.attach_grad()

    def train():
        with mx.autograd.record():
            first = first_of(net(*arrays))
        first.backward()
        waited([a.grad for a in arrays if a.grad is not None])

    return train


def literal(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def first_of(result):
    return result[0] if isinstance(result, (list, tuple)) else result


def waited(results):
    for result in results if isinstance(results, (list, tuple)) else [results]:
        result.wait_to_read()


def seconds(call, least):
    """CPU seconds of a call, all threads together: the best of three runs of ``least`` seconds."""
    call()
    call()
    best, count = float("inf"), 1
    for _ in range(3):
        while True:
            start = time.process_time()
            for _ in range(count):
                call()
            took = time.process_time() - start
            if took >= least:
                break
            count = max(2 * count, int(1.2 * count * least / max(took, 1e-6)))
        best = min(best, took / count)
    return best


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # MXNet prints there
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"seconds": seconds(call_of(request), request["least"])}
        except Exception as error:
            words = str(error).splitlines() or [""]
            answer = {"refused": f"{type(error).__name__}: {words[0][:200]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
