"""Running a machine: in plain Python, in time and room that grow with the string alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

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


_Table = tuple[int, list[int]]
"""A term as a place, plus 1, and what it is for each thing there; -1 for none."""


class _Done(NamedTuple):
    """What a rule does, with tables instead of terms.

    Attributes:
        pushes: the ends that are pushed to, each with what is pushed.
        output: what is said.
        after: the next state.
    """

    pushes: tuple[tuple[int, _Table], ...]
    output: _Table
    after: _Table


class _Action(NamedTuple):
    """A rule in a run: what it does to the memories that the run has.

    Attributes:
        pops: of memories, by their ends.
        pushes: what each does, with the place and the table of what it pushes.
        moves: what takes things from an end, each with what puts them on another.
        output: what is said.
        after: the next state.
        signals: as in the rule.
    """

    pops: tuple[Callable[[], Any], ...]
    pushes: tuple[tuple[Callable[[int], Any], int, list[int]], ...]
    moves: tuple[tuple[Callable[[], int], Callable[[int], Any]], ...]
    output: _Table
    after: _Table
    signals: tuple[int, ...]
    rule: int


class Tables:
    """The rules of a machine, made quick: what fits depends only on classes of things.

    Args:
        machine: whose they are.

    Attributes:
        classes: for each place, of each thing that may stand there, its class.
        named: the places whose letters rules take over.
        pairs: the places whose letters are compared.
        letters: for each place, of each thing, its letter; -1 for none.
        fitting: the number of the rule that fits, by classes of things that runs have met.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        sets = [
            [rule.when[place] for rule in machine.rules] for place in range(len(machine.places))
        ]
        self.classes = [
            _classes(things.size, own) for things, own in zip(machine.places, sets, strict=True)
        ]
        terms = [term for rule in machine.rules for term in (rule.output, *rule.pushed, rule.after)]
        self.named = {term.place for term in terms if term}
        self.pairs = sorted({pair[:2] for rule in machine.rules for pair in rule.equal})
        self.letters = [
            [-1 if letter is None else letter for _, letter in things.each]
            for things in machine.places
        ]
        self.fitting: dict[tuple[int, ...], int] = {}
        self._done: dict[int, _Done] = {}

    def matters(self, place: int) -> bool:
        """Whether any rule depends on what stands in a place."""
        compared = any(place in pair for pair in self.pairs)
        return compared or place in self.named or len(set(self.classes[place])) > 1

    def done(self, number: int) -> _Done:
        """What a rule does, by its number."""
        if number not in self._done:
            machine, rule = self.machine, self.machine.rules[number]
            pushes = tuple(
                (end, self.table(term, machine.kinds[end // 2]))
                for (signal, end), term in zip(machine.memories.pushes, rule.pushed, strict=True)
                if rule.signals[signal] and term is not None
            )
            nothing = Term(CONSTANT, NO_OUTPUT)
            output = self.table(rule.output or nothing, machine.outputs)
            self._done[number] = _Done(pushes, output, self.table(rule.after, machine.states))
        return self._done[number]

    def table(self, term: Term, things: Things) -> _Table:
        """What a term comes to."""
        if term.place == CONSTANT:
            return 0, [term.thing]
        found = []
        for _, letter in self.machine.places[term.place].each:
            number = None if letter is None else things.number(term.thing, letter)
            found.append(-1 if number is None else number)
        return term.place + 1, found


def _classes(count: int, sets: Sequence[frozenset[int] | None]) -> list[int]:
    """[count] things that are in the same of some sets have the same number."""
    known = {each: None for each in sets if each is not None}
    numbers: dict[tuple[bool, ...], int] = {}
    return [
        numbers.setdefault(tuple(thing in each for each in known), len(numbers))
        for thing in range(count)
    ]


class Stepper:
    """A run of a machine, step by step.

    Args:
        tables: of the machine.

    Attributes:
        rule: the number of the rule that held last.
        signals: of that rule.
        held: what each memory holds, the bottom first.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables, machine = tables, tables.machine
        self.held: list[deque[int]] = [deque() for _ in machine.kinds]
        self._actions: dict[tuple[int, ...], _Action] = {}
        # Before the places, what is always the same.
        self._values = [0, 0, *[EMPTY] * len(machine.memories.reads), machine.start]
        self.rule, self.signals = -1, tuple[int, ...]()
        self._classes = [[0], *tables.classes]
        self._fronts = [
            (place, self.held[end // 2], depth if end % 2 else -1 - depth, depth)
            for place, (end, depth) in enumerate(machine.memories.places, start=2)
            if tables.matters(place - 1)
        ]

    def copy(self) -> Stepper:
        """Another one that is where this one is."""
        other = Stepper(self._tables)
        for own, held in zip(other.held, self.held, strict=True):
            own.extend(held)
        other._values[:] = self._values
        other.rule, other.signals = self.rule, self.signals
        return other

    @property
    def state(self) -> int:
        """The state that it is in."""
        return self._values[-1]

    @property
    def reads(self) -> list[int]:
        """The kinds that are read."""
        return self._values[2:-1]

    def kind_at(self, end: int, depth: int) -> int:
        """What is held under an end, so deep, from 0; `EMPTY` if there is nothing."""
        held = self.held[end // 2]
        return held[depth if end % 2 else -1 - depth] if len(held) > depth else EMPTY

    def step(self, symbol: int) -> int:
        """The output for a symbol; `NO_OUTPUT` where the machine has none.

        Raises:
            NoRule: no rule fits.
        """
        values = self._values
        values[1] = symbol
        key = self._key()
        action = self._actions.get(key)
        if action is None:
            action = self._actions[key] = self._action(key)
        pops, pushes, moves, (place, table), (after_place, after), _, _ = action
        output, following = table[values[place]], after[values[after_place]]
        new = [(push, kinds[values[at]]) for push, at, kinds in pushes]
        for pop in pops:
            pop()
        for push, kind in new:
            if kind < 0:
                raise NoRule
            push(kind)
        if following < 0:
            raise NoRule
        for take, put in moves:
            put(take())
        values[-1] = following
        for at, held, end, depth in self._fronts:
            values[at] = held[end] if len(held) > depth else EMPTY
        self.rule, self.signals = action.rule, action.signals
        return output

    def run(self, symbols: Iterable[int]) -> Iterator[int]:
        """The output for each of some symbols, as they come; raises `NoRule`."""
        return map(self.step, symbols)

    def _key(self) -> tuple[int, ...]:
        values, letters = self._values, self._tables.letters
        key = [own[value] for own, value in zip(self._classes, values, strict=True)]
        for one, other in self._tables.pairs:
            first, second = letters[one][values[one + 1]], letters[other][values[other + 1]]
            key.append(first == second >= 0)
        return tuple(key)

    def _action(self, key: tuple[int, ...]) -> _Action:
        """What the rule does that fits things of some classes; raises `NoRule`."""
        tables, places = self._tables, self._values[1:]
        if key not in tables.fitting:
            fitting = (
                number
                for number, rule in enumerate(tables.machine.rules)
                if fits(rule, places, tables.letters)
            )
            number = next(fitting, None)
            if number is None:
                raise NoRule
            tables.fitting[key] = number
        return self._made(tables.fitting[key])

    def _put(self, end: int) -> Callable[[int], Any]:
        held = self.held[end // 2]
        return held.appendleft if end % 2 else held.append

    def _made(self, number: int) -> _Action:
        machine, done = self._tables.machine, self._tables.done(number)
        memories, rule = machine.memories, machine.rules[number]
        pops = tuple(
            _pop(self.held[end // 2], end % 2 == 0)
            for signal, end in memories.pops
            if rule.signals[signal]
        )
        pushes = tuple((self._put(end), *table) for end, table in done.pushes)
        moves = tuple(
            (_taken(self.held[taken // 2], taken % 2 == 0), self._put(put))
            for signal, taken, put in memories.moves
            if rule.signals[signal]
        )
        return _Action(pops, pushes, moves, done.output, done.after, rule.signals, number)


def fits(rule: Rule, places: Sequence[int], letters: Sequence[Sequence[int]]) -> bool:
    """Whether a rule holds for what stands in its places."""
    for own, thing in zip(rule.when, places, strict=True):
        if own is not None and thing not in own:
            return False
    return all(
        (letters[one][places[one]] == letters[other][places[other]] >= 0) == same
        for one, other, same in rule.equal
    )


def _pop(held: deque[int], top: bool) -> Callable[[], Any]:
    """What pops from an end, if there is anything."""
    take = held.pop if top else held.popleft

    def pop() -> None:
        if held:
            take()

    return pop


def _taken(held: deque[int], top: bool) -> Callable[[], int]:
    """What takes from an end; `EMPTY` if there is nothing."""
    take = held.pop if top else held.popleft
    return lambda: take() if held else EMPTY


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
    """

    failure: ClassVar[str] = "the machine has no rule for what it reads here"
    certain: ClassVar[bool] = True
    threads = 1

    def __init__(self, machine: Machine) -> None:
        self.machine, self.buffers = machine, machine.buffers
        self._tables = Tables(machine)

    def start(self, batch: int, steps: int = 0) -> Run:
        """See `Model.start`."""
        signals = np.zeros((batch, len(self.machine.memories.signal_names)))
        steppers = [Stepper(self._tables) for _ in range(batch)]
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
