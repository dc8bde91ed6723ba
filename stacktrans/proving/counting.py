"""Whether a machine goes on with a pattern of counts, whatever these are: by induction.

A run of a symbol is read step by step, with unknown counts. Where the machine comes back to the
same state, and its stacks differ from before only in how long their topmost run of one kind is,
it does the same again as long as that run is long enough, and as there is something to read: this
is done at once, as often as it can be. What depends on the counts is split into cases.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stacktrans.machines.running import NoRule, Stepper, Transition, Transitions
from stacktrans.proving.courses import Unproved
from stacktrans.proving.symbolic import (
    Case,
    Run,
    Runs,
    Stack,
    Sum,
    Undecided,
    at_least,
    changed,
    divided,
    least,
    put,
    unknown,
)
from stacktrans.tasks.streams import Counting

LONGEST_CYCLE = 6
"""The most steps after which a machine does the same again."""
MOST_STEPS = 10_000
"""The most steps that are taken."""
MOST_STARTS = 50
"""The most different contents of memories that sequences begin with."""
MANY = 5
"""Cells of a kind that a sequence leaves behind, from which on it is not known how many."""


MOST_TRIED = 2_000
"""The most sequences that are tried to find a shorter one that goes wrong."""
Step = tuple[int, int | None]
"""A symbol, and what is to be said to it; None where nothing is scored."""


class Part(NamedTuple):
    """A run of a sequence.

    Attributes:
        symbol: by its number.
        length: in terms of the counts, by their numbers.
        inner: what is to be said to all of its symbols but the last; None where nothing is scored.
        last: what is to be said to the last.
    """

    symbol: int
    length: Sum
    inner: int | None
    last: int | None

    def sum_of(self, counts: Sequence[Sum]) -> Sum:
        """Its length with some counts."""
        return self.length.put(dict(enumerate(counts)))


def parts_of(task: Counting) -> list[Part]:
    """The runs of a sequence; raises `Unproved` if their lengths are no sums of counts."""
    names = [block.introduces for block in task.blocks if block.introduces]
    numbers = {name: number for number, name in enumerate(names)}
    known = 1 + max(index for index, block in enumerate(task.blocks) if block.introduces)
    found = []
    for index, block in enumerate(task.blocks):
        length = Sum()
        for term in block.terms:
            times, counts = 1, [factor for factor in term if isinstance(factor, str)]
            for factor in term:
                times *= factor if isinstance(factor, int) else 1
            if len(counts) > 1:
                raise Unproved("only lengths that are sums of counts are followed")
            length += unknown(numbers[counts[0]]) * times if counts else times
        following = (index + 1) % len(task.blocks)
        scored = index >= known
        found.append(Part(index, length, *((index, following) if scored else (None, None))))
    return found


class Place(NamedTuple):
    """Where a machine is in a sequence whose counts are not known.

    Attributes:
        counts: each of the sequence.
        part: the number of the run that it reads.
        left: how many symbols of it are left.
        state: of the machine.
        held: what each stack holds.
    """

    counts: tuple[Sum, ...]
    part: int
    left: Sum
    state: int
    held: tuple[Runs, ...]

    def put(self, case: Case) -> Place:
        """The same in a case."""
        counts = tuple(each.put(case) for each in self.counts)
        return self._replace(counts=counts, left=self.left.put(case), held=put(self.held, case))


class Start(NamedTuple):
    """Where a sequence begins: the state, and what each stack holds."""

    state: int
    held: tuple[Runs, ...]


class Wrong(Exception):
    """Something wrong is said.

    Args:
        counts: of the sequence in which it is.
        before: the counts of those that were read before, as far as known.
    """

    def __init__(self, counts: tuple[int, ...], before: tuple[tuple[int, ...], ...]) -> None:
        self.counts, self.before = counts, before
        super().__init__()


@dataclass
class Counted:
    """What an induction was made of.

    Attributes:
        steps: how many were taken.
        repeated: how many cycles were repeated as often as they can be.
        cases: how many ways sequences can go, by their counts.
        starts: how many different contents of memories sequences begin with.
    """

    steps: int = 0
    repeated: int = 0
    cases: int = 0
    starts: int = 1


class Induction:
    """An induction over the counts of sequences, any number of which follow one another.

    Args:
        transitions: of the machine, which works at the tops of its memories.
        parts: of a sequence.

    Raises:
        Unproved: the machine works at bottoms.
    """

    def __init__(self, transitions: Transitions, parts: Sequence[Part]) -> None:
        self._transitions, machine = transitions, transitions.machine
        self._memories = memories = machine.memories
        self._parts, self._first = parts, Start(machine.start, ((),) * len(machine.kinds))
        places = enumerate(memories.places, start=1)
        self._reads = {place: read for place, read in places if place in transitions.relevant}
        self._seen = self._followed()
        moved = (end for _, *ends in memories.moves for end in ends)
        worked = (*(end for _, end in (*memories.pops, *memories.pushes)), *moved)
        read = (end for end, _ in self._reads.values())
        if any(end % 2 for end in (*worked, *read) if end // 2 in self._seen):
            raise Unproved("the machine works at the bottom of a memory")
        self.found = Counted()

    def _followed(self) -> frozenset[int]:
        """The memories that something is ever read of, or taken from for one of them.

        What others hold does not matter.
        """
        seen = {end // 2 for end, _ in self._reads.values()}
        for _ in self._memories.moves:
            seen |= {taken // 2 for _, taken, onto in self._memories.moves if onto // 2 in seen}
        return frozenset(seen)

    def go(self) -> Counted:
        """Follow all sequences; raises `Wrong` and `Unproved`."""
        known: dict[Start, tuple[tuple[int, ...], ...]] = {self._first: ()}
        coming = deque([self._first])
        while coming:
            start = coming.popleft()
            before = known[start]
            for place, after in self._ends(start, before):
                if after not in known:
                    known[after] = (*before, tuple(each.first for each in place.counts))
                    coming.append(after)
            if len(known) > MOST_STARTS:
                raise Unproved("sequences leave too many different things behind in memories")
            self.found.starts = len(known)
        return self.found

    def _ends(
        self, start: Start, before: tuple[tuple[int, ...], ...]
    ) -> Iterator[tuple[Place, Start]]:
        """All that sequences which begin somewhere lead to."""
        number = 1 + max(index for part in self._parts for index, _ in part.length.parts)
        counts = tuple(unknown(each) for each in range(number))
        places = [Place(counts, 0, self._parts[0].sum_of(counts), *start)]
        while places:
            place = places.pop()
            try:
                if place.part < len(self._parts):
                    places.append(self._further(place, before))
                else:
                    yield place, self._left_behind(place)
                    self.found.cases += 1
            except Undecided as undecided:
                # The least counts first: what goes wrong is shown with them.
                places += [place.put(case) for case in reversed(undecided.cases)]
            if self.found.steps > MOST_STEPS:
                raise Unproved("the machine does not do the same again and again in long runs")

    def _left_behind(self, place: Place) -> Start:
        """Where the next sequence begins; of many cells of a kind it is not known how many."""
        numbers, held = itertools.count(len(place.counts)), []
        for runs in place.held:
            kept = []
            for kind, times in runs:
                many = at_least(times, MANY)
                kept.append(Run(kind, unknown(next(numbers)) + (MANY - 1) if many else times))
            held.append(tuple(kept))
        return Start(place.state, tuple(held))

    def _further(self, place: Place, before: tuple[tuple[int, ...], ...]) -> Place:
        """A step on, or many; raises `Undecided` and `Wrong`."""
        again = None if place.left.fixed is not None else self._again(place)
        return again or self._on(place, before)

    def _on(self, place: Place, before: tuple[tuple[int, ...], ...]) -> Place:
        """A step on."""
        part, last = self._parts[place.part], not at_least(place.left, 2)
        stacks = [Stack(held) for held in place.held]
        done, expected = self._step(part, place.state, stacks), part.last if last else part.inner
        if done is None or expected not in (None, done.output):
            raise Wrong(tuple(each.first for each in place.counts), before)
        held = tuple(stack.held for stack in stacks)
        place = place._replace(left=place.left - 1, state=done.after, held=held)
        if not last:
            return place
        number = place.part + 1
        left = self._parts[number].sum_of(place.counts) if number < len(self._parts) else Sum()
        return place._replace(part=number, left=left)

    def _again(self, place: Place) -> Place | None:
        """As far on as the same is done again and again from here; None if it is not."""
        part, state = self._parts[place.part], place.state
        stacks = [Stack(held) for held in place.held]
        for length in range(1, LONGEST_CYCLE + 1):
            try:
                done = self._step(part, state, stacks) if at_least(place.left, length + 1) else None
            except Undecided:
                return None
            if done is None or part.inner not in (None, done.output):
                return None
            state = done.after
            pairs = zip(stacks, place.held, strict=True)
            changes = [stack.grown(held) for stack, held in pairs]
            if state == place.state and None not in changes:
                grown = [each or 0 for each in changes]
                return self._repeated(place, length, grown, [each.reached for each in stacks])
        return None

    def _repeated(
        self, place: Place, length: int, grown: Sequence[int], reached: Sequence[int]
    ) -> Place:
        """As far on as a cycle can be repeated: all but one of the symbols that are left, at most.

        Args:
            place: where it begins.
            length: of the cycle.
            grown: by how much each stack is higher after it.
            reached: how many cells on top of each have to be of one kind for it.
        """
        times = divided(place.left - 1, length)
        for runs, change, cells in zip(place.held, grown, reached, strict=True):
            if change < 0:
                times = least(times, divided(runs[-1].times - cells, -change) + 1)
        held = tuple(
            changed(own, times * change) if change else own
            for own, change in zip(place.held, grown, strict=True)
        )
        self.found.repeated += 1
        return place._replace(left=place.left - times * length, held=held)

    def _step(self, part: Part, state: int, stacks: Sequence[Stack]) -> Transition | None:
        """What the machine does, as `stacktrans.machines.running` does it."""
        self.found.steps += 1
        reads = self._reads
        kinds = [
            stacks[reads[place][0] // 2].read(reads[place][1]) if place in reads else 0
            for place in range(1, len(self._memories.reads) + 1)
        ]
        done = self._transitions.step((part.symbol, *kinds, state))
        if done is None:
            return None
        for end in done.pops:
            if end // 2 in self._seen:
                stacks[end // 2].pop()
        for end, kind in done.pushes:
            if end // 2 in self._seen:
                stacks[end // 2].push(kind)
        for taken, onto in done.moves:
            if taken // 2 in self._seen:
                kind = stacks[taken // 2].pop()
                if onto // 2 in self._seen:
                    stacks[onto // 2].push(kind)
        return done


def sequence(parts: Sequence[Part], counts: Sequence[int]) -> list[Step]:
    """The symbols of a sequence with some counts."""
    found: list[Step] = []
    for part in parts:
        length = part.sum_of([*map(Sum, counts)]).constant
        found += [*[(part.symbol, part.inner)] * (length - 1), (part.symbol, part.last)]
    return found


def goes_wrong(transitions: Transitions, row: Sequence[Step]) -> bool:
    """Whether a machine, run as always, says something wrong to symbols in a row."""
    try:
        said = [*Stepper(transitions).run(symbol for symbol, _ in row)]
    except NoRule:
        return True
    return any(right not in (None, own) for own, (_, right) in zip(said, row, strict=True))


def shortest_wrong(
    transitions: Transitions, parts: Sequence[Part], counts: tuple[int, ...]
) -> tuple[int, ...]:
    """The prompt of the shortest sequence that goes wrong, if it is found soon.

    Otherwise that of the sequence with the given counts, which does.
    """
    smaller = (
        tuple(end - begin for begin, end in itertools.pairwise((0, *cuts, size)))
        for size in range(len(counts), sum(counts))
        for cuts in itertools.combinations(range(1, size), len(counts) - 1)
    )
    tried = itertools.islice(smaller, MOST_TRIED)
    wrong = (each for each in tried if goes_wrong(transitions, sequence(parts, each)))
    counts = next(wrong, counts)
    known = next(index for index, part in enumerate(parts) if part.inner is not None)
    return (*(symbol for symbol, _ in sequence(parts, counts) if symbol < known), known)
