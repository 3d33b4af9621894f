"""``hybridjit quantize``: calibrate a network for 8 bits, and write its ranges or its 8-bit form.

Input: a model's files and typical inputs. Output: a table of ranges for ``--precision int8``, and
on request an ONNX file with QuantizeLinear and DequantizeLinear, or MXNet's files.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

import numpy as np

from .. import nd
from .._core.text_table import indented, table
from ..contrib.quantization import quantize_model_mkldnn
from ..errors import MXNetError
from ..formats.ranges import Ranges, write_ranges
from ..gluon import SymbolBlock
from ..gluon.calibration import calibrate
from ..gluon.statistics import STATISTICS
from ..io import DataBatch, DataDesc, DataIter
from ..io.checkpoint import save_checkpoint
from ..ir.calibrated import float_products
from ..loading import make_block
from ..nd import NDArray
from ..onnx.quantized import write_quantized
from ..passes.lower.quantize import scale_of
from ..sym import Symbol
from .arguments import UsageError, add_exclude, add_model, count
from .inputs import add_input
from .model import Model, fixed_variables, read_model, shapes_of
from .samples import batches_of

# Operators whose 8-bit form in MXNet 1.9.1 takes int8 alone: values that are never negative, such
# as the sigmoid in swish, become uint8, and MXNet's own tool then writes files that it cannot run.
_OF_INT8_ALONE = ["elemwise_mul"]

Batches = Sequence[Mapping[str, np.ndarray]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--calibration",
        metavar="DATA",
        help="typical inputs: an .npz file with an array for each input or an .npy file for a "
        "single input, in both of which the first axis is that of samples; or a folder of such "
        "files, each one batch",
    )
    add_input(parser, "), as one batch in place of --calibration (float64 is cast")
    parser.set_defaults(shape=[], dtype=[])
    parser.add_argument(
        "--batch", metavar="N", type=count, help="samples that are computed at once (32)"
    )
    parser.add_argument(
        "--mode",
        choices=tuple(STATISTICS),
        default="naive",
        help="naive: the least and the greatest value; entropy: the range that loses least of the "
        "distribution, so that rare large values saturate (naive)",
    )
    add_exclude(parser)
    parser.add_argument(
        "--out",
        metavar="PREFIX",
        help="beginning of the written files' names: PREFIX-ranges.json (default: NAME-int8)",
    )
    parser.add_argument(
        "--onnx", action="store_true", help="write PREFIX.onnx, with QuantizeLinear nodes"
    )
    parser.add_argument(
        "--mxnet",
        action="store_true",
        help="write PREFIX-symbol.json and PREFIX-0000.params for MXNet 1.9.1 on oneDNN",
    )


def run(args: argparse.Namespace) -> int:
    model = read_model(args.symbol, args.params, ())
    if model.params is None:
        raise UsageError("ranges depend on the network's parameters: give --params")
    batches = batches_of(args, model)
    block = make_block(model.outputs, model.roles, model.params)
    arrays = [[nd.array(x, dtype=x.dtype) for x in batch.values()] for batch in batches]
    ranges = calibrate(block, arrays, args.mode)
    if not ranges:
        raise MXNetError(f"{model.name} has no convolution or dense layer with fixed weights")
    kept = {name: ends for name, ends in ranges.items() if name not in args.exclude}
    difference = _difference(block, arrays[0], kept, args.exclude)
    print(_report(model, kept, args.exclude))
    samples = len(arrays[0][0]) if arrays[0][0].ndim else 1
    print(f"8 bits differ from float32 on {samples} samples by {difference:.2%} of the outputs' "
          "deviation")  # fmt: skip
    for path in _written(args, model, batches, kept):
        print(f"{path}: {os.path.getsize(path)} bytes")
    return 0


def _difference(
    block: SymbolBlock, inputs: Sequence[NDArray], ranges: Ranges, exclude: Sequence[str]
) -> float:
    """The largest ratio of an output's error by 8 bits to its deviation, both root mean squares."""
    wanted = _outputs(block(*inputs))
    block.hybridize(precision="int8", calibration=ranges, exclude=exclude)
    found = _outputs(block(*inputs))
    errors = [float(np.sqrt(np.mean((x - y) ** 2))) for x, y in zip(found, wanted) if y.size]
    spreads = [float(y.std()) or 1.0 for y in wanted if y.size]
    return max((error / spread for error, spread in zip(errors, spreads)), default=0.0)


def _outputs(made: NDArray | Sequence[NDArray]) -> list[np.ndarray]:
    arrays = [made] if isinstance(made, NDArray) else made
    return [array.asnumpy().astype(np.float64) for array in arrays]


def _report(model: Model, ranges: Ranges, exclude: Sequence[str]) -> str:
    """The layers in 8 bits with their ranges, and the products in floating point."""
    rows = [
        (name, f"{low:.6g}", f"{high:.6g}", scale_of(low, high)[1].name)
        for name, (low, high) in ranges.items()
    ]
    text = f"{model.name}: {len(rows)} layers in 8 bits\n"
    text += indented(table(rows, ("layer", "least", "greatest", "data"), right=(1, 2)))
    fixed = fixed_variables(model)
    others = float_products(model.outputs, fixed, ranges, exclude, shapes_of(model))
    if others:
        text += f"\nin floating point: {len(others)}\n" + indented("\n".join(others))
    return text


def _written(args: argparse.Namespace, model: Model, batches: Batches, ranges: Ranges) -> list[str]:
    """Write the files; returns their paths."""
    prefix = args.out or f"{model.name}-int8"
    paths = [f"{prefix}-ranges.json"]
    write_ranges(paths[0], ranges)
    assert model.params is not None
    if args.onnx:
        paths.append(f"{prefix}.onnx")
        write_quantized(
            paths[-1], model.outputs, model.params, ranges, dict(batches[0]), args.exclude
        )
    if args.mxnet:
        _write_mxnet(prefix, args, model, batches)
        paths += [f"{prefix}-symbol.json", f"{prefix}-0000.params"]
    return paths


class _Iterator(DataIter):
    """The batches as a data iterator."""

    def __init__(self, batches: Batches) -> None:
        super().__init__(len(next(iter(batches[0].values()))))
        self._batches = batches
        self.provide_data = [DataDesc(name, x.shape) for name, x in batches[0].items()]
        self.provide_label: list[DataDesc] = []
        self.reset()

    def reset(self) -> None:
        """Start again with the first batch."""
        self._rest = iter(self._batches)

    def next(self) -> DataBatch:
        """The next batch. Raises StopIteration after the last."""
        return DataBatch(data=[nd.array(x, dtype=x.dtype) for x in next(self._rest).values()])


def _write_mxnet(prefix: str, args: argparse.Namespace, model: Model, batches: Batches) -> None:
    symbol, params = Symbol(model.outputs), model.params or {}
    arrays = {n: nd.array(params[n], dtype=params[n].dtype) for n in fixed_variables(model)}
    states = {name: arrays.pop(name) for name in symbol.list_auxiliary_states()}
    made = quantize_model_mkldnn(
        symbol, arrays, states, model.inputs, (), excluded_sym_names=args.exclude,
        excluded_op_names=_OF_INT8_ALONE,
        calib_mode=args.mode, calib_data=_Iterator(batches), quantized_dtype="auto",
    )  # fmt: skip
    save_checkpoint(prefix, 0, *made)
