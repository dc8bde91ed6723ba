"""Training runs: begun, resumed and inspected."""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from stacktrans.api.arguments import Count, Named, Seed, Text, assigned, checked
from stacktrans.api.models import Model, load
from stacktrans.common.errors import UsageError
from stacktrans.common.files import is_race
from stacktrans.common.processes import cores
from stacktrans.model import checkpoint
from stacktrans.model.devices import find_device
from stacktrans.settings.command import option_layers, training_command, written_like
from stacktrans.settings.config import NOT_RACED, RunConfig, base_of
from stacktrans.settings.contest import contestants, title_of
from stacktrans.settings.layers import Layer
from stacktrans.settings.packaged import AUTO
from stacktrans.settings.resolve import Asked, asked_layers
from stacktrans.showing.progress import as_html
from stacktrans.showing.training import summary_view
from stacktrans.tasks.pairs import task_of_data
from stacktrans.training import race as races
from stacktrans.training.inherited import checksum_of
from stacktrans.training.race import Race
from stacktrans.training.records import METRICS, Record, Summary
from stacktrans.training.saving import check_free, claim, last_saved
from stacktrans.training.trainer import Interrupted, Stoppable, Trainer, stopping

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
    files = {"dev": dev, "test": test, "columns": columns, "symbols": symbols}
    files |= {"separator": separator, "normalize": normalize}
    before = None if from_ is None else starting_from(from_, recipe, memory)
    if before and data is not None:
        files = written_like(before.config.task, files)
    given = {
        "data": task_of_data(task, data, files),
        "seed": seed,
        "memory": memory,
        "controller": controller,
        "max_steps": max_steps,
        "time_limit": time_limit,
    }
    asked: Asked = {
        "base": before and before.base,
        "task": None if task is None else os.fspath(task),
        "config": None if config is None else os.fspath(config),
        "options": [
            *([before.first] if before else []),
            *option_layers({"workers": workers, **given}),
        ],
        "assignments": assigned(settings),
    }
    configs = contestants(recipe, strategies, budget, **asked)
    place = None if out is None else Path(out)
    if len(configs) == 1:
        (run,) = configs.values()
        return _finished(begin(run, place, device, "stacktrans.train"), listener)
    command = training_command(asked_layers(None, {**asked, "options": option_layers(given)}))
    race = begin_race(configs, place, device, command, budget, workers)
    return _raced(race, None, listener)


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
    budgets = option_layers({"max_steps": max_steps, "time_limit": time_limit})
    found = taken_up(Path(directory), device, budgets, budget, workers)
    return (
        _raced(found, budget, listener) if isinstance(found, Race) else _finished(found, listener)
    )


class Before(NamedTuple):
    """What a run takes over from a checkpoint that it starts from.

    Attributes:
        config: of the checkpoint.
        base: settings that all others lie over.
        first: the setting that names the checkpoint.
    """

    config: RunConfig
    base: Layer
    first: Layer


def starting_from(name: Named, recipe: str | None, memory: str | None) -> Before:
    """What a run takes over from a checkpoint, with the recipe and the memory that are asked for.

    Raises:
        CheckpointError: there is none, or it is damaged.
        UsageError: a race is asked for.
    """
    if memory == AUTO:
        raise UsageError(f"memory {AUTO}: {NOT_RACED}; expected that of the checkpoint, or none")
    place = checkpoint.locate(os.fspath(name))
    config = checkpoint.read_config(place)
    base = base_of(config, str(place / checkpoint.CONFIG), recipe)
    named = {"checkpoint": os.fspath(name), "sha256": checksum_of(place)}
    return Before(config, base, Layer(os.fspath(name), {"start_from": named}))


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


def check_race(configs: Mapping[str, RunConfig], out: Path | None, device: str) -> Sequence[str]:
    """What is to be reported of the data of a race.

    Raises:
        UsageError: it could not be carried out, or has no directory to be in.
    """
    if out is not None:
        check_free(out)
    trainers = [Trainer(config, Path(), find_device(device), "") for config in configs.values()]
    return trainers[0].source.notes


def begin_race(
    configs: Mapping[str, RunConfig],
    out: Path | None,
    device: str,
    command: Sequence[str],
    budget: float | None,
    workers: int | None,
) -> Race:
    """A race of strategies for a new run, with a directory of its own, as `begin` gives.

    Args:
        configs: of the strategies, by name.
        out: the directory.
        device: where to compute.
        command: the words of a command that trains any of them alone, if its recipe is added.
        budget: seconds; the time limit of each run, if it has one, unless given.
        workers: number of processes; one on each core unless given.

    Raises:
        UsageError: something is missing, or does not fit.
    """
    notes = check_race(configs, out, device)
    directory = claim(out, title_of(configs))
    races.begin(directory, configs, command, budget)
    return Race(directory, device, workers or cores(), notes)


def taken_up(
    directory: Path,
    device: str,
    budgets: Sequence[Layer] = (),
    budget: float | None = None,
    workers: int | None = None,
) -> Trainer | Race:
    """A trainer that resumes a run, perhaps with new budgets; or a race that is not over.

    Args:
        directory: of the run.
        device: where to compute.
        budgets: of a run.
        budget: seconds of a race.
        workers: number of processes of a race; one on each core unless given.

    Raises:
        CheckpointError: there is none, or it is damaged.
        UsageError: it has gone beyond one of the budgets already, or is not what they are for.
    """
    if is_race(directory):
        if budgets:
            raise UsageError(
                f"{budgets[0].origin}: not for a race, whose budget can be given instead"
            )
        return Race(directory, device, workers or cores())
    last_saved(directory)
    if budget is not None or workers is not None:
        raise UsageError(f"{directory}: no race that could go on; it is a single run")
    trainer = Trainer.resume(directory, budgets, find_device(device))
    state = trainer.state
    done = {"max_steps": state.start.run_step, "time_limit": state.progress.seconds}
    for layer in budgets:
        for name, value in layer.settings["training"].items():
            if value < done[name]:
                unit = "batches" if name == "max_steps" else "seconds"
                had = f"the run has already had {done[name]:.0f} {unit}; expected more"
                raise UsageError(f"{layer.origin} {value}: {had}")
    return trainer


def _raced(race: Race, budget: float | None, listener: Listener | None) -> Run:
    with race.opened(budget):
        with _stopping(race):
            race.run(lambda: None)
        if race.stop_requested:
            raise KeyboardInterrupt(f"saved; resume with {_again(race.directory)}")
        run = _finished(race.best_run(), listener)
        race.close()
    return run


def _finished(trainer: Trainer, listener: Listener | None) -> Run:
    again = _again(trainer.directory)
    try:
        with _stopping(trainer):
            summary = trainer.run(listener or (lambda _: None))
    except Interrupted:
        raise KeyboardInterrupt(f"saved; resume with {again}") from None
    if trainer.stop_requested:  # in its last batch
        raise KeyboardInterrupt(f"the run had just ended; {again} gives it")
    return Run(trainer.directory, trainer.config, summary)


def _again(directory: Path) -> str:
    return f"stacktrans.resume({str(directory)!r})"


def _stopping(run: Stoppable) -> AbstractContextManager[None]:
    # Signals are received in the main thread alone.
    main = threading.current_thread() is threading.main_thread()
    return stopping(run) if main else contextlib.nullcontext()
