"""What the rest of the system may know about an operator, as one record.

Passes, tools and readers of files ask the record; none of them keeps a list of names. What many
operators leave out stands in :class:`Traits`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

from .._core.frozen import dataclass
from ..errors import MXNetError
from .attrs import Attr, Attrs, Declared, parse_attrs
from .numbered import Numbered
from .rules import Types
from .signatures import Expansion, Formula, Gradient, Reference

InferRule = Callable[..., tuple[Types, Types]]

_LISTED = 20  # names in a message


class Samples(Enum):
    """Which samples of the operands a sample of the result depends on.

    A sample is a place on the first axis of a batch.
    """

    MIXED = "any of them"
    FIRST = "its own of the first operand; the other operands serve all samples"
    ALIGNED = "its own of each operand that has samples"
    AXIS = "as FIRST, unless the attribute axis is the batch"
    JOINED = "its own of every operand, unless the attribute dim is the batch"
    REDUCED = "as FIRST, unless the batch is among the axes that are reduced"
    PICKED = "its own of every operand, unless the attribute axis is the batch"
    REORDERED = "as FIRST, unless the batch moves to another axis"
    CUT = "as FIRST, unless the attributes begin and step take other samples than all in order"
    ROWS = "as FIRST, unless the batch is one of the last two axes"


class OnStored(Enum):
    """How eager calls compute on what sparse operands store.

    Which operators do, and on which storage, is MXNet's; where the operands are stored otherwise
    than said here, calls compute on dense values.
    """

    NOT = "on dense values"
    EACH = "on each number that the only operand stores"
    EACH_OF_ZERO = "as EACH, where the result at 0 is 0"
    UNION = "on what either of two arrays of one storage stores"
    PRODUCT = "as UNION, and on what one operand stores beside a dense one"
    SCALED = "on what a csr array stores beside a dense one that is broadcast to its shape"
    SUM = "on what any of several row_sparse arrays stores"
    SQUARES = "on rows of row_sparse arrays, summed along them"
    ZEROS = "stores nothing"
    JOINED = "on rows of csr arrays, one behind another"
    CUT = "on what a csr array stores within limits"
    TAKEN = "on the rows of a csr array that a list names"
    RETAINED = "on the rows of a row_sparse array that a list names"
    CAST = "on any storage, to the one that the attribute stype names"
    DOT = "on csr matrices, and on dense ones where the attribute forward_stype asks for others"
    LOOKUP = "on rows of a weight; the gradient stores the rows that occur"
    UPDATE = "on the rows that a row_sparse gradient stores"
    SPARSE_UPDATE = "as UPDATE, of row_sparse weights alone"
    SCATTERED = "as EACH, where a function of 0 that is not 0 stays unstored"
    SCATTERED_ROWS = "on the rows of a row_sparse first operand, by any second one"
    QUADRATIC = "as EACH_OF_ZERO, on csr alone"
    LEARNED_GAMMA = "on dense values; with fix_gamma sparse operands are an error"
    COUNTED = "on csr matrices: the number of stored values, of the whole or of each row"
    LOOKED_UP = (
        "on csr matrices: the values at pairs of a row and a column, -1 where none is stored"
    )


class GradientStored(Enum):
    """Storage of the gradients that simple_bind allocates for an operator's operands.

    This is MXNet's inference; arrays that a program binds keep the storage that they have.
    """

    DENSE = "dense, but for the rows that a rule of the operator names"
    HEAD = "as the head gradient"
    OPERAND = "as the operand"
    BOTH = "as the operand, where the head gradient is stored so too; else dense"


@dataclass(frozen=True)
class Traits:
    """What holds for some operators only; the defaults are what holds for all others.

    random          two calls with equal operands may differ
    loss_head       ends a training graph; inference does not read its input ``label``
    ignores_head    ``ignores_head(attrs)``: a loss, whose gradient does not look at what comes back
    sized_by_values  how large its result is depends on values, so that its type cannot say it
    adds_gradient   the gradient rule gives more than the heads': it runs where none arrives, too
    stops           ``stops(attrs)``: the operands whose gradient does not depend on the head
                    gradients, where that does not follow from the rest of the record
    unread          the results whose gradients no gradient depends on, as in MXNet
    reads_shape     the result follows from the shape and type of the operand alone
    in_single       float16 is computed in single precision and rounded once
    parts_on_host   ``expand`` gives, for some attributes or types, an operator without a kernel
    parts_in_floats  ``expand`` stands for the operator in float32 and float64 alone: in float16
                    the parts would round at every step, the operator rounds once
    samples         what a sample of the result depends on
    on_stored       how eager calls compute on what sparse operands store
    gradient_stored  how the gradients of sparse operands are stored
    names_data      hooks call the only operand ``data``; MXNet numbers it otherwise: ``input0``
    total_outputs   the number of outputs that MXNet counts in files, hidden ones included, or a
                    function of the attributes; 0 is the visible ones
    initial         initializers, as files spell them, of variables made for inputs left out
    training        ``training(attrs)``: the operator that stands for this one in training mode,
                    with the same operands and attributes and maybe further results; None: itself
    keeps_training  ``keeps_training(attrs)``: whether that operator stands for it outside of
                    training mode too, where gradients are wanted
    flat_in_integers  of whole numbers the gradient is 0, as in MXNet
    keeps_sign      ``keeps_sign(attrs)``: of a function of one element whose slope takes its result
                    for its operand: then the way back reads that, and the operand is not saved
    updates         of an operator of training mode: ``updates(g, ins, outs, **attrs)``, by the
                    operand's position what an auxiliary state is after its backward pass
    updates_ahead   these are the states after its forward pass: they are kept whether its backward
                    pass is needed or not
    step            ``step(*arrays, **attrs)``: the results, then what the auxiliary states are
                    after the call, in their order; eager calls write these where the states are.
                    ``ref`` and compiled graphs give the results alone
    rule            of an update operator: ``rule(weight, gradient, *states, **attrs)``, the new
                    weight and states of one weight by arithmetic alone, so that what stands for
                    arrays and numbers may be put in; kernels of whole optimizers follow from it
    merge           ``merge(old, new, **attrs)``: what a call stores in ``out`` for its result
                    ``new``, of an operator that looks at what stood there; None: ``new``
    on_live         of an operator that may write its operands: ``on_live(live)``, the operator that
                    computes on those at the positions in ``live`` where they are. Its values make
                    the array; None is the memory that a call is given
    multiply_adds   ``multiply_adds(ins, outs, **attrs)``: how many the definition asks for, from
                    types; None counts as none
    """

    random: bool = False
    loss_head: bool = False
    ignores_head: Callable[[Attrs], bool] = lambda attrs: False
    sized_by_values: bool = False
    adds_gradient: bool = False
    stops: Callable[[Attrs], Collection[int]] | None = None
    unread: Collection[int] = ()
    reads_shape: bool = False
    in_single: bool = False
    parts_in_floats: bool = False
    parts_on_host: bool = False
    flat_in_integers: bool = False
    samples: Samples = Samples.MIXED
    on_stored: OnStored = OnStored.NOT
    gradient_stored: GradientStored = GradientStored.DENSE
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
        """How a file spells the initializer of the variable that is made for this input."""
        return (self.initial or {}).get(name)


PLAIN = Traits()


@dataclass(frozen=True, eq=False)
class OpDef:
    """Everything the rest of the system may know about an operator.

    inputs   names in graph order, or a function of the attributes. ``*name`` is an auxiliary
             state; a single ``name...`` takes ``num_args`` tensors.
    infer    ``infer(ins, outs, **attrs) -> (ins, outs)``: completes partially known types, in
             both directions where the operator allows it; raises ShapeError or DTypeError.
    ref      ``ref(*arrays, **attrs) -> array or tuple``: the NumPy meaning; what eager mode runs.
    scalar   pointwise only: ``scalar(b, *values, **attrs)``, the same meaning for one element on
             any builder that has the methods of :class:`.scalars.Scalars`.
    expand   ``expand(g, *inputs, **attrs)``: the results made of uses of other operators, on any
             :class:`.building.Builder`; None where the operator stays as it is. Without ``expand``
             it always does.
    slope    pointwise only, where the derivative of ``scalar`` is not MXNet's at a kink:
             ``slope(b, head, *values, **attrs)``, for each operand the head gradient times the
             derivative, or None.
    grad     the gradient rule, ``grad(g, ins, outs, douts, **attrs)``: see :mod:`.gradient`, and
             there what operators without one follow from.
    kernel   the kind of kernel that computes the operator where it stays as it is, if types and
             attributes allow. ``view``: none has to, the result is the operand under other
             strides. ``host``: none can, the reference does.
    outputs  names of the visible outputs, or a function of the attributes.
    domain   range in which the reference is well conditioned, for generated tests.
    subgraphs  the outputs of each graph that the operator runs, of one that does
    internal  made by passes only, whose operands are what it expects: no user and no file can
             name it.
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
        """Attribute values from their texts. Operators that declare none ignore all texts."""
        return parse_attrs(self.attrs, text) if self.attrs else {}

    def with_defaults(self, attrs: Attrs) -> dict[str, Declared]:
        """Values of all declared attributes: those given, defaults for the others."""
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
        """Raises MXNetError unless ``count`` inputs are as many as have ``names``."""
        if len(names) != count:
            more = ", ..." if len(names) > _LISTED else ""
            raise MXNetError(
                f"Operator {self.name} expects {len(names)} inputs "
                f"({', '.join(names[:_LISTED])}{more}), but got {count} instead."
            )

    def aux_positions(self, attrs: Attrs) -> frozenset[int]:
        """Which inputs are auxiliary states: none of those that are numbered."""
        names = self._inputs(attrs)
        if isinstance(names, Numbered):
            return frozenset()
        return frozenset(i for i, n in enumerate(names) if n.startswith("*"))

    def output_names(self, attrs: Attrs) -> Sequence[str]:
        """Names of the visible outputs for these attributes."""
        return self.outputs(**attrs) if callable(self.outputs) else self.outputs

    @cached_property
    def may_act_alone(self) -> bool:
        """Whether its backward pass may do something where no gradient of a result arrives."""
        traits = self.traits
        is_loss = traits.ignores_head is not PLAIN.ignores_head
        return is_loss or traits.adds_gradient or traits.updates is not None

    @property
    def is_random(self) -> bool:
        """Whether two calls with equal inputs may differ."""
        return self.traits.random

    def in_mode(self, attrs: Attrs, training: bool) -> OpDef:
        """The operator that stands for this one in a mode, where gradients are wanted."""
        has_another = training or self.traits.keeps_training(attrs)
        found = self.traits.training(attrs) if has_another and self.traits.training else None
        return found or self

    @property
    def is_pointwise(self) -> bool:
        """Whether each element of the result follows from one element of each operand."""
        return self.kernel == "pointwise"

    @property
    def is_variadic(self) -> bool:
        return not callable(self.inputs) and any(n.endswith("...") for n in self.inputs)

    @cached_property
    def _fixed_names(self) -> tuple[str, ...]:
        """Names of the inputs where no attribute decides; none where one does."""
        if callable(self.inputs) or self.is_variadic:
            return ()
        return tuple(name.lstrip("*") for name in self.inputs)

    def _inputs(self, attrs: Attrs) -> Sequence[str]:
        names = self.inputs(**attrs) if callable(self.inputs) else self.inputs
        if names and names[-1].endswith("..."):
            return Numbered("arg", attrs["num_args"])
        return names
