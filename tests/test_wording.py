"""Words that sentences are made of."""

from dataclasses import replace

import pytest
from own_machines import STACK, rearranging

from stacktrans.automata.rules import Family, SymbolTable
from stacktrans.automata.wording import entry_names
from stacktrans.common.visible import counted, listed
from stacktrans.tasks.alphabets import UNKNOWN_SYMBOL
from stacktrans.tasks.computed import Copy


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")],
)
def test_names_are_listed_with_a_word_before_the_last(names: list[str], expected: str) -> None:
    assert listed(names, "or") == expected


def test_counted_nouns_are_singular_or_plural() -> None:
    assert counted(1, "rule") == "1 rule"
    assert counted(1200, "rule") == "1,200 rules"
    assert counted(0, "pair of states", "pairs of states") == "0 pairs of states"


def test_written_symbols_are_told_from_those_of_the_source() -> None:
    machine = rearranging(Copy(symbols=4), STACK)
    series = tuple(range(4))
    inputs = SymbolTable((Family("symbol", series), Family("written symbol", series)))
    a, b = machine.symbols[:2]
    assert entry_names(machine, inputs, [0, 5]) == f"{a} or written {b}"


def test_the_phrase_with_an_exception_comes_last() -> None:
    machine = rearranging(Copy(symbols=4), STACK)
    table = SymbolTable((Family("symbol", tuple(range(4))), Family("mark 1"), Family("mark 2")))
    last = machine.symbols[3]
    assert entry_names(machine, table, [0, 1, 2, 4, 5]) == f"mark 1, mark 2 or a symbol but {last}"


def test_the_unknown_symbol_is_named_rather_than_the_only_other_symbol() -> None:
    machine = rearranging(Copy(symbols=4), STACK)
    first, second, *_ = machine.symbols
    symbols = (first, second, UNKNOWN_SYMBOL)
    machine = replace(machine, source=symbols, target=symbols)
    inputs = SymbolTable((Family("symbol", (0, 1, 2)),))
    assert entry_names(machine, inputs, [1, 2]) == f"{second} or <unk>"
    assert entry_names(machine, inputs, [0, 1]) == "a symbol but <unk>"
    assert entry_names(machine, inputs, [0, 1, 2]) == "a symbol"


def test_a_blank_is_not_mistaken_for_a_symbol() -> None:
    machine = rearranging(Copy(symbols=4), STACK)
    inputs = SymbolTable((Family("symbol", tuple(range(4))), Family("blank")))
    assert "#" in machine.symbols
    assert entry_names(machine, inputs, [4]) == "</s>"  # as in a trace
