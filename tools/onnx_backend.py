"""Run the test cases that the onnx package ships on hybridjit, and compare with the list of passing
ones.

    python tools/onnx_backend.py                    all cases of single operators
    python tools/onnx_backend.py conv lstm          those with one of these words in their name
    python tools/onnx_backend.py --write            the list of those that pass, anew

    python tools/onnx_backend.py --open             those that do not pass, and why

Needs the package onnx (pip install onnx). A graph takes its inputs when it is called; inputs that
an operator asks for as constants, a shape or weights, are given to it as such. Element types that
MXNet lacks are the wider ones that stand for them, and numbers without axes have one. Prints
why cases do not pass, and how often. Exit code: 1 where a case of tests/fixtures/onnx-backend.txt
does not pass, or with --open where one has no reason in onnx-backend-open.txt, else 0.

Apart from all others are cases of unsupported areas: sequences, optional values, strings,
training, and operators of other domains than ONNX's own.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
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
from hybridjit.onnx.blocks import make_block
from hybridjit.onnx.check import computed
from hybridjit.onnx.graph import Imported, make_graph
from hybridjit.onnx.importer import as_supported
from hybridjit.onnx.operators import KNOWN

PASSING = Path(__file__).parent.parent / "tests" / "fixtures" / "onnx-backend.txt"
OPEN = PASSING.with_name("onnx-backend-open.txt")
# Single operators, small models, large ones without weights, files of PyTorch's old exporters.
KINDS = ("node", "simple", "real", "pytorch-converted", "pytorch-operator")
BFLOAT16 = "bfloat16"
# Storage types of ONNX's narrow types, by the names that its arrays have.
NARROW = {"int4": "i1", "int2": "i1", "uint4": "u1", "uint2": "u1", "float4_e2m1fn": "f4"}
_SMALL = 64  # elements of an input that may stand for a constant


def as_array(value: object) -> np.ndarray:
    """An input or output of a case, in the element type that there is for it here."""
    found = raw_array(value)
    if found.dtype.name == BFLOAT16 or found.dtype.name.startswith("float8"):
        return found.astype(np.float32)
    if found.dtype.name in NARROW:
        return found.astype(NARROW[found.dtype.name])
    return as_supported(found, "an array") if found.dtype.kind in "iu" else found


def raw_array(value: object) -> np.ndarray:
    """The same in its own element type."""
    is_tensor = isinstance(value, onnx.TensorProto)
    return numpy_helper.to_array(value) if is_tensor else np.asarray(value)


_WANTS_CONSTANTS = re.compile("must be (a constant|constants)")


def graph_of(
    model: onnx.ModelProto, arrays: dict[str, np.ndarray], raw: dict[str, np.ndarray]
) -> Imported:
    """The graph for inputs of these shapes; some are constants if an operator requires that.

    raw  the same in their original element types

    First small integer ones, then all but the first, then all.
    """
    small = {n for n, a in arrays.items() if a.size <= _SMALL and a.dtype.kind != "f"}
    small |= {n for n, a in list(arrays.items())[1:] if a.ndim <= 1}
    for constants in (set(), small, set(list(arrays)[1:]), set(arrays)):
        try:
            return _graph_with(model, arrays, raw, constants)
        except MXNetError as error:
            if not _WANTS_CONSTANTS.search(str(error)) or constants == set(arrays):
                raise
    raise AssertionError


def _graph_with(
    model: onnx.ModelProto,
    arrays: dict[str, np.ndarray],
    raw: dict[str, np.ndarray],
    constants: set[str],
) -> Imported:
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    for name in constants:
        whole.graph.initializer.append(numpy_helper.from_array(raw[name], name))
    shapes = {name: array.shape for name, array in arrays.items() if name not in constants}
    return make_graph(read_model(whole.SerializeToString()), KNOWN, None, shapes)


def outputs_of(imported: Imported, arrays: list[np.ndarray], eager: bool) -> list[np.ndarray]:
    """The results of a graph; one without inputs contains its outputs."""
    if not imported.inputs:
        values = computed(imported.heads, imported.params)
        return [values[head] for head in imported.heads]
    block = make_block(imported)
    block.hybridize(active=not eager)
    made = block(*(nd.array(a, dtype=a.dtype) for a in arrays))
    return [y.asnumpy() for y in (made if isinstance(made, (list, tuple)) else [made])]


def read_case(case: object) -> tuple[list[np.ndarray], Imported]:
    """A case's graph, and the arrays of its inputs other than constants."""
    model, inputs = with_files(case).model, case.data_sets[0][0]
    held = {tensor.name for tensor in model.graph.initializer} if case.kind == "real" else ()
    names = [info.name for info in model.graph.input if info.name not in held]
    given = dict(zip(names, map(as_array, inputs)))
    imported = graph_of(model, given, dict(zip(names, map(raw_array, inputs))))
    return [a for name, a in given.items() if name in imported.inputs], imported


def run(case: object, eager: bool) -> None:
    """Raises whatever goes wrong, an AssertionError for other numbers, types or shapes."""
    arrays, imported = read_case(case)
    found, outputs = outputs_of(imported, arrays, eager), case.data_sets[0][1]
    for y, value in zip(found, outputs, strict=True):
        right = as_array(value)
        if raw_array(value).dtype.name == BFLOAT16 and y.dtype == np.float32:
            y = y.astype(raw_array(value).dtype).astype(np.float32)
        shape = () if right.shape == () and y.shape == (1,) else y.shape
        assert (y.dtype, shape) == (right.dtype, right.shape), "another type or shape"
        np.testing.assert_allclose(
            y.reshape(right.shape), right, rtol=case.rtol, atol=case.atol, err_msg="numbers"
        )


_APART = re.compile("Sequence|Optional|String|TfIdf|RegexFull")
_TENSOR = "tensor_type"


def is_apart(model: onnx.ModelProto) -> bool:
    """Whether a case is of an unsupported area."""
    for graph in _graphs(model):
        for info in (*graph.input, *graph.output):
            kind = info.type.WhichOneof("value")
            is_text = info.type.tensor_type.elem_type == onnx.TensorProto.STRING
            if is_text or kind not in (None, _TENSOR):
                return True
        for use in graph.node:
            is_own = use.domain in ("", "ai.onnx")
            named = _APART.search(use.op_type) and use.op_type != "ReverseSequence"
            if named or not is_own:
                return True
            if any(a.name == "training_mode" and a.i for a in use.attribute):
                return True
    return False


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those that stand in nodes."""
    left = [model.graph]
    while left:
        graph = left.pop()
        yield graph
        left += [a.g for use in graph.node for a in use.attribute if a.HasField("g")]


def report_open(eager: bool) -> int:
    """Print failing cases outside of those groups. Return the number of cases without reason."""
    reasons = [line.partition(": ") for line in OPEN.read_text().splitlines() if ": " in line[1:]]
    patterns = [(p, why) for names, _, why in reasons if names[0] != "#" for p in names.split()]
    found = dict(results((), eager, ("node",)))
    inside = {c.name for c in load_model_tests(kind="node") if not is_apart(with_files(c).model)}
    # Training mode is an operand of Dropout, no attribute.
    inside = {name for name in inside if not name.startswith("test_training_dropout")}
    left = sorted(name for name in inside if found[name])
    because = {n: next((w for p, w in patterns if fnmatch.fnmatch(n, p)), None) for n in left}
    for why, count in collections.Counter(because.values()).most_common():
        print(f"{count:5}  {why or 'no reason: ' + ', '.join(n for n in left if not because[n])}")
    passing = len(inside) - len(left)
    print(f"{passing} of {len(inside)} cases pass, {100 * passing / len(inside):.1f} %")
    print(f"{len(found) - len(inside)} cases are of what is not there at all")
    return sum(why is None for why in because.values())


def with_files(case: object) -> object:
    """A case with the model and the arrays that stand in the package's files."""
    if case.model is None and case.kind == "real":
        path = Path(onnx.__file__).parent.parent / case.url
        case.model = onnx.load(path)
        result = onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb"))
        case.data_sets = [([rising(case.model.graph)], [result])]
    elif case.model is None:
        folder = Path(case.model_dir)
        case.model = onnx.load(folder / "model.onnx")
        case.data_sets = [
            tuple(
                [
                    onnx.TensorProto.FromString(file.read_bytes())
                    for file in sorted((folder / "test_data_set_0").glob(f"{what}_*.pb"))
                ]
                for what in ("input", "output")
            )
        ]
    return case


def rising(graph: onnx.GraphProto) -> np.ndarray:
    """Inputs of networks in the package's runner: numbers from 0 to below 1, in order."""
    held = {tensor.name for tensor in graph.initializer}
    (info,) = (info for info in graph.input if info.name not in held)
    shape = [size.dim_value for size in info.type.tensor_type.shape.dim]
    count = np.prod(shape)
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def results(words: Sequence[str], eager: bool, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each case's name, and why it does not pass; an empty reason where it does."""
    for case in (case for kind in kinds for case in load_model_tests(kind=kind)):
        if words and not any(word in case.name for word in words):
            continue
        try:
            run(case, eager)
        except Exception as error:
            yield case.name, f"{type(error).__name__}: {reason_of(str(error))}"
        else:
            yield case.name, ""


def reason_of(message: str) -> str:
    """The common part of messages with the same cause."""
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
    parser.add_argument("--kinds", nargs="+", default=KINDS, help=f"of cases: {' '.join(KINDS)}")
    parser.add_argument("--eager", action="store_true", help="run by NumPy, compile nothing")
    parser.add_argument("--open", action="store_true", help="print what is open, and why")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.open:
        return 1 if report_open(options.eager) else 0
    found = dict(results(options.words, options.eager, options.kinds))
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
