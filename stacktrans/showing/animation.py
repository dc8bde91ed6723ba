"""Animated traces as GIF, with a picture for each step."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.files import write_atomically
from stacktrans.common.visible import visible
from stacktrans.inference.trace import Trace, TraceStep
from stacktrans.showing.contents import parts_of, symbol_text
from stacktrans.showing.plots import (
    colours_of,
    draw_blocks,
    empty_figure,
    highest,
    panels_of,
    stacked,
    write_label,
)
from stacktrans.showing.traces import output_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

STEP_MS, LAST_STEP_MS = 800, 2400
"""The duration of a step, and of the last one, in milliseconds."""
COLOURS_IN_FILE = 64
IN_VIEW = 25
"""Steps whose inputs and outputs are visible at a time."""
MAX_NUMBERED = 12
"""The most signals whose bars have numbers."""
ACCENT = "#00695c"


def animate_trace(trace: Trace, path: Path) -> None:
    """Write a GIF with a picture for each step: input, output, signals and contents."""
    picture = _Picture(trace)
    from PIL.Image import Dither

    # All share the palette of the picture with the most symbols; otherwise they would flicker.
    palette = picture.of_step(fullest(trace.steps)).quantize(COLOURS_IN_FILE)
    first, *others = (
        picture.of_step(index).quantize(palette=palette, dither=Dither.NONE)
        for index in range(len(trace.steps))
    )
    content = io.BytesIO()
    first.save(
        content,
        "GIF",
        save_all=True,
        append_images=others,
        duration=[*[STEP_MS] * len(others), LAST_STEP_MS],
        loop=0,
    )
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
        self._colours = colours_of(trace)
        signals = len(trace.steps[0].signals)
        height = 1.8 + max(2.4, 0.22 * signals)
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
        grid = self._figure.add_gridspec(
            2,
            1 + max(len(parts), 1),
            height_ratios=[1, 2.4],
            width_ratios=[1.6, *[1] * max(len(parts), 1)],
            hspace=0.25,
            wspace=0.4,
            top=0.86,
        )
        self._draw_lines(self._figure.add_subplot(grid[0, :]), index)
        _draw_signals(self._figure.add_subplot(grid[1, 0]), step)
        for column, (name, blocks) in enumerate(parts.items(), start=1):
            axis = self._figure.add_subplot(grid[1, column])
            draw_blocks(axis, [*stacked(blocks, 0)], self._colours, width=1)
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
            colour = "black" if number <= index else "0.6"
            for height, symbol in ((1, symbol_text(step.input)), (0, answer)):
                size = 11 if len(symbol) <= 1 else 7
                write_label(axis, number, height, symbol, fontsize=size, color=colour)


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
        offset, side, colour = (-0.03, "right", "white") if inside else (0.03, "left", "black")
        number = f"{strength:.2f}"
        write_label(axis, strength + offset, row, number, ha=side, fontsize=8, color=colour)
