"""Symbols: creation functions such as ``sym.var``, and one function per operator.

The operator functions come from the registry (``sym/__init__.pyi`` lists them for editors);
``contrib``, ``linalg``, ``image``, ``random`` and ``sparse`` are separate modules.
"""

import sys

from .._core.lazy import names_of
from ..ops.namespace import attach
from . import _internal, contrib, image, linalg, op, random, sparse
from .creation import (
    Group,
    Variable,
    arange,
    eye,
    full,
    histogram,
    linspace,
    load,
    load_json,
    ones,
    var,
    zeros,
)
from .custom import Custom
from .symbol import FUNCTIONS, Symbol, hypot, maximum, minimum, power, split_v2

pow = power

__all__ = [
    "Custom",
    "Group",
    "Symbol",
    "Variable",
    "arange",
    "contrib",
    "eye",
    "full",
    "histogram",
    "hypot",
    "image",
    "linalg",
    "linspace",
    "load",
    "load_json",
    "maximum",
    "minimum",
    "ones",
    "op",
    "pow",
    "power",
    "random",
    "sparse",
    "split_v2",
    "var",
    "zeros",
]

# ``F.np`` and ``F.npx`` of a block that is traced.
__getattr__ = names_of(__package__, {"np": ".np", "npx": ".npx"})

for _module in (contrib, image, linalg, random, sparse):
    attach(_module, FUNCTIONS[_module.__name__.rpartition(".")[2]])
attach(_internal, FUNCTIONS["_internal"])
attach(op, FUNCTIONS[""])
attach(sys.modules[__name__], FUNCTIONS[""])
