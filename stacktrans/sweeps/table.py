"""Results of a sweep beside published figures and claims, as Markdown, JSON and CSV."""

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from stacktrans.common.visible import counted, duration, markdown_table, markdown_text, one_line
from stacktrans.showing.scores import confidence_interval
from stacktrans.showing.tables import csv_text
from stacktrans.sweeps.cells import Cell, RunRecords, cells_of, claim_holds
from stacktrans.sweeps.plan import Plan, PlannedRun, distinct
from stacktrans.sweeps.records import is_complete, value_of
from stacktrans.sweeps.sweep_file import RUN_FACTS, Figure

VERDICTS = {True: "held", False: "did not hold", None: "not run"}
_DIVERGED = 1e6
"""From here on a perplexity, which only a diverged run has, is shown by its order of magnitude."""
MARKS = {"over": " ▲", "under": " ▼", "": ""}
_MEASURES = {
    "coarse": "coarse accuracy",
    "fine": "fine accuracy",
    "symbols": "symbol accuracy",
    "positions": "share of symbols that are right at their positions, averaged over lengths,",
    "lengths": "share of the lengths at which every string is right",
    "perplexity": "perplexity",
    "machine": "whether an extracted machine agrees with the hard model",
}

MAX_LISTED = 12
"""The most unsolved cells that are listed."""


def markdown(plan: Plan, records: RunRecords) -> str:
    """The complete results of a sweep, as Markdown."""
    cells = cells_of(plan, records)
    heading = [
        *("condition", "task", "measure", "min / median / max", _mean_title(cells), "solved [95%]"),
        *("median seconds to solve", "median batches to solve", "runs", "failed"),
    ]
    details = [_detail(plan, cell) for cell in cells if cell.values or cell.failed]
    parts = [f"# {_line(plan.file.title)}", summary(plan, records)]
    if details:
        parts.append(_table(heading, details))
    failed = [
        f"- {_line(f'{run.name}: ' + str(record['error']))}"
        for run in plan.runs
        if "error" in (record := records.get(run.identity, {}))
    ]
    if failed:
        parts.append("\n".join(["Failed:", "", *failed]))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(plan: Plan, records: RunRecords) -> str:
    """The overview of the results, as Markdown without a title: figures and claims."""
    cells = cells_of(plan, records)
    described = markdown_text(plan.file.description.strip(), keep="\n")
    parts = [_origin(plan, records), described, _line(solved_summary(plan, cells))]
    for measure in plan.file.measures:
        heading, *rows = overview_rows(plan, cells, measure)
        parts += [
            _line(" ".join(caption(plan, cells, measure))),
            _table([*map(_line, heading)], [[_line(name), *figures] for name, *figures in rows]),
        ]
    if plan.file.claims:
        verdicts = [
            [_line(claim.claim), _line(claim.source), VERDICTS[claim_holds(plan, claim, cells)]]
            for claim in plan.file.claims
        ]
        parts.append(_table(["claim", "source", "here"], verdicts))
    return "\n\n".join(part for part in parts if part)


def _origin(plan: Plan, records: RunRecords) -> str:
    runs = distinct(plan.runs)
    recorded = [records[run.identity] for run in runs if run.identity in records]
    finished = [record for record in recorded if "error" not in record]
    incomplete = sum(not is_complete(record, plan.file.measures) for record in finished)
    versions = sorted({f"stacktrans {run['version']}, torch {run['torch']}" for run in finished})
    trained = duration(sum(record["seconds"] for record in finished))
    name = plan.path.name + (f" with the profile {plan.profile}" if plan.profile else "")
    done = f"{len(finished)} of {counted(len(runs), 'run')}, {trained} of training"
    lacking = f" Some measures are missing in {incomplete} of them." if incomplete else ""
    software = f" ({_line('; '.join(versions))})" if versions else ""
    return f"Results of {_line(name)}: {done}{software}.{lacking}"


def caption(plan: Plan, cells: Sequence[Cell], name: str) -> list[str]:
    """Sentences on a table: the measure, the figure of a cell, and the marks, if it has any."""
    file = plan.file
    measure, choose = file.measures[name], file.choose
    unit = ", in per cent" if file.percent else ""
    figure = f"{file.figure} of the runs"
    if choose:
        best = "run" if file.shows_best_run else figure
        figure = f"{best} with the best {choose.by}, among {', '.join(choose.among)}"
    sentences = [
        f"{name}: {_MEASURES[measure.of]} on {strings_of(plan, name)}{unit}.",
        f"The {figure}.",
    ]
    by = choose.by if choose and choose.by != "training perplexity" else ""
    if measure.strings and by.startswith(measure.strings):
        sentences.append("Runs were selected on these strings, so the figure is optimistic.")
    shown = [cell for cell in cells if cell.measure == name and cell.figure is not None]
    if published := [each for cell in shown for each in cell.published]:
        sentences.append("Published → measured.")
    if any(each["difference"] for each in published):
        by_more = f" by more than {file.tolerance:g}" if file.tolerance else ""
        sentences.append(f"▲, ▼: above, below the published figure{by_more}.")
    return sentences


def strings_of(plan: Plan, name: str) -> str:
    """A description of the strings that a measure is taken on."""
    measure = plan.file.measures[name]
    if measure.of == "perplexity":
        return f"the {'validation' if measure.strings == 'valid' else 'test'} text"
    if measure.strings == "train":
        return "strings of each run's training lengths"
    if measure.strings:
        return f"each run's own {measure.strings} strings"
    hard = ", with hard signals" if measure.hard else ""
    if all(run.config.has_pair_files for run in plan.runs):
        lengths = f" of lengths {measure.lengths}" if measure.lengths else ""
        return f"up to {measure.count} strings of the test set{lengths}{hard}"
    strings = f"lengths {measure.lengths}" if measure.lengths else "the test lengths"
    if measure.depth:
        strings = f"derivations to depth {measure.depth}"
        strings += f" and lengths {measure.lengths}" if measure.lengths else ""
    each = "each of " if measure.each else ""
    return f"{measure.count} strings of {each}{strings}{hard}"


def overview_rows(plan: Plan, cells: Sequence[Cell], measure: str) -> list[list[str]]:
    """The table of conditions by tasks, published beside measured figures; its heading first."""
    shown = [cell for cell in cells if cell.measure == measure]
    average = "median" if plan.file.figure == "median" else _mean_title(shown)
    figure = "best run" if plan.file.shows_best_run else average
    tasks = list(dict.fromkeys(cell.task for cell in shown))
    rows = [[f"{measure}, {figure}", *(task or "measured" for task in tasks)]]
    for condition in plan.file.conditions:
        by_task = {cell.task: cell for cell in shown if cell.condition == condition}
        rows.append([condition, *(_overview_cell(plan, by_task.get(task)) for task in tasks)])
    solved = plan.file.solved
    if tasks == [""] and solved and solved.measure == measure:
        rows[0] += ["solved [95%]", "median seconds"]
        for row, cell in zip(rows[1:], shown, strict=True):
            row += [share_solved(cell), _rounded(cell.median_seconds_to_solve)]
    return rows


def _overview_cell(plan: Plan, cell: Cell | None) -> str:
    if cell is None:  # a condition may lack some of the tasks
        return ""
    if cell.figure is None:
        return "failed" if cell.failed else "not run"
    published = [f"{_figure(plan, each['figure'])} → " for each in cell.published]
    marks = [MARKS[each["difference"]] for each in cell.published]
    is_mean = plan.file.figure == "mean" and not plan.file.shows_best_run
    figure = _mean(plan, cell) if is_mean else _number(plan, cell.figure)
    return "".join([*published, figure, *marks])


def _detail(plan: Plan, cell: Cell) -> list[str]:
    names = [_line(name) for name in (cell.condition, cell.task, cell.measure)]
    if not cell.spread:
        return [*names, "", "", "", "", "", f"0 of {cell.planned}", str(cell.failed)]
    times = (cell.median_seconds_to_solve, cell.median_batches_to_solve)
    solved = [share_solved(cell), *map(_rounded, times)]
    criterion = plan.file.solved
    if criterion and cell.measure != criterion.measure:  # by which it is not judged
        solved = ["", "", ""]
    runs = [str(cell.runs), str(cell.failed or "")]
    return [*names, _figure(plan, cell.spread), _mean(plan, cell), *solved, *runs]


def _mean(plan: Plan, cell: Cell) -> str:
    """The mean of the runs of a cell, and its interval, if it has one."""
    interval = " – ".join(_number(plan, bound) for bound in cell.mean_interval or ())
    return _number(plan, mean(cell.values)) + (f" [{interval}]" if interval else "")


def _mean_title(cells: Sequence[Cell]) -> str:
    """The heading of `_mean`."""
    return "mean [95%]" if any(cell.mean_interval for cell in cells) else "mean"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table without columns whose cells are all empty."""
    columns = [column for column in zip(heading, *rows, strict=True) if any(column[1:])]
    first, *others = zip(*columns, strict=True)
    return markdown_table(first, others)


def _number(plan: Plan, share: float) -> str:
    return f"{100 * share:.1f}" if plan.file.percent else decimal(share, 2)


def decimal(value: float, digits: int) -> str:
    """A share or a perplexity with a number of decimal places, unless the run diverged."""
    return f"{value:.{digits}f}" if value < _DIVERGED else f"{value:.0e}"


def _figure(plan: Plan, figure: Figure) -> str:
    numbers = figure if isinstance(figure, tuple) else (figure,)
    return " / ".join(_number(plan, number) for number in numbers)


def _line(text: str) -> str:
    return markdown_text(one_line(text))


def as_json(plan: Plan, records: RunRecords) -> dict[str, Any]:
    """The results of a sweep as numbers, and the records themselves."""
    cells = cells_of(plan, records)
    return {
        "title": plan.file.title,
        "profile": plan.profile,
        "cells": [
            {key: value for key, value in vars(cell).items() if key not in {"values", "seconds"}}
            for cell in cells
        ],
        "claims": [
            {"claim": claim.claim, "source": claim.source, "holds": claim_holds(plan, claim, cells)}
            for claim in plan.file.claims
        ],
        "runs": [
            _run_json(run, records[run.identity]) for run in plan.runs if run.identity in records
        ],
    }


def _run_json(run: PlannedRun, record: dict[str, Any]) -> dict[str, Any]:
    """A record of a run, with its condition and its point of the grid first."""
    point = {"condition": run.condition, "axes": dict(run.axes)}
    return {**point, **record, **point}  # a record of an earlier sweep may have another point


def as_csv(plan: Plan, records: RunRecords) -> str:
    """The results as CSV: a line for each run, with a column for each measure."""
    rows = [plan.file.columns]
    for run in plan.runs:
        if record := records.get(run.identity):
            values = [record.get(key) for key in RUN_FACTS]
            values += [value_of(record, *measure) for measure in plan.file.measures.items()]
            cells = ("" if value is None else value for value in values)
            last = (record.get("error", ""), record["command"])
            rows.append([run.condition, *run.axes.values(), *cells, *last])
    return csv_text(rows)


def share_solved(cell: Cell) -> str:
    """How many runs of a cell are solved, and the interval of the share; empty if unknown."""
    if cell.solved is None:
        return ""
    return f"{cell.solved} of {cell.judged} {_interval(cell.solved, cell.judged)}"


def _rounded(number: float | None) -> str:
    """A number rounded to an integer; empty for None."""
    return "" if number is None else f"{number:.0f}"


def solved_summary(plan: Plan, cells: Sequence[Cell]) -> str:
    """Sentences on how many runs are solved, how fast, and which are not; empty if unknown."""
    criterion = plan.file.solved
    if criterion is None:
        return ""
    judged = [cell for cell in cells if cell.measure == criterion.measure and cell.judged]
    if not judged:
        return ""
    count = sum(cell.judged for cell in judged)
    seconds = [each for cell in judged for each in cell.seconds]
    bound = f"at least {criterion.least:g}{' per cent' if plan.file.percent else ''}"
    solved = f"{len(seconds)} of {counted(count, 'run')} {_interval(len(seconds), count)}"
    sentences = [f"Solved, with {criterion.measure} {bound}: {solved}"]
    if seconds:
        within = f"half of these within {median(seconds):.0f} seconds"
        sentences[0] += f", {within}, all within {max(seconds):.0f}"
    # Which of the solved runs are discrete, too.
    for name, measure in plan.file.measures.items():
        solved_cells = [cell for cell in cells if cell.measure == name and cell.solved]
        of_machine = measure.of == "machine"
        if solved_cells and (measure.hard or of_machine) and name != criterion.measure:
            also = sum(cell.also for cell in solved_cells)
            among = sum(cell.solved or 0 for cell in solved_cells)
            has = "a machine" if of_machine else f"{name} {bound}"
            share = f"{also} of {among} {_interval(also, among)}"
            sentences.append(f"Of the solved runs, {share} have {has}")
    missed = [_solved_of(cell) for cell in judged if len(cell.seconds) < cell.judged]
    if missed:
        more = f" and {len(missed) - MAX_LISTED} more" if len(missed) > MAX_LISTED else ""
        sentences.append(f"Conditions with unsolved runs: {', '.join(missed[:MAX_LISTED])}{more}")
    return ". ".join(sentences) + "."


def _solved_of(cell: Cell) -> str:
    name = f"{cell.condition} on {cell.task}" if cell.task else cell.condition
    return f"{name} ({len(cell.seconds)} of {cell.judged} solved)"


def _interval(part: int, whole: int) -> str:
    """The confidence interval of a share."""
    return "[{:.2f} – {:.2f}]".format(*confidence_interval(part / whole, whole))
