"""Running a machine: in plain Python, in time and room that grow with the string alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError
from stacktrans.decoding.model import Mixed, Numbers
from stacktrans.machines.definition import CONSTANT, EMPTY, Machine, Rule, Term, Things
from stacktrans.tasks.alphabets import Ids, Mask

NO_OUTPUT = -1
"""The output where a machine has learned none, since nobody asked for it."""
LOST = -2
"""The output where no rule fits, and after it."""
UNLIKELY = -1e9
"""The logit of what a machine does not output."""


class NoRule(StacktransError):
    """A machine is where none of its rules fits."""


class Transition(NamedTuple):
    """What a machine does in a step.

    Attributes:
        signals: those of the rule that applies.
        output: `NO_OUTPUT` where it has learned none.
        pops: the ends from which a cell is popped, in this order.
        pushes: after that, the ends to which a cell is pushed, each with its kind.
        moves: after that, the ends from which a cell is taken, each with the end it is put on.
        after: the next state.
    """

    signals: tuple[int, ...]
    output: int
    pops: tuple[int, ...]
    pushes: tuple[tuple[int, int], ...]
    moves: tuple[tuple[int, int], ...]
    after: int


class Transitions:
    """The transition function of a machine: what it does, by what stands in its places.

    Args:
        machine: the machine.

    Attributes:
        relevant: the places that some rule depends on.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[tuple[int, ...], Transition | None] = {}
        self._letters = [[letter for _, letter in things.each] for things in machine.places]
        rules = machine.rules
        terms = [term for rule in rules for term in (rule.output, *rule.pushed, rule.after)]
        self.relevant = {term.place for term in terms if term}
        self.relevant |= {place for rule in rules for *pair, _ in rule.equal for place in pair}
        for place, things in enumerate(machine.places):
            sets = (rule.when[place] for rule in rules)
            if any(own is not None and 0 < len(own) < things.size for own in sets):
                self.relevant.add(place)

    def step(self, places: tuple[int, ...]) -> Transition | None:
        """What is done for what stands in the places; None if no rule applies.

        What stands in places that are not relevant has to be the same each time, as `EMPTY`.
        """
        try:
            return self._known[places]
        except KeyError:
            return self._known.setdefault(places, self._transition(places))

    def _transition(self, places: tuple[int, ...]) -> Transition | None:
        machine, memories = self.machine, self.machine.memories
        letters = [own[thing] for own, thing in zip(self._letters, places, strict=True)]
        rule = next((rule for rule in machine.rules if _applies(rule, places, letters)), None)
        if rule is None:
            return None

        def number(term: Term, things: Things) -> int:
            """The number of a thing; -1 if there is none with the letter that is wanted."""
            if term.place == CONSTANT:
                return term.thing
            letter = letters[term.place]
            return -1 if letter is None else things.numbers.get((term.thing, letter), -1)

        signals = rule.signals
        pushes = tuple(
            (end, number(term, machine.kinds[end // 2]))
            for (signal, end), term in zip(memories.pushes, rule.pushed, strict=True)
            if signals[signal] and term is not None
        )
        after = number(rule.after, machine.states)
        if after < 0 or any(kind < 0 for _, kind in pushes):
            return None
        output = NO_OUTPUT if rule.output is None else number(rule.output, machine.outputs)
        pops = tuple(end for signal, end in memories.pops if signals[signal])
        moves = tuple((taken, put) for signal, taken, put in memories.moves if signals[signal])
        return Transition(signals, output, pops, pushes, moves, after)


def _applies(rule: Rule, places: Sequence[int], letters: Sequence[int | None]) -> bool:
    """Whether a rule applies to what stands in the places, and to its letters."""
    for own, thing in zip(rule.when, places, strict=True):
        if own is not None and thing not in own:
            return False
    return all(
        (letters[one] is not None and letters[one] == letters[other]) == same
        for one, other, same in rule.equal
    )


class Stepper:
    """A run of a machine, step by step.

    Args:
        transitions: of the machine.

    Attributes:
        signals: of the rule that applied last.
        held: what each memory holds, the bottom first.
    """

    def __init__(self, transitions: Transitions) -> None:
        self._transitions, machine = transitions, transitions.machine
        self.held: list[deque[int]] = [deque() for _ in machine.kinds]
        self.signals = tuple[int, ...]()
        self._state = machine.start
        # What is not relevant is always read as empty.
        self._reads = [
            read if place in transitions.relevant else None
            for place, read in enumerate(machine.memories.places, start=1)
        ]

    def copy(self) -> Stepper:
        """Another run in the same configuration."""
        other = Stepper(self._transitions)
        for own, held in zip(other.held, self.held, strict=True):
            own.extend(held)
        other._state, other.signals = self._state, self.signals
        return other

    def kind_at(self, end: int, depth: int) -> int:
        """What is held under an end, so deep, from 0; `EMPTY` if there is nothing."""
        held = self.held[end // 2]
        return held[depth if end % 2 else -1 - depth] if len(held) > depth else EMPTY

    def step(self, symbol: int) -> int:
        """The output for a symbol; `NO_OUTPUT` where the machine has none.

        Raises:
            NoRule: no rule applies.
        """
        kinds = [self.kind_at(*read) if read else EMPTY for read in self._reads]
        done = self._transitions.step((symbol, *kinds, self._state))
        if done is None:
            raise NoRule
        self.signals, output, pops, pushes, moves, self._state = done
        for end in pops:
            self._take(end)
        for end, kind in pushes:
            self._put(end, kind)
        for taken, put in moves:
            self._put(put, self._take(taken))
        return output

    def run(self, symbols: Iterable[int]) -> Iterator[int]:
        """The output for each of some symbols, as they come; raises `NoRule`."""
        return map(self.step, symbols)

    def _take(self, end: int) -> int:
        """Take the cell at an end; `EMPTY` if there is none."""
        held = self.held[end // 2]
        if not held:
            return EMPTY
        return held.popleft() if end % 2 else held.pop()

    def _put(self, end: int, kind: int) -> None:
        held = self.held[end // 2]
        held.appendleft(kind) if end % 2 else held.append(kind)


@dataclass
class Run:
    """Runs of a machine over B strings.

    Attributes:
        steppers: of each.
        signals: [B, signals] of the last step; NaN where there was no rule.
        origins: what each memory of the first string holds, as the steps that pushed it, if each
            step was noted; see `MachineModel`.
        lost: the strings for which there was no rule.
        steps: how many were noted.
    """

    steppers: list[Stepper]
    signals: Numbers
    origins: list[deque[int]]
    lost: set[int] = field(default_factory=set)
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

    def start(self, batch: int, steps: int = 0) -> Run:
        """See `Model.start`."""
        signals = np.zeros((batch, len(self.machine.memories.signal_names)))
        steppers = [Stepper(self.transitions) for _ in range(batch)]
        return Run(steppers, signals, [deque() for _ in self.machine.kinds])

    def advance(self, state: Run, ids: Ids | Mixed, asked: Mask | None = None) -> Numbers:
        """See `Model.advance`; logits are NaN where no rule fits, -inf where there is no output."""
        if isinstance(ids, Mixed):
            ids = np.where(ids.ids < 0, self.machine.nothing, ids.ids)[:, None]
        outputs = np.full(ids.shape, LOST)
        for item, (stepper, row) in enumerate(zip(state.steppers, ids.tolist(), strict=True)):
            if item in state.lost:
                continue
            try:
                for place, symbol in enumerate(row):
                    outputs[item, place] = stepper.step(symbol)
                state.signals[item] = stepper.signals
            except NoRule:
                state.lost.add(item)
                state.signals[item] = np.nan
        chosen = outputs.ravel() if asked is None else outputs[asked]
        logits = np.full((len(chosen), self.machine.outputs.size), UNLIKELY)
        logits[np.arange(len(chosen)), np.maximum(chosen, 0)] = 0
        logits[chosen == NO_OUTPUT] = -np.inf
        logits[chosen == LOST] = np.nan
        return logits

    def select(self, state: Run, items: Ids) -> Run:
        """See `Model.select`."""
        chosen = items.tolist()
        steppers = [state.steppers[item].copy() for item in chosen]
        lost = {place for place, item in enumerate(chosen) if item in state.lost}
        return Run(steppers, state.signals[items], state.origins, lost)
