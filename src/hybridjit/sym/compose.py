"""Construction of nodes from an operator, its operands, attributes and a name.

Input: an operator, Outputs by input name, attribute values. Output: one node. Missing inputs become
variables ``<node>_<input>``, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from .._core.frames import user_line
from ..attribute import AttrScope
from ..errors import MXNetError, located
from ..ir.node import HIDDEN_KEYS, Node, Output, variable
from ..name import TRACED, NameManager
from ..ops.namespace import attr_texts, is_variadic
from ..ops.record import OpDef


@runtime_checkable
class Dumpable(Protocol):
    """Object with a string form for files: an initializer."""

    def dumps(self) -> str: ...


def compose(
    op: OpDef,
    hint: str,
    inputs: Mapping[str, Output],
    given: Mapping[str, object],
    name: str | None = None,
    attr: Mapping[str, object] | None = None,
) -> Node:
    """Node that applies ``op``. Raises MXNetError with operator, node and the user's line."""
    source = user_line()
    if attr is not None and not isinstance(attr, Mapping):
        raise TypeError(f"attr must be a dictionary of strings, got {type(attr).__name__}")
    hidden = {key: str(given[key]) for key in HIDDEN_KEYS & given.keys()}
    own = {key: value for key, value in given.items() if key not in hidden}
    asked = {key: _as_text(value) for key, value in (attr or {}).items()}
    text = {**user_texts({**asked, **hidden}), **attr_texts(op, own)}
    name = NameManager.current.get(name, hint)
    try:
        _refuse_inputs_attributes(text)
        attrs = op.parse(text)
        names = op.input_names(attrs)
        inputs = inputs if names else {}  # MXNet ignores inputs of operators without inputs
        by_name = dict(zip(names, inputs.values())) if is_variadic(op) else inputs
        _check_inputs(names, inputs, by_name)
    except MXNetError as error:
        raise located(error, f"{op.name} '{name}'", (), source) from None
    edges = tuple(
        by_name.get(n) or Output(_implicit_variable(op, name, n, text, source)) for n in names
    )
    return Node(op, name, text, edges, attrs, source, TRACED.path)


def _as_text(value: object) -> str:
    """String form of a value of ``attr``: the dump of an initializer, else ``str``."""
    return value.dumps() if isinstance(value, Dumpable) else str(value)


def user_texts(attr: Mapping[str, str] | None) -> dict[str, str]:
    """Attributes of the current AttrScope and ``attr``, hidden keys with underscores.

    Raises ValueError for a value that is not a string.
    """
    texts = AttrScope.current.get(attr)
    if any(not isinstance(value, str) for value in texts.values()):
        raise ValueError("Set Attr only accepts string values")
    return {f"__{k}__" if k in HIDDEN_KEYS else k: value for k, value in texts.items()}


def _refuse_inputs_attributes(texts: Mapping[str, str]) -> None:
    """Raise MXNetError for an attribute of an input's variable, such as ``weight_lr_mult``."""
    for key in texts:
        for hidden in HIDDEN_KEYS:
            if key.endswith(f"_{hidden}"):
                place = key.removesuffix(f"_{hidden}")
                raise MXNetError(
                    f"setting variable attributes with {key} is deprecated. please instead use "
                    f"w = Variable({hidden}={texts[key]}); sym = YourSymbolName({place}=w)"
                )


def _check_inputs(
    names: Sequence[str], given: Mapping[str, Output], by_name: Mapping[str, Output]
) -> None:
    """Raise MXNetError for an input that the operator does not have with these attributes."""
    if len(by_name) < len(given):
        raise MXNetError(f"expects {len(names)} inputs, but got {len(given)} instead.")
    for name in by_name:
        if name not in names:
            raise MXNetError(
                f"the operator does not have the input {name}; its inputs are {', '.join(names)}"
            )


def _implicit_variable(
    op: OpDef, node_name: str, input_name: str, text: Mapping[str, str], source: str
) -> Node:
    """Variable for a missing input; it has the operator's attributes."""
    initializer = op.traits.initializer(input_name)
    own = {**text, "__init__": initializer} if initializer else text
    return variable(f"{node_name}_{input_name}", own, source)
