"""Machines, deterministic automata with memories: alphabets, rules, transitions, JSON and DOT."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from stacktrans.automata.execution import AutomatonModel, Transition
from stacktrans.automata.rules import (
    CONSTANT,
    Buffers,
    Rule,
    SymbolTable,
    Term,
    check,
    in_ranges,
    ranges,
    reading,
)
from stacktrans.automata.wording import RuleDescription, actions, condition, entry_name
from stacktrans.common.ends import Ends
from stacktrans.common.errors import CheckpointError, shown
from stacktrans.common.files import verify_checksum
from stacktrans.common.reading import MAX_LENGTH
from stacktrans.common.visible import counted, visible
from stacktrans.decoding.decoder import Answer, decode
from stacktrans.tasks.alphabets import NO_OUTPUT
from stacktrans.tasks.layout import Layout

DOT_HEADER = """digraph machine {
  rankdir=LR;
  node [shape=circle, fontname="sans-serif"];
  edge [fontname="sans-serif", fontsize=10];
  start [shape=point];
  start -> 0;"""
FORMAT = 1
"""The version of the format of machines in files."""


@dataclass(frozen=True)
class Machine:
    """A deterministic transducer: a finite control over memories, whose rules are tried in order.

    With one stack it is a pushdown transducer, without memory a finite-state transducer.

    Attributes:
        task: the name of its task.
        source: the symbols of sources.
        target: the symbols of targets.
        words: whether strings of sources, and of targets, are words separated by spaces.
        inputs: the inputs; with buffers, the last is read after the end of the source.
        outputs: the outputs.
        stack_symbols: a table for each memory, whose first entry is read when the memory is empty.
        states: the states; the first is the one before the first step.
        memories: the ends of its memories; each row of cells counts as a memory.
        buffers: its buffers; None if it has none.
        layout: how sources are read, and answers written.
        rules: in each step, the first that applies is carried out.
    """

    task: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    words: tuple[bool, bool]
    inputs: SymbolTable
    outputs: SymbolTable
    stack_symbols: tuple[SymbolTable, ...]
    states: SymbolTable
    memories: Ends
    buffers: Buffers | None
    layout: Layout
    rules: tuple[Rule, ...]

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of sources and targets, without repetition."""
        return tuple(dict.fromkeys((*self.source, *self.target)))

    @functools.cached_property
    def components(self) -> list[SymbolTable]:
        """The tables of the components of observations."""
        read = [self.stack_symbols[end // 2] for end in self.memories.reads]
        return [self.inputs, *read, self.states]

    def check_tables(self) -> None:
        """Raise `ValueError` if alphabets, memories and layout do not fit one another.

        The effects of its signals are compared with the configuration when a checkpoint is loaded.
        """
        memories, tables, layout = self.memories, self.stack_symbols, self.layout
        tables_given = counted(len(tables), "table")
        expected = len(memories.names)
        check(len(tables) == expected, f"stack_symbols: {tables_given}; expected {expected}")
        for _, taken, put in memories.moves:
            same = tables[taken // 2] == tables[put // 2]
            check(same, "stack_symbols: the two sides of a list have different tables")
        sizes = (
            ("inputs", self.inputs, layout.inputs + (self.buffers is not None)),
            ("outputs", self.outputs, layout.outputs),
        )
        for name, table, size in sizes:
            entries = counted(table.size, "entry", "entries")
            check(table.size == size, f"{name}: {entries}; expected {size}")
        for name, number in self.buffers._asdict().items() if self.buffers else ():
            problem = f"buffers.{name}: {number}; expected a number from 0 to {MAX_LENGTH}"
            check(0 <= number <= MAX_LENGTH, problem)

    def check_symbols(self) -> None:
        """Raise `ValueError` if an input or output has another symbol than the alphabets say."""
        for name, table, first, symbols in (
            ("inputs", self.inputs, self.layout.first_source, self.source),
            ("inputs", self.inputs, self.layout.first_target, self.target),
            ("outputs", self.outputs, 0, self.target),
        ):
            entries = () if first is None else table.entries[first : first + len(symbols)]
            for (_, number), symbol in zip(entries, symbols, strict=False):
                same = number is None or self.symbols[number] == symbol
                check(same, f"{name}: the entry of {shown(symbol)} has another symbol")

    def checked(self, rule: Rule) -> Rule:
        """The rule itself; raises `ValueError` if it does not fit the machine."""
        components, memories = len(self.components), self.memories
        names = memories.signal_names
        for name, given, expected in (
            ("signals", rule.signals, len(names)),
            ("pushed", rule.pushed, len(memories.pushes)),
        ):
            items = counted(len(given), "item")
            check(len(given) == expected, f"{name}: {items}; expected {expected}")
        for (signal, _), term in zip(memories.pushes, rule.pushed, strict=True):
            lacking = term is None and rule.signals[signal]
            check(not lacking, f"pushed: null; expected a term, since {names[signal]} is 1")
        for one, other, _ in rule.equal:
            exist = 0 <= one < components and 0 <= other < components
            numbers = f"numbers from 0 to {components - 1}"
            check(exist, f"equal: {one} and {other}; expected {numbers}")
        for term, table in self.terms(rule):
            size = table.size if term.component == CONSTANT else len(table.families)
            exists = CONSTANT <= term.component < components and 0 <= term.entry < size
            check(exists, f"term {[*term]}: there is no such component or entry")
        return rule

    def terms(self, rule: Rule) -> list[tuple[Term, SymbolTable]]:
        """The terms of a rule, each with the table of its entries."""
        pushed = (self.stack_symbols[end // 2] for _, end in self.memories.pushes)
        terms = (rule.output, *rule.pushed, rule.next_state)
        pairs = zip(terms, (self.outputs, *pushed, self.states), strict=True)
        return [(term, table) for term, table in pairs if term is not None]

    @functools.cached_property
    def relevant(self) -> frozenset[int]:
        """The components of observations that some rule depends on."""
        components = set[int]()
        for rule in self.rules:
            components |= {term.component for term, _ in self.terms(rule)}
            components |= {component for *pair, _ in rule.equal for component in pair}
            components |= {
                component
                for component, (table, entries) in enumerate(
                    zip(self.components, rule.when, strict=True)
                )
                if entries is not None and 0 < len(entries) < table.size
            }
        return frozenset(components - {CONSTANT})

    @property
    def relevant_reads(self) -> list[int]:
        """The ends of memories that some rule reads, once for each read."""
        return [end for end, _ in filter(None, self.relevant_positions)]

    @functools.cached_property
    def relevant_positions(self) -> list[tuple[int, int] | None]:
        """The end and the depth of each read; None if no rule depends on it."""
        reads = enumerate(self.memories.read_positions, start=1)
        return [position if component in self.relevant else None for component, position in reads]

    @functools.cached_property
    def _transitions(self) -> dict[tuple[int, ...], Transition | None]:
        return {}

    def transition(self, observation: tuple[int, ...]) -> Transition | None:
        """The transition at an observation; None if no rule applies.

        Args:
            observation: an entry of each component; `EMPTY` of those that are not relevant.
        """
        if observation not in self._transitions:
            self._transitions[observation] = self._first_rule(observation)
        return self._transitions[observation]

    def transitions(self, observations: Sequence[tuple[int, ...]]) -> list[Transition | None]:
        """The transitions at several observations."""
        return [*map(self.transition, observations)]

    def _first_rule(self, observation: tuple[int, ...]) -> Transition | None:
        entries = zip(self.components, observation, strict=True)
        symbols = [table.entries[entry][1] for table, entry in entries]
        numbered = enumerate(self.rules, start=1)
        applying = (pair for pair in numbered if pair[1].applies(observation, symbols))
        number, rule = next(applying, (0, None))
        if rule is None:
            return None

        def value(term: Term, table: SymbolTable) -> int:
            """The number of an entry; -1 if its family has none with the symbol."""
            if term.component == CONSTANT:
                return term.entry
            symbol = symbols[term.component]
            return -1 if symbol is None else table.numbers.get((term.entry, symbol), -1)

        pops, terms, moves = self.memories.active(rule.signals, rule.pushed)
        pushes = tuple((end, value(term, self.stack_symbols[end // 2])) for end, term in terms)
        next_state = value(rule.next_state, self.states)
        if next_state < 0 or any(stack_symbol < 0 for _, stack_symbol in pushes):
            return None
        output = NO_OUTPUT if rule.output is None else value(rule.output, self.outputs)
        return Transition(rule.signals, output, pops, pushes, moves, next_state, number)

    @functools.cached_property
    def rule_descriptions(self) -> list[RuleDescription]:
        """The rules in words, in their order."""
        return [
            RuleDescription(number, condition(self, rule.when, rule.equal), actions(self, rule))
            for number, rule in enumerate(self.rules, start=1)
        ]

    @functools.cached_property
    def stack_symbol_names(self) -> list[list[str]]:
        """The names of the stack symbols of each memory."""
        return [
            [entry_name(self, table, number) for number in range(table.size)]
            for table in self.stack_symbols
        ]

    def describe_observation(self, observation: tuple[int, ...]) -> str:
        """An observation in words, such as "reading a, stack is empty"."""
        when = tuple(
            frozenset([entry]) if component in self.relevant else None
            for component, entry in enumerate(observation)
        )
        return condition(self, when)

    def run(self, source: Sequence[int], limit: int | None = None) -> Answer:
        """The answer to a source or, of a stream, to a prompt.

        Args:
            source: its symbols, by their numbers.
            limit: the most symbols of the answer; None for the layout's.
        """
        ids = np.array(source, np.int64)
        answer: Answer = decode(AutomatonModel(self), self.layout, [ids], limit, log_probs=False)[0]
        return answer

    def edges(self) -> dict[tuple[int, int], list[int]]:
        """The edges of the graph of states, with the rules of each, by their numbers from 1.

        States of a family are one node.
        """
        rules: dict[tuple[int, int], list[int]] = {}
        family_of = self.states.family_of.tolist()
        for number, rule in enumerate(self.rules, start=1):
            states = range(self.states.size) if rule.when[-1] is None else rule.when[-1]
            component, target = rule.next_state
            target = family_of[target] if component == CONSTANT else target
            for source in {family_of[state] for state in states}:
                rules.setdefault((source, target), []).append(number)
        return dict(sorted(rules.items()))

    def to_dot(self) -> str:
        """The graph of states in DOT, for Graphviz, with rules at the edges that they take."""
        lines = [DOT_HEADER]
        for node, family in enumerate(self.states.families):
            lines.append(f'  {node} [label="{_escaped(family.name)}"];')
        for (source, target), numbers in self.edges().items():
            described = ((number, self.rule_descriptions[number - 1]) for number in numbers)
            rules = (f"{number}  {rule.sentence}" for number, rule in described)
            label = "".join(f"{_escaped(rule)}\\l" for rule in rules)
            lines.append(f'  {source} -> {target} [label="{label}"];')
        return "\n".join([*lines, "}"]) + "\n"

    def to_python(self) -> str:
        """A Python program that answers lines of text as the machine does."""
        from stacktrans.automata.python_code import python_code  # rarely needed

        return python_code(self)

    def to_json(self) -> str:
        """The text of machine.json (see docs/machines.md): one rule a line, with its wording."""
        layout = self.layout
        parts = {
            "format": FORMAT,
            "task": self.task,
            "source": self.source,
            "target": self.target,
            "words": self.words,
            "layout": {
                field.name: getattr(layout, field.name) for field in fields(layout) if field.compare
            },
            "buffers": self.buffers and self.buffers._asdict(),
            "memories": self.memories._asdict(),
            "inputs": self.inputs.as_json(),
            "outputs": self.outputs.as_json(),
            "stack_symbols": [table.as_json() for table in self.stack_symbols],
            "states": self.states.as_json(),
        }
        lines = [f" {_json(name)}: {_json(part)}" for name, part in parts.items()]
        rules = []
        for rule, words in zip(self.rules, self.rule_descriptions, strict=True):
            when = [None if own is None else ranges(sorted(own)) for own in rule.when]
            rules.append(_json({"rule": words.sentence, **rule._asdict(), "when": when}))
        of_rules = ",\n  ".join(rules)
        return "{\n" + ",\n".join([*lines, f' "rules": [\n  {of_rules}\n ]']) + "\n}\n"

    @classmethod
    def from_json(cls, parts: dict[str, Any]) -> Machine:
        """The machine that `to_json` gives.

        Raises ArithmeticError, LookupError, RecursionError, TypeError or ValueError if it is
        malformed.
        """
        symbols = len({*parts["source"], *parts["target"]})
        features = len({*parts["source"]}) < len(parts["source"])
        tables = dict[str, Any]()
        for name in ("inputs", "outputs", "states"):
            with reading(name):
                repeated = features and name == "inputs"
                tables[name] = SymbolTable.from_json(parts[name], symbols, repeated)
        with reading("stack_symbols"):
            memories = (SymbolTable.from_json(each, symbols) for each in parts["stack_symbols"])
            tables["stack_symbols"] = tuple(memories)
        adapter: TypeAdapter[Machine] = TypeAdapter(cls)
        machine = adapter.validate_python(parts | tables | {"rules": ()})
        machine.check_tables()
        rules, rule_adapter = list[Rule](), TypeAdapter(Rule)
        for number, rule in enumerate(parts["rules"], start=1):
            with reading(f"rule {number}"):
                read = rule_adapter.validate_python(machine._rule_parts(rule))
                rules.append(machine.checked(read))
        return replace(machine, rules=tuple(rules))

    def _rule_parts(self, parts: dict[str, Any]) -> dict[str, Any]:
        """The fields of a rule in a file."""
        signals, when = parts["signals"], parts["when"]
        for signal in signals:  # which is neither true nor 1.0
            valid = type(signal) is int and signal in (0, 1)
            check(valid, f"signals: {shown(signal)}; expected 0 or 1")
        items, expected = counted(len(when), "item"), len(self.components)
        check(len(when) == expected, f"when: {items}; expected {expected}")
        with reading("when"):
            entries = [
                None if own is None else frozenset(in_ranges(own, table.size))
                for own, table in zip(when, self.components, strict=True)
            ]
        return {name: parts[name] for name in Rule._fields} | {"when": entries}


def _escaped(text: str) -> str:
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_machine(path: Path) -> Machine:
    """The machine in a file; raises `CheckpointError` if it is damaged or of another format."""
    verify_checksum(path)
    try:
        with reading(f"{path}: not a machine"):
            parts = json.loads(path.read_bytes())
            number = parts["format"]
            if type(number) is int and number == FORMAT:
                return Machine.from_json(parts)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    raise CheckpointError(f"{path}: format {number}; this stacktrans reads format {FORMAT}")
