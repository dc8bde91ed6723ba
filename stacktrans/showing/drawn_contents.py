"""What memories hold, drawn with matplotlib: blocks as high as their strengths, one on another."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stacktrans.inference.trace import BEGIN, END, NOTHING, SEPARATOR, Trace
from stacktrans.showing.contents import Block, parts_of, symbol_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
