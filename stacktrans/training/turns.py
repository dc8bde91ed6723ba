"""A turn of one of several runs that learn side by side: so many batches, then it waits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from stacktrans.common.errors import CheckpointError, StacktransError
from stacktrans.common.randomness import Purpose
from stacktrans.common.registry import use_plugins
from stacktrans.model import checkpoint
from stacktrans.model.devices import find_device
from stacktrans.settings.resolve import resolve
from stacktrans.training.trainer import Trainer


@dataclass(frozen=True)
class Standing:
    """How far a run has come in its turns.

    Attributes:
        step: batches that it was trained on.
        seconds: that this took.
        ended: the rule or the budget that has ended its training, if one has.
        failed: why it can't continue, if it can't.
        loss: mean of its recent losses, nats a symbol; None before there is one.
        train: coarse accuracy on strings of training lengths.
        test: coarse accuracy on longer strings.
        fine: fine accuracy on these.
    """

    step: int = 0
    seconds: float = 0.0
    ended: str | None = None
    failed: str | None = None
    loss: float | None = None
    train: float = 0.0
    test: float = 0.0
    fine: float = 0.0

    @property
    def merit(self) -> tuple[Any, ...]:
        """What runs are compared by, the more the better: strings longer than trained on first."""
        loss = float("inf") if self.loss is None else self.loss
        return self.ended == "solved", not self.failed, self.test, self.fine, -loss


def take_turn(directory: Path, since: int, until: int, device: str, plugins: list[str]) -> Standing:
    """Train a run from its n-th batch until it has had so many, or has ended, and save it.

    Its directory has a configuration and, if it had a turn before, what that has left.

    Returns:
        How it stands then.
    """
    use_plugins(*plugins)
    try:
        trainer = _trainer(directory, since, find_device(device))
        trainer.run_until(until)
    except StacktransError as error:
        return Standing(step=until, failed=str(error))
    _trainers[directory] = trainer
    return _standing(trainer)


_trainers: dict[Path, Trainer] = {}
"""Those that this process has had turns with, so that they need not be read again."""


def _trainer(directory: Path, since: int, device: torch.device) -> Trainer:
    known = _trainers.pop(directory, None)
    if known and known.state.step == since:  # or another process has had a turn with it
        return known
    try:
        checkpoint.last_of(directory)
    except CheckpointError:
        config = resolve(config=str(directory / checkpoint.CONFIG))
        return Trainer(config, directory, device, "")
    return Trainer.resume(directory, [], device)


def _standing(trainer: Trainer) -> Standing:
    """How a run stands after a turn, measured however high its loss is, as others are."""
    state, progress = trainer.state, trainer.state.progress
    start, purpose = state.start, Purpose.VALIDATION
    train, test = trainer.source.accuracies(start.average.model, purpose, start.moment)
    return Standing(
        step=state.step,
        seconds=round(progress.seconds, 1),
        ended=progress.ended or trainer.budget_spent(),
        loss=start.losses.running,
        train=train.coarse,
        test=test.coarse,
        fine=test.fine,
    )
