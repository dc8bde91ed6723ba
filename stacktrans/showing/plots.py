"""Plots in files, drawn with matplotlib: accuracy by length, traces, and what a memory holds."""

import importlib.util
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stacktrans.common.errors import UsageError
from stacktrans.common.files import check_place_of, write_atomically
from stacktrans.common.visible import visible
from stacktrans.inference.evaluation import Scores
from stacktrans.inference.trace import BEGIN, END, NOTHING, SEPARATOR, Trace
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.contents import Block, parts_of, symbol_text
from stacktrans.showing.traces import rows_of
from stacktrans.tasks.base import Lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CHART = (7.0, 3.5)
"""Width and height of a chart, in inches."""
SUFFIXES = (".png", ".svg", ".pdf")

COLOURS = (
    *("#8ecdf2", "#f7c873", "#7fd0b3", "#f3e98a", "#e3b0cf", "#f0a37f"),
    *("#9fb8e8", "#c5d98c", "#cdb9a0", "#b7b3e0"),
)
"""Light enough for black text; neighbours differ in lightness, too."""
PLAIN = "#d9d9d9"
"""Of marks, which are no symbols of a string, and of cells."""
EDGE = "#444444"
LEGIBLE = 0.3
"""Rows of less strength are too thin for their symbol."""
LONGEST_LABEL = 3
MOST_LABELS = 600
"""With more blocks than this nobody could read a symbol in them."""
MOST_SHAPES = 5000
"""More blocks than this are drawn as pixels, even in a file of shapes."""
TALLEST = 12
"""Strength that a panel is made for: one that has more is drawn smaller."""


def check_plot(path: Path) -> None:
    """Raise `UsageError` if a plot can't be of this kind, or its folder is missing."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")
    check_place_of(path)
    check_matplotlib()


def check_matplotlib() -> None:
    """Raise `UsageError` without matplotlib, before anything is done for a picture."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("plots need matplotlib: pip install matplotlib pillow")


def empty_figure(width: float, height: float) -> "Figure":
    """A figure of so many inches; raises `UsageError` without matplotlib."""
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def as_accuracy_by_length(axis: "Axes", trained: Lengths, accuracy: str) -> None:
    """Label the axes, and shade the lengths that were trained on."""
    axis.axvspan(trained.shortest, trained.longest, color="0.9", zorder=0, label="trained on")
    axis.set(xlabel="length", ylabel=accuracy, ylim=(-0.03, 1.03))


def save(figure: "Figure", path: Path) -> None:
    """Write a figure in the form that the path's suffix names; equal figures make equal files."""
    form = path.suffix.removeprefix(".").lower()
    content = io.BytesIO()
    from matplotlib import rc_context

    without_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    with rc_context({"svg.hashsalt": "stacktrans"}):  # or ids would be drawn at random
        figure.savefig(content, format=form, bbox_inches="tight", metadata=without_date)
    write_atomically(path, content.getvalue())


def plot_accuracy(
    results: Sequence[tuple[Lengths, Scores]], trained: Lengths, title: str, path: Path
) -> None:
    """Draw coarse, fine and symbol accuracy by length, the lengths that were trained on shaded.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure = empty_figure(*CHART)
    axis = figure.subplots()
    found: dict[int, Scores] = {}
    for _, scores in reversed(results):  # of a length in several ranges, the first counts
        found |= scores.by_length()
    lengths = sorted(found)
    at = [found[length] for length in lengths]
    for label, shares, style in (
        ("coarse", [scores.coarse_accuracy for scores in at], "-"),
        ("fine", [scores.fine_accuracy for scores in at], "--"),
        ("symbols", [scores.symbol_accuracy for scores in at], ":"),
    ):
        axis.plot(lengths, shares, style, label=label, marker="." if len(lengths) == 1 else None)
    as_accuracy_by_length(axis, trained, "accuracy")
    axis.set_title(visible(title), parse_math=False)
    axis.legend(loc="best", frameon=False)
    save(figure, path)


def plot_trace(trace: Trace, config: RunConfig, path: Path) -> None:
    """Draw a trace, with time across: what the memory holds, and below it in shades the rest.

    What the memory holds is drawn as blocks as high as their strengths. The rest (strengths,
    values, reads, inputs and outputs) is as in figures 5 and 6 of hao2018.

    Raises:
        UsageError: matplotlib is not installed.
    """
    rows = rows_of(trace, config)
    groups = list(dict.fromkeys(row.group for row in rows))
    members = [[row for row in rows if row.group == group] for group in groups]
    panels = panels_of(trace)
    heights = [*map(rows_for, panels.values()), *map(len, members)]
    figure = empty_figure(min(2 + 0.25 * len(trace.steps), 60), min(1.5 + 0.25 * sum(heights), 60))
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    colours = colours_of([trace])
    for axis, (name, placed) in zip(axes, panels.items(), strict=False):
        draw_blocks(axis, placed, colours)
        axis.set(xlim=(-0.5, len(trace.steps) - 0.5), ylim=(0, highest(placed)))
        axis.locator_params(axis="y", integer=True, nbins=4)
        _name(axis, f"{name} holds")
    for axis, group, listed in zip(axes[len(panels) :], groups, members, strict=True):
        shades = [row.shades for row in listed]
        axis.imshow(shades, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axis.set_yticks(range(len(listed)), [row.label for row in listed], parse_math=False)
        _name(axis, group)
    symbols = [visible(step.input) for step in trace.steps]
    turned = 90 if any(len(symbol) > 2 for symbol in symbols) else 0
    axes[-1].set_xticks(range(len(symbols)), symbols, rotation=turned, parse_math=False)
    axes[-1].set_xlabel("time")
    axes[0].set_title(visible(model_line(config)), parse_math=False)
    save(figure, path)


def _name(axis: "Axes", name: str) -> None:
    axis.set_ylabel(name, rotation=0, ha="right", va="center", parse_math=False)


class Placed(NamedTuple):
    """A block where it is drawn: around `middle`, from `bottom` to `bottom` plus its height."""

    block: Block
    middle: float
    bottom: float


def colours_of(traces: Sequence[Trace]) -> dict[str, str]:
    """A colour for each symbol that is read, in the order of their first appearance."""
    marks = {BEGIN, SEPARATOR, END, NOTHING}
    read = dict.fromkeys(step.input for trace in traces for step in trace.steps)
    symbols = zip((symbol for symbol in read if symbol not in marks), itertools.cycle(COLOURS))
    return dict(symbols)


def piled(blocks: Sequence[Block], middle: float) -> Iterator[Placed]:
    """Blocks one on another, from 0 up."""
    bottoms = itertools.accumulate((block.height for block in blocks), initial=0.0)
    for block, bottom in zip(blocks, bottoms, strict=False):
        yield Placed(block, middle, bottom)


def panels_of(trace: Trace) -> dict[str, list[Placed]]:
    """The blocks of each part of a memory over time, those of a step around its place from 0."""
    placed: dict[str, list[Placed]] = {name: [] for name in parts_of(trace.steps[0])}
    for place, step in enumerate(trace.steps):
        for name, blocks in parts_of(step).items():
            placed[name] += piled(blocks, place)
    return placed


def highest(placed: Sequence[Placed]) -> float:
    """How high blocks come, at least 1."""
    return max((each.bottom + each.block.height for each in placed), default=1.0)


def rows_for(placed: Sequence[Placed]) -> int:
    """How many rows of a picture a panel is as high as."""
    return min(max(math.ceil(highest(placed)), 1), TALLEST)


def draw_blocks(
    axis: "Axes", placed: Sequence[Placed], colours: Mapping[str, str], width: float = 0.9
) -> None:
    """Draw blocks of some width, with the symbols of those that are high enough."""
    import numpy as np
    from matplotlib.collections import PolyCollection

    corners = np.array([(-width / 2, 0), (-width / 2, 1), (width / 2, 1), (width / 2, 0)])
    shapes = [corners * (1, each.block.height) + (each.middle, each.bottom) for each in placed]
    collection = PolyCollection(
        shapes,
        facecolors=[colours.get(each.block.symbol, PLAIN) for each in placed],
        edgecolors=EDGE,
        linewidths=0.5,
        rasterized=len(placed) > MOST_SHAPES,
    )
    axis.add_collection(collection)
    for block, middle, bottom in placed if len(placed) <= MOST_LABELS else ():
        label = symbol_text(block.symbol)
        if block.step and block.height >= LEGIBLE and len(label) <= LONGEST_LABEL:
            axis.text(
                *(middle, bottom + block.height / 2, label),
                ha="center",
                va="center",
                fontsize=8 if len(label) == 1 else 6,
                parse_math=False,
                clip_on=True,
            )
