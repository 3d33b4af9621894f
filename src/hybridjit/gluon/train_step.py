"""``train_step``: a network, its loss and a trainer as one function of a batch.

Input: a hybrid network, a loss and a :class:`.trainer.Trainer`. Output: a callable with the same
numerical results as a loop of ``record``, ``backward`` and ``trainer.step``. Network and loss are
one graph. Its forward and its backward executable use fixed memory and no tape, and write gradients
into the gradient arrays of the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any

import numpy as np

from .._core.async_safety import restoring
from .._core.config import config
from .._core.frames import FAILURES, public, shortened
from .._core.recording import FLAGS, recording_as
from .._core.types import type_of
from ..errors import MXNetError
from ..graph_exec.cached_graph import CachedGraph
from ..graph_exec.training import leading_variables, stages_of
from ..nd import NDArray
from ..nd.buffers import Places
from ..nd.fixed_gamma import put_ones
from ..nd.storage import WRITES, Storage, together_written
from ..nd.tape import Leaf
from ..runtime.arena import address_of
from ..runtime.cache import Limit
from ..runtime.executable import Executable, Stage
from ..runtime.instance import Instance
from ..runtime.results import spans
from ..runtime.saved import SAVED, Layout
from ..trained import Trained
from .hybrid_block import HybridBlock
from .step_library import training_of
from .structure import Format, Nested, regroup
from .trainer import Trainer
from .utils import clip_global_norm as clip_together

__all__ = ["TrainStep", "train_step"]

_DATA, _ENTRY = attrgetter("_data"), attrgetter("_entry")


@public
def train_step(
    net: HybridBlock,
    loss: HybridBlock,
    trainer: Trainer,
    *,
    labels: int = 1,
    clip_global_norm: float | None = None,
    ignore_stale_grad: bool = False,
) -> TrainStep:
    """Make a function ``step(*inputs, *labels)`` that trains on one batch and returns the loss.

    Results equal those of this loop. A step is faster, mostly for small networks:

        with autograd.record():
            value = loss(net(*inputs), *labels)
        value.backward()
        trainer.step(batch_size)

    Parameters
    ----------
    net : HybridBlock
        The network.
    loss : HybridBlock
        Its loss, which receives the network's results and the labels.
    trainer : Trainer
        Trainer of the parameters, on one context.
    labels : int
        Number of trailing arguments of a step that go to the loss.
    clip_global_norm : float, optional
        Bound of the 2-norm of all gradients together, before they are divided by the batch size;
        see ``gluon.utils.clip_global_norm``.
    ignore_stale_grad : bool
        Passed to ``Trainer.step``.

    Raises
    ------
    TypeError
        If ``net`` or ``loss`` is not a hybrid block, or ``trainer`` is not a Trainer.
    ValueError
        If a block has hooks, or the trainer has several contexts or a loss scaler.

    Examples
    --------
    >>> net = nn.Dense(1)
    >>> net.initialize()
    >>> trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> step = mx.train_step(net, gluon.loss.L2Loss(), trainer)
    >>> step(nd.ones((4, 2)), nd.ones((4, 1))).shape
    (4,)
    """
    return TrainStep(net, loss, trainer, labels, clip_global_norm, ignore_stale_grad)


class _Joined(HybridBlock):
    """A network and its loss as one block."""

    def __init__(self, net: HybridBlock, loss: HybridBlock, labels: int) -> None:
        super().__init__(prefix="train_step_")
        self.net = net
        self.loss = loss
        self._labels = labels

    def forget(self) -> None:
        """Discard the trace, and copy the flags of the network for the next one."""
        self._clear_cached_op()
        self._flags = dict(self.net._flags)

    def hybrid_forward(self, F: object, x: object, *args: object, **kwargs: object) -> object:
        arguments = (x, *args)
        first = len(arguments) - self._labels
        return self.loss(self.net(*arguments[:first]), *arguments[first:])


class TrainStep:
    """Training step: the result of :func:`train_step`.

    The first call traces the network; call :meth:`reset` after changes of its code or children.
    Parameters, ``grad_req``, learning rates and optimizer states may change at any time.
    """

    def __init__(
        self,
        net: HybridBlock,
        loss: HybridBlock,
        trainer: Trainer,
        labels: int,
        clip_global_norm: float | None,
        ignore_stale_grad: bool,
    ) -> None:
        _check_parts(net, loss, trainer)
        if labels < 0:
            raise ValueError(
                f"labels is the number of arguments for the loss, at least 0; got {labels}"
            )
        self._block = _Joined(net, loss, labels)
        self._least = labels + 1
        self._trainer = trainer
        self._bound = clip_global_norm
        self._ignore_stale_grad = ignore_stale_grad
        self.reset()

    def __repr__(self) -> str:
        net, loss = self._block.net, self._block.loss
        count = len(self._ready)
        state = f"{count} compiled signature{'' if count == 1 else 's'}"
        return (
            f"TrainStep({net.name or type(net).__name__}, {type(loss).__name__}, "
            f"{self._trainer.optimizer}: {state})"
        )

    def reset(self) -> None:
        """Discard the trace and the compiled code; the next call makes new ones."""
        self._block.forget()
        net, size = self._block.net, self._block._flags.get("cache_size")
        self._limit = Limit(f"train_step of {net.name}", size)  # type: ignore[arg-type]
        self._ready: dict[object, _Ready] = {}

    def __call__(self, *args: NDArray, batch_size: float | None = None) -> Nested:
        """Update the parameters with this batch, and return its loss.

        Gradients are divided by ``batch_size``, by default the length of the first argument.
        Raises TypeError if an argument is not an NDArray or too few are given; MXNetError under
        ``autograd.record``, if an argument is a variable, if no parameter has a gradient, or if
        operators reject the arrays; UserWarning as :meth:`.Trainer.step`.
        """
        try:
            self._check_arguments(args)
            size = args[0].shape[0] if batch_size is None else batch_size
            ready = self._ready_for(args)
            losses = ready.run([array._data for array in args])
            self._update(ready, size)
            self._keep(ready)
            kind = args[0]._plain
            return regroup([kind(y, args[0]._ctx) for y in losses], ready.out_format)
        except FAILURES as error:
            raise shortened(error)

    def _update(self, ready: _Ready, size: float) -> None:
        """Write the new states of layers, and update the parameters.

        All writes are one unit for other threads, except with a distributed store: no lock is
        held while it waits for other processes.
        """
        self._trainer._prepare()
        if self._trainer._is_distributed:
            self._write(ready, size)
        else:
            self._write_together(ready, size)

    @together_written
    def _write_together(self, ready: _Ready, size: float) -> None:
        self._write(ready, size)

    def _write(self, ready: _Ready, size: float) -> None:
        ready.put_states()
        if self._bound is not None:
            clip_together(self._gradients(), self._bound)
        self._trainer.step(size, self._ignore_stale_grad)

    def export_library(
        self,
        folder: str,
        *args: NDArray,
        name: str = "model",
        target: str = "",
        threads: bool = False,
        weights: str = "inside",
        input_names: Sequence[str] | None = None,
    ) -> list[str]:
        """Write the step for arrays of these types as a C library; return the paths of its files.

        ``NAME.h`` declares ``NAME_step``: forward, loss, backward and update, with the bits of
        a call, starting from the current values and states. ``target`` names CPUs, separated by
        commas (default: this CPU). ``threads`` lets contexts have several threads. ``weights`` is
        "inside" (in the object) or "file" (separate file). This method does not train. Raises the
        exceptions of a call; MXNetError for features without library support (an operator or an
        optimizer without a kernel, a global gradient norm) and for files that cannot be written;
        ValueError for another value of ``weights``.
        """
        from ..library.files import export_training  # noqa: PLC0415 (see test_layers.py)

        if weights not in ("inside", "file"):
            raise ValueError(f"weights is 'inside' or 'file', got {weights!r}")
        training = training_of(self, args, input_names)
        return export_training(training, folder, name, target, threads, weights == "file")

    def _gradients(self) -> list[NDArray]:
        params = self._trainer._params
        return [grad for param in params if param.grad_req != "null" for grad in param.list_grad()]

    def _check_arguments(self, args: Sequence[object]) -> None:
        if len(args) < self._least:
            raise TypeError(f"a step takes at least {self._least} arrays, got {len(args)}")
        for number, array in enumerate(args):
            if not isinstance(array, NDArray):
                raise TypeError(
                    f"a step takes NDArrays; argument {number} is {type(array)}: pass nd.array(x)"
                )
            if array._entry is not None:
                raise MXNetError(
                    f"a step computes gradients of parameters only, and argument {number} is a"
                    " variable or was recorded: detach() it, or write the loop"
                )
        if FLAGS.recording:
            raise MXNetError("a step records internally: call it outside of autograd.record()")

    # ---- prepared executables -----------------------------------------------------------------

    def _ready_for(self, args: Sequence[NDArray]) -> _Ready:
        """Take the prepared step for these types out of the cache: calls never share memory."""
        key = (*(type_of(array._data) for array in args), config.fingerprint())
        ready = self._ready.pop(key, None)
        if ready is None or not ready.fits():
            ready = self._prepared(key, args)
        return ready

    def _keep(self, ready: _Ready) -> None:
        self._ready[ready.key] = ready
        while self._limit.is_exceeded(len(self._ready), self._nbytes()):
            self._ready.pop(next(iter(self._ready)), None)

    def _nbytes(self) -> int:
        return sum(each.nbytes for each in self._ready.values())

    @restoring(FLAGS)
    def _prepared(self, key: object, args: Sequence[NDArray]) -> _Ready:
        cached = self._block._build(args)
        named = cached.graph._named(args)
        with recording_as(True, True):
            wanted = leading_variables(named)
            if not wanted:
                raise MXNetError("a step needs a parameter with a gradient: the network has none")
            if cached.graph.by_rows:
                raise MXNetError(
                    "a step computes dense gradients, and a parameter has a row_sparse gradient: "
                    "omit"
                    " sparse_grad and grad_stype, or write the loop"
                )
            trained = cached.graph.training.compiled_for(named, wanted)
        return _Ready(key, trained, named, cached.graph, cached.trace.out_format)


class _Ready:
    """Forward and backward executable of one signature, with fixed memory.

    The signatures of a variant share memory: a step with new sizes takes 7 to 50 ms longer if the
    system has to zero pages for them (LSTM of 256 units, 16 samples of 5 to 59 steps, Zen 4).
    """

    def __init__(
        self,
        key: object,
        trained: Trained,
        named: Mapping[str, NDArray],
        graph: CachedGraph,
        out_format: Format,
    ) -> None:
        assert trained.backward is not None
        self.key = key
        self.out_format = out_format
        self._inputs = graph.input_names
        given = set(self._inputs)
        self._params = {name: array for name, array in named.items() if name not in given}
        self._held = [self._params[name] for name in self._params]
        self._given = [*graph.params.values()]
        self._is_plain = all(param._is_plain for param in self._given)
        self._arrays, self._replaced = [*map(_DATA, self._given)], WRITES.replaced
        self._entries = [*map(_ENTRY, self._held)]
        self._leaves = {name: leaf for name, x in self._params.items() if (leaf := x._leaf)}
        self._places = Places([*self._held, *(leaf.grad for leaf in self._leaves.values())])
        self._states = [named[name] for name in trained.joint.updates]
        self._fixed = graph.training.fixed(named)
        self._connect(trained, named)

    def _connect(self, trained: Trained, named: Mapping[str, NDArray]) -> None:
        """Allocate the memory of a step, and connect the executables to it."""
        joint, parts, back = trained.joint, trained.parts, trained.backward
        assert back is not None
        fixed = {name: array._data for name, array in named.items()}
        visible = len(joint.forward.outputs)
        types = trained.forward.output_types
        self._layout = Layout(types[visible:])
        self._is_shared = trained.values is not None
        saved = SAVED.take(self._layout)
        heads = [np.ones(*types[number]) for number in parts.heads]
        self._added: list[tuple[Leaf, np.ndarray]] = []
        made = [self._target(name) for name in joint.gradients]
        made += [np.empty(*kind) for kind in back.output_types[len(made) :]]
        self._in_place = [
            leaf if (leaf := self._leaves[name]).request == "write" else None
            for name in joint.gradients
        ]
        self._new_states = made[len(joint.gradients) :]
        self._unreached = [
            leaf for name, leaf in self._leaves.items() if name not in joint.gradients
        ]
        own = [*self._new_states, *(aside for _, aside in self._added)]
        own += [] if self._is_shared else saved
        self.nbytes = trained.nbytes + sum(array.nbytes for array in own)
        self._types = types[:visible]
        blank = [np.empty(*kind) for kind in self._types]
        names = [*named]
        is_alone = not self._is_shared
        self._forward = _Run(trained.forward, [fixed[n] for n in names], [*blank, *saved], is_alone)
        reads = [*(fixed[n] for n in parts.reads), *saved, *heads]
        back.results.arrays(reads, made)  # raises for gradients that share memory
        self._written = spans((at := address_of(x), at + x.nbytes) for x in made)
        self._backward = _Run(back, reads, made, is_alone)
        self._first_saved = len(parts.reads)
        if self._is_shared:
            self._put_saved([None] * len(saved))
        self._moving = [(self._forward, i, names.index(n)) for i, n in enumerate(self._inputs)]
        self._moving += [
            (self._backward, i, parts.reads.index(n))
            for i, n in enumerate(self._inputs)
            if n in parts.reads
        ]

    def _target(self, name: str) -> np.ndarray:
        """Array that backward writes: the gradient, or a buffer to add to it for grad_req "add"."""
        leaf = self._leaves[name]
        if leaf.request == "write":
            return leaf.grad._data
        aside = np.empty_like(leaf.grad._data)
        self._added.append((leaf, aside))
        return aside

    def fits(self) -> bool:
        """Whether parameters and gradients still use the connected memory."""
        if self._is_plain:
            same = self._replaced == WRITES.replaced
            same = same and all(map(is_, map(_DATA, self._given), self._arrays))
        else:
            same = all(p.data(x._ctx) is x for p, x in zip(self._given, self._held))
        same = same and all(map(is_, map(_ENTRY, self._held), self._entries))
        return same and self._places.unmoved() is not None

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Compute the losses, and write every gradient. Call :meth:`put_states` afterwards."""
        put_ones(self._fixed)
        held = self._places.memory()
        if self._is_shared:
            self._put_saved(SAVED.take(self._layout))
        losses = [np.empty(*kind) for kind in self._types]
        for number, array in enumerate(losses):
            self._forward.put_output(number, array)
        for run, number, place in self._moving:
            run.put_input(place, arrays[number])
            if run is self._backward and not self._written.are_apart_from(arrays[number]):
                run.require_apart()
        self._forward()
        written = {leaf.grad._storage: None for leaf in self._leaves.values()}
        self._backward(stages_of(self._backward.executable, self._in_place, written))
        self._store(written)
        if self._is_shared:
            self._put_saved([None] * len(self._layout.types))
        del held
        return losses

    def _put_saved(self, saved: Sequence[np.ndarray | None]) -> None:
        """Use these arrays for saved values from now on."""
        for number, array in enumerate(saved):
            self._forward.put_output(len(self._types) + number, array)
            self._backward.put_input(self._first_saved + number, array)

    def _store(self, written: Iterable[Storage]) -> None:
        """Finish the gradients as a tape does: add buffers, zero the unreached, mark as fresh."""
        for leaf, d in self._added:
            leaf.grad._write(leaf.grad._data + d)
        for leaf in self._unreached:
            if leaf.request == "write":
                leaf.grad._write(0)
        for storage in written:
            storage.bump()
        for leaf in self._leaves.values():
            leaf.fresh = True

    def put_states(self) -> None:
        """Write the layer states of the latest run, such as moving statistics."""
        for state, new in zip(self._states, self._new_states):
            state._write(new)


class _Run:
    """Executable with its arrays, fixed and replaceable; with private memory if it is alone."""

    def __init__(
        self,
        executable: Executable,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        is_alone: bool,
    ) -> None:
        binding = executable.binding
        assert binding is not None
        self.executable = executable
        self._inputs: list[Any] = list(inputs)
        self._outputs: list[Any] = list(outputs)
        self._instance: Instance | None = None
        if is_alone:
            self._instance = Instance(executable, binding, executable.thread_count)

    def put_input(self, number: int, array: np.ndarray | None) -> None:
        """Read input ``number`` from this array in the next calls."""
        self._inputs[number] = array

    def put_output(self, number: int, array: np.ndarray | None) -> None:
        """Write output ``number`` to this array in the next calls."""
        self._outputs[number] = array

    def require_apart(self) -> None:
        """Raise MXNetError if a written array shares memory with another array."""
        self.executable.results.arrays(self._inputs, self._outputs)

    def __call__(self, stages: Sequence[Stage] = ()) -> None:
        if config.checks_steps or self._instance is None:
            self.executable.run_into(self._inputs, self._outputs, stages)
            return
        self._instance.connect(*self._inputs, *self._outputs)
        self.executable.run_segments(self._instance, self._inputs, self._outputs, stages)


def _check_parts(net: object, loss: object, trainer: object) -> None:
    for what, block in (("net", net), ("loss", loss)):
        if not isinstance(block, HybridBlock):
            raise TypeError(f"{what} of a train_step must be a HybridBlock, got {type(block)}")
        if block._forward_hooks or block._forward_pre_hooks or block._monitor is not None:
            raise ValueError(
                f"{what} has hooks, which a train_step would call only while it traces: detach "
                "them, or write the loop"
            )
    if not isinstance(trainer, Trainer):
        raise TypeError(f"trainer of a train_step must be a gluon.Trainer, got {type(trainer)}")
    if len(trainer._contexts) > 1:
        raise ValueError(
            f"a train_step trains on one context; the parameters of the trainer are on "
            f"{len(trainer._contexts)}"
        )
    if getattr(trainer, "_amp_loss_scaler", None) is not None:
        raise ValueError("a train_step does not scale losses, and the trainer has a loss scaler")
