"""MXNet's recorded graphs with other attributes: refused, or the same compiled as by NumPy.

In: the number of a case. Out: a description of its error, or nothing. A changed graph may mean
anything, so its arrays keep the recorded inputs; graphs that cannot run on them are rejected.
"""

from __future__ import annotations

import json
import random
from functools import cache

import numpy as np

from compiling import compiled, run_reference
from hostile import Span, spans
from hybridjit.errors import InternalError, MXNetError
from hybridjit.formats.mxnet import symbol_json
from hybridjit.ir.node import Output, topological
from recorded import CASES, arrays_of, block_of

# By how much a result may differ, as a part of the largest value: a changed graph may be no longer
# well conditioned, and wrong results differ by more.
TOLERANCE = 2e-3
_STRUCTURE = ('"op"', '"name"', '"inputs"')
_TEXTS = (
    *("0", "1", "2", "3", "-1", "-2", "7", "0.5", "-0.5", "1e30", "True", "False", "None", "()"),
    *("(0,)", "(1,)", "(2,)", "(0, 0)", "(1, 1)", "(2, 2)", "(3, 3)", "(1, 2)", "(2, 1)"),
    *("(0, 0, 0)", "(1, 1, 1)", "(2, 1, 2)", "(-1, 0)", "(0, -1)", "(-1,)", "(9, 9)", "(100, 100)"),
    *("(2147483647, 1)", "2147483647", "1000000", "max", "avg", "sum", "valid", "full", "same"),
    *("float32", "float16", "float64", "int32", "NHWC", "NCHW", "relu", "sigmoid", "elu", "gelu"),
    *("instance", "channel", "spatial", "edge", "reflect", "constant", "bilinear", "nearest"),
)


@cache
def _sources() -> list[tuple[str, list[Span], dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Each recorded graph: text, places of its attributes, inputs and parameters."""
    found = []
    for name in CASES:
        block, (inputs, _) = block_of(name), arrays_of(name)
        text = symbol_json.dumps(block._trace.outputs)
        places = [s for s in spans(text) if s.item < s.start and text[s.start] == '"'
                  and not text.startswith(_STRUCTURE, s.item)]  # fmt: skip
        given = dict(zip(block._trace.input_names, (x.asnumpy() for x in inputs)))
        params = {n: p.data().asnumpy() for n, p in block.collect_params().items()}
        if places:
            found.append((text, places, given, params))
    return found


def mutant_text(number: int) -> str:
    """The graph of this case as JSON."""
    rng = random.Random(number)
    text, places, _, _ = _sources()[number % len(_sources())]
    for place in sorted(rng.choices(places, k=rng.choice((1, 1, 2))), reverse=True):
        text = text[: place.start] + json.dumps(rng.choice(_TEXTS)) + text[place.end :]
    return text


def verdict(number: int) -> tuple[str, bool]:
    """Description of a case's error, and whether it ran."""
    _, _, given, params = _sources()[number % len(_sources())]
    try:
        outputs = symbol_json.loads(mutant_text(number))
        names = {node.name for node in topological(outputs) if node.is_variable}
        arrays = {n: a for n, a in {**given, **params}.items() if n in names}
        if len(arrays) < len(names):
            return "", False
        return _difference(outputs, arrays, [n for n in params if n in names]), True
    except InternalError:
        raise
    except (MXNetError, MemoryError):
        return "", False


def _difference(
    outputs: tuple[Output, ...], arrays: dict[str, np.ndarray], params: list[str]
) -> str:
    executable = compiled(outputs, arrays, params)
    found = executable([np.ascontiguousarray(a) for n, a in arrays.items() if n not in params])
    if any(node.op is not None and node.op.is_random for node in topological(outputs)):
        return ""
    for output, mine, right in zip(outputs, found, run_reference(outputs, arrays)):
        if mine.shape != right.shape or mine.dtype != right.dtype:
            return f"{output.name} is {mine.dtype}{mine.shape}, not {right.dtype}{right.shape}"
        finite = np.isfinite(right)
        if (np.isfinite(mine) != finite).any():
            return f"{output.name}: NaN or infinite at other places"
        gap = np.abs(mine[finite].astype(np.float64) - right[finite].astype(np.float64))
        scale = np.abs(right[finite].astype(np.float64)).max(initial=0.0)
        if gap.max(initial=0.0) > TOLERANCE * scale:
            return f"{output.name} differs by {gap.max():.3g}, the largest value is {scale:.3g}"
    return ""
