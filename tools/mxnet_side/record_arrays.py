"""Record MXNet's results of array code, for tests/unit/test_ndarray.py.

    python tools/mxnet_side/record_arrays.py tests/fixtures/array_code.json

Run it with a Python that has MXNet 1.9.1. In: a JSON object whose keys are expressions, or
statements, over the variables of ``variables`` and the module ``nd``. Out: the same file with the
value of each expression, the variables after each statement, or the exception's name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np


def variables(mx: Any) -> dict[str, Any]:
    """Variables of the code; made anew for each piece."""
    return {
        "mx": mx,
        "nd": mx.nd,
        "np": np,
        "x": mx.nd.array(np.arange(24).reshape(2, 3, 4)),
        "v": mx.nd.array([1, 2, 3]),
        "i": mx.nd.array([1, 2], dtype="int32"),
        "n": np.ones(3, "float32"),
    }


def described(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, (list, tuple)):
        return [described(member) for member in value]
    if hasattr(value, "asnumpy"):
        numbers = value.asnumpy().astype("float64").tolist()
        return [str(list(value.shape)), np.dtype(value.dtype).name, numbers, str(value.ctx)]
    if isinstance(value, type):
        return np.dtype(value).name
    return value.item() if isinstance(value, np.generic) else value


def answer(mx: Any, code: str) -> Any:
    """The value of an expression, ``v`` and ``x`` after a statement, or the exception's name."""
    names = variables(mx)
    try:
        try:
            program = compile(code, "code", "eval")
        except SyntaxError:
            exec(code, names)
            return described([names["v"], names["x"]])
        return described(eval(program, names))
    except Exception as error:
        return {"raises": type(error).__name__}


def main() -> None:
    path = Path(sys.argv[1])
    recorded = {code: answer(mx, code) for code in json.loads(path.read_text())}
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in recorded.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
