"""Runs small enough for tests, and functions that compare their results."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from shapes import shaped

from stacktrans.model import checkpoint
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.training.interrupts import Interrupted
from stacktrans.training.records import METRICS, Record
from stacktrans.training.trainer import Trainer

SETTINGS = (
    "task.parameters.symbols=3",
    "task.lengths.train=[1, 5]",
    "task.lengths.test=[6, 8]",
    "hidden_size=8",
    "memory.size=4",
    "embedding_size=4",
    "output_size=8",
    "loss_every=5",
    "measure.strings=20",
)

CPU = torch.device("cpu")
SMALL = (*SETTINGS, "accuracy_every=10", "accuracy_loss=null")
CURRICULUM = "curriculum={share: 0.2, growth: 2, loss: %s}"


def small_run(*changes: str, memory: str = "stack") -> RunConfig:
    small = [each for each in SMALL if memory != "none" or not each.startswith("memory.")]
    return resolve(
        task="reverse", settings={"model": {"memory": memory}}, assignments=[*small, *changes]
    )


def small_stream(*changes: str, stream: str = "", **model: Any) -> RunConfig:
    small = shaped(**{"memory": "stack-rnn", "count": 2, "hidden_size": 5, **model})
    return resolve(
        task="anbn",
        recipe="paper",
        settings={"model": small},
        assignments=[
            "task.lengths.train=[1, 4]",
            "task.lengths.test=[5, 6]",
            "measure.strings=12",
            "batch_size=2",
            "rounding=null",
            "data.stream={sequences: 12, steps: 10, attempts: 1}",
            *([f"data.stream={{{stream}}}"] if stream else []),
            *changes,
        ],
    )


def trainer_of(config: RunConfig, directory: Path) -> Trainer:
    trainer = Trainer(config, directory, CPU, command="stacktrans train ...")
    directory.mkdir(parents=True, exist_ok=True)
    return trainer


def ignore(_: Record) -> None:
    pass


def records_of(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / METRICS).read_text().splitlines()
    return [{key: v for key, v in json.loads(line).items() if key != "seconds"} for line in lines]


def weights_of(directory: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load(directory, CPU).model.state_dict()


def assert_same_run(one: Path, other: Path) -> None:
    assert records_of(one) == records_of(other)
    for kind in ("best", "last"):
        theirs = weights_of(other / kind)
        for name, weight in weights_of(one / kind).items():
            assert torch.equal(weight, theirs[name]), (kind, name)


def assert_resumes_exactly(directory: Path, config: RunConfig, stop_at: int) -> None:
    """Interrupt a run at a step, and compare its result with that of an uninterrupted run."""
    trainer_of(config, directory / "whole").run(ignore)
    stopped = trainer_of(config, directory / "stopped")
    stop_after(stopped, stop_at)
    with pytest.raises(Interrupted) as interrupt:
        stopped.run(ignore)
    assert interrupt.value.exit_code == 130
    Trainer.resume(directory / "stopped", [], CPU).run(ignore)
    assert_same_run(directory / "whole", directory / "stopped")


def stop_after(trainer: Trainer, step: int) -> None:
    """Have the trainer asked to stop while it is at a step."""

    def stepping(*_: Any) -> None:
        if trainer.state.step + 1 == step:
            trainer.stop_requested = signal.SIGINT

    trainer.state.attempt.optimizer.register_step_pre_hook(stepping)
