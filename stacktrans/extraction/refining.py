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

import numpy as np

from stacktrans.extraction.alike import Alike
from stacktrans.extraction.classes import Classes, Experiment, divided, usual_values
from stacktrans.extraction.experiments import EMPTY_CLASS, Cause, Conflict, Experiments
from stacktrans.extraction.network import UNLIMITED, CannotExtract, Deadline, OutOfTime
from stacktrans.extraction.runs import NOTHING, Recorder
from stacktrans.tasks.alphabets import Ids, Mask

MOST_STATES, MOST_KINDS = 200, 4096
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


def refined(recorder: Recorder, tolerance: float = 0.0, deadline: Deadline = UNLIMITED) -> Alike:
    """The classes of what was met in runs, parted until nothing contradicts.

    Args:
        recorder: of the runs.
        tolerance: the share of steps that may do otherwise than others that are alike.
        deadline: after which what was found until then counts.

    Raises:
        CannotExtract: they are too many.
    """
    refining = _Refining(recorder, tolerance, deadline)
    refining.refine()
    return refining.alike


class _Refining:
    """Parts classes; arguments are those of `refined`."""

    def __init__(self, recorder: Recorder, tolerance: float, deadline: Deadline) -> None:
        self._recorder, self._tolerance, self._deadline = recorder, tolerance, deadline
        self.alike = Alike(recorder, deadline)
        self._generator = np.random.default_rng(0)
        self._experiments = Experiments(recorder, self.alike, self._generator, deadline)
        self._given_up: set[tuple[int, ...]] = set()

    def refine(self) -> None:
        """Part classes until nothing contradicts, or there is no time left.

        Raises:
            CannotExtract: they are too many.
        """
        resolved = 0
        while True:
            while (found := self._conflict()) and not self._deadline.over:
                try:
                    self._resolve(found)
                except OutOfTime:
                    return
                resolved += 1
                self._check_counts(resolved)
            if self._deadline.over or not self.alike.confirm():
                return

    def _conflict(self) -> Conflict | None:
        """The conflict of the most steps, about signals and outputs before anything else."""
        firsts, groups = self.alike.groups()
        while self.alike.propagate(groups, len(firsts)) and not self._deadline.over:
            firsts, groups = self.alike.groups()
        sizes = np.bincount(groups)
        later = self.alike.later
        for columns in (self.alike.direct, later):
            best: tuple[int, int, int] | None = None
            for column in columns:
                few = AGREED * self._tolerance if column in later else 0
                values = self.alike.values(column)
                parted = divided(values, groups, len(firsts), self._tolerance, few)
                for group in parted.tolist():
                    found = int(sizes[group]), group, column
                    if best is not None and found < best:
                        continue
                    if self.alike.name(column, firsts[group]) not in self._given_up:
                        best = found
            if best:
                _, group, column = best
                values = self.alike.values(column)
                rows = np.flatnonzero((groups == group) & (values != NOTHING))
                return Conflict(rows, values[rows], column, self.alike.name(column, firsts[group]))
        return None

    def _resolve(self, found: Conflict) -> None:
        """Make one of what need not be apart, or part what makes the difference."""
        if found.column > self.alike.output and self._merged(found):
            return
        causes = self._experiments.causes(found)
        state = len(self.alike.matters) - 1
        known = causes and self.alike.matters[causes[0].place] and causes[0].place != state
        if not known and self._explained(found):
            return
        for cause in causes:
            if not self.alike.matters[cause.place]:
                self.alike.matters[cause.place] = True
                return
            if self._parted(found, cause):
                return
        self._given_up.add(found.name)

    def _explained(self, found: Conflict) -> bool:
        """Part what is read, if that it matters is known and it tells what is done as well.

        A state that knows what is read, or was, is not needed then.
        """
        order, rank = found.ranked(self._generator)
        enough = max(3, COMPARED // int((rank == 0).sum()))
        some = order[rank < enough][: 2 * COMPARED]  # of each value about as many
        rows, values = found.rows[some], found.values[some]
        best: tuple[Classes, Ids] | None = None
        most = EXPLAINS
        for place in np.flatnonzero(self.alike.matters)[1:-1].tolist():
            classes, numbers = self.alike.places[place]
            different = len(np.unique(numbers[rows])) > 1
            if different and (share := classes.told(numbers[rows], values)) > most:
                best, most = (classes, numbers), share
        if best is None:
            return False
        classes, numbers = best
        in_conflict = numbers[found.rows]
        members = np.flatnonzero(classes.of == classes.of[in_conflict[0]])
        others = members[~np.isin(members, in_conflict)]
        usual = usual_values(in_conflict, found.values)
        unknown = np.full(len(others), NOTHING - 1)
        later = found.column > self.alike.output
        return classes.part(np.unique(in_conflict), usual, others, unknown, lasting=later)

    def _merged(self, found: Conflict) -> bool:
        """Make one of different results if nothing but results tells them apart."""
        classes, _ = self.alike.results[found.column - self.alike.output - 1]
        different, counts = np.unique(found.values, return_counts=True)
        ranked = different[np.argsort(-counts, kind="stable")][:MOST_MERGED].tolist()
        if classes is not self.alike.states:
            ranked = [each for each in ranked if each != EMPTY_CLASS]
        return self.alike.merge(classes, itertools.combinations(ranked, 2), fewer=found.column)

    def _parted(self, found: Conflict, cause: Cause) -> bool:
        """Part what stands in a place by what it makes the network do; whether it was parted."""
        classes, numbers = self.alike.places[cause.place]
        in_conflict = numbers[found.rows]
        own = int(classes.of[in_conflict[0]])
        members = np.flatnonzero(classes.of == own)
        some = self._generator.permutation(len(cause.contexts))[:REFERENCES]
        usual = usual_values(in_conflict, found.values)
        best: tuple[int, Ids, Ids] | None = None
        for context in cause.contexts[some]:
            contents = np.repeat(context[None], len(members), axis=0)
            contents[:, cause.place] = members
            values = self._experiments.tried(contents, found.column)
            right = int((values[np.searchsorted(members, in_conflict)] == found.values).sum())
            if best is None or right > best[0]:
                best = right, values, context
        assert best is not None
        _, values, context = best
        met = np.isin(members, in_conflict)
        away, origins = self._away(cause.place, members, met, values)
        rest = ~met & ~away
        self._keep_what_was_said(classes, found, in_conflict, members, values)
        later = found.column > self.alike.output
        experiment = Experiment(NOTHING if later else found.column, cause.place, context, origins)
        parted = classes.part(
            members[met],
            usual,
            members[rest],
            values[rest],
            experiment,
            lasting=later,
            apart=None if origins is None else members[away],
        )
        if parted and found.column == self.alike.output and classes is not self.alike.states:
            self._merge_alike(classes)
        return parted

    def _away(self, place: int, members: Ids, met: Mask, values: Ids) -> tuple[Mask, Ids | None]:
        """Members whose values tell nothing, and the origins of the others; None if there are none.

        A vector that is pushed in another part of strings than those that are met in the conflict
        may never stand there. If the experiment does not treat all such vectors alike, it says
        nothing of what they are.
        """
        if 0 < place < len(self.alike.matters) - 1:
            origins = self.alike.origins[self.alike.read_rings[place - 1]][members]
            here = np.unique(origins[met])
            away: Mask = ~np.isin(origins, here)
            if len(np.unique(values[away])) > 1:
                return away, here
        return np.zeros(len(members), np.bool_), None

    def _keep_what_was_said(
        self, classes: Classes, found: Conflict, in_conflict: Ids, members: Ids, values: Ids
    ) -> None:
        """Have members count as what was said with them, if only others deviate from it.

        Those that deviate were put among them by an experiment, which may have been misleading.
        """
        before = classes.value_of(int(classes.of[members[0]]), found.column)
        deviating = found.values != before
        if not deviating.all() and not classes.met[in_conflict[deviating]].any():
            values[classes.met[members]] = before

    def _merge_alike(self, classes: Classes) -> None:
        """Make one of kinds that have the same said where they were parted last and before.

        What they lead to is no matter yet: too much counts as alike still to tell it apart. Nor is
        what is said with others that are among them by a guess, which are parted next.
        """
        last = classes.splits[-1]
        pairs = [
            (int(one), int(other))
            for split in classes.splits[:-1]
            if split.experiment.column == last.experiment.column
            for value, one in zip(split.values, classes.now(split.classes), strict=True)
            for other in last.classes[last.values == value]
            if one != other
        ]
        for one, other in pairs:
            if classes.now(np.array([one, other]))[0] != classes.now(np.array([one, other]))[1]:
                self.alike.merge(classes, [(one, other)], evident=True)

    def _check_counts(self, resolved: int) -> None:
        strings = self._recorder.strings
        if resolved > MOST_CONFLICTS:
            kinds = sum(each.count for each in self.alike.kinds)
            raise CannotExtract(
                f"no machine found: in {strings} strings steps still contradict one another with "
                f"{self.alike.states.count} states and {kinds} kinds of pushed vectors"
            )
        kinds = max((each.count for each in self.alike.kinds), default=0)
        for what, count, most in (
            ("states", self.alike.states.count, MOST_STATES),
            ("kinds of pushed vectors", kinds, MOST_KINDS),
        ):
            if count > most:
                raise CannotExtract(
                    f"no machine found: {strings} strings show more than {most} {what} "
                    "that the model treats differently"
                )
