"""Initialisers: initial values of parameters.

Input: a description of the parameter (name and attributes) and the array to fill. Output: the
array, filled in place. Random values come from this package's generator (``random.seed``), so they
differ from MXNet's for the same seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import nd, registry
from . import random as _random
from ._core.frames import public
from ._core.lazy import Above, Late
from .errors import suggesting
from .nd import NDArray

if TYPE_CHECKING:
    import logging

    from numpy.typing import ArrayLike
else:
    logging = Late("logging")  # for set_verbosity
rnn = Above("rnn")


class InitDesc(str):
    """A parameter's name, with the attributes of its variable and the network's initialiser."""

    attrs: Mapping[str, object]
    global_init: Initializer | None

    def __new__(
        cls,
        name: str,
        attrs: Mapping[str, object] | None = None,
        global_init: Initializer | None = None,
    ) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


class Initializer:
    """Base of all initialisers; :meth:`dumps` writes the keyword arguments.

    A subclass overrides ``_init_weight(name, array)`` and fills ``array`` in place.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] = _mean_magnitude

    def set_verbosity(
        self, verbose: bool = False, print_func: Callable[[NDArray], str] | None = None
    ) -> Initializer:
        """Log every initialisation, with ``print_func(array)`` as the summary of the array."""
        self._verbose = verbose
        self._print_func = print_func or _mean_magnitude
        return self

    def dumps(self) -> str:
        """The string that :func:`create` reads: ``["xavier", {...}]``.

        Arrays and NumPy scalars among the arguments become lists and numbers.
        """
        self._kwargs = {key: _plain(value) for key, value in self._kwargs.items()}
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    @public
    def __call__(self, desc: str, arr: NDArray) -> None:
        """Fill ``arr``: by the ``__init__`` attribute of its variable if present, else by its name.

        As in MXNet, the rules for the prefixes "upsampling" and "stn_loc" apply to plain strings,
        not to an :class:`InitDesc`. Raises TypeError unless ``desc`` is a string, ValueError for a
        name without a known suffix.
        """
        if not isinstance(desc, str):
            raise TypeError("name must be string")
        if isinstance(desc, InitDesc) and desc.global_init is None:
            desc.global_init = self
        own = desc.attrs.get("__init__", "") if isinstance(desc, InitDesc) else ""
        if own:
            create(own)._init_weight(desc, arr)
        else:
            self._fill_by_name(desc, arr)
        if self._verbose:
            logging.info("Initialized %s as %s: %s", desc, own or self, self._print_func(arr))

    def _fill_by_name(self, name: str, arr: NDArray) -> None:
        plain = () if isinstance(name, InitDesc) else _BY_PREFIX
        for prefix, suffixes, method in (*plain, *_BY_SUFFIX):
            if name.startswith(prefix) and name.endswith(suffixes):
                getattr(self, method)(name, arr)
                return
        self._init_default(name, arr)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotImplementedError("Must override it")

    def _init_zero(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    _init_bias = _init_zero
    _init_beta = _init_zero
    _init_gamma = _init_one
    _init_quantized_bias = _init_zero

    def _init_quantized_weight(self, name: str, arr: NDArray) -> None:
        """Fill with one random int8 value, as MXNet does."""
        arr[:] = int(_random.generator().integers(-127, 127))

    def _init_bilinear(self, name: str, arr: NDArray) -> None:
        if len(arr.shape) != 4:
            raise IndexError(
                f"{name}: a kernel of bilinear up-sampling has 4 axes (channels, filters, height, "
                f"width), got the shape {arr.shape}: initialize this parameter in another way"
            )
        arr[:] = np.broadcast_to(_bilinear(*arr.shape[2:4]), arr.shape)

    def _init_loc_bias(self, name: str, arr: NDArray) -> None:
        assert arr.shape[0] == 6, f"an affine transformation has 6 elements, got {arr.shape[0]}"
        arr[:] = np.array([1.0, 0, 0, 0, 1.0, 0])

    def _init_default(self, name: str, arr: NDArray) -> None:
        raise ValueError(
            f"Unknown initialization pattern for {name}. Default initialization is limited to "
            '"weight", "bias", "gamma" (1.0), "beta" (0.0) and running statistics. '
            "Please use mx.sym.Variable(init=mx.init.*) to set initialization pattern"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__


# Prefixes and suffixes of names with a rule.
_Rules = tuple[tuple[str, tuple[str, ...], str], ...]
_BY_PREFIX: _Rules = (
    ("upsampling", ("",), "_init_bilinear"),
    ("stn_loc", ("weight",), "_init_zero"),
    ("stn_loc", ("bias",), "_init_loc_bias"),
)
_BY_SUFFIX: _Rules = (
    ("", ("weight",), "_init_weight"),
    ("", ("bias",), "_init_bias"),
    ("", ("gamma",), "_init_gamma"),
    ("", ("beta",), "_init_beta"),
    ("", ("min", "moving_mean", "running_mean", "moving_inv_var", "moving_avg"), "_init_zero"),
    ("", ("max", "moving_var", "running_var"), "_init_one"),
    ("", ("weight_quantize",), "_init_quantized_weight"),
    ("", ("bias_quantize",), "_init_quantized_bias"),
)


def _plain(value: object) -> object:
    """An argument as a JSON value."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _mean_magnitude(arr: NDArray) -> str:
    return str(float(np.linalg.norm(arr.asnumpy()) / np.sqrt(arr.size)))


# ---- registry ---------------------------------------------------------------------------------


register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


# ---- constants --------------------------------------------------------------------------------


@alias("zeros")
@register
class Zero(Initializer):
    """All zeros.

    Parameters
    ----------
    **kwargs
        Accepted for MXNet's programs.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2,))
    >>> weight.initialize(mx.init.Zero())
    >>> weight.data().asnumpy().tolist()
    [0.0, 0.0]
    """

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0


@alias("ones")
@register
class One(Initializer):
    """All ones.

    Parameters
    ----------
    **kwargs
        Accepted for MXNet's programs.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2,))
    >>> weight.initialize(mx.init.One())
    >>> weight.data().asnumpy().tolist()
    [1.0, 1.0]
    """

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """One value for all elements, or a given array.

    Parameters
    ----------
    value : float or array
        The value, or an array in the shape of the parameter.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2,))
    >>> weight.initialize(mx.init.Constant(0.5))
    >>> weight.data().asnumpy().tolist()
    [0.5, 0.5]
    """

    def __init__(self, value: ArrayLike) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self.value


# ---- random values ----------------------------------------------------------------------------


@register
class Uniform(Initializer):
    """Uniform distribution over [-scale, scale).

    Parameters
    ----------
    scale : float
        Bound.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2, 2))
    >>> weight.initialize(mx.init.Uniform(0.1))
    >>> weight.data().shape
    (2, 2)
    """

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = _random.generator().uniform(-self.scale, self.scale, arr.shape)


@register
class Normal(Initializer):
    """Normal distribution with mean 0.

    Parameters
    ----------
    sigma : float
        Standard deviation.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2, 2))
    >>> weight.initialize(mx.init.Normal(0.02))
    >>> weight.data().shape
    (2, 2)
    """

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = _random.generator().normal(0, self.sigma, arr.shape)


@register
class Orthogonal(Initializer):
    """Scaled matrix with orthonormal rows or columns (Saxe et al., 1312.6120).

    Parameters
    ----------
    scale : float
        Scale.
    rand_type : str
        Distribution of the start: uniform or normal.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2, 2))
    >>> weight.initialize(mx.init.Orthogonal())
    >>> weight.data().shape
    (2, 2)
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: NDArray) -> None:
        rows, columns = arr.shape[0], int(np.prod(arr.shape[1:]))
        start = _draw(self.rand_type, 1.0, (rows, columns))
        left, _, right = np.linalg.svd(start, full_matrices=False)
        basis = left if left.shape == (rows, columns) else right
        arr[:] = (self.scale * basis).reshape(arr.shape)


@register
class Xavier(Initializer):
    """Scale by the number of inputs and outputs: sqrt(magnitude / factor) (Glorot and Bengio).

    Inputs are shape[1] * prod(shape[2:]), outputs shape[0] * prod(shape[2:]).

    Parameters
    ----------
    rnd_type : str
        Distribution: uniform or gaussian.
    factor_type : str
        Divisor: in (inputs), out (outputs), or avg (their mean).
    magnitude : float
        Numerator of the scale.

    Raises
    ------
    ValueError
        At initialization, for other names and for vectors.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2, 2))
    >>> weight.initialize(mx.init.Xavier())
    >>> weight.data().shape
    (2, 2)
    """

    def __init__(
        self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3
    ) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        if len(arr.shape) < 2:
            raise ValueError(
                f"{type(self).__name__} initializer cannot be applied to vector {name}. "
                "It requires at least 2D."
            )
        receptive = float(np.prod(arr.shape[2:]))
        fan_in, fan_out = arr.shape[1] * receptive, arr.shape[0] * receptive
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError(
                f"Incorrect factor type: it is one of avg, in, out, got {self.factor_type!r}"
            )
        if self.rnd_type == "normal":  # of Orthogonal
            raise ValueError("Unknown random type: it is one of uniform, gaussian, got 'normal'")
        scale = np.sqrt(self.magnitude / factors[self.factor_type])
        arr[:] = _draw(self.rnd_type, scale, arr.shape)


@register
class MSRAPrelu(Xavier):
    """Xavier with a normal distribution and magnitude 2 / (1 + slope^2) (He et al., 1502.01852).

    Parameters
    ----------
    factor_type : str
        Divisor: in (inputs), out (outputs), or avg (their mean).
    slope : float
        Initial slope of PReLU; 0 for ReLU.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2, 2))
    >>> weight.initialize(mx.init.MSRAPrelu(slope=0))
    >>> weight.data().shape
    (2, 2)
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + float(slope) ** 2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


def _draw(kind: str, scale: float, shape: tuple[int, ...]) -> np.ndarray:
    """Random values: uniform over [-scale, scale), or normal with deviation ``scale``."""
    if kind == "uniform":
        return _random.generator().uniform(-scale, scale, shape)
    if kind in ("gaussian", "normal"):
        return _random.generator().normal(0, scale, shape)
    raise ValueError(f"Unknown random type: it is one of uniform, gaussian, got {kind!r}")


# ---- shaped values ----------------------------------------------------------------------------


@register
class Bilinear(Initializer):
    """The kernel with which a transposed convolution is bilinear up-sampling.

    The weight has shape (inputs, outputs, height, width); each of its kernels gets the same values.
    For up-sampling by s, the layer has kernel 2 s - s % 2, stride s, padding ceil((s - 1) / 2).

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(1, 1, 4, 4), init=mx.init.Bilinear())
    >>> weight.initialize()
    >>> weight.data()[0, 0, 1].asnumpy().tolist()
    [0.1875, 0.5625, 0.5625, 0.1875]
    """

    _init_weight = Initializer._init_bilinear


def _bilinear(height: int, width: int) -> np.ndarray:
    """The kernel of bilinear up-sampling; the width determines its factor."""
    factor = np.ceil(width / 2.0)
    centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
    tent_x = 1 - np.abs(np.arange(width) / factor - centre)
    tent_y = 1 - np.abs(np.arange(height) / factor - centre)
    return np.outer(tent_y, tent_x)


@register
class LSTMBias(Initializer):
    """Zeros, except for the forget gate: the second quarter.

    Parameters
    ----------
    forget_bias : float
        Value of the forget gate.

    Examples
    --------
    >>> bias = gluon.Parameter("bias", shape=(4,), init=mx.init.LSTMBias())
    >>> bias.initialize()
    >>> bias.data().asnumpy().tolist()
    [0.0, 1.0, 0.0, 0.0]
    """

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        units = arr.shape[0] // 4
        values = np.zeros(arr.shape)
        values[units : 2 * units] = self.forget_bias
        arr[:] = values


@register
class FusedRNN(Initializer):
    """The packed vector of a fused RNN: another initializer fills each gate's matrix and bias.

    Parameters
    ----------
    init : Initializer or str or None
        Initializer of the gates' matrices and biases. It receives each with its shape, (hidden,
        inputs) or (hidden,), and its name, such as "l0_i2h_f_weight". None: the initializer of the
        other parameters, else Uniform().
    num_hidden : int
        Width of the hidden state.
    num_layers : int
        Number of layers.
    mode : str
        "rnn_relu", "rnn_tanh", "lstm" or "gru".
    bidirectional : bool
        Whether layers run in both directions.
    forget_bias : float
        Bias of an LSTM's forget gates.

    Examples
    --------
    >>> init = mx.init.FusedRNN("zeros", num_hidden=2, num_layers=1, mode="lstm", forget_bias=3)
    >>> packed = nd.ones(4 * 2 * (5 + 2) + 2 * 4 * 2)  # gates of 5 inputs, then the biases
    >>> init("lstm_weight", packed)
    >>> float(packed.sum().asscalar())  # the forget gate has 2 units with 2 biases each
    12.0
    """

    def __init__(
        self,
        init: Initializer | str | None,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        self._init = create(init) if init is not None else None
        super().__init__(
            init=None if self._init is None else self._init.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )

    def _init_weight(self, name: str, arr: NDArray) -> None:
        options = {key: value for key, value in self._kwargs.items() if key != "init"}
        cell = rnn.FusedRNNCell(**options, prefix="")
        parts = cell.unpack_weights({"parameters": arr})
        outer = getattr(name, "global_init", None)
        init = self._init or outer or Uniform()
        for gate, part in parts.items():
            if options["mode"] == "lstm" and gate.endswith("_f_bias"):
                part[:] = options["forget_bias"]
            else:
                init(InitDesc(gate, global_init=outer), part)
        arr[:] = cell.pack_weights(parts)["parameters"]


# ---- by name, for programs without Gluon ------------------------------------------------------


class Load:
    """Values from a dict or a parameter file, by name.

    Parameters
    ----------
    param : dict of str to NDArray or str
        The values by name, or the path of a file of ``nd.save``. "arg:" and "aux:" at the beginning
        of the names are left out.
    default_init : Initializer, optional
        Initializer of parameters with other names.
    verbose : bool
        Whether the origin of each value is logged.

    Raises
    ------
    AssertionError
        If arrays in ``param`` have no names; at initialization, for a value of another shape, and
        for another name without ``default_init``.
    MXNetError
        If the file cannot be read.

    Examples
    --------
    >>> init = mx.init.Load({"arg:fc_weight": nd.ones((1, 2))}, default_init=mx.init.Zero())
    >>> weight, bias = nd.zeros((1, 2)), nd.ones(1)
    >>> init("fc_weight", weight)
    >>> init("fc_bias", bias)
    >>> weight.asnumpy().tolist(), bias.asnumpy().tolist()
    ([[1.0, 1.0]], [0.0])
    """

    @public
    def __init__(
        self,
        param: dict[str, NDArray] | str,
        default_init: Initializer | None = None,
        verbose: bool = False,
    ) -> None:
        loaded = nd.load(param) if isinstance(param, str) else param
        assert isinstance(loaded, dict), "Load needs a dict of name to NDArray, or a file with one"
        self.param = {re.sub(r"^(arg|aux):", "", name): value for name, value in loaded.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        if name in self.param:
            value = self.param[name]
            assert arr.shape == value.shape, (
                f"Parameter {name} cannot be initialized from loading. Shape mismatch, "
                f"target {arr.shape} vs loaded {value.shape}"
            )
            arr[:] = value
        else:
            assert self.default_init is not None, (
                f"Cannot Initialize {name}. Not found in loaded param and no default Initializer "
                "is provided."
            )
            self.default_init(name, arr)
        if self.verbose:
            logging.info(
                "Initialized %s by %s", name, "loading" if name in self.param else "default"
            )


class Mixed:
    """Initializers by name: the first whose pattern matches the start of the name.

    Parameters
    ----------
    patterns : list of str
        Regular expressions.
    initializers : list of Initializer
        One for each pattern.

    Raises
    ------
    ValueError
        At initialization, for a name that no pattern matches.

    Examples
    --------
    >>> init = mx.init.Mixed([".*bias", ".*"], [mx.init.Zero(), mx.init.One()])
    >>> array = nd.zeros(2)
    >>> init("fc_weight", array)
    >>> array.asnumpy()
    array([1., 1.], dtype=float32)
    """

    @public
    def __init__(self, patterns: list[str], initializers: list[Initializer]) -> None:
        assert len(patterns) == len(initializers), (
            f"Mixed needs one initializer per pattern, got {len(initializers)} for {len(patterns)}"
        )
        self.map = [(re.compile(p), init) for p, init in zip(patterns, initializers)]

    @public
    def __call__(self, name: str, arr: NDArray) -> None:
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at '
            "the end with default Initializer."
        )


__getattr__ = suggesting(__name__, "INITIALIZERS")
