"""``mx.profiler``: records correspond to executed operators."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import autograd, gluon, nd, profiler, sym
from hybridjit._core import timeline
from hybridjit._core.timeline import TIMELINE


@pytest.fixture
def path(tmp_path):
    """The file of a profiler that runs, with sums; nothing of it is left afterwards."""
    path = tmp_path / "profile.json"
    profiler.set_config(profile_all=True, aggregate_stats=True, filename=str(path))
    profiler.set_state("run")
    yield path
    profiler.set_state("stop")
    TIMELINE.clear()
    profiler.set_config()


def events(path, kind="X"):
    profiler.dump(False)
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == kind]


def sums(part="Time", **kwargs):
    return json.loads(profiler.dumps(format="json", **kwargs))[part]


def names(path):
    return [event["name"] for event in events(path)]


class TestOperators:
    def test_each_is_one_span(self, path):
        x = nd.ones((3, 4))
        x.attach_grad()
        with autograd.record():
            y = (x * 2).sum()
        y.backward()
        found = names(path)
        assert [n for n in found if "scalar" in n or "sum" in n] == [
            *("_mul_scalar", "sum", "_backward_sum", "_backward_mul_scalar"),
        ]
        assert "_ones" in found and x.grad.asnumpy().tolist() == [[2.0] * 4] * 3

    def test_spans_lie_in_their_order_and_do_not_overlap(self, path):
        x = nd.ones((8, 8))
        for _ in range(3):
            x = nd.dot(x, x)
        spans = events(path)
        assert all(span["dur"] > 0 for span in spans)
        for before, after in zip(spans, spans[1:]):
            assert before["ts"] + before["dur"] <= after["ts"]

    def test_custom_operators_have_separate_spans(self, path):
        class Twice(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], nd.exp(in_data[0]))

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] * out_data[0])

        class TwiceProp(mx.operator.CustomOpProp):
            def create_operator(self, ctx, in_shapes, in_dtypes):
                return Twice()

        mx.operator.register("profiled")(TwiceProp)
        x = nd.ones((3,))
        x.attach_grad()
        with autograd.record():
            y = nd.Custom(x, op_type="profiled")
        y.backward()
        found = sums()
        assert {"profiled::pure_python", "profiled::exp", "_backward_profiled::pure_python"} <= set(
            found["Custom Operator"]
        )
        assert "exp" not in found["operator"] and found["operator"]["Custom"]["Count"] == 1
        sym.Custom(sym.var("x"), op_type="profiled").bind(mx.cpu(), {"x": x}).forward()
        assert sums()["Custom Operator"]["profiled::exp"]["Count"] == 2

    def test_an_operator_that_fails_leaves_later_ones_noted(self, path):
        with pytest.raises(mx.MXNetError):
            nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))
        nd.exp(nd.ones((2,)))
        assert "exp" in names(path)

    def test_threads_have_their_own_numbers(self, path):
        worker = threading.Thread(target=lambda: nd.exp(nd.ones((2,))))
        worker.start()
        worker.join()
        nd.exp(nd.ones((2,)))
        assert len({e["tid"] for e in events(path) if e["name"] == "exp"}) == 2


class TestGraphs:
    @pytest.mark.parametrize("size", [3, 200])  # on the caller alone, and in the pool
    def test_each_step_is_one_span(self, path, size):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(size, activation="relu"), gluon.nn.Dense(2))
        net.initialize()
        x = nd.ones((size, size))
        eager = net(x)
        net.hybridize()
        net(x)
        profiler.dumps(reset=True)
        compiled = net(x)
        found = sums()["operator"]
        assert found["FullyConnected"]["Count"] == 2 and set(found) == {"FullyConnected"}
        first, second = [e["args"] for e in events(path) if "graph" in e.get("args", {})][-2:]
        assert first["fused"] == "Activation" and "fused" not in second
        np.testing.assert_allclose(compiled.asnumpy(), eager.asnumpy(), rtol=1e-5, atol=1e-6)

    def test_each_of_several_threads_has_a_lane(self, path):
        net = gluon.nn.Dense(300, in_units=300, activation="relu")
        net.initialize()
        net.hybridize()
        x = nd.ones((64, 300))
        with mx.threads(2):
            net(x)
            TIMELINE.clear()
            profiler.dumps(reset=True)
            net(x)
        (whole,) = [e for e in events(path) if "graph" in e["args"]]
        parts = [e for e in events(path) if e["cat"] == "threads"]
        assert {e["name"] for e in parts} == {whole["name"]} == {"FullyConnected"}
        ends = [e["ts"] + e["dur"] for e in parts]
        assert max(ends) <= whole["ts"] + whole["dur"] and min(e["dur"] for e in parts) >= 0
        lanes = {e["tid"]: e["args"]["name"] for e in events(path, "M") if "tid" in e}
        assert [lanes[e["tid"]] for e in parts] == ["MainThread", "worker 1"]
        assert set(sums()) == {"operator"} and sums()["operator"]["FullyConnected"]["Count"] == 1

    def test_one_thread_has_no_lanes_of_parts(self, path):
        net = gluon.nn.Dense(300, in_units=300)
        net.initialize()
        net.hybridize()
        with mx.threads(1):
            net(nd.ones((64, 300)))
        assert not [e for e in events(path) if e["cat"] == "threads"]

    def test_bound_networks_and_training(self, path):
        net = gluon.nn.Dense(3)
        net.initialize()
        x, y = nd.ones((2, 4)), nd.zeros((2, 3))
        net.hybridize()
        bound = net.bind(x, out=y)
        profiler.dumps(reset=True)
        bound()
        assert sums(reset=True)["operator"]["FullyConnected"]["Count"] == 1
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        steps = [e for e in events(path) if "graph" in e.get("args", {})]
        assert len(steps) >= 3 and all(e["dur"] >= 0 for e in steps)

    def test_a_step_in_numpy_is_one_span(self, path):
        executor = sym.linalg.gelqf(sym.var("x"))[0].bind(mx.cpu(), {"x": nd.ones((2, 3))})
        executor.forward()
        assert any("gelqf" in name for name in names(path))

    def test_only_configured_kinds_are_recorded(self, path):
        net = gluon.nn.Dense(3)
        net.initialize()
        net.hybridize()
        x = nd.ones((2, 4))
        net(x)
        for symbolic, imperative in ((True, False), (False, True)):
            profiler.set_config(
                profile_symbolic=symbolic, profile_imperative=imperative, filename=str(path)
            )
            TIMELINE.clear()
            net(nd.exp(x))
            found = set(names(path))
            assert ("FullyConnected" in found) is symbolic and ("exp" in found) is imperative


class TestOwn:
    def test_spans_counters_and_marks(self, path):
        domain = profiler.Domain("own")
        task, frame = domain.new_task("task"), domain.new_frame("frame")
        event, counter = profiler.Event("event"), domain.new_counter("counter", 5)
        for span in (task, frame, event):
            span.start()
        counter += 2
        counter -= 1
        counter.increment()
        domain.new_marker("mark").mark("thread")
        for span in (event, frame, task):
            span.stop()
            span.stop()  # it ended
        spans = {e["name"]: e for e in events(path)}
        assert [spans[n]["cat"] for n in ("task", "frame", "event")] == [
            "own",
            "own,frame",
            "event",
        ]
        assert spans["task"]["dur"] >= spans["frame"]["dur"] >= spans["event"]["dur"] > 0
        counted = [e["args"] for e in events(path, "C") if e["name"] == "counter"]
        assert counted == [{"counter": n} for n in (5, 7, 6, 7)]
        (mark,) = events(path, "i")
        assert mark["name"] == "mark" and mark["s"] == "t"
        assert sums("Counter")["own"]["counter"] == {"Count": 4, "Min": 5, "Max": 7, "Avg": 6.25}
        assert [str(x) for x in (domain, task, frame, event, counter)] == [
            *("own", "task", "frame", "event", "counter"),
        ]
        with pytest.raises(mx.MXNetError, match="Invalid Input: 'here'"):
            profiler.Marker(domain, "m").mark("here")

    def test_nothing_is_noted_in_a_pause_or_after_the_end(self, path):
        profiler.pause()
        nd.exp(nd.ones((2,)))
        task = profiler.Task(profiler.Domain("own"), "task")
        task.start()
        profiler.resume()
        task.stop()
        nd.log(nd.ones((2,)))
        profiler.set_state("stop")
        nd.sin(nd.ones((2,)))
        found = names(path)
        assert "log" in found and not {"exp", "sin", "task"} & set(found)


class TestSums:
    def test_they_are_the_sums_of_the_spans(self, path):
        profiler.dumps(reset=True)
        TIMELINE.clear()
        for _ in range(3):
            nd.exp(nd.ones((100,)))
        spans = [1e-3 * e["dur"] for e in events(path) if e["name"] == "exp"]
        found = sums()["operator"]["exp"]
        assert found["Count"] == 3 == len(spans)
        expected = {"Total": sum(spans), "Min": min(spans), "Max": max(spans)}
        assert {k: found[k] for k in expected} == pytest.approx(expected)
        assert found["Avg"] == pytest.approx(found["Total"] / 3)

    @pytest.mark.parametrize("ascending", [False, True])
    @pytest.mark.parametrize("by", ["total", "avg", "min", "max", "count"])
    def test_they_are_sorted(self, path, by, ascending):
        for function in (nd.exp, nd.log, nd.sin, nd.exp):
            function(nd.ones((10,)))
        rows = sums(sort_by=by, ascending=ascending)["operator"].values()
        column = [row[by.title()] for row in rows]
        assert column == sorted(column, reverse=not ascending)

    def test_the_table(self, path):
        nd.exp(nd.ones((10,)))
        lines = profiler.dumps(reset=True).splitlines()
        (row,) = [line.split() for line in lines if line.startswith("exp ")]
        assert row[1] == "1" and len(row) == 6 and "Profile Statistics:" in lines
        assert any(line.startswith("Memory: cpu/0") for line in lines)
        assert "exp" not in profiler.dumps()

    def test_without_them_there_is_no_text(self, path):
        profiler.set_config(filename=str(path))
        nd.exp(nd.ones((10,)))
        assert profiler.dumps() == "" and "exp" in names(path)

    def test_memory_is_the_process(self, path):
        nd.ones((10,))
        held = sums("Memory")["Device Storage"]["Memory: cpu/0"]
        assert 0 < held["Min"] <= 1e-3 * mx.memory_stats()["peak_resident_bytes"]


class TestFile:
    def test_a_finished_dump_ends_it(self, path):
        nd.exp(nd.ones((2,)))
        profiler.dump()
        assert '"exp"' in path.read_text()
        with pytest.raises(mx.MXNetError, match="hasn't been run"):
            profiler.dump()
        nd.log(nd.ones((2,)))
        profiler.set_state("run")
        nd.sin(nd.ones((2,)))
        found = names(path)
        assert "sin" in found and not {"exp", "log"} & set(found)

    def test_too_many_events_are_counted(self, path, monkeypatch):
        monkeypatch.setattr(timeline, "MOST_EVENTS", len(TIMELINE.events) + 2)
        for _ in range(5):
            nd.exp(nd.ones((2,)))
        assert len(names(path)) == 2
        lost = json.loads(path.read_text())["otherData"]["events_lost"]
        assert lost >= 8 and sums()["operator"]["exp"]["Count"] == 5

    def test_a_program_that_ends_writes_it(self, tmp_path):
        path = tmp_path / "at_exit.json"
        program = f"""
import hybridjit as mx
mx.profiler.set_config(filename={str(path)!r})
mx.profiler.set_state("run")
mx.nd.exp(mx.nd.ones((2,)))
"""
        subprocess.run([sys.executable, "-c", program], check=True)
        assert '"exp"' in path.read_text()

    def test_a_file_that_cannot_be_written(self, path, tmp_path):
        profiler.set_config(filename=str(tmp_path / "none" / "x.json"))
        with pytest.raises(mx.MXNetError, match="none"):
            profiler.dump()


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: profiler.set_config(colour=1), mx.MXNetError, "Cannot find argument 'colour'"),
        (lambda: profiler.set_config(profile_all="z"), mx.MXNetError, "expect boolean"),
        (lambda: profiler.set_config(dump_period="z"), mx.MXNetError, "expect float"),
        (lambda: profiler.set_config(profile_process="server"), mx.MXNetError, "no servers"),
        (lambda: profiler.set_config(profile_process="x"), KeyError, "x"),
        (lambda: profiler.set_state("walk"), KeyError, "walk"),
        (lambda: profiler.set_state("run", "server"), mx.MXNetError, "no servers"),
        (lambda: profiler.dumps(format="text"), AssertionError, "format: text"),
        (lambda: profiler.dumps(sort_by="name"), AssertionError, "sort_by: name"),
        (lambda: profiler.dumps(ascending=3), AssertionError, "ascending: 3"),
    ],
)
def test_profiler_raises_for_wrong_arguments(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
    assert not TIMELINE.marks


def test_older_names_warn(tmp_path):
    path = tmp_path / "old.json"
    with pytest.warns(UserWarning, match=r"profiler_set_config\(\) is deprecated"):
        profiler.profiler_set_config("all", str(path))
    with pytest.warns(UserWarning, match=r"set_state\(\)"):
        profiler.profiler_set_state("run")
    nd.exp(nd.ones((2,)))
    with pytest.warns(UserWarning, match=r"dump\(\)"):
        profiler.dump_profile()
    assert '"exp"' in path.read_text()
    profiler.set_config()
