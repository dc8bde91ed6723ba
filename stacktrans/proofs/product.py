"""The product of a machine and its reference automaton, and all that it can come to.

A product has states, any hashable things. From each it goes on by moves; a move that a machine has
answered leads to the next state, or to an end. What is reached, with what memories hold, is kept in
situations. Where something that is not known has to be looked at, a situation waits at a node, and
goes on in as many ways as the node has edges, now or later. If nothing is left to be looked at, no
string leads to anything else.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stacktrans.automata.machine import Machine, Transition
from stacktrans.automata.rules import EMPTY, START
from stacktrans.common.ends import BOTTOM, TOP
from stacktrans.proofs.references import QUEUE, Continuation, Reference
from stacktrans.proofs.tapes import BACK, FRONT, UNKNOWN, Block, Contents, Lacking, Tape

FINISHED, WRONG = "finished", "wrong"
"""The final situations of a product: the answer is complete, or an output was wrong."""
LATEST = 8
"""The most symbols that an answer may be late, or early."""
MANY = 12
"""Steps that are left, from which on it does not matter how many there are."""
MOST_SITUATIONS = 50_000
"""The most situations of a proof, and of a search for a shorter source that is answered wrongly."""


class Unproved(Exception):
    """There is no proof; the message says why, in a sentence."""


class Move(NamedTuple):
    """A step of both.

    Attributes:
        symbol: what the machine reads.
        step: what the reference automaton does, with its pops and pushes; None for nothing.
        expected: the output that is to be said; None for any.
        after: the next state.
    """

    symbol: int
    step: Continuation | None
    expected: int | None
    after: Any


class Product:
    """The product of a machine and a reference; each symbol is answered when it is read.

    Args:
        machine: the machine.
        reference: the task's own.
        symbols: those of sources that are read.
    """

    start: Any

    def __init__(self, machine: Machine, reference: Reference, symbols: frozenset[int]) -> None:
        self.machine, self.reference, self._symbols = machine, reference, symbols
        self.start = reference.start

    def moves(self, state: Any, top: Hashable | None) -> Iterator[Move]:
        """The moves from a state, where something (None: nothing) is read of the task's memory."""
        for symbol, step in self._reads(state, top):
            yield Move(symbol, step, step.said, step.after)

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

    def _reads(self, state: Hashable, top: Hashable | None) -> Iterator[tuple[int, Continuation]]:
        """What can come next of a source, each with the symbol that the machine reads."""
        first, steps = self.machine.layout.first_source, self.reference.reads(state, top)
        return ((first + step.symbol, step) for step in steps if step.symbol in self._symbols)


class JointProduct(Product):
    """The answer follows the source, and each symbol of it is read before the next is said.

    A state is the next symbol if that is certain (-1 if it is not), and that of the reference.
    """

    def __init__(self, machine: Machine, reference: Reference, symbols: frozenset[int]) -> None:
        super().__init__(machine, reference, symbols)
        (self._begin,), (self._separator,) = machine.layout.before, machine.layout.after
        self.start = self._begin, reference.start

    def moves(self, state: Any, top: Hashable | None) -> Iterator[Move]:
        symbol, own = state
        if symbol == self._begin:
            yield Move(symbol, None, None, (-1, own))
        elif symbol >= 0:
            yield self._answer(symbol, own, top)
        else:
            for read, step in self._reads(own, top):
                yield Move(read, step, None, (-1, step.after))
            if self.reference.ends(own, top):
                yield self._answer(self._separator, own, top)

    def _answer(self, symbol: int, own: Hashable, top: Hashable | None) -> Move:
        step, layout = self.reference.answers(own, top), self.machine.layout
        assert step.said is not None
        assert layout.first_target is not None
        if step.said < 0:
            return Move(symbol, step, layout.end, FINISHED)
        return Move(symbol, step, step.said, (layout.first_target + step.said, step.after))

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


class BufferedProduct(Product):
    """The machine says when it goes on reading, and when it writes."""

    def __init__(self, machine: Machine, reference: Reference, symbols: frozenset[int]) -> None:
        super().__init__(machine, reference, symbols)
        assert machine.buffers is not None
        self._buffers = machine.buffers
        skip, further = self._buffers.output_skip, self._buffers.extra_steps
        self.start = self._capped(Waits(reference.start, -1, False, (), (), skip, further, False))

    def _capped(self, at: Waits) -> Waits:
        return at._replace(left=min(at.left, MANY), many=at.many or at.left > MANY)

    def moves(self, state: Waits, top: Hashable | None) -> Iterator[Move]:
        if state.over:
            yield Move(self.machine.no_input, None, None, state)
        elif state.current >= 0:
            yield Move(state.current, None, None, state)
        else:
            for symbol, step in self._reads(state.own, top):
                due, left = (*state.due, step.said), state.left + self._buffers.steps_per_symbol
                after = state._replace(own=step.after, current=symbol, due=due, left=left)
                yield Move(symbol, step, None, self._capped(after))
            if self.reference.ends(state.own, top):
                yield Move(self.machine.no_input, None, None, state._replace(over=True))

    def looks(self, state: Waits) -> bool:
        return state.current < 0 and not state.over

    def judged(self, move: Move, done: Transition | None) -> Any:
        state = self._settled(move.after)
        if not isinstance(state, Waits):
            return state
        if state.left == 0:
            raise Unproved("the machine stays at a symbol for longer than its steps allow")
        if done is None:
            return WRONG
        *_, reads, writes = done.signals
        state = state._replace(left=state.left - 1, current=-1 if reads else state.current)
        if writes and state.skip:
            state = state._replace(skip=state.skip - 1)
        elif writes:
            state = state._replace(early=(*state.early, done.output))
        return self._settled(state)

    def _settled(self, state: Waits) -> Waits | str:
        """A state without what is both due and written; `FINISHED` or `WRONG` if it is the last.

        What is never written counts as the first symbol.
        """
        due, early = state.due, state.early
        while due and early:
            if due[0] not in (None, early[0]):
                return WRONG
            due, early = due[1:], early[1:]
        if max(len(due), len(early)) > LATEST:
            raise Unproved(f"the machine answers more than {LATEST} symbols late, or early")
        if not state.over or (state.left and due):
            return state._replace(due=due, early=early)
        if state.many and any(said is not None for said in due):
            raise Unproved("it is not known whether the machine has steps enough to answer")
        return FINISHED if all(said in (None, 0) for said in due) else WRONG

    def own(self, state: Any) -> Hashable:
        return state.own  # type: ignore[no-any-return]


def product_of(machine: Machine, reference: Reference, symbols: frozenset[int]) -> Product:
    """The product of a machine and a reference; raises `Unproved`."""
    layout = machine.layout
    if not (layout.feeds_back or layout.ends_answers):
        return (BufferedProduct if machine.buffers else Product)(machine, reference, symbols)
    if layout.feeds_back and not (layout.consecutive or machine.buffers):
        return JointProduct(machine, reference, symbols)
    raise Unproved("answers in buffers that are longer or shorter than sources are not looked at")


class Situation(NamedTuple):
    """What is known of both machines after some steps.

    Attributes:
        product: the state of their product.
        state: of the machine.
        held: what memories hold that are apart, in their order.
        tape: what the others hold, beside that of the task.
    """

    product: Any
    state: int
    held: tuple[Any, ...]
    tape: Any


Trail = tuple[Any, ...]
"""Symbols of a source: none, one, or two trails after one another."""


@dataclass
class Explored:
    """What was found.

    Attributes:
        wrong: a source that is answered wrongly, if one is found, by the numbers of its symbols;
            it can be the beginning of one. Unless what is assumed is exact, it need not be wrong.
        situations: how many there are.
        states: the states of the task's own machine and of the other that go together.
        blocks: what is pushed together.
    """

    wrong: list[int] | None = None
    situations: int = 0
    states: set[tuple[Hashable, int]] = field(default_factory=set)
    blocks: set[Block] = field(default_factory=set)


class Explorer:
    """An exploration.

    Args:
        product: of the machine with the task's own.
        tape: how the memories are described that go with the task's own.
        along: these memories, by their numbers: at which end of the tape their top is.
        apart: what is assumed of other memories; of those that are neither, nothing is read.
    """

    def __init__(
        self, product: Product, tape: Tape, along: Mapping[int, int], apart: Mapping[int, Contents]
    ) -> None:
        self._product = product
        self._tape, self._along, self._apart = tape, along, apart
        self._places = {number: place for place, number in enumerate(apart)}
        self._pop_end = FRONT if product.reference.memory == QUEUE else BACK
        self._trails: dict[Situation, Trail] = {}
        # Of each node its edges, each with the symbols read since the node below was reached.
        self._edges: defaultdict[Hashable, dict[Any, Trail]] = defaultdict(dict)
        self._waiting: defaultdict[Hashable, list[Situation]] = defaultdict(list)
        self._coming: list[tuple[int, int, Situation]] = []
        self._order = itertools.count()
        self._found = Explored()
        self._shortest: int | None = None

    def explore(self) -> Explored:
        """Look at everything that can be reached, up to something wrong.

        On tapes that are wholly known, situations come in the order of the lengths of sources, and
        the shortest that is answered wrongly is found.

        Raises:
            Broke: what is assumed does not hold.
            Unproved: the product cannot be followed, or there are too many situations.
        """
        for number in self._apart:
            self._add_stack_symbol(number, EMPTY)
        held = tuple(each.start for each in self._apart.values())
        start = Situation(self._product.start, START, held, self._tape.start)
        self._add(start, (), 0)
        while self._coming and (self._shortest is None or self._coming[0][0] < self._shortest):
            length, _, situation = heapq.heappop(self._coming)
            self._go_on(situation, length)
        self._found.situations = len(self._trails)
        return self._found

    def _add(self, situation: Situation, trail: Trail, length: int) -> None:
        if situation in self._trails:
            return
        if len(self._trails) >= MOST_SITUATIONS:
            raise Unproved(f"there are more than {MOST_SITUATIONS:,} situations to look at")
        self._trails[situation] = trail
        heapq.heappush(self._coming, (length, next(self._order), situation))

    def _go_on(self, situation: Situation, length: int) -> None:
        try:
            self._step(situation, length)
        except Lacking as lacking:
            self._waiting[lacking.node].append(situation)
            for value in self._edges[lacking.node]:
                self._reveal(situation, lacking.node, value)

    def _step(self, situation: Situation, length: int) -> None:
        product = self._product
        self._found.states.add((product.own(situation.product), situation.state))
        top = None
        if product.reference.memory and product.looks(situation.product):
            top = self._tape.read(situation.tape, 0, self._pop_end)
        stack_symbols = [
            self._read(situation, component, end, depth)
            for component, (end, depth) in enumerate(
                product.machine.memories.read_positions, start=1
            )
        ]
        for move in product.moves(situation.product, top):
            done = product.machine.transition((move.symbol, *stack_symbols, situation.state))
            self._take(situation, move, done, length)

    def _read(self, situation: Situation, component: int, end: int, depth: int) -> int:
        """The stack symbol that is read, a component; raises `Lacking` and `Broke`."""
        number, side = divmod(end, 2)
        if component not in self._product.machine.relevant:
            return EMPTY
        if number in self._along:
            stack_symbol = self._tape.read(situation.tape, number + 1, self._end(end), depth)
            return EMPTY if stack_symbol is None else stack_symbol  # type: ignore[return-value]
        held = situation.held[self._places[number]]
        stack_symbol = self._apart[number].read(held, side, depth)
        if stack_symbol == UNKNOWN:
            raise Lacking(("stack symbols", number, side))
        return stack_symbol

    def _end(self, end: int) -> int:
        """The end of the tape at which an end of a memory is."""
        return self._along[end // 2] ^ end % 2

    def _take(self, situation: Situation, move: Move, done: Transition | None, length: int) -> None:
        """Take a step of both machines."""
        own = (move.step.symbol,) if move.step and move.step.symbol >= 0 else ()
        trail: Trail = (self._trails[situation], own)
        length += sum(map(self._product.reference.length, own))
        after = self._product.judged(move, done)
        if after == WRONG and (self._shortest is None or length < self._shortest):
            self._found.wrong = self._source(situation, own)
            self._shortest = length if self._tape.whole else 0
        if done is None or after in (FINISHED, WRONG):
            return
        head = after, done.next_state, self._held(situation, done)
        tape, edges = self._tape.settled(self._on_tape(situation.tape, move, done), head)
        for node, value in edges:
            self._add_edge(node, value, trail)
            if self._tape.exact:
                trail = ()
        self._add(Situation(*head, tape), trail, length)

    def _held(self, situation: Situation, done: Transition) -> tuple[Any, ...]:
        """What memories hold that are apart after a step."""
        found = []
        for number, held in zip(self._apart, situation.held, strict=True):
            popped = [end % 2 for end in done.pops if end // 2 == number]
            pushed = [
                (end % 2, stack_symbol) for end, stack_symbol in done.pushes if end // 2 == number
            ]
            for _, stack_symbol in pushed:
                self._add_stack_symbol(number, stack_symbol)
            found.append(self._apart[number].stepped(held, popped, pushed))
        return tuple(found)

    def _on_tape(self, tape: Any, move: Move, done: Transition) -> Any:
        """The tape after the pops and the pushes of a step."""
        step, along = move.step, self._along
        if step and step.pops:
            tape = self._tape.popped(tape, 0, self._pop_end)
        for end in done.pops:
            if end // 2 in along:
                tape = self._tape.popped(tape, end // 2 + 1, self._end(end))
        pushed: dict[int, list[Hashable]] = {0: [*step.pushed]} if step else {}
        for end, stack_symbol in done.pushes:
            part = end // 2 + 1
            if end // 2 in along and self._end(end) == FRONT:
                tape = self._tape.pushed(tape, FRONT, self._block({part: [stack_symbol]}))
            elif end // 2 in along:
                pushed.setdefault(part, []).append(stack_symbol)
        block = self._block(pushed)
        if any(block):
            tape = self._tape.pushed(tape, BACK, block)
            self._found.blocks.add(block)
        return tape

    def _block(self, pushed: Mapping[int, Sequence[Hashable]]) -> Block:
        parts = range(len(self._product.machine.stack_symbols) + 1)
        return tuple(tuple(pushed.get(part, ())) for part in parts)

    def _add_stack_symbol(self, number: int, stack_symbol: int) -> None:
        """From now on a memory can hold a stack symbol."""
        for side in (TOP, BOTTOM):
            self._add_edge(("stack symbols", number, side), stack_symbol, ())

    def _add_edge(self, node: Hashable, value: Any, trail: Trail) -> None:
        if value in self._edges[node]:
            return
        self._edges[node][value] = trail
        for situation in self._waiting[node]:
            self._reveal(situation, node, value)

    def _reveal(self, situation: Situation, node: Hashable, value: Any) -> None:
        """Go on from a situation that waits at a node, by one of its edges."""
        trail = self._trails[situation]
        match node:
            case ("stack symbols", int(number), int(side)):
                place = self._places[number]
                ends = [*situation.held[place]]
                ends[side] = value
                held = (*situation.held[:place], tuple(ends), *situation.held[place + 1 :])
                self._add(situation._replace(held=held), trail, 0)
            case _:
                for tape in self._tape.revealed(situation.tape, value):
                    known = (self._edges[node][value], trail)
                    self._add(situation._replace(tape=tape), known, 0)

    def _source(self, situation: Situation, own: Trail) -> list[int]:
        """A source that leads to a situation, and on by some symbols."""
        trail: Trail = (self._trails[situation], own)
        node = self._tape.below(situation.tape)
        while node is not None:
            value, before = next(iter(self._edges[node].items()))
            trail = (before, trail)
            node = self._tape.beyond(value)
        return _flat(trail)


def _flat(trail: Trail) -> list[int]:
    """The symbols of a trail."""
    found, left = list[int](), [trail]
    while left:
        each = left.pop()
        if isinstance(each, int):
            found.append(each)
        else:
            left += reversed(each)
    return found
