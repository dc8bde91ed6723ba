"""Runs whose weights or losses become infinite or NaN: what they save can be read."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from small_runs import ignore, small_run, small_stream, weights_of
from test_resuming import counting, resumed_run, trainer_in

from stacktrans.common.errors import UsageError
from stacktrans.settings.config import RunConfig
from stacktrans.training.rounding import ROUNDINGS, RoundingKind
from stacktrans.training.run_state import FailedAttempt

EXAMPLES = "examples={train: 20, development: 5, test: 5, epochs: 4}"
FAST = ("learning_rate=3e38", "gradient_clip=null")
KINDS = {
    "strings": lambda *changes: small_run("max_steps=12", "accuracy_every=1", *changes),
    "averaged": lambda *changes: small_run(
        "max_steps=12", "accuracy_every=1", "averaging=0.9", *changes
    ),
    "examples": lambda *changes: small_run(
        EXAMPLES, "stop={development: {}}", "batch_size=20", "max_steps=12", *changes
    ),
    "stream": lambda *changes: small_stream(
        "max_steps=60", *changes, stream="epochs: 3, attempts: 2"
    ),
    "rounded": lambda *changes: counting(
        "stop={converged: {patience: 1}}", "max_steps=60", *changes
    ),
}


def assert_readable(directory: Path, config: RunConfig) -> None:
    """Both checkpoints hold finite weights, and the run can be resumed."""
    for name in ("best", "last"):
        if (directory / name).exists():
            weights = weights_of(directory / name).values()
            assert all(weight.isfinite().all() for weight in weights), name
    resumed_run(directory, config)


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [*((kind, "rmsprop") for kind in KINDS), ("strings", "adam"), ("strings", "sgd")],
)
@pytest.mark.parametrize("restarts", ["restart.after=1000", "restart=null"])
def test_files_of_a_diverged_run_can_be_read(
    tmp_path: Path, kind: str, optimizer: str, restarts: str
) -> None:
    config = KINDS[kind](*FAST, f"optimizer={optimizer}", restarts)
    trainer = trainer_in(tmp_path / "run", config)
    if restarts == "restart=null" or kind == "stream":  # whose two attempts both fail
        with pytest.raises(FailedAttempt, match="the loss is not a finite number after batch"):
            trainer.run(ignore)
    else:
        assert trainer.run(ignore).attempts > 1
    assert_readable(tmp_path / "run", config)


def test_a_diverged_run_reports_whether_best_weights_exist(tmp_path: Path) -> None:
    config = small_run("max_steps=40", "restart=null", *FAST)
    with pytest.raises(FailedAttempt, match="nothing was measured before"):
        trainer_in(tmp_path / "run", config).run(ignore)


def test_the_best_weights_stay_when_a_run_diverges(tmp_path: Path) -> None:
    config = small_run("max_steps=40", "restart=null", "stop={converged: {}}")
    trainer = trainer_in(tmp_path / "run", config)
    best: dict[str, torch.Tensor] = {}

    def diverge(record: object) -> None:
        if not best:  # the first record, whose weights are kept
            best.update(deepcopy(trainer.state.attempt.average.state_dict()))
        trainer.state.attempt.optimizer.param_groups[0]["lr"] = 1e38

    with pytest.raises(FailedAttempt, match="best weights so far are in"):
        trainer.run(diverge)
    kept = weights_of(tmp_path / "run" / "best")
    assert kept.keys() == best.keys()
    assert all(torch.equal(weight, best[name]) for name, weight in kept.items())
    assert_readable(tmp_path / "run", config)


def test_rounding_that_diverges_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = RoundingKind(factor=1e30, batches=1, indecision=1e-9, max_rounds=3)
    monkeypatch.setitem(ROUNDINGS, "quick", wild)
    config = counting("stop={converged: {patience: 1}}")
    assert trainer_in(tmp_path / "run", config).run(ignore).outcome == "converged"
    assert_readable(tmp_path / "run", config)


def test_an_attempt_whose_validation_loss_is_nan_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([float("nan"), 2.0, 1.0])
    monkeypatch.setattr("stacktrans.training.streams.cross_entropy", lambda *_: next(found))
    config = small_stream(stream="epochs: 2, attempts: 2")
    trainer = trainer_in(tmp_path / "run", config)
    assert trainer.run(ignore).attempts == 2
    assert trainer.state.progress.best[0] == -1.0


def test_initial_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model\.initialization"):
        trainer_in(tmp_path / "run", small_run("initialization.scale.values=1e300"))
