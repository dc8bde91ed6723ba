"""Training runs: begun, resumed and inspected."""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stacktrans.api.arguments import Count, Named, Seed, Text, assigned, checked
from stacktrans.api.models import Model, load
from stacktrans.common.errors import UsageError
from stacktrans.model.devices import find_device
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import Layer, given_layers
from stacktrans.settings.resolve import resolve
from stacktrans.showing.progress import as_html
from stacktrans.showing.training import summary_view
from stacktrans.tasks.pairs import task_of_data
from stacktrans.training.records import METRICS, Record, Summary
from stacktrans.training.saving import check_free, claim, last_saved
from stacktrans.training.trainer import Interrupted, Trainer, stopping

Listener = Callable[[Record], None]
"""Called with every record of a run."""


@dataclass(repr=False, eq=False)
class Run:
    """A run that has ended, as `train` gives it.

    Attributes:
        directory: of the run.
        config: its configuration.
        summary: how it ended.
    """

    directory: Path
    config: RunConfig
    summary: Summary

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
    data: Named | None = None,
    dev: Named | None = None,
    test: Named | None = None,
    columns: Text | None = None,
    symbols: Text | None = None,
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
        data: instead of a task, a file of pairs to learn: a source, a tab and its target on each
            line, or JSON lines, perhaps packed (.gz).
        dev: with `data`, pairs to choose and to stop by; a tenth of `data` unless given.
        test: with `data`, pairs to measure at the end; the longest tenth of `data` unless given.
        columns: with `data`, what stands in a line: "source,features,target", for example.
        symbols: with `data`, what strings are made of, "characters" or "words"; found out unless
            given.
        memory: its name (`stacktrans list memories`).
        controller: its name; the recipe's unless given.
        recipe: default or paper.
        config: settings from a YAML file, such as a run's config.yaml.
        settings: changes to single settings, such as `{"hidden_size": 32}`.
        seed: random seed; 1 unless given.
        workers: number of processes.
        max_steps: stop after this many batches.
        time_limit: stop after this many seconds of training.
        out: the run's directory; one in checkpoints/ unless given.
        device: where to compute: auto, cpu, cuda, cuda:1, ...
        listener: called with every record during the run.

    Raises:
        UsageError: the settings do not fit together, or `out` is taken.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and is saved for `resume`.
    """
    given = {"dev": dev, "test": test, "columns": columns, "symbols": symbols}
    asked = {
        "data": ("task", task_of_data(task, data, given)),
        "seed": ("seed", seed),
        "workers": ("workers", workers),
        "memory": ("model.memory", memory),
        "controller": ("model.controller", controller),
        **_budgets(max_steps, time_limit),
    }
    run = resolve(
        task=None if task is None else os.fspath(task),
        recipe=recipe,
        config=None if config is None else os.fspath(config),
        options=given_layers(asked),
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
        listener: called with every record during the run.

    Raises:
        CheckpointError: there is no run, or it is damaged.
        UsageError: the run has gone beyond a budget already.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and is saved.
    """
    budgets = given_layers(_budgets(max_steps, time_limit))
    return _finished(taken_up(Path(directory), budgets, device), listener)


def begin(
    config: RunConfig, out: Path | None, device: str, command: str, rehearsal: bool = False
) -> Trainer:
    """A trainer for a new run, with a directory of its own: `out`, or one in checkpoints/.

    With `rehearsal`, it is only checked whether it could be run; nothing is made or written.

    Raises:
        UsageError: something is missing, or does not fit.
    """
    if out is not None:
        check_free(out)
    # Nothing is written before everything that was asked for is known to exist.
    trainer = Trainer(config, Path(), find_device(device), command)
    if not rehearsal:
        trainer.directory = claim(out, config.title)
    return trainer


def taken_up(directory: Path, budgets: Sequence[Layer], device: str) -> Trainer:
    """A trainer that resumes a run, perhaps with new budgets.

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
                had = f"the run has already had {done[name]:.0f} {unit}"
                raise UsageError(f"{layer.origin} {value}: {had}")
    return trainer


def _budgets(max_steps: int | None, time_limit: float | None) -> dict[str, tuple[str, Any]]:
    return {
        "max_steps": ("training.max_steps", max_steps),
        "time_limit": ("training.time_limit", time_limit),
    }


def _finished(trainer: Trainer, listener: Listener | None) -> Run:
    again = f"stacktrans.resume({str(trainer.directory)!r})"
    # Signals are received in the main thread alone.
    main = threading.current_thread() is threading.main_thread()
    try:
        with stopping(trainer) if main else contextlib.nullcontext():
            summary = trainer.run(listener or (lambda _: None))
    except Interrupted:
        raise KeyboardInterrupt(f"saved; resume with {again}") from None
    if trainer.stop_requested:  # in its last batch
        raise KeyboardInterrupt(f"the run had just ended; {again} gives it")
    return Run(trainer.directory, trainer.config, summary)
