"""Training on examples that are drawn once (hao2018, section 5)."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from shapes import shaped
from small_runs import CPU, assert_resumes_exactly, ignore, records_of, trainer_of

from stacktrans.common.errors import UsageError
from stacktrans.inference.scores import score
from stacktrans.memory.buffers import buffer_penalty
from stacktrans.model import checkpoint
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.training.records import SUMMARY
from stacktrans.training.sources import Examples, Moment
from stacktrans.training.trainer import Trainer


def small_run(*changes: str, task: str = "xor", **model: Any) -> RunConfig:
    examples = "examples={train: 24, development: 12, test: 30, epochs: 4}"
    return resolve(
        task=task,
        recipe="paper",
        settings={"model": shaped(**{"memory": "stack", **model})},
        assignments=[examples, "batch_size=10", *changes],
    )


def examples_of(trainer: Trainer) -> Examples:
    assert isinstance(trainer.source, Examples)
    return trainer.source


def test_an_epoch_has_each_example_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    examples = examples_of(trainer_of(small_run(), tmp_path))
    epochs = []
    for epoch in range(2):
        batches = [examples.chosen(Moment(1, 3 * epoch + place)) for place in range(3)]
        assert [len(batch) for batch in batches] == [10, 10, 4]
        epochs.append([tuple(pair.source.tolist()) for batch in batches for pair in batch])
    everything = Counter(tuple(pair.source.tolist()) for pair in examples.train)
    assert Counter(epochs[0]) == Counter(epochs[1]) == everything
    assert epochs[0] != epochs[1]
    assert {len(pair.source) for pair in examples.test} == {24}


def test_a_run_ends_with_its_epochs_and_tells_of_all_three_sets(tmp_path: Path) -> None:
    trainer = trainer_of(small_run("development.patience=100"), tmp_path)
    summary = trainer.run(ignore)
    assert (summary.outcome, summary.steps) == ("epochs", 12)
    assert summary.train
    assert summary.development
    assert summary.test
    counts = (summary.train.count, summary.development.count, summary.test.count)
    assert counts == (24, 12, 30)
    records = records_of(tmp_path)
    assert [record["step"] for record in records] == [3, 6, 9, 12]
    kept, examples = checkpoint.load(tmp_path, CPU), examples_of(trainer)
    best = score(kept.predictor, kept.layout, examples.development)
    assert best.symbol_accuracy == max(record["development"]["symbols"] for record in records)
    written = json.loads((tmp_path / SUMMARY).read_text())
    assert written["development"]["symbols"] == best.symbol_accuracy


def test_a_run_ends_after_epochs_without_progress_on_the_development_set(tmp_path: Path) -> None:
    # Nothing is learned, so no epoch is better than the first; of equally good weights, the most
    # discrete are kept.
    config = small_run("learning_rate=1e-30", "weight_decay=0", "development.patience=2")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.steps) == ("development", 9)
    records = records_of(tmp_path)
    assert len({record["development"]["symbols"] for record in records}) == 1
    assert summary.best_step == max(records, key=lambda each: each["discreteness"])["step"]


@pytest.mark.parametrize(("buffered", "stop_at"), [(False, 2), (False, 3), (False, 8), (True, 8)])
def test_an_interrupted_run_resumes_bit_for_bit(
    tmp_path: Path, buffered: bool, stop_at: int
) -> None:
    config = small_run("development.patience=100", buffered=buffered)
    assert_resumes_exactly(tmp_path, config, stop_at)


@pytest.mark.parametrize(
    ("loss_per", "factor"), [("symbol", 1 / 120), ("string", 1 / 10), ("batch", 1)]
)
def test_loss_per_scales_gradients(tmp_path: Path, loss_per: str, factor: float) -> None:
    """The only batch has ten strings of twelve symbols."""
    examples = "examples={train: 10, development: 1, test: 1, epochs: 1}"
    trainer = trainer_of(small_run(f"loss_per={loss_per}", examples), tmp_path)
    whole = trainer_of(small_run("loss_per=batch", examples), tmp_path)
    norms = []
    for each in (trainer, whole):
        attempt = each.state.attempt
        attempt.train_on_batch()
        gradients = [weight.grad.norm() for weight in attempt.weights if weight.grad is not None]
        norms.append(torch.stack(gradients).norm().item())
    assert norms[0] == pytest.approx(norms[1] * factor, rel=1e-4)


def test_the_penalty_of_buffer_strengths_reaches_the_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradients = []
    for weight in (0, 3):
        monkeypatch.setattr(
            "stacktrans.training.objective.buffer_penalty",
            lambda s, w=weight: w * buffer_penalty(s),
        )
        attempt = trainer_of(small_run(buffered=True), tmp_path).state.attempt
        attempt.train_on_batch()
        assert attempt.model.operation is not None
        gradient = attempt.model.operation.signals.weight.grad
        assert gradient is not None
        gradients.append(gradient.clone())
    names = attempt.model.signal_names
    changed = {
        name
        for name, before, after in zip(names, *gradients, strict=True)
        if not torch.equal(before, after)
    }
    assert {"input read", "output write"} <= changed


def test_examples_and_stopping_by_them_need_each_other() -> None:
    for changes in (("data=null",), ("stop={solved: {}}",)):
        with pytest.raises(UsageError, match="examples need each other"):
            small_run(*changes)
