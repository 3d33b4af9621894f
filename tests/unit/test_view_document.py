"""The document of a compilation describes the compiler's work, and damaged ones are rejected."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hybridjit import gluon, nd, sym
from hybridjit._core.config import override
from hybridjit.cli import main
from hybridjit.compilation import compile_graph, compile_training
from hybridjit.errors import ModelFormatError
from hybridjit.gluon import nn
from hybridjit.ir.print import plan_text
from hybridjit.profiling import traced
from hybridjit.viewing import Subject, compare, inference_document, read_document, training_document
from hybridjit.viewing import graphs as viewing_graphs
from hybridjit.viewing.code import hot_loop, listing
from hybridjit.viewing.parameters import histogram
from hybridjit.viewing.schema import require_document
from hybridjit.viewing.texts import shared_limit, short_name

DIGITS = str(Path(__file__).parent.parent.parent / "examples" / "digits" / "digits")


class Small(gluon.HybridBlock):
    """A convolution with BatchNorm and relu, an operator without a kernel, a dense layer."""

    def __init__(self) -> None:
        super().__init__(prefix="small_")
        with self.name_scope():
            self.conv = nn.Conv2D(8, 3, use_bias=False, in_channels=4)
            self.norm = nn.BatchNorm(in_channels=8)
            self.out = nn.Dense(5, in_units=8 * 36)

    def hybrid_forward(self, F, x):
        x = F.relu(self.norm(self.conv(x)))
        return F.cumsum(self.out(x), axis=1)


def subject_of(net, *arrays):
    found = traced(net, *arrays)
    return Subject(found.name, found.outputs, found.inputs, found.params, found.wanted)


@pytest.fixture(scope="module")
def subject():
    net = Small()
    net.initialize()
    return subject_of(net, nd.random.normal(shape=(2, 4, 8, 8)))


@pytest.fixture(scope="module")
def document(subject):
    return inference_document(subject, seconds=0.02)


@pytest.fixture(scope="module")
def trained(subject):
    return training_document(subject, seconds=0.05, optimizer="adam")


def again(document):
    """The contents of a file of the document."""
    return json.loads(json.dumps(document))


def stage_named(part, name):
    return next(stage for stage in part["stages"] if stage["name"] == name)


def records(document, stage):
    return {(v := document["values"][place])["name"]: v for place in stage["values"]}


@pytest.mark.parametrize("which", ["document", "trained"])
def test_documents_conform_to_the_schema(which, request):
    document = request.getfixturevalue(which)
    assert require_document(again(document), "it") == again(document)


@pytest.mark.parametrize("which", ["document", "trained"])
def test_every_name_is_one_of_its_stage(which, request):
    document = request.getfixturevalue(which)
    training = document["training"]
    stages = [stage for part in document["parts"] for stage in part["stages"]]
    for stage in [*stages, *(training["stages"] if training else ())]:
        known = records(document, stage)
        assert len(known) == len(stage["values"])
        used = [name for value in known.values() for name, _ in value["inputs"]]
        used += [name for name, _ in stage["outputs"]]
        used += [*stage["added"], *stage["changed"]]
        used += [name for group in stage["groups"] for name in group["members"]]
        assert set(used) <= known.keys(), stage["name"]
        ops = Counter(value["op"] for value in known.values() if value["op"])
        assert stage["counts"] == dict(sorted(ops.items()))


def test_stages_list_the_changes_of_passes(document):
    (part,) = document["parts"]
    names = [stage["name"] for stage in part["stages"]]
    assert names[:3] == ["trace", "infer", "training"] and names[-1] == "fuse"
    fold = stage_named(part, "fold-bn")
    assert "small_conv0_fwd" in fold["removed"] and "BatchNorm" not in fold["counts"]
    assert any("BatchNorm" in rule["title"] for rule in fold["rules"])
    assert any(rule["values"] == ["small_batchnorm0_fwd"] for rule in fold["rules"])
    assert "small_batchnorm0_fwd" in fold["changed"]
    hoist = stage_named(part, "hoist")
    bound = [document["values"][place]["op"] for place in hoist["bind"]]
    assert "_bn_scale" in bound and "_bn_scale" not in hoist["counts"]
    half = stage_named(part, "lower-float16")
    assert not half["added"] and not half["removed"] and not half["changed"]
    kinds = {group["kind"] for group in stage_named(part, "fuse")["groups"]}
    assert {"conv", "gemm", "host"} <= kinds


def test_values_have_types_and_the_users_line(document):
    known = records(document, document["parts"][0]["stages"][1])
    conv = known["small_conv0_fwd"]
    assert conv["types"] == ["f32[2,8,6,6]"] and conv["bytes"] == 4 * 2 * 8 * 36
    assert known["data"]["role"] == "input" and known["small_conv0_weight"]["role"] == "parameter"
    assert "in hybrid_forward" in conv["source"]
    assert document["lines"][conv["source"]] == "x = F.relu(self.norm(self.conv(x)))"


def test_steps_and_plan_are_the_executables(subject, document):
    (part,) = document["parts"]
    plan = compile_graph(subject.outputs, subject.input_types, subject.param_types).plan
    text = plan_text(plan)
    assert [step["name"] for step in part["steps"]] == [step.name for step in plan.steps]
    assert plan.steps[0].name == "small_conv0_fwd"  # its batch norm is folded
    assert "small_conv0_fwd" in {group["name"] for group in part["stages"][-1]["groups"]}
    assert part["plan"]["arena_bytes"] == plan.arena_bytes
    assert max(part["plan"]["live"]) == part["plan"]["live_bytes"] == plan.live_bytes
    assert part["plan"]["live"][part["plan"]["peak_step"]] == plan.live_bytes
    for buffer in part["plan"]["buffers"]:
        if buffer["kind"] == "arena":
            assert f"arena {buffer['offset']:>9} +{buffer['bytes']:<9}" in text
    conv = part["steps"][0]
    assert conv["kind"] == "conv" and conv["fused"] == ["Activation"] or conv["fused"] == ["relu"]
    assert [view["value"][0] for view in conv["writes"]] == [conv["members"][-1]]
    host = next(step for step in part["steps"] if not step["calls"])
    assert host["algorithm"] == "host _np_cumsum"


def test_kernels_have_their_code_with_its_loop(document):
    (part,) = document["parts"]
    conv = part["kernels"][part["steps"][0]["calls"][0]["kernel"]]
    assert 0 in conv["steps"] and conv["spec"].startswith("conv ")
    for name, sign in (("llvm", "x float>"), ("assembly", "mm")):
        code = conv[name]
        first, last = code["hot"]
        lines = code["text"].splitlines()
        assert 0 < first < last < len(lines)
        assert any(sign in line for line in lines[first : last + 1])
    assert f"define void @{conv['name']}" in conv["llvm"]["text"].replace('"', "")


def test_the_profile_adds_up(document):
    profile = document["parts"][0]["profile"]
    assert sum(timed["seconds"] for timed in profile["parts"]) == pytest.approx(profile["total"])
    assert sum(timed["share"] for timed in profile["parts"]) == pytest.approx(1)
    assert profile["peak"] > 1e8 and profile["bandwidth"] > 1e7
    host = [timed for timed in profile["parts"] if timed["kernel"] == -1]
    assert [timed["algorithm"] for timed in host] == ["host _np_cumsum"]
    assert "GFLOP/s" in profile["text"]


def test_parameters_have_their_spread_and_their_steps(document, subject):
    known = {parameter["name"]: parameter for parameter in document["parameters"]}
    weight = known["small_conv0_weight"]
    assert weight["steps"] == [[0]] == known["small_batchnorm0_gamma"]["steps"]
    array = subject.params["small_conv0_weight"]
    assert sum(weight["histogram"]["counts"]) == array.size == weight["histogram"]["sampled"]
    assert weight["histogram"]["low"] == array.min()


@pytest.mark.parametrize(
    "array, wanted",
    [
        (np.zeros((0, 3), np.float32), None),
        (np.full(3, np.nan), None),
        (np.array([1e308, -1e308]), None),
        (np.array([1.0, np.inf, 3.0]), (1.0, 3.0, 2, 1)),
        (np.full(4, 7, np.int32), (7.0, 7.0, 4, 0)),
        (np.arange(200_000), (0.0, 199_996.0, 50_000, 0)),
    ],
)
def test_histograms_of_any_numbers(array, wanted):
    found = histogram(array)
    assert (found is None) == (wanted is None)
    if found:
        counted = sum(found["counts"])
        assert (found["low"], found["high"], counted, found["not_finite"]) == wanted


def test_training_has_its_joint_graph_and_saved_values(subject, trained):
    training = trained["training"]
    types = {**subject.input_types, **subject.param_types}
    compiled = compile_training(subject.outputs, types, subject.wanted, True)
    assert [stage["name"] for stage in training["stages"]][-1] == "partition"
    assert sum(saved["bytes"] for saved in training["saved"]) == compiled.parts.saved_bytes > 0
    assert training["gradients"] == list(compiled.joint.gradients)
    assert set(training["states"]) == {
        "small_batchnorm0_running_mean",
        "small_batchnorm0_running_var",
    }
    assert [part["name"] for part in trained["parts"]] == ["forward", "backward"]
    assert all(update["seconds"] > 0 for update in training["updates"])
    assert {update["rule"] for update in training["updates"]} == {"Adam"}
    weight = next(p for p in trained["parameters"] if p["name"] == "small_conv0_weight")
    assert weight["steps"][0] and trained["mode"] == "training"


def test_a_batch_that_runs_sample_by_sample():
    net = nn.HybridSequential(prefix="wide_")
    for _ in range(3):
        net.add(nn.Conv2D(64, 3, padding=1, in_channels=64))
    net.initialize()
    (part,) = inference_document(subject_of(net, nd.zeros((8, 64, 56, 56))))["parts"]
    assert part["samples"] == 8
    assert "samples run one by one" in part["notes"][0]
    assert part["steps"][0]["writes"][0]["shape"][0] == 1


def test_a_graph_with_too_many_values_has_its_counts(monkeypatch, subject):
    monkeypatch.setattr(viewing_graphs, "MOST_VALUES", 5)
    document = inference_document(subject)
    for stage in document["parts"][0]["stages"]:
        assert not stage["values"] or len(stage["values"]) <= 5
        assert stage["counts"]
    require_document(again(document), "it")


def test_long_names_are_short_and_differ():
    a, b = "x" * 5_000 + "a", "x" * 5_000 + "b"
    assert len(short_name(a)) <= 160 and short_name(a) != short_name(b)
    out = sym.relu(sym.var(a), name=b)
    types = {a: np.ones((2, 3), np.float32)}
    document = inference_document(Subject("g" * 500, out.outputs, types, {}))
    assert len(json.dumps(document["values"])) < 3_000
    require_document(again(document), "it")


class TestListings:
    LINES = (
        *("main:", "  mov a, b", ".L1:", "  add %ymm0, %ymm1", "  jne .L1", "outer:"),
        *("  xor a, a", ".L2:", "  vfmadd %zmm0, %zmm1", "  vfmadd %zmm2, %zmm1", "  add a, b"),
        *("  jb .L2", "  jmp outer", "ret"),
    )

    def test_the_innermost_loop_that_multiplies_most_is_hot(self):
        assert hot_loop(self.LINES) == (7, 11)
        moves = (".L3:", *["  vmovups %zmm0, a"] * 20, "  jne .L3")
        assert hot_loop((*self.LINES, *moves)) == (7, 11)
        assert hot_loop(("main:", *moves)) == (1, 22)
        transform = (".L4:", *["  vmulps %zmm0, a", "  vaddps %zmm0, a"] * 9, "  jne .L4")
        assert hot_loop((*self.LINES, *transform)) == (7, 11)
        assert hot_loop(("a:", "  ret")) == (-1, -1)

    def test_shortened_listings_keep_the_loop(self):
        text = "\n".join([*["  nop"] * 500, *self.LINES, *["  nop"] * 500])
        found = listing(text, 200)
        first, last = found["hot"]
        lines = found["text"].splitlines()
        assert len(found["text"]) < 300 and found["lines"] == 1014
        assert lines[first] == ".L2:" and lines[last] == "  jb .L2"
        assert "omitted" in lines[0] and "omitted" in lines[-1]

    def test_a_budget_is_shared(self):
        assert shared_limit([10, 1000, 1000], 500) == 245
        assert shared_limit([10, 20], 500) == 20
        assert shared_limit([], 500) == 0


class TestDamaged:
    """A document that was changed by hand is refused, by the place that is wrong."""

    @pytest.mark.parametrize(
        "change, words",
        [
            (lambda d: d.pop("values"), "lacks values"),
            (lambda d: d["parts"][0]["profile"]["parts"][0].update(seconds=-1.0), "at least 0"),
            (lambda d: d["parts"][0]["profile"]["parts"][0].update(step=99), "between 0 and"),
            (lambda d: d["parts"][0]["profile"].update(total=float("nan")), "must be a float"),
            (lambda d: d["parts"][0]["profile"].update(parts={}), "must be a list, got dict"),
            (lambda d: d["parts"][0]["steps"][0]["calls"][0].update(kernel=-1), "a kernel of"),
            (lambda d: d["parts"][0]["steps"][0].update(name=7), "steps[0].name must be a str"),
            (lambda d: d["parts"][0]["plan"].update(arena_bytes=True), "arena_bytes must be a int"),
            (lambda d: d.update(version=4), "version 4 is not supported, only 1 to 3"),
            (lambda d: d["parts"][0]["profile"]["parts"][0].update(spans=[[0, 1.0]]), "3 items"),
            (lambda d: d.update(format="x"), "not a document"),
        ],
    )
    def test_damaged_documents_raise_with_a_reason(self, document, change, words):
        damaged = again(document)
        change(damaged)
        with pytest.raises(ModelFormatError, match=".*") as error:
            require_document(damaged, "before.json")
        assert words in str(error.value) and "before.json" in str(error.value)

    @pytest.mark.parametrize("text", ["", "{", "[1,2]", "[" * 100_000, '{"format": 1}', "\x00"])
    def test_files_that_are_something_else(self, tmp_path, text):
        (tmp_path / "before.json").write_text(text)
        with pytest.raises(ModelFormatError):
            read_document(tmp_path / "before.json")


class TestCompare:
    def test_nothing_changed(self, document):
        (part,) = compare(again(document), document)["parts"]
        assert {change["what"] for change in part["changes"]} == {"same"}

    def test_other_kernels_and_steps(self, subject, document):
        with override(target="sse2"):
            before = inference_document(subject)
        gone = copy.deepcopy(before)
        gone["parts"][0]["steps"][0]["name"] = "elsewhere"
        (part,) = compare(gone, document)["parts"]
        by_name = {change["name"]: change for change in part["changes"]}
        assert by_name["elsewhere"]["what"] == "gone"
        assert by_name[document["parts"][0]["steps"][0]["name"]]["what"] == "new"
        assert by_name[document["parts"][0]["steps"][-1]["name"]]["what"] == "same"  # a host step
        assert part["seconds"][0] is None and part["seconds"][1] > 0


class TestCommand:
    WORDS = ("view", DIGITS, "--shape", "data=1,1,28,28", "--json")

    def test_json_is_printed(self, capsys):
        assert main([*self.WORDS]) == 0
        document = require_document(json.loads(capsys.readouterr().out), "it")
        assert document["name"] == "digits" and document["parts"][0]["profile"] is None

    def test_against_an_earlier_one(self, capsys, tmp_path):
        before = str(tmp_path / "before.json")
        assert main([*self.WORDS, "-o", before, "--target", "sse2"]) == 0
        assert capsys.readouterr().out == before + "\n"
        assert main([*self.WORDS, "--against", before, "--profile", "--seconds", "0.02"]) == 0
        (part,) = json.loads(capsys.readouterr().out)["comparison"]["parts"]
        assert "other kernel" in {change["what"] for change in part["changes"]}

    def test_against_another_model(self, capsys, tmp_path):
        other = sym.softmax(sym.tanh(sym.var("data"), name="t"), name="s")
        other.save(str(tmp_path / "other-symbol.json"))
        words = [*self.WORDS, "--against", str(tmp_path / "other")]
        assert main([*words, "--profile", "--seconds", "0.02"]) == 0
        document = require_document(json.loads(capsys.readouterr().out), "it")
        assert document["comparison"]["before"] == "other"
        (part,) = document["comparison"]["parts"]
        gone = [change for change in part["changes"] if change["what"] == "gone"]
        assert [change["operators"][0] for change in gone] == ["tanh", "softmax"]
        assert all(change["algorithms"][0] for change in gone)
        assert all(change["seconds"][0] > 0 for change in gone)

    def test_documents_of_version_1_are_read(self, document, tmp_path):
        """They have no spans of threads, and comparisons without operators."""
        old = again({**document, "version": 1, "comparison": {"before": "x", "parts": []}})
        del old["blocks"]
        for timed in old["parts"][0]["profile"]["parts"]:
            del timed["once"], timed["spans"]
        (tmp_path / "old.json").write_text(json.dumps(old))
        found = read_document(tmp_path / "old.json")
        timed = found["parts"][0]["profile"]["parts"][0]
        assert timed["once"] == timed["seconds"] and timed["spans"] == []
        (part,) = compare(found, document)["parts"]
        assert {change["what"] for change in part["changes"]} == {"same"}

    def test_no_earlier_one(self, capsys):
        assert main([*self.WORDS, "--against", "none.json"]) == 1
        assert capsys.readouterr().err == "hybridjit view: none.json: No such file or directory\n"

    def test_damaged_earlier_one(self, capsys, tmp_path):
        (tmp_path / "before.json").write_text('{"format": "hybridjit-view", "version": 1}')
        assert main([*self.WORDS, "--against", str(tmp_path / "before.json")]) == 1
        assert "damaged document: the document lacks" in capsys.readouterr().err

    def test_the_command_writes_training_documents(self, capsys):
        assert main([*self.WORDS, "--train"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["training"]["gradients"] and len(document["parts"]) == 2
        assert all(update["seconds"] is None for update in document["training"]["updates"])


def test_a_line_of_many_operands_is_read_once():
    """Calls have dozens: no search may try each way to part them."""
    call = f"  call void @f({', '.join(['float 1.0'] * 60)})"
    assert hot_loop(["f:", ".L1:", call, "\tjne\t.L1"]) == (1, 3)
