"""Sweeps that measure for how many runs a machine can be extracted."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_sweeps import settings, sweep_file

from stacktrans.common.errors import UsageError
from stacktrans.settings.locations import shipped
from stacktrans.sweeps.cells import cells_of
from stacktrans.sweeps.plan import Plan, read_plan
from stacktrans.sweeps.records import RunRecord
from stacktrans.sweeps.store import SweepStore
from stacktrans.sweeps.table import markdown
from stacktrans.sweeps.work import work

MACHINE = {"of": "machine", "lengths": [2, 30], "count": 50}
BRACKETS = shipped("checkpoints") / "parenthesis-stack"


def plan_of_brackets(directory: Path, *names: str) -> Plan:
    """A plan with a single run, that of a shipped model, and some of two measures."""
    config = yaml.safe_load((BRACKETS / "config.yaml").read_text())
    settings = {key: config[key] for key in ("task", "model", "training", "recipe")}
    own: dict[str, Any] = {
        "near": {"of": "coarse", "lengths": [2, 30], "count": 50},
        "kept": MACHINE,
    }
    changes = {"settings": settings, "grid": {"seed": [config["seed"]]}}
    conditions = {"conditions": {"Brackets": {}}, "solved": {"measure": "near", "least": 0.99}}
    measures = {name: own[name] for name in names}
    return read_plan(sweep_file(directory, **changes, **conditions, measures=measures))


def done(store: SweepStore) -> RunRecord:
    """Do the last run of a sweep, and return its record."""
    (*_, run) = store.plan.runs
    record = work(store.job(run, "cpu"))
    assert record
    assert "error" not in record, record["error"]
    return record


@pytest.fixture
def measured(tmp_path: Path) -> RunRecord:
    """The record of a run that was measured, in the directory `out`."""
    store = SweepStore(tmp_path / "out", plan_of_brackets(tmp_path, "near"))
    (run,) = store.plan.runs
    shutil.copytree(BRACKETS, store.run_directory(run))
    (store.run_directory(run) / "metrics.jsonl").touch()
    return done(store)


def test_a_measure_that_is_added_later_needs_no_training(
    measured: RunRecord, tmp_path: Path
) -> None:
    later = SweepStore(tmp_path / "out", plan_of_brackets(tmp_path, "near", "kept"))
    (run,) = later.plan.runs
    after = done(later)
    assert after["measured"]["kept"]["value"] == 1
    assert after["measured"]["near"] == measured["measured"]["near"]
    shown = markdown(later.plan, {run.identity: after})
    assert "Of the solved runs, 1 of 1 \\[0.21 – 1.00\\] have a machine." in shown


@pytest.mark.usefixtures("measured")
def test_a_measure_that_fails_leaves_those_that_were_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> float:
        raise MemoryError("no room")

    monkeypatch.setattr("stacktrans.sweeps.work._has_a_machine", fail)
    later = SweepStore(tmp_path / "out", plan_of_brackets(tmp_path, "near", "kept"))
    (run,) = later.plan.runs
    record = work(later.job(run, "cpu"))
    assert record
    assert record["error"] == "no room"
    near, kept = cells_of(later.plan, {run.identity: record})
    assert (near.values, near.failed) == ([1.0], 0)
    assert (kept.values, kept.failed) == ([], 1)
    # Without the measure, the run is what it was.
    without = SweepStore(tmp_path / "out", plan_of_brackets(tmp_path, "near"))
    assert done(without)["measured"] == {"near": record["measured"]["near"]}


def test_a_run_that_has_learned_nothing_has_no_machine(tmp_path: Path) -> None:
    measures = {"kept": {"of": "machine", "lengths": [1, 3], "count": 5}}
    path = sweep_file(tmp_path, measures=measures, settings=settings("max_steps=40"))
    store = SweepStore(tmp_path / "out", read_plan(path))
    assert done(store)["measured"]["kept"]["value"] == 0


@pytest.mark.parametrize("key", ["each", "depth", "hard", "seed"])
def test_settings_without_meaning_for_machines_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match=f"{key}: cannot be used with of: machine"):
        read_plan(sweep_file(tmp_path, measures={"kept": {**MACHINE, key: 1}}))
