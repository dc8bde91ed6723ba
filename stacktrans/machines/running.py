"""Running a machine: in plain Python, in time and room that grow with the string alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from stacktrans.common.errors import StacktransError
from stacktrans.machines.definition import (
    CONSTANT,
    EMPTY,
    JOINT,
    PADDED,
    Machine,
    Rule,
    Term,
    Things,
)

ASKED_NOTHING = -1
"""Said where a machine has learned no output, since nobody asked."""


NO_OUTPUT = "the machine has no output for what it reads here"


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
            nothing = Term(CONSTANT, ASKED_NOTHING)
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
        state: the one that it is in.
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

    def copy(self) -> Stepper:
        """Another one that is where this one is."""
        other = Stepper(self._tables)
        for own, held in zip(other.held, self.held, strict=True):
            own.extend(held)
        other._values[:] = self._values
        return other

    @property
    def machine(self) -> Machine:
        """The machine that runs."""
        return self._tables.machine

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

    def run(self, symbols: Iterable[int]) -> Iterator[int]:
        """What is said to each of some symbols, as they come.

        Raises:
            NoRule: no rule fits.
        """
        values, actions, tables = self._values, self._actions, self._tables
        key: tuple[int, ...]
        classes = [[0], *tables.classes]
        fronts = [
            (place, self.held[end // 2], depth if end % 2 else -1 - depth, depth)
            for place, (end, depth) in enumerate(tables.machine.memories.places, start=2)
            if tables.matters(place - 1)
        ]
        single = len(values) == 4 and not tables.pairs
        of_symbols, of_kinds, of_states = classes[1], classes[2] if single else [], classes[-1]
        for symbol in symbols:
            values[1] = symbol
            if single:
                key = (of_symbols[symbol], of_kinds[values[2]], of_states[values[3]])
            else:
                key = self._key(classes)
            action = actions.get(key)
            if action is None:
                action = actions[key] = self._action(key)
            pops, pushes, moves, (place, table), (after_place, after), _, _ = action
            said = table[values[place]]
            following = after[values[after_place]]
            new = [(push, kinds[values[at]]) for push, at, kinds in pushes]
            for pop in pops:
                pop()
            for push, kind in new:
                if kind < 0:
                    raise self._lost()
                push(kind)
            if following < 0:
                raise self._lost()
            for take, put in moves:
                put(take())
            values[-1] = following
            for at, held, end, depth in fronts:
                values[at] = held[end] if len(held) > depth else EMPTY
            self.rule, self.signals = action.rule, action.signals
            yield said

    def _key(self, classes: list[list[int]]) -> tuple[int, ...]:
        values, letters = self._values, self._tables.letters
        key = [own[value] for own, value in zip(classes, values, strict=True)]
        for one, other in self._tables.pairs:
            first, second = letters[one][values[one + 1]], letters[other][values[other + 1]]
            key.append(first == second >= 0)
        return tuple(key)

    def _lost(self) -> NoRule:
        return NoRule("the machine has no rule for what it reads here")

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
                raise self._lost()
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


class Said(NamedTuple):
    """An answer: outputs, without the one that ends it, and whether there was one."""

    outputs: list[int]
    ended: bool


def answer(tables: Tables, source: Sequence[int], limit: int) -> Said:
    """What a machine answers to a source, by the numbers of its symbols.

    Args:
        tables: of the machine.
        source: numbers of source symbols.
        limit: the most symbols of an answer that follows its source.

    Raises:
        NoRule: no rule fits.
    """
    machine = tables.machine
    read, stepper = machine.read(source), Stepper(tables)
    if machine.reads.kind == JOINT:
        return _after(stepper, read, limit)
    said = written(stepper, read) if machine.buffers else [*stepper.run(read)]
    if machine.reads.kind == PADDED:
        ended = machine.reads.end in said
        said = said[: said.index(machine.reads.end)] if ended else said
        return _known(Said([*machine.in_turn(said)], ended))
    return Said(said, True)


def _after(stepper: Stepper, read: list[int], most: int) -> Said:
    """An answer that follows its source, each output of which is read."""
    reads = stepper.machine.reads
    (last,) = deque(stepper.run(read), maxlen=1)
    outputs = [last, *answer_after(stepper, last, most, reads.first_target, [reads.end])]
    ended = outputs[-1] == reads.end
    said = outputs[:-1] if ended else outputs[:most]
    return _known(Said([*stepper.machine.in_turn(said)], ended))


def _known(said: Said) -> Said:
    """An answer; raises `NoRule` if there is no output for one of its symbols."""
    if ASKED_NOTHING in said.outputs:
        raise NoRule(NO_OUTPUT)
    return said


def answer_after(
    stepper: Stepper, first: int, limit: int, first_target: int, ending: Sequence[int]
) -> list[int]:
    """What is said after an output, each read before the next, up to one that ends it.

    Args:
        stepper: where that output was said.
        first: the output.
        limit: how many symbols may be read so.
        first_target: the symbol that output 0 is read as.
        ending: the outputs that nothing is said after.
    """
    outputs: list[int] = []
    last = first

    def own() -> Iterator[int]:
        while last not in ending and len(outputs) < limit:
            if last < 0:
                raise NoRule(NO_OUTPUT)
            yield first_target + last

    for last in stepper.run(own()):
        outputs.append(last)
    return outputs


def written(stepper: Stepper, read: Sequence[int]) -> list[int]:
    """What is written to the output buffer, as many symbols as were read; 0 where it has none.

    What would be done after the last of them does not matter, and is not done.
    """
    machine = stepper.machine
    assert machine.buffers is not None
    place, count, skip = 0, len(read), machine.buffers.output_skip
    said: list[int] = []

    def symbols() -> Iterator[int]:
        for _ in range(machine.steps_over(count)):
            yield read[place] if place < count else machine.nothing

    for output in stepper.run(symbols()):
        place += stepper.signals[-2]
        if stepper.signals[-1]:
            if skip:
                skip -= 1
            elif len(said) < count:
                said.append(output)
        if place >= count and len(said) == count:
            break
    return said + [0] * (count - len(said))
