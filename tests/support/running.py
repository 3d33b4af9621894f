"""An operator run by name as eager mode runs it: parsed, inferred, computed, and checked."""

from __future__ import annotations

import numpy as np

from hybridjit._core.types import UNKNOWN, merge, type_of
from hybridjit.ops import lookup, run_ref
from hybridjit.ops.attrs import attr_text


def run(name: str, *arrays: object, **attrs: object) -> np.ndarray | list[np.ndarray]:
    """The result, a list if there are several; operands other than arrays become float32."""
    op = lookup(name)
    text = {key.rstrip("_"): attr_text(value) for key, value in attrs.items()}
    if op.is_variadic:
        text.setdefault("num_args", str(len(arrays)))
    values = op.parse(text)
    operands = [a if isinstance(a, np.ndarray) else np.array(a, np.float32) for a in arrays]
    outs = (UNKNOWN,) * len(op.output_names(values))
    _, outs = op.infer(tuple(type_of(a) for a in operands), outs, **values)
    results = run_ref(op, operands, values)
    for known, result in zip(outs, results, strict=True):
        assert merge(known, type_of(result)) == type_of(result)
        assert result.flags.c_contiguous
        assert not any(np.shares_memory(result, a) for a in operands)
    return results if len(results) > 1 else results[0]


def as_bits(array: np.ndarray) -> list[str]:
    """Numbers as text that tells -0.0 from 0.0."""
    return [str(value) for value in np.asarray(array).ravel().tolist()]
