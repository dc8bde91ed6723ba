"""Machines as tables, and as graphs in DOT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stacktrans.common.visible import visible
from stacktrans.common.wording import counted
from stacktrans.machines.definition import CONSTANT, Machine, Rule
from stacktrans.machines.words import actions, conditions, situation, starts, thing
from stacktrans.showing.tables import Column, Table

if TYPE_CHECKING:
    from stacktrans.extraction.extracting import Extracted


def machine_line(machine: Machine) -> str:
    """A machine in a line: its task, states, memories with their kinds, and rules."""
    memories = ", ".join(
        f"{name} of {counted(things.size - 1, 'kind')}"
        for name, things in zip(machine.memories.names, machine.kinds, strict=True)
        if things.size > 1
    )
    states = counted(machine.states.size, "state")
    with_memories = f", {memories}" if memories else ""
    rules = counted(len(machine.rules), "rule")
    backwards = ", backwards" if machine.reads.backwards else ""
    return f"{machine.task}: {states}{with_memories}, {rules}{backwards}"


def rules_table(machine: Machine) -> Table:
    """The rules, numbered, in words."""
    several = machine.states.size > 1
    table = Table(
        "rule",
        *([Column("state", left=True, fold=" or ")] if several else []),
        Column("when", left=True, fold=", "),
        Column("what is done", left=True, fold=", "),
    )
    for number, rule in enumerate(machine.rules, start=1):
        state = [starts(machine, rule)] if several else []
        table.add_row(str(number), *state, when(machine, rule), done(machine, rule))
    return table


def when(machine: Machine, rule: Rule) -> str:
    """When a rule holds, in words, but for the state."""
    return ", ".join(conditions(machine, rule)) or "always"


def done(machine: Machine, rule: Rule) -> str:
    """What a rule does, in words."""
    return ", ".join(actions(machine, rule)) or "nothing"


def agreement_table(extracted: Extracted) -> Table:
    """How far machine and network agree, by strings."""
    table = Table(Column("strings", left=True), "number", "same answer")
    for each in extracted.agreement:
        table.add_row(each.what, str(each.strings), f"{each.agreeing}")
    return table


class Edge(NamedTuple):
    """Rules that lead from one state to another, by their numbers from 1."""

    start: int
    end: int
    rules: list[int]


def edges(machine: Machine) -> list[Edge]:
    """The ways from state to state."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, rule in enumerate(machine.rules, start=1):
        starts = rule.when[-1]
        for start in range(machine.states.size) if starts is None else sorted(starts):
            for end in _ends(machine, rule, start):
                found.setdefault((start, end), []).append(number)
    return [Edge(*pair, numbers) for pair, numbers in sorted(found.items())]


def _ends(machine: Machine, rule: Rule, start: int) -> Sequence[int]:
    """The states that a rule leads to."""
    if rule.after.place == CONSTANT:
        return [rule.after.thing]
    return range(machine.states.size)


def dot(machine: Machine) -> str:
    """A machine as a graph for Graphviz: rules at the edges that they take."""
    lines = ["digraph machine {", "  rankdir=LR;", '  node [shape=circle, fontname="sans-serif"];']
    lines.append('  edge [fontname="sans-serif", fontsize=10];')
    lines += ["  start [shape=point];", "  start -> 0;"]
    for state in range(machine.states.size):
        lines.append(f"  {state} [label={_quoted(thing(machine, machine.states, state))}];")
    for edge in edges(machine):
        label = "".join(f"{_rule_line(machine, number)}\\l" for number in edge.rules)
        lines.append(f'  {edge.start} -> {edge.end} [label="{label}"];')
    return "\n".join([*lines, "}"]) + "\n"


def _rule_line(machine: Machine, number: int) -> str:
    rule = machine.rules[number - 1]
    return _escaped(f"{number}  {situation(machine, rule)}: {done(machine, rule)}")


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


def numbered_rules(machine: Machine) -> Iterator[tuple[int, str, str]]:
    """The number of each rule from 1, when it holds, and what it does."""
    for number, rule in enumerate(machine.rules, start=1):
        yield number, situation(machine, rule), done(machine, rule)
