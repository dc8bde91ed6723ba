"""Deterministic automata with memories: runs, minimization, JSON, DOT, and batches of strings."""

from __future__ import annotations

import functools
import itertools
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from pydantic import TypeAdapter

from stacktrans.automata.rules import (
    CONSTANT,
    EMPTY,
    START,
    Buffers,
    Rule,
    Signature,
    SymbolTable,
    Term,
    check,
    in_ranges,
    ranges,
)
from stacktrans.automata.wording import WordedRule, actions, condition, entry_name, sentence
from stacktrans.common.ends import Ends
from stacktrans.common.errors import CheckpointError
from stacktrans.common.files import verify_checksum
from stacktrans.common.visible import visible
from stacktrans.decoding.decoder import Answer, decode
from stacktrans.decoding.model import Numbers, SoftInput
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import Layout

NO_OUTPUT = -1
"""The output where a machine has learned none, since no output is scored there."""
NO_RULE = -2
"""The output where no rule applies, and after it."""
UNLIKELY = -1e9
"""The logit of outputs that a machine does not write."""
DOT_HEADER = """digraph machine {
  rankdir=LR;
  node [shape=circle, fontname="sans-serif"];
  edge [fontname="sans-serif", fontsize=10];
  start [shape=point];
  start -> 0;"""
FORMAT = 1
"""The version of the format of machines in files."""


class Transition(NamedTuple):
    """A transition of a machine: memory operations, output and next state.

    Attributes:
        signals: those of the rule that applies.
        output: `NO_OUTPUT` where it has learned none.
        pops: the ends from which a cell is popped, in this order.
        pushes: after that, the ends to which a cell is pushed, each with its stack symbol.
        moves: after that, the ends from which a cell is taken, each with the end it is put on.
        next_state: the state after it.
        rule: the number of the rule that applies, from 1; 0 before the first step.
    """

    signals: tuple[int, ...]
    output: int
    pops: tuple[int, ...]
    pushes: tuple[tuple[int, int], ...]
    moves: tuple[tuple[int, int], ...]
    next_state: int
    rule: int = 0

    @classmethod
    def of(
        cls,
        memories: Ends,
        signals: tuple[int, ...],
        output: int,
        pushes: tuple[tuple[int, int], ...],
        next_state: int,
        rule: int = 0,
    ) -> Transition:
        """The transition with the pops and moves of some signals; see its attributes."""
        pops = tuple(end for signal, end in memories.pops if signals[signal])
        moves = tuple((taken, put) for signal, taken, put in memories.moves if signals[signal])
        return cls(signals, output, pops, pushes, moves, next_state, rule)

    def apply(self, contents: Sequence[Any], mark: int | None = None) -> None:
        """Change the contents of memories, `Row`s or the like; pushes can push a mark instead."""
        for end in self.pops:
            contents[end // 2].take(end % 2)
        for end, stack_symbol in self.pushes:
            contents[end // 2].put(end % 2, stack_symbol if mark is None else mark)
        for taken, put in self.moves:
            contents[put // 2].put(put % 2, contents[taken // 2].take(taken % 2))


class Automaton(Protocol):
    """An automaton with memories that runs step by step: a machine, or a quantized network.

    Its members are those of `Machine`.
    """

    @property
    def memories(self) -> Ends: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def buffers(self) -> Buffers | None: ...

    @property
    def relevant_positions(self) -> Sequence[tuple[int, int] | None]: ...

    def transition(self, observation: tuple[int, ...]) -> Transition | None: ...


@dataclass(frozen=True)
class Machine(Signature):
    """A deterministic transducer: a finite control over memories, whose rules are tried in order.

    With one stack it is a pushdown transducer, without memory a finite-state transducer.

    Attributes:
        rules: the first that applies is carried out.
    """

    rules: tuple[Rule, ...]

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

        memories, signals = self.memories, rule.signals
        pushes = tuple(
            (end, value(term, self.stack_symbols[end // 2]))
            for (signal, end), term in zip(memories.pushes, rule.pushed, strict=True)
            if signals[signal] and term is not None
        )
        next_state = value(rule.next_state, self.states)
        if next_state < 0 or any(stack_symbol < 0 for _, stack_symbol in pushes):
            return None
        output = NO_OUTPUT if rule.output is None else value(rule.output, self.outputs)
        return Transition.of(memories, signals, output, pushes, next_state, number)

    @functools.cached_property
    def worded_rules(self) -> list[WordedRule]:
        """The rules in words, in their order."""
        return [
            WordedRule(number, condition(self, rule), actions(self, rule))
            for number, rule in enumerate(self.rules, start=1)
        ]

    @functools.cached_property
    def stack_symbol_names(self) -> list[list[str]]:
        """The names of the stack symbols of each memory."""
        return [
            [entry_name(self, table, number) for number in range(table.size)]
            for table in self.stack_symbols
        ]

    def worded_observation(self, observation: tuple[int, ...]) -> str:
        """An observation in words, such as "reading a, stack is empty"."""
        when = tuple(
            frozenset([entry]) if component in self.relevant else None
            for component, entry in enumerate(observation)
        )
        return condition(self, Rule(when, (), (), None, (), Term(CONSTANT, START)))

    def run(self, source: Sequence[int], limit: int | None = None) -> Answer:
        """The answer to a source; not of streams, which are predicted symbol by symbol.

        Args:
            source: its symbols, by their numbers.
            limit: the most symbols of the answer; None for the layout's.
        """
        ids = np.array(source, np.int64)
        answer: Answer = decode(Runner(self), self.layout, [ids], limit, log_probs=False)[0]
        return answer

    def edges(self) -> dict[tuple[int, int], list[int]]:
        """The edges of the graph of states, with the rules of each, by their numbers from 1."""
        rules: dict[tuple[int, int], list[int]] = {}
        states = range(self.states.size)
        for number, rule in enumerate(self.rules, start=1):
            sources = states if rule.when[-1] is None else sorted(rule.when[-1])
            component, state = rule.next_state
            targets = [state] if component == CONSTANT else states
            for pair in itertools.product(sources, targets):
                rules.setdefault(pair, []).append(number)
        return dict(sorted(rules.items()))

    def minimize(self) -> Machine:
        """Merge states in which the same rules lead to equivalent states (Moore 1956).

        States that cannot be reached are dropped. Rules are compared as they are written, so that
        states may remain whose rules differ but do the same; states with symbols are left alone.
        """
        symbols = {family.symbols for family in self.states.families}
        components = {rule.next_state.component for rule in self.rules}
        if symbols != {None} or components - {CONSTANT}:
            return self
        reachable, edges = {START}, self.edges()
        for _ in range(self.states.size):
            reachable |= {target for source, target in edges if source in reachable}
        refined = dict.fromkeys(sorted(reachable), 0)
        blocks: dict[int, int] = {}
        while refined != blocks:
            blocks, known = refined, dict[Any, int]()
            behaviours = {state: self._rules_in(state, blocks) for state in blocks}
            refined = {
                state: known.setdefault((blocks[state], *behaviour), len(known))
                for state, behaviour in behaviours.items()
            }
        firsts = {block: state for state, block in reversed(blocks.items())}
        families = tuple(self.states.families[firsts[block]] for block in sorted(firsts))
        rules = list[Rule]()
        for rule in self.rules:
            states = rule.when[-1]
            sources = states and frozenset(
                block for block, first in firsts.items() if first in states
            )
            if sources is None or sources:
                rules.append(_between_blocks(rule, (sources,), blocks))
        return replace(self, states=SymbolTable(families), rules=tuple(rules))

    def _rules_in(self, state: int, blocks: Mapping[int, int]) -> list[Rule]:
        """The rules that apply in a state, as they lead to blocks of states."""
        rules = (rule for rule in self.rules if rule.when[-1] is None or state in rule.when[-1])
        return [_between_blocks(rule, (), blocks) for rule in rules]

    def to_dot(self) -> str:
        """The graph of states in DOT, for Graphviz, with rules at the edges that they take."""
        lines = [DOT_HEADER]
        for state in range(self.states.size):
            lines.append(f'  {state} [label="{_escaped(entry_name(self, self.states, state))}"];')
        for (source, target), numbers in self.edges().items():
            rules = (f"{number}  {sentence(self, self.rules[number - 1])}" for number in numbers)
            label = "".join(f"{_escaped(rule)}\\l" for rule in rules)
            lines.append(f'  {source} -> {target} [label="{label}"];')
        return "\n".join([*lines, "}"]) + "\n"

    def to_python(self) -> str:
        """A Python program that answers lines of text as the machine does."""
        from stacktrans.automata.python_code import python_code  # rarely needed

        return python_code(self, self.rules, self.relevant)

    def to_json(self) -> str:
        """A machine as JSON, all things by their numbers, with a line and a sentence for a rule."""
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
        for rule in self.rules:
            when = [None if own is None else ranges(sorted(own)) for own in rule.when]
            rules.append(_json({"rule": sentence(self, rule), **rule._asdict(), "when": when}))
        of_rules = ",\n  ".join(rules)
        return "{\n" + ",\n".join([*lines, f' "rules": [\n  {of_rules}\n ]']) + "\n}\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Machine:
        """The machine of `to_json`; raises `ValueError`, `TypeError` and the like if it is none."""
        parts = json.loads(text)
        check(type(parts["format"]) is int and parts["format"] == FORMAT)
        symbols = tuple(dict.fromkeys([*parts["source"], *parts["target"]]))
        tables = {
            name: SymbolTable.from_json(parts[name], len(symbols))
            for name in ("inputs", "outputs", "states")
        }
        memories = tuple(
            SymbolTable.from_json(each, len(symbols)) for each in parts["stack_symbols"]
        )
        parts |= tables | {"symbols": symbols, "stack_symbols": memories}
        rules, parts["rules"] = parts["rules"], ()
        machine: Machine = TypeAdapter(cls).validate_python(parts)
        machine.check_tables()
        sizes = [table.size for table in machine.components]
        return replace(
            machine, rules=tuple(machine.checked(_read_rule(rule, sizes)) for rule in rules)
        )


def _read_rule(parts: dict[str, Any], sizes: list[int]) -> Rule:
    """A rule over components of some sizes."""
    signals = parts["signals"]  # which are neither true nor 1.0
    check(all(type(signal) is int and signal in (0, 1) for signal in signals))
    when = [
        None if own is None else frozenset(in_ranges(own, size))
        for own, size in zip(parts["when"], sizes, strict=True)
    ]
    rule: Rule = TypeAdapter(Rule).validate_python(
        {name: parts[name] for name in Rule._fields} | {"when": when}
    )
    return rule


def _between_blocks(
    rule: Rule, sources: tuple[frozenset[int] | None, ...], blocks: Mapping[int, int]
) -> Rule:
    """A rule that applies in some blocks of states, if given, and leads to a block."""
    target = Term(CONSTANT, blocks[rule.next_state.entry])
    return rule._replace(when=(*rule.when[:-1], *sources), next_state=target)


def _escaped(text: str) -> str:
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_machine(path: Path) -> Machine:
    """The machine in a file; raises `CheckpointError` if it is damaged or of another format."""
    verify_checksum(path)
    try:
        text = path.read_bytes()
        number = json.loads(text)["format"]
        if type(number) is int and number == FORMAT:
            return Machine.from_json(text)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except (ArithmeticError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: not a machine that extract writes") from error
    raise CheckpointError(f"{path}: format {number}; this stacktrans reads format {FORMAT}")


class Row(deque[int]):
    """The contents of a memory as stack symbols, bottom first; its sides are `TOP` and `BOTTOM`."""

    def peek(self, side: int, depth: int) -> int:
        """The stack symbol so deep under a side, from 0; `EMPTY` if there is none."""
        return self[depth if side else -1 - depth] if len(self) > depth else EMPTY

    def take(self, side: int) -> int:
        """Remove and return the stack symbol at a side; `EMPTY` if there is none."""
        if not self:
            return EMPTY
        return self.popleft() if side else self.pop()

    def put(self, side: int, stack_symbol: int) -> None:
        """Add a stack symbol at a side."""
        self.appendleft(stack_symbol) if side else self.append(stack_symbol)


class Configuration:
    """A configuration of a machine, its state and the contents of its memories, step by step.

    Args:
        machine: the machine.
        contents: of each memory, a `Row` or the like; None for empty ones.
        state: the state that it begins in.

    Attributes:
        contents: of each memory.
        state: the state after the last step.
        last: the last transition.
        observation: that of the last step.
        stuck: whether no rule applied in some step; from then on none does.
    """

    def __init__(
        self, machine: Automaton, contents: Sequence[Any] | None = None, state: int = START
    ) -> None:
        self._machine, self.state, self.stuck = machine, state, False
        self.contents: Sequence[Any] = (
            [Row() for _ in machine.memories.names] if contents is None else contents
        )
        self.last = Transition((), NO_OUTPUT, (), (), (), state)
        self.observation: tuple[int, ...] = ()
        self._reads = machine.relevant_positions

    def copy(self) -> Configuration:
        """A copy, which can be advanced independently."""
        other = Configuration(self._machine, [*map(Row, self.contents)], self.state)
        other.last, other.observation, other.stuck = self.last, self.observation, self.stuck
        return other

    def peek(self, end: int, depth: int) -> int:
        """The stack symbol so deep under an end, from 0; `EMPTY` if there is none."""
        stack_symbol: int = self.contents[end // 2].peek(end % 2, depth)
        return stack_symbol

    def step(self, symbol: int) -> int:
        """The output for an input; `NO_OUTPUT` if there is none, `NO_RULE` if no rule applies."""
        return self.follow(self._machine.transition(self.observe(symbol)))

    def observe(self, symbol: int) -> tuple[int, ...]:
        """All that the step at an input depends on; `EMPTY` for reads that are not relevant."""
        read = [self.peek(*position) if position else EMPTY for position in self._reads]
        self.observation = symbol, *read, self.state
        return self.observation

    def follow(self, transition: Transition | None) -> int:
        """Make a step, and return its output; `NO_RULE` without a transition, and from then on."""
        if self.stuck or transition is None:
            self.stuck = True
            return NO_RULE
        transition.apply(self.contents)
        self.last, self.state = transition, transition.next_state
        return transition.output


@dataclass
class Configurations:
    """The configurations of a machine over B strings.

    Attributes:
        of: each string's.
        signals: [B, signals] of the last step; NaN where no rule applied.
        origins: the contents of each memory of the first string, as the steps that pushed them, if
            the steps were recorded; see `MachineModel`.
        steps: the number of recorded steps.
    """

    of: list[Configuration]
    signals: Numbers
    origins: list[Row]
    steps: int = 0


class Runner:
    """A machine as a model for the decoder, which gives each output the probability 1.

    Args:
        machine: the machine.
    """

    machine: Automaton
    failure: ClassVar[str] = "the machine has no rule for what it reads here"
    certain: ClassVar[bool] = True
    threads = 1

    def __init__(self, machine: Automaton) -> None:
        self.machine, self.buffers = machine, machine.buffers

    def start(self, batch: int, steps: int = 0) -> Configurations:
        """See `Model.start`."""
        signals = np.zeros((batch, len(self.machine.memories.signal_names)))
        configurations = [Configuration(self.machine) for _ in range(batch)]
        return Configurations(configurations, signals, [Row() for _ in self.machine.memories.names])

    def transitions(self, observations: Sequence[tuple[int, ...]]) -> list[Transition | None]:
        """The transitions of several strings."""
        return [*map(self.machine.transition, observations)]

    def advance(
        self, state: Configurations, ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        """See `Model.advance`; logits are NaN if no rule applies, -inf where there is no output."""
        if isinstance(ids, SoftInput):
            no_input = self.machine.layout.inputs  # the id after the last
            ids = np.where(ids.ids < 0, no_input, ids.ids)[:, None]
        outputs = np.empty(ids.shape, np.int64)
        for column, symbols in enumerate(ids.T.tolist()):
            transitions = self.transitions([*map(Configuration.observe, state.of, symbols)])
            outputs[:, column] = [*map(Configuration.follow, state.of, transitions)]
        for item, configuration in enumerate(state.of):
            state.signals[item] = np.nan if configuration.stuck else configuration.last.signals
        chosen = outputs.ravel() if requested is None else outputs[requested]
        logits = np.full((len(chosen), self.machine.layout.outputs), UNLIKELY)
        logits[np.arange(len(chosen)), np.maximum(chosen, 0)] = 0
        logits[chosen == NO_OUTPUT] = -np.inf
        logits[chosen == NO_RULE] = np.nan
        return logits

    def select(self, state: Configurations, items: Ids) -> Configurations:
        """See `Model.select`."""
        configurations = [state.of[item].copy() for item in items.tolist()]
        return Configurations(configurations, state.signals[items], state.origins)
