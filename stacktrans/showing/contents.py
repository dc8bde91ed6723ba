"""What a memory holds after each step, in a terminal: as bars, and as screens to step through."""

import math
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import visible
from stacktrans.inference.trace import BEGIN, END, NOTHING, SEPARATOR, Trace, TraceStep
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.tables import GAP, Column, Table, heading, remark
from stacktrans.showing.traces import output_text, parts_text, verdict

ALWAYS = ("step", "input", "output")
"""Columns that even a narrow terminal has."""
BARS = "▁▂▃▄▅▆▇█"
SIDE = "│"
"""Stands before the first row or cell."""
ROOM = 24
"""Characters that the contents of a memory have before signals are shown beside them."""
LEAST = 8
"""Characters that they have in the narrowest terminal."""

EIGHTHS = " ▏▎▍▌▋▊▉"
LENGTH = 20
"""Characters of a bar of 1."""
KEYS = "← →, space: a step back or on; home, end: the first or last; q: quit"
FEWEST = 4
"""Lines for the rows of a memory, however low a terminal is."""


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


def parts_of(step: TraceStep) -> dict[str, list[Block]]:
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


def order_of(step: TraceStep, name: str) -> str:
    """Which end of a part comes first."""
    if name in step.lines:
        return "bottom first" if step.lines[name].head is None else "left to right"
    label = "" if len(step.contents) == 1 else f"{name} "
    return "front first" if f"{label}front" in step.reads else "bottom first"


def symbols_read(traces: Sequence[Trace]) -> list[str]:
    """The symbols that are read, marks left out, in the order of their first appearance."""
    marks = {BEGIN, SEPARATOR, END, NOTHING}
    read = dict.fromkeys(step.input for trace in traces for step in trace.steps)
    return [symbol for symbol in read if symbol not in marks]


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
        [
            str(step.step),
            step.input,
            output_text(step),
            *(f"{step.signals[name]:.2f}" for name in signals),
        ]
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


def screen(trace: Trace, config: RunConfig, place: int, width: int, height: int) -> list[str]:
    """The lines of a step, by its place from 0, no more and no longer than a screen has room for.

    The current input and output stand in brackets. Of a single queue or stack each row has a line,
    the top, or the front, first.
    """
    step, count = trace.steps[place], len(trace.steps)
    ended = f"; {visible(verdict(trace))}" if place == count - 1 else ""
    above = [
        *wrap(visible(model_line(config)), width),
        *wrap(f"step {place + 1} of {count}{ended}", width),
        "",
        *_symbol_lines(trace.steps, place, width),
        "",
    ]
    done = ["", *_bars([*step.signals], [*step.signals.values()], width), *_read_lines(step, width)]
    below = ["", *wrap(KEYS, width)]
    room = max(0, height - len(above) - len(below))
    lines = [*_held_lines(step, width, room - len(done)), *done]
    if len(lines) > room:
        kept = max(0, room - 1)
        lines = [*lines[:kept], f"… {len(lines) - kept} more lines"]
    return [set_cell_size(line, min(cell_len(line), width)) for line in [*above, *lines, *below]][
        :height
    ]


def bar_of(strength: float, room: int = LENGTH) -> str:
    """A bar as long as a number from 0 to 1, where `room` is how long one of 1 is at most."""
    eighths = round(min(max(strength, 0), 1) * max(min(LENGTH, room), 0) * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _symbol_lines(steps: Sequence[TraceStep], place: int, width: int) -> list[str]:
    """Inputs and outputs one above the other, as many around the current ones as there is room."""
    columns = []
    for number, step in enumerate(steps):
        # What is answered later is not known yet.
        pair = symbol_text(step.input), visible(output_text(step)) if number <= place else ""
        if number == place:
            pair = f"[{pair[0]}]", f"[{pair[1]}]"
        wide = max(map(cell_len, pair))
        columns.append([set_cell_size(text, wide) for text in pair])
    names = ["input  ", "output "]
    first, last = _around(place, [cell_len(one) + 1 for one, _ in columns], width - len(names[0]))
    rows = zip(*columns[first:last], strict=True)
    return [f"{name}{' '.join(row)}".rstrip() for name, row in zip(names, rows, strict=True)]


def _around(place: int, widths: Sequence[int], room: int) -> tuple[int, int]:
    """The first, and the end, of the columns around one of them for which there is room."""
    first, last = place, place + 1
    while True:
        taken = sum(widths[first:last])
        after = last < len(widths) and taken + widths[last] <= room
        before = first > 0 and taken + widths[first - 1] <= room
        if not (after or before):
            return first, last
        # Evenly on both sides, as long as there is something there.
        if before and (not after or place - first <= last - 1 - place):
            first -= 1
        else:
            last += 1


def _bars(names: Sequence[str], strengths: Sequence[float], width: int) -> list[str]:
    """Numbers from 0 to 1, each with its name before it and a bar behind it."""
    longest = max(map(cell_len, names), default=0)
    room = width - longest - len(" 0.00 ")
    return [
        f"{set_cell_size(name, longest)} {number:.2f} {bar_of(number, room)}".rstrip()
        for name, number in zip(names, strengths, strict=True)
    ]


def _read_lines(step: TraceStep, width: int) -> list[str]:
    """What is read, in as many lines as it needs."""
    lines = []
    for end, parts in step.reads.items():
        lines.append(f"read {end}:")
        for part in parts:
            text = visible(parts_text([part]))
            if cell_len(lines[-1]) + len(GAP) + cell_len(text) > width:
                lines.append("")
            lines[-1] += f"{GAP}{text}"
    return lines


def _held_lines(step: TraceStep, width: int, height: int) -> list[str]:
    """What the memory holds; the rows of a single queue or stack in about `height` lines."""
    held = parts_of(step)
    if len(held) == 1:
        ((name, blocks),) = held.items()
        order = order_of(step, name)
        from_top = order == "bottom first"
        ends = "the top first" if from_top else order
        return [f"{name}, {ends}", *_rows(blocks[::-1] if from_top else blocks, width, height - 1)]
    longest = max(map(cell_len, held), default=0)
    return [
        f"{set_cell_size(name, longest)} {drawn(blocks, max(width - longest - 1, 1))}"
        for name, blocks in held.items()
    ]


def _rows(blocks: Sequence[Block], width: int, height: int) -> list[str]:
    """A line for each row or cell, those in the middle left out with a count."""
    names = [GAP + _name_of(block) for block in blocks]
    lines = _bars(names, [block.height for block in blocks], width)
    kept = max(height, FEWEST) - 1
    if len(lines) <= kept + 1:
        return lines
    first = (kept + 1) // 2
    return [*lines[:first], f"{GAP}… {len(lines) - kept} more", *lines[first - kept :]]


def _name_of(block: Block) -> str:
    if block.step:
        return f"{symbol_text(block.symbol)}@{block.step}"
    return "[cell]" if block.head else "cell"
