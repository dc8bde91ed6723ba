"""Which steps are alike: those in which all that matters is of the same classes.

A memory of which nothing matters that is read does not matter either, whatever is done with it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stacktrans.extraction.classes import Classes, bounds, deviating, divided, few_apart
from stacktrans.extraction.network import Deadline
from stacktrans.extraction.runs import EMPTY, NOTHING, Recorder
from stacktrans.tasks.alphabets import Ids, Mask

ROOM = 2**62
"""Up to where keys are counted."""


class Alike:
    """The classes of what was met in the runs of a network, and the steps that they make alike.

    Args:
        recorder: of the runs.
        deadline: after which nothing more is made one.

    Attributes:
        steps: the steps of the runs.
        states: classes of states.
        symbols: classes of the ids that are read.
        kinds: of each ring, classes of vectors; that of number 0 is what is read when it is
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
        matters: [places] whether what stands in each place matters.
        read_rings: which ring each of the reads is of.
        push_rings: which ring each of the pushes is of.
    """

    def __init__(self, recorder: Recorder, deadline: Deadline) -> None:
        self._deadline = deadline
        self.steps = steps = recorder.steps()
        self.contents = np.column_stack([steps.inputs, steps.reads, steps.states])
        self.states = Classes(np.zeros(len(recorder.states), np.int64), recorder.states)
        self.parts = recorder.parts
        self.symbols = Classes(few_apart(self.parts), None)
        self.ends = ends = recorder.network.ends
        own = [
            Classes((np.arange(len(each)) != EMPTY).astype(np.int64), each)
            for each in recorder.kinds
        ]
        self.kinds = [own[alphabet] for alphabet in ends.alphabets]
        self.read_rings = [end // 2 for end in ends.reads]
        self.push_rings = [end // 2 for _, end in ends.pushes]
        origins = [np.full(len(each), NOTHING) for each in recorder.kinds]
        self.origins = [origins[alphabet] for alphabet in ends.alphabets]
        for ring, numbers in zip(self.push_rings, steps.pushed.T, strict=True):
            there = numbers != NOTHING
            self.origins[ring][numbers[there]] = self.parts[steps.inputs[there]]
        read = [self.kinds[ring] for ring in self.read_rings]
        pushed = [self.kinds[ring] for ring in self.push_rings]
        after = [*steps.pushed.T, steps.after]
        self.places = [*zip([self.symbols, *read, self.states], self.contents.T, strict=True)]
        self.results = [*zip([*pushed, self.states], after, strict=True)]
        self.matters: Mask = np.zeros(self.contents.shape[1], np.bool_)
        self.matters[[0, -1]] = True
        tops = {ring: place for place, ring in reversed([*enumerate(self.read_rings, start=1)])}
        self._pops = {signal: tops.get(end // 2) for signal, end in ends.pops}
        uses = {signal: end // 2 for signal, end in (*ends.pops, *ends.pushes)}
        uses |= {signal: taken // 2 for signal, taken, _ in ends.moves}
        of_buffers = range(len(ends.signal_names), self.output)
        self._uses = uses | dict.fromkeys(of_buffers, NOTHING)
        self._signals = steps.signals.copy()
        for signal in self._pops:  # nothing is popped from an empty ring
            self._signals[self.popped_empty(signal, self.contents), signal] = NOTHING

    def ring_matters(self, ring: int) -> bool:
        """Whether it matters what a ring holds."""
        matters = zip(self.read_rings, self.matters[1:-1], strict=True)
        return any(own and self.kinds[read] is self.kinds[ring] for read, own in matters)

    def signal_values(self, signal: int) -> Ids:
        """[N] a signal; `NOTHING` where it does not matter."""
        used = self._uses.get(signal)
        if used is None or not (used == NOTHING or self.ring_matters(used)):
            return np.full(len(self._signals), NOTHING)
        values: Ids = self._signals[:, signal]
        return values

    def popped_empty(self, signal: int, contents: Ids) -> Mask:
        """[n] where a signal would pop, in [n, places], from what shows that it is empty."""
        place = self._pops.get(signal)
        if place is None:
            return np.zeros(len(contents), np.bool_)
        empty: Mask = contents[:, place] == EMPTY
        return empty

    def usual(self, values: Ids) -> Ids:
        """[N] things that are done; `NOTHING` where most steps that are alike do something else."""
        firsts, groups = self.groups()
        found = values.copy()
        for group in divided(values, groups, len(firsts)).tolist():
            rows = np.flatnonzero((groups == group) & (values != NOTHING))
            found[rows[values[rows] != np.bincount(values[rows]).argmax()]] = NOTHING
        return found

    @property
    def output(self) -> int:
        """The column of outputs, after those of signals."""
        return int(self.steps.signals.shape[1])

    @property
    def direct(self) -> list[int]:
        """Those of signals and the output."""
        used = self._uses.items()
        return [*(own for own, at in used if at == NOTHING or self.ring_matters(at)), self.output]

    @property
    def later(self) -> list[int]:
        """Those of the pushed vectors that matter, and of the next state."""
        matters = [*map(self.ring_matters, self.push_rings), True]
        return [self.output + 1 + place for place in np.flatnonzero(matters).tolist()]

    def values(self, column: int) -> Ids:
        """[N] one of the things that are done: signals, output, kinds pushed, next state."""
        if column < self.output:
            return self.signal_values(column)
        if column == self.output:
            return self.steps.outputs
        classes, numbers = self.results[column - self.output - 1]
        return classes.known(numbers)

    def groups(self, without: int = NOTHING) -> tuple[Ids, Ids]:
        """Steps that are alike in all that matters: the first of each group, and of each its group.

        What stands in the place `without` does not count.
        """
        keys, room = np.zeros(len(self.steps.inputs), np.int64), 1
        for place in np.flatnonzero(self.matters).tolist():
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
        """What tells conflicts apart: what is done, and what matters in a step of theirs."""
        own = [int(classes.of[numbers[row]]) for classes, numbers in self.places]
        return (column, *np.where(self.matters, own, NOTHING).tolist())

    def propagate(self, groups: Ids, count: int) -> bool:
        """Have what nothing is known of be like what other steps that are alike lead to.

        Where several symbols count as alike still, only what is likely anyway is taken for known.
        """
        changed = False
        single = (np.bincount(self.symbols.of) == 1)[self.symbols.of[self.steps.inputs]]
        for classes, numbers in self.results:
            values = classes.known(numbers)
            first, last = bounds(values, groups, count)
            agreed = np.where(first == last, last, NOTHING)[groups]
            likely = (numbers >= 0) & (values == NOTHING) & (agreed != NOTHING)
            rows = np.flatnonzero(likely & (single | (classes.of[numbers] == agreed)))
            classes.of[numbers[rows]] = agreed[rows]
            classes.sure[numbers[rows]] = True
            changed |= len(rows) > 0
        return changed

    def confirm(self) -> bool:
        """Count as evidence for a class that in its place another one has other things done."""
        changed = False
        for place in np.flatnonzero(self.matters)[1:].tolist():
            classes, numbers = self.places[place]
            firsts, groups = self.groups(without=place)
            matters = np.zeros(len(firsts), np.bool_)
            for column in (*self.direct, *self.later):
                matters[divided(self.values(column), groups, len(firsts))] = True
            met = np.unique(numbers[matters[groups]])
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
        not be more about others, lest these part what is made one. It can be asked about
        what is `evident` alone: see `count_conflicts`.
        """
        before, merged = self.count_conflicts(evident), False
        for one, other in pairs:
            if self._deadline.over:
                break
            if fewer is not None and classes.kept_apart(one, other):
                continue
            held = classes.of.copy()
            classes.join(one, other)
            after = self.count_conflicts(evident)
            worse = sum(after.values()) > sum(before.values())
            if fewer is not None:
                rest = [after[column] > before[column] for column in after if column != fewer]
                worse = any(rest) or after[fewer] >= before[fewer]
            if worse:
                classes.of = held
                del classes.joined[other]
            else:
                before, merged = after, True
        return merged

    @property
    def _evident(self) -> Mask:
        """[N] steps in which there was evidence for the class of all that is read and matters."""
        found: Mask = np.ones(len(self.steps.inputs), np.bool_)
        for place in np.flatnonzero(self.matters)[1:-1].tolist():
            classes, numbers = self.places[place]
            found &= classes.met[numbers] | (numbers == EMPTY)
        return found

    def count_conflicts(self, evident: bool = False) -> dict[int, int]:
        """How many steps do otherwise than most that are alike, by each of the things done.

        If only what is `evident` counts, signals and outputs do, in steps in which nothing is read
        whose class is a guess.
        """
        columns = self.direct if evident else [*self.direct, *self.later]
        rows = self._evident if evident else np.ones(len(self.steps.inputs), np.bool_)
        firsts, groups = self.groups()
        return {
            column: deviating(self.values(column)[rows], groups[rows], len(firsts))
            for column in columns
        }
