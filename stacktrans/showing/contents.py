"""Memory contents drawn in characters, and a table of them after all steps."""

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Group, RenderableType

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import visible, visible_symbol
from stacktrans.inference.trace import BEGIN, END, NOTHING, SEPARATOR, Trace, TraceStep
from stacktrans.showing.tables import GAP, Column, Table, heading, remark
from stacktrans.showing.traces import control_cells, output_text, remarks

BARS = "▁▂▃▄▅▆▇█"
SIDE = "│"
"""The mark before the first row or cell."""
ROOM = 24
"""Characters that each part of a memory has at least, if it needs them and the width allows it."""


class Block(NamedTuple):
    """A row or a cell of a memory, as it is drawn.

    Attributes:
        height: the strength of a row, or how full a cell is, from 0 to 1.
        symbol: of a row, as in `StoredRow`; of a cell, its stack symbol in a machine, or empty.
        step: the step, from 1, that pushed a row; 0 for a cell.
        head: whether it is the cell at the head of a list.
    """

    height: float
    symbol: str = ""
    step: int = 0
    head: bool = False

    @property
    def name(self) -> str:
        """A visible form of the symbol; empty for a cell without one."""
        return symbol_text(self.symbol) if self.step or self.symbol else ""

    def __str__(self) -> str:
        text = self.name + bar(self.height)
        return f"[{text}]" if self.head else text


def parts_of(step: TraceStep) -> dict[str, list[Block]]:
    """The contents of each part of a memory after a step, in order."""
    parts = {
        name: [Block(row.strength, row.symbol, row.step) for row in rows]
        for name, rows in step.contents.items()
    }
    for name, line in step.lines.items():
        symbols = line.stack_symbols or [""] * len(line.filled)
        cells = enumerate(zip(line.filled, symbols, strict=True))
        parts[name] = [
            Block(filled, symbol, head=index == line.head) for index, (filled, symbol) in cells
        ]
    return parts


def read_name(step: TraceStep, name: str, end: str) -> str:
    """The key in `step.reads` of an end of a part: with the part's name if there are several."""
    return end if end in step.reads else f"{name} {end}"


def order_of(step: TraceStep, name: str) -> str:
    """The order of the rows or cells of a part."""
    if name in step.lines:
        return "bottom first" if step.lines[name].head is None else "left to right"
    return "front first" if read_name(step, name, "front") in step.reads else "bottom first"


def symbols_read(traces: Sequence[Trace]) -> list[str]:
    """The input symbols without marks, in the order of first appearance."""
    marks = {BEGIN, SEPARATOR, END, NOTHING}
    read = dict.fromkeys(step.input for trace in traces for step in trace.steps)
    return [symbol for symbol in read if symbol not in marks]


def symbol_text(symbol: str) -> str:
    """A visible form of a symbol, and `∅` if there was none."""
    return visible_symbol(symbol) or "∅"


def bar(height: float) -> str:
    """The character of a vertical bar for a number from 0 to 1."""
    return BARS[min(max(math.ceil(height * len(BARS)), 1), len(BARS)) - 1]


def drawn(blocks: Sequence[Block], room: int) -> str:
    """Draw blocks in at most `room` characters, if possible.

    If they do not fit, those at both ends are drawn, with the number of omitted ones between them.
    """
    # Cells have no symbols between their bars.
    texts, between = [*map(str, blocks)], " " if any(block.name for block in blocks) else ""
    whole = SIDE + between.join(texts)
    if cell_len(whole) <= room:
        return whole
    shown = SIDE + f"…{len(texts)}…"
    for kept in range(1, len(texts)):
        # The last block is the most important: most operations concern the last pushes.
        first, last = texts[: kept // 2], texts[len(texts) - (kept + 1) // 2 :]
        longer = SIDE + between.join([*first, f"…{len(texts) - kept}…", *last])
        if cell_len(longer) > room:
            break
        shown = longer
    return shown


def contents_view(trace: Trace, width: int) -> RenderableType:
    """A table of the memory's contents after each step, and the answer.

    Parts of the memory that do not fit beside the others follow below, and contents that do not fit
    a width of that many characters are drawn without their middle.

    Raises:
        UsageError: the memory has no contents to show.
    """
    if not parts_of(trace.steps[0]):
        raise UsageError(
            f"--contents: {trace.model}: the snapshots of this memory have no rows or cells; "
            "without the option, its signals and reads are shown"
        )
    return Group(heading(trace.model), _table(trace, width), remark(legend(trace)), *remarks(trace))


def legend(trace: Trace) -> str:
    """The explanation of how contents are drawn."""
    first = trace.steps[0]
    orders: dict[str, list[str]] = {}
    for name in parts_of(first):
        orders.setdefault(order_of(first, name), []).append(name)
    sides = [f"{', '.join(names)}: {order}" for order, names in orders.items()]
    if len(orders) == 1:
        sides = [*orders]
    height = "how full a cell is" if first.lines else "the strength of a symbol"
    heads = any(line.head is not None for line in first.lines.values())
    marks = ["[ ]: at the head"] if heads else []
    return "; ".join([*sides, f"{BARS[0]} to {BARS[-1]}: {height}, from 0 to 1", *marks])


def _table(trace: Trace, width: int) -> Table:
    names = [*parts_of(trace.steps[0])]
    # The signals of several stacks with actions would leave no room for contents.
    signals = [] if len(names) > 1 and trace.steps[0].lines else [*trace.steps[0].signals]
    control = [column.name for column, _ in control_cells(trace.steps[0])]
    beside = [
        [
            str(step.step),
            visible_symbol(step.input),
            output_text(step),
            *(str(cell) for _, cell in control_cells(step)),
            *(f"{step.signals[name]:.2f}" for name in signals),
        ]
        for step in trace.steps
    ]
    contents = [parts_of(step) for step in trace.steps]
    blocks_of_parts = (blocks for parts in contents for blocks in parts.values())
    needed = max(cell_len(drawn(blocks, sys.maxsize)) for blocks in blocks_of_parts)
    left = ["step", "input", "output", *control]
    room = _room([[*left, *signals], *beside], len(names), needed, width)
    return Table(
        *(Column(name, left=True) for name in left),
        *signals,
        *(Column(name, left=True) for name in names),
        rows=[
            [*row, *(drawn(parts[name], room) for name in names)]
            for row, parts in zip(beside, contents, strict=True)
        ],
        continued=True,
    )


def _room(beside: Sequence[Sequence[str]], count: int, needed: int, width: int) -> int:
    """The number of characters for each part of a memory.

    Args:
        beside: the rows of the columns before the parts.
        count: number of parts.
        needed: the most characters that a part takes.
        width: the width of the table.
    """
    columns = [
        max(cell_len(visible(cell)) for cell in column) for column in zip(*beside, strict=True)
    ]
    together = _shared(width - sum(columns) - len(GAP) * len(columns), count)
    if together >= min(needed, ROOM):
        return together
    # Then parts follow in further tables, next to the first column.
    rest = width - columns[0] - len(GAP)
    return _shared(rest, min(count, max(1, (rest + len(GAP)) // (ROOM + len(GAP)))))


def _shared(width: int, count: int) -> int:
    """The width of each of several columns that share a width."""
    return (width + len(GAP)) // count - len(GAP)
