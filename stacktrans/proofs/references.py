"""Reference automata of copying, reversal, xor, brackets and grammars; classes of symbols.

A reference automaton gives the symbols that can come next of a source, and the expected outputs.
Machines are compared with these automata, so they are as short as the tasks themselves, and tests
compare them with the tasks on all short strings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, EMPTY, START
from stacktrans.proofs.grammars import Transducer, bracketing, determinize
from stacktrans.tasks.base import Task
from stacktrans.tasks.chomsky import ReverseString
from stacktrans.tasks.computed import (
    WAIT,
    BigramFlip,
    Copy,
    DelayedParity,
    Parity,
    Reverse,
    WaitingReversal,
)
from stacktrans.tasks.grammatical import GrammarTask, NextSymbolTask, SameLengthGrammarTask

Cell = Any
"""What a reference automaton pushes: something hashable."""
STACK, QUEUE = "stack", "queue"
FRESH = "fresh"
"""The state before anything is read of a source."""
REPRESENTATIVES = 2
"""Number of symbols of a class that are explored in place of all."""


class ReferenceStep(NamedTuple):
    """A step of a reference automaton.

    Attributes:
        symbol: the number of the source symbol that is read; -1 where an answer continues.
        output: the number of the expected target symbol; None where nothing is scored, and -1
            where an answer ends.
        next_state: the state after it.
        pops: whether a cell is popped.
        pushed: the cells that are pushed, in this order.
    """

    symbol: int
    output: int | None
    next_state: Hashable
    pops: bool = False
    pushed: tuple[Hashable, ...] = ()


class Reference(ABC):
    """A reference automaton: states, steps, and a memory.

    Attributes:
        memory: `STACK` or `QUEUE`; None without.
        start: the state before anything is read.
        interchangeable: sets of symbols, by their numbers. If the symbols of a source are replaced
            within their sets, even several by one, so are those of its answer.
    """

    memory: str | None = STACK
    start: Hashable = FRESH
    interchangeable: tuple[frozenset[int], ...] = ()

    @abstractmethod
    def steps(self, state: Hashable, top: Cell | None) -> Iterator[ReferenceStep]:
        """The possible next steps, given the cell that is read; None if the memory is empty.

        There may be more than sources of the task take, if nothing is scored from there on.
        """

    def accepts(self, state: Hashable, top: Cell | None) -> bool:
        """Whether a source may end here; none is empty."""
        return state != self.start

    def answer(self, state: Hashable, top: Cell | None) -> ReferenceStep:
        """The next step of an answer that follows the source; only of tasks with such answers."""
        raise NotImplementedError

    def completed(self, prefix: Sequence[int]) -> list[int]:
        """A source of the task that begins with a prefix, which may be empty."""
        return [*prefix] or [0]

    def cell_name(self, cell: Cell, symbols: Sequence[str]) -> str:
        """How a cell of the memory is written, given the symbols of targets."""
        assert isinstance(cell, int)
        return symbols[cell]


class Rearrangement(Reference):
    """The reference of copying, flipping (queue) and reversal (stack): pushes, and then pops.

    Args:
        memory: `STACK` or `QUEUE`.
        size: number of symbols.
        flipped: whether every second symbol is pushed before the one that precedes it.
    """

    def __init__(self, memory: str, size: int, flipped: bool = False) -> None:
        self.memory, self._size, self._flipped = memory, size, flipped
        self.interchangeable = (frozenset(range(size)),)

    def steps(self, state: Hashable, top: Cell | None) -> Iterator[ReferenceStep]:
        for symbol in range(self._size):
            if not self._flipped:
                yield ReferenceStep(symbol, None, "read", pushed=(symbol,))
            elif isinstance(state, int):
                yield ReferenceStep(symbol, None, "read", pushed=(symbol, state))
            else:
                yield ReferenceStep(symbol, None, symbol)

    def accepts(self, state: Hashable, top: Cell | None) -> bool:
        return state == "read"

    def answer(self, state: Hashable, top: Cell | None) -> ReferenceStep:
        if top is None:
            return ReferenceStep(-1, -1, "answered")
        return ReferenceStep(-1, top, "answered", pops=True)

    def completed(self, prefix: Sequence[int]) -> list[int]:
        source = super().completed(prefix)
        return [*source, 0] if self._flipped and len(source) % 2 else source


class WaitingReversalAutomaton(Reference):
    """The reference of reversal with marks: symbols are pushed, and popped while marks are read.

    Args:
        size: number of symbols; the mark has the next number.
        kept: number of symbols that are answered. The others are not pushed, so that more marks can
            be read than there are cells; nothing is scored for them.
    """

    def __init__(self, size: int, kept: int) -> None:
        self._size, self._kept = size, kept
        self.interchangeable = (frozenset(range(kept)), frozenset(range(kept, size)))

    def steps(self, state: Hashable, top: Cell | None) -> Iterator[ReferenceStep]:
        if state != "waiting":
            for symbol in range(self._size):
                pushed = (symbol,) if symbol < self._kept else ()
                yield ReferenceStep(symbol, None, "read", pushed=pushed)
        if state != FRESH and (top is not None or self._kept != self._size):
            yield ReferenceStep(self._size, top, "waiting", pops=top is not None)

    def accepts(self, state: Hashable, top: Cell | None) -> bool:
        return state == "waiting" and top is None

    def completed(self, prefix: Sequence[int]) -> list[int]:
        string = [symbol for symbol in prefix if symbol != self._size] or [0]
        return [*string, *[self._size] * len(string)]


class ParityAutomaton(Reference):
    """The reference of xor: the parity of the ones read, if delayed without the last symbol."""

    memory = None

    def __init__(self, delayed: bool) -> None:
        self._delayed = delayed

    def steps(self, state: Hashable, top: Cell | None) -> Iterator[ReferenceStep]:
        before = 0 if state == FRESH else int(state == "odd")
        for bit in (0, 1):
            odd = before ^ bit
            yield ReferenceStep(bit, before if self._delayed else odd, "odd" if odd else "even")


class BracketAutomaton(Reference):
    """The reference of brackets: the closing bracket of the innermost open one.

    A cell is an opening bracket and the one below it, which is on top after the cell is popped.

    Args:
        closing: the closing bracket of each opening one.
        inner: whether brackets may be opened where one has been closed in the same pair; otherwise
            all that are open are closed first.
        predicted: the closing brackets that are scored.
    """

    def __init__(self, closing: dict[int, int], inner: bool, predicted: frozenset[int]) -> None:
        self._closing, self._inner, self._predicted = closing, inner, predicted

    def steps(self, state: Hashable, top: Cell | None) -> Iterator[ReferenceStep]:
        if self._inner or state != "closing":
            for bracket in self._closing:
                pushed = (bracket, None if top is None else top[0])
                yield ReferenceStep(bracket, self._expected(bracket), "opening", pushed=(pushed,))
        if top is not None:
            bracket, below = top
            after = "opening" if below is None else "closing"
            yield ReferenceStep(self._closing[bracket], self._expected(below), after, pops=True)

    def completed(self, prefix: Sequence[int]) -> list[int]:
        return [*prefix] or [*self._closing][:1]

    def _expected(self, bracket: int | None) -> int | None:
        closing = None if bracket is None else self._closing[bracket]
        return closing if closing in self._predicted else None

    def cell_name(self, cell: Cell, symbols: Sequence[str]) -> str:
        bracket, below = cell
        return symbols[bracket] if below is None else f"{symbols[bracket]} over {symbols[below]}"


class GrammarAutomaton(Reference):
    """The reference of a synchronous grammar with regular sources.

    It pushes the words of the target as soon as they are certain: from the first to a queue, or
    from the last to a stack. Without memory, it writes a word for each word that it reads.

    Args:
        task: the task of the grammar.
        transducer: of the grammar; it writes from the last word for a `STACK`.
        memory: `STACK`, `QUEUE` or None.
    """

    def __init__(self, task: GrammarTask, transducer: Transducer, memory: str | None) -> None:
        self.memory, self._names = memory, task.target.symbols
        self.start = next(iter(transducer.transitions))
        self._steps = defaultdict[Hashable, list[ReferenceStep]](list)
        for state, transitions in transducer.transitions.items():
            for word, (outputs, after) in transitions.items():
                (symbol,), cells = task.source.encode([word]), task.target.encode(outputs).tolist()
                written, pushed = (None, tuple(cells)) if memory else (cells[0], ())
                step = ReferenceStep(int(symbol), written, after, pushed=pushed)
                self._steps[state].append(step)
        self._endings = dict[Hashable, list[int]]()
        for state, words in transducer.final_outputs.items():
            ending: list[int] = task.target.encode(words).tolist()
            self._endings[state] = ending
            self._endings |= {self._left(ending[n:]): ending[n:] for n in range(len(ending) + 1)}

    def steps(self, state: Hashable, top: Cell | None) -> Iterator[ReferenceStep]:
        yield from self._steps[state]

    def accepts(self, state: Hashable, top: Cell | None) -> bool:
        return state in self._endings

    def answer(self, state: Hashable, top: Cell | None) -> ReferenceStep:
        ending = self._endings[state]
        if top is not None and (self.memory == QUEUE or not ending):
            return ReferenceStep(-1, top, state, pops=True)
        return ReferenceStep(-1, ending[0] if ending else -1, self._left(ending[1:]))

    def completed(self, prefix: Sequence[int]) -> list[int]:
        state: Hashable = self.start
        for symbol in prefix:
            state = next(step.next_state for step in self._steps[state] if step.symbol == symbol)
        sources, reached = [(state, [*prefix])], {state}
        for state, source in sources:  # which grows
            if state in self._endings:
                return source
            for step in self._steps[state]:
                if step.next_state not in reached:
                    reached.add(step.next_state)
                    sources.append((step.next_state, [*source, step.symbol]))
        raise AssertionError("every prefix of a source can be completed")

    def _left(self, ending: Sequence[int]) -> str:
        """The state in which only the last symbols of an answer are left to write."""
        # States of the transducer begin with "<s>".
        return " ".join(("...", *(self._names[cell] for cell in ending), "</s>"))


def reference_of(task: Task) -> Reference | None:
    """The reference automaton of a task; None if there is none.

    A subclass of a task's class may mean something else, and so has none.
    """
    cls, size = type(task), len(task.source)
    if cls in (Copy, Reverse, ReverseString, BigramFlip):
        return Rearrangement(STACK if issubclass(cls, Reverse) else QUEUE, size, cls is BigramFlip)
    if type(task) is WaitingReversal:
        return WaitingReversalAutomaton(task.source.symbols.index(WAIT), task.kept)
    if cls in (Parity, DelayedParity):
        return ParityAutomaton(delayed=cls is DelayedParity)
    if type(task) is NextSymbolTask:
        return _bracket_automaton(task)
    if isinstance(task, GrammarTask) and cls in (GrammarTask, SameLengthGrammarTask):
        return _grammar_automaton(task)
    return None


def _grammar_automaton(task: GrammarTask) -> GrammarAutomaton | None:
    for memory in (None,) if task.same_length else (QUEUE, STACK):
        reverse = memory == STACK
        transducer = determinize(task.grammar, reverse=reverse, synchronous=task.same_length)
        if transducer:
            return GrammarAutomaton(task, transducer, memory)
    return None


def _bracket_automaton(task: NextSymbolTask) -> BracketAutomaton | None:
    closing, inner = bracketing(task.grammar) or ({}, False)
    if not closing or not task.predict <= {*closing.values()}:
        return None
    numbers = {symbol: number for number, symbol in enumerate(task.source.symbols)}
    # Sorted, so that of several counterexamples always the same one is found.
    pairs = dict(sorted((numbers[one], numbers[other]) for one, other in closing.items()))
    return BracketAutomaton(pairs, inner, frozenset(numbers[symbol] for symbol in task.predict))


class AllStrings(Reference):
    """An automaton that reads all strings, and whose symbols are interchangeable.

    Args:
        size: number of symbols.
        shortest: the length of the shortest strings, 0 or 1.
    """

    memory = None

    def __init__(self, size: int, shortest: int) -> None:
        self._symbols, self._shortest = range(size), shortest
        self.interchangeable = (frozenset(self._symbols),)

    def steps(self, state: Hashable, top: Hashable | None) -> Iterator[ReferenceStep]:
        return (ReferenceStep(symbol, None, "read") for symbol in self._symbols)

    def accepts(self, state: Hashable, top: Hashable | None) -> bool:
        return not self._shortest or super().accepts(state, top)

    def completed(self, prefix: Sequence[int]) -> list[int]:
        return super().completed(prefix) if self._shortest else [*prefix]


def symbol_classes(machine: Machine, reference: Reference) -> list[tuple[int, ...]]:
    """The source symbols, by their numbers, in classes that neither automaton distinguishes.

    A machine that only moves the symbols of a class is data-independent (Wolper 1986, "Expressing
    interesting properties of programs in propositional temporal logic"): if symbols of a source are
    replaced within a class, even several by one, they are replaced in its answer. If it writes x
    instead of y, it is also wrong if y is replaced by one symbol of the class, and all others by
    another. So sources over two symbols of each class represent all.
    """
    constant, layout = {*_constant_symbols(machine)}, machine.layout
    firsts = [first for first in (layout.first_source, layout.first_target) if first is not None]
    indices = {symbol: index for index, symbol in enumerate(machine.symbols)}
    classes: dict[object, list[int]] = {}
    for number, symbol in enumerate(machine.source):
        key: object = number
        group = next((group for group in reference.interchangeable if number in group), None)
        if group is not None and machine.target[number : number + 1] == (symbol,):
            index = indices[symbol]
            entries = [machine.inputs.entries[first + number] for first in firsts]
            entries.append(machine.outputs.entries[number])
            if index not in constant and all(of == index for _, of in entries):
                key = group, tuple(family for family, _ in entries), _signature(machine, index)
        classes.setdefault(key, []).append(number)
    return [tuple(numbers) for numbers in classes.values()]


def _constant_symbols(machine: Machine) -> Iterator[int | None]:
    """The symbols that a machine reads or writes as constants; all, if a rule compares symbols."""
    layout = machine.layout
    read = (*layout.before, *layout.after, layout.blank)
    constants = [(machine.inputs, number) for number in read if number is not None]
    if machine.buffers:
        constants += [(machine.inputs, machine.layout.inputs), (machine.outputs, 0)]
    constants += [(table, EMPTY) for table in machine.stack_symbols]
    constants.append((machine.states, START))
    for rule in machine.rules:
        terms = machine.terms(rule)
        constants += [(table, term.entry) for term, table in terms if term.component == CONSTANT]
    yield from (table.entries[number][1] for table, number in constants)
    if any(rule.equal for rule in machine.rules):
        yield from range(len(machine.symbols))


def _signature(machine: Machine, symbol: int) -> tuple[object, ...]:
    """What distinguishes symbols: the families that have them, and the rules that apply."""
    tables = (*machine.components, machine.outputs, *machine.stack_symbols)
    entries = [np.flatnonzero(table.symbol_of == symbol).tolist() for table in tables]
    families = [
        tuple(table.entries[number][0] for number in numbers)
        for table, numbers in zip(tables, entries, strict=True)
    ]
    applies = [
        tuple(allowed is None or number in allowed for number in numbers)
        for rule in machine.rules
        for allowed, numbers in zip(rule.when, entries, strict=False)  # of the components
    ]
    return (*families, *applies)
