"""Every operator that has a recipe, in the order in which they take turns."""

from hybridjit.ops import all_ops
from mxnet_side import ops_layers, ops_pointwise, ops_rest, ops_shape
from mxnet_side.singles import RECIPES

FAMILIES = (ops_pointwise, ops_shape, ops_layers, ops_rest)  # importing them registers recipes
OPERATORS = sorted(RECIPES)
# The compiler's own operators, which no file holds
WITHOUT = tuple(op.name for op in all_ops() if op.name not in RECIPES)
