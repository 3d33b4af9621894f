"""Comments, docstrings and error messages of these files and folders are in plain English."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import prose  # noqa: E402

COMPILER = (  # _core, codegen, passes, ir, runtime, compiler.py, compilation.py
    "src/hybridjit/_core",
    "src/hybridjit/codegen",
    "src/hybridjit/compilation.py",
    "src/hybridjit/compiler.py",
    "src/hybridjit/fused",
    "src/hybridjit/graph_exec",
    "src/hybridjit/ir",
    "src/hybridjit/passes",
    "src/hybridjit/runtime",
)
OPERATORS = (  # ops, nd, sym, np, onnx, formats, image, io, metric
    "src/hybridjit/formats",
    "src/hybridjit/image",
    "src/hybridjit/io",
    "src/hybridjit/metric",
    "src/hybridjit/nd",
    "src/hybridjit/np",
    "src/hybridjit/npx.py",
    "src/hybridjit/onnx",
    "src/hybridjit/operator",
    "src/hybridjit/ops",
    "src/hybridjit/sym",
)
FRONTENDS = (  # gluon, library, kvstore, mod, optimizer, cli, tests, tools
    "src/hybridjit/__init__.py",
    "src/hybridjit/__main__.py",
    "src/hybridjit/attribute.py",
    "src/hybridjit/autograd.py",
    "src/hybridjit/base.py",
    "src/hybridjit/batch.py",
    "src/hybridjit/cached_op.py",
    "src/hybridjit/callback.py",
    "src/hybridjit/cli",
    "src/hybridjit/compat",
    "src/hybridjit/context.py",
    "src/hybridjit/contrib",
    "src/hybridjit/control",
    "src/hybridjit/engine.py",
    "src/hybridjit/errors.py",
    "src/hybridjit/executor.py",
    "src/hybridjit/executor_manager.py",
    "src/hybridjit/gluon",
    "src/hybridjit/img.py",
    "src/hybridjit/numpy.py",
    "src/hybridjit/numpy_extension.py",
    "src/hybridjit/initializer.py",
    "src/hybridjit/kv.py",
    "src/hybridjit/kvstore",
    "src/hybridjit/library",
    "src/hybridjit/loading.py",
    "src/hybridjit/log.py",
    "src/hybridjit/lr_scheduler.py",
    "src/hybridjit/mod",
    "src/hybridjit/model.py",
    "src/hybridjit/module.py",
    "src/hybridjit/mon.py",
    "src/hybridjit/monitor.py",
    "src/hybridjit/name.py",
    "src/hybridjit/notebook",
    "src/hybridjit/npx.py",
    "src/hybridjit/numpy_op_signature.py",
    "src/hybridjit/optimizer",
    "src/hybridjit/profiler.py",
    "src/hybridjit/profiling",
    "src/hybridjit/random.py",
    "src/hybridjit/recordio.py",
    "src/hybridjit/registry.py",
    "src/hybridjit/rnn",
    "src/hybridjit/run.py",
    "src/hybridjit/test_utils",
    "src/hybridjit/trained.py",
    "src/hybridjit/util.py",
    "src/hybridjit/verification",
    "src/hybridjit/viewing",
    "src/hybridjit/visualization.py",
    "src/hybridjit/viz.py",
    "tests",
    "tools",
)
HELD = (*COMPILER, *OPERATORS, *FRONTENDS)


@pytest.mark.parametrize("place", HELD)
def test_prose_has_no_banned_phrases_and_names_its_nouns(place):
    found = prose.found_in(ROOT / place)
    assert found, f"{place} has no prose: renamed?"
    assert prose.count(found).within, "\n".join(prose.offences(found))


def test_every_part_of_the_package_is_held_to_the_prose():
    parts = [*(ROOT / "src/hybridjit").glob("*.py"), *(ROOT / "src/hybridjit").glob("*/")]
    names = {str(p.relative_to(ROOT)) for p in parts if p.suffix or any(p.glob("*.py"))}
    assert names <= {*HELD}


def test_banned_phrases_and_headless_clauses_are_counted(tmp_path):
    file = tmp_path / "sample.py"
    file.write_text(
        '"""What reaches the weight."""\n\n# is no number\nraise ValueError("of its own")\n'
    )
    assert prose.count(prose.found_in(file)) == (10, 1, 3)
