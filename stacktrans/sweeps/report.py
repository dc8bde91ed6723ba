"""A sweep's table as Markdown and JSON, and its runs as CSV."""

import csv
import io
from collections.abc import Sequence
from statistics import median
from typing import Any

from stacktrans.common.visible import in_a_line, visible
from stacktrans.sweeps.captions import caption, figure_kind
from stacktrans.sweeps.file import Figure
from stacktrans.sweeps.markup import as_cell, as_code, as_text
from stacktrans.sweeps.plan import Plan, PlannedRun
from stacktrans.sweeps.table import Cell, Records, cells_of, difference, holds
from stacktrans.sweeps.work import is_complete, value_of

VERDICTS = {True: "held", False: "did not hold", None: "not run"}
_IMMENSE = 1e6
"""Perplexities from here on, which only a run that diverged has, are shown by their magnitude."""
MARKS = {"over": " ▲", "under": " ▼", "": ""}


def markdown(plan: Plan, records: Records) -> str:
    """The tables and the claims of a sweep.

    Args:
        plan: the sweep.
        records: of the runs that there are, by identity.
    """
    cells = cells_of(plan, records)
    parts = [f"# {as_text(in_a_line(plan.file.title))}", summary(plan, records)]
    parts += [_details(plan, cells), _failures(plan, records)]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(plan: Plan, records: Records) -> str:
    """What was run, published beside measured, and which claims held; without a heading."""
    cells = cells_of(plan, records)
    description = visible(plan.file.description.strip(), keep="\n")
    parts = [_origin(plan, records), as_text(description)]
    for measure in plan.file.measures:
        parts.append(as_text(in_a_line(caption(plan.file, measure))))
        parts.append(_overview(plan, cells, measure))
    return "\n\n".join(part for part in [*parts, _claims(plan, cells)] if part)


def _origin(plan: Plan, records: Records) -> str:
    found = [records[run.identity] for run in plan.runs if run.identity in records]
    finished = [record for record in found if is_complete(record, plan.file.measures)]
    versions = sorted({f"stacktrans {run['version']}, torch {run['torch']}" for run in finished})
    hours = sum(record["seconds"] for record in finished) / 3600
    profile = f" --profile {plan.profile}" if plan.profile else ""
    command = in_a_line(f"stacktrans sweep {plan.path.name}{profile}")
    return (
        f"Written by {as_code(command)}: {len(finished)} of "
        f"{len(plan.runs)} runs, {hours:.1f} hours of training"
        + (f" ({as_text(in_a_line('; '.join(versions)))})." if versions else ".")
    )


def _overview(plan: Plan, cells: Sequence[Cell], measure: str) -> str:
    heading, *rows = overview_rows(plan, cells, measure)
    named = [[as_text(name), *cells] for name, *cells in rows]
    heading = [as_text(name) for name in heading]
    lines = [_row(heading), "|" + "---|" * len(heading), *(_row(row) for row in named)]
    return "\n".join(lines)


def overview_rows(plan: Plan, cells: Sequence[Cell], measure: str) -> list[list[str]]:
    """Conditions by tasks, published beside measured; the first row is the heading."""
    shown = [cell for cell in cells if cell.measure == measure]
    tasks = list(dict.fromkeys(cell.task for cell in shown))
    rows = [[f"{measure}, {figure_kind(plan.file)}", *(task or "measured" for task in tasks)]]
    for condition in plan.file.conditions:
        of_task = {cell.task: cell for cell in shown if cell.condition == condition}
        rows.append([condition, *(_overview_cell(plan, of_task.get(task)) for task in tasks)])
    return rows


def _overview_cell(plan: Plan, cell: Cell | None) -> str:
    if cell is None:  # conditions may have tasks of their own
        return ""
    if cell.figure is None:
        return "failed" if cell.failed else "not run"
    published = [f"{_figure(plan, figure)} → " for _, figure in cell.published]
    marks = [MARKS[difference(plan.file, cell, figure)] for _, figure in cell.published]
    return "".join([*published, _number(plan, cell.figure), *marks])


def _details(plan: Plan, cells: Sequence[Cell]) -> str:
    heading = [
        *("condition", "task", "measure", "min / median / max", "mean [95%]", "solved [95%]"),
        *("median seconds to solve", "median batches to solve", "runs", "failed"),
    ]
    lines = [_row(heading), "|" + "---|" * len(heading)]
    lines += [_row(_detail(plan, cell)) for cell in cells if cell.values or cell.failed]
    return "\n".join(lines)


def _detail(plan: Plan, cell: Cell) -> list[str]:
    names = [as_text(name) for name in (cell.condition, cell.task, cell.measure)]
    if not cell.values:
        return [*names, "", "", "", "", "", f"0 of {cell.planned}", str(cell.failed)]
    mean = sum(cell.values) / len(cell.values)
    interval = " – ".join(_number(plan, bound) for bound in cell.mean_interval)
    solved = ""
    if cell.solved is not None and cell.solved_interval:
        low, high = cell.solved_interval
        solved = f"{cell.solved} of {len(cell.values)} [{low:.2f} – {high:.2f}]"
    return [
        *names,
        _figure(plan, cell.spread),
        f"{_number(plan, mean)} [{interval}]",
        solved,
        f"{median(cell.seconds):.0f}" if cell.seconds else "",
        f"{median(cell.batches):.0f}" if cell.batches else "",
        f"{len(cell.values)}",
        str(cell.failed or ""),
    ]


def _claims(plan: Plan, cells: Sequence[Cell]) -> str:
    if not plan.file.claims:
        return ""
    lines = ["| claim | source | here |", "|---|---|---|"]
    for claim in plan.file.claims:
        verdict = VERDICTS[holds(plan, claim, cells)]
        lines.append(_row([as_text(claim.claim), as_text(claim.source), verdict]))
    return "\n".join(lines)


def _failures(plan: Plan, records: Records) -> str:
    failed = [
        f"- {as_text(in_a_line(f'{run.name}: ' + str(records[run.identity]['error'])))}"
        for run in plan.runs
        if "error" in records.get(run.identity, {})
    ]
    return "\n".join(["Failed:", "", *failed]) if failed else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(in_a_line(cell).replace("|", "\\|") for cell in cells) + " |"


def _number(plan: Plan, share: float) -> str:
    if plan.file.percent:
        return f"{100 * share:.1f}"
    return number(share, 2)


def number(value: float, digits: int) -> str:
    """A share or a perplexity with so many digits after the point, unless it is immense."""
    return f"{value:.{digits}f}" if value < _IMMENSE else f"{value:.0e}"


def _figure(plan: Plan, figure: Figure) -> str:
    numbers = figure if isinstance(figure, tuple) else (figure,)
    return " / ".join(_number(plan, number) for number in numbers)


def as_json(plan: Plan, records: Records) -> dict[str, Any]:
    """The same as numbers, and the records themselves."""
    cells = cells_of(plan, records)
    return {
        "title": plan.file.title,
        "profile": plan.profile,
        "cells": [_cell_json(plan, cell) for cell in cells],
        "claims": [
            {"claim": claim.claim, "source": claim.source, "held": holds(plan, claim, cells)}
            for claim in plan.file.claims
        ],
        "runs": [
            run_json(run, records[run.identity]) for run in plan.runs if run.identity in records
        ],
    }


def _cell_json(plan: Plan, cell: Cell) -> dict[str, Any]:
    some = bool(cell.values)
    return {
        "condition": cell.condition,
        "task": cell.task,
        "measure": cell.measure,
        "figure": cell.figure,
        "published": [
            {
                "source": source,
                "figure": figure,
                "difference": difference(plan.file, cell, figure) if some else None,
            }
            for source, figure in cell.published
        ],
        "spread": cell.spread if some else None,
        "mean_interval": cell.mean_interval if some else None,
        "solved": cell.solved if some else None,
        "solved_interval": cell.solved_interval if some else None,
        "median_batches_to_solve": median(cell.batches) if cell.batches else None,
        "median_seconds_to_solve": median(cell.seconds) if cell.seconds else None,
        "runs": len(cell.values),
        "failed": cell.failed,
        "planned": cell.planned,
    }


def run_json(run: PlannedRun, record: dict[str, Any]) -> dict[str, Any]:
    """A line of a sweep's record: where in the sweep a run stands, and what came of it."""
    place = {"condition": run.condition, "axes": dict(run.axes)}
    return {**place, **record, **place}  # a record that was read may have an older place


def as_csv(plan: Plan, records: Records) -> str:
    """One line a run, with a column for each measure."""
    stream = io.StringIO()
    own = ["outcome", "seconds", "batches", "starts", "parameters", "perplexity"]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        _cells(["condition", *plan.file.grid, *own, *plan.file.measures, "error", "command"])
    )
    for run in plan.runs:
        if record := records.get(run.identity):
            values = [record.get(key) for key in own]
            values += [value_of(record, *measure) for measure in plan.file.measures.items()]
            cells = [
                run.condition,
                *run.axes.values(),
                *("" if value is None else value for value in values),
                record.get("error", ""),
                record["command"],
            ]
            writer.writerow(_cells(cells))
    return stream.getvalue()


def _cells(values: Sequence[Any]) -> list[Any]:
    plain = (value if isinstance(value, int | float) else visible(str(value)) for value in values)
    return [as_cell(value) for value in plain]
