"""What recurrent cells do with states and sequences, whatever family they are of.

The families are Gluon's blocks, over arrays or symbols, and ``mx.rnn``'s symbolic cells. In: steps
as one tensor or as a list, and states. Out: outputs in the form that was asked for, and the last
states. What differs between the families is in the methods of :class:`Cell` that each overrides.
Cells call each other by ``unroll``, because programs override that in cells of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .gates import States
from .sequences import Steps, cut, is_tensor, last_states, masked, reverse, unmodified


class Unrolling(NamedTuple):
    """The arguments of ``unroll``. ``lengths`` holds ``valid_length`` if the family has that."""

    length: int
    inputs: Any
    begin_state: States | None
    layout: str
    merge_outputs: bool | None
    lengths: tuple[Any, ...] = ()

    @property
    def valid_length(self) -> Any:
        return self.lengths[0] if self.lengths else None

    def over(
        self, cell: Any, inputs: Any, states: States | None, merge: bool | None
    ) -> tuple[Any, States]:
        """Unroll another cell as long."""
        return cell.unroll(self.length, inputs, states, self.layout, merge, *self.lengths)


class Cell:
    """One step is ``output, states = cell(inputs, states)``; steps and states are counted.

    What a family says:

    _cells    the cells inside, in order
    _infos    ``(batch size) -> shape and layout of each state``
    _formed   ``(length, steps, layout, merge) -> Steps``; see :func:`.sequences.formed`
    _initial  ``(steps) -> the cell's own initial states``
    """

    modifier = ""  # a cell around others, for the message of one that is inside of it
    _modified = False
    _prefix: str
    _cells: Sequence[Any] = ()
    _infos: Callable[..., list[dict[str, Any]]]
    _formed: Callable[[int | None, Any, str, bool | None], Steps]
    _initial: Callable[[Steps], States]

    def reset(self) -> None:
        """Start counting steps anew; before a cell is used for another sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._cells:
            cell.reset()

    def _begun(self, func: Callable[..., Any], infos: Iterable[Mapping[str, Any]]) -> States:
        """A state for each of ``infos``, made by ``func(name=..., **info)``."""
        self._require_unmodified()
        states = []
        for info in infos:
            self._init_counter += 1
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **info))
        return states

    def _require_unmodified(self) -> None:
        assert not self._modified, (
            f"After applying modifier cells (e.g. {self.modifier}) the base cell cannot be called "
            "directly. Call the modifier cell instead."
        )

    def _first(self, form: Steps, given: States | None) -> States:
        return self._initial(form) if given is None else given

    def _unrolled(self, asked: Unrolling) -> tuple[Any, States]:
        """What ``unroll`` returns: here step after step."""
        self.reset()
        length, inputs, begin_state, layout, merge_outputs, _ = asked
        form = self._formed(length, inputs, layout, False)
        states = self._first(form, begin_state)
        outputs: Any = []
        history = []
        for step in form.steps[:length]:
            output, states = self(step, states)  # type: ignore[operator]
            outputs.append(output)
            history.append(states)
        if asked.valid_length is not None:
            states = last_states(form.F, history, asked.valid_length)
            outputs = masked(form.F, outputs, length, asked.valid_length, form.axis, True)
        return self._formed(length, outputs, layout, merge_outputs).steps, states


class Several(Cell):
    """A cell made of others, whose states lie one after the other."""

    def _joined_infos(self, batch: int = 0) -> list[dict[str, Any]]:
        return [info for cell in self._cells for info in cell._infos(batch)]

    def _joined_states(self, *args: Any, **kwargs: Any) -> States:
        self._require_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(*args, **kwargs)]


class Row(Several):
    """Cells of which each takes the output of the one before."""

    def _with_states(self, states: States) -> list[tuple[Any, States]]:
        """The cells, each with its own of ``states``."""
        counts = [len(cell._infos()) for cell in self._cells]
        return list(zip(self._cells, cut(states, counts)))

    def _stepped(self, inputs: Any, states: States) -> tuple[Any, States]:
        self._counter += 1
        after = []
        for cell, own in self._with_states(states):
            assert not isinstance(cell, BothWays), (
                "a BidirectionalCell cannot be stepped: use unroll"
            )
            inputs, states_of_cell = cell(inputs, own)
            after += states_of_cell
        return inputs, after

    def _unrolled(self, asked: Unrolling) -> tuple[Any, States]:
        """Each cell over the whole sequence before the next."""
        self.reset()
        inputs, after = asked.inputs, []
        form = self._formed(asked.length, inputs, asked.layout, None)
        cells = self._with_states(self._first(form, asked.begin_state))
        for i, (cell, own) in enumerate(cells):
            merge = asked.merge_outputs if i == len(cells) - 1 else None
            inputs, states_of_cell = asked.over(cell, inputs, own, merge)
            after += states_of_cell
        return inputs, after


class BothWays(Several):
    """One cell forwards and one backwards, which takes the whole sequence."""

    def __call__(self, inputs: Any, states: States) -> Any:
        """Raises NotImplementedError: the backward cell needs the whole sequence."""
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def _both(self, asked: Unrolling, merge_backward: bool | None) -> tuple[Steps, Any, Any]:
        """The steps, and what each cell's ``unroll`` gives; the backward one's still reversed."""
        self.reset()
        form = self._formed(asked.length, asked.inputs, asked.layout, False)
        turned = reverse(form.steps, asked.length, asked.valid_length)
        states = self._first(form, asked.begin_state)
        left, right = self._cells
        count = len(left._infos(form.batch))
        forward = asked.over(left, form.steps, states[:count], asked.merge_outputs)
        return form, forward, asked.over(right, turned, states[count:], merge_backward)


class Dropping(Cell):
    """Dropout on a whole sequence at once where it is one tensor, else at each step.

    _dropped  ``(F, sequence, states) -> (sequence after dropout, states)``
    """

    _dropped: Callable[[Any, Any, States], tuple[Any, States]]

    def _unrolled(self, asked: Unrolling) -> tuple[Any, States]:
        self.reset()
        form = self._formed(asked.length, asked.inputs, asked.layout, asked.merge_outputs)
        if is_tensor(form.steps):
            return self._dropped(form.F, form.steps, asked.begin_state or [])
        return super()._unrolled(asked._replace(inputs=form.steps, lengths=()))


class Around(Cell):
    """A cell around ``base_cell``, which is called by this one alone."""

    base_cell: Any

    def _states_inside(self, *args: Any, **kwargs: Any) -> States:
        self._require_unmodified()
        with unmodified(self.base_cell):
            return self.base_cell.begin_state(*args, **kwargs)


class Residual(Around):
    """The base cell's output plus its input.

    _sum  ``(F, output, input) -> both added``, as a node of ``unroll``
    """

    _sum: Callable[[Any, Any, Any], Any]

    def _unrolled(self, asked: Unrolling) -> tuple[Any, States]:
        self.reset()
        with unmodified(self.base_cell):
            outputs, states = asked.over(
                self.base_cell, asked.inputs, asked.begin_state, asked.merge_outputs
            )
        merge = is_tensor(outputs) if asked.merge_outputs is None else asked.merge_outputs
        steps, axis, F, _ = self._formed(asked.length, asked.inputs, asked.layout, merge)
        if asked.valid_length is not None:
            steps = masked(F, steps, asked.length, asked.valid_length, axis, merge)
        if merge:
            return self._sum(F, outputs, steps), states
        return [self._sum(F, output, step) for output, step in zip(outputs, steps)], states


def zoned_out(F: Any, rate: float, new: Any, old: Any) -> Any:
    """``new``, but with probability ``rate`` what was before, while training."""
    return F.where(F.Dropout(F.ones_like(new), p=rate), new, old)
