"""Pictures in files, which matplotlib draws."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from stacktrans.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")


def check_suffix(path: Path) -> None:
    """Raise `UsageError` if there is no picture of this kind."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot {path}: expected a file that ends in {', '.join(SUFFIXES)}")


def empty_figure(width: float, height: float) -> "Figure":
    """Something to draw on, its sides in inches; raises `UsageError` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install 'stacktrans[plot]'") from error
    return Figure(figsize=(width, height))


def content_of(figure: "Figure", path: Path) -> bytes:
    """What is written to a file, in the form that its suffix says; the same for the same figure."""
    form = path.suffix.removeprefix(".").lower()
    content = io.BytesIO()
    without_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    figure.savefig(content, format=form, bbox_inches="tight", metadata=without_date)
    return content.getvalue()
