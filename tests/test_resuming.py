"""Runs that are stopped at any moment resume with the same result as an uninterrupted run."""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, shell
from small_runs import CPU, assert_same_run, ignore, records_of, small_run, small_stream
from test_rounding import mark_answers_right

from stacktrans.common.errors import CheckpointError, StacktransError, UsageError
from stacktrans.common.messages import OptionalStream
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import SettingsLayer
from stacktrans.settings.resolve import resolve
from stacktrans.training.attempt import Attempt
from stacktrans.training.interrupts import Interrupted
from stacktrans.training.rounding import Rounding
from stacktrans.training.run_directory import check_free, check_resumable, create_run_directory
from stacktrans.training.trainer import Trainer

ROUNDING = "rounding=quick"

pytestmark = pytest.mark.usefixtures("brief_rounding")
EXAMPLES = "examples={train: 20, development: 5, test: 5, epochs: 3}"


def counting(*changes: str) -> RunConfig:
    small = (
        "task.lengths.train=[1, 3]",
        "task.lengths.test=[4, 5]",
        "hidden_size=5",
        "measure.strings=10",
        "accuracy_every=10",
        "accuracy_loss=null",
        "loss_every=5",
        "restart=null",
    )
    model = {"memory": {"name": "stack-rnn", "count": 2}}
    assignments = [*small, ROUNDING, *changes]
    return resolve(task="anbn", settings={"model": model}, assignments=assignments)


SOLVED = ("solved.accuracy=1", "solved.times=1", "restart.after=1000")
ENDED_BY = {
    "attempts": lambda: small_stream(ROUNDING, stream="epochs: 2, attempts: 2"),
    "converged": lambda: counting("stop={converged: {patience: 2}}"),
    "development": lambda: counting(EXAMPLES, "stop={development: {patience: 1}}"),
    "epochs": lambda: counting(EXAMPLES, "stop={development: {patience: 50}}"),
    "solved": lambda: counting(*SOLVED),
}
"""Configurations of runs that a rule ends, by the rule."""


def trainer_in(directory: Path, config: RunConfig) -> Trainer:
    directory.mkdir(exist_ok=True)
    return Trainer(config, directory, CPU, "stacktrans train")


def resumed_run(directory: Path, config: RunConfig) -> Trainer:
    """A run's trainer: resumed, or if nothing was saved, begun again."""
    try:
        check_resumable(directory)
    except CheckpointError:
        check_free(directory)
        return trainer_in(directory, config)
    return Trainer.resume(directory, [], CPU)


class Killed(BaseException):
    """What nobody catches."""


@contextmanager
def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """End the process at the n-th operation on a file, from 0."""
    done: list[str] = []

    def calling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            if len(done) >= number:  # after a kill, no clean-up code runs, either
                raise Killed
            done.append(name)
            return function(*arguments, **named)

        return called

    with monkeypatch.context() as patched:
        for name in ("rename", "replace", "mkdir", "fsync"):
            patched.setattr(os, name, calling(name, getattr(os, name)))
        yield done


@pytest.mark.parametrize("rule", ["attempts", "solved"])
def test_a_run_killed_at_any_file_operation_resumes_bit_for_bit(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch)
    config = ENDED_BY[rule]()
    with killed_at(sys.maxsize, monkeypatch) as done:
        whole = trainer_in(tmp_path / "whole", config).run(ignore)
    assert whole.outcome == rule
    # The first moments and the last, when the run is rounded and closed, and some between.
    last = len(done) - 1
    for number in sorted({2, last // 2, *range(last - 24, last + 1, 4)}):
        place = tmp_path / str(number)
        place.mkdir()
        with killed_at(number, monkeypatch), suppress(Killed):
            trainer_in(place, config).run(ignore)
        trainer = resumed_run(place, config)
        assert trainer.run(ignore).steps == whole.steps
        assert_same_run(tmp_path / "whole", place)


@pytest.mark.parametrize("rule", [*ENDED_BY, "lossless", "discrete"])
def test_a_run_stopped_during_rounding_resumes_bit_for_bit(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch)

    # The hard accuracy grows with training in the first attempt, and is 1 in later ones.
    def measured(self: Rounding, _: object) -> tuple[float, float]:
        moment = self.attempt.moment
        return 1.0, 1.0 if moment.attempt > 1 else moment.step / 1000

    monkeypatch.setattr(Rounding, "_measured", measured)
    config = ENDED_BY[rule]() if rule in ENDED_BY else counting(*SOLVED, f"rounding={rule}")
    whole = trainer_in(tmp_path / "whole", config).run(ignore)
    for batches in (0, 1, 5):  # that are trained on to round it before it is stopped
        trainer = trainer_in(tmp_path / str(batches), config)
        with monkeypatch.context() as patched:
            stop_in_rounding(trainer, batches, patched)
            with pytest.raises(Interrupted):
                trainer.run(ignore)
        assert resumed_run(tmp_path / str(batches), config).run(ignore).steps == whole.steps
        assert_same_run(tmp_path / "whole", tmp_path / str(batches))


def stop_in_rounding(trainer: Trainer, batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original, left = Attempt.train_on_batch, batches

    def training(attempt: Attempt) -> None:
        nonlocal left
        left -= trainer.state.progress.ended is not None
        if left <= 0 and trainer.state.progress.ended:
            trainer.stop_requested = signal.SIGTERM
        original(attempt)

    monkeypatch.setattr(Attempt, "train_on_batch", training)


def test_an_attempt_that_was_wrong_when_hard_is_not_rounded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch, hard=[0.5, 1.0])
    config = ENDED_BY["solved"]()
    whole = trainer_in(tmp_path / "whole", config).run(ignore)
    assert whole.attempts == 2
    interrupted = trainer_in(tmp_path / "interrupted", config)

    def stop(_: object) -> None:
        if interrupted.state.attempts.number == 2:
            interrupted.stop_requested = signal.SIGINT

    with pytest.raises(Interrupted):
        interrupted.run(stop)
    assert Trainer.resume(tmp_path / "interrupted", [], CPU).run(ignore).steps == whole.steps
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")


def test_a_run_stopped_while_it_is_measured_at_its_end_is_measured_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch)
    config = ENDED_BY["solved"]()
    whole = trainer_in(tmp_path / "whole", config).run(ignore)
    interrupted = trainer_in(tmp_path / "interrupted", config)

    def stop(*_: object) -> None:
        interrupted.stop_requested = signal.SIGINT

    monkeypatch.setattr(interrupted.source, "report", stop)
    with pytest.raises(Interrupted):
        interrupted.run(ignore)
    again = Trainer.resume(tmp_path / "interrupted", [], CPU).run(ignore)
    assert (again.steps, again.test, again.without) == (whole.steps, whole.test, whole.without)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")


def test_a_finished_run_that_is_resumed_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_answers_right(monkeypatch)
    config = ENDED_BY["attempts"]()
    whole = trainer_in(tmp_path / "run", config).run(ignore)
    before = (tmp_path / "run" / "best" / "model.safetensors").read_bytes()
    again = resumed_run(tmp_path / "run", config).run(ignore)
    assert (again.steps, again.outcome) == (whole.steps, "attempts")
    assert (tmp_path / "run" / "best" / "model.safetensors").read_bytes() == before


def test_a_directory_in_which_nothing_was_saved_can_be_used_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    create_run_directory(out, "")
    (out / "metrics.jsonl").touch()
    (out / ".last.new").mkdir()
    with pytest.raises(CheckpointError, match="start it again, in this directory"):
        check_resumable(out)
    check_free(out)
    (out / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="already exists; choose another"):
        check_free(out)
    trainer_in(out, small_run("max_steps=2")).run(ignore)
    with pytest.raises(UsageError, match="or resume the run"):
        check_free(out)


@pytest.mark.parametrize("instead", [False, True])
def test_a_run_whose_directory_is_moved_ends_and_names_the_new_path(
    tmp_path: Path, instead: bool
) -> None:
    trainer = trainer_in(tmp_path / "run", small_run("max_steps=30"))

    def move(record: Any) -> None:
        if record.step == 10:
            (tmp_path / "run").rename(tmp_path / "moved")
            if instead:
                (tmp_path / "run").mkdir()

    with pytest.raises(StacktransError, match="directory was moved; resume it") as error:
        trainer.run(move)
    assert str(tmp_path / "moved") in str(error.value)
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())
    Trainer.resume(tmp_path / "moved", [], CPU).run(ignore)
    trainer_in(tmp_path / "whole", small_run("max_steps=30")).run(ignore)
    assert records_of(tmp_path / "moved") == records_of(tmp_path / "whole")


def test_the_limit_of_a_resumed_run_survives_a_kill(tmp_path: Path) -> None:
    trainer_in(tmp_path / "run", small_run("max_steps=10")).run(ignore)
    limits = [SettingsLayer("--max-steps", {"training": {"max_steps": 30}})]
    resumed = Trainer.resume(tmp_path / "run", limits, CPU)

    def kill(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resumed.run(kill)
    assert Trainer.resume(tmp_path / "run", [], CPU).run(ignore).steps == 30


class Full:
    """A device that is full, however often it is written to."""

    def __init__(self) -> None:
        self.file = os.open("/dev/full", os.O_WRONLY)

    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        os.write(self.file, b" ")

    def fileno(self) -> int:
        return self.file


def test_optional_streams_discard_text_once_they_fail() -> None:
    stream = OptionalStream(Full())  # type: ignore[arg-type]
    assert stream.write("x") == 1
    stream.flush()
    assert os.write(stream.fileno(), b"x") == 1  # it goes nowhere now


def test_a_race_continues_if_its_progress_cannot_be_written(tmp_path: Path) -> None:
    race = "--strategies patient,wide --workers 1"
    words = f"stacktrans train --task copy --memory queue {race} --max-steps 6 --json --out run"
    done = shell(f"{words} {shlex.join(SMALL)} 2>/dev/full", tmp_path)
    assert (done.returncode, done.stdout[:1]) == (0, b"{")


def test_a_race_without_time_to_round_its_best_run_ran_out_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solution that is rounded after the race was not found in time."""
    mark_answers_right(monkeypatch)
    trainer = trainer_in(tmp_path, ENDED_BY["solved"]())
    trainer.run_until(lambda: trainer.state.progress.ended is not None)
    assert trainer.state.progress.ended == "solved"
    trainer.race_ended_by = "budget"
    assert trainer.run(ignore).outcome == "budget"
