"""Scores with their confidence intervals, and answers: as tables, as lines and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import sqrt
from typing import Any

import numpy as np
from rich.console import RenderableType

from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import parsed_json
from stacktrans.common.visible import json_text
from stacktrans.inference.perplexity import Perplexity
from stacktrans.inference.scores import Prediction, Scores
from stacktrans.showing.tables import Column, Table, remark, table_of
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.base import Lengths, Task
from stacktrans.tasks.lines import PairFormat, format_pair

RESAMPLES = 2000
"""Of a bootstrap."""

ROWS_PER_RANGE = 8
_INTERVAL = "{*:.3f} [{*_low:.3f}, {*_high:.3f}]"
"""A measure, which stands for *, and its interval in a cell."""
Results = Sequence[tuple[Lengths, Scores]]
"""The scores of each range of lengths."""
AROUND = 20
"""How many symbols of a long string are shown before and after the first wrong one."""


def confidence_interval(accuracy: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share measured on `count` strings.

    For fine accuracy it errs on the wide side: no quantity between 0 and 1
    varies more than a coin with the same mean.
    """
    z = 1.959964
    centre = (accuracy + z * z / (2 * count)) / (1 + z * z / count)
    spread = accuracy * (1 - accuracy) / count + z * z / (4 * count * count)
    half = z * sqrt(spread) / (1 + z * z / count)
    # Rounding must not leave out the accuracy itself, least of all 0 and 1.
    return min(accuracy, max(0.0, centre - half)), max(accuracy, min(1.0, centre + half))


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95% interval of the mean: percentiles of the means of resampled values.

    It is the same for the same values.
    """
    rng = generator(0, Purpose.RESAMPLING)
    drawn = rng.choice(np.asarray(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


ACCURACIES = (
    Column("coarse", form="{coarse:.3f}"),
    Column("fine", form="{fine:.3f}"),
    Column("symbols", form="{symbols:.4f}"),
)


def scores_tables(results: Results, hard: bool = False) -> Iterator[Table]:
    """Accuracy of each range of lengths, then by length within those that have several.

    With `hard`, the share of symbols at which the hard model differs from the soft one is shown.
    """
    yield scores_table([_flat(_entry(bounds, scores, hard)) for bounds, scores in results])
    lengths = [
        {"length": part, **_measures(within)}
        for bounds, scores in results
        for part, within in _spread(bounds, scores)
    ]
    if lengths:
        strings = Column("strings", drop=1, form="{count}")
        yield table_of(lengths, Column("length"), strings, *ACCURACIES)


def scores_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Accuracy of each checkpoint on each range, as `flat_entries` has it."""
    count = "count" if any("strings" in entry for entry in entries) else "strings"
    return table_of(
        entries,
        Column("checkpoint"),
        Column("strings", left=True),
        Column("lengths", form="{shortest}:{longest}"),
        Column(count, drop=1, form="{count}"),
        Column("coarse [95%]", form=_INTERVAL.replace("*", "coarse")),
        Column("fine [95%]", drop=2, form=_INTERVAL.replace("*", "fine")),
        Column("symbols", drop=3, form="{symbols:.4f}"),
        Column("error rate", drop=4, form="{symbol_error_rate:.4f}"),
        Column("hard ≠ soft", form="{differing:.4f}"),
    )


def _spread(bounds: Lengths, scores: Scores) -> list[tuple[Lengths, Scores]]:
    """The scores of parts of a range of lengths, if there are strings in several of them."""
    width = -(-(bounds.longest - bounds.shortest + 1) // ROWS_PER_RANGE)
    parts = [
        Lengths(start, min(start + width - 1, bounds.longest))
        for start in range(bounds.shortest, bounds.longest + 1, width)
    ]
    found = [(part, within) for part in parts if (within := scores.of_lengths(*part)).count]
    return found if len(found) > 1 else []


def scores_json(results: Results, hard: bool = False) -> list[dict[str, Any]]:
    """The numbers of `scores_tables`, one entry a range."""
    return [
        {
            **_entry(bounds, scores, hard),
            "by_length": [
                {"length": length, **_measures(within)}
                for length, within in scores.by_length().items()
            ],
        }
        for bounds, scores in results
    ]


def _entry(bounds: Lengths, scores: Scores, hard: bool) -> dict[str, Any]:
    """What was measured on a range of lengths, and the name of its strings if they have one."""
    return {
        **({"strings": scores.name} if scores.name else {}),
        "lengths": [*bounds],
        **_measures(scores),
        **({"differing": scores.differing_share} if hard else {}),
    }


def _measures(scores: Scores) -> dict[str, Any]:
    coarse, fine, count = scores.coarse_accuracy, scores.fine_accuracy, scores.count
    rate = scores.symbol_error_rate
    return {
        "count": count,
        "coarse": coarse,
        "coarse_interval": confidence_interval(coarse, count),
        "fine": fine,
        "fine_interval": confidence_interval(fine, count),
        "symbols": scores.symbol_accuracy,
        **({"unknown": scores.unknown_count} if scores.unknown_count else {}),
        **({} if rate is None else {"symbol_error_rate": rate}),
    }


def flat_entries(objects: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results of checkpoints, as JSON has them, each in one flat entry."""
    return [
        {"checkpoint": each["checkpoint"], **_flat(result)}
        for each in objects
        for result in each["results"]
    ]


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of JSON with a field for each number, and nothing about single lengths."""
    flat: dict[str, Any] = {}
    for key, value in result.items():
        measure, _, last = key.rpartition("_")
        if key == "lengths":
            flat["shortest"], flat["longest"] = value
        elif last == "interval":
            flat[f"{measure}_low"], flat[f"{measure}_high"] = value
        elif key != "by_length":
            flat[key] = value
    return flat


def perplexity_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """The perplexity of texts by checkpoints, as `flat_entries` has it."""
    return table_of(
        entries,
        Column("checkpoint"),
        Column("text", left=True),
        Column("symbols", drop=2),
        Column("unknown", drop=1),
        Column("perplexity", form="{perplexity:.2f}"),
        Column("nats/symbol", drop=3, form="{nats:.4f}"),
    )


def perplexity_json(texts: Mapping[str, Perplexity]) -> list[dict[str, Any]]:
    """The numbers of `perplexity_table`, one entry a text."""
    return [{"text": name, **asdict(found)} for name, found in texts.items()]


def first_errors(results: Results, count: int) -> list[Prediction]:
    """The first wrong answers, range by range."""
    return [found for found in _predictions(results) if not found.right][:count]


def errors_table(results: Results, count: int, task: Task) -> Iterator[RenderableType]:
    """The first wrong answers beside their targets, and how many there are.

    Of long strings what is around the first wrong symbol is shown, and of a long source its
    beginning.
    """
    answers = _predictions(results)
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


def prediction_json(found: Prediction) -> dict[str, Any]:
    """An answer beside its target."""
    return {key: getattr(found, key) for key in ("source", "target", "answer", "first_wrong")}


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


def _predictions(results: Results) -> list[Prediction]:
    """The answers of each range; those that are in several of them come once."""
    parts = (scores.predictions for _, scores in results)
    found = (each for part in parts if part is not None for each in part)
    return [*{id(each.pair): each for each in found}.values()]


def _around(alphabet: Alphabet, text: str, place: int) -> str:
    """A string, or of a long one what is around a symbol."""
    symbols = alphabet.split(text)
    if len(symbols) <= 2 * AROUND:
        return text
    first = max(0, min(place - AROUND, len(symbols) - 2 * AROUND))
    last = first + 2 * AROUND
    before, after = "..." * (first > 0), "..." * (last < len(symbols))
    return before + alphabet.join(symbols[first:last]) + after
