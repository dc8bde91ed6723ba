"""Partitions of states, symbols and pushed vectors into classes, and of steps by these.

Steps are equivalent if all that they depend on is of the same classes. A memory of which nothing is
relevant that is read is not relevant either, whatever is done with it. At the end are functions of
values of steps, [N], in groups of equivalent steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stacktrans.extraction.network import AT_ONCE, EMPTY, NOTHING, Network, Recorder, Vectors
from stacktrans.kernels import Array
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import BEGIN, SEPARATOR, TARGET

REMEMBERED = 2000
"""How many vectors without evidence are compared with."""
FEW_SYMBOLS = 8
"""Up to how many symbols of a part of a string are apart from the beginning."""
ROOM = 2**62
"""Up to where keys are counted."""


class Experiment(NamedTuple):
    """What was tried to split a class.

    Attributes:
        column: what is done that tells its parts apart; `NOTHING` if only neighbours do.
        place: where members were tried, in
        context: [places] this step.
        origins: where in strings those were pushed that it tells something of; None if of all.
    """

    column: int
    place: int
    context: Ids
    origins: Ids | None = None


NO_EXPERIMENT = Experiment(NOTHING, NOTHING, np.zeros(0, np.int64))


class Split(NamedTuple):
    """How a class was split.

    Attributes:
        own: the class.
        experiment: what was tried.
        values: what was done with those of each of
        classes: its parts.
        examples: [n] some members, and
        parts: [n] their parts.
        apart: the class of members of other origins, if there are any.
    """

    own: int
    experiment: Experiment
    values: Ids
    classes: Ids
    examples: Ids
    parts: Ids
    apart: int


class Classes:
    """The classes of some vectors or symbols.

    Args:
        of: [N] the class of each.
        vectors: themselves; None for symbols.

    Attributes:
        of: [N] the class of each.
        vectors: themselves; None for symbols.
        sure: [N] whether there is evidence for it.
        met: [N] whether there ever was.
        count: how many classes there are.
        splits: how classes were split, in order.
        joined: of classes that became part of another, that one.
    """

    def __init__(self, of: Ids, vectors: Vectors | None) -> None:
        self.of, self.vectors = of, vectors
        self.sure, self.met = np.ones(len(of), np.bool_), np.zeros(len(of), np.bool_)
        self.count = int(of.max(initial=0)) + 1
        self.splits: list[Split] = []
        self.joined: dict[int, int] = {}
        self._final_splits: list[dict[int, int]] = []

    @property
    def there(self) -> list[int]:
        """The classes that anything is of."""
        found: list[int] = np.unique(self.of).tolist()
        return found

    def known(self, numbers: Ids) -> Ids:
        """The classes of some that there is evidence for; `NOTHING` for others."""
        return np.where((numbers >= 0) & self.sure[numbers], self.of[numbers], NOTHING)

    def separability(self, numbers: Ids, values: Ids) -> float:
        """How well vectors, [n], tell values, [n]: the mean share that the nearest other tells."""
        assert self.vectors is not None
        apart = distances(vectors := self.vectors.of(numbers), vectors)
        np.fill_diagonal(apart, np.inf)
        right = values[apart.argmin(axis=1)] == values
        return float(np.mean([right[values == each].mean() for each in np.unique(values)]))

    def split(
        self,
        numbers: Ids,
        values: Ids,
        others: Ids,
        likely: Ids,
        experiment: Experiment = NO_EXPERIMENT,
        lasting: bool = False,
        apart: Ids | None = None,
    ) -> bool:
        """Split a class by the values of its members; whether that splits it.

        Args:
            numbers: members for which there is evidence.
            values: theirs.
            others: the other members.
            likely: what their values may be; of vectors, those that none of the first has do not
                count.
            experiment: what told values.
            lasting: whether its parts are kept apart.
            apart: members of which the values tell nothing: they become a class of their own.
        """
        own = int(self.of[numbers[0]])
        if self.vectors is None:
            numbers, values = np.append(numbers, others), np.append(values, likely)
            others, likely = others[:0], likely[:0]
        different, counts = np.unique(values, return_counts=True)
        if len(different) < 2:
            return False
        ranked = np.argsort(-counts, kind="stable")
        fresh = np.empty(len(ranked), np.int64)
        fresh[ranked] = np.append(own, self.count + np.arange(len(ranked) - 1))
        self.count += len(ranked) - 1
        classes = fresh[np.searchsorted(different, values)]
        self.of[numbers] = classes
        some = np.linspace(0, len(numbers) - 1, min(len(numbers), REMEMBERED)).astype(np.int64)
        away = NOTHING if apart is None else self.count
        self.splits.append(
            Split(own, experiment, different, fresh, numbers[some], classes[some], away)
        )
        found = np.minimum(np.searchsorted(different, likely), len(different) - 1)
        known = different[found] == likely
        self.of[others[known]] = fresh[found[known]]
        if len(left := others[~known]) and self.vectors is not None:
            vectors = self.vectors.of(left), self.vectors.of(numbers[some])
            self.of[left] = classes[some][nearest(*vectors)]
        self.met[numbers] = True
        self.sure[others] = self.met[others] & known
        if apart is not None:
            self.of[apart], self.count = away, self.count + 1
            self.sure[apart] &= self.met[apart]
            fresh = np.append(fresh, away)
        for kept in self._final_splits:
            if own in kept:
                kept.update(dict.fromkeys(fresh.tolist(), kept[own]))
        if lasting:
            self._final_splits.append({each: each for each in fresh.tolist()})
        return True

    def value_of(self, own: int, column: int) -> int:
        """What is done with members of a class by which it was split last; `NOTHING` if it is new.

        Args:
            own: the class.
            column: which of the things done.
        """
        for split in reversed(self.splits):
            if split.experiment.column == column != NOTHING and own in split.classes:
                return int(split.values[split.classes == own][0])
        return NOTHING

    def join(self, one: int, other: int) -> None:
        """Make two classes one."""
        self.of[self.of == other] = one
        self.joined[other] = one

    def now(self, classes: Ids) -> Ids:
        """[n] what classes have become by joining them."""
        found = classes.copy()
        while (joined := np.isin(found, [*self.joined])).any():
            found[joined] = [self.joined[each] for each in found[joined].tolist()]
        return found

    def were_split(self, one: int, other: int) -> bool:
        """Whether two classes have been split for good."""
        pairs = ((kept.get(one), kept.get(other)) for kept in self._final_splits)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


class Partition:
    """The classes of what was met in the runs of a network, and which steps they make equivalent.

    Args:
        recorder: of the runs; after its network's deadline nothing more is made one.

    Attributes:
        deadline: that of the network.
        steps: the steps of the runs.
        states: classes of states.
        symbols: classes of the ids that are read.
        stack_symbols: of each ring, classes of vectors; that of number 0 is what is read when it is
            empty.
        origins: of each ring, the part of a string in which each vector was pushed; `NOTHING` of
            what is read when it is empty.
        parts: which part of a string each id belongs to.
        ends: of the rings.
        contents: [N, places] what stands in each place of each step: the symbol, what is read from
            each end, and the state.
        places: what steps depend on: of each place, classes, and their numbers in each step.
        results: what steps lead to: of each push and of the next state, classes, and
            their numbers in each step.
        relevant: [places] whether anything depends on what stands in each place.
        read_rings: which ring each of the reads is of.
        push_rings: which ring each of the pushes is of.
        output: the column of outputs, after those of signals.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.deadline = recorder.network.deadline
        self.steps = steps = recorder.steps()
        self.contents = np.column_stack([steps.inputs, steps.reads, steps.states])
        self.states = Classes(np.zeros(len(recorder.states), np.int64), recorder.states)
        self.parts = parts_of(recorder.network)
        self.symbols = Classes(initial_classes(self.parts), None)
        self.ends = ends = recorder.network.ends
        own = [
            Classes((np.arange(len(each)) != EMPTY).astype(np.int64), each)
            for each in recorder.pushed
        ]
        self.stack_symbols = [own[alphabet] for alphabet in ends.alphabets]
        self.read_rings = [end // 2 for end in ends.reads]
        self.push_rings = [end // 2 for _, end in ends.pushes]
        origins = [np.full(len(each), NOTHING) for each in recorder.pushed]
        self.origins = [origins[alphabet] for alphabet in ends.alphabets]
        for ring, numbers in zip(self.push_rings, steps.pushed.T, strict=True):
            there = numbers != NOTHING
            self.origins[ring][numbers[there]] = self.parts[steps.inputs[there]]
        read = [self.stack_symbols[ring] for ring in self.read_rings]
        pushed = [self.stack_symbols[ring] for ring in self.push_rings]
        after = [*steps.pushed.T, steps.after]
        self.places = [*zip([self.symbols, *read, self.states], self.contents.T, strict=True)]
        self.results = [*zip([*pushed, self.states], after, strict=True)]
        self.relevant: Mask = np.zeros(self.contents.shape[1], np.bool_)
        self.relevant[[0, -1]] = True
        self.output: int = steps.signals.shape[1]
        used = (*ends.pops, *ends.pushes, *((signal, taken) for signal, taken, _ in ends.moves))
        self._rings = {signal: end // 2 for signal, end in used}

    def ring_relevant(self, ring: int) -> bool:
        """Whether anything depends on what a ring holds."""
        relevant = zip(self.read_rings, self.relevant[1:-1], strict=True)
        return any(
            own and self.stack_symbols[read] is self.stack_symbols[ring] for read, own in relevant
        )

    def _signal_relevant(self, signal: int) -> bool:
        """Whether anything depends on a signal: one of buffers, or of a ring that is relevant."""
        if signal >= len(self.ends.signal_names):
            return True
        return signal in self._rings and self.ring_relevant(self._rings[signal])

    def usual(self, values: Ids) -> Ids:
        """[N] things that are done; `NOTHING` where most equivalent steps do something else."""
        firsts, groups = self.groups()
        found = values.copy()
        for group in divided(values, groups, len(firsts)).tolist():
            rows = np.flatnonzero((groups == group) & (values != NOTHING))
            found[rows[values[rows] != np.bincount(values[rows]).argmax()]] = NOTHING
        return found

    @property
    def direct(self) -> list[int]:
        """The columns of relevant signals and of the output."""
        return [*filter(self._signal_relevant, range(self.output)), self.output]

    @property
    def later(self) -> list[int]:
        """The columns of the relevant pushed vectors, and of the next state."""
        relevant = [*map(self.ring_relevant, self.push_rings), True]
        return [self.output + 1 + place for place in np.flatnonzero(relevant).tolist()]

    def values(self, column: int) -> Ids:
        """[N] one of the things that are done: signals, output, stack symbols pushed, next state.

        A signal that is not relevant is `NOTHING`.
        """
        if column < self.output:
            return np.where(self._signal_relevant(column), self.steps.signals[:, column], NOTHING)
        if column == self.output:
            return self.steps.outputs
        classes, numbers = self.results[column - self.output - 1]
        return classes.known(numbers)

    def groups(self, without: int = NOTHING) -> tuple[Ids, Ids]:
        """Groups of equivalent steps: the first step of each, and the group of each step.

        What stands in the place `without` does not count.
        """
        keys, room = np.zeros(len(self.steps.inputs), np.int64), 1
        for place in np.flatnonzero(self.relevant).tolist():
            classes, numbers = self.places[place]
            if place == without or classes.count == 1:
                continue
            if room * classes.count >= ROOM:
                keys = np.unique(keys, return_inverse=True)[1].reshape(-1)
                room = len(keys)
            keys = keys * classes.count + classes.of[numbers]
            room *= classes.count
        _, firsts, groups = np.unique(keys, return_index=True, return_inverse=True)
        return firsts, groups.reshape(-1)

    def name(self, column: int, row: int) -> tuple[int, ...]:
        """What tells conflicts apart: what is done, and what is relevant in a step of theirs."""
        own = [int(classes.of[numbers[row]]) for classes, numbers in self.places]
        return (column, *np.where(self.relevant, own, NOTHING).tolist())

    def propagate(self, groups: Ids, count: int) -> bool:
        """Have what nothing is known of be like what other equivalent steps lead to.

        Where several symbols are in one class still, only what is likely anyway is taken for known.
        """
        changed = False
        single = (np.bincount(self.symbols.of) == 1)[self.symbols.of[self.steps.inputs]]
        for classes, numbers in self.results:
            values = classes.known(numbers)
            known, common = values != NOTHING, np.full(count, NOTHING)
            common[groups[known]] = values[known]
            common[divided(values, groups, count)] = NOTHING
            agreed = common[groups]
            likely = (numbers >= 0) & ~known & (agreed != NOTHING)
            rows = np.flatnonzero(likely & (single | (classes.of[numbers] == agreed)))
            classes.of[numbers[rows]] = agreed[rows]
            classes.sure[numbers[rows]] = True
            changed |= len(rows) > 0
        return changed

    def confirm(self) -> bool:
        """Count as evidence for a class that in its place another one has other things done."""
        changed = False
        for place in np.flatnonzero(self.relevant)[1:].tolist():
            classes, numbers = self.places[place]
            firsts, groups = self.groups(without=place)
            differing = np.zeros(len(firsts), np.bool_)
            for column in (*self.direct, *self.later):
                differing[divided(self.values(column), groups, len(firsts))] = True
            met = np.unique(numbers[differing[groups]])
            changed |= not classes.sure[met].all()
            classes.sure[met] = True
        return changed

    def merge(
        self,
        classes: Classes,
        pairs: Iterable[tuple[int, int]],
        fewer: int | None = None,
        evident: bool = False,
    ) -> bool:
        """Make one of each pair of classes if nothing contradicts it; whether any was made one.

        If there have to be `fewer` contradictions about one of the things that are done, there may
        not be more about others, lest these split what is made one. It can be asked about
        what is `evident` alone: see `count_conflicts`.
        """
        before, merged = self.count_conflicts(evident), False
        for one, other in pairs:
            if self.deadline.over():
                break
            if fewer is not None and classes.were_split(one, other):
                continue
            held = classes.of.copy()
            classes.join(one, other)
            after = self.count_conflicts(evident)
            if fewer is None:
                worse = sum(after.values()) > sum(before.values())
            else:
                more = any(after[column] > before[column] for column in after)
                worse = more or after[fewer] == before[fewer]
            if worse:
                classes.of = held
                del classes.joined[other]
            else:
                before, merged = after, True
        return merged

    def count_conflicts(self, evident: bool = False) -> dict[int, int]:
        """How many steps do otherwise than most equivalent ones, by each of the things done.

        If only what is `evident` counts, signals and outputs do, in steps in which nothing is read
        whose class is a guess.
        """
        columns = self.direct if evident else [*self.direct, *self.later]
        rows: Mask = np.ones(len(self.steps.inputs), np.bool_)
        for place in np.flatnonzero(self.relevant)[1:-1].tolist() if evident else ():
            classes, numbers = self.places[place]
            rows &= classes.met[numbers] | (numbers == EMPTY)
        firsts, groups = self.groups()
        found = {}
        for column in columns:
            most, total = counted(self.values(column)[rows], groups[rows], len(firsts))
            found[column] = int((total - most).sum())
        return found


def distances(ones: Array, others: Array) -> Array:
    """[n, m] the squares of distances of vectors [n, D] from others [m, D]."""
    squares = (ones * ones).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    found: Array = squares - 2 * ones @ others.T
    return found


def nearest(ones: Array, others: Array) -> Ids:
    """[n] which of the vectors [m, D] is nearest to each of some [n, D]."""
    parts = [
        distances(ones[first : first + AT_ONCE], others).argmin(axis=1)
        for first in range(0, len(ones), AT_ONCE)
    ]
    return np.concatenate(parts)


def parts_of(network: Network) -> Ids:
    """[inputs] which part of a string each id belongs to; sources, blanks and no input are one."""
    numbers, layout = {BEGIN: 2, SEPARATOR: 3, TARGET: 4}, network.layout
    sections, counts = zip(*layout.sections, strict=True)
    parts = np.ones(network.nothing + 1, np.int64)
    parts[: layout.inputs] = np.repeat([numbers.get(each, 1) for each in sections], counts)
    return parts


def initial_classes(parts: Ids) -> Ids:
    """Classes of symbols by their parts of strings; those of a part with few are apart at once."""
    sizes = np.bincount(parts)[parts]
    alone = parts.max() + 1 + np.arange(len(parts))
    classes: Ids = np.unique(np.where(sizes <= FEW_SYMBOLS, alone, parts), return_inverse=True)[1]
    return classes.reshape(-1)


def usual_values(numbers: Ids, values: Ids) -> Ids:
    """The value that each different number, in order, has most often."""
    pairs, counts = np.unique(np.column_stack([numbers, values]), axis=0, return_counts=True)
    order = np.lexsort([-counts, pairs[:, 0]])
    _, first = np.unique(pairs[order, 0], return_index=True)
    usual: Ids = pairs[order][first, 1]
    return usual


def divided(values: Ids, groups: Ids, count: int, tolerance: float = 0.0, few: float = 0.0) -> Ids:
    """The groups that have different values, but for a share of steps, and a few more."""
    most, total = counted(values, groups, count)
    return np.flatnonzero(total - most > tolerance * total + few)


def counted(values: Ids, groups: Ids, count: int) -> tuple[Ids, Ids]:
    """How many steps of each group have its commonest value, and how many any."""
    known = values != NOTHING
    room = int(values.max(initial=0)) + 1
    pairs, counts = np.unique(groups[known] * room + values[known], return_counts=True)
    most, total = np.zeros((2, count), np.int64)
    np.maximum.at(most, pairs // room, counts)
    np.add.at(total, pairs // room, counts)
    return most, total
