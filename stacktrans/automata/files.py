"""Machines in files: JSON, with all things by their numbers, and rules in words beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from stacktrans.automata.machine import CONSTANT, Machine, Rule, Series, Things
from stacktrans.automata.words import sentence
from stacktrans.common.errors import CheckpointError
from stacktrans.common.files import verify_checksum
from stacktrans.common.reading import LONGEST

FORMAT = 1
"""The version of what a file of a machine holds."""


def written(machine: Machine) -> str:
    """A machine as JSON, a rule a line."""
    layout = machine.layout
    held = {
        "format": FORMAT,
        "task": machine.task,
        "source": machine.source,
        "target": machine.target,
        "words": machine.words,
        "layout": {
            each.name: getattr(layout, each.name) for each in fields(layout) if each.compare
        },
        "buffers": machine.buffers and machine.buffers._asdict(),
        "memories": machine.memories._asdict(),
        "inputs": _written_things(machine.inputs),
        "outputs": _written_things(machine.outputs),
        "stack_symbols": [*map(_written_things, machine.stack_symbols)],
        "states": _written_things(machine.states),
    }
    lines = [f" {json.dumps(name)}: {_json(value)}" for name, value in held.items()]
    rules = ",\n".join(f"  {_json(_written_rule(machine, rule))}" for rule in machine.rules)
    return "{\n" + ",\n".join([*lines, f' "rules": [\n{rules}\n ]']) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _written_things(things: Things) -> list[Any]:
    return [
        [each.name, None if each.symbols is None else _ranges(each.symbols)]
        for each in things.series
    ]


def _written_rule(machine: Machine, rule: Rule) -> dict[str, Any]:
    when = [None if own is None else _ranges(sorted(own)) for own in rule.when]
    return {"rule": sentence(machine, rule), **rule._asdict(), "when": when}


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Ranges of numbers that follow one another, both ends included."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def read_machine(path: Path) -> Machine:
    """The machine in a file; raises `CheckpointError` if it is damaged or of another format."""
    verify_checksum(path)
    try:
        held = json.loads(path.read_bytes())
        number = held["format"]
        if type(number) is int and number == FORMAT:
            return _machine(held)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except (ArithmeticError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: not a machine that extract writes") from error
    raise CheckpointError(f"{path}: format {number}; this stacktrans reads format {FORMAT}")


def _machine(held: dict[str, Any]) -> Machine:
    """A machine of what a file holds; raises `ValueError` and the like if it is none."""
    symbols = tuple(dict.fromkeys([*held["source"], *held["target"]]))
    parts = {name: _things(held[name], len(symbols)) for name in ("inputs", "outputs", "states")}
    stack_symbols = tuple(_things(each, len(symbols)) for each in held["stack_symbols"])
    facts = held | parts | {"symbols": symbols, "stack_symbols": stack_symbols, "rules": ()}
    machine: Machine = TypeAdapter(Machine).validate_python(facts)
    _check_sizes(machine)
    sizes = [things.size for things in machine.places]
    machine = replace(machine, rules=tuple(_rules(held["rules"], sizes)))
    for rule in machine.rules:
        _check_rule(machine, rule)
    return machine


def _things(held: list[Any], symbols: int) -> Things:
    series = []
    for name, ranges in held:
        own = None if ranges is None else tuple(_numbers(ranges, symbols))
        _check(own is None or len({*own}) == len(own))
        series.append(Series(str(name), own))
    _check(bool(series))
    return Things(tuple(series))


def _numbers(ranges: list[Any], limit: int) -> Iterable[int]:
    for first, last in ranges:
        _check(0 <= first <= last < limit)
        yield from range(first, last + 1)


def _rules(held: list[Any], sizes: list[int]) -> Iterator[Rule]:
    """Rules, where so many things can stand in each place."""
    rule = TypeAdapter(Rule)
    for each in held:
        signals = each["signals"]  # which are neither true nor 1.0
        _check(all(type(signal) is int and signal in (0, 1) for signal in signals))
        when = [
            None if own is None else frozenset(_numbers(own, size))
            for own, size in zip(each["when"], sizes, strict=True)
        ]
        yield rule.validate_python({key: each[key] for key in Rule._fields} | {"when": when})


def _check(right: bool) -> None:
    if not right:
        raise ValueError("not a machine")


def _check_sizes(machine: Machine) -> None:
    """Raise `ValueError` if parts of a machine do not fit one another.

    What the signals of its memories do has to be what its configuration says, and is compared with
    that where a checkpoint is loaded.
    """
    memories, layout = machine.memories, machine.layout
    _check(len(memories.names) == len(machine.stack_symbols))
    for _, taken, put in memories.moves:
        _check(machine.stack_symbols[taken // 2] == machine.stack_symbols[put // 2])
    _check(machine.inputs.size == layout.inputs + (machine.buffers is not None))
    _check(machine.outputs.size == layout.outputs)
    if machine.buffers:
        _check(min(machine.buffers) >= 0 and max(machine.buffers) <= LONGEST)


def _check_rule(machine: Machine, rule: Rule) -> None:
    """Raise `ValueError` if a rule speaks of what there is not."""
    places, memories = machine.places, machine.memories
    _check(len(rule.signals) == len(memories.signal_names))
    for (signal, _), term in zip(memories.pushes, rule.pushed, strict=True):
        _check(term is not None or not rule.signals[signal])
    for one, other, _ in rule.equal:
        _check(0 <= one < len(places) and 0 <= other < len(places))
    stack_symbols = [machine.stack_symbols[end // 2] for _, end in memories.pushes]
    wanted = [
        (rule.output, machine.outputs),
        *zip(rule.pushed, stack_symbols, strict=True),
        (rule.next_state, machine.states),
    ]
    for term, things in wanted:
        if term is not None:
            number = things.size if term.place == CONSTANT else len(things.series)
            _check(CONSTANT <= term.place < len(places) and 0 <= term.thing < number)
