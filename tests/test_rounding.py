"""Rounding: training ends with a discrete model, or with a soft one where that loses accuracy."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from shapes import shaped
from small_runs import CPU, ignore, records_of, small_run, trainer_of

from stacktrans.common.randomness import Purpose
from stacktrans.inference.scores import Scores
from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig, StartFromConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import Lengths, NoSuchLaw, NoSuchLength
from stacktrans.training import rounding
from stacktrans.training.initial_weights import checksum_of, weights_from_checkpoint
from stacktrans.training.records import Accuracy
from stacktrans.training.rounding import (
    MAX_CORRECTIONS,
    ROUNDINGS,
    Rounding,
    RoundingKind,
    soft_and_hard,
)
from stacktrans.training.sources import DataSource, Moment
from stacktrans.training.stateful import Weights

pytestmark = pytest.mark.usefixtures("brief_rounding")
NEVER_CERTAIN = RoundingKind(factor=2, batches=2, indecision=1e-9, max_rounds=3)
RIGHT, WRONG = (Accuracy(share, share, 10, share) for share in (1.0, 0.0))


def counter(*changes: str, memory: dict[str, Any] | None = None) -> RunConfig:
    small = (
        "hidden_size=10",
        "task.lengths.train=[1, 2]",
        "task.lengths.test=[3, 3]",
        "accuracy_every=5",
        "accuracy_loss=null",
        "measure.strings=10",
        "rounding=quick",
        "restart={after: 1000}",
        "solved.times=2",
    )
    model = {"memory": memory or {"name": "stack-rnn", "count": 2}}
    return resolve(task="anbn", settings={"model": model}, assignments=[*small, *changes])


GENERALIZATION = DataSource.generalization


def mark_answers_right(
    monkeypatch: pytest.MonkeyPatch, hard: Sequence[float] = (1.0,), soft: Accuracy = RIGHT
) -> None:
    """Replace measurements: accuracies by `soft`, and hard ones in rounding by `hard`.

    The latter has an accuracy for each attempt; the last one stands for all further attempts.
    """
    monkeypatch.setattr(DataSource, "accuracies", lambda *_: (soft, soft))
    monkeypatch.setattr(DataSource, "generalization", lambda *_: 1.0)
    certain = Rounding.round

    def scripted(self: Rounding, *others: Any) -> Transducer | None:
        found = hard[min(self.attempt.moment.attempt, len(hard)) - 1]
        monkeypatch.setattr(rounding, "soft_and_hard", lambda *_: (1.0, found))
        return certain(self, *others)

    monkeypatch.setattr(Rounding, "round", scripted)


def kept_in(directory: Path) -> Transducer:
    """The model of a run, as it was before it was sharpened."""
    model = checkpoint.load(directory, CPU).model
    model.sharpen(1 / model.sharpness)
    return model


def assert_same_weights(one: Transducer, theirs: Weights) -> None:
    assert all(torch.equal(weight, theirs[name]) for name, weight in one.state_dict().items())


def test_an_attempt_that_is_wrong_when_hard_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch, hard=[0.5, 0.9, 1.0])
    summary = trainer_of(counter(), tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", 3)
    # 10 batches until it is solved twice running, and at most 6 to round it.
    assert 30 < summary.steps <= 48


def test_a_run_without_restarts_keeps_a_model_that_is_wrong_when_discretized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch, hard=[0.5])
    config = counter("restart=null")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", 1)


def draw_only(
    monkeypatch: pytest.MonkeyPatch, *ranges: Lengths, error: type[Exception] = NoSuchLength
) -> None:
    """Let tests of generalization draw strings of these ranges only; others raise `error`."""
    monkeypatch.setattr(DataSource, "generalization", GENERALIZATION)
    drawn = DataSource.strings

    def strings(self: DataSource, purpose: Any, moment: Any, lengths: Lengths, *others: Any) -> Any:
        if purpose is Purpose.VALIDATION and moment.step and lengths not in ranges:
            raise error("no string is that long")
        return drawn(self, purpose, moment, lengths, *others)

    monkeypatch.setattr(DataSource, "strings", strings)


@pytest.mark.parametrize(
    ("lengths", "memory", "kind", "outcome", "attempts"),
    [
        (Lengths(1, 2), "stack-rnn", "discrete", "max_steps", 3),
        (Lengths(18, 20), "stack-rnn", "discrete", "max_steps", 3),
        (Lengths(18, 20), "none", "discrete", "max_steps", 3),
        (Lengths(18, 20), "stack-rnn", "lossless", "solved", 1),
    ],
)
def test_a_discrete_solution_is_right_on_the_shortest_and_on_much_longer_strings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lengths: Lengths,
    memory: str,
    kind: str,
    outcome: str,
    attempts: int,
) -> None:
    # The model counts as right on the lengths of the task, but is really tested on these.
    mark_answers_right(monkeypatch)
    draw_only(monkeypatch, lengths)
    config = counter(f"rounding={kind}", "max_steps=25", memory={"name": memory})
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == (outcome, attempts)


@pytest.mark.parametrize(
    ("accuracies", "attempts"),
    [
        ([0.95, 0.9, 1.0], 1),
        ([0.89, 1.0], 2),
        ([0.95, 0.89, 1.0], 2),
        ([0.95] * (MAX_CORRECTIONS + 1) + [1.0], 2),
    ],
)
def test_a_discrete_model_that_is_nearly_right_is_trained_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accuracies: list[float], attempts: int
) -> None:
    mark_answers_right(monkeypatch)
    left, tested = iter(accuracies), list[Weights]()

    def generalization(_: DataSource, model: Transducer, __: Moment) -> float:
        tested.append(copy.deepcopy(model.state_dict()))
        return next(left)

    monkeypatch.setattr(DataSource, "generalization", generalization)
    summary = trainer_of(counter("rounding=discrete"), tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", attempts)
    assert [*left] == []
    assert_same_weights(kept_in(tmp_path), tested[-1])
    assert any(not torch.equal(tested[-1][name], tested[-2][name]) for name in tested[-1])


@pytest.mark.parametrize("error", [NoSuchLength, NoSuchLaw])
def test_a_solution_counts_where_no_other_strings_can_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    mark_answers_right(monkeypatch)
    draw_only(monkeypatch, error=error)
    summary = trainer_of(counter("rounding=discrete"), tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", 1)


@pytest.mark.parametrize(
    ("measured", "trained", "kept"),
    [
        # As good when hard as it is: there is nothing to gain.
        ([(1.0, 1.0)], 0, False),
        ([(1.0, 0.5), (1.0, 1.0)], 7, True),
        ([(1.0, 0.5), (1.0, 0.7)], 7, True),
        # The soft model would lose.
        ([(1.0, 0.5), (0.9, 0.9)], 7, False),
        ([(1.0, 0.5), (1.0, 0.4)], 7, False),
    ],
)
def test_lossless_rounding_loses_nothing_and_gives_up_no_attempt(
    measured: list[tuple[float, float]],
    trained: int,
    kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = trainer_of(counter("rounding=lossless"), tmp_path)
    solved: list[dict[str, torch.Tensor]] = []
    certain, left = Rounding.round, [*measured]
    found = (0.0, 0.0)

    def scripted(_: DataSource, model: Transducer, *__: Any) -> tuple[Accuracy, Accuracy]:
        if not solved:
            return RIGHT, RIGHT
        nonlocal found
        if model.hard:  # measured before the soft model
            found = left.pop(0) if left else (0.0, 0.0)  # a model without one stack is wrong
        share = found[model.hard]
        return RIGHT, Accuracy(share, share, 10, share)

    monkeypatch.setattr(DataSource, "accuracies", scripted)

    def watched(self: Rounding, *others: Any) -> Transducer | None:
        assert self.weights is not None
        solved.append(copy.deepcopy(self.weights))
        return certain(self, *others)

    monkeypatch.setattr(Rounding, "round", watched)
    summary = trainer.run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", 1)
    assert summary.steps == 10 + trained
    same = [
        torch.equal(weight, solved[0][name])
        for name, weight in kept_in(tmp_path).state_dict().items()
    ]
    assert all(same) is not kept
    # The summary has an accuracy with hard signals, whichever weights were kept.
    assert summary.hard
    assert summary.hard.count == 10


@pytest.mark.parametrize(
    ("soft", "hard", "whole"),
    [(0.8, 0.8, True), (0.8, 0.9, True), (0.9, 0.8, False), (0, 0, False)],
)
def test_signals_of_a_model_that_loses_nothing_are_0_or_1(
    soft: float, hard: float, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounding, "soft_and_hard", lambda *_: (soft, hard))
    state = trainer_of(counter(), Path()).state
    state.rounding.weights = copy.deepcopy(state.attempt.model.state_dict())
    rounded = state.rounding.round(lambda: None, may_fail=False)
    assert rounded
    inputs = torch.tensor([[0, 0, 1, 1, 0, 1]])
    with torch.no_grad():
        signals = rounded.unroll(inputs).signals
        with rounded.hard_signals():
            assert torch.equal(signals, rounded.unroll(inputs).signals) is whole


def test_a_run_starts_from_the_weights_before_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch)
    trainer_of(counter(), tmp_path).run(ignore)
    found = checkpoint.load(tmp_path, CPU)
    assert found.model.sharpness > 1
    begun = Transducer(found.config.model, 2, 2)
    start_from = StartFromConfig(checkpoint=str(tmp_path), sha256=checksum_of(tmp_path))
    first_weights, _ = weights_from_checkpoint(found.config, start_from, found.task)
    first_weights(begun)
    assert_same_weights(begun, kept_in(tmp_path).state_dict())


def test_models_that_are_not_rounded_are_not_measured_discretized(tmp_path: Path) -> None:
    assert trainer_of(counter("rounding=null", "max_steps=5"), tmp_path).run(ignore).hard is None


def test_a_model_without_strengths_is_not_measured_hard(tmp_path: Path) -> None:
    config = counter("max_steps=5", memory={"name": "none"})
    assert trainer_of(config, tmp_path).run(ignore).hard is None


def test_an_attempt_is_given_up_after_so_many_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch, soft=WRONG)
    changes = ("max_steps=25", "restart={after: null, give_up_after: 10}")
    summary = trainer_of(counter(*changes), tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts, summary.steps) == ("max_steps", 3, 25)
    assert [record["attempt"] for record in records_of(tmp_path)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("kept", "rounds", "hard"),
    [
        ("last", 3, [0.8, 0.8]),
        ("best", 2, [0.8, 0.8, 0.9, 0.7, 0.9]),
        # Of weights that are as good, those that were rounded further.
        ("best", 3, [1.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_rounding_keeps_the_last_or_the_best_weights(
    monkeypatch: pytest.MonkeyPatch, kept: str, rounds: int, hard: list[float]
) -> None:
    # Without learning, each round only doubles the weights. Models are measured before the rounds,
    # after each if the best is kept, and after all of them.
    monkeypatch.setattr(rounding, "soft_and_hard", lambda *_: (1.0, hard.pop(0)))
    ways = {"last": NEVER_CERTAIN, "best": NEVER_CERTAIN._replace(keep_best=True)}
    monkeypatch.setitem(ROUNDINGS, "quick", ways[kept])
    monkeypatch.setattr(rounding, "prunable", lambda _: False)
    config = counter("learning_rate=1e-30")
    state = trainer_of(config, Path()).state
    attempt = state.attempt
    operation = attempt.model.operation
    assert operation is not None
    before = operation.signals.weight.detach().clone()
    state.rounding.weights = copy.deepcopy(attempt.model.state_dict())
    rounded = state.rounding.round(lambda: None, may_fail=False)
    assert rounded
    rounded.sharpen(1 / rounded.sharpness)
    assert rounded.operation
    torch.testing.assert_close(rounded.operation.signals.weight, before * 2**rounds)
    assert not hard


def test_rounding_that_may_lose_accuracy_keeps_a_soft_model_rather_than_a_wrong_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = iter([(1.0, 0.0), (0.0, 0.0)])
    monkeypatch.setattr(rounding, "soft_and_hard", lambda *_: next(measured))
    monkeypatch.setattr(rounding, "prunable", lambda _: False)
    state = trainer_of(counter(), Path()).state
    before = copy.deepcopy(state.attempt.model)
    state.rounding.weights = before.state_dict()
    rounded = state.rounding.round(lambda: None, may_fail=False)
    assert rounded
    assert_same_weights(rounded, before.state_dict())


def test_a_model_is_measured_on_the_same_strings_before_and_after_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = trainer_of(counter(), Path()).state
    validation, drawn = state.source.validation, list[list[Pair]]()

    def drawing(moment: Moment) -> list[Pair]:
        drawn.append(validation(moment))
        return drawn[-1]

    monkeypatch.setattr(state.source, "validation", drawing)
    state.rounding.weights = copy.deepcopy(state.attempt.model.state_dict())
    state.rounding.round(lambda: None, may_fail=False)
    first, *others = [[pair.source.tolist() for pair in pairs] for pairs in drawn]
    assert others
    assert all(each == first for each in others)


def test_accuracies_are_of_the_model_as_it_is_and_hard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(small_run(), tmp_path)
    model, source = trainer.state.attempt.model, trainer.source
    score, hard = source.score, list[bool]()

    def measured(model: Transducer, pairs: Sequence[Pair]) -> Scores:
        hard.append(model.hard)
        return score(model, pairs)

    monkeypatch.setattr(source, "score", measured)
    soft_and_hard(model, source, source.validation(trainer.state.attempt.moment)[:5])
    assert hard == [False, True]
    assert not model.hard


STREAM = "data.stream={steps: 8, sequences: 8, epochs: 1, attempts: 1}"


def test_a_run_that_a_rule_has_ended_is_rounded_and_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = RoundingKind(factor=2, batches=1, indecision=1e-4, max_rounds=30)
    monkeypatch.setitem(ROUNDINGS, "quick", brief)
    config = resolve(
        task="anbn",
        settings={"model": shaped("stack-rnn", count=2, hidden_size=10)},
        assignments=[
            "task.lengths.train=[1, 2]",
            "task.lengths.test=[3, 3]",
            "measure.strings=10",
            *(STREAM, "stop=null", "curriculum=null", "rounding=quick"),
        ],
    )
    # As if every answer were right, so that nothing that is done counts as harm.
    monkeypatch.setattr(rounding, "soft_and_hard", lambda *_: (1.0, 1.0))
    assert trainer_of(config, tmp_path).run(ignore).outcome == "attempts"
    kept = checkpoint.load(tmp_path, CPU)
    assert kept.model.config == kept.config.model
    assert kept.model.config.memory.arguments["count"] == 1
    with torch.no_grad():
        signals = kept.model.unroll(torch.tensor([[0, 0, 1, 1, 0, 1]])).signals
    assert float((signals * (1 - signals)).max()) < 0.01


def test_rounding_that_lowers_accuracy_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve(
        task="anbn",
        settings={"model": shaped("stack-rnn", count=2, hidden_size=10)},
        assignments=[
            "measure.strings=10",
            *(STREAM, "stop=null", "curriculum=null", "rounding=quick"),
        ],
    )
    looked_at: list[Transducer] = []

    def worse_and_worse(model: Transducer, *_: Any) -> tuple[float, float]:
        looked_at.append(model)
        return 1 / len(looked_at), 1.0

    monkeypatch.setattr(rounding, "soft_and_hard", worse_and_worse)
    trainer_of(config, tmp_path).run(ignore)
    kept = kept_in(tmp_path).state_dict()
    first = looked_at[0].state_dict()
    assert all(torch.equal(kept[name], first[name]) for name in kept)
