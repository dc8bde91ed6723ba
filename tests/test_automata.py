"""Operations on machines: minimization, equivalence and answers."""

import itertools
import random
from dataclasses import replace

import own_machines
from own_machines import answers_of, mutant, rearranging

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Family, SymbolTable, Term
from stacktrans.proofs.renaming import bisimilar
from stacktrans.tasks import make_task

REVERSE = make_task("reverse", "reverse", {"symbols": 2})
PARITY = make_task("parity", "parity", {})
STRINGS = [list(each) for size in range(1, 6) for each in itertools.product((0, 1), repeat=size)]


def answers(machine: Machine) -> list[tuple[list[int], bool]]:
    """What a machine answers to the strings, and whether it ends its answers."""
    return [(each.target, each.ended) for each in answers_of(machine, STRINGS)]


def unrolled(machine: Machine, copies: int) -> Machine:
    """A machine of one state with copies of it, each of which leads to the next."""
    names = tuple(Family(f"q{number}") for number in range(copies))
    rules = [
        rule._replace(
            when=(*rule.when[:-1], frozenset([number])),
            next_state=Term(CONSTANT, (number + 1) % copies),
        )
        for rule in machine.rules
        for number in range(copies)
    ]
    return replace(machine, states=SymbolTable(names), rules=tuple(rules))


def test_a_machine_with_several_copies_of_its_states_is_bisimilar() -> None:
    machine = rearranging(REVERSE, own_machines.STACK)
    several = unrolled(machine, 5)
    assert bisimilar(several, machine)


def test_machines_with_different_answers_are_not_bisimilar() -> None:
    machine = rearranging(REVERSE, own_machines.STACK)
    mutants = [mutant(machine, random.Random(seed)) for seed in range(100)]
    different = [each for each in mutants if answers(each) != answers(machine)]
    assert len(different) > 30
    for other in different:
        assert not bisimilar(machine, other)
        assert not bisimilar(other, machine)


def test_spaces_are_visible_in_the_names_of_symbols() -> None:
    symbols = (" ", "a\u00a0")
    machine = replace(rearranging(REVERSE, own_machines.STACK), source=symbols, target=symbols)
    assert machine.stack_symbol_names == [["empty", "␣", r"a\xa0"]]


def test_machines_of_other_tasks_are_not_bisimilar() -> None:
    reverse = rearranging(REVERSE, own_machines.STACK)
    assert not bisimilar(reverse, own_machines.odd(PARITY))
    assert not bisimilar(reverse, replace(reverse, rules=()))


def test_copies_of_states_that_alternate_are_bisimilar() -> None:
    machine = own_machines.buffered_odd(PARITY)
    copies = SymbolTable((*machine.states.families, *machine.states.families))
    rules = [
        rule._replace(
            when=(
                *rule.when[:-1],
                rule.when[-1] and frozenset(number + first for number in rule.when[-1]),
            ),
            next_state=Term(CONSTANT, (rule.next_state.entry + 4 - first) % 8),
        )
        for rule in machine.rules
        for first in (0, 4)
    ]
    several = replace(machine, states=copies, rules=tuple(rules))
    assert bisimilar(several, machine)
