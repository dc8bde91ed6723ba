"""Plots of a sweep: learning curves, and accuracy by length."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.files import numbered_names
from stacktrans.common.reading import json_lines
from stacktrans.showing.plots import chart, label_axes_by_length, legend_label
from stacktrans.sweeps.cells import AVERAGES
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.records import undamaged
from stacktrans.sweeps.store import SweepStore
from stacktrans.sweeps.table import strings_of
from stacktrans.training.records import LOSS, METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "--", ":", "-.")
"""The styles of lines of successive conditions: one that covers another does not hide it."""


def draw(store: SweepStore) -> list[str]:
    """Plot the learning curves of each task, and the accuracy by length of each measure.

    Returns:
        Notes on measures whose strings are of one length, which have no plot.
    """
    notes = []
    taken: set[Path] = set()
    for task in dict.fromkeys(run.config.task.name for run in store.plan.runs):
        runs = [run for run in store.plan.runs if run.config.task.name == task]
        if any((store.run_directory(run) / METRICS).exists() for run in runs):
            with chart(_path(store, f"{task}-loss", taken), task) as axis:
                _curves(axis, store, runs)
        for measure in store.plan.file.measures:
            lengths = {length for run in runs for length in _by_length(store, run, measure)}
            if len(lengths) == 1:
                notes.append(f"no plot of {measure} by length: the strings have one length")
            elif lengths:
                path = _path(store, f"{task}-{measure}-by-length", taken)
                title = f"{task}, {measure}: {strings_of(store.plan, measure)}"
                with chart(path, title) as axis:
                    _lengths(axis, store, runs, measure)
    return notes


def _path(store: SweepStore, name: str, taken: set[Path]) -> Path:
    """The path of a new plot, with the characters of its name that paths can contain."""
    names = numbered_names(re.sub(r"[^\w.+-]+", "-", name))
    paths = (store.directory / f"{name}.svg" for name in names)
    path = next(path for path in paths if path not in taken)
    taken.add(path)
    return path


def _conditions(
    store: SweepStore, runs: Sequence[PlannedRun]
) -> Iterator[tuple[str, Mapping[str, Any], list[PlannedRun]]]:
    """The label in the legend, the color and style of lines, and the runs of each condition."""
    for index, condition in enumerate(store.plan.file.conditions):
        of_condition = [run for run in runs if run.condition == condition]
        if of_condition:
            style = {"color": f"C{index % 10}", "linestyle": STYLES[index % len(STYLES)]}
            yield legend_label(condition), style, of_condition


def _curves(axis: "Axes", store: SweepStore, runs: Sequence[PlannedRun]) -> None:
    for condition, style, of_condition in _conditions(store, runs):
        label: str | None = condition
        for run in of_condition:
            with undamaged(store.run_directory(run) / METRICS) as path:
                records = list(json_lines(path)) if path.exists() else []
                steps = [float(record["step"]) for record in records]
                losses = [float(record["loss"]) for record in records]
            if steps:
                axis.plot(steps, losses, **style, linewidth=0.8, alpha=0.7, label=label)
                label = None
    axis.set(xlabel="batches", ylabel=LOSS, yscale="log")


def _by_length(store: SweepStore, run: PlannedRun, measure: str) -> dict[int, float]:
    """The coarse accuracy of a run by length; empty without one."""
    record = store.records.get(run.identity, {})
    shares = record.get("measured", {}).get(measure, {}).get("coarse", {})
    return {int(length): share for length, share in shares.items()}


def _lengths(axis: "Axes", store: SweepStore, runs: Sequence[PlannedRun], measure: str) -> None:
    """Plot the accuracy of each condition by length: its figure, and the band around it."""
    average = AVERAGES[store.plan.file.figure]
    for condition, style, of_condition in _conditions(store, runs):
        curves = [_by_length(store, run, measure) for run in of_condition]
        lengths = sorted({length for curve in curves for length in curve})
        shares = [[curve[length] for curve in curves if length in curve] for length in lengths]
        if shares:
            axis.plot(lengths, [*map(average.of, shares)], **style, label=condition)
            bands = [average.band(of_length) or (math.nan, math.nan) for of_length in shares]
            low, high = zip(*bands, strict=True)
            axis.fill_between(lengths, low, high, color=style["color"], alpha=0.2)
    label_axes_by_length(
        axis, runs[0].config.task.ranges.train, f"coarse accuracy\n{average.label}"
    )
