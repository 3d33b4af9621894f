"""A block's parameters by full name, with their storage in files.

Input: a prefix, and optionally another collection to share. Output: a mapping in order of creation.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import initializer
from ..._core.frames import public
from ..._core.lazy import Late
from ...context import Context
from ...errors import MissingFileError, ModelFormatError, did_you_mean
from ...formats.mxnet import params as params_file
from ...nd import NDArray
from ...nd.storage import together_written
from ..types import Init
from .constant import Constant
from .loading import load_value
from .single import Fresh, Parameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ...formats import model_files
else:
    model_files = Late("...formats.model_files", __package__)  # needed only for an error

_SAME_PREFIX = (
    "Please make sure source and target networks have the same prefix: the constructor's argument "
    "prefix sets it, {}and hybridjit.load reads a graph together with its parameters."
)


class ParameterDict:
    """Parameters by full name: ``get`` takes the name without the prefix, ``[...]`` the full name.

    Parameters
    ----------
    prefix : str
        Prefix of the names of new parameters.
    shared : ParameterDict, optional
        Collection in which ``get`` looks first.

    Examples
    --------
    >>> params = nn.Dense(2, in_units=3, prefix="fc_").collect_params()
    >>> list(params)
    ['fc_weight', 'fc_bias']
    >>> params["fc_weight"].shape
    (2, 3)
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._shared = shared
        self._params: dict[str, Parameter] = {}

    @property
    def prefix(self) -> str:
        """Prefix of the names of its parameters."""
        return self._prefix

    @property
    def shared(self) -> ParameterDict | None:
        """The collection in which parameters are looked up before new ones are made."""
        return self._shared

    def __repr__(self) -> str:
        head = f"{self._prefix} " if self._prefix else ""
        rows = "\n".join(f"  {param}" for param in self._params.values())
        return f"{head}(\n{rows}\n)"

    def __getitem__(self, name: str) -> Parameter:
        if name not in self._params:
            raise KeyError(f"{name!r}{did_you_mean(name, self._params)}")
        return self._params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """The parameters."""
        return self._params.values()

    def items(self) -> ItemsView[str, Parameter]:
        """Names with parameters."""
        return self._params.items()

    # ---- lookup and creation ------------------------------------------------------------------

    @public
    def get(self, name: str, **attributes: Any) -> Parameter:
        """The parameter ``prefix + name``, made with these attributes if there is none.

        Unknown attributes of an existing one are set. Raises AssertionError if it contradicts a
        given attribute.
        """
        full = self._prefix + name
        param = self.find(full)
        if param is None:
            param = self._params[full] = Parameter(full, **attributes)
            return param
        for key, desired in attributes.items():
            _agree(param, key, desired)
        return param

    def get_constant(self, name: str, value: ArrayLike | NDArray | None = None) -> Constant:
        """The constant ``prefix + name``, made from ``value`` if there is none.

        Raises KeyError if there is neither, AssertionError if the existing parameter is not a
        constant or has another value.
        """
        full = self._prefix + name
        param = self.find(full)
        if param is None:
            if value is None:
                raise KeyError(
                    f"No constant named '{full}'. Please specify value if you want to create a new "
                    "constant."
                )
            param = self._params[full] = Constant(full, value)
            return param
        assert isinstance(param, Constant), (
            f"Parameter '{full}' already exists but it is not a constant."
        )
        if value is not None:
            given = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
            known = param.value.asnumpy()  # in single precision, unless the value was an NDArray
            assert np.array_equal(known, given.astype(known.dtype)), (
                f"Constant '{full}' already exists but its value is not the given one."
            )
        return param

    def find(self, full: str) -> Parameter | None:
        """The parameter of this full name, in this collection or the shared one."""
        if full in self._params:
            return self._params[full]
        if self._shared is not None:
            param = self._shared.find(full)
            if param is not None:
                self._params[full] = param
            return param
        return None

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Add all of ``other``. Raises AssertionError for a different one with an existing name."""
        for name, param in other.items():
            assert self._params.get(name, param) is param, (
                "Cannot update self with other because they have different Parameters with the "
                f"same name '{name}'"
            )
        self._params.update(other.items())

    def rekey(self) -> None:
        """Update the keys to the current names of the parameters."""
        self._params = {param.name: param for param in self._params.values()}

    # ---- operations on all parameters ---------------------------------------------------------

    @public
    @together_written
    def initialize(
        self,
        init: Init = None,
        ctx: Context | list[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialise all; ``init`` (by default Uniform()) applies to those without an
        initialiser."""
        init = initializer.create(initializer.Uniform() if init is None else init)
        if verbose:
            init.set_verbosity(verbose=True)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for param in self.values():
            param.zero_grad()

    @public
    def reset_ctx(self, ctx: Context | list[Context]) -> None:
        """Move all parameters to this context or these."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """The contexts of all parameters, without duplicates."""
        contexts = (ctx for param in self.values() for ctx in param.list_ctx())
        return list(dict.fromkeys(contexts))

    def setattr(self, name: str, value: object) -> None:
        """Set one attribute on all parameters, e.g. ``setattr('grad_req', 'null')``."""
        for param in self.values():
            setattr(param, name, value)

    # ---- files --------------------------------------------------------------------------------

    @public
    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write all values under their full names without ``strip_prefix``.

        Raises ValueError for a name that does not start with it.
        """
        arrays = {}
        for name, param in self.items():
            if not name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name "
                    f"'{name}' does not start with '{strip_prefix}'. this may be due to your Block "
                    "shares parameters from other Blocks or you forgot to use 'with name_scope()' "
                    f"when creating child blocks."
                )
            arrays[name[len(strip_prefix) :]] = param.value_on_file()
        params_file.save(filename, arrays)

    @public
    def load(
        self,
        filename: str,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read a file of full names, optionally with ``arg:`` and ``aux:``. See
        :meth:`load_dict`."""
        self.load_dict(
            named_arrays(filename),
            ctx,
            allow_missing,
            ignore_extra,
            restore_prefix,
            filename,
            cast_dtype,
            dtype_source,
        )

    @together_written
    def load_dict(
        self,
        param_dict: Mapping[str, object],
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set the values to those of ``restore_prefix + name`` in the dict.

        Raises AssertionError for a missing or an extra name unless allowed, and for a shape or
        dtype that differs.
        """
        self._check_restore_prefix(restore_prefix)
        source = f"file: {filename}" if filename else "param_dict"
        arrays = {
            restore_prefix + re.sub("^(arg|aux):", "", name): value
            for name, value in param_dict.items()
        }
        names = self.keys()
        if not allow_missing:
            for name in names:
                assert name in arrays, (
                    f"Parameter '{name[len(restore_prefix) :]}' is missing in {source}, which "
                    f"contains parameters: {brief_names(arrays)}. {self._advice(arrays)}"
                )
        for name, value in arrays.items():
            if name in self._params:
                load_value(self._params[name], value, ctx, cast_dtype, dtype_source)
                continue
            assert ignore_extra, (
                f"Parameter '{name[len(restore_prefix) :]}' loaded from {source} is not present in "
                f"ParameterDict, choices are: {brief_names(names)}. Set ignore_extra to True to "
                f"ignore. {self._advice(arrays)}"
            )

    def _advice(self, given: Iterable[str]) -> str:
        """The way out for names that differ, with the prefix if they differ in it alone."""
        own, stored = self._prefix, set(given)
        rests = [name.removeprefix(own) for name in self]
        starts = {name.removesuffix(rest) for rest in rests[:1] for name in stored}
        found = [start for start in starts if {start + rest for rest in rests} == stored]
        hint = f"here prefix={found[0]!r} instead of {own!r}, " if found else ""
        return _SAME_PREFIX.format(hint)

    def _check_restore_prefix(self, restore_prefix: str) -> None:
        for name in self.keys():
            assert name.startswith(restore_prefix), (
                f"restore_prefix is '{restore_prefix}' but Parameters name '{name}' does not start "
                f"with '{restore_prefix}'."
            )


def _agree(param: Parameter, key: str, desired: Any) -> None:
    """Compare an attribute given to ``get`` with the stored one; set it if it was unknown."""
    stored = getattr(param, key, None)
    if stored is None:
        if hasattr(param, key):
            setattr(param, key, desired)
        return
    if desired is None:
        return
    if key == "shape":
        merged = _merged_sizes(stored, (desired,) if isinstance(desired, int) else desired)
        agrees = merged is not None
        if merged is not None:
            param.shape = merged
    elif key == "dtype":
        agrees = np.dtype(stored) == np.dtype(desired)
    else:
        agrees = bool(stored == desired)
    assert agrees, (
        f"Cannot retrieve Parameter '{param.name}' because desired attribute does not match with "
        f"stored for attribute '{key}': desired '{desired}' vs stored '{stored}'."
    )


def _merged_sizes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """Union of two shapes with unknown sizes (0); None if they contradict each other."""
    if len(a) != len(b) or any(x != y and x > 0 and y > 0 for x, y in zip(a, b)):
        return None
    return tuple(max(x, y) for x, y in zip(a, b))


def named_arrays(filename: str) -> dict[str, Fresh]:
    """The arrays of a parameter file by name; empty for an empty file.

    Raises MissingFileError with the nearest name in the folder, and ModelFormatError for a file
    whose arrays have no names.
    """
    try:
        arrays = params_file.load(filename)
    except MissingFileError as error:
        raise MissingFileError(f"{error}{model_files.near_parameters(filename)}") from None
    if not arrays:
        return {}
    if not isinstance(arrays, dict):
        raise ModelFormatError(f"{filename}: contains {len(arrays)} arrays without names")
    return {name: Fresh(array) for name, array in arrays.items()}


def brief_names(names: Iterable[str]) -> str:
    """Quoted names for a message; the middle of more than seven is omitted."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > 7:
        quoted = [*quoted[:3], "...", *quoted[-4:]]
    return ", ".join(quoted)
