"""A sweep in a terminal, its progress and results; and plots of learning curves and lengths."""

import math
import re
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType

from stacktrans.common.files import numbered
from stacktrans.common.reading import json_lines
from stacktrans.common.visible import counted, one_line
from stacktrans.showing.plots import chart, label_axes_by_length
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.tables import Column, Table, heading, remark
from stacktrans.sweeps.cells import cells_of, claim_holds
from stacktrans.sweeps.plan import PlannedRun, distinct
from stacktrans.sweeps.records import Record, undamaged, value_of
from stacktrans.sweeps.store import TABLE, SweepStore
from stacktrans.sweeps.table import VERDICTS, caption, decimal, overview_rows
from stacktrans.sweeps.work import RUNNING
from stacktrans.training.records import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SweepDisplay(ProgressDisplay):
    """A live table of conditions, with their numbers of finished runs and the time left."""

    def __init__(self, console: Console, store: SweepStore, runs: Sequence[PlannedRun]) -> None:
        self.store, self.runs = store, runs
        self._distinct = distinct(runs)
        self.began, self.end = time.monotonic(), math.nan
        self.before, self.done = sum(map(store.done, self._distinct)), 0
        super().__init__(console, transient=False, auto_refresh=True)

    def _open(self) -> None:
        runs = counted(len(self._distinct), "run")
        self._write(f"{runs}, {self.before} of them done, in {self.store.directory}")

    def _close(self) -> None:
        """Nothing to write at the end."""

    def show(self, run: PlannedRun, record: Record) -> None:
        """Show that a run has ended, with its record."""
        self.done += self.store.done(run)
        ended = sum(run.identity in self.store.records for run in self._distinct)
        now = time.monotonic()
        each = (now - self.began) / self.done if self.done else math.nan
        self.end = now + each * (len(self._distinct) - ended)
        if not self.live:
            measured = record.get("measured", {}).items()
            values = (f"{name} {decimal(part['value'], 3)}" for name, part in measured)
            result = record.get("error") or ", ".join([record["outcome"], *values])
            line = f"[{ended}/{len(self._distinct)}] {run.name}: {result}; left: {self._left()}"
            self._write(one_line(line))

    def _left(self) -> str:
        if all(run.identity in self.store.records for run in self.runs):
            return "nothing"
        if math.isnan(self.end):
            return "not known yet"
        seconds = max(10.0, self.end - time.monotonic())
        return f"about {timedelta(seconds=round(seconds, -1))}"

    def _now(self) -> RenderableType:
        first = next(iter(self.store.plan.file.measures))
        counts = ("done", Column("running", drop=2), Column("failed", drop=3), "of")
        table = Table(Column("condition", fold=" "), *counts, Column(f"best {first}", drop=1))
        for row in self._rows():
            table.add_row(*row)
        title = f"{one_line(self.store.plan.file.title)}; in {self.store.directory}"
        return Group(heading(title), table, remark(f"left: {self._left()}"))

    def _rows(self) -> list[list[str]]:
        file, records = self.store.plan.file, dict(self.store.records)
        first, measure = next(iter(file.measures.items()))
        best_of, rows = min if measure.of == "perplexity" else max, []
        for condition in file.conditions:
            if runs := [run for run in self.runs if run.condition == condition]:
                done = sum(self.store.done(run) for run in runs)
                running = sum((self.store.run_directory(run) / RUNNING).exists() for run in runs)
                failed = sum("error" in records.get(run.identity, {}) for run in runs)
                found = (value_of(records.get(run.identity, {}), first, measure) for run in runs)
                values = [value for value in found if value is not None]
                best = decimal(best_of(values), 3) if values else ""
                rows.append([condition, *map(str, (done, running, failed, len(runs))), best])
        return rows


def overview(store: SweepStore) -> list[RenderableType]:
    """The results of a sweep in a terminal: a table for each measure, and the claims."""
    plan = store.plan
    cells = cells_of(plan, store.records)
    parts: list[RenderableType] = [heading(one_line(plan.file.title))]
    for measure in plan.file.measures:
        (first, *others), *rows = overview_rows(plan, cells, measure)
        table = Table(Column(first, fold=" "), *others, continued=True)
        for row in rows:
            table.add_row(*row)
        parts += [table, remark(caption(plan, measure))]
    for claim in plan.file.claims:
        parts.append(
            remark(f"{VERDICTS[claim_holds(plan, claim, cells)]}: {one_line(claim.claim)}")
        )
    return [*parts, remark(f"more in {store.directory / TABLE}")]


def draw(store: SweepStore) -> None:
    """Plot the learning curves of each task, and the accuracy by length of each measure."""
    taken: set[Path] = set()
    for task in dict.fromkeys(run.config.task.name for run in store.plan.runs):
        runs = [run for run in store.plan.runs if run.config.task.name == task]
        if any((store.run_directory(run) / METRICS).exists() for run in runs):
            with chart(_path(store, f"{task}-loss", taken), task) as axis:
                _curves(axis, store, runs)
        for measure in store.plan.file.measures:
            if any(_by_length(store, run, measure) for run in runs):
                path = _path(store, f"{task}-{measure}-by-length", taken)
                with chart(path, f"{task}: strings of {measure}") as axis:
                    _lengths(axis, store, runs, measure)


def _path(store: SweepStore, name: str, taken: set[Path]) -> Path:
    """The path of a new plot, with the characters of its name that paths can contain."""
    names = numbered(re.sub(r"[^\w.+-]+", "-", name))
    paths = (store.directory / f"{name}.svg" for name in names)
    path = next(path for path in paths if path not in taken)
    taken.add(path)
    return path


def _conditions(
    store: SweepStore, runs: Sequence[PlannedRun]
) -> Iterator[tuple[str, str, list[PlannedRun]]]:
    """The label in the legend, the colour and the runs of each condition."""
    for index, condition in enumerate(store.plan.file.conditions):
        of_condition = [run for run in runs if run.condition == condition]
        if of_condition:
            # A label that begins with an underscore would be left out of the legend.
            yield f" {one_line(condition)}", f"C{index % 10}", of_condition


def _curves(axis: "Axes", store: SweepStore, runs: Sequence[PlannedRun]) -> None:
    for condition, colour, of_condition in _conditions(store, runs):
        label: str | None = condition
        for run in of_condition:
            with undamaged(store.run_directory(run) / METRICS) as path:
                records = list(json_lines(path)) if path.exists() else []
                steps = [float(record["step"]) for record in records]
                losses = [float(record["loss"]) for record in records]
            if steps:
                axis.plot(steps, losses, color=colour, linewidth=0.8, alpha=0.7, label=label)
                label = None
    axis.set(xlabel="batches", ylabel="loss (nats/symbol)", yscale="log")


def _by_length(store: SweepStore, run: PlannedRun, measure: str) -> dict[int, float]:
    """The coarse accuracy of a run by length; empty for a single length."""
    record = store.records.get(run.identity, {})
    shares = record.get("measured", {}).get(measure, {}).get("coarse", {})
    return {int(length): shares[length] for length in shares} if len(shares) > 1 else {}


def _lengths(axis: "Axes", store: SweepStore, runs: Sequence[PlannedRun], measure: str) -> None:
    """Plot the median accuracy of the runs of each condition by length, and its range."""
    for condition, colour, of_condition in _conditions(store, runs):
        curves = [_by_length(store, run, measure) for run in of_condition]
        lengths = sorted({length for curve in curves for length in curve})
        shares = [[curve[length] for curve in curves if length in curve] for length in lengths]
        if shares:
            axis.plot(lengths, [*map(median, shares)], color=colour, label=condition)
            axis.fill_between(
                lengths, [*map(min, shares)], [*map(max, shares)], color=colour, alpha=0.2
            )
    accuracy = "coarse accuracy (median and range of the runs)"
    label_axes_by_length(axis, runs[0].config.task.ranges.train, accuracy)
