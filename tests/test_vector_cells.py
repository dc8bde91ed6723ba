"""Memories with cells of vectors, through all commands."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import SMALL, TRAIN, run
from small_sweeps import records, sweep_file

PARTS = {"superposed": "stack", "tape": "tape"}
"""The names of the parts of each memory."""
MEMORIES = pytest.mark.parametrize("memory", PARTS)


@pytest.fixture
def model(memory: str, tmp_path: Path) -> Path:
    """A barely trained model with two parts of long vectors."""
    size = ("--set", "memory.size=20", "--set", "memory.count=2")
    words = (*TRAIN, "--task", "reverse", "--memory", memory, *SMALL, *size, "--max-steps", "5")
    done = run(*words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
    return tmp_path / "run"


@MEMORIES
def test_models_are_evaluated_hard_and_without_parts_and_answer(model: Path, memory: str) -> None:
    options = ("--count", "5", "--without", "memory", "--without", "state", "--hard", "--json")
    done = run("eval", model, *options)
    assert done.returncode == 0, done.stderr.decode()
    assert [len(each["results"]) for each in json.loads(done.stdout)] == [2, 2, 2]
    answered = run("transduce", model, "--max-length", "4", stdin=b'!"\n#\n')
    assert len(answered.stdout.splitlines()) == 2


@MEMORIES
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


@MEMORIES
@pytest.mark.usefixtures("sweeps_here")
def test_sweeps_train_and_measure_it(memory: str, tmp_path: Path) -> None:
    path = sweep_file(
        tmp_path, conditions={"one": {"model": {"memory": memory}}}, grid={"seed": [1]}
    )
    done = run("sweep", path, "--workers", "1", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr.decode()
    (record,) = records(tmp_path / "out")
    assert "error" not in record
