"""Accuracy and perplexity, as tables and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stacktrans.common.statistics import confidence_interval
from stacktrans.inference.evaluation import Scores
from stacktrans.inference.perplexity import Perplexity
from stacktrans.showing.tables import Column, Table
from stacktrans.tasks.base import Lengths

ROWS_PER_RANGE = 8


def accuracy_cells(coarse: float, fine: float, symbols: float) -> tuple[str, str, str]:
    """Coarse, fine and symbol accuracy, each in a cell."""
    return f"{coarse:.3f}", f"{fine:.3f}", f"{symbols:.4f}"


def _interval(accuracy: float, count: int) -> str:
    low, high = confidence_interval(accuracy, count)
    return f"{accuracy:.3f} [{low:.3f}, {high:.3f}]"


Results = Sequence[tuple[Lengths, Scores]]
"""The scores of each range of lengths."""


def scores_tables(results: Results, hard: bool = False) -> Iterator[Table]:
    """Accuracy of each range of lengths, then by length within those that have several.

    With `hard`, the share of symbols at which the hard model differs from the soft one is shown.
    """
    yield _ranges_table([((), results)], hard)
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
    """Accuracy of each of some checkpoints, by their names, on each range of lengths."""
    by_name = [((name,), results) for name, results in measured]
    return _ranges_table(by_name, hard, "checkpoint")


def _ranges_table(
    measured: Sequence[tuple[tuple[str, ...], Results]], hard: bool, *before: str
) -> Table:
    """A row for each range, which begins with cells under the headings `before`."""
    everything = [scores for _, found in measured for _, scores in found]
    answered = any(scores.predictions is not None for scores in everything)
    named = any(scores.name for scores in everything)
    table = Table(
        *before,
        *((Column("strings", left=True),) if named else ()),
        "lengths",
        Column("count" if named else "strings", drop=1),
        "coarse [95%]",
        Column("fine [95%]", drop=2),
        Column("symbols", drop=3),
        *((Column("error rate", drop=4),) if answered else ()),
        *(("hard ≠ soft",) if hard else ()),
    )
    for first, results in measured:
        for bounds, scores in results:
            rate = scores.symbol_error_rate
            table.add_row(
                *first,
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


def perplexity_table(texts: Mapping[str, Perplexity]) -> Table:
    """The perplexity of some texts, by their names."""
    return _texts_table([((), texts)])


def perplexities_table(measured: Sequence[tuple[str, Mapping[str, Perplexity]]]) -> Table:
    """The perplexity of some texts by each of some checkpoints, by their names."""
    return _texts_table([((name,), texts) for name, texts in measured], "checkpoint")


def _texts_table(
    measured: Sequence[tuple[tuple[str, ...], Mapping[str, Perplexity]]], *before: str
) -> Table:
    table = Table(
        *before,
        Column("text", left=True),
        Column("symbols", drop=2),
        Column("unknown", drop=1),
        "perplexity",
        Column("nats/symbol", drop=3),
    )
    for first, texts in measured:
        for name, found in texts.items():
            perplexity, nats = f"{found.perplexity:.2f}", f"{found.nats:.4f}"
            table.add_row(*first, name, found.symbols, found.unknown, perplexity, nats)
    return table


def perplexity_json(texts: Mapping[str, Perplexity]) -> list[dict[str, Any]]:
    """The numbers of `perplexity_table`, one entry a text."""
    return [{"text": name, **asdict(found)} for name, found in texts.items()]
