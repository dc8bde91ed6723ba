"""Rules in words, such as "reading a symbol: push it", and the names of symbols and states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stacktrans.automata.rules import CONSTANT, EMPTY, Rule, SymbolTable, Term
from stacktrans.common.visible import listed, visible_symbol
from stacktrans.tasks.alphabets import UNKNOWN_SYMBOL

if TYPE_CHECKING:
    from stacktrans.automata.machine import Machine

SYMBOL_STATE = "q_x"
"""The name of the first family of states that remember a symbol; its state for a is called q_a. A
second family is q_x'2."""
When = Sequence[frozenset[int] | None]
Equalities = Sequence[tuple[int, int, bool]]
"""The conditions of a rule, as in `Rule.when` and `Rule.equal`."""
MAX_NAMED = 6
"""The most entries that are named one by one."""
_MARKS = {"begin": "<s>", "separator": "|||", "end": "</s>", "blank": "</s>", "nothing": "no input"}
"""Names of inputs and outputs that are no symbols of the task."""


@dataclass(frozen=True)
class RuleDescription:
    """A rule in words, with its number.

    Attributes:
        number: its place in the order in which rules are tried, from 1.
        when: the observations that it applies to.
        action: what it does.
    """

    number: int
    when: str
    action: str

    @property
    def sentence(self) -> str:
        """The rule without its number."""
        return f"{self.when}: {'do nothing' if self.action == 'nothing' else self.action}"

    def __str__(self) -> str:
        return f"rule {self.number}: {self.sentence}"


def entry_name(machine: Machine, table: SymbolTable, number: int) -> str:
    """The name of an entry of a table."""
    family, symbol = table.entries[number]
    name = table.families[family].name
    if symbol is None:
        return _MARKS.get(name, name)
    prefix = "q_" if name.startswith(SYMBOL_STATE) else ""
    return prefix + visible_symbol(machine.symbols[symbol]) + (_suffix(name) or "")


def _suffix(family: str) -> str | None:
    """The suffix of symbols by their family: '2 for "symbol 2"; None for other families."""
    for first in ("symbol", SYMBOL_STATE):
        if family.startswith(first):
            return family.removeprefix(first).replace(" ", "'")
    return None


def _written_name(machine: Machine, table: SymbolTable, number: int) -> str:
    """The name of an entry, unlike that of a source symbol with the same name."""
    family, _ = table.entries[number]
    written = "written " if table.families[family].name == "written symbol" else ""
    return written + entry_name(machine, table, number)


def entry_names(machine: Machine, table: SymbolTable, numbers: Iterable[int]) -> str:
    """Several entries in few words: families by their names, with the entries that they lack."""
    wanted, parts, excepting = set(numbers), list[str](), list[str]()
    if len(wanted) == 1:  # found at once, even in a large alphabet
        (number,) = wanted
        return _written_name(machine, table, number)
    for family, members in zip(table.families, table.members, strict=True):
        there = [number for number in members if number in wanted]
        lacking = [number for number in members if number not in wanted]
        if not there:
            continue
        # The unknown symbol is in no string, so nobody would read "a symbol but 0" as including it.
        shown = [each for each in there if entry_name(machine, table, each) != UNKNOWN_SYMBOL]
        if family.symbols is not None and len(members) > 1 and len(lacking) < len(shown):
            names = [entry_name(machine, table, number) for number in lacking]
            if len(names) > MAX_NAMED:
                parts.append(f"one of {len(there)} {family.name}s")
            elif names:
                excepting.append(f"a {family.name} but {listed(names)}")
            else:
                parts.append(f"a {family.name}")
        else:
            names = [_written_name(machine, table, number) for number in there]
            parts += names if len(names) <= MAX_NAMED else [f"one of {len(names)} {family.name}s"]
    return listed([*parts, *excepting], "or")  # so that nothing follows the exceptions


def _end_name(machine: Machine, end: int) -> str:
    """The name of a memory, with that of its end if both are popped or read."""
    memories = machine.memories
    used, name = {*memories.reads, *(own for _, own in memories.pops)}, memories.names[end // 2]
    return f"{name} {'bottom' if end % 2 else 'top'}" if {end, end ^ 1} <= used else name


def component_names(machine: Machine) -> list[str]:
    """The names of the components of observations."""
    reads = [_cell_name(machine, *position) for position in machine.memories.read_positions]
    return ["symbol", *reads, "state"]


def _cell_name(machine: Machine, end: int, depth: int) -> str:
    """The name of the cell that is read at a depth below an end."""
    name, row = _end_name(machine, end), end // 2
    if not depth:
        return name
    for _, *ends in machine.memories.moves:
        left, right = min(ends) // 2, max(ends) // 2  # the head is the end of the left row
        if row == left:
            return f"{name} {depth} left of its head"
        if row == right:
            return f"{machine.memories.names[left]} {depth + 1} right of its head"
    return f"{name} under {'its top' if depth == 1 else f'{depth} more'}"


def _contents(machine: Machine, table: SymbolTable, entries: frozenset[int]) -> str:
    """What may be read of a memory: "is empty", "has a symbol", "is empty or has a symbol"."""
    stack_symbols, parts = entries - {EMPTY}, ["is empty"] if EMPTY in entries else []
    if stack_symbols:
        every = len(stack_symbols) == table.size - 1
        parts.append(f"has {'anything' if every else entry_names(machine, table, stack_symbols)}")
    return listed(parts, "or")


def _term(machine: Machine, term: Term, table: SymbolTable) -> str:
    if term.component == CONSTANT:
        return entry_name(machine, table, term.entry)
    if term.component == 0:
        same = "it"
    elif term.component == len(machine.components) - 1:
        same = "that of the state"
    elif len(machine.memories.reads) == 1:
        same = "what is read"
    else:
        same = f"that of {component_names(machine)[term.component]}"
    family = table.families[term.entry].name
    suffix = _suffix(family)
    if family.startswith(SYMBOL_STATE):
        return f"{SYMBOL_STATE}{suffix} where x is {same}"
    return same + (f" as {family}" if suffix is None else suffix)


def actions(machine: Machine, rule: Rule) -> str:
    """What a rule does, in order; "nothing" if it does nothing."""
    memories, signals = machine.memories, rule.signals
    pops, pushes, moves = memories.active(signals, rule.pushed)

    def at(end: int, preposition: str) -> str:
        """An end, unless it is that of the only memory."""
        name = _end_name(machine, end)
        return "" if memories.names == (name,) else f"{preposition} {name}"

    parts = [f"pop{at(end, '')}" for end in pops]
    for end, term in pushes:
        pushed = _term(machine, term, machine.stack_symbols[end // 2])
        parts.append(f"push {pushed}{at(end, ' on')}")
    for taken, put in moves:
        name = memories.names[min(taken, put) // 2]
        of_list = "" if len(memories.names) == 2 else f" in {name}"
        parts.append(f"move {'left' if taken < put else 'right'}{of_list}")
    if machine.buffers and signals[-2]:
        parts.append("read on")
    if rule.output is not None and (not machine.buffers or signals[-1]):
        parts.append(f"write {_term(machine, rule.output, machine.outputs)}")
    if not _stays(machine, rule):
        parts.append(f"go to {_term(machine, rule.next_state, machine.states)}")
    return ", ".join(parts) or "nothing"


def _stays(machine: Machine, rule: Rule) -> bool:
    """Whether a rule never changes the state."""
    (component, state), before = rule.next_state, rule.when[-1]
    if component == CONSTANT:
        return machine.states.size == 1 or before == frozenset([state])
    same = component == len(machine.components) - 1
    return same and before is not None and before.issubset(machine.states.members[state])


def state_names(machine: Machine, states: frozenset[int] | None) -> str:
    """States of a rule in words, where None stands for all; of many, the few that are excepted."""
    table = machine.states
    if states is None or len(states) == table.size:
        return "any"

    def names(numbers: Iterable[int]) -> list[str]:
        return [entry_name(machine, table, each) for each in sorted(numbers)]

    others = set(range(table.size)) - states
    if table.size > MAX_NAMED and len(others) < min(len(states), 1 + MAX_NAMED):
        return f"any but {listed(names(others), 'and')}"
    parts, excepting = list[str](), list[str]()
    for family, members in zip(table.families, table.members, strict=True):
        there, lacking = states.intersection(members), others.intersection(members)
        if len(members) == 1 or (lacking and len(there) <= MAX_NAMED):
            parts += names(there)
        elif lacking:
            excepting.append(f"any {family.name} but {listed(names(lacking), 'and')}")
        else:
            parts.append(f"any {family.name}")
    return listed([*parts, *excepting], "or")


def stateless_condition(machine: Machine, when: When, equal: Equalities = ()) -> str:
    """The conditions of a rule in words, except those on the state; "always" if there are none."""
    names, parts = component_names(machine), []
    tables = zip(machine.components[:-1], when[:-1], strict=True)
    for component, (table, entries) in enumerate(tables):
        if entries is not None and component:
            parts.append(f"{names[component]} {_contents(machine, table, entries)}")
        elif entries is not None:
            parts.append(f"reading {entry_names(machine, table, entries)}")
    for one, other, same in equal:
        parts.append(f"{names[one]} and {names[other]} {'agree' if same else 'differ'}")
    return ", ".join(parts) or "always"


def describe_component(machine: Machine, component: int, entry: int) -> str:
    """A component of an observation in words, such as "reading a" or "stack is empty"."""
    when: list[frozenset[int] | None] = [None] * len(machine.components)
    when[component] = frozenset([entry])
    return condition(machine, when)


def condition(machine: Machine, when: When, equal: Equalities = ()) -> str:
    """The conditions of a rule in words, with its states if the machine has several."""
    others = stateless_condition(machine, when, equal)
    if machine.states.size == 1 or when[-1] is None:
        return others
    state = f"in {state_names(machine, when[-1])}"
    return state if others == "always" else f"{state}, {others}"
