"""Letters: what symbols, outputs and kinds have in common, so that one rule can speak of them all.

A symbol has the letter that it is written as, whether it is read of a source or of an answer, and
so has an output. A kind has the letter of the symbols at which it is pushed, or else of the
outputs that are said when it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stacktrans.extraction.alike import Alike
from stacktrans.extraction.classes import Classes
from stacktrans.extraction.runs import EMPTY, NOTHING
from stacktrans.machines.machine import Machine, Series, Things
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layout import SOURCE, TARGET

MOST_COMPARED = 12
"""How many states or kinds are compared with one another at most."""
MOSTLY = 0.9
"""The share of a kind's steps that have to be of one letter."""


class Named(NamedTuple):
    """A machine whose things have names.

    Attributes:
        machine: itself, without rules.
        kind_numbers: of each memory, the thing that each class of its kinds is.
        state_numbers: the same of states, of which the first is the initial one.
    """

    machine: Machine
    kind_numbers: list[Ids]
    state_numbers: Ids


def named(checkpoint: Checkpoint, alike: Alike) -> Named:
    """The names of all things that were met."""
    task, layout = checkpoint.task, checkpoint.layout
    letters = tuple(dict.fromkeys([*task.source.symbols, *task.target.symbols]))
    number = {letter: index for index, letter in enumerate(letters)}
    source = Series("letter", tuple(number[symbol] for symbol in task.source.symbols))
    target = Series("letter", tuple(number[symbol] for symbol in task.target.symbols))
    ending = [Series("end")] * (layout.outputs > target.size)
    letters_read = {SOURCE: source, TARGET: target._replace(name="written letter")}
    symbols = [letters_read.get(section) or Series(section) for section, _ in layout.sections]
    if checkpoint.config.model.buffers:
        symbols.append(Series("nothing"))
    of_symbols = Things(tuple(symbols))
    outputs = Things((target, *ending))
    if 1 < len(there := alike.states.there) <= MOST_COMPARED:
        alike.merge(alike.states, itertools.combinations(there, 2))  # which nothing tells apart
    kinds: list[Things] = []
    numbers: list[Ids] = []
    for ring, classes in enumerate(alike.kinds):
        if (alphabet := alike.ends.alphabets[ring]) != ring:
            kinds.append(kinds[alphabet])
            numbers.append(numbers[alphabet])
            continue
        if not alike.ring_matters(ring):
            kinds.append(Things((Series("empty"),)))
            numbers.append(np.zeros(classes.count, np.int64))
            continue
        read, said = letters_of(of_symbols), letters_of(outputs)
        alike.merge(classes, _alike(classes, _kind_letters(alike, ring, read, said)))
        things, of_kinds = _series(classes, _kind_letters(alike, ring, read, said))
        kinds.append(things)
        numbers.append(of_kinds)
    first = int(alike.states.of[0])
    order = [first, *(each for each in alike.states.there if each != first)]
    states = Things(tuple(Series(f"q{index}") for index in range(len(order))))
    of_states = np.zeros(alike.states.count, np.int64)
    of_states[order] = np.arange(len(order))
    machine = Machine(
        **checkpoint.machine_facts,
        letters=letters,
        symbols=of_symbols,
        outputs=outputs,
        kinds=tuple(kinds),
        states=states,
        rules=(),
    )
    return Named(machine, numbers, of_states)


def _alike(classes: Classes, letters: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs of kinds that may be one: those with the same letter, and those without, if few."""
    there = [kind for kind in classes.there if kind != EMPTY]
    others = [kind for kind in there if kind not in letters]
    by_letter: dict[int, list[int]] = {}
    for kind in sorted(letters, key=lambda each: -int((classes.of == each).sum())):
        by_letter.setdefault(letters[kind], []).append(kind)
    for same in by_letter.values():
        yield from itertools.combinations(same, 2)
    if len(others) <= MOST_COMPARED:
        yield from itertools.combinations(others, 2)
    if len(there) <= MOST_COMPARED:
        yield from itertools.combinations(there, 2)


def letters_of(things: Things) -> Ids:
    """The letter of each thing; -1 for none."""
    return np.array([NOTHING if letter is None else letter for _, letter in things.each])


def _kind_letters(alike: Alike, ring: int, read: Ids, said: Ids) -> dict[int, int]:
    """The letters of the kinds of a ring that have one, by those of symbols and outputs."""
    steps, classes, alphabets = alike.steps, alike.kinds[ring], alike.ends.alphabets
    pushed, told = [], []
    for place in (at for at, own in enumerate(alike.push_rings) if alphabets[own] == ring):
        numbers = steps.pushed[:, place]
        rows = classes.known(numbers) != NOTHING
        pushed.append(np.column_stack([classes.of[numbers[rows]], read[steps.inputs[rows]]]))
    for place in (at for at, own in enumerate(alike.read_rings) if alphabets[own] == ring):
        if not alike.matters[1 + place]:
            continue
        rows = steps.outputs != NOTHING
        of_place = classes.of[steps.reads[rows, place]]
        told.append(np.column_stack([of_place, said[steps.outputs[rows]]]))
    letters: dict[int, int] = {}
    for votes in (pushed, told):
        table = np.concatenate([np.zeros((0, 2), np.int64), *votes])
        for kind in classes.there:
            own = table[table[:, 0] == kind, 1]
            if kind != EMPTY and kind not in letters and len(own):
                counts = np.bincount(own + 1)
                best = int(counts.argmax())
                if best and counts[best] >= MOSTLY * len(own):
                    letters[kind] = best - 1
    return letters


def _series(classes: Classes, letters: dict[int, int]) -> tuple[Things, Ids]:
    """Series of kinds: of those with the same letter, the one that is met most comes first."""
    sizes = np.bincount(classes.of, minlength=classes.count)
    by_series: list[dict[int, int]] = []
    for kind in sorted(letters, key=lambda each: -sizes[each]):
        letter = letters[kind]
        free = next((own for own in by_series if letter not in own), None)
        if free is None:
            free = {}
            by_series.append(free)
        free[letter] = kind
    series, order = [Series("empty")], [EMPTY]
    for index, own in enumerate(by_series):
        name = "letter" if not index else f"letter {index + 1}"
        series.append(Series(name, tuple(sorted(own))))
        order += [own[letter] for letter in sorted(own)]
    others = [kind for kind in classes.there if kind != EMPTY and kind not in letters]
    series += [Series(f"mark {index}") for index in range(1, len(others) + 1)]
    order += others
    numbers = np.zeros(classes.count, np.int64)
    numbers[order] = np.arange(len(order))
    return Things(tuple(series)), numbers
