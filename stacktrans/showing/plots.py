"""Matplotlib charts: accuracy by length; and what all plots have in common."""

import importlib.util
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import UsageError
from stacktrans.common.files import check_file_path, real_path, write_atomically
from stacktrans.common.visible import one_line
from stacktrans.showing.scores import Results, confidence_interval, spread
from stacktrans.tasks.lengths import Lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


CHART = (7.0, 3.5)
"""Width and height of a chart, in inches."""
SUFFIXES = (".png", ".svg", ".pdf")
MAX_INSIDE = 4
"""The most entries of a legend within the axes."""


def check_plot(path: Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raise `UsageError` for an unknown format, a missing directory, or without matplotlib."""
    check_file_path(path, *suffixes)
    check_matplotlib()


def short_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of paths, without the identities of a sweep's runs.

    They are given in full if different paths would have the same name.
    """
    names = [real_path(path).name for path in paths]
    for shorter in ([re.sub("-[0-9a-f]{16}$", "", name) for name in names], names):
        if len({*shorter}) == len({*paths}):
            return shorter
    return [*map(str, paths)]


def check_matplotlib() -> None:
    """Raise `UsageError` if matplotlib is not installed, before any work is done."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib: pip install matplotlib pillow")


def empty_figure(width: float, height: float) -> "Figure":
    """A figure with a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def label_axes_by_length(axis: "Axes", trained: Lengths | None, accuracy: str) -> None:
    """Label the axes of accuracy by length, and shade the lengths that were trained on, if any."""
    shade: dict[str, Any] = {"facecolor": "0.92", "edgecolor": "0.6", "linewidth": 0.5}
    if trained:
        axis.axvspan(trained.shortest, trained.longest, zorder=0, label="trained on", **shade)
    axis.set(xlabel="length", ylabel=accuracy, ylim=(-0.03, 1.03))
    axis.locator_params(axis="x", integer=True)


@contextmanager
def chart(path: Path, title: str) -> "Iterator[Axes]":
    """The axes of a chart that is written to a file afterwards."""
    figure = empty_figure(*CHART)
    axis = figure.subplots()
    yield axis
    axis.set_title(one_line(title), parse_math=False)
    show_legend(axis)
    save(figure, path)


def legend_label(text: str) -> str:
    """A label for the legend: a text on one line, which may begin with an underscore.

    matplotlib leaves out labels that do.
    """
    return f" {one_line(text)}"


def show_legend(axis: "Axes") -> None:
    """Add a legend, whose labels are no formulas, if anything has a label; a long one beside."""
    count = len(axis.get_legend_handles_labels()[1])
    if not count:
        return
    beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    place = beside if count > MAX_INSIDE else {"loc": "best"}
    for text in axis.legend(**place, frameon=False, fontsize="small").get_texts():
        text.set_parse_math(False)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure in the format of the path's suffix; equal figures make equal files."""
    form = path.suffix.removeprefix(".").lower()
    content = io.BytesIO()
    from matplotlib import rc_context

    without_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    with rc_context({"svg.hashsalt": "stacktrans"}):  # otherwise ids are random
        figure.savefig(content, format=form, bbox_inches="tight", metadata=without_date)
    write_atomically(path, content.getvalue())


def plot_accuracy(
    measured: Mapping[str, Results], trained: Lengths | None, title: str, path: Path
) -> None:
    """Plot coarse accuracy by length, with 95% intervals; for one model, all three accuracies.

    Args:
        measured: the scores of each model, by its name.
        trained: the lengths that are shaded; None for none.
        title: of the chart.
        path: of the file.
    """
    with chart(path, title) as axis:
        for name, results in measured.items():
            middles, coarse, low, high, fine, symbols = zip(*_points(results), strict=True)
            label = legend_label(name) if len(measured) > 1 else "coarse"
            (line,) = axis.plot(middles, coarse, marker=".", label=label)
            axis.fill_between(middles, low, high, color=line.get_color(), alpha=0.2)
            if len(measured) == 1:
                axis.plot(middles, fine, "--", label="fine")
                axis.plot(middles, symbols, ":", label="symbols")
        label_axes_by_length(axis, trained, "coarse accuracy" if len(measured) > 1 else "accuracy")


def _points(results: Results) -> list[tuple[float, ...]]:
    """Length, coarse accuracy, the ends of its interval, fine and symbol accuracy of each part.

    Where ranges overlap, as those of a development and a test set may, NaN interrupts the line.
    """
    points: list[tuple[float, ...]] = []
    longest = 0
    for bounds, scores in sorted(results, key=itemgetter(0)):
        if points and bounds.shortest <= longest:
            points.append((math.nan,) * 6)
        longest = max(longest, bounds.longest)
        for part, within in spread(bounds, scores) or [(bounds, scores)]:
            if within.count:
                coarse = within.coarse_accuracy
                interval = confidence_interval(coarse, within.count)
                middle = (part.shortest + part.longest) / 2
                points.append(
                    (middle, coarse, *interval, within.fine_accuracy, within.symbol_accuracy)
                )
    return points
