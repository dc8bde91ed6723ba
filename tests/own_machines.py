"""Machines of few rules, written by hand, mutants of them, and what they answer to all strings."""

import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from stacktrans.automata.execution import AutomatonModel
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Buffers, Family, Rule, SymbolTable, Term
from stacktrans.common.ends import Ends
from stacktrans.decoding.decoder import Answer, decode
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.layout import Layout

SYMBOL, TOP, STATE = 0, 1, 2
"""The places of machines with one memory."""
ONE = SymbolTable((Family("state 1"),))
SAME = Term(CONSTANT, 0)
STACK = Ends(("stack",), ((0, 0),), ((1, 0),), (0,), ("pop", "push"))
QUEUE = Ends(("queue",), ((0, 1),), ((1, 0),), (1,), ("pop", "push"))


def when(*places: Sequence[int] | None) -> tuple[frozenset[int] | None, ...]:
    return tuple(None if each is None else frozenset(each) for each in places)


def rule(
    places: tuple[frozenset[int] | None, ...],
    signals: tuple[int, ...],
    output: Term | None = None,
    pushed: tuple[Term | None, ...] = (None,),
    after: Term = SAME,
) -> Rule:
    return Rule(places, (), signals, output, pushed, after)


def rearranging(task: Task, memories: Ends) -> Machine:
    """Pushes symbols, and pops them after the separator: reverses with a stack."""
    size = len(task.source)
    series = Family("symbol", tuple(range(size)))
    source, after, full = (
        range(2, 2 + size),
        [1, *range(2 + size, 2 + 2 * size)],
        range(1, 1 + size),
    )
    return Machine(
        "own", task.source.symbols, task.target.symbols, (False, False),
        SymbolTable((Family("begin"), Family("separator"), series, series)),
        SymbolTable((series, Family("end"))), (SymbolTable((Family("empty"), series)),), ONE,
        memories,
        None, Layout.joint(size, size),
        (
            rule(when([0], None, None), (0, 0)),
            rule(when(source, None, None), (0, 1), None, (Term(SYMBOL, 1),)),
            rule(when(after, full, None), (1, 0), Term(TOP, 0)),
            rule(when(after, [0], None), (0, 0), Term(CONSTANT, size)),
        ),
    )  # fmt: skip


def peeking(task: Task) -> Machine:
    """Reverses with a stack: except for the first, each output is the symbol under the top."""
    machine, size = rearranging(task, STACK), len(task.source)
    memories = Ends(("stack",), ((0, 0),), ((1, 0),), (0, 0), ("pop", "push"), (0, 1))
    source, target, full = (range(2, 2 + size), range(2 + size, 2 + 2 * size), range(1, 1 + size))
    return replace(
        machine, memories=memories,
        rules=(
            rule(when([0], None, None, None), (0, 0)),
            rule(when(source, None, None, None), (0, 1), None, (Term(SYMBOL, 1),)),
            rule(when([1], full, None, None), (0, 0), Term(TOP, 0)),
            rule(when(target, None, full, None), (1, 0), Term(2, 0)),
            rule(when([1, *target], None, None, None), (1, 0), Term(CONSTANT, size)),
        ),
    )  # fmt: skip


def turned(task: Task) -> Machine:
    """Copies with a deque: pushes at its bottom and pops at its top."""
    machine, size = rearranging(task, QUEUE), len(task.source)
    memories = Ends(
        ("deque",), ((0, 0), (1, 1)), ((2, 0), (3, 1)), (0, 1), ("pop", "pop bottom", "push", "low")
    )  # fmt: skip
    source, after, full = (
        range(2, 2 + size),
        [1, *range(2 + size, 2 + 2 * size)],
        range(1, 1 + size),
    )
    return replace(
        machine, memories=memories,
        rules=(
            rule(when([0], None, None, None), (0, 0, 0, 0), None, (None, None)),
            rule(
                when(source, None, None, None), (0, 0, 0, 1), None, (None, Term(SYMBOL, 1))
            ),
            rule(when(after, full, None, None), (1, 0, 0, 0), Term(TOP, 0), (None, None)),
            rule(when(after, None, [0], None), (0, 0, 0, 0), Term(CONSTANT, size), (None, None)),
        ),
    )  # fmt: skip


def marking(task: Task) -> Machine:
    """Copies with a queue, and pushes a mark whenever it does not push a symbol."""
    machine, size = rearranging(task, QUEUE), len(task.source)
    mark = size + 1
    series = Family("symbol", tuple(range(size)))
    source, after, full = (
        range(2, 2 + size),
        [1, *range(2 + size, 2 + 2 * size)],
        range(1, 1 + size),
    )
    marked = (Term(CONSTANT, mark),)
    return replace(
        machine, stack_symbols=(SymbolTable((Family("empty"), series, Family("mark"))),),
        rules=(
            rule(when([0], None, None), (0, 1), None, marked),
            rule(when(source, [mark], None), (1, 1), None, (Term(SYMBOL, 1),)),
            rule(when(source, None, None), (0, 1), None, (Term(SYMBOL, 1),)),
            rule(when(after, full, None), (1, 1), Term(TOP, 0), marked),
            rule(when(after, [mark], None), (1, 1), Term(CONSTANT, size), marked),
        ),
    )  # fmt: skip


def with_queue(task: Task) -> Machine:
    """Reverses with a stack, and looks at a queue without need."""
    machine = rearranging(task, STACK)
    memories = Ends(
        ("stack", "queue"), ((0, 0), (2, 3)), ((1, 0), (3, 2)), (0, 3), ("pop", "push", "out", "in")
    )  # fmt: skip
    rules = []
    for own in machine.rules:
        symbol, top, state = own.when
        for front in ([0], [1, 2]):
            kept = (*own.pushed, Term(CONSTANT, 1 + front[0]) if own.signals[1] else None)
            signals = (*own.signals, own.signals[0], own.signals[1])
            places = (symbol, top, frozenset(front), state)
            rules.append(own._replace(when=places, signals=signals, pushed=kept))
    stack_symbols = SymbolTable((Family("empty"), Family("mark 1"), Family("mark 2")))
    return replace(
        machine,
        memories=memories,
        stack_symbols=(*machine.stack_symbols, stack_symbols),
        rules=tuple(rules),
    )


def flipping(task: Task) -> Machine:
    """Flips bigrams: puts symbols at odd places into one queue, and the others into another."""
    machine, size = rearranging(task, QUEUE), len(task.source)
    memories = Ends(
        ("odd", "even"), ((0, 1), (2, 3)), ((1, 0), (3, 2)), (1, 3), ("pop", "push", "out", "in")
    )  # fmt: skip
    source, written, full = range(2, 2 + size), range(2 + size, 2 + 2 * size), range(1, 1 + size)
    none, it = (None, None), Term(SYMBOL, 1)
    state = [Term(CONSTANT, number) for number in range(4)]
    return replace(
        machine, memories=memories, stack_symbols=(*machine.stack_symbols, *machine.stack_symbols),
        states=SymbolTable(tuple(map(Family, ("odd next", "even next", "say even", "say odd")))),
        rules=(
            rule(when([0], None, None, None), (0, 0, 0, 0), None, none, state[0]),
            rule(when(source, None, None, [0]), (0, 1, 0, 0), None, (it, None), state[1]),
            rule(when(source, None, None, [1]), (0, 0, 0, 1), None, (None, it), state[0]),
            rule(when([1], None, full, [0]), (0, 0, 1, 0), Term(2, 0), none, state[3]),
            rule(when(written, None, None, [3]), (1, 0, 0, 0), Term(1, 0), none, state[2]),
            rule(when(written, None, full, [2]), (0, 0, 1, 0), Term(2, 0), none, state[3]),
            rule(when(written, None, [0], [2]), (0, 0, 0, 0), Term(CONSTANT, size), none, state[2]),
        ),
    )  # fmt: skip


def marked_late(task: Task, copied: bool) -> Machine:
    """Copies with a queue; a second queue gets marks early in a string, and other marks late.

    Unless `copied`, it writes the first symbol where a late mark is at the front.
    """
    machine, size, early, late = rearranging(task, QUEUE), len(task.source), 4, 9
    memories = Ends(
        ("symbols", "marks"), ((0, 1), (2, 3)), ((1, 0), (3, 2)), (1, 3),
        ("pop", "push", "out", "in"),
    )  # fmt: skip
    source, full = range(2, 2 + size), range(1, 1 + size)
    after, none = [1, *range(2 + size, 2 + 2 * size)], (None, None)
    rules = [rule(when([0], None, None, None), (0, 0, 0, 0), None, none)]
    for number in range(late + 1):
        mark = 1 if number < early else 2 if number == late else None
        pushed = Term(SYMBOL, 1), None if mark is None else Term(CONSTANT, mark)
        signals, following = (0, 1, 0, int(mark is not None)), min(number + 1, late)
        places = when(source, None, None, [number])
        rules.append(rule(places, signals, None, pushed, Term(CONSTANT, following)))
    output = Term(1, 0) if copied else Term(CONSTANT, 0)
    rules += [
        rule(when(after, full, [2], None), (1, 0, 1, 0), output, none),
        rule(when(after, full, None, None), (1, 0, 1, 0), Term(1, 0), none),
        rule(when(after, [0], None, None), (0, 0, 0, 0), Term(CONSTANT, size), none),
    ]
    marks = SymbolTable((Family("empty"), Family("early"), Family("late")))
    states = SymbolTable(tuple(Family(f"{number} read") for number in range(late + 1)))
    return replace(
        machine, memories=memories, stack_symbols=(*machine.stack_symbols, marks), states=states,
        rules=tuple(rules),
    )  # fmt: skip


def wrong_when_deep(task: Task, depth: int) -> Machine:
    """Reverses two symbols, but writes the first for any at a height of `depth` or more."""
    machine, symbols = rearranging(task, STACK), Family("symbol", (0, 1))
    stack_symbols = SymbolTable((Family("empty"), *[symbols] * depth))
    levels = [[0], *([1 + 2 * level, 2 + 2 * level] for level in range(depth))]
    rules = [
        rule(when([2, 3], level, None), (0, 1), None, (Term(SYMBOL, min(at + 1, depth)),))
        for at, level in enumerate(levels)
    ]
    deep = rule(when([1, 4, 5], levels[-1], None), (1, 0), Term(CONSTANT, 0))
    start, _, pop, end = machine.rules
    pop = pop._replace(when=when([1, 4, 5], range(1, 1 + 2 * depth), None))
    return replace(machine, stack_symbols=(stack_symbols,), rules=(start, *rules, deep, pop, end))


def waiting(task: Task) -> Machine:
    """Reverses while it reads marks."""
    size = len(task.source) - 1
    symbols = Family("symbol", tuple(range(size)))
    everything = Family("symbol", tuple(range(size + 1)))
    return Machine(
        "own", task.source.symbols, task.target.symbols, (False, False),
        SymbolTable((everything,)), SymbolTable((everything,)),
        (SymbolTable((Family("empty"), symbols)),), ONE,
        STACK, None, Layout.synchronous(size + 1, size + 1),
        (
            rule(when(range(size), None, None), (0, 1), None, (Term(SYMBOL, 1),)),
            rule(when([size], range(1, 1 + size), None), (1, 0), Term(TOP, 0)),
        ),
    )  # fmt: skip


def odd(task: Task) -> Machine:
    """Answers parity: keeps the parity of the ones that it has read on top of its stack."""
    bits = Family("symbol", (0, 1))
    zero, one = Term(CONSTANT, 0), Term(CONSTANT, 1)
    return Machine(
        "own", task.source.symbols, task.target.symbols, (False, False),
        SymbolTable((bits,)), SymbolTable((bits,)), (SymbolTable((Family("empty"), bits)),), ONE,
        STACK, None,
        Layout.synchronous(2, 2),
        (
            rule(when([0], [0, 1], None), (0, 0), zero),
            rule(when([0], [2], None), (0, 0), one),
            rule(when([1], [0, 1], None), (0, 1), one, (Term(SYMBOL, 1),)),
            rule(when([1], [2], None), (1, 1), zero, (Term(CONSTANT, 1),)),
        ),
    )  # fmt: skip


def buffered_odd(task: Task) -> Machine:
    """Answers parity in two steps per symbol: reads in the first, and writes in the second."""
    bits = Family("symbol", (0, 1))
    states = SymbolTable(
        (Family("even"), Family("odd"), Family("even, to write"), Family("odd, too"))
    )
    none: tuple[Term | None, ...] = (None,)
    signals = ("pop", "push", "input read", "output write")
    return Machine(
        "own", task.source.symbols, task.target.symbols, (False, False),
        SymbolTable((bits, Family("nothing"))), SymbolTable((bits,)),
        (SymbolTable((Family("empty"),)),), states,
        STACK._replace(signal_names=signals), Buffers(2, 0, 0),
        Layout.synchronous(2, 2),
        (
            rule(when([0], None, [0]), (0, 0, 1, 0), None, none, Term(CONSTANT, 2)),
            rule(when([1], None, [0]), (0, 0, 1, 0), None, none, Term(CONSTANT, 3)),
            rule(when([0], None, [1]), (0, 0, 1, 0), None, none, Term(CONSTANT, 3)),
            rule(when([1], None, [1]), (0, 0, 1, 0), None, none, Term(CONSTANT, 2)),
            rule(when(None, None, [2]), (0, 0, 0, 1), Term(CONSTANT, 0), none, Term(CONSTANT, 0)),
            rule(when(None, None, [3]), (0, 0, 0, 1), Term(CONSTANT, 1), none, Term(CONSTANT, 1)),
        ),
    )  # fmt: skip


def brackets(task: Task) -> Machine:
    """Pushes opening brackets, as stack symbols that tell whether the other kind is below."""
    symbols = Family("symbol", (0, 1, 2, 3))
    opening = Family("symbol", (0, 2))
    stack_symbols = SymbolTable((Family("empty"), opening, opening))
    closing = {0: 1, 2: 3}
    rules = []
    for own, stack_symbol in ((0, 1), (2, 2)):
        other = 2 if own == 0 else 0
        same, differ = [stack_symbol, stack_symbol + 2], [2 // stack_symbol, 2 // stack_symbol + 2]
        output_term = Term(CONSTANT, closing[own])
        rules += [
            rule(
                when([own], [0, *same], None), (0, 1), output_term, (Term(CONSTANT, stack_symbol),)
            ),
            rule(
                when([own], differ, None), (0, 1), output_term, (Term(CONSTANT, stack_symbol + 2),)
            ),
            rule(when([closing[own]], [stack_symbol], None), (1, 0), output_term),
            rule(
                when([closing[own]], [stack_symbol + 2], None),
                (1, 0),
                Term(CONSTANT, closing[other]),
            ),
        ]
    return Machine(
        "own", task.source.symbols, task.target.symbols, (False, False),
        SymbolTable((symbols,)), SymbolTable((symbols,)), (stack_symbols,), ONE, STACK, None,
        Layout.synchronous(4, 4), tuple(rules),
    )  # fmt: skip


def sources(task: Task, longest: int) -> Iterator[list[int]]:
    """All sources of a task up to a length, the shortest first."""
    for length in range(1, longest + 1):
        for each in itertools.product(range(len(task.source)), repeat=length):
            try:
                task.answer(task.source.decode(each))
            except NotASource:
                continue
            yield [*each]


@functools.cache
def right_answer(task: Task, source: tuple[int, ...]) -> Sequence[str | None]:
    return task.answer(task.source.decode(source))


def answers_of(machine: Machine, strings: Sequence[Sequence[int]]) -> Sequence[Answer]:
    """What a machine answers to each of some strings."""
    ids = [np.array(each, np.int64) for each in strings]
    return decode(AutomatonModel(machine), machine.layout, ids, log_probs=False)


def first_wrong(
    machine: Machine, task: Task, strings: Sequence[Sequence[int]]
) -> Sequence[int] | None:
    """The first of some strings, in order of length, that a machine answers wrongly."""
    for _, equally_long in itertools.groupby(strings, key=len):
        asked = [*equally_long]
        for each, answer in zip(asked, answers_of(machine, asked), strict=True):
            if not _is_right(answer, task, each):
                return each
    return None


def _is_right(answer: Answer, task: Task, source: Sequence[int]) -> bool:
    right = right_answer(task, (*source,))
    if answer.failed or not answer.ended or len(answer.target) != len(right):
        return False
    written = [task.target.symbols[each] if each >= 0 else "nothing" for each in answer.target]
    return all(known in (None, one) for one, known in zip(written, right, strict=True))


def mutant(machine: Machine, drawn: random.Random) -> Machine:
    """A machine with two more states, one of whose rules is changed."""
    states = SymbolTable((*machine.states.families, Family("other"), Family("another")))
    machine = replace(machine, states=states)
    rules, memories = [*machine.rules], machine.memories
    at = drawn.randrange(len(rules))
    own = rules[at]

    def term(table: SymbolTable) -> Term:
        if drawn.random() < 0.5:
            return Term(CONSTANT, drawn.randrange(table.size))
        place = drawn.randrange(len(machine.components))
        return Term(place, drawn.randrange(len(table.families)))

    stack_symbols = [machine.stack_symbols[end // 2] for _, end in memories.pushes]
    after = Term(CONSTANT, drawn.randrange(states.size))
    place = drawn.randrange(len(own.when))
    size = machine.components[place].size
    there = own.when[place] or frozenset(range(size))
    changed = frozenset(each for each in range(size) if (each in there) != (drawn.random() < 0.25))
    places = (*own.when[:place], changed, *own.when[place + 1 :])
    match drawn.randrange(8):
        case 0:
            turned = drawn.randrange(len(own.signals))
            signals = tuple(each ^ (at == turned) for at, each in enumerate(own.signals))
            pushed = [
                each or term(table) for each, table in zip(own.pushed, stack_symbols, strict=True)
            ]
            rules[at] = own._replace(signals=signals, pushed=tuple(pushed))
        case 1:
            rules[at] = own._replace(output=term(machine.outputs))
        case 2:
            terms = zip(own.pushed, stack_symbols, strict=True)
            changed_terms = tuple(each and term(table) for each, table in terms)
            rules[at] = own._replace(pushed=changed_terms)
        case 3:
            rules[at] = own._replace(next_state=after)
        case 4:
            rules[at] = own._replace(when=places)
        case 5:
            rules.insert(at, own._replace(when=places, next_state=after))
        case 6:
            other = drawn.randrange(len(rules))
            rules[at], rules[other] = rules[other], own
        case 7:
            del rules[at]
    return replace(machine, rules=tuple(rules))


def counting() -> Machine:
    """Writes a symbol for each one that it has read, and has no rule for the second symbol."""
    symbols = Family("symbol", (0, 1))
    inputs = SymbolTable((Family("begin"), Family("separator"), symbols, symbols))
    stack_symbols = SymbolTable((Family("empty"), Family("mark 1")))
    return Machine(
        'count', ('a', 'b'), ('a', 'b'), (False, False), inputs,
        SymbolTable((symbols, Family('end'))), (stack_symbols,), ONE, STACK, None,
        Layout.joint(2, 2),
        (
            rule(when([2], None, None), (0, 1), None, (Term(CONSTANT, 1),)),
            rule(when([0], None, None), (0, 0)),
            rule(when(None, [0], None), (0, 0), Term(CONSTANT, 2)),
            rule(when([1, 4], None, None), (1, 0), SAME),
        ),
    )  # fmt: skip
