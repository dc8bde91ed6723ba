"""Which letters a machine treats alike, so that two of them stand for all.

A machine that only moves letters answers a source in which letters are replaced with its answer in
which they are replaced, even if several become one. Where its answer is wrong it says x instead of
y; then it is wrong, too, if y is replaced by one of two letters and all others that are treated
alike with it by the other. So the strings over two letters of each class stand for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stacktrans.machines.definition import CONSTANT, EMPTY, Machine, Things
from stacktrans.proving.references import Reference

STANDING = 2
"""How many letters of a class stand for all of it."""


def classes_of(machine: Machine, reference: Reference) -> list[tuple[int, ...]]:
    """The symbols of sources, by their numbers, in classes that machine and task treat alike."""
    fixed, known = {*_fixed(machine)}, {}
    found: dict[object, list[int]] = {}
    for number in range(len(machine.source)):
        group = next((each for each in reference.alike if number in each), None)
        letter = _letter(machine, number)
        if group is None or letter is None or letter in fixed:
            found[number,] = [number]
            continue
        if letter not in known:
            known[letter] = _treatment(machine, letter)
        found.setdefault((group, _roles(machine, number), known[letter]), []).append(number)
    return [tuple(each) for each in found.values()]


def _all_things(machine: Machine) -> list[Things]:
    return [machine.symbols, machine.outputs, machine.states, *machine.kinds]


def _letter(machine: Machine, number: int) -> int | None:
    """The letter of a symbol, if all that stands for the symbol has it."""
    symbol = machine.source[number]
    if number >= len(machine.target) or machine.target[number] != symbol:
        return None
    letter = machine.letters.index(symbol)
    things = [machine.symbols.each[each] for each in _read_as(machine, number)] + [
        machine.outputs.each[number]
    ]
    return letter if all(own == letter for _, own in things) else None


def _read_as(machine: Machine, number: int) -> Iterator[int]:
    """The numbers of what is read for a symbol of a source, and of an answer."""
    yield machine.reads.first_source + number
    if machine.reads.first_target >= 0:
        yield machine.reads.first_target + number


def _roles(machine: Machine, number: int) -> tuple[int, ...]:
    """The series of what stands for a symbol."""
    read = (machine.symbols.each[each][0] for each in _read_as(machine, number))
    return (*read, machine.outputs.each[number][0])


def _fixed(machine: Machine) -> Iterator[int | None]:
    """The letters of things that are always the same, and of rules that compare letters: all."""
    reads, rules = machine.reads, machine.rules
    always = [(machine.symbols, each) for each in (*reads.before, *reads.after)]
    if machine.buffers:
        always += [(machine.symbols, machine.nothing), (machine.outputs, 0)]
    always += [(things, EMPTY) for things in machine.kinds]
    always.append((machine.states, machine.start))
    for rule in rules:
        kinds = [machine.kinds[end // 2] for _, end in machine.memories.pushes]
        terms = [(machine.outputs, rule.output), (machine.states, rule.after)]
        terms += zip(kinds, rule.pushed, strict=True)
        always += [
            (things, term.thing)
            for things, term in terms
            if term is not None and term.place == CONSTANT
        ]
    yield from (things.each[number][1] for things, number in always)
    if any(rule.equal for rule in rules):
        yield from range(len(machine.letters))


def _treatment(machine: Machine, letter: int) -> tuple[object, ...]:
    """What tells letters apart: the series that have them, and the rules that hold for them."""
    numbers = [[*_of_letter(things, letter)] for things in _all_things(machine)]
    places = [[*_of_letter(things, letter)] for things in machine.places]
    rules = [
        tuple(series for series, number in there if own is None or number in own)
        for rule in machine.rules
        for own, there in zip(rule.when, places, strict=True)
    ]
    return tuple(tuple(series for series, _ in each) for each in numbers), tuple(rules)


def _of_letter(things: Things, letter: int) -> Iterable[tuple[int, int]]:
    """The series in which a letter is, and its number there."""
    for number, (series, own) in enumerate(things.each):
        if own == letter:
            yield series, number
