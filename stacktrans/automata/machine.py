"""Deterministic automata with stacks, queues, deques or lists: their rules, and how they are run.

A step depends on its places: the input (place 0), the stack symbol that is read from each end of a
memory (the next places), and the state (the last). All of these, and outputs, come in series: a
series has one member for each of some symbols, or a single member without a symbol. So one rule can
cover all symbols: it pushes the stack symbol of the one that is read.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from stacktrans.common.ends import Ends
from stacktrans.decoding.model import Numbers, SoftInput
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import Layout

EMPTY = 0
"""The stack symbol that is read from an empty memory."""
START = 0
"""The state before the first step."""
CONSTANT = -1
"""The place of what does not depend on any."""
NO_OUTPUT = -1
"""The output where a machine has learned none, since nobody asked for it."""
LOST = -2
"""The output where no rule fits, and after it."""
UNLIKELY = -1e9
"""The logit of what a machine does not output."""


class Series(NamedTuple):
    """Inputs, stack symbols, states or outputs that differ only in their symbol.

    Attributes:
        name: what they are called.
        symbols: the number of the symbol of each; None for a single thing without a symbol.
    """

    name: str
    symbols: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Things:
    """All inputs, outputs, states, or stack symbols of a memory, numbered series by series."""

    series: tuple[Series, ...]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.each)

    @functools.cached_property
    def each(self) -> list[tuple[int, int | None]]:
        """The series and the symbol of each."""
        return [
            (number, symbol)
            for number, series in enumerate(self.series)
            for symbol in (series.symbols if series.symbols is not None else (None,))
        ]

    @functools.cached_property
    def numbers(self) -> dict[tuple[int, int | None], int]:
        """The number of each, by its series and its symbol."""
        return {each: number for number, each in enumerate(self.each)}


class Term(NamedTuple):
    """Which thing: of a series, the one with the symbol of what stands in a place.

    Attributes:
        place: of what has the symbol; `CONSTANT` for a thing that is always the same.
        thing: the series, or the number of that thing.
    """

    place: int
    thing: int


class Rule(NamedTuple):
    """What is done in some steps.

    Attributes:
        when: for each place, the things that may stand there; None for any.
        equal: pairs of places, and whether what stands there has the same symbol.
        signals: of the memories and buffers, 0 or 1.
        output: what is written; None where no output is scored.
        pushed: what each push pushes; None where nothing is pushed.
        next_state: the state after it.
    """

    when: tuple[frozenset[int] | None, ...]
    equal: tuple[tuple[int, int, bool], ...]
    signals: tuple[int, ...]
    output: Term | None
    pushed: tuple[Term | None, ...]
    next_state: Term


class Buffers(NamedTuple):
    """An input buffer that is read from, and an output buffer that is written to.

    Attributes:
        steps_per_symbol: steps for each symbol of the input.
        extra_steps: further steps.
        output_skip: how many of the outputs that are written are dropped.
    """

    steps_per_symbol: int
    extra_steps: int
    output_skip: int


@dataclass(frozen=True)
class Machine:
    """A finite control over memories.

    Attributes:
        task: the name of its task.
        source: the symbols of sources.
        target: the symbols of targets.
        words: whether strings of sources, and of targets, are words separated by spaces.
        symbols: those of sources and targets, each once; what things of a series differ in.
        inputs: what can be read.
        outputs: what can be written.
        stack_symbols: of each memory, what it can hold; the first is read when it is empty.
        states: the states; the first is the one before the first step.
        memories: the ends of its memories; each row of cells counts as a memory.
        buffers: None without.
        layout: how sources are read, and answers output.
        rules: the first that fits holds.
    """

    task: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    words: tuple[bool, bool]
    symbols: tuple[str, ...]
    inputs: Things
    outputs: Things
    stack_symbols: tuple[Things, ...]
    states: Things
    memories: Ends
    buffers: Buffers | None
    layout: Layout
    rules: tuple[Rule, ...]

    @functools.cached_property
    def places(self) -> list[Things]:
        """What can stand in each place."""
        stack_symbols = [self.stack_symbols[end // 2] for end in self.memories.reads]
        return [self.inputs, *stack_symbols, self.states]

    @property
    def nothing(self) -> int:
        """The symbol that is read after the last of an input buffer."""
        return self.inputs.size - 1


class Transition(NamedTuple):
    """What a machine does in a step.

    Attributes:
        signals: those of the rule that applies.
        output: `NO_OUTPUT` where it has learned none.
        pops: the ends from which a cell is popped, in this order.
        pushes: after that, the ends to which a cell is pushed, each with its stack symbol.
        moves: after that, the ends from which a cell is taken, each with the end it is put on.
        next_state: the state after it.
    """

    signals: tuple[int, ...]
    output: int
    pops: tuple[int, ...]
    pushes: tuple[tuple[int, int], ...]
    moves: tuple[tuple[int, int], ...]
    next_state: int

    def apply(self, held: Sequence[Any], mark: int | None = None) -> None:
        """Change what memories hold, `MemoryRow`s or the like; pushes can push a mark instead."""
        for end in self.pops:
            held[end // 2].take(end % 2)
        for end, stack_symbol in self.pushes:
            held[end // 2].put(end % 2, stack_symbol if mark is None else mark)
        for taken, put in self.moves:
            held[put // 2].put(put % 2, held[taken // 2].take(taken % 2))


class Transitions:
    """The transition function of a machine: what it does, by what stands in its places.

    Args:
        machine: the machine.

    Attributes:
        relevant: the places that some rule depends on.
        step: what is done for what stands in the places; None if no rule applies. What stands in
            places that are not relevant has to be the same each time, as `EMPTY`.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.step = functools.cache(self._step)
        self._symbols = [[symbol for _, symbol in things.each] for things in machine.places]
        self.relevant = set[int]()
        for rule in machine.rules:
            terms = (rule.output, *rule.pushed, rule.next_state)
            self.relevant |= {term.place for term in terms if term}
            self.relevant |= {place for *pair, _ in rule.equal for place in pair}
            sets = zip(machine.places, rule.when, strict=True)
            self.relevant |= {
                place
                for place, (things, own) in enumerate(sets)
                if own is not None and 0 < len(own) < things.size
            }

    def _step(self, places: tuple[int, ...]) -> Transition | None:
        machine, memories = self.machine, self.machine.memories
        symbols = [own[thing] for own, thing in zip(self._symbols, places, strict=True)]
        rule = next((rule for rule in machine.rules if _applies(rule, places, symbols)), None)
        if rule is None:
            return None

        def number(term: Term, things: Things) -> int:
            """The number of a thing; -1 if there is none with the symbol that is wanted."""
            if term.place == CONSTANT:
                return term.thing
            symbol = symbols[term.place]
            return -1 if symbol is None else things.numbers.get((term.thing, symbol), -1)

        signals = rule.signals
        pushes = tuple(
            (end, number(term, machine.stack_symbols[end // 2]))
            for (signal, end), term in zip(memories.pushes, rule.pushed, strict=True)
            if signals[signal] and term is not None
        )
        next_state = number(rule.next_state, machine.states)
        if next_state < 0 or any(stack_symbol < 0 for _, stack_symbol in pushes):
            return None
        output = NO_OUTPUT if rule.output is None else number(rule.output, machine.outputs)
        pops = tuple(end for signal, end in memories.pops if signals[signal])
        moves = tuple((taken, put) for signal, taken, put in memories.moves if signals[signal])
        return Transition(signals, output, pops, pushes, moves, next_state)


def _applies(rule: Rule, places: Sequence[int], symbols: Sequence[int | None]) -> bool:
    """Whether a rule applies to what stands in the places, and to its symbols."""
    for own, thing in zip(rule.when, places, strict=True):
        if own is not None and thing not in own:
            return False
    return all(
        (symbols[one] is not None and symbols[one] == symbols[other]) == same
        for one, other, same in rule.equal
    )


class MemoryRow(deque[int]):
    """The stack symbols that a memory holds, the bottom first; sides are `TOP` and `BOTTOM`."""

    def peek(self, side: int, depth: int) -> int:
        """The stack symbol at a side, or so deep under it; `EMPTY` if there is none."""
        return self[depth if side else -1 - depth] if len(self) > depth else EMPTY

    def take(self, side: int) -> int:
        """Take the cell at a side; `EMPTY` if there is none."""
        if not self:
            return EMPTY
        return self.popleft() if side else self.pop()

    def put(self, side: int, stack_symbol: int) -> None:
        """Put a cell at a side."""
        self.appendleft(stack_symbol) if side else self.append(stack_symbol)


class Stepper:
    """A run of a machine, step by step.

    Args:
        transitions: of the machine.
        held: what each memory holds, in the place of a `MemoryRow`; None for empty ones.
        state: the state that it begins in.

    Attributes:
        last: what was done in the last step that a rule fitted.
        held: what each memory holds.
        state: the state after the last step.
        lost: whether no rule fitted a step; from then on none does.
    """

    def __init__(
        self, transitions: Transitions, held: Sequence[Any] | None = None, state: int = START
    ) -> None:
        self._transitions, self.state, machine = transitions, state, transitions.machine
        self.lost = False
        self.held: Sequence[Any] = (
            [MemoryRow() for _ in machine.stack_symbols] if held is None else held
        )
        self.last = Transition((), NO_OUTPUT, (), (), (), state)
        # What is not relevant is always read as empty.
        self._reads = [
            read if place in transitions.relevant else None
            for place, read in enumerate(machine.memories.places, start=1)
        ]

    def copy(self) -> Stepper:
        """Another run in the same configuration."""
        other = Stepper(self._transitions, [*map(MemoryRow, self.held)], self.state)
        other.last, other.lost = self.last, self.lost
        return other

    def peek(self, end: int, depth: int) -> int:
        """What is held under an end, so deep, from 0; `EMPTY` if there is nothing."""
        stack_symbol: int = self.held[end // 2].peek(end % 2, depth)
        return stack_symbol

    def step(self, symbol: int) -> int:
        """The output for a symbol; `NO_OUTPUT` where the machine has none, or `LOST`."""
        if self.lost:
            return LOST
        stack_symbols = [self.peek(*read) if read else EMPTY for read in self._reads]
        done = self._transitions.step((symbol, *stack_symbols, self.state))
        if done is None:
            self.lost = True
            return LOST
        done.apply(self.held)
        self.last, self.state = done, done.next_state
        return done.output


@dataclass
class Configurations:
    """Runs of a machine over B strings.

    Attributes:
        steppers: of each.
        signals: [B, signals] of the last step; NaN where there was no rule.
        origins: what each memory of the first string holds, as the steps that pushed it, if each
            step was noted; see `MachineModel`.
        steps: how many were noted.
    """

    steppers: list[Stepper]
    signals: Numbers
    origins: list[MemoryRow]
    steps: int = 0


class Runner:
    """What the decoder runs of a machine: each output has the probability 1.

    Args:
        machine: itself.

    Attributes:
        transitions: its transition function.
    """

    failure: ClassVar[str] = "the machine has no rule for what it reads here"
    certain: ClassVar[bool] = True
    threads = 1

    def __init__(self, machine: Machine) -> None:
        self.machine, self.buffers = machine, machine.buffers
        self.transitions = Transitions(machine)

    def start(self, batch: int, steps: int = 0) -> Configurations:
        """See `Model.start`."""
        signals = np.zeros((batch, len(self.machine.memories.signal_names)))
        steppers = [Stepper(self.transitions) for _ in range(batch)]
        return Configurations(steppers, signals, [MemoryRow() for _ in self.machine.stack_symbols])

    def advance(
        self, state: Configurations, ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        """See `Model.advance`; logits are NaN where no rule fits, -inf where there is no output."""
        if isinstance(ids, SoftInput):
            ids = np.where(ids.ids < 0, self.machine.nothing, ids.ids)[:, None]
        outputs = np.empty(ids.shape, np.int64)
        for item, (stepper, row) in enumerate(zip(state.steppers, ids.tolist(), strict=True)):
            outputs[item] = [*map(stepper.step, row)]
            state.signals[item] = np.nan if stepper.lost else stepper.last.signals
        chosen = outputs.ravel() if requested is None else outputs[requested]
        logits = np.full((len(chosen), self.machine.outputs.size), UNLIKELY)
        logits[np.arange(len(chosen)), np.maximum(chosen, 0)] = 0
        logits[chosen == NO_OUTPUT] = -np.inf
        logits[chosen == LOST] = np.nan
        return logits

    def select(self, state: Configurations, items: Ids) -> Configurations:
        """See `Model.select`."""
        steppers = [state.steppers[item].copy() for item in items.tolist()]
        return Configurations(steppers, state.signals[items], state.origins)
