"""Which states, symbols and pushed vectors are alike: classes, parted where steps contradict.

At first all states are alike, all symbols that stand in the same part of a string, and all vectors
in a memory, and nothing that is read matters. Steps contradict one another where what matters is
alike, but not what is done. What makes the difference is found by experiments: with what stands in
a place in one of these steps put into the other, does the network do what it did there? If so, the
place matters, and its things are parted by what each of them makes the network do in that step.

A memory of which nothing matters that is read does not matter either, whatever is done with it.
A vector that was in none of the steps could be in any part: until there is evidence, it contradicts
nothing, and counts as what the experiment says, or as its nearest neighbour.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from stacktrans.extraction.classes import Classes, Experiment
from stacktrans.extraction.grouping import (
    bounds,
    deviating,
    divided,
    exchanged,
    few_apart,
    usual_values,
)
from stacktrans.extraction.influence import Influence, distances
from stacktrans.extraction.network import CannotExtract
from stacktrans.extraction.runs import EMPTY, NOTHING, Recorder
from stacktrans.kernels.compiling import Array
from stacktrans.tasks.layouts import Ids, Mask

MOST_STATES, MOST_KINDS = 200, 4096
"""How many classes of states, and of the vectors of a memory, are looked for."""
MOST_CONFLICTS = 500
"""How many contradictions are looked into before it is given up."""
PAIRS = 64
"""How many pairs of steps that contradict one another are experimented with."""
REFERENCES = 4
"""In how many of the steps everything that stands in a place is tried."""
COMPARED = 600
"""How many steps are compared with one another to see what tells what is done."""
EXPLAINS = 0.95
"""The share of steps in which what explains a conflict tells what is done."""
MOST_MERGED = 5
"""Of how many classes it is tried at once whether they are one."""
AGREED = 150
"""How many steps that agree are counted in besides those of a conflict."""
EMPTY_CLASS = 0
"""The class of what is read when a ring is empty."""
ROOM = 2**62
"""Up to where keys are counted."""


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


class Cause(NamedTuple):
    """What makes the difference in a conflict.

    Attributes:
        place: where it stands.
        share: the share of pairs of steps in which it does.
        contexts: [n, places] steps in which other things there change what is done.
    """

    place: int
    share: float
    contexts: Ids


class Refining:
    """The classes of what was met in the runs of a network.

    Args:
        recorder: of the runs.
        tolerance: the share of steps that may do otherwise than others that are alike.
        over: whether there is no time left; what was found until then counts.

    Attributes:
        steps: the steps of the runs.
        states: classes of states.
        symbols: classes of the ids that are read.
        kinds: of each ring, classes of vectors; that of number 0 is what is read when it is
            empty.
        operations: what signals do with the rings.
        matters: [places] whether what stands in each place matters.
        read_rings: which ring each of the reads is of.
        push_rings: which ring each of the pushes is of.
    """

    def __init__(
        self, recorder: Recorder, tolerance: float = 0.0, over: Callable[[], bool] = lambda: False
    ) -> None:
        self._recorder, self._tolerance, self._over = recorder, tolerance, over
        self.steps = recorder.steps()
        self._influence = Influence(recorder, self.steps)
        self.states = Classes(np.zeros(len(recorder.states), np.int64), recorder.states)
        self.symbols = Classes(few_apart(recorder.parts), None)
        self.operations = operations = recorder.network.operations
        own = [
            Classes((np.arange(len(each)) != EMPTY).astype(np.int64), each)
            for each in recorder.kinds
        ]
        self.kinds = [own[alphabet] for alphabet in operations.alphabets]
        self.read_rings = [end // 2 for end, _ in operations.reads]
        self.push_rings = [end // 2 for _, end in operations.pushes]
        self.matters: Mask = np.zeros(self._influence.places, np.bool_)
        self.matters[[0, -1]] = True
        self._signals = self.steps.signals.copy()
        for signal, _ in operations.pops:  # nothing is popped from an empty ring
            self._signals[
                self._influence.popped_empty(signal, self._influence.contents), signal
            ] = NOTHING
        self._generator = np.random.default_rng(0)
        self._given_up: set[tuple[int, ...]] = set()

    def ring_matters(self, ring: int) -> bool:
        """Whether it matters what a ring holds."""
        alphabets = self.operations.alphabets
        return any(
            matters and alphabets[own] == alphabets[ring]
            for own, matters in zip(self.read_rings, self.matters[1:-1], strict=True)
        )

    def signal_values(self, signal: int) -> Ids:
        """[N] a signal; `NOTHING` where it does not matter."""
        used = self._uses.get(signal)
        if used is None or used < 0 or self.ring_matters(used):
            values: Ids = self._signals[:, signal]
            return values if used is not None else np.full(len(values), NOTHING)
        return np.full(len(self._signals), NOTHING)

    def usual(self, values: Ids) -> Ids:
        """[N] things that are done; `NOTHING` where most steps that are alike do something else."""
        firsts, groups = self._groups()
        found = values.copy()
        for group in divided(values, groups, len(firsts)).tolist():
            rows = np.flatnonzero((groups == group) & (values != NOTHING))
            found[rows[values[rows] != np.bincount(values[rows]).argmax()]] = NOTHING
        return found

    @property
    def _uses(self) -> dict[int, int]:
        """The ring that each signal is of; -1 for those of buffers. What does nothing has none."""
        operations = self.operations
        uses = {signal: end // 2 for signal, end in (*operations.pops, *operations.pushes)}
        uses |= {signal: taken // 2 for signal, taken, _ in operations.moves}
        of_buffers = range(operations.signals, self.steps.signals.shape[1])
        return uses | dict.fromkeys(of_buffers, -1)

    def refine(self) -> None:
        """Part classes until nothing contradicts, or there is no time left.

        Raises:
            CannotExtract: they are too many.
        """
        resolved = 0
        while True:
            while (found := self._conflict()) and not self._over():
                self._resolve(found)
                resolved += 1
                self._check_counts(resolved)
            if self._over() or not self._confirm():
                break

    def _confirm(self) -> bool:
        """Count as evidence for a class that in its place another one has other things done."""
        changed = False
        for place in np.flatnonzero(self.matters)[1:].tolist():
            classes, numbers = self._places[place]
            firsts, groups = self._groups(without=place)
            matters = np.zeros(len(firsts), np.bool_)
            for column in self._columns:
                matters[divided(self._values(column), groups, len(firsts))] = True
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
    def _results(self) -> list[tuple[Classes, Ids]]:
        """What steps lead to: classes, and numbers in each step."""
        steps = self.steps
        pushed = [
            (self.kinds[ring], steps.pushed[:, at]) for at, ring in enumerate(self.push_rings)
        ]
        return [*pushed, (self.states, steps.after)]

    @property
    def _output(self) -> int:
        """The column of outputs, after those of signals."""
        return int(self.steps.signals.shape[1])

    @property
    def _columns(self) -> list[int]:
        """The numbers of all things done that matter: signals, output, what they lead to."""
        direct = [
            signal for signal, ring in self._uses.items() if ring < 0 or self.ring_matters(ring)
        ]
        return [*direct, self._output, *self._later]

    @property
    def _later(self) -> list[int]:
        """Those of the pushed vectors that matter, and of the next state."""
        first = self._output + 1
        pushed = [
            first + place for place, ring in enumerate(self.push_rings) if self.ring_matters(ring)
        ]
        return [*pushed, first + len(self.push_rings)]

    def _values(self, column: int) -> Ids:
        """[N] one of the things that are done: signals, output, kinds pushed, next state."""
        if column < self._output:
            return self.signal_values(column)
        if column == self._output:
            return self.steps.outputs
        classes, numbers = self._results[column - self._output - 1]
        return classes.known(numbers)

    def _numbers(self, column: int) -> Ids:
        """[N] the same, as numbers of vectors."""
        if column <= self._output:
            return self._values(column)
        return self._results[column - self._output - 1][1]

    def _groups(self, without: int = NOTHING) -> tuple[Ids, Ids]:
        """Steps that are alike in all that matters: the first of each group, and of each its group.

        What stands in the place `without` does not count.
        """
        keys, room = np.zeros(len(self.steps.inputs), np.int64), 1
        for place in np.flatnonzero(self.matters).tolist():
            classes, numbers = self._places[place]
            if place == without or classes.count == 1:
                continue
            if room * classes.count >= ROOM:
                keys = np.unique(keys, return_inverse=True)[1].reshape(-1)
                room = len(keys)
            keys = keys * classes.count + classes.of[numbers]
            room *= classes.count
        _, firsts, groups = np.unique(keys, return_index=True, return_inverse=True)
        return firsts, groups.reshape(-1)

    def _conflict(self) -> Conflict | None:
        """The conflict of the most steps, about signals and outputs before anything else."""
        firsts, groups = self._groups()
        while self._propagate(groups, len(firsts)):
            firsts, groups = self._groups()
        sizes = np.bincount(groups)
        later = self._later
        direct = [column for column in self._columns if column not in later]
        for columns in (direct, later):
            best: tuple[int, int, int] | None = None
            for column in columns:
                few = AGREED * self._tolerance if column in later else 0
                parted = divided(self._values(column), groups, len(firsts), self._tolerance, few)
                for group in parted.tolist():
                    found = int(sizes[group]), group, column
                    if (best is None or found > best) and self._name(
                        column, firsts[group]
                    ) not in self._given_up:
                        best = found
            if best:
                _, group, column = best
                values = self._values(column)
                rows = np.flatnonzero((groups == group) & (values != NOTHING))
                return Conflict(rows, values[rows], column, self._name(column, firsts[group]))
        return None

    def _name(self, column: int, row: int) -> tuple[int, ...]:
        own = (
            int(classes.of[numbers[row]]) if matters else NOTHING
            for (classes, numbers), matters in zip(self._places, self.matters, strict=True)
        )
        return (column, *own)

    def _propagate(self, groups: Ids, count: int) -> bool:
        """Have what nothing is known of be like what other steps that are alike lead to.

        Where several symbols count as alike still, only what is likely anyway is taken for known.
        """
        changed = False
        single = (np.bincount(self.symbols.of) == 1)[self.symbols.of[self.steps.inputs]]
        for classes, numbers in self._results:
            values = classes.known(numbers)
            first, last = bounds(values, groups, count)
            agreed = np.where(first == last, last, NOTHING)[groups]
            likely = (numbers >= 0) & (values == NOTHING) & (agreed != NOTHING)
            rows = np.flatnonzero(likely & (single | (classes.of[numbers] == agreed)))
            classes.of[numbers[rows]] = agreed[rows]
            classes.sure[numbers[rows]] = True
            changed |= len(rows) > 0
        return changed

    def _resolve(self, found: Conflict) -> None:
        """Make one of what need not be apart, or part what makes the difference."""
        if found.column > self._output and self._merged(found):
            return
        causes = self._causes(found)
        state = self._influence.places - 1
        known = [
            cause for cause in causes[:1] if self.matters[cause.place] and cause.place != state
        ]
        if not known and self._explained(found):
            return
        for cause in causes:
            if not self.matters[cause.place]:
                self.matters[cause.place] = True
                return
            if self._parted(found, cause):
                return
        self._given_up.add(found.name)

    def _explained(self, found: Conflict) -> bool:
        """Part what is read, if that it matters is known and it tells what is done as well.

        A state that knows what is read, or was, is not needed then.
        """
        rows, values = self._some_of_each(found)
        best: tuple[Classes, Ids] | None = None
        most = EXPLAINS
        for place in np.flatnonzero(self.matters)[1:-1].tolist():
            classes, numbers = self._places[place]
            if (
                len(np.unique(numbers[rows])) > 1
                and (share := classes.told(numbers[rows], values)) > most
            ):
                best, most = (classes, numbers), share
        if best is None:
            return False
        classes, numbers = best
        in_conflict = numbers[found.rows]
        members = np.flatnonzero(classes.of == classes.of[in_conflict[0]])
        others = members[~np.isin(members, in_conflict)]
        usual = usual_values(in_conflict, found.values)
        unknown = np.full(len(others), NOTHING - 1)
        later = found.column > self._output
        return classes.part(np.unique(in_conflict), usual, others, unknown, lasting=later)

    def _some_of_each(self, found: Conflict) -> tuple[Ids, Ids]:
        """Some of the steps of a conflict, of each value about as many."""
        order = self._generator.permutation(len(found.rows))
        values = found.values[order]
        sorting = np.argsort(values, kind="stable")
        different, starts = np.unique(values[sorting], return_index=True)
        rank = np.arange(len(values)) - np.repeat(starts, np.diff([*starts, len(values)]))
        chosen = order[sorting[rank < max(3, COMPARED // len(different))]][: 2 * COMPARED]
        return found.rows[chosen], found.values[chosen]

    def _tried(self, contents: Ids, column: int) -> Ids:
        """[n] what would be done where [n, places] stand there; `NOTHING` where nothing is."""
        done = self._influence.done(contents)
        if column <= self._output:
            return self._influence.direct(done, contents, column)
        push = column - self._output - 1
        classes, _ = self._results[push]
        if push == len(self.push_rings):
            return self._sifted(classes, done.states)
        found = self._sifted(classes, done.pushed[:, push], EMPTY_CLASS + 1)
        found[done.signals[:, self.operations.pushes[push][0]] == 0] = NOTHING
        return found

    def _sifted(self, classes: Classes, vectors: Array, root: int = 0) -> Ids:
        """[n] the classes of vectors [n, D]: what each makes the network do where it was tried."""
        found = np.full(len(vectors), root)
        for split in classes.splits:
            rows = np.flatnonzero(found == split.own)
            if not len(rows):
                continue
            known = np.zeros(len(rows), np.bool_)
            if split.column != NOTHING:
                contents = np.repeat(split.context[None], len(rows), axis=0)
                done = self._influence.done(contents, split.place, vectors[rows])
                values = self._influence.direct(done, contents, split.column)
                at = np.minimum(np.searchsorted(split.values, values), len(split.values) - 1)
                known = split.values[at] == values
                found[rows[known]] = split.classes[at[known]]
            if len(left := rows[~known]):
                assert classes.vectors is not None
                examples = classes.vectors.of(split.examples)
                nearest = distances(vectors[left], examples).argmin(axis=1)
                found[left] = split.parts[nearest]
        return classes.now(found)

    def _merged(self, found: Conflict) -> bool:
        """Make one of different results if nothing but results tells them apart."""
        classes, _ = self._results[found.column - self._output - 1]
        different, counts = np.unique(found.values, return_counts=True)
        ranked = different[np.argsort(-counts, kind="stable")][:MOST_MERGED].tolist()
        pairs = [
            pair
            for pair in itertools.combinations(ranked, 2)
            if EMPTY_CLASS not in pair or classes is self.states
        ]
        return self._merge(classes, pairs, fewer=found.column)

    def _causes(self, found: Conflict) -> list[Cause]:
        """What makes the difference, the commonest cause first.

        It is looked for in pairs of steps. If nothing does alone, one thing after another is
        exchanged.
        """
        contents = self._influence.contents
        ones, others = self._pairs(found)
        wanted = found.values[others]
        of_one, of_other = contents[found.rows[ones]], contents[found.rows[others]]
        single = [exchanged(of_one, of_other, [place]) for place in range(contents.shape[1])]
        causes = self._flips([of_one] * len(single), single, wanted, found.column)
        if not causes:
            order = [*range(contents.shape[1])]
            path = [of_one, *(exchanged(of_one, of_other, order[: n + 1]) for n in order)]
            causes = self._flips(path[:-1], path[1:], wanted, found.column)
        return sorted(causes, key=lambda cause: -cause.share - 0.05 * (cause.place == 0))

    def _flips(self, before: list[Ids], after: list[Ids], wanted: Ids, column: int) -> list[Cause]:
        """Causes among exchanges in each place, [n, places] before and after it."""
        count = len(wanted)
        values = self._tried(np.concatenate(after), column).reshape(-1, count)
        found = []
        for place, (steps, others, own) in enumerate(zip(before, after, values, strict=True)):
            changed = (steps[:, place] != others[:, place]) & (own == wanted)
            if changed.any():
                found.append(Cause(place, float(changed.mean()), steps[changed]))
        return found

    def _pairs(self, found: Conflict) -> tuple[Ids, Ids]:
        """Pairs of steps with different values, as places in the conflict; of each value some."""
        order = self._generator.permutation(len(found.rows))
        values = found.values[order]
        sorting = np.argsort(values, kind="stable")
        _, starts = np.unique(values[sorting], return_index=True)
        sizes = np.diff([*starts, len(values)])
        rank = np.arange(len(values)) - np.repeat(starts, sizes)
        mixed = order[sorting[np.argsort(rank, kind="stable")]][: 2 * PAIRS]
        ones = mixed[:PAIRS]
        others = [mixed[found.values[mixed] != found.values[one]] for one in ones]
        return ones, np.array([self._generator.choice(own) for own in others])

    def _parted(self, found: Conflict, cause: Cause) -> bool:
        """Part what stands in a place by what it makes the network do; whether it was parted."""
        classes, numbers = self._places[cause.place]
        in_conflict = numbers[found.rows]
        own = int(classes.of[in_conflict[0]])
        members = np.flatnonzero(classes.of == own)
        some = self._generator.permutation(len(cause.contexts))[:REFERENCES]
        usual = usual_values(in_conflict, found.values)
        best: tuple[int, Ids, Ids] | None = None
        for context in cause.contexts[some]:
            contents = np.repeat(context[None], len(members), axis=0)
            contents[:, cause.place] = members
            values = self._tried(contents, found.column)
            right = int((values[np.searchsorted(members, in_conflict)] == found.values).sum())
            if best is None or right > best[0]:
                best = right, values, context
        assert best is not None
        _, values, context = best
        met = np.isin(members, in_conflict)
        later = found.column > self._output
        experiment = Experiment(NOTHING if later else found.column, cause.place, context)
        parted = classes.part(
            members[met], usual, members[~met], values[~met], experiment, lasting=later
        )
        if parted and found.column == self._output and classes is not self.states:
            self._merge_alike(classes)
        return parted

    def _merge_alike(self, classes: Classes) -> None:
        """Make one of kinds that have the same said where they were parted last and before."""
        last = classes.splits[-1]
        pairs = [
            (int(one), int(other))
            for split in classes.splits[:-1]
            if split.column == last.column
            for value, one in zip(split.values, classes.now(split.classes), strict=True)
            for other in last.classes[last.values == value]
            if one != other
        ]
        for one, other in pairs:
            if classes.now(np.array([one, other]))[0] != classes.now(np.array([one, other]))[1]:
                self._merge(classes, [(one, other)])

    def merge(self, ring: int | None, pairs: Iterable[tuple[int, int]]) -> None:
        """Make one of each pair of kinds of a ring, or of states, if nothing contradicts it."""
        self._merge(self.states if ring is None else self.kinds[ring], pairs)

    def _merge(
        self, classes: Classes, pairs: Iterable[tuple[int, int]], fewer: int | None = None
    ) -> bool:
        """The same; whether any was made one.

        If there have to be `fewer` contradictions about one of the things that are done, there may
        not be more about others, lest these part what is made one.
        """
        before, merged = self._count_conflicts(), False
        for one, other in pairs:
            if self._over():
                break
            if fewer is not None and classes.kept_apart(one, other):
                continue
            held = classes.of.copy()
            classes.join(one, other)
            after = self._count_conflicts()
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

    def _count_conflicts(self) -> dict[int, int]:
        """How many steps do otherwise than most that are alike, by each of the things done."""
        firsts, groups = self._groups()
        return {
            column: deviating(self._values(column), groups, len(firsts)) for column in self._columns
        }

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
