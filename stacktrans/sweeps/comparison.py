"""A comparison of models on one task: the sweep that makes it, and its table."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import counted
from stacktrans.settings.candidates import candidate_configs
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import (
    Settings,
    SettingsLayer,
    merge_layers,
    merged_settings,
    nested,
    option_layer,
)
from stacktrans.showing.tables import Column, Table, table_of
from stacktrans.sweeps.cells import RunRecords, cells_of
from stacktrans.sweeps.plan import Plan
from stacktrans.tasks.lengths import Lengths


def comparison_settings(
    name: str,
    models: Sequence[str],
    shared: Sequence[SettingsLayer],
    assignments: Sequence[str],
    seeds: int,
    ranges: Sequence[Lengths],
    count: int,
) -> Settings:
    """The settings of a sweep that trains each model with each seed, and measures its accuracy.

    Args:
        name: the name of the task.
        models: the models, each as `MEMORY[,CONTROLLER][,KEY=VALUE]...`.
        shared: the layers of settings of all runs.
        assignments: further settings of all models as `key=value`.
        seeds: number of runs of each model.
        ranges: lengths of the strings to measure on; by default, the training strings of the run,
            and strings of the task's test lengths.
        count: number of strings of each range.

    Raises:
        UsageError: a setting is unknown, its value is not readable, or a model is given twice.
    """
    for model in models:
        if models.count(model) > 1:
            raise UsageError(f"MODEL: '{model}' is given twice")
    changes = [option_layer(each, RunConfig) for each in assignments]
    layers = {model: [*changes, *_layers_of(model)] for model in models}
    for of_model in layers.values():  # so that a problem is reported with the argument
        candidate_configs([*shared, *of_model])
    return {
        "title": f"{counted(len(models), 'model')} for {name}, with {counted(seeds, 'seed')}",
        "settings": merge_layers(shared),
        "conditions": {model: merge_layers(of_model) for model, of_model in layers.items()},
        "figure": "mean",
        "grid": {"seed": [*range(1, seeds + 1)]},
        "measures": {
            label: {"of": "coarse", **measure} for label, measure in _strings(ranges, count).items()
        },
    }


def _layers_of(model: str) -> list[SettingsLayer]:
    origin, (memory, *others) = f"MODEL {model}", model.split(",")
    layers = [SettingsLayer(origin, nested("model.memory", memory))]
    for word in others:
        if "=" in word:
            layers.append(option_layer(word, RunConfig))
        else:
            layers.append(SettingsLayer(origin, nested("model.controller", word)))
    return layers


def _strings(ranges: Sequence[Lengths], count: int) -> dict[str, Settings]:
    """The strings of each measure, by its name."""
    if not ranges:
        return {"train": {"strings": "train"}, "test": {"count": count}}
    return {str(bounds): {"lengths": [*bounds], "count": count} for bounds in ranges}


def with_equal_sizes(plan: Plan, settings: Settings) -> Settings:
    """The settings of a comparison, with hidden sizes that give all models the size of the first.

    Args:
        plan: the comparison with other hidden sizes.
        settings: its settings.

    Raises:
        UsageError: a model is one of a race, whose strategies have sizes of their own; or a model
            after the first has a given hidden size, or a controller without one.
    """
    # They import torch.
    from stacktrans.training.equal_size import count_parameters, matching_units, trained_layout

    if any(len(run.configs) > 1 for run in plan.runs):
        raise UsageError("--equal-size: not for races, whose strategies have sizes of their own")
    (_, first), *others = {run.condition: run.config for run in plan.runs}.items()
    for model, _ in others:
        if any(word.partition("=")[0].endswith("hidden_size") for word in model.split(",")):
            raise UsageError(f"--equal-size: chooses the hidden size that MODEL {model} gives")
    wanted = count_parameters(first.model, trained_layout(first))
    sized = {
        model: nested("model.controller.hidden_size", matching_units(config, wanted))
        for model, config in others
    }
    return merged_settings(settings, {"conditions": sized})


def comparison_entries(plan: Plan, records: RunRecords) -> list[dict[str, Any]]:
    """An entry for each model, with its size, and its mean accuracies over the seeds.

    For each measure there are the mean and, of three or more runs, its 95% bootstrap interval as
    `_low` and `_high`.
    """
    entries = {model: _size(plan, model, records) for model in plan.file.conditions}
    for cell in cells_of(plan, records):
        entry = entries[cell.condition]
        entry["runs"] = cell.runs
        if cell.values:
            entry[cell.measure] = cell.figure
        if cell.mean_interval:
            entry[f"{cell.measure}_low"], entry[f"{cell.measure}_high"] = cell.mean_interval
    return [*entries.values()]


def _size(plan: Plan, model: str, records: RunRecords) -> dict[str, Any]:
    """The name of a model, its number of parameters, and the median training time of its runs."""
    found = [records.get(run.identity, {}) for run in plan.runs if run.condition == model]
    finished = [record for record in found if "parameters" in record]
    size: dict[str, Any] = {"model": model}
    if finished:
        size["parameters"] = finished[0]["parameters"]
        size["seconds"] = median(record["seconds"] for record in finished)
    return size


def comparison_table(plan: Plan, entries: Sequence[Mapping[str, Any]]) -> Table:
    """A table of entries, with the mean and its interval for each measure."""
    columns, keys = list[Column](), dict[str, str]()
    for number, name in enumerate(plan.file.measures):
        # In a format, the name of a measure could mean something else.
        mean, low, high = (f"{part}_{number}" for part in ("mean", "low", "high"))
        keys |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        columns.append(Column("mean", name, form=f"{{{mean}:.3f}}"))
        columns.append(Column("[95%]", name, form=f"[{{{low}:.3f}} – {{{high}:.3f}}]", drop=3))
    return table_of(
        [{keys.get(key, key): value for key, value in entry.items()} for entry in entries],
        Column("model"),
        Column("parameters", drop=2),
        Column("runs", drop=1),
        *columns,
        Column("seconds", form="{seconds:.0f}", drop=1),
    )
