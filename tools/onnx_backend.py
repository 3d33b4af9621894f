"""Run the test cases that the onnx package ships on hybridjit, and compare with what passes so far.

    python tools/onnx_backend.py                    all cases of single operators
    python tools/onnx_backend.py conv lstm          those with one of these words in their name
    python tools/onnx_backend.py --write            the list of those that pass, anew

Needs the package onnx (pip install onnx). A graph takes its inputs when it is called; inputs that
an operator asks for as constants, a shape or a number of repeats, are given to it as such. Prints
why cases do not pass, and how often. Exit code: 1 where a case of tests/fixtures/onnx-backend.txt
does not pass, else 0.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from hybridjit import nd
from hybridjit.errors import MXNetError
from hybridjit.formats.onnx.messages import read_model
from hybridjit.onnx.importer import Imported, make_graph
from hybridjit.onnx.load import make_block
from hybridjit.onnx.operators import KNOWN

PASSING = Path(__file__).parent.parent / "tests" / "fixtures" / "onnx-backend.txt"
_SMALL = 64  # elements of an input that may stand for a constant


def as_array(value: object) -> np.ndarray:
    """An input or output of a case."""
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def graph_of(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> Imported:
    """The graph for inputs of these shapes; small ones are constants where an operator asks."""
    shapes = {name: array.shape for name, array in arrays.items()}
    try:
        return make_graph(read_model(model.SerializeToString()), KNOWN, None, shapes)
    except MXNetError as error:
        if "has to be a constant" not in str(error):
            raise
    constants = {n: a for n, a in arrays.items() if a.size <= _SMALL and a.dtype.kind != "f"}
    constants |= {n: a for n, a in arrays.items() if a.ndim <= 1 and n != next(iter(arrays))}
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    shapes = {name: shape for name, shape in shapes.items() if name not in constants}
    return make_graph(read_model(model.SerializeToString()), KNOWN, None, shapes)


def run(case: object) -> None:
    """Raises whatever goes wrong, an AssertionError for other numbers, types or shapes."""
    inputs, outputs = (tuple(map(as_array, values)) for values in case.data_sets[0])
    imported = graph_of(case.model, dict(zip((i.name for i in case.model.graph.input), inputs)))
    names = [info.name for info in case.model.graph.input]
    arrays = [a for name, a in zip(names, inputs) if name in imported.inputs]
    made = make_block(imported)(*(nd.array(a, dtype=a.dtype) for a in arrays))
    found = [y.asnumpy() for y in (made if isinstance(made, (list, tuple)) else [made])]
    for y, right in zip(found, outputs, strict=True):
        assert (y.dtype, y.shape) == (right.dtype, right.shape), "another type or shape"
        np.testing.assert_allclose(y, right, rtol=case.rtol, atol=case.atol, err_msg="numbers")


def results(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each case's name, and why it does not pass; an empty reason where it does."""
    for case in load_model_tests(kind="node"):
        if words and not any(word in case.name for word in words):
            continue
        try:
            run(case)
        except Exception as error:
            yield case.name, f"{type(error).__name__}: {reason_of(str(error))}"
        else:
            yield case.name, ""


def reason_of(message: str) -> str:
    """What messages of one cause have in common."""
    unknown = re.search(r"not known here:\n\s+([^:]+):", message)
    if unknown:
        return f"{unknown[1]} is not known"
    line = message.strip().partition("\n")[0]
    return re.sub(r"'[^']*'|\d+", "_", line)[:90]


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--write", action="store_true", help="write the list of those that pass")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = dict(results(options.words))
    passing = sorted(name for name, reason in found.items() if not reason)
    for reason, count in collections.Counter(filter(None, found.values())).most_common():
        print(f"{count:5}  {reason}")
    print(f"{len(passing)} of {len(found)} cases pass")
    if options.write:
        PASSING.write_text("\n".join(passing) + "\n")
        return 0
    lost = [name for name in PASSING.read_text().split() if found.get(name)]
    for name in lost:
        print(f"{name} passed before: {found[name]}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
