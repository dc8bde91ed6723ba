"""From steps to rules: symbols and kinds that are treated alike are spoken of together.

Things of a series begin as one sort. Steps that are alike up to sorts should do the same, where
the same may be the thing with the letter of what is read. Where they do not, the things that
deviate become a sort of their own, or it has to be asked whether two letters are the same. In the
end rules are made as general as the steps that were met allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stacktrans.extraction.alike import Alike
from stacktrans.extraction.classes import Classes
from stacktrans.extraction.deadline import GRACE, UNLIMITED, Deadline
from stacktrans.extraction.naming import Named, letters_of
from stacktrans.extraction.runs import EMPTY, NOTHING
from stacktrans.machines.definition import CONSTANT, Rule, Term, Things
from stacktrans.tasks.alphabets import Ids, Mask

ANYTHING = None
"""Terms of what does not matter: any would do."""
Terms = frozenset[Term] | None
MOST_ROUNDS = 2000
"""How often sorts are parted at most."""


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
    things: Things | None
    needed: bool = True


@dataclass
class Group:
    """Steps that are alike up to sorts.

    Attributes:
        key: the sort of what stands in each place, then whether letters are the same.
        rows: the steps.
        letters: of each place, the letters of what stands there.
        terms: of each slot, all that would be right.
    """

    key: tuple[int, ...]
    rows: Ids
    letters: list[frozenset[int]]
    terms: list[Terms]


class RuleLearner:
    """Learns the rules of steps.

    Args:
        alike: the steps and the classes of what they are made of.
        names: what these are called.
        deadline: after which sorts are parted no further.

    Attributes:
        sorts: for each place, the sort of each thing.
    """

    def __init__(self, alike: Alike, names: Named, deadline: Deadline = UNLIMITED) -> None:
        self._deadline = deadline
        steps = alike.steps
        reads = [
            names.kind_numbers[ring][alike.kinds[ring].of[steps.reads[:, place]]]
            * alike.matters[1 + place]
            for place, ring in enumerate(alike.read_rings)
        ]
        states = names.state_numbers[alike.states.of[steps.states]]
        things = [names.symbols, *(names.kinds[ring] for ring in alike.read_rings), names.states]
        slots = self._slots(alike, names)
        columns = [column for slot in slots for column in (slot.values, slot.likely)]
        table = np.column_stack([steps.inputs, *reads, states, *columns])
        table, counts = np.unique(table, axis=0, return_counts=True)
        self.things, self._counts = things, counts
        self.places, done = table[:, : len(things)], table[:, len(things) :].T
        self.slots = [
            _Slot(*of_slot, slot.things, slot.needed)
            for slot, of_slot in zip(slots, zip(done[::2], done[1::2], strict=True), strict=True)
        ]
        self._letters = [letters_of(each) for each in things]
        self.sorts = [np.array([series for series, _ in each.each]) for each in things]
        self._push_signals = [signal for signal, _ in alike.ends.pushes]
        self.pairs: list[tuple[int, int]] = []

    @staticmethod
    def _slots(alike: Alike, names: Named) -> list[_Slot]:
        steps = alike.steps
        slots = []
        for signal in range(steps.signals.shape[1]):
            values = alike.usual(alike.signal_values(signal))
            slots.append(_Slot(values, values, None))
        outputs = alike.usual(steps.outputs)
        slots.append(_Slot(outputs, outputs, names.outputs, needed=False))
        for place, ring in enumerate(alike.push_rings):
            if not alike.ring_matters(ring):
                nothing = np.full(len(steps.inputs), NOTHING)
                slots.append(_Slot(nothing, nothing, names.kinds[ring]))
                continue
            classes, numbers = alike.kinds[ring], names.kind_numbers[ring]
            met = steps.pushed[:, place]
            known = alike.usual(classes.known(met))
            slots.append(_slot(classes, met, known, numbers, names.kinds[ring]))
        known = alike.usual(alike.states.known(steps.after))
        numbers = names.state_numbers
        slots.append(_slot(alike.states, steps.after, known, numbers, names.states))
        return slots

    def learn(self) -> list[Rule]:
        """The rules.

        Raises:
            OutOfTime: there is no time left to make any.
        """
        for _ in range(MOST_ROUNDS):
            groups = self._groups()
            if self._deadline.over or not self._part(groups):
                break
        return [*self._general(groups)]

    def _groups(self) -> list[Group]:
        sorted_places = [own[column] for own, column in zip(self.sorts, self.places.T, strict=True)]
        letters = [own[column] for own, column in zip(self._letters, self.places.T, strict=True)]
        same = [
            (letters[one] == letters[other]) & (letters[one] != NOTHING)
            for one, other in self.pairs
        ]
        keys, groups = np.unique(
            np.column_stack([*sorted_places, *same]), axis=0, return_inverse=True
        )
        order = np.argsort(groups.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(groups.reshape(-1)))[:-1]
        return [
            Group(
                tuple(key),
                rows,
                [frozenset(own[rows].tolist()) for own in letters],
                [self._terms(slot, rows) for slot in self.slots],
            )
            for key, rows in zip(keys.tolist(), np.split(order, ends), strict=True)
        ]

    def _terms(self, slot: _Slot, rows: Ids) -> Terms:
        """All terms that give what is done in some steps; none if there is no such term."""
        self._deadline.check(GRACE)
        candidates = self._candidates(slot, rows)
        if candidates is None:
            return ANYTHING
        return frozenset(term for term, right in candidates if right.all())

    def _candidates(
        self, slot: _Slot, rows: Ids, likely: bool = False
    ) -> list[tuple[Term, Mask]] | None:
        """Terms, each with the steps in which it gives what is done; None if nothing matters."""
        values = (slot.likely if likely else slot.values)[rows]
        matters = values != NOTHING
        if not matters.any():
            return None
        usual = int(np.bincount(values[matters]).argmax())
        found = [(Term(CONSTANT, usual), ~matters | (values == usual))]
        if slot.things is None:
            return found
        letters, series = letters_of(slot.things), _series_of(slot.things)
        own = int(np.bincount(series[values[matters]]).argmax())
        own_letters = slot.things.series[own].letters
        if own_letters is None:
            return found
        for place, of_place in enumerate(self._letters):
            wanted = of_place[self.places[rows, place]]
            right = (letters[values] == wanted) & (series[values] == own) & (wanted != NOTHING)
            may = ~matters
            if slot.needed:
                may &= np.isin(wanted, own_letters)
            found.append((Term(place, own), may | right))
        return found

    def _part(self, groups: Sequence[Group]) -> bool:
        """Part a sort in each place where steps that are alike deviate; whether any was."""
        parted: set[tuple[int, int]] = set()
        for group in groups:
            if self._deadline.over:
                break
            for slot, terms in zip(self.slots, group.terms, strict=True):
                if terms is ANYTHING or terms:
                    continue
                self._split_by(group, slot, parted)
                break
        return bool(parted)

    def _split_by(self, group: Group, slot: _Slot, parted: set[tuple[int, int]]) -> None:
        """Split a sort to explain the steps that deviate from the best term of a slot."""
        candidates = self._candidates(slot, group.rows)
        assert candidates is not None
        _, right = max(candidates, key=lambda each: int(each[1].sum()))
        best: tuple[float, int, Ids] | None = None
        for place, sorts in enumerate(self.sorts):
            column = self.places[group.rows, place]
            things = np.unique(column)
            if len(things) < 2:
                continue
            wrong = np.bincount(column[~right], minlength=len(sorts))[things]
            total = np.bincount(column, minlength=len(sorts))[things]
            explained = float(np.maximum(wrong, total - wrong).sum() / len(column))
            deviating = things[2 * wrong > total]
            if 0 < len(deviating) < len(things) and (best is None or explained > best[0] + 1e-9):
                best = explained, place, deviating
        pair = self._telling_pair(group, right)
        if pair is not None and (best is None or best[0] < 1):
            self.pairs.append(pair)
            parted.add((-1, -1))
        elif best is None:
            self._split_first(group, right, parted)
        else:
            _, place, deviating = best
            self._split_off(place, deviating, parted)

    def _split_first(self, group: Group, right: Mask, parted: set[tuple[int, int]]) -> None:
        """Split off a single thing that stands in a step that deviates."""
        for place in range(len(self.sorts)):
            column = self.places[group.rows, place]
            if len(np.unique(column)) > 1:
                thing = np.bincount(column[~right]).argmax()
                self._split_off(place, np.array([thing]), parted)
                return

    def _split_off(self, place: int, things: Ids, parted: set[tuple[int, int]]) -> None:
        """Make a sort of some things, unless their own was split in this round."""
        sorts = self.sorts[place]
        own = int(sorts[things[0]])
        if (place, own) not in parted:
            sorts[things] = sorts.max() + 1
        parted.add((place, own))

    def _telling_pair(self, group: Group, right: Mask) -> tuple[int, int] | None:
        """Two places whose letters are the same just where steps deviate, or where they do not."""
        columns = [
            own[column]
            for own, column in zip(self._letters, self.places[group.rows].T, strict=True)
        ]
        for one, other in itertools.combinations(range(len(columns)), 2):
            same = (columns[one] == columns[other]) & (columns[one] != NOTHING)
            told = (same == right).all() or (same != right).all()
            if (one, other) not in self.pairs and told and 0 < same.sum() < len(same):
                return one, other
        return None

    def _general(self, groups: Sequence[Group]) -> Iterator[Rule]:
        """Rules that hold for all groups, each as general as they allow, the commonest first."""
        weights = [int(self._counts[group.rows].sum()) for group in groups]
        waiting = sorted(range(len(groups)), key=lambda index: -weights[index])
        keys = np.array([group.key for group in groups])
        covered = np.zeros(len(groups), np.bool_)
        for index in waiting:
            if covered[index]:
                continue
            when: list[set[int] | None] = [{part} for part in groups[index].key]
            matching, terms = self._widened(groups, keys, when, index, covered)
            covered |= matching
            rows = np.concatenate([groups[at].rows for at in np.flatnonzero(matching).tolist()])
            yield self._rule(
                when,
                [
                    _preferred(own) if own else self._best(slot, rows)
                    for slot, own in zip(self.slots, terms, strict=True)
                ],
            )

    def _best(self, slot: _Slot, rows: Ids) -> Term | None:
        """The term that is right in most steps, by what is likely."""
        candidates = self._candidates(slot, rows, likely=True)
        if candidates is None:
            return None
        return max(candidates, key=lambda each: int(each[1].sum()))[0]

    def _widened(
        self,
        groups: Sequence[Group],
        keys: Ids,
        when: list[set[int] | None],
        index: int,
        covered: Mask,
    ) -> tuple[Mask, list[Terms]]:
        """Let a rule hold for all that it may; which groups it holds for, and its terms.

        It comes after those that cover some groups already.
        """
        matching: Mask = np.zeros(len(groups), np.bool_)
        matching[index] = True
        terms = groups[index].terms
        count = len(self.things)
        order = [*range(count, len(when)), *range(1, count), 0]
        for place in order:
            for wider in self._wider(place, keys, when):
                self._deadline.check(GRACE)
                found = _matching(keys, [*when[:place], wider, *when[place + 1 :]])
                further = (found & ~matching & ~covered).any()
                if not further and self._is_told(place, when[place], wider):
                    continue
                own = [groups[at] for at in np.flatnonzero(found).tolist()]
                common = self._common(terms, own)
                if common is not None:
                    when[place], matching, terms = wider, found, common
                    if wider is None:
                        break
        return matching, terms

    def _is_told(self, place: int, own: set[int] | None, wider: set[int] | None) -> bool:
        """Whether a rule would speak of what it was not met with: a symbol, or an empty memory."""
        reads = 0 < place < len(self.sorts) - 1
        added = (wider or set()) - (own or set())
        return place == 0 or (reads and added == {self.sorts[place][EMPTY]})

    def _common(self, terms: Sequence[Terms], groups: Sequence[Group]) -> list[Terms] | None:
        """The terms that groups have in common; None if for a slot there are none."""
        found = list(terms)
        for group in groups:
            for number, own in enumerate(group.terms):
                if own is ANYTHING:
                    continue
                held = found[number]
                found[number] = own if held is ANYTHING else held & own
                if not found[number]:
                    return None
        for number, slot in enumerate(self.slots):
            held = found[number]
            if held and slot.needed and slot.things:
                found[number] = frozenset(
                    term
                    for term in held
                    if all(_is_known(term, slot.things, group) for group in groups)
                )
                if not found[number]:
                    return None
        return found

    def _wider(
        self, place: int, keys: Ids, when: Sequence[set[int] | None]
    ) -> Iterator[set[int] | None]:
        """What a rule may be tried with in a place: anything, or another sort too."""
        yield None
        for sort in np.unique(keys[:, place]).tolist():
            own = when[place]
            if own is not None and sort not in own:
                yield own | {sort}

    def _rule(self, when: Sequence[set[int] | None], chosen: Sequence[Term | None]) -> Rule:
        count = len(self.things)
        sets = [
            None if own is None else frozenset(np.flatnonzero(np.isin(sorts, [*own])).tolist())
            for own, sorts in zip(when, self.sorts, strict=False)
        ]
        equal = tuple(
            (*pair, bool(next(iter(own))))
            for pair, own in zip(self.pairs, when[count:], strict=True)
            if own is not None
        )
        signals = len([slot for slot in self.slots if slot.things is None])
        numbers = tuple(0 if term is None else term.thing for term in chosen[:signals])
        output, *pushed, after = chosen[signals:]
        done = [
            term if numbers[signal] else None
            for signal, term in zip(self._push_signals, pushed, strict=True)
        ]
        return Rule(tuple(sets), equal, numbers, output, tuple(done), after or Term(CONSTANT, 0))


def _slot(classes: Classes, met: Ids, known: Ids, numbers: Ids, things: Things) -> _Slot:
    """What steps lead to: kinds that are pushed, or states."""
    likely = np.where(met == NOTHING, NOTHING, numbers[classes.of[met]])
    return _Slot(np.where(known == NOTHING, NOTHING, likely), likely, things)


def _matching(keys: Ids, when: Sequence[set[int] | None]) -> Mask:
    """[groups] which of them a rule holds for."""
    found: Mask = np.ones(len(keys), np.bool_)
    for column, own in zip(keys.T, when, strict=True):
        if own is not None:
            found &= np.isin(column, [*own])
    return found


def _preferred(terms: frozenset[Term]) -> Term:
    """The term that says most simply what is done: of what is read, or else always the same."""
    return min(terms, key=lambda term: (term.place == CONSTANT, term.place, term.thing))


def _is_known(term: Term, things: Things, group: Group) -> bool:
    """Whether there is a thing with each letter that stands in the place of a term."""
    if term.place == CONSTANT:
        return True
    return group.letters[term.place] <= frozenset(things.series[term.thing].letters or ())


def _series_of(things: Things) -> Ids:
    return np.array([series for series, _ in things.each])
