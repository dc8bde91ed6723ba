"""Partition refinement: classes are split where steps contradict one another.

At first all states are in one class, all symbols that stand in the same part of a string, and all
vectors in a memory, and nothing that is read is relevant. Steps contradict one another where they
are equivalent, but not in what is done. What makes the difference is found by experiments: with
what stands in a place in one of these steps put into the other, does the network do what it did
there? If so, the place is relevant, and its class is split by what each member makes the network do
in that step.

What a step depends on are places: the symbol (place 0), the vectors that are read (the next
places), and the state (the last). Each has a number. A vector that was in none of the
steps could be of any class: until there is evidence, it contradicts nothing, and counts as what the
experiment says, or as its nearest neighbour.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from stacktrans.decoding.decoder import most_probable_ids
from stacktrans.extraction.network import NOTHING, CannotExtract, Outcome, OutOfTime, Recorder
from stacktrans.extraction.partition import (
    Classes,
    Experiment,
    Partition,
    divided,
    nearest,
    usual_values,
)
from stacktrans.kernels import Array
from stacktrans.tasks.alphabets import Ids, Mask

PAIRS = 64
"""How many pairs of steps that contradict one another are experimented with."""
EMPTY_CLASS = 0
"""The class of what is read when a ring is empty."""
MOST_STATES, MOST_STACK_SYMBOLS = 200, 4096
"""How many classes of states, and of the vectors of a memory, are looked for."""
MOST_CONFLICTS = 500
"""How many contradictions are looked into before it is given up."""
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


class Conflict(NamedTuple):
    """Equivalent steps in which different things are done.

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

    def ranked(self, generator: np.random.Generator) -> tuple[Ids, Ids]:
        """Its steps in random order by their values, and the rank of each among those of its value.

        Returns:
            [n] places in the conflict, and [n] ranks, from 0.
        """
        order = generator.permutation(len(self.rows))
        order = order[np.argsort(self.values[order], kind="stable")]
        _, starts = np.unique(self.values[order], return_index=True)
        sizes = np.diff([*starts, len(order)])
        return order, np.arange(len(order)) - np.repeat(starts, sizes)


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


class Experiments:
    """Experiments with a network: what it would do if something else stood in a place of a step.

    Args:
        recorder: of the steps.
        partition: which of them are equivalent.
        generator: draws those that are experimented with.
    """

    def __init__(
        self, recorder: Recorder, partition: Partition, generator: np.random.Generator
    ) -> None:
        self._recorder, self._partition, self._generator = recorder, partition, generator

    def causes(self, found: Conflict) -> list[Cause]:
        """What makes the difference, the commonest cause first.

        It is looked for in pairs of steps. If nothing does alone, one thing after another is
        exchanged.
        """
        contents = self._partition.contents
        ones, others = self._pairs(found)
        wanted = found.values[others]
        of_one, of_other = contents[found.rows[ones]], contents[found.rows[others]]
        order = np.arange(contents.shape[1])
        single = [np.where(order == place, of_other, of_one) for place in order]
        causes = self._flips([of_one] * len(single), single, wanted, found.column)
        if not causes:
            path = [of_one, *(np.where(order <= place, of_other, of_one) for place in order)]
            causes = self._flips(path[:-1], path[1:], wanted, found.column)
        return sorted(causes, key=lambda cause: -cause.share - 0.05 * (cause.place == 0))

    def _flips(self, before: list[Ids], after: list[Ids], wanted: Ids, column: int) -> list[Cause]:
        """Causes among exchanges in each place, [n, places] before and after it."""
        values = self.tried(np.concatenate(after), column).reshape(-1, len(wanted))
        found = []
        for place, (steps, others, own) in enumerate(zip(before, after, values, strict=True)):
            changed = (steps[:, place] != others[:, place]) & (own == wanted)
            if changed.any():
                found.append(Cause(place, float(changed.mean()), steps[changed]))
        return found

    def _pairs(self, found: Conflict) -> tuple[Ids, Ids]:
        """Pairs of steps with different values, as places in the conflict; of each value some."""
        order, rank = found.ranked(self._generator)
        mixed = order[np.argsort(rank, kind="stable")][: 2 * PAIRS]
        ones = mixed[:PAIRS]
        others = [mixed[found.values[mixed] != found.values[one]] for one in ones]
        return ones, np.array([self._generator.choice(own) for own in others])

    def tried(self, contents: Ids, column: int) -> Ids:
        """[n] what would be done where [n, places] stand there; `NOTHING` where nothing is."""
        partition, done = self._partition, self._done(contents)
        if column <= partition.output:
            return self._direct(done, contents, column)
        push = column - partition.output - 1
        classes, _ = partition.results[push]
        if classes is partition.states:
            return self._sifted(classes, done.states, np.full(len(contents), NOTHING))
        origins = partition.parts[contents[:, 0]]
        found = self._sifted(classes, done.pushed[:, push], origins, EMPTY_CLASS + 1)
        found[done.signals[:, partition.ends.pushes[push][0]] == 0] = NOTHING
        return found

    def _done(
        self, contents: Ids, place: int | None = None, vectors: Array | None = None
    ) -> Outcome:
        """What would be done where [n, places] stand there, and in one place, vectors [n, D].

        Raises:
            OutOfTime: there is no time left for it.
        """
        recorder, network = self._recorder, self._recorder.network
        rings = [recorder.pushed[ring] for ring in self._partition.read_rings]
        met = zip([*rings, recorder.states], contents.T[1:], strict=True)
        *reads, states = [
            vectors if at == place and vectors is not None else table.of(numbers)
            for at, (table, numbers) in enumerate(met, start=1)
        ]
        none = np.zeros((len(contents), 0, len(network.empty)), network.empty.dtype)
        read = np.concatenate([none, *(own[:, None] for own in reads)], axis=1)
        return network.step(states, contents[:, 0], read)

    def _direct(self, done: Outcome, contents: Ids, column: int) -> Ids:
        """[n] a signal, by its column, or the output; `NOTHING` for the pop of an empty row."""
        if column == self._partition.output:
            return most_probable_ids(done.logits)
        network = self._recorder.network
        signals: Ids = network.effective(done.signals, contents[:, 1:-1])[:, column]
        return signals

    def _sifted(self, classes: Classes, vectors: Array, origins: Ids, root: int = 0) -> Ids:
        """[n] the classes of vectors [n, D]: what each makes the network do where it was tried.

        Those that were pushed elsewhere than what was split, by their origins [n], are apart.
        """
        found = np.full(len(vectors), root)
        for split in classes.splits:
            here, tried = found == split.own, split.experiment
            if tried.origins is not None:
                away = here & ~np.isin(origins, tried.origins)
                found[away] = split.apart
                here &= ~away
            rows = np.flatnonzero(here)
            if not len(rows):
                continue
            known = np.zeros(len(rows), np.bool_)
            if tried.column != NOTHING:
                contents = np.repeat(tried.context[None], len(rows), axis=0)
                done = self._done(contents, tried.place, vectors[rows])
                values = self._direct(done, contents, tried.column)
                at = np.minimum(np.searchsorted(split.values, values), len(split.values) - 1)
                known = split.values[at] == values
                found[rows[known]] = split.classes[at[known]]
            if len(left := rows[~known]):
                assert classes.vectors is not None
                examples = classes.vectors.of(split.examples)
                found[left] = split.parts[nearest(vectors[left], examples)]
        return classes.now(found)


class Refinement:
    """Splits the classes of what was met in runs.

    Args:
        recorder: of the runs; after its network's deadline what was found until then counts.
        tolerance: the share of steps that may do otherwise than equivalent ones.

    Attributes:
        partition: what is refined.
    """

    def __init__(self, recorder: Recorder, tolerance: float) -> None:
        self._recorder, self._tolerance = recorder, tolerance
        self._deadline = recorder.network.deadline
        self.partition = Partition(recorder)
        self._generator = np.random.default_rng(0)
        self._experiments = Experiments(recorder, self.partition, self._generator)
        self._given_up: set[tuple[int, ...]] = set()

    def refine(self) -> None:
        """Split classes until nothing contradicts, or there is no time left.

        Raises:
            CannotExtract: they are too many.
        """
        resolved = 0
        while True:
            while (found := self._conflict()) and not self._deadline.over():
                try:
                    self._resolve(found)
                except OutOfTime:
                    return
                resolved += 1
                self._check_counts(resolved)
            if self._deadline.over() or not self.partition.confirm():
                return

    def _conflict(self) -> Conflict | None:
        """The conflict of the most steps, about signals and outputs before anything else."""
        partition = self.partition
        firsts, groups = partition.groups()
        while partition.propagate(groups, len(firsts)) and not self._deadline.over():
            firsts, groups = partition.groups()
        sizes = np.bincount(groups)
        for columns, few in ((partition.direct, 0.0), (partition.later, AGREED * self._tolerance)):
            found = [
                (int(sizes[group]), group, column)
                for column in columns
                for group in divided(
                    partition.values(column), groups, len(firsts), self._tolerance, few
                ).tolist()
            ]
            for _, group, column in sorted(found, reverse=True):
                if (name := partition.name(column, firsts[group])) not in self._given_up:
                    values = partition.values(column)
                    rows = np.flatnonzero((groups == group) & (values != NOTHING))
                    return Conflict(rows, values[rows], column, name)
        return None

    def _resolve(self, found: Conflict) -> None:
        """Merge what need not be apart, or split what makes the difference."""
        relevant = self.partition.relevant
        if found.column > self.partition.output and self._merged(found):
            return
        causes = self._experiments.causes(found)
        known = causes and relevant[causes[0].place] and causes[0].place != len(relevant) - 1
        if not known and self._explained(found):
            return
        for cause in causes:
            if not relevant[cause.place]:
                relevant[cause.place] = True
                return
            if self._split(found, cause):
                return
        self._given_up.add(found.name)

    def _explained(self, found: Conflict) -> bool:
        """Split what is read, if it is known to be relevant and tells what is done as well.

        A state that knows what is read, or was, is not needed then.
        """
        order, rank = found.ranked(self._generator)
        enough = max(3, COMPARED // int((rank == 0).sum()))
        some = order[rank < enough][: 2 * COMPARED]  # of each value about as many
        rows, values = found.rows[some], found.values[some]
        best: tuple[Classes, Ids] | None = None
        most = EXPLAINS
        for place in np.flatnonzero(self.partition.relevant)[1:-1].tolist():
            classes, numbers = self.partition.places[place]
            different = len(np.unique(numbers[rows])) > 1
            if different and (share := classes.separability(numbers[rows], values)) > most:
                best, most = (classes, numbers), share
        if best is None:
            return False
        classes, numbers = best
        in_conflict = numbers[found.rows]
        members = np.flatnonzero(classes.of == classes.of[in_conflict[0]])
        others = np.setdiff1d(members, in_conflict)
        usual = usual_values(in_conflict, found.values)
        unknown = np.full(len(others), NOTHING - 1)
        later = found.column > self.partition.output
        return classes.split(np.unique(in_conflict), usual, others, unknown, lasting=later)

    def _merged(self, found: Conflict) -> bool:
        """Merge different results if nothing but results tells them apart."""
        classes, _ = self.partition.results[found.column - self.partition.output - 1]
        different, counts = np.unique(found.values, return_counts=True)
        ranked = different[np.argsort(-counts, kind="stable")][:MOST_MERGED].tolist()
        if classes is not self.partition.states:
            ranked = [each for each in ranked if each != EMPTY_CLASS]
        return self.partition.merge(classes, itertools.combinations(ranked, 2), fewer=found.column)

    def _split(self, found: Conflict, cause: Cause) -> bool:
        """Split what stands in a place by what it makes the network do; whether it was split."""
        classes, numbers = self.partition.places[cause.place]
        in_conflict = numbers[found.rows]
        members = np.flatnonzero(classes.of == classes.of[in_conflict[0]])
        some = self._generator.permutation(len(cause.contexts))[:REFERENCES]
        tried = []
        for context in cause.contexts[some]:
            contents = np.repeat(context[None], len(members), axis=0)
            contents[:, cause.place] = members
            values = self._experiments.tried(contents, found.column)
            right = int((values[np.searchsorted(members, in_conflict)] == found.values).sum())
            tried.append((right, values, context))
        _, values, context = max(tried, key=lambda each: each[0])
        met = np.isin(members, in_conflict)
        away, origins = self._away(cause.place, members, met, values)
        rest = ~met & ~away
        self._keep_outputs(classes, found, in_conflict, members, values)
        later = found.column > self.partition.output
        experiment = Experiment(NOTHING if later else found.column, cause.place, context, origins)
        split = classes.split(
            members[met],
            usual_values(in_conflict, found.values),
            members[rest],
            values[rest],
            experiment,
            lasting=later,
            apart=None if origins is None else members[away],
        )
        outputs = found.column == self.partition.output
        if split and outputs and classes is not self.partition.states:
            self._merge_equivalent(classes)
        return split

    def _away(self, place: int, members: Ids, met: Mask, values: Ids) -> tuple[Mask, Ids | None]:
        """Members whose values tell nothing, and the origins of the others; None if there are none.

        A vector that is pushed in another part of strings than those that are met in the conflict
        may never stand there. If the experiment has different results for such vectors, it says
        nothing of what they are.
        """
        if 0 < place < len(self.partition.relevant) - 1:
            origins = self.partition.origins[self.partition.read_rings[place - 1]][members]
            here = np.unique(origins[met])
            away: Mask = ~np.isin(origins, here)
            if len(np.unique(values[away])) > 1:
                return away, here
        return np.zeros(len(members), np.bool_), None

    def _keep_outputs(
        self, classes: Classes, found: Conflict, in_conflict: Ids, members: Ids, values: Ids
    ) -> None:
        """Have members count as what was done with them, if only others deviate from it.

        Those that deviate were put among them by an experiment, which may have been misleading.
        """
        before = classes.value_of(int(classes.of[members[0]]), found.column)
        deviating = found.values != before
        if not deviating.all() and not classes.met[in_conflict[deviating]].any():
            values[classes.met[members]] = before

    def _merge_equivalent(self, classes: Classes) -> None:
        """Merge stack symbols with the same output where they were split last and before.

        What they lead to is not relevant yet: too much is in one class still to tell it apart. Nor
        is the output with others that are among them by a guess, which are split next.
        """
        last = classes.splits[-1]
        pairs = [
            (int(one), int(other))
            for split in classes.splits[:-1]
            if split.experiment.column == last.experiment.column
            for value, one in zip(split.values, classes.now(split.classes), strict=True)
            for other in last.classes[last.values == value]
        ]
        for pair in pairs:
            one, other = classes.now(np.array(pair))
            if one != other:
                self.partition.merge(classes, [pair], evident=True)

    def _check_counts(self, resolved: int) -> None:
        """Raise `CannotExtract` if there are too many conflicts or classes."""
        strings, states = self._recorder.strings, self.partition.states.count
        stack_symbols = [each.count for each in self.partition.stack_symbols]
        if resolved > MOST_CONFLICTS:
            raise CannotExtract(
                f"no machine found: in {strings} strings steps still contradict one another with "
                f"{states} states and {sum(stack_symbols)} stack symbols"
            )
        for what, count, most in (
            ("states", states, MOST_STATES),
            ("stack symbols", max(stack_symbols, default=0), MOST_STACK_SYMBOLS),
        ):
            if count > most:
                raise CannotExtract(
                    f"no machine found: {strings} strings show more than {most} {what} "
                    "that the model distinguishes"
                )
