"""`train` and `resume`, which run training from Python, and `Run`, a finished run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from stacktrans.api.arguments import Count, NameOrPath, Seconds, Seed, Text, assignments_of, checked
from stacktrans.api.models import Model, load
from stacktrans.common.errors import UsageError
from stacktrans.common.reading import json_lines
from stacktrans.common.visible import counted
from stacktrans.model.devices import computing_with
from stacktrans.settings.command import option_layers
from stacktrans.settings.config import RunConfig
from stacktrans.showing.curves import Unit, plot_curves, read_metrics
from stacktrans.showing.plots import check_plot
from stacktrans.showing.progress import as_html
from stacktrans.showing.tables import remark
from stacktrans.showing.training import summary_view
from stacktrans.training import requests
from stacktrans.training.interrupts import Interrupted, stopping
from stacktrans.training.race import Race
from stacktrans.training.records import METRICS, Record, Summary
from stacktrans.training.requests import TrainRequest
from stacktrans.training.trainer import Trainer
from stacktrans.training.wording import briefly

Listener = Callable[[Record], None]
"""A function that is called with every record of a run."""


@dataclass(repr=False, eq=False)
class Run:
    """A finished run; `train` returns it.

    Attributes:
        directory: of the run.
        config: its configuration.
        summary: its outcome and accuracy.
    """

    directory: Path
    config: RunConfig
    summary: Summary

    @cached_property
    def model(self) -> Model:
        """Its best model."""
        return load(self.directory)

    def metrics(self) -> list[dict[str, Any]]:
        """The records of the run, with the fields of `metrics.jsonl`.

        Raises:
            UsageError: the file can't be read, or is damaged.
        """
        path = self.directory / METRICS
        try:
            return [*json_lines(path)]
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from error

    @checked
    def plot(self, path: NameOrPath, by: Unit = "batches") -> Path:
        """Plot its loss and accuracy over time in a .png, .svg or .pdf file.

        Args:
            path: of the file.
            by: the unit of time, "batches" or "seconds".

        Raises:
            UsageError: the path has another suffix, matplotlib is not installed, or the run has no
                records.
        """
        path = Path(path)
        check_plot(path)
        plot_curves({str(self.directory): read_metrics(self.directory)}, by, path)
        return path

    def __repr__(self) -> str:
        batches = counted(self.summary.steps, "batch", "batches")
        return f"Run({self.directory}: {briefly(self.summary.outcome)} after {batches})"

    def _repr_html_(self) -> str:
        view = summary_view(self.summary, self.config, str(self.directory))
        return as_html(*map(remark, self.summary.notes), view)


@checked
def train(
    task: NameOrPath | None = None,
    *,
    from_: NameOrPath | None = None,
    data: NameOrPath | None = None,
    dev: NameOrPath | None = None,
    test: NameOrPath | None = None,
    columns: Text | None = None,
    symbols: Text | None = None,
    separator: Text | None = None,
    normalize: Text | None = None,
    memory: Text | None = None,
    controller: Text | None = None,
    accept: Literal["machine", "discrete", "soft"] | None = None,
    recipe: Text | None = None,
    strategies: Sequence[Text] = (),
    budget: Seconds | None = None,
    config: NameOrPath | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: Seed | None = None,
    workers: Count | None = None,
    max_steps: Count | None = None,
    time_limit: Seconds | None = None,
    out: NameOrPath | None = None,
    device: Text = "auto",
    listener: Listener | None = None,
) -> Run:
    """Train a transducer, as `stacktrans train` does.

    Args:
        task: name of a task, or its YAML file.
        from_: a checkpoint to start from: the run takes over its weights, and its settings and task
            unless others are given; nothing is raced. The symbols that it knows are kept, even if
            `data` does not have them.
        data: instead of a task, a file of pairs to learn: a source, a tab and its target on each
            line, or JSON lines, possibly compressed (.gz).
        dev: with `data`, pairs that decide when to stop and which weights to keep; by default, a
            tenth of `data`.
        test: with `data`, pairs to measure at the end; by default, the longest tenth of `data`.
        columns: with `data`, the columns of a line, such as "source,features,target"; by default,
            as named in the first line, or inferred from the file.
        symbols: with `data`, the symbols of strings, "characters" or "words"; by default, inferred
            from the file.
        separator: with `data`, the separator of features; by default, ";" or "|".
        normalize: with `data`, the Unicode normalization form of all strings: "nfc", "nfd", "nfkc"
            or "none"; by default none, with a note in the summary if forms are mixed.
        memory: its name (`stacktrans list memories`); by default auto, the memory that wins the
            race of strategies.
        controller: its name; by default, that of the recipe.
        accept: the solutions that end training. "soft": any, even one that needs signals between 0
            and 1. "discrete": only one that works with signals rounded to 0 or 1. "machine": a
            discrete one from which a machine can be extracted; after one without a machine,
            training continues for a while. By default, that of the recipe: "machine" in most
            strategies.
        recipe: auto (the default), a race of strategies; or a strategy (`stacktrans list
            strategies`), or another recipe (`stacktrans list recipes`). With `from_`, how to train,
            if not as the checkpoint was trained.
        strategies: those to race; by default, all that fit the task and the memory.
        budget: seconds of the race; by default the time limit, or 300.
        config: settings from a YAML file, such as a run's config.yaml.
        settings: changes to single settings, such as `{"hidden_size": 32}`.
        seed: random seed; by default that of `from_`, or 1.
        workers: number of processes; in a race, one on each core by default.
        max_steps: stop after this many batches; in a race, each run.
        time_limit: stop after this many seconds of training.
        out: directory of the run; by default a new one in checkpoints/.
        device: auto, cpu, cuda, cuda:1, ...
        listener: called with every record of the run, but not during a race.

    Raises:
        UsageError: the settings do not fit together, or `out` exists.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and was saved for `resume`.
    """
    arguments = locals() | {"out": None if out is None else Path(out)}
    request = TrainRequest.of(arguments, assignments=assignments_of(settings))
    with _own_state():
        return _finished(requests.begin(request), listener)


@checked
def resume(
    directory: NameOrPath,
    *,
    max_steps: Count | None = None,
    time_limit: Seconds | None = None,
    budget: Seconds | None = None,
    workers: Count | None = None,
    device: Text = "auto",
    listener: Listener | None = None,
) -> Run:
    """Resume an interrupted run, or a race of strategies, as `stacktrans train --resume` does.

    Args:
        directory: of the run.
        max_steps: stop after this many batches of the whole run, instead of its own limit.
        time_limit: stop after this many seconds of training of the whole run, instead of its
            own limit.
        budget: seconds of the whole race, instead of its own budget.
        workers: number of processes of a race; by default one on each core.
        device: auto, cpu, cuda, cuda:1, ...
        listener: called with every record of the run.

    Raises:
        CheckpointError: there is no run, or it is damaged.
        UsageError: the run has already exceeded a limit.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and was saved.
    """
    limits = option_layers({"max_steps": max_steps, "time_limit": time_limit})
    with _own_state():
        resumed = requests.resume(Path(directory), device, limits, budget, workers)
        return _finished(resumed, listener)


@contextmanager
def _own_state() -> Iterator[None]:
    """Restore torch's random state and number of threads, both of which training sets."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices), computing_with(1):
        yield


def _finished(training: Trainer | Race, listener: Listener | None) -> Run:
    """Train until the end; raises `KeyboardInterrupt` if the training is interrupted."""
    again = f"stacktrans.resume({str(training.directory)!r})"
    try:
        if isinstance(training, Race):
            with training.opened():
                run = _finished(training.run_to_best(lambda: None), listener)
                training.close()
            return run
        with stopping(training):
            summary = training.run(listener or (lambda _: None))
    except Interrupted:
        raise KeyboardInterrupt(f"saved; resume with {again}") from None
    if training.stop_requested:  # after its last measurement
        raise KeyboardInterrupt(f"the run had just ended; {again} returns it")
    return Run(training.directory, training.config, summary)
