"""The data structure of partition refinement: classes, and the groups of steps that they induce.

Steps are equivalent if all relevant components of their observations are of the same classes. A
memory is irrelevant, whatever is done with it, if nothing that is read of it is relevant.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from stacktrans.automata.rules import EMPTY
from stacktrans.extraction.classes import Classes, inconsistent, usual_partners
from stacktrans.extraction.limits import Deadline
from stacktrans.extraction.network import NOTHING
from stacktrans.extraction.quantization import QuantizedNetwork
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import BEGIN, SEPARATOR, TARGET, Layout

FEW_INPUTS = 8
"""The most inputs of a section of a string that are in classes of their own from the beginning."""
LARGEST_KEY = 2**62
"""The bound of keys of steps."""
SEVERAL = -2
"""In place of a class, where there are several."""
ALL = slice(None)
"""All rows."""


class Partition:
    """Partitions of states, inputs and pushed vectors, and the groups of steps that they induce.

    The actions of a step are numbered by columns: signals, the output, what each push pushes, and
    the next state.

    Args:
        quantized: with the recorded steps.
        deadline: after which no classes are merged.

    Attributes:
        deadline: see above.
        steps: the recorded steps.
        states: classes of states.
        stack_symbols: of each memory, classes of pushed vectors; `EMPTY` is the class of the vector
            that is read when it is empty.
        origins: of each memory, the section of strings in which each vector was pushed; `NOTHING`
            for the vector that is read when it is empty.
        ends: of the memories.
        components: of observations: the classes of each, and [N] its vectors in steps.
        results: of each push, and the next state, by column: classes, and [N] vectors.
        relevant: [components] whether any action depends on them.
        read_memories: the memory of each read.
        push_memories: the memory of each push.
        output: the column of outputs.
    """

    def __init__(self, quantized: QuantizedNetwork, deadline: Deadline) -> None:
        self.deadline = deadline
        self.steps = steps = quantized.steps()
        inputs = steps.observations[:, 0]
        self.states = Classes(np.zeros(len(quantized.states), np.int64), quantized.states)
        sections = sections_of(quantized.layout, quantized.buffers is not None)
        self.ends = ends = quantized.network.ends
        labels = [(np.arange(len(own)) != EMPTY).astype(np.int64) for own in quantized.pushed]
        classes = [*map(Classes, labels, quantized.pushed)]
        self.stack_symbols = [classes[alphabet] for alphabet in ends.alphabets]
        self.read_memories = [end // 2 for end in ends.reads]
        self.push_memories = [end // 2 for _, end in ends.pushes]
        origins = [np.full(len(vectors), NOTHING) for vectors in quantized.pushed]
        self.origins = [origins[alphabet] for alphabet in ends.alphabets]
        for memory, numbers in zip(self.push_memories, steps.pushed.T, strict=True):
            pushed = numbers != NOTHING
            self.origins[memory][numbers[pushed]] = sections[inputs[pushed]]
        read = [self.stack_symbols[memory] for memory in self.read_memories]
        of_pushes = [self.stack_symbols[memory] for memory in self.push_memories]
        tables = [Classes(initial_classes(sections, np.unique(inputs)), None), *read, self.states]
        self.components = [*zip(tables, steps.observations.T, strict=True)]
        vectors = [*steps.pushed.T, steps.next_states]
        results = zip([*of_pushes, self.states], vectors, strict=True)
        self.output: int = steps.signals.shape[1]
        self.results = dict(enumerate(results, start=self.output + 1))
        self.relevant: Mask = np.zeros(len(self.components), np.bool_)
        self.relevant[[0, -1]] = True
        used = (*ends.pops, *ends.pushes, *((signal, taken) for signal, taken, _ in ends.moves))
        self._memories = {signal: end // 2 for signal, end in used}
        self._memory_signals = len(quantized.network.model.memory.signal_names)
        self._find_images()

    def _find_images(self) -> None:
        """Find the usual image of each vector and state."""
        (rows,) = np.nonzero(self.steps.images != NOTHING)
        images = self.steps.images[rows]
        columns = [*self.components[1:], *self.results.values()]
        for classes in {self.states, *self.stack_symbols}:
            own = [numbers for of_column, numbers in columns if of_column is classes]
            ones = np.concatenate([numbers[rows] for numbers in own])
            others = np.concatenate([numbers[images] for numbers in own])
            classes.images = usual_partners(ones, others, len(classes.label_of))

    def split_asymmetric(self) -> bool:
        """Split a class that shifts do not map to a class; return whether there was one."""
        memories = filter(self.memory_relevant, range(len(self.stack_symbols)))
        relevant = [self.states, *(self.stack_symbols[memory] for memory in memories)]
        return any(classes.split_asymmetric() for classes in relevant)

    def memory_relevant(self, memory: int) -> bool:
        """Whether any action depends on the contents of a memory."""
        reads = zip(self.read_memories, self.relevant[1:-1], strict=True)
        classes = self.stack_symbols[memory]
        return any(relevant and self.stack_symbols[read] is classes for read, relevant in reads)

    def _signal_relevant(self, signal: int) -> bool:
        """Whether a signal is one of the buffers, or of a relevant memory."""
        if signal >= self._memory_signals:
            return True
        return signal in self._memories and self.memory_relevant(self._memories[signal])

    @property
    def direct(self) -> list[int]:
        """The columns of relevant signals and of the output."""
        return [*filter(self._signal_relevant, range(self.output)), self.output]

    @property
    def later(self) -> list[int]:
        """The columns of relevant pushed vectors, and of the next state."""
        relevant = [*map(self.memory_relevant, self.push_memories), True]
        return [*itertools.compress(self.results, relevant)]

    def values(self, column: int, rows: Ids | slice = ALL) -> Ids:
        """[N] the values of an action; `NOTHING` where it is irrelevant or unknown.

        Args:
            column: the action.
            rows: the steps.
        """
        if column < self.output:
            signals = self.steps.signals[rows, column]
            return np.where(self._signal_relevant(column), signals, NOTHING)
        if column == self.output:
            return self.steps.outputs[rows]
        classes, numbers = self.results[column]
        return classes.of_known(numbers[rows])

    def majority_values(self, column: int) -> Ids:
        """[N] the values of an action; `NOTHING` where most equivalent steps have another."""
        groups, values = self.groups(), self.values(column)
        usual = values.copy()
        for group in inconsistent(groups, values):
            rows = np.flatnonzero((groups == group) & (values != NOTHING))
            usual[rows[values[rows] != np.bincount(values[rows]).argmax()]] = NOTHING
        return usual

    def groups(self, rows: Ids | slice = ALL) -> Ids:
        """[N] the group of each step of some rows; groups consist of equivalent steps."""
        relevant = itertools.compress(self.components, self.relevant)
        return row_ids(classes.label_of[numbers[rows]] for classes, numbers in relevant)

    def conflict_key(self, column: int, row: int) -> tuple[int, ...]:
        """The action of a conflict, and the classes of the relevant components of a step."""
        classes = [int(classes.label_of[numbers[row]]) for classes, numbers in self.components]
        return (column, *np.where(self.relevant, classes, NOTHING).tolist())

    def propagate(self, groups: Ids) -> None:
        """Mark vectors as known whose class agrees with that of all equivalent steps."""
        changed = True
        while changed and not self.deadline.over():
            changed = False
            for classes, numbers in self.results.values():
                unknown, common = _led_to(groups, classes, numbers)
                agreeing = unknown & (classes.label_of[numbers] == common)
                classes.known[numbers[agreeing]] = True
                changed |= bool(agreeing.any())

    def adopt(self) -> bool:
        """Move vectors of unknown classes to those that equivalent steps or shifts suggest.

        If there are none, states of which there never was any evidence go to the class of the first
        state. Nothing depends on them, and other classes would lead to more states.

        Returns:
            whether any class is known now that was not.
        """
        groups = self.groups()
        for classes, numbers in self.results.values():
            unknown, common = _led_to(groups, classes, numbers)
            adopted = unknown & (common >= 0)
            classes.move(numbers[adopted], common[adopted])
            if adopted.any() or classes.adopt_images():
                return True
        states = self.steps.next_states
        unknown, common = _led_to(groups, self.states, states)
        adopted = unknown & (common == NOTHING) & ~self.states.observed[states]
        self.states.move(states[adopted], self.states.label_of[:1])
        return bool(adopted.any())

    def confirm(self) -> bool:
        """Mark the classes of all relevant reads as known; return whether any was not."""
        changed = False
        for component in np.flatnonzero(self.relevant)[1:].tolist():
            classes, numbers = self.components[component]
            changed |= not classes.known[numbers].all()
            classes.known[numbers] = True
        return changed

    def merge(
        self, classes: Classes, pairs: Iterable[tuple[int, int]], fewer: int | None = None
    ) -> bool:
        """Merge pairs of classes unless conflicts arise; return whether any was merged.

        Args:
            classes: the classes.
            pairs: the numbers of two classes each; the second is merged into the first.
            fewer: the column of an action whose conflicts have to become fewer; None for none.
        """
        distinct = self._distinct_steps()
        before, merged = self._count_conflicts(*distinct), False
        for one, other in pairs:
            if self.deadline.over():
                break
            if fewer is not None and classes.separated_permanently(one, other):
                continue
            saved = classes.label_of.copy()
            classes.label_of[classes.label_of == other] = one
            after = self._count_conflicts(*distinct)
            worse = any(after[column] > before[column] for column in after)
            if worse or (fewer is not None and after[fewer] == before[fewer]):
                classes.label_of = saved
            else:
                classes.inherit_splits(one, other)
                before, merged = after, True
        return merged

    def _distinct_steps(self) -> tuple[Ids, Ids]:
        """A step of each kind that stays equivalent however classes merge, and the kind's size."""
        actions = map(self.values, (*self.direct, *self.later))
        kinds = row_ids([self.groups(), *actions])
        _, rows, frequencies = np.unique(kinds, return_index=True, return_counts=True)
        return rows, frequencies

    def _count_conflicts(self, rows: Ids, frequencies: Ids) -> dict[int, int]:
        """The number of steps that contradict most equivalent ones, by the column of the action."""
        groups, columns = self.groups(rows), (*self.direct, *self.later)
        return {
            column: count_minority(groups, self.values(column, rows), frequencies)
            for column in columns
        }


def _led_to(groups: Ids, classes: Classes, numbers: Ids) -> tuple[Mask, Ids]:
    """What is known of the classes that steps lead to.

    Args:
        groups: [N] of equivalent steps.
        classes: of the vectors or states.
        numbers: [N] of those that the steps lead to; negative for none.

    Returns:
        [N] whether a step's own class is unknown; and [N] the known class that equivalent steps
        lead to, `NOTHING` if there is none, and `SEVERAL` if they are several.
    """
    values = classes.of_known(numbers)
    known, common = values != NOTHING, np.full(groups.max() + 1, NOTHING)
    common[groups[known]] = values[known]
    common[inconsistent(groups, values)] = SEVERAL
    return (numbers >= 0) & ~known, common[groups]


def row_ids(columns: Iterable[Ids]) -> Ids:
    """[N] the rank of each row of columns [N] of values from -1; equal rows have one rank."""
    keys, size = np.zeros(1, np.int64), 1
    for column in columns:
        count = int(column.max(initial=0)) + 2
        if size * count >= LARGEST_KEY:
            keys = np.unique(keys, return_inverse=True)[1].reshape(-1)
            size = len(keys)
        keys, size = keys * count + column + 1, size * count
    numbers: Ids = np.unique(keys, return_inverse=True)[1]
    return numbers.reshape(-1)


def count_minority(groups: Ids, values: Ids, frequencies: Ids) -> int:
    """The number of steps without the most frequent value of their group.

    Args:
        groups: [N] of steps.
        values: [N] of steps; `NOTHING` for none.
        frequencies: [N] of steps.
    """
    known = values != NOTHING
    size = int(values.max(initial=0)) + 1
    pairs, indices = np.unique(groups[known] * size + values[known], return_inverse=True)
    counts = np.bincount(indices.reshape(-1), frequencies[known], minlength=len(pairs))
    most = np.zeros(groups.max() + 1)
    np.maximum.at(most, pairs // size, counts)
    return int(counts.sum() - most.sum())


def sections_of(layout: Layout, buffered: bool) -> Ids:
    """[inputs] the section of strings of each; sources, blanks and no input are one section."""
    numbers = {BEGIN: 2, SEPARATOR: 3, TARGET: 4}
    names, counts = zip(*layout.sections, ("no input", int(buffered)), strict=True)
    return np.repeat([numbers.get(name, 1) for name in names], counts)


def initial_classes(sections: Ids, occurring: Ids) -> Ids:
    """Classes of inputs: sections, and single inputs of sections of which few occur."""
    sizes = np.bincount(sections[occurring], minlength=sections.max() + 1)[sections]
    single = sections.max() + 1 + np.arange(len(sections))
    labels = np.where(sizes <= FEW_INPUTS, single, sections)
    classes: Ids = np.unique(labels, return_inverse=True)[1]
    return classes.reshape(-1)
