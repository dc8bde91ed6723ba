"""Proofs by induction that machines count correctly; wrong machines must not be proved."""

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from own_machines import mutant, when

from stacktrans.automata.execution import Configuration
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Family, Rule, SymbolTable, Term
from stacktrans.common.ends import Ends
from stacktrans.model.checkpoint_files import save_machine
from stacktrans.proofs.induction import InductionOverCounts
from stacktrans.proofs.product import Unproved
from stacktrans.proofs.proof import Counterexample, prove
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task
from stacktrans.tasks.base import NotASource
from stacktrans.tasks.layout import Layout
from stacktrans.tasks.streams import Counting

ANY, SOME, NONE = (0, 1, 2), (1, 2), (0,)
"""What a place of a stack holds: stack symbols 1 and 2, or nothing."""
PUSH, POP, IDLE = (1, 0), (0, 1), (0, 0)


def pattern(written: str) -> Counting:
    task = make_task("counting", "counting", {"pattern": written})
    assert isinstance(task, Counting)
    return task


def counter(written: str, rules: Sequence[tuple[Any, ...]], states: int = 1) -> Machine:
    """A machine with stacks, each of which shows its top and the cell under it.

    A rule consists of the input symbol, the contents of each observed cell, the action of each
    stack, the output, and, if there are several states, the states before and after.
    """
    task, stacks = pattern(written), len(rules[0][2])
    symbols = SymbolTable((Family("symbol", tuple(range(len(task.source)))),))
    stack_symbols = SymbolTable((Family("empty"), Family("mark 1"), Family("mark 2")))
    found = []
    for symbol, places, actions, says, *around in rules:
        state, after = around or (0, 0)
        read = when([task.source.symbols.index(symbol)], *places, [state])
        pushed = tuple(Term(CONSTANT, 1) if act == PUSH else None for act in actions)
        signals = tuple(itertools.chain.from_iterable(actions))
        output = Term(CONSTANT, task.source.symbols.index(says)) if says else None
        found.append(Rule(read, (), signals, output, pushed, Term(CONSTANT, after)))
    numbers, both = range(stacks), range(2 * stacks)
    memories = Ends(
        tuple(f"stack {number + 1}" for number in numbers),
        tuple((2 * number + 1, 2 * number) for number in numbers),
        tuple((2 * number, 2 * number) for number in numbers),
        tuple(2 * (place // 2) for place in both),
        tuple(f"{action} {number + 1}" for number in numbers for action in ("push", "pop")),
        tuple(place % 2 for place in both),
    )
    return Machine(
        "own", task.source.symbols, task.target.symbols, (False, False),
        symbols, symbols, (stack_symbols,) * stacks,
        SymbolTable(tuple(Family(f"q{number}") for number in range(states))),
        memories, None, Layout.stream(symbols.size, follow=0), tuple(found),
    )  # fmt: skip


def two_at_once() -> Machine:
    """a^n b^n c^n: both stacks are pushed to, one is popped for each."""
    free: list[Any] = [None] * 4
    return counter("a^n b^n c^n", [
        ("a", free, (PUSH, PUSH), None),
        ("b", [None, SOME, None, None], (POP, IDLE), "b"),
        ("b", free, (POP, IDLE), "c"),
        ("c", [None, None, None, SOME], (IDLE, POP), "c"),
        ("c", free, (IDLE, POP), "a"),
    ])  # fmt: skip


def carried(after: tuple[int, int] = IDLE) -> Machine:
    """The same: what is popped is pushed on the other stack.

    `after` is what is done with the first stack at the end of a sequence.
    """
    free: list[Any] = [None] * 4
    return counter("a^n b^n c^n", [
        ("a", free, (PUSH, IDLE), None),
        ("b", [None, SOME, None, None], (POP, PUSH), "b"),
        ("b", free, (POP, PUSH), "c"),
        ("c", [None, None, None, SOME], (IDLE, POP), "c"),
        ("c", free, (after, POP), "a"),
    ])  # fmt: skip


def one_after_another() -> Machine:
    """a^n b^2n: both stacks are pushed to, and popped one after the other."""
    free: list[Any] = [None] * 4
    return counter("a^n b^2n", [
        ("a", free, (PUSH, PUSH), None),
        ("b", [SOME, None, None, None], (POP, IDLE), "b"),
        ("b", [None, None, None, SOME], (IDLE, POP), "b"),
        ("b", free, (IDLE, POP), "a"),
    ])  # fmt: skip


def every_other() -> Machine:
    """The same: every second symbol pops the only stack."""
    return counter("a^n b^2n", [
        ("a", [None, None], (PUSH,), None, 0, 0),
        ("b", [None, None], (IDLE,), "b", 0, 1),
        ("b", [None, SOME], (POP,), "b", 1, 0),
        ("b", [None, None], (POP,), "a", 1, 0),
    ], states=2)  # fmt: skip


def added() -> Machine:
    """a^n b^m c^(n+m): one stack takes both."""
    return counter("a^n b^m c^(n+m)", [
        ("a", [None, None], (PUSH,), None),
        ("b", [None, None], (PUSH,), None),
        ("c", [None, SOME], (POP,), "c"),
        ("c", [None, None], (POP,), "a"),
    ])  # fmt: skip


def crossed() -> Machine:
    """a^n b^m c^n d^m: a stack for each count."""
    free: list[Any] = [None] * 4
    return counter("a^n b^m c^n d^m", [
        ("a", free, (PUSH, IDLE), None),
        ("b", free, (IDLE, PUSH), None),
        ("c", [None, SOME, None, None], (POP, IDLE), "c"),
        ("c", free, (POP, IDLE), "d"),
        ("d", [None, None, None, SOME], (IDLE, POP), "d"),
        ("d", free, (IDLE, POP), "a"),
    ])  # fmt: skip


def left_behind() -> Machine:
    """a^n b^n: the first symbol of a sequence leaves a mark on what was left, which stays."""
    return counter("a^n b^n", [
        ("a", [None, None], (PUSH,), None, 0, 1),
        ("a", [None, None], (PUSH,), None, 1, 1),
        ("b", [None, SOME], (POP,), "b", 1, 1),
        ("b", [None, None], (POP,), "a", 1, 0),
    ], states=2)  # fmt: skip


def growing() -> Machine:
    """a^n b^n: nothing is ever popped from the other stack, which is only read where it is full."""
    free: list[Any] = [None] * 4
    return counter("a^n b^n", [
        ("a", free, (PUSH, PUSH), None),
        ("b", [None, SOME, SOME, None], (POP, IDLE), "b"),
        ("b", [None, None, SOME, None], (POP, IDLE), "a"),
    ])  # fmt: skip


MACHINES = {
    "two at once": two_at_once(),
    "carried": carried(),
    "one after another": one_after_another(),
    "every other": every_other(),
    "added": added(),
    "crossed": crossed(),
    "left behind": left_behind(),
    "growing": growing(),
}
PATTERNS = {
    "two at once": "a^n b^n c^n",
    "carried": "a^n b^n c^n",
    "one after another": "a^n b^2n",
    "every other": "a^n b^2n",
    "added": "a^n b^m c^(n+m)",
    "crossed": "a^n b^m c^n d^m",
    "left behind": "a^n b^n",
    "growing": "a^n b^n",
}


def written(task: Counting, counts: Sequence[int]) -> list[str]:
    names = [block.introduces for block in task.runs if block.introduces]
    values = dict(zip(names, counts, strict=True))
    return [symbol for block in task.runs for symbol in block.symbol * block.length(values)]


@cache
def rows(wanted: str) -> list[list[tuple[str, str]]]:
    """Prompts and answers in a row: long ones alone, short ones after one another."""
    task = pattern(wanted)
    count = len([block for block in task.runs if block.introduces])
    found = []
    for most, length in ((9 if count == 1 else 5, 1), (4 if count == 1 else 2, 3)):
        each = [*itertools.product(range(1, most + 1), repeat=count)]
        for row in itertools.product(each, repeat=length):
            found.append([_split(task, counts) for counts in row])
    return sorted(found, key=lambda row: (len(row), sum(len(part) for part, _ in row)))


def _split(task: Counting, counts: Sequence[int]) -> tuple[str, str]:
    symbols = written(task, counts)
    known = next(
        at for at in range(1, len(symbols) + 1) if answered(task, symbols[:at]) is not None
    )
    return "".join(symbols[:known]), "".join(symbols[known:])


def answered(task: Counting, source: Sequence[str]) -> list[str | None] | None:
    try:
        return task.answer(source)
    except NotASource:
        return None


def is_wrong(machine: Machine, row: Sequence[tuple[str, str]]) -> bool:
    """Whether a machine predicts a known symbol of a row wrongly, or gets stuck."""
    symbols = "".join(prompt + answer for prompt, answer in row) + machine.source[0]
    configuration = Configuration(machine)
    written = [configuration.step(machine.source.index(each)) for each in symbols[:-1]]
    if configuration.stuck:
        return True
    place = 0
    for prompt, answer in row:
        place += len(prompt)
        for step in range(place - 1, place + len(answer)):
            if written[step] < 0 or machine.source[written[step]] != symbols[step + 1]:
                return True
        place += len(answer)
    return False


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_that_counts_right_is_proved(name: str) -> None:
    machine = MACHINES[name]
    assert not any(is_wrong(machine, row) for row in rows(PATTERNS[name]))
    proof = prove(machine, pattern(PATTERNS[name]))
    assert isinstance(proof, InductionOverCounts)
    assert proof.steps < 500


def mutants(machine: Machine, count: int) -> Iterator[Machine]:
    """Machines one or two of whose rules are changed."""
    drawn = random.Random(1)
    for number in range(count):
        other = mutant(machine, drawn)
        yield mutant(other, drawn) if number % 2 else other


@pytest.mark.parametrize("name", MACHINES)
def test_no_mutant_is_proved_that_counts_wrongly(name: str) -> None:
    wanted = PATTERNS[name]
    task, proved, refuted = pattern(wanted), 0, 0
    for other in mutants(MACHINES[name], 40):
        wrong = next((row for row in rows(wanted) if is_wrong(other, row)), None)
        try:
            verdict = prove(other, task)
        except Unproved:
            continue
        if not isinstance(verdict, Counterexample):
            assert wrong is None, other.rules
            proved += 1
            continue
        symbols = [task.source.symbols[each] for each in verdict.source]
        if not verdict.in_stream:
            answer = answered(task, symbols)
            assert answer is not None
            assert is_wrong(other, [("".join(symbols), "".join(map(str, answer)))])
            # It is the shortest of all.
            assert wrong is None or (len(wrong) == 1 and len(wrong[0][0]) == len(symbols))
            refuted += 1
        elif wrong and len(wrong) > 1:
            assert "".join(symbols[: len(wrong[0][0])]) == wrong[0][0]
            refuted += 1
    assert proved > 6
    assert refuted > 15
    assert proved + refuted > 35


def test_errors_at_a_great_count_are_found() -> None:
    """The machine also counts in its state, and errs at the end if there are 29 or more a's."""
    rules: list[tuple[Any, ...]] = [
        ("a", [None, None], (PUSH,), None, state, min(state + 1, 29)) for state in range(30)
    ]
    free = [None, SOME], [None, None]
    rules += [("b", free[0], (POP,), "b", state, state) for state in range(30)]
    rules += [("b", free[1], (POP,), "b" if state == 29 else "a", state, 0) for state in range(30)]
    verdict = prove(counter("a^n b^n", rules, states=30), pattern("a^n b^n"))
    assert verdict == Counterexample((0,) * 29 + (1,))


def test_lists_that_count_are_proved() -> None:
    """a^n b^n: a list inserts at each a, and its head moves left at each b."""
    task, one = pattern("a^n b^n"), Term(CONSTANT, 1)
    symbols, stack_symbols = (
        SymbolTable((Family("symbol", (0, 1)),)),
        SymbolTable((Family("empty"), Family("mark"))),
    )
    memories = Ends(
        ("list", "list right of its head"), (), ((0, 0),), (0, 0), ("insert", "left"), (0, 1),
        ((1, 0, 2),),
    )  # fmt: skip
    rules = (
        Rule(when([0], None, None, None), (), (1, 0), None, (one,), Term(CONSTANT, 0)),
        Rule(when([1], None, [1], None), (), (0, 1), one, (None,), Term(CONSTANT, 0)),
        Rule(when([1], None, [0], None), (), (0, 1), Term(CONSTANT, 0), (None,), Term(CONSTANT, 0)),
    )
    machine = Machine(
        "own", ("a", "b"), ("a", "b"), (False, False), symbols, symbols,
        (stack_symbols, stack_symbols), SymbolTable((Family("q0"),)), memories, None,
        Layout.stream(2, follow=0), rules,
    )  # fmt: skip
    assert isinstance(prove(machine, task), InductionOverCounts)


def test_a_reason_is_given_if_a_pattern_is_not_proved() -> None:
    with pytest.raises(Unproved, match="lengths are supported only if they are sums"):
        prove(MACHINES["added"], pattern("a^n b^m c^nm"))
    with pytest.raises(Unproved, match="alphabets or layout differ from those of the task"):
        prove(MACHINES["crossed"], pattern("a^n b^m c^(n+m)"))


def anbncn() -> RunConfig:
    """The configuration of a model whose memories are those of a `counter`."""
    stacks = ("memory.count=2", "memory.no_op=false")
    return resolve(task="anbncn", recipe="counting", assignments=stacks)


def test_verify_proves_a_machine_that_counts(tmp_path: Path) -> None:
    save_machine(tmp_path / "machine", anbncn(), replace(carried(), task="anbncn"), "")
    quick = ("--exhaustive", "50", "--count", "20", "--longest", "100")
    printed = run("verify", tmp_path / "machine", *quick).stdout.decode().splitlines()
    assert "proved: right on all strings of the task, whatever their length" in printed
    assert "any number of sequences in a row: each begins with empty memories" in printed
    held = json.loads(run("verify", tmp_path / "machine", *quick, "--json").stdout)
    assert held["proof"]["proved"]
    assert held["proof"]["induction"]["initial_contents"] == 1


def test_verify_refutes_a_machine_that_is_wrong_only_after_another_sequence(tmp_path: Path) -> None:
    save_machine(tmp_path / "machine", anbncn(), replace(carried(PUSH), task="anbncn"), "")
    quick = ("--exhaustive", "50", "--count", "20", "--longest", "100")
    found = run("verify", tmp_path / "machine", *quick)
    assert found.returncode == 1
    *_, alone, row = found.stdout.decode().splitlines()
    assert alone == "right on all 31 strings, which proves nothing about other strings"
    assert row == "wrong: an answer is wrong where sequences follow one another, in abcabc"
    held = json.loads(run("verify", tmp_path / "machine", *quick, "--json").stdout)
    assert not held["right"]
    assert held["counterexample"] is None
    assert held["proof"]["stream"] == [*"abcabc"]
