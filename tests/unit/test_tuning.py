"""Choices between kernels that were measured: trying them, the file, and who takes them."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from test_cli import SHAPE, SYMBOL

from hybridjit import sym
from hybridjit._core.config import override
from hybridjit._core.options import Options
from hybridjit._core.types import type_of
from hybridjit.cli import main
from hybridjit.codegen.tuned import FORMAT, Choice, Tuned, key_of, read_tuned, write_tuned
from hybridjit.compilation import compile_graph, find_target
from hybridjit.compiler import new_log, plan_graph
from hybridjit.errors import ModelFormatError, MXNetError
from hybridjit.profiling.tuning import Tried, tune, tuned_of
from hybridjit.runtime import profiling
from hybridjit.runtime.profiling import Profiler
from hybridjit.runtime.threads import threads


def network():
    """A convolution with several algorithms, and a dense layer with several tiles."""
    draw = np.random.default_rng(3).standard_normal
    x, w, v = sym.var("x"), sym.var("w"), sym.var("v")
    y = sym.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True, layout="NHWC")
    y = sym.FullyConnected(
        sym.reshape(y, shape=(-1, 64)), v, num_hidden=96, no_bias=True, flatten=False
    )
    shapes = {"x": (1, 28, 28, 64), "w": (64, 3, 3, 64), "v": (96, 64)}
    return y, {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}


def compiled(log=None):
    """The executable of :func:`network`, bound, and its output."""
    output, arrays = network()
    types = {name: type_of(array) for name, array in arrays.items()}
    inputs = {"x": types.pop("x")}
    executable = compile_graph(output.outputs, inputs, types, Options(), log)
    executable.bind({name: arrays[name] for name in types})
    return executable, executable([arrays["x"]])[0]


def tried_with(measure):
    output, arrays = network()
    types = {name: type_of(array) for name, array in arrays.items()}
    inputs = {"x": types.pop("x")}
    log = new_log()
    plan = plan_graph(output.outputs, inputs, types, log)
    params = {name: arrays[name] for name in types}
    return tune(plan, params, [arrays["x"]], Options(), 0.01, log, measure)


def specs_of(executable):
    return [call.spec for row in executable.code.calls for call in row]


@pytest.mark.parametrize("shortest", [0, 1e9])
def test_one_thread_is_timed_in_cpu_time_unless_a_run_is_short(monkeypatch, shortest):
    monkeypatch.setattr(profiling, "_LONG_RUN", shortest)
    executable, y = compiled()
    (x,) = (array for name, array in network()[1].items() if name == "x")
    with threads(1):
        profiler = Profiler(executable, [x], [y])
    before = time.thread_time()
    profiler.run_watched()
    bounds = 1e-9 * profiler._stamps.bounds(len(profiler._calls()))
    is_of_thread = bool(before <= bounds[0] < bounds[-1] <= time.thread_time())
    assert is_of_thread == (shortest == 0)


KEPT = []  # executables that were measured: loaded kernels are not compiled again


def made_up(part_of):
    """A measurement: a millisecond for the cost model's kernels, ``part_of(spec)`` for others."""

    def measure(usual, other, seconds):
        KEPT.extend((usual, other))
        rows = zip(usual.code.calls, other.code.calls)
        after = [
            1e-3 if row == now else 1e-3 * min(part_of(c.spec) for c in now) for row, now in rows
        ]
        return [([1e-3] * len(after), after)] * 3

    return measure


def file_of(path, part_of):
    """A file of the made-up measurements."""
    tuned = tuned_of(tried_with(made_up(part_of)), str(find_target()))
    write_tuned(str(path), tuned)
    return tuned


def is_direct(spec):
    return 0.5 if spec.kind == "conv" else 2


def is_as_exact(kinds, sizes):
    """Half of the time for the same algorithms alone."""

    def part_of(spec):
        is_same = spec.kind in kinds and getattr(spec, "m", None) in sizes
        return 0.5 if is_same else 2

    return part_of


def test_a_faster_candidate_is_taken(tmp_path):
    """Cold and once more: the file alone decides, and EXPLAIN says so."""
    usual, without = compiled()
    assert "winograd" in [spec.kind for spec in specs_of(usual)]
    file_of(tmp_path / "tuned", is_direct)
    for _ in range(2):
        log = new_log()
        with override(tuned=str(tmp_path / "tuned")):
            executable, result = compiled(log)
        assert "winograd" not in [spec.kind for spec in specs_of(executable)]
        assert any("HYBRIDJIT_TUNED has conv" in note for note in log.notes)
        np.testing.assert_allclose(result, without, atol=1e-3 * np.abs(without).max())
    assert specs_of(compiled()[0]) == specs_of(usual)


def test_other_tiles_have_the_same_bits(tmp_path):
    """Dense layers in other tiles, Winograd in other blocks: both sum in the same order."""
    usual, without = compiled()
    before = specs_of(usual)
    kinds, sizes = ({getattr(spec, name, None) for spec in before} for name in ("kind", "m"))
    file_of(tmp_path / "tuned", is_as_exact(kinds, sizes))
    with override(tuned=str(tmp_path / "tuned")):
        executable, result = compiled()
    assert [spec.kind for spec in specs_of(executable)] == [spec.kind for spec in before]
    assert specs_of(executable) != before
    np.testing.assert_array_equal(result, without)


def test_small_gains_change_nothing():
    """Gains of 3 % may not be reproducible."""
    tried = tried_with(made_up(lambda spec: 0.98))
    assert len(tried) == 2 and all(len(one.candidates) > 2 for one in tried)
    assert tuned_of(tried, "cpu").choices == {}


def test_gains_that_are_not_confirmed_change_nothing():
    """All choices are measured together once more."""
    asked = []
    trials = range(max(len(one.candidates) for one in tried_with(made_up(is_direct))))

    def measure(usual, other, seconds):
        (round_, *_) = made_up(is_direct)(usual, other, seconds)
        asked.append(round_)
        return [round_, round_] if len(asked) < len(trials) else [(round_[0], round_[0])]

    tried = tried_with(measure)
    assert len(asked) == len(trials)
    assert tuned_of(tried, "cpu").choices == {}


def test_layers_with_the_same_candidates_decide_together():
    """One gains 10 %, another loses 20 % of twice the time: the cost model's stays."""
    first = Tried("a", ("slow", "fast"), 1.0, (1.0, 0.9))
    assert tuned_of([first], "cpu").choices[key_of(["fast", "slow"])].kernel == "fast"
    second = Tried("b", ("slow", "fast"), 2.0, (1.0, 1.2))
    assert tuned_of([first, second], "cpu").choices == {}


def test_on_another_cpu_the_file_decides_nothing(tmp_path):
    tuned = file_of(tmp_path / "tuned", is_direct)
    assert tuned.choices
    write_tuned(str(tmp_path / "tuned"), Tuned("another", tuned.choices))
    with (
        override(tuned=str(tmp_path / "tuned")),
        pytest.warns(RuntimeWarning, match="decides nothing: it was measured on another"),
    ):
        executable, _ = compiled()
    assert specs_of(executable) == specs_of(compiled()[0])


def test_kernels_that_are_no_candidates_are_not_taken(tmp_path):
    tuned = file_of(tmp_path / "tuned", is_direct)
    rows = {key: Choice("a", "conv mr=99", 1, "b", 2) for key in tuned.choices}
    write_tuned(str(tmp_path / "tuned"), Tuned(tuned.cpu, rows))
    assert read_tuned(str(tmp_path / "tuned")).choices == rows
    with override(tuned=str(tmp_path / "tuned")):
        executable, _ = compiled()
    assert specs_of(executable) == specs_of(compiled()[0])


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "tuned: "),
        ("[]", "has the format 'hybridjit tuned 1'"),
        ('{"format": "hybridjit tuned 0"}', "has the format"),
        (f'{{"format": "{FORMAT}", "cpu": 1, "choices": {{}}}}', "`cpu` is a string"),
        (f'{{"format": "{FORMAT}", "cpu": "c", "choices": {{"k": 1}}}}', "k: a choice has layer"),
    ],
)
def test_files_that_are_none(text, message, tmp_path):
    path = tmp_path / "tuned"
    path.write_text(text)
    with override(tuned=str(path)), pytest.raises(ModelFormatError, match=message):
        compiled()


def test_a_number_that_is_a_text(tmp_path):
    path = tmp_path / "tuned"
    row = {"layer": "a", "kernel": "b", "ms": "1", "instead_of": "c", "its_ms": 2}
    path.write_text(json.dumps({"format": FORMAT, "cpu": "c", "choices": {"key": row}}))
    with pytest.raises(ModelFormatError, match="key: ms is not of type str"):
        read_tuned(str(path))


def test_a_file_that_is_not_there(tmp_path):
    with override(tuned=str(tmp_path / "none")), pytest.raises(MXNetError, match="none: No such"):
        compiled()


def test_the_command(tmp_path, capsys):
    """It prints every layer with a choice, and adds to the file that is there."""
    path = tmp_path / "tuned"
    kept = {"0" * 16: Choice("a", "b", 1, "c", 2)}
    write_tuned(str(path), Tuned(str(find_target()), kept))
    assert main(["tune", SYMBOL, *SHAPE, "-o", str(path), "--seconds", "0.05"]) == 0
    printed = capsys.readouterr().out
    assert "digits_dense0_fwd" in printed and "choices changed" in printed
    assert read_tuned(str(path)).choices.items() >= kept.items()
    write_tuned(str(path), Tuned("another", kept))
    assert main(["tune", SYMBOL, *SHAPE, "-o", str(path), "--seconds", "0.05"]) == 2
    assert "was measured on another" in capsys.readouterr().err
