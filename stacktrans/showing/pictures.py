"""Matplotlib pictures of traces: plots over time, and animations as GIF."""

import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stacktrans.common.files import write_atomically
from stacktrans.common.visible import visible, visible_symbol
from stacktrans.inference.trace import Trace, TraceStep
from stacktrans.settings.config import RunConfig
from stacktrans.showing.contents import Block, parts_of, symbol_text, symbols_read
from stacktrans.showing.plots import empty_figure, save
from stacktrans.showing.traces import heat_map_rows, output_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

COLORS = (
    *("#8ecdf2", "#f7c873", "#7fd0b3", "#f3e98a", "#e3b0cf", "#f0a37f"),
    *("#9fb8e8", "#c5d98c", "#cdb9a0", "#b7b3e0"),
)
"""Colors of symbols: light enough for black text, with neighbors of different lightness."""
PLAIN = "#d9d9d9"
"""The color of marks, which are not symbols of a string, and of cells."""
EDGE = "#444444"
LEGIBLE = 0.3
"""The least strength of a row with room for its symbol."""
LONGEST_LABEL = 3
MAX_LABELS = 600
"""The most blocks with legible symbols."""
MAX_SHAPES = 5000
"""The most blocks that are drawn as vector graphics."""
MAX_HEIGHT = 12
"""The total strength from which on a panel does not grow any more."""

STEP_MS, LAST_STEP_MS = 800, 2400
"""The duration of a step, and of the last one, in milliseconds."""
COLORS_IN_FILE = 64
IN_VIEW = 25
"""Steps whose inputs and outputs are visible at a time."""
MAX_NUMBERED = 12
"""The most signals whose bars have numbers."""
ACCENT = "#00695c"


def plot_trace(trace: Trace, config: RunConfig, path: Path) -> None:
    """Plot a trace over time: the contents of the memory, and below them everything else.

    Contents are drawn as blocks as high as their strengths. Strengths, values, reads, inputs and
    outputs are shaded as in figures 5 and 6 of hao2018.
    """
    rows = heat_map_rows(trace, config)
    groups = list(dict.fromkeys(row.group for row in rows))
    members = [[row for row in rows if row.group == group] for group in groups]
    panels = panels_of(trace)
    drawn = [min(math.ceil(highest(blocks)), MAX_HEIGHT) for blocks in panels.values()]
    heights = [*drawn, *map(len, members)]
    figure = empty_figure(min(2 + 0.25 * len(trace.steps), 60), min(1.5 + 0.25 * sum(heights), 60))
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    colors = colors_of(trace)
    for axis, (name, blocks) in zip(axes, panels.items(), strict=False):
        draw_blocks(axis, blocks, colors)
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
    """A block with its coordinates: centered on `middle`, from `bottom` upwards."""

    block: Block
    middle: float
    bottom: float


def colors_of(trace: Trace) -> dict[str, str]:
    """A color for each input symbol, in the order of first appearance."""
    return dict(zip(symbols_read([trace]), itertools.cycle(COLORS)))


def stacked(blocks: Sequence[Block], middle: float) -> Iterator[PlacedBlock]:
    """Blocks on top of one another, from 0 upwards."""
    bottoms = itertools.accumulate((block.height for block in blocks), initial=0.0)
    for block, bottom in zip(blocks, bottoms, strict=False):
        yield PlacedBlock(block, middle, bottom)


def panels_of(trace: Trace) -> dict[str, list[PlacedBlock]]:
    """The blocks of each part of a memory over time, centered on the index of their step."""
    panels: dict[str, list[PlacedBlock]] = {name: [] for name in parts_of(trace.steps[0])}
    for index, step in enumerate(trace.steps):
        for name, blocks in parts_of(step).items():
            panels[name] += stacked(blocks, index)
    return panels


def highest(placed: Sequence[PlacedBlock]) -> float:
    """The height of a panel, at least 1."""
    return max([1.0, *(each.bottom + each.block.height for each in placed)])


def draw_blocks(
    axis: "Axes", placed: Sequence[PlacedBlock], colors: Mapping[str, str], width: float = 0.9
) -> None:
    """Draw blocks, with symbols in those that are high enough."""
    import numpy as np
    from matplotlib.collections import PolyCollection

    corners = np.array([(-width / 2, 0), (-width / 2, 1), (width / 2, 1), (width / 2, 0)])
    shapes = [corners * (1, each.block.height) + (each.middle, each.bottom) for each in placed]
    filled = [colors.get(each.block.symbol, PLAIN) for each in placed]
    collection = PolyCollection(shapes, facecolors=filled, edgecolors=EDGE, linewidths=0.5)
    collection.set_rasterized(len(placed) > MAX_SHAPES)
    axis.add_collection(collection)
    for block, middle, bottom in placed if len(placed) <= MAX_LABELS else ():
        label = symbol_text(block.symbol)
        if block.step and block.height >= LEGIBLE and len(label) <= LONGEST_LABEL:
            size = 8 if len(label) == 1 else 6
            write_label(axis, middle, bottom + block.height / 2, label, fontsize=size, clip_on=True)


def write_label(axis: "Axes", x: float, y: float, text: str, **style: Any) -> None:
    """Write a text, centered by default, without mathematical markup."""
    axis.text(x, y, text, **{"ha": "center", "va": "center", "parse_math": False, **style})


def animate_trace(trace: Trace, path: Path) -> None:
    """Write a GIF with a picture for each step: input, output, signals and contents."""
    picture = _Picture(trace)
    from PIL.Image import Dither

    # All share the palette of the picture with the most symbols; otherwise they would flicker.
    palette = picture.of_step(fullest(trace.steps)).quantize(COLORS_IN_FILE)
    first, *others = (
        picture.of_step(index).quantize(palette=palette, dither=Dither.NONE)
        for index in range(len(trace.steps))
    )
    content = io.BytesIO()
    durations = [*[STEP_MS] * len(others), LAST_STEP_MS]
    first.save(content, "GIF", save_all=True, append_images=others, duration=durations, loop=0)
    write_atomically(path, content.getvalue())


def fullest(steps: Sequence[TraceStep]) -> int:
    """The index of the step after which the memory has the most distinct symbols."""
    symbols = [
        {block.symbol for blocks in parts_of(step).values() for block in blocks} for step in steps
    ]
    return max(range(len(steps)), key=lambda index: len(symbols[index]))


class _Picture:
    """A figure that draws one step of a trace at a time."""

    def __init__(self, trace: Trace) -> None:
        self._steps = trace.steps
        panels = panels_of(trace)
        self._highest = max(map(highest, panels.values()), default=1.0)
        self._colors = colors_of(trace)
        height = 1.8 + max(2.4, 0.22 * len(trace.steps[0].signals))
        self._figure = empty_figure(max(6.4, 3 + 1.3 * len(panels)), min(height, 20))
        self._figure.suptitle(visible(trace.model), fontsize=10, parse_math=False)

    def of_step(self, index: int) -> "Image":
        """The picture of a step, by its index from 0."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        step = self._steps[index]
        for axis in [*self._figure.axes]:
            axis.remove()
        parts = parts_of(step)
        widths = [1.6, *[1] * max(len(parts), 1)]
        spaces = {"hspace": 0.25, "wspace": 0.4, "top": 0.86}
        grid = self._figure.add_gridspec(
            2, len(widths), height_ratios=[1, 2.4], width_ratios=widths, **spaces
        )
        self._draw_lines(self._figure.add_subplot(grid[0, :]), index)
        _draw_signals(self._figure.add_subplot(grid[1, 0]), step)
        for column, (name, blocks) in enumerate(parts.items(), start=1):
            axis = self._figure.add_subplot(grid[1, column])
            draw_blocks(axis, [*stacked(blocks, 0)], self._colors, width=1)
            axis.set(xlim=(-0.6, 0.6), ylim=(0, self._highest), xticks=[])
            axis.set_xlabel(name, parse_math=False)
            axis.spines[["top", "right"]].set_visible(False)
            axis.locator_params(axis="y", integer=True, nbins=5)
        canvas: Any = FigureCanvasAgg(self._figure)
        canvas.draw()
        pixels = bytes(canvas.buffer_rgba())
        return Image.frombytes("RGBA", canvas.get_width_height(), pixels).convert("RGB")

    def _draw_lines(self, axis: "Axes", index: int) -> None:
        """Inputs and outputs around a step, which is highlighted."""
        first = min(max(0, index - IN_VIEW // 2), max(0, len(self._steps) - IN_VIEW))
        shown = self._steps[first : first + IN_VIEW]
        axis.axis("off")
        axis.set(xlim=(first - 0.7, first + max(len(shown), IN_VIEW // 2) - 0.3), ylim=(-0.6, 1.6))
        axis.set_title(f"step {index + 1} of {len(self._steps)}", fontsize=9, loc="left")
        axis.axvspan(index - 0.45, index + 0.45, color=ACCENT, alpha=0.25)
        for height, name in ((1, "input"), (0, "output")):
            write_label(axis, first - 0.8, height, name, ha="right", fontsize=9)
        for number, step in enumerate(shown, start=first):
            # Later outputs are not known yet.
            answer = output_text(step) if number <= index else ""
            color = "black" if number <= index else "0.6"
            for height, symbol in ((1, symbol_text(step.input)), (0, answer)):
                size = 11 if len(symbol) <= 1 else 7
                write_label(axis, number, height, symbol, fontsize=size, color=color)


def _draw_signals(axis: "Axes", step: TraceStep) -> None:
    """Draw a bar for each signal."""
    names, strengths = [visible(name) for name in step.signals], [*step.signals.values()]
    rows = range(len(names))
    axis.barh(rows, strengths, color=ACCENT, height=0.6)
    axis.set_yticks(rows, names, fontsize=9, parse_math=False)
    axis.set(xlim=(0, 1), ylim=(len(names) - 0.4, -0.6), xticks=[0, 0.5, 1])
    axis.spines[["top", "right"]].set_visible(False)
    for row, strength in enumerate(strengths if len(names) <= MAX_NUMBERED else ()):
        inside = strength > 0.6  # the bar, which is dark
        offset, side, color = (-0.03, "right", "white") if inside else (0.03, "left", "black")
        number = f"{strength:.2f}"
        write_label(axis, strength + offset, row, number, ha=side, fontsize=8, color=color)
