"""Training runs: begun, resumed and looked at."""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from stacktrans.api.arguments import Count, Named, Seed, Text, checked
from stacktrans.api.assignments import assigned
from stacktrans.api.models import Model, load
from stacktrans.api.notebooks import as_html
from stacktrans.common.errors import UsageError
from stacktrans.model.devices import find_device
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import Layer, nested
from stacktrans.settings.resolve import resolve
from stacktrans.showing.training import summary_view
from stacktrans.training.records import METRICS, Record, Summary
from stacktrans.training.runs import check_free, claim, last_saved, stopping
from stacktrans.training.trainer import Interrupted, Trainer

Listener = Callable[[Record], None]
"""What is called with every record of a run."""


class Run:
    """A run that has ended, as `train` gives it.

    Args:
        directory: of the run.
        config: what it did.
        summary: how it ended.

    Attributes:
        directory: see above.
        config: see above.
        summary: see above.
    """

    def __init__(self, directory: Path, config: RunConfig, summary: Summary) -> None:
        self.directory = directory
        self.config = config
        self.summary = summary

    @cached_property
    def model(self) -> Model:
        """Its best model."""
        return load(self.directory)

    def metrics(self) -> list[dict[str, Any]]:
        """The records of the run, the fields those of `metrics.jsonl`."""
        lines = (self.directory / METRICS).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def __repr__(self) -> str:
        return f"Run({self.directory}: {self.summary.outcome} after {self.summary.steps} batches)"

    def _repr_html_(self) -> str:
        return as_html(summary_view(self.summary, self.config, str(self.directory)))


@checked
def train(
    task: Named | None = None,
    *,
    memory: Text | None = None,
    controller: Text | None = None,
    recipe: Text | None = None,
    config: Named | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: Seed | None = None,
    workers: Count | None = None,
    max_steps: Count | None = None,
    time_limit: float | None = None,
    out: Named | None = None,
    device: Text = "auto",
    listener: Listener | None = None,
) -> Run:
    """Train a transducer, as `stacktrans train` does.

    Args:
        task: name of a task, or its YAML file.
        memory: what to learn it with (`stacktrans list memories`).
        controller: what operates the memory; as the recipe says unless given.
        recipe: default or paper.
        config: settings from a YAML file, such as a run's config.yaml.
        settings: changes to single settings, such as `{"hidden_size": 32}`.
        seed: of all random numbers; 1 unless given.
        workers: processes.
        max_steps: stop after this many batches.
        time_limit: stop after this many seconds of training.
        out: the run's directory; one in checkpoints/ unless given.
        device: where to compute: auto, cpu, cuda, cuda:1, ...
        listener: called with every record while the run goes on.

    Raises:
        UsageError: what is asked for does not fit together, or `out` is taken.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and has saved itself for `resume`.
    """
    asked = {
        "seed": seed,
        "workers": workers,
        "model.memory": memory,
        "model.controller": controller,
        **_budgets(max_steps, time_limit),
    }
    run = resolve(
        task=None if task is None else os.fspath(task),
        recipe=recipe,
        config=None if config is None else os.fspath(config),
        options=_layers(asked),
        assignments=assigned(settings),
    )
    place = None if out is None else Path(out)
    return _finished(begin(run, place, device, "stacktrans.train"), listener)


@checked
def resume(
    directory: Named,
    *,
    max_steps: Count | None = None,
    time_limit: float | None = None,
    device: Text = "auto",
    listener: Listener | None = None,
) -> Run:
    """Resume an interrupted run, as `stacktrans train --resume` does.

    Args:
        directory: of the run.
        max_steps: stop after this many batches of the whole run, instead of its own budget.
        time_limit: stop after this many seconds of training of the whole run, likewise.
        device: where to compute.
        listener: called with every record while the run goes on.

    Raises:
        CheckpointError: there is no run, or it is damaged.
        UsageError: the run has gone beyond a budget already.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and has saved itself.
    """
    budgets = _layers(_budgets(max_steps, time_limit))
    return _finished(taken_up(Path(directory), budgets, device), listener)


def begin(
    config: RunConfig, out: Path | None, device: str, command: str, rehearsal: bool = False
) -> Trainer:
    """A run that is to begin, with a directory of its own.

    Args:
        config: what to do.
        out: the directory; None for one in checkpoints/.
        device: where to compute.
        command: what to note as the run's command.
        rehearsal: check alone whether it could be run; nothing is made or written.

    Raises:
        UsageError: something is not there, or does not fit.
    """
    if out is not None:
        check_free(out)
    # Nothing is written before everything that was asked for is known to be there.
    trainer = Trainer(config, Path(), find_device(device), command)
    if not rehearsal:
        name = f"{config.task.name}-{config.model.memory.name}-{config.seed}"
        trainer.directory = claim(out, name)
    return trainer


def taken_up(directory: Path, budgets: Sequence[Layer], device: str) -> Trainer:
    """A run to resume, its budgets perhaps changed.

    Raises:
        CheckpointError: there is none, or it is damaged.
        UsageError: it has gone beyond one of the budgets already.
    """
    last_saved(directory)
    trainer = Trainer.resume(directory, budgets, find_device(device))
    state = trainer.state
    done = {"max_steps": state.start.run_step, "time_limit": state.progress.seconds}
    for layer in budgets:
        for name, value in layer.settings["training"].items():
            if value < done[name]:
                unit = "batches" if name == "max_steps" else "seconds"
                raise UsageError(
                    f"{layer.origin} {value}: the run has already had {done[name]:.0f} {unit}"
                )
    return trainer


def _budgets(max_steps: int | None, time_limit: float | None) -> dict[str, Any]:
    return {"training.max_steps": max_steps, "training.time_limit": time_limit}


def _layers(asked: Mapping[str, Any]) -> list[Layer]:
    return [
        Layer(name.rpartition(".")[2], nested(name, value))
        for name, value in asked.items()
        if value is not None
    ]


def _finished(trainer: Trainer, listener: Listener | None) -> Run:
    try:
        with _interruptible(trainer):
            summary = trainer.run(listener or (lambda _: None))
    except Interrupted:
        raise KeyboardInterrupt(f"saved; resume with {_resuming(trainer)}") from None
    if trainer.stop_requested:  # in its last batch
        raise KeyboardInterrupt(f"the run had just ended; {_resuming(trainer)} gives it")
    return Run(trainer.directory, trainer.config, summary)


def _resuming(trainer: Trainer) -> str:
    return f"stacktrans.resume({str(trainer.directory)!r})"


@contextlib.contextmanager
def _interruptible(trainer: Trainer) -> Iterator[None]:
    """Have the run save itself when it is interrupted, where signals can be received."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with stopping(trainer):
        yield
