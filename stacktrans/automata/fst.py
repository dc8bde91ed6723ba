"""Machines as finite-state transducers, in the text format of AT&T and OpenFst."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from stacktrans.automata.execution import Configuration, Row
from stacktrans.automata.machine import Machine
from stacktrans.common.errors import StacktransError, shown
from stacktrans.tasks.alphabets import UNSCORED_MARK

MAX_STATES, MAX_STEPS, LONGEST_ANSWER = 1000, 100, 1000
"""The most states that read, steps to read a symbol, and symbols of an answer."""
EPSILON = "<eps>"
"""The label of an empty string."""
DEPENDS_ON_STEPS = "an answer depends on the number of steps that are left over"
"""The reason why a machine with buffers is not finite-state."""
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
        output: the last output, if it can begin the answer.
        missing: the number of symbols read, less that of outputs written to a buffer.
        dropped: the number of outputs that were dropped; -1 before the first symbol.
        ended: whether a machine with buffers has ended its answer.
    """

    state: int
    contents: tuple[Symbols, ...]
    output: int = 0
    missing: int = 0
    dropped: int = 0
    ended: bool = False


def to_fst(machine: Machine) -> tuple[str, str, str]:
    """The finite-state transducer of a machine, and the tables of its input and output symbols.

    It reads and writes symbols in the order in which the machine does. There is no path for a
    source if the machine has no rule for it, or does not end its answer.

    Raises:
        NotFinite: there is no such transducer.
    """
    inputs, names = [*map(_label, machine.source)], [*map(_label, machine.target), UNSCORED_MARK]
    labeled = (inputs, "symbols or features of its sources"), (names, "symbols of its targets")
    for labels, those in labeled:
        label, count = Counter(labels).most_common(1)[0]
        if count > 1:
            raise NotFinite(machine, f"{those} share the label {label}")
    reading = _Reading(machine)
    sources = reading.sources()
    pending: list[tuple[Symbols, FstState | None]] = [((), next(iter(sources)))]
    numbers, lines = {pending[0]: 0}, list[str]()
    for number, (rest, state) in enumerate(pending):  # which grows
        arcs, final = [(EPSILON, rest, state)] if rest else [], not rest
        if state and not rest:
            source = sources[state]
            before = _answer(machine, source)
            if machine.layout.feeds_back:
                arcs, final = [(EPSILON, before, None)] if before else [], before == ()
            for symbol, label in enumerate(inputs):
                if after := reading.read(state, symbol)[0]:
                    arcs.append((label, _written(machine, before, (*source, symbol)), after))
        for label, outputs, after in arcs:
            target = outputs[1:], after
            if target not in numbers:
                numbers[target] = len(numbers)
                pending.append(target)
            output = names[outputs[0]] if outputs else EPSILON
            lines.append(f"{number}\t{numbers[target]}\t{label}\t{output}")
        lines += [f"{number}"] if final else []
    return "".join(f"{line}\n" for line in lines), _symbol_table(inputs), _symbol_table(names)


def _answer(machine: Machine, source: Symbols) -> Symbols | None:
    """The answer to a source, both as they are read; None if the machine does not end one."""
    if not (source or machine.layout.labels):  # an empty line stays empty
        return ()
    order = -1 if machine.layout.backwards else 1
    answer = machine.run(source[::order], LONGEST_ANSWER)
    return tuple(answer.target[::order]) if answer.ended and not answer.failed else None


def _written(machine: Machine, before: Symbols | None, source: Symbols) -> Symbols:
    """The symbols that the last symbol of a source adds to the answer to those before it."""
    if machine.layout.feeds_back:
        return ()
    after = _answer(machine, source)
    beginning, text = (
        shown(" ".join(machine.source[symbol] for symbol in each)) for each in (source[:-1], source)
    )
    if before is None or after is None:
        unanswered = beginning if before is None else text
        raise NotFinite(machine, f"it has no answer to {unanswered}, though it can read on")
    if after[: len(before)] != before:
        raise NotFinite(machine, f"its answer to {text} does not begin with that to {beginning}")
    return after[len(before) :]


def _label(symbol: str) -> str:
    """A symbol as a label, without spaces; not that of an empty string or an unscored output."""
    reserved = rf"\s|^<(?=eps>$)|^{UNSCORED_MARK}$"
    return re.sub(reserved, lambda match: f"<U+{ord(match[0]):04X}>", symbol)


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
        configuration, buffers = Configuration(self._machine), self._machine.buffers
        for number in self._layout.before:
            configuration.step(number)
        start = FstState(configuration.state, self._contents(configuration), dropped=-1)
        sources: dict[FstState, Symbols] = {start: ()}
        # The fewest steps that may be left over in each state, besides those of the next symbol.
        least = {start: buffers.extra_steps if buffers else 0}
        pending = [start]
        for state in pending:  # which grows
            for symbol in range(len(self._machine.source)):
                after, steps = self.read(state, symbol)
                left = least[state] + (buffers.steps_per_symbol if buffers else 1) - steps
                if left < 0:
                    raise NotFinite(self._machine, DEPENDS_ON_STEPS)
                if after and left < least.get(after, math.inf):
                    sources.setdefault(after, (*sources[state], symbol))
                    least[after] = left
                    pending.append(after)
            if len(sources) > MAX_STATES:
                reason = f"it needs a memory, or more than {MAX_STATES} states"
                raise NotFinite(self._machine, reason)
        for state, left in least.items():
            self._check_end(state, left)
        return sources

    def read(self, before: FstState, symbol: int) -> tuple[FstState | None, int]:
        """The state after a further symbol, None without a rule, and the number of steps to it."""
        configuration = Configuration(self._machine, [*map(Row, before.contents)], before.state)
        number, buffers = self._layout.first_source + symbol, self._machine.buffers
        state = before._replace(missing=before.missing + 1, dropped=max(before.dropped, 0))
        for steps in range(1, MAX_STEPS + 1):
            output = configuration.step(number)
            if configuration.stuck:
                return None, steps
            if not buffers:
                begins = self._layout.feeds_back and not self._layout.after
                output = output if begins else 0
                return FstState(configuration.state, self._contents(configuration), output), steps
            state = self._after_writing(configuration, output, state)
            if configuration.last.signals[-2]:
                contents = self._contents(configuration)
                return state._replace(state=configuration.state, contents=contents), steps
        raise NotFinite(self._machine, f"it takes more than {MAX_STEPS} steps to read a symbol")

    def _after_writing(
        self, configuration: Configuration, output: int, before: FstState
    ) -> FstState:
        """The numbers of outputs that are missing and dropped after a step between buffers."""
        assert self._machine.buffers is not None
        if not configuration.last.signals[-1]:
            return before
        after = before._replace(missing=before.missing - 1)
        if before.dropped < self._machine.buffers.output_skip:
            return after._replace(dropped=before.dropped + 1)
        return after._replace(ended=before.ended or output == self._layout.end)

    def _check_end(self, state: FstState, least: int) -> None:
        """Raise `NotFinite` if an answer ends otherwise with more than the fewest steps left."""
        buffers, layout = self._machine.buffers, self._layout
        if not buffers:
            return
        configuration = Configuration(self._machine, [*map(Row, state.contents)], state.state)
        blanks = [] if layout.blank is None else [layout.blank] * layout.padding.further
        outputs = buffers.output_skip + len(blanks)  # besides one for each symbol
        for left in range(least + len(blanks) * buffers.steps_per_symbol, -1, -1):
            if (layout.ends_answers and state.ended) or state.missing <= -outputs:
                return
            if not left:
                raise NotFinite(self._machine, DEPENDS_ON_STEPS)
            output = configuration.step(blanks[0] if blanks else self._machine.layout.inputs)
            if configuration.stuck:
                return
            state = self._after_writing(configuration, output, state)
            del blanks[: int(configuration.last.signals[-2])]

    def _contents(self, configuration: Configuration) -> tuple[Symbols, ...]:
        """The contents of memories, without cells that no rule can ever read."""
        contents = []
        for row, cells in enumerate(map(tuple, configuration.contents)):
            high, low = self._depths[2 * row : 2 * row + 2]
            if row not in self._whole and len(cells) > high + low:
                cells = (*cells[:low], *cells[len(cells) - high :])
            contents.append(cells)
        return tuple(contents)
