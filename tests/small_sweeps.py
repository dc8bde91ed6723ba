"""Sweeps of runs so small that many fit in a test."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import SETTINGS

from stacktrans.common import processes
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import merge_layers, option_layer

MEASURES = {
    "test": {"of": "fine", "strings": "test"},
    "short": {"of": "lengths", "lengths": [1, 3], "each": True, "count": 4},
}

RACED = {"Raced": {"recipe": "auto", "model": {"memory": "stack"}}}


def settings(*assignments: str) -> dict[str, Any]:
    layers = [option_layer(each, RunConfig) for each in (*SETTINGS, *assignments)]
    found = merge_layers(layers)
    task = {"name": "copy", "generator": "copy", "paper": "grefenstette2015"}
    return {**found, "task": {**task, "length_law": "uniform", **found["task"]}}


def sweep_file(directory: Path, **changes: Any) -> Path:
    content = {
        "title": "Small",
        "settings": settings("accuracy_every=5", "max_steps=10"),
        "grid": {"seed": [1, 2, 3]},
        "conditions": {
            "Stack": {"model": {"memory": "stack"}},
            "Queue": {"model": {"memory": "queue"}},
        },
        "measures": MEASURES,
        **changes,
    }
    path = directory / "small.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def work_here(patched: pytest.MonkeyPatch) -> None:
    """Have this process do the work of worker processes, which would load everything again."""
    patched.setattr(processes, "Process", lambda _: processes.ThisProcess(lambda: False))


def records(directory: Path) -> list[dict[str, Any]]:
    """What a sweep has recorded of its runs."""
    lines = (directory / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def without_seconds(directory: Path) -> list[dict[str, Any]]:
    """The same, but for how long each took."""
    return [{**record, "seconds": None} for record in records(directory)]
