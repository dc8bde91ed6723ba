"""Memory contents drawn in characters: a table of all steps, and a screen for each step."""

import math
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import visible, visible_symbol
from stacktrans.inference.trace import BEGIN, END, NOTHING, SEPARATOR, Trace, TraceStep
from stacktrans.showing.tables import GAP, Column, Table, heading, remark
from stacktrans.showing.traces import (
    applied_rules_table,
    control_cells,
    output_text,
    parts_text,
    verdict,
)

ALWAYS = ("step", "input", "output")
"""Columns that are never omitted."""
BARS = "▁▂▃▄▅▆▇█"
SIDE = "│"
"""The mark before the first row or cell."""
ROOM = 24
"""Characters that contents need at least before signals are shown beside them."""
LEAST = 8
"""Characters of contents in the narrowest terminal."""

EIGHTHS = " ▏▎▍▌▋▊▉"
LENGTH = 20
"""Characters of a bar for 1."""
KEYS = "← →, space: previous or next step; home, end: first or last; q: quit"
FEWEST = 4
"""Lines for the rows of a memory in the lowest terminal."""


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


def order_of(step: TraceStep, name: str) -> str:
    """The order of the rows or cells of a part."""
    if name in step.lines:
        return "bottom first" if step.lines[name].head is None else "left to right"
    label = "" if len(step.contents) == 1 else f"{name} "
    return "front first" if f"{label}front" in step.reads else "bottom first"


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

    Raises:
        UsageError: the memory has no contents to show.
    """
    if not parts_of(trace.steps[0]):
        raise UsageError(f"{trace.model}: the memory has no contents to show")
    return Group(
        heading(trace.model),
        _table(trace, width),
        remark(legend(trace)),
        *applied_rules_table(trace),
        remark(verdict(trace)),
    )


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
    always = [*ALWAYS, *(column.name for column, _ in control_cells(trace.steps[0]))]
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
    room = _room([[*always, *signals], *beside], len(always), len(names), needed, width)
    table = Table(
        *(Column(name, left=True) for name in always),
        *(Column(name, drop=1) for name in signals),
        # Of several parts, the last are omitted first, and the first never.
        Column(names[0], left=True),
        *(
            Column(name, left=True, drop=len(names) + 1 - index)
            for index, name in enumerate(names[1:], start=1)
        ),
    )
    for row, parts in zip(beside, contents, strict=True):
        table.add_row(*row, *(drawn(parts[name], room) for name in names))
    return table


def _room(beside: Sequence[Sequence[str]], always: int, count: int, needed: int, width: int) -> int:
    """The number of characters for each part of a memory.

    Args:
        beside: the rows of the columns before the parts.
        always: the number of first columns that are never omitted.
        count: number of parts.
        needed: the most characters that a part takes.
        width: the width of the table.
    """
    columns = [
        max(cell_len(visible(cell)) for cell in column) for column in zip(*beside, strict=True)
    ]
    with_signals, without = (
        (width - sum(shown) - len(GAP) * (len(shown) + count - 1)) // count
        for shown in (columns, columns[:always])
    )
    return max(LEAST, with_signals if with_signals >= min(needed, ROOM) else without)


def screen(trace: Trace, index: int, width: int, height: int) -> list[str]:
    """The lines of a step, by its index from 0, that fit a screen.

    The current input and output are in brackets. Each row of a single queue or stack has a line,
    with the top, or the front, first.
    """
    step, count = trace.steps[index], len(trace.steps)
    ended = f"; {visible(verdict(trace))}" if index == count - 1 else ""
    above = [
        *wrap(visible(trace.model), width),
        *wrap(f"step {index + 1} of {count}{ended}", width),
        "",
        *_symbol_lines(trace.steps, index, width),
        *_rule_lines(step, width),
        "",
    ]
    operations = ["", *_bars([*step.signals], [*step.signals.values()], width)]
    operations += _read_lines(step, width)
    below = ["", *wrap(KEYS, width)]
    room = max(0, height - len(above) - len(below))
    lines = [*_contents_lines(step, width, room - len(operations)), *operations]
    if len(lines) > room:
        kept = max(0, room - 1)
        lines = [*lines[:kept], f"… {len(lines) - kept} more lines"]
    lines = [*above, *lines, *below][:height]
    return [set_cell_size(line, min(cell_len(line), width)) for line in lines]


def _rule_lines(step: TraceStep, width: int) -> list[str]:
    """The rule that a machine applies, and its state after it, if it has several."""
    rule = wrap(visible(str(step.rule)), width) if step.rule else []
    return [*rule, f"state: {visible(step.state)}"] if step.state else rule


def bar_of(strength: float, room: int = LENGTH) -> str:
    """A horizontal bar for a number from 0 to 1, with at most `room` characters for 1."""
    eighths = round(min(max(strength, 0), 1) * max(min(LENGTH, room), 0) * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _symbol_lines(steps: Sequence[TraceStep], index: int, width: int) -> list[str]:
    """Inputs above outputs, as many around the current step as fit."""
    columns = []
    for number, step in enumerate(steps):
        # Later outputs are not known yet.
        pair = symbol_text(step.input), output_text(step) if number <= index else ""
        if number == index:
            pair = f"[{pair[0]}]", f"[{pair[1]}]"
        wide = max(map(cell_len, pair))
        columns.append([set_cell_size(text, wide) for text in pair])
    names = ["input  ", "output "]
    first, last = _around(index, [cell_len(one) + 1 for one, _ in columns], width - len(names[0]))
    rows = zip(*columns[first:last], strict=True)
    return [f"{name}{' '.join(row)}".rstrip() for name, row in zip(names, rows, strict=True)]


def _around(index: int, widths: Sequence[int], room: int) -> tuple[int, int]:
    """The first, and the end, of the columns around an index that fit."""
    first, last = index, index + 1
    while True:
        taken = sum(widths[first:last])
        after = last < len(widths) and taken + widths[last] <= room
        before = first > 0 and taken + widths[first - 1] <= room
        if not (after or before):
            return first, last
        # Evenly on both sides, as far as there are columns.
        if before and (not after or index - first <= last - 1 - index):
            first -= 1
        else:
            last += 1


def _bars(names: Sequence[str], strengths: Sequence[float], width: int) -> list[str]:
    """Lines of names, numbers from 0 to 1, and bars."""
    longest = max(map(cell_len, names), default=0)
    room = width - longest - len(" 0.00 ")
    return [
        f"{set_cell_size(name, longest)} {number:.2f} {bar_of(number, room)}".rstrip()
        for name, number in zip(names, strengths, strict=True)
    ]


def _read_lines(step: TraceStep, width: int) -> list[str]:
    """The parts of each read, in as many lines as necessary."""
    lines = []
    for end, parts in step.reads.items():
        lines.append(f"read {end}:")
        for part in parts:
            text = parts_text([part])
            if cell_len(lines[-1]) + len(GAP) + cell_len(text) > width:
                lines.append("")
            lines[-1] += f"{GAP}{text}"
    return lines


def _contents_lines(step: TraceStep, width: int, height: int) -> list[str]:
    """The contents of the memory; the rows of a single queue or stack in about `height` lines."""
    parts = parts_of(step)
    if len(parts) == 1:
        ((name, blocks),) = parts.items()
        order = order_of(step, name)
        from_top = order == "bottom first"
        ends = "the top first" if from_top else order
        return [f"{name}, {ends}", *_rows(blocks[::-1] if from_top else blocks, width, height - 1)]
    longest = max(map(cell_len, parts), default=0)
    return [
        f"{set_cell_size(name, longest)} {drawn(blocks, max(width - longest - 1, 1))}"
        for name, blocks in parts.items()
    ]


def _rows(blocks: Sequence[Block], width: int, height: int) -> list[str]:
    """A line for each row or cell; the middle ones are replaced by their number."""
    names = [GAP + _row_label(block) for block in blocks]
    lines = _bars(names, [block.height for block in blocks], width)
    kept = max(height, FEWEST) - 1
    if len(lines) <= kept + 1:
        return lines
    first = (kept + 1) // 2
    return [*lines[:first], f"{GAP}… {len(lines) - kept} more", *lines[first - kept :]]


def _row_label(block: Block) -> str:
    if block.step:
        return f"{block.name}@{block.step}"
    return f"[{block.name or 'cell'}]" if block.head else block.name or "cell"
