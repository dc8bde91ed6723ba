"""A sweep as it goes: a live table in a terminal, a line a run elsewhere."""

import time
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console, Group, RenderableType
from rich.text import Text

from stacktrans.progress import ProgressDisplay
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.report import VERDICTS, number, overview_rows
from stacktrans.sweeps.store import TABLE, Store
from stacktrans.sweeps.table import cells_of, holds
from stacktrans.sweeps.work import RUNNING, Record
from stacktrans.tables import plain_table


class SweepDisplay(ProgressDisplay):
    """Shows conditions, how many of their runs are done, and how long the rest will take.

    Args:
        console: where to show it.
        store: of the sweep.
        runs: of the sweep, or those of them that were asked for.
    """

    def __init__(self, console: Console, store: Store, runs: Sequence[PlannedRun]) -> None:
        self.store, self.runs = store, runs
        self.began = time.monotonic()
        self.before = sum(store.done(run) for run in runs)
        super().__init__(console, a_second=1)

    def _opening(self) -> str:
        return f"{len(self.runs)} runs, {self.before} of them done, in {self._place()}"

    def _place(self) -> str:
        return str(self.store.directory)

    def show(self, run: PlannedRun, record: Record) -> None:
        """Show that a run has ended."""
        if self.live:
            return
        done = sum(self._ended(other) for other in self.runs)
        result = record.get("error") or f"{record['outcome']}, {_values(record)}"
        self._say(f"[{done}/{len(self.runs)}] {run.name}: {result}; left: {self._left()}")

    def _ended(self, run: PlannedRun) -> bool:
        return run.identity in self.store.records

    def _left(self) -> str:
        """How long the rest will take, going by what was done so far."""
        done = sum(self.store.done(run) for run in self.runs) - self.before
        missing = sum(not self._ended(run) for run in self.runs)
        if not missing:
            return "nothing"
        if not done:
            return "not known yet"
        each = (time.monotonic() - self.began) / done
        return str(timedelta(seconds=round(each * missing)))

    def _table(self) -> RenderableType:
        first = next(iter(self.store.plan.file.measures))
        table = plain_table("condition", "done", "running", "failed", "of", f"best {first}")
        best = self._best(first)
        for condition in self.store.plan.file.conditions:
            runs = [run for run in self.runs if run.condition == condition]
            if runs:
                table.add_row(condition, *self._counts(runs), best[condition])
        return Group(
            Text(f"{self.store.plan.file.title}; in {self._place()}", style="bold"),
            table,
            Text(f"left: {self._left()}"),
        )

    def _counts(self, runs: Sequence[PlannedRun]) -> list[str]:
        done = sum(self.store.done(run) for run in runs)
        failed = sum("error" in self.store.records.get(run.identity, {}) for run in runs)
        running = sum((self.store.folder(run) / RUNNING).exists() for run in runs)
        return [str(number) for number in (done, running, failed, len(runs))]

    def _best(self, measure: str) -> dict[str, str]:
        values: dict[str, list[float]] = {}
        for cell in cells_of(self.store.plan, self.store.records):
            if cell.measure == measure:
                values.setdefault(cell.condition, []).extend(cell.values)
        best = self.store.plan.file.measures[measure].best
        return {name: number(best(found), 3) if found else "" for name, found in values.items()}


def _values(record: Record) -> str:
    return ", ".join(
        f"{name} {number(part['value'], 3)}" for name, part in record["measured"].items()
    )


def overview(store: Store) -> list[RenderableType]:
    """What came of a sweep: a table for each measure, the claims, and where the rest is."""
    plan = store.plan
    cells = cells_of(plan, store.records)
    parts: list[RenderableType] = [Text(plan.file.title, style="bold")]
    for measure in plan.file.measures:
        heading, *rows = overview_rows(plan, cells, measure)
        table = plain_table(*heading)
        for row in rows:
            table.add_row(*row)
        parts.append(table)
    for claim in plan.file.claims:
        parts.append(Text(f"{VERDICTS[holds(plan, claim, cells)]}: {claim.claim.strip()}"))
    return [*parts, Text(f"published → measured; more in {store.directory / TABLE}")]
