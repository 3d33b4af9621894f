"""gluon-nlp's BERT and Transformer encoders, rebuilt small: they train with MXNet's gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
import nlp_nets
from hybridjit import gluon

RECORDED = np.load(Path(__file__).parent.parent / "fixtures" / "nlp_encoders.npz")
NETS = list(nlp_nets.classes(mx))


@pytest.mark.parametrize("how", ["eager", "hybridized", "static"])
@pytest.mark.parametrize("name", NETS)
def test_gradients_are_mxnets(name: str, how: str):
    net = nlp_nets.made(mx, name)
    if how != "eager":
        net.hybridize(static_alloc=how == "static")
    wanted = {key.partition(".")[2]: RECORDED[key] for key in RECORDED if key.startswith(name)}
    for _ in range(2):
        found = nlp_nets.gradients(mx, name, net)
        assert found.keys() == wanted.keys()
        for key, right in wanted.items():
            near = 1e-5 * abs(right).max() + 1e-6
            np.testing.assert_allclose(found[key], right, rtol=0, atol=near, err_msg=key)


class Loss(gluon.HybridBlock):
    """The loss that was recorded, times a label."""

    def hybrid_forward(self, F, results, label):
        means = [F.mean(F.square(F.log_softmax(y, axis=-1))) for y in results]
        return sum(means[1:], means[0]) * label


@pytest.mark.parametrize("name", NETS)
def test_steps_reduce_the_loss_eagerly_hybridized_and_as_one_call(name: str):
    losses = []
    for how in ("eager", "hybridized", "one call"):
        net = nlp_nets.made(mx, name)
        net.hybridize(how != "eager")
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
        given = [mx.nd.array(x) for x in nlp_nets.inputs(name)]
        loss, label = Loss(), mx.nd.ones((1,))
        step = mx.train_step(net, loss, trainer)
        found = []
        for _ in range(4):
            if how == "one call":
                found.append(step(*given, label, batch_size=1))
                continue
            with mx.autograd.record():
                value = loss(net(*given), label)
            value.backward()
            trainer.step(1)
            found.append(value)
        losses.append([float(value.asnumpy().sum()) for value in found])
    assert losses[0] == sorted(losses[0], reverse=True)
    np.testing.assert_allclose(losses[1:], [losses[0]] * 2, rtol=1e-4)
