"""The reference's side of the product: the next inputs, and outputs that are due, late or early.

A state of a `Product` determines the inputs that can come next and the output that the machine has
to give; a transition of the machine leads to the next. The machine's own state and the contents of
memories are in `stacktrans.proofs.reachability`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from stacktrans.automata.execution import Transition
from stacktrans.automata.machine import Machine
from stacktrans.proofs.references import Reference, ReferenceStep

FINISHED, WRONG = "finished", "wrong"
"""The final states of a product: the answer is complete, or an output was wrong."""
MAX_PENDING = 8
"""Maximum number of symbols by which a buffered machine may answer late or early."""
MAX_STEPS_LEFT = 12
"""Number of remaining steps of a buffered machine from which on they are not counted."""


Top = Callable[[], Hashable | None]
"""Reads the cell that the reference's memory gives; None if it is empty."""


class Unproved(Exception):
    """The prover found neither a proof nor a counterexample; the message gives the reason."""


class ProductStep(NamedTuple):
    """A step of the product: a step of the machine with one of the reference.

    Attributes:
        symbol: the input of the machine.
        reference: the step of the reference automaton; None if it takes none.
        expected: the output that the machine has to give; None for any.
        next_state: of the product.
    """

    symbol: int
    reference: ReferenceStep | None
    expected: int | None
    next_state: Any


class Product:
    """The product for synchronous tasks, in which each symbol is answered when it is read.

    A state is a tuple that begins with the state of the reference.

    Args:
        machine: the machine.
        reference: the reference automaton of its task.
        symbols: the source symbols that are read.
    """

    def __init__(self, machine: Machine, reference: Reference, symbols: frozenset[int]) -> None:
        self.machine, self.reference, self._symbols = machine, reference, symbols

    @property
    def start(self) -> Any:
        """The first state."""
        return (self.reference.start,)

    def steps(self, state: Any, top: Top) -> Iterator[ProductStep]:
        """The steps from a state, which may depend on what is read from the reference's memory."""
        for symbol, step in self._source_steps(state[0], top()):
            yield ProductStep(symbol, step, step.output, (step.next_state,))

    def after(self, step: ProductStep, transition: Transition | None) -> Any:
        """The state, perhaps final, after the machine's transition (None if no rule applies)."""
        if transition is None or step.expected not in (None, transition.output):
            return WRONG
        return step.next_state

    def _source_steps(
        self, state: Hashable, top: Hashable | None
    ) -> Iterator[tuple[int, ReferenceStep]]:
        """The symbols that can come next of a source, as inputs of the machine."""
        first, steps = self.machine.layout.first_source, self.reference.steps(state, top)
        return ((first + step.symbol, step) for step in steps if step.symbol in self._symbols)


class JointProduct(Product):
    """The product for tasks with the answer after the source, in which outputs are fed back.

    A state has the next input if it is certain, and -1 otherwise.
    """

    @property
    def start(self) -> Any:
        (begin,) = self.machine.layout.before
        return self.reference.start, begin

    def steps(self, state: Any, top: Top) -> Iterator[ProductStep]:
        (reference, symbol), layout = state, self.machine.layout
        if symbol in layout.before:
            yield ProductStep(symbol, None, None, (reference, -1))
        elif symbol >= 0:
            yield self._answer(symbol, reference, top())
        else:
            cell, (separator,) = top(), layout.after
            for source_symbol, step in self._source_steps(reference, cell):
                yield ProductStep(source_symbol, step, None, (step.next_state, -1))
            if self.reference.accepts(reference, cell):
                yield self._answer(separator, reference, cell)

    def _answer(self, symbol: int, state: Hashable, top: Hashable | None) -> ProductStep:
        step, layout = self.reference.answer(state, top), self.machine.layout
        assert step.output is not None
        assert layout.first_target is not None
        if step.output < 0:
            return ProductStep(symbol, step, layout.end, FINISHED)
        next_state = step.next_state, layout.first_target + step.output
        return ProductStep(symbol, step, step.output, next_state)


class BufferedState(NamedTuple):
    """A state of the product of a reference automaton and a machine with buffers.

    Attributes:
        reference: the state of the reference, which has already read `current`.
        current: the input that can be read; -1 if it was read, and the next is not yet chosen.
        at_end: whether the source has ended.
        due: expected outputs that are not yet written, None for any.
        early: outputs that are written before they are expected.
        skip: number of outputs that are still dropped.
        left: number of remaining steps, as far as the source is known, up to `MAX_STEPS_LEFT`.
        more: whether there may be more than `left`.
    """

    reference: Hashable
    current: int
    at_end: bool
    due: tuple[int | None, ...]
    early: tuple[int, ...]
    skip: int
    left: int
    more: bool


class BufferedProduct(Product):
    """The product for machines with buffers, which decide when to read and when to write."""

    @property
    def start(self) -> BufferedState:
        buffers = self.machine.buffers
        assert buffers is not None
        skip, left = buffers.output_skip, buffers.extra_steps
        return _capped(BufferedState(self.reference.start, -1, False, (), (), skip, left, False))

    def steps(self, state: BufferedState, top: Top) -> Iterator[ProductStep]:
        buffers, no_input = self.machine.buffers, self.machine.layout.inputs
        assert buffers is not None
        if state.at_end or state.current >= 0:
            yield ProductStep(no_input if state.at_end else state.current, None, None, state)
        else:
            cell = top()
            for symbol, step in self._source_steps(state.reference, cell):
                after = state._replace(
                    reference=step.next_state,
                    current=symbol,
                    due=(*state.due, step.output),
                    left=state.left + buffers.steps_per_symbol,
                )
                yield ProductStep(symbol, step, None, _capped(after))
            if self.reference.accepts(state.reference, cell):
                yield ProductStep(no_input, None, None, state._replace(at_end=True))

    def after(self, step: ProductStep, transition: Transition | None) -> Any:
        state = self._matched(step.next_state)
        if not isinstance(state, BufferedState):
            return state
        if state.left == 0:
            raise Unproved("the machine stays at a symbol for longer than its steps allow")
        if transition is None:
            return WRONG
        *_, reads, writes = transition.signals
        state = state._replace(left=state.left - 1, current=-1 if reads else state.current)
        if writes and state.skip:
            state = state._replace(skip=state.skip - 1)
        elif writes:
            state = state._replace(early=(*state.early, transition.output))
        return self._matched(state)

    def _matched(self, state: BufferedState) -> BufferedState | str:
        """A state without outputs that are both due and written; can be final.

        Outputs that are never written count as the first symbol.
        """
        due, early = state.due, state.early
        while due and early:
            if due[0] not in (None, early[0]):
                return WRONG
            due, early = due[1:], early[1:]
        if max(len(due), len(early)) > MAX_PENDING:
            raise Unproved(f"the machine answers more than {MAX_PENDING} symbols late, or early")
        if not state.at_end or (state.left and due):
            return state._replace(due=due, early=early)
        if state.more and due:
            raise Unproved("it is not known whether the machine has enough steps to answer")
        return FINISHED if all(output in (None, 0) for output in due) else WRONG


def _capped(state: BufferedState) -> BufferedState:
    more = state.more or state.left > MAX_STEPS_LEFT
    return state._replace(left=min(state.left, MAX_STEPS_LEFT), more=more)


def product_of(machine: Machine, reference: Reference, symbols: frozenset[int]) -> Product:
    """The product of a machine and a reference automaton; raises `Unproved` for other layouts."""
    layout = machine.layout
    if not (layout.feeds_back or layout.ends_answers):
        return (BufferedProduct if machine.buffers else Product)(machine, reference, symbols)
    if layout.feeds_back and not (layout.consecutive or machine.buffers):
        return JointProduct(machine, reference, symbols)
    raise Unproved("buffers are supported only where answers are as long as sources")
