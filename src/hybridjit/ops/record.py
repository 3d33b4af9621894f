"""Operator records: all properties of operators that other modules use.

Passes, tools and file readers query the record and contain no lists of operator names. Properties
that most operators do not need are in :class:`Traits`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from .._core.frozen import dataclass
from ..errors import MXNetError
from .attrs import Attr, Attrs, Declared, parse_attrs
from .numbered import Numbered
from .rules import Types
from .signatures import Expansion, Formula, Gradient, Reference

InferRule = Callable[..., tuple[Types, Types]]

_LISTED = 20  # limit of names in a message


class Samples(Enum):
    """Samples of the operands that a sample of the result depends on.

    A sample is an index on the first axis of a batch.
    """

    MIXED = "any of them"
    FIRST = "the same sample of the first operand; all samples use the other operands"
    ALIGNED = "the same sample of each operand that has samples"
    AXIS = "as FIRST, unless the attribute axis is the batch"
    JOINED = "the same sample of every operand, unless the attribute dim is the batch"
    REDUCED = "as FIRST, unless the batch is among the axes that are reduced"
    PICKED = "the same sample of every operand, unless the attribute axis is the batch"
    REORDERED = "as FIRST, unless the batch moves to another axis"
    CUT = "as FIRST, unless the attributes begin and step select or permute samples"
    ROWS = "as FIRST, unless the batch is one of the last two axes"
    PADDED = "as FIRST, unless the batch is among the axes that are extended"


class Eager(Enum):
    """Computation of costly eager calls and their gradients: see :func:`.native.is_costly`."""

    KERNEL = "by compiled code, if the operator has a kernel or an expansion"
    EARLY = "as KERNEL, for few elements too: NumPy takes many calls"
    TWIN = "by compiled code: the operator's channels-last form has a kernel"
    NUMPY = "by NumPy, which is as fast as the kernel or faster"


class OnStored(Enum):
    """Computation of eager calls on the stored data of sparse operands.

    The operators and storage types are those of MXNet; for other storage types, calls compute on
    dense values.
    """

    NOT = "on dense values"
    EACH = "on each stored value of the only operand"
    EACH_OF_ZERO = "as EACH, where the result at 0 is 0"
    UNION = "on the union of the stored values of two arrays of equal storage types"
    PRODUCT = "as UNION, and on the stored values of one operand and a dense one"
    SCALED = "on the stored values of a csr array and a dense one broadcast to its shape"
    SUM = "on the union of the stored rows of several row_sparse arrays"
    SQUARES = "on rows of row_sparse arrays, summed along them"
    ZEROS = "stores nothing"
    JOINED = "on concatenated rows of csr arrays"
    CUT = "on the stored values of a csr array within a slice"
    TAKEN = "on selected rows of a csr array"
    RETAINED = "on selected rows of a row_sparse array"
    CAST = "on any storage type, converted to that of the attribute stype"
    DOT = "on csr matrices, and on dense ones if the attribute forward_stype is sparse"
    LOOKUP = "on rows of a weight; the gradient stores the rows that occur"
    UPDATE = "on the rows that a row_sparse gradient stores"
    SPARSE_UPDATE = "as UPDATE, of row_sparse weights alone"
    SCATTERED = "as EACH, also if the function of 0 is not 0"
    SCATTERED_ROWS = "on the rows of a row_sparse first operand, for any second one"
    QUADRATIC = "as EACH_OF_ZERO, on csr alone"
    LEARNED_GAMMA = "on dense values; with fix_gamma sparse operands are an error"
    COUNTED = "on csr matrices: the number of stored values, in total or for each row"
    LOOKED_UP = (
        "on csr matrices: the values at pairs of a row and a column, -1 where none is stored"
    )


class GradientStored(Enum):
    """Storage of the gradients that simple_bind allocates for an operator's operands.

    This is MXNet's inference; arrays that a program binds keep their storage type.
    """

    DENSE = "dense, except for an operand that a rule of the operator selects"
    HEAD = "as the output gradient"
    OPERAND = "as the operand"
    BOTH = "as the operand, if the output gradient has the same storage type; else dense"


@dataclass(frozen=True)
class Traits:
    """Properties of some operators; the defaults apply to all others.

    random          two calls with equal operands may differ
    loss_head       ends a training graph; inference does not read its input ``label``
    ignores_head    ``ignores_head(attrs)``: a loss, whose gradient ignores the output gradient
    sized_by_values  the size of the result depends on values and is unknown in its type
    adds_gradient   the gradient rule adds its own term: it runs without output gradients, too
    stops           ``stops(attrs)``: operands whose gradient ignores the output gradients,
                    if that does not follow from the rest of the record
    unread          results whose gradients no gradient depends on, as in MXNet
    in_files        for an internal operator: files may contain it, because its rule checks operands
    reads_shape     the result depends on the shape and type of the operand only
    in_single       float16 is computed in single precision and rounded once
    parts_on_host   ``expand`` returns operators without kernels for some attributes or types
    parts_in_floats  ``expand`` is valid in float32 and float64 only: in float16 the expansion would
                    round after every step, the operator rounds once
    samples         samples that a sample of the result depends on
    on_stored       computation of eager calls on the stored data of sparse operands
    gradient_stored  storage of the gradients of sparse operands
    eager           computation of costly eager calls
    names_data      hooks use the name ``data`` for the only operand, as MXNet; otherwise ``input0``
    total_outputs   number of outputs in MXNet's files, including hidden ones, or a function of the
                    attributes; 0 means the visible ones
    initial         initializers, as in files, of variables created for missing inputs
    training        ``training(attrs)``: the operator that replaces this one in training mode, with
                    the same operands and attributes and possibly more results; None: itself
    keeps_training  ``keeps_training(attrs)``: whether that operator replaces it outside of training
                    mode too, if gradients are requested
    flat_in_integers  the gradient is 0 for integers, as in MXNet
    keeps_sign      ``keeps_sign(attrs)``: the slope of a pointwise function of one operand can be
                    computed from its result: the backward pass reads that, the operand is not saved
    updates         for an operator of training mode: ``updates(g, ins, outs, **attrs)``, by operand
                    position the auxiliary states after its backward pass
    updates_ahead   these are the states after its forward pass: they are stored even without a
                    backward pass
    step            ``step(*arrays, **attrs)``: the results, then the auxiliary states after the
                    call, in order; eager calls write these in place. ``ref`` and compiled graphs
                    compute the results only
    rule            for an update operator: ``rule(weight, gradient, *states, **attrs)``, the new
                    weight and states of one weight by arithmetic only, for arrays and other values;
                    kernels of whole optimizers are derived from it
    merge           ``merge(old, new, **attrs)``: array to store in ``out`` for the result ``new``,
                    for an operator that reads the previous contents; None: ``new``
    on_live         for an operator that may write its operands: ``on_live(live)``, the operator
                    that computes on the operands at the positions in ``live`` in place. The
                    values of ``live`` return the array; None is the memory passed to a call
    multiply_adds   ``multiply_adds(ins, outs, **attrs)``: multiply-adds of the definition, from
                    types; None counts as 0
    """

    random: bool = False
    loss_head: bool = False
    ignores_head: Callable[[Attrs], bool] = lambda attrs: False
    sized_by_values: bool = False
    adds_gradient: bool = False
    stops: Callable[[Attrs], Collection[int]] | None = None
    unread: Collection[int] = ()
    in_files: bool = False
    reads_shape: bool = False
    in_single: bool = False
    parts_in_floats: bool = False
    parts_on_host: bool = False
    flat_in_integers: bool = False
    samples: Samples = Samples.MIXED
    on_stored: OnStored = OnStored.NOT
    gradient_stored: GradientStored = GradientStored.DENSE
    eager: Eager = Eager.KERNEL
    names_data: bool = False
    total_outputs: int | Callable[..., int] = 0
    initial: Mapping[str, str] | None = None
    training: Callable[[Attrs], OpDef | None] | None = None
    keeps_training: Callable[[Attrs], bool] = lambda attrs: False
    keeps_sign: Callable[[Attrs], bool] = lambda attrs: False
    updates: Callable[..., Mapping[int, Any]] | None = None
    updates_ahead: bool = False
    step: Callable[..., Any] | None = None
    rule: Callable[..., Any] | None = None
    merge: Callable[..., Any] | None = None
    on_live: Callable[[Mapping[int, Callable[[], Any] | None]], OpDef] | None = None
    multiply_adds: Callable[..., int] | None = None

    def initializer(self, name: str) -> str | None:
        """Initializer, as in files, of the variable that is created for this input."""
        return (self.initial or {}).get(name)


PLAIN = Traits()


@dataclass(frozen=True, eq=False)
class OpDef:
    """Operator record: all properties of an operator that other modules use.

    inputs   names in graph order, or a function of the attributes. ``*name`` is an auxiliary
             state; a single ``name...`` accepts ``num_args`` tensors.
    infer    ``infer(ins, outs, **attrs) -> (ins, outs)``: completes partially known types, in
             both directions if the operator allows it; raises ShapeError or DTypeError.
    ref      ``ref(*arrays, **attrs) -> array or tuple``: the definition in NumPy, for eager mode.
    scalar   pointwise only: ``scalar(b, *values, **attrs)``, the definition for one element on
             any builder that has the methods of :class:`.scalars.Scalars`.
    expand   ``expand(g, *inputs, **attrs)``: the results computed by other operators, on any
             :class:`.building.Builder`; None if the operator is not expanded, as always without
             ``expand``.
    slope    pointwise only, if the derivative of ``scalar`` is not MXNet's at a kink:
             ``slope(b, head, *values, **attrs)``, for each operand the output gradient times the
             derivative, or None.
    grad     gradient rule, ``grad(g, ins, outs, douts, **attrs)``: see :mod:`.gradient`, also for
             operators without one.
    kernel   kind of kernel that computes the operator if it is not expanded, if types and
             attributes allow. ``view``: none is needed, the result has other
             strides. ``host``: none exists, the reference computes it.
    outputs  names of the visible outputs, or a function of the attributes.
    domain   range in which the reference is well conditioned, for generated tests.
    subgraphs  outputs of each graph that the operator runs, if any
    internal  created by passes only, with operands of the expected form: users and files cannot use
             it.
    """

    name: str
    inputs: tuple[str, ...] | Callable[..., Sequence[str]]
    attrs: tuple[Attr, ...]
    infer: InferRule
    ref: Reference
    scalar: Formula | None = None
    expand: Expansion | None = None
    slope: Formula | None = None
    grad: Gradient | None = None
    kernel: str = "host"
    outputs: tuple[str, ...] | Callable[..., Sequence[str]] = ("output",)
    domain: tuple[float, float] = (-4.0, 4.0)
    aliases: tuple[str, ...] = ()
    internal: bool = False
    traits: Traits = PLAIN
    subgraphs: tuple[Any, ...] = ()
    doc: str = ""

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def parse(self, text: Mapping[str, str]) -> dict[str, Declared]:
        """Attribute values from their strings. Operators without attributes ignore all strings."""
        return parse_attrs(self.attrs, text) if self.attrs else {}

    def with_defaults(self, attrs: Attrs) -> dict[str, Declared]:
        """Values of all declared attributes: the given ones, defaults for the others."""
        return {attr.name: attr.default for attr in self.attrs} | dict(attrs)

    def input_names(self, attrs: Attrs) -> Sequence[str]:
        """Names of the inputs for these attributes, auxiliary ones without their asterisk."""
        if self._fixed_names:
            return self._fixed_names
        names = self._inputs(attrs)
        if isinstance(names, Numbered):
            return names
        return tuple(name.lstrip("*") for name in names)

    def require_inputs(self, names: Sequence[str], count: int) -> None:
        """Raise MXNetError unless ``count`` equals the number of ``names``."""
        if len(names) != count:
            more = ", ..." if len(names) > _LISTED else ""
            raise MXNetError(
                f"Operator {self.name} expects {len(names)} inputs "
                f"({', '.join(names[:_LISTED])}{more}), but got {count} instead."
            )

    def aux_positions(self, attrs: Attrs) -> frozenset[int]:
        """Positions of auxiliary states among the inputs."""
        names = self._inputs(attrs)
        if isinstance(names, Numbered):
            return frozenset()
        return frozenset(i for i, n in enumerate(names) if n.startswith("*"))

    def output_names(self, attrs: Attrs) -> Sequence[str]:
        """Names of the visible outputs for these attributes."""
        return self.outputs(**attrs) if callable(self.outputs) else self.outputs

    @cached_property
    def may_act_alone(self) -> bool:
        """Whether its backward pass may have an effect without output gradients."""
        traits = self.traits
        is_loss = traits.ignores_head is not PLAIN.ignores_head
        return is_loss or traits.adds_gradient or traits.updates is not None

    @property
    def is_random(self) -> bool:
        """Whether two calls with equal inputs may differ."""
        return self.traits.random

    def in_mode(self, attrs: Attrs, training: bool) -> OpDef:
        """Operator that replaces this one in a mode, if gradients are requested."""
        of_training = self.traits.training
        if of_training is None or not (training or self.traits.keeps_training(attrs)):
            return self
        return of_training(attrs) or self

    @cached_property
    def is_ufunc(self) -> bool:
        """Whether its reference is one function of NumPy on elements, as fast as a kernel."""
        return isinstance(getattr(self.ref, "__wrapped__", self.ref), np.ufunc)

    @cached_property
    def optional(self) -> frozenset[str]:
        """Names of the attributes that admit None."""
        return frozenset(attr.name for attr in self.attrs if attr.admits_none)

    @property
    def is_pointwise(self) -> bool:
        """Whether each element of the result depends on one element of each operand."""
        return self.kernel == "pointwise"

    @property
    def is_variadic(self) -> bool:
        return not callable(self.inputs) and any(n.endswith("...") for n in self.inputs)

    @cached_property
    def _fixed_names(self) -> tuple[str, ...]:
        """Names of the inputs if they do not depend on attributes, else none."""
        if callable(self.inputs) or self.is_variadic:
            return ()
        return tuple(name.lstrip("*") for name in self.inputs)

    def _inputs(self, attrs: Attrs) -> Sequence[str]:
        names = self.inputs(**attrs) if callable(self.inputs) else self.inputs
        if names and names[-1].endswith("..."):
            return Numbered("arg", attrs["num_args"])
        return names
