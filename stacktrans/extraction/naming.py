"""The naming of classes: the states and stack symbols of a machine that has no rules yet.

Inputs, outputs and stack symbols are named after symbols of the task, so that one rule can cover
all of them. An input has the symbol that it is written as, whether it is read of a source or of an
answer, and so has an output. A stack symbol has the symbol of the inputs at which it is pushed, or
else of the outputs that are written when it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import Family, SymbolTable
from stacktrans.extraction.network import EMPTY, NOTHING
from stacktrans.extraction.partition import Classes, Partition
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layout import SOURCE, TARGET

MOST_COMPARED = 12
"""The most states or stack symbols that are compared with one another."""
MOSTLY = 2
"""A stack symbol is named after a symbol that occurs this many times as often as any other."""


class Naming(NamedTuple):
    """A machine without rules, and the stack symbol or state of each class.

    Attributes:
        machine: the machine, without rules.
        stack_symbols: of each memory, the stack symbol of each class of its vectors.
        states: the state of each class of states; the first is the initial one.
    """

    machine: Machine
    stack_symbols: list[Ids]
    states: Ids


def name_classes(checkpoint: Checkpoint, partition: Partition) -> Naming:
    """Name all classes, merging those that nothing distinguishes."""
    task, layout = checkpoint.task, checkpoint.layout
    symbols = tuple(dict.fromkeys([*task.source.symbols, *task.target.symbols]))
    index = {symbol: number for number, symbol in enumerate(symbols)}
    source = Family("symbol", tuple(index[symbol] for symbol in task.source.symbols))
    target = Family("symbol", tuple(index[symbol] for symbol in task.target.symbols))
    read = {SOURCE: source, TARGET: target._replace(name="written symbol")}
    families = [read.get(section) or Family(section) for section, _ in layout.sections]
    families += [Family("nothing")] * bool(checkpoint.config.model.buffers)
    inputs = SymbolTable(tuple(families))
    outputs = SymbolTable((target, *[Family("end")] * (layout.outputs > len(task.target))))
    if 1 < len(labels := partition.states.labels) <= MOST_COMPARED:
        partition.merge(partition.states, itertools.combinations(labels, 2))
    tables: list[SymbolTable] = []
    numbers: list[Ids] = []
    for memory, classes in enumerate(partition.stack_symbols):
        if (alphabet := partition.ends.alphabets[memory]) != memory:
            table, of_classes = tables[alphabet], numbers[alphabet]
        elif partition.memory_relevant(memory):
            known = _symbols_of_classes(partition, memory, inputs, outputs)
            partition.merge(classes, _candidate_pairs(classes, known))
            known = _symbols_of_classes(partition, memory, inputs, outputs)
            table, of_classes = _stack_symbols(classes, known)
        else:
            table, of_classes = SymbolTable((Family("empty"),)), np.zeros(classes.count, np.int64)
        tables.append(table)
        numbers.append(of_classes)
    first = int(partition.states.of[0])
    order = [first, *(label for label in partition.states.labels if label != first)]
    of_states = np.zeros(partition.states.count, np.int64)
    of_states[order] = np.arange(len(order))
    machine = Machine(
        **checkpoint.machine_attributes,
        symbols=symbols,
        inputs=inputs,
        outputs=outputs,
        stack_symbols=tuple(tables),
        states=SymbolTable(tuple(Family(f"q{number}") for number in range(len(order)))),
        rules=(),
    )
    return Naming(machine, numbers, of_states)


def _candidate_pairs(classes: Classes, symbols: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs of classes to merge: those of the same symbol, and all, or those of none, if few."""
    labels = [label for label in classes.labels if label != EMPTY]
    others = [label for label in labels if label not in symbols]
    by_symbol: dict[int, list[int]] = {}
    for label in sorted(symbols, key=lambda label: -int((classes.of == label).sum())):
        by_symbol.setdefault(symbols[label], []).append(label)
    few = [group for group in (others, labels) if len(group) <= MOST_COMPARED]
    for group in (*by_symbol.values(), *few):
        yield from itertools.combinations(group, 2)


def entry_symbols(table: SymbolTable) -> Ids:
    """The symbol of each entry; -1 for none."""
    return np.array([NOTHING if symbol is None else symbol for _, symbol in table.entries])


def entry_families(table: SymbolTable) -> Ids:
    """The family of each entry."""
    return np.array([family for family, _ in table.entries])


def _symbols_of_classes(
    partition: Partition, memory: int, inputs: SymbolTable, outputs: SymbolTable
) -> dict[int, int]:
    """The symbols of classes of vectors, by inputs at which they are pushed, or else by outputs."""
    steps, classes = partition.steps, partition.stack_symbols[memory]
    alphabets = partition.ends.alphabets
    none = np.zeros((0, 2), np.int64)
    pushed, read = [none], [none]
    for numbers, pushed_on in zip(steps.pushed.T, partition.push_memories, strict=True):
        if alphabets[pushed_on] == memory:
            rows = classes.of_known(numbers) != NOTHING
            symbols = entry_symbols(inputs)[steps.inputs[rows]]
            pushed.append(np.column_stack([classes.of[numbers[rows]], symbols]))
    rows = steps.outputs != NOTHING
    for end, (numbers, read_of) in enumerate(
        zip(steps.reads.T, partition.read_memories, strict=True)
    ):
        if alphabets[read_of] == memory and partition.relevant[1 + end]:
            symbols = entry_symbols(outputs)[steps.outputs[rows]]
            read.append(np.column_stack([classes.of[numbers[rows]], symbols]))
    chosen: dict[int, int] = {}
    for votes in (np.concatenate(pushed), np.concatenate(read)):
        for label in classes.labels:
            symbols = votes[votes[:, 0] == label, 1]
            if label != EMPTY and label not in chosen and len(symbols):
                counts = np.bincount(symbols + 1)
                best = int(counts.argmax())
                if best and counts[best] > MOSTLY * np.delete(counts, best).max():
                    chosen[label] = best - 1
    return chosen


def _stack_symbols(classes: Classes, symbols: dict[int, int]) -> tuple[SymbolTable, Ids]:
    """Families of stack symbols, the most frequent of a symbol first, and those of classes."""
    sizes = np.bincount(classes.of, minlength=classes.count)
    members: list[dict[int, int]] = []
    for label in sorted(symbols, key=lambda label: -sizes[label]):
        symbol = symbols[label]
        if all(symbol in family for family in members):
            members.append({})
        next(family for family in members if symbol not in family)[symbol] = label
    families, order = [Family("empty")], [EMPTY]
    for number, family in enumerate(members, start=1):
        name = "symbol" if number == 1 else f"symbol {number}"
        families.append(Family(name, tuple(sorted(family))))
        order += [family[symbol] for symbol in sorted(family)]
    marks = [label for label in classes.labels if label != EMPTY and label not in symbols]
    families += [Family(f"mark {number}") for number in range(1, len(marks) + 1)]
    order += marks
    numbers = np.zeros(classes.count, np.int64)
    numbers[order] = np.arange(len(order))
    return SymbolTable(tuple(families)), numbers
