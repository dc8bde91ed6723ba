"""The table of a sweep: what was measured of each condition, beside what is published."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from stacktrans.common.statistics import bootstrap_interval, confidence_interval, spread
from stacktrans.sweeps.file import Choice, Claim, Figure, Part, SweepFile
from stacktrans.sweeps.plan import Plan, PlannedRun
from stacktrans.sweeps.work import Record, is_complete
from stacktrans.training.records import BUDGETS

Records = Mapping[str, Record]
"""Records by the identity of their run."""


@dataclass(frozen=True)
class Cell:
    """The results of a condition on a task, by one measure.

    Attributes:
        task: empty if there is but one.
        published: sources and their figures.
        planned: number of runs that there should be.
        failed: number of runs that ended in an error.
        values: of the finished runs that count: of each group of runs the winner.
        winner: value of the best run, if one is chosen among all seeds.
        solved: how many of those runs are solved; None if nothing says when they are.
        seconds: that the solved ones took.
        batches: that the solved ones took.
    """

    condition: str
    task: str
    measure: str
    published: Sequence[tuple[str, Figure]]
    planned: int
    failed: int
    values: Sequence[float]
    winner: float | None
    solved: int | None
    seconds: Sequence[float]
    batches: Sequence[float]

    @property
    def figure(self) -> float | None:
        """The value to compare: the winner's, or the median; None if nothing was run."""
        if self.winner is not None:
            return self.winner
        return median(self.values) if self.values else None

    @property
    def spread(self) -> tuple[float, float, float]:
        """Least, median and greatest."""
        return spread(self.values)

    @property
    def mean_interval(self) -> tuple[float, float]:
        """Of the mean, by the bootstrap."""
        return bootstrap_interval(self.values)

    @property
    def solved_interval(self) -> tuple[float, float] | None:
        """Of the share of runs that are solved, Wilson's."""
        if self.solved is None:
            return None
        return confidence_interval(self.solved / len(self.values), len(self.values))


def cells_of(plan: Plan, records: Records) -> list[Cell]:
    """The cells of a sweep, row by row."""
    runs: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in plan.runs:
        task = run.config.task.name if "task" in plan.file.grid else ""
        runs.setdefault((run.condition, task), []).append(run)
    return [
        _cell(plan.file, *place, measure, own, records)
        for place, own in runs.items()
        for measure in plan.file.measures
    ]


def _cell(
    file: SweepFile,
    condition: str,
    task: str,
    measure: str,
    runs: Sequence[PlannedRun],
    records: Records,
) -> Cell:
    found = [(run, records[run.identity]) for run in runs if run.identity in records]
    names = [measure, *([file.solved.measure] if file.solved else [])]
    needed = {name: file.measures[name] for name in names}
    finished = [(run, record) for run, record in found if is_complete(record, needed)]
    counted = _winners(file, finished)
    solved = [record for record in counted if _is_solved(file, record)]
    chosen = file.choose is not None and "seed" in file.choose.among and finished
    return Cell(
        condition=condition,
        task=task,
        measure=measure,
        published=_published(file, condition, task, measure),
        planned=len(runs),
        failed=sum("error" in record for _, record in found),
        values=[_value(record, measure) for record in counted],
        winner=_value(_best(file, [record for _, record in finished]), measure) if chosen else None,
        solved=len(solved) if file.solved else None,
        seconds=[record["seconds"] for record in solved],
        batches=[record["batches"] for record in solved],
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


def _is_solved(file: SweepFile, record: Record) -> bool:
    bound = file.solved
    return bound is not None and at_least(_value(record, bound.measure), bound.least / file.unit)


def _published(
    file: SweepFile, condition: str, task: str, measure: str
) -> list[tuple[str, Figure]]:
    """The published figures of a cell, as shares, with their sources."""
    found = []
    for part in file.published:
        figures = part.values.get(condition) if part.measure == measure else None
        figure = figures.get(task) if isinstance(figures, dict) else figures
        if figure is not None:
            found.append((part.source, _as_share(file, figure)))
    return found


def _as_share(file: SweepFile, figure: Figure) -> Figure:
    """A figure of the file as a share of 1."""
    if isinstance(figure, tuple):
        least, middle, greatest = figure
        return least / file.unit, middle / file.unit, greatest / file.unit
    return figure / file.unit


def difference(file: SweepFile, cell: Cell, figure: Figure) -> str:
    """How the cell differs from a published figure: "over", "under", or not ("")."""
    assert cell.figure is not None
    by = cell.figure - (figure[1] if isinstance(figure, tuple) else figure)
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
