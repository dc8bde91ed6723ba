"""All that a machine and its task's own can come to, side by side.

What is reached is kept in situations. Where something that is not known has to be looked at, a
situation waits at a node, and goes on in as many ways as the node has edges, now or later. If
nothing is left to be looked at, no string leads to anything else.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stacktrans.common.ends import BOTTOM, TOP
from stacktrans.machines.definition import EMPTY
from stacktrans.machines.running import Transition, Transitions
from stacktrans.proving.courses import FINISHED, WRONG, Course, Move, Unproved
from stacktrans.proving.references import QUEUE
from stacktrans.proving.tapes import (
    BACK,
    FRONT,
    UNKNOWN,
    Block,
    Broke,
    Broken,
    Contents,
    Lacking,
    Tape,
)

MOST_SITUATIONS = 50_000
"""The most situations of a proof, and of a search for a shorter source that is answered wrongly."""


class Situation(NamedTuple):
    """What is known of both machines after some steps.

    Attributes:
        course: the state of their course.
        state: of the machine.
        held: what memories hold that are apart, in their order.
        tape: what the others hold, beside that of the task.
    """

    course: Any
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
        transitions: of the machine.
        course: its course with the task's own.
        tape: how the memories are described that go with the task's own.
        along: these memories, by their numbers: at which end of the tape their top is.
        apart: what is assumed of other memories; of those that are neither, nothing is read.
    """

    def __init__(
        self,
        transitions: Transitions,
        course: Course,
        tape: Tape,
        along: Mapping[int, int],
        apart: Mapping[int, Contents],
    ) -> None:
        self._transitions, self._machine, self._course = transitions, course.machine, course
        self._tape, self._along, self._apart = tape, along, apart
        self._parts = {number: part for part, number in enumerate(along, start=1)}
        self._places = {number: place for place, number in enumerate(apart)}
        self._pop_end = FRONT if course.reference.memory == QUEUE else BACK
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
            Unproved: the course cannot be followed, or there are too many situations.
        """
        for number in self._apart:
            self._add_kind(number, EMPTY)
        held = tuple(each.start for each in self._apart.values())
        start = Situation(self._course.start, self._machine.start, held, self._tape.start)
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
        except Broken as broken:
            numbers = [None, *self._along]
            raise Broke(numbers[broken.part], broken.why) from None

    def _step(self, situation: Situation, length: int) -> None:
        course = self._course
        self._found.states.add((course.own(situation.course), situation.state))
        top = None
        if course.reference.memory and course.looks(situation.course):
            top = self._tape.read(situation.tape, 0, self._pop_end)
        kinds = [
            self._read(situation, place, end, depth)
            for place, (end, depth) in enumerate(self._machine.memories.places, start=1)
        ]
        for move in course.moves(situation.course, top):
            done = self._transitions.step((move.symbol, *kinds, situation.state))
            self._take(situation, move, done, length)

    def _read(self, situation: Situation, place: int, end: int, depth: int) -> int:
        """The kind that is read in a place; raises `Lacking`, `Broken` and `Broke`."""
        number, side = divmod(end, 2)
        if place not in self._transitions.relevant:
            return EMPTY
        if number in self._parts:
            at = self._end(number, side)
            kind = self._tape.read(situation.tape, self._parts[number], at, depth)
            return EMPTY if kind is None else kind  # type: ignore[return-value]
        held = situation.held[self._places[number]]
        kind = self._apart[number].read(held, side, depth)
        if kind == UNKNOWN:
            raise Lacking(("kinds", number, side))
        return kind

    def _end(self, number: int, side: int) -> int:
        """The end of the tape at which a side of a memory, top or bottom, is."""
        top = self._along[number]
        return 1 - top if side else top

    def _take(self, situation: Situation, move: Move, done: Transition | None, length: int) -> None:
        """Take a step of both machines."""
        own = () if move.source is None else (move.source,)
        trail: Trail = (self._trails[situation], own)
        length += sum(map(self._course.reference.length, own))
        after = self._course.judged(move, done)
        if after == WRONG and (self._shortest is None or length < self._shortest):
            self._found.wrong = self._source(situation, own)
            self._shortest = length if self._tape.whole else 0
        if done is None or after in (FINISHED, WRONG):
            return
        held = self._held(situation, done)
        head = after, done.after, held
        tape, edges = self._tape.settled(self._on_tape(situation.tape, move, done), head)
        for node, value in edges:
            self._add_edge(node, value, trail)
            if self._tape.exact:
                trail = ()
        self._add(Situation(*head, tape), trail, length)

    def _held(self, situation: Situation, done: Transition) -> tuple[Any, ...]:
        """What memories hold that are apart after a step."""
        found = []
        apart = self._apart.items()
        for (number, contents), held in zip(apart, situation.held, strict=True):
            popped = [end % 2 for end in done.pops if end // 2 == number]
            pushed = [(end % 2, kind) for end, kind in done.pushes if end // 2 == number]
            for _, kind in pushed:
                self._add_kind(number, kind)
            found.append(contents.stepped(held, popped, pushed))
        return tuple(found)

    def _on_tape(self, tape: Any, move: Move, done: Transition) -> Any:
        """The tape after the pops and the pushes of a step."""
        step, parts = move.step, self._parts
        if step and step.pops:
            tape = self._tape.popped(tape, 0, self._pop_end)
        for end in done.pops:
            if end // 2 in parts:
                at = self._end(end // 2, end % 2)
                tape = self._tape.popped(tape, parts[end // 2], at)
        pushed: dict[int, list[Hashable]] = {0: [*step.pushed]} if step else {}
        for end, kind in done.pushes:
            if end // 2 not in parts:
                continue
            if self._end(end // 2, end % 2) == FRONT:
                tape = self._tape.pushed(tape, FRONT, self._block({parts[end // 2]: [kind]}))
            else:
                pushed.setdefault(parts[end // 2], []).append(kind)
        block = self._block(pushed)
        if any(block):
            tape = self._tape.pushed(tape, BACK, block)
            self._found.blocks.add(block)
        return tape

    def _block(self, pushed: Mapping[int, Sequence[Hashable]]) -> Block:
        return tuple(tuple(pushed.get(part, ())) for part in range(len(self._parts) + 1))

    def _add_kind(self, number: int, kind: int) -> None:
        """From now on a memory can hold a kind."""
        for side in (TOP, BOTTOM):
            self._add_edge(("kinds", number, side), kind, ())

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
            case ("kinds", int(number), int(side)):
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
