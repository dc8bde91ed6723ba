"""Matplotlib plots: accuracy by length, and traces over time."""

import importlib.util
import io
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stacktrans.common.errors import UsageError
from stacktrans.common.files import check_file_path, write_atomically
from stacktrans.common.visible import one_line, visible, visible_symbol
from stacktrans.inference.trace import Trace
from stacktrans.settings.config import RunConfig
from stacktrans.showing.contents import Block, parts_of, symbol_text, symbols_read
from stacktrans.showing.scores import Results, confidence_interval, spread
from stacktrans.showing.traces import heat_map_rows
from stacktrans.tasks.lengths import Lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


CHART = (7.0, 3.5)
"""Width and height of a chart, in inches."""
SUFFIXES = (".png", ".svg", ".pdf")

COLOURS = (
    *("#8ecdf2", "#f7c873", "#7fd0b3", "#f3e98a", "#e3b0cf", "#f0a37f"),
    *("#9fb8e8", "#c5d98c", "#cdb9a0", "#b7b3e0"),
)
"""Colours of symbols: light enough for black text, with neighbours of different lightness."""
PLAIN = "#d9d9d9"
"""The colour of marks, which are not symbols of a string, and of cells."""
EDGE = "#444444"
LEGIBLE = 0.3
"""The least strength of a row with room for its symbol."""
LONGEST_LABEL = 3
MAX_LABELS = 600
"""The most blocks with legible symbols."""
MAX_SHAPES = 5000
"""The most blocks that are drawn as vector graphics."""
TALLEST = 12
"""The total strength from which on a panel does not grow any more."""

MOST_INSIDE = 4
"""The most entries of a legend within the axes."""


def check_plot(path: Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Raise `UsageError` for an unknown format, a missing directory, or without matplotlib."""
    check_file_path(path, *suffixes)
    check_matplotlib()


def short_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of paths, without the identities of a sweep's runs.

    They are given in full if different paths would have the same name.
    """
    names = [path.resolve().name for path in paths]
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


def show_legend(axis: "Axes") -> None:
    """Add a legend, whose labels are no formulas, if anything has a label; a long one beside."""
    count = len(axis.get_legend_handles_labels()[1])
    if not count:
        return
    beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    place = beside if count > MOST_INSIDE else {"loc": "best"}
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
    """Plot coarse accuracy by length, with 95% intervals; of a single model, others beside it.

    Args:
        measured: the scores of each model, by its name.
        trained: the lengths that are shaded; None for none.
        title: of the chart.
        path: of the file.
    """
    with chart(path, title) as axis:
        for name, results in measured.items():
            middles, coarse, low, high, fine, symbols = zip(*_points(results), strict=True)
            label = f" {one_line(name)}" if len(measured) > 1 else "coarse"
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


def plot_trace(trace: Trace, config: RunConfig, path: Path) -> None:
    """Plot a trace over time: the contents of the memory, and below them everything else.

    Contents are drawn as blocks as high as their strengths. Strengths, values, reads, inputs and
    outputs are shaded as in figures 5 and 6 of hao2018.
    """
    rows = heat_map_rows(trace, config)
    groups = list(dict.fromkeys(row.group for row in rows))
    members = [[row for row in rows if row.group == group] for group in groups]
    panels = panels_of(trace)
    heights = [*map(panel_height, panels.values()), *map(len, members)]
    figure = empty_figure(min(2 + 0.25 * len(trace.steps), 60), min(1.5 + 0.25 * sum(heights), 60))
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    colours = colours_of(trace)
    for axis, (name, blocks) in zip(axes, panels.items(), strict=False):
        draw_blocks(axis, blocks, colours)
        axis.set(xlim=(-0.5, len(trace.steps) - 0.5), ylim=(0, highest(blocks)))
        axis.locator_params(axis="y", integer=True, nbins=4)
        _name(axis, f"{name} holds")
    for axis, group, listed in zip(axes[len(panels) :], groups, members, strict=True):
        shades = [row.shades for row in listed]
        axis.imshow(shades, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axis.set_yticks(range(len(listed)), [row.label for row in listed], parse_math=False)
        _name(axis, group)
    symbols = [visible_symbol(step.input) for step in trace.steps]
    rotation = 90 if any(len(symbol) > 2 for symbol in symbols) else 0
    axes[-1].set_xticks(range(len(symbols)), symbols, rotation=rotation, parse_math=False)
    axes[-1].set_xlabel("time")
    axes[0].set_title(visible(trace.model), parse_math=False)
    save(figure, path)


def _name(axis: "Axes", name: str) -> None:
    axis.set_ylabel(name, rotation=0, ha="right", va="center", parse_math=False)


class PlacedBlock(NamedTuple):
    """A block with its coordinates: centred on `middle`, from `bottom` upwards."""

    block: Block
    middle: float
    bottom: float


def colours_of(trace: Trace) -> dict[str, str]:
    """A colour for each input symbol, in the order of first appearance."""
    return dict(zip(symbols_read([trace]), itertools.cycle(COLOURS)))


def stacked(blocks: Sequence[Block], middle: float) -> Iterator[PlacedBlock]:
    """Blocks on top of one another, from 0 upwards."""
    bottoms = itertools.accumulate((block.height for block in blocks), initial=0.0)
    for block, bottom in zip(blocks, bottoms, strict=False):
        yield PlacedBlock(block, middle, bottom)


def panels_of(trace: Trace) -> dict[str, list[PlacedBlock]]:
    """The blocks of each part of a memory over time, centred on the index of their step."""
    panels: dict[str, list[PlacedBlock]] = {name: [] for name in parts_of(trace.steps[0])}
    for index, step in enumerate(trace.steps):
        for name, blocks in parts_of(step).items():
            panels[name] += stacked(blocks, index)
    return panels


def highest(placed: Sequence[PlacedBlock]) -> float:
    """The height of a panel, at least 1."""
    return max([1.0, *(each.bottom + each.block.height for each in placed)])


def panel_height(placed: Sequence[PlacedBlock]) -> int:
    """The height of a panel in rows of the picture."""
    return min(math.ceil(highest(placed)), TALLEST)


def draw_blocks(
    axis: "Axes", placed: Sequence[PlacedBlock], colours: Mapping[str, str], width: float = 0.9
) -> None:
    """Draw blocks, with symbols in those that are high enough."""
    import numpy as np
    from matplotlib.collections import PolyCollection

    corners = np.array([(-width / 2, 0), (-width / 2, 1), (width / 2, 1), (width / 2, 0)])
    shapes = [corners * (1, each.block.height) + (each.middle, each.bottom) for each in placed]
    collection = PolyCollection(
        shapes,
        facecolors=[colours.get(each.block.symbol, PLAIN) for each in placed],
        edgecolors=EDGE,
        linewidths=0.5,
        rasterized=len(placed) > MAX_SHAPES,
    )
    axis.add_collection(collection)
    for block, middle, bottom in placed if len(placed) <= MAX_LABELS else ():
        label = symbol_text(block.symbol)
        if block.step and block.height >= LEGIBLE and len(label) <= LONGEST_LABEL:
            size = 8 if len(label) == 1 else 6
            write_label(axis, middle, bottom + block.height / 2, label, fontsize=size, clip_on=True)


def write_label(axis: "Axes", x: float, y: float, text: str, **style: Any) -> None:
    """Write a text, centred by default, without mathematical markup."""
    axis.text(x, y, text, **{"ha": "center", "va": "center", "parse_math": False, **style})
