"""Write graphs as ONNX files, run them by ONNX Runtime, and compare with hybridjit.

    python tools/onnx_roundtrip.py                  all: recorded graphs, PyTorch files, model zoo
    python tools/onnx_roundtrip.py --recorded       all but the model zoo
    python tools/onnx_roundtrip.py resnet           those with one of these words in their name
    python tools/onnx_roundtrip.py --graphs a/b c   files a/b-symbol.json, a/b-0000.params, ...

Needs the packages onnx and onnxruntime. Every file passes onnx's checker with its inference of
shapes. Prints a line for each that is refused, or whose outputs are further than 1e-4 of their
deviation from hybridjit's; for graphs with recorded arrays, from MXNet's: ``-io.npz`` holds the
inputs by their names and the outputs as y0, y1, ..., or x and y. Exit code: 1 where a written file
does not agree, else 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import hybridjit as mx
from hybridjit import nd
from hybridjit.errors import MXNetError
from hybridjit.gluon.model_zoo import vision

TOLERANCE = 1e-4
FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
RECORDED, PYTORCH = FIXTURES / "recorded", FIXTURES / "pytorch"
Writer = Callable[[str], tuple[dict[str, np.ndarray], list[np.ndarray]]]
_SIDES = {"inceptionv3": 299}


def recorded(stem: str, path: str) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Write a graph of MXNet's files; inputs and MXNet's outputs."""
    arrays = dict(np.load(f"{stem}-io.npz"))
    names = [n for n in arrays if n[0] == "y" and n[1:].isdigit()]
    outputs = [arrays.pop(name) for name in names]
    params = f"{stem}-0000.params"
    given = params if Path(params).exists() else {}
    if not names:  # one input and one output, whose names the file leaves out
        outputs = [arrays.pop("y")]
        arrays["data"] = arrays.pop("x")
    order = [n for n in mx.sym.load(f"{stem}-symbol.json").list_inputs() if n in arrays]
    inputs = {name: arrays[name] for name in order}
    shapes, types = [a.shape for a in inputs.values()], [a.dtype for a in inputs.values()]
    mx.onnx.export_model(f"{stem}-symbol.json", given, shapes, types, path)
    return inputs, outputs


def of_zoo(name: str, path: str) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Write a network of the zoo with drawn weights and statistics."""
    mx.random.seed(1)
    net = vision.get_model(name)
    net.initialize(mx.init.Xavier())
    side = _SIDES.get(name, 224)
    x = nd.random.normal(shape=(1, 3, side, side))
    net(x)
    for key, param in net.collect_params().items():
        if key.endswith(("gamma", "running_var")):
            param.set_data(nd.random.uniform(0.5, 1.5, shape=param.shape))
    net.hybridize()
    net.export_onnx(path, x)
    return {"data": x.asnumpy()}, [net(x).asnumpy()]


def of_pytorch(file: Path, path: str) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Load a file that PyTorch's exporter wrote and write it again; PyTorch's outputs."""
    arrays = np.load(file.with_suffix(".npz"))
    x = arrays["x"]
    mx.onnx.load(file).export_onnx(path, nd.array(x, dtype=x.dtype))
    return {"x": x}, [arrays["y"]]


def cases(options: argparse.Namespace) -> Iterator[tuple[str, Writer]]:
    """Names and what writes them."""
    for stem in options.graphs or ():
        yield Path(stem).name, partial(recorded, stem)
    if options.graphs:
        return
    for case in json.loads((RECORDED / "cases.json").read_text()):
        stem = str(RECORDED / case["name"])
        yield case["name"], partial(recorded, stem)
    for file in sorted(PYTORCH.glob("*.onnx")):
        yield f"pytorch_{file.stem}", partial(of_pytorch, file)
    if not options.recorded:
        for name in sorted(vision._MODELS):
            yield name, partial(of_zoo, name)


def gap(found: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    """The largest difference in deviations; infinite where types or shapes differ."""
    worst = 0.0
    for a, b in zip(found, right, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return float("inf")
        if a.size and not np.array_equal(a, b):
            wide = b.astype(np.float64)
            worst = max(worst, float(np.abs(a - wide).max() / (wide.std() or 1.0)))
    return worst


def run(path: str, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX Runtime's outputs, once onnx's checker has passed the file."""
    onnx.checker.check_model(path, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: inputs[i.name] for i in session.get_inputs()})


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--graphs", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    agree = refused = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/graph.onnx"
        for name, write in cases(options):
            if options.words and not any(word in name for word in options.words):
                continue
            try:
                inputs, right = write(path)
            except MXNetError as error:
                refused += 1
                print(f"{name}: {error}", flush=True)
                continue
            try:
                found = gap(run(path, inputs), right)
            except Exception as error:  # of the two packages, which have classes of many kinds
                print(f"{name}: {error}")
                found = float("inf")
            agree, wrong = agree + (found <= TOLERANCE), wrong + (not found <= TOLERANCE)
            if not found <= TOLERANCE or not options.recorded:
                print(f"{name}: {found:.2g} of the deviation", flush=True)
    print(f"{agree} agree, {wrong} do not, {refused} are refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
