"""Pieces of work to interrupt: calls, changes of parameters, compilations, files, the older ways.

A case prepares, works (this part is interrupted) and checks. ``CASES`` has all by name.
"""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hybridjit as mx
from hybridjit import autograd, gluon, nd
from hybridjit._core.config import config
from hybridjit.codegen.emit import compile_pool, generate
from hybridjit.io import DataBatch
from hybridjit.passes.plan import split_batch
from interrupted_process import (
    EIGHT,
    Process,
    Subject,
    arrays,
    large_net,
    mixed_net,
    outputs,
    small_net,
    two_net,
)
from patience import PATIENCE

CASES: dict[str, type[Case]] = {}


class Case:
    """``prepare``, then ``work``, which may be interrupted, then ``check``.

    kind     which places are tried: opcodes, or lines
    shapes   of the inputs, in turn
    """

    kind = "opcodes"
    build: Callable[[], Any] = staticmethod(small_net)
    shapes: Sequence[tuple[int, ...]] = [(2, 5)]

    def __init_subclass__(cls, name: str = "") -> None:
        if name:
            CASES[name] = cls

    def __init__(self, process: Process) -> None:
        self.process = process
        self._folder = tempfile.TemporaryDirectory(prefix="interrupted-")
        self.folder = Path(self._folder.name)
        self._replaced: list[tuple[Any, str, Any]] = []
        self.set_up()
        self.subject = Subject(type(self).build, self.shapes)
        self.subject.check(process.other)
        self.ready()
        process.expect()

    def set_up(self) -> None:
        """Before the networks are made."""

    def ready(self) -> None:
        """After that."""

    def prepare(self) -> None:
        """Before each piece of work."""

    def work(self) -> object:
        raise NotImplementedError

    def check(self) -> None:
        self.subject.check(self.process.other)
        self.process.check()

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the case is closed."""
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def close(self) -> None:
        for owner, name, value in reversed(self._replaced):
            setattr(owner, name, value)
        self._folder.cleanup()

    def path(self, name: str) -> str:
        return str(self.folder / name)


# ---- calls


class Call(Case, name="call"):
    def work(self) -> object:
        return self.subject.net(self.subject.inputs[1])


class CallLarge(Call, name="call-large"):
    build = staticmethod(large_net)
    shapes = [(2, 520)]


class CallMixed(Call, name="call-mixed"):
    build = staticmethod(mixed_net)


class CallTwo(Call, name="call-two"):
    build = staticmethod(two_net)

    def work(self) -> object:
        return self.subject.net(self.subject.inputs[0], self.subject.inputs[0])


class CallSplitBatch(Call, name="call-split-batch"):
    def set_up(self) -> None:
        self.replace(split_batch, "_CACHE_BYTES", 0)
        self.replace(split_batch, "_activation_bytes", lambda step: 1 << 30)


class CallEager(Call, name="call-eager"):
    def ready(self) -> None:
        self.eager = self.subject.made()
        self.eager.hybridize(False)
        self.eager(self.subject.inputs[0])

    def work(self) -> object:
        return self.eager(self.subject.inputs[1])


class CallCachedOp(Call, name="call-cached-op"):
    def ready(self) -> None:
        net = self.subject.net
        self.op = nd.CachedOp(net(mx.sym.var("data")))
        self.names = [name for name in net(mx.sym.var("data")).list_inputs() if name != "data"]
        self.work()

    def arrays(self, number: int) -> list[nd.NDArray]:
        params = self.subject.net.collect_params()
        return [self.subject.inputs[number], *(params[name].data() for name in self.names)]

    def work(self) -> object:
        return self.op(*self.arrays(1))

    def check(self) -> None:
        right = self.subject.expected(self.subject.held())
        for number in EIGHT:
            found = self.op(*self.arrays(number)).asnumpy().tobytes()
            assert [found] == right[number], f"input {number} gives other bits"
        super().check()


# ---- changes of parameters


class Change(Case):
    """The parameters change from one of the subject's sets to the other, and a call follows."""

    now = 0

    def prepare(self) -> None:
        if len(set(self.subject.held())) > 1:
            self.subject.write(0)
        self.now = 1 - self.subject.held()[0]
        values = self.subject.sets[self.now]
        self.values = {name: nd.array(array) for name, array in values.items()}
        self.subject.net(self.subject.inputs[0])

    def change(self) -> None:
        raise NotImplementedError

    def work(self) -> object:
        self.change()
        return self.subject.net(self.subject.inputs[1])


class SetData(Change, name="set-data"):
    def change(self) -> None:
        for name, param in self.subject.net.collect_params().items():
            param.set_data(self.values[name])


class SetDataLarge(SetData, name="set-data-large"):
    build = staticmethod(large_net)
    shapes = [(2, 520)]


class SetDataTwoSignatures(SetData, name="set-data-two-signatures"):
    shapes = [(2, 5), (7, 5)]


class Slices(Change, name="slices"):
    """Halves of each array are independent: either may have been written."""

    def change(self) -> None:
        for name, param in self.subject.net.collect_params().items():
            param.data()[0:1] = self.values[name][0:1]
            param.data()[1:] = self.values[name][1:]

    def prepare(self) -> None:
        if not self.subject.is_whole():
            self.subject.write(0)
        super().prepare()

    def check(self) -> None:
        if self.subject.is_whole():
            super().check()
            return
        values = {n: p.data().asnumpy() for n, p in self.subject.net.collect_params().items()}
        right = self.subject.expected_for(values)
        here = self.subject.results(self.subject.net, EIGHT)
        assert here == [right[i] for i in EIGHT], "a call does not see what was written"
        self.process.check()


class LoadParameters(Change, name="load-parameters"):
    def ready(self) -> None:
        for number in (0, 1):
            self.subject.write(number)
            self.subject.net.save_parameters(self.path(f"{number}.params"))

    def change(self) -> None:
        self.subject.net.load_parameters(self.path(f"{self.now}.params"))


class Reinitialize(Change, name="reinitialize"):
    def ready(self) -> None:
        self.subject.net.initialize(mx.init.One(), force_reinit=True)
        params = self.subject.net.collect_params().items()
        self.subject.sets[1] = {name: p.data().asnumpy() for name, p in params}

    def prepare(self) -> None:
        self.subject.write(0)
        super().prepare()

    def change(self) -> None:
        self.subject.net.initialize(mx.init.One(), force_reinit=True)


class Replaced(Change, name="other-arrays"):
    """The parameters get other arrays instead of other values."""

    def change(self) -> None:
        for name, param in self.subject.net.collect_params().items():
            param.cast("float32")
            param.set_data(self.values[name])


# ---- training


class Trained(Case):
    """Recorded calls, and their backward passes. The flags are set for the work only.

    Each check is a whole piece of work more, whose results are those of the first.
    """

    def ready(self) -> None:
        for param in self.subject.net.collect_params().values():
            param.grad_req = "write"
        self.prepare()
        self.work()
        self.right = self.results()
        self.unset()

    def prepare(self) -> None:
        autograd.set_recording(True)
        autograd.set_training(True)

    def unset(self) -> None:
        flags = autograd.set_recording(False), autograd.set_training(False)
        assert flags == (True, True), f"left behind: recording and training {flags}"

    def work(self) -> object:
        x = self.subject.inputs[1]
        loss = (self.subject.net(x) ** 2).sum()
        loss.backward()
        return loss

    def results(self) -> list[bytes]:
        params = self.subject.net.collect_params().values()
        return [param.grad().asnumpy().tobytes() for param in params]

    def check(self) -> None:
        self.unset()
        super().check()
        self.prepare()
        self.work()
        assert self.results() == self.right, "what is computed afterwards has other bits"
        self.unset()


class Backward(Trained, name="backward"):
    """Parameters stay."""


class BackwardEager(Trained, name="backward-eager"):
    def prepare(self) -> None:
        self.subject.net.hybridize(False)
        super().prepare()

    def unset(self) -> None:
        self.subject.net.hybridize()
        super().unset()


class FirstBackward(Trained, name="first-backward"):
    """Forward and backward are compiled."""

    kind = "lines"

    def prepare(self) -> None:
        self.subject.net.hybridize()
        super().prepare()


class TrainerStep(Trained, name="trainer-step"):
    """Each parameter has its old value or its new one."""

    def ready(self) -> None:
        params = self.subject.net.collect_params()
        self.trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.125})
        super().ready()
        self.subject.sets[1] = {name: p.data().asnumpy() for name, p in params.items()}

    def prepare(self) -> None:
        self.subject.write(0)
        super().prepare()
        super().work()
        super().unset()

    def work(self) -> object:
        self.trainer.step(2)
        return None

    def unset(self) -> None:
        """The work does not change flags."""

    def results(self) -> list[bytes]:
        params = self.subject.net.collect_params().values()
        return [*super().results(), *(p.data().asnumpy().tobytes() for p in params)]


class TrainStep(TrainerStep, name="train-step"):
    """The same with forward and backward, in one call."""

    def ready(self) -> None:
        self.step = None
        super().ready()

    def prepare(self) -> None:
        self.subject.write(0)
        if self.step is None:
            x = self.subject.inputs[1]
            self.label = nd.zeros_like(self.subject.net(x))
            self.step = mx.train_step(self.subject.net, gluon.loss.L2Loss(), self.trainer)
            self.work()
            self.subject.write(0)

    def work(self) -> object:
        return self.step(self.subject.inputs[1], self.label)


class Stepped(Case):
    """Weights, states and counts of an optimizer are the old ones, or all are new.

    The gradients are fresh before, and are not afterwards.
    """

    optimizer = "adam"
    given: Mapping[str, Any] = {}
    trainer_given: Mapping[str, Any] = {}
    contexts: Sequence[mx.Context] = (mx.cpu(),)

    def ready(self) -> None:
        shapes = {"a_weight": (3, 4), "b_bias": (5,), "c_weight": (2, 3)}
        if self.optimizer == "groupadagrad":
            shapes["b_bias"] = (5, 1)
        self.params = [gluon.Parameter(name, shape=shape) for name, shape in shapes.items()]
        for param in self.params:
            param.initialize(mx.init.One(), ctx=[*self.contexts])
            for grad in param.list_grad():
                grad[:] = nd.arange(grad.size).reshape(grad.shape) / 10
        scheduler = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
        options = {"learning_rate": 0.1, "lr_scheduler": scheduler, **self.given}
        rule = mx.optimizer.create(self.optimizer, **options)
        self.trainer = gluon.Trainer(self.params, rule, **self.trainer_given)
        for _ in range(3):  # states are made, and the schedule is about to move
            self.freshen()
            self.trainer.step(1)
        self.old = self.copied()
        self.seen = []
        for _ in range(2):  # the first step goes the ways that later ones do not
            self.prepare()
            self.seen = [self.snapshot()]
            self.work()
            self.seen.append(self.snapshot())
        assert self.seen[0] != self.seen[1]

    def freshen(self) -> None:
        for param in self.params:
            for weight in param.list_data():
                weight._fresh_grad = True

    def updaters(self) -> list[Any]:
        store = self.trainer._kvstore
        return [*self.trainer._updaters, *([store._updater] if store and store._updater else [])]

    def arrays(self) -> list[nd.NDArray]:
        """Every array that a step writes."""
        store = self.trainer._kvstore
        found = [weight for param in self.params for weight in param.list_data()]
        for updater in self.updaters():
            found += arrays_in([updater.states[key] for key in sorted(updater.states)])
        return found + (arrays_in(list(store._values.values())) if store else [])

    def rules(self) -> list[Any]:
        rules = [updater.optimizer for updater in self.updaters()]
        return [*rules, *(rule.lr_scheduler for rule in rules)]

    def copied(self) -> Any:
        return [a.asnumpy() for a in self.arrays()], [attributes(rule) for rule in self.rules()]

    def prepare(self) -> None:
        mx.random.seed(5)
        for array, values in zip(self.arrays(), self.old[0]):
            array[:] = values
        for rule, values in zip(self.rules(), self.old[1]):
            put_back(vars(rule), copy.deepcopy(values))
        self.freshen()

    def snapshot(self) -> Any:
        fresh = [w._fresh_grad for param in self.params for w in param.list_data()]
        values, rules = self.copied()
        return [v.tobytes() for v in values], repr(rules), fresh

    def work(self) -> object:
        self.trainer.step(1)
        return None

    def check(self) -> None:
        found = self.snapshot()
        parts = ("arrays", "optimizers", "fresh gradients")
        news = [part for part, x, old in zip(parts, found, self.seen[0]) if x != old]
        assert found in self.seen, f"neither old nor new, changed are: {', '.join(news)}"
        super().check()


def arrays_in(value: Any) -> list[nd.NDArray]:
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in arrays_in(part)]
    return [value] if isinstance(value, nd.NDArray) else []


def attributes(rule: Any) -> dict[str, Any]:
    """State of an optimizer or a scheduler, without parameters and arrays."""
    passing = ("param_dict", "lr_scheduler", "weight_previous")
    return {k: copy.deepcopy(v) for k, v in vars(rule).items() if k not in passing}


def put_back(known: dict[str, Any], before: dict[str, Any]) -> None:
    """Write values into dictionaries that stay the same objects."""
    for key, value in before.items():
        if isinstance(value, dict) and isinstance(known.get(key), dict):
            for extra in known[key].keys() - value.keys():
                del known[key][extra]
            put_back(known[key], value)
        else:
            known[key] = value


OPTIMIZERS: dict[str, Mapping[str, Any]] = {
    "sgd": {"momentum": 0.9},
    "nag": {"momentum": 0.9},
    "signum": {},
    "adam": {},
    "adamax": {},
    "nadam": {},
    "adagrad": {},
    "groupadagrad": {},
    "rmsprop": {"centered": True},
    "adadelta": {},
    "ftrl": {},
    "ftml": {},
    "dcasgd": {"momentum": 0.9},
    "lamb": {},
    "lars": {"momentum": 0.9},
    "lbsgd": {"momentum": 0.9},
    "sgld": {},
    "test": {},
}
for _name, _given in OPTIMIZERS.items():
    type(
        f"Stepped{_name.title()}",
        (Stepped,),
        {"optimizer": _name, "given": _given},
        name=f"step-{_name}",
    )


class SteppedContexts(Stepped, name="step-contexts"):
    contexts = (mx.cpu(0), mx.cpu(1))
    trainer_given = {"update_on_kvstore": False, "kvstore": None}


class SteppedContextsNadam(SteppedContexts, name="step-contexts-nadam"):
    optimizer = "nadam"


class SteppedByStore(Stepped, name="step-by-store"):
    contexts = (mx.cpu(0), mx.cpu(1))
    trainer_given = {"update_on_kvstore": True}


# ---- calls on fixed arrays


class BoundCall(Case, name="bound-call"):
    def ready(self) -> None:
        self.x = nd.array(self.subject.inputs[0].asnumpy())
        self.call = self.subject.net.bind(self.x)

    def work(self) -> object:
        return self.call()

    def check(self) -> None:
        right = self.subject.expected(self.subject.held())
        for number in EIGHT:
            self.x[:] = self.subject.inputs[number]
            assert [self.call().asnumpy().tobytes()] == right[number], (
                f"input {number} gives other bits"
            )
        super().check()


class BoundChange(BoundCall, SetData, name="bound-set-data"):
    def work(self) -> object:
        self.change()
        return self.call()


class Bind(BoundCall, name="bind"):
    kind = "lines"

    def prepare(self) -> None:
        self.subject.net.hybridize()

    def work(self) -> object:
        call = self.subject.net.bind(self.x)
        call()
        self.call = call
        return call


# ---- new signatures, and compilations


def unfinished() -> list[str]:
    """Files in the cache of objects that are none."""
    return [path.name for path in Path(config.cache_dir).glob(".*")]


class NewSignature(Case, name="new-signature"):
    """Of two signatures one is kept, so that each is new whenever the other one was called.

    Its objects are in the cache.
    """

    shapes = [(2, 5), (7, 5)]

    def set_up(self) -> None:
        self.replace(config, "cache_dir", self.path("objects"))

    def ready(self) -> None:
        self.subject.net.hybridize(cache_size=1)
        for number in range(4):
            self.subject.net(self.subject.inputs[number])

    def prepare(self) -> None:
        self.subject.net(self.subject.inputs[0])

    def work(self) -> object:
        return self.subject.net(self.subject.inputs[1])

    def check(self) -> None:
        super().check()
        assert not unfinished(), f"unfinished objects: {unfinished()}"


class NewSizes(Case, name="new-sizes"):
    """A call with a batch never seen, which a variant serves without a compilation."""

    shapes = [(2, 5), (3, 5), (4, 5), (6, 5)]

    def ready(self) -> None:
        self.subject.net.hybridize(cache_size=8)
        for x in self.subject.inputs:
            self.subject.net(x)
        self.sizes = itertools.count(8)

    def prepare(self) -> None:
        self.x = nd.array(arrays((next(self.sizes), 5), 1))

    def work(self) -> object:
        return self.subject.net(self.x)

    def check(self) -> None:
        super().check()
        found = outputs(self.subject.net, self.x)
        for mine, first in zip(found, outputs(self.subject.net, self.x[:2])):
            assert mine[:2].tobytes() == first.tobytes(), "a sample has other bits"


class FirstCall(Case, name="first-call"):
    """Traced and compiled; nothing is in any cache. Parameters get their shapes and values too."""

    kind = "lines"

    def set_up(self) -> None:
        self.replace(config, "cache_dir", self.path("objects"))

    def prepare(self) -> None:
        values = self.subject.sets[0]
        self.net = self.subject.build(deferred=True)
        for name, param in self.net.collect_params().items():
            param.initialize()
            param.set_data(nd.array(values[name]))
        self.net.hybridize()
        generate._KERNELS.clear()
        for path in Path(config.cache_dir).glob("*"):
            path.unlink()

    def work(self) -> object:
        return self.net(self.subject.inputs[0])

    def check(self) -> None:
        assert not unfinished(), f"unfinished objects: {unfinished()}"
        self.subject.check(self.process.other, self.net)
        self.process.check()


class FirstCallWithWorkers(FirstCall, name="first-call-with-workers"):
    """With more threads than one, other processes compile too."""

    def set_up(self) -> None:
        super().set_up()
        self.replace(compile_pool, "_WORTH_A_PROCESS", 1)


class FirstCallAtOpcodes(FirstCall, name="first-call-cached"):
    """All work that does not need LLVM: its objects are in the cache."""

    kind = "opcodes"

    def prepare(self) -> None:
        self.net = self.subject.made()
        for name, param in self.net.collect_params().items():
            param.set_data(nd.array(self.subject.sets[0][name]))


class Hybridize(Case, name="hybridize"):
    kind = "lines"

    def work(self) -> object:
        self.subject.net.hybridize(False)
        self.subject.net.hybridize(static_alloc=True)
        return self.subject.net(self.subject.inputs[0])

    def check(self) -> None:
        self.subject.net.hybridize()
        super().check()


class Verify(Case, name="verify"):
    kind = "lines"

    def work(self) -> object:
        return self.subject.net.verify(self.subject.inputs[0])


# ---- files


class Writes(Case):
    """Old files are there; each is whole afterwards, the old one or the new, and nothing else is.

    ``names`` belong together: all are old, or all are new.
    """

    kind = "lines"
    names: Sequence[str] = ("net.params",)

    def ready(self) -> None:
        self.work()
        self.new = self.contents()
        assert set(self.new) == set(self.names)
        self.old = {name: b"old " + name.encode() for name in self.names}

    def contents(self) -> dict[str, bytes]:
        return {entry.name: entry.read_bytes() for entry in self.folder.iterdir()}

    def prepare(self) -> None:
        for name, content in self.old.items():
            (self.folder / name).write_bytes(content)

    def check(self) -> None:
        found = self.contents()
        assert found in (self.old, self.new), (
            f"files: { {name: data[:20] for name, data in found.items()} }"
        )
        self.prepare()
        self.work()
        assert self.contents() == self.new, "saving again does not save"
        mask = os.umask(0)
        os.umask(mask)
        assert mask == self.process.mask
        super().check()


class SaveParameters(Writes, name="save-parameters"):
    def work(self) -> object:
        self.subject.net.save_parameters(self.path("net.params"))
        return None


class Export(Writes, name="export"):
    names = ("net-symbol.json", "net-0000.params")

    def work(self) -> object:
        return self.subject.net.export(self.path("net"))


class SaveModel(Writes, name="save-model"):
    names = ("net-model.json", "net-model.params")

    def work(self) -> object:
        self.subject.net.save(self.path("net"))
        return None


class SaveCheckpoint(Writes, name="save-checkpoint"):
    names = ("net-symbol.json", "net-0003.params")

    def work(self) -> object:
        params = {name: p.data() for name, p in self.subject.net.collect_params().items()}
        symbol = self.subject.net(mx.sym.var("data"))
        mx.model.save_checkpoint(self.path("net"), 3, symbol, params, {})
        return None


class Exported(Case):
    """There are files of the network to load."""

    kind = "lines"

    def ready(self) -> None:
        self.subject.net.export(self.path("net"))
        self.net: Any = None

    def prepare(self) -> None:
        self.net = None

    def check(self) -> None:
        if self.net is None:
            self.work()
        self.subject.check(self.process.other, self.net)
        self.process.check()


class Load(Exported, name="load"):
    def work(self) -> object:
        self.net = mx.load(self.path("net"))
        return self.net


class Imports(Exported, name="imports"):
    def work(self) -> object:
        net = gluon.SymbolBlock.imports(
            self.path("net-symbol.json"), ["data"], self.path("net-0000.params")
        )
        self.net = net
        return net


class LoadArrays(Exported, name="nd-load"):
    def work(self) -> object:
        return nd.load(self.path("net-0000.params"))

    def check(self) -> None:
        found = {name.partition(":")[2]: a.asnumpy() for name, a in self.work().items()}
        for name, values in self.subject.sets[0].items():
            np.testing.assert_array_equal(found[name], values)
        Case.check(self)


class Pickle(Exported, name="pickle"):
    def work(self) -> object:
        self.net = pickle.loads(pickle.dumps(self.subject.net))
        return self.net


# ---- MXNet's older ways


class Executed(Case):
    """An executor of the network's graph."""

    def ready(self) -> None:
        self.symbol = self.subject.net(mx.sym.var("data"))
        self.executor = self.bound()

    def bound(self) -> Any:
        executor = self.symbol.simple_bind(mx.cpu(), data=self.shapes[0])
        params = self.subject.net.collect_params().items()
        executor.copy_params_from({name: param.data() for name, param in params})
        return executor

    def check(self) -> None:
        right = self.subject.expected(self.subject.held())
        for number in EIGHT:
            (found,) = self.executor.forward(data=self.subject.inputs[number])
            assert [found.asnumpy().tobytes()] == right[number], f"input {number} gives other bits"
        super().check()


class Forward(Executed, name="executor-forward"):
    def work(self) -> object:
        return self.executor.forward(data=self.subject.inputs[1])


class SimpleBind(Executed, name="simple-bind"):
    kind = "lines"

    def work(self) -> object:
        executor = self.bound()
        executor.forward(data=self.subject.inputs[1])
        self.executor = executor
        return executor


class ModuleForward(Case, name="module-forward"):
    """A batch of another size than the one before."""

    shapes = [(2, 5), (7, 5)]

    def ready(self) -> None:
        symbol = self.subject.net(mx.sym.var("data"))
        self.module = mx.mod.Module(symbol, label_names=None)
        self.module.bind([("data", self.shapes[0])], for_training=False)
        params = self.subject.net.collect_params().items()
        self.module.set_params({name: param.data() for name, param in params}, {})

    def prepare(self) -> None:
        self.forward(0)

    def forward(self, number: int) -> bytes:
        self.module.forward(DataBatch([self.subject.inputs[number]], None))
        return self.module.get_outputs()[0].asnumpy().tobytes()

    def work(self) -> object:
        return self.forward(1)

    def check(self) -> None:
        right = self.subject.expected(self.subject.held())
        for number in EIGHT:
            assert [self.forward(number)] == right[number], f"input {number} gives other bits"
        super().check()


# ---- batches of data


class Batches(Case, name="loader"):
    """Worker processes stay, and speak of the batches of the next round."""

    way: dict[str, object] = {"num_workers": 2, "prefetch": 12}

    def ready(self) -> None:
        self.data = np.arange(20 * 3000, dtype=np.float32).reshape(20, 3000)
        self.loader = gluon.data.DataLoader(self.data, 2, timeout=PATIENCE, **self.way)
        self.work()

    def work(self) -> object:
        return [batch.asnumpy() for batch in self.loader]

    def check(self) -> None:
        assert (np.concatenate(self.work()) == self.data).all(), "batches are in another order"
        super().check()

    def close(self) -> None:
        del self.loader
        super().close()


class BatchesAhead(Batches, name="loader-auto-reload"):
    way = {"num_workers": 2, "auto_reload": True}


class BatchesOfThreads(Batches, name="loader-threads"):
    way = {"num_workers": 2, "thread_pool": True}
