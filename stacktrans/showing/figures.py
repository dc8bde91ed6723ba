"""Pictures in files, which matplotlib draws."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from stacktrans.common.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from stacktrans.tasks.base import Lengths

CHART = (7.0, 3.5)
"""Width and height of a chart, in inches."""
SUFFIXES = (".png", ".svg", ".pdf")


def check_picture(path: Path) -> None:
    """Raise `UsageError` if there is no picture of this kind, or no such place for it."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {path}: expected a file that ends in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}")


def empty_figure(width: float, height: float) -> "Figure":
    """Something to draw on, its sides in inches; raises `UsageError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install 'stacktrans[plot]'") from error
    return Figure(figsize=(width, height))


def as_accuracy_by_length(axis: "Axes", trained: "Lengths", accuracy: str) -> None:
    """Label what was drawn on an axis, and shade the lengths that were trained on."""
    axis.axvspan(trained.shortest, trained.longest, color="0.9", zorder=0, label="trained on")
    axis.set(xlabel="length", ylabel=accuracy, ylim=(-0.03, 1.03))


def content_of(figure: "Figure", path: Path) -> bytes:
    """What is written to a file, in the form that its suffix says; the same for the same figure."""
    form = path.suffix.removeprefix(".").lower()
    content = io.BytesIO()
    from matplotlib import rc_context

    without_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    with rc_context({"svg.hashsalt": "stacktrans"}):  # or ids would be drawn at random
        figure.savefig(content, format=form, bbox_inches="tight", metadata=without_date)
    return content.getvalue()
