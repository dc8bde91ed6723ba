"""A turn of one of several runs that learn side by side: so many batches, then it waits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stacktrans.common.errors import StacktransError, is_out_of_memory
from stacktrans.common.registry import blamed
from stacktrans.model.devices import find_device
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.training.records import Record, Standing, merit
from stacktrans.training.saving import FailedStart, has_last
from stacktrans.training.trainer import Trainer

_trainers: dict[Path, Trainer] = {}
"""Those that this process has had turns with, so that they need not be read again."""


@dataclass(frozen=True)
class Turns:
    """Trains a run for a turn, in any process, when called by its name.

    Attributes:
        folder: of all runs; each has a directory with what its turns before have left.
        configs: by name.
        standings: how they stand.
        size: batches of a turn.
        device: where to compute.
        data: the folder of pairs that all share, for `prepared`.
    """

    folder: Path
    configs: Mapping[str, RunConfig]
    standings: Mapping[str, Standing]
    size: int
    device: str
    data: Path | None

    def __call__(self, name: str, unwanted: Callable[[], bool]) -> Standing:
        """Train until the turn or the run has ended, or is unwanted, and save it.

        Returns:
            How it stands then.

        Raises:
            StacktransError: it can't be read or written, or the code of others has failed.
        """
        before, directory = self.standings[name], self.folder / name
        try:
            trainer = self._trainer(name, before.step)
            records: list[Record] = []
            trainer.run_until(before.step + self.size, unwanted, records.append)
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

    def _trainer(self, name: str, since: int) -> Trainer:
        directory = self.folder / name
        known = _trainers.pop(directory, None)
        if known and known.state.step == since:  # or another process has had a turn with it
            return known
        config, device = self.configs[name], find_device(self.device)
        resumed = bool(since) or has_last(directory)
        return Trainer(config, directory, device, "", resumed=resumed, data=self.data)


def forget(directory: Path) -> None:
    """Forget the runs in a directory, which others may change from now on."""
    for place in [place for place in _trainers if place.parent == directory]:
        del _trainers[place]


def _standing(trainer: Trainer, records: Sequence[Record]) -> Standing:
    """How a run stands after a turn in which it had some records."""
    state, progress, start = trainer.state, trainer.state.progress, trainer.state.start
    now = (state.step, state.starts.attempt)
    measured = (each for each in records if (each.step, each.attempt) == now and merit(each))
    record = next(measured, None) or _measured(trainer, start.average.model)
    best = merit(record)
    kept = progress.best[-len(best) :]
    if len(kept) == len(best):
        best = dict(zip(best, kept, strict=True))
    elif kept:  # by another rule than accuracy, which was not measured then
        best = merit(_measured(trainer, state.load_best().model))
    train, test = (each or record.development for each in (record.train, record.test))
    return Standing(
        step=state.step,
        seconds=round(progress.seconds, 1),
        ended=progress.ended or trainer.budget_spent(),
        loss=start.losses.running,
        train=train.coarse if train else None,
        test=test.coarse if test else None,
        best=best,
    )


def _measured(trainer: Trainer, model: Transducer) -> Record:
    """A record of a model that was not measured in its turn, however high its loss is."""
    source, start = trainer.source, trainer.state.start
    loss = source.nats("100%") if start.losses.running is None else start.losses.running
    step, attempt = trainer.state.step, trainer.state.starts.attempt
    # What follows the loss does not matter here.
    record = Record(step, attempt, trainer.state.progress.seconds, loss, 0.0, start.rate, None, {})
    source.measure(model, start.moment._replace(loss=0.0), record)
    return record
