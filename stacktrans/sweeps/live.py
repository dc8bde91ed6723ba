"""A sweep as it goes: a live table in a terminal, a line a run elsewhere."""

import math
import time
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console, Group, RenderableType

from stacktrans.common.visible import in_a_line
from stacktrans.showing.progress import SECONDS_BETWEEN, ProgressDisplay
from stacktrans.showing.tables import Column, Table, heading, remark
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.report import VERDICTS, caption, number, overview_rows
from stacktrans.sweeps.store import TABLE, Store
from stacktrans.sweeps.table import cells_of, holds
from stacktrans.sweeps.work import RUNNING, Record


class SweepDisplay(ProgressDisplay):
    """Shows conditions, how many of their runs are done, and how long the rest will take."""

    def __init__(self, console: Console, store: Store, runs: Sequence[PlannedRun]) -> None:
        self.store, self.runs = store, runs
        self.began, self.end = time.monotonic(), math.nan
        self.before = sum(store.done(run) for run in runs)
        super().__init__(console, transient=False)
        if self.live:
            self.live.auto_refresh, self.live.refresh_per_second = True, 1 / SECONDS_BETWEEN

    def _open(self) -> None:
        self._say(f"{len(self.runs)} runs, {self.before} of them done, in {self.store.directory}")

    def _close(self) -> None:
        """Nothing is left to write."""

    def show(self, run: PlannedRun, record: Record) -> None:
        """Show that a run has ended."""
        done = sum(self.store.done(run) for run in self.runs) - self.before
        ended = sum(map(self._ended, self.runs))
        now = time.monotonic()
        each = (now - self.began) / done if done else math.nan
        self.end = now + each * (len(self.runs) - ended)
        if not self.live:
            measured = record.get("measured", {}).items()
            values = (f"{name} {number(part['value'], 3)}" for name, part in measured)
            result = record.get("error") or ", ".join([record["outcome"], *values])
            line = f"[{ended}/{len(self.runs)}] {run.name}: {result}; left: {self._left()}"
            self._say(in_a_line(line))

    def _ended(self, run: PlannedRun) -> bool:
        return run.identity in self.store.records

    def _left(self) -> str:
        if all(map(self._ended, self.runs)):
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
        title = f"{in_a_line(self.store.plan.file.title)}; in {self.store.directory}"
        return Group(heading(title), table, remark(f"left: {self._left()}"))

    def _rows(self) -> list[list[str]]:
        file, records = self.store.plan.file, dict(self.store.records)
        first, measure = next(iter(file.measures.items()))
        cells = [each for each in cells_of(self.store.plan, records) if each.measure == first]
        least_or_most, rows = min if measure.of == "perplexity" else max, []
        for condition in file.conditions:
            if runs := [run for run in self.runs if run.condition == condition]:
                done = sum(self.store.done(run) for run in runs)
                running = sum((self.store.folder(run) / RUNNING).exists() for run in runs)
                failed = sum("error" in records.get(run.identity, {}) for run in runs)
                own = [cell for cell in cells if cell.condition == condition]
                values = [value for cell in own for value in cell.values]
                best = number(least_or_most(values), 3) if values else ""
                rows.append([condition, *map(str, (done, running, failed, len(runs))), best])
        return rows


def overview(store: Store) -> list[RenderableType]:
    """The results of a sweep: a table for each measure, the claims, and where the rest is."""
    plan = store.plan
    cells = cells_of(plan, store.records)
    parts: list[RenderableType] = [heading(in_a_line(plan.file.title))]
    for measure in plan.file.measures:
        first, *others = overview_rows(plan, cells, measure)
        table = Table(Column(first[0], fold=" "), *first[1:], continued=True)
        for row in others:
            table.add_row(*row)
        parts += [table, remark(caption(plan, measure))]
    for claim in plan.file.claims:
        parts.append(remark(f"{VERDICTS[holds(plan, claim, cells)]}: {in_a_line(claim.claim)}"))
    return [*parts, remark(f"more in {store.directory / TABLE}")]
