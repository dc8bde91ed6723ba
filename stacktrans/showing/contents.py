"""What a memory holds after each step, in a terminal: a bar for each row or cell."""

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Group, RenderableType

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import visible
from stacktrans.inference.trace import Step, Trace
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.tables import GAP, Column, Table, heading, remark
from stacktrans.showing.traces import said, verdict

ALWAYS = ("step", "input", "output")
"""Columns that even a narrow terminal has."""
BARS = "▁▂▃▄▅▆▇█"
SIDE = "│"
"""Stands before the first row or cell."""
ROOM = 24
"""Characters that the contents of a memory have before signals are shown beside them."""
LEAST = 8
"""Characters that they have in the narrowest terminal."""


class Block(NamedTuple):
    """A row or a cell of a memory.

    Attributes:
        height: the strength of a row, or how full a cell is, from 0 to 1.
        symbol: the symbol being read when a row was pushed; nothing of a cell.
        step: the step, from 1, that pushed a row; 0 of a cell.
        head: whether it is the cell at the head of a list.
    """

    height: float
    symbol: str = ""
    step: int = 0
    head: bool = False

    def __str__(self) -> str:
        text = (symbol_text(self.symbol) if self.step else "") + bar(self.height)
        return f"[{text}]" if self.head else text


def parts_of(step: Step) -> dict[str, list[Block]]:
    """What each part of a memory holds after a step, in order."""
    rows = {
        name: [Block(row.strength, row.symbol, row.step) for row in held]
        for name, held in step.contents.items()
    }
    cells = {
        name: [Block(filled, head=place == line.head) for place, filled in enumerate(line.filled)]
        for name, line in step.lines.items()
    }
    return rows | cells


def order_of(step: Step, name: str) -> str:
    """Which end of a part comes first."""
    if name in step.lines:
        return "bottom first" if step.lines[name].head is None else "left to right"
    label = "" if name in step.contents and len(step.contents) == 1 else f"{name} "
    return "front first" if f"{label}front" in step.reads else "bottom first"


def symbol_text(symbol: str) -> str:
    """A symbol such that it can be seen, a space as `␣`, and `∅` where none was read."""
    return "␣" * len(symbol) if symbol.isspace() else visible(symbol) or "∅"


def bar(height: float) -> str:
    """The character for a number from 0 to 1: the more, the higher."""
    return BARS[min(max(math.ceil(height * len(BARS)), 1), len(BARS)) - 1]


def drawn(blocks: Sequence[Block], room: int) -> str:
    """Blocks in no more than `room` characters where that can be.

    Where they do not fit, those at both ends are drawn, and between them stands how many are not.
    """
    # Cells have no symbols between their bars.
    texts, between = [*map(str, blocks)], " " if any(block.step for block in blocks) else ""
    whole = SIDE + between.join(texts)
    if cell_len(whole) <= room:
        return whole
    shown = SIDE + f"…{len(texts)}…"
    for kept in range(1, len(texts)):
        # The last comes first: with what was pushed last most is done.
        first, last = texts[: kept // 2], texts[len(texts) - (kept + 1) // 2 :]
        longer = SIDE + between.join([*first, f"…{len(texts) - kept}…", *last])
        if cell_len(longer) > room:
            break
        shown = longer
    return shown


def contents_view(trace: Trace, config: RunConfig, width: int) -> RenderableType:
    """What the memory holds after each step, a row a step, and the answer.

    Raises:
        UsageError: the memory does not show what it holds.
    """
    if not parts_of(trace.steps[0]):
        raise UsageError(f"memory {config.model.memory.name} does not show what it holds")
    table = _table(trace, width)
    return Group(heading(model_line(config)), table, remark(legend(trace)), remark(verdict(trace)))


def legend(trace: Trace) -> str:
    """How contents are drawn."""
    first = trace.steps[0]
    orders: dict[str, list[str]] = {}
    for name in parts_of(first):
        orders.setdefault(order_of(first, name), []).append(name)
    sides = [f"{', '.join(names)}: {order}" for order, names in orders.items()]
    if len(orders) == 1:
        sides = [*orders]
    kind = "how full a cell is" if first.lines else "the strength of a symbol"
    heads = any(line.head is not None for line in first.lines.values())
    marks = ["[ ]: at the head"] if heads else []
    return "; ".join([*sides, f"{BARS[0]} to {BARS[-1]}: {kind}, from 0 to 1", *marks])


def _table(trace: Trace, width: int) -> Table:
    names = [*parts_of(trace.steps[0])]
    # Those of several stacks with actions would leave no room for what they hold.
    signals = [] if len(names) > 1 and trace.steps[0].lines else [*trace.steps[0].signals]
    beside = [
        [str(step.step), step.input, said(step), *(f"{step.signals[name]:.2f}" for name in signals)]
        for step in trace.steps
    ]
    held = [parts_of(step) for step in trace.steps]
    needed = max(cell_len(drawn(blocks, sys.maxsize)) for each in held for blocks in each.values())
    room = _room([[*ALWAYS, *signals], *beside], len(names), needed, width)
    table = Table(
        *(Column(name, left=True) for name in ALWAYS),
        *(Column(name, drop=1) for name in signals),
        # Of several, the last are left out first.
        *(
            Column(name, left=True, drop=len(names) + 1 - place if place else None)
            for place, name in enumerate(names)
        ),
    )
    for row, each in zip(beside, held, strict=True):
        table.add_row(*row, *(drawn(each[name], room) for name in names))
    return table


def _room(beside: Sequence[Sequence[str]], count: int, needed: int, width: int) -> int:
    """How many characters each of `count` parts of a memory has.

    Args:
        beside: the rows of the columns that stand before them.
        count: of parts.
        needed: how many characters they take at most.
        width: of all columns.
    """
    columns = [
        max(cell_len(visible(cell)) for cell in column) for column in zip(*beside, strict=True)
    ]
    with_signals, without = (
        (width - sum(shown) - len(GAP) * (len(shown) + count - 1)) // count
        for shown in (columns, columns[: len(ALWAYS)])
    )
    return max(LEAST, with_signals if with_signals >= min(needed, ROOM) else without)
