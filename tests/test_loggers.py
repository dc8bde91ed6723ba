"""Records of runs in other formats: CSV, and events for TensorBoard."""

import csv
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, TRAIN, run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from stacktrans.common.reading import json_lines
from stacktrans.training.loggers import row_of

MORE = ("--max-steps", "22", "--log-to")
"""Two batches more than the run had before its records were logged."""


def csv_rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "metrics.csv").open(newline="") as stream:
        return [*csv.DictReader(stream)]


def records(directory: Path) -> list[dict[str, Any]]:
    return [*json_lines(directory / "metrics.jsonl")]


def test_a_csv_file_has_all_records_also_those_before_a_run_was_resumed(
    trained: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(trained, tmp_path / "run")
    assert run("train", "--resume", out, *MORE, "csv").returncode == 0
    rows, lines = csv_rows(out), records(out)
    assert [row["step"] for row in rows] == [str(line["step"]) for line in lines]
    for row, line in zip(rows, lines, strict=True):
        assert float(row["loss"]) == line["loss"]
        assert float(row["signals/push"]) == line["signals"]["push"]
        assert [int(row[f"lengths/{end}"]) for end in ("shortest", "longest")] == line["lengths"]


def test_events_are_those_of_the_records(trained: Path, tmp_path: Path) -> None:
    out = shutil.copytree(trained, tmp_path / "run")
    assert run("train", "--resume", out, *MORE, "tensorboard").returncode == 0
    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    lines = records(out)
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [(line["step"], pytest.approx(line["loss"])) for line in lines]
    pushes = [event.value for event in events.Scalars("signals/push")]
    assert pushes == [pytest.approx(line["signals"]["push"]) for line in lines]


def test_a_row_has_a_column_for_each_number_also_where_it_was_not_measured() -> None:
    accuracy = {"coarse": 0.5, "fine": 0.75, "count": 4, "symbols": 1.0}
    row = row_of({"step": 5, "lengths": [1, 2], "test": accuracy, "train": None})
    assert row == {
        "step": 5, "lengths/shortest": 1, "lengths/longest": 2,
        **{f"test/{name}": value for name, value in accuracy.items()},
        **{f"train/{name}": None for name in accuracy},
    }  # fmt: skip
    assert row_of({"lengths": None}) == {"lengths/shortest": None, "lengths/longest": None}


def test_a_race_has_the_records_of_its_winner(tmp_path: Path) -> None:
    out = tmp_path / "race"
    race = "train", "--task", "copy", *SMALL, "--strategies", "joint", "--max-steps", "10"
    assert run(*race, "--out", out, "--log-to", "csv").returncode == 0
    steps = [row["step"] for row in csv_rows(out)]
    assert steps == [str(line["step"]) for line in records(out)]
    assert steps


def test_a_package_that_is_missing_is_named_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    words = ("--task", "copy", "--memory", "queue", "--log-to", "tensorboard")
    done = run(*TRAIN, *words, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert b"pip install tensorboard" in done.stderr
    assert not (tmp_path / "run").exists()
