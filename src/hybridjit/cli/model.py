"""A model from the command line: files read, inputs typed, parameters found.

Input: file names, shapes and dtypes as given. Output: a :class:`Model`, and the types of its
variables for the compiler. This module does not compile.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .._core.types import FLOAT32, TensorType, merge, type_of
from ..errors import MXNetError
from ..formats.mxnet import symbol_json
from ..formats.mxnet.named_params import load_params, require_parameters
from ..formats.ranges import read_ranges
from ..gluon.calibration import with_ranges
from ..ir.node import Output
from ..ir.roles import Roles, readings, sort_variables, variables, without_labels
from ..ir.signature import in_call_order
from ..onnx.load import read_graph
from ..passes.infer import infer_node_types
from ..sym import Symbol
from .arguments import UsageError, is_onnx
from .inputs import completed, given_early, listed, names_given

Types = dict[str, TensorType]


@dataclass(frozen=True)
class Model:
    """A graph without its labels, and its arrays; ``params`` is None without a file.

    output_names    names for callers
    stated          types of inputs from the file
    """

    name: str
    outputs: tuple[Output, ...]
    output_names: tuple[str, ...]
    roles: Roles
    params: dict[str, np.ndarray] | None
    stated: Mapping[str, TensorType] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Variables that a caller passes, in order."""
        return self.roles.inputs


def read_model(
    symbol: str,
    params: str | None,
    given: Collection[str],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Model:
    """Read a model. A label whose shape is ``given`` remains an input.

    ``shapes`` are input shapes that an ONNX file may not fix. Raises MXNetError for files that
    cannot be used or do not belong together.
    """
    if is_onnx(symbol):
        return _read_onnx(symbol, shapes or {})
    outputs = symbol_json.load(symbol)
    arrays = None if params is None else load_params(params)
    roles = sort_variables(outputs, arrays or ())
    if params is not None and arrays is not None:
        require_parameters(roles, params, arrays)
    kept = {*roles.inputs, *(name for name in roles.labels if name in given)}
    cut = tuple(name for name in roles.labels if name not in given)
    inputs = in_call_order(outputs, [name for name in variables(outputs) if name in kept])
    roles = Roles(tuple(inputs), cut, roles.missing)
    name = Path(symbol).name.removesuffix(".json").removesuffix("-symbol")
    outputs = without_labels(outputs, cut)
    return Model(name, outputs, tuple(o.name for o in outputs), roles, arrays)


def read_model_of(
    args: argparse.Namespace,
    given: Collection[str],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Model:
    """The model of parsed arguments, in their ``--precision``. Raises as :func:`read_model`."""
    return _in_precision(read_model(args.symbol, args.params, given, shapes), args)


def _in_precision(model: Model, args: argparse.Namespace) -> Model:
    """The model; for int8 with the ranges of ``--calibration`` before its layers.

    Raises UsageError for options that exclude each other, ModelFormatError for a file that is not a
    table of ranges, MXNetError for a table of another network.
    """
    if args.precision != "int8":
        if args.calibration is not None or args.exclude:
            raise UsageError("--calibration and --exclude need --precision int8")
        return model
    if args.calibration is None:
        raise UsageError(
            "--precision int8 needs --calibration TABLE: `hybridjit quantize` writes one"
        )
    if getattr(args, "train", None):
        raise UsageError("a network in 8 bits is not trained: omit --train, or --precision int8")
    ranges = read_ranges(args.calibration)
    shapes = shapes_of(model)
    outputs = with_ranges(model.outputs, fixed_variables(model), ranges, args.exclude, shapes)
    return replace(model, outputs=outputs)


def fixed_variables(model: Model) -> list[str]:
    """The variables that are not inputs."""
    return [name for name in variables(model.outputs) if name not in model.inputs]


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters, if there is a file of them."""
    return {name: array.shape for name, array in (model.params or {}).items()}


def _read_onnx(path: str, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """The model of an ONNX file."""
    imported = read_graph(path, shapes)
    roles = Roles(tuple(imported.inputs), (), ())
    name = Path(path).name.removesuffix(".onnx")
    made = imported.heads, imported.outputs, roles, imported.params, imported.inputs
    return Model(name, *made)


def model_of(args: argparse.Namespace, any_batch: bool = False) -> tuple[Model, Types, Types]:
    """The model, the types of its inputs and of its parameters, from parsed arguments.

    any_batch   whether symbolic sizes of an ONNX file stay symbolic in the graph
    """
    early = given_early(args)
    model = read_model_of(args, names_given(args), {} if any_batch else early.shapes)
    given = completed(early, model.inputs, args)
    args.arrays = given.arrays
    return (model, *variable_types(model, given.shapes, given.dtypes))


def example_inputs(args: argparse.Namespace, types: Types) -> dict[str, np.ndarray]:
    """An array for each input: that of ``--input``, else one that its name determines."""
    found = {}
    for name, wanted in types.items():
        array = args.arrays.get(name)
        found[name] = stand_in(name, wanted) if array is None else array.astype(wanted.dtype)
    return found


def variable_types(
    model: Model, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, np.dtype]
) -> tuple[Types, Types]:
    """Types of the inputs, in the order of a call, and of the parameters.

    Raises UsageError for a name that is not a variable and for an input of unknown shape,
    MXNetError if the shapes contradict the graph.
    """
    names = variables(model.outputs)
    _require_names({**shapes, **dtypes}, [*names, *model.inputs], model)
    given = {n: TensorType(shapes.get(n), dtypes.get(n)) for n in {**shapes, **dtypes}}
    known = {**model.stated, **given}
    known |= {n: merge(t, given[n]) for n, t in model.stated.items() if n in given}
    known |= {name: type_of(array) for name, array in (model.params or {}).items()}
    types = infer_node_types(model.outputs, known)
    found = known | {node.name: types[node][0] for node in types if node.is_variable}
    unread = [name for name in model.inputs if name not in found or found[name].dtype is None]
    found |= {name: TensorType(shapes.get(name), dtypes.get(name, FLOAT32)) for name in unread}
    unknown = [name for name in model.inputs if not found[name].is_known]
    if unknown:
        options = " ".join(f"--shape {name}=..." for name in unknown)
        raise UsageError(f"the shape of {listed(unknown)} is unknown: give {options}")
    inputs = {name: found[name] for name in model.inputs}
    params = {name: found[name] for name in names if name not in model.inputs}
    _require_types(params)
    return inputs, params


def _require_names(given: Mapping[str, object], names: list[str], model: Model) -> None:
    wrong = [name for name in given if name not in names]
    if wrong:
        inputs = listed(model.inputs)
        raise UsageError(f"the graph has no variable {listed(wrong)}; its inputs are {inputs}")
    fixed = [name for name in given if name in (model.params or ())]
    if fixed:
        raise UsageError(
            f"{listed(fixed)} has its shape and element type from the parameters' file"
        )


def _require_types(params: Types) -> None:
    unknown = [name for name, found in params.items() if not found.is_known]
    if unknown:
        raise MXNetError(
            f"the shape of {listed(unknown)} cannot be inferred from the inputs: give --params, "
            "or --shape for it as well"
        )


def parameters(model: Model, types: Types) -> dict[str, np.ndarray]:
    """The model's arrays; without a file, random arrays of these types.

    Random weights are scaled to preserve the size of signals; variances and scales are 1.
    """
    if model.params is not None:
        return model.params
    slots = {reading.variable: reading.slot for reading in readings(model.outputs)}
    return {name: stand_in(name, t, slots.get(name, "")) for name, t in types.items()}


def learned(
    model: Model, inputs: Mapping[str, np.ndarray], params: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """An array for every variable, and the variables whose gradients a training step computes.

    These are all parameters except auxiliary states, or the inputs of a graph without parameters.
    """
    states = Symbol(model.outputs).list_auxiliary_states()
    fixed = {name: params[name] for name in variables(model.outputs) if name in params}
    floating = [n for n, a in fixed.items() if a.dtype.kind == "f" and n not in states]
    floating = floating or [n for n, a in inputs.items() if a.dtype.kind == "f"]
    return {**inputs, **fixed}, floating


def stand_in(name: str, wanted: TensorType, slot: str = "") -> np.ndarray:
    """An array of this type for an input or a parameter, determined by its name."""
    assert wanted.dtype is not None
    if wanted.dtype.kind != "f":
        return np.zeros(wanted.dims, wanted.dtype)
    if slot in ("gamma", "moving_var"):
        return np.ones(wanted.dims, wanted.dtype)
    if slot in ("beta", "bias", "moving_mean"):
        return np.zeros(wanted.dims, wanted.dtype)
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    array = generator.standard_normal(wanted.dims, FLOAT32)
    if slot in ("weight", "parameters") and wanted.ndim > 1:
        array *= np.float32((2 / max(1, wanted.size // wanted.dims[0])) ** 0.5)
    return np.asarray(array, wanted.dtype)
