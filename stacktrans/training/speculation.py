"""Attempts that other processes train speculatively, and how a run continues with one."""

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Self

import torch

from stacktrans.common.errors import StacktransError
from stacktrans.common.processes import Process, Work
from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.training.make_source import save_pairs
from stacktrans.training.records import METRICS, SOLUTIONS
from stacktrans.training.run_directory import has_last
from stacktrans.training.run_state import RunState
from stacktrans.training.sources import DataSource


class SpeculativeAttempts:
    """The next attempts of a run, trained by other processes in case they are needed.

    An attempt depends on nothing but the seed and its number, so it can be trained before it is
    known whether it will be needed; the run takes over its result. There are none with one worker,
    or where nothing restarts.

    Args:
        source: the data of the run.
        directory: directory of the run.
        device: where to compute.
        train_attempt: trains an attempt in any process; called with the configuration, a directory
            for the attempt, the device, its number, the folder of pairs that `make_source` takes,
            and whether it is cancelled.
    """

    FOLDER = ".speculative"
    """Their folder in the directory of the run."""

    def __init__(
        self, source: DataSource, directory: Path, device: torch.device, train_attempt: Work
    ) -> None:
        self.config, self._task = source.config, source.task
        self.directory, self.device = directory, device
        self._train_attempt = train_attempt
        self.running: dict[int, tuple[Process, Future[None]]] = {}

    def __enter__(self) -> Self:
        self.stop()  # the remains of a run that was killed cannot be used
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _directory_of(self, number: int) -> Path:
        return self.directory / self.FOLDER / str(number)

    def train(self, numbers: Sequence[int]) -> None:
        """Start these attempts, unless they are being trained; if there are none, stop all."""
        if not numbers and self.running:
            self.stop()
        for number in numbers:
            if number not in self.running:
                self.running[number] = self._begin(number)

    def _begin(self, number: int) -> tuple[Process, Future[None]]:
        place, process = self._directory_of(number), Process(self.config.workers)
        place.mkdir(parents=True, exist_ok=True)
        alone = self.config.model_copy(update={"workers": 1})  # without attempts of its own
        pairs = save_pairs(self._task, self.directory / self.FOLDER / "pairs")
        work = alone, place, self.device, number, pairs
        return process, process.submit(self._train_attempt, *work)

    def take(self, number: int) -> Path | None:
        """The directory of an attempt as far as it was trained; None if it was not."""
        if number not in self.running:
            return None
        (process, done), place = self.running.pop(number), self._directory_of(number)
        if has_last(place):  # otherwise it has not begun, and there is nothing to wait for
            process.cancel()
            wait([done])
        process.close()
        return place

    def stop(self) -> None:
        """End all of them and remove their results."""
        for process, _ in self.running.values():
            process.close()
        self.running.clear()
        shutil.rmtree(self.directory / self.FOLDER, ignore_errors=True)


def take_over(run: RunState, directory: Path) -> None:
    """Continue a run with an attempt that another process has trained and saved in a directory.

    If it can't be read, or has more batches than the run may have, nothing changes, and the run
    trains the attempt itself.
    """
    try:
        other, records, best = _read_attempt(run, directory)
        steps = [int(record["step"]) for record in records]
    except (StacktransError, OSError, LookupError, TypeError, ValueError):
        return
    progress, first_step = run.progress, run.attempts.first_step
    if run.max_steps is not None and first_step + other.step > run.max_steps:
        return
    other.attempts.first_step = first_step
    other.attempts.validation = run.attempts.validation
    run.attempts, run.attempt, run.rounding = other.attempts, other.attempt, other.rounding
    progress.ended = other.progress.ended
    for record, step in zip(records, steps, strict=True):
        moved = {"step": step + first_step, "seconds": round(progress.seconds, 3)}
        run.write_record({**record, **moved})
    if best is not None:
        progress.best = other.progress.best
        progress.best_step = other.progress.best_step + first_step
        run.save_best(best)


def _read_attempt(
    run: RunState, directory: Path
) -> tuple[RunState, list[dict[str, Any]], Transducer | None]:
    """Read an attempt that another process trained.

    Returns its run, its records, and its best weights if they are as good as those of this run.
    """
    other = RunState(run.source, run.device, "", run.attempts.number)
    other.load(directory)
    metrics = (directory / METRICS).read_bytes()[: other.progress.metrics_size].decode()
    records = [json.loads(line) for line in metrics.splitlines()]
    best = None
    if other.progress.best and other.progress.best >= run.progress.best:
        best = checkpoint.load(directory / "best", run.device).model
    elif other.progress.ended in SOLUTIONS:  # those so far could not be made discrete
        best, other.progress.best_step = other.attempt.average, other.step
    return other, records, best
