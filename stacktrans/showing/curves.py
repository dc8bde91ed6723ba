"""Learning curves of runs, by batch or by second: as a figure in a file, or as text."""

import importlib.util
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, product
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from stacktrans.common.errors import UsageError, clipped
from stacktrans.common.files import is_race
from stacktrans.common.reading import read_bytes
from stacktrans.common.visible import one_line
from stacktrans.showing.plots import CHART, empty_figure, legend_label, save, show_legend
from stacktrans.training.records import LOSS, METRICS, Accuracy, Record

Unit = Literal["batches", "seconds"]
Metrics = Mapping[str, Sequence[Record]]
"""The records of runs by their names."""
_RECORD = TypeAdapter(Record)

PANELS: Mapping[str, Mapping[str, str]] = {
    LOSS: {"loss": "-", "validation": "--"},
    "coarse accuracy": {"development": "-", "longest": "--", "test": "--", "train": ":"},
}
"""The fields of a record in each panel of a figure, the most important first, and their lines."""
ON_SAMPLED_STRINGS = ("test", "train")
"""Fields that are not plotted for runs with a development set, where they are measured on parts of
it."""
CHART_LINES = 10
"""The height of the curves of a chart in text, without the line of their maximum."""
TICK_DISTANCE = 10
"""Characters between the ticks of a chart."""
ROUND_NUMBERS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""The distances of ticks, up to powers of ten."""
MAX_WIDTH = 100
"""The most characters in a line of a chart."""
MARGIN = 28
"""Characters beside the curves of a chart."""
COLORS = ("cyan", "yellow", "magenta", "green", "red", "blue")
"""The colors of runs in a terminal."""
MARKS = "ox+*#%"
"""The marks of several runs, which tell them apart without colors, too."""


class Curve(NamedTuple):
    """A quantity measured repeatedly in a run.

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
    if is_race(directory) and not path.is_file():
        raise UsageError(f"{directory}: the race has no best run yet; expected one that is over")
    if not path.is_file():
        raise UsageError(f"{directory}: expected the directory of a run, with {METRICS}")
    lines = read_bytes(path).splitlines()
    if not lines:
        raise UsageError(f"{path}: no records")
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
    for (run, records), field in product(metrics.items(), PANELS[panel]):
        measured = {
            float(now(record)): value.coarse if isinstance(value, Accuracy) else float(value)
            for record in records
            if (value := getattr(record, field)) is not None
            and not (field in ON_SAMPLED_STRINGS and record.development)
        }
        measured = {time: value for time, value in measured.items() if math.isfinite(value)}
        if measured:
            yield Curve(run, field, [*measured], [*measured.values()])


def _panels(metrics: Metrics, unit: Unit) -> dict[str, list[Curve]]:
    """The curves of each panel that has any; raises `UsageError` if none has."""
    drawn = {panel: curves for panel in PANELS if (curves := [*curves_of(metrics, panel, unit)])}
    if not drawn:
        raise UsageError("no loss or accuracy that is a number has been recorded yet")
    return drawn


def plot_curves(metrics: Metrics, unit: Unit, path: Path) -> None:
    """Plot loss and accuracy of runs; raises `UsageError` if there are none."""
    drawn = _panels(metrics, unit)
    colors = {run: f"C{index % 10}" for index, run in enumerate(metrics)}
    width, height = CHART
    figure = empty_figure(width, height * len(drawn))
    axes = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for axis, (panel, curves) in zip(axes, drawn.items(), strict=True):
        for run, field, times, values in curves:
            label = legend_label(run if field == "loss" else f"{run}, {field}")
            marker = "." if len(times) == 1 else ""
            axis.plot(times, values, PANELS[panel][field] + marker, color=colors[run], label=label)
        axis.set(xlabel=unit, ylabel=panel, yscale="log" if panel == LOSS else "linear")
        if panel != LOSS:
            axis.set_ylim(-0.03, 1.03)
        show_legend(axis)
    save(figure, path)


def charts(metrics: Metrics, unit: Unit, width: int, colors: bool) -> Iterator[str]:
    """Loss and accuracy of runs as text, the most important curve of each run in each panel.

    Args:
        metrics: the records of the runs.
        unit: what time is measured in.
        width: columns of the text.
        colors: whether to write the codes of colors.

    Raises:
        UsageError: plotille is not installed, or nothing has been recorded.
    """
    if importlib.util.find_spec("plotille") is None:
        raise UsageError("charts need plotille: pip install plotille")
    import plotille

    for panel, drawn in _panels(metrics, unit).items():
        first = {curve.run: curve for curve in reversed(drawn)}
        curves = [first[run] for run in metrics if run in first]
        figure = plotille.Figure()
        figure.width = max(min(width, MAX_WIDTH) - MARGIN, TICK_DISTANCE)
        figure.height, figure.origin = CHART_LINES + 1, False
        figure.color_mode, figure.with_colors = "names", colors
        figure.x_label, figure.y_label = unit, panel
        _set_axes(figure, curves, panel)
        for curve, color, mark in zip(curves, cycle(COLORS), cycle(MARKS), strict=False):
            label, marker = f"{one_line(curve.run)}: {curve.field}", mark if curves[1:] else None
            figure.plot(curve.times, curve.values, lc=color, label=label, marker=marker)
        yield figure.show(legend=True)


def _set_axes(figure: Any, curves: Sequence[Curve], panel: str) -> None:
    """Set the limits of a figure, so that ticks are round numbers."""
    # What is at a limit is not drawn.
    last, ticks = 1.01 * max(curve.times[-1] for curve in curves), figure.width / TICK_DISTANCE
    figure.set_x_limits(0, ticks * _tick(last / ticks))
    greatest = max(max(curve.values) for curve in curves) if panel == LOSS else 1
    tick = _tick(greatest / CHART_LINES)
    figure.set_y_limits(0, (CHART_LINES + 1) * tick)
    figure.y_ticks_fkt = lambda low, _: low if low < (CHART_LINES + 0.5) * tick else ""
    figure.register_label_formatter(float, _label)
    figure.register_label_formatter(str, lambda text, chars, **_: text.rjust(chars))


def _tick(least: float) -> float:
    """A round number that is not less than another one."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(
        power * each for each in ROUND_NUMBERS if power * each >= least or each == ROUND_NUMBERS[-1]
    )


def _label(value: float, chars: int, delta: float, left: bool = False) -> str:
    """A number on an axis, in the form that plotille asks for."""
    text = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return text.ljust(chars) if left else text.rjust(chars)
