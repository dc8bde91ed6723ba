"""Learning curves and accuracy by length of a sweep, as pictures."""

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stacktrans.common.reading import json_lines
from stacktrans.common.visible import in_a_line
from stacktrans.showing.plots import CHART, as_accuracy_by_length, empty_figure, save
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.store import Store
from stacktrans.sweeps.work import undamaged
from stacktrans.training.records import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(store: Store) -> None:
    """Write a picture of each task's learning curves, and of each measure's accuracy by length."""
    taken: set[Path] = set()
    for task in dict.fromkeys(run.config.task.name for run in store.plan.runs):
        runs = [run for run in store.plan.runs if run.config.task.name == task]
        if any((store.folder(run) / METRICS).exists() for run in runs):
            with picture(_path(store, f"{task}-loss", taken), task) as axis:
                _curves(axis, store, runs)
        for measure in store.plan.file.measures:
            if any(_by_length(store, run, measure) for run in runs):
                path = _path(store, f"{task}-{measure}-by-length", taken)
                with picture(path, f"{task}: {measure}") as axis:
                    _lengths(axis, store, runs, measure)


def _path(store: Store, name: str, taken: set[Path]) -> Path:
    """A file for another picture, whatever characters are in its name."""
    name = re.sub(r"[^\w.+-]+", "-", name)
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    paths = (store.directory / f"{name}.svg" for name in names)
    path = next(path for path in paths if path not in taken)
    taken.add(path)
    return path


@contextmanager
def picture(path: Path, title: str) -> "Iterator[Axes]":
    """Axes to draw on; what was drawn is written to a file."""
    figure = empty_figure(*CHART)
    axis = figure.subplots()
    yield axis
    axis.set_title(in_a_line(title), parse_math=False)
    legend = axis.legend(loc="best", frameon=False, fontsize="small")
    for text in legend.get_texts():
        text.set_parse_math(False)
    save(figure, path)


def _conditions(
    store: Store, runs: Sequence[PlannedRun]
) -> Iterator[tuple[str, str, list[PlannedRun]]]:
    """Each condition, as the legend has it, with a colour and its runs."""
    for number, condition in enumerate(store.plan.file.conditions):
        own = [run for run in runs if run.condition == condition]
        if own:
            # A label that begins with an underscore would be left out of the legend.
            yield f" {in_a_line(condition)}", f"C{number % 10}", own


def _curves(axis: "Axes", store: Store, runs: Sequence[PlannedRun]) -> None:
    for condition, colour, own in _conditions(store, runs):
        for run in own:
            with undamaged(store.folder(run) / METRICS) as path:
                records = list(json_lines(path)) if path.exists() else []
                steps = [float(record["step"]) for record in records]
                losses = [float(record["loss"]) for record in records]
            label = condition if run is own[0] else None
            axis.plot(steps, losses, color=colour, linewidth=0.8, alpha=0.7, label=label)
    axis.set(xlabel="batches", ylabel="loss (nats/symbol)", yscale="log")


def _by_length(store: Store, run: PlannedRun, measure: str) -> dict[int, float]:
    record = store.records.get(run.identity, {})
    found = record.get("measured", {}).get(measure, {}).get("coarse", {})
    by_length = {int(length): share for length, share in found.items()}
    return by_length if len(by_length) > 1 else {}


def _lengths(axis: "Axes", store: Store, runs: Sequence[PlannedRun], measure: str) -> None:
    """The mean over the runs of a condition."""
    for condition, colour, own in _conditions(store, runs):
        parts = [part for run in own if (part := _by_length(store, run, measure))]
        lengths = sorted({length for part in parts for length in part})
        shares = [[part[length] for part in parts if length in part] for length in lengths]
        means = [sum(found) / len(found) for found in shares]
        axis.plot(lengths, means, color=colour, label=condition)
    as_accuracy_by_length(axis, runs[0].config.task.ranges.train, "coarse accuracy")
