"""Speculative attempts, trained by other processes: they change nothing but the time it takes."""

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from pair_files import reversals, write
from small_runs import CPU, assert_same_run, ignore, records_of, small_run, small_stream, trainer_of
from test_pair_training import trainer_of as trainer_on_pairs

from stacktrans.common.processes import Process, ThisProcess
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.training import requests
from stacktrans.training.make_source import make_source
from stacktrans.training.records import Accuracy, Summary
from stacktrans.training.run_directory import has_last
from stacktrans.training.sources import DataSource
from stacktrans.training.speculation import SpeculativeAttempts
from stacktrans.training.trainer import Trainer, train_attempt

SOON_FAILED = ("restart.after=20", "restart.loss=0.0001")


def soon_failed(*changes: str) -> RunConfig:
    return small_run(*SOON_FAILED, *changes)


def train(directory: Path, *changes: str) -> Summary:
    return trainer_of(soon_failed(*changes), directory).run(ignore)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the run wait for speculative attempts; return those that it took over."""
    taken: list[int] = []
    original = SpeculativeAttempts.take

    def patient(self: SpeculativeAttempts, attempt: int) -> Path | None:
        if attempt in self.running:
            self.running[attempt][1].result(timeout=120)
        place = original(self, attempt)
        if place:
            taken.append(attempt)
        return place

    monkeypatch.setattr(SpeculativeAttempts, "take", patient)
    return taken


def test_attempts_in_other_processes_change_neither_records_nor_weights(
    tmp_path: Path, patience: list[int]
) -> None:
    alone = train(tmp_path / "alone", "max_steps=50")
    assert patience == []
    helped = train(tmp_path / "helped", "max_steps=50", "workers=3")
    assert patience == [2, 3]
    assert (alone.attempts, alone.steps) == (helped.attempts, helped.steps) == (3, 50)
    assert alone.best_step == helped.best_step
    assert_same_run(tmp_path / "alone", tmp_path / "helped")
    assert not (tmp_path / "helped" / SpeculativeAttempts.FOLDER).exists()


@pytest.mark.usefixtures("at_once", "brief_rounding")
def test_an_attempt_that_solved_the_task_early_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second attempt has such easy criteria that it solves the task before the first fails.
    place = tmp_path / "run"
    original = SpeculativeAttempts._begin

    def begin(self: SpeculativeAttempts, attempt: int) -> tuple[Process, Future[None]]:
        easy = soon_failed("solved.accuracy=0.001", "restart=null", "learning_rate=0.02")
        source = make_source(easy, CPU)
        with_easy = SpeculativeAttempts(source, self.directory, self.device, train_attempt)
        process, done = original(with_easy, attempt)
        done.result()
        return process, done

    monkeypatch.setattr(SpeculativeAttempts, "_begin", begin)
    summary = train(place, "workers=2", "learning_rate=0.02", "max_steps=2000")
    assert (summary.outcome, summary.attempts) == ("solved", 2)
    steps = [record["step"] for record in records_of(place)]
    assert steps == sorted(steps)
    # Rounding may have trained on, which is not recorded.
    assert 20 < summary.best_step <= steps[-1] <= summary.steps


def test_an_exception_stops_all_attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(soon_failed("workers=3", "restart.after=1000"), tmp_path / "run")
    started: list[Future[None]] = []
    original = SpeculativeAttempts.train

    def noted(self: SpeculativeAttempts, attempts: range) -> None:
        original(self, attempts)
        started[:] = [done for _, done in self.running.values()]

    monkeypatch.setattr(SpeculativeAttempts, "train", noted)

    def report(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.run(report)
    assert len(started) == 2
    assert all(done.exception(timeout=60) for done in started)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Train speculative attempts to their end in this process; return their numbers."""
    begun: list[int] = []

    def here(of: int) -> ThisProcess:
        return ThisProcess(lambda: False)

    def noted(*arguments: Any) -> None:
        begun.append(arguments[3])
        train_attempt(*arguments)

    monkeypatch.setattr("stacktrans.training.speculation.Process", here)
    monkeypatch.setattr("stacktrans.training.trainer.train_attempt", noted)
    return begun


def test_attempts_are_trained_in_the_directory_that_a_run_gets(
    tmp_path: Path, at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places, begin = list[Path](), SpeculativeAttempts._begin

    def noted(self: SpeculativeAttempts, number: int) -> tuple[Process, Future[None]]:
        places.append(self.directory)
        return begin(self, number)

    monkeypatch.setattr(SpeculativeAttempts, "_begin", noted)
    path = tmp_path / "small.yaml"
    path.write_text(soon_failed("workers=2", "max_steps=30").to_yaml())
    trainer = requests.begin(requests.TrainRequest(config=path, out=tmp_path / "run"))
    assert isinstance(trainer, Trainer)
    trainer.run(ignore)
    assert at_once
    assert {*places} == {tmp_path / "run"}


def test_an_attempt_that_was_killed_is_taken_over_as_far_as_it_was_saved(
    tmp_path: Path, at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = train(tmp_path / "alone", "max_steps=40", "restart.after=25")
    original = SpeculativeAttempts.take

    def killed(self: SpeculativeAttempts, attempt: int) -> Path | None:
        place = original(self, attempt)
        assert place is not None
        with (place / "metrics.jsonl").open("a") as metrics:
            metrics.write('{"step": 17, "att')
        return place

    monkeypatch.setattr(SpeculativeAttempts, "take", killed)
    helped = train(tmp_path / "helped", "max_steps=60", "restart.after=25", "workers=2")
    assert helped.attempts == 3
    count = len(records_of(tmp_path / "alone"))
    assert records_of(tmp_path / "helped")[:count] == records_of(tmp_path / "alone")
    assert alone.steps == 40
    assert at_once == [2, 3, 4]


def test_an_attempt_that_diverges_early_is_left_for_the_next(
    tmp_path: Path, at_once: list[int]
) -> None:
    changes = ("learning_rate=1e30", "gradient_clip={norm: 1e30}", "max_steps=8")
    alone = train(tmp_path / "alone", *changes)
    helped = train(tmp_path / "helped", *changes, "workers=2")
    assert at_once
    assert alone.attempts == helped.attempts > 2
    assert records_of(tmp_path / "alone") == records_of(tmp_path / "helped")


def assert_same_with_help(directory: Path, config: RunConfig) -> None:
    """A run is the same if its attempts are trained speculatively."""
    summaries = []
    for workers in (1, 2):
        own = config.model_copy(update={"workers": workers})
        place = directory / str(workers)
        place.mkdir(parents=True)
        summaries.append(Trainer(own, place, CPU, "").run(ignore))
    assert len({(found.outcome, found.steps, found.best_step) for found in summaries}) == 1
    assert_same_run(directory / "1", directory / "2")


STREAM = "sequences: 4, steps: 20, epochs: 22, attempts: 3"
STREAMS = {
    "stream": lambda *changes: small_stream("rounding=published", *changes, stream=STREAM),
    "stream that restarts": lambda *changes: small_stream(
        "restart.after=7", "restart.loss=1e-9", "max_steps=18", *changes, stream=STREAM
    ),
}


@pytest.mark.usefixtures("brief_rounding")
@pytest.mark.parametrize("kind", STREAMS)
def test_attempts_on_streams_are_speculative_until_they_are_judged(
    tmp_path: Path, at_once: list[int], kind: str
) -> None:
    assert_same_with_help(tmp_path, STREAMS[kind]())
    assert at_once == [2, 3]


def test_attempts_on_a_text_are_speculative(tmp_path: Path, at_once: list[int]) -> None:
    parts = {"train": 20, "valid": 4, "test": 4}
    for part, lines in parts.items():
        (tmp_path / f"{part}.txt").write_text("the owl sees the sea\n" * lines)
    config = resolve(
        task="text",
        settings={"model": {"memory": "none"}},
        assignments=[
            *(f"task.parameters.{part}={tmp_path / part}.txt" for part in parts),
            "hidden_size=4",
            "batch_size=2",
            "data.stream={steps: 6, epochs: 3, attempts: 2}",
        ],
    )
    assert_same_with_help(tmp_path, config)
    assert at_once == [2]


def test_attempts_on_pairs_do_not_need_their_file(
    tmp_path: Path, at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "pairs.tsv", reversals(200, 1))
    restart = {"after": 20, "loss": 0.0001}
    settings = {"workers": 2, "training": {"restart": restart, "max_steps": 30}}
    trainer = trainer_on_pairs(path, tmp_path / "run", settings)
    path.unlink()  # as if it had been a pipe
    taken, original = list[bool](), SpeculativeAttempts.take

    def noted(self: SpeculativeAttempts, attempt: int) -> Path | None:
        place = original(self, attempt)
        taken.append(place is not None and has_last(place))
        return place

    monkeypatch.setattr(SpeculativeAttempts, "take", noted)
    assert trainer.run(ignore).attempts == 2
    assert taken == [True]


@pytest.mark.parametrize("limit", ["restart.after=20", "give_up_after=20"])
def test_attempts_on_examples_are_speculative(
    tmp_path: Path, at_once: list[int], limit: str
) -> None:
    examples = "examples={train: 40, development: 5, test: 5, epochs: 20}"
    config = soon_failed(examples, "stop={development: {}}", "max_steps=45", "restart=null", limit)
    assert_same_with_help(tmp_path, config)
    assert at_once == [2, 3, 4]


@pytest.mark.usefixtures("brief_rounding")
def test_attempts_after_a_solution_without_a_machine_are_speculative(
    tmp_path: Path, at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Accuracy(1.0, 1.0, 10, 1.0)
    monkeypatch.setattr(DataSource, "accuracies", lambda *_: (right, right))
    monkeypatch.setattr(DataSource, "generalization", lambda *_: 1.0)
    monkeypatch.setattr("stacktrans.training.trainer.lacks_machine", lambda *_: True)
    config = soon_failed("rounding=machine", "restart={after: 1000}", "accuracy_every=5")
    assert_same_with_help(tmp_path, config)
    assert at_once
    summary = json.loads((tmp_path / "2" / "summary.json").read_text())
    assert (summary["outcome"], summary["attempts"]) == ("no_machine", 3)


def test_an_attempt_that_left_damage_is_trained_by_the_run_itself(
    tmp_path: Path, at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SpeculativeAttempts.take

    def damaged(self: SpeculativeAttempts, attempt: int) -> Path | None:
        place = original(self, attempt)
        if place is not None:
            file = "training.pt" if attempt == 2 else "model.safetensors"
            (place / "last" / file).write_text("x")
        return place

    monkeypatch.setattr(SpeculativeAttempts, "take", damaged)
    assert_same_with_help(tmp_path, soon_failed("max_steps=45"))
    assert at_once == [2, 3, 4]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_an_attempt_ends_with_the_run_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from small_runs import CPU, small_run\n"
        "from stacktrans.training.make_source import make_source\n"
        "from stacktrans.training.speculation import SpeculativeAttempts\n"
        "from stacktrans.training.trainer import train_attempt\n"
        "place = Path(sys.argv[1])\n"
        "source = make_source(small_run('workers=2'), CPU)\n"
        "speculative = SpeculativeAttempts(source, place, CPU, train_attempt)\n"
        "speculative.train([2])\n"
        "_, done = speculative.running[2]\n"
        "while not (place / '.speculative' / '2' / 'last').exists():\n"
        "    assert not done.done(), done.exception()\n"
        "    time.sleep(0.1)\n"
        "print(Path(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read_text(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    begun = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, cwd=Path(__file__).parent
    )
    assert begun.returncode == -signal.SIGKILL, begun.stderr.decode()
    left = [*map(int, begun.stdout.split())]
    assert left
    for _ in range(240):
        if not any(Path(f"/proc/{process}").exists() for process in left):
            break
        time.sleep(0.25)
    else:
        raise AssertionError("it was trained further")
