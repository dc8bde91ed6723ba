"""Whether a machine goes on with a pattern of counts, whatever these are: by induction.

A run of a symbol is read step by step, with unknown counts. Where the machine comes back to the
same state, and its stacks differ from before only in the length of their topmost run, of one stack
symbol, it does the same again as long as that run is long enough, and as there is something to
read: this is done at once, as often as it can be.

A length is a sum of unknowns, each of which is any number from 1 on. What depends on the values is
asked of all of them at once. If the answer is not the same for all, the values are split into
cases, in each of which the unknowns are sums of others.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stacktrans.automata.machine import NO_RULE, Configuration, Machine
from stacktrans.automata.rules import EMPTY, START
from stacktrans.proofs.product import Unproved
from stacktrans.tasks.streams import Counting

LONGEST_CYCLE = 6
"""The most steps after which a machine does the same again."""
MOST_STEPS = 10_000
"""The most steps that are taken."""
MOST_STARTS = 50
"""The most different contents of memories that sequences begin with."""
MANY = 5
"""Cells of a stack symbol that a sequence leaves behind, from which on it is not known how many."""
MOST_TRIED = 2_000
"""The most sequences that are tried to find a shorter one that goes wrong."""
Step = tuple[int, int | None]
"""A symbol, and the output that is expected for it; None where nothing is scored."""
Counts = tuple[int, ...]
"""The counts of a sequence."""
Case = Mapping[int, "Sum"]
"""What some unknowns are; others stay what they are."""


class Undecided(Exception):
    """What was asked depends on the values.

    Args:
        cases: each value of the unknowns is in exactly one.
    """

    def __init__(self, *cases: Case) -> None:
        self.cases = cases
        super().__init__()


@dataclass(frozen=True)
class Sum:
    """A constant, and unknowns by their numbers, in order, each with how often it comes, but 0."""

    constant: int = 0
    parts: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, constant: int, times: Mapping[int, int]) -> Sum:
        """The sum of a constant and of unknowns, each so many times."""
        return cls(constant, tuple(sorted((each, n) for each, n in times.items() if n)))

    def __add__(self, other: Sum | int) -> Sum:
        if isinstance(other, int):
            return Sum(self.constant + other, self.parts)
        times = Counter(dict(self.parts))
        times.update(dict(other.parts))
        return Sum.of(self.constant + other.constant, times)

    def __mul__(self, factor: int) -> Sum:
        return Sum.of(self.constant * factor, {each: n * factor for each, n in self.parts})

    def __sub__(self, other: Sum | int) -> Sum:
        return self + other * -1

    @property
    def first(self) -> int:
        """The number that it is where all unknowns are 1."""
        return self.constant + sum(n for _, n in self.parts)

    def put(self, case: Case) -> Sum:
        """The same in a case."""
        found = Sum(self.constant)
        for each, n in self.parts:
            found += case.get(each, unknown(each)) * n
        return found


def unknown(number: int) -> Sum:
    """An unknown alone."""
    return Sum(0, ((number, 1),))


def at_least(value: Sum, bound: int) -> bool:
    """Whether it is as great as that, whatever the unknowns are; raises `Undecided`."""
    more = [each for each, n in value.parts if n > 0]
    less = [each for each, n in value.parts if n < 0]
    if not less and value.first >= bound:
        return True
    if not more and value.first < bound:
        return False
    one, *_ = more or less
    if not (more and less):
        raise Undecided({one: Sum(1)}, {one: unknown(one) + 1})
    other = less[0]
    both = unknown(one) + unknown(other)
    raise Undecided({one: unknown(other)}, {one: both}, {other: both})


def divided(value: Sum, by: int) -> Sum:
    """The greatest whole number that is no more than a share of it; raises `Undecided`."""
    for each, n in value.parts:
        if n % by:
            raise Undecided(*({each: unknown(each) * by - rest} for rest in range(by)))
    return Sum(value.constant // by, tuple((each, n // by) for each, n in value.parts))


class CellRun(NamedTuple):
    """So many cells of a stack symbol, 1 or more."""

    stack_symbol: int
    times: Sum


Runs = tuple[CellRun, ...]
"""What a stack holds, the lowest first; neighbours are of different stack symbols."""


class CountedStack:
    """A stack that is worked on, in the place of a `Row` of a machine, at its top alone.

    Its methods raise `Undecided` where what they find depends on unknowns.

    Args:
        held: what it holds at first.

    Attributes:
        before: what it held at first.
        held: what it holds.
        reached: how many of the topmost cells that it held at first were looked at or popped, or
            would have been if there were as many.
    """

    def __init__(self, held: Runs) -> None:
        self.before = self.held = held
        self.reached = self._higher = 0

    def peek(self, side: int, depth: int) -> int:
        """The stack symbol so deep under the top, from 0; `EMPTY` if there is none."""
        self.reached = max(self.reached, depth + 1 - self._higher)
        for run in reversed(self.held):
            if at_least(run.times, depth + 1):
                return run.stack_symbol
            depth -= run.times.constant  # nothing else is less than a number
        return EMPTY

    def take(self, side: int) -> int:
        """Take what is on top; `EMPTY` if there is nothing."""
        self.reached = max(self.reached, 1 - self._higher)
        if not self.held:
            return EMPTY
        stack_symbol = self.held[-1].stack_symbol
        self.held = _longer(self.held, Sum(-1))
        self._higher -= 1
        return stack_symbol

    def put(self, side: int, stack_symbol: int) -> None:
        """Put something on top."""
        if self.held and self.held[-1].stack_symbol == stack_symbol:
            self.held = _longer(self.held, Sum(1))
        else:
            self.held = (*self.held, CellRun(stack_symbol, Sum(1)))
        self._higher += 1

    @property
    def growth(self) -> int | None:
        """By how much it becomes higher each time that what was done to it is done again.

        None if it cannot be done again, or not with the same effect: what is on top has to be of
        one stack symbol as far as it matters, unless the stack holds just what it held.
        """
        if self.held == self.before:
            return 0
        if not self.held or not self.before:
            return None
        (*under, top), (*under_before, top_before) = self.held, self.before
        change = top.times - top_before.times
        try:
            enough = at_least(top_before.times, self.reached)
        except Undecided:
            return None
        same = (
            under == under_before
            and top.stack_symbol == top_before.stack_symbol
            and not change.parts
        )
        return change.constant if same and enough else None

    def after(self, times: Sum) -> Runs:
        """What it holds after all that was done to it was done so often, from the beginning."""
        return _longer(self.before, times * self.growth) if self.growth else self.before


class Unread(CountedStack):
    """A stack of which nothing is ever read, so that it does not matter what it holds."""

    def take(self, side: int) -> int:
        return EMPTY

    def put(self, side: int, stack_symbol: int) -> None:
        pass


def _longer(held: Runs, by: Sum) -> Runs:
    """What a stack holds after its topmost run has become longer, or shorter; down to nothing."""
    *others, top = held
    times = top.times + by
    return (*others, *([CellRun(top.stack_symbol, times)] if at_least(times, 1) else []))


class Segment(NamedTuple):
    """A run of a sequence.

    Attributes:
        symbol: by its number.
        length: in terms of the counts, by their numbers.
        inner: the output that is expected for all of its symbols but the last; None where nothing
            is scored.
        last: the output that is expected for the last.
    """

    symbol: int
    length: Sum
    inner: int | None
    last: int | None

    def sum_of(self, counts: Sequence[Sum]) -> Sum:
        """Its length with some counts."""
        return self.length.put(dict(enumerate(counts)))


def parts_of(task: Counting) -> list[Segment]:
    """The runs of a sequence; raises `Unproved` if their lengths are no sums of counts."""
    names = [block.introduces for block in task.blocks if block.introduces]
    known = 1 + max(index for index, block in enumerate(task.blocks) if block.introduces)
    found = []
    for index, block in enumerate(task.blocks):
        length = Sum()
        for term in block.terms:
            times = math.prod(factor for factor in term if isinstance(factor, int))
            counts = [names.index(factor) for factor in term if isinstance(factor, str)]
            if len(counts) > 1:
                raise Unproved("only lengths that are sums of counts are followed")
            length += unknown(counts[0]) * times if counts else times
        following = (index + 1) % len(task.blocks)
        scored = index >= known
        found.append(Segment(index, length, *((index, following) if scored else (None, None))))
    return found


class SequenceStart(NamedTuple):
    """Where a sequence begins: the state, and what each stack holds."""

    state: int
    held: tuple[Runs, ...]


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
        held = tuple(
            tuple(CellRun(stack_symbol, times.put(case)) for stack_symbol, times in runs)
            for runs in self.held
        )
        return self._replace(counts=counts, left=self.left.put(case), held=held)

    @property
    def first_counts(self) -> Counts:
        """The counts where all unknowns are 1."""
        return tuple(each.first for each in self.counts)


class Wrong(Exception):
    """A wrong output.

    Args:
        counts: of the sequence in which it is.
        before: the counts of those that were read before, as far as known.
    """

    def __init__(self, counts: Counts, before: tuple[Counts, ...]) -> None:
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
        machine: it works at the tops of its memories.
        parts: of a sequence.

    Raises:
        Unproved: the machine works at bottoms.
    """

    def __init__(self, machine: Machine, parts: Sequence[Segment]) -> None:
        self._machine, self._parts = machine, parts
        memories = machine.memories
        components = enumerate(memories.reads, start=1)
        reads = [end for component, end in components if component in machine.relevant]
        # The memories that something is ever read of, or taken from for one of them.
        self._relevant = {end // 2 for end in reads}
        for _ in memories.moves:
            self._relevant |= {
                taken // 2 for _, taken, onto in memories.moves if onto // 2 in self._relevant
            }
        moved = (end for _, *ends in memories.moves for end in ends)
        worked = (*reads, *(end for _, end in (*memories.pops, *memories.pushes)), *moved)
        if any(end % 2 and end // 2 in self._relevant for end in worked):
            raise Unproved("the machine works at the bottom of a memory")
        self.found = Counted()

    def go(self) -> Counted:
        """Follow all sequences; raises `Wrong` and `Unproved`."""
        first = SequenceStart(START, ((),) * len(self._machine.stack_symbols))
        known: dict[SequenceStart, tuple[Counts, ...]] = {first: ()}
        coming = deque([first])
        while coming:
            start = coming.popleft()
            for place, after in self._ends(start, known[start]):
                if after not in known:
                    known[after] = (*known[start], place.first_counts)
                    coming.append(after)
            if len(known) > MOST_STARTS:
                raise Unproved("sequences leave too many different things behind in memories")
            self.found.starts = len(known)
        return self.found

    def _ends(
        self, start: SequenceStart, before: tuple[Counts, ...]
    ) -> Iterator[tuple[Place, SequenceStart]]:
        """All that sequences which begin somewhere lead to, after others with some counts."""
        number = 1 + max(index for part in self._parts for index, _ in part.length.parts)
        counts = tuple(map(unknown, range(number)))
        places = [Place(counts, 0, self._parts[0].sum_of(counts), *start)]
        while places:
            place = places.pop()
            try:
                if place.part < len(self._parts):
                    again = self._again(place) if place.left.parts else None
                    places.append(again or self._on(place, before))
                else:
                    yield place, self._left_behind(place)
                    self.found.cases += 1
            except Undecided as undecided:
                # The least counts first: what goes wrong is shown with them.
                places += [place.put(case) for case in reversed(undecided.cases)]
            if self.found.steps > MOST_STEPS:
                raise Unproved("the machine does not do the same again and again in long runs")

    def _left_behind(self, place: Place) -> SequenceStart:
        """Where the next sequence begins; runs of `MANY` cells or more are of unknown length."""
        numbers = itertools.count(len(place.counts))

        def kept(run: CellRun) -> CellRun:
            many = at_least(run.times, MANY)
            return CellRun(
                run.stack_symbol, unknown(next(numbers)) + (MANY - 1) if many else run.times
            )

        return SequenceStart(place.state, tuple(tuple(map(kept, runs)) for runs in place.held))

    def _configuration(self, place: Place) -> Configuration:
        """A run of the machine from a place, over stacks."""
        stacks = [
            (CountedStack if number in self._relevant else Unread)(held)
            for number, held in enumerate(place.held)
        ]
        return Configuration(self._machine, stacks, place.state)

    def _step(self, configuration: Configuration, part: Segment) -> int:
        """The output for a symbol of a run."""
        self.found.steps += 1
        return configuration.step(part.symbol)

    def _on(self, place: Place, before: tuple[Counts, ...]) -> Place:
        """A step on; raises `Undecided` and `Wrong`."""
        part, last = self._parts[place.part], not at_least(place.left, 2)
        configuration, expected = self._configuration(place), part.last if last else part.inner
        if not _is_right(self._step(configuration, part), expected):
            raise Wrong(place.first_counts, before)
        held = tuple(stack.held for stack in configuration.contents)
        place = place._replace(left=place.left - 1, state=configuration.state, held=held)
        if not last:
            return place
        following = self._parts[place.part + 1 : place.part + 2]
        left = following[0].sum_of(place.counts) if following else Sum()
        return place._replace(part=place.part + 1, left=left)

    def _again(self, place: Place) -> Place | None:
        """As far on as the same is done again and again from here; None if it is not."""
        part, configuration = self._parts[place.part], self._configuration(place)
        for length in range(1, LONGEST_CYCLE + 1):
            try:
                enough = at_least(place.left, length + 1)
                right = enough and _is_right(self._step(configuration, part), part.inner)
            except Undecided:
                return None
            if not right:
                return None
            if configuration.state == place.state and all(
                own.growth is not None for own in configuration.contents
            ):
                return self._repeated(place, length, configuration.contents)
        return None

    def _repeated(self, place: Place, length: int, stacks: Sequence[CountedStack]) -> Place:
        """As far on as a cycle can be repeated: all but one of the symbols that are left, at most.

        Args:
            place: where it begins.
            length: of the cycle.
            stacks: after it.
        """
        times = divided(place.left - 1, length)
        for stack in stacks:
            if (growth := stack.growth or 0) < 0:
                most = divided(stack.before[-1].times - stack.reached, -growth) + 1
                times = times if at_least(most - times, 0) else most
        held = tuple(stack.after(times) for stack in stacks)
        self.found.repeated += 1
        return place._replace(left=place.left - times * length, held=held)


def sequence(parts: Sequence[Segment], counts: Sequence[int]) -> list[Step]:
    """The symbols of a sequence with some counts."""
    found: list[Step] = []
    for part in parts:
        length = part.sum_of([*map(Sum, counts)]).constant
        found += [*[(part.symbol, part.inner)] * (length - 1), (part.symbol, part.last)]
    return found


def _is_right(output: int, expected: int | None) -> bool:
    """Whether there is an output, and it is what is expected, if anything is."""
    return output != NO_RULE and expected in (None, output)


def goes_wrong(machine: Machine, row: Sequence[Step]) -> bool:
    """Whether a machine, run as always, gives a wrong output for symbols in a row."""
    configuration = Configuration(machine)
    return not all(_is_right(configuration.step(symbol), expected) for symbol, expected in row)


def shortest_wrong(machine: Machine, parts: Sequence[Segment], counts: Counts) -> tuple[int, ...]:
    """The prompt of the shortest sequence that goes wrong, if it is found soon.

    Otherwise that of the sequence with the given counts, which does.
    """
    smaller = (
        tuple(end - begin for begin, end in itertools.pairwise((0, *cuts, size)))
        for size in range(len(counts), sum(counts))
        for cuts in itertools.combinations(range(1, size), len(counts) - 1)
    )
    tried = itertools.islice(smaller, MOST_TRIED)
    wrong = (each for each in tried if goes_wrong(machine, sequence(parts, each)))
    counts = next(wrong, counts)
    known = next(index for index, part in enumerate(parts) if part.inner is not None)
    return (*(symbol for symbol, _ in sequence(parts, counts) if symbol < known), known)
