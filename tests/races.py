"""Races of a few strategies that end soon, mostly without a solution."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, run

from stacktrans.settings.candidates import candidate_configs
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import requested_layers
from stacktrans.training import scheduling
from stacktrans.training.race import Race
from stacktrans.training.requests import TrainRequest, begin_race

NAMES = ("patient", "wide", "buffered")
CHANGES = SMALL[1::2]
EASY = (
    "solved.accuracy=0.05",
    "solved.times=1",
    "learning_rate=0.02",
    "training.settle=null",
    "training.rounding=null",
)
"""Settings with which a task is solved soon."""
STRATEGIES = ("--strategies", ",".join(NAMES), "--workers", "1")


def candidates_of(
    names: Sequence[str] = (), budget: float | None = None, **requested: Any
) -> dict[str, RunConfig]:
    """The candidates of a race with requested settings."""
    return candidate_configs(requested_layers(**requested), names, budget)


def configs(*changes: str) -> dict[str, RunConfig]:
    return candidates_of(NAMES, task="copy", assignments=[*CHANGES, *changes])


def begun(directory: Path, workers: int = 1, *changes: str, budget: float = 60) -> Race:
    return begin_race(configs(*changes), request_of(directory, budget, workers))


def request_of(directory: Path, budget: float | None = 60, workers: int = 1) -> TrainRequest:
    options = {"workers": workers}
    return TrainRequest(
        out=directory, device="cpu", options=options, budget=budget, candidate_command=["train"]
    )


def carried_on(found: Race, rounds: int) -> Race:
    """A race after so many rounds, or a few more where several processes work."""

    def show() -> None:
        if found.state.rounds >= rounds:
            found.stop_requested = signal.SIGINT

    with found.opened():
        found.run(show)
    return found


def weights(directory: Path) -> bytes:
    place = directory / "best" if (directory / "best").exists() else directory / "last"
    content = (place / "model.safetensors").read_bytes()
    # Without the header, which tells of the configuration.
    return content[8 + int.from_bytes(content[:8], "little") :]


Progress = list[tuple[str, int, float | None, dict[str, float]]]


def progress_of(found: Race) -> Progress:
    return [
        (name, each.step, each.loss, each.best) for name, each in found.state.candidates.items()
    ]


def progress_after(directory: Path, rounds: int) -> Progress:
    """The progress of a race that is not stopped in so many rounds of short time slices."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scheduling, "TIME_SLICE", 10)
        return progress_of(carried_on(begun(directory), rounds))


def train(*options: str | Path, out: Path) -> Any:
    return run("train", "--task", "copy", *SMALL, *STRATEGIES, *options, "--out", out)
