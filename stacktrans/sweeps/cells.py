"""The figures of a sweep's table: a cell for each condition, task and measure; and its claims."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, NamedTuple

from stacktrans.showing.scores import bootstrap_interval, confidence_interval
from stacktrans.sweeps.plan import Plan, PlannedRun
from stacktrans.sweeps.records import RunRecord, is_measured
from stacktrans.sweeps.sweep_file import Choice, Claim, ClaimPart, SweepFile
from stacktrans.training.records import BUDGET_OUTCOMES

RunRecords = Mapping[str, RunRecord]
"""Records by the identities of their runs."""
CellKey = tuple[str, str, str]
"""The condition, the task and the measure of a cell."""


class Average(NamedTuple):
    """A summary of several runs, a band around it if there are enough of them, and its label."""

    of: Callable[[Sequence[float]], float]
    band: Callable[[Sequence[float]], tuple[float, float] | None]
    label: str


AVERAGES = {
    "median": Average(
        median, lambda values: (min(values), max(values)), "median and range of the runs"
    ),
    "mean": Average(mean, bootstrap_interval, "mean of the runs, 95% interval"),
}
"""The figures that a sweep's file can choose."""


@dataclass(frozen=True)
class Cell:
    """The results of a condition on a task by one measure, as in `results.json`.

    Attributes:
        task: the task; empty if the grid has no tasks.
        figure: the median or the mean of the counted runs, or the value of the best run if the
            winner is chosen among all seeds; None without finished runs.
        published: source, figure and difference of each published figure.
        spread: least, median and greatest value.
        mean_interval: the bootstrap interval of the mean of at least three values.
        solved: how many of the judged runs are solved; None without a criterion.
        also: how many of the solved runs also meet the criterion's bound by this measure.
        solved_interval: Wilson's interval of the share of solved runs.
        runs: number of counted runs; of each group that a winner is chosen among, only the winner.
        judged: number of counted and failed runs; where winners are chosen, of counted runs alone.
        failed: number of failed runs.
        planned: number of runs in the plan.
        values: the values of the counted runs.
        seconds: the training times of the solved runs.
    """

    condition: str
    task: str
    measure: str
    figure: float | None
    published: Sequence[Mapping[str, Any]]
    spread: tuple[float, float, float] | None
    mean_interval: tuple[float, float] | None
    solved: int | None
    also: int
    solved_interval: tuple[float, float] | None
    median_batches_to_solve: float | None
    median_seconds_to_solve: float | None
    runs: int
    judged: int
    failed: int
    planned: int
    values: Sequence[float]
    seconds: Sequence[float]


def cells_of(plan: Plan, records: RunRecords) -> list[Cell]:
    """The cells of a sweep's table, row by row."""
    runs_of_cells: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in plan.runs:
        task = run.config.task.name if "task" in plan.file.grid else ""
        runs_of_cells.setdefault((run.condition, task), []).append(run)
    return [
        _cell(plan.file, (*key, measure), runs, records)
        for key, runs in runs_of_cells.items()
        for measure in plan.file.measures
    ]


def _cell(file: SweepFile, key: CellKey, runs: Sequence[PlannedRun], records: RunRecords) -> Cell:
    """The cell of a condition, a task and a measure."""
    *_, measure = key
    criterion = file.solved
    recorded = [(run, records[run.identity]) for run in runs if run.identity in records]
    needed = {measure, *([criterion.measure] if criterion else [])}
    measures = {name: file.measures[name] for name in needed}
    finished = [(run, record) for run, record in recorded if is_measured(record, measures)]
    chosen = _winners(file, finished)
    values = [_value(record, measure) for record in chosen]
    figure = AVERAGES[file.figure].of(values) if values else None
    if finished and file.shows_best_run:
        figure = _value(_best(file, [record for _, record in finished]), measure)

    def meets_bound(record: RunRecord, name: str) -> bool:
        bound = criterion.least / file.unit if criterion else math.inf
        return at_least(_value(record, name), bound)

    solved = [record for record in chosen if criterion and meets_bound(record, criterion.measure)]
    seconds = [record["seconds"] for record in solved]
    unmeasured = [record for _, record in recorded if not is_measured(record, measures)]
    count, failed = len(values), sum("error" in record for record in unmeasured)
    judged = count if file.choose else count + failed
    is_judged = bool(judged and criterion)
    return Cell(
        *key,
        figure=figure,
        published=_published(file, key, figure),
        spread=(min(values), median(values), max(values)) if values else None,
        mean_interval=bootstrap_interval(values),
        solved=len(solved) if is_judged else None,
        also=sum(meets_bound(record, measure) for record in solved),
        solved_interval=confidence_interval(len(solved) / judged, judged) if is_judged else None,
        median_batches_to_solve=median(run["batches"] for run in solved) if solved else None,
        median_seconds_to_solve=median(seconds) if seconds else None,
        runs=count,
        judged=judged,
        failed=failed,
        planned=len(runs),
        values=values,
        seconds=seconds,
    )


def _value(record: RunRecord, measure: str) -> float:
    return float(record["measured"][measure]["value"])


def at_least(figure: float, bound: float) -> bool:
    """Whether a figure reaches a bound, up to the rounding error of a percentage."""
    return figure >= bound - 1e-9


def _winners(file: SweepFile, finished: Sequence[tuple[PlannedRun, RunRecord]]) -> list[RunRecord]:
    """The winner of each group of runs that differ only along the axes that one is chosen among.

    Each seed has its own winner.
    """
    among = {*(file.choose.among if file.choose else ())} - {"seed"}
    groups: dict[str, list[RunRecord]] = {}
    for run, record in finished:
        key = repr([(axis, value) for axis, value in run.axes.items() if axis not in among])
        groups.setdefault(key, []).append(record)
    return [_best(file, group) for group in groups.values()]


def _best(file: SweepFile, records: Sequence[RunRecord]) -> RunRecord:
    choose = file.choose
    return max(records, key=lambda record: winner_key(choose, record)) if choose else records[0]


def winner_key(choose: Choice, record: RunRecord) -> list[float]:
    """A key by which runs are compared; the winner has the greatest.

    Raises:
        KeyError, TypeError: the record lacks the number.
    """
    part, quantity = choose.by.split()
    if quantity == "perplexity":
        value = record["perplexity"] if part == "training" else record["perplexities"]["valid"]
        # A run that diverged before it was measured is the worst.
        return [-math.inf if value is None or math.isnan(value) else -value]
    names = ("symbols",) if part == "development" else ("coarse", "fine")
    # Of equally good runs, one that has met its stopping rule, and not spent its budget.
    stopped = record["outcome"] not in BUDGET_OUTCOMES
    return [*(float(record["accuracy"][part][name]) for name in names), stopped]


def _published(file: SweepFile, key: CellKey, measured: float | None) -> list[dict[str, Any]]:
    """The published figures of a cell, as shares, and whether the measured one differs from them.

    The difference is "over", "under", or empty within the tolerance; None without a measured one.
    """
    condition, task, measure = key
    entries = []
    for published in file.published:
        figure = published.values.get(condition) if published.measure == measure else None
        figure = figure.get(task) if isinstance(figure, dict) else figure
        if figure is None:
            continue
        numbers = figure if isinstance(figure, tuple) else (figure,)
        shares = [number / file.unit for number in numbers]
        difference = None
        if measured is not None:
            excess = measured - shares[len(shares) // 2]
            within = at_least(file.tolerance / file.unit, abs(excess))
            difference = "" if within else "over" if excess > 0 else "under"
        share = tuple(shares) if len(shares) > 1 else shares[0]
        entries.append({"source": published.source, "figure": share, "difference": difference})
    return entries


def claim_holds(plan: Plan, claim: Claim, cells: Sequence[Cell]) -> bool | None:
    """Whether a claim holds; None if some of its cells have no results."""
    figures = {(cell.condition, cell.task, cell.measure): cell.figure for cell in cells}
    verdicts = [_part_holds(plan.file, part, figures) for part in claim.holds]
    return None if None in verdicts else all(verdicts)


def _part_holds(
    file: SweepFile, part: ClaimPart, figures: Mapping[CellKey, float | None]
) -> bool | None:
    measure = part.measure or next(iter(file.measures))
    figure = figures.get((part.condition, part.task, measure))
    other = None if part.above is None else figures.get((part.above, part.task, measure))
    if figure is None or (part.above is not None and other is None):
        return None
    if other is not None:
        return figure > other
    if part.least is not None:
        return at_least(figure, part.least / file.unit)
    return part.most is not None and at_least(part.most / file.unit, figure)
