"""Starts trained ahead by other processes: they change nothing but the time it takes."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from test_training import ignore, records_of, small_run, trainer_of, weights_of

from stacktrans import ahead
from stacktrans.config import RunConfig
from stacktrans.records import Summary

SOON_FAILED = ("restart_after=20", "restart_loss=0.0001")


def soon_failed(*changes: str) -> RunConfig:
    return small_run(*SOON_FAILED, *changes)


def train(directory: Path, *changes: str) -> Summary:
    return trainer_of(soon_failed(*changes), directory).run(ignore)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has what was trained ahead waited for, and tells how often it was taken over."""
    taken: list[int] = []
    original = ahead.Ahead.take

    def patient(self: ahead.Ahead, attempt: int) -> Path | None:
        if attempt in self.running:
            self.running[attempt].wait(timeout=120)
        place = original(self, attempt)
        if place:
            taken.append(attempt)
        return place

    monkeypatch.setattr(ahead.Ahead, "take", patient)
    return taken


@pytest.mark.parametrize(("steps", "starts"), [(80, 4), (90, 5)])
def test_what_comes_out_is_the_same(
    tmp_path: Path, patience: list[int], steps: int, starts: int
) -> None:
    alone = train(tmp_path / "alone", f"max_steps={steps}")
    assert patience == []
    helped = train(tmp_path / "helped", f"max_steps={steps}", "workers=3")
    assert patience == list(range(2, starts + 1))
    assert (alone.attempts, alone.steps) == (helped.attempts, helped.steps) == (starts, steps)
    assert records_of(tmp_path / "alone") == records_of(tmp_path / "helped")
    assert alone.best_step == helped.best_step
    for kind in ("best", "last"):
        weights, others = (
            weights_of(tmp_path / "alone" / kind),
            weights_of(tmp_path / "helped" / kind),
        )
        assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert not (tmp_path / "helped" / ahead.FOLDER).exists()


def test_a_start_that_solved_the_task_ahead_ends_the_run(
    tmp_path: Path, patience: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is asked of the second start is so little that it has solved the task at once.
    place = tmp_path / "run"
    original = ahead.Ahead._begin

    def begin(self: ahead.Ahead, attempt: int) -> subprocess.Popen[bytes]:
        easy = soon_failed("solved_accuracy=0.001", "restart_after=null", "learning_rate=0.02")
        return original(ahead.Ahead(easy, self.directory, self.device), attempt)

    monkeypatch.setattr(ahead.Ahead, "_begin", begin)
    summary = train(place, "workers=2")
    assert (summary.outcome, summary.attempts) == ("solved", 2)
    assert summary.best_step > 20
    steps = [record["step"] for record in records_of(place)]
    assert steps == sorted(steps)
    assert steps[-1] == summary.steps


def test_nothing_is_left_running(tmp_path: Path) -> None:
    trainer = trainer_of(soon_failed("workers=3", "restart_after=1000"), tmp_path / "run")
    started: list[subprocess.Popen[bytes]] = []

    def report(_: Any) -> None:
        started.extend(trainer.ahead.running.values())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.run(report)
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_a_start_that_was_killed_is_taken_over_as_far_as_it_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = train(tmp_path / "alone", "max_steps=40", "restart_after=25")
    original = ahead.Ahead.take

    def killed(self: ahead.Ahead, attempt: int) -> Path | None:
        self.running[attempt].wait(timeout=120)
        place = original(self, attempt)
        assert place is not None
        with (place / "metrics.jsonl").open("a") as metrics:
            metrics.write('{"step": 17, "att')
        return place

    monkeypatch.setattr(ahead.Ahead, "take", killed)
    helped = train(tmp_path / "helped", "max_steps=60", "restart_after=25", "workers=2")
    assert helped.attempts == 3
    count = len(records_of(tmp_path / "alone"))
    assert records_of(tmp_path / "helped")[:count] == records_of(tmp_path / "alone")
    assert alone.steps == 40


def test_a_start_that_diverges_ahead_is_left_for_the_next(
    tmp_path: Path, patience: list[int]
) -> None:
    changes = ("learning_rate=1e30", "gradient_clip=1e30", "max_steps=8")
    alone = train(tmp_path / "alone", *changes)
    helped = train(tmp_path / "helped", *changes, "workers=2")
    assert patience
    assert alone.attempts == helped.attempts > 2
    assert records_of(tmp_path / "alone") == records_of(tmp_path / "helped")


def test_a_start_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    config = soon_failed("restart_after=null")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(config.to_yaml())
    # What began it has ended before it looks for the first time.
    script = (
        "import os, subprocess, sys\n"
        f"arguments = [{str(tmp_path / 'run')!r}, '2', 'cpu', str(os.getpid())]\n"
        "print(subprocess.Popen([sys.executable, '-m', 'stacktrans.ahead', *arguments]).pid)"
    )
    begun = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    for _ in range(240):
        try:
            os.kill(int(begun.stdout), 0)
        except ProcessLookupError:
            break
        time.sleep(0.25)
    else:
        raise AssertionError("it goes on")
    assert (tmp_path / "run" / "last").is_dir()
