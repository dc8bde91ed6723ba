"""Accuracy by length as a picture."""

from collections.abc import Sequence
from pathlib import Path

from stacktrans.common.visible import visible
from stacktrans.inference.evaluation import Scores
from stacktrans.showing.figures import CHART, as_accuracy_by_length, content_of, empty_figure
from stacktrans.tasks.base import Lengths


def accuracy_chart(
    results: Sequence[tuple[Lengths, Scores]], trained: Lengths, title: str, path: Path
) -> bytes:
    """Coarse, fine and symbol accuracy by length, and which lengths were trained on.

    Args:
        results: of each range.
        trained: lengths, which are shaded.
        title: above it.
        path: whose suffix says the form of what comes back; nothing is written there.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure = empty_figure(*CHART)
    axis = figure.subplots()
    lengths = sorted({length for _, scores in results for length in scores.lengths.tolist()})
    at = [_at(results, length) for length in lengths]
    for label, shares, style in (
        ("coarse", [scores.coarse_accuracy for scores in at], "-"),
        ("fine", [scores.fine_accuracy for scores in at], "--"),
        ("symbols", [scores.symbol_accuracy for scores in at], ":"),
    ):
        axis.plot(lengths, shares, style, label=label, marker="." if len(lengths) == 1 else None)
    as_accuracy_by_length(axis, trained, "accuracy")
    axis.set_title(visible(title), parse_math=False)
    axis.legend(loc="best", frameon=False)
    return content_of(figure, path)


def _at(results: Sequence[tuple[Lengths, Scores]], length: int) -> Scores:
    """The scores of a length, of the first range that has some."""
    parts = (scores.of_lengths(length, length) for _, scores in results)
    return next(part for part in parts if part.count)
