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


def scores_tables(
    results: Sequence[tuple[Lengths, Scores]], hard: bool = False, names: Sequence[str] = ()
) -> Iterator[Table]:
    """Accuracy of each range of lengths, then by length within those that have several.

    With `hard`, the share of symbols at which the hard model differs from the soft one is shown.
    The strings of each result may have names, such as "development".
    """
    ranges = Table(
        *((Column("strings", left=True),) if names else ()),
        "lengths",
        Column("count" if names else "strings", drop=1),
        "coarse [95%]",
        Column("fine [95%]", drop=2),
        Column("symbols", drop=3),
        *(("hard ≠ soft",) if hard else ()),
    )
    lengths = Table("length", Column("strings", drop=1), "coarse", "fine", "symbols")
    for index, (bounds, scores) in enumerate(results):
        ranges.add_row(
            *names[index : index + 1],
            bounds,
            scores.count,
            _interval(scores.coarse_accuracy, scores.count),
            _interval(scores.fine_accuracy, scores.count),
            f"{scores.symbol_accuracy:.4f}",
            *((f"{scores.differing_share:.4f}",) if hard else ()),
        )
        parts = list(_spread(bounds, scores))
        for part, within in parts if len(parts) > 1 else ():
            coarse, fine = within.coarse_accuracy, within.fine_accuracy
            cells = accuracy_cells(coarse, fine, within.symbol_accuracy)
            lengths.add_row(part, within.count, *cells)
    yield ranges
    if lengths.rows:
        yield lengths


def _spread(bounds: Lengths, scores: Scores) -> Iterator[tuple[Lengths, Scores]]:
    width = -(-(bounds.longest - bounds.shortest + 1) // ROWS_PER_RANGE)
    for start in range(bounds.shortest, bounds.longest + 1, width):
        part = Lengths(start, min(start + width - 1, bounds.longest))
        within = scores.of_lengths(*part)
        if within.count:
            yield part, within


def scores_json(
    results: Sequence[tuple[Lengths, Scores]], hard: bool = False, names: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The numbers of `scores_tables`, one entry a range."""
    return [
        {
            **({"strings": names[index]} if names else {}),
            "lengths": list(bounds),
            **_scores_entry(scores),
            **({"differing": scores.differing_share} if hard else {}),
            "by_length": [
                {"length": length, **_scores_entry(within)}
                for length, within in scores.by_length().items()
            ],
        }
        for index, (bounds, scores) in enumerate(results)
    ]


def _scores_entry(scores: Scores) -> dict[str, Any]:
    coarse, fine, count = scores.coarse_accuracy, scores.fine_accuracy, scores.count
    return {
        "count": count,
        "coarse": coarse,
        "coarse_interval": confidence_interval(coarse, count),
        "fine": fine,
        "fine_interval": confidence_interval(fine, count),
        "symbols": scores.symbol_accuracy,
    }


def perplexity_table(texts: Mapping[str, Perplexity]) -> Table:
    """The perplexity of some texts, by their names."""
    table = Table(
        "text",
        Column("symbols", drop=2),
        Column("unknown", drop=1),
        "perplexity",
        Column("nats/symbol", drop=3),
    )
    for name, found in texts.items():
        perplexity, nats = f"{found.perplexity:.2f}", f"{found.nats:.4f}"
        table.add_row(name, found.symbols, found.unknown, perplexity, nats)
    return table


def perplexity_json(texts: Mapping[str, Perplexity]) -> list[dict[str, Any]]:
    """The numbers of `perplexity_table`, one entry a text."""
    return [{"text": name, **asdict(found)} for name, found in texts.items()]
