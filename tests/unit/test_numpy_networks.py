"""Networks of NumPy mode that ``tools/peers/numpy_mode`` times: eager and hybridized."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx

FILE = Path(__file__).parents[2] / "tools" / "peers" / "numpy_mode" / "networks.py"
SPEC = importlib.util.spec_from_file_location("numpy_mode_networks", FILE)
NETWORKS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(NETWORKS)


@pytest.mark.parametrize("name", ["MLP", "GoogLeNet", "DenseNet", "TextCNN", "GRU", "BERT"])
def test_a_network_of_numpy_mode_computes_the_same_hybridized(name):
    with mx.np_shape(True), mx.util.np_array(True):
        random = np.random.RandomState(1)
        inputs = [mx.np.array(a, dtype="float32") for a in NETWORKS.BATCHES[name](random)]
        net = NETWORKS.NETWORKS[name](mx)
        net.initialize(mx.init.Xavier())
        eager = net(*inputs).asnumpy()
        net.hybridize()
        found = net(*inputs)
    assert isinstance(found, mx.np.ndarray) and found.shape == eager.shape
    np.testing.assert_allclose(found.asnumpy(), eager, rtol=2e-4, atol=2e-5)
