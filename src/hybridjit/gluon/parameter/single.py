"""Parameters: named arrays of a block, initialised immediately or when their shape is known.

Input: shape, dtype and initialiser from the layer, later values from the user or a file. Output:
NDArrays, and the variable that represents each parameter in a graph. Values are written in place
through the NDArray: all holders of the array see them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ... import autograd, initializer, nd, sym
from ..._core.async_safety import finished, holding
from ..._core.fork_locks import Rank, held_at_fork
from ..._core.frames import public, shortened, warn
from ..._core.shapes import is_np_array, is_np_shape
from ..._core.types import DType, Sizes
from ...context import Context, current_context
from ...errors import DeferredInitializationError
from ...formats.stored import Stored
from ...initializer import InitDesc
from ...nd import NDArray
from ...nd.storage import WRITES
from ...nd.taped import untouched_zeros
from ...sym import Symbol
from ..types import Init

_GRAD_REQS = ("write", "add", "null")
_STORAGE_TYPES = ("default", "row_sparse", "csr")
# Two threads may run the first forward of a network; only one may make the arrays.
_initialising = held_at_fork(Rank.INITIALISING)


class _Deferred(NamedTuple):
    """An initialisation that waits for the shape."""

    init: Init
    ctx: list[Context]
    default_init: Init
    data: NDArray | None = None


class Fresh(NamedTuple):
    """An array without other references, as read from a file: a parameter may use it directly."""

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """The element type of the array."""
        return self.array.dtype

    def can_be(self, dtype: np.dtype, contexts: list[Context]) -> bool:
        """Whether this memory can be the only array of a parameter of this dtype on these
        contexts."""
        flags = self.array.flags
        whole = flags.c_contiguous and flags.aligned and flags.writeable
        return whole and self.array.dtype == dtype and len(contexts) == 1


def _contexts(param: Parameter) -> list[Context] | None:
    """The contexts of the arrays; None before they exist."""
    return None if param._data is None else param.list_ctx()


def _positions(param: Parameter) -> list[list[int | None]] | None:
    """Positions in ``_data``: of GPUs, then of other devices, by device number.

    None before the arrays exist, or for a device without an array.
    """
    if param._data is None:
        return None
    tables: list[list[int | None]] = [[], []]
    for position, ctx in enumerate(param.list_ctx()):
        table = tables[ctx.device_typeid & 1]
        table.extend([None] * (ctx.device_id + 1 - len(table)))
        table[ctx.device_id] = position
    return tables


class _Derived:
    """A private attribute of MXNet that programs read, computed; an assignment replaces it."""

    def __init__(self, function: Callable[[Parameter], object]) -> None:
        self._function = function

    def __get__(self, param: Parameter | None, owner: type) -> object:
        return self if param is None else self._function(param)


class _Arrays(list[NDArray]):
    """The arrays of a parameter; an element that a program replaces is used by the next call."""

    def __setitem__(self, position: Any, array: Any) -> None:
        super().__setitem__(position, array)
        WRITES.replaced += 1
        WRITES.count += 1


class Parameter:
    """A named array of a block, on one or several contexts; its shape may be unknown at first.

    Parameters
    ----------
    name : str
        Full name, as in files.
    grad_req : str
        Effect of backward on the gradient: "write" replaces it, "add" adds to it, "null"
        computes none.
    shape : int or tuple of int, optional
        Shape. A 0 or -1 is a size that is not known yet, None an unknown shape.
    dtype : str or numpy.dtype
        Element type: float16, float32, float64 or an integer type.
    lr_mult, wd_mult : float
        Factors of the optimizer's learning rate and weight decay.
    init : Initializer or str, optional
        Initializer; by default the one that ``initialize`` receives.
    allow_deferred_init : bool
        Whether ``initialize`` may wait for the first forward call, which determines the shape.
    differentiable : bool
        False for auxiliary states, whose ``grad_req`` is always "null".
    stype : str
        Storage type of the values: default, row_sparse or csr. Rows of a row_sparse parameter are
        read with ``row_sparse_data``.
    grad_stype : str
        Storage type of the gradient: default or row_sparse.

    Raises
    ------
    TypeError
        For a shape with elements that are not integers.
    AssertionError
        For another ``grad_req``.
    ValueError
        For another storage type.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2, 3))
    >>> weight.initialize(mx.init.One())
    >>> weight.data().asnumpy()
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    >>> weight.grad().shape
    (2, 3)
    """

    _grad: list[NDArray] | None = None  # one per context, unless grad_req is "null"
    _trainer: Any = None  # the latest one made with it
    _ctx_list = _Derived(_contexts)
    _ctx_map = _Derived(_positions)

    @public
    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: Sizes | None = None,
        dtype: DType = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Init = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self._shape = (shape,) if isinstance(shape, int) else shape
        if self._shape is not None and any(not _is_size(size) for size in self._shape):
            raise TypeError(
                f"the shape of parameter {name} must consist of integers, got {shape!r}"
            )
        self._dtype = dtype
        self._allow_deferred_init = allow_deferred_init
        self._differentiable = differentiable
        _check_storage(name, "grad_stype", grad_stype)
        _check_storage(name, "stype", stype)
        self._stype = stype
        self._grad_stype = grad_stype
        self._var: Symbol | None = None
        self._data: list[NDArray] | None = None
        self._deferred_init: _Deferred | None = None
        self.grad_req = grad_req

    def __getstate__(self) -> dict[str, object]:
        """State for copies and other processes, without the Trainer."""
        return {**self.__dict__, "_trainer": None}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        if self._data is not None:
            self._attach(self._data, self._grad)

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"

    # ---- properties ---------------------------------------------------------------------------

    @property
    def shape(self) -> Any:
        """The shape, with 0 for unknown sizes, or None; can be set to a consistent shape."""
        if is_np_shape() and self._shape is not None:
            return tuple(size or -1 for size in self._shape)
        return self._shape

    @shape.setter
    def shape(self, new: Sequence[int] | None) -> None:
        if self._shape is None or new is None:
            self._shape = None if new is None else tuple(new)
            return
        assert fits(self._shape, new), (
            f"Expected shape {tuple(new)} is incompatible with given shape {self._shape}."
        )
        self._shape = tuple(new)

    @property
    def dtype(self) -> DType:
        """The element type as given; setting it casts."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: DType) -> None:
        self.cast(dtype)

    @property
    def grad_req(self) -> str:
        """Effect of backward on gradients: "write", "add" or "null"."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        assert req in _GRAD_REQS, (
            f"grad_req must be one of 'write', 'add', or 'null', but got '{req}'"
        )
        req = req if self._differentiable else "null"
        is_new = req != getattr(self, "_grad_req", None)
        self._grad_req = req
        if is_new:
            self._attach(self._data or [])

    @property
    def stype(self) -> str:
        """Storage type of the values."""
        return self._stype

    @property
    def grad_stype(self) -> str:
        """Storage type of the gradient."""
        return self._grad_stype

    @property
    def is_initialized(self) -> bool:
        """Whether it has values."""
        return self._data is not None

    @property
    def _is_plain(self) -> bool:
        """Whether its arrays are the stored ones: the class does not override their access."""
        kind = type(self)
        plain = ("data", "list_data", "list_grad", "grad_req")
        return all(getattr(kind, name) is getattr(Parameter, name) for name in plain)

    @property
    def is_deferred(self) -> bool:
        """Whether initialisation waits for the shape."""
        return self._data is None and self._deferred_init is not None

    def var(self) -> Symbol:
        """The variable that represents this parameter in graphs; always the same object."""
        if self._var is None:
            self._var = sym.var(
                self.name,
                shape=self.shape,
                dtype=self.dtype,
                lr_mult=self.lr_mult,
                wd_mult=self.wd_mult,
                init=self.init,
                stype=self._stype,
            )
        return self._var

    def rename(self, name: str) -> None:
        """Set the full name; graphs traced before keep the old one."""
        self.name = name
        self._var = None

    # ---- arrays -------------------------------------------------------------------------------

    def data(self, ctx: Context | None = None) -> NDArray:
        """The array on a context, not a copy.

        Parameters
        ----------
        ctx : Context, optional
            By default the only context, else the current one.

        Raises
        ------
        DeferredInitializationError
            While the shape is unknown.
        RuntimeError
            If the parameter is not initialized, not on that context, or sparse.
        """
        if self._stype != "default":
            self._refuse(f"a copy of Parameter '{self.name}' on ctx {ctx} via data()")
        try:
            return self._check_and_get(self._data, ctx)
        except Exception as error:
            raise shortened(error)

    def _check_and_get(self, arrays: list[NDArray] | None, ctx: Context | None) -> NDArray:
        """The array among ``arrays`` that is on ``ctx``; for subclasses."""
        if arrays is None:
            self._raise_missing()
        if len(arrays) == 1 and (ctx is None or arrays[0].context == ctx):
            return arrays[0]
        wanted = ctx or current_context()
        for array in arrays:
            if array.context == wanted:
                return array
        raise RuntimeError(
            f"Parameter '{self.name}' was not initialized on context {wanted}. "
            f"It was only initialized on {self.list_ctx()}."
        )

    def list_data(self) -> list[NDArray]:
        """The arrays on all contexts, not copies; raises as :meth:`data` does."""
        if self._stype != "default":
            self._refuse(f"copies of Parameter '{self.name}' on all contexts via list_data()")
        return self.arrays()

    def arrays(self) -> list[NDArray]:
        """The arrays on all contexts, including sparse ones."""
        if self._data is None:
            self._raise_missing()
        return list(self._data)

    def _refuse(self, what: str) -> NoReturn:
        other = "row_sparse_data" if self._stype != "default" else "data"
        raise RuntimeError(
            f"Cannot return {what} because its storage type is {self._stype}. Please use {other}() "
            "instead."
        )

    def list_ctx(self) -> list[Context]:
        """The contexts of the parameter. Raises RuntimeError before ``initialize``."""
        if self._data is not None:
            return [array.context for array in self._data]
        if self._deferred_init is not None:
            return self._deferred_init.ctx
        raise RuntimeError(f"Parameter '{self.name}' has not been initialized")

    def _raise_missing(self) -> NoReturn:
        if self._deferred_init is not None:
            raise DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was "
                "deferred. Actual initialization happens during the first forward pass. Please "
                "pass one batch of data through the network before accessing Parameters. You can "
                "also avoid deferred initialization by specifying in_units, num_features, etc., "
                "for network layers."
            )
        raise RuntimeError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize "
            "parameters and create Trainer with Block.collect_params() instead of Block.params "
            "because the later does not include Parameters of nested child Blocks"
        )

    @public
    def set_data(self, data: Any) -> None:
        """Write new values into the arrays on all contexts, in this parameter's element type.

        On a parameter whose initialization is deferred, the values determine its shape.

        Raises
        ------
        AssertionError
            For another shape, and for a parameter that is not initialized.
        """
        self.shape = data.shape
        if self._data is not None:
            for array in self._data:
                array[:] = data
            self.tell_trainer()
            return
        assert self._deferred_init is not None, f"Parameter '{self.name}' has not been initialized"
        self._deferred_init = self._deferred_init._replace(data=data)

    def tell_trainer(self) -> None:
        """Report changed values to the Trainer: a store that updates starts again from them."""
        if self._trainer is not None:
            self._trainer._values_changed(self)

    @public
    def cast(self, dtype: DType) -> None:
        """Change the element type; this makes new arrays."""
        self._dtype = dtype
        if self._data is not None:
            with autograd.pause(autograd.is_training()):
                grads = [array.astype(dtype) for array in self._grad or ()]
                self.hold([array.astype(dtype) for array in self._data], grads)
        self._var = None

    @public
    def reset_ctx(self, ctx: Context | list[Context]) -> None:
        """Move to other contexts. Raises ValueError if uninitialised."""
        contexts = as_list(ctx)
        if self._data is not None:
            self.allocate(self._data[0], contexts)
        elif self._deferred_init is not None:
            self._deferred_init = self._deferred_init._replace(ctx=contexts)
        else:
            raise ValueError(
                f"Cannot reset context for Parameter '{self.name}' because it has not been "
                "initialized."
            )

    # ---- initialisation -----------------------------------------------------------------------

    @public
    def initialize(
        self,
        init: Init = None,
        ctx: Context | list[Context] | None = None,
        default_init: Init = None,
        force_reinit: bool = False,
    ) -> None:
        """Allocate the arrays and fill them.

        Parameters
        ----------
        init : Initializer or str, optional
            Initializer; by default the parameter's own, else ``default_init``.
        ctx : Context or list of Context, optional
            Contexts; by default the current one.
        default_init : Initializer or str, optional
            Initializer of parameters without their own; by default Uniform().
        force_reinit : bool
            Whether a parameter that has values is initialized again. Otherwise a warning is
            issued.

        Raises
        ------
        ValueError
            If the shape is unknown and ``allow_deferred_init`` is False.
        """
        if self._data is not None and not force_reinit:
            warn(
                f"Parameter '{self.name}' is already initialized, ignoring. "
                "Set force_reinit=True to re-initialize."
            )
            return
        default_init = default_init or initializer.Uniform()
        if init is None:
            init = default_init if self.init is None else self.init
        waiting = _Deferred(init, as_list(ctx or current_context()), default_init)
        if is_known(self.shape):
            self._fill(waiting)
        elif self._allow_deferred_init:
            self._deferred_init = waiting
        else:
            raise ValueError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: "
                f"{self.shape}."
            )

    @holding(_initialising)
    def _finish_deferred_init(self) -> None:
        """Make the arrays of a deferred parameter once its shape is known."""
        waiting = self._deferred_init
        if self._data is not None or waiting is None:
            return
        assert is_known(self.shape), (
            f"Cannot initialize Parameter '{self.name}' because it has invalid shape: "
            f"{self.shape}. Please specify in_units, in_channels, etc for `Block`s."
        )
        self._fill(waiting)

    def _fill(self, waiting: _Deferred) -> None:
        values: NDArray | Fresh
        if waiting.data is None:
            values = as_mode(nd.zeros(self.shape, dtype=self.array_dtype))
            desc = InitDesc(self.name, {"__init__": waiting.init})
            initializer.create(waiting.default_init)(desc, values)
        else:
            values = waiting.data
        self.allocate(values, waiting.ctx)
        self._attach(self._data or [])

    def allocate(self, values: NDArray | Fresh, contexts: list[Context]) -> None:
        """Initialise with these values on these contexts, in place if possible."""
        old = self._data
        if self._stype != "default":
            given = values.array if isinstance(values, Fresh) else values
            values = nd.array(given, dtype=self.array_dtype).tostype(self._stype)
        if old is not None and _can_hold(old, values.shape, self.array_dtype, contexts):
            for array in old:
                array[:] = values.array if isinstance(values, Fresh) else values
        elif isinstance(values, Fresh) and values.can_be(self.array_dtype, contexts):
            self.hold([NDArray(values.array, contexts[0])])
        else:
            source = values.array if isinstance(values, Fresh) else values
            self.hold([nd.array(source, ctx=c, dtype=self.array_dtype) for c in contexts])
        self._deferred_init = None

    @finished
    def hold(self, arrays: list[NDArray], grads: list[NDArray] | None = None) -> None:
        """Use these arrays from now on; compiled networks do so at their next call.

        ``grads`` are their gradients, by default zeros, if gradients are computed.
        """
        arrays = [as_mode(array) for array in arrays]
        self._attach(arrays, grads)
        self._data = _Arrays(arrays)
        WRITES.count += 1

    def _attach(self, arrays: list[NDArray], grads: list[NDArray] | None = None) -> None:
        """Mark the arrays as variables, or as plain arrays without gradients."""
        if self.grad_req == "null":
            if self._grad is not None:
                autograd.mark_variables(arrays, arrays, "null")
            self._grad = None
        elif arrays:
            kind = self._grad_stype
            self._grad = grads or [untouched_zeros(array, kind) for array in arrays]
            autograd.mark_variables(arrays, self._grad, self.grad_req)

    @property
    def array_dtype(self) -> np.dtype:
        """The element type of the arrays."""
        return np.dtype(np.float32 if self._dtype is None else self._dtype)

    # ---- gradients ----------------------------------------------------------------------------

    @public
    def grad(self, ctx: Context | None = None) -> NDArray:
        """The gradient on a context, with the shape and element type of the data.

        Parameters
        ----------
        ctx : Context, optional
            By default the only context, else the current one.

        Raises
        ------
        DeferredInitializationError
            While the shape is unknown.
        RuntimeError
            If the parameter is not initialized, or ``grad_req`` is "null".
        """
        self.list_grad()
        return self._check_and_get(self._grad, ctx)

    @public
    def list_grad(self) -> list[NDArray]:
        """The gradients on all contexts; raises as :meth:`grad` does."""
        if self._data is None:
            self._raise_missing()
        if self._grad is None:
            raise RuntimeError(
                f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'"
            )
        return self._grad

    def _set_trainer(self, trainer: object) -> None:
        """Set the Trainer that updates this parameter, for reports of new values to its store.

        Raises RuntimeError for a second Trainer of a sparse parameter, whose rows are in one store.
        """
        is_other = self._trainer is not None and trainer is not None
        if self._stype != "default" and is_other and self._trainer is not trainer:
            raise RuntimeError(
                f"Failed to set the trainer for Parameter '{self.name}' because it was already "
                f"set. More than one trainers for a {self._stype} Parameter is not supported."
            )
        self._trainer = trainer

    def zero_grad(self) -> None:
        """Set the gradient to 0 on every context, if there is one."""
        for array in self._grad or ():
            array._write(0)

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """The arrays on all contexts, with these rows read from the Trainer's store.

        Raises RuntimeError for a dense parameter, and without a Trainer.
        """
        if self._stype != "row_sparse":
            self._refuse(
                f"copies of Parameter '{self.name}' on all contexts via list_row_sparse_data()"
            )
        return self._with_rows(row_id, None)

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """The array on the context of ``row_id``, with these rows read from the Trainer's store.

        Raises RuntimeError as :meth:`list_row_sparse_data` and :meth:`data`.
        """
        if self._stype != "row_sparse":
            self._refuse(f"a copy of Parameter {self.name} via row_sparse_data()")
        return self._with_rows(row_id, row_id.context)[0]

    def _with_rows(self, row_id: NDArray, ctx: Context | None) -> list[NDArray]:
        """The arrays on one context or all of them, after their rows were read."""
        if self._trainer is None:
            raise RuntimeError(
                f"Cannot get row_sparse data for Parameter '{self.name}' when no Trainer is "
                "created with it."
            )
        found = self.arrays() if ctx is None else [self._check_and_get(self._data, ctx)]
        self._trainer._row_sparse_pull(self, found, row_id)
        return found

    def value_on_file(self) -> np.ndarray | Stored:
        """The values for a file. Raises as :meth:`data` does."""
        if self._stype == "default":
            return self.data().asnumpy()
        return self._reduce()._on_file()

    def _reduce(self) -> NDArray:
        """One copy of the values, for a file; all rows of a row_sparse parameter."""
        values = self.arrays()[0].copy()
        if self._stype == "row_sparse" and self._trainer is not None:
            rows = nd.arange(0, values.shape[0], dtype="int64", ctx=values.context)
            self._trainer._row_sparse_pull(self, [values], rows)
        return values


def as_mode(array: NDArray) -> NDArray:
    """The array, converted to NumPy mode if this thread is in that mode."""
    return array.as_np_ndarray() if is_np_array() and array.stype == "default" else array


def _check_storage(name: str, which: str, stype: object) -> None:
    assert stype in _STORAGE_TYPES, (
        f"{which} for Parameter '{name}' must be one of 'default', 'row_sparse', or 'csr', but got "
        f"'{stype}'"
    )


def _is_size(size: object) -> bool:
    return isinstance(size, (int, np.integer))


def is_known(shape: Sequence[int] | None) -> bool:
    """Whether every size of the shape is known; parameters have no empty axes."""
    if not shape:
        return shape is not None and is_np_shape()
    return all(size > 0 for size in shape)


def fits(partial: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether ``shape`` is consistent with ``partial``, in which sizes below 1 are unknown."""
    return len(partial) == len(shape) and all(
        known < 1 or known == size for known, size in zip(partial, shape)
    )


def as_list(ctx: Context | Sequence[Context]) -> list[Context]:
    """A list of contexts; one context becomes a list of one. Raises AttributeError for a name."""
    if isinstance(ctx, str):
        raise AttributeError(f"a context is an object such as mx.cpu(), got {ctx!r}")
    return [ctx] if isinstance(ctx, Context) else list(ctx)


def _can_hold(
    arrays: list[NDArray], shape: tuple[int, ...], dtype: np.dtype, contexts: list[Context]
) -> bool:
    return [array.context for array in arrays] == contexts and all(
        array.shape == shape and array.dtype == dtype for array in arrays
    )
