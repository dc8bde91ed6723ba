"""Sweeps that say of how many runs there is a machine."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_sweeps import settings, sweep_file

from stacktrans.sweeps.plan import Plan, read_plan
from stacktrans.sweeps.store import SweepStore
from stacktrans.sweeps.table import markdown
from stacktrans.sweeps.work import Record, work

MACHINE = {"of": "machine", "lengths": [2, 30], "count": 50}
BRACKETS = Path("checkpoints/parenthesis-stack")


def plan_of_brackets(directory: Path, *names: str) -> Plan:
    """Of a model that was trained, with some of two measures."""
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


def done(store: SweepStore) -> Record:
    """The record of the last run of a sweep."""
    (*_, run) = store.plan.runs
    record = work(store.job(run, "cpu"))
    assert record
    assert "error" not in record, record["error"]
    return record


def test_a_measure_that_is_added_later_needs_no_training(tmp_path: Path) -> None:
    out = tmp_path / "out"
    store = SweepStore(out, plan_of_brackets(tmp_path, "near"))
    (run,) = store.plan.runs
    shutil.copytree(BRACKETS, store.run_directory(run))
    (store.run_directory(run) / "metrics.jsonl").touch()
    before = done(store)
    later = SweepStore(out, plan_of_brackets(tmp_path, "near", "kept"))
    after = done(later)
    assert after["measured"]["kept"]["value"] == 1
    assert after["measured"]["near"] == before["measured"]["near"]
    shown = markdown(later.plan, {run.identity: after})
    assert "Of the solved runs, 1 of 1 \\[0.21 – 1.00\\] have a machine." in shown


def test_a_run_that_has_learned_nothing_has_no_machine(tmp_path: Path) -> None:
    measures = {"kept": {"of": "machine", "lengths": [1, 3], "count": 5}}
    path = sweep_file(tmp_path, measures=measures, settings=settings("max_steps=40"))
    store = SweepStore(tmp_path / "out", read_plan(path))
    assert done(store)["measured"]["kept"]["value"] == 0


@pytest.mark.parametrize("key", ["each", "depth", "hard", "seed"])
def test_settings_without_meaning_for_machines_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(Exception, match=f"{key}: cannot be used with of: machine"):
        read_plan(sweep_file(tmp_path, measures={"kept": {**MACHINE, key: 1}}))
