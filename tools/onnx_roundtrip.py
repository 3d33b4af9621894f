"""Write graphs as ONNX files, run them by ONNX Runtime, and compare with hybridjit.

    python tools/onnx_roundtrip.py                  all: recorded graphs, PyTorch files, model zoo
    python tools/onnx_roundtrip.py --recorded       all but the model zoo
    python tools/onnx_roundtrip.py resnet           those with one of these words in their name
    python tools/onnx_roundtrip.py --graphs a/b c   files a/b-symbol.json, a/b-0000.params, ...
    python tools/onnx_roundtrip.py --graphs DIR     all such files in a folder
    python tools/onnx_roundtrip.py --gluoncv DIR    each family of gluon-cv, a checkout in DIR
    python tools/onnx_roundtrip.py --gluoncv DIR ssd yolo     all of its networks with such names
    python tools/onnx_roundtrip.py --wheel          models of the package onnx: read, then written

Needs the packages onnx and onnxruntime. Every file passes onnx's checker with its inference of
shapes. Prints a line for each that is refused, or whose outputs are further than 1e-4 of their
deviation from hybridjit's; for graphs with recorded arrays, from MXNet's: ``-io.npz`` holds the
inputs by their names and the outputs as y0, y1, ..., or x and y. Exit code: 1 where a written file
does not agree, else 0. gluon-cv imports further packages (matplotlib, pillow, requests, tqdm,
scipy, pandas, yacs, autocfg, portalocker); integer networks are left out.
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

import gluoncv_networks
import hybridjit as mx
import onnx_backend
from hybridjit import gluon, nd
from hybridjit.errors import MXNetError
from hybridjit.gluon import nn
from hybridjit.gluon.model_zoo import vision
from hybridjit.onnx.blocks import make_block

TOLERANCE = 1e-4
_HALF = 2e-2  # the same for float16, which is rounded after each node
FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
RECORDED, PYTORCH = FIXTURES / "recorded", FIXTURES / "pytorch"
Example = tuple[dict[str, np.ndarray], list[np.ndarray]]  # inputs by name, outputs
Writer = Callable[[str], Example]
_SIDES = {"inceptionv3": 299}


def recorded(stem: str, path: str) -> Example:
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


def of_zoo(name: str, path: str) -> Example:
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


class Face(gluon.HybridBlock):
    """The shape of ArcFace's networks: PReLU, normalizations whose scale is fixed at 1."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.end = nn.HybridSequential(), nn.HybridSequential()
        self.start.add(nn.Conv2D(16, 3, padding=1, use_bias=False))
        self.start.add(nn.BatchNorm(scale=False, epsilon=2e-5), nn.PReLU())
        self.body = nn.HybridSequential()
        self.body.add(nn.BatchNorm(epsilon=2e-5), nn.Conv2D(16, 3, padding=1, use_bias=False))
        self.body.add(nn.BatchNorm(epsilon=2e-5), nn.PReLU())
        self.body.add(nn.Conv2D(16, 3, padding=1, use_bias=False), nn.BatchNorm(epsilon=2e-5))
        self.end.add(nn.BatchNorm(epsilon=2e-5), nn.Dropout(0.4), nn.Dense(64))
        self.end.add(nn.BatchNorm(scale=False, epsilon=2e-5))

    def hybrid_forward(self, F: object, x: object) -> object:
        first = self.start(x)
        return F.L2Normalization(self.end(first + self.body(first)))


def of_face(path: str) -> Example:
    """Write it with drawn weights and statistics, and gammas that its graph does not read."""
    mx.random.seed(1)
    net, x = Face(), nd.random.normal(shape=(2, 3, 28, 28))
    net.initialize(mx.init.Xavier())
    net(x)
    for key, param in net.collect_params().items():
        if key.endswith(("gamma", "running_var", "alpha")):
            param.set_data(nd.random.uniform(0.2, 1.5, shape=param.shape))
    net.hybridize()
    net.export_onnx(path, x)
    return {"data": x.asnumpy()}, [net(x).asnumpy()]


def of_pytorch(file: Path, path: str) -> Example:
    """Load a file that PyTorch's exporter wrote and write it again; PyTorch's outputs."""
    arrays = np.load(file.with_suffix(".npz"))
    x = arrays["x"]
    mx.onnx.load(file).export_onnx(path, nd.array(x, dtype=x.dtype))
    return {"x": x}, [arrays["y"]]


def of_gluoncv(zoo: object, name: str, path: str) -> Example:
    """Write a network of gluon-cv with drawn weights and statistics."""
    block, inputs = gluoncv_networks.make(zoo, name)
    made = block(*inputs)
    block.export_onnx(path, *inputs)
    outputs = [y.asnumpy() for y in (made if isinstance(made, (list, tuple)) else [made])]
    return by_place([x.asnumpy() for x in inputs], path), outputs


def by_place(arrays: Sequence[np.ndarray], path: str) -> dict[str, np.ndarray]:
    """Arrays by the names that a file's inputs have, in the file's order."""
    return dict(zip((info.name for info in onnx.load(path).graph.input), arrays, strict=True))


def of_wheel(case: object, path: str) -> Example:
    """Read a model of the package onnx and write it; the outputs that it has here."""
    arrays, imported = onnx_backend.read_case(case)
    if not imported.inputs:
        raise MXNetError("follows from constants alone: nothing is left to write")
    block = make_block(imported)
    # Networks are compiled: BLAS rounds rows of one product unlike, and the weights of theirs that
    # all are alike make logits of 1e10, among which a unit in the last place decides the softmax.
    block.hybridize(active=case.kind == "real")
    inputs = [nd.array(a, dtype=a.dtype) for a in arrays]
    made = block(*inputs)
    block.export_onnx(path, *inputs)
    outputs = [y.asnumpy() for y in (made if isinstance(made, (list, tuple)) else [made])]
    return by_place(arrays, path), outputs


def of_package(options: argparse.Namespace) -> Iterator[tuple[str, Writer]]:
    """The models of gluon-cv, or of the package onnx."""
    if options.gluoncv:
        zoo = gluoncv_networks.import_zoo(options.gluoncv)
        for name in gluoncv_networks.names(zoo, options.words):
            yield name, partial(of_gluoncv, zoo, name)
        return
    passing = set(onnx_backend.PASSING.read_text().split())
    for kind in onnx_backend.KINDS:
        for case in onnx_backend.load_model_tests(kind=kind):
            if case.name in passing:
                yield case.name, partial(of_wheel, case)


def cases(options: argparse.Namespace) -> Iterator[tuple[str, Writer]]:
    """Names and their writers."""
    if options.gluoncv or options.wheel:
        yield from of_package(options)
        return
    for stem in stems(options.graphs or ()):
        yield Path(stem).name, partial(recorded, stem)
    if options.graphs:
        return
    yield "arcface", of_face
    for case in json.loads((RECORDED / "cases.json").read_text()):
        stem = str(RECORDED / case["name"])
        yield case["name"], partial(recorded, stem)
    for file in sorted(PYTORCH.glob("*.onnx")):
        yield f"pytorch_{file.stem}", partial(of_pytorch, file)
    if not options.recorded:
        for name in sorted(vision._MODELS):
            yield name, partial(of_zoo, name)


def stems(given: Sequence[str]) -> Iterator[str]:
    """The beginnings of files' names; for a folder those of all graphs in it."""
    for name in given:
        if Path(name).is_dir():
            files = sorted(Path(name).glob("*-symbol.json"))
            yield from (str(file).removesuffix("-symbol.json") for file in files)
        else:
            yield name


def gap(found: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    """The largest difference in deviations; infinite where types or shapes differ."""
    worst = 0.0
    for a, b in zip(found, right, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return float("inf")
        worst = max(worst, _farthest(a, b.astype(np.float64)))
    return worst


def _farthest(a: np.ndarray, right: np.ndarray) -> float:
    """The same of one output; elements that are alike, infinite or no number, are not apart."""
    others = ~((a == right) | (np.isnan(a) & np.isnan(right)))
    if not others.any():
        return 0.0
    apart = np.abs(a - right)[others].max()
    finite = right[np.isfinite(right)]
    if apart <= _rounding(finite, a.dtype):
        return 0.0
    found = apart / (finite.std() or 1.0)
    found *= TOLERANCE / _HALF if a.dtype == np.float16 else 1.0
    return float(found) if np.isfinite(found) else float("inf")


def _rounding(numbers: np.ndarray, dtype: np.dtype) -> float:
    """Two units in the last place of the largest: numbers that all are alike have no deviation."""
    if dtype.kind != "f" or not numbers.size:
        return 0.0
    return 2 * float(np.spacing(np.abs(numbers).max().astype(dtype)))


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
    parser.add_argument("--gluoncv", type=Path, metavar="DIR")
    parser.add_argument("--wheel", action="store_true")
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
            except (MXNetError, *gluoncv_networks.ERRORS) as error:
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
