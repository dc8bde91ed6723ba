"""State of a run: progress, attempt and best weights, saved and resumed; metrics and summary."""

import functools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from stacktrans.common import __version__
from stacktrans.common.errors import CheckpointError, StacktransError, clipped, is_out_of_memory
from stacktrans.common.files import CONFIG, WEIGHTS, remove_temporary_files, write_atomically
from stacktrans.common.visible import one_line
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.transducer import Transducer
from stacktrans.model.weights import load_weights, set_weights, shapes_of
from stacktrans.training.attempt import Attempt, Attempts
from stacktrans.training.records import (
    METRICS,
    SOLUTIONS,
    SUMMARY,
    Outcome,
    Record,
    Summary,
    measurements,
)
from stacktrans.training.rounding import Rounding
from stacktrans.training.run_directory import lock, watched
from stacktrans.training.sources import DataSource
from stacktrans.training.stateful import RankingKey, SavedCount, SavedNumber, StatefulPart
from stacktrans.training.wording import decided_by, reported_on, rule_of

PATIENCE = 3
"""A run falls back on its first solution after this multiple of the batches that it took."""
FALLBACK = "fallback"
"""The folder of a solution with which no machine agrees, until the run ends."""
_WRONG_STATE = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors raised by a saved state with missing or wrong values."""


class FailedAttempt(StacktransError):
    """An attempt has failed, and no other may follow."""

    def __init__(self, reason: str, directory: Path, *, measured: bool) -> None:
        kept = f"the best weights so far are in {directory}"
        super().__init__(f"{reason}; {kept if measured else 'nothing was measured before'}")
        self.reason = reason


class Progress(StatefulPart):
    """The progress of a run over all its attempts.

    Attributes:
        seconds: training time.
        best: ranking key of the best weights; empty if there are none.
        best_step: batch after which they were taken.
        metrics_size: bytes of the metrics that were written by then.
        ended: the rule that has ended the training; rounding and pruning may follow.
        fallback: ranking key of the first solution, which is kept beside the best weights if no
            machine agrees with it; empty if there is none.
        fallback_step: batch after which it was rounded; 0 if there is none.
    """

    name = "progress"
    seconds: Annotated[SavedNumber, Field(ge=0)] = 0.0
    best: RankingKey
    best_step: SavedCount = 0
    metrics_size: SavedCount = 0
    ended: Outcome | None = None
    fallback: RankingKey
    fallback_step: SavedCount = 0

    def __init__(self) -> None:
        self.best, self.fallback = [], []


class RunState:
    """The state of a run between two batches, and the files that it writes into its directory.

    Attributes:
        progress: progress over all attempts.
        attempts: which attempt this is, and what is known of those before.
    """

    def __init__(self, source: DataSource, device: torch.device, command: str, number: int) -> None:
        self.config, self.source, self.device, self.command = source.config, source, device, command
        self.progress, self.attempts = Progress(), Attempts(source.config, number)

    @functools.cached_property
    def attempt(self) -> Attempt:
        """The present attempt; its weights are drawn when it is first used."""
        return Attempt(self.source, self.device, self.attempts)

    @functools.cached_property
    def rounding(self) -> Rounding:
        """The weights of the attempt to be rounded, once training has ended."""
        return Rounding(self.attempt)

    @property
    def step(self) -> int:
        """Number of batches of all attempts."""
        return self.attempts.first_step + self.attempt.step

    @contextmanager
    def opened(self, directory: Path) -> Iterator[None]:
        """Lock a directory for this process, and save a first checkpoint of a new run.

        Raises `StacktransError` if another process has it.
        """
        path, self._directory = directory / METRICS, directory
        # Without a buffer, which would fail once more when it is closed on a full disk.
        with watched(directory) as self._in_place, FileIO(path, "a") as self._metrics:
            lock(self._metrics, directory)
            # Records after the checkpoint that is resumed will be written again.
            self._metrics.truncate(min(self.progress.metrics_size, path.stat().st_size))
            self._metrics.seek(0, os.SEEK_END)
            for name in (CONFIG, SUMMARY):
                remove_temporary_files(directory / name)
            if self.step == 0:
                self.save_last()
            yield

    def write(self, name: str, content: str) -> None:
        """Write a file of the run."""
        with self._in_place():
            write_atomically(self._directory / name, content)

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Add a line to the metrics; raises `StacktransError` if it can't be written."""
        left = f"{json.dumps(record)}\n".encode()
        with self._writing_metrics():
            while left:
                left = left[self._metrics.write(left) :]

    @contextmanager
    def _writing_metrics(self) -> Iterator[None]:
        """Turn an `OSError`, which names no file, into a `StacktransError` that names it."""
        try:
            yield
        except OSError as error:
            raise StacktransError(f"{self._directory / METRICS}: {error.strerror}") from error

    def summary(self, outcome: str) -> Summary:
        """The summary of the run, without measurements."""
        start_from = self.config.start_from
        return Summary(
            outcome=outcome,
            rule=rule_of(self.config, outcome),
            decided_by=decided_by(self.config),
            reported_on=reported_on(self.config),
            steps=self.step,
            attempts=self.attempts.number,
            seconds=round(self.progress.seconds, 1),
            best_step=self.progress.best_step,
            parameters=self.attempt.model.parameter_count,
            command=self.command,
            version=__version__,
            torch=torch.__version__,
            seed=self.config.seed,
            start_from=start_from.model_dump() if start_from else None,
            notes=[*self.source.notes],
        )

    @property
    def max_steps(self) -> int | None:
        """The largest number of batches, also because of a fallback; None for no limit."""
        limits = (self.config.training.max_steps, PATIENCE * self.progress.fallback_step)
        return min(filter(None, limits), default=None)

    @property
    def waits_for_run(self) -> bool:
        """Whether the attempt can't continue without the others of the run."""
        compared = self.source.resumable and self.attempt.rule.compares_next
        return self.attempts.failed or self.progress.ended is not None or compared

    def judge(self, record: Record) -> str | None:
        """Keep the weights if they are the best so far; return the rule that ends the run."""
        progress, rule = self.progress, self.attempt.rule
        key = rule.ranking_key(record)
        if not key:
            return None
        if key >= progress.best:
            self._keep(record, key)
        ended_by = rule.judge(record, self.attempt)
        if ended_by in SOLUTIONS and progress.best_step <= self.attempts.first_step:
            self._keep(record, key)  # the best so far, of earlier attempts, can't be made discrete
        self.attempts.failed = bool(ended_by) and self.attempts.more_wanted
        return None if self.attempts.failed else ended_by

    def _keep(self, record: Record, key: RankingKey) -> None:
        """Save the weights of a record as the best."""
        self.progress.best, self.progress.best_step = key, self.step
        self.save_best(accuracy=measurements(record))

    def end(self, rule: str) -> None:
        """Note the rule that has ended the training."""
        self.progress.ended = rule
        # Discrete rounding also tests models on much longer strings, those without a memory, too.
        if self.config.is_rounded or self.config.training.discrete:
            # The rounded weights will replace those that they are made from.
            self.rounding.weights = self.load_best().model.state_dict()

    def keep_fallback(self) -> None:
        """Keep the best weights as fallback unless there is one, and begin without best weights."""
        progress = self.progress
        if not progress.fallback:
            self.save_best(self.load_best().model, FALLBACK)
            progress.fallback, progress.fallback_step = progress.best, self.step
        progress.best = []

    def forget_fallback(self) -> None:
        """Forget the fallback; `remove_fallback` removes its files."""
        self.progress.fallback, self.progress.fallback_step = [], 0

    def fall_back(self) -> None:
        """Make the fallback the best weights, with which the run ends."""
        progress = self.progress
        self.save_best(checkpoint.load(self._directory / FALLBACK, self.device).model)
        progress.best, progress.best_step = progress.fallback, progress.fallback_step
        progress.ended, self.rounding.weights = "no_machine", None
        self.forget_fallback()

    def remove_fallback(self) -> None:
        """Remove the files of a fallback."""
        with self._in_place():
            shutil.rmtree(self._directory / FALLBACK, ignore_errors=True)

    def load_best(self) -> checkpoint.Checkpoint:
        """Load the best weights."""
        return checkpoint.load(self._directory / "best", self.device)

    def save_best(self, model: Transducer | None = None, name: str = "best", **facts: Any) -> None:
        """Save a model, or the attempt's average, as the best; see `checkpoint_files.save`."""
        model = model or self.attempt.average
        config, weights = self.config.model_copy(update={"model": model.config}), model.state_dict()
        with self._in_place():
            path = self._directory / name
            checkpoint_files.save(path, config, weights, sharpness=model.sharpness, **facts)

    def save_last(self) -> None:
        """Save the run so that it can be resumed from here, if its source can."""
        has_ended = self.progress.ended and not self.rounding.weights
        if not (self.source.resumable or has_ended):
            return
        with self._writing_metrics():
            os.fsync(self._metrics.fileno())
        self.progress.metrics_size = self._metrics.tell()
        state = {
            "command": self.command,
            "progress": self.progress.state_dict(),
            "attempts": self.attempts.state_dict(),
            "attempt": self.attempt.state_dict(),
            "rounding": self.rounding.state_dict(),
        }
        with self._in_place():
            weights = self.attempt.model.state_dict()
            checkpoint_files.save(self._directory / "last", self.config, weights, state)

    def load(self, directory: Path) -> None:
        """Load the last checkpoint of a run.

        Raises:
            CheckpointError: it can't be read, or is not one of this run.
            StacktransError: another process is training there.
        """
        with ExitStack() as stack:
            with suppress(FileNotFoundError):
                # Or a process whose parent was killed could replace the files meanwhile.
                lock(stack.enter_context((directory / METRICS).open("rb")), directory)
            last = checkpoint_files.last_checkpoint(directory)
            path, state = last / checkpoint_files.TRAINING, checkpoint_files.load_training(last)
            try:
                self._load_state(state)
            except _WRONG_STATE as error:
                if is_out_of_memory(error):
                    raise
                reason = clipped(one_line(f"{type(error).__name__}: {error}"))
                raise CheckpointError(f"{path}: damaged ({reason})") from error
            model = self.attempt.model
            set_weights(model, load_weights(last / WEIGHTS, shapes_of(model)))

    def _load_state(self, state: dict[str, Any]) -> None:
        """Load a saved state; raises the errors of `_WRONG_STATE` if it is malformed."""
        self.command = str(state["command"])
        self.progress.load_state_dict(state["progress"])
        self.attempts.load_state_dict(state["attempts"])
        self.attempt.load_state_dict(state["attempt"])
        self.rounding.load_state_dict(state["rounding"], self.attempt.model)
