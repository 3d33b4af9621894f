"""Machine code for calls with new sizes: conditions, expressions, and choices of algorithms."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest

from hybridjit import nd
from hybridjit._core.symbolic import Scope, value_of
from hybridjit.codegen.emit import templates
from hybridjit.codegen.emit.sized_functions import emit_sized_functions, load_sized_functions
from hybridjit.codegen.kinds.conv.choose_by_size import Positions, Windows
from hybridjit.codegen.kinds.conv.layer import Layer
from hybridjit.codegen.llvm import ir
from hybridjit.codegen.llvm.jit import compile_object
from hybridjit.codegen.llvm.scalar import emit_scalar
from hybridjit.codegen.spec import Program
from hybridjit.codegen.targets import find_target
from hybridjit.errors import MXNetError
from hybridjit.gluon import nn
from hybridjit.ir.prologue import Chosen, Condition, Prologue
from hybridjit.ir.template import Template

HOST = find_target("native")


@pytest.fixture(scope="module")
def run():
    code = compile_object(str(emit_sized_functions(HOST)), HOST)
    return load_sized_functions(code, HOST).run_prologue


def test_expressions_have_the_values_of_python(run):
    scope = Scope()
    a, b = scope.symbol("a", 13), scope.symbol("b", 5)
    forms = [a, a * b - 7, (a + 3) // 4 * b, -(-a // 3), (a * a) % b, a // (b + 2), 5 - a, 3]
    forms += [-7, (b - a) // 4, -(-(b - a) // 4), (b - a) % 4]
    scope.close()
    prologue = Prologue(scope, [], forms, run)
    for sizes in ((13, 5), (1, 1), (900, 31), (31, 900), (1 << 30, 3)):
        values = dict(zip("ab", sizes))
        wanted = [f if isinstance(f, int) else value_of(f, values) for f in forms]
        assert prologue(sizes).tolist() == wanted


@pytest.mark.parametrize("test", ["==", "!=", "<", "<=", ">", ">="])
def test_conditions_hold_as_in_python(run, test):
    scope = Scope()
    a, b = scope.symbol("a", 13), scope.symbol("b", 5)
    left = a - 2 * b
    scope.close()
    prologue = Prologue(scope, [Condition(left, test, 3)], [b], run)
    for sizes in product(range(1, 12), range(1, 6)):
        holds = eval(f"{sizes[0] - 2 * sizes[1]} {test} 3")
        found = prologue(sizes)
        assert (found is not None) == holds
        assert found is None or found.tolist() == [sizes[1]]


def test_sizes_that_machine_code_does_not_serve_satisfy_no_condition(run):
    scope = Scope()
    a, b = scope.symbol("a", 13), scope.symbol("b", 5)
    quotient, power = a // (b - 3), a * a * a * a
    scope.close()
    assert Prologue(scope, [], [quotient], run)((8, 5)).tolist() == [4]
    assert Prologue(scope, [], [quotient], run)((8, 3)) is None  # a division by zero
    assert Prologue(scope, [], [power], run)((1 << 15, 1)).tolist() == [1 << 60]
    assert Prologue(scope, [], [power], run)((1 << 16, 1)) is None  # more than 2^62
    assert Prologue(scope, [], [a], run)((0, 1)) is None


def test_fractions_have_no_machine_code(run):
    scope = Scope()
    a, b = scope.symbol("a", 13), scope.symbol("b", 5)
    fraction = a / b
    scope.close()
    with pytest.raises(MXNetError, match="computes sizes in integers"):
        Prologue(scope, [], [fraction], run)
    with pytest.raises(MXNetError, match="compares sizes with integers"):
        Prologue(scope, [Condition(a, "<", 0.5)], [], run)


def choices(run, chosen: Iterable[Chosen], scope: Scope) -> Prologue:
    return Prologue(scope, [], chosen, run)


@pytest.mark.parametrize("target", ["native", "avx2", "sse2"])
def test_machine_code_chooses_as_python(run, target):
    """Strassen's algorithm by the number of positions, tiles of Winograd's by height and width."""
    machine, found = find_target(target), set()
    for ic, oc in ((64, 64), (256, 1024), (768, 256), (512, 70), (1024, 4096)):
        scope = Scope()
        count = scope.symbol("n", 100)
        positions = Positions(ic, oc, True, machine, True)
        chosen = [positions.chosen(count), positions.pays_by_machine_code(2 * count, count)]
        if None in chosen:
            continue
        run_choice = Prologue(scope, [], chosen, run)
        for n in (1, 2, 3, 7, 49, *range(50, 1200, 53), 3136, 12544):
            chunks, pays = run_choice((n,)).tolist()
            assert Positions.key_of(chunks) == positions.key((n,))
            assert pays == positions.pays(2 * n, n)
            found |= {("strassen", chunks), pays}
    for (ic, oc), window, stride in product(((16, 16), (64, 128), (256, 256)), (3, 5), (1, 2)):
        scope = Scope()
        height, width = scope.symbol("h", 50), scope.symbol("w", 50)
        windows = Windows.of(window_layer(ic, oc, window, stride), machine)
        if windows is None:
            continue
        run_choice = Prologue(scope, [], [windows.chosen((1, height, width))], run)
        for out in product((1, 7, 9, 14, 28, 56, 81), (3, 10, 13, 31, 57, 66)):
            (tile,) = run_choice(out).tolist()
            assert (tile if tile >= 0 else None) == windows.tile((1, *out))
            found.add(tile)
    assert len(found) > 5


def window_layer(ic: int, oc: int, window: int, stride: int) -> Layer:
    return Layer(
        inp=(1, 56, 56), out=(1, 56 // stride, 56 // stride), kernel=(1, window, window),
        stride=(1, stride, stride), dilate=(1, 1, 1), pad=(0, window // 2, window // 2), groups=1,
        ic=ic, oc=oc, xs=(0, 56 * 56 * ic, 56 * ic, ic, 1), reads=(),
        writes=((0, 56 * oc, 56 * oc, oc, 1),), program=Program(1),
    )  # fmt: skip


def test_statements_without_machine_code_are_refused():
    def with_a_list(n: int) -> int:
        found = [n]
        return found[0]

    with pytest.raises(TypeError, match=r"no machine code for \[n\]"):
        emit_scalar(ir.Module("wrong"), HOST, with_a_list, {})


def test_further_sizes_of_a_template_are_computed_by_machine_code(monkeypatch):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 3, padding=1, in_channels=32), nn.MaxPool2D(2), nn.GlobalAvgPool2D())
    net.initialize()
    net.hybridize()
    for side in (40, 48, 56):
        net(nd.ones((1, 32, side, side)))

    def refuse(*_: object) -> None:
        raise AssertionError("computed by Python")

    eager = {side: net(nd.ones((1, 32, side, side))).asnumpy() for side in (40, 48)}
    monkeypatch.setattr(Template, "_by_python", refuse)
    monkeypatch.setattr(templates._Class, "find", refuse)
    for side in (50, 52, 54):
        assert net(nd.ones((1, 32, side, side))).shape == (1, 64, 1, 1)
    for side, wanted in eager.items():
        assert (net(nd.ones((1, 32, side, side))).asnumpy() == wanted).all()
