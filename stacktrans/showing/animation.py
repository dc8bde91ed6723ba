"""Animations of traces: what the memory holds, step by step, as a GIF drawn with matplotlib."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import UsageError
from stacktrans.common.files import check_place_of, write_atomically
from stacktrans.common.visible import visible
from stacktrans.inference.trace import Step, Trace
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.contents import parts_of, symbol_text
from stacktrans.showing.plots import (
    check_matplotlib,
    colours_of,
    draw_blocks,
    empty_figure,
    highest,
    panels_of,
    piled,
)
from stacktrans.showing.traces import said

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

SECONDS, LAST_SECONDS = 0.8, 2.4
"""How long a step is shown, and the last one."""
COLOURS_IN_FILE = 64
IN_VIEW = 25
"""Steps whose inputs and outputs are shown at once."""
WITH_NUMBERS = 12
"""With more signals than this the bars have no numbers."""
ACCENT = "#00695c"


def check_animation(path: Path) -> None:
    """Raise `UsageError` if a file can't be an animation, or its folder is missing."""
    if path.suffix.lower() != ".gif":
        raise UsageError(f"{path}: expected a file that ends in .gif")
    check_place_of(path)
    check_matplotlib()


def animate_trace(trace: Trace, config: RunConfig, path: Path) -> None:
    """Write a GIF with a picture for each step: input, output, signals, and what the memory holds.

    Raises:
        UsageError: matplotlib is not installed.
    """
    picture = _Picture(trace, config)
    from PIL.Image import Dither

    # All have the colours of the one with the most on the memory, or they would flicker.
    palette = picture.of_step(fullest(trace.steps)).quantize(COLOURS_IN_FILE)
    first, *others = (
        picture.of_step(place).quantize(palette=palette, dither=Dither.NONE)
        for place in range(len(trace.steps))
    )
    seconds = [*[SECONDS] * len(others), LAST_SECONDS]
    content = io.BytesIO()
    first.save(
        content,
        "GIF",
        save_all=True,
        append_images=others,
        duration=[round(1000 * each) for each in seconds],
        loop=0,
    )
    write_atomically(path, content.getvalue())


def fullest(steps: Sequence[Step]) -> int:
    """The place of the step, from 0, after which most symbols are on the memory."""
    symbols = [
        {block.symbol for blocks in parts_of(step).values() for block in blocks} for step in steps
    ]
    return max(range(len(steps)), key=lambda place: len(symbols[place]))


class _Picture:
    """A figure in which each step is drawn in turn."""

    def __init__(self, trace: Trace, config: RunConfig) -> None:
        self._steps = trace.steps
        panels = panels_of(trace)
        self._highest = max([1.0, *map(highest, panels.values())])
        self._colours = colours_of([trace])
        signals = len(trace.steps[0].signals)
        height = 1.8 + max(2.4, 0.22 * signals)
        self._figure = empty_figure(max(6.4, 3 + 1.3 * len(panels)), min(height, 20))
        self._figure.suptitle(visible(model_line(config)), fontsize=10, parse_math=False)

    def of_step(self, place: int) -> "Image":
        """The picture of a step, by its place from 0."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        step = self._steps[place]
        for axis in [*self._figure.axes]:
            axis.remove()
        held = parts_of(step)
        grid = self._figure.add_gridspec(
            2,
            1 + max(len(held), 1),
            height_ratios=[1, 2.4],
            width_ratios=[1.6, *[1] * max(len(held), 1)],
            hspace=0.25,
            wspace=0.4,
            top=0.86,
        )
        self._draw_lines(self._figure.add_subplot(grid[0, :]), place)
        _draw_signals(self._figure.add_subplot(grid[1, 0]), step)
        for column, (name, blocks) in enumerate(held.items(), start=1):
            axis = self._figure.add_subplot(grid[1, column])
            draw_blocks(axis, [*piled(blocks, 0)], self._colours, width=1)
            axis.set(xlim=(-0.6, 0.6), ylim=(0, self._highest), xticks=[])
            axis.set_xlabel(name, parse_math=False)
            axis.spines[["top", "right"]].set_visible(False)
            axis.locator_params(axis="y", integer=True, nbins=5)
        canvas: Any = FigureCanvasAgg(self._figure)
        canvas.draw()
        pixels = bytes(canvas.buffer_rgba())
        return Image.frombytes("RGBA", canvas.get_width_height(), pixels).convert("RGB")

    def _draw_lines(self, axis: "Axes", place: int) -> None:
        """Inputs and outputs around a step, which is marked."""
        first = min(max(0, place - IN_VIEW // 2), max(0, len(self._steps) - IN_VIEW))
        shown = self._steps[first : first + IN_VIEW]
        axis.axis("off")
        axis.set(xlim=(first - 0.7, first + max(len(shown), IN_VIEW // 2) - 0.3), ylim=(-0.6, 1.6))
        axis.set_title(f"step {place + 1} of {len(self._steps)}", fontsize=9, loc="left")
        axis.axvspan(place - 0.45, place + 0.45, color=ACCENT, alpha=0.25)
        for height, name in ((1, "input"), (0, "output")):
            axis.text(first - 0.8, height, name, ha="right", va="center", fontsize=9)
        for number, step in enumerate(shown, start=first):
            # What is answered later is not known yet.
            answer = said(step) if number <= place else ""
            for height, symbol in ((1, symbol_text(step.input)), (0, visible(answer))):
                axis.text(
                    *(number, height, symbol),
                    ha="center",
                    va="center",
                    fontsize=11 if len(symbol) <= 1 else 7,
                    color="black" if number <= place else "0.6",
                    parse_math=False,
                )


def _draw_signals(axis: "Axes", step: Step) -> None:
    """A bar for each signal."""
    names, strengths = [visible(name) for name in step.signals], [*step.signals.values()]
    places = range(len(names))
    axis.barh(places, strengths, color=ACCENT, height=0.6)
    axis.set_yticks(places, names, fontsize=9, parse_math=False)
    axis.set(xlim=(0, 1), ylim=(len(names) - 0.4, -0.6), xticks=[0, 0.5, 1])
    axis.spines[["top", "right"]].set_visible(False)
    for place, strength in enumerate(strengths if len(names) <= WITH_NUMBERS else ()):
        inside = strength > 0.6
        axis.text(
            *(strength + (-0.03 if inside else 0.03), place, f"{strength:.2f}"),
            ha="right" if inside else "left",
            va="center",
            fontsize=8,
            color="white" if inside else "black",
        )
