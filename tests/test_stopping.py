"""When a run ends, and when it starts again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import CPU, CURRICULUM, ignore, records_of, small_run, trainer_of

from stacktrans.common.randomness import Purpose
from stacktrans.inference.scores import Scores
from stacktrans.model.transducer import Transducer
from stacktrans.tasks.layout import Pair
from stacktrans.training import sources
from stacktrans.training.records import Accuracy, Record
from stacktrans.training.run_state import FailedAttempt
from stacktrans.training.sources import DataSource, Moment
from stacktrans.training.stopping import EarlyStopping
from stacktrans.training.trainer import Trainer


@pytest.mark.parametrize(
    ("solved_accuracy", "found", "best_steps"),
    [(1, [0.9, 1, 0.999, 1, 1], [20, 40, 50]), (0.99, [0.9, 0.995, 0.985, 0.99, 0.991], [20])],
)
def test_training_stops_when_solved_twice_in_a_row(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    solved_accuracy: float,
    found: list[float],
    best_steps: list[int],
) -> None:
    def measured(_: DataSource, __: Transducer, purpose: Purpose, ___: Moment) -> list[Accuracy]:
        coarse = found.pop(0) if purpose is Purpose.VALIDATION else 1.0
        return 2 * [Accuracy(coarse, coarse, 20, coarse)]

    monkeypatch.setattr(DataSource, "accuracies", measured)
    few = ("max_steps=1000", "rounding=null")
    config = small_run(*few, f"solved.accuracy={solved_accuracy}")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.steps) == ("solved", 50)
    best = [record for record in records_of(tmp_path) if record["step"] in best_steps]
    assert summary.best_step == max(best, key=lambda each: each["discreteness"])["step"]
    target = f"{100 * solved_accuracy:g}%"
    assert summary.rule == f"coarse accuracy reached {target} in the last 2 measurements"


@pytest.mark.parametrize(("solved_accuracy", "strings"), [(1, 100), (0.5, 900), (0.1, 1000)])
def test_validation_continues_while_the_task_may_be_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solved_accuracy: float, strings: int
) -> None:
    monkeypatch.setattr(sources, "score", one_in_four_right)
    config = small_run(f"solved.accuracy={solved_accuracy}", "measure.strings=1000", "max_steps=10")
    trainer_of(config, tmp_path).run(ignore)
    (record,) = [record for record in records_of(tmp_path) if record["test"]]
    assert record["test"] == {"coarse": 0.25, "fine": 0.25, "count": strings, "symbols": 0.25}


def one_in_four_right(_: Any, __: Any, pairs: list[Pair]) -> Scores:
    numbers = np.arange(len(pairs))
    right = np.where(numbers % 4 == 0, 1, 0)
    return Scores(
        numbers, right.astype(np.float64), right, np.ones_like(right), np.zeros_like(right)
    )


def test_a_run_stuck_on_longer_strings_restarts(tmp_path: Path) -> None:
    changes = ("max_steps=27", "loss_every=1", "restart.after=10", "restart.loss=0.0001")
    # Three batches make the range whole; ten batches later it is not learned.
    summary = trainer_of(small_run(*changes, CURRICULUM % 100), tmp_path).run(ignore)
    assert summary.attempts == 3
    lengths = [record["lengths"][1] for record in records_of(tmp_path)]
    assert lengths == 2 * [3, *[5] * 12] + [3]


def test_training_stops_at_convergence_of_the_perplexity(tmp_path: Path) -> None:
    config = small_run(
        "stop={converged: {patience: 3}}", "learning_rate=0.000001", "settle=null", "averaging=0"
    )
    summary = trainer_of(config, tmp_path).run(ignore)
    losses = [record["loss"] for record in records_of(tmp_path)]
    best = losses.index(min(losses))
    assert summary.outcome == "converged"
    assert len(losses) == best + 1 + 3
    assert summary.best_step == 5 * (best + 1)


def test_training_stops_at_its_time_limit(tmp_path: Path) -> None:
    summary = trainer_of(small_run("time_limit=0.001"), tmp_path).run(ignore)
    assert (summary.outcome, summary.steps) == ("time_limit", 1)


def test_a_run_whose_loss_does_not_fall_restarts(tmp_path: Path) -> None:
    config = small_run("max_steps=35", "restart.after=10", "restart.loss=0.0001")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert summary.attempts == 4
    assert [record["attempt"] for record in records_of(tmp_path)] == [1, 1, 2, 2, 3, 3, 4]
    one = small_run("max_steps=10")
    trainer_of(one, tmp_path / "one").run(ignore)
    assert records_of(tmp_path / "one") == records_of(tmp_path)[:2]


def test_a_loss_that_is_not_finite_starts_a_new_attempt_or_ends_the_run(tmp_path: Path) -> None:
    for changes in (("restart.after=100",), ("restart=null",)):
        trainer = trainer_of(small_run("max_steps=12", *changes), tmp_path / changes[0])
        with torch.no_grad():
            trainer.state.attempt.model.classifier.bias.fill_(float("nan"))
        if changes == ("restart=null",):
            with pytest.raises(FailedAttempt, match="not a finite number after batch 1"):
                trainer.run(ignore)
        else:
            assert trainer.run(ignore).attempts == 2


def test_patience_restarts_with_each_attempt(tmp_path: Path) -> None:
    # No attempt has as many records as would end it, all together have many times more.
    restarting = ("restart={after: null, give_up_after: 10}", "learning_rate=1e-30")
    config = small_run("stop={converged: {patience: 2}}", "max_steps=100", *restarting)
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("max_steps", 10)


def test_a_loss_that_stays_the_same_does_not_improve() -> None:
    rule = EarlyStopping(small_run("stop={converged: {patience: 2}}"))
    record = Record(1, 1, 0.0, 0.5, 2.0, 0.1, None, {})
    judged = [rule.judge(record, None) for _ in range(3)]  # type: ignore[arg-type]
    assert judged == [None, None, "converged"]


def test_a_solved_run_stays_solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataSource, "accuracies", lambda *_: 2 * [Accuracy(1.0, 1.0, 20, 1.0)])
    first = trainer_of(small_run(), tmp_path).run(ignore)
    assert (first.outcome, first.steps) == ("solved", 20)
    assert Trainer.resume(tmp_path, [], CPU).run(ignore) == first


def test_a_task_is_solved_after_the_configured_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse = iter([1.0, 1.0, 0.9, 1.0, 1.0, 1.0, 1.0])

    monkeypatch.setattr(
        DataSource, "accuracies", lambda *_: 2 * [Accuracy(next(coarse), 1.0, 20, 1.0)]
    )
    config = small_run("solved.times=3", "rounding=null")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.steps) == ("solved", 60)
