"""Memories with cells of vectors, through all commands."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import SMALL, TRAIN, run

PARTS = {"superposed": "stack", "tape": "tape"}
"""The names of the parts of each memory."""


@pytest.fixture(scope="module", params=PARTS)
def memory(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def model(memory: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A barely trained model with two parts of long vectors."""
    out = tmp_path_factory.mktemp("runs") / "run"
    size = ("--set", "memory.size=20", "--set", "memory.count=2")
    words = (*TRAIN, "--task", "reverse", "--memory", memory, *SMALL, *size, "--max-steps", "5")
    done = run(*words, "--out", out)
    assert done.returncode == 0, done.stderr.decode()
    return out


def test_models_are_evaluated_hard_and_without_parts_and_answer(model: Path) -> None:
    options = ("--count", "5", "--without", "memory", "--without", "state", "--hard", "--json")
    done = run("eval", model, *options)
    assert done.returncode == 0, done.stderr.decode()
    assert [len(each["results"]) for each in json.loads(done.stdout)] == [2, 2, 2]
    answered = run("transduce", model, "--max-length", "4", stdin=b'!"\n#\n')
    assert len(answered.stdout.splitlines()) == 2


def test_contents_are_shown(model: Path, memory: str, tmp_path: Path) -> None:
    traced = json.loads(run("inspect", model, '!"#', "--contents", "--json").stdout)
    for step in traced["steps"]:
        lines = step["lines"]
        assert [*lines] == [f"{PARTS[memory]} 1", f"{PARTS[memory]} 2"]
        for line in lines.values():
            filled = [np.abs(cell).mean() for cell in line["values"]]
            np.testing.assert_allclose(line["filled"], filled, atol=1e-6)
    table = run("inspect", model, '!"#').stdout.decode().splitlines()
    assert max(map(len, table)) <= 200
    assert "…" in table[2]  # of 20 numbers, the first are shown
    drawn = run("inspect", model, '!"#', "--plot", tmp_path / "cells.svg")
    assert drawn.returncode == 0
    assert (tmp_path / "cells.svg").stat().st_size
