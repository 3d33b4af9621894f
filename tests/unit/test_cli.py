"""Every command on small models, its output and its errors; ``load``; the tools."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import hybridjit
from hybridjit import gluon, nd, sym
from hybridjit._core.config import PREFIX, SWITCHES, config, override, switch_table
from hybridjit._core.text_table import table
from hybridjit.cli import COMMANDS, main
from hybridjit.cli.macs import multiply_adds
from hybridjit.codegen.llvm.jit import assembly
from hybridjit.codegen.peak import _emit_chains, measure_flops, measure_read_bandwidth
from hybridjit.codegen.targets import find_target
from hybridjit.compiler import STAGES, new_log
from hybridjit.errors import MXNetError
from hybridjit.ops import all_ops
from hybridjit.passes.infer import infer_node_types
from hybridjit.profiling import profile
from hybridjit.runtime.profiling import faster_means
from recorded import CASES, FOLDER, arrays_of

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits"
MODEL = str(DIGITS / "digits")
SYMBOL, PARAMS = str(DIGITS / "digits-symbol.json"), str(DIGITS / "digits-0000.params")
SHAPE = ["--shape", "data=1,1,28,28"]
WITHOUT_LLVM = STAGES[: STAGES.index("spec")]


def files_of(name: str) -> list[str]:
    """The two files of a recorded model as arguments."""
    return [str(FOLDER / f"{name}-symbol.json"), "--params", str(FOLDER / f"{name}-0000.params")]


def shapes_of(name: str) -> list[str]:
    """The options that give a recorded model the inputs it was recorded with."""
    inputs, _ = arrays_of(name)
    pairs = zip(CASES[name]["inputs"], inputs)
    return [w for n, a in pairs for w in ("--shape", f"{n}={','.join(map(str, a.shape))}")]


def in_a_process(*words: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    """``python -m hybridjit`` in a separate interpreter, after ``setup``."""
    program = f"{setup}\nimport sys\nfrom hybridjit.cli import main\nsys.exit(main({words!r}))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


class Printed:
    """The output of a command, line by line."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def of(self, *words: str, code: int = 0) -> str:
        """Standard output of a command that must end with ``code``."""
        assert main(words) == code, self._capsys.readouterr().err
        return self._capsys.readouterr().out

    def error(self, *words: str, code: int) -> str:
        """Standard error of a command that must end with ``code``."""
        try:
            found = main(words)
        except SystemExit as leaving:  # argparse
            found = leaving.code
        captured = self._capsys.readouterr()
        assert found == code, captured
        assert "Traceback" not in captured.err
        return captured.err


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capsys)


class Net(gluon.HybridBlock):
    """A small network with a direct parameter and two outputs."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.dense = gluon.nn.Dense(6, activation="relu")
            self.scale = self.params.get("scale", shape=(4, 6))

    def hybrid_forward(self, F, x, scale):
        y = self.dense(x)
        return F.dot(y, scale, transpose_b=True), F.softmax(y)


@pytest.fixture
def exported(tmp_path: Path) -> tuple[str, nd.NDArray, list[np.ndarray]]:
    """The prefix of an exported net, an input, and its two outputs."""
    net = Net(prefix="net_")
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.default_rng(1).standard_normal((3, 5)))
    wanted = [y.asnumpy() for y in net(x)]
    prefix = str(tmp_path / "net")
    net.export(prefix, epoch=7)
    return prefix, x, wanted


class TestMain:
    def test_no_command_is_a_usage_error(self, printed):
        assert "COMMAND" in printed.error(code=2)

    def test_help_lists_every_command(self, capsys):
        with pytest.raises(SystemExit) as leaving:
            main(["--help"])
        assert leaving.value.code == 0
        out = capsys.readouterr().out
        assert all(re.search(rf"^    {name}\b", out, re.M) for name in COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_each_command_has_help(self, command, capsys):
        with pytest.raises(SystemExit) as leaving:
            main([command, "--help"])
        assert leaving.value.code == 0
        assert f"usage: hybridjit {command}" in capsys.readouterr().out

    def test_unknown_command(self, printed):
        assert "unknown command 'fly': known are inspect, dump" in printed.error("fly", code=2)
        err = printed.error("insepct", SYMBOL, code=2)
        assert err.endswith("unknown command 'insepct'; did you mean 'inspect'?\n")

    def test_missing_file_is_a_problem_of_the_model(self, printed):
        assert "nowhere.json: No such file" in printed.error("inspect", "nowhere.json", code=1)

    @pytest.mark.parametrize("command", ["profile", "view"])
    def test_an_unknown_optimizer(self, printed, command):
        words = (command, SYMBOL, *SHAPE, "--train", "--optimizer", "adm")
        err = printed.error(*words, code=2)
        assert "argument --optimizer: " in err and "did you mean 'adam'" in err

    @pytest.mark.parametrize("text", ["-1", "nan", "1e9", "soon"])
    def test_a_duration_is_a_number_of_seconds(self, printed, text):
        for command in ("bench", "profile"):
            err = printed.error(command, SYMBOL, *SHAPE, "--seconds", text, code=2)
            assert f"'{text}': expected a number of seconds" in err

    def test_inputs_larger_than_memory(self, printed, monkeypatch):
        def no_memory(*args):
            raise MemoryError("Unable to allocate 9.00 TiB")

        monkeypatch.setattr("hybridjit.cli.model.stand_in", no_memory)
        err = printed.error("bench", SYMBOL, *SHAPE, code=1)
        assert err == "hybridjit bench: Unable to allocate 9.00 TiB\n"

    def test_traceback_on_request(self, capsys):
        assert main(["inspect", "nowhere.json", "--traceback"]) == 1
        assert "Traceback" in capsys.readouterr().err

    def test_python_m(self):
        words = [sys.executable, "-m", "hybridjit", "--version"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.stdout == f"hybridjit {hybridjit.__version__}\n"

    def test_a_reader_that_leaves_early_is_no_error(self):
        words = f"{sys.executable} -m hybridjit ops | head -1"
        done = subprocess.run(words, shell=True, capture_output=True, text=True)
        assert done.stderr == ""


class TestDump:
    MARKS = {
        "trace": "symbol digits",
        "infer": "f32[1,6,24,24]",
        "training": "training: no change",
        "lower-float16": "lower-float16: no change",
        "expand": "_reshape_to",
        "hoist-pointwise": "hoist-pointwise: no change",
        "infer-batch-axis": "infer-batch-axis: no change",
        "views": "views: no change",
        "cse": "cse: no change",
        "fuse-attention": "fuse-attention: no change",
        "precompute-embeddings": "precompute-embeddings: no change",
        "fold-bn": "fold-bn: no change",
        "sum-channel-groups": "sum-channel-groups: no change",
        "dense-pixels": "dense-pixels: no change",
        "layout": "layout=NHWC",
        "layout-dense": "columns reordered",
        "space-to-depth": "space-to-depth: no change",
        "join-phases": "join-phases: no change",
        "views-again": "_reshape_to",
        "strides": "strides: no change",
        "lower-bfloat16": "lower-bfloat16: no change",
        "quantize": "quantize: no change",
        "lower-integers": "lower-integers: no change",
        "merge-dense": "merge-dense: no change",
        "hoist": "bind",
        "fuse": "epilogue relu",
        "plan": "arena",
        "spec": "conv inp=(1,28,28)",
        "llvm": "define void @conv_",
        "asm": ".globl\tconv_",
    }

    @pytest.mark.parametrize("stage", WITHOUT_LLVM)
    def test_dump_after_a_stage_prints_that_stage(self, stage, printed):
        out = printed.of("dump", SYMBOL, *SHAPE, "--after", stage)
        assert self.MARKS[stage] in out
        assert "====" not in out  # one stage has no heading

    def test_several_stages_have_headings_in_order(self, printed):
        out = printed.of("dump", SYMBOL, *SHAPE, "--after", "plan,infer")
        assert re.findall("^==== (.*)$", out, re.M) == ["infer", "plan"]

    def test_all_stages_to_numbered_files(self, printed, tmp_path):
        out = printed.of("dump", SYMBOL, *SHAPE, "--after", "all", "--out", str(tmp_path / "d"))
        names = [f"{i:02}-{stage}.txt" for i, stage in enumerate(STAGES)]
        assert sorted(p.name for p in (tmp_path / "d").iterdir()) == names
        assert out.splitlines() == [str(tmp_path / "d" / name) for name in names]
        for name, mark in zip(names, self.MARKS.values()):
            assert mark in (tmp_path / "d" / name).read_text(), name

    @pytest.mark.parametrize("stage", ["plan", "spec"])
    def test_letters_are_symbolic_sizes_with_guards(self, stage, printed):
        out = printed.of("dump", SYMBOL, "--shape", "data=N,1,28,28", "--after", stage)
        text, _, guards = out.partition("guards of a compilation for N = 64\n")
        assert ("[N,10]" if stage == "plan" else "dense ic=256 oc=120") in text
        assert guards.startswith("N > 1    ; passes/") and "==" not in guards

    def test_two_letters_are_two_sizes_and_parameters_have_none(self, printed, tmp_path):
        words = ("dump", *files_of("net_two_inputs"), "--after", "infer")
        out = printed.of(*words, "--shape", "data0=N,4", "--shape", "data1=N,5")
        assert "[N,4]" in out and "for N = 64" in out
        shape = ("--shape", "data=N,1,28,28", "--shape", "digits_fc3_weight=K,84")
        alone = shutil.copy(SYMBOL, tmp_path)
        err = printed.error("dump", alone, *shape, "--after", "plan", code=2)
        assert "'digits_fc3_weight' is a parameter, whose sizes are integers" in err

    def test_letters_are_symbolic_sizes_in_profile_and_view(self, printed, tmp_path):
        shape = ("--shape", "data=N,1,28,28", "--seconds", "0.1")
        out = printed.of("profile", SYMBOL, *shape, "--json")
        assert json.loads(out)["steps"]
        out = printed.of("view", SYMBOL, *shape, "--profile", "--json")
        document = json.loads(out)
        assert document["inputs"] == {"data": "f32[N,1,28,28]"}
        assert any("f32[N,10]" in str(value) for value in document["values"])
        notes = document["parts"][0]["notes"]
        assert "those for N = 64" in notes[0] and "guard: N > 1" in notes
        for command in ("profile", "view"):
            err = printed.error(command, SYMBOL, *shape, "--train", code=2)
            assert "--train needs sizes that are integers" in err

    def test_stages_before_spec_load_no_llvm(self):
        setup = "import sys; sys.modules['llvmlite'] = None"
        done = in_a_process("dump", SYMBOL, *SHAPE, "--after", "fuse,plan", setup=setup)
        assert (done.returncode, done.stderr) == (0, "")
        done = in_a_process("dump", SYMBOL, *SHAPE, "--after", "spec", setup=setup)
        assert done.returncode == 1
        assert "llvmlite cannot be loaded" in done.stderr
        assert "Traceback" not in done.stderr

    def test_with_and_without_the_parameters(self, printed):
        without = printed.of("dump", SYMBOL, *SHAPE, "--after", "plan")
        assert printed.of("dump", SYMBOL, "--params", PARAMS, *SHAPE, "--after", "plan") == without

    def test_kernel_narrows(self, printed):
        spec = printed.of("dump", SYMBOL, *SHAPE, "--after", "spec")
        names = re.findall(r"^  step \d+ +(pool_\w+) ", spec, re.M)
        assert len(names) == 2
        out = printed.of("dump", SYMBOL, *SHAPE, "--after", "llvm", "--kernel", names[1])
        assert re.findall(r"^define void @(\w+)", out, re.M) == [names[1]]
        out = printed.of("dump", SYMBOL, *SHAPE, "--after", "llvm", "--kernel", "pool")
        assert re.findall(r"^define void @(\w+)", out, re.M) == names

    def test_unknown_kernel_lists_all(self, printed):
        words = ("dump", SYMBOL, *SHAPE, "--after", "llvm", "--kernel", "nosuch")
        err = printed.error(*words, code=2)
        assert "no kernel name contains 'nosuch'" in err
        assert err.count("\n  ") == len({"conv0", "pool0", "conv1", "pool1", "d0", "d1", "d2"})

    def test_kernel_needs_code(self, printed):
        words = ("dump", SYMBOL, *SHAPE, "--after", "plan", "--kernel", "conv")
        assert "--kernel needs --after" in printed.error(*words, code=2)

    def test_dump_for_a_target_compiles_for_it(self, printed):
        words = ("dump", SYMBOL, *SHAPE, "--after", "spec", "--target")
        assert "for sse2 " in printed.of(*words, "sse2")
        assert "HYBRIDJIT_TARGET='z80': it is native" in printed.error(*words, "z80", code=2)

    def test_dtype_overrides_the_element_type_of_an_input(self, printed):
        words = ("dump", files_of("unary_exp")[0], "--shape", "data=2,3", "--after", "infer")
        assert "data: f32[2,3]" in printed.of(*words)
        out = printed.of(*words, "--dtype", "data=float64")
        assert "data: f64[2,3]" in out and "f32" not in out

    @pytest.mark.parametrize("given, missing", [([], "'data0', 'data1'"), (["data0"], "'data1'")])
    def test_missing_shapes_are_named(self, given, missing, printed):
        name = "net_two_inputs"
        options = shapes_of(name)
        options = options[: 2 * len(given)]
        err = printed.error("dump", *files_of(name), *options, "--after", "plan", code=2)
        assert f"the shape of {missing} is unknown" in err

    @pytest.mark.parametrize(
        "words, reason",
        [
            (["--shape", "date=1,1,28,28"], "no variable 'date'; its inputs are 'data'"),
            (["--shape", "data=1,x"], "sizes must be integers"),
            (["--shape", "data=1,-1"], "sizes must not be negative"),
            (["--shape", "1,1,28,28"], "expected NAME=..."),
            ([*SHAPE, *SHAPE], "--shape is given twice for 'data'"),
            ([*SHAPE, "--dtype", "data=complex64"], "element types are float32"),
            ([*SHAPE, "--after", "plans"], "unknown stage 'plans'; stages are trace"),
            ([*SHAPE, "--after", ","], "unknown stage"),
        ],
    )
    def test_usage_errors(self, words, reason, printed):
        after = [] if "--after" in words else ["--after", "plan"]
        assert reason in printed.error("dump", SYMBOL, *words, *after, code=2)

    def test_a_parameter_has_its_shape_from_the_file(self, printed, tmp_path):
        words = [*SHAPE, "--shape", "digits_fc3_weight=10,84", "--after", "plan"]
        alone = shutil.copy(SYMBOL, tmp_path)
        assert printed.of("dump", alone, *words)
        for given in ([SYMBOL], [alone, "--params", PARAMS]):
            err = printed.error("dump", *given, *words, code=2)
            assert "'digits_fc3_weight' has its shape and element type from the parameters" in err

    def test_shapes_that_do_not_fit_the_graph(self, printed):
        words = ("dump", SYMBOL, "--params", PARAMS, "--shape", "data=1,3,28,28", "--after", "plan")
        err = printed.error(*words, code=1)
        assert "weight needs 1 input channels, but data has 3" in err
        assert "digits_conv0_fwd" in err

    def test_parameters_of_another_model(self, printed):
        other = files_of("net_two_inputs")[2]
        err = printed.error("dump", SYMBOL, "--params", other, *SHAPE, "--after", "plan", code=1)
        assert "'digits_conv0_weight'" in err

    def test_a_pass_that_was_left_out_says_so(self, printed):
        with override(skip=("layout",)):
            out = printed.of("dump", SYMBOL, *SHAPE, "--after", "layout")
        assert out == "layout was disabled by HYBRIDJIT_SKIP\n"


class TestDumpVariable:
    """HYBRIDJIT_DUMP shows the same of a running program."""

    @staticmethod
    def run_two_shapes() -> None:
        net = gluon.nn.Dense(3, in_units=4, prefix="layer_")
        net.initialize()
        net.hybridize()
        net(nd.ones((2, 4)))
        net(nd.ones((5, 4)))

    def test_each_compilation_has_a_folder(self, tmp_path):
        with override(dump=("infer", "plan"), dump_dir=str(tmp_path)):
            self.run_two_shapes()
        folders = sorted(tmp_path.iterdir())
        assert len(folders) == 2
        assert folders[0].name < folders[1].name
        for folder, rows in zip(folders, ("2", "s0")):
            plan = f"{STAGES.index('plan'):02}-plan.txt"
            assert sorted(p.name for p in folder.iterdir()) == ["01-infer.txt", plan]
            assert f"f32[{rows},4]" in (folder / "01-infer.txt").read_text()

    def test_without_a_folder_it_prints(self, capsys):
        with override(dump=("plan",)):
            self.run_two_shapes()
        assert capsys.readouterr().err.count("==== plan") == 2

    def test_unknown_stages_are_reported(self):
        with pytest.warns(UserWarning, match="no stage is called plans; known are trace"):
            new_log(("plans",))

    def test_timing_and_explain_are_printed(self, capsys):
        with override(timing=True):
            self.run_two_shapes()
        err = capsys.readouterr().err
        assert err.count("compile times") == 2
        assert " ms  fuse " in err


def shaped(*sizes):
    return sym.var("x", shape=sizes)


MACS_NETS = {
    "grouped": lambda: sym.Convolution(
        shaped(1, 4, 6, 6), kernel=(3, 3), num_filter=8, num_group=2
    ),
    "transposed": lambda: sym.Deconvolution(shaped(1, 4, 5, 5), kernel=(2, 2), num_filter=3),
    "dense": lambda: sym.FullyConnected(shaped(7, 5, 4), num_hidden=3, flatten=False),
    "dot": lambda: sym.dot(shaped(5, 3), sym.var("y", shape=(5, 4)), transpose_a=True),
    "batch_dot": lambda: sym.batch_dot(shaped(2, 3, 5), sym.var("y", shape=(2, 5, 4))),
    "lstm": lambda: sym.RNN(
        shaped(6, 2, 3), mode="lstm", state_size=4, num_layers=2, bidirectional=True
    ),
    "none": lambda: sym.relu(shaped(3, 4)),
}
MACS = [
    ("grouped", 8 * 4 * 4 * 2 * 9),
    ("transposed", 4 * 5 * 5 * 3 * 4),
    ("dense", 35 * 4 * 3),
    ("dot", 3 * 4 * 5),
    ("batch_dot", 2 * 3 * 4 * 5),
    ("lstm", 6 * 2 * 16 * 2 * ((3 + 4) + (8 + 4))),
    ("none", 0),
]


class TestInspect:
    def test_a_good_model(self, printed):
        out = printed.of("inspect", SYMBOL, "--params", PARAMS)
        assert "inputs: 1\n  data  f32[?,1,?,?]\n" in out
        assert re.search(r"^outputs: 1\n  digits_dot0_output +f32\[\?,10\]$", out, re.M)
        assert re.search(r"^  Convolution +2  conv +digits_conv0_fwd, digits_conv1_fwd$", out, re.M)
        assert re.search(r"^  arg  digits_fc3_weight +f32\[10,84\]$", out, re.M)
        assert "parameters: 9, 44416 elements, 0.18 MB" in out
        assert "missing" not in out and "not supported" not in out

    def test_states_and_labels(self, printed, tmp_path):
        out = printed.of("inspect", shutil.copy(files_of("fc_bn_legacy")[0], tmp_path))
        assert "labels (not needed for inference): 1\n  softmax_label\n" in out
        assert "inputs: 1\n  data\n" in out
        assert re.search(r"^  aux  bn_moving_mean$", out, re.M)

    @pytest.mark.parametrize("name", sorted(CASES))
    def test_inputs_of_recorded_models(self, name, printed):
        out = printed.of("inspect", *files_of(name))
        section = re.search(r"^inputs: \d+\n((?:  .*\n)+)", out, re.M)
        found = [line.split()[0] for line in section.group(1).splitlines()]
        assert found == [n for n in CASES[name]["inputs"] if not n.endswith("_label")]

    def test_unknown_operators_are_listed_with_their_nodes(self, printed, tmp_path):
        text = Path(SYMBOL).read_text()
        broken = tmp_path / "broken-symbol.json"
        broken.write_text(text.replace('"Pooling"', '"Poling"').replace('"dot"', '"my_own"'))
        out = printed.of("inspect", str(broken), "--params", PARAMS, code=1)
        assert "operators that are not supported: 2" in out
        assert re.search(r"Operator Poling .*Pooling.*: node 5 '.*pool0.*', node 10 '", out)
        assert re.search(r"Operator my_own .*: node 21 'digits_dot0'", out)
        assert re.search(r"^  Poling +2  NOT SUPPORTED  .*pool0", out, re.M)
        assert "inputs: 1\n  data\n" in out and "parameters: 9" in out
        assert "missing" not in out

    def test_missing_and_extra_parameters(self, printed, tmp_path):
        arrays = hybridjit.nd.load(PARAMS)
        arrays["arg:left_over"] = arrays.pop("arg:digits_fc3_weight")
        nd.save(str(tmp_path / "p"), arrays)
        out = printed.of("inspect", SYMBOL, "--params", str(tmp_path / "p"), code=1)
        assert "missing parameters: 1\n  digits_fc3_weight" in out
        assert "parameters that the graph does not read: 1\n  left_over" in out

    def test_a_file_that_is_no_graph(self, printed, tmp_path):
        (tmp_path / "x.json").write_text('{"nodes": 3}')
        assert "nodes" in printed.error("inspect", str(tmp_path / "x.json"), code=1)

    def test_a_file_of_an_old_version(self, printed):
        old = ROOT / "tests" / "fixtures" / "symbols" / "old_0_8.json"
        out = printed.of("inspect", str(old))
        assert "upgrades of an older file: " in out
        assert re.search(r"^  missing inputs became variables: \S+", out, re.M)
        assert re.search(r"^  attributes have the keys attr and param: \S+", out, re.M)
        assert "upgrades" not in printed.of("inspect", SYMBOL)

    @pytest.mark.parametrize("params", [[], ["--params", PARAMS]])
    def test_costs_for_a_shape(self, params, printed):
        """LeNet on 28x28: 6@24x24 of 5x5, 16@8x8 of 5x5x6, then 256-120-84-10."""
        out = printed.of("inspect", SYMBOL, "--shape", "data=2,1,28,28", *params)
        convolutions = 2 * (6 * 24 * 24 * 25 + 16 * 8 * 8 * 150)
        dense = 2 * (256 * 120 + 120 * 84)
        assert f"multiply-adds: {convolutions + dense + 2 * 84 * 10} " in out
        assert re.search(rf"^  Convolution +{convolutions / 1e6:.3f} M$", out, re.M)
        assert ", 44416 elements" in out

    @pytest.mark.parametrize("name, expected", MACS)
    def test_multiply_adds_by_definition(self, name, expected):
        net = MACS_NETS[name]()
        types = infer_node_types(net.outputs, {})
        assert sum(multiply_adds(node, types) for node in types) == expected


class TestTables:
    def test_ops_lists_all_public_operators(self, printed):
        lines = printed.of("ops").splitlines()
        names = {op.name for op in all_ops() if not op.internal}
        assert {line.split()[0] for line in lines[1:-1]} == names
        assert lines[-1].startswith(f"{len(names)} operators, ")
        kinds = {line.split()[0]: line.split()[1] for line in lines[1:-1]}
        assert kinds["Convolution"] == "conv"
        assert kinds["_random_uniform"] == kinds["_np_cumsum"] == "host"
        assert kinds["sort"] == kinds["topk"] == "parts"
        assert kinds["moments"] == "parts" and kinds["shape_array"] == kinds["_zeros"] == "constant"

    def test_switches_lists_all_switches(self, printed):
        out = printed.of("switches")
        assert out == switch_table() + "\n"
        assert all(f"| `{switch.name}` |" in out for switch in SWITCHES)

    def test_table_aligns_columns(self):
        text = table([("a", "1"), ("bcd", "22")], ("n", "size"), right={1})
        assert text == "n    size\na       1\nbcd    22"
        assert table([]) == ""


class TestDoctor:
    def test_doctor_reports_versions_and_peaks(self, printed):
        out = printed.of("doctor")
        rows = dict(re.findall(r"^(\S.*?)  +(.*)$", out, re.M))
        assert {"Python", "NumPy", "llvmlite", "LLVM", "host CPU", "target", "threads"} <= set(rows)
        assert float(rows["peak of one core"].split()[0]) > 0.1
        assert float(rows["memory, one core"].split()[0]) > 0.1
        target = find_target(config.target)
        assert rows["vector width"].startswith(f"{8 * target.vector_bytes} bits")
        assert re.match(r"\d+, decided by ", rows["threads"])

    def test_switches_that_are_set(self, printed):
        with override(num_threads=3, explain=True):
            out = printed.of("doctor", "--quick")
        assert f"3, decided by {PREFIX}NUM_THREADS" in out
        assert f"{PREFIX}EXPLAIN=True" in out
        assert "peak" not in out

    def test_omp_num_threads(self, printed, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "5")
        with override(num_threads=None):
            out = printed.of("doctor", "--quick")
        assert "5, decided by OMP_NUM_THREADS" in out

    def test_without_llvmlite(self):
        done = in_a_process("doctor", setup="import sys; sys.modules['llvmlite'] = None")
        assert done.returncode == 1
        assert "llvmlite cannot be loaded" in done.stdout
        assert done.stderr == ""


class TestRun:
    @pytest.mark.parametrize("eager", [[], ["--eager"]], ids=["compiled", "eager"])
    def test_run_writes_outputs_to_files(self, eager, printed, tmp_path):
        name = "net_two_inputs"
        inputs, wanted = arrays_of(name)
        options = []
        for input_name, array in zip(CASES[name]["inputs"], inputs):
            np.save(tmp_path / f"{input_name}.npy", array.asnumpy())
            options += ["--input", f"{input_name}={tmp_path / input_name}.npy"]
        files = [tmp_path / f"y{i}.npy" for i in range(len(wanted))]
        for file in files:
            options += ["--output", str(file)]
        out = printed.of("run", *files_of(name), *options, *eager)
        assert out.splitlines()[0] == f"{files[0]}: float32 {wanted[0].shape}"
        for file, right in zip(files, wanted):
            np.testing.assert_allclose(np.load(file), right, rtol=1e-5, atol=1e-5)

    def test_digits_from_float64(self, printed, tmp_path):
        data = np.load(DIGITS / "digits-test.npz")
        enlarged = np.kron(data["images"][:4] / 16, np.ones((1, 3, 3)))
        np.save(tmp_path / "x.npy", np.pad(enlarged, ((0, 0), (2, 2), (2, 2)))[:, np.newaxis])
        files = ["--input", f"data={tmp_path / 'x.npy'}", "--output", str(tmp_path / "y.npy")]
        printed.of("run", SYMBOL, "--params", PARAMS, *files, "--eager")
        found = np.load(tmp_path / "y.npy")
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, data["logits"][:4], rtol=1e-4, atol=1e-4)

    def test_the_only_input_needs_no_name(self, printed, tmp_path):
        data = np.load(DIGITS / "digits-test.npz")["images"][:2]
        pixels = np.zeros((2, 1, 28, 28), np.float32)
        pixels[:, 0, 2:26, 2:26] = data.repeat(3, 1).repeat(3, 2) / 16
        np.save(tmp_path / "x.npy", pixels)
        files = []
        for given in (str(tmp_path / "x.npy"), f"data={tmp_path / 'x.npy'}"):
            files.append(tmp_path / f"y{len(files)}.npy")
            words = ["--params", PARAMS, "--input", given, "--output", str(files[-1])]
            printed.of("run", SYMBOL, *words)
        assert files[0].read_bytes() == files[1].read_bytes()

    def problem(self, printed, words, code):
        return printed.error("run", SYMBOL, *words, "--output", "/dev/null", code=code)

    def test_without_parameters(self, printed, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros((1, 1, 28, 28), np.float32))
        alone = shutil.copy(SYMBOL, tmp_path)
        words = ["--input", f"data={tmp_path / 'x.npy'}", "--output", "/dev/null"]
        assert "give --params" in printed.error("run", alone, *words, code=1)

    def test_inputs_that_are_missing_or_unknown(self, printed):
        words = ["--params", PARAMS]
        assert "no --input for 'data'" in self.problem(printed, words, 2)
        words += ["--input", "data=x.npy", "--input", "more=x.npy"]
        assert "'more' is not an input" in self.problem(printed, words, 2)

    def test_files_that_hold_no_array(self, printed, tmp_path):
        words = ["--params", PARAMS, "--input"]
        err = self.problem(printed, [*words, "data=nowhere.npy"], 1)
        assert "nowhere.npy: No such file" in err
        assert "not a .npy file" in self.problem(printed, [*words, f"data={SYMBOL}"], 1)
        np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
        assert "not a .npy file" in self.problem(printed, [*words, f"data={tmp_path / 'o.npy'}"], 1)
        np.save(tmp_path / "c.npy", np.zeros(3, complex))
        assert "contains complex128" in self.problem(
            printed, [*words, f"data={tmp_path / 'c.npy'}"], 1
        )

    def test_number_of_outputs(self, printed, tmp_path):
        words = ["--params", PARAMS, "--input", "data=x.npy", "--output", str(tmp_path / "y.npy")]
        assert "2 files for 1 outputs" in self.problem(printed, words, 2)


class TestNameOfAModel:
    PREFIX = MODEL

    def copied(self, folder: Path, params: str = "") -> str:
        """A model in ``folder`` by the name m; ``params`` is the ending of its parameters' file."""
        (folder / "m-symbol.json").write_bytes(Path(SYMBOL).read_bytes())
        if params:
            (folder / f"m-{params}").write_bytes(Path(PARAMS).read_bytes())
        return str(folder / "m")

    @pytest.mark.parametrize("command", ["inspect", "dump"])
    def test_a_beginning_is_both_files(self, command, printed):
        options = ["--after", "plan"] if command == "dump" else []
        wanted = printed.of(command, SYMBOL, "--params", PARAMS, *SHAPE, *options)
        assert printed.of(command, self.PREFIX, *SHAPE, *options) == wanted

    @pytest.mark.parametrize("command", ["verify", "bench", "profile", "compile"])
    def test_every_command_takes_it(self, command, tmp_path):
        np.save(tmp_path / "x.npy", np.ones((1, 1, 28, 28), np.float32))
        words = {
            "verify": ["--input", str(tmp_path / "x.npy")],
            "bench": [*SHAPE, "--seconds", "0.01"],
            "profile": [*SHAPE, "--seconds", "0.01"],
            "compile": [*SHAPE, "--cache", str(tmp_path / "objects")],
        }
        assert main([command, self.PREFIX, *words[command]]) == 0

    def test_run_finds_the_parameters(self, printed, tmp_path):
        np.save(tmp_path / "x.npy", np.ones((1, 1, 28, 28), np.float32))
        given = ["--input", f"data={tmp_path / 'x.npy'}", "--output", str(tmp_path / "y.npy")]
        for words in ([SYMBOL, "--params", PARAMS], [self.PREFIX]):
            printed.of("run", *words, *given, "--eager")
            found = np.load(tmp_path / "y.npy")
            net = hybridjit.load(self.PREFIX)
            net.hybridize(active=False)
            np.testing.assert_array_equal(found, net(nd.ones((1, 1, 28, 28))).asnumpy())
            (tmp_path / "y.npy").unlink()

    def test_other_epochs(self, printed, tmp_path):
        prefix = self.copied(tmp_path, "0012.params")
        with_params = printed.of("inspect", prefix, "--epoch", "12")
        assert printed.of("inspect", prefix) == with_params  # the only epoch
        assert printed.of("inspect", prefix + "-symbol.json") == with_params
        assert with_params == printed.of("inspect", prefix, "--params", PARAMS)
        err = printed.error("inspect", prefix, "--epoch", "0", code=1)
        assert "m-0000.params: No such file" in err
        assert "--epoch needs" in printed.error("inspect", SYMBOL, "--epoch", "1", code=2)
        words = [prefix, "--params", PARAMS, "--epoch", "1"]
        assert "omit one of them" in printed.error("inspect", *words, code=2)
        shutil.copy(PARAMS, tmp_path / "m-0013.params")
        assert "epochs 12, 13" in printed.error("inspect", prefix, code=1)
        assert "expected an integer" in printed.error("inspect", prefix, "--epoch", "-1", code=2)

    def test_named_parameters_come_first(self, printed, tmp_path):
        prefix = self.copied(tmp_path, "0000.params")
        (tmp_path / "m-0000.params").write_bytes(b"none")
        assert printed.of("inspect", prefix, "--params", PARAMS)
        assert "Invalid NDArray file" in printed.error("inspect", prefix, code=1)

    def test_a_file_of_that_name_is_the_graph(self, printed, tmp_path):
        prefix = self.copied(tmp_path)
        (tmp_path / "m").write_text("{}")
        assert "has no nodes" in printed.error("inspect", prefix, code=1)
        (tmp_path / "m").unlink()
        (tmp_path / "m").mkdir()
        assert "m-symbol.json: 22 nodes" in printed.of("inspect", prefix)

    def test_a_prefix_without_files_is_an_error(self, printed, tmp_path):
        err = printed.error("inspect", str(tmp_path / "n"), code=1)
        assert "n: No such file" in err and "n-symbol.json of which it is the prefix" in err


class TestCompile:
    def test_a_filled_cache_has_all_objects_of_a_process(self, tmp_path):
        """The next process compiles nothing, and its numbers are those of any other."""
        cache = str(tmp_path / "objects")
        first, again = (in_a_process("compile", SYMBOL, *SHAPE, "--cache", cache) for _ in "ab")
        assert first.returncode == again.returncode == 0, first.stderr
        made = int(re.search(r"(\d+) objects compiled, 0 were cached", first.stdout)[1])
        assert f": 0 objects compiled, {made} were cached" in again.stdout
        np.save(tmp_path / "x.npy", np.ones((1, 1, 28, 28), "float32"))
        setup = (
            f"import os; os.environ['HYBRIDJIT_CACHE_DIR'] = {cache!r}\n"
            "from hybridjit.codegen.emit import compile_pool\n"
            "def refuse(*args): raise SystemExit('it compiles')\n"
            "compile_pool.compile_object = refuse"
        )
        given = ("--input", f"data={tmp_path / 'x.npy'}", "--output", str(tmp_path / "y.npy"))
        done = in_a_process("run", SYMBOL, "--params", PARAMS, *given, setup=setup)
        assert done.returncode == 0, done.stderr + done.stdout

    def test_a_filled_cache_has_the_plan_of_a_network_with_parameters(self, tmp_path):
        cache = str(tmp_path / "objects")
        files = (SYMBOL, "--params", PARAMS, *SHAPE, "--cache", cache)
        made = in_a_process("compile", *files)
        assert made.returncode == 0, made.stderr
        np.save(tmp_path / "x.npy", np.ones((1, 1, 28, 28), "float32"))
        setup = (
            f"import os; os.environ['HYBRIDJIT_CACHE_DIR'] = {cache!r}\n"
            "from hybridjit import compiler\n"
            "def refuse(*args): raise SystemExit('it plans')\n"
            "compiler.plan_graph = refuse"
        )
        given = ("--input", f"data={tmp_path / 'x.npy'}", "--output", str(tmp_path / "y.npy"))
        done = in_a_process("run", SYMBOL, "--params", PARAMS, *given, setup=setup)
        assert done.returncode == 0, done.stderr + done.stdout

    def test_a_folder_that_cannot_be_used(self, tmp_path, printed):
        (tmp_path / "file").write_text("")
        bad = str(tmp_path / "file" / "objects")
        assert "HYBRIDJIT_CACHE_DIR" in printed.error(
            "compile", SYMBOL, *SHAPE, "--cache", bad, code=1
        )
        with override(cache_dir="off"):
            assert "--cache" in printed.error("compile", SYMBOL, *SHAPE, code=2)


class TestBench:
    def rows(self, out: str) -> list[list[str]]:
        head, *lines = out.splitlines()[1:]
        assert "median ms" in head and "peak MB" in head
        return [line.split() for line in lines]

    def test_bench_prints_a_row_per_batch_and_thread_count(self, printed):
        words = ("--batch", "1,3", "--threads", "1,2", "--seconds", "0.02")
        rows = self.rows(printed.of("bench", SYMBOL, *SHAPE, *words))
        assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["3", "1"], ["3", "2"]]
        assert [len(row) for row in rows] == [10, 8, 10, 8]  # compiled once for each batch
        for row in rows:
            median, low, high, count, rate, memory = map(float, row[-6:])
            assert low <= median <= high
            assert rate == pytest.approx(1e3 * int(row[0]) / median, rel=0.06)
            assert count >= 1 and memory > 10

    def test_parameters_and_cold(self, printed):
        name = "net_two_inputs"
        words = (*files_of(name), *shapes_of(name), "--seconds", "0.01", "--cold")
        out = printed.of("bench", *words)
        assert "random" not in out.splitlines()[0]
        assert len(self.rows(out)) == 1

    def test_bench_reports_wrong_usage(self, printed):
        assert "at least 1" in printed.error("bench", SYMBOL, *SHAPE, "--threads", "0", code=2)
        assert "give --shape" in printed.error("bench", SYMBOL, "--batch", "2", code=2)


class TestProfile:
    def test_table_and_trace(self, printed, tmp_path):
        trace = tmp_path / "trace.json"
        words = ("--threads", "1", "--seconds", "0.05", "--trace", str(trace))
        lines = printed.of("profile", SYMBOL, *SHAPE, *words).splitlines()
        assert "1 thread" in lines[0]
        rows = [line for line in lines if re.match(r" +\d+  ", line)]
        assert [row.split()[0] for row in rows] == [str(i) for i in range(7)]
        assert re.search(r"conv 5x(5|6/1,2) tile \d+x\d+ +digits_conv0_fwd +relu", rows[0])
        assert re.match(r"peak \d+ GFLOP/s on 1 thread; kernels .* of peak$", lines[-2])
        together, start, whole, excess = map(
            float,
            re.search(
                r"together ([\d.]+) ms, .* ([\d.]+) ms; .* ([\d.]+) ms: ([+-][\d.]+)%", lines[-1]
            ).groups(),
        )
        shown = sum(float(row.split()[1]) for row in rows)
        assert together == pytest.approx(shown, abs=1e-3)
        assert excess == pytest.approx(100 * ((together + start) / whole - 1), abs=5)
        written = json.loads(trace.read_text())["traceEvents"]
        assert {e["ph"] for e in written} == {"M", "X"}  # names of lanes, and spans
        events = [e for e in written if "step" in e["args"]]
        assert [e["args"]["step"] for e in events] == list(range(7))
        assert all(e["ph"] == "X" and e["dur"] > 0 for e in events)
        # One run in microseconds; the table has the mean of several, which load disturbs.
        assert 0.2 < sum(e["dur"] for e in events) / (1e3 * together) < 5
        assert events[0]["args"]["kernel"].startswith("conv_")

    def test_host_steps(self, printed, tmp_path):
        path = str(tmp_path / "host-symbol.json")
        sym.cumsum(sym.relu(sym.var("data")), axis=0).save(path)
        out = printed.of("profile", path, "--shape", "data=3,4", "--seconds", "0.02")
        assert "host _np_cumsum" in out and "host steps " in out

    def test_an_operation_in_float64_takes_the_room_of_two(self):
        """The share of peak follows from the rate that stands beside it and the peak."""
        for dtype, room in (("float32", 1), ("float64", 2)):
            net = gluon.nn.Conv2D(32, 3, strides=2, in_channels=16)
            net.initialize()
            net.cast(dtype)
            report = profile(net, nd.ones((1, 16, 40, 40), dtype=dtype), seconds=0.02)
            (row,) = (line for line in str(report).splitlines() if "conv 3x3/2" in line)
            rate, share = re.search(r"% +([\d.]+) +(\d+)%", row).groups()
            wanted = 100 * room * float(rate) * 1e9 / report.most
            assert float(share) == pytest.approx(wanted, abs=1)

    def test_two_threads(self, printed):
        words = ("--shape", "data=64,1,28,28", "--threads", "2", "--seconds", "0.05")
        assert "2 threads" in printed.of("profile", SYMBOL, *words).splitlines()[0]

    def test_a_block_with_its_lines(self):
        net = Net(prefix="net_")
        net.initialize()
        report = profile(net, nd.ones((2, 5)), seconds=0.02)
        text = str(report)
        assert text.startswith("net_ (data f32[2,5])") or text.startswith("net (data f32[2,5])")
        assert f"{__file__}:" in text and " in hybrid_forward" in text
        assert report.profile.total > 0

    def test_faster_half(self):
        rounds = [[9.0, 9.0], [1.0, 2.0], [3.0, 4.0], [8.0, 9.0]]
        assert faster_means(rounds) == [2.0, 3.0]


class TestPeak:
    def test_measured_peaks_are_plausible(self):
        target = find_target()
        assert measure_flops(target) > 1e8
        assert measure_read_bandwidth(target) > 1e8

    @pytest.mark.parametrize("name", ["", "avx2", "sse2"])
    def test_nothing_but_arithmetic_in_the_loop(self, name):
        """All sums stay in registers: the loop has no address in it."""
        try:
            target = find_target(name)
        except ValueError:  # not a kind of this host's
            target = find_target()
        text = assembly(str(_emit_chains(target)), target)
        operations = 4 * (target.vector_registers * 3 // 4)
        pattern = r"\tv?fn?mad|\tfmla" if target.has_fma else r"\tv?addps"
        starts = [match.start() for match in re.finditer(pattern, text)]
        assert len(starts) == operations
        inside = text[starts[0] : starts[-1]]
        assert "(" not in inside and "[" not in inside


class TestLoad:
    def test_an_exported_net(self, exported):
        prefix, x, wanted = exported
        net = hybridjit.load(prefix, 7)
        for found, right in zip(net(x), wanted):
            np.testing.assert_allclose(found.asnumpy(), right, rtol=1e-6)
        net.hybridize(active=False)
        np.testing.assert_allclose(net(x)[0].asnumpy(), wanted[0], rtol=1e-5)

    def test_load_makes_a_block_from_a_prefix(self):
        net = hybridjit.load(str(DIGITS / "digits"))
        assert net(nd.ones((2, 1, 28, 28))).shape == (2, 10)

    @pytest.mark.parametrize("name", ["softmax_output", "fc_bn_legacy"])
    def test_labels_are_not_asked_for(self, name):
        inputs, wanted = arrays_of(name)
        net = hybridjit.load(str(FOLDER / name))
        for compiled in (True, False):
            net.hybridize(active=compiled)
            np.testing.assert_allclose(net(inputs[0]).asnumpy(), wanted[0], atol=1e-6)
        half = net(inputs[0][:1])  # nothing ties the batch to a label
        np.testing.assert_allclose(half.asnumpy(), wanted[0][:1], atol=1e-6)

    def test_a_label_that_something_else_reads_is_an_input(self, tmp_path):
        data, label = sym.var("data"), sym.var("label")
        graph = sym.LinearRegressionOutput(data, label) + label
        graph.save(str(tmp_path / "m-symbol.json"))
        nd.save(str(tmp_path / "m-0000.params"), {})
        net = hybridjit.load(str(tmp_path / "m"))
        assert net(nd.ones((2, 3)), nd.ones((2, 3))).asnumpy().tolist() == [[2] * 3] * 2

    def test_missing_files(self, exported):
        with pytest.raises(MXNetError, match="net-0000.params: No such file"):
            hybridjit.load(exported[0], 0)

    def test_missing_parameters_are_all_named(self, exported):
        path = f"{exported[0]}-0007.params"
        arrays = {n: a for n, a in nd.load(path).items() if "dense" not in n}
        nd.save(path, arrays)
        with pytest.raises(MXNetError, match="missing in .*: 'net_dense0_weight', .*bias'"):
            hybridjit.load(exported[0], 7)

    def test_a_file_of_save_parameters(self, exported):
        net = Net(prefix="net_")
        net.initialize()
        net(exported[1])
        net.save_parameters(f"{exported[0]}-0007.params")
        with pytest.raises(MXNetError, match="those of save_parameters"):
            hybridjit.load(exported[0], 7)

    def test_a_parameter_of_another_shape(self, exported):
        prefix, x, _ = exported
        arrays = nd.load(f"{prefix}-0007.params")
        arrays["arg:net_dense0_weight"] = nd.ones((6, 4))
        nd.save(f"{prefix}-0007.params", arrays)
        net = hybridjit.load(prefix, 7)
        with pytest.raises(MXNetError, match="FullyConnected 'net_dense0_fwd'"):
            net(x)


def tool(name: str) -> ModuleType:
    """A program of the tools folder as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class TestTools:
    def test_bench_prints_the_share_of_the_peak(self, capsys):
        bench = tool("bench")
        words = ["--only", "kernels", "--match", "28x28, 128->128, 3x3", "--seconds", "0.05"]
        assert bench.main(words) == 0
        rows = [line for line in capsys.readouterr().out.splitlines() if "28x28" in line]
        assert len(rows) == 2  # with Winograd and without
        assert all(re.search(r" \d+\.\d% .* inp=\(1,28,28\) ", row) for row in rows)

    def test_bench_calls(self, capsys):
        assert tool("bench").main(["--only", "calls", "--seconds", "0.05"]) == 0
        assert re.search(r"[\d.]+ us for the call", capsys.readouterr().out)

    def test_bench_networks(self, capsys):
        words = ["--models", str(DIGITS), "--seconds", "0.02"]
        bench = tool("bench")
        bench.random_image = lambda: np.ones((1, 1, 28, 28), np.float32)
        assert bench.main(words) == 0
        assert re.search(r"^digits +1 ", capsys.readouterr().out, re.M)

    def test_bench_runs_the_comparison_of_a_folder(self, capfd, tmp_path):
        bench = tool("bench")
        assert bench.main(["--peers", str(tmp_path)]) == 2
        (tmp_path / "compare.py").write_text("import sys; print(sys.argv[1:])")
        assert bench.main(["--peers", str(tmp_path), "--", "--nets", "lenet"]) == 0
        assert f"['{tmp_path}', '--nets', 'lenet']" in capfd.readouterr().out

    def test_bfloat16_has_a_separate_ratio(self, monkeypatch):
        monkeypatch.syspath_prepend(ROOT / "tools" / "peers")
        compare = tool("peers/compare")
        times = {"hybridjit": 4, "hybridjit-bf16": 1, "openvino-f32": 8, "openvino-bf16": 2}
        found = compare.ratios({name: [ms, ms] for name, ms in times.items()})
        assert [(r["best"], r["ratio"]) for r in found.values()] == [
            ("openvino-f32", 0.5),
            ("openvino-bf16", 0.5),
        ]
        assert compare.ratios({"hybridjit-bf16": [1], "hybridjit": [2], "openvino-bf16": [2]}) == {
            "ratio": {},
            "bf16_ratio": {"best": "openvino-bf16", "ratio": 0.5, "low": 0.5, "high": 0.5},
        }

    def test_an_engine_that_does_not_start_is_left_out(self, capsys, monkeypatch):
        monkeypatch.syspath_prepend(ROOT / "tools" / "peers")
        turns = tool("peers/turns")
        serves = "import turns; turns.serve(lambda: None, error=0)"
        monkeypatch.setenv("PYTHONPATH", str(ROOT / "tools" / "peers"))
        commands = {
            "here": [sys.executable, "-c", serves],
            "missing": ["/nowhere/python"],
            "broken": [sys.executable, "-c", "import nowhere"],
        }
        medians, said = turns.take_turns(commands, rounds=2, seconds=0.001)
        assert [*medians] == [*said] == ["here"] and len(medians["here"]) == 2
        left_out = capsys.readouterr().err
        assert "left out: missing" in left_out and "No module named 'nowhere'" in left_out

    def test_networks_at_varying_sizes_are_recorded(self, capsys, tmp_path):
        varying = tool("peers/varying/compare")
        words = ["--nets", "lstm", "--engines", "hybridjit", "mxnet", "--every", "160"]
        varying.main([*words, "--turn", "2", "--json", str(tmp_path / "{}.json")])
        said = capsys.readouterr()
        assert "left out: mxnet, lstm: no interpreter" in said.err and "second pass" in said.out
        record = json.loads((tmp_path / "1.json").read_text())
        passes = ["first pass", "second pass", "first pass after 3 compilations"]
        assert [row[0].split(", ")[1] for row in record["rows"]] == passes
        assert all(float(row[1]) > 0 and row[-1] == "-" for row in record["rows"])

    def test_networks_in_8_bits_have_a_ratio_for_each_way_to_quantize(self, monkeypatch):
        monkeypatch.syspath_prepend(ROOT / "tools" / "peers")
        int8 = tool("peers/int8")
        times = {"hybridjit": 3, "hybridjit-calibrated": 2, "onnxruntime": 8, "openvino": 4}
        said = {name: {"ms": ms, "error": 0.01, "version": "1"} for name, ms in times.items()}
        medians = {name: [ms, ms] for name, ms in times.items()}
        monkeypatch.setattr(int8, "take_turns", lambda *arguments: (medians, said))
        options = int8.read_options(["--nets", "resnet18_v1", "--note", "quiet"])
        made = int8.compared(options, Path("models"), 1)
        assert made["rows"] == [
            ["ResNet-18; static", "3.00 (0.01)", "0.75", "2.00 (0.01)", "0.50",
             "8.00 (0.01)", "4.00 (0.01)", "-"]
        ]  # fmt: skip
        assert made["geometric_mean"] == {"quantized file": 0.75, 'precision="int8"': 0.5}

    @pytest.mark.parametrize("name", ["densenet", "squeezenet"])
    def test_networks_with_fixed_windows_take_their_smallest_sizes(self, name):
        networks = tool("peers/varying/networks")
        make, sizes, _ = networks.NETWORKS[name]
        for size in (min(sizes), max(sizes)):
            _, outputs, _ = make(hybridjit)(sym.var("data")).infer_shape(data=size)
            assert outputs == [(1, 1000)]

    @pytest.mark.parametrize(
        "counts, first", [([1, 2, 2, 3, 3, 4], 4), ([1, 2, 2, 2], 2), ([0, 0], 0)]
    )
    def test_the_calls_after_three_compilations_are_found(self, counts, first):
        """Or after the last one; another engine counts none."""
        varying = tool("peers/varying/compare")
        calls = [[0.1, 0.1, 1.0, count] for count in counts]
        assert varying.first_after_compilations(calls) == first

    def test_outputs_of_engines_that_differ_are_found(self):
        varying = tool("peers/varying/compare")
        calls = {"hybridjit": [[1, 1, 2.0]], "mxnet": [[1, 1, 2.0001]]}
        varying.require_equal("lstm", calls)
        calls["mxnet"] = [[1, 1, 2.1]]
        with pytest.raises(AssertionError, match="mxnet"):
            varying.require_equal("lstm", calls)

    def test_the_comparison_under_load_records_the_engines_that_start(
        self, tmp_path, capsys, monkeypatch
    ):
        for module in ("fastapi", "uvicorn_worker", "gunicorn"):
            pytest.importorskip(module)
        compare = tool("peers/serving/compare")
        monkeypatch.setattr(compare, "require_equal", lambda load, services: None)
        words = ["--loads", "digits", "--clients", "2", "--seconds", "0.2", "--rounds", "1"]
        compare.main([*words, "--workers", "1", "--json", str(tmp_path / "record.json")])
        said = capsys.readouterr()
        assert "left out: mxnet: no interpreter" in said.err
        record = json.loads((tmp_path / "record.json").read_text())
        assert [row[0].partition(": ")[2] for row in record["rows"]] == [
            "requests/s",
            "p99, ms",
            "CPU ms a request",
        ]
        assert all(float(row[1]) > 0 and row[2:] == ["-", "-", "-"] for row in record["rows"])

    def test_sizes_counts_lines_and_branches(self, capsys, tmp_path):
        (tmp_path / "one.py").write_text(
            "class A:\n    def f(self):\n        if 1:\n            for i in 2:\n"
            "                pass\n        elif 3:\n            pass\n\ndef g(): pass\n"
        )
        sizes = tool("sizes")
        module = sizes.read_module(tmp_path / "one.py", tmp_path)
        assert [(f.name, f.lines, f.depth) for f in module.functions] == [
            ("A.f", 6, 2),
            ("g", 1, 0),
        ]
        assert sizes.main([str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert f"{len(all_ops())}  operators" in out
        assert f"{len(SWITCHES)}  switches" in out

    def test_replay_writes_plans_specs_and_kernels(self, tmp_path):
        replay = tool("replay")
        replay.write_texts(ROOT / "src", tmp_path, list(replay._jobs(None)), "avx2")
        texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
        kernels = {name for name in texts if name.startswith("kernel-")}
        assert sorted(texts.keys() - kernels) == ["digits-plan.txt", "digits-spec.txt"]
        assert kernels and all("define " in texts[name] for name in kernels)
        assert "step 0   conv" in texts["digits-plan.txt"]
        assert list(replay.differences(texts, texts, "a", "b")) == []
        other = {**texts, "digits-plan.txt": texts["digits-plan.txt"].replace("conv", "gemm", 1)}
        changed = list(replay.differences(texts, other, "a", "b"))
        assert changed[:2] == ["--- a digits-plan.txt", "+++ b digits-plan.txt"]
        assert any(line.startswith("+  step 0   gemm") for line in changed)


class TestJson:
    """``--json`` prints one document with the facts of the text."""

    @staticmethod
    def document(capsys, *words):
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    def test_bench(self, capsys):
        found = self.document(capsys, "bench", MODEL, *SHAPE, "--batch", "1,3", "--seconds", "0.01")
        assert found["model"] == "digits" and not found["random_parameters"]
        assert [row["batch"] for row in found["rows"]] == [1, 3]
        first, second = found["rows"]
        assert first["p10_ms"] <= first["median_ms"] <= first["p90_ms"]
        assert second["samples_per_second"] == pytest.approx(3e3 / second["median_ms"])

    def test_profile(self, capsys):
        words = ("profile", MODEL, *SHAPE, "--seconds", "0.01")
        found = self.document(capsys, *words)
        assert found["total"] == pytest.approx(sum(step["seconds"] for step in found["steps"]))
        assert any("conv" in step["algorithm"] for step in found["steps"])
        found = self.document(capsys, *words, "--train")
        assert {*found["seconds"]} == {"forward", "backward", "update"}
        assert found["update"] and found["backward"]["steps"]

    def test_inspect(self, capsys):
        found = self.document(capsys, "inspect", MODEL)
        assert (found["inputs"], found["missing_parameters"]) == (["data"], [])
        assert found["types"] == {"data": "f32[?,1,?,?]", "digits_dot0_output": "f32[?,10]"}
        assert {"name": "Convolution", "nodes": 2, "kernel": "conv"} in found["operators"]
        assert {p["dtype"] for p in found["parameters"]} == {"float32"}

    def test_ops(self, capsys):
        found = {op["name"]: op for op in self.document(capsys, "ops")}
        assert found["Convolution"]["kernel"] == "conv"
        assert "flatten" in found["Flatten"]["aliases"]

    def test_doctor(self, capsys):
        found = self.document(capsys, "doctor", "--quick")
        assert found["hybridjit"] and len(found["threads"]) == 2
