"""From classes of steps to the rules of a machine.

Inputs, outputs and stack symbols are named after symbols of the task, so that one rule can speak
of all that have one. An input has the symbol that it is written as, whether it is read of a source
or of an answer, and so has an output. A stack symbol has the symbol of the inputs at which it is
pushed, or else of the outputs that are written when it is read.

SymbolTable of a series begin as one sort. Steps that are equivalent up to sorts should do the same,
where the same may be the thing with the symbol of what is read. Where they do not, the things that
deviate become a sort of their own, or it has to be asked whether two symbols are the same. In the
end rules are made as general as the steps that were met allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Family, Rule, SymbolTable, Term
from stacktrans.extraction.network import EMPTY, GRACE, NOTHING
from stacktrans.extraction.partition import Classes, Partition
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import SOURCE, TARGET

MOST_COMPARED = 12
"""How many states or stack symbols are compared with one another at most."""
MOSTLY = 0.9
"""The share of a stack symbol's steps that have to be of one symbol."""
ANYTHING = None
"""Terms of what does not matter: any would do."""
Terms = frozenset[Term] | None
MOST_ROUNDS = 2000
"""The most rounds in which sorts are split."""


class NamedMachine(NamedTuple):
    """A machine whose things have names.

    Attributes:
        machine: itself, without rules.
        stack_symbol_numbers: of each memory, the thing that each class of its vectors is.
        state_numbers: the same of states, of which the first is the initial one.
    """

    machine: Machine
    stack_symbol_numbers: list[Ids]
    state_numbers: Ids


def named(checkpoint: Checkpoint, partition: Partition) -> NamedMachine:
    """The names of all things that were met."""
    task, layout = checkpoint.task, checkpoint.layout
    symbols = tuple(dict.fromkeys([*task.source.symbols, *task.target.symbols]))
    number = {symbol: index for index, symbol in enumerate(symbols)}
    source = Family("symbol", tuple(number[symbol] for symbol in task.source.symbols))
    target = Family("symbol", tuple(number[symbol] for symbol in task.target.symbols))
    symbols_read = {SOURCE: source, TARGET: target._replace(name="written symbol")}
    series = [symbols_read.get(section) or Family(section) for section, _ in layout.sections]
    series += [Family("nothing")] * bool(checkpoint.config.model.buffers)
    inputs = SymbolTable(tuple(series))
    outputs = SymbolTable((target, *[Family("end")] * (layout.outputs > len(task.target))))
    if 1 < len(there := partition.states.there) <= MOST_COMPARED:  # nothing may tell some apart
        partition.merge(partition.states, itertools.combinations(there, 2))
    stack_symbols: list[SymbolTable] = []
    numbers: list[Ids] = []
    for ring, classes in enumerate(partition.stack_symbols):
        if (alphabet := partition.ends.alphabets[ring]) != ring:
            things, of_stack_symbols = stack_symbols[alphabet], numbers[alphabet]
        elif partition.ring_relevant(ring):
            read, said = symbols_of(inputs), symbols_of(outputs)
            partition.merge(
                classes,
                _equivalent_pairs(classes, _symbols_of_stack_symbols(partition, ring, read, said)),
            )
            things, of_stack_symbols = _series(
                classes, _symbols_of_stack_symbols(partition, ring, read, said)
            )
        else:
            things, of_stack_symbols = (
                SymbolTable((Family("empty"),)),
                np.zeros(classes.count, np.int64),
            )
        stack_symbols.append(things)
        numbers.append(of_stack_symbols)
    first = int(partition.states.of[0])
    order = [first, *(each for each in partition.states.there if each != first)]
    states = SymbolTable(tuple(Family(f"q{index}") for index in range(len(order))))
    of_states = np.zeros(partition.states.count, np.int64)
    of_states[order] = np.arange(len(order))
    machine = Machine(
        **checkpoint.machine_attributes,
        symbols=symbols,
        inputs=inputs,
        outputs=outputs,
        stack_symbols=tuple(stack_symbols),
        states=states,
        rules=(),
    )
    return NamedMachine(machine, numbers, of_states)


def _equivalent_pairs(classes: Classes, symbols: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs of stack symbols to merge: those of the same symbol, and those of none, if few."""
    there = [stack_symbol for stack_symbol in classes.there if stack_symbol != EMPTY]
    others = [stack_symbol for stack_symbol in there if stack_symbol not in symbols]
    by_symbol: dict[int, list[int]] = {}
    for stack_symbol in sorted(symbols, key=lambda each: -int((classes.of == each).sum())):
        by_symbol.setdefault(symbols[stack_symbol], []).append(stack_symbol)
    few = [own for own in (others, there) if len(own) <= MOST_COMPARED]
    for same in (*by_symbol.values(), *few):
        yield from itertools.combinations(same, 2)


def symbols_of(things: SymbolTable) -> Ids:
    """The symbol of each thing; -1 for none."""
    return np.array([NOTHING if symbol is None else symbol for _, symbol in things.entries])


def _symbols_of_stack_symbols(
    partition: Partition, ring: int, read: Ids, said: Ids
) -> dict[int, int]:
    """The symbols of the stack symbols of a ring that have one, by those of inputs and outputs."""
    steps, classes, alphabets = (
        partition.steps,
        partition.stack_symbols[ring],
        partition.ends.alphabets,
    )
    pushed, told = [], []
    for place, own_ring in enumerate(partition.push_rings):
        if alphabets[own_ring] != ring:
            continue
        numbers = steps.pushed[:, place]
        rows = classes.known(numbers) != NOTHING
        pushed.append(np.column_stack([classes.of[numbers[rows]], read[steps.inputs[rows]]]))
    rows = steps.outputs != NOTHING
    for place, own_ring in enumerate(partition.read_rings):
        if alphabets[own_ring] != ring or not partition.relevant[1 + place]:
            continue
        of_place = classes.of[steps.reads[rows, place]]
        told.append(np.column_stack([of_place, said[steps.outputs[rows]]]))
    symbols: dict[int, int] = {}
    for votes in (pushed, told):
        table = np.concatenate([np.zeros((0, 2), np.int64), *votes])
        for stack_symbol in classes.there:
            own = table[table[:, 0] == stack_symbol, 1]
            if stack_symbol != EMPTY and stack_symbol not in symbols and len(own):
                counts = np.bincount(own + 1)
                best = int(counts.argmax())
                if best and counts[best] >= MOSTLY * len(own):
                    symbols[stack_symbol] = best - 1
    return symbols


def _series(classes: Classes, symbols: dict[int, int]) -> tuple[SymbolTable, Ids]:
    """Series of stack symbols: of those of the same symbol, the most frequent comes first."""
    sizes = np.bincount(classes.of, minlength=classes.count)
    by_series: list[dict[int, int]] = []
    for stack_symbol in sorted(symbols, key=lambda each: -sizes[each]):
        symbol = symbols[stack_symbol]
        if all(symbol in own for own in by_series):
            by_series.append({})
        next(own for own in by_series if symbol not in own)[symbol] = stack_symbol
    series, order = [Family("empty")], [EMPTY]
    for index, own in enumerate(by_series):
        name = "symbol" if not index else f"symbol {index + 1}"
        series.append(Family(name, tuple(sorted(own))))
        order += [own[symbol] for symbol in sorted(own)]
    others = [
        stack_symbol
        for stack_symbol in classes.there
        if stack_symbol != EMPTY and stack_symbol not in symbols
    ]
    series += [Family(f"mark {index}") for index in range(1, len(others) + 1)]
    order += others
    numbers = np.zeros(classes.count, np.int64)
    numbers[order] = np.arange(len(order))
    return SymbolTable(tuple(series)), numbers


@dataclass
class _Slot:
    """One of the things done.

    Attributes:
        values: [N] what is done; `NOTHING` where it does not matter, or nothing is known.
        likely: [N] the same where it is only likely.
        things: what is numbered; None for numbers.
        needed: whether a machine cannot go on without it, even where it does not matter.
    """

    values: Ids
    likely: Ids
    things: SymbolTable | None
    needed: bool = True


def _slots(partition: Partition, names: NamedMachine) -> list[_Slot]:
    """What is done: signals, the output, what is pushed and the next state."""
    machine, slots = names.machine, list[_Slot]()
    for column in range(partition.output + 1):
        values, output = partition.usual(partition.values(column)), column == partition.output
        slots.append(_Slot(values, values, machine.outputs if output else None, not output))
    pushed = [
        (names.stack_symbol_numbers[ring], machine.stack_symbols[ring])
        for ring in partition.push_rings
    ]
    after = [*pushed, (names.state_numbers, machine.states)]
    columns = enumerate(zip(partition.results, after, strict=True), start=partition.output + 1)
    for column, ((classes, met), (numbers, things)) in columns:
        values = likely = np.full(len(met), NOTHING)
        if column in partition.later:
            known = partition.usual(partition.values(column)) != NOTHING
            likely = np.where(met == NOTHING, NOTHING, numbers[classes.of[met]])
            values = np.where(known, likely, NOTHING)
        slots.append(_Slot(values, likely, things))
    return slots


@dataclass
class Group:
    """Steps that are equivalent up to sorts.

    Attributes:
        key: the sort of what stands in each place, then whether symbols are the same.
        rows: the steps.
        symbols: of each place, the symbols of what stands there.
        terms: of each slot, all that would be right.
    """

    key: tuple[int, ...]
    rows: Ids
    symbols: list[frozenset[int]]
    terms: list[Terms]


class RuleLearner:
    """Learns the rules of steps.

    Args:
        partition: the steps and the classes of what they are made of; after its deadline
            sorts are not split any further.
        names: what these are called.

    Attributes:
        things: what can stand in each place.
        places: [N, places] what stands there, in each different step.
        counts: [N] how often each step was met.
        slots: what is done.
        sorts: for each place, the sort of each thing.
        pairs: places whose symbols are compared.
        push_signals: the signal of each push.
    """

    def __init__(self, partition: Partition, names: NamedMachine) -> None:
        self.deadline, steps = partition.deadline, partition.steps
        reads = [
            names.stack_symbol_numbers[ring][
                partition.stack_symbols[ring].of[steps.reads[:, place]]
            ]
            * partition.relevant[1 + place]
            for place, ring in enumerate(partition.read_rings)
        ]
        states = names.state_numbers[partition.states.of[steps.states]]
        slots = _slots(partition, names)
        columns = [column for slot in slots for column in (slot.values, slot.likely)]
        table = np.column_stack([steps.inputs, *reads, states, *columns])
        table, self.counts = np.unique(table, axis=0, return_counts=True)
        self.things = names.machine.components
        self.places, done = np.split(table, [len(self.things)], axis=1)
        self.slots = [
            replace(slot, values=values, likely=likely)
            for slot, values, likely in zip(slots, done.T[::2], done.T[1::2], strict=True)
        ]
        there = zip(self.things, self.places.T, strict=True)
        self._symbols = [symbols_of(things)[column] for things, column in there]
        self.sorts = [_series_of(each) for each in self.things]
        self.pairs: list[tuple[int, int]] = []
        self._parted = set[tuple[int, int]]()  # places and sorts
        self.push_signals = [signal for signal, _ in partition.ends.pushes]

    def learn(self) -> list[Rule]:
        """The rules.

        Raises:
            OutOfTime: there is no time left to make any.
        """
        for _ in range(MOST_ROUNDS):
            groups = self._groups()
            if self.deadline.over() or not self._part(groups):
                break
        return [*_Generalizing(self, groups).rules()]

    def _same(self, one: int, other: int, rows: Ids | slice) -> Mask:
        """[n] whether what stands in two places has the same symbol, in some steps or in all."""
        symbols, others = self._symbols[one][rows], self._symbols[other][rows]
        same: Mask = (symbols == others) & (symbols != NOTHING)
        return same

    def _groups(self) -> list[Group]:
        columns = [own[column] for own, column in zip(self.sorts, self.places.T, strict=True)]
        columns += [self._same(*pair, slice(None)) for pair in self.pairs]
        keys, groups = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
        order = np.argsort(groups.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(groups.reshape(-1)))[:-1]
        return [
            Group(
                tuple(key),
                rows,
                [frozenset(own[rows].tolist()) for own in self._symbols],
                [self._terms(slot, rows) for slot in self.slots],
            )
            for key, rows in zip(keys.tolist(), np.split(order, ends), strict=True)
        ]

    def _terms(self, slot: _Slot, rows: Ids) -> Terms:
        """All terms that give what is done in some steps; none if there is no such term."""
        self.deadline.check(GRACE)
        candidates = self.candidates(slot, rows)
        if not candidates:
            return ANYTHING
        return frozenset(term for term, right in candidates if right.all())

    def candidates(self, slot: _Slot, rows: Ids, likely: bool = False) -> list[tuple[Term, Mask]]:
        """Terms, each with the steps in which it gives what is done; none if nothing is known."""
        values = (slot.likely if likely else slot.values)[rows]
        relevant = values != NOTHING
        if not relevant.any():
            return []
        usual = int(np.bincount(values[relevant]).argmax())
        found = [(Term(CONSTANT, usual), ~relevant | (values == usual))]
        if slot.things is None:
            return found
        symbols, series = symbols_of(slot.things), _series_of(slot.things)
        own = int(np.bincount(series[values[relevant]]).argmax())
        own_symbols = slot.things.families[own].symbols
        if own_symbols is None:
            return found
        for place, of_place in enumerate(self._symbols):
            wanted = of_place[rows]
            right = (symbols[values] == wanted) & (series[values] == own) & (wanted != NOTHING)
            may = ~relevant
            if slot.needed:
                may &= np.isin(wanted, own_symbols)
            found.append((Term(place, own), may | right))
        return found

    def _part(self, groups: Sequence[Group]) -> bool:
        """Part a sort in each place where equivalent steps deviate; whether any was."""
        self._parted = set()
        for group in groups:
            if self.deadline.over():
                break
            slots = zip(self.slots, group.terms, strict=True)
            slot = next((slot for slot, terms in slots if terms == frozenset()), None)
            if slot:
                self._split_by(group, slot)
        return bool(self._parted)

    def _split_by(self, group: Group, slot: _Slot) -> None:
        """Split a sort to explain the steps that deviate from the best term of a slot."""
        candidates = self.candidates(slot, group.rows)
        _, right = max(candidates, key=lambda each: int(each[1].sum()))
        best: tuple[float, int, Ids] | None = None
        first: tuple[int, Ids] | None = None
        for place, sorts in enumerate(self.sorts):
            column = self.places[group.rows, place]
            things = np.unique(column)
            if len(things) < 2:
                continue
            wrong = np.bincount(column[~right], minlength=len(sorts))
            first = first or (place, np.array([wrong.argmax()]))
            wrong = wrong[things]
            total = np.bincount(column, minlength=len(sorts))[things]
            explained = float(np.maximum(wrong, total - wrong).sum() / len(column))
            deviating = things[2 * wrong > total]
            if 0 < len(deviating) < len(things) and (best is None or explained > best[0] + 1e-9):
                best = explained, place, deviating
        pair = self._telling_pair(group, right)
        if pair is not None and (best is None or best[0] < 1):
            self.pairs.append(pair)
            self._parted.add((-1, -1))
        elif best:
            self._split_off(*best[1:])
        elif first:  # a single thing that stands in a step that deviates
            self._split_off(*first)

    def _split_off(self, place: int, things: Ids) -> None:
        """Make a sort of some things, unless their own was split in this round."""
        sorts = self.sorts[place]
        own = int(sorts[things[0]])
        if (place, own) not in self._parted:
            sorts[things] = sorts.max() + 1
        self._parted.add((place, own))

    def _telling_pair(self, group: Group, right: Mask) -> tuple[int, int] | None:
        """Two places whose symbols are the same just where steps deviate, or where they do not."""
        for one, other in itertools.combinations(range(len(self._symbols)), 2):
            same = self._same(one, other, group.rows)
            told = (same == right).all() or (same != right).all()
            if (one, other) not in self.pairs and told and 0 < same.sum() < len(same):
                return one, other
        return None


class _Generalizing:
    """Makes rules of groups, each as general as they allow.

    Args:
        learner: of the groups.
        groups: of steps.
    """

    def __init__(self, learner: RuleLearner, groups: Sequence[Group]) -> None:
        self._learner, self._groups = learner, groups
        self._keys = np.array([group.key for group in groups])
        self._covered: Mask = np.zeros(len(groups), np.bool_)

    def rules(self) -> Iterator[Rule]:
        """Rules that hold for all groups, the commonest first."""
        slots, counts = self._learner.slots, self._learner.counts
        weights = [int(counts[group.rows].sum()) for group in self._groups]
        for index in sorted(range(len(weights)), key=lambda index: -weights[index]):
            if self._covered[index]:
                continue
            when: list[set[int] | None] = [{part} for part in self._groups[index].key]
            matching, terms = self._widened(when, index)
            self._covered |= matching
            rows = np.concatenate([group.rows for group in self._matched(matching)])
            chosen = [
                _preferred(own) if own else self._best(slot, rows)
                for slot, own in zip(slots, terms, strict=True)
            ]
            yield self._rule(when, chosen)

    def _matched(self, matching: Mask) -> list[Group]:
        return [self._groups[at] for at in np.flatnonzero(matching).tolist()]

    def _best(self, slot: _Slot, rows: Ids) -> Term | None:
        """The term that is right in most steps, by what is likely."""
        candidates = self._learner.candidates(slot, rows, likely=True)
        best = max(candidates, key=lambda each: int(each[1].sum()), default=None)
        return best and best[0]

    def _widened(self, when: list[set[int] | None], index: int) -> tuple[Mask, list[Terms]]:
        """Let a rule hold for all that it may; which groups it holds for, and its terms.

        It comes after those that cover some groups already.
        """
        matching: Mask = np.zeros(len(self._groups), np.bool_)
        matching[index] = True
        terms, count = self._groups[index].terms, len(self._learner.things)
        for place in [*range(count, len(when)), *range(1, count), 0]:
            for wider in self._wider(place, when):
                self._learner.deadline.check(GRACE)
                found = self._matching([*when[:place], wider, *when[place + 1 :]])
                further = (found & ~matching & ~self._covered).any()
                if not further and self._is_told(place, when[place], wider):
                    continue
                common = self._common(terms, self._matched(found))
                if common is not None:
                    when[place], matching, terms = wider, found, common
                    if wider is None:
                        break
        return matching, terms

    def _matching(self, when: Sequence[set[int] | None]) -> Mask:
        """[groups] which of them a rule holds for."""
        found: Mask = np.ones(len(self._keys), np.bool_)
        for column, own in zip(self._keys.T, when, strict=True):
            if own is not None:
                found &= np.isin(column, [*own])
        return found

    def _is_told(self, place: int, own: set[int] | None, wider: set[int] | None) -> bool:
        """Whether a rule would speak of what it was not met with: a symbol, or an empty memory."""
        sorts = self._learner.sorts
        reads = 0 < place < len(sorts) - 1
        added = (wider or set()) - (own or set())
        return place == 0 or (reads and added == {sorts[place][EMPTY]})

    def _common(self, terms: Sequence[Terms], groups: Sequence[Group]) -> list[Terms] | None:
        """The terms that groups have in common; None if for a slot there are none."""
        found: list[Terms] = []
        for number, slot in enumerate(self._learner.slots):
            every = (terms[number], *(group.terms[number] for group in groups))
            known = [own for own in every if own is not ANYTHING]
            common = frozenset.intersection(*known) if known else ANYTHING
            if common and slot.needed and (things := slot.things):
                common = frozenset(
                    term for term in common if all(_is_known(term, things, own) for own in groups)
                )
            if common == frozenset():
                return None
            found.append(common)
        return found

    def _wider(self, place: int, when: Sequence[set[int] | None]) -> Iterator[set[int] | None]:
        """What a rule may be tried with in a place: anything, or another sort too."""
        yield None
        for sort in np.unique(self._keys[:, place]).tolist():
            own = when[place]
            if own is not None and sort not in own:
                yield own | {sort}

    def _rule(self, when: Sequence[set[int] | None], chosen: Sequence[Term | None]) -> Rule:
        learner = self._learner
        sets = [
            None if own is None else frozenset(np.flatnonzero(np.isin(sorts, [*own])).tolist())
            for own, sorts in zip(when, learner.sorts, strict=False)
        ]
        equal = tuple(
            (*pair, bool(next(iter(own))))
            for pair, own in zip(learner.pairs, when[len(sets) :], strict=True)
            if own is not None
        )
        signals = len([slot for slot in learner.slots if slot.things is None])
        numbers = tuple(0 if term is None else term.entry for term in chosen[:signals])
        output, *pushed, after = chosen[signals:]
        done = [
            term if numbers[signal] else None
            for signal, term in zip(learner.push_signals, pushed, strict=True)
        ]
        return Rule(tuple(sets), equal, numbers, output, tuple(done), after or Term(CONSTANT, 0))


def _preferred(terms: frozenset[Term]) -> Term:
    """The term that says most simply what is done: of what is read, or else always the same."""
    return min(terms, key=lambda term: (term.component == CONSTANT, term.component, term.entry))


def _is_known(term: Term, things: SymbolTable, group: Group) -> bool:
    """Whether there is a thing with each symbol that stands in the place of a term."""
    if term.component == CONSTANT:
        return True
    return group.symbols[term.component] <= frozenset(things.families[term.entry].symbols or ())


def _series_of(things: SymbolTable) -> Ids:
    return np.array([series for series, _ in things.entries])
