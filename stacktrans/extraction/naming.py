"""The naming of classes: the states and stack symbols of a machine that has no rules yet.

Inputs, outputs and stack symbols are named after symbols of the task, so that one rule can cover
all of them. An input has the symbol that it is written as, whether it is read of a source or of an
answer, and so has an output. A stack symbol has the symbol of the inputs at which it is pushed, or
else of the outputs that are written when it is read. Where some symbols stand for others, it is the
other way round if this gives more symbols a stack symbol.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import EMPTY, Family, SymbolTable
from stacktrans.extraction.network import NOTHING
from stacktrans.extraction.partition import Partition
from stacktrans.extraction.symmetry import Symmetry
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layout import SOURCE, TARGET

MAX_COMPARED = 12
"""The most states or stack symbols that are compared with one another."""
MOSTLY, MOSTLY_WRITTEN = 2, 1.5
"""A stack symbol is named after a symbol that occurs more than this many times as often as any
other; the second number is for what is written if some symbols stand for others."""


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
    if 1 < len(labels := partition.states.labels) <= MAX_COMPARED:
        partition.merge(partition.states, itertools.combinations(labels, 2))
    alphabets = partition.ends.alphabets
    named = {
        memory: _stack_symbols(symmetry, partition, memory, inputs, outputs)
        for memory in dict.fromkeys(alphabets)
    }
    first = int(partition.states.label_of[0])
    order = [first, *(label for label in partition.states.labels if label != first)]
    partition.states.renumber(order)
    return Machine(
        **checkpoint.machine_attributes,
        inputs=inputs,
        outputs=outputs,
        stack_symbols=tuple(named[memory] for memory in alphabets),
        states=SymbolTable(tuple(Family(f"q{number}") for number in range(len(order)))),
        rules=(),
    )


def _stack_symbols(
    symmetry: Symmetry, partition: Partition, memory: int, inputs: SymbolTable, outputs: SymbolTable
) -> SymbolTable:
    """The stack symbols of a memory, as which its classes are renumbered after some merges."""
    classes = partition.stack_symbols[memory]
    families, order = [Family("empty")], list[int | None]([EMPTY])
    if not partition.memory_relevant(memory):
        classes.renumber(order)
        return SymbolTable(tuple(families))
    by_symbol = _classes_by_symbol(symmetry, partition, memory, inputs, outputs)
    partition.merge(classes, _candidate_pairs(by_symbol, across=not symmetry.classes))
    by_symbol = _classes_by_symbol(symmetry, partition, memory, inputs, outputs)
    marks = sorted(by_symbol.pop(NOTHING))
    for index in range(max(map(len, by_symbol.values()), default=0)):
        members = {
            symbol: labels[index] for symbol, labels in by_symbol.items() if index < len(labels)
        }
        name = f"symbol {index + 1}" if index else "symbol"
        families.append(Family(name, tuple(symmetry.completed(members))))
        order += map(members.get, symmetry.completed(members))
    families += [Family(f"mark {number}") for number in range(1, len(marks) + 1)]
    classes.renumber([*order, *marks])
    return SymbolTable(tuple(families))


def _candidate_pairs(by_symbol: dict[int, list[int]], across: bool) -> Iterator[tuple[int, int]]:
    """Pairs of classes to merge: those of the same symbol, and those of none, if few.

    If `across`, also those of different symbols, unless they are many. Representatives would no
    longer be interchangeable then.
    """
    groups = [sorted(by_symbol[NOTHING])]
    if across:
        groups.append(sorted(itertools.chain(*by_symbol.values())))
    few = [group for group in groups if len(group) <= MAX_COMPARED]
    of_symbols = (labels for symbol, labels in by_symbol.items() if symbol != NOTHING)
    for group in (*of_symbols, *few):
        yield from itertools.combinations(group, 2)


def _classes_by_symbol(
    symmetry: Symmetry, partition: Partition, memory: int, inputs: SymbolTable, outputs: SymbolTable
) -> dict[int, list[int]]:
    """The classes of the vectors in a memory, the largest first, by their symbols, or `NOTHING`.

    The docstring of this module says which symbol a class has.
    """
    steps, alphabets = partition.steps, partition.ends.alphabets
    symbols_of_inputs = inputs.symbol_of[steps.observations[:, 0]]
    symbols_of_outputs = np.append(outputs.symbol_of, NOTHING)[steps.outputs]
    classes = partition.stack_symbols[memory]
    pushes = zip(partition.push_memories, steps.pushed.T, strict=True)
    pushed = [classes.of_known(numbers) for each, numbers in pushes if alphabets[each] == memory]
    reads = zip(partition.read_memories, steps.observations.T[1:-1], strict=True)
    read = [
        np.where(steps.outputs == NOTHING, NOTHING, classes.label_of[numbers])
        for component, (each, numbers) in enumerate(reads, start=1)
        if partition.relevant[component] and alphabets[each] == memory
    ]
    sizes = np.bincount(classes.label_of)
    labels = sorted({*classes.labels} - {EMPTY}, key=lambda label: (-sizes[label], label))
    of_pushes, of_reads = (pushed, symbols_of_inputs), (read, symbols_of_outputs)
    by_symbol = _named(labels, (of_pushes, of_reads), MOSTLY)
    if not symmetry.classes:
        return by_symbol
    is_symbol = symbols_of_outputs != NOTHING
    written = [np.where(is_symbol, column, NOTHING) for column in read]
    others = _named(labels, ((written, symbols_of_outputs), of_pushes), MOSTLY_WRITTEN)
    return max(by_symbol, others, key=len)


def _named(
    labels: Sequence[int], evidence: Sequence[tuple[Sequence[Ids], Ids]], mostly: float
) -> dict[int, list[int]]:
    """Labels by the symbol that the first evidence that is clear shows them to have.

    Args:
        labels: of classes.
        evidence: columns [N] of labels, and [N] the symbols of their steps.
        mostly: see `MOSTLY`.
    """
    by_symbol: dict[int, list[int]] = {NOTHING: []}
    for label in labels:
        symbols = (_usual_symbol(*each, label, mostly) for each in evidence)
        symbol = next((symbol for symbol in symbols if symbol != NOTHING), NOTHING)
        by_symbol.setdefault(symbol, []).append(label)
    return by_symbol


def _usual_symbol(columns: Sequence[Ids], symbols: Ids, label: int, mostly: float) -> int:
    """The symbol of the steps in which columns have a label; `NOTHING` if none is usual there."""
    counts = np.zeros(2 + symbols.max(), np.int64)
    for column in columns:
        counts += np.bincount(1 + symbols[column == label], minlength=len(counts))
    usual = int(counts.argmax())
    is_usual = counts[usual] > mostly * np.delete(counts, usual).max(initial=0)
    return usual - 1 if is_usual else NOTHING
