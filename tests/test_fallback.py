"""Solutions without a machine: a run falls back on one if no solution with a machine follows."""

import signal
from pathlib import Path

import pytest
from small_runs import CPU, ignore, trainer_of
from test_rounding import WRONG, assert_same_weights, counter, mark_answers_right

from stacktrans.model import checkpoint
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.training.interrupts import Interrupted
from stacktrans.training.records import Record
from stacktrans.training.run_state import FALLBACK
from stacktrans.training.sources import DataSource
from stacktrans.training.stateful import Weights
from stacktrans.training.stopping import EarlyStopping
from stacktrans.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("brief_rounding")


def machine_found(monkeypatch: pytest.MonkeyPatch, number: int = 0) -> list[Weights]:
    """Let only solution `number` have a machine, or none if 0; return all solutions."""
    solutions: list[Weights] = []

    def lacks_machine(solution: Checkpoint, _: object) -> bool:
        solutions.append(solution.model.state_dict())
        return len(solutions) != number

    mark_answers_right(monkeypatch)
    monkeypatch.setattr("stacktrans.training.trainer.lacks_machine", lacks_machine)
    return solutions


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_solution_without_a_machine_gives_way_to_one_with_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("stacktrans.training.run_state.PATIENCE", 10)
    solutions = machine_found(monkeypatch, number)
    records: list[Record] = []
    summary = trainer_of(counter("rounding=machine"), tmp_path).run(records.append)
    assert (summary.outcome, summary.attempts) == ("solved", number)
    assert summary.best_step >= records[-2].step
    assert_same_weights(checkpoint.load(tmp_path, CPU).model, solutions[-1])


@pytest.mark.parametrize(("changes", "attempts", "solved"), [([], 3, 3), (["max_steps=15"], 2, 1)])
def test_a_solution_without_a_machine_is_kept_if_none_with_one_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str], attempts: int, solved: int
) -> None:
    solutions = machine_found(monkeypatch)
    summary = trainer_of(counter("rounding=machine", *changes), tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("no_machine", attempts)
    assert "no machine agrees with the model" in summary.rule
    assert len(solutions) == solved
    assert 10 <= summary.best_step <= 15  # after the rounding of the first solution
    assert_same_weights(checkpoint.load(tmp_path, CPU).model, solutions[0])
    assert not (tmp_path / FALLBACK).exists()


def test_a_solution_without_a_machine_is_better_than_one_that_is_nearly_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solutions = machine_found(monkeypatch)
    monkeypatch.setattr(DataSource, "generalization", lambda *_: 0.95 if solutions else 1.0)
    summary = trainer_of(counter("rounding=machine"), tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts, len(solutions)) == ("no_machine", 3, 1)
    assert_same_weights(checkpoint.load(tmp_path, CPU).model, solutions[0])


@pytest.mark.parametrize("rule", ["exceptions", "development"])
def test_a_solution_without_a_machine_is_better_than_what_another_rule_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    solutions = machine_found(monkeypatch)
    judge = EarlyStopping.judge
    monkeypatch.setattr(EarlyStopping, "judge", lambda *given: rule if solutions else judge(*given))
    summary = trainer_of(counter("rounding=machine"), tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("no_machine", 2)
    assert_same_weights(checkpoint.load(tmp_path, CPU).model, solutions[0])


def test_a_solution_counts_only_after_the_test_for_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_found(monkeypatch, 1)
    stopped = trainer_of(counter("rounding=machine"), tmp_path)

    def stop(*_: object) -> bool:
        stopped.stop_requested = signal.SIGINT
        return False

    with monkeypatch.context() as stopping:
        stopping.setattr("stacktrans.training.trainer.lacks_machine", stop)
        with pytest.raises(Interrupted):
            stopped.run(ignore)
    summary = Trainer.resume(tmp_path, [], CPU).run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", 1)


def test_a_model_without_a_memory_has_to_have_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solutions = machine_found(monkeypatch, 2)
    config = counter("rounding=machine", memory={"name": "none"})
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts, len(solutions)) == ("solved", 2, 2)


def test_a_run_that_is_resumed_still_has_its_solution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solutions = machine_found(monkeypatch)
    stopped = trainer_of(counter("rounding=machine"), tmp_path)

    def stop(record: Record) -> None:
        if record.attempt == 2:
            stopped.stop_requested = signal.SIGINT

    with pytest.raises(Interrupted):
        stopped.run(stop)
    monkeypatch.setattr(DataSource, "accuracies", lambda *_: (WRONG, WRONG))
    resumed = Trainer.resume(tmp_path, [], CPU)
    assert resumed.run(ignore).outcome == "no_machine"
    assert_same_weights(checkpoint.load(tmp_path, CPU).model, solutions[0])
    again = Trainer.resume(tmp_path, [], CPU)
    assert again.run(ignore).outcome == "no_machine"
    assert_same_weights(checkpoint.load(tmp_path, CPU).model, solutions[0])
