"""Scores with their confidence intervals, and answers: as tables, as lines and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import sqrt
from statistics import median
from typing import Any

import numpy as np
from rich.console import RenderableType

from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import parsed_json
from stacktrans.common.visible import json_text
from stacktrans.inference.evaluation import Scores
from stacktrans.inference.perplexity import Perplexity
from stacktrans.inference.predictions import Prediction
from stacktrans.showing.tables import Column, Table, remark
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.base import Lengths, Task
from stacktrans.tasks.lines import PairFormat, format_pair

RESAMPLES = 2000
"""Of a bootstrap."""

ROWS_PER_RANGE = 8
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


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Least, median and greatest."""
    return min(values), median(values), max(values)


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95% interval of the mean: percentiles of the means of resampled values.

    It is the same for the same values.
    """
    rng = generator(0, Purpose.RESAMPLING)
    drawn = rng.choice(np.asarray(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def accuracy_cells(coarse: float, fine: float, symbols: float) -> tuple[str, str, str]:
    """Coarse, fine and symbol accuracy, each in a cell."""
    return f"{coarse:.3f}", f"{fine:.3f}", f"{symbols:.4f}"


def _interval(accuracy: float, count: int) -> str:
    low, high = confidence_interval(accuracy, count)
    return f"{accuracy:.3f} [{low:.3f}, {high:.3f}]"


def scores_tables(results: Results, hard: bool = False) -> Iterator[Table]:
    """Accuracy of each range of lengths, then by length within those that have several.

    With `hard`, the share of symbols at which the hard model differs from the soft one is shown.
    """
    yield scores_table([("", results)], hard)
    lengths = Table("length", Column("strings", drop=1), "coarse", "fine", "symbols")
    for bounds, scores in results:
        parts = list(_spread(bounds, scores))
        for part, within in parts if len(parts) > 1 else ():
            coarse, fine = within.coarse_accuracy, within.fine_accuracy
            cells = accuracy_cells(coarse, fine, within.symbol_accuracy)
            lengths.add_row(part, within.count, *cells)
    if lengths.rows:
        yield lengths


def scores_table(measured: Sequence[tuple[str, Results]], hard: bool = False) -> Table:
    """Accuracy of checkpoints, by their names, on each range; one without a name is shown alone."""
    several = any(name for name, _ in measured)
    everything = [scores for _, found in measured for _, scores in found]
    answered = any(scores.predictions is not None for scores in everything)
    named = any(scores.name for scores in everything)
    table = Table(
        *(("checkpoint",) if several else ()),
        *((Column("strings", left=True),) if named else ()),
        "lengths",
        Column("count" if named else "strings", drop=1),
        "coarse [95%]",
        Column("fine [95%]", drop=2),
        Column("symbols", drop=3),
        *((Column("error rate", drop=4),) if answered else ()),
        *(("hard ≠ soft",) if hard else ()),
    )
    for name, results in measured:
        for bounds, scores in results:
            rate = scores.symbol_error_rate
            table.add_row(
                *((name,) if several else ()),
                *((scores.name,) if named else ()),
                bounds,
                scores.count,
                _interval(scores.coarse_accuracy, scores.count),
                _interval(scores.fine_accuracy, scores.count),
                f"{scores.symbol_accuracy:.4f}",
                *(() if rate is None else (f"{rate:.4f}",)),
                *((f"{scores.differing_share:.4f}",) if hard else ()),
            )
    return table


def _spread(bounds: Lengths, scores: Scores) -> Iterator[tuple[Lengths, Scores]]:
    width = -(-(bounds.longest - bounds.shortest + 1) // ROWS_PER_RANGE)
    for start in range(bounds.shortest, bounds.longest + 1, width):
        part = Lengths(start, min(start + width - 1, bounds.longest))
        within = scores.of_lengths(*part)
        if within.count:
            yield part, within


def scores_entries(
    measured: Sequence[tuple[str, Results]], hard: bool = False
) -> Iterator[dict[str, Any]]:
    """The numbers of `scores_table`, in full, one flat entry a row."""
    for name, results in measured:
        for bounds, scores in results:
            entry: dict[str, Any] = {"checkpoint": name}
            entry |= {"strings": scores.name} if scores.name else {}
            entry |= bounds._asdict()
            for key, value in _scores_entry(scores).items():
                if key.endswith("_interval"):
                    measure = key.removesuffix("_interval")
                    entry[f"{measure}_low"], entry[f"{measure}_high"] = value
                else:
                    entry[key] = value
            yield entry | ({"differing": scores.differing_share} if hard else {})


def scores_json(results: Results, hard: bool = False) -> list[dict[str, Any]]:
    """The numbers of `scores_tables`, one entry a range."""
    return [
        {
            **({"strings": scores.name} if scores.name else {}),
            "lengths": list(bounds),
            **_scores_entry(scores),
            **({"differing": scores.differing_share} if hard else {}),
            "by_length": [
                {"length": length, **_scores_entry(within)}
                for length, within in scores.by_length().items()
            ],
        }
        for bounds, scores in results
    ]


def _scores_entry(scores: Scores) -> dict[str, Any]:
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


def perplexity_table(measured: Sequence[tuple[str, Mapping[str, Perplexity]]]) -> Table:
    """The perplexity of texts by checkpoints, by their names; one without a name is shown alone."""
    several = any(name for name, _ in measured)
    table = Table(
        *(("checkpoint",) if several else ()),
        Column("text", left=True),
        Column("symbols", drop=2),
        Column("unknown", drop=1),
        "perplexity",
        Column("nats/symbol", drop=3),
    )
    for checkpoint, texts in measured:
        before = (checkpoint,) if several else ()
        for name, found in texts.items():
            perplexity, nats = f"{found.perplexity:.2f}", f"{found.nats:.4f}"
            table.add_row(*before, name, found.symbols, found.unknown, perplexity, nats)
    return table


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
    return [*map(prediction_json, first_errors(results, count))]


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


def _predictions(results: Results) -> Iterator[Prediction]:
    """The answers of each range; those that are in several of them come once."""
    parts = (scores.predictions for _, scores in results)
    found = (each for part in parts if part is not None for each in part)
    return iter({id(each.pair): each for each in found}.values())


def _around(alphabet: Alphabet, text: str, place: int) -> str:
    """A string, or of a long one what is around a symbol."""
    symbols = alphabet.split(text)
    if len(symbols) <= 2 * AROUND:
        return text
    first = max(0, min(place - AROUND, len(symbols) - 2 * AROUND))
    last = first + 2 * AROUND
    before, after = "..." * (first > 0), "..." * (last < len(symbols))
    return before + alphabet.join(symbols[first:last]) + after
