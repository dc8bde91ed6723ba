"""The benchmark of deletang2023: answers beside independent computations, sources, lengths."""

import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_tasks import task_of

from stacktrans.settings.task_files import load_task
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.chomsky import evaluate
from stacktrans.tasks.lengths import Lengths, NoSuchLength


def expression(source: Iterable[str], notation: str) -> str:
    """A source of an arithmetic task in the usual notation."""
    return "".join(notation[int(symbol)] for symbol in source)


def final_stack(source: str) -> str:
    """Cancel each push with the pop that follows it, and then pops of the empty stack."""
    while source != (shorter := re.sub(r"[0134]2", "", source)):
        source = shorter
    return source.lstrip("2").translate(str.maketrans("34", "01"))[::-1] + "2"


def missing(source: str) -> str:
    """Try both symbols."""
    if source == "1":
        return "1"
    return next(x for x in "01" if re.fullmatch(r"(.*)\1", source.replace("2", x).rstrip("3")))


def numbers(source: str) -> list[int]:
    """Numbers whose least digits come first."""
    return [sum(2**n * int(digit) for n, digit in enumerate(part)) for part in source.split("2")]


def little(number: int) -> str:
    """A number, least digit first, and its end."""
    return bin(number)[:1:-1] + "2"


def unknown(source: str) -> str:
    """Try all residues."""
    if source in ("0", "0 0"):
        return "0"
    left, right = expression(source.split(), "01234+-()x=").split("=")
    return next(x for x in "01234" if (eval(left.replace("x", x)) - int(right)) % 5 == 0)


ORACLES: dict[str, Callable[[str], str]] = {
    "even-pairs": lambda s: str(sum(s[n : n + 2] in ("01", "10") for n in range(len(s))) % 2),
    "parity-check": lambda s: str(s.count("1") % 2),
    "cycle-navigation": lambda s: str((s.count("2") - s.count("0")) % 5),
    "modular-arithmetic": lambda s: str(eval(expression(s, "01234+-*")) % 5),
    "modular-arithmetic-brackets": lambda s: str(eval(expression(s, "01234+-*()")) % 5),
    "solve-equation": unknown,
    "stack-manipulation": final_stack,
    "reverse-string": lambda s: "".join(reversed(s)),
    "duplicate-string": lambda s: s + s,
    "missing-duplicate-string": missing,
    "odds-first": lambda s: s[1::2] + s[::2],
    "binary-addition": lambda s: little(sum(numbers(s))),
    "binary-multiplication": lambda s: (
        little(math.prod(numbers(s))) if "2" in s else "0" * (len(s) - 1) + "2"
    ),
    "compute-sqrt": lambda s: f"{int(Decimal(int(s, 2)).sqrt()):0{math.ceil(len(s) / 2)}b}",
    "bucket-sort": lambda s: "".join(digit * s.count(digit) for digit in "01234"),
}
EXAMPLES = [
    ("even-pairs", "0100", "0"),
    ("even-pairs", "0111", "1"),
    ("parity-check", "0111", "1"),
    ("cycle-navigation", "0120", "4"),
    ("modular-arithmetic", "25371", "0"),  # 2 + 3 * 1
    ("modular-arithmetic", "16262", "2"),  # 1 - 2 - 2
    ("modular-arithmetic-brackets", "863749", "3"),  # (-3 * 4)
    ("solve-equation", "7 9 5 3 8 10 4", "1"),  # (x + 3) = 4
    ("solve-equation", "6 9 10 1", "4"),  # -x = 1
    ("stack-manipulation", "0110422", "1102"),
    ("stack-manipulation", "1222", "2"),
    ("stack-manipulation", "1223", "02"),
    ("reverse-string", "0100", "0010"),
    ("duplicate-string", "010", "010010"),
    ("missing-duplicate-string", "0120113", "1"),
    ("missing-duplicate-string", "2000", "0"),
    ("odds-first", "01001", "10001"),
    ("binary-addition", "11201", "1012"),  # 3 + 2 = 5
    ("binary-addition", "01", "012"),
    ("binary-multiplication", "11201", "0112"),  # 3 * 2 = 6
    ("binary-multiplication", "10", "02"),
    ("compute-sqrt", "100101", "110"),  # 37, 6
    ("bucket-sort", "30410", "00134"),
]


def answer(task: Task, source: str) -> str:
    return "".join(symbol or "" for symbol in task.answer(task.source.split(source)))


@pytest.mark.parametrize(("name", "source", "target"), EXAMPLES)
def test_answers_equal_the_examples(name: str, source: str, target: str) -> None:
    assert answer(task_of(name), source) == target


@pytest.mark.parametrize("name", ORACLES)
def test_every_length_has_sources_with_their_answers(name: str) -> None:
    config, task = load_task(name), task_of(name)
    assert (config.ranges.train, config.ranges.test) == ((1, 40), (41, 500))
    rng, answers = np.random.default_rng(5), set[str]()
    for length in [*range(1, 42), 61]:
        if name == "modular-arithmetic" and length % 2 == 0:
            with pytest.raises(NoSuchLength):
                task.sample(rng, Lengths(length, length), 1, "uniform")
            continue
        for pair in task.sample(rng, Lengths(length, length), 10, "uniform"):
            source = task.source.join(task.source.decode(pair.source))
            target = task.target.join(task.target.decode(pair.target))
            assert len(pair.source) == length
            assert target == answer(task, source) == ORACLES[name](source), source
            answers.add(target[0])
    assert len(answers) > 1


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("modular-arithmetic", ["", "5", "25", "22", "6", "15727"]),
        ("modular-arithmetic-brackets", ["89", "82", "29", "8259", "8" * 9999]),
        ("solve-equation", ["0 0 0", "9 10", "9 10 9", "9 5 9 10 3", "1 10 1", "9 10 3 10 3"]),
        ("stack-manipulation", ["", "2", "020", "340"]),
        ("missing-duplicate-string", ["", "0", "11", "22", "0123", "113", "0213", "012", "2031"]),
        ("binary-addition", ["", "101", "2", "12", "121212", "1221"]),
        ("compute-sqrt", [""]),
    ],
)
def test_strings_that_are_not_sources_are_refused(name: str, sources: list[str]) -> None:
    for source in sources:
        with pytest.raises(NotASource, match="expected"):
            answer(task_of(name), source)


EXPRESSIONS = st.recursive(
    st.sampled_from("01234"),
    lambda part: st.one_of(
        part.map("-{}".format),
        part.map("({})".format),
        st.tuples(part, st.sampled_from("+-*"), part).map("".join),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_expressions_have_their_values_in_python(text: str) -> None:
    assert evaluate(text) == eval(text) % 5


@given(st.text("01234+-*()", max_size=9))
def test_any_text_is_refused_or_has_its_value_in_python(text: str) -> None:
    with suppress(NotASource):
        assert evaluate(text) == eval(text) % 5


def test_expressions_of_all_shapes_are_drawn() -> None:
    task = task_of("modular-arithmetic-brackets")
    pairs = task.sample(np.random.default_rng(6), Lengths(7, 7), 200, "uniform")
    sources = {expression(task.source.decode(pair.source), "01234+-*()") for pair in pairs}
    shapes = {re.sub(r"[+*-]", "+", re.sub(r"\d", "d", source)) for source in sources}
    assert shapes == {"(+d++d)", "(d+(d))", "((d)+d)"}
