"""A sweep in a terminal: its progress and its results."""

import math
import time
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console, Group, RenderableType

from stacktrans.common.visible import counted, one_line
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.tables import Column, Table, heading, remark
from stacktrans.sweeps.cells import cells_of, claim_holds
from stacktrans.sweeps.plan import PlannedRun, distinct
from stacktrans.sweeps.records import RunRecord, value_of
from stacktrans.sweeps.store import TABLE, SweepStore
from stacktrans.sweeps.table import VERDICTS, caption, decimal, overview_rows
from stacktrans.sweeps.work import RUNNING
from stacktrans.training.wording import briefly


class SweepDisplay(ProgressDisplay):
    """A live table of conditions, with their numbers of finished runs and the time left."""

    def __init__(self, console: Console, store: SweepStore, runs: Sequence[PlannedRun]) -> None:
        self.store, self.runs = store, runs
        self._distinct = distinct(runs)
        self.began, self.end = time.monotonic(), math.nan
        self.before, self.done = sum(map(store.done, self._distinct)), 0
        count = counted(len(self._distinct), "run")
        line = f"{count}, {self.before} of them done, in {store.directory}"
        super().__init__(console, [line], transient=False)
        if self.before == len(self._distinct):  # nothing to do
            self.live = None

    def show(self, run: PlannedRun, record: RunRecord) -> None:
        """Show that a run has ended, with its record."""
        self.done += self.store.done(run)
        ended = sum(run.identity in self.store.records for run in self._distinct)
        now = time.monotonic()
        each = (now - self.began) / self.done if self.done else math.nan
        self.end = now + each * (len(self._distinct) - ended)
        if not self.live:
            measured = record.get("measured", {}).items()
            values = (f"{name} {decimal(part['value'], 3)}" for name, part in measured)
            result = record.get("error") or ", ".join([briefly(record["outcome"]), *values])
            news = "; ".join([f"{run.name}: {result}", *self._left()])
            self._write(one_line(f"[{ended}/{len(self._distinct)}] {news}"))

    def _left(self) -> list[str]:
        """The time left, if there are runs left."""
        if all(run.identity in self.store.records for run in self.runs):
            return []
        if math.isnan(self.end):
            return ["left: not known yet"]
        seconds = max(10.0, self.end - time.monotonic())
        return [f"left: about {timedelta(seconds=round(seconds, -1))}"]

    def _now(self) -> RenderableType:
        first = next(iter(self.store.plan.file.measures))
        counts = ("runs", "done", Column("running", drop=2), Column("failed", drop=3))
        columns = Column("condition", fold=" "), *counts, Column(f"best {first}", drop=1)
        table = Table(*columns, rows=self._rows())
        title = f"{one_line(self.store.plan.file.title)}; in {self.store.directory}"
        return Group(heading(title), table, *map(remark, self._left()))

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
                rows.append([condition, *map(str, (len(runs), done, running, failed)), best])
        return rows


def overview(store: SweepStore) -> list[RenderableType]:
    """The results of a sweep in a terminal: a table for each measure, and the claims."""
    plan = store.plan
    cells = cells_of(plan, store.records)
    parts: list[RenderableType] = [heading(one_line(plan.file.title))]
    for measure in plan.file.measures:
        (first, *others), *rows = overview_rows(plan, cells, measure)
        table = Table(Column(first, fold=" "), *others, rows=rows, continued=True)
        parts += [table, *map(remark, caption(plan, cells, measure))]
    for claim in plan.file.claims:
        parts.append(
            remark(f"{VERDICTS[claim_holds(plan, claim, cells)]}: {one_line(claim.claim)}")
        )
    return [*parts, remark(f"more in {store.directory / TABLE}")]
