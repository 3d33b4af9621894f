"""Compilation of Python functions of integers and floats to machine code.

Input: a function whose parameters are annotated ``int``, ``float``, ``Ints`` or ``Floats``; the
last two are sequences. Output: an LLVM function with the same results; it computes in 64-bit
integers and in doubles, in the same order of operations. The function may contain assignments,
``if``, ``while``, ``for`` over ``range``, ``return``, arithmetic, comparisons, ``min``, ``max``,
``abs`` and calls of other such functions. Divisors must be positive. ``and``, ``or`` and
conditional expressions evaluate all of their operands.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from textwrap import dedent
from typing import Any, TypeAlias

from ..._core.target import Target
from . import ir
from .builder import LoopBuilder
from .types import F64, I1, I64, PTR, Constant, Type, Value

Ints: TypeAlias = "Sequence[int]"
Floats: TypeAlias = "Sequence[float]"
_KINDS = {"int": I64, "float": F64, "Ints": PTR, "Floats": PTR}
_TESTS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def emit_scalar(
    module: ir.Module, target: Target, function: Callable[..., Any], known: Mapping[str, Value]
) -> ir.Function:
    """Emit a Python function as an LLVM function; ``known`` holds its callees by name."""
    tree = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    names = [_name(each.annotation) for each in tree.args.args]
    kind = ir.FunctionType(_KINDS[_name(tree.returns)], [_KINDS[name] for name in names])
    made = ir.Function(module, kind, function.__name__)
    made.linkage = "internal"
    writer = _Writer(LoopBuilder(made, target), function, known, kind.result)
    for each, name, value in zip(tree.args.args, names, made.args):
        writer.take(each.arg, name, value)
    writer.block(tree.body)
    if writer.is_open:  # after branches that return
        writer.b.ret(Constant(kind.result, 0))
    return made


def _name(node: ast.expr | None) -> str:
    assert isinstance(node, ast.Name), "annotations are names"
    return node.id


class _Writer:
    """Emitter of the statements of one function."""

    def __init__(
        self,
        lb: LoopBuilder,
        function: Callable[..., Any],
        known: Mapping[str, Value],
        result: Type,
    ) -> None:
        self._lb, self._known, self._result = lb, known, result
        self._constants = inspect.getmodule(function).__dict__
        self.b = lb.b
        self._places: dict[str, tuple[Value, Type]] = {}
        self._tables: dict[str, tuple[Value, Type]] = {}

    @property
    def is_open(self) -> bool:
        """Whether the current block has not ended with a return."""
        lines = self.b.block.lines
        return not (lines and str(lines[-1]).startswith("  ret "))

    def take(self, name: str, annotation: str, value: Value) -> None:
        """Bind a parameter to its value."""
        if annotation in ("Ints", "Floats"):
            self._tables[name] = value, I64 if annotation == "Ints" else F64
        else:
            self._assign(name, value)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Emit statements in order."""
        for each in statements:
            self._statement(each)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, self.value(value))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                here = ast.Name(target.id, ast.Load())
                self._assign(name, self.value(ast.BinOp(here, op, value)))
            case ast.Return(value=ast.expr() as value):
                self.b.ret(self._as(self.value(value), self._result))
            case ast.If(test=test, body=body, orelse=other):
                with self.b.if_else(self.value(test)) as (then, otherwise):
                    with then:
                        self.block(body)
                    with otherwise:
                        self.block(other)
            case ast.While(test=test, body=body, orelse=[]):
                self._loop(lambda: self.value(test), lambda: self.block(body))
            case ast.For(
                target=ast.Name(id=name), iter=ast.Call(args=bounds), body=body, orelse=[]
            ):
                self._for(name, [*map(self.value, bounds)], body)
            case _:
                raise TypeError(f"no machine code for {ast.unparse(node)}")

    def _for(self, name: str, bounds: list[Value], body: Sequence[ast.stmt]) -> None:
        """Emit a loop over a range of step 1; only the body may read the index."""
        low, high = bounds if len(bounds) == 2 else (self._lb.i64(0), bounds[0])
        self._assign(name, low)

        def step() -> None:
            self.block(body)
            self._assign(name, self.b.add(self._read(name), self._lb.i64(1)))

        self._loop(lambda: self._lb.less(self._read(name), high), step)

    def _loop(self, test: Callable[[], Value], body: Callable[[], None]) -> None:
        head, inside, after = self.b.blocks("head", "inside", "after")
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(test(), inside, after)
        self.b.position_at_end(inside)
        body()
        self.b.branch(head)
        self.b.position_at_end(after)

    def _assign(self, name: str, value: Value) -> None:
        if name not in self._places:
            with self.b.goto_entry_block():
                self._places[name] = self.b.alloca(value.type), value.type
        place, kind = self._places[name]
        self.b.store(self._as(value, kind), place, align=8)

    def _read(self, name: str) -> Value:
        if name in self._places:
            place, kind = self._places[name]
            return self.b.load(place, typ=kind, align=8)
        constant = self._constants[name]
        return Constant(F64 if isinstance(constant, float) else I64, constant)

    def value(self, node: ast.expr) -> Value:
        """Emit an expression."""
        match node:
            case ast.Constant(value=bool(value)):
                return Constant(I1, int(value))
            case ast.Constant(value=int() | float() as value):
                return Constant(F64 if isinstance(value, float) else I64, value)
            case ast.Name(id=name):
                return self._read(name)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                table, kind = self._tables[name]
                at = self.b.gep(table, [self.value(index)], source_etype=I64)
                return self.b.load(at, typ=kind, align=8)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._binary(ast.Sub(), self._lb.i64(0), self.value(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.b.not_(self.value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[test], comparators=[right]):
                return self._compare(_TESTS[type(test)], self.value(left), self.value(right))
            case ast.BoolOp(op=op, values=values):
                first, *others = map(self.value, values)
                for other in others:
                    both = isinstance(op, ast.And)
                    first = (self.b.and_ if both else self.b.or_)(first, other)
                return first
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.b.select(
                    self.value(test), *self._alike(*map(self.value, (body, other)))
                )
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(name, args)
        raise TypeError(f"no machine code for {ast.unparse(node)}")

    def _call(self, name: str, args: Sequence[ast.expr]) -> Value:
        if name in self._known:
            function = self._known[name]
            given = [
                self._tables[a.id][0] if isinstance(a, ast.Name) and a.id in self._tables
                else self.value(a) for a in args
            ]  # fmt: skip
            kinds = function.type.args  # type: ignore[attr-defined]
            return self.b.call(function, [*map(self._as, given, kinds)])
        first, *others = map(self.value, args)
        if name == "abs":
            others = [self._binary(ast.Sub(), self._lb.i64(0), first)]
        for other in others:
            test = "<" if name == "min" else ">"
            first, other = self._alike(first, other)
            first = self.b.select(self._compare(test, first, other), first, other)
        return first

    def _compare(self, test: str, left: Value, right: Value) -> Value:
        left, right = self._alike(left, right)
        compare = self.b.fcmp_ordered if left.type == F64 else self.b.icmp_signed
        return compare(test, left, right)

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        b = self.b
        if isinstance(op, ast.Div):
            return b.fdiv(self._as(left, F64), self._as(right, F64))
        left, right = self._alike(left, right)
        is_float = left.type == F64
        match op:
            case ast.Add():
                return (b.fadd if is_float else b.add)(left, right)
            case ast.Sub():
                return (b.fsub if is_float else b.sub)(left, right)
            case ast.Mult():
                return (b.fmul if is_float else b.mul)(left, right)
            case ast.FloorDiv() if not is_float:
                quotient, rest = b.sdiv(left, right), b.srem(left, right)
                return b.select(self._lb.less(rest, 0), b.sub(quotient, self._lb.i64(1)), quotient)
            case ast.Mod() if not is_float:
                rest = b.srem(left, right)
                return b.select(self._lb.less(rest, 0), b.add(rest, right), rest)
        raise TypeError(f"no machine code for {ast.dump(op)}")

    def _alike(self, left: Value, right: Value) -> tuple[Value, Value]:
        kind = F64 if F64 in (left.type, right.type) else left.type
        return self._as(left, kind), self._as(right, kind)

    def _as(self, value: Value, kind: Type) -> Value:
        if value.type == kind or kind == PTR:
            return value
        if kind == F64:
            return self.b.sitofp(value, F64)
        if kind == I64 and value.type == I1:
            return self.b.zext(value, I64)
        raise TypeError(f"a value of {value.type.text} where {kind.text} is needed")
