"""What a model says to each source: as lines, and its errors as a table and as JSON."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import RenderableType

from stacktrans.common.reading import parsed_json
from stacktrans.common.visible import json_text
from stacktrans.inference.evaluation import Scores
from stacktrans.inference.predictions import Prediction
from stacktrans.showing.scores import Results
from stacktrans.showing.tables import Column, Table, remark
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.base import Task
from stacktrans.tasks.lines import PairFormat, format_pair

AROUND = 20
"""How many symbols of a long string are shown before and after the first wrong one."""


def first_errors(results: Results, count: int) -> list[Prediction]:
    """The first wrong answers, range by range."""
    return [found for found in _predictions(results) if not found.right][:count]


def errors_table(results: Results, count: int, task: Task) -> Iterator[RenderableType]:
    """The first wrong answers beside their targets, and how many there are.

    Of long strings what is around the first wrong symbol is shown, and of a long source its
    beginning.
    """
    answers = [*_predictions(results)]
    wrong = sum(not found.right for found in answers)
    shown = first_errors(results, count)
    if shown:
        table = Table(
            "source", Column("target", left=True), Column("answer", left=True), "first wrong"
        )
        for found in shown:
            place = (found.first_wrong or 1) - 1
            table.add_row(
                _around(task.source, found.source, 0),
                _around(task.target, found.target, place),
                _around(task.target, found.answer, place),
                found.first_wrong,
            )
        yield table
    yield remark(
        f"{wrong} of {len(answers)} answers are wrong"
        + (f"; the first {len(shown)} are shown" if len(shown) < wrong else "")
    )


def errors_json(results: Results, count: int) -> list[dict[str, Any]]:
    """The first wrong answers."""
    return [
        {
            "source": found.source,
            "target": found.target,
            "answer": found.answer,
            "first_wrong": found.first_wrong,
        }
        for found in first_errors(results, count)
    ]


def predicted_lines(results: Results, task: Task, form: PairFormat) -> Iterator[str]:
    """Source, target, answer and whether it is right, range by range, as lines without their ends.

    The pair is as `format_pair` writes it.
    """
    for found in _predictions(results):
        line = format_pair(task, found.pair, form)
        if form == "tsv":
            yield f"{line}\t{found.answer}\t{'right' if found.right else 'wrong'}"
        else:
            yield json_text({**parsed_json(line), "answer": found.answer, "right": found.right})


def _predictions(results: Results) -> Iterator[Prediction]:
    """The answers of each range; those that are in several of them come once."""
    found = (each for _, scores in results for each in _answers(scores))
    return iter({id(each.pair): each for each in found}.values())


def _answers(scores: Scores) -> Iterable[Prediction]:
    return () if scores.predictions is None else scores.predictions


def _around(alphabet: Alphabet, text: str, place: int) -> str:
    """A string, or of a long one what is around a symbol."""
    symbols = alphabet.split(text)
    if len(symbols) <= 2 * AROUND:
        return text
    first = max(0, min(place - AROUND, len(symbols) - 2 * AROUND))
    last = first + 2 * AROUND
    before, after = "..." * (first > 0), "..." * (last < len(symbols))
    return before + alphabet.join(symbols[first:last]) + after
