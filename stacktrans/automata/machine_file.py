"""Machines in files, machine.json: how they are written, read and checked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Buffers, Family, Rule, SymbolTable, ranges
from stacktrans.common.ends import Ends
from stacktrans.common.errors import CheckpointError, first_problem, shown
from stacktrans.common.files import verify_checksum
from stacktrans.common.reading import MAX_LENGTH, parse_json
from stacktrans.common.visible import counted, listed
from stacktrans.tasks.layout import Layout

FORMAT = 1
"""The version of the format."""
MAX_ENTRIES = 1_000_000
"""The most entries of a table."""
_KEYS = {
    "layout": tuple(field.name for field in fields(Layout) if field.compare),
    "buffers": Buffers._fields,
    "memories": Ends._fields,
}
"""The keys of the parts that are objects; `buffers` may be null."""


def machine_json(machine: Machine) -> str:
    """The text of machine.json (see docs/machines.md): one rule a line, with its wording."""
    layout = machine.layout
    parts = {
        "format": FORMAT,
        "task": machine.task,
        "source": machine.source,
        "target": machine.target,
        "words": machine.words,
        "layout": {name: getattr(layout, name) for name in _KEYS["layout"]},
        "buffers": machine.buffers and machine.buffers._asdict(),
        "memories": machine.memories._asdict(),
        "inputs": _families(machine.inputs),
        "outputs": _families(machine.outputs),
        "stack_symbols": [*map(_families, machine.stack_symbols)],
        "states": _families(machine.states),
    }
    lines = [f" {_json(name)}: {_json(part)}" for name, part in parts.items()]
    rules = []
    for rule, words in zip(machine.rules, machine.rule_descriptions, strict=True):
        when = [None if own is None else ranges(sorted(own)) for own in rule.when]
        rules.append(_json({"rule": words.sentence, **rule._asdict(), "when": when}))
    of_rules = ",\n  ".join(rules)
    return "{\n" + ",\n".join([*lines, f' "rules": [\n  {of_rules}\n ]']) + "\n}\n"


def _families(table: SymbolTable) -> list[Any]:
    """The name of each family of a table, with ranges of symbols."""
    return [
        [name, None if symbols is None else ranges(symbols)] for name, symbols in table.families
    ]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_machine(path: Path) -> Machine:
    """The machine in a file; raises `CheckpointError` if it is damaged or of another format."""
    verify_checksum(path)
    try:
        with _reading(f"{path}: not a machine"):
            parts = parse_json(path.read_bytes())
            number = parts["format"]
            if type(number) is int and number == FORMAT:
                return machine_from_json(parts)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    raise CheckpointError(f"{path}: format {shown(number)}; this stacktrans reads format {FORMAT}")


def machine_from_json(parts: dict[str, Any]) -> Machine:
    """The machine of which `machine_json` is the text, from the parsed text.

    Raises ArithmeticError, LookupError, RecursionError, TypeError or ValueError if it is malformed.
    """
    _check_keys(parts, ("format", *(field.name for field in fields(Machine))))
    for name, keys in _KEYS.items():
        with _reading(name):
            _check_keys(keys if parts[name] is None else parts[name], keys)
    symbols = len({*parts["source"], *parts["target"]})
    features = len({*parts["source"]}) < len(parts["source"])
    tables = dict[str, Any]()
    for name in ("inputs", "outputs", "states"):
        with _reading(name):
            tables[name] = _table_of(parts[name], symbols, features and name == "inputs")
    with _reading("stack_symbols"):
        tables["stack_symbols"] = tuple(_table_of(each, symbols) for each in parts["stack_symbols"])
    machine = TypeAdapter(Machine).validate_python(parts | tables | {"rules": ()})
    _check_tables(machine)
    rules, adapter = list[Rule](), TypeAdapter(Rule)
    for number, rule in enumerate(parts["rules"], start=1):
        with _reading(f"rule {number}"):
            rules.append(adapter.validate_python(_rule_parts(machine, rule)))
            _check_rule(machine, rules[-1])
    return replace(machine, rules=tuple(rules))


def _table_of(families: list[Any], symbols: int, repeated: bool = False) -> SymbolTable:
    """The table of some families; the same symbol may be `repeated` as the name of a feature."""
    read = []
    spans = [span for _, members in families for span in members or ()]
    entries = sum(1 + last - first for first, last in spans)
    _check(entries <= MAX_ENTRIES, f"{entries} entries; expected at most {MAX_ENTRIES}")
    for name, members in families:
        numbers = None if members is None else tuple(_in_ranges(members, symbols))
        distinct = repeated or numbers is None or len({*numbers}) == len(numbers)
        _check(distinct, f"{shown(name)} has a symbol twice")
        read.append(Family(str(name), numbers))
    table = SymbolTable(tuple(read))
    _check(table.size > 0, "no entries; expected at least one")
    return table


def _rule_parts(machine: Machine, parts: dict[str, Any]) -> dict[str, Any]:
    """The fields of a rule."""
    _check_keys({*parts} - {"rule"}, Rule._fields)
    signals, when = parts["signals"], parts["when"]
    for signal in signals:  # which is neither true nor 1.0
        valid = type(signal) is int and signal in (0, 1)
        _check(valid, f"signals: {shown(signal)}; expected 0 or 1")
    _check_size("when", len(when), len(machine.components))
    with _reading("when"):
        entries = [
            None if own is None else frozenset(_in_ranges(own, table.size))
            for own, table in zip(when, machine.components, strict=True)
        ]
    return {name: parts[name] for name in Rule._fields} | {"when": entries}


def _in_ranges(ranges: list[Any], limit: int) -> Iterator[int]:
    """The numbers in ranges, all of them below a limit."""
    for first, last in ranges:
        expected = f"expected two numbers from 0 to {limit - 1}, the smaller first"
        _check(0 <= first <= last < limit, f"[{shown(first)}, {shown(last)}]; {expected}")
        yield from range(first, last + 1)


def _check_tables(machine: Machine) -> None:
    """Raise `ValueError` if alphabets, memories and layout do not fit one another.

    The effects of signals are compared with the configuration when a checkpoint is loaded.
    """
    memories, tables, layout = machine.memories, machine.stack_symbols, machine.layout
    _check_size("stack_symbols", len(tables), len(memories.names))
    for _, taken, put in memories.moves:
        same = tables[taken // 2] == tables[put // 2]
        _check(same, "stack_symbols: the two sides of a list have different tables")
    _check_size("inputs", machine.inputs.size, layout.inputs + (machine.buffers is not None))
    _check_size("outputs", machine.outputs.size, layout.outputs)
    for name, number in machine.buffers._asdict().items() if machine.buffers else ():
        problem = f"buffers.{name}: {number}; expected a number from 0 to {MAX_LENGTH}"
        _check(0 <= number <= MAX_LENGTH, problem)


def _check_rule(machine: Machine, rule: Rule) -> None:
    """Raise `ValueError` if a rule does not fit its machine."""
    components, memories = len(machine.components), machine.memories
    _check_size("signals", len(rule.signals), len(memories.signal_names))
    _check_size("pushed", len(rule.pushed), len(memories.pushes))
    for (signal, _), term in zip(memories.pushes, rule.pushed, strict=True):
        lacking, name = term is None and rule.signals[signal], memories.signal_names[signal]
        _check(not lacking, f"pushed: null; expected a term, since {name} is 1")
    for one, other, _ in rule.equal:
        exist = 0 <= one < components and 0 <= other < components
        expected = f"expected numbers from 0 to {components - 1}"
        _check(exist, f"equal: {one} and {other}; {expected}")
    for term, table in machine.terms(rule):
        size = table.size if term.component == CONSTANT else len(table.families)
        exists = CONSTANT <= term.component < components and 0 <= term.entry < size
        _check(exists, f"term {[*term]}: there is no such component or entry")


def check_symbols(machine: Machine) -> None:
    """Raise `ValueError` if an input or output has another symbol than the alphabets say."""
    layout = machine.layout
    for name, table, first, symbols in (
        ("inputs", machine.inputs, layout.first_source, machine.source),
        ("inputs", machine.inputs, layout.first_target, machine.target),
        ("outputs", machine.outputs, 0, machine.target),
    ):
        entries = () if first is None else table.entries[first : first + len(symbols)]
        for (_, number), symbol in zip(entries, symbols, strict=False):
            same = number is None or machine.symbols[number] == symbol
            _check(same, f"{name}: the entry of {shown(symbol)} has another symbol")


def _check_keys(found: Collection[str], expected: Sequence[str]) -> None:
    """Raise `ValueError` if the keys of an object are not the expected ones."""
    for key in expected:
        _check(key in found, f"the key {key!r} is missing")
    for key in found:
        _check(key in expected, f"unknown key {shown(key)}; expected {listed(expected, 'or')}")


def _check_size(name: str, size: int, expected: int) -> None:
    items = counted(size, "entry", "entries")
    _check(size == expected, f"{name}: {items}; expected {expected}")


def _check(valid: bool, problem: str) -> None:
    """Raise `ValueError` with a problem unless a part of a machine is valid."""
    if not valid:
        raise ValueError(problem)


@contextlib.contextmanager
def _reading(part: str) -> Iterator[None]:
    """Name a part of a machine in the `ValueError` that is raised if it is malformed."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"{part}: {first_problem(error)}") from error
    except KeyError as error:
        raise ValueError(f"{part}: {error} is missing") from error
    except ValueError as error:
        raise ValueError(f"{part}: {error}") from error
    except (ArithmeticError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"{part}: malformed ({error})") from error
