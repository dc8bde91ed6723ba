"""How a machine and its task's own go on together: what is read, and what is to be said.

A course has states, any hashable things. From each it goes on by moves; a move that a machine has
answered leads to the next state, or to an end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from stacktrans.machines.definition import Machine
from stacktrans.machines.running import Transition
from stacktrans.proving.references import Reference, Step

FINISHED, WRONG = "finished", "wrong"
"""Where a course ends: there is nothing more to say, or something wrong was said."""
LATEST = 8
"""The most symbols that an answer may be late, or early."""
MANY = 12
"""Steps that are left, from which on it does not matter how many there are."""


class Unproved(Exception):
    """There is no proof; the message says why, in a sentence."""


class Move(NamedTuple):
    """A step of both.

    Attributes:
        symbol: what the machine reads.
        source: the symbol of the source that is new in this step; None if none is.
        step: what the task's own machine does, with its pops and pushes; None for nothing.
        expected: the output that is to be said; None for any.
        after: the next state.
    """

    symbol: int
    source: int | None
    step: Step | None
    expected: int | None
    after: Any


class Course:
    """The course of a machine and a reference; each symbol is answered when it is read.

    Args:
        machine: the machine.
        reference: the task's own.
        letters: the symbols of sources that are read.
    """

    start: Any

    def __init__(self, machine: Machine, reference: Reference, letters: frozenset[int]) -> None:
        self.machine, self.reference, self._letters = machine, reference, letters
        self.start = reference.start

    def moves(self, state: Any, top: Hashable | None) -> Iterator[Move]:
        """The moves from a state, where something (None: nothing) is read of the task's memory."""
        for step in self._reads(state, top):
            yield Move(self._symbol(step), step.symbol, step, step.said, step.after)

    def looks(self, state: Any) -> bool:
        """Whether it matters what is read of the task's memory."""
        return True

    def judged(self, move: Move, done: Transition | None) -> Any:
        """The next state, `FINISHED` or `WRONG`, where the machine has a rule or has none."""
        if done is None or (move.expected is not None and done.output != move.expected):
            return WRONG
        return move.after

    def own(self, state: Any) -> Hashable:
        """The state of the reference in a state of this."""
        return state  # type: ignore[no-any-return]

    def _reads(self, state: Hashable, top: Hashable | None) -> Iterator[Step]:
        steps = self.reference.reads(state, top)
        return (step for step in steps if step.symbol in self._letters)

    def _symbol(self, step: Step) -> int:
        return self.machine.layout.first_source + step.symbol


class Joint(Course):
    """The answer follows the source, and each symbol of it is read before the next is said.

    A state is the next symbol if that is certain (-1 if it is not), and that of the reference.
    """

    def __init__(self, machine: Machine, reference: Reference, letters: frozenset[int]) -> None:
        super().__init__(machine, reference, letters)
        (self._begin,), (self._separator,) = machine.layout.before, machine.layout.after
        self.start = self._begin, reference.start

    def moves(self, state: Any, top: Hashable | None) -> Iterator[Move]:
        symbol, own = state
        if symbol == self._begin:
            yield Move(symbol, None, None, None, (-1, own))
        elif symbol >= 0:
            yield self._answer(symbol, own, top)
        else:
            for step in self._reads(own, top):
                yield Move(self._symbol(step), step.symbol, step, None, (-1, step.after))
            if self.reference.ends(own, top):
                yield self._answer(self._separator, own, top)

    def _answer(self, symbol: int, own: Hashable, top: Hashable | None) -> Move:
        step, layout = self.reference.answers(own, top), self.machine.layout
        assert step.said is not None
        assert layout.first_target is not None
        if step.said < 0:
            return Move(symbol, None, step, layout.end, FINISHED)
        return Move(symbol, None, step, step.said, (layout.first_target + step.said, step.after))

    def own(self, state: Any) -> Hashable:
        return state[1]  # type: ignore[no-any-return]


class Waits(NamedTuple):
    """Where a machine with buffers is.

    Attributes:
        own: the state of the reference, which is ahead: it has read `current` already.
        current: the symbol that can be read; -1 if it was read, and the next is not yet chosen.
        over: whether the source is at its end.
        due: what is to be said and is not yet written, None for anything.
        early: what is written before it is known what is to be said.
        skip: how many outputs are still dropped.
        left: how many steps are left, as far as is known of the source.
        many: whether there may be more steps.
    """

    own: Hashable
    current: int
    over: bool
    due: tuple[int | None, ...]
    early: tuple[int, ...]
    skip: int
    left: int
    many: bool


class Buffered(Course):
    """The machine says when it goes on reading, and when it writes."""

    def __init__(self, machine: Machine, reference: Reference, letters: frozenset[int]) -> None:
        super().__init__(machine, reference, letters)
        assert machine.buffers is not None
        self._buffers = machine.buffers
        skip, further = self._buffers.output_skip, self._buffers.extra_steps
        self.start = self._capped(Waits(reference.start, -1, False, (), (), skip, further, False))

    def _capped(self, at: Waits) -> Waits:
        return at._replace(left=min(at.left, MANY), many=at.many or at.left > MANY)

    def moves(self, state: Waits, top: Hashable | None) -> Iterator[Move]:
        if state.over:
            yield Move(self.machine.nothing, None, None, None, state)
        elif state.current >= 0:
            yield Move(state.current, None, None, None, state)
        else:
            for step in self._reads(state.own, top):
                symbol, left = self._symbol(step), state.left + self._buffers.steps_per_symbol
                after = state._replace(
                    own=step.after, current=symbol, due=(*state.due, step.said), left=left
                )
                yield Move(symbol, step.symbol, step, None, self._capped(after))
            if self.reference.ends(state.own, top):
                yield Move(self.machine.nothing, None, None, None, state._replace(over=True))

    def looks(self, state: Waits) -> bool:
        return state.current < 0 and not state.over

    def judged(self, move: Move, done: Transition | None) -> Any:
        state: Waits | str = self._compared(move.after)
        if not isinstance(state, Waits):
            return state
        if state.over and (state.left == 0 or not state.due):
            return self._ended(state)
        if state.left == 0:
            raise Unproved("the machine stays at a symbol for longer than its steps allow")
        if done is None:
            return WRONG
        *_, reads, writes = done.signals
        state = state._replace(left=state.left - 1, current=-1 if reads else state.current)
        if writes:
            state = self._written(state, done.output)
        state = self._compared(state)
        if isinstance(state, Waits) and state.over and (state.left == 0 or not state.due):
            return self._ended(state)
        return state

    def _written(self, state: Waits, said: int) -> Waits:
        if state.skip:
            return state._replace(skip=state.skip - 1)
        if state.over and not state.due:
            return state
        return state._replace(early=(*state.early, said))

    def _compared(self, state: Waits) -> Waits | str:
        """What was written and what is due, without the part that they both have."""
        due, early = state.due, state.early
        while due and early:
            if due[0] is not None and due[0] != early[0]:
                return WRONG
            due, early = due[1:], early[1:]
        if max(len(due), len(early)) > LATEST:
            raise Unproved(f"the machine answers more than {LATEST} symbols late, or early")
        return state._replace(due=due, early=early)

    def _ended(self, state: Waits) -> str:
        """What is not written counts as the first symbol."""
        if state.many and any(said is not None for said in state.due):
            raise Unproved("it is not known whether the machine has steps enough to answer")
        return FINISHED if all(said in (None, 0) for said in state.due) else WRONG

    def own(self, state: Any) -> Hashable:
        return state.own  # type: ignore[no-any-return]


def course_of(machine: Machine, reference: Reference, letters: frozenset[int]) -> Course:
    """The course of a machine and a reference; raises `Unproved`."""
    layout = machine.layout
    if not (layout.feeds_back or layout.ends_answers):
        return (Buffered if machine.buffers else Course)(machine, reference, letters)
    if layout.feeds_back and not (layout.consecutive or machine.buffers):
        return Joint(machine, reference, letters)
    raise Unproved("answers in buffers that are longer or shorter than sources are not looked at")
