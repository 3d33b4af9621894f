"""Display in notebooks, logs, and names in traces: repr, HTML, progress, lanes."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import types
from html.parser import HTMLParser

import numpy as np
import pytest

import hybridjit as mx
from compiling import call, compiled, plan_of, var
from hybridjit import gluon, nd, profiler, profiling
from hybridjit._core.config import override
from hybridjit.codegen.emit import progress
from hybridjit.gluon import nn
from hybridjit.runtime.profiling import bytes_moved

SIZES = itertools.count(211)


class _Page(HTMLParser):
    """Text of HTML whose elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows = 0
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def page(thing) -> _Page:
    return _Page(thing._repr_html_())


@pytest.fixture(scope="module")
def net():
    made = nn.HybridSequential(prefix="shown_")
    inner = nn.HybridSequential()
    inner.add(nn.Dense(4, in_units=3, activation="relu"), nn.Dropout(0.5))
    made.add(inner, nn.Dense(2, in_units=4))
    made.initialize()
    made.hybridize()
    return made


# ---- repr and HTML


def test_a_verdict_shows_the_answer_and_a_table(net):
    verdict = net.verify(nd.ones((5, 3)))
    assert repr(verdict) == str(verdict) and "agrees with eager" in repr(verdict)
    shown = page(verdict)
    assert "agrees with eager" in shown.text and shown.rows == 1 + len(verdict.outputs)


def test_a_profile_shows_its_table(net):
    report = profiling.profile(net, nd.ones((5, 3)), seconds=0.01)
    assert repr(report) == str(report)
    shown = page(report)
    assert shown.rows == 1 + len(report.profile.parts) and "peak" in shown.text
    trained = profiling.profile(net, nd.ones((5, 3)), seconds=0.01, train=True)
    assert repr(trained) == str(trained)
    assert all(word in page(trained).text for word in ("forward", "backward", "update"))


def test_a_network_folds_by_block(net):
    shown = net._repr_html_()
    text = page(net).text
    assert "HybridSequential: 26 parameters" in text and "HybridSequential: 16 parameters" in text
    assert shown.count("<details open>") == 1 and shown.count("<details>") == 1
    unknown = nn.HybridSequential()
    unknown.add(nn.Dense(3))
    assert "and more, whose shapes are unknown" in page(unknown).text


def test_arrays_show_type_and_escaped_values():
    shown = page(nd.ones((2, 3)))
    assert "NDArray 2x3 float32 @cpu(0)" in shown.text and "[1. 1. 1.]" in shown.text
    assert "int32" in page(mx.np.array([1, 2], dtype="int32")).text
    assert len(nd.zeros((1000, 1000))._repr_html_()) < 2000


def test_a_training_step_names_its_parts(net):
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.25})
    step = mx.train_step(net, gluon.loss.L2Loss(), trainer)
    wanted = "TrainStep(shown, L2Loss, SGD(learning_rate=0.25, wd=0): 0 compiled signatures)"
    assert repr(step) == wanted
    step(nd.ones((5, 3)), nd.ones((5, 2)))
    assert repr(step).endswith(": 1 compiled signature)")


def test_objects_of_training_name_their_parts(net):
    adam = gluon.Trainer(net.collect_params(), "adam", {"wd": 0.5})
    count = len(net.collect_params().keys())
    assert repr(adam) == f"Trainer({count} parameters, Adam(learning_rate=0.001, wd=0.5))"
    data = gluon.data.ArrayDataset(nd.ones((4, 3)), nd.ones(4))
    assert repr(data) == "ArrayDataset(4 samples of 2 values)"
    loader = gluon.data.DataLoader(data, 2)
    assert repr(loader) == "DataLoader(ArrayDataset of 4 samples, num_workers=0)"
    metric = mx.metric.Accuracy()
    metric.update(nd.array([0, 1]), nd.array([[1, 0], [1, 0]]))
    assert repr(metric) == "Accuracy(accuracy=0.5)"
    assert str(metric) == "EvalMetric: {'accuracy': 0.5}"  # as in MXNet
    net.hybridize()
    assert repr(net.bind(nd.ones((5, 3)))) == "BoundCall(f32[5,3] -> f32[5,2])"


# ---- progress and logs


def compile_something() -> None:
    size = next(SIZES)
    arrays = {"x": np.ones((3, 1013), np.float32), "w": np.ones((size, 1013), np.float32)}
    dense = call("FullyConnected", var("x"), var("w"), num_hidden=size, no_bias=True)
    with override(cache_dir="off"):
        compiled([call("softmax", dense)], arrays)


@pytest.fixture
def outputs(monkeypatch):
    """The outputs of a notebook's cell, as its front end shows them."""
    shown: list[str] = []

    class Handle:
        def update(self, content, raw):
            assert raw
            shown.append(content["text/plain"])

    def display(content, raw, display_id):
        assert raw and display_id
        shown.append(content["text/plain"])
        return Handle()

    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    notebook.display = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    return shown


def test_progress_in_a_notebook_is_one_output(outputs, monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.0)
    compile_something()
    assert outputs[0].startswith("hybridjit: compiling graph, kernel 1 of") and outputs[-1] == ""
    outputs.clear()
    monkeypatch.setattr(progress, "_LONG", 1e9)
    compile_something()
    assert outputs == []


def test_compilations_are_logged(caplog):
    with caplog.at_level(logging.INFO, "hybridjit"):
        compile_something()
    (record,) = [r for r in caplog.records if r.getMessage().startswith("compiled ")]
    assert record.name == "hybridjit"
    assert "kernels compiled, 0 from the cache" in record.getMessage()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "hybridjit"):
        compile_something()
    assert caplog.records == []


# ---- traces


def named(events, what: str) -> dict[tuple[int, int], str]:
    rows = [e for e in events if e["ph"] == "M" and e["name"] == what]
    return {(e["pid"], e.get("tid", 0)): e["args"]["name"] for e in rows}


def test_a_trace_names_process_lanes_and_lines(net, tmp_path):
    path = tmp_path / "trace.json"
    profiling.profile(net, nd.ones((5, 3)), seconds=0.01, train=True).write_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    assert "training of" in named(events, "process_name")[0, 0]
    lanes = named(events, "thread_name")
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    assert used == lanes.keys() and "updates of parameters" in lanes.values()


def test_a_trace_has_the_times_of_each_thread(tmp_path):
    wide = nn.Dense(512, in_units=1024, prefix="wide_")
    wide.initialize()
    with mx.threads(2):
        report = profiling.profile(wide, nd.ones((64, 1024)), seconds=0.01)
    (part,) = report.profile.parts
    assert [span.thread for span in part.spans] == [0, 1]
    assert all(span.begin < span.end <= part.once for span in part.spans)
    report.write_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = named(events, "thread_name")
    times = {lanes[0, e["tid"]]: (e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert list(times) == ["native code on 2 threads", "thread 0, the caller", "thread 1, a worker"]
    for (ts, dur), span in zip(list(times.values())[1:], part.spans):
        assert (ts, dur) == pytest.approx((1e6 * span.begin, 1e6 * (span.end - span.begin)))


def test_the_profilers_file_names_threads_and_lines(net, tmp_path):
    path = tmp_path / "profile.json"
    profiler.set_config(profile_all=True, filename=str(path))
    profiler.set_state("run")
    x = nd.ones((5, 3))
    nd.tanh(x).wait_to_read()
    net(x)
    profiler.set_state("stop")
    profiler.dump()
    events = json.loads(path.read_text())["traceEvents"]
    assert "MainThread" in named(events, "thread_name").values()
    (eager,) = [e for e in events if e["ph"] == "X" and e["name"] == "tanh"]
    assert f"{__file__}:" in eager["args"]["line"]


def test_a_lookup_moves_the_rows_that_it_takes():
    arrays = {"i": np.zeros(3, np.float32), "table": np.ones((1000, 8), np.float32)}
    rows = call("Embedding", var("i"), var("table"), input_dim=1000, output_dim=8)
    (step,) = plan_of([rows], arrays).steps
    assert bytes_moved(step) == 3 * 4 + 2 * 3 * 8 * 4
