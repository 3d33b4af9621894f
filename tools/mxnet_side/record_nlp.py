"""Record the losses and gradients that MXNet computes for the encoders of ``nlp_nets.py``.

    python tools/mxnet_side/record_nlp.py      with MXNet 1.9.1 installed

Writes ``tests/fixtures/nlp_encoders.npz``: ``NET.loss`` and ``NET.PARAMETER`` for each net. Raises
SystemExit where MXNet, eager and hybridized, does not agree with itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import mxnet as mx
import numpy as np

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path.insert(0, str(TESTS / "support"))

import nlp_nets  # noqa: E402


def main():
    found = {}
    for name in nlp_nets.classes(mx):
        net = nlp_nets.made(mx, name)
        eager = nlp_nets.gradients(mx, name, net)
        net.hybridize()
        for key, value in nlp_nets.gradients(mx, name, net).items():
            if not np.allclose(value, eager[key], rtol=0, atol=1e-5 * (1 + abs(eager[key]).max())):
                raise SystemExit(f"{name}: {key} differs by {abs(value - eager[key]).max()}")
        found |= {f"{name}.{key}": value for key, value in eager.items()}
    np.savez_compressed(TESTS / "fixtures" / "nlp_encoders.npz", **found)


if __name__ == "__main__":
    main()
