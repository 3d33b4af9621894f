"""Descriptions of the arguments of NumPy mode's functions, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType, MethodType

_ARRAY = "ndarray"
_AXIS = "int or tuple of int, optional"
ARGUMENTS: Mapping[str, tuple[str, str]] = {
    "M": ("int, optional", "Number of columns; by default that of rows."),
    "N": ("int", "Number of rows."),
    "UPLO": ("str", "Triangle that is read: 'L' or 'U'."),
    "a": (_ARRAY, "Array; draws: parameter of the distribution, or the values to choose from."),
    "allow_pickle": ("bool", "Accepted; objects are refused."),
    "alpha": ("float or ndarray", "Shape of the distribution."),
    "ar": (_ARRAY, "Array."),
    "arr": (_ARRAY, "Array."),
    "array": (_ARRAY, "Array."),
    "arrays": ("sequence of ndarray", "Arrays of equal sizes along the other axes."),
    "ary": (_ARRAY, "Array that is divided."),
    "arys": ("ndarrays", "Arrays, one after the other."),
    "axes": ("int or tuple of int, optional", "Axes, in the order of the result."),
    "axis": (_AXIS, "Axis, negative ones count from the last; None: all elements."),
    "axis1": ("int", "First axis of the planes."),
    "axis2": ("int", "Second axis of the planes."),
    "b": ("ndarray or number", "Second operand; draws: parameter of the distribution."),
    "batch_shape": ("tuple of int, optional", "Sizes in front of those of the parameters."),
    "beta": ("float or ndarray", "Second parameter of the distribution."),
    "bins": ("int or ndarray", "Number of bins, or their edges."),
    "ctx": ("Context, optional", "Context of the result; by default the current one."),
    "ddof": ("int", "Subtracted from the count that sums are divided by."),
    "decimals": ("int", "Number of digits after the decimal point."),
    "df": ("float or ndarray", "Degrees of freedom."),
    "dtype": ("str or dtype, optional", "Element type of the result; float32 by default."),
    "endpoint": ("bool", "Whether ``stop`` is the last value."),
    "fill_value": ("number", "Value of all elements."),
    "high": ("number or ndarray", "Bound that is not drawn."),
    "indices": ("ndarray or int", "Positions."),
    "indices_or_sections": ("int or tuple of int", "Number of parts, or where parts begin."),
    "initial": ("number, optional", "Least value of the result."),
    "k": ("int", "Number of the diagonal; positive: above the main one."),
    "keepdims": ("bool", "Whether reduced axes stay, with size 1."),
    "loc": ("float or ndarray", "Mean, or centre, of the distribution."),
    "low": ("number or ndarray", "Least value."),
    "m": (_ARRAY, "Array."),
    "mode": ("str", "Treatment of positions out of range, or of the border."),
    "n": ("int", "Number of times, or of values."),
    "nan": ("number", "Value in place of NaN."),
    "num": ("int", "Number of values."),
    "offset": ("int", "Number of the diagonal; positive: above the main one."),
    "ord": ("optional", "Kind of the norm, as in official NumPy."),
    "order": ("str", "Order of elements: 'C' only."),
    "out": ("ndarray, optional", "Array of the result's shape and element type that receives it."),
    "p": ("ndarray, optional", "Probabilities."),
    "q": ("number or ndarray", "Fractions, or percentages, of the sorted values."),
    "repeats": ("int", "Number of copies."),
    "reps": ("int or tuple of int", "Number of copies along each axis."),
    "scale": ("float or ndarray", "Deviation, or scale, of the distribution."),
    "shape": ("int or tuple of int", "Sizes of the axes; one of them may be -1 in ``reshape``."),
    "shift": ("int or tuple of int", "Number of positions."),
    "size": ("int or tuple of int, optional", "Shape of the draws."),
    "start": ("number", "First value."),
    "step": ("number", "Distance of neighbours."),
    "stop": ("number", "Bound after the last value."),
    "subscripts": ("str", "Labels of axes, as in 'ij,jk->ik'."),
    "values": (_ARRAY, "Values that are added or inserted."),
    "weights": ("ndarray, optional", "Weight of each element."),
    "x": ("ndarray or number", "Operand."),
    "x1": ("ndarray or number", "First operand; shapes are broadcast."),
    "x2": ("ndarray or number", "Second operand."),
    "y": ("ndarray or number", "Second operand, or value elsewhere."),
}
_RAISES = """Raises
------
MXNetError
    For shapes, element types and values that the function does not accept; TypeError for arrays
    of another mode."""


def described(function: FunctionType | MethodType, doc: str) -> str:
    """``doc`` with a section on each argument that has a description."""
    code, first = function.__code__, int(isinstance(function, MethodType))
    names = code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount]
    known = [(name, *ARGUMENTS[name]) for name in names if name in ARGUMENTS]
    if not known or "Parameters\n" in doc:
        return doc
    rows = "\n".join(f"{name} : {kind}\n    {text}" for name, kind, text in known)
    return f"{doc}\n\nParameters\n----------\n{rows}\n\n{_RAISES}"
