"""The tasks of experiments/suite.yaml: their answers, their sources, and the lengths of these."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stacktrans.common.errors import UsageError
from stacktrans.common.registry import use_plugins
from stacktrans.settings.layers import SettingsLayer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.lengths import Lengths, NormalLengths, NoSuchLaw, NoSuchLength

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
SUITE = EXPERIMENTS / "suite.yaml"
CONDITIONS: dict[str, Any] = yaml.safe_load(SUITE.read_text(encoding="utf-8"))["conditions"]


@pytest.fixture(autouse=True)
def plugins(no_plugins: None) -> None:
    use_plugins(*sorted(EXPERIMENTS.glob("suite_*.py")))


def made(generator: str, **parameters: Any) -> Task:
    return make_task("example", generator, parameters)


def answer(task: Task, source: str) -> str:
    symbols = task.answer(task.source.split(source))
    return task.target.join([symbol or "" for symbol in symbols])


# The letters a, c, ... are even symbols of an alphabet of 128, and b, d, ... odd ones.
STRINGS = {
    "doubled": {"abc": "abcabc", "": ""},
    "doubled-symbols": {"abc": "aabbcc"},
    "some-doubled": {"abcd": "abbcdd"},
    "halves-swapped": {"abcd": "cdab"},
    "rotated-left": {"abcd": "bcda", "": ""},
    "rotated-right": {"abcd": "dabc"},
    "ends-exchanged": {"abcd": "dbca", "ab": "ba", "a": "a", "": ""},
    "odd-left-out": {"abcda": "aca", "bd": ""},
    "odd-left-out-reversed": {"abcd": "ca"},
    "every-second-left-out": {"abcde": "ace"},
    "palindrome": {"abc": "abccba"},
    "reversed-and-copied": {"abc": "cbaabc"},
    "reversed-and-doubled": {"abc": "ccbbaa"},
    "outside-in": {"abcde": "aebdc", "abcd": "adbc"},
    "even-first": {"dabca": "acadb"},
    "first-after-each": {"abc": "aabaca", "": ""},
    "trigram-flip": {"abcdef": "cbafed"},
}
SUMS = {  # over the digits ! and ", which are 0 and 1
    "running-sum": {'""!"': '"!!"'},
    "sum-appended": {'""!"': '""!""', '""!': '""!!'},
    "sum": {'""!"': '"', '""!': "!"},
}
STRUCTURES = {
    "interleaved": {"abc|xyz": "axbycz", "|": ""},
    "partitioned": {"axbycz": "abc|xyz"},
    "same": {"abc|abc": "1", "abc|abd": "0"},
    "mirrored": {"abc|cba": "1", "abc|abc": "0"},
    "phrases-reversed": {"ab|cde|f": "ba|edc|f", "||ab": "||ba"},
    "phrase-order-reversed": {"ab|cde|f": "f|cde|ab"},
    "first-phrase-reversed": {"ab|cde|fg": "ba|cde|fg", "abc": "cba"},
    "last-phrase": {"ab|cde": "cde", "abc": "abc"},
    "capitals": {"ab^cd^e": "abCDe", "^a": "A"},
    "first-marked": {"cacab": "c'acab", "bcb": "bcb"},
    "last-marked": {"cacab": "cac'ab", "bcb": "bcb"},
    "majority": {"abaab": "a", "abb": "b", "abba": "="},
    "runs-decoded": {"a3b2": "aaabb"},
    "runs-encoded": {"aaabb": "a3b2"},
    "runs-shortened": {"aaabba": "aba"},
    "unary-sum": {"111+11": "11111", "+": ""},
    "unary-difference": {"11111-11": "111", "1-1": ""},
    "binary-sum": {"110+011": "1001", "00+00": "000"},  # 3 + 6 = 9
    "brackets-completed": {"([]([": "]))", "(([": "]))", "()": "", "": ""},
    "brackets-named": {"([..": "([])", "[.(.": "[]()"},
    "depths-labelled": {"(()())": "100001"},
    "brackets-checked": {"([])": "1", "([))": "0", "((": "0"},
    "comments-removed": {"ab{c{d}e}f": "abf"},
}
FORMULAS = [
    ("infix", "((a+b)*(c+d))", {"prefix": "*+ab+cd", "postfix": "ab+cd+*"}),
    ("prefix", "*+ab+cd", {"infix": "((a+b)*(c+d))", "postfix": "ab+cd+*"}),
    ("postfix", "ab+cd+*", {"infix": "((a+b)*(c+d))", "prefix": "*+ab+cd"}),
    ("left", "a+b*c", {"infix": "((a+b)*c)", "prefix": "*+abc", "postfix": "ab+c*"}),
    ("right", "a+b*c", {"infix": "(a+(b*c))", "prefix": "+a*bc", "postfix": "abc*+"}),
    ("infix", "a", {"prefix": "a", "postfix": "a"}),
]


@pytest.mark.parametrize("name", [*STRINGS, *STRUCTURES])
def test_answers_equal_the_examples(name: str) -> None:
    for source, expected in {**STRINGS, **STRUCTURES}[name].items():
        assert answer(made(name), source) == expected


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_positions_in_the_alphabet_equal_the_examples(name: str) -> None:
    for source, expected in SUMS[name].items():
        assert answer(made(name, symbols=2), source) == expected


def test_symbols_are_replaced_by_later_ones() -> None:
    assert answer(made("replaced"), "abc") == "bcd"
    assert answer(made("replaced", shift=10), "abc") == "klm"
    assert answer(made("replaced", symbols=3), "!#") == '"!'


@pytest.mark.parametrize(("notation", "source", "answers"), FORMULAS)
def test_formulas_in_other_notations_equal_the_examples(
    notation: str, source: str, answers: dict[str, str]
) -> None:
    for other, expected in answers.items():
        assert answer(made("notated", notation=notation, answer=other), source) == expected


@pytest.mark.parametrize(
    ("notation", "source", "expected"),
    [
        ("infix", "((1&0)|1)", "1"),
        ("infix", "(1&(0|0))", "0"),
        ("prefix", "|&101", "1"),
        ("postfix", "10&1|", "1"),
        ("left", "0&1|1", "1"),
        ("right", "0&1|1", "0"),
        ("infix", "(1^1)", "0"),
        ("infix", "(0^1)", "1"),
    ],
)
def test_values_of_formulas_equal_the_examples(notation: str, source: str, expected: str) -> None:
    assert answer(made("evaluated", notation=notation, operators="&|^"), source) == expected


def test_binary_sums_may_be_written_otherwise() -> None:
    assert answer(made("binary-sum", interleaved=True), "101101") == "1001"
    assert answer(made("binary-sum", greatest_first=True), "011+110") == "1001"


@pytest.mark.parametrize(
    ("source", "target", "string", "expected"),
    [
        ("a^n", "b^2n", "aaa", "bbbbbb"),
        ("a^n", "b^n c^n", "aa", "bbcc"),
        ("a^n b^m", "c^(n+m)", "aaab", "cccc"),
        ("a^n b^m", "c^m d^n", "aaab", "cddd"),
    ],
)
def test_counts_equal_the_examples(source: str, target: str, string: str, expected: str) -> None:
    assert answer(made("counted", source=source, target=target), string) == expected


@pytest.mark.parametrize(
    ("name", "parameters", "source"),
    [
        ("interleaved", {}, "abc"),
        ("interleaved", {}, "ab|c"),
        ("partitioned", {}, "a|"),
        ("same", {}, "a|b|c"),
        ("phrases-reversed", {"phrases": 2}, "abc"),
        ("runs-decoded", {}, "a3b"),
        ("runs-decoded", {}, "3a"),
        ("runs-encoded", {}, "aaaaa"),
        ("unary-sum", {}, "11"),
        ("unary-difference", {}, "1-11"),
        ("binary-sum", {}, "10+1"),
        ("binary-sum", {}, "1+0+1"),
        ("binary-sum", {"interleaved": True}, "101"),
        ("counted", {"source": "a^n b^m", "target": "c^m"}, "aaba"),
        ("brackets-completed", {}, "(]"),
        ("brackets-completed", {}, ")"),
        ("brackets-named", {}, "(.."),
        ("brackets-named", {}, "(("),
        ("depths-labelled", {}, "(()"),
        ("comments-removed", {}, "}a{"),
        ("comments-removed", {}, "a{b"),
        *(
            ("notated", {"notation": notation, "answer": "prefix"}, source)
            for notation, source in [
                ("infix", "a+b"),
                ("infix", "(a+b"),
                ("infix", "a+b)"),
                ("infix", "(a)"),
                ("infix", "+"),
                ("infix", "(+ab)"),
                ("infix", ""),
                ("prefix", "a+b"),
                ("prefix", "+a"),
                ("postfix", "+ab"),
                ("postfix", "ab"),
                ("left", "a+"),
                ("left", "ab"),
                ("right", ""),
            ]
        ),
    ],
)
def test_strings_that_are_not_sources_are_refused(
    name: str, parameters: dict[str, Any], source: str
) -> None:
    with pytest.raises(NotASource, match="expected"):
        answer(made(name, **parameters), source)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("runs-encoded", {"longest": 10}, "longest is 10; expected a number from 1 to 9"),
        ("runs-encoded", {"symbols": 1}, "symbols is 1; expected at least 2"),
        ("same", {"symbols": 1}, "symbols is 1; expected at least 2"),
        ("capitals", {"symbols": 27}, "symbols is 27; expected a number from 1 to 26"),
        ("phrases-reversed", {"phrases": 0}, "phrases is 0; expected at least 1"),
        ("brackets-completed", {"kinds": 0}, "kinds is 0; expected a number from 1 to 10000"),
        ("brackets-checked", {"kinds": 1}, "kinds is 1; expected at least 2"),
        ("depths-labelled", {"modulus": 1}, "modulus is 1; expected a number from 2 to 10"),
        ("evaluated", {"notation": "polish"}, "notation is 'polish'; expected one of prefix"),
        ("evaluated", {"notation": "infix", "operators": "+"}, "operators is '.'; expected some"),
        ("notated", {"notation": "infix", "answer": "left"}, "answer is 'left'; expected prefix"),
        (
            "notated",
            {"notation": "infix", "answer": "prefix", "operators": ""},
            "operators is ''; expected signs",
        ),
        ("counted", {"source": "a^n b", "target": "c^n"}, "source 'a\\^n b': 'b' has no count"),
        ("counted", {"source": "a^n", "target": "c^m"}, "target 'c\\^m': 'm' is not in the source"),
    ],
)
def test_parameters_that_make_no_task_are_refused(
    name: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        made(name, **parameters)


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_row_draws_sources_of_its_lengths_and_their_answers(name: str) -> None:
    settings = {"model": {"memory": "stack"}, **CONDITIONS[name]}
    config = resolve(options=[SettingsLayer("test", settings)]).task
    assert config.name == name
    task = make_task(name, config.generator, config.parameters)
    assert config.ranges.test[1] >= 2 * config.ranges.train[1] - 1
    for lengths in config.ranges.train, config.ranges.test:
        pairs = task.sample(np.random.default_rng(1), lengths, 50, config.law_of(lengths))
        assert {pair.length for pair in pairs} <= {*range(lengths[0], lengths[1] + 1)}
        assert len({pair.length for pair in pairs}) > 5
        for pair in pairs:
            known = task.answer(task.source.decode(pair.source))
            answered = task.target.decode(pair.target)
            scored = [True] * len(answered) if pair.scored is None else pair.scored
            both = zip(answered, known, scored, strict=True)
            assert [a for a, b, counts in both if counts and b not in (None, a)] == []
            # The decoder allows answers of this length.
            assert len(answered) <= 2 * len(pair.source) + 20


@pytest.mark.parametrize(
    ("notation", "possible"), [("infix", [5, 9, 13, 17]), ("prefix", [*range(3, 21, 2)])]
)
def test_lengths_are_uniform_over_all_possible_ones(notation: str, possible: list[int]) -> None:
    task = made("evaluated", notation=notation)
    pairs = task.sample(np.random.default_rng(2), Lengths(3, 20), 1000, "uniform")
    counts = Counter(len(pair.source) for pair in pairs)
    assert sorted(counts) == possible
    assert max(counts.values()) < 1.5 * min(counts.values())


def test_lengths_have_no_other_law() -> None:
    task = made("majority")
    with pytest.raises(NoSuchLaw, match="expected uniform or task"):
        task.sample(np.random.default_rng(2), Lengths(3, 20), 1, NormalLengths(9, 1))


def test_a_range_without_a_source_is_refused() -> None:
    with pytest.raises(NoSuchLength, match="no source has a length of 6:8"):
        made("evaluated", notation="infix").sample(
            np.random.default_rng(1), Lengths(6, 8), 1, "uniform"
        )


@pytest.mark.parametrize(
    ("name", "parameters", "length", "sources"),
    [
        # Catalan numbers of formulas and brackets, central binomial coefficients of prefixes.
        (
            "notated",
            {"notation": "prefix", "answer": "infix", "symbols": 1, "operators": "+"},
            9,
            14,
        ),
        ("depths-labelled", {"kinds": 1}, 8, 14),
        ("brackets-completed", {"kinds": 1}, 5, 10),
        ("brackets-completed", {"kinds": 1}, 6, 20),
    ],
)
def test_structures_are_equally_likely(
    name: str, parameters: dict[str, Any], length: int, sources: int
) -> None:
    task = made(name, **parameters)
    lengths = Lengths(length, length)
    pairs = task.sample(np.random.default_rng(3), lengths, 200 * sources, "uniform")
    counts = Counter(tuple(pair.source) for pair in pairs)
    assert len(counts) == sources
    # 200 each, with a standard deviation of less than 15.
    assert 140 < min(counts.values()) <= max(counts.values()) < 260


@pytest.mark.parametrize(
    ("name", "parameters", "share"),
    [
        ("same", {}, 0.5),
        ("mirrored", {"symbols": 2}, 0.5),
        ("brackets-checked", {}, 0.5),
        ("evaluated", {"notation": "prefix"}, 0.5),
        ("sum", {"symbols": 2}, 0.5),
    ],
)
def test_answers_are_equally_frequent(name: str, parameters: dict[str, Any], share: float) -> None:
    task = made(name, **parameters)
    pairs = task.sample(np.random.default_rng(4), Lengths(31, 50), 1000, "uniform")
    assert np.mean([pair.target[0] for pair in pairs]) == pytest.approx(share, abs=0.05)
