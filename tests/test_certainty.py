"""Making a model certain of what it does: rounding, and what comes of it."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from test_training import CPU, assert_same_run, ignore, records_of

from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RoundingConfig, RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.layouts import Pair
from stacktrans.training.certainty import accuracies, round_signals
from stacktrans.training.records import Accuracy
from stacktrans.training.streams import StreamTrainer
from stacktrans.training.trainer import Interrupted, Trainer

RIGHT, WRONG = (Accuracy(share, share, 10, share) for share in (1.0, 0.0))


def counter(*changes: str) -> RunConfig:
    small = (
        "hidden_size=10",
        "task.lengths.train=[1, 2]",
        "task.lengths.test=[3, 3]",
        "accuracy_every=5",
        "accuracy_loss=null",
        "validation_count=10",
        "rounding={factor: 2, batches: 2, indecision: 1e-4, most: 3}",
        "restart_after=1000",
        "solved_times=2",
    )
    model = {"memory": "stack-rnn", "memory_count": 2}
    return resolve(task="anbn", settings={"model": model}, assignments=[*small, *changes])


class Certain(Trainer):
    """A trainer that finds every answer right, and those without degrees as it is told."""

    hard: Sequence[float] = (1.0,)

    def _measure_both(self, _: Any) -> tuple[Accuracy, Accuracy]:
        return RIGHT, RIGHT

    def _accuracies(self, model: Transducer) -> tuple[float, float]:
        return 1.0, self.hard[min(self.progress.attempt, len(self.hard)) - 1]


def test_a_start_that_is_wrong_without_degrees_gives_way_to_the_next(tmp_path: Path) -> None:
    trainer = Certain(counter(), tmp_path, CPU, "stacktrans train")
    trainer.hard = [0.5, 0.9, 1.0]
    summary = trainer.run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", 3)
    # 10 batches until it is solved twice running, and at most 6 to round it.
    assert 30 < summary.steps <= 48


def test_a_run_that_does_not_start_again_keeps_what_is_wrong_without_degrees(
    tmp_path: Path,
) -> None:
    trainer = Certain(counter("restart_after=null", "give_up_after=null"), tmp_path, CPU, "")
    trainer.hard = [0.5]
    summary = trainer.run(ignore)
    assert (summary.outcome, summary.attempts) == ("solved", 1)


def test_a_start_is_given_up_after_so_many_batches(tmp_path: Path) -> None:
    class Wrong(Certain):
        def _measure_both(self, _: Any) -> tuple[Accuracy, Accuracy]:
            return WRONG, WRONG

    changes = ("give_up_after=10", "max_steps=25", "restart_after=null")
    summary = Wrong(counter(*changes), tmp_path, CPU, "").run(ignore)
    assert (summary.outcome, summary.attempts, summary.steps) == ("max_steps", 3, 25)
    assert [record["attempt"] for record in records_of(tmp_path)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("batch", [10, 11, 13])
def test_a_run_that_is_interrupted_while_it_is_rounded_goes_on_bit_for_bit(
    tmp_path: Path, batch: int
) -> None:
    def trainer_in(place: str) -> Certain:
        directory = tmp_path / place
        directory.mkdir()
        return Certain(counter(), directory, CPU, "stacktrans train")

    trainer_in("whole").run(ignore)
    parted = trainer_in("parted")
    original = parted._train_on_batch

    def training() -> torch.Tensor:
        if parted.progress.step + 1 == batch:
            parted.stop_requested = signal.SIGINT
        return original()

    parted._train_on_batch = training  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        parted.run(ignore)
    Certain.resume(tmp_path / "parted", [], CPU).run(ignore)
    assert_same_run(tmp_path / "whole", tmp_path / "parted")


@pytest.mark.parametrize(("kept", "rounds"), [("last", 3), ("best", 2)])
def test_of_a_rounding_the_last_weights_are_kept_or_the_best(kept: str, rounds: int) -> None:
    model = Transducer(counter().model, 2, 2)
    operation = model.operation
    assert operation is not None
    before = operation.signals.weight.detach().clone()
    found = iter([(1.0, 0.8), (1.0, 0.9), (0.9, 0.8)])  # as it is, and hard
    rounding = RoundingConfig(factor=2, batches=1, indecision=0.1, most=3)
    measured = (lambda _: next(found)) if kept == "best" else None
    round_signals(model, rounding, lambda: 1.0, measured)
    torch.testing.assert_close(operation.signals.weight, before * 2**rounds)


def test_of_weights_that_are_as_good_those_are_kept_that_were_rounded_further() -> None:
    model = Transducer(counter().model, 2, 2)
    operation = model.operation
    assert operation is not None
    before = operation.signals.weight.detach().clone()
    rounding = RoundingConfig(factor=2, batches=1, indecision=0.1, most=3)
    round_signals(model, rounding, lambda: 1.0, lambda _: (1.0, 1.0))
    torch.testing.assert_close(operation.signals.weight, before * 8)


def test_accuracies_are_of_the_model_as_it_is_and_hard() -> None:
    model = Transducer(counter().model, 2, 2)
    hard: list[bool] = []

    class Layout:
        """Sees how a model is when it is measured."""

        def rows(self, pairs: list[Pair]) -> list[list[int]]:
            hard.append(model.hard)
            return []

    with pytest.warns(RuntimeWarning):
        accuracies(model, Layout(), [])  # type: ignore[arg-type]
    assert hard == [False, True]
    assert not model.hard


def test_a_run_that_a_rule_has_ended_is_rounded_and_pruned(tmp_path: Path) -> None:
    config = resolve(
        task="anbn",
        settings={"model": {"memory": "stack-rnn", "memory_count": 2, "hidden_size": 10}},
        assignments=[
            "task.lengths.train=[1, 2]",
            "task.lengths.test=[3, 3]",
            "validation_count=10",
            "training.stream={steps: 8, sequences: 8, empty_after: null, first_longest: null, "
            "rate_decay: 0.5, least_rate: 1e-9, epochs: 1, starts: 1, judged_after: 1}",
            "rounding={factor: 2, batches: 1, indecision: 1e-4, most: 30}",
        ],
    )
    trainer = StreamTrainer(config, tmp_path, CPU, "stacktrans train")
    # As if every answer were right, so that nothing that is done counts as harm.
    trainer._accuracies = lambda model: (1.0, 1.0)  # type: ignore[method-assign]
    assert trainer.run(ignore).outcome == "starts"
    kept = checkpoint.load(tmp_path, CPU)
    assert kept.model.config.memory_count == kept.config.model.memory_count == 1
    with torch.no_grad():
        signals = kept.model.unroll(torch.tensor([[0, 0, 1, 1, 0, 1]])).signals
    assert float((signals * (1 - signals)).max()) < 0.01


def test_what_does_harm_is_not_kept(tmp_path: Path) -> None:
    config = resolve(
        task="anbn",
        settings={"model": {"memory": "stack-rnn", "memory_count": 2, "hidden_size": 10}},
        assignments=[
            "validation_count=10",
            "training.stream={steps: 8, sequences: 8, empty_after: null, first_longest: null, "
            "rate_decay: 0.5, least_rate: 1e-9, epochs: 1, starts: 1, judged_after: 1}",
            "rounding={factor: 2, batches: 1, indecision: 1e-4, most: 3}",
        ],
    )
    trainer = StreamTrainer(config, tmp_path, CPU, "stacktrans train")
    looked_at: list[Transducer] = []

    def worse_and_worse(model: Transducer) -> tuple[float, float]:
        looked_at.append(model)
        return 1 / len(looked_at), 1.0

    trainer._accuracies = worse_and_worse  # type: ignore[method-assign]
    trainer.run(ignore)
    kept = checkpoint.load(tmp_path, CPU).model.state_dict()
    first = looked_at[0].state_dict()
    assert all(torch.equal(kept[name], first[name]) for name in kept)
