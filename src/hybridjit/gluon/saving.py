"""A block's parameters in a file, under structural paths (``features.0.weight``).

Input: a block and a file name. Output: the file, or the block with the file's values. Files with
full names (``net0_dense0_weight``, optionally with ``arg:``) can be read too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..context import Context
from ..formats.atomic import together
from ..formats.mxnet import params as params_file
from ..formats.mxnet import symbol_json
from ..ir.signature import in_order
from ..nd.storage import together_written
from .parameter import Parameter, ParameterDict
from .parameter.collection import brief_names, named_arrays
from .parameter.loading import load_value
from .trace import Trace


class Tree(Protocol):
    """A block and its children: the attributes of ``Block`` that do not depend on its subclass.

    The type of blocks in the modules below ``Block``.
    """

    is_container: bool
    _name: str
    _children: OrderedDict[str, Any]
    _reg_params: dict[str, Parameter]
    _forward_hooks: OrderedDict[int, Callable[..., object]]

    @property
    def name(self) -> str:
        """Name of the block, without the trailing underscore of its prefix."""

    @property
    def prefix(self) -> str:
        """Prefix of the names of parameters."""

    @property
    def params(self) -> ParameterDict:
        """Parameters of the block itself."""

    def collect_params(self) -> ParameterDict:
        """Parameters of the block and its children, by full names."""

    def apply(self, fn: Callable[[Any], object]) -> object:
        """Call ``fn`` on the children, recursively, and on the block."""

    def register_forward_hook(self, hook: Callable[..., object]) -> object:
        """Call ``hook(block, inputs, outputs)`` after each call."""

    def _collect_params_with_prefix(self) -> dict[str, Parameter]: ...

    def _described_graph(self) -> dict[str, object]: ...

    def _forget_graph(self, activate: bool) -> None: ...

    def __call__(self, *args: object) -> object: ...


def save_parameters(block: Tree, filename: str, deduplicate: bool) -> None:
    """Write every parameter under its path; with ``deduplicate`` only under its last path.

    Raises RuntimeError or DeferredInitializationError, before any write, if a parameter has no
    values.
    """
    by_path = block._collect_params_with_prefix()
    if deduplicate:
        last = {id(param): path for path, param in by_path.items()}
        by_path = {path: p for path, p in by_path.items() if last[id(p)] == path}
    params_file.save(filename, {path: p.value_on_file() for path, p in by_path.items()})


def load_parameters(
    block: Tree,
    filename: str,
    ctx: Context | Sequence[Context] | None,
    allow_missing: bool,
    ignore_extra: bool,
    cast_dtype: bool,
    dtype_source: str,
) -> None:
    """Read by structural path; a file without paths is read by full names."""
    arrays = named_arrays(filename)
    params = block._collect_params_with_prefix()
    if not arrays and not params:
        return
    if not _has_paths(arrays, params):
        full = block.collect_params()
        # A file of save_params() lacks the block's prefix; other files have full names.
        stripped = any(block.prefix + name in full for name in arrays)
        full.load_dict(
            arrays,
            ctx,
            allow_missing,
            ignore_extra,
            block.prefix if stripped else "",
            filename,
            cast_dtype,
            dtype_source,
        )
        return
    if not allow_missing:
        _check_missing(params, arrays, filename)
    if not ignore_extra:
        _check_extra(params, arrays, filename)
    _load_values(params, arrays, ctx, cast_dtype, dtype_source)


@together_written
def _load_values(
    params: Mapping[str, Parameter],
    arrays: Mapping[str, object],
    ctx: Context | Sequence[Context] | None,
    cast_dtype: bool,
    dtype_source: str,
) -> None:
    for path, array in arrays.items():
        if path in params:
            load_value(params[path], array, ctx, cast_dtype, dtype_source)


def _has_paths(arrays: Mapping[str, object], params: Mapping[str, Parameter]) -> bool:
    return any("." in name for name in arrays) or bool(arrays) and set(arrays) <= set(params)


def _check_missing(
    params: Mapping[str, Parameter], arrays: Mapping[str, object], filename: str
) -> None:
    present = {id(params[path]) for path in arrays if path in params}
    for path, param in params.items():
        # One path of a shared parameter suffices.
        assert id(param) in present, (
            f"Parameter '{path}' is missing in file '{filename}', which contains parameters: "
            f"{brief_names(arrays)}. Set allow_missing=True to ignore missing parameters."
            f"{_other_form(params, arrays)}"
        )


def _other_form(params: Mapping[str, Parameter], arrays: Mapping[str, object]) -> str:
    """Advice for a block without paths, as of an exported graph, and a file of paths."""
    if any("." in name for name in params) or not all("." in name for name in arrays):
        return ""
    return (
        " save_parameters wrote the names of the file: load it into a block of the class that "
        "wrote it, or write the network with export()."
    )


def _check_extra(
    params: Mapping[str, Parameter], arrays: Mapping[str, object], filename: str
) -> None:
    for path in arrays:
        if path not in params:
            raise ValueError(
                f"Parameter '{path}' loaded from file '{filename}' is not present in "
                f"ParameterDict, which contains parameters {brief_names(params)}. "
                "Set ignore_extra=True to ignore."
            )


def export_graph(
    trace: Trace, params: ParameterDict, path: str, epoch: int, remove_amp_cast: bool
) -> tuple[str, str]:
    """Write a graph and its parameters, as ``HybridBlock.export`` does; return both file names."""
    symbol = trace.symbol
    outputs = in_order(symbol.outputs, trace.input_names)
    aux = set(symbol.list_auxiliary_states())
    arrays = {
        ("aux:" if name in aux else "arg:") + name: params[name].value_on_file()
        for name in symbol.list_inputs()
        if name in params
    }
    names = f"{path}-symbol.json", f"{path}-{epoch:04d}.params"
    together(
        lambda: symbol_json.save(names[0], outputs, remove_amp_cast),
        lambda: params_file.save(names[1], arrays),
    )
    return names
