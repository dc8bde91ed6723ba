"""Machines, deterministic automata with memories: alphabets, rules, transitions, and DOT."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from stacktrans.automata.execution import AutomatonModel, Transition
from stacktrans.automata.rules import CONSTANT, Buffers, Rule, SymbolTable, Term
from stacktrans.automata.wording import RuleDescription, actions, condition, entry_name
from stacktrans.common.ends import Ends
from stacktrans.common.visible import visible
from stacktrans.decoding.decoder import Answer, decode
from stacktrans.tasks.alphabets import NO_OUTPUT
from stacktrans.tasks.layout import Layout

DOT_HEADER = """digraph machine {
  rankdir=LR;
  node [shape=circle, fontname="sans-serif"];
  edge [fontname="sans-serif", fontsize=10];
  start [shape=point];
  start -> 0;"""


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
            conditions = enumerate(zip(self.components, rule.when, strict=True))
            components |= {
                component
                for component, (table, entries) in conditions
                if entries and len(entries) < table.size
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
    def transition(self) -> Callable[[tuple[int, ...]], Transition | None]:
        """The function from observations to transitions, which is None where no rule applies.

        An observation is an entry of each component, `EMPTY` of those that are not relevant.
        """
        return functools.cache(self._first_rule)

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
            rules = (self.rule_descriptions[number - 1] for number in numbers)
            label = "".join(f"{rule.number}  {_escaped(rule.sentence)}\\l" for rule in rules)
            lines.append(f'  {source} -> {target} [label="{label}"];')
        return "\n".join([*lines, "}"]) + "\n"

    def to_python(self) -> str:
        """A Python program that answers lines of text as the machine does."""
        from stacktrans.automata.python_code import python_code  # rarely needed

        return python_code(self)


def _escaped(text: str) -> str:
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')
