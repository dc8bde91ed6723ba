"""One step of a trace on a screen of characters."""

from collections.abc import Sequence
from textwrap import wrap

from rich.cells import cell_len, set_cell_size

from stacktrans.common.visible import visible
from stacktrans.inference.trace import Step, Trace
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.contents import Block, drawn, order_of, parts_of, symbol_text
from stacktrans.showing.tables import GAP
from stacktrans.showing.traces import parts_text, said, verdict

EIGHTHS = " ▏▎▍▌▋▊▉"
LENGTH = 20
"""Characters of a bar of 1."""
KEYS = "← →, space: a step back or on; home, end: the first or last; q: quit"
FEWEST = 4
"""Lines for the rows of a memory, however low a terminal is."""


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
    done = ["", *_signal_lines(step, width), *_read_lines(step, width)]
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


def _symbol_lines(steps: Sequence[Step], place: int, width: int) -> list[str]:
    """Inputs and outputs one above the other, as many around the current ones as there is room."""
    columns = []
    for number, step in enumerate(steps):
        # What is answered later is not known yet.
        pair = symbol_text(step.input), visible(said(step)) if number <= place else ""
        if number == place:
            pair = f"[{pair[0]}]", f"[{pair[1]}]"
        wide = max(map(cell_len, pair))
        columns.append([set_cell_size(text, wide) for text in pair])
    names = ["input  ", "output "]
    first, last = _around(place, [cell_len(one) + 1 for one, _ in columns], width - len(names[0]))
    shown = columns[first:last]
    return [
        f"{name}{' '.join(pair[which] for pair in shown)}".rstrip()
        for which, name in enumerate(names)
    ]


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


def _signal_lines(step: Step, width: int) -> list[str]:
    return _bars([*step.signals], [*step.signals.values()], width)


def _bars(names: Sequence[str], strengths: Sequence[float], width: int) -> list[str]:
    """Numbers from 0 to 1, each with its name before it and a bar behind it."""
    longest = max(map(cell_len, names), default=0)
    room = width - longest - len(" 0.00 ")
    return [
        f"{set_cell_size(name, longest)} {number:.2f} {bar_of(number, room)}".rstrip()
        for name, number in zip(names, strengths, strict=True)
    ]


def _read_lines(step: Step, width: int) -> list[str]:
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


def _held_lines(step: Step, width: int, height: int) -> list[str]:
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
