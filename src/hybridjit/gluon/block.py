"""Block: a layer or a network with named parameters and children, executed eagerly.

Input: children and parameters as attributes, then arrays to ``block(...)``. Output: the result of
``forward``. A plain block is neither traced nor compiled.
"""

from __future__ import annotations

import inspect
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .. import initializer
from .._core.frames import FAILURES, public, shortened, warn
from .._core.keywords import by_position, of_function
from .._core.lazy import Late, other_names
from .._core.recording import recording_as
from .._core.types import DType
from ..context import Context
from ..errors import require_arguments, require_no_more
from . import model_file, saving
from .hooks import HookHandle
from .naming import BlockScope, name_block
from .parameter import Parameter, ParameterDict
from .structure import Nested, as_arrays, as_numpy
from .summary import print_summary
from .types import Init

if TYPE_CHECKING:
    from .._core import html_text
else:
    html_text = Late(".._core.html_text", __package__)  # in notebooks


_PACKAGE = __name__.partition(".")[0] + "."


class _Signature:
    """The parameters of a class's ``__init__``, which ``__new__`` would hide from ``help``."""

    def __get__(self, block: Block | None, kind: type[Block]) -> inspect.Signature | None:
        if block is not None:
            return None
        own = inspect.signature(kind.__init__)
        return own.replace(parameters=list(own.parameters.values())[1:])


class Block:
    """Base of all layers and networks. A subclass overrides ``forward``.

    Blocks and parameters that are assigned to attributes become children, whose parameters
    ``collect_params`` finds.

    Parameters
    ----------
    prefix : str, optional
        Prefix of the names of parameters; by default made from the class's name and a count.
    params : ParameterDict, optional
        Parameters to share, usually ``other.params`` or ``other.collect_params()``.

    Examples
    --------
    >>> class Twice(gluon.Block):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Dense(3, in_units=3)
    ...
    ...     def forward(self, x):
    ...         return self.layer(self.layer(x))
    >>> net = Twice()
    >>> net.initialize()
    >>> net(nd.ones((1, 3))).shape
    (1, 3)
    """

    __signature__ = _Signature()

    # Containers have no row in summary(): their rows are those of their children.
    is_container = False

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        if cls.__module__.startswith(_PACKAGE):
            try:
                require_arguments(cls, args, kwargs)
            except TypeError as error:
                raise shortened(error)
        return super().__new__(cls)

    def __init__(
        self,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        **unknown: NoReturn,
    ) -> None:
        require_no_more(self, unknown)
        if isinstance(prefix, Block):
            raise AttributeError(
                "prefix is a Block, expected a string: add layers with net.add(...)"
            )
        self._prefix, self._params = name_block(prefix, params, self._alias())
        self._name = self._prefix[:-1] if self._prefix.endswith("_") else self._prefix
        self._scope = BlockScope(self, is_transparent=prefix == "")
        self._children: OrderedDict[str, Block] = OrderedDict()
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: OrderedDict[int, Callable[..., object]] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Callable[..., object]] = OrderedDict()

    def __init_subclass__(cls, **given: Any) -> None:
        """Make the constructor of a layer of this package a public call, for short tracebacks."""
        super().__init_subclass__(**given)
        if cls.__module__.startswith(__package__) and "__init__" in vars(cls):
            cls.__init__ = public(cls.__init__)  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        usual = f"{kind!r} object has no attribute {name!r}"
        usual += other_names.way(name, "BLOCKS")
        if "_children" not in vars(self):
            usual += f": call super().__init__() at the beginning of {kind}.__init__"
        raise shortened(AttributeError(usual, name=name, obj=self))

    def _alias(self) -> str:
        """The hint for automatic names."""
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        children = {n: value for n, value in vars(self).items() if isinstance(value, Block)}
        return rows_text(self, children.items())

    def _repr_html_(self) -> str:
        """The block for notebooks: a line per layer with its parameters; containers fold."""
        return html_of(self, "", is_open=True)

    @public
    def __setattr__(self, name: str, value: object) -> None:
        """Register a Block as a child, a Parameter as a parameter, under the attribute's name.

        Raises TypeError if it would replace an attribute of another type.
        """
        if name in vars(self):
            old = vars(self)[name]
            if isinstance(old, (Block, Parameter)) and not isinstance(value, type(old)):
                raise TypeError(
                    f"Changing attribute type for {name} from {type(old)} to {type(value)} "
                    "is not allowed."
                )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            assert name not in self._reg_params, (
                f"Overriding Parameter attribute {name} is not allowed. If you want to share "
                "parameters between blocks, please set 'params' at Block construction instead."
            )
            self._reg_params[name] = value
        super().__setattr__(name, value)

    # ---- names --------------------------------------------------------------------------------

    @property
    def prefix(self) -> str:
        """Prefix of the names of its parameters."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without its trailing underscore."""
        return self._name

    def name_scope(self) -> BlockScope:
        """``with block.name_scope():`` adds this block's prefix to the names made inside."""
        return self._scope

    @property
    def params(self) -> ParameterDict:
        """This block's parameters, without those of its children."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Parameters of this block and all its descendants, those whose name matches ``select``.

        ``select`` is a regular expression, matched from the start of the full name.
        """
        self._check_containers()
        found = ParameterDict(self._params.prefix)
        pattern = _compiled(select) if select else None
        found.update({n: p for n, p in self.params.items() if pattern is None or pattern.match(n)})
        for child in self._children.values():
            found.update(child.collect_params(select))
        return found

    def _check_containers(self) -> None:
        """Warn of blocks in a plain list or dict, because their parameters would not be found."""
        children = set(self._children.values())
        for name, value in vars(self).items():
            if name == "_children" or not isinstance(value, (list, tuple, dict)):
                continue
            if any(isinstance(b, Block) and b not in children for b in _contents(value)):
                warn(
                    f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. '
                    "Note that Blocks inside the list, tuple or dict will not be registered "
                    "automatically. Make sure to register them using register_child() or switching "
                    "to nn.Sequential/nn.HybridSequential instead."
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """All parameters by structural path: attribute names and child keys joined by dots."""
        if prefix:
            prefix += "."
        found = {prefix + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + name))
        return found

    # ---- children and hooks -------------------------------------------------------------------

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child; its key is ``name``, by default the number of previous children."""
        self._children[str(len(self._children)) if name is None else name] = block

    def register_forward_pre_hook(self, hook: Callable[..., object]) -> HookHandle:
        """Call ``hook(block, inputs)`` before every forward."""
        return HookHandle(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., object]) -> HookHandle:
        """Call ``hook(block, inputs, output)`` after every forward."""
        return HookHandle(self._forward_hooks, hook)

    def register_op_hook(self, callback: Callable[..., object], monitor_all: bool = False) -> None:
        """Register on all hybrid blocks inside; see :meth:`HybridBlock.register_op_hook`."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def apply(self, fn: Callable[[Block], object]) -> Block:
        """Call ``fn`` on every descendant, children first, then on this block; returns it."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    # ---- parameters ---------------------------------------------------------------------------

    @public
    def initialize(
        self,
        init: Init = None,
        ctx: Context | list[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize all parameters.

        Parameters
        ----------
        init : Initializer or str, optional
            Initializer of parameters without their own; by default Uniform().
        ctx : Context or list of Context, optional
            Contexts; by default the current one.
        verbose : bool
            Whether the initializer reports each parameter.
        force_reinit : bool
            Whether parameters that have values are initialized again.
        """
        init = initializer.Uniform() if init is None else init
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    @public
    def cast(self, dtype: DType) -> None:
        """Change the element type of all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the hybrid blocks inside, each separately."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    @public
    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write all parameters by structural path; with ``deduplicate`` shared ones only once."""
        saving.save_parameters(self, filename, deduplicate)

    @public
    def load_parameters(
        self,
        filename: str,
        ctx: Context | list[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters from a file of :meth:`save_parameters`, ``export`` or MXNet.

        Parameters
        ----------
        filename : str
            The file.
        ctx : Context or list of Context, optional
            Contexts; by default those of the parameters, else the current one.
        allow_missing : bool
            Whether parameters may be absent from the file; they keep their values.
        ignore_extra : bool
            Whether the file may contain other names.
        cast_dtype : bool
            Whether values of another element type are accepted.
        dtype_source : str
            Then the resulting type: "current" (of the parameter) or "saved" (of the file).

        Raises
        ------
        AssertionError
            For a missing name, another shape, or another element type.
        ValueError
            For an extra name.
        MXNetError
            If the file cannot be read. The parameters then keep their values.
        """
        saving.load_parameters(
            self, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source
        )

    def save_params(self, filename: str) -> None:
        """Deprecated: full names without this block's prefix."""
        warn(
            "save_params is deprecated. Please use save_parameters. Note that if you want load "
            "from SymbolBlock later, please use export instead."
        )
        self.collect_params().save(filename, strip_prefix=self.prefix)

    @public
    def load_params(
        self,
        filename: str,
        ctx: Context | list[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        """Deprecated: the same as :meth:`load_parameters`."""
        warn("load_params is deprecated. Please use load_parameters.")
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    @public
    def save(self, prefix: str) -> None:
        """Write ``<prefix>-model.json`` (the structure) and ``<prefix>-model.params``."""
        model_file.save_model(self, prefix)

    @public
    def load(self, prefix: str) -> None:
        """Read files of :meth:`save` into a block of the same structure.

        Blocks are matched by class and position. This block and all inside get the stored names of
        blocks, children and parameters, values, and the state of hybridization. Raises KeyError for
        another structure, MXNetError for files that cannot be read, otherwise as
        :meth:`load_parameters`.
        """
        model_file.load_model(self, prefix)

    def _described_graph(self) -> dict[str, object]:
        """Description of the graph for :meth:`save`; empty for a plain block."""
        return {}

    def _forget_graph(self, activate: bool) -> None:
        """Discard a graph after names inside changed; a plain block has no graph."""

    # ---- running ------------------------------------------------------------------------------

    def __call__(self, *args: Nested, **named: Nested) -> Nested:
        try:
            if named:
                args = tuple(self._by_position(args, named))
            if self._forward_pre_hooks:
                for hook in list(self._forward_pre_hooks.values()):
                    hook(self, args)
            output = self.forward(*args)
            if self._forward_hooks:
                for hook in list(self._forward_hooks.values()):
                    hook(self, args, output)
            return output
        except FAILURES as error:
            raise shortened(error)

    @public
    def predict(self, *args: Nested, **named: Nested) -> Nested:
        """Call the block outside of training, with NumPy arrays in and out.

        Parameters
        ----------
        *args, **named : numpy.ndarray, NDArray, None, or nested lists of them
            Arguments of a call. Arrays keep their element types; ``x.astype("float32")`` fits most
            networks.

        Returns
        -------
        numpy.ndarray or nested list of numpy.ndarray
            The outputs, which belong to the caller.

        Raises
        ------
        MXNetError
            As a call does, for shapes and element types that do not fit.

        Examples
        --------
        >>> net = mx.load("examples/digits/digits")
        >>> net.predict(np.zeros((1, 1, 28, 28), "float32")).shape
        (1, 10)
        """
        given = {name: as_arrays(x) for name, x in named.items()}
        with recording_as(False, False):
            return as_numpy(self(*as_arrays(args), **given))

    def _arguments(self, args: Sequence[Nested], named: Mapping[str, Nested]) -> tuple[Nested, ...]:
        """All arguments by position. Raises TypeError for unknown names."""
        return tuple(self._by_position(args, named)) if named else tuple(args)

    def _by_position(self, args: Sequence[Nested], named: Mapping[str, Nested]) -> list[Nested]:
        """Arguments by position. Raises TypeError for unknown names."""
        return by_position(self._parameters_of_call(), args, named)

    def _parameters_of_call(self) -> Mapping[str, object]:
        """Names of a call's arguments with their defaults."""
        return of_function(self.forward)

    def forward(self, *args: Nested) -> Nested:
        """To override: compute the outputs of the block."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    @public
    def summary(self, *inputs: object, **named: object) -> None:
        """Run once on the inputs and print a table of layers, shapes and parameter counts."""
        print_summary(self, self._arguments(inputs, named))


def rows_text(block: Block, children: Iterable[tuple[str, Block]]) -> str:
    """Description of a block: its class, and one indented row per child."""
    rows = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in children]
    return f"{type(block).__name__}(\n" + "\n".join(rows) + "\n)"


def html_of(block: Block, key: str, is_open: bool = False) -> str:
    """A block as HTML: its class and number of parameters, and its children."""
    sizes = [param.shape for param in block._collect_params_with_prefix().values()]
    known = [shape for shape in sizes if shape is not None and all(size > 0 for size in shape)]
    count = f"{sum(math.prod(shape) for shape in known):,}"
    more = "" if len(known) == len(sizes) else " and more, whose shapes are unknown"
    counts = f": {count} parameters{more}" if sizes else ""
    start = f"({key}) " if key else ""
    if not block._children or "\n" not in repr(block):
        return html_text.html_code(f"{start}{block!r}{counts}")
    inside = "".join(html_of(child, name) for name, child in block._children.items())
    return html_text.html_fold(f"{start}{type(block).__name__}{counts}", inside, is_open)


def _contents(container: dict[object, object] | Iterable[object]) -> Iterator[object]:
    """All values in nested lists, tuples and dicts."""
    items = container.values() if isinstance(container, dict) else container
    for item in items:
        if isinstance(item, (list, tuple, dict)):
            yield from _contents(item)
        else:
            yield item


def _compiled(select: str) -> re.Pattern[str]:
    """The regular expression. Raises ``re.error`` with its text."""
    try:
        return re.compile(select)
    except re.error as error:
        raise re.error(f"{error}: select={select!r} is a regular expression") from None
