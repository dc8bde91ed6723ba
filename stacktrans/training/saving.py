"""How far a run is, and its directory, where that is saved and read again."""

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO, Annotated, Any

import torch
from pydantic import Field

from stacktrans.common import __version__
from stacktrans.common.errors import CheckpointError, StacktransError, UsageError
from stacktrans.common.files import (
    CANDIDATES,
    RACE,
    check_directory_path,
    is_race,
    locked,
    numbered,
    remove_temporary_files,
    temporary_name,
    write_atomically,
)
from stacktrans.common.registry import resume_command
from stacktrans.common.visible import shell_text
from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.model.weights import load_weights
from stacktrans.settings.config import RunConfig
from stacktrans.training.attempt import Attempt, Attempts
from stacktrans.training.initial_weights import FirstWeights
from stacktrans.training.records import (
    BUDGETS,
    METRICS,
    RULES,
    SUMMARY,
    Record,
    Summary,
    achieved,
    decided_by,
    reported_on,
)
from stacktrans.training.rounding import Rounding
from stacktrans.training.sources import Source
from stacktrans.training.state import Count, Merit, Number, StatefulPart, check_keys, check_value

LAYOUT = 2
"""Version of what a run saves to be resumed from."""


class TrainingError(StacktransError):
    """Training can't continue."""


class FailedAttempt(TrainingError):
    """An attempt has failed, for some reason, and no other may follow."""

    def __init__(self, reason: str, directory: Path, *, measured: bool) -> None:
        kept = f"the best weights so far are in {directory}"
        super().__init__(f"{reason}; {kept if measured else 'nothing was measured before'}")
        self.reason = reason


def check_free(directory: Path) -> None:
    """Raise `UsageError` if something is in a run's directory to be, or it can't be made.

    The remains of a run that was killed before it was saved for the first time do not count.
    """
    check_directory_path(directory)
    if not directory.exists() or _is_free(directory):
        return
    hint = ", or resume the run" if has_last(directory) or is_race(directory) else ""
    raise UsageError(f"{directory}: something is there; choose another directory{hint}")


def last_saved(directory: Path) -> Path:
    """The last checkpoint of a run to resume; raises `CheckpointError` if it has none."""
    try:
        return checkpoint.last_checkpoint(directory)
    except CheckpointError as error:
        if _is_free(directory):
            said = "nothing has been saved yet; start it again, in this directory"
            raise CheckpointError(f"{directory}: no run to resume here; {said}") from error
        raise


def has_last(directory: Path) -> bool:
    """Whether a run has a last checkpoint."""
    try:
        checkpoint.last_checkpoint(directory)
    except CheckpointError:
        return False
    return True


def _is_free(directory: Path) -> bool:
    # What a race has written before it has begun, too.
    unsaved = {temporary_name("last"), temporary_name(CANDIDATES), RACE}
    return directory.is_dir() and all(
        path.name in unsaved
        or path.name.startswith(f".{RACE}.")
        or (path.name == METRICS and not path.stat().st_size)
        for path in directory.iterdir()
    )


def claim(out: Path | None, name: str) -> Path:
    """Make a directory that no other run has, even one that starts at the same moment.

    That is `out`, or else one in checkpoints/, called `name` with a number if there is one already.
    """
    if out is not None:
        check_free(out)
        out.mkdir(parents=True, exist_ok=True)
        return out
    for path in (Path("checkpoints") / each for each in numbered(name)):
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            break
    return path


@contextmanager
def held_open(directory: Path) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Open a directory, and give what raises `StacktransError` if it is elsewhere meanwhile."""

    @contextmanager
    def staying() -> Iterator[None]:
        _check_there(directory, opened)
        try:
            yield
        finally:
            _check_there(directory, opened)

    opened = os.open(directory, os.O_RDONLY)
    try:
        yield staying
    finally:
        os.close(opened)


def _check_there(directory: Path, opened: int) -> None:
    with suppress(OSError):
        if os.path.samestat(os.fstat(opened), os.stat(directory)):
            return
    where = "it is gone"
    with suppress(OSError):  # not every system can tell
        now = os.readlink(f"/proc/self/fd/{opened}")
        if os.path.isdir(now):
            where = f"resume it with: {shell_text(resume_command(now))}"
    raise StacktransError(f"{directory}: the run's directory was moved or removed; {where}")


def lock(stream: IO[Any], directory: Path) -> None:
    """Have a run's directory, by a file in it, for this process alone; else a `TrainingError`."""
    if not locked(stream):
        raise TrainingError(f"{directory}: another process is training here")


class Progress(StatefulPart):
    """How far a run is, all attempts together.

    Attributes:
        best: how good the best weights are; empty if there are none.
        best_step: when they were taken.
        metrics_size: bytes of the metrics that were written by then.
        ended: the rule that has ended the training, while rounding and pruning continue.
        outcome: the rule that has ended the run, when all is done.
    """

    name = "progress"
    seconds: Annotated[Number, Field(ge=0)] = 0.0
    best: Merit
    best_step: Count = 0
    metrics_size: Count = 0
    ended: str | None = None
    outcome: str | None = None

    def __init__(self) -> None:
        self.best = []

    def check_state(self) -> None:
        rules = (None, *(RULES.keys() - BUDGETS))
        check_value("progress.ended", self.ended, self.ended in rules)
        check_value("progress.outcome", self.outcome, self.outcome in (None, self.ended))
        check_value("progress.best", self.best, bool(self.best) or not self.ended)


class SavedRun:
    """A run between two batches, at its n-th attempt, and what it writes into its directory."""

    def __init__(
        self,
        source: Source,
        device: torch.device,
        command: str,
        number: int,
        first: FirstWeights | None = None,
    ) -> None:
        self.config, self.source, self.device, self.command = source.config, source, device, command
        self._first = first
        self.progress, self.attempts = Progress(), Attempts(source.config, number)
        self.rounding = Rounding(source.config.training)

    @functools.cached_property
    def attempt(self) -> Attempt:
        """The attempt that learns now; its weights are drawn when it is first asked for."""
        return Attempt(self.source, self.device, self.attempts, self.rounding, self._first)

    @property
    def step(self) -> int:
        """Batches trained on, all attempts together."""
        return self.attempt.run_step

    @property
    def parameter_count(self) -> int:
        """Number of parameters of the model."""
        return sum(weight.numel() for weight in self.attempt.model.parameters())

    @contextmanager
    def opened(self, directory: Path) -> Iterator[None]:
        """Have a directory, with a checkpoint in it, for this process alone.

        Raises `TrainingError` if another process has it.
        """
        path = directory / METRICS
        # Without a buffer, which would fail once more when it is closed on a full disk.
        mode = "r+" if path.exists() else "w"
        with ExitStack() as stack:
            self._directory = directory
            self._staying = stack.enter_context(held_open(directory))
            self._metrics = stack.enter_context(FileIO(path, mode))
            lock(self._metrics, directory)
            # What was recorded after the checkpoint that is resumed will be recorded again.
            self._metrics.truncate(min(self.progress.metrics_size, path.stat().st_size))
            self._metrics.seek(0, os.SEEK_END)
            for name in (checkpoint.CONFIG, SUMMARY):
                remove_temporary_files(directory / name)
            if self.step == 0:
                self.save_last()
            yield

    def write(self, name: str, content: str) -> None:
        """Write a file of the run."""
        with self._staying():
            write_atomically(self._directory / name, content)

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Add a line to the metrics; raises `TrainingError` if it can't be written."""
        try:
            left = f"{json.dumps(record)}\n".encode()
            while left:
                left = left[self._metrics.write(left) :]
        except OSError as error:
            raise TrainingError(f"{self._directory / METRICS}: {error.strerror}") from error

    def summary(self, outcome: str) -> Summary:
        """How the run has ended, without measurements."""
        start_from = self.config.start_from
        return Summary(
            outcome=outcome,
            rule=RULES[outcome],
            decided_by=decided_by(self.config),
            reported_on=reported_on(self.config),
            steps=self.step,
            attempts=self.attempts.number,
            seconds=round(self.progress.seconds, 1),
            best_step=self.progress.best_step,
            parameters=self.parameter_count,
            command=self.command,
            version=__version__,
            torch=torch.__version__,
            seed=self.config.seed,
            start_from=start_from.model_dump() if start_from else None,
            notes=[*self.source.notes],
        )

    @property
    def needs_others(self) -> bool:
        """Whether it can't continue without other attempts, to be compared with or to follow it."""
        compared = self.source.resumable and self.attempt.rule.compares_next
        return self.attempts.failed or self.progress.ended is not None or compared

    def judge(self, record: Record) -> str | None:
        """Keep the weights if they are the best so far; a rule's name if it ends the run."""
        progress, attempts, rule = self.progress, self.attempts, self.attempt.rule
        merit = rule.merit(record)
        if not merit:
            return None
        if merit >= progress.best:
            progress.best, progress.best_step = merit, self.step
            self.save_best(accuracy=achieved(record))
        ended_by = rule.judge(record, merit, self.attempt)
        attempts.failed = bool(ended_by) and attempts.more_wanted
        return None if attempts.failed else ended_by

    def end(self, rule: str) -> None:
        """Note that a rule has ended the training."""
        self.progress.ended = rule
        if self.config.is_rounded:
            # Made certain, they take the place of what they came from, which is kept until then.
            self.rounding.uncertain = self.load_best().model.state_dict()

    def load_best(self) -> checkpoint.Checkpoint:
        """The weights that are kept."""
        return checkpoint.load(self._directory / "best", self.device)

    def save_best(
        self, model: Transducer | None = None, config: RunConfig | None = None, **described: Any
    ) -> None:
        """Keep a model, or the running mean of the weights; see `checkpoint.save`."""
        model = model or self.attempt.average.model
        config = config or self.config.model_copy(update={"model": model.config})
        described = {"sharpness": model.sharpness, **described}
        with self._staying():
            checkpoint.save(self._directory / "best", config, model.state_dict(), **described)

    def save_last(self) -> None:
        """Save the run so that it can be resumed from here, if it can be from here."""
        if not self.source.resumable and not self.progress.outcome:
            return
        os.fsync(self._metrics.fileno())
        self.progress.metrics_size = self._metrics.tell()
        state = {
            "layout": LAYOUT,
            "command": self.command,
            "progress": self.progress.state_dict(),
            "attempts": self.attempts.state_dict(),
            "attempt": self.attempt.state_dict(),
        }
        with self._staying():
            weights = self.attempt.model.state_dict()
            checkpoint.save(self._directory / "last", self.config, weights, state)

    def load(self, directory: Path) -> None:
        """Take up a run's last checkpoint.

        Raises:
            CheckpointError: it can't be read; the message names what is wrong.
            TrainingError: another process is training there.
        """
        with ExitStack() as stack:
            with suppress(FileNotFoundError):
                # Or a process whose parent was killed could replace what is being read.
                lock(stack.enter_context((directory / METRICS).open("rb")), directory)
            self._load(directory)

    def _load(self, directory: Path) -> None:
        last = checkpoint.last_checkpoint(directory)
        path, saved = last / checkpoint.TRAINING, checkpoint.load_training(last)
        layout, metrics = saved.get("layout", 1), directory / METRICS
        if type(layout) is int and layout != LAYOUT:
            raise CheckpointError(
                f"{path}: a training state of layout {layout}; this stacktrans resumes layout "
                f"{LAYOUT}. Resume with stacktrans {self.config.version}, or start the run again"
            )
        try:
            self._take(saved, metrics.stat().st_size if metrics.exists() else 0)
        except ValueError as error:
            raise CheckpointError(f"{path}: damaged ({error})") from error
        load_weights(self.attempt.model, last / checkpoint.WEIGHTS)

    def _take(self, saved: dict[str, Any], written: int) -> None:
        check_keys("state", saved, ("layout", "command", "progress", "attempts", "attempt"))
        check_value("layout", saved["layout"], type(saved["layout"]) is int)
        check_value("command", saved["command"], isinstance(saved["command"], str))
        self.command, progress, attempts = saved["command"], self.progress, self.attempts
        progress.load_state_dict(saved["progress"])
        attempts.load_state_dict(saved["attempts"])
        self.attempt.load_state_dict(saved["attempt"])
        size, best_step = progress.metrics_size, progress.best_step
        check_value("progress.metrics_size", size, size <= written)
        check_value("progress.best_step", best_step, best_step <= self.step)
        check_value("attempts.failed", attempts.failed, not (attempts.failed and progress.ended))

    def take_over(self, directory: Path, most: int | None) -> None:
        """Take up an attempt that has not begun as far as another process has saved it.

        If that can't be read or exceeds the `most` batches of the run, the attempt begins anew.
        """
        ours, began, best = self.progress, self.attempts.began, None
        other = SavedRun(self.source, self.device, "", self.attempts.number)
        theirs = other.progress
        try:
            other.load(directory)
            recorded = (directory / METRICS).read_bytes()[: theirs.metrics_size].decode()
            records = [json.loads(line) for line in recorded.splitlines()]
            if theirs.best and theirs.best >= ours.best:
                best = checkpoint.load(directory / "best", self.device).model
        except (StacktransError, OSError, ValueError):
            return
        if most is not None and began + other.step > most:
            return
        other.attempts.began, other.attempts.judged = began, self.attempts.judged
        self.attempts, self.attempt, ours.ended = other.attempts, other.attempt, theirs.ended
        self.rounding = other.rounding
        for record in records:
            moved = {"step": record["step"] + began, "seconds": round(ours.seconds, 3)}
            self.write_record({**record, **moved})
        if best is not None:
            ours.best, ours.best_step = theirs.best, theirs.best_step + began
            self.save_best(best)
