"""``nd.Custom``: an operator written in Python, on arrays."""

from __future__ import annotations

from typing import Any

from .._core.frames import public
from ..ops.attrs import attr_text
from ..ops.custom import custom_operator, keyword_texts
from .interpreter import on_own
from .ndarray import NDArray, invoke


@public
def Custom(*args: NDArray, **kwargs: Any) -> Any:
    """Result of the class registered as ``op_type``; operands by position or by name.

    Arguments precede auxiliary states; the operator may change both. All other keywords are passed
    to the class as strings. Raises MXNetError for a type that is not registered and for exceptions
    of the class, AssertionError for an operand that is not an array.
    """
    out, _ = kwargs.pop("out", None), kwargs.pop("name", None)
    named = {key: kwargs.pop(key) for key in [k for k in kwargs if _is_array(kwargs[k])]}
    texts = keyword_texts(kwargs, attr_text)
    op = custom_operator(texts)
    for array in args:
        if not _is_array(array):
            raise AssertionError(f"Positional arguments must have NDArray type, but got {array}")
    names = [name for name in op.input_names({}) if name in named]
    if left := named.keys() - set(names):
        raise TypeError(f"Custom() does not have the operand {', '.join(sorted(left))}")
    inputs = [*args, *(named[name] for name in names)]
    return invoke(on_own(op, inputs), inputs, texts, out)


def _is_array(value: object) -> bool:
    return isinstance(value, NDArray)
