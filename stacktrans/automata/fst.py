"""Machines as finite-state transducers, in the text format of AT&T and OpenFst."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from stacktrans.automata.execution import Configuration, Row
from stacktrans.automata.machine import Machine
from stacktrans.common.errors import StacktransError
from stacktrans.tasks.alphabets import UNSCORED_MARK

MOST_STATES, MOST_STEPS, LONGEST_ANSWER = 1000, 100, 1000
"""The most states of a transducer, steps to read a symbol, and symbols of an answer."""
EPSILON = "<eps>"
"""The label of an empty string."""
Symbols = tuple[int, ...]


class NotFinite(StacktransError):
    """A machine whose answers no finite-state transducer gives."""

    def __init__(self, machine: Machine, reason: str) -> None:
        super().__init__(f"{machine.task}: not a finite-state transducer: {reason}")


class FstState(NamedTuple):
    """A state of the transducer: all that the rest of an answer depends on.

    Attributes:
        state: of the machine.
        contents: of its memories, without cells that no rule can ever read.
        output: the last output, if it can begin the answer; of machines with buffers, whether the
            answer has ended.
        missing: the number of symbols read, less that of outputs written to a buffer.
        dropped: the number of outputs that were dropped; -1 before the first symbol.
    """

    state: int
    contents: tuple[Symbols, ...]
    output: int = 0
    missing: int = 0
    dropped: int = -1


def to_fst(machine: Machine) -> tuple[str, str, str]:
    """The finite-state transducer of a machine, and the tables of its input and output symbols.

    It reads and writes symbols in the order in which the machine does. There is no path for a
    source if the machine has no rule for it, or does not end its answer.

    Raises:
        NotFinite: there is no such transducer.
    """
    inputs, names = [*map(_label, machine.source)], [*map(_label, machine.target), UNSCORED_MARK]
    if len({*inputs}) < len(inputs):
        raise NotFinite(machine, "features of its sources have the names of symbols")
    reading = _Reading(machine)
    sources = reading.sources()
    pending: list[tuple[Symbols, FstState | None]] = [((), next(iter(sources)))]
    numbers, lines = {pending[0]: 0}, list[str]()
    for number, (rest, state) in enumerate(pending):  # which grows
        arcs, final = [(EPSILON, rest, state)] if rest else [], not rest
        if state and not rest:
            source = sources[state]
            if machine.layout.feeds_back:
                answer = _answer(machine, source)
                arcs, final = [(EPSILON, answer, None)] if answer else [], answer == ()
            for symbol, label in enumerate(inputs):
                if after := reading.read(state, symbol):
                    arcs.append((label, _written(machine, source, symbol), after))
        for label, outputs, after in arcs:
            target = outputs[1:], after
            if target not in numbers:
                numbers[target] = len(numbers)
                pending.append(target)
            output = names[max(outputs[0], -1)] if outputs else EPSILON
            lines.append(f"{number}\t{numbers[target]}\t{label}\t{output}")
        lines += [f"{number}"] if final else []
    return "".join(f"{line}\n" for line in lines), _symbol_table(inputs), _symbol_table(names)


def _answer(machine: Machine, source: Symbols) -> Symbols | None:
    """The answer to a source, both as they are read; None if the machine does not end one."""
    order = -1 if machine.layout.backwards else 1
    answered = source or machine.layout.labels  # otherwise an empty line stays empty
    answer = machine.run(source[::order], LONGEST_ANSWER) if answered else None
    if answer is None:
        return ()
    return tuple(answer.target[::order]) if answer.ended and not answer.failed else None


def _written(machine: Machine, source: Symbols, symbol: int) -> Symbols:
    """What is written when a symbol follows a source; raises `NotFinite`."""
    if machine.layout.feeds_back:
        return ()
    before, after = _answer(machine, source), _answer(machine, (*source, symbol))
    if before is None or after is None or after[: len(before)] != before:
        raise NotFinite(machine, "it does not write its answer while it reads")
    return after[len(before) :]


def _label(symbol: str) -> str:
    """A symbol as a label, without spaces, and different from that of an empty string."""
    return re.sub(r"\s|^<(?=eps>$)", lambda match: f"<U+{ord(match[0]):04X}>", symbol)


def _symbol_table(labels: Iterable[str]) -> str:
    distinct = dict.fromkeys([EPSILON, *labels])
    return "".join(f"{label}\t{number}\n" for number, label in enumerate(distinct))


class _Reading:
    """A machine that reads any source, from state to state of the transducer.

    Args:
        machine: the machine.

    Raises:
        NotFinite: it has to count the symbols of a source.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine, self._layout, memories = machine, machine.layout, machine.memories
        follows, ends = self._layout.feeds_back, self._layout.ends_answers
        if self._layout.padding.each > 1 or (follows and not ends):
            raise NotFinite(machine, "the length of an answer depends on that of its source")
        self._depths = [0] * (2 * len(memories.names))
        for end, depth in filter(None, machine.relevant_positions):
            self._depths[end] = max(self._depths[end], depth + 1)
        used = [rule.signals for rule in machine.rules]
        popped = {end // 2 for signal, end in memories.pops if any(own[signal] for own in used)}
        self._whole = {row for row in popped if any(self._depths[2 * row : 2 * row + 2])}
        self._whole |= {end // 2 for _, *ends in memories.moves for end in ends}

    def sources(self) -> dict[FstState, Symbols]:
        """All states, the initial one first, each with a shortest source that leads to it."""
        configuration = Configuration(self._machine)
        for number in self._layout.before:
            configuration.step(number)
        sources: dict[FstState, Symbols] = {self._state_of(configuration, dropped=-1): ()}
        pending = [*sources]
        for state in pending:  # which grows
            for symbol in range(len(self._machine.source)):
                after = self.read(state, symbol)
                if after and after not in sources:
                    sources[after] = (*sources[state], symbol)
                    pending.append(after)
            if len(pending) > MOST_STATES:
                reason = f"it needs a memory, and more than {MOST_STATES} contents of it matter"
                raise NotFinite(self._machine, reason)
        return sources

    def read(self, before: FstState, symbol: int) -> FstState | None:
        """The state after a further symbol; None if the machine has no rule for it."""
        configuration = Configuration(self._machine, [*map(Row, before.contents)], before.state)
        dropped, missing, ended = max(before.dropped, 0), before.missing + 1, before.output
        for _ in range(MOST_STEPS):
            output = configuration.step(self._layout.first_source + symbol)
            if configuration.stuck:
                return None
            if not self._machine.buffers:
                begins = self._layout.feeds_back and not self._layout.after
                return self._state_of(configuration, output if begins else 0)
            reads, writes = configuration.last.signals[-2:]
            if writes and dropped < self._machine.buffers.output_skip:
                dropped += 1
            elif writes:
                ended = int(ended or output == self._layout.end)
            missing -= writes
            if reads:
                return self._state_of(configuration, ended, missing, dropped)
        raise NotFinite(self._machine, f"it takes more than {MOST_STEPS} steps to read a symbol")

    def _state_of(
        self, configuration: Configuration, output: int = 0, missing: int = 0, dropped: int = 0
    ) -> FstState:
        contents = []
        for row, cells in enumerate(map(tuple, configuration.contents)):
            high, low = self._depths[2 * row : 2 * row + 2]
            if row not in self._whole and len(cells) > high + low:
                cells = (*cells[:low], *cells[len(cells) - high :])
            contents.append(cells)
        return FstState(configuration.state, tuple(contents), output, missing, dropped)
