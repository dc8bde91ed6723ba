"""A trace as a picture: time across; strengths, values, reads, inputs and outputs down, in shades.

Figures 5 and 6 of hao2018 are such pictures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from stacktrans.common.visible import visible
from stacktrans.inference.trace import Part, Step, Trace
from stacktrans.showing.figures import content_of, empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = " ░▒▓█"
CELL = 2
"""Characters across a step in a terminal."""
VISIBLE = 0.05
"""A symbol, or a row of a memory, with less at every step has no row of its own."""
LARGEST = 16
"""Pushed vectors of more components than this are not drawn: nobody can read them."""


@dataclass(frozen=True)
class Row:
    """One quantity over time.

    Attributes:
        group: what it belongs to.
        label: its name.
        shades: at each step, from 0 to 1.
    """

    group: str
    label: str
    shades: list[float]


def shade(strength: float) -> str:
    """The character for a number from 0 to 1: the stronger, the darker."""
    return SHADES[min(max(int(strength * len(SHADES)), 0), len(SHADES) - 1)]


def rows_of(trace: Trace, least: float) -> list[Row]:
    """The rows of a picture, from the highest to the lowest.

    Args:
        trace: what is shown.
        least: the least that a component of a pushed vector can be; the greatest is 1.
    """
    steps = trace.steps
    rows = [
        Row("strengths", name, [step.signals[name] for step in steps]) for name in steps[0].signals
    ]
    for end, vector in steps[0].pushed.items():
        rows += [
            Row(
                f"pushed {end}",
                str(index + 1),
                [(step.pushed[end][index] - least) / (1 - least) for step in steps],
            )
            for index in range(len(vector) if len(vector) <= LARGEST else 0)
        ]
    for end in steps[0].reads:
        rows += _read(f"read {end}", [step.reads[end] for step in steps])
    rows += [
        Row(name, str(index + 1), [(step.tops[name][0][index] + 1) / 2 for step in steps])
        for name, cells in steps[0].tops.items()
        for index in range(len(cells[0]))
    ]
    rows += _symbols("input", [_input_shares(step) for step in steps])
    return rows + _symbols("output", [step.likely for step in steps])


def _read(group: str, reads: Sequence[Sequence[Part]]) -> list[Row]:
    """A row for each symbol that was pushed and read, by the step that pushed it."""
    shares = [{(part.step, part.symbol): part.weight for part in parts} for parts in reads]
    pushed = sorted({key for step in shares for key in step if step[key] >= VISIBLE})
    return [
        Row(
            group,
            visible(f"{symbol}@{number}"),
            [step.get((number, symbol), 0.0) for step in shares],
        )
        for number, symbol in pushed
    ]


def _input_shares(step: Step) -> dict[str, float]:
    if step.input_read is None:
        return {step.input: 1.0}
    return _added_up(step.input_read)


def _added_up(parts: Sequence[Part]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in parts:
        shares[part.symbol] = shares.get(part.symbol, 0.0) + part.weight
    return shares


def _symbols(group: str, shares: Sequence[dict[str, float]]) -> list[Row]:
    """A row for each symbol that there is some of at a step, in alphabetical order."""
    symbols = sorted({symbol for step in shares for symbol in step if step[symbol] >= VISIBLE})
    return [
        Row(group, visible(symbol), [step.get(symbol, 0.0) for step in shares])
        for symbol in symbols
    ]


def heat_map(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """A picture in characters.

    Args:
        rows: of the picture, one at least.
        width: characters across; what does not fit goes on below.
    """
    labels = [f"{row.group} {row.label}" for row in rows]
    margin = max(map(len, labels)) + 1
    fitting = max((width - margin) // CELL, 1)
    count = len(rows[0].shades)
    for first in range(0, count, fitting):
        last = min(first + fitting, count)
        yield Text(f"{'step':<{margin}}" + _ruler(first, last), style="bold")
        group = rows[0].group
        for row, label in zip(rows, labels, strict=True):
            if row.group != group:
                group = row.group
                yield Text("")
            cells = "".join(shade(strength) * CELL for strength in row.shades[first:last])
            yield Text(f"{label:<{margin}}{cells}")
        yield Text("")


def _ruler(first: int, last: int) -> str:
    """Numbers of steps, from 1, at each fifth."""
    ruler = ""
    for step in range(first, last):
        mark = str(step + 1) if step == first or (step + 1) % 5 == 0 else ""
        room = CELL * (step - first)
        if mark and len(ruler) <= room:
            ruler = ruler.ljust(room) + mark
    return ruler


def plot(trace: Trace, rows: Sequence[Row], title: str, path: Path) -> bytes:
    """A picture in a file.

    Args:
        trace: what is shown.
        rows: of the picture.
        title: above it.
        path: whose suffix says the form of what comes back; nothing is written there.

    Raises:
        UsageError: matplotlib is not installed.
    """
    across, down = len(trace.steps), len(rows)
    figure = empty_figure(min(2 + 0.25 * across, 60), min(1.5 + 0.25 * down, 60))
    _draw(figure, trace, rows, title)
    return content_of(figure, path)


def _draw(figure: "Figure", trace: Trace, rows: Sequence[Row], title: str) -> None:
    groups = list(dict.fromkeys(row.group for row in rows))
    members = [[row for row in rows if row.group == group] for group in groups]
    heights = [len(group) for group in members]
    axes = figure.subplots(len(groups), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axis, group, listed in zip(axes, groups, members, strict=True):
        shades = [row.shades for row in listed]
        axis.imshow(shades, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axis.set_yticks(range(len(listed)), [row.label for row in listed], parse_math=False)
        axis.set_ylabel(group, rotation=0, ha="right", va="center", parse_math=False)
    symbols = [visible(step.input) for step in trace.steps]
    turned = 90 if any(len(symbol) > 2 for symbol in symbols) else 0
    axes[-1].set_xticks(range(len(symbols)), symbols, rotation=turned, parse_math=False)
    axes[-1].set_xlabel("time")
    axes[0].set_title(visible(title), parse_math=False)
