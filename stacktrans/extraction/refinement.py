"""Partition refinement: experiments on the network find what causes conflicts, and split classes.

At first all states are in one class, all inputs of a section of strings, and all vectors in a
memory, and nothing that is read is relevant. As in the minimization of automata (Hopcroft 1971;
Paige & Tarjan 1987), a class is split if its members lead to different actions or classes; steps
that are equivalent but do different things are a conflict. Its cause is found by experiments, which
observed runs of a black box do not allow: one component of a step is replaced by that of another
step, and the network is run from there. A component that changes what it does becomes relevant, and
its class is split by what each member makes the network do.

A vector that is read in no recorded step could be of any class: until there is evidence, it causes
no conflict, and joins the class of the experiment's result, or that of its nearest neighbour.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from stacktrans.decoding.decoder import most_probable_ids
from stacktrans.extraction.abstraction import Abstraction
from stacktrans.extraction.limits import CannotExtract, OutOfTime
from stacktrans.extraction.network import EMPTY, NOTHING, Outcome
from stacktrans.extraction.partition import Classes, Experiment, Partition, lookup, modes, nearest
from stacktrans.kernels import Array
from stacktrans.tasks.alphabets import Ids, Mask

PAIRS = 64
"""The pairs of steps of a conflict that are experimented with."""
MOST_STATES, MOST_STACK_SYMBOLS = 200, 4096
"""The most classes of states, and of the vectors of a memory."""
MOST_CONFLICTS = 500
"""The most conflicts that are resolved."""
CONTEXTS = 16
"""The steps in which all members of a class are tried."""
MOST_MERGED = 5
"""The classes of a conflict that are merged in pairs."""


class Conflict(NamedTuple):
    """A conflict: equivalent steps with different values of an action.

    Attributes:
        rows: [n] the steps.
        values: [n] of the action.
        column: of the action.
        name: distinguishes it from other conflicts.
    """

    rows: Ids
    values: Ids
    column: int
    name: tuple[int, ...]

    def ranked(self, rng: np.random.Generator) -> tuple[Ids, Ids]:
        """Its steps by their values, in random order, and their ranks among those of a value.

        Returns:
            [n] indices of steps in the conflict, and [n] ranks, from 0.
        """
        order = rng.permutation(len(self.rows))
        order = order[np.argsort(self.values[order], kind="stable")]
        _, starts = np.unique(self.values[order], return_index=True)
        sizes = np.diff([*starts, len(order)])
        return order, np.arange(len(order)) - np.repeat(starts, sizes)


class Cause(NamedTuple):
    """The cause of a conflict: the component in which its steps differ.

    Attributes:
        component: which makes the difference.
        share: of the pairs of steps in which it does.
        contexts: [n, components] observations in which replacing it changes the action.
    """

    component: int
    share: float
    contexts: Ids


class Experiments:
    """Experiments: single steps of a network on recombined observations.

    Args:
        abstraction: with the recorded steps.
        partition: of the steps.
        rng: draws those that are experimented with.
    """

    def __init__(
        self, abstraction: Abstraction, partition: Partition, rng: np.random.Generator
    ) -> None:
        self._abstraction, self._partition, self._rng = abstraction, partition, rng

    def causes(self, conflict: Conflict) -> list[Cause]:
        """Components that make the difference between pairs of steps, the most frequent first.

        If none does alone, one after another is replaced.
        """
        observations = self._partition.observations
        ones, others = self._pairs(conflict)
        wanted = conflict.values[others]
        of_one, of_other = observations[conflict.rows[ones]], observations[conflict.rows[others]]
        order = np.arange(observations.shape[1])
        replaced = [np.where(order == component, of_other, of_one) for component in order]
        causes = self._flips([of_one] * len(order), replaced, wanted, conflict.column)
        if not causes:
            replaced = [np.where(order <= component, of_other, of_one) for component in order]
            causes = self._flips([of_one, *replaced[:-1]], replaced, wanted, conflict.column)
        return sorted(causes, key=lambda cause: -cause.share - 0.05 * (cause.component == 0))

    def _flips(self, before: list[Ids], after: list[Ids], wanted: Ids, column: int) -> list[Cause]:
        """Causes among replacements of each component: [n, components] before and after it."""
        values = self.values(np.concatenate(after), column).reshape(-1, len(wanted))
        causes = []
        for component, (one, other, own) in enumerate(zip(before, after, values, strict=True)):
            changed = (one[:, component] != other[:, component]) & (own == wanted)
            if changed.any():
                causes.append(Cause(component, float(changed.mean()), one[changed]))
        return causes

    def _pairs(self, conflict: Conflict) -> tuple[Ids, Ids]:
        """Pairs of steps with different values, by their indices in the conflict."""
        order, rank = conflict.ranked(self._rng)
        mixed = order[np.argsort(rank, kind="stable")][: 2 * PAIRS]
        ones = mixed[:PAIRS]
        others = [mixed[conflict.values[mixed] != conflict.values[one]] for one in ones]
        return ones, np.array([self._rng.choice(candidates) for candidates in others])

    def values(self, observations: Ids, column: int) -> Ids:
        """[n] the values of an action at observations [n, components]; `NOTHING` for none."""
        partition, outcome = self._partition, self._outcome(observations)
        if column <= partition.output:
            return self._direct(outcome, observations, column)
        push = column - partition.output - 1
        classes, _ = partition.results[push]
        if classes is partition.states:
            return self._sift(classes, outcome.states, np.full(len(observations), NOTHING))
        origins = partition.sections[observations[:, 0]]
        values = self._sift(classes, outcome.pushed[:, push], origins, EMPTY + 1)
        values[outcome.signals[:, partition.ends.pushes[push][0]] == 0] = NOTHING
        return values

    def _outcome(
        self, observations: Ids, component: int | None = None, vectors: Array | None = None
    ) -> Outcome:
        """The outcome at observations [n, components], with vectors [n, D] as one component.

        Raises:
            OutOfTime: there is no time left for it.
        """
        abstraction, network = self._abstraction, self._abstraction.network
        memories = [abstraction.pushed[memory] for memory in self._partition.read_memories]
        columns = zip([*memories, abstraction.states], observations.T[1:], strict=True)
        *reads, states = [
            vectors if index == component and vectors is not None else table.of(numbers)
            for index, (table, numbers) in enumerate(columns, start=1)
        ]
        none = np.zeros((len(observations), 0, len(network.empty)), network.empty.dtype)
        read = np.concatenate([none, *(of_end[:, None] for of_end in reads)], axis=1)
        return network.step(states, observations[:, 0], read)

    def _direct(self, outcome: Outcome, observations: Ids, column: int) -> Ids:
        """[n] a signal, by its column, or the output; `NOTHING` for the pop of an empty memory."""
        if column == self._partition.output:
            return most_probable_ids(outcome.logits)
        network = self._abstraction.network
        signals: Ids = network.effective(outcome.signals, observations[:, 1:-1])[:, column]
        return signals

    def _sift(self, classes: Classes, vectors: Array, origins: Ids, root: int = 0) -> Ids:
        """[n] the classes of vectors [n, D], by the experiments that split classes.

        Vectors go down the discrimination tree from a root (Kearns & Vazirani 1994); where an
        experiment is not conclusive for their origins [n], they are in a class of their own.
        """
        labels = np.full(len(vectors), root)
        for split in classes.splits:
            here, experiment = labels == split.parent, split.experiment
            if experiment.origins is not None:
                elsewhere = here & ~np.isin(origins, experiment.origins)
                labels[elsewhere] = split.inconclusive
                here &= ~elsewhere
            rows = np.flatnonzero(here)
            if not len(rows):
                continue
            known = np.zeros(len(rows), np.bool_)
            if experiment.column != NOTHING:
                observations = np.repeat(experiment.context[None], len(rows), axis=0)
                outcome = self._outcome(observations, experiment.component, vectors[rows])
                results = self._direct(outcome, observations, experiment.column)
                indices, known = lookup(split.values, results)
                labels[rows[known]] = split.classes[indices[known]]
            if len(left := rows[~known]):
                assert classes.vectors is not None
                examples = classes.vectors.of(split.examples)
                labels[left] = split.parts[nearest(vectors[left], examples)]
        return classes.current(labels)


class Refinement:
    """The refinement of a partition until it is consistent with all recorded steps.

    Args:
        abstraction: with the recorded steps; at its network's deadline the refinement ends.
        seed: of the choice of steps that are experimented with.
    """

    def __init__(self, abstraction: Abstraction, seed: int) -> None:
        self._abstraction = abstraction
        self._deadline = abstraction.network.deadline
        self._partition = Partition(abstraction)
        self._rng = np.random.default_rng(seed)
        self._experiments = Experiments(abstraction, self._partition, self._rng)
        self._given_up: set[tuple[int, ...]] = set()

    def until_consistent(self) -> Partition:
        """Refine until there is no conflict, or no time left; raises `CannotExtract`."""
        resolved = 0
        while True:
            while (conflict := self._conflict()) and not self._deadline.over():
                try:
                    self._resolve(conflict)
                except OutOfTime:
                    return self._partition
                resolved += 1
                self._check_counts(resolved)
            if self._deadline.over() or not self._partition.confirm():
                return self._partition

    def _conflict(self) -> Conflict | None:
        """The conflict of the most steps, about signals and outputs before anything else."""
        partition = self._partition
        groups = partition.groups()
        while partition.propagate(groups) and not self._deadline.over():
            groups = partition.groups()
        sizes = np.bincount(groups.of)
        for columns in (partition.direct, partition.later):
            conflicts = []
            for column in columns:
                values = partition.values(column)
                inconsistent = groups.inconsistent(values).tolist()
                conflicts += [(int(sizes[group]), group, column) for group in inconsistent]
            for _, group, column in sorted(conflicts, reverse=True):
                name = partition.conflict_name(column, groups.firsts[group])
                if name not in self._given_up:
                    values = partition.values(column)
                    rows = np.flatnonzero((groups.of == group) & (values != NOTHING))
                    return Conflict(rows, values[rows], column, name)
        return None

    def _resolve(self, conflict: Conflict) -> None:
        """Merge classes that need not be distinguished, or split the class that is the cause."""
        relevant = self._partition.relevant
        if conflict.column > self._partition.output and self._merge_results(conflict):
            return
        for cause in self._experiments.causes(conflict):
            if not relevant[cause.component]:
                relevant[cause.component] = True
                return
            if self._split(conflict, cause):
                return
        if not self._split_by_observation(conflict):
            self._given_up.add(conflict.name)

    def _split_by_observation(self, conflict: Conflict) -> bool:
        """Split the class of the component that predicts the conflict best, without experiments."""
        best, most = None, float(np.bincount(conflict.values).max() / len(conflict.values))
        for component, (classes, numbers) in enumerate(self._partition.components):
            in_conflict = numbers[conflict.rows]
            members, indices = np.unique(in_conflict, return_inverse=True)
            usual = modes(in_conflict, conflict.values)
            share = float((usual[indices.reshape(-1)] == conflict.values).mean())
            if share > most:
                best, most = (component, classes, members, usual), share
        if best is None:
            return False
        component, classes, members, usual = best
        others = np.setdiff1d(np.flatnonzero(classes.of == classes.of[members[0]]), members)
        self._partition.relevant[component] = True
        final = conflict.column > self._partition.output
        return classes.split(members, usual, others, np.full(len(others), NOTHING - 1), final=final)

    def _merge_results(self, conflict: Conflict) -> bool:
        """Merge the classes that a conflict leads to, if this brings about no other conflict."""
        classes, _ = self._partition.results[conflict.column - self._partition.output - 1]
        different, counts = np.unique(conflict.values, return_counts=True)
        ranked = different[np.argsort(-counts, kind="stable")][:MOST_MERGED].tolist()
        if classes is not self._partition.states:
            ranked = [label for label in ranked if label != EMPTY]
        pairs = itertools.combinations(ranked, 2)
        return self._partition.merge(classes, pairs, fewer=conflict.column)

    def _split(self, conflict: Conflict, cause: Cause) -> bool:
        """Split a class by what each member makes the network do; return whether it was split."""
        classes, numbers = self._partition.components[cause.component]
        in_conflict = numbers[conflict.rows]
        members = np.flatnonzero(classes.of == classes.of[in_conflict[0]])
        some = self._rng.permutation(len(cause.contexts))[:CONTEXTS]
        trials = []
        for context in cause.contexts[some]:
            observations = np.repeat(context[None], len(members), axis=0)
            observations[:, cause.component] = members
            values = self._experiments.values(observations, conflict.column)
            right = int((values[np.searchsorted(members, in_conflict)] == conflict.values).sum())
            trials.append((right, values, context))
        _, values, context = max(trials, key=lambda trial: trial[0])
        evident = np.isin(members, in_conflict)
        elsewhere, origins = self._inconclusive(cause.component, members, evident, values)
        rest = ~evident & ~elsewhere
        final = conflict.column > self._partition.output
        column = NOTHING if final else conflict.column
        split = classes.split(
            members[evident],
            modes(in_conflict, conflict.values),
            members[rest],
            values[rest],
            Experiment(column, cause.component, context, origins),
            final,
            None if origins is None else members[elsewhere],
        )
        outputs = conflict.column == self._partition.output
        if split and outputs and classes is not self._partition.states:
            self._merge_equivalent(classes)
        return split

    def _inconclusive(
        self, component: int, members: Ids, evident: Mask, values: Ids
    ) -> tuple[Mask, Ids | None]:
        """Members for which an experiment is not conclusive, and the origins of the others.

        A vector that is pushed in another section of strings than those of the conflict may never
        be read there. If the experiment has different results for such vectors, they are no
        evidence. The origins are None if it is conclusive for all members.
        """
        if 0 < component < len(self._partition.relevant) - 1:
            memory = self._partition.read_memories[component - 1]
            origins = self._partition.origins[memory][members]
            conclusive = np.unique(origins[evident])
            elsewhere: Mask = ~np.isin(origins, conclusive)
            if len(np.unique(values[elsewhere])) > 1:
                return elsewhere, conclusive
        return np.zeros(len(members), np.bool_), None

    def _merge_equivalent(self, classes: Classes) -> None:
        """Merge stack symbols with the same output in the last split and an earlier one.

        Neither what they lead to counts yet, as too much is in one class still, nor outputs with
        members that are guessed, which are split next.
        """
        last = classes.splits[-1]
        pairs = [
            (int(one), int(other))
            for split in classes.splits[:-1]
            if split.experiment.column == last.experiment.column
            for value, one in zip(split.values, classes.current(split.classes), strict=True)
            for other in last.classes[last.values == value]
        ]
        for pair in pairs:
            one, other = classes.current(np.array(pair))
            if one != other:
                self._partition.merge(classes, [pair], evident=True)

    def _check_counts(self, resolved: int) -> None:
        """Raise `CannotExtract` if there are too many conflicts or classes."""
        strings, states = f"{self._abstraction.strings} strings", self._partition.states.count
        stack_symbols = [classes.count for classes in self._partition.stack_symbols]
        problem = ""
        if resolved > MOST_CONFLICTS:
            counts = f"{states} states and {sum(stack_symbols)} stack symbols"
            problem = f"in {strings} steps still contradict one another with {counts}"
        elif states > MOST_STATES:
            problem = f"{strings} show more than {MOST_STATES} states that the model distinguishes"
        elif max(stack_symbols, default=0) > MOST_STACK_SYMBOLS:
            most = f"{MOST_STACK_SYMBOLS} stack symbols"
            problem = f"{strings} show more than {most} that the model distinguishes"
        if problem:
            raise CannotExtract(f"no machine found: {problem}")
