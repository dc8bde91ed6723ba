"""The table of a sweep: what was measured of each condition, beside what is published."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from stacktrans.showing.scores import bootstrap_interval, confidence_interval, spread
from stacktrans.sweeps.file import Choice, Claim, Figure, Part, SweepFile
from stacktrans.sweeps.plan import Plan, PlannedRun
from stacktrans.sweeps.work import Record, is_complete
from stacktrans.training.records import BUDGETS

Records = Mapping[str, Record]
"""Records by the identity of their run."""


@dataclass(frozen=True)
class Cell:
    """The results of a condition on a task, by one measure, as `results.json` has them.

    Attributes:
        task: empty if there is but one.
        figure: the value to compare: that of the best run, if one is chosen among all seeds, or
            the median; None if nothing was run.
        published: source, figure and difference of each published figure.
        spread: least, median and greatest of the values.
        mean_interval: of their mean, by the bootstrap.
        solved: how many of the runs that count are solved; None if nothing says when they are.
        also: how many of these come up to the same bound by this measure, too.
        solved_interval: of the share of these, Wilson's.
        planned: number of runs that there should be.
        values: of the finished runs that count: of each group of runs the winner.
        seconds: of those that are solved.
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
    failed: int
    planned: int
    values: Sequence[float]
    seconds: Sequence[float]


def cells_of(plan: Plan, records: Records) -> list[Cell]:
    """The cells of a sweep, row by row."""
    file, runs = plan.file, dict[tuple[str, str], list[PlannedRun]]()
    for run in plan.runs:
        runs.setdefault(_place(file, run), []).append(run)
    return [_cell(file, own, name, records) for own in runs.values() for name in file.measures]


def _place(file: SweepFile, run: PlannedRun) -> tuple[str, str]:
    """The condition and the task of a run, empty if there is but one."""
    return run.condition, run.config.task.name if "task" in file.grid else ""


def _cell(file: SweepFile, runs: Sequence[PlannedRun], measure: str, records: Records) -> Cell:
    condition, task = _place(file, runs[0])
    found = [(run, records[run.identity]) for run in runs if run.identity in records]
    names = [measure, *([file.solved.measure] if file.solved else [])]
    needed = {name: file.measures[name] for name in names}
    finished = [(run, record) for run, record in found if is_complete(record, needed)]
    counted = _winners(file, finished)
    values, bound = [_value(record, measure) for record in counted], file.solved
    figure = median(values) if values else None
    if finished and file.choose and "seed" in file.choose.among:
        figure = _value(_best(file, [record for _, record in finished]), measure)
    solved = [
        record
        for record in counted
        if bound and at_least(_value(record, bound.measure), bound.least / file.unit)
    ]
    seconds = [run["seconds"] for run in solved]
    count, judged = len(values), bool(values and bound)
    return Cell(
        condition=condition,
        task=task,
        measure=measure,
        figure=figure,
        published=_published(file, condition, task, measure, figure),
        spread=spread(values) if values else None,
        mean_interval=bootstrap_interval(values) if values else None,
        solved=len(solved) if judged else None,
        also=sum(at_least(_value(record, measure), bound.least / file.unit) for record in solved)
        if bound
        else 0,
        solved_interval=confidence_interval(len(solved) / count, count) if judged else None,
        median_batches_to_solve=median(run["batches"] for run in solved) if solved else None,
        median_seconds_to_solve=median(seconds) if seconds else None,
        runs=count,
        failed=sum("error" in record for _, record in found),
        planned=len(runs),
        values=values,
        seconds=seconds,
    )


def _value(record: Record, measure: str) -> float:
    return float(record["measured"][measure]["value"])


def at_least(figure: float, bound: float) -> bool:
    """Whether a figure is so great, within what is lost where a share is made of per cent."""
    return figure >= bound - 1e-9


def _winners(file: SweepFile, finished: Sequence[tuple[PlannedRun, Record]]) -> list[Record]:
    """The winners of groups of runs that differ only along axes that one is chosen among.

    Every seed has a winner of its own here.
    """
    among = {*(file.choose.among if file.choose else ())} - {"seed"}
    groups: dict[str, list[Record]] = {}
    for run, record in finished:
        key = repr([(axis, value) for axis, value in run.axes.items() if axis not in among])
        groups.setdefault(key, []).append(record)
    return [_best(file, group) for group in groups.values()]


def _best(file: SweepFile, records: Sequence[Record]) -> Record:
    choose = file.choose
    return max(records, key=lambda record: merit(choose, record)) if choose else records[0]


def merit(choose: Choice, record: Record) -> list[float]:
    """What makes one run better than another, the greater the better.

    Raises:
        KeyError, TypeError: the record lacks it.
    """
    part, of = choose.by.split()
    if of == "perplexity":
        found = record["perplexity"] if part == "training" else record["perplexities"]["valid"]
        # A run that diverged before it was measured is the worst of all.
        return [-math.inf if found is None or math.isnan(found) else -found]
    names = ("symbols",) if part == "development" else ("coarse", "fine")
    # Of runs that are as good, one that has met its rule, and not spent its budget.
    met = record["outcome"] not in BUDGETS
    return [*(float(record["accuracy"][part][name]) for name in names), met]


def _published(
    file: SweepFile, condition: str, task: str, measure: str, measured: float | None
) -> list[dict[str, Any]]:
    """The published figures of a cell, as shares, and how what was measured differs from them."""
    found = []
    for part in file.published:
        figures = part.values.get(condition) if part.measure == measure else None
        figure = figures.get(task) if isinstance(figures, dict) else figures
        if figure is not None:
            share = _as_share(file, figure)
            differs = None if measured is None else _difference(file, measured, share)
            found.append({"source": part.source, "figure": share, "difference": differs})
    return found


def _as_share(file: SweepFile, figure: Figure) -> Figure:
    if isinstance(figure, tuple):
        least, middle, greatest = figure
        return least / file.unit, middle / file.unit, greatest / file.unit
    return figure / file.unit


def _difference(file: SweepFile, measured: float, figure: Figure) -> str:
    """How a value differs from a published figure: "over", "under", or not ("")."""
    by = measured - (figure[1] if isinstance(figure, tuple) else figure)
    if at_least(file.tolerance / file.unit, abs(by)):
        return ""
    return "over" if by > 0 else "under"


def holds(plan: Plan, claim: Claim, cells: Sequence[Cell]) -> bool | None:
    """Whether a claim held; None if not everything was run that it is about."""
    figures = {(cell.condition, cell.task, cell.measure): cell.figure for cell in cells}
    parts = [_part_holds(plan.file, part, figures) for part in claim.holds]
    return None if None in parts else all(parts)


def _part_holds(
    file: SweepFile, part: Part, figures: Mapping[tuple[str, str, str], float | None]
) -> bool | None:
    measure = part.measure or next(iter(file.measures))
    figure = figures.get((part.condition, part.task, measure))
    if part.above is not None:
        other = figures.get((part.above, part.task, measure))
        return None if figure is None or other is None else figure > other
    if figure is None:
        return None
    if part.least is not None:
        return at_least(figure, part.least / file.unit)
    return part.most is not None and at_least(part.most / file.unit, figure)
