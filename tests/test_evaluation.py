"""Scores: against a loop over greedy decoding, against hand-made answers, and their intervals."""

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shapes import shaped

from stacktrans.common.ragged import batches_of
from stacktrans.decoding import decoder
from stacktrans.decoding.decoder import decode
from stacktrans.inference.scores import Scores, score
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.model_config import BuffersConfig
from stacktrans.settings.resolve import resolve
from stacktrans.showing.scores import confidence_interval
from stacktrans.tasks.layout import Layout, Pair

LAYOUT = Layout.joint(sources=4, targets=4)


def tiny(memory: str = "stack", seed: int = 0) -> Transducer:
    config = resolve(
        task="copy",
        settings={"model": shaped(memory, hidden_size=8, size=4, embedding_size=4, output_size=6)},
    )
    torch.manual_seed(seed)
    return Transducer(config.model, LAYOUT.inputs, LAYOUT.outputs)


def random_pairs(count: int, seed: int, longest: int = 9) -> list[Pair]:
    rng = np.random.default_rng(seed)
    return [
        Pair(rng.integers(4, size=rng.integers(1, longest)), rng.integers(4, size=n))
        for n in rng.integers(0, longest, size=count)
    ]


def test_a_buffered_model_is_not_scored_where_it_reads_the_answer() -> None:
    config = tiny().config.model_copy(update={"buffers": BuffersConfig()})
    model = Transducer(config, LAYOUT.inputs, LAYOUT.outputs)
    with pytest.raises(ValueError, match="a buffered model needs a synchronous layout"):
        score(predictor_of(model), LAYOUT, random_pairs(2, seed=1))


@pytest.mark.parametrize("most", [50, 7])
@pytest.mark.parametrize(
    ("memory", "kernel"),
    [
        *((each, "auto") for each in ("stack", "queue", "deque", "queue+stack", "none")),
        ("deque", "torch"),
    ],
)
def test_many_and_long_strings_are_scored_in_parts(
    memory: str, kernel: Literal["auto", "torch"], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, pairs = tiny(memory, seed=2), random_pairs(30, seed=4, longest=40)
    model.config = model.config.model_copy(update={"kernel": kernel})
    whole = score(predictor_of(model), LAYOUT, pairs).fine
    assert 0 < whole.mean() < 1
    monkeypatch.setattr(decoder, "STEPS_AT_ONCE", most)
    monkeypatch.setattr(decoder, "STEPS_PER_CHUNK", most)
    assert score(predictor_of(model), LAYOUT, pairs).fine.tolist() == whole.tolist()


@pytest.mark.parametrize("memory", ["stack", "queue", "deque", "queue+stack", "none"])
def test_scores_equal_greedy_decoding(memory: str) -> None:
    model = tiny(memory)
    sources = [pair.source for pair in random_pairs(40, seed=1)]
    answers = decode(predictor_of(model), LAYOUT, sources, limit=12)
    # Half of the targets are the model's own answers, with an error in some of them.
    rng = np.random.default_rng(5)
    pairs, expected = [], []
    for source, answer in zip(sources, answers, strict=True):
        target = np.array(answer.target, dtype=np.int64)
        place = int(rng.integers(0, 2 * len(target) + 1))
        if place < len(target):
            target[place] = (target[place] + 1) % 4
        else:
            place = len(target)
        right = place + (place == len(target) and answer.ended)
        pairs.append(Pair(source, target))
        expected.append(right / (len(target) + 1))
    scores = score(predictor_of(model), LAYOUT, pairs)
    assert scores.fine.tolist() == pytest.approx(expected)
    assert scores.coarse_accuracy == pytest.approx(np.mean(np.array(expected) == 1))
    assert scores.lengths.tolist() == [len(source) for source in sources]


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(10, 60))
def test_groups_hold_everything_once_and_stay_small(sizes: list[int], most: int) -> None:
    groups = list(batches_of(sizes, most))
    assert sorted(index for group in groups for index in group) == list(range(len(sizes)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(sizes[index] for index in group) <= most


def test_scores_are_split_by_length_and_added() -> None:
    scores = Scores(
        np.array([3, 5, 5]),
        np.array([1.0, 0.5, 1.0]),
        np.array([4, 5, 6]),
        np.array([4, 6, 6]),
        np.array([2, 0, 2]),
    )
    assert scores.differing_share == 4 / 16
    assert scores.symbol_accuracy == 15 / 16
    assert scores.of_lengths(5, 9).coarse_accuracy == 0.5
    assert scores.of_lengths(5, 9).fine_accuracy == 0.75
    assert (scores + scores).count == 6


@pytest.mark.parametrize(
    ("accuracy", "count", "interval"),
    # Values of Wilson's interval as statistics packages give them.
    [(1.0, 1000, (0.99617, 1.0)), (0.5, 10, (0.23659, 0.76341)), (0.0, 20, (0.0, 0.16113))],
)
def test_confidence_intervals_equal_those_of_statistics_packages(
    accuracy: float, count: int, interval: tuple[float, float]
) -> None:
    assert confidence_interval(accuracy, count) == pytest.approx(interval, abs=1e-5)


@given(st.integers(1, 5000), st.floats(0, 1))
def test_confidence_intervals_hold_what_was_measured(count: int, accuracy: float) -> None:
    low, high = confidence_interval(accuracy, count)
    assert 0 <= low <= accuracy <= high <= 1


@given(st.integers(1, 5000))
def test_confidence_intervals_hold_all_and_nothing(count: int) -> None:
    assert confidence_interval(1.0, count)[1] == 1
    assert confidence_interval(0.0, count)[0] == 0
