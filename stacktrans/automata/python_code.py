"""Machines as stand-alone Python programs: rules in words, tables, and an interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from stacktrans.automata.rules import CONSTANT, Rule, SymbolTable, Term
from stacktrans.automata.wording import component_names
from stacktrans.common.errors import StacktransError
from stacktrans.common.visible import visible
from stacktrans.tasks.alphabets import UNKNOWN_SYMBOL
from stacktrans.tasks.layout import LONGEST_PRODUCT, Layout

if TYPE_CHECKING:
    from stacktrans.automata.machine import Machine

_INTERPRETER = "interpreter.txt"
"""The parts of a program, each after a line with its name, with `$` before what varies."""


def python_code(machine: Machine) -> str:
    """A Python program that answers lines of text as a machine does.

    Raises:
        StacktransError: sources have features, for which there is no program.
    """
    if len({*machine.source}) < len(machine.source):
        raise StacktransError(f"{machine.task}: a program can't read sources with features")
    layout, memories = machine.layout, machine.memories
    reads = zip(_parts(machine)[1:-1], memories.read_positions, strict=True)
    each, further = layout.padding
    padding = f"\n    inputs += [INPUT[{layout.blank}]] * ({each - 1} * len(source) + {further})"
    cells = zip(memories.names, machine.stack_symbols, strict=True)
    words = [visible(f"{rule.number}. {rule.sentence}") for rule in machine.rule_descriptions]
    table = zip(words, (_rule(machine, rule) for rule in machine.rules), strict=True)
    substitutes = vars(layout) | (machine.buffers._asdict() if machine.buffers else {})
    substitutes |= {
        "task": visible(machine.task),
        "rules": "\n".join(f"# {line}" for line in words),
        "source": (_text(machine, machine.source), machine.words[0]),
        "target": (_text(machine, machine.target), machine.words[1]),
        "unknown": repr(UNKNOWN_SYMBOL) if UNKNOWN_SYMBOL in machine.source else None,
        "inputs": _table(machine, machine.inputs),
        "outputs": _table(machine, machine.outputs),
        "cells": {name: _table(machine, table) for name, table in cells},
        "states": _table(machine, machine.states),
        "ends": (-1 if layout.end is None else layout.end, layout.last),
        "reads": {
            name: (memories.names[end // 2], _index(end, depth))
            for number, (name, (end, depth)) in enumerate(reads, start=1)
            if number in machine.relevant
        },
        "table": "\n".join(f"    # {line}\n    {rule}," for line, rule in table),
        "order": "[::-1]" if layout.backwards else "",
        "padding": "" if layout.blank is None else padding,
        "limit": _limit(layout),
        "labels": layout.labels,
    }
    kind = "buffers" if machine.buffers else "following" if layout.feeds_back else "synchronous"
    text = files(__package__).joinpath(_INTERPRETER).read_text("utf-8")
    parts = dict(part.split("\n", 1) for part in text.split("%% ")[1:])
    chosen = parts["tables"] + parts[kind] + parts["main"]
    return Template(chosen).substitute(substitutes)


def _rule(machine: Machine, rule: Rule) -> dict[str, Any]:
    """A rule as the interpreter reads it."""
    memories, signals, names = machine.memories, rule.signals, _parts(machine)

    def at(end: int) -> tuple[str, int]:
        return memories.names[end // 2], _index(end, 0)

    def as_data(term: Term, table: SymbolTable) -> tuple[str | None, Any]:
        if term.component == CONSTANT:
            return None, _value(machine, table, term.entry)
        return names[term.component], _family_names(table)[term.entry]

    when = {}
    for name, table, entries in zip(names, machine.components, rule.when, strict=True):
        if entries is not None and len(entries) < table.size:
            every, own = _table(machine, table), _by_family(machine, table, sorted(entries))
            # The interpreter may lack the component; a condition that never holds fits any.
            when[name if own else names[0]] = {
                family: None if symbols == every[family] else symbols
                for family, symbols in own.items()
            }
    pops, pushes, moves = memories.active(signals, rule.pushed)
    data = {
        "equal": [(names[one], names[other], same) for one, other, same in rule.equal],
        "pop": [at(end) for end in pops],
        "push": [
            (*at(end), as_data(term, machine.stack_symbols[end // 2])) for end, term in pushes
        ],
        "move": [(*at(taken), *at(put)) for taken, put in moves],
        "read on": bool(machine.buffers and signals[-2]),
    }
    data = {"when": when, **{key: value for key, value in data.items() if value}}
    if signals[-1] if machine.buffers else rule.output is not None:
        data["write"] = rule.output and as_data(rule.output, machine.outputs)
    if machine.states.size > 1 or rule.next_state.component != CONSTANT:
        data["next"] = as_data(rule.next_state, machine.states)
    return data


def _parts(machine: Machine) -> list[str]:
    """The names of the components of observations."""
    return ["input", *component_names(machine)[1:]]


def _index(end: int, depth: int) -> int:
    """The index, in a list, of the cell at a depth below an end, from 0."""
    return depth if end % 2 else -1 - depth


def _family_names(table: SymbolTable) -> list[str]:
    """Distinct names of the families of a table, numbered if a name occurs several times."""
    names = [name for name, _ in table.families]
    counts, numbered = Counter(names), [f"{name} ({n})" for n, name in enumerate(names)]
    where_needed = [numbered[n] if counts[name] > 1 else name for n, name in enumerate(names)]
    return where_needed if len({*where_needed}) == len(names) else numbered


def _value(machine: Machine, table: SymbolTable, number: int) -> tuple[str, str | None]:
    family, symbol = table.entries[number]
    return _family_names(table)[family], None if symbol is None else machine.symbols[symbol]


def _by_family(machine: Machine, table: SymbolTable, numbers: Iterable[int]) -> dict[str, Any]:
    """The symbols of some entries by their families; None for a family without symbols."""
    names, found = _family_names(table), dict[str, list[Any]]()
    for family, symbol in map(table.entries.__getitem__, numbers):
        name = None if symbol is None else machine.symbols[symbol]
        found.setdefault(names[family], []).append(name)
    return {name: None if None in own else _text(machine, own) for name, own in found.items()}


def _table(machine: Machine, table: SymbolTable) -> dict[str, Any]:
    return _by_family(machine, table, range(table.size))


def _text(machine: Machine, symbols: Sequence[str]) -> str | list[str]:
    """Symbols in a string if all symbols of a machine are characters, or else in a list."""
    return [*symbols] if max(map(len, machine.symbols)) > 1 else "".join(symbols)


def _limit(layout: Layout) -> str:
    """`Layout.limit` as an expression."""
    length = "len(source)"
    if layout.consecutive and not layout.ends_answers:
        return f"max(0, {length} - 1)"
    if layout.consecutive:
        return f"min({length} ** 2, max(4 * {length}, {LONGEST_PRODUCT})) + 20"
    each, further = layout.bound()
    return f"2 * (max(1, {each} * {length} + {further}) - 1) + 20"
