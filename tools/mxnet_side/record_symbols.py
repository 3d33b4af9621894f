"""Record MXNet's graphs of symbol expressions, for tests/unit/test_symbol.py.

    python tools/mxnet_side/record_symbols.py tests/fixtures/symbol_expressions.json

Run it with a Python that has MXNet 1.9.1. In: a JSON object whose keys are expressions over the
variables ``x``, ``y``, ``z`` and the module ``sym``. Out: the same file with, for each of them,
MXNet's nodes (operator, name, attributes, inputs), outputs, arguments and auxiliary states.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mxnet as mx


def record(expression: str) -> dict[str, object]:
    """MXNet's graph for one expression, with automatic names counted from 0."""
    with mx.name.NameManager():
        names = {"sym": mx.sym, **{name: mx.sym.var(name) for name in "xyz"}}
        made = eval(expression, names)  # the expressions are our own file's
    graph = json.loads(made.tojson(remove_amp_cast=False))
    return {
        "nodes": [
            [node["op"], node["name"], node.get("attrs", {}), [i[:2] for i in node["inputs"]]]
            for node in graph["nodes"]
        ],
        "outputs": made.list_outputs(),
        "arguments": made.list_arguments(),
        "aux": made.list_auxiliary_states(),
    }


def main() -> None:
    path = Path(sys.argv[1])
    recorded = {expression: record(expression) for expression in json.loads(path.read_text())}
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in recorded.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
