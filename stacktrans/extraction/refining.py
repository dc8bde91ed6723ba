"""Which states, symbols and pushed vectors are alike: classes, parted where steps contradict.

At first all states are alike, all symbols that stand in the same part of a string, and all vectors
in a memory. Steps contradict one another where state, symbol and what is read are alike, but not
what is done. Then one of these has to be parted: the one that explains best what is done, in that
its nearest neighbour in other steps tells it. It is parted by what was done with it in these steps.
A vector that was in none of them could be in any part: until there is evidence, it contradicts
nothing, and counts as its nearest neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stacktrans.extraction.network import CannotExtract
from stacktrans.extraction.runs import EMPTY, NOTHING, Recorder
from stacktrans.extraction.vectors import Vectors
from stacktrans.kernels.compiling import Array
from stacktrans.tasks.layouts import Ids, Mask

MOST_STATES, MOST_KINDS = 200, 4096
"""How many classes of states, and of the vectors of a memory, are looked for."""
MOST_CONFLICTS = 500
"""How many contradictions are looked into before it is given up."""
COMPARED = 600
"""How many steps are compared with one another to see what explains them."""
REMEMBERED = 2000
"""How many vectors without evidence are compared with."""
EXPLAINS = 0.9
"""The share of steps that what explains them tells."""


@dataclass
class Classes:
    """The classes of some vectors or symbols.

    Attributes:
        of: [N] the class of each.
        sure: [N] whether there is evidence for it.
        count: how many classes there are.
        vectors: themselves; None for symbols.
    """

    of: Ids
    vectors: Vectors | None
    sure: Mask = field(init=False)
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.sure = np.ones(len(self.of), np.bool_)
        self.count = int(self.of.max(initial=0)) + 1

    @property
    def there(self) -> list[int]:
        """The classes that anything is of."""
        found: list[int] = np.unique(self.of).tolist()
        return found

    def known(self, numbers: Ids) -> Ids:
        """The classes of some that there is evidence for; `NOTHING` for others."""
        return np.where((numbers >= 0) & self.sure[numbers], self.of[numbers], NOTHING)

    def told(self, numbers: Ids, values: Ids) -> float:
        """How well some, [n], tell values, [n]: the share that the others tell of each."""
        if self.vectors is None:
            same = numbers[:, None] == numbers
            np.fill_diagonal(same, False)
            agreeing = (same & (values[:, None] == values)).sum(axis=1)
            others = same.sum(axis=1)
            return float((agreeing / np.maximum(others, 1)).mean())
        apart = _distances(vectors := self.vectors.of(numbers), vectors)
        np.fill_diagonal(apart, np.inf)
        return float((values[apart.argmin(axis=1)] == values).mean())

    def part(self, numbers: Ids, values: Ids) -> bool:
        """Part a class by the values of some that are of it; whether that parts it."""
        own = self.of[numbers[0]]
        different, counts = np.unique(values, return_counts=True)
        if len(different) < 2:
            return False
        ranked = different[np.argsort(-counts, kind="stable")]
        fresh = np.concatenate([[own], self.count + np.arange(len(ranked) - 1)])
        places = np.empty(len(ranked), np.int64)
        places[np.argsort(ranked)] = np.arange(len(ranked))
        classes = fresh[np.argsort(ranked)][np.searchsorted(different, values)]
        rest = np.setdiff1d(np.flatnonzero(self.of == own), numbers)
        if self.vectors is not None:
            some = np.linspace(0, len(numbers) - 1, min(len(numbers), REMEMBERED)).astype(np.int64)
            apart = _distances(self.vectors.of(rest), self.vectors.of(numbers[some]))
            self.of[rest] = classes[some][apart.argmin(axis=1)]
        self.of[numbers] = classes
        self.sure[rest] = False
        self.count += len(ranked) - 1
        return True


def _distances(ones: Array, others: Array) -> Array:
    """[n, m] the squares of distances of vectors [n, D] from others [m, D]."""
    squares = (ones * ones).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    distances: Array = squares - 2 * ones @ others.T
    return distances


class Conflict(NamedTuple):
    """Steps that are alike, but not in what is done.

    Attributes:
        rows: [n] their numbers.
        values: [n] what is done.
        column: which of the things done.
        name: what tells it from other conflicts.
    """

    rows: Ids
    values: Ids
    column: int
    name: tuple[int, ...]


class Refining:
    """The classes of what was met in the runs of a network.

    Args:
        recorder: of the runs.

    Attributes:
        steps: the steps of the runs.
        states: classes of states.
        symbols: classes of the ids that are read.
        kinds: of each memory, classes of vectors; that of number 0 is what is read when it is
            empty.
        ends: what signals do with the memories.
        read_rings: which memory each of the reads is of.
        push_rings: which memory each of the pushes is of.
        unexplained: how many conflicts nothing explains.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.steps = recorder.steps()
        self.states = Classes(np.zeros(len(recorder.states), np.int64), recorder.states)
        self.symbols = Classes(recorder.parts.copy(), None)
        self.kinds = [
            Classes((np.arange(len(each)) != EMPTY).astype(np.int64), each)
            for each in recorder.kinds
        ]
        self.ends = ends = recorder.network.ends
        self.read_rings = [end // 2 for end in ends.reads.tolist()]
        self.push_rings = [end // 2 for _, end in ends.pushes.tolist()]
        self._generator = np.random.default_rng(0)
        self._given_up: set[tuple[int, ...]] = set()

    @property
    def unexplained(self) -> int:
        """How many conflicts nothing explains."""
        return len(self._given_up)

    def refine(self) -> None:
        """Part classes until nothing contradicts; raises `CannotExtract` if they are too many."""
        resolved = 0
        while True:
            while found := self._conflict():
                self._resolve(found)
                resolved += 1
                self._check_counts(resolved)
            if not self._confirm():
                break

    def _confirm(self) -> bool:
        """Count as evidence for a class that in its place another one has other things done."""
        changed, keys = False, self.keys
        for place, (classes, numbers) in enumerate(self._places):
            if place:
                rest, groups = np.unique(np.delete(keys, place, 1), axis=0, return_inverse=True)
                groups = groups.reshape(-1)
                matters = np.zeros(len(rest), np.bool_)
                for column in self._columns:
                    matters[_divided(self._values(column), groups, len(rest))] = True
                met = np.unique(numbers[matters[groups]])
                changed |= not classes.sure[met].all()
                classes.sure[met] = True
        return changed

    @property
    def _places(self) -> list[tuple[Classes, Ids]]:
        """What steps depend on: classes, and the numbers in each step; the symbol comes first."""
        steps = self.steps
        reads = [(self.kinds[ring], steps.reads[:, at]) for at, ring in enumerate(self.read_rings)]
        return [(self.symbols, steps.inputs), *reads, (self.states, steps.states)]

    @property
    def keys(self) -> Ids:
        """[N, places] the classes that each step depends on: symbol, reads, state."""
        return np.column_stack([classes.of[numbers] for classes, numbers in self._places])

    @property
    def _results(self) -> list[tuple[Classes, Ids]]:
        """What steps lead to: classes, and numbers in each step."""
        steps = self.steps
        pushed = [
            (self.kinds[ring], steps.pushed[:, at]) for at, ring in enumerate(self.push_rings)
        ]
        return [*pushed, (self.states, steps.after)]

    def _conflict(self) -> Conflict | None:
        """The conflict of the most steps, about signals and outputs before anything else."""
        keys, groups = self._groups()
        while self._propagate(groups, len(keys)):
            keys, groups = self._groups()
        sizes = np.bincount(groups)
        direct = range(self.steps.signals.shape[1] + 1)
        for columns in (direct, range(len(direct), len(direct) + len(self._results))):
            found = [
                (int(sizes[group]), group, column)
                for column in columns
                for group in _divided(self._values(column), groups, len(keys)).tolist()
                if (column, *keys[group].tolist()) not in self._given_up
            ]
            if found:
                _, group, column = max(found)
                values = self._values(column)
                rows = np.flatnonzero((groups == group) & (values != NOTHING))
                return Conflict(rows, values[rows], column, (column, *keys[group].tolist()))
        return None

    def _values(self, column: int) -> Ids:
        """[N] one of the things that are done: signals, output, kinds pushed, next state."""
        signals = self.steps.signals
        if column < signals.shape[1]:
            signal: Ids = signals[:, column]
            return signal
        if column == signals.shape[1]:
            return self.steps.outputs
        classes, numbers = self._results[column - signals.shape[1] - 1]
        known: Ids = classes.known(numbers)
        return known

    def _groups(self) -> tuple[Ids, Ids]:
        """What steps depend on that are alike, and of each step, which of these it is."""
        keys, groups = np.unique(self.keys, axis=0, return_inverse=True)
        flat: Ids = groups.reshape(-1)
        return keys, flat

    def merge(self, ring: int | None, pairs: Iterable[tuple[int, int]]) -> None:
        """Make one of each pair of kinds of a memory, or of states, if nothing contradicts it."""
        classes = self.states if ring is None else self.kinds[ring]
        conflicts = self._count_conflicts()
        for one, other in pairs:
            before = classes.of.copy()
            classes.of[classes.of == other] = one
            found = self._count_conflicts()
            if found > conflicts:
                classes.of = before
            else:
                conflicts = found

    def _count_conflicts(self) -> int:
        keys, groups = self._groups()
        return sum(
            len(_divided(self._values(column), groups, len(keys))) for column in self._columns
        )

    @property
    def _columns(self) -> range:
        """The numbers of all things that are done; see `_values`."""
        return range(self.steps.signals.shape[1] + 1 + len(self._results))

    def _propagate(self, groups: Ids, count: int) -> bool:
        """Have what nothing is known of be like what other steps that are alike lead to."""
        changed = False
        for classes, numbers in self._results:
            values = classes.known(numbers)
            first, last = _bounds(values, groups, count)
            agreed = np.where(first == last, last, NOTHING)[groups]
            rows = np.flatnonzero((numbers >= 0) & (values == NOTHING) & (agreed != NOTHING))
            classes.of[numbers[rows]] = agreed[rows]
            classes.sure[numbers[rows]] = True
            changed |= len(rows) > 0
        return changed

    def _resolve(self, found: Conflict) -> None:
        """Part what explains a conflict best.

        What is read may be so varied that few steps are alike. So it is looked first at all steps
        that read other things, but from the same memories, while the others are empty.
        """
        if self._explained(found, self._wider(found)) or self._explained(found, found):
            return
        inputs = np.unique(self.steps.inputs[found.rows])
        if len(inputs) > 1:
            self.symbols.part(inputs, inputs)
        elif not self._explained(found, found, least=0):
            self._given_up.add(found.name)

    def _wider(self, found: Conflict) -> Conflict:
        """A conflict with steps that differ only in what they read."""
        keys = self.keys
        keys[:, 1:-1] = keys[:, 1:-1] != EMPTY
        values = self._values(found.column)
        same = (keys == keys[found.rows[0]]).all(axis=1) & (values != NOTHING)
        rows = np.flatnonzero(same)
        return found._replace(rows=rows, values=values[rows])

    def _explained(self, found: Conflict, among: Conflict, least: float = EXPLAINS) -> bool:
        """Part what tells what is done in some steps, if anything does; whether it was parted."""
        rows, values = self._some_of_each(among)
        best, told = None, least
        for classes, numbers in self._places:
            if (numbers[rows] != numbers[rows[0]]).any():
                share = classes.told(numbers[rows], values)
                if share > told:
                    best, told = (classes, numbers), share + 0.01
        if best is None:
            return False
        classes, numbers = best
        own = classes.of[numbers[among.rows]] == classes.of[numbers[found.rows[0]]]
        return classes.part(*_usual(numbers[among.rows][own], among.values[own]))

    def _some_of_each(self, found: Conflict) -> tuple[Ids, Ids]:
        """Some of the steps of a conflict, of each value about as many."""
        order = self._generator.permutation(len(found.rows))
        values = found.values[order]
        sorting = np.argsort(values, kind="stable")
        different, starts = np.unique(values[sorting], return_index=True)
        rank = np.arange(len(values)) - np.repeat(starts, np.diff([*starts, len(values)]))
        chosen = order[sorting[rank < max(3, COMPARED // len(different))]][: 4 * COMPARED]
        return found.rows[chosen], found.values[chosen]

    def _check_counts(self, resolved: int) -> None:
        strings = self._recorder.strings
        if resolved > MOST_CONFLICTS:
            kinds = sum(each.count for each in self.kinds)
            raise CannotExtract(
                f"no machine found: in {strings} strings steps still contradict one another with "
                f"{self.states.count} states and {kinds} kinds of pushed vectors"
            )
        for what, count, most in (
            ("states", self.states.count, MOST_STATES),
            *(("kinds of pushed vectors", each.count, MOST_KINDS) for each in self.kinds),
        ):
            if count > most:
                raise CannotExtract(
                    f"no machine found: {strings} strings show more than {most} {what} "
                    "that the model treats differently"
                )


def _usual(numbers: Ids, values: Ids) -> tuple[Ids, Ids]:
    """Different numbers, in order, and the value that each has most often."""
    pairs, counts = np.unique(np.column_stack([numbers, values]), axis=0, return_counts=True)
    order = np.lexsort([-counts, pairs[:, 0]])
    _, first = np.unique(pairs[order, 0], return_index=True)
    chosen = pairs[order][first]
    return chosen[:, 0], chosen[:, 1]


def _bounds(values: Ids, groups: Ids, count: int) -> tuple[Ids, Ids]:
    """The least and the greatest value of each group; `NOTHING` does not count."""
    known = values != NOTHING
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, NOTHING)
    np.minimum.at(first, groups[known], values[known])
    np.maximum.at(last, groups[known], values[known])
    return first, last


def _divided(values: Ids, groups: Ids, count: int) -> Ids:
    """The groups that have different values."""
    first, last = _bounds(values, groups, count)
    return np.flatnonzero((last != NOTHING) & (first != last))
