"""Partition refinement: classes of inputs, vectors and states are split until steps agree.

At first all states are in one class, all inputs of a section of strings, and all vectors in a
memory, and nothing that is read is relevant. As in the minimization of automata (Hopcroft 1971;
Paige & Tarjan 1987), a class is split if its members lead to different actions or classes; steps
that are equivalent but do different things are a conflict. Its cause is the component of their
observations that predicts best what they do, as in the learning of decision trees (Quinlan 1986).
It becomes relevant, and its class is split by what each member leads to in the conflict. By
experiments, which observed runs of a black box do not allow, it is found whether it has an effect,
and what other members of the class lead to: they are put into steps of the conflict, and the
network is run from there.

A vector that is read in no recorded step could be of any class: until there is evidence, it causes
no conflict, and joins the class of the experiment's result, or that of its nearest neighbor, and
once there are no conflicts, that which equivalent steps lead to. Where some symbols stand for
others, shifting them has to map classes to classes; one that is not mapped to one is split.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import NamedTuple

import numpy as np

from stacktrans.automata.rules import EMPTY
from stacktrans.extraction.classes import inconsistent
from stacktrans.extraction.limits import CannotExtract, Deadline, OutOfTime
from stacktrans.extraction.network import NOTHING
from stacktrans.extraction.partition import Partition
from stacktrans.extraction.quantization import QuantizedNetwork
from stacktrans.tasks.alphabets import Ids

UNKNOWN = -2
"""In place of a value of which nothing is known; `NOTHING` is a value."""
MAX_STATES, MAX_STACK_SYMBOLS = 200, 4096
"""The most classes of states, and of the vectors of a memory."""
MAX_CONFLICTS = 500
"""The most conflicts that are resolved."""
CONTEXTS = 16
"""The steps of a conflict in which other members of a class are tried."""
MAX_MERGED = 5
"""The classes of a conflict that are merged in pairs."""


class Conflict(NamedTuple):
    """A conflict: equivalent steps with different values of an action.

    Attributes:
        rows: [n] the steps.
        values: [n] of the action.
        column: of the action.
        key: distinguishes it from other conflicts.
    """

    rows: Ids
    values: Ids
    column: int
    key: tuple[int, ...]


class Cause(NamedTuple):
    """The cause of a conflict: the component that predicts the action of its steps best.

    Attributes:
        component: its number.
        members: [n] the different inputs, vectors or states that it is in these steps.
        values: [n] of the action that each of them predicts; `UNKNOWN` if it predicts none.
    """

    component: int
    members: Ids
    values: Ids


class Refinement:
    """The refinement of a partition until it is consistent with all recorded steps.

    Args:
        quantized: with the recorded steps.
        deadline: at which the refinement ends.
        seed: of the choice of steps that are experimented with.
    """

    def __init__(self, quantized: QuantizedNetwork, deadline: Deadline, seed: int) -> None:
        self._quantized, self._deadline = quantized, deadline
        self._partition = Partition(quantized, deadline)
        self._rng = np.random.default_rng(seed)
        self._given_up: set[tuple[int, ...]] = set()

    def until_consistent(self) -> Partition:
        """Refine until there is no conflict, or no time left; raises `CannotExtract`."""
        resolved = 0
        with contextlib.suppress(OutOfTime):
            while not self._deadline.over():
                if conflict := self._conflict():
                    self._resolve(conflict)
                elif self._partition.adopt() or self._partition.confirm():
                    continue
                elif not self._partition.split_asymmetric():
                    break
                resolved += 1
                self._check_counts(resolved)
        return self._partition

    def _conflict(self) -> Conflict | None:
        """The conflict of the most steps, about signals and outputs before anything else."""
        partition = self._partition
        groups = partition.groups()
        partition.propagate(groups)
        sizes = np.bincount(groups)
        for columns in (partition.direct, partition.later):
            conflicts = []
            for column in columns:
                different = inconsistent(groups, partition.values(column))
                conflicts += [(int(sizes[group]), group, column) for group in different]
            for _, group, column in sorted(conflicts, reverse=True):
                values = partition.values(column)
                rows = np.flatnonzero((groups == group) & (values != NOTHING))
                key = partition.conflict_key(column, rows[0])
                if key not in self._given_up:
                    return Conflict(rows, values[rows], column, key)
        return None

    def _resolve(self, conflict: Conflict) -> None:
        """Merge the classes that a conflict leads to, or split the class that is its cause."""
        partition, direct = self._partition, conflict.column <= self._partition.output
        if not direct and self._merge_results(conflict):
            return
        for cause in self._causes(conflict):
            classes, _ = partition.components[cause.component]
            members = np.flatnonzero(classes.label_of == classes.label_of[cause.members[0]])
            others = np.setdiff1d(members, cause.members)
            guesses = np.full(len(others), UNKNOWN)
            if direct:
                results, guesses = self._experiment(conflict, cause, others)
                if (results == results[0]).all():  # it has no effect
                    continue
                if (cause.values == UNKNOWN).all():
                    cause = cause._replace(values=results)
            if partition.relevant[cause.component]:
                classes.split(cause.members, cause.values, others, guesses, permanent=not direct)
            partition.relevant[cause.component] = True
            return
        self._given_up.add(conflict.key)

    def _causes(self, conflict: Conflict) -> list[Cause]:
        """The components that predict different values of a conflict, the best first.

        Each is ranked by the number of steps that it predicts, less that of its different members.
        Those that rank below the most frequent value alone come after them, in the order that they
        would have if all values were as frequent. Of components that predict nothing by themselves,
        such as those of an exclusive or, only an experiment can show the effect: they come last.
        """
        partition = self._partition
        direct = conflict.column <= partition.output
        values, of_steps, counts = np.unique(
            conflict.values, return_inverse=True, return_counts=True
        )
        ranked: list[tuple[int, float, bool, Cause]] = []
        for component, (_, numbers) in enumerate(partition.components):
            members, of_members = np.unique(numbers[conflict.rows], return_inverse=True)
            frequent = np.zeros((len(members), len(values)))
            np.add.at(frequent, (of_members.reshape(-1), of_steps), 1)
            balanced = frequent * (len(of_steps) / len(values) / counts)
            irrelevant = not partition.relevant[component]
            for worse, weights in enumerate((frequent, balanced)):
                predicted = values[weights.argmax(axis=1)]
                score = float(weights.max(axis=1).sum()) - len(members)
                if (predicted != predicted[0]).any() and (worse or score > counts.max()):
                    cause = Cause(component, members, predicted)
                    ranked.append((worse, -score, irrelevant, cause))
                    break
            else:
                if direct:
                    cause = Cause(component, members, np.full(len(members), UNKNOWN))
                    ranked.append((2, len(members), irrelevant, cause))
        return [cause for *_, cause in sorted(ranked, key=lambda entry: entry[:3])]

    def _experiment(self, conflict: Conflict, cause: Cause, others: Ids) -> tuple[Ids, Ids]:
        """What the members of a cause and others [n] of their class lead to in one of its steps.

        Of some steps, it is the one in which the members of the cause lead to the most values that
        are known to be right. A vector that is pushed in another section of strings than those of
        the cause may never be read there: if there are different results for such vectors, they are
        `UNKNOWN`.
        """
        recorded = self._partition.steps.observations
        members, known = np.concatenate([cause.members, others]), len(cause.members)
        trials = []
        for row in self._rng.permutation(conflict.rows)[:CONTEXTS]:
            observations = np.repeat(recorded[row][None], len(members), axis=0)
            observations[:, cause.component] = members
            values = self._values(observations, conflict.column)
            trials.append((int((values[:known] == cause.values).sum()), values))
        _, values = max(trials, key=lambda trial: trial[0])
        results, guesses = values[:known], values[known:]
        if 0 < cause.component < len(self._partition.relevant) - 1:
            origins = self._partition.origins[self._partition.read_memories[cause.component - 1]]
            elsewhere = ~np.isin(origins[others], origins[cause.members])
            if len(np.unique(guesses[elsewhere])) > 1:
                guesses = np.where(elsewhere, UNKNOWN, guesses)
        return results, guesses

    def _values(self, observations: Ids, column: int) -> Ids:
        """[n] a signal or the output at observations [n, components]; raises `OutOfTime`."""
        results = self._quantized.step_results(observations)
        if column == self._partition.output:
            return results.outputs
        network = self._quantized.network
        signals: Ids = network.without_empty_pops(results.signals, observations[:, 1:-1])[:, column]
        return signals

    def _merge_results(self, conflict: Conflict) -> bool:
        """Merge the classes that a conflict leads to, if this brings about no other conflict."""
        classes, _ = self._partition.results[conflict.column]
        different, counts = np.unique(conflict.values, return_counts=True)
        ranked = different[np.argsort(-counts, kind="stable")][:MAX_MERGED].tolist()
        if classes is not self._partition.states:
            ranked = [label for label in ranked if label != EMPTY]
        pairs = itertools.combinations(ranked, 2)
        return self._partition.merge(classes, pairs, fewer=conflict.column)

    def _check_counts(self, resolved: int) -> None:
        """Raise `CannotExtract` if there are too many conflicts or classes."""
        strings = f"{self._quantized.strings} strings"
        states = len(self._partition.states.labels)
        # But for the empty ones; memories may share classes.
        stack_symbols = [len(classes.labels) - 1 for classes in {*self._partition.stack_symbols}]
        problem = ""
        if resolved > MAX_CONFLICTS:
            counts = f"{states} states and {sum(stack_symbols)} stack symbols"
            problem = f"the steps over {strings} are still inconsistent, with {counts}"
        elif states > MAX_STATES:
            problem = f"{strings} require more than {MAX_STATES} states"
        elif max(stack_symbols, default=0) > MAX_STACK_SYMBOLS:
            problem = f"{strings} require more than {MAX_STACK_SYMBOLS} stack symbols"
        if problem:
            raise CannotExtract(f"no machine found: {problem}")
