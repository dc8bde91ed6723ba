"""Whether a machine goes on with all sequences of a pattern, in a row: by induction, and by trying.

An induction finds counts of a sequence that goes wrong. It is run to see whether it does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from stacktrans.machines.definition import STREAM, Machine
from stacktrans.machines.running import NoRule, Stepper, Tables
from stacktrans.proving.counting import Counted, Induction, Part, Wrong, parts_of
from stacktrans.proving.courses import Unproved
from stacktrans.tasks.layouts import Stream
from stacktrans.tasks.streams import Counting

MOST_TRIED = 2_000
"""The most sequences that are tried to find a shorter one that goes wrong."""
Step = tuple[int, int | None]
"""A symbol, and what is to be said to it; None where nothing is scored."""


class Found(NamedTuple):
    """What came of an induction.

    Attributes:
        counted: what it was made of; None if something goes wrong.
        wrong: the prompt of a sequence that goes wrong by itself.
        row: sequences that follow one another, of which the last goes wrong.
    """

    counted: Counted | None
    wrong: tuple[int, ...] | None = None
    row: tuple[int, ...] | None = None


def fits(machine: Machine, task: Counting) -> bool:
    """Whether a machine has the alphabets and the layout of a pattern."""
    reads, layout = machine.reads, task.layout
    own = reads.kind, reads.first_source, reads.first_target, reads.before, reads.after, reads.end
    return (
        (machine.source, machine.target) == (task.source.symbols, task.target.symbols)
        and isinstance(layout, Stream)
        and own == (STREAM, 0, 0, (), (), layout.end)
        and machine.buffers is None
    )


def prove_pattern(machine: Machine, task: Counting) -> Found:
    """Follow all sequences of a pattern, any number of them in a row, from empty memories on.

    Raises:
        Unproved: it cannot be said whether all are right.
    """
    parts, tables = parts_of(task), Tables(machine)
    try:
        return Found(Induction(machine, parts).go())
    except Wrong as wrong:
        found = wrong
    rows = [sequence(parts, counts) for counts in (*found.before, found.counts)]
    if not goes_wrong(tables, [step for row in rows for step in row]):
        raise Unproved("what sequences leave behind in memories is not known well enough")
    if found.before:
        return Found(None, row=tuple(symbol for row in rows for symbol, _ in row))
    counts = _shortest_wrong(tables, parts, found.counts)
    known = next(index for index, part in enumerate(parts) if part.inner is not None)
    prompt = [symbol for symbol, _ in sequence(parts, counts) if symbol < known]
    return Found(None, (*prompt, known))


def sequence(parts: Sequence[Part], counts: Sequence[int]) -> list[Step]:
    """The symbols of a sequence with some counts."""
    found: list[Step] = []
    for part in parts:
        length = part.length_of(counts)
        found += [*[(part.symbol, part.inner)] * (length - 1), (part.symbol, part.last)]
    return found


def goes_wrong(tables: Tables, row: Sequence[Step]) -> bool:
    """Whether a machine, run as always, says something wrong to symbols in a row."""
    try:
        said = [*Stepper(tables).run(symbol for symbol, _ in row)]
    except NoRule:
        return True
    return any(right not in (None, own) for own, (_, right) in zip(said, row, strict=True))


def _shortest_wrong(
    tables: Tables, parts: Sequence[Part], counts: tuple[int, ...]
) -> tuple[int, ...]:
    """Counts with the least sum that go wrong, if they are found soon; or the given ones."""
    smaller = (
        tuple(end - begin for begin, end in itertools.pairwise((0, *cuts, size)))
        for size in range(len(counts), sum(counts))
        for cuts in itertools.combinations(range(1, size), len(counts) - 1)
    )
    tried = itertools.islice(smaller, MOST_TRIED)
    return next((each for each in tried if goes_wrong(tables, sequence(parts, each))), counts)
