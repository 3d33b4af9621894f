"""Parameters that are not trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import nd
from ..._core.frames import public, warn
from ...initializer import Initializer
from ...nd import NDArray
from .single import Parameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Constant(Parameter):
    """A parameter that is not trained and starts from a value.

    Parameters
    ----------
    name : str
        Full name, as in files.
    value : NDArray, numpy.ndarray or nested list
        Initial value; it determines shape and element type.

    Examples
    --------
    >>> mean = gluon.Constant("mean", [0.5, 0.25])
    >>> mean.initialize()
    >>> mean.data().asnumpy()
    array([0.5 , 0.25], dtype=float32)
    """

    @public
    def __init__(self, name: str, value: ArrayLike | NDArray) -> None:
        array = value if isinstance(value, NDArray) else nd.array(value)
        self.value = array
        super().__init__(
            name,
            grad_req="null",
            shape=array.shape,
            dtype=array.dtype,
            init=_Value(name, array),
            differentiable=False,
        )

    def __repr__(self) -> str:
        return f"Constant {self.name} (shape={self.shape}, dtype={self.dtype})"

    @property
    def grad_req(self) -> str:
        """Always "null": constants have no gradient."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", '
                f'and new value "{req}" is ignored.'
            )


class _Value(Initializer):
    """Initialises a Constant. Its string is a name without the values, for graphs."""

    def __init__(self, name: str, value: NDArray) -> None:
        super().__init__()
        self._name = name
        self._value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self._value._of_kind(arr._plain)

    def dumps(self) -> str:
        return f"Constant_{self._name}"
