"""Optimizers, schedules and update operators, against numbers that MXNet 1.9.1 gave."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import hybridjit as mx
from hybridjit import nd
from hybridjit.errors import ModelFormatError
from hybridjit.formats.mxnet import params
from hybridjit.nd.ndarray import invoke
from hybridjit.ops.registry import lookup
from optimizer_cases import CASES, DOUBLE, HALF, weights_by_step
from special_numbers import (
    ADAMW,
    NUMBERS,
    OWN,
    adamw_after,
    cases,
    label,
    recorded,
    weights_after,
)

TRAINING = Path(__file__).parent.parent / "fixtures" / "training"
REFUSED = (mx.MXNetError, ArithmeticError, AssertionError, ValueError)
RECORDED = np.load(TRAINING / "optimizers.npz")
SPECIAL = recorded(str(TRAINING / "special_numbers.npz"))
# The package's own: tests register others.
NAMES = sorted(
    name
    for name, kind in mx.optimizer.Optimizer.opt_registry.items()
    if kind.__module__.startswith("hybridjit.optimizer.")
)


class TestNumbers:
    @pytest.mark.parametrize("name", CASES)
    def test_weights_after_each_step_are_mxnets(self, name):
        found = weights_by_step(mx, CASES[name])
        largest = np.abs(RECORDED[name]).max()
        np.testing.assert_allclose(found, RECORDED[name], rtol=0, atol=2e-7 * largest)

    @pytest.mark.parametrize("name", HALF)
    def test_float16_weights_have_a_float32_copy(self, name):
        optimizer, arguments = CASES[name]
        case = optimizer, {**arguments, "multi_precision": True}
        found, wanted = weights_by_step(mx, case, "float16"), RECORDED[f"half {name}"]
        assert found.dtype == np.float16
        np.testing.assert_allclose(found.astype("f4"), wanted.astype("f4"), rtol=1e-3, atol=1e-5)

    @pytest.mark.parametrize("name", DOUBLE)
    def test_float64_weights_equal_mxnets(self, name):
        found = weights_by_step(mx, CASES[name], "float64")
        np.testing.assert_allclose(found, RECORDED[f"double {name}"], rtol=2e-7, atol=1e-7)

    @pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
    @pytest.mark.parametrize("name", OWN)
    def test_special_numbers_are_mxnets(self, name, at_once):
        for arguments in (arguments for case, arguments in cases() if case == name):
            key = label(name, arguments)
            wanted = SPECIAL[key]
            if not wanted.size:
                with pytest.raises(REFUSED):
                    weights_after(mx, name, arguments, at_once)
                continue
            found = weights_after(mx, name, arguments, at_once)
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6, err_msg=key)

    @pytest.mark.parametrize("name", ADAMW)
    @pytest.mark.parametrize("scale", [0.5, 0.0, *NUMBERS])
    def test_special_numbers_of_adamw(self, name, scale):
        def update(name, arrays, out, given):
            invoke(lookup(name), arrays, given, out)

        found = adamw_after(mx, update, name, scale)
        np.testing.assert_allclose(found, SPECIAL[f"{name} {scale}"], rtol=1e-3, atol=1e-6)

    def test_float16_without_a_copy_warns(self):
        with pytest.warns(UserWarning, match="SGD optimizer"):
            weights_by_step(mx, CASES["sgd"], "float16")
        with pytest.warns(UserWarning, match="of the optimizer"):
            weights_by_step(mx, CASES["adam"], "float16")

    def test_sgld_is_half_a_step_and_noise(self):
        mx.random.seed(3)
        weight, grad = nd.zeros((4000,)), nd.ones((4000,))
        update = mx.optimizer.get_updater(mx.optimizer.create("sgld", learning_rate=0.04))
        update(0, grad, weight)
        assert abs(weight.mean().asscalar() + 0.02) < 0.015
        assert abs(np.std(weight.asnumpy()) - 0.2) < 0.01

    @pytest.mark.parametrize("name", [name for name in NAMES if name != "test"])
    def test_losses_fall(self, name):
        """Each optimizer brings a sum of squares down (test adds its gradients: it goes up)."""
        rates = {"adadelta": {}, "lars": {"learning_rate": 20.0}}
        given = rates.get(name, {"learning_rate": 0.02})
        optimizer = mx.optimizer.create(name, **given)
        update, weight = mx.optimizer.get_updater(optimizer), nd.array([[1.0, -2.0, 3.0]])
        first = (weight * weight).sum().asscalar()
        for _ in range(20):
            update(0, 2 * weight, weight)
        assert (weight * weight).sum().asscalar() < first


class TestOptimizer:
    def test_optimizers_are_created_by_name(self):
        assert type(mx.optimizer.create("AdAm")) is mx.optimizer.Adam
        with pytest.raises(ValueError, match="Cannot find optimizer foo"):
            mx.optimizer.create("foo")

    def test_registered_optimizers_are_created_by_name(self, monkeypatch):
        monkeypatch.setattr(mx.optimizer.Optimizer, "opt_registry", {})

        @mx.optimizer.register
        class Mine(mx.optimizer.Optimizer):
            def update(self, index, weight, grad, state):
                self._update_count(index)
                weight[:] = weight - self._get_lr(index) * grad

        weight = nd.ones((2,))
        mx.optimizer.get_updater(mx.optimizer.create("mine", learning_rate=0.5))(0, weight, weight)
        assert weight.asnumpy().tolist() == [0.5, 0.5]
        with pytest.warns(UserWarning, match="overriding existing optimizer"):
            mx.optimizer.register(Mine)

    @pytest.mark.parametrize("name", sorted({*NAMES} - {"adadelta", "test"}))  # read no rate
    def test_a_subclass_overrides_the_rates_that_mxnet_reads(self, name):
        """MXNet's SGD and LARS read the rates of a list, other optimizers one rate at a time."""
        kind = mx.optimizer.Optimizer.opt_registry[name]

        def weight_after(**replaced):
            mx.random.seed(0)  # of SGLD
            optimizer = type("Own", (kind,), replaced)()
            weight = nd.array([[1.0, 2.0]])
            mx.optimizer.get_updater(optimizer)(0, weight / 4, weight)
            return weight.asnumpy().tolist()

        def rates(self, indices):
            return [0.25 for _ in indices]

        by_list = name in ("sgd", "ccsgd", "lars")
        plain, one = weight_after(), weight_after(_get_lr=lambda self, index: 0.25)
        of_list = weight_after(_get_lrs=rates, _get_lr=lambda self, index: 0.125)
        assert (one == plain) == by_list
        assert (of_list == weight_after(_get_lr=lambda self, index: 0.125)) != by_list

    def test_a_rate_for_each_weight(self):
        class Own(mx.optimizer.SGD):
            def _get_lrs(self, indices):
                return []

        weight = nd.ones((2,))
        said = "Own has 0 learning rates and 1 weight decays for 1 weights"
        with pytest.raises(ValueError, match=said):
            mx.optimizer.get_updater(Own())(0, weight, weight)

    def test_rates_of_parameters(self):
        optimizer = mx.optimizer.SGD(
            learning_rate=0.1, wd=0.01, param_idx2name={0: "a_weight", 1: "a_bias", 2: "b_gamma"}
        )
        assert optimizer._get_wds([0, 1, 2, 3]) == [0.01, 0, 0.01, 0.01]
        optimizer.set_lr_mult({"a_bias": 2.0, 0: 3.0})
        optimizer.set_wd_mult({"a_bias": 0.5})
        np.testing.assert_allclose(optimizer._get_lrs([0, 1, 2]), [0.3, 0.2, 0.1])
        assert optimizer._get_wds([1]) == [0.005]

    def test_rates_that_a_symbol_says(self):
        data = mx.sym.var("data")
        weight = mx.sym.var("w_weight", lr_mult=0.5, wd_mult=2.0)
        net = mx.sym.FullyConnected(data, weight, num_hidden=2, name="w")
        optimizer = mx.optimizer.SGD(
            learning_rate=0.1, wd=0.01, sym=net, param_idx2name={0: "w_weight", 1: "w_bias"}
        )
        assert (optimizer._get_lr(0), optimizer._get_wd(0)) == (0.05, 0.02)
        assert (optimizer._get_lr(1), optimizer._get_wd(1)) == (0.1, 0)

    def test_updates_are_counted_for_each_device(self):
        update = mx.optimizer.get_updater(mx.optimizer.SGD(begin_num_update=5))
        for device in (0, 1, 0):
            weight = nd.ones((2,), ctx=mx.cpu(device))
            update(0, weight, weight)
        assert update.optimizer.num_update == 7
        assert update.optimizer._all_index_update_counts == {0: {0: 7}, 1: {0: 6}}

    def test_learning_rate(self, capsys):
        scheduler = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
        optimizer = mx.optimizer.Adam(lr_scheduler=scheduler)
        assert "has been overwritten" in capsys.readouterr().out
        assert optimizer.learning_rate == scheduler.base_lr == 0.001
        with pytest.raises(UserWarning, match="already been defined"):
            optimizer.set_learning_rate(1.0)
        plain = mx.optimizer.SGD()
        plain.set_learning_rate(0.5)
        assert plain.learning_rate == 0.5

    def test_a_bound_of_zero(self):
        """A bound of 0 is none for operators, and a bound elsewhere."""
        for name, moves in (("sgd", True), ("adagrad", False)):
            weight = nd.ones((2,))
            optimizer = mx.optimizer.create(name, clip_gradient=0.0, learning_rate=0.1)
            mx.optimizer.get_updater(optimizer)(0, weight, weight)
            assert (weight.asnumpy() != 1).all() == moves

    def test_optimizers_raise_for_wrong_arguments(self):
        with pytest.raises(mx.MXNetError, match="wd_lh"):
            weights_by_step(mx, ("signum", {"momentum": 0.0, "wd_lh": 0.1}))
        with pytest.raises(AssertionError, match="Weight decay is not supported"):
            weights_by_step(mx, ("groupadagrad", {"wd": 0.1}))

    def test_gradients_stay_as_they_are(self):
        for name in NAMES:
            weight, grad = nd.ones((2, 3)), nd.full((2, 3), 0.5)
            optimizer = mx.optimizer.create(name, rescale_grad=0.5, clip_gradient=0.1)
            mx.optimizer.get_updater(optimizer)(0, grad, weight)
            assert (grad.asnumpy() == 0.5).all(), name


class TestSchedules:
    @pytest.mark.parametrize(
        "scheduler, wanted",
        [
            (("FactorScheduler", 2, 0.5), [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]),
            (("MultiFactorScheduler", [2, 4], 0.1), [1, 1, 1, 0.1, 0.1, 0.01, 0.01]),
            (("PolyScheduler", 4), [1, 0.5625, 0.25, 0.0625, 0, 0]),
        ],
    )
    def test_schedules_give_mxnets_rates(self, scheduler, wanted):
        name, *given = scheduler
        rate = getattr(mx.lr_scheduler, name)(*given, base_lr=1.0)
        np.testing.assert_allclose([rate(n) for n in range(len(wanted))], wanted)

    def test_cosine_schedule_gives_mxnets_rates(self):
        rate = mx.lr_scheduler.CosineScheduler(4, base_lr=1.0, final_lr=0.1)
        wanted = [1, 0.868, 0.55, 0.232, 0.1, 0.1]
        np.testing.assert_allclose([rate(n) for n in range(6)], wanted, atol=5e-4)

    def test_warming_up(self):
        rate = mx.lr_scheduler.FactorScheduler(
            2, 0.5, base_lr=1.0, warmup_steps=4, warmup_begin_lr=0.2
        )
        wanted = [0.2, 0.4, 0.6, 0.8, 0.5, 0.25, 0.25]
        np.testing.assert_allclose([rate(n) for n in range(7)], wanted)
        rate = mx.lr_scheduler.PolyScheduler(
            4, base_lr=1.0, warmup_steps=2, warmup_begin_lr=0.2, warmup_mode="constant"
        )
        np.testing.assert_allclose([rate(n) for n in range(5)], [0.2, 0.2, 1, 0.25, 0])

    @pytest.mark.parametrize(
        "make, says",
        [
            (lambda s: s.FactorScheduler(0), "greater or equal than 1"),
            (lambda s: s.FactorScheduler(1, 2.0), "no more than 1"),
            (lambda s: s.MultiFactorScheduler([4, 2]), "increasing integer list"),
            (lambda s: s.PolyScheduler(0), "strictly positive"),
            (lambda s: s.LRScheduler(0.1, 1, 0.2), "higher than warmup_begin_lr"),
            (lambda s: s.LRScheduler(0.1, 1, 0.0, "slow"), "linear and constant"),
        ],
    )
    def test_schedules_raise_for_wrong_arguments(self, make, says):
        with pytest.raises(ValueError, match=says):
            make(mx.lr_scheduler)


class TestOperators:
    @pytest.mark.parametrize("step", [-(2**31), -5000])
    def test_steps_far_below_zero_are_numbers_like_others(self, step):
        """Powers of the rates of decay grow beyond all numbers there, as they do in C."""
        w, g, d, v, z = (nd.ones((3,)) for _ in range(5))
        with np.errstate(invalid="ignore"):
            made = nd.ftml_update(w, g, d, v, z, lr=0.1, t=step)
        assert made.shape == (3,)

    def test_weights_change_in_out_alone_and_states_in_place(self):
        weight, grad, mom = nd.ones((3,)), nd.ones((3,)), nd.zeros((3,))
        made = nd.sgd_mom_update(weight, grad, mom, lr=0.5, momentum=0.9)
        assert made.asnumpy().tolist() == [0.5] * 3 and weight.asnumpy().tolist() == [1] * 3
        assert mom.asnumpy().tolist() == [-0.5] * 3
        nd.sgd_mom_update(weight, grad, mom, lr=0.5, momentum=0.9, out=weight)
        np.testing.assert_allclose(weight.asnumpy(), [0.05] * 3, rtol=1e-6)

    def test_several_weights(self):
        weights = [nd.ones((2,)), nd.ones((3,))]
        moms = [nd.zeros((2,)), nd.zeros((3,))]
        operands = [x for w, m in zip(weights, moms) for x in (w, w.copy(), m)]
        nd.multi_sgd_mom_update(*operands, lrs=(0.5, 0.25), wds=(0, 0), num_weights=2, out=weights)
        assert [w.asnumpy()[0] for w in weights] == [0.5, 0.75]
        assert [m.asnumpy()[0] for m in moms] == [-0.5, -0.25]

    def test_lists_of_arrays(self):
        weights = [nd.ones((2,)), nd.ones((3,))]
        states = [[x.zeros_like() for x in weights] for _ in range(2)]
        nd.contrib.multi_adamw_update(
            weights, weights, *states, 1.0, [0.1, 0.1], [0.0, 0.0], [1.0, 0.5], out=weights
        )
        np.testing.assert_allclose([w.asnumpy()[0] for w in weights], [0.684, 0.842], atol=1e-3)
        before = weights[0].asnumpy()
        nd.contrib.adamw_update(
            weights[0], weights[0], *(s[0] for s in states), float("nan"), 0.1, 1.0, out=weights[0]
        )
        assert (weights[0].asnumpy() == before).all()
        nd.contrib.multi_lamb_update(
            weights, weights, *states, [1, 1], [0.1, 0.1], [0.0, 0.0], out=weights
        )
        assert all(np.isfinite(w.asnumpy()).all() for w in weights)

    def test_states_of_a_graph_are_auxiliary(self):
        update = mx.sym.adam_update(mx.sym.var("w"), lr=0.1, name="u")
        assert update.list_arguments() == ["w", "u_grad"]
        assert update.list_auxiliary_states() == ["u_mean", "u_var"]

    def test_sums_and_zeros(self):
        a, b = nd.array([3.0, 4.0]), nd.ones((2, 2))
        assert nd.multi_sum_sq(a, b, num_arrays=2).asnumpy().tolist() == [25, 4]
        nd.reset_arrays(a, b, num_arrays=2)
        assert not a.asnumpy().any() and not b.asnumpy().any()

    def test_all_finite_accumulates_over_calls(self):
        fine, not_fine, out = nd.ones((2,)), nd.array([np.inf]), nd.ones((1,))
        nd.multi_all_finite(not_fine, num_arrays=1, init_output=False, out=out)
        nd.multi_all_finite(fine, num_arrays=1, init_output=False, out=out)
        assert out.asscalar() == 0
        nd.all_finite(fine, out=out)
        assert out.asscalar() == 1


def trained(name, **given):
    """An updater after three steps, and its weight."""
    update, weight = mx.optimizer.get_updater(mx.optimizer.create(name, **given)), nd.ones((2, 3))
    for _ in range(3):
        update(0, weight * 2, weight)
    return update, weight


class TestPickles:
    # The noise of sgld is another one each time.
    @pytest.mark.parametrize("name", [name for name in NAMES if name != "sgld"])
    @pytest.mark.parametrize("with_optimizer", [True, False])
    def test_states_go_on_where_they_were(self, name, with_optimizer):
        update, weight = trained(name, rescale_grad=0.5)
        again = mx.optimizer.get_updater(mx.optimizer.create(name, rescale_grad=0.5))
        again.set_states(update.get_states(with_optimizer))
        if not with_optimizer:
            again.optimizer = update.optimizer
        copy, grad = weight.copy(), nd.ones((2, 3))
        again.optimizer._index_update_count = dict(update.optimizer._index_update_count)
        other = pickle.loads(pickle.dumps(update.optimizer))
        update.optimizer = other
        update(0, grad, weight)
        again(0, grad, copy)
        np.testing.assert_array_equal(weight.asnumpy(), copy.asnumpy())

    def test_files_of_mxnet(self):
        update = mx.optimizer.get_updater(mx.optimizer.SGD())
        update.set_states((TRAINING / "adam.states").read_bytes())
        optimizer = update.optimizer
        assert type(optimizer) is mx.optimizer.Adam and optimizer.num_update == 3
        assert type(optimizer.lr_scheduler) is mx.lr_scheduler.FactorScheduler
        assert [[x.shape for x in update.states[i]] for i in (0, 1)] == [[(2,)] * 2, [(2, 3)] * 2]
        update.set_states((TRAINING / "plain.states").read_bytes())
        assert update.states == {0: None, 1: None} and update.optimizer.lr == 0.01
        update.set_states((TRAINING / "lbsgd.states").read_bytes())
        assert update.optimizer.cumgrads[0]["num_cums"] == 3

    def test_names_in_files_are_mxnets(self):
        states = trained("adam", lr_scheduler=mx.lr_scheduler.PolyScheduler(9))[0].get_states(True)
        assert b"mxnet.ndarray.ndarray" in states and b"mxnet.optimizer.optimizer" in states
        assert b"mxnet.lr_scheduler" in states and b"hybridjit" not in states

    @pytest.mark.parametrize(
        "harm",
        [
            b"cos\nsystem\n(S'echo'\ntR.",
            b"c__builtin__\neval\n(V1\ntR.",
            b"\x80\x04\x8c\x08builtins\x8c\x09bytearray\x93J\xff\xff\xff\x7f\x85R.",
            b"\x80\x04}K\x00]\x94(h\x00h\x00e\x68\x00s.",
            b"",
            b"\x80\x04",
            b"\x80\x04K\x01.",
            b"\x80\x04}" + b"(" * 5000 + b"t" * 5000 + b"K\x00s.",
            b"\x80\x04cmxnet.optimizer.optimizer\nSGD\nN}\x8c\x06update\x94K\x01s\x86b.",
            b"\x80\x04cmxnet.ndarray.ndarray\nNDArray\nN\x85R.",
            b"\x80\x04}K\x00cmxnet.ndarray.ndarray\nNDArray\nN\x85Rs.",
        ],
    )
    def test_nothing_else_is_run_or_made(self, harm):
        update = mx.optimizer.get_updater(mx.optimizer.SGD())
        with pytest.raises(ModelFormatError):
            update.set_states(harm)

    @pytest.mark.parametrize("place", ["mxnet.lr_scheduler", "a_lazy_module", "hybridjit"])
    def test_a_name_runs_nothing_of_a_module(self, place, monkeypatch):
        """Modules that import or run code for a name are not asked for it."""
        asked = []
        module = types.ModuleType(place)
        module.__getattr__ = lambda name: asked.append(name) or mx.optimizer.Adam
        monkeypatch.setitem(sys.modules, place, module)
        monkeypatch.setattr(sys.modules["hybridjit.lr_scheduler"], "__getattr__", asked, False)
        update = mx.optimizer.get_updater(mx.optimizer.SGD())
        for name in ("Adam", "onnx", "FusedRNNCell"):
            harm = b"\x80\x04}c%b\n%b\n)\x81\x86." % (place.encode(), name.encode())
            with pytest.raises(ModelFormatError, match=f"{place}.{name}"):
                update.set_states(harm)
        assert not asked

    def test_a_name_imports_nothing(self):
        """A fresh process, where most of hybridjit is not imported."""
        program = """if True:
            import sys
            import hybridjit as mx
            update = mx.optimizer.get_updater(mx.optimizer.SGD())
            before = set(sys.modules)
            for module in ("hybridjit", "hybridjit.gluon", "hybridjit.contrib", "hybridjit.nd"):
                for name in ("onnx", "contrib", "data", "sparse", "image", "model_zoo"):
                    try:
                        update.set_states(b"\\x80\\x04}c%b\\n%b\\n)\\x81\\x86."
                            % (module.encode(), name.encode()))
                    except mx.MXNetError:
                        pass
            print(*sorted(set(sys.modules) - before))
        """
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (done.stdout.strip(), done.stderr) == ("", "")

    def test_optimizers_of_the_program_are_known_by_module_and_name(self):
        class Own(mx.optimizer.SGD):
            """Not registered, and no module has its name."""

        update = mx.optimizer.get_updater(Own(learning_rate=0.25))
        again = mx.optimizer.get_updater(mx.optimizer.SGD())
        again.set_states(update.get_states(True))
        assert type(again.optimizer) is Own and again.optimizer.lr == 0.25

    @pytest.mark.parametrize("step", [0, -3, 0.5])
    def test_a_schedule_that_would_never_end_is_refused(self, step):
        scheduler = mx.lr_scheduler.FactorScheduler(2)
        scheduler.step = step
        update = mx.optimizer.get_updater(mx.optimizer.SGD(lr_scheduler=scheduler))
        states = update.get_states(True)
        with pytest.raises(ModelFormatError, match="step"):
            update.set_states(states)

    def test_one_record_is_no_memory_of_many(self):
        """A record of 40 kB that 50 arrays name would take 2 MB."""
        record = params.dump_record(np.zeros(10_000, np.float32))
        array = b"cmxnet.ndarray.ndarray\nNDArray\nN\x85R"
        handle = b"}\x8c\x06handleB" + len(record).to_bytes(4, "little") + record + b"sq\x00"
        one = b"\x80\x04}" + b"K\x00" + array + handle + b"bs"
        update = mx.optimizer.get_updater(mx.optimizer.SGD())
        update.set_states(one + b".")
        assert update.states[0].shape == (10_000,)
        with pytest.raises(ModelFormatError, match="more bytes than it has"):
            update.set_states(one + (b"K\x01" + array + b"h\x00bs") * 50 + b".")

    def test_files_cut_short_or_changed(self):
        states = trained("adam")[0].get_states(True)
        random = np.random.RandomState(0)
        update = mx.optimizer.get_updater(mx.optimizer.SGD())
        for _ in range(300):
            data = bytearray(states)
            data[random.randint(len(data))] = random.randint(256)
            try:
                update.set_states(
                    data[: random.randint(len(data)) if random.rand() < 0.3 else None]
                )
            except mx.MXNetError:
                continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            update.set_states(states)
        assert type(update.optimizer) is mx.optimizer.Adam


def test_lbsgd_takes_the_mean_of_gradients_that_share_one_array():
    update = mx.optimizer.get_updater(
        mx.optimizer.LBSGD(learning_rate=1.0, batch_scale=2, warmup_epochs=0)
    )
    weight, grad = nd.zeros((1,)), nd.zeros((1,))
    for value in (1.0, 3.0):
        grad[:] = value
        update(0, grad, weight)
    assert weight.asscalar() == -2 * (1 + 3) / 2  # the rate is multiplied by batch_scale
