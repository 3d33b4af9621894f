"""Pointwise operators of ONNX and their equivalents in MXNet, for readers and writers."""

UNARY = {
    "Abs": "abs",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
# The first of them is read, all are written.
BINARY = {
    "Add": ("broadcast_add", "elemwise_add"),
    "Sub": ("broadcast_sub", "elemwise_sub"),
    "Mul": ("broadcast_mul", "elemwise_mul"),
    "Max": ("broadcast_maximum", "_maximum"),
    "Min": ("broadcast_minimum", "_minimum"),
}
# Names without prefix: broadcast_equal is read; _equal and _equal_scalar are written as well.
COMPARISONS = {
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "lesser",
    "LessOrEqual": "lesser_equal",
}
LOGICAL = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}
