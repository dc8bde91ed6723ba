"""Machines of rules over many strings at once, in compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stacktrans.common.ragged import Ragged, starts_of
from stacktrans.kernels.loading import call, prepare
from stacktrans.kernels.rules import LOST, Rules, Strings, run_rules, work_of
from stacktrans.machines.definition import CONSTANT, Machine, Term, Things
from stacktrans.machines.running import ASKED_NOTHING, Tables
from stacktrans.tasks.alphabets import Ids

MOST_KEYS = 1 << 22
"""With more combinations of what there may be, there is no table of them."""


class RulesRun:
    """A machine that answers many strings.

    Args:
        machine: itself.
        rules: the same in arrays; see `rules_of`.
    """

    def __init__(self, machine: Machine, rules: Rules) -> None:
        self._machine, self._rules = machine, rules

    def said(self, read: Sequence[Ids], limits: Sequence[int] | None = None) -> list[Ids | None]:
        """What is said to each of some strings; None where no rule fits.

        Args:
            read: ids that are given.
            limits: of strings that read what they say, how many symbols may follow the first.
        """
        machine = self._machine
        given = Ragged.of(read)
        lengths = given.lengths
        steps = np.array([machine.steps_over(length) for length in lengths.tolist()])
        room = lengths
        if limits is not None:
            room = np.array(limits) + 1
            steps = steps + limits
        buffers = machine.buffers
        strings = Strings(
            given.values,
            given.starts,
            steps,
            starts_of(room),
            np.zeros(int(room.sum()), np.int64),
            np.zeros(len(read), np.int64),
            machine.reads.first_target if limits is not None else -1,
            machine.nothing,
            int(buffers is not None),
            buffers.output_skip if buffers else 0,
            machine.reads.end if limits is not None else -1,
        )
        prepare(int(steps.sum()), run_rules)
        work = work_of(self._rules, len(machine.kinds), int(steps.max(initial=0)))
        call(run_rules, self._rules, strings, *work)
        found: list[Ids | None] = []
        for first, own, count in zip(strings.room, room, strings.counts.tolist(), strict=False):
            if count == LOST:
                found.append(None)
                continue
            width = own if buffers else count  # what a buffer lacks is 0
            found.append(strings.said[first : first + width])
        return found


def rules_of(machine: Machine) -> Rules | None:
    """The rules of a machine in arrays; None if too much can be there at once."""
    tables = Tables(machine)
    counts = [max(own) + 1 for own in tables.classes] + [2] * len(tables.pairs)
    if np.prod(np.array(counts, np.float64)) > MOST_KEYS:
        return None
    strides = np.cumprod([1, *counts[:0:-1]])[::-1].astype(np.int64)
    widest = max(things.size for things in machine.places)
    adds, letters = np.zeros((2, len(machine.places), widest), np.int64)
    for place, (classes, own) in enumerate(zip(tables.classes, tables.letters, strict=True)):
        adds[place, : len(classes)] = np.array(classes) * strides[place]
        letters[place, : len(own)] = own
    pairs = [
        (*pair, int(strides[len(machine.places) + number]))
        for number, pair in enumerate(tables.pairs)
    ]
    memories, terms = machine.memories, _Terms(tables)
    rules = machine.rules
    nothing = Term(CONSTANT, ASKED_NOTHING)
    pushed = [
        [
            terms.of(term, machine.kinds[end // 2])
            if rule.signals[signal] and term is not None
            else (-1, 0)
            for (signal, end), term in zip(memories.pushes, rule.pushed, strict=True)
        ]
        for rule in rules
    ]
    output = [terms.of(rule.output or nothing, machine.outputs) for rule in rules]
    after = [terms.of(rule.after, machine.states) for rule in rules]
    flags = [rule.signals[-2:] if machine.buffers else (1, 1) for rule in rules]
    popping = [[rule.signals[signal] for signal, _ in memories.pops] for rule in rules]
    moving = [[rule.signals[signal] for signal, *_ in memories.moves] for rule in rules]

    def array(held: object, *shape: int) -> Ids:
        return np.array(held, np.int64).reshape(shape)

    count = len(rules)
    return Rules(
        adds,
        array(pairs, -1, 3),
        letters,
        _table(tables, counts),
        array(terms.all, -1),
        array(output, count, 2),
        array(after, count, 2),
        array([end for _, end in memories.pops], -1),
        array(popping, count, len(memories.pops)),
        array([end for _, end in memories.pushes], -1),
        array(pushed, count, len(memories.pushes), 2),
        array([ends for _, *ends in memories.moves], -1, 2),
        array(moving, count, len(memories.moves)),
        array(memories.places, -1, 2),
        array(flags, count, 2),
    )


class _Terms:
    """Tables of terms, one after the other."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[tuple[Term, int], tuple[int, int]] = {}
        self.all: list[int] = []

    def of(self, term: Term, things: Things) -> tuple[int, int]:
        """A term as a place, from 1, and an offset."""
        key = term, id(things)
        if key not in self._known:
            place, table = self._tables.table(term, things)
            self._known[key] = place, len(self.all)
            self.all += table
        return self._known[key]


def _table(tables: Tables, counts: Sequence[int]) -> Ids:
    """[keys] the first rule for each combination of classes, and of equal letters."""
    machine = tables.machine
    found = np.full(counts, -1, np.int64)
    for number, rule in reversed([*enumerate(machine.rules)]):
        chosen = []
        for own, classes in zip(rule.when, tables.classes, strict=True):
            there = set(classes) if own is None else {classes[thing] for thing in own}
            chosen.append(sorted(there))
        same = {pair[:2]: int(pair[2]) for pair in rule.equal}
        chosen += [[same[pair]] if pair in same else [0, 1] for pair in tables.pairs]
        found[np.ix_(*chosen)] = number
    return found.reshape(-1)
