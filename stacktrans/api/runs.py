"""Training runs: begun, resumed and inspected."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stacktrans.api.arguments import Count, Named, Seed, Text, assigned, checked
from stacktrans.api.models import Model, load
from stacktrans.settings.command import OPTIONS, option_layers
from stacktrans.settings.config import RunConfig
from stacktrans.showing.progress import as_html
from stacktrans.showing.training import summary_view
from stacktrans.training import requests
from stacktrans.training.race import Race
from stacktrans.training.records import METRICS, Record, Summary
from stacktrans.training.requests import TrainRequest
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
    from_: Named | None = None,
    data: Named | None = None,
    dev: Named | None = None,
    test: Named | None = None,
    columns: Text | None = None,
    symbols: Text | None = None,
    separator: Text | None = None,
    normalize: Text | None = None,
    memory: Text | None = None,
    controller: Text | None = None,
    recipe: Text | None = None,
    strategies: Sequence[Text] = (),
    budget: float | None = None,
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
        from_: a checkpoint to go on with: its weights are the first ones, its settings and its task
            those of the run unless given otherwise, and nothing is raced. The symbols that it knows
            are kept, whether `data` has them or not.
        data: instead of a task, a file of pairs to learn: a source, a tab and its target on each
            line, or JSON lines, perhaps packed (.gz).
        dev: with `data`, pairs that decide when to stop and which weights to keep; a tenth of
            `data` unless given.
        test: with `data`, pairs to measure at the end; the longest tenth of `data` unless given.
        columns: with `data`, what stands in a line: "source,features,target", for example; what
            its first line names, or found out from the file, unless given.
        symbols: with `data`, what strings are made of, "characters" or "words"; guessed
            from the file unless given.
        separator: with `data`, what stands between features; ";" or "|" unless given.
        normalize: with `data`, the Unicode normalization form of all strings: "nfc", "nfd", "nfkc"
            or "none"; none unless given, with a note in the summary if they are mixed.
        memory: its name (`stacktrans list memories`); auto, or nothing, for that which wins the
            race of strategies.
        controller: its name; the recipe's unless given.
        recipe: auto (used if none is given), a race of strategies; or one of these (`stacktrans
            list strategies`), or default or paper. With `from_`, how to train, if not as the
            checkpoint was trained.
        strategies: those to race; unless given, all that are for the task and the memory.
        budget: seconds of the race; 300, or the time limit, unless given.
        config: settings from a YAML file, such as a run's config.yaml.
        settings: changes to single settings, such as `{"hidden_size": 32}`.
        seed: random seed; 1, or that of `from_`, unless given.
        workers: number of processes; of a race, one on each core unless given.
        max_steps: stop after this many batches, each run of a race by itself.
        time_limit: stop after this many seconds of training.
        out: the run's directory; one in checkpoints/ unless given.
        device: where to compute: auto, cpu, cuda, cuda:1, ...
        listener: called with every record during the run, but not while strategies are raced.

    Raises:
        UsageError: the settings do not fit together, or `out` is taken.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and is saved for `resume`.
    """
    given = locals()
    request = TrainRequest(
        task=task,
        data=data,
        reading={name: given[name] for name in TrainRequest.READING},
        from_=from_,
        config=config,
        options={name: given.get(name) for name in OPTIONS},
        assignments=assigned(settings),
        recipe=recipe,
        strategies=strategies,
        budget=budget,
        out=None if out is None else Path(out),
        device=device,
    )
    return _carried_out(requests.begin(request), None, listener)


@checked
def resume(
    directory: Named,
    *,
    max_steps: Count | None = None,
    time_limit: float | None = None,
    budget: float | None = None,
    workers: Count | None = None,
    device: Text = "auto",
    listener: Listener | None = None,
) -> Run:
    """Resume an interrupted run, or a race of strategies, as `stacktrans train --resume` does.

    Args:
        directory: of the run.
        max_steps: stop after this many batches of the whole run, instead of its own budget.
        time_limit: stop after this many seconds of training of the whole run, instead of its
            own limit.
        budget: seconds of the whole race, instead of those that it had.
        workers: number of processes of a race; one on each core unless given.
        device: where to compute.
        listener: called with every record during the run.

    Raises:
        CheckpointError: there is no run, or it is damaged.
        UsageError: the run has gone beyond a budget already.
        StacktransError: the training failed.
        KeyboardInterrupt: it was interrupted, and is saved.
    """
    limits = option_layers({"max_steps": max_steps, "time_limit": time_limit})
    found = requests.resume(Path(directory), device, limits, budget, workers)
    return _carried_out(found, budget, listener)


def _carried_out(found: Trainer | Race, budget: float | None, listener: Listener | None) -> Run:
    """Train until the end; raises `KeyboardInterrupt` if that is interrupted."""
    again = f"stacktrans.resume({str(found.directory)!r})"
    try:
        if isinstance(found, Race):
            with found.opened(budget):
                run = _carried_out(found.raced(lambda: None), None, listener)
                found.close()
            return run
        with stopping(found):
            summary = found.run(listener or (lambda _: None))
    except Interrupted:
        raise KeyboardInterrupt(f"saved; resume with {again}") from None
    if found.stop_requested:  # in its last batch
        raise KeyboardInterrupt(f"the run had just ended; {again} gives it")
    return Run(found.directory, found.config, summary)
