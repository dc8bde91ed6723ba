"""A turn of one of several runs that learn side by side: so many batches, then it waits."""

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from stacktrans.common.errors import StacktransError, is_out_of_memory
from stacktrans.common.plugins import blamed
from stacktrans.common.randomness import Purpose
from stacktrans.common.registry import use_plugins
from stacktrans.model import checkpoint
from stacktrans.model.devices import find_device
from stacktrans.settings.resolve import resolve
from stacktrans.training.records import Record
from stacktrans.training.saving import FailedStart, has_last
from stacktrans.training.standings import Standing
from stacktrans.training.trainer import Trainer

_trainers: dict[Path, Trainer] = {}
"""Those that this process has had turns with, so that they need not be read again."""


def take_turn(
    directory: Path,
    before: Standing,
    size: int,
    device: str,
    plugins: list[str],
    unwanted: Callable[[], bool],
) -> Standing:
    """Train a run for so many batches, or until it has ended or is unwanted, and save it.

    Its directory has a configuration and, if it had a turn before, what that has left.

    Returns:
        How it stands then.

    Raises:
        StacktransError: it can't be read or written, or the code of others has failed.
    """
    use_plugins(*plugins)
    try:
        trainer = _trainer(directory, before.step, find_device(device))
        records = deque[Record](maxlen=1)
        trainer.run_until(before.step + size, unwanted, records.append)
        standing = _standing(trainer, records).after(before)
    except Exception as error:
        if isinstance(error, FailedStart):
            return before.model_copy(update={"failed": error.reason})
        if is_out_of_memory(error):
            return before.model_copy(update={"failed": "not enough memory"})
        if said := blamed(error):  # which would be forgotten on the way to another process
            raise StacktransError(said) from error
        raise
    _trainers[directory] = trainer
    return standing


def forget(directory: Path) -> None:
    """Forget the runs in a directory, which others may change from now on."""
    for place in [place for place in _trainers if place.parent == directory]:
        del _trainers[place]


def _trainer(directory: Path, since: int, device: torch.device) -> Trainer:
    known = _trainers.pop(directory, None)
    if known and known.state.step == since:  # or another process has had a turn with it
        return known
    if since or has_last(directory):
        return Trainer.resume(directory, [], device)
    return Trainer(resolve(config=str(directory / checkpoint.CONFIG)), directory, device, "")


def _standing(trainer: Trainer, last: Iterable[Record]) -> Standing:
    """How a run stands after a turn, measured however high its loss is, as others are."""
    state, progress, start = trainer.state, trainer.state.progress, trainer.state.start
    now = (state.step, state.starts.attempt)
    measured = ((each.train, each.test) for each in last if (each.step, each.attempt) == now)
    train, test = next(measured, (None, None))
    if not (train and test):  # these weights were not measured in the turn
        train, test = trainer.source.accuracies(
            start.average.model, Purpose.VALIDATION, start.moment
        )
    return Standing(
        step=state.step,
        seconds=round(progress.seconds, 1),
        ended=progress.ended or trainer.budget_spent(),
        loss=start.losses.running,
        train=train.coarse,
        test=test.coarse,
        fine=test.fine,
    )
