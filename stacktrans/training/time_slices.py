"""Time slices of a race: some batches of a run, in any process, and its progress after them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from stacktrans.common.errors import StacktransError, is_out_of_memory
from stacktrans.common.registry import plugin_error
from stacktrans.model.devices import find_device
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.training.race_state import Candidate
from stacktrans.training.records import Record, ranking_measures
from stacktrans.training.run_directory import has_last
from stacktrans.training.run_state import FailedAttempt
from stacktrans.training.trainer import Trainer

OUT_OF_MEMORY = "not enough memory"
"""The reason for which a candidate failed, which may not last."""
trainers: dict[Path, Trainer] = {}
"""Trainers of this process by directory, so that they need not be read again."""


def train_time_slice(
    directory: Path,
    config: RunConfig,
    before: Candidate,
    size: int,
    device: str,
    data: Path | None,
    is_cancelled: Callable[[], bool],
) -> Candidate:
    """Train a run, in any process, until its time slice or the run ends or is cancelled; save it.

    Args:
        directory: directory of the run, with its last checkpoint.
        config: configuration of the run.
        before: its progress so far.
        size: batches of a time slice.
        device: where to compute.
        data: the folder of pairs that all processes share, for `make_source`.
        is_cancelled: whether to stop, after one batch at least.

    Returns:
        Its progress after the time slice.

    Raises:
        StacktransError: the run can't be read or written, or a plugin has failed.
    """
    records: list[Record] = []

    def is_complete() -> bool:
        has_ended = trainer.state.progress.ended is not None  # it is rounded, however long it takes
        return trainer.state.step >= before.step + size and not has_ended

    def is_over() -> bool:
        return is_complete() or (trainer.state.step > before.step and is_cancelled())

    try:
        cached = trainers.pop(directory, None)
        if cached and cached.state.step == before.step:
            trainer = cached
        else:  # another process has trained the last time slice
            resumed = bool(before.step) or has_last(directory)
            trainer = Trainer(config, directory, find_device(device), resumed=resumed, data=data)
        trainer.run_until(is_over, records.append)
        cut_short = not (trainer.ended or is_complete())
        candidate = _candidate(trainer, records, cut_short).after(before)
    except FailedAttempt as error:
        return before.model_copy(update={"failed": error.reason})
    except Exception as error:
        if is_out_of_memory(error):
            return before.model_copy(update={"failed": OUT_OF_MEMORY})
        if message := plugin_error(error):  # which can't be told in another process
            raise StacktransError(message) from error
        raise
    trainers[directory] = trainer
    return candidate


def _candidate(trainer: Trainer, records: Sequence[Record], cut_short: bool) -> Candidate:
    """The progress of a run after a time slice, given the records of the time slice."""
    state, progress, attempt = trainer.state, trainer.state.progress, trainer.state.attempt
    record = records[-1] if records else None
    # The batches of rounding have no records, and decide nothing once the run has ended.
    is_last = record and (progress.ended or record.step == state.step)
    number = state.attempts.number
    if not (record and is_last and record.attempt == number and ranking_measures(record)):
        record = _measured(trainer, attempt.average)
    best = ranking_measures(record)
    kept = (progress.fallback or progress.best)[-len(best) :]
    if len(kept) == len(best):
        best = dict(zip(best, kept, strict=True))
    elif kept:  # by the training loss alone, when accuracy was not measured
        best = ranking_measures(_measured(trainer, state.load_best().model))
    train, test = record.train or record.development, record.test or record.development
    return Candidate(
        step=state.step,
        seconds=round(progress.seconds, 1),
        ended=trainer.ended,
        loss=attempt.losses.running,
        train=train.coarse if train else None,
        test=test.coarse if test else None,
        has_fallback=bool(progress.fallback),
        best=best,
        cut_short=cut_short,
    )


def _measured(trainer: Trainer, model: Transducer) -> Record:
    """A record with the measurements of a model, however high its loss is."""
    source, state, attempt = trainer.source, trainer.state, trainer.state.attempt
    loss = source.in_nats("100%") if attempt.losses.running is None else attempt.losses.running
    # The values after the loss are not used.
    record = Record(
        state.step, state.attempts.number, state.progress.seconds, loss, 0.0, attempt.rate, None, {}
    )
    source.measure(model, attempt.moment._replace(loss=0.0), record)
    return record
