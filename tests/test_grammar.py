"""Grammars against literal derivation: rewriting the written rules, one nonterminal at a time."""

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from literal_grammar import (
    TASKS,
    Parameters,
    begins_sentence,
    drawn_literally,
    literal,
    parameters_of,
    rules,
    sentences,
    small_grammars,
)

from stacktrans.grammar import Grammar, GrammarError
from stacktrans.tasks import make_task
from stacktrans.tasks.lengths import Lengths

SHIPPED = ("svo-sov", "gender")


@pytest.fixture(scope="module", params=SHIPPED)
def shipped(request: pytest.FixtureRequest) -> Grammar:
    return Grammar(**parameters_of(request.param))


@pytest.fixture(scope="module")
def svo_sov() -> Grammar:
    return Grammar(**parameters_of("svo-sov"))


@pytest.fixture(scope="module")
def gender() -> Grammar:
    return Grammar(**parameters_of("gender"))


SMALL = {
    "ambiguous": rules(S=["1/4: S:1 S:2", "1/4: S:1 c S:2 / S:2 d S:1", "1/2: a / b"]),
    "center": rules(S=["0.4: a S:1 b / b S:1 a", "0.35: T:1 / T:1", "0.25: a b / e"], T=["1: c"]),
    "order": rules(
        S=["1/2: A:1 B:2 A:3 B:4 / B:2 B:4 A:1 A:3", "1/2: A:1 S:2 / x S:2 y A:1 z"],
        A=["1/3: a", "2/3: B:1 / q B:1 q"],
        B=["1/2: b", "1/4: A:1 A:2 / A:2 A:1", "1/4: a b / v w"],
    ),
    "chain": rules(S=["1: T:1 / l T:1"], T=["1: U:1 / U:1 r"], U=["1/2: u", "1/2: S:1 u / u S:1"]),
}


def check_against_derivations(parameters: Parameters, longest: int) -> None:
    grammar = Grammar(**parameters)
    lengths = np.zeros(longest + 1)
    answers: dict[tuple[str, ...], dict[tuple[str, ...], float]] = defaultdict(dict)
    for probability, source, target in sentences(parameters, longest):
        lengths[len(source)] += probability
        best = answers[source]
        best[target] = max(probability, best.get(target, 0.0))
    np.testing.assert_allclose(
        np.exp(grammar.log_length_probabilities(longest)), lengths, rtol=1e-9
    )
    for source, targets in answers.items():
        top = max(targets.values())
        most_probable = [
            list(target) for target, p in targets.items() if math.isclose(p, top, rel_tol=1e-9)
        ]
        assert grammar.translate(source) in most_probable


# Lengths and targets against derivations


@pytest.mark.parametrize("name", SMALL)
def test_lengths_and_targets_are_those_of_all_derivations(name: str) -> None:
    check_against_derivations(SMALL[name], longest=6)


@settings(max_examples=30)
@given(small_grammars())
def test_lengths_and_targets_of_any_grammar(parameters: Parameters) -> None:
    check_against_derivations(parameters, longest=4)


@settings(max_examples=60)
@given(small_grammars(), st.lists(st.sampled_from("abc"), min_size=1, max_size=5))
def test_a_parse_fails_at_the_first_word_that_continues_no_sentence(
    parameters: Parameters, words: list[str]
) -> None:
    grammar = Grammar(**parameters)
    readable = max(
        count for count in range(len(words) + 1) if begins_sentence(parameters, words[:count])
    )
    if words in [list(source) for _, source, _ in sentences(parameters, len(words))]:
        grammar.translate(words)
    else:
        failing = (
            f"word {readable + 1}, " if readable < len(words) else "the sentence ends too early"
        )
        with pytest.raises(GrammarError, match=f"^{failing}"):
            grammar.translate(words)


def test_length_tables_extended_stepwise_equal_those_computed_at_once() -> None:
    once, by_steps = (Grammar(**SMALL["order"]) for _ in range(2))
    for longest in (3, 0, 10, 11, 50):
        np.testing.assert_array_equal(
            by_steps.log_length_probabilities(longest),
            once.log_length_probabilities(50)[: longest + 1],
        )


def test_the_most_probable_derivation_gives_the_target() -> None:
    grammar = Grammar(
        **rules(
            S=["1/4: A:1 B:2 / A:1 B:2", "1/4: x B:1 / B:1 second", "1/2: C:1 / C:1"],
            A=["0.9: x / first", "0.07: y / first", "0.03: y / rare"],
            B=["0.5: b", "0.5: c"],
            C=["0.3: x b / third", "0.2: x c / third", "0.5: y b / third"],
        )
    )
    # Probabilities of x b: .25 * .9 * .5, .25 * .5, .5 * .3; of x c, the last is .5 * .2 instead;
    # of y b: .25 * .07 * .5, .5 * .5.
    assert grammar.translate(["x", "b"]) == ["third"]
    assert grammar.translate(["x", "c"]) == ["c", "second"]
    assert grammar.translate(["y", "b"]) == ["third"]
    assert grammar.translate(["y", "c"]) == ["first", "c"]


def test_a_target_left_out_is_the_source() -> None:
    grammar = Grammar(**rules(S=["1/2: ( S:1 ) S:2", "1/2: x"]))
    source = ["(", "(", "x", ")", "x", ")", "x"]
    assert grammar.translate(source) == source
    assert grammar.source_words == grammar.target_words == ("(", ")", "x")


# Sampling


@pytest.mark.parametrize(
    ("name", "length"), [("ambiguous", 5), ("center", 5), ("order", 5), ("chain", 3)]
)
def test_samples_have_the_frequencies_of_derivations(name: str, length: int) -> None:
    grammar, generator = Grammar(**SMALL[name]), np.random.default_rng(3)
    expected: Counter[tuple[tuple[str, ...], tuple[str, ...]]] = Counter()
    for probability, source, target in sentences(SMALL[name], length):
        if len(source) == length:
            expected[source, target] += probability  # type: ignore[assignment]
    total, count = sum(expected.values()), 4000
    drawn = Counter(
        (tuple(source), tuple(target))
        for source, target in (grammar.sample(generator, length) for _ in range(count))
    )
    assert drawn.keys() <= expected.keys()
    hoped_for = {pair: count * share / total for pair, share in expected.items()}
    assert chi_square(drawn, hoped_for) < chi_square_bound(len(hoped_for))


@pytest.mark.parametrize(("name", "length"), [("svo-sov", 10), ("gender", 11)])
def test_samples_agree_with_rejection_from_the_literal_grammar(name: str, length: int) -> None:
    parameters = parameters_of(name)
    for alternatives in parameters["rules"].values():
        for each in alternatives:
            # One word a class leaves few enough sentences to count each kind.
            if "each" in each:
                each["each"] = {"k": [1, 1]}
    grammar = Grammar(**parameters)
    read, chance = literal(parameters), random.Random(5)
    generator = np.random.default_rng(5)
    rejected = (drawn_literally(read, "A", chance, length) for _ in itertools.count())
    count = 1000
    literally = Counter(
        itertools.islice((s for s in rejected if s is not None and len(s) == length), count)
    )
    exactly = Counter(tuple(grammar.sample(generator, length)[0]) for _ in range(count))
    kinds = literally.keys() | exactly.keys()
    # Two samples of one size: the difference of two counts has the variance of their sum.
    statistic = sum(
        (literally[kind] - exactly[kind]) ** 2 / (literally[kind] + exactly[kind]) for kind in kinds
    )
    assert statistic < chi_square_bound(len(kinds))


def chi_square(drawn: Mapping[Any, int], expected: Mapping[Any, float]) -> float:
    return sum((drawn.get(kind, 0) - mean) ** 2 / mean for kind, mean in expected.items())


def chi_square_bound(kinds: int) -> float:
    """Five standard deviations above the mean of the statistic."""
    return kinds + 5 * math.sqrt(2 * kinds)


def test_samples_repeat_with_the_generator(shipped: Grammar) -> None:
    first, second = (shipped.sample(np.random.default_rng(1), 40) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("length", [5, 6, 7, 12, 29, 65, 128])
def test_samples_translate_to_their_targets(shipped: Grammar, length: int) -> None:
    generator = np.random.default_rng(length)
    for _ in range(3):
        source, target = shipped.sample(generator, length)
        assert len(source) == length
        assert shipped.translate(source) == target


def test_long_sentences_are_drawn_and_translated(shipped: Grammar) -> None:
    source, target = shipped.sample(np.random.default_rng(0), 2000)
    assert len(source) == 2000
    assert set(source) <= set(shipped.source_words)
    assert set(target) <= set(shipped.target_words)
    source, target = shipped.sample(np.random.default_rng(0), 300)
    assert shipped.translate(source) == target


def test_probabilities_that_underflow_are_computed() -> None:
    grammar = Grammar(**rules(S=["1e-3: a S:1 / S:1 b", "0.999: c / d"]))
    expected = 999 * math.log(1e-3) + math.log(0.999)
    assert grammar.log_length_probabilities(1000)[1000] == pytest.approx(expected)
    source, target = grammar.sample(np.random.default_rng(0), 1000)
    assert source == ["a"] * 999 + ["c"]
    assert target == ["d"] + ["b"] * 999
    assert grammar.translate(source[-500:]) == target[:500]


# The shipped grammars


def test_svo_sov_is_the_published_grammar(svo_sov: Grammar) -> None:
    assert len(svo_sov.source_words) == len(svo_sov.target_words) == 100
    lengths = np.exp(svo_sov.log_length_probabilities(1000))
    assert lengths[8:65].sum() == pytest.approx(0.36, abs=0.005)
    assert lengths[65:129].sum() == pytest.approx(0.015, abs=0.0005)
    assert lengths.sum() == pytest.approx(1)
    assert np.flatnonzero(lengths == 0).tolist() == [0, 1, 2]


def test_gender_is_the_published_grammar(gender: Grammar) -> None:
    assert len(gender.source_words) == 104
    assert len(gender.target_words) == 107
    lengths = np.exp(gender.log_length_probabilities(1000))
    assert lengths[8:65].sum() == pytest.approx(0.11, abs=0.005)
    assert lengths[65:129].sum() == pytest.approx(0.002, abs=0.0005)
    assert lengths.sum() == pytest.approx(0.4)
    assert np.flatnonzero(lengths == 0).tolist() == [0, 1, 2, 3, 4]


def test_words_stand_in_order_of_first_appearance(gender: Grammar) -> None:
    assert gender.source_words[:6] == ("or", "and", "the", "a", "we1", "we2")
    assert gender.target_words[:8] == ("oder", "und", "der", "die", "das", "ein", "eine", "wg1")


def test_the_published_sentence_is_translated(svo_sov: Grammar) -> None:
    source = "si1 vi28 oi5 oi7 si15 rpi si19 vi16 oi10 oi24"
    target = "so1 oo5 oo7 so15 rpo so19 vo16 oo10 oo24 vo28"
    assert svo_sov.translate(source.split()) == target.split()


def test_nouns_choose_their_articles(gender: Grammar) -> None:
    source = "the fe3 and a me7 we3 the ne1 and a ne2"
    target = "die fg3 und ein mg7 wg3 das ng1 und ein ng2"
    assert gender.translate(source.split()) == target.split()


@pytest.mark.parametrize("name", ["parenthesis", "agreement"])
def test_possible_next_words_are_those_of_some_sentence(name: str) -> None:
    task = yaml.safe_load((TASKS / f"{name}.yaml").read_text())["parameters"]
    parameters = {"root": task["root"], "rules": task["rules"]}
    grammar = Grammar(**parameters)
    length = max(length for length in grammar.derivations(9).counts(12) if length <= 12)
    for seed in range(3):
        source, _ = grammar.derivations(9).sample(np.random.default_rng(seed), length)
        for count, words in enumerate(grammar.next_words(source)):
            begun = source[:count]
            expected = {
                word for word in grammar.source_words if begins_sentence(parameters, [*begun, word])
            }
            assert words == expected, begun


def test_a_prefix_outside_the_grammar_has_no_next_words() -> None:
    grammar = Grammar(**rules(S=["1/2: a S:1 b", "1/2: c"]))
    found = list(grammar.next_words(["a", "b", "c"]))
    assert found == [{"a", "c"}, {"a", "c"}, frozenset(), frozenset()]


def test_depths_count_derivations_of_each_length() -> None:
    grammar = Grammar(**rules(S=["1/2: a S:1 b", "1/2: c"]))
    assert dict(grammar.derivations(1).counts(9)) == {}
    assert dict(grammar.derivations(2).counts(9)) == {1: 1}
    assert dict(grammar.derivations(4).counts(9)) == {1: 1, 3: 1, 5: 1}
    assert grammar.derivations(4).sample(np.random.default_rng(1), 5) == (
        list("aacbb"),
        list("aacbb"),
    )
    with pytest.raises(GrammarError, match="no derivation of depth 3 has 5 source words"):
        grammar.derivations(3).sample(np.random.default_rng(1), 5)
    # Great depths do not exceed the recursion limit.
    assert len(grammar.derivations(3000).counts(3000)) == 2999


def test_lengths_whose_probabilities_underflow_are_drawn() -> None:
    parameters = rules(S=["1e-3: a S:1 / S:1 b", "0.999: c / d"])
    task = make_task("own", "grammar", parameters)
    (pair,) = task.sample(np.random.default_rng(1), Lengths(999, 1000), 1, "task")
    assert pair.length == 999  # a thousand times as probable
