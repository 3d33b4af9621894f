"""``dir(hybridjit)`` lists public names, and nothing of the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

import hybridjit

PACKAGE = Path(hybridjit.__file__).parent
# Modules that programs import by their names: MXNet's, and those that the documentation names.
PUBLIC = {
    *(
        "attribute",
        "autograd",
        "base",
        "batch",
        "callback",
        "context",
        "contrib",
        "engine",
        "errors",
    ),
    *(
        "executor",
        "gluon",
        "image",
        "initializer",
        "io",
        "kv",
        "kvstore",
        "library",
        "log",
        "lr_scheduler",
    ),
    *(
        "metric",
        "mod",
        "model",
        "module",
        "mon",
        "monitor",
        "name",
        "nd",
        "np",
        "npx",
        "onnx",
        "operator",
    ),
    *("img", "optimizer", "viz"),
    *(
        "profiler",
        "profiling",
        "random",
        "recordio",
        "registry",
        "rnn",
        "runtime",
        "sym",
        "test_utils",
        "util",
        "visualization",
    ),
}
MODULES = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}


def test_no_module_of_the_compiler_is_listed():
    assert set(dir(hybridjit)) & MODULES == PUBLIC


def test_no_private_name_is_listed():
    assert [name for name in dir(hybridjit) if name.startswith("_")] == ["__version__"]
    assert not {"sys", "explain_absent", "place_elsewhere"} & set(dir(hybridjit))


@pytest.mark.parametrize("name", dir(hybridjit))
def test_listed_names_exist(name):
    assert getattr(hybridjit, name) is not None


@pytest.mark.parametrize(
    "name", ["AttrScope", "kv", "np_shape", "optimizer", "rnd", "viz", "NDArray"]
)
def test_names_of_mxnet_are_listed(name):
    assert name in dir(hybridjit)
