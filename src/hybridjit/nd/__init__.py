"""Eager arrays: creation functions such as ``nd.array``, and one function per operator.

The operator functions come from the registry (``nd/__init__.pyi`` lists them for editors);
``contrib``, ``linalg``, ``image``, ``random`` and ``sparse`` are separate modules.
"""

import sys
from typing import TYPE_CHECKING

from .._core.lazy import Late, names_of
from ..ops import native
from ..ops.namespace import attach
from . import _internal, contrib, image, linalg, op, random, sparse
from .creation import (
    arange,
    array,
    concatenate,
    empty,
    eye,
    from_numpy,
    full,
    histogram,
    imdecode,
    linspace,
    moveaxis,
    onehot_encode,
    ones,
    waitall,
    zeros,
)
from .custom import Custom
from .dlpack import from_dlpack, to_dlpack_for_read, to_dlpack_for_write
from .files import load, load_frombuffer, save
from .ndarray import (
    FUNCTIONS,
    NDArray,
    add,
    divide,
    equal,
    greater,
    greater_equal,
    invoke,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    split_v2,
    subtract,
    true_divide,
)

__all__ = [
    "Custom",
    "NDArray",
    "add",
    "arange",
    "array",
    "concatenate",
    "contrib",
    "divide",
    "empty",
    "equal",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "greater",
    "greater_equal",
    "histogram",
    "imdecode",
    "image",
    "invoke",
    "lesser",
    "lesser_equal",
    "linalg",
    "linspace",
    "load",
    "load_frombuffer",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "modulo",
    "moveaxis",
    "multiply",
    "not_equal",
    "onehot_encode",
    "ones",
    "op",
    "power",
    "random",
    "save",
    "sparse",
    "split_v2",
    "subtract",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "true_divide",
    "waitall",
    "zeros",
]

if TYPE_CHECKING:
    from .. import compilation
else:
    compilation = Late("..compilation", __package__)  # loaded by the first routine
native.provide(lambda name, facts: compilation.compile_routine(name, facts))

# ``F.np`` and ``F.npx`` of a block that runs eagerly.
__getattr__ = names_of(__package__, {"np": "..np", "npx": "..npx"})

for _module in (contrib, image, linalg, random, sparse):
    attach(_module, FUNCTIONS[_module.__name__.rpartition(".")[2]])
attach(_internal, FUNCTIONS["_internal"])
attach(op, FUNCTIONS[""])
attach(sys.modules[__name__], FUNCTIONS[""])
