"""Learning curves of runs, by batch or by second: as a figure in a file, or as text."""

import importlib.util
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from stacktrans.common.errors import UsageError, clipped
from stacktrans.common.reading import read_bytes
from stacktrans.common.visible import one_line
from stacktrans.showing.plots import CHART, empty_figure, save, show_legend
from stacktrans.training.records import METRICS, Accuracy, Record

Unit = Literal["batches", "seconds"]
Metrics = Mapping[str, Sequence[Record]]
"""The records of runs by their names."""
_RECORD = TypeAdapter(Record)

PANELS: Mapping[str, Mapping[str, str]] = {
    "loss (nats/symbol)": {"loss": "-", "validation": "--"},
    "coarse accuracy": {"development": "-", "test": "-", "train": ":"},
}
"""The fields of a record in each panel of a figure, the most important first, and their lines."""
LINES = 10
"""The height of the curves of a chart in text."""
WIDEST = 100
"""The most characters in a line of a chart."""
MARGIN = 28
"""Characters beside the curves of a chart."""
COLOURS = ("cyan", "yellow", "magenta", "green", "red", "blue")
"""The colours of runs in a terminal."""


class Curve(NamedTuple):
    """What was measured of a run, again and again.

    Attributes:
        run: the name of the run.
        field: the field of its records.
        times: [n] batches or seconds since the run began.
        values: [n].
    """

    run: str
    field: str
    times: list[float]
    values: list[float]


def read_metrics(directory: Path) -> list[Record]:
    """The records of a run; raises `UsageError` if the directory has none, or a damaged one."""
    path = directory / METRICS
    if not path.is_file():
        raise UsageError(f"{directory}: expected the directory of a run, with {METRICS}")
    lines = read_bytes(path).splitlines()
    if not lines:
        raise UsageError(f"{path}: no records yet")
    return [_parsed(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def _parsed(line: bytes, place: str) -> Record:
    try:
        return _RECORD.validate_json(line)
    except ValidationError as error:
        found = clipped(line.decode(errors="backslashreplace"))
        raise UsageError(f"{place}: expected a record of a run, not {found}") from error


def curves_of(metrics: Metrics, panel: str, unit: Unit) -> Iterator[Curve]:
    """The curves in a panel, run by run, the most important first; none of what has no records."""
    now = attrgetter({"batches": "step", "seconds": "seconds"}[unit])
    for (run, records), field in itertools.product(metrics.items(), PANELS[panel]):
        measured = {
            float(now(record)): value.coarse if isinstance(value, Accuracy) else float(value)
            for record in records
            if (value := getattr(record, field)) is not None
        }
        measured = {time: value for time, value in measured.items() if math.isfinite(value)}
        if measured:
            yield Curve(run, field, [*measured], [*measured.values()])


def plot_curves(metrics: Metrics, unit: Unit, path: Path) -> None:
    """Plot loss and accuracy of runs; raises `UsageError` without matplotlib."""
    drawn = {panel: curves for panel in PANELS if (curves := [*curves_of(metrics, panel, unit)])}
    colours = {run: f"C{index % 10}" for index, run in enumerate(metrics)}
    width, height = CHART
    figure = empty_figure(width, height * len(drawn))
    for number, (panel, curves) in enumerate(drawn.items(), start=1):
        axis = figure.add_subplot(len(drawn), 1, number)
        for run, field, times, values in curves:
            # A label that begins with an underscore would be left out of the legend.
            label = f" {one_line(run)}{'' if field == 'loss' else f', {field}'}"
            marker = "." if len(times) == 1 else ""
            axis.plot(times, values, PANELS[panel][field] + marker, color=colours[run], label=label)
        axis.set(xlabel=unit, ylabel=panel, yscale="log" if field == "loss" else "linear")
        show_legend(axis, "small")
    save(figure, path)


def charts(metrics: Metrics, unit: Unit, width: int, colours: bool) -> Iterator[str]:
    """Loss and accuracy of runs as text, the most important curve of each run in each panel.

    Args:
        metrics: the records of the runs.
        unit: what time is measured in.
        width: columns of the text.
        colours: whether to write the codes of colours.

    Raises:
        UsageError: plotille is not installed.
    """
    if importlib.util.find_spec("plotille") is None:
        raise UsageError("charts need plotille: pip install plotille")
    import plotille

    for panel in PANELS:
        first = {curve.run: curve for curve in reversed([*curves_of(metrics, panel, unit)])}
        curves = [first[run] for run in metrics if run in first]
        if not curves:
            continue
        figure = plotille.Figure()
        figure.width, figure.height, figure.origin = min(width, WIDEST) - MARGIN, LINES, False
        figure.color_mode, figure.with_colors = "names", colours
        figure.x_label, figure.y_label = unit, panel
        figure.set_x_limits(0, max(curve.times[-1] for curve in curves))
        figure.set_y_limits(0, max(1e-9, *(max(curve.values) for curve in curves)))
        figure.register_label_formatter(float, _label)
        for curve, colour in zip(curves, itertools.cycle(COLOURS), strict=False):
            label = f"{one_line(curve.run)}: {curve.field}"
            figure.plot(curve.times, curve.values, lc=colour, label=label)
        yield figure.show(legend=True)


def _label(value: float, chars: int, delta: float, left: bool = False) -> str:
    """A number on an axis, in the form that plotille asks for."""
    text = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return text.ljust(chars) if left else text.rjust(chars)
