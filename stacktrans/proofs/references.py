"""The tasks' own machines: what a task asks for, step by step, with a memory of its own.

Each says what can come next of a source, and what is to be said. They are what machines are
compared with, so that they are as short as the tasks themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, EMPTY, START
from stacktrans.grammar import Bracketing
from stacktrans.tasks.base import Task
from stacktrans.tasks.computed import (
    WAIT,
    BigramFlip,
    Copy,
    DelayedParity,
    Parity,
    Reverse,
    WaitingReversal,
)
from stacktrans.tasks.grammatical import NextSymbol

Cell = Any
"""What a memory holds: something hashable, whose form a task's own machine knows."""
STACK, QUEUE = "stack", "queue"
FRESH = "fresh"
"""The state before anything is read of a source."""
STANDING = 2
"""How many symbols of a class stand for all of it."""


class Continuation(NamedTuple):
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
    def reads(self, state: Hashable, top: Cell | None) -> Iterator[Continuation]:
        """What can come next of a source, where something (None: nothing) is read from the memory.

        It may be more than the task has, if nothing is scored from there on.
        """

    def ends(self, state: Hashable, top: Cell | None) -> bool:
        """Whether a source may end here; it may nowhere be empty."""
        return state != self.start

    def answers(self, state: Hashable, top: Cell | None) -> Continuation:
        """What is said next after the end of a source; only of tasks that answer after it."""
        raise NotImplementedError

    def whole(self, source: Sequence[int]) -> list[int]:
        """A source of the task that begins with what may be the beginning of one, or nothing."""
        return [*source] or [0]

    def length(self, symbol: int) -> int:
        """By how much a whole source is longer with a symbol."""
        return 1

    def shown(self, cell: Cell, symbols: Sequence[str]) -> str:
        """How something that the memory holds is written."""
        assert isinstance(cell, int)
        return symbols[cell]


class Rearranging(Reference):
    """Symbols are put into a memory, and taken out again.

    Args:
        memory: the kind of memory.
        size: how many symbols there are.
        flipped: whether those at odd places are put in before the ones that precede them.
    """

    def __init__(self, memory: str, size: int, flipped: bool = False) -> None:
        self.memory, self._size, self._flipped = memory, size, flipped
        self.alike = (frozenset(range(size)),)

    def reads(self, state: Hashable, top: Cell | None) -> Iterator[Continuation]:
        for symbol in range(self._size):
            if not self._flipped:
                yield Continuation(symbol, None, "read", pushed=(symbol,))
            elif isinstance(state, int):
                yield Continuation(symbol, None, "read", pushed=(symbol, state))
            else:
                yield Continuation(symbol, None, symbol)

    def ends(self, state: Hashable, top: Cell | None) -> bool:
        return state == "read"

    def answers(self, state: Hashable, top: Cell | None) -> Continuation:
        if top is None:
            return Continuation(-1, -1, "answered")
        return Continuation(-1, top, "answered", pops=True)

    def whole(self, source: Sequence[int]) -> list[int]:
        found = super().whole(source)
        return [*found, 0] if self._flipped and len(found) % 2 else found


class Waiting(Reference):
    """Symbols are pushed, and popped while marks are read.

    Args:
        size: how many symbols there are; the mark has the next number.
        kept: how many of them are said; the others are not pushed, so that more marks can be read
            than there are symbols, for which nothing is scored.
    """

    def __init__(self, size: int, kept: int) -> None:
        self._size, self._kept = size, kept
        self.alike = (frozenset(range(kept)), frozenset(range(kept, size)))

    def reads(self, state: Hashable, top: Cell | None) -> Iterator[Continuation]:
        if state != "waiting":
            for symbol in range(self._size):
                yield Continuation(
                    symbol, None, "read", pushed=(symbol,) if symbol < self._kept else ()
                )
        if state == FRESH or (top is None and self._kept == self._size):
            return
        yield Continuation(self._size, top, "waiting", pops=top is not None)

    def ends(self, state: Hashable, top: Cell | None) -> bool:
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

    def reads(self, state: Hashable, top: Cell | None) -> Iterator[Continuation]:
        before = 0 if state == FRESH else int(state == "odd")
        for bit in (0, 1):
            odd = before ^ bit
            yield Continuation(bit, before if self._delayed else odd, "odd" if odd else "even")


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

    def reads(self, state: Hashable, top: Cell | None) -> Iterator[Continuation]:
        if self._inner or state != "closing":
            for bracket in self._closing:
                pushed = (bracket, None if top is None else top[0])
                yield Continuation(bracket, self._said(bracket), "opening", pushed=(pushed,))
        if top is not None:
            bracket, below = top
            after = "opening" if below is None else "closing"
            yield Continuation(self._closing[bracket], self._said(below), after, pops=True)

    def whole(self, source: Sequence[int]) -> list[int]:
        return [*source] or [*self._closing][:1]

    def _said(self, bracket: int | None) -> int | None:
        said = None if bracket is None else self._closing[bracket]
        return said if said in self._predicted else None

    def shown(self, cell: Cell, symbols: Sequence[str]) -> str:
        own, below = cell
        return symbols[own] if below is None else f"{symbols[own]} over {symbols[below]}"


def reference_of(task: Task) -> Reference | None:
    """The own machine of a task; None if none is known.

    A class that extends a task's may mean something else, and so has none.
    """
    kind, size = type(task), len(task.source)
    if kind in (Copy, Reverse, BigramFlip):
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
    pairs = [(numbers[opens], numbers[closes]) for opens, closes in found.closing.items()]
    closing = dict(sorted(pairs))  # so that of wrong sources the same one is always found
    return Brackets(closing, found.inner, frozenset(numbers[each] for each in task.predict))


def classes_of(machine: Machine, reference: Reference) -> list[tuple[int, ...]]:
    """The symbols of sources, by their numbers, in classes that machine and task treat alike.

    A machine that only moves symbols answers a source in which symbols are replaced with its answer
    in which they are replaced, even if several become one. Where its answer is wrong it says x
    instead of y; then it is wrong, too, if y is replaced by one of two symbols and all others that
    are treated alike with it by the other. So the strings over two symbols of each class stand for
    all.
    """
    fixed, layout = {*_fixed(machine)}, machine.layout
    inputs, outputs = machine.inputs.entries, machine.outputs.entries
    firsts = [first for first in (layout.first_source, layout.first_target) if first is not None]
    found: dict[object, list[int]] = {}
    for number, symbol in enumerate(machine.source):
        key: object = number
        group = next((each for each in reference.alike if number in each), None)
        if group is not None and machine.target[number : number + 1] == (symbol,):
            index = machine.symbols.index(symbol)
            entries = [*(inputs[first + number] for first in firsts), outputs[number]]
            if index not in fixed and all(own == index for _, own in entries):
                families = tuple(family for family, _ in entries)
                key = group, families, _treatment(machine, index)
        found.setdefault(key, []).append(number)
    return [tuple(each) for each in found.values()]


def _fixed(machine: Machine) -> Iterator[int | None]:
    """The symbols of entries that are constant; all symbols, if a rule compares symbols."""
    layout = machine.layout
    read = (*layout.before, *layout.after, layout.blank)
    always = [(machine.inputs, each) for each in read if each is not None]
    if machine.buffers:
        always += [(machine.inputs, machine.no_input), (machine.outputs, 0)]
    always += [*((table, EMPTY) for table in machine.stack_symbols), (machine.states, START)]
    pushed = (machine.stack_symbols[end // 2] for _, end in machine.memories.pushes)
    done = (machine.outputs, machine.states, *pushed)
    for rule in machine.rules:
        terms = zip(done, (rule.output, rule.next_state, *rule.pushed), strict=True)
        always += [
            (table, term.entry) for table, term in terms if term and term.component == CONSTANT
        ]
    yield from (table.entries[number][1] for table, number in always)
    if any(rule.equal for rule in machine.rules):
        yield from range(len(machine.symbols))


def _treatment(machine: Machine, symbol: int) -> tuple[tuple[int, ...], ...]:
    """What tells symbols apart: the families that have them, and the rules that hold for them."""
    every = (*machine.components, machine.outputs, *machine.stack_symbols)
    having = [tuple(family for family, own in table.entries if own == symbol) for table in every]
    numbers = [
        [number for number, (_, own) in enumerate(table.entries) if own == symbol]
        for table in machine.components
    ]
    rules = [
        tuple(own is None or number in own for number in there)
        for rule in machine.rules
        for own, there in zip(rule.when, numbers, strict=True)
    ]
    return (*having, *rules)
