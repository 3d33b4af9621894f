"""Record MXNet's files and results for the networks of ``tests/support/gluon_nets.py``.

    python tools/mxnet_side/record_gluon.py      with MXNet 1.9.1 installed

Writes ``tests/fixtures/gluon_nets.npz``: per net its symbol JSON, repr, parameter names, the names
in its files, and the outputs in order; and ``tests/fixtures/model_zoo.json``: per model the digest
of ``gluon_nets.structure``.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from pathlib import Path

import mxnet as mx
import numpy as np

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path.insert(0, str(TESTS / "support"))

import gluon_nets  # noqa: E402


def flat(result):
    if isinstance(result, (list, tuple)):
        return [array for part in result for array in flat(part)]
    return [result.asnumpy()]


def record(name, make, shapes, folder):
    """The results of one network, by keys of the fixture file."""
    with mx.name.NameManager():
        net = make() if name.startswith("pixelshuffle") else make(prefix="net_")
    inputs = [mx.nd.array(gluon_nets.values(f"x_{i}", s)) for i, s in enumerate(shapes)]
    net.initialize()
    net.hybridize()  # before the first call: tracing twice changes the third number of aux entries
    net(*inputs)
    gluon_nets.fill(mx, net)
    outputs = flat(net(*inputs))
    net.export(f"{folder}/net")
    net.save_parameters(f"{folder}/net.params")
    text = Path(folder, "net-symbol.json").read_text()
    texts = {
        "symbol": re.sub(r"(Constant_\w+?)_\d+\b", r"\1", text),  # the number is an address
        "repr": repr(net),
        "params": str(net.collect_params()).replace("<class 'numpy.float32'>", "float32"),
        "exported": " ".join(mx.nd.load(f"{folder}/net-0000.params") or ()),
        "saved": " ".join(mx.nd.load(f"{folder}/net.params") or ()),
    }
    found = {f"{name}.{key}": np.array(text) for key, text in texts.items()}
    return found | {f"{name}.y{i}": array for i, array in enumerate(outputs)}


def main():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, shapes) in {**gluon_nets.layers(mx), **gluon_nets.nets(mx)}.items():
            found |= record(name, make, shapes, folder)
    np.savez_compressed(TESTS / "fixtures" / "gluon_nets.npz", **found)
    digests = {
        name: hashlib.sha256(gluon_nets.structure(mx, name).encode()).hexdigest()
        for name in gluon_nets.ZOO
    }
    Path(TESTS, "fixtures", "model_zoo.json").write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main()
