"""The table of a sweep: what was measured of each condition, beside what is published."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from stacktrans.common.visible import one_line, shell_text, visible
from stacktrans.showing.scores import bootstrap_interval, confidence_interval
from stacktrans.showing.tables import csv_text
from stacktrans.sweeps.plan import (
    Choice,
    Claim,
    ClaimPart,
    Figure,
    Measure,
    Plan,
    PlannedRun,
    SolvedCriterion,
    SweepFile,
)
from stacktrans.sweeps.work import Record, is_complete, value_of
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

    def reaches(record: Record, name: str) -> bool:
        return bound is not None and at_least(_value(record, name), bound.least / file.unit)

    solved = [record for record in counted if bound and reaches(record, bound.measure)]
    seconds = [run["seconds"] for run in solved]
    count, judged = len(values), bool(values and bound)
    return Cell(
        condition=condition,
        task=task,
        measure=measure,
        figure=figure,
        published=_published(file, condition, task, measure, figure),
        spread=(min(values), median(values), max(values)) if values else None,
        mean_interval=bootstrap_interval(values) if values else None,
        solved=len(solved) if judged else None,
        also=sum(reaches(record, measure) for record in solved),
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
    """The published figures of a cell, as shares, and how what was measured differs from them.

    That is "over", "under", or not (""); None where nothing was measured.
    """
    found = []
    for part in file.published:
        figures = part.values.get(condition) if part.measure == measure else None
        figure = figures.get(task) if isinstance(figures, dict) else figures
        if figure is None:
            continue
        shares = [each / file.unit for each in (figure if isinstance(figure, tuple) else (figure,))]
        differs = None
        if measured is not None:
            by = measured - shares[len(shares) // 2]
            near = at_least(file.tolerance / file.unit, abs(by))
            differs = "" if near else "over" if by > 0 else "under"
        share = tuple(shares) if len(shares) > 1 else shares[0]
        found.append({"source": part.source, "figure": share, "difference": differs})
    return found


def holds(plan: Plan, claim: Claim, cells: Sequence[Cell]) -> bool | None:
    """Whether a claim held; None if not everything was run that it is about."""
    figures = {(cell.condition, cell.task, cell.measure): cell.figure for cell in cells}
    parts = [_part_holds(plan.file, part, figures) for part in claim.holds]
    return None if None in parts else all(parts)


def _part_holds(
    file: SweepFile, part: ClaimPart, figures: Mapping[tuple[str, str, str], float | None]
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


VERDICTS = {True: "held", False: "did not hold", None: "not run"}
_IMMENSE = 1e6
"""Perplexities from here on, which only a run that diverged has, are shown by their magnitude."""
MARKS = {"over": " ▲", "under": " ▼", "": ""}
_ACCURACIES = {
    "coarse": "coarse accuracy",
    "fine": "fine accuracy",
    "symbols": "symbol accuracy",
    "lengths": "share of the lengths at which every string is right",
    "perplexity": "perplexity",
    "machine": "whether there is a machine that answers as the model with hard signals does",
}
_MARKUP = re.compile(r"[\\`*\[\]~]|\b_|_\b|^#|(?<=\n)#")
"""What Markdown would take for emphasis, code, a link, a picture or a heading."""
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

NAMED = 12
"""How many cells are named that were not always solved."""


def markdown(plan: Plan, records: Records) -> str:
    """The tables and the claims of a sweep."""
    cells = cells_of(plan, records)
    heading = [
        *("condition", "task", "measure", "min / median / max", "mean [95%]", "solved [95%]"),
        *("median seconds to solve", "median batches to solve", "runs", "failed"),
    ]
    details = [_detail(plan, cell) for cell in cells if cell.values or cell.failed]
    parts = [f"# {_line(plan.file.title)}", summary(plan, records), _table(heading, details)]
    failed = [
        f"- {_line(f'{run.name}: ' + str(record['error']))}"
        for run in plan.runs
        if "error" in (record := records.get(run.identity, {}))
    ]
    if failed:
        parts.append("\n".join(["Failed:", "", *failed]))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(plan: Plan, records: Records) -> str:
    """What was run, published beside measured, and which claims held; without a heading."""
    cells = cells_of(plan, records)
    described = _text(visible(plan.file.description.strip(), keep="\n"))
    parts = [_origin(plan, records), described, _line(solved_in_words(plan, cells))]
    for measure in plan.file.measures:
        heading, *rows = overview_rows(plan, cells, measure)
        rows = [[_text(name), *figures] for name, *figures in rows]
        parts += [_line(caption(plan, measure)), _table([*map(_text, heading)], rows)]
    if plan.file.claims:
        verdicts = [
            [_text(claim.claim), _text(claim.source), VERDICTS[holds(plan, claim, cells)]]
            for claim in plan.file.claims
        ]
        parts.append(_table(["claim", "source", "here"], verdicts))
    return "\n\n".join(part for part in parts if part)


def _origin(plan: Plan, records: Records) -> str:
    found = [records[run.identity] for run in plan.runs if run.identity in records]
    finished = [record for record in found if "error" not in record]
    partly = sum(not is_complete(record, plan.file.measures) for record in finished)
    versions = sorted({f"stacktrans {run['version']}, torch {run['torch']}" for run in finished})
    hours = sum(record["seconds"] for record in finished) / 3600
    profile = ["--profile", plan.profile] if plan.profile else []
    command = shell_text(["stacktrans", "sweep", plan.path.name, *profile]).replace("`", "'")
    done = f"{len(finished)} of {len(plan.runs)} runs, {hours:.1f} hours of training"
    lacking = f" {partly} of them lack some measures." if partly else ""
    by = f" ({_line('; '.join(versions))})" if versions else ""
    return f"Written by `{command}`: {done}{by}.{lacking}"


def caption(plan: Plan, name: str) -> str:
    """What a measure is, which figure stands for the runs of a cell, and what marks mean."""
    file = plan.file
    measure, choose = file.measures[name], file.choose
    unit = ", in per cent" if file.percent else ""
    figure = "the median of the runs"
    if choose:
        best = "the run" if "seed" in choose.among else figure
        figure = f"{best} with the best {choose.by}, among {', '.join(choose.among)}"
    has_pair_files = all(run.config.has_pair_files for run in plan.runs)
    parts = [
        f"{name}: {_ACCURACIES[measure.of]} on {_strings(measure, has_pair_files)}{unit}; {figure}"
    ]
    by = choose.by if choose and choose.by != "training perplexity" else ""
    if measure.strings and by.startswith(measure.strings):
        parts.append("it was chosen by these very strings, and so is better on them than on others")
    if any(part.measure == name and part.values for part in file.published):
        marks = f"▲ and ▼ are more than {file.tolerance:g} over or under"
        parts.append(f"published → measured; {marks}")
    return "; ".join(parts) + "."


def _strings(measure: Measure, has_pair_files: bool) -> str:
    """The strings that are measured on, in words."""
    if measure.of == "perplexity":
        return f"the {'validation' if measure.strings == 'valid' else 'test'} text"
    if measure.strings:
        kind = "training" if measure.strings == "train" else measure.strings
        return f"each run's own {kind} strings"
    hard = ", with hard signals" if measure.hard else ""
    if has_pair_files:
        lengths = f" of lengths {measure.lengths}" if measure.lengths else ""
        return f"up to {measure.count} strings of the test set{lengths}{hard}"
    place = f"lengths {measure.lengths}" if measure.lengths else "the test lengths"
    if measure.depth:
        place = f"derivations to depth {measure.depth}"
        place += f" and lengths {measure.lengths}" if measure.lengths else ""
    each = "each of " if measure.each else ""
    return f"{measure.count} strings of {each}{place}{hard}"


def overview_rows(plan: Plan, cells: Sequence[Cell], measure: str) -> list[list[str]]:
    """Conditions by tasks, published beside measured; the first row is the heading."""
    choose = plan.file.choose
    kind = "best run" if choose and "seed" in choose.among else "median"
    shown = [cell for cell in cells if cell.measure == measure]
    tasks = list(dict.fromkeys(cell.task for cell in shown))
    rows = [[f"{measure}, {kind}", *(task or "measured" for task in tasks)]]
    for condition in plan.file.conditions:
        of_task = {cell.task: cell for cell in shown if cell.condition == condition}
        rows.append([condition, *(_overview_cell(plan, of_task.get(task)) for task in tasks)])
    solved = plan.file.solved
    if tasks == [""] and solved and solved.measure == measure:
        rows[0] += ["solved [95%]", "median seconds"]
        for row, cell in zip(rows[1:], shown, strict=True):
            row += [share_solved(cell), _rounded(cell.median_seconds_to_solve)]
    return rows


def _overview_cell(plan: Plan, cell: Cell | None) -> str:
    if cell is None:  # conditions may have tasks of their own
        return ""
    if cell.figure is None:
        return "failed" if cell.failed else "not run"
    published = [f"{_figure(plan, each['figure'])} → " for each in cell.published]
    marks = [MARKS[each["difference"]] for each in cell.published]
    return "".join([*published, _number(plan, cell.figure), *marks])


def _detail(plan: Plan, cell: Cell) -> list[str]:
    names = [_text(name) for name in (cell.condition, cell.task, cell.measure)]
    if not (cell.spread and cell.mean_interval):
        return [*names, "", "", "", "", "", f"0 of {cell.planned}", str(cell.failed)]
    interval = " – ".join(_number(plan, bound) for bound in cell.mean_interval)
    return [
        *names,
        _figure(plan, cell.spread),
        f"{_number(plan, sum(cell.values) / cell.runs)} [{interval}]",
        share_solved(cell),
        _rounded(cell.median_seconds_to_solve),
        _rounded(cell.median_batches_to_solve),
        str(cell.runs),
        str(cell.failed or ""),
    ]


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([_row(heading), "|" + "---|" * len(heading), *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(one_line(cell).replace("|", "\\|") for cell in cells) + " |"


def _number(plan: Plan, share: float) -> str:
    return f"{100 * share:.1f}" if plan.file.percent else number(share, 2)


def number(value: float, digits: int) -> str:
    """A share or a perplexity with so many digits after the point, unless it is immense."""
    return f"{value:.{digits}f}" if value < _IMMENSE else f"{value:.0e}"


def _figure(plan: Plan, figure: Figure) -> str:
    numbers = figure if isinstance(figure, tuple) else (figure,)
    return " / ".join(_number(plan, number) for number in numbers)


def _text(text: str) -> str:
    """A text as it is written in Markdown to be read as it stands."""
    return _MARKUP.sub(r"\\\g<0>", text.translate(_HTML))


def _line(text: str) -> str:
    return _text(one_line(text))


def as_json(plan: Plan, records: Records) -> dict[str, Any]:
    """The same as numbers, and the records themselves."""
    cells = cells_of(plan, records)
    return {
        "title": plan.file.title,
        "profile": plan.profile,
        "cells": [
            {key: value for key, value in vars(cell).items() if key not in {"values", "seconds"}}
            for cell in cells
        ],
        "claims": [
            {"claim": claim.claim, "source": claim.source, "held": holds(plan, claim, cells)}
            for claim in plan.file.claims
        ],
        "runs": [
            _run_json(run, records[run.identity]) for run in plan.runs if run.identity in records
        ],
    }


def _run_json(run: PlannedRun, record: dict[str, Any]) -> dict[str, Any]:
    """A line of a sweep's record: where in the sweep a run stands, and its results."""
    place = {"condition": run.condition, "axes": dict(run.axes)}
    return {**place, **record, **place}  # a record that was read may have an older place


def as_csv(plan: Plan, records: Records) -> str:
    """One line a run, with a column for each measure."""
    own = ["outcome", "seconds", "batches", "attempts", "parameters", "perplexity"]
    rows = [["condition", *plan.file.grid, *own, *plan.file.measures, "error", "command"]]
    for run in plan.runs:
        if record := records.get(run.identity):
            values = [record.get(key) for key in own]
            values += [value_of(record, *measure) for measure in plan.file.measures.items()]
            known = ("" if value is None else value for value in values)
            last = (record.get("error", ""), record["command"])
            rows.append([run.condition, *run.axes.values(), *known, *last])
    return csv_text(rows)


def share_solved(cell: Cell) -> str:
    """How many runs of a cell are solved, and the interval of their share; empty if unknown."""
    if cell.solved is None:
        return ""
    return f"{cell.solved} of {cell.runs} {_interval(cell.solved, cell.runs)}"


def _rounded(number: float | None) -> str:
    """A number without digits after the point; empty if there is none."""
    return "" if number is None else f"{number:.0f}"


def solved_in_words(plan: Plan, cells: Sequence[Cell]) -> str:
    """How many runs of a sweep are solved, how soon, and where not all are; empty if unknown."""
    bound = plan.file.solved
    judged = [cell for cell in cells if bound and cell.measure == bound.measure and cell.runs]
    if not (bound and judged):
        return ""
    count, seconds = sum(cell.runs for cell in judged), [s for cell in judged for s in cell.seconds]
    least = f"{bound.measure} at least {_least(plan, bound)}"
    said = f"Solved, with {least}: {len(seconds)} of {count} runs {_interval(len(seconds), count)}"
    if seconds:
        said += (
            f", half of these within {median(seconds):.0f} seconds, all within {max(seconds):.0f}"
        )
    said += "".join(f". {each}" for each in _also_in_words(plan, cells))
    missed = [_named(cell) for cell in judged if len(cell.seconds) < cell.runs]
    if missed:
        more = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
        said += f". Not all runs of {', '.join(missed[:NAMED])}{more}"
    return f"{said}."


def _also_in_words(plan: Plan, cells: Sequence[Cell]) -> Iterator[str]:
    """How many of the solved runs are as good with hard signals, and of how many is a machine."""
    bound = plan.file.solved
    for name, measure in plan.file.measures.items():
        own = [cell for cell in cells if cell.measure == name and cell.solved]
        discrete = measure.hard or measure.of == "machine"
        if not (bound and own and discrete) or name == bound.measure:
            continue
        also, count = sum(cell.also for cell in own), sum(cell.solved or 0 for cell in own)
        has = "a machine" if measure.of == "machine" else f"{name} at least {_least(plan, bound)}"
        yield f"Of the solved runs, {also} of {count} {_interval(also, count)} have {has}"


def _least(plan: Plan, bound: SolvedCriterion) -> str:
    return f"{bound.least:g}{' per cent' if plan.file.percent else ''}"


def _named(cell: Cell) -> str:
    name = f"{cell.condition} on {cell.task}" if cell.task else cell.condition
    return f"{name} ({len(cell.seconds)} of {cell.runs})"


def _interval(part: int, whole: int) -> str:
    """The confidence interval of a share."""
    return "[{:.2f} – {:.2f}]".format(*confidence_interval(part / whole, whole))
