"""A screen for a step of a trace, with the contents of the memory."""

from collections.abc import Sequence
from textwrap import wrap

from rich.cells import cell_len, set_cell_size

from stacktrans.common.visible import visible
from stacktrans.inference.trace import Trace, TraceStep
from stacktrans.showing.contents import Block, drawn, order_of, parts_of, symbol_text
from stacktrans.showing.tables import GAP
from stacktrans.showing.traces import output_text, parts_text, verdict

EIGHTHS = " ▏▎▍▌▋▊▉"
LENGTH = 20
"""Characters of a bar for 1."""
KEYS = "← →, space: previous or next step; home, end: first or last; q: quit"
MIN_LINES = 4
"""Lines for the rows of a memory in the lowest terminal."""


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
        # The contents of one memory are shortened instead.
        hint = "; --stacks shows some of the stacks" if len(step.tops) > 1 else ""
        lines = [*lines[:kept], f"… {len(lines) - kept} more lines{hint}"]
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
    kept = max(height, MIN_LINES) - 1
    if len(lines) <= kept + 1:
        return lines
    first = (kept + 1) // 2
    return [*lines[:first], f"{GAP}… {len(lines) - kept} more", *lines[first - kept :]]


def _row_label(block: Block) -> str:
    if block.step:
        return f"{block.name}@{block.step}"
    return f"[{block.name or 'cell'}]" if block.head else block.name or "cell"
