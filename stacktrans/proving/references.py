"""The tasks' own machines: what a task asks for, step by step, with a memory of its own.

Each says what can come next of a source, and what is to be said. They are what machines are
compared with, so that they are as short as the tasks themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from stacktrans.grammar import Bracketing
from stacktrans.machines.definition import CONSTANT, EMPTY, Machine, Things
from stacktrans.tasks.base import Task
from stacktrans.tasks.grammatical import NextSymbol
from stacktrans.tasks.rearrangement import BigramFlip, Copy, Rearrangement, Reverse
from stacktrans.tasks.same_length import WAIT, DelayedParity, Parity, WaitingReversal

STACK, QUEUE = "stack", "queue"
FRESH = "fresh"
"""The state before anything is read of a source."""
STANDING = 2
"""How many letters of a class stand for all of it."""


class Step(NamedTuple):
    """Something that can come next.

    Attributes:
        symbol: of the source, by its number; -1 where an answer goes on.
        said: the number of the target symbol that is to be said; None where nothing is scored,
            and -1 where an answer ends.
        after: the next state.
        pops: whether something is popped.
        pushed: what is pushed, in this order.
    """

    symbol: int
    said: int | None
    after: Hashable
    pops: bool = False
    pushed: tuple[Hashable, ...] = ()


class Reference(ABC):
    """A task's own machine.

    Attributes:
        memory: `STACK` or `QUEUE`; None without.
        start: the state before anything is read.
        alike: sets of symbols, by their numbers, that mean the same: if those of a source are
            replaced within their sets, even several by one, so are those of its answer.
    """

    memory: str | None = STACK
    start: Hashable = FRESH
    alike: tuple[frozenset[int], ...] = ()

    @abstractmethod
    def reads(self, state: Hashable, top: Hashable | None) -> Iterator[Step]:
        """What can come next of a source, where something (None: nothing) is read from the memory.

        It may be more than the task has, if nothing is scored from there on.
        """

    def ends(self, state: Hashable, top: Hashable | None) -> bool:
        """Whether a source may end here; it may nowhere be empty."""
        return state != self.start

    def answers(self, state: Hashable, top: Hashable | None) -> Step:
        """What is said next after the end of a source; only of tasks that answer after it."""
        raise NotImplementedError

    def whole(self, source: Sequence[int]) -> list[int]:
        """A source of the task that begins with what may be the beginning of one, or nothing."""
        return [*source] or [0]

    def length(self, symbol: int) -> int:
        """By how much a whole source is longer with a symbol."""
        return 1

    def shown(self, cell: Hashable, symbols: Sequence[str]) -> str:
        """How something that the memory holds is written."""
        assert isinstance(cell, int)
        return symbols[cell]


class Rearranging(Reference):
    """Letters are put into a memory, and taken out again.

    Args:
        memory: the kind of memory.
        size: how many letters there are.
        flipped: whether those at odd places are put in before the ones that precede them.
    """

    def __init__(self, memory: str, size: int, flipped: bool = False) -> None:
        self.memory, self._size, self._flipped = memory, size, flipped
        self.alike = (frozenset(range(size)),)

    def reads(self, state: Hashable, top: Hashable | None) -> Iterator[Step]:
        for letter in range(self._size):
            if not self._flipped:
                yield Step(letter, None, "read", pushed=(letter,))
            elif isinstance(state, int):
                yield Step(letter, None, "read", pushed=(letter, state))
            else:
                yield Step(letter, None, letter)

    def ends(self, state: Hashable, top: Hashable | None) -> bool:
        return state == "read"

    def answers(self, state: Hashable, top: Hashable | None) -> Step:
        if top is None:
            return Step(-1, -1, "answered")
        assert isinstance(top, int)
        return Step(-1, top, "answered", pops=True)

    def whole(self, source: Sequence[int]) -> list[int]:
        found = super().whole(source)
        return [*found, 0] if self._flipped and len(found) % 2 else found


class Waiting(Reference):
    """Letters are pushed, and popped while marks are read.

    Args:
        size: how many letters there are; the mark has the next number.
        kept: how many of them are said; the others are not pushed, so that more marks can be read
            than there are letters, for which nothing is scored.
    """

    def __init__(self, size: int, kept: int) -> None:
        self._size, self._kept = size, kept
        self.alike = (frozenset(range(kept)), frozenset(range(kept, size)))

    def reads(self, state: Hashable, top: Hashable | None) -> Iterator[Step]:
        if state != "waiting":
            for letter in range(self._size):
                yield Step(letter, None, "read", pushed=(letter,) if letter < self._kept else ())
        if state == FRESH or (top is None and self._kept == self._size):
            return
        assert top is None or isinstance(top, int)
        yield Step(self._size, top, "waiting", pops=top is not None)

    def ends(self, state: Hashable, top: Hashable | None) -> bool:
        return state == "waiting" and top is None

    def whole(self, source: Sequence[int]) -> list[int]:
        string = [symbol for symbol in source if symbol != self._size] or [0]
        return [*string, *[self._size] * len(string)]

    def length(self, symbol: int) -> int:
        return 2 if symbol < self._size else 0


class Odd(Reference):
    """Whether there were an odd number of ones so far, or, delayed, before."""

    memory = None

    def __init__(self, delayed: bool) -> None:
        self._delayed = delayed

    def reads(self, state: Hashable, top: Hashable | None) -> Iterator[Step]:
        before = 0 if state == FRESH else int(state == "odd")
        for bit in (0, 1):
            odd = before ^ bit
            yield Step(bit, before if self._delayed else odd, "odd" if odd else "even")


class Brackets(Reference):
    """The bracket that closes the last open one, where one is open.

    What is pushed is an opening bracket, and the one below it, which is known then again after
    this one is popped.

    Args:
        closing: the closing bracket of each opening one.
        inner: whether brackets may be opened where one has been closed in the same pair; otherwise
            all that are open are closed first.
        predicted: the closing brackets that are scored.
    """

    def __init__(self, closing: dict[int, int], inner: bool, predicted: frozenset[int]) -> None:
        self._closing, self._inner, self._predicted = closing, inner, predicted

    def reads(self, state: Hashable, top: Hashable | None) -> Iterator[Step]:
        assert top is None or isinstance(top, tuple)
        if self._inner or state != "closing":
            for bracket in self._closing:
                pushed = (bracket, None if top is None else top[0])
                yield Step(bracket, self._said(bracket), "opening", pushed=(pushed,))
        if top is not None:
            bracket, below = top
            after = "opening" if below is None else "closing"
            yield Step(self._closing[bracket], self._said(below), after, pops=True)

    def whole(self, source: Sequence[int]) -> list[int]:
        return [*source] or [*self._closing][:1]

    def _said(self, bracket: int | None) -> int | None:
        said = None if bracket is None else self._closing[bracket]
        return said if said in self._predicted else None

    def shown(self, cell: Hashable, symbols: Sequence[str]) -> str:
        assert isinstance(cell, tuple)
        own, below = cell
        return symbols[own] if below is None else f"{symbols[own]} over {symbols[below]}"


def reference_of(task: Task) -> Reference | None:
    """The own machine of a task; None if none is known.

    A class that extends a task's may mean something else, and so has none.
    """
    kind, size = type(task), len(task.source)
    if isinstance(task, Rearrangement) and kind in (Copy, Reverse, BigramFlip):
        return Rearranging(STACK if kind is Reverse else QUEUE, size, kind is BigramFlip)
    if isinstance(task, WaitingReversal) and kind is WaitingReversal:
        wait = task.source.symbols.index(WAIT)
        return Waiting(wait, task.kept)
    if kind in (Parity, DelayedParity):
        return Odd(delayed=kind is DelayedParity)
    if isinstance(task, NextSymbol) and kind is NextSymbol:
        return _brackets(task, task.grammar.bracketing())
    return None


def _brackets(task: NextSymbol, found: Bracketing | None) -> Brackets | None:
    if found is None or not task.predict <= {*found.closing.values()}:
        return None
    numbers = {symbol: number for number, symbol in enumerate(task.source.symbols)}
    closing = {numbers[opens]: numbers[closes] for opens, closes in found.closing.items()}
    return Brackets(closing, found.inner, frozenset(numbers[each] for each in task.predict))


def classes_of(machine: Machine, reference: Reference) -> list[tuple[int, ...]]:
    """The symbols of sources, by their numbers, in classes that machine and task treat alike."""
    fixed, known = {*_fixed(machine)}, {}
    found: dict[object, list[int]] = {}
    for number in range(len(machine.source)):
        group = next((each for each in reference.alike if number in each), None)
        letter = _letter(machine, number)
        if group is None or letter is None or letter in fixed:
            found[number,] = [number]
            continue
        if letter not in known:
            known[letter] = _treatment(machine, letter)
        found.setdefault((group, _roles(machine, number), known[letter]), []).append(number)
    return [tuple(each) for each in found.values()]


def _all_things(machine: Machine) -> list[Things]:
    return [machine.symbols, machine.outputs, machine.states, *machine.kinds]


def _letter(machine: Machine, number: int) -> int | None:
    """The letter of a symbol, if all that stands for the symbol has it."""
    symbol = machine.source[number]
    if number >= len(machine.target) or machine.target[number] != symbol:
        return None
    letter = machine.letters.index(symbol)
    things = [machine.symbols.each[each] for each in _read_as(machine, number)] + [
        machine.outputs.each[number]
    ]
    return letter if all(own == letter for _, own in things) else None


def _read_as(machine: Machine, number: int) -> Iterator[int]:
    """The numbers of what is read for a symbol of a source, and of an answer."""
    yield machine.reads.first_source + number
    if machine.reads.first_target >= 0:
        yield machine.reads.first_target + number


def _roles(machine: Machine, number: int) -> tuple[int, ...]:
    """The series of what stands for a symbol."""
    read = (machine.symbols.each[each][0] for each in _read_as(machine, number))
    return (*read, machine.outputs.each[number][0])


def _fixed(machine: Machine) -> Iterator[int | None]:
    """The letters of things that are always the same, and of rules that compare letters: all."""
    reads, rules = machine.reads, machine.rules
    always = [(machine.symbols, each) for each in (*reads.before, *reads.after)]
    if machine.buffers:
        always += [(machine.symbols, machine.nothing), (machine.outputs, 0)]
    always += [(things, EMPTY) for things in machine.kinds]
    always.append((machine.states, machine.start))
    for rule in rules:
        kinds = [machine.kinds[end // 2] for _, end in machine.memories.pushes]
        terms = [(machine.outputs, rule.output), (machine.states, rule.after)]
        terms += zip(kinds, rule.pushed, strict=True)
        always += [
            (things, term.thing)
            for things, term in terms
            if term is not None and term.place == CONSTANT
        ]
    yield from (things.each[number][1] for things, number in always)
    if any(rule.equal for rule in rules):
        yield from range(len(machine.letters))


def _treatment(machine: Machine, letter: int) -> tuple[object, ...]:
    """What tells letters apart: the series that have them, and the rules that hold for them."""
    numbers = [[*_of_letter(things, letter)] for things in _all_things(machine)]
    places = [[*_of_letter(things, letter)] for things in machine.places]
    rules = [
        tuple(series for series, number in there if own is None or number in own)
        for rule in machine.rules
        for own, there in zip(rule.when, places, strict=True)
    ]
    return tuple(tuple(series for series, _ in each) for each in numbers), tuple(rules)


def _of_letter(things: Things, letter: int) -> Iterable[tuple[int, int]]:
    """The series in which a letter is, and its number there."""
    for number, (series, own) in enumerate(things.each):
        if own == letter:
            yield series, number
