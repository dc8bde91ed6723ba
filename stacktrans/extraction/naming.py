"""The naming of classes: the states and stack symbols of a machine that has no rules yet.

Inputs, outputs, stack symbols and states are named after symbols of the task, so that one rule can
cover all of them. An input has the symbol that it is written as, whether it is read of a source or
of an answer, and so has an output. A stack symbol has the symbol of the inputs at which it is
pushed, or else of the outputs that are written when it is read. A state is named after the
symbol that is read from a memory in the step that leads to it, or else after that step's input, or
after the output of the next step, but only if at least three symbols have such a state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import EMPTY, Family, SymbolTable
from stacktrans.automata.wording import SYMBOL_STATE
from stacktrans.extraction.classes import Classes
from stacktrans.extraction.network import NOTHING
from stacktrans.extraction.partition import Partition
from stacktrans.extraction.symmetry import REPRESENTATIVES, Symmetry
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layout import SOURCE, TARGET

MAX_COMPARED = 12
"""The most states or stack symbols that are compared with one another."""
MOSTLY = 2
"""A class is named after a symbol that occurs more than this many times as often as any other."""


def name_classes(symmetry: Symmetry, partition: Partition) -> Machine:
    """The machine of a partition, without rules.

    Classes that nothing distinguishes are merged. Then those of pushed vectors and of states are
    renumbered as the stack symbols and states of the machine.
    """
    checkpoint = symmetry.checkpoint
    task, layout = checkpoint.task, checkpoint.layout
    # Symbols have the numbers that they have in `Machine.symbols`.
    symbols = dict.fromkeys([*task.source.symbols, *task.target.symbols])
    index = {symbol: number for number, symbol in enumerate(symbols)}
    source = Family("symbol", tuple(index[symbol] for symbol in task.source.symbols))
    target = Family("symbol", tuple(index[symbol] for symbol in task.target.symbols))
    read = {SOURCE: source, TARGET: target._replace(name="written symbol")}
    families = [read.get(section) or Family(section) for section, _ in layout.sections]
    families += [Family("nothing")] * bool(checkpoint.config.model.buffers)
    inputs = SymbolTable(tuple(families))
    outputs = SymbolTable((target, *[Family("end")] * (layout.outputs > len(task.target))))
    naming = _Naming(symmetry, partition, inputs, outputs)
    alphabets = partition.ends.alphabets
    named = {memory: naming.stack_symbols(memory) for memory in dict.fromkeys(alphabets)}
    stack_symbols = tuple(named[memory] for memory in alphabets)
    return Machine(
        **checkpoint.machine_attributes,
        inputs=inputs,
        outputs=outputs,
        stack_symbols=stack_symbols,
        states=naming.states(stack_symbols),
        rules=(),
    )


class _Evidence(NamedTuple):
    """The symbols that occur in steps together with vectors or states.

    Attributes:
        numbers: columns [N] of vectors or states; negative for none.
        symbols: [N] the symbols; `NOTHING` for none.
    """

    numbers: Sequence[Ids]
    symbols: Ids

    def by_class(self, classes: Classes) -> list[Ids]:
        """The symbols that occur with each class, by its number."""
        known = [classes.of_known(numbers) for numbers in self.numbers]
        labels = np.concatenate([np.empty(0, np.int64), *known])
        order = np.argsort(labels, kind="stable")
        bounds = np.searchsorted(labels[order], np.arange(1 + classes.count))
        symbols = np.tile(self.symbols, len(known))[order]
        return [symbols[first:last] for first, last in itertools.pairwise(bounds.tolist())]


class _Names(NamedTuple):
    """The names of the entries of a table.

    Attributes:
        first: the name of the first entry.
        named: the name of the first family of entries with a symbol.
        further: the prefix, before a number, of the names of further such families.
        other: the prefix, before a number, of the names of entries without a symbol.
        least: the least number of symbols with an entry; if there are fewer, no entry has any.
    """

    first: str
    named: str
    further: str
    other: str
    least: int


STACK_SYMBOLS = _Names("empty", "symbol", "symbol ", "mark ", least=1)
STATES = _Names("q0", SYMBOL_STATE, f"{SYMBOL_STATE}'", "q", least=3)


class _Naming:
    """The naming of classes, which are merged and renumbered.

    Args:
        symmetry: of the symbols.
        partition: the partition.
        inputs: the table of inputs.
        outputs: the table of outputs.
    """

    def __init__(
        self, symmetry: Symmetry, partition: Partition, inputs: SymbolTable, outputs: SymbolTable
    ) -> None:
        self._symmetry, self._partition, steps = symmetry, partition, partition.steps
        self._read = inputs.symbol_of[steps.observations[:, 0]]
        self._written = np.append(outputs.symbol_of, NOTHING)[steps.outputs]
        self._scored = steps.outputs != NOTHING
        size = 1 + max(inputs.symbol_of.max(), outputs.symbol_of.max())
        self._shift = np.arange(size + 1)  # the last stands for no symbol
        moved = np.flatnonzero(symmetry.shift != np.arange(len(symmetry.shift)))
        self._shift[moved] = symmetry.shift[moved]

    def stack_symbols(self, memory: int) -> SymbolTable:
        """The stack symbols of a memory."""
        partition, alphabets = self._partition, self._partition.ends.alphabets
        classes, steps = partition.stack_symbols[memory], partition.steps
        if not partition.memory_relevant(memory):
            classes.renumber([EMPTY])
            return SymbolTable((Family(STACK_SYMBOLS.first),))
        pushes = zip(partition.push_memories, steps.pushed.T, strict=True)
        pushed = [numbers for row, numbers in pushes if alphabets[row] == memory]
        reads = zip(partition.read_memories, steps.observations.T[1:-1], strict=True)
        relevant = itertools.compress(reads, partition.relevant[1:])
        read = [numbers for row, numbers in relevant if alphabets[row] == memory]
        evidence = _Evidence(pushed, self._read), self._when_written(read)
        return self._table(classes, STACK_SYMBOLS, evidence)

    def states(self, stack_symbols: Sequence[SymbolTable]) -> SymbolTable:
        """The states of a machine with some stack symbols, those of each memory."""
        partition, steps, evidence = self._partition, self._partition.steps, list[_Evidence]()
        for component in np.flatnonzero(partition.relevant[1:-1]).tolist():
            table = stack_symbols[partition.read_memories[component]]
            classes, numbers = partition.components[1 + component]
            symbols = table.symbol_of[classes.label_of[numbers]]
            evidence.append(_Evidence([steps.next_states], symbols))
        evidence.append(_Evidence([steps.next_states], self._read))
        evidence.append(self._when_written([steps.observations[:, -1]]))
        return self._table(partition.states, STATES, evidence)

    def _when_written(self, columns: Sequence[Ids]) -> _Evidence:
        """The symbols that are written in steps from some states, or with some vectors read."""
        scored = [np.where(self._scored, numbers, NOTHING) for numbers in columns]
        return _Evidence(scored, self._written)

    def _table(self, classes: Classes, names: _Names, evidence: Sequence[_Evidence]) -> SymbolTable:
        """The table as which classes are renumbered, after some merges."""
        by_symbol = self._by_symbol(classes, names, evidence)
        if names is STATES:  # the first stack symbol is that of an empty memory, unlike all others
            by_symbol[NOTHING].append(int(classes.label_of[0]))
        self._partition.merge(classes, _candidate_pairs(by_symbol, not self._symmetry.classes))
        by_symbol = self._by_symbol(classes, names, evidence)
        others, completed = sorted(by_symbol.pop(NOTHING)), self._symmetry.completed
        families, order = [Family(names.first)], list[int | None]([int(classes.label_of[0])])
        for index in range(max(map(len, by_symbol.values()), default=0)):
            members = {
                symbol: labels[index] for symbol, labels in by_symbol.items() if index < len(labels)
            }
            name = f"{names.further}{index + 1}" if index else names.named
            families.append(Family(name, tuple(completed(members))))
            order += map(members.get, completed(members))
        families += [Family(f"{names.other}{number}") for number in range(1, len(others) + 1)]
        classes.renumber([*order, *others])
        return SymbolTable(tuple(families))

    def _by_symbol(
        self, classes: Classes, names: _Names, evidence: Sequence[_Evidence]
    ) -> dict[int, list[int]]:
        """All classes but the first, the largest first, by their symbols, or `NOTHING`.

        The symbol of a class is that of the first evidence that is clear. Classes of symbols that
        stand for others are in the order of their images.
        """
        sizes = np.bincount(classes.label_of)
        labels = {*classes.labels} - {int(classes.label_of[0])}
        images, occurring = classes.class_images(), [each.by_class(classes) for each in evidence]
        by_symbol: dict[int, list[int]] = {NOTHING: []}
        for label in sorted(labels, key=lambda label: (-sizes[label], label)):
            symbols = (self._usual_symbol(each, images, label) for each in occurring)
            symbol = next((symbol for symbol in symbols if symbol != NOTHING), NOTHING)
            by_symbol.setdefault(symbol, []).append(label)
        if len({*by_symbol} - {NOTHING}) < names.least:
            return {NOTHING: [*labels]}
        for ids in self._symmetry.classes:
            for one, other in itertools.pairwise(ids[:REPRESENTATIVES].tolist()):
                ordered = images[by_symbol.get(one, [])].tolist()
                if ordered and {*ordered} == {*by_symbol.get(other, [])}:
                    by_symbol[other] = ordered
        return by_symbol

    def _usual_symbol(self, occurring: Sequence[Ids], images: Ids, label: int) -> int:
        """The symbol that occurs with a class much more often than any other, and than none.

        `NOTHING` if there is none. Where symbols stand for others, what occurs with the image of a
        class is the image of what occurs with the class. So a class that is not its own image has
        no symbol that is its own image.

        Args:
            occurring: the symbols that occur with each class.
            images: [classes] the images of the classes.
            label: the class.
        """
        size, image = len(self._shift), label
        counts, shifted = np.zeros(size, np.int64), np.arange(size)
        fixed = self._shift == shifted
        for _ in range(REPRESENTATIVES if self._symmetry.classes else 1):
            # No symbol is -1, which is counted at the last index.
            counts += np.bincount(occurring[image] % size, minlength=size)[shifted]
            shifted, image = self._shift[shifted], images[image]
            if image == NOTHING:
                break
        if images[label] not in (label, NOTHING):
            counts[:-1][fixed[:-1]] = 0
        usual = int(counts.argmax())
        is_usual = counts[usual] > MOSTLY * np.delete(counts, usual).max(initial=0)
        return usual if is_usual and usual < len(counts) - 1 else NOTHING


def _candidate_pairs(by_symbol: dict[int, list[int]], across: bool) -> Iterator[tuple[int, int]]:
    """Pairs of classes to merge: those of the same symbol, or of none, unless they are many.

    If `across`, also those of different symbols, unless they are many. Representatives would no
    longer be interchangeable then.
    """
    groups = [*by_symbol.values()]
    if across:
        groups.append([*itertools.chain(*groups)])
    for group in groups:
        if len(group) <= MAX_COMPARED:
            yield from itertools.combinations(sorted(group), 2)
