"""What a sweep keeps: a folder for each run, the records of all in one file, and its tables."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from stacktrans.common.errors import StacktransError
from stacktrans.common.files import check_place, write_atomically
from stacktrans.common.reading import parsed_json, read_bytes
from stacktrans.common.registry import plugin_files
from stacktrans.common.visible import in_a_line, shell_text, visible
from stacktrans.showing.scores import confidence_interval
from stacktrans.showing.tables import csv_text
from stacktrans.sweeps.file import Figure, Measure, Solved
from stacktrans.sweeps.plan import Plan, PlannedRun
from stacktrans.sweeps.table import Cell, Records, cells_of, holds, merit
from stacktrans.sweeps.work import (
    RECORD,
    Job,
    Record,
    is_complete,
    is_record,
    read_record,
    value_of,
)

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

RESULTS = "results.jsonl"
TABLE = "results.md"
CSV = "results.csv"
JSON = "results.json"
RUNS = "runs"


def markdown(plan: Plan, records: Records) -> str:
    """The tables and the claims of a sweep."""
    cells = cells_of(plan, records)
    parts = [f"# {_line(plan.file.title)}", summary(plan, records)]
    parts += [_details(plan, cells), _failures(plan, records)]
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
    of_files = all(run.config.of_files for run in plan.runs)
    parts = [f"{name}: {_ACCURACIES[measure.of]} on {_strings(measure, of_files)}{unit}; {figure}"]
    by = choose.by if choose and choose.by != "training perplexity" else ""
    if measure.strings and by.startswith(measure.strings):
        parts.append("it was chosen by these very strings, and so is better on them than on others")
    if any(part.measure == name and part.values for part in file.published):
        marks = f"▲ and ▼ are more than {file.tolerance:g} over or under"
        parts.append(f"published → measured; {marks}")
    return "; ".join(parts) + "."


def _strings(measure: Measure, of_files: bool) -> str:
    """The strings that are measured on, in words."""
    if measure.of == "perplexity":
        return f"the {'validation' if measure.strings == 'valid' else 'test'} text"
    if measure.strings:
        kind = "training" if measure.strings == "train" else measure.strings
        return f"each run's own {kind} strings"
    hard = ", with hard signals" if measure.hard else ""
    if of_files:
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
            row += [share_solved(cell), seconds_to_solve(cell)]
    return rows


def _overview_cell(plan: Plan, cell: Cell | None) -> str:
    if cell is None:  # conditions may have tasks of their own
        return ""
    if cell.figure is None:
        return "failed" if cell.failed else "not run"
    published = [f"{_figure(plan, each['figure'])} → " for each in cell.published]
    marks = [MARKS[each["difference"]] for each in cell.published]
    return "".join([*published, _number(plan, cell.figure), *marks])


def _details(plan: Plan, cells: Sequence[Cell]) -> str:
    heading = [
        *("condition", "task", "measure", "min / median / max", "mean [95%]", "solved [95%]"),
        *("median seconds to solve", "median batches to solve", "runs", "failed"),
    ]
    return _table(heading, [_detail(plan, cell) for cell in cells if cell.values or cell.failed])


def _detail(plan: Plan, cell: Cell) -> list[str]:
    names = [_text(name) for name in (cell.condition, cell.task, cell.measure)]
    if not (cell.spread and cell.mean_interval):
        return [*names, "", "", "", "", "", f"0 of {cell.planned}", str(cell.failed)]
    interval = " – ".join(_number(plan, bound) for bound in cell.mean_interval)
    batches = cell.median_batches_to_solve
    return [
        *names,
        _figure(plan, cell.spread),
        f"{_number(plan, sum(cell.values) / cell.runs)} [{interval}]",
        share_solved(cell),
        seconds_to_solve(cell),
        "" if batches is None else f"{batches:.0f}",
        str(cell.runs),
        str(cell.failed or ""),
    ]


def _failures(plan: Plan, records: Records) -> str:
    failed = [
        f"- {_line(f'{run.name}: ' + str(records[run.identity]['error']))}"
        for run in plan.runs
        if "error" in records.get(run.identity, {})
    ]
    return "\n".join(["Failed:", "", *failed]) if failed else ""


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([_row(heading), "|" + "---|" * len(heading), *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(in_a_line(cell).replace("|", "\\|") for cell in cells) + " |"


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
    return _text(in_a_line(text))


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
    own = ["outcome", "seconds", "batches", "starts", "parameters", "perplexity"]
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
    if cell.solved is None or cell.solved_interval is None:
        return ""
    return f"{cell.solved} of {cell.runs} {_interval(cell.solved_interval)}"


def seconds_to_solve(cell: Cell) -> str:
    """How long the median of the solved runs took; empty if there is none."""
    seconds = cell.median_seconds_to_solve
    return "" if seconds is None else f"{seconds:.0f}"


def solved_in_words(plan: Plan, cells: Sequence[Cell]) -> str:
    """How many runs of a sweep are solved, how soon, and where not all are; empty if unknown."""
    bound = plan.file.solved
    judged = [cell for cell in cells if bound and cell.measure == bound.measure and cell.runs]
    if not (bound and judged):
        return ""
    count, seconds = sum(cell.runs for cell in judged), [s for cell in judged for s in cell.seconds]
    share = _interval(confidence_interval(len(seconds) / count, count))
    least = f"{bound.measure} at least {_least(plan, bound)}"
    said = f"Solved, with {least}: {len(seconds)} of {count} runs {share}"
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
        share = f"{also} of {count} {_interval(confidence_interval(also / count, count))}"
        has = "a machine" if measure.of == "machine" else f"{name} at least {_least(plan, bound)}"
        yield f"Of the solved runs, {share} have {has}"


def _least(plan: Plan, bound: Solved) -> str:
    return f"{bound.least:g}{' per cent' if plan.file.percent else ''}"


def _named(cell: Cell) -> str:
    name = f"{cell.condition} on {cell.task}" if cell.task else cell.condition
    return f"{name} ({len(cell.seconds)} of {cell.runs})"


def _interval(bounds: tuple[float, float]) -> str:
    return "[{:.2f} – {:.2f}]".format(*bounds)


class Store:
    """The directory of a sweep.

    Attributes:
        records: of all runs that were finished here or that failed, by identity.

    Raises:
        UsageError: the directory can't be made.
        StacktransError: the directory has records that can't be read, or is not one of a sweep.
    """

    def __init__(self, directory: Path, plan: Plan) -> None:
        self.directory, self.plan = directory, plan
        self._own = {run.identity for run in plan.runs}
        check_place(directory)
        if not any((directory / name).exists() for name in (RESULTS, RUNS)):
            for path in (directory / name for name in (TABLE, CSV, JSON)):
                if path.exists():
                    raise StacktransError(f"{path}: not of a sweep; choose another directory")
        self.records: dict[str, Record] = {}
        self._read()

    def _read(self) -> None:
        """Take up what is recorded of each run last, but nothing in place of a complete record.

        Raises `StacktransError` if one of this sweep's runs lacks what a winner is chosen by.
        """
        choose, found = self.plan.file.choose, []
        for place, record in self._found():
            if choose and "error" not in record and record["identity"] in self._own:
                try:
                    merit(choose, record)
                except (KeyError, TypeError) as error:
                    message = f"{place}: damaged: a record of a run without {choose.by}; remove it"
                    raise StacktransError(message) from error
            found.append(record)
        united: dict[str, Record] = {}
        for record in [*found, *self.records.values()]:
            if self._complete(record) or not self._complete(united.get(record["identity"])):
                united[record["identity"]] = record
        self.records = united

    def _found(self) -> Iterator[tuple[str, Record]]:
        """The records of an earlier sweep, then those in the folders of runs, and their places."""
        path, runs = self.directory / RESULTS, self.directory / RUNS
        lines = read_bytes(path).splitlines() if path.exists() else []
        for number, line in enumerate(lines, start=1):
            record: Any = None
            with contextlib.suppress(ValueError):
                record = parsed_json(line)
            if not is_record(record):
                start = line[:60].decode(errors="backslashreplace")
                message = f"{path}:{number}: not a record of a run: {start}"
                if runs.is_dir():
                    message += f"; remove this line: records are also read from {runs}"
                raise StacktransError(message)
            yield f"{path}:{number}", record
        for run in self.plan.runs:
            if found := read_record(self.folder(run)):
                yield str(self.folder(run) / RECORD), found

    def folder(self, run: PlannedRun) -> Path:
        """The directory of a run."""
        return self.directory / RUNS / run.directory

    def done(self, run: PlannedRun) -> bool:
        """Whether a run is finished and measured."""
        return self._complete(self.records.get(run.identity))

    def _complete(self, record: Record | None) -> bool:
        return record is not None and is_complete(record, self.plan.file.measures)

    def missing(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Those of some runs that are not done, once each; failed ones will be tried again."""
        left = {run.identity: run for run in runs if not self.done(run)}
        for identity in left:
            self.records.pop(identity, None)
        return list(left.values())

    def job(self, run: PlannedRun, device: str) -> Job:
        """What a worker needs for a run."""
        folder, measures = self.folder(run).resolve(), self.plan.file.measures
        return Job(run, folder, measures, device, plugins=plugin_files())

    def write(self) -> None:
        """Write records and tables; records of runs that the file does not ask for are kept."""
        self._read()
        numbers = as_json(self.plan, self.records)
        lines = numbers.pop("runs")  # which are in a file of their own
        lines += [each for identity, each in self.records.items() if identity not in self._own]
        contents = {
            RESULTS: "".join(f"{json.dumps(line)}\n" for line in lines),
            TABLE: markdown(self.plan, self.records),
            CSV: as_csv(self.plan, self.records),
            JSON: json.dumps(numbers, indent=1) + "\n",
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomically(self.directory / name, content)
