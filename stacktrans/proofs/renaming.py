"""Bisimulation of two machines up to names of states, stack symbols and memories' ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import EMPTY, START
from stacktrans.proofs.proof import representatives
from stacktrans.proofs.references import AllStrings, symbol_classes
from stacktrans.tasks.alphabets import NO_OUTPUT
from stacktrans.tasks.layout import Layout

MAX_OBSERVATIONS = 1_000_000
"""The most observations that are compared."""
MAX_CORRESPONDENCES = 5000
"""The most correspondences of memories' ends that are tried: all of them for up to 5 memories."""


def bisimilar(one: Machine, other: Machine) -> bool:
    """Whether machines are known to be bisimilar up to names of states, stack symbols and ends.

    Memories that no rule depends on are left aside. Bisimilar machines do the same at all
    observations, even those that never occur, and so give the same answers (Hopcroft & Karp 1971).
    """
    names = ("source", "target", "words", "buffers", "layout")
    if any(getattr(one, name) != getattr(other, name) for name in names):
        return False
    redundant = {*one.source} - {*distinct_symbols(one, other)}
    left_out = {one.symbols.index(symbol) for symbol in redundant}
    inputs = [at for at, (_, symbol) in enumerate(one.inputs.entries) if symbol not in left_out]
    rows, others = (sorted(each.memories.rows_behind(each.relevant_reads)) for each in (one, other))
    renamed = _Renamed(other, {end: end for row in others for end in (2 * row, 2 * row + 1)})
    return len(rows) == len(others) and any(
        _bisimilar((_Renamed(one, ends), renamed), other.memories.alphabets, inputs)
        for ends in itertools.islice(_correspondences(rows, others), MAX_CORRESPONDENCES)
    )


def is_answered(layout: Layout, symbol: int) -> bool:
    """Whether the output after an input can be part of an answer."""
    is_joint = layout.feeds_back and not layout.consecutive
    return not is_joint or symbol in layout.after or symbol >= (layout.first_target or 0)


def _correspondences(rows: Sequence[int], others: Sequence[int]) -> Iterator[dict[int, int]]:
    """All mappings of the ends of rows to those of other rows; a top may become a bottom."""
    for images in itertools.permutations(others):
        for flips in itertools.product((0, 1), repeat=len(rows)):
            ends = [*zip(rows, images, flips, strict=True)]
            yield {
                2 * row + side: 2 * of + (side ^ flip) for row, of, flip in ends for side in (0, 1)
            }


class _Step(NamedTuple):
    """A step of a machine: what it does, the stack symbols that it pushes, and its next state."""

    done: tuple[Any, ...]
    pushed: list[int]
    next_state: int


class _Renamed:
    """A machine under other names of its memories' ends; memories without a name are left aside.

    Args:
        machine: the machine.
        names: of ends.
    """

    def __init__(self, machine: Machine, names: Mapping[int, int]) -> None:
        self._machine, self._names = machine, names
        positions = machine.relevant_positions
        self.positions = [position and (names[position[0]], position[1]) for position in positions]

    def step(self, symbol: int, state: int, cells: Mapping[Any, int]) -> _Step | None:
        """A step, given an input and the stack symbols that are read; None if no rule applies."""
        machine, names = self._machine, self._names
        read = (cells[position] if position else EMPTY for position in self.positions)
        transition = machine.transition((symbol, *read, state))
        if transition is None:
            return None
        signals, output, pops, pushes, moves, next_state, _ = transition
        renamed = [(names[end], cell) for end, cell in pushes if end in names]
        pushed = sorted(renamed, key=lambda push: push[0])
        buffers = signals[-2:] if machine.buffers else ()
        is_output = is_answered(machine.layout, symbol) and buffers[1:] != (0,)
        done = (
            sorted(names[end] for end in pops if end in names),
            [end for end, _ in pushed],
            [(names[taken], names[put]) for taken, put in moves if put in names],
            buffers,
            output if is_output else NO_OUTPUT,
        )
        return _Step(done, [cell for _, cell in pushed], next_state)


def _bisimilar(
    machines: tuple[_Renamed, _Renamed], alphabets: Sequence[int], inputs: Collection[int]
) -> bool:
    """Whether machines are known to be bisimilar if ends of the same name correspond.

    Args:
        machines: the machines.
        alphabets: the stack alphabets of memories; see `Ends`.
        inputs: those that are compared.
    """
    positions = sorted({*filter(None, [of for machine in machines for of in machine.positions])})
    # The states that occur together, and the stack symbols of each alphabet.
    states, cells = {(START, START)}, {alphabet: {(EMPTY, EMPTY)} for alphabet in alphabets}
    size = 0
    while size < (size := len(states) + sum(map(len, cells.values()))):
        parts: list[Collection[Any]] = [inputs, [*states]]
        parts += ([*cells[alphabets[end // 2]]] for end, _ in positions)
        if math.prod(map(len, parts)) > MAX_OBSERVATIONS:
            return False
        for symbol, *pairs in itertools.product(*parts):
            one, other = (
                machine.step(symbol, state, dict(zip(positions, read, strict=True)))
                for machine, (state, *read) in zip(machines, zip(*pairs, strict=True), strict=True)
            )
            if one is None or other is None or one.done != other.done:
                if one is not other:
                    return False
                continue
            states.add((one.next_state, other.next_state))
            for end, *pair in zip(one.done[1], one.pushed, other.pushed, strict=True):
                cells[alphabets[end // 2]].add((pair[0], pair[1]))
    return True


def distinct_symbols(one: Machine, other: Machine) -> list[str]:
    """Source symbols that represent all: any difference also shows on strings of these alone."""
    return [one.source[number] for number in sorted(representatives(common_classes(one, other)))]


def common_classes(one: Machine, other: Machine) -> Iterator[tuple[int, ...]]:
    """The source symbols, by their numbers, in classes that neither machine distinguishes."""
    strings = AllStrings(len(one.source), one.layout.shortest_source)
    pairs = itertools.product(symbol_classes(one, strings), symbol_classes(other, strings))
    for symbols, others in pairs:
        if common := {*symbols} & {*others}:
            yield tuple(sorted(common))
