"""Learning curves of runs: as text, in a file, and from Python."""

import importlib.util
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import run

import stacktrans
from stacktrans.showing.curves import curves_of, read_metrics
from stacktrans.training.records import LOSS

DOTS = re.compile("[⠁-⣿]")


def record(step: int, **changes: Any) -> dict[str, Any]:
    return {
        "step": step, "attempt": 1, "seconds": step / 10, "loss": 1 / step, "perplexity": 1.0,
        "learning_rate": 0.1, "lengths": [1, 4], "signals": {}, **changes,
    }  # fmt: skip


def accuracy(coarse: float) -> dict[str, float]:
    return {"coarse": coarse, "fine": 1.0, "count": 10, "symbols": 1.0}


def run_of(directory: Path, *records: dict[str, Any]) -> Path:
    directory.mkdir(parents=True)
    lines = "".join(f"{json.dumps(each)}\n" for each in records)
    (directory / "metrics.jsonl").write_text(lines)
    return directory


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A run whose accuracy is measured at every second record."""
    return run_of(
        tmp_path / "measured",
        record(100),
        record(200, train=accuracy(0.5), test=accuracy(0.25)),
        record(300),
        record(400, train=accuracy(1.0), test=accuracy(0.75)),
    )


def test_curves_have_the_measurements_of_a_run(measured: Path) -> None:
    metrics = {"a": read_metrics(measured)}
    (loss,) = curves_of(metrics, LOSS, "seconds")
    assert (loss.times, loss.values) == ([10, 20, 30, 40], [1 / 100, 1 / 200, 1 / 300, 1 / 400])
    test, train = curves_of(metrics, "coarse accuracy", "batches")
    assert (test.field, test.times, test.values) == ("test", [200, 400], [0.25, 0.75])
    assert (train.field, train.times, train.values) == ("train", [200, 400], [0.5, 1.0])


def test_charts_fit_their_line_and_name_the_runs(measured: Path, tmp_path: Path) -> None:
    text = run_of(tmp_path / "text", record(5, validation=2.0), record(9, validation=1.5))
    done = run("plot", measured, text, "--by", "seconds")
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(f"{measured.name}: loss" in line for line in lines) == 1
    assert sum(f"{measured.name}: test" in line for line in lines) == 1
    assert sum("text: " in line for line in lines) == 1  # its accuracy is never measured
    assert "\x1b" not in done.stdout.decode()
    assert [line[:3] for line in lines if re.match("⠤.⠤", line)] == ["⠤o⠤", "⠤x⠤"]
    assert sum(bool(DOTS.search(line)) for line in lines) > 10


def test_axes_of_charts_are_labeled_with_round_numbers(tmp_path: Path) -> None:
    measured = (record(number, test=accuracy(1.0)) for number in (60, 95))
    shown = run("plot", run_of(tmp_path / "a", record(30), *measured)).stdout.decode()
    drawn = [line.split("|")[0].strip() for line in shown.splitlines() if DOTS.search(line)]
    assert drawn[0] == "0.032"
    assert "1" in drawn
    assert re.search(r"\| 0 +15 +30 +45 ", shown)


def test_figures_have_a_line_for_each_curve(measured: Path, tmp_path: Path) -> None:
    path = tmp_path / "curves.svg"
    drawn = run("plot", measured, measured, "--out", path)
    assert (drawn.returncode, drawn.stderr.decode()) == (0, f"stacktrans: saved in {path}\n")
    labels = re.findall(r"<!-- (.*?) -->", path.read_text())
    for label in ("", ", test", ", train"):
        assert f" {measured.name}{label}" in labels
    assert "batches" in labels
    unfinished = run_of(tmp_path / "unfinished", record(100, loss=float("nan")), record(200))
    assert run("plot", unfinished, "--out", tmp_path / "one.png").returncode == 0
    assert run("plot", unfinished).returncode == 0


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / folder / "run", record(100), record(200)) for folder in "ab"]
    assert run("plot", *runs, "--out", tmp_path / "it.svg").returncode == 0
    labels = re.findall(r"<!-- (.*?) -->", (tmp_path / "it.svg").read_text())
    assert {f" {each}" for each in runs} <= {*labels}


def test_a_run_plots_itself(trained: Path, tmp_path: Path) -> None:
    run = stacktrans.resume(trained)
    assert [record.step for record in read_metrics(trained)] == [
        each["step"] for each in run.metrics()
    ]
    assert run.plot(tmp_path / "run.png", by="seconds").stat().st_size > 1000
    with pytest.raises(stacktrans.UsageError, match="by 'hours': expected"):
        run.plot(tmp_path / "run.png", by="hours")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "charts need plotille: pip install plotille"),
        (["--out", "curves.svg"], "plots need matplotlib: pip install matplotlib pillow"),
    ],
)
def test_a_package_that_is_missing_is_named(
    measured: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    done = run("plot", measured, *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected the directory of a run, with metrics.jsonl"),
        ("", "metrics.jsonl: no records"),
        ("[1]\n", "metrics.jsonl:1: expected a record of a run, not [1]"),
        (json.dumps(record(1)) + '\n{"step": 1}\n', "metrics.jsonl:2: expected a record of a run"),
        ("x" * 1000, "metrics.jsonl:1: expected a record of a run, not xxx"),
        (json.dumps(record(1, loss=math.nan)), "no loss or accuracy that is a number has been"),
    ],
)
def test_a_directory_that_is_not_a_run_is_refused(
    content: str | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content)
    done = run("plot", tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert len(done.stderr) < 400
