"""What models answer by themselves, and how far that is from what they should answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import CPU

from stacktrans.decoding.decoder import Answer, decode
from stacktrans.inference import predictions as module
from stacktrans.inference.evaluation import EvalRequest, scores_of_pairs
from stacktrans.inference.predictions import Prediction, predictions
from stacktrans.inference.scores import checkpoint_scores
from stacktrans.model.checkpoint import Checkpoint, load
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.written_pairs import pairs_of_strings


@pytest.fixture(scope="module")
def untrained(model: Path) -> Checkpoint:
    """A model with various short answers."""
    return load(model, CPU)


@pytest.fixture(scope="module")
def pairs(untrained: Checkpoint) -> list[Pair]:
    """Sources with the model's own answers, of which every other is spoilt."""
    rng = np.random.default_rng(3)
    sources = [rng.integers(128, size=rng.integers(1, 9)) for _ in range(200)]
    answers = decode(untrained.predictor, untrained.layout, sources)
    ended = [pair for pair in zip(sources, answers, strict=True) if pair[1].ended]
    return [
        Pair(source, np.array([*answer.target, 5] if index % 2 else answer.target, dtype=np.int64))
        for index, (source, answer) in enumerate(ended[:40])
    ]


def answering(monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[str, bool]]) -> None:
    """Have models give these answers, and end them or not."""

    def search(model: Any, layout: Any, sources: Sequence[Any], *_: Any, **__: Any) -> Any:
        return [[Answer(*found[tuple(source)])] for source in sources]

    found: dict[tuple[int, ...], tuple[list[int], float, bool]] = {}
    for source, (answer, ended) in answers.items():
        found[ids(source)] = ([*ids(answer)], -1.0, ended)
    monkeypatch.setattr(module, "search", search)


def ids(text: str) -> tuple[int, ...]:
    """The symbols of task copy, whose ids are printable characters from ! on."""
    return tuple(ord(character) - 0x21 for character in text)


def asked(loaded: Checkpoint, pairs: list[Pair]) -> list[Prediction]:
    return predictions(loaded, pairs)


@pytest.mark.parametrize(
    ("target", "answer", "ended", "first_wrong", "edits", "position_matches", "fine"),
    [
        ("abcd", "abcd", True, None, 0, 4, 1),
        ("abcd", "abxd", True, 3, 1, 3, 2 / 5),
        ("abcd", "ab", True, 3, 2, 2, 2 / 5),
        ("abcd", "abcde", True, 5, 1, 4, 4 / 5),
        ("abcd", "abcd", False, 5, 0, 4, 4 / 5),
        ("abcd", "xabc", True, 1, 2, 0, 0),
        ("abcd", "", True, 1, 4, 0, 0),
        ("", "ab", True, 1, 2, 0, 0),
        ("", "", True, None, 0, 0, 1),
        ("kitten", "sitting", True, 1, 3, 4, 0),
    ],
)
def test_an_answer_is_compared_with_its_target(
    untrained: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    answer: str,
    ended: bool,
    first_wrong: int | None,
    edits: int,
    position_matches: int,
    fine: float,
) -> None:
    answering(monkeypatch, {"abc": (answer, ended)})
    (found,) = asked(untrained, pairs_of_strings([("abc", target)], untrained.task))
    assert (found.source, found.target, found.answer) == ("abc", target, answer)
    assert (found.right, found.first_wrong) == (first_wrong is None, first_wrong)
    assert (found.edits, found.symbols, found.fine) == (edits, len(target), fine)
    assert found.position_matches == position_matches


def test_the_error_rate_is_total_edits_per_target_symbol(
    untrained: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"a": ("abcx", True), "b": ("", True), "cc": ("abcdef", True)})
    given = [("a", "abcd"), ("b", "ab"), ("cc", "abcdef")]
    every = pairs_of_strings(given, untrained.task)
    scores = checkpoint_scores(untrained, every, beam=1)
    assert scores.symbol_error_rate == (1 + 2 + 0) / (4 + 2 + 6)
    assert scores.of_lengths(1, 1).symbol_error_rate == 3 / 6
    assert (scores + scores).symbol_error_rate == 3 / 12
    assert {n: each.symbol_error_rate for n, each in scores.by_length().items()} == {1: 0.5, 2: 0}
    assert scores.positional_accuracy == (3 / 6 + 6 / 6) / 2


def test_answers_are_decoded_only_with_a_beam(untrained: Checkpoint, pairs: list[Pair]) -> None:
    ((_, scores),) = scores_of_pairs(untrained, {"": pairs}, EvalRequest(), "pairs")
    assert scores.symbol_error_rate is None
    assert (scores + scores).predictions is None


def test_predictions_equal_answers_decoded_alone(untrained: Checkpoint, pairs: list[Pair]) -> None:
    ((_, scores),) = scores_of_pairs(untrained, {"": pairs}, EvalRequest(beam=1), "pairs")
    assert scores.predictions is not None
    assert [*scores.predictions] == (alone := asked(untrained, pairs))
    assert [found.right for found in alone] == [True, False] * 20
    assert scores.coarse_accuracy == 0.5
    assert scores.fine.tolist() == pytest.approx([found.fine for found in alone])


def test_only_pairs_whose_answers_are_not_known_are_decoded(
    untrained: Checkpoint, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[Any] = []

    def search(model: Any, layout: Any, given: Sequence[Any], *_: Any, **__: Any) -> Any:
        sources.extend(given)
        return [[Answer([], 0.0, True)] for _ in given]

    monkeypatch.setattr(module, "search", search)
    scores_of_pairs(untrained, {"": pairs}, EvalRequest(beam=1), "pairs")
    assert len(sources) == 20
    scores_of_pairs(untrained, {"": pairs}, EvalRequest(beam=2), "pairs")
    assert len(sources) == 60


def test_with_a_beam_accuracy_is_that_of_its_answers(
    untrained: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = pairs_of_strings([("a", "a"), ("b", "ab"), ("c", "b")], untrained.task)
    answering(monkeypatch, {"a": ("a", True), "b": ("a", True), "c": ("a", True)})
    ((_, scores),) = scores_of_pairs(untrained, {"": given}, EvalRequest(beam=3), "pairs")
    assert scores.coarse_accuracy == 1 / 3
    assert scores.fine_accuracy == pytest.approx((1 + 1 / 3 + 0) / 3)


def test_an_answer_is_not_cut_off_before_its_target(untrained: Checkpoint) -> None:
    model = load(untrained.path, CPU)
    with torch.no_grad():
        model.model.classifier.bias[model.task.layout.outputs - 1] = -1e4
    target = "a" * 60
    (short, long) = asked(model, pairs_of_strings([("ab", "ab"), ("ab", target)], model.task))
    assert len(short.answer) == 24  # twice the source and 20 more
    assert len(long.answer) == 60
    assert not long.right


@pytest.mark.parametrize("beam", [None, 1, 2])
def test_an_answer_is_right_if_it_is_one_of_several_targets(
    untrained: Checkpoint, pairs: list[Pair], beam: int | None
) -> None:
    """The nearest of them counts, once."""
    right, wrong = pairs[0], pairs[1]
    other = right._replace(target=np.array([*right.target, 7]))
    further = wrong._replace(target=np.array([8, *wrong.target]))

    def fine(*alternatives: Pair) -> float:
        each = [checkpoint_scores(untrained, [pair], beam).fine for pair in alternatives]
        return float(np.max(each))

    scores = checkpoint_scores(untrained, [further, other, right, wrong, wrong], beam)
    assert sorted(scores.fine) == sorted([fine(right, other), fine(wrong, further)])
    assert beam == 2 or fine(right, other) == 1 > fine(other)


def test_a_pair_that_is_repeated_counts_each_time(untrained: Checkpoint, pairs: list[Pair]) -> None:
    assert checkpoint_scores(untrained, [pairs[0], pairs[1], pairs[0]]).count == 3


def test_symbols_that_are_not_scored_do_not_count() -> None:
    model = load("reversal-stack", CPU)
    right, wrong = asked(model, pairs_of_strings([("10##", "##01"), ("01##", "##01")], model.task))
    assert (right.answer, right.target, right.right) == ("··01", "##01", True)
    assert (wrong.answer, wrong.target, wrong.first_wrong) == ("··10", "##01", 3)
    assert (wrong.symbols, wrong.edits, wrong.position_matches, wrong.fine) == (2, 2, 0, 0)


def test_a_sequence_of_a_stream_is_answered_by_itself() -> None:
    model = load("anbncn", CPU)
    given = pairs_of_strings([("aaab", "bbccc"), ("ab", "c"), ("aaab", "bbcc")], model.task)
    ((_, scores),) = scores_of_pairs(model, {"": given}, EvalRequest(beam=1), "pairs")
    assert scores.predictions is not None
    assert [found.answer for found in scores.predictions] == ["bbccc", "c", "bbccc"]
    assert [found.right for found in scores.predictions] == [True, True, False]
    assert [found.first_wrong for found in scores.predictions] == [None, None, 5]
    assert scores.symbol_error_rate == 1 / 10


def test_numbers_that_overflow_say_nothing(untrained: Checkpoint) -> None:
    model = load(untrained.path, CPU)
    with torch.no_grad():
        model.model.classifier.bias.fill_(torch.inf)
    given = pairs_of_strings([("ab", "ab"), ("ba", "")], model.task)
    ((_, scores),) = scores_of_pairs(model, {"": given}, EvalRequest(beam=1), "pairs")
    assert scores.predictions is not None
    assert [(found.answer, found.right) for found in scores.predictions] == [("", False)] * 2
