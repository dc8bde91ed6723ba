"""A machine as an SVG graph of its states, beside its rules."""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import ranges
from stacktrans.automata.wording import RuleDescription
from stacktrans.common.visible import visible
from stacktrans.model.description import machine_line

RADIUS, ACROSS, DOWN, MARGIN = 30, 190, 150, 40
"""In pixels: the radius of a state, the distance between layers of states, that between the states
of a layer, and the margin."""
LINE, SMALL, LARGE = 24, 13, 17
"""The height of a line of rules, and font sizes."""
WIDE = 0.58
"""The width of a character, by its font size."""
INK, SOFT, FILL, SPOT, PAPER = "#1f2933", "#7b8794", "#e3f4f2", "#0b7a75", "#ffffff"
MAX_RULES = 60
"""The most rules that are written out."""


def svg(machine: Machine) -> str:
    """A machine as a picture."""
    edges = machine.edges()
    centers = _centers(machine, edges)
    rules = machine.rule_descriptions
    shown = rules[:MAX_RULES]
    left = max(x for x, _ in centers) + RADIUS + MARGIN + 60
    longest = max((len(rule.when) for rule in shown), default=0)
    middle = left + 44 + int(longest * SMALL * WIDE) + 24
    widest = max((len(rule.action) for rule in shown), default=0)
    width = middle + int(widest * SMALL * WIDE) + MARGIN
    top = 2 * MARGIN + LARGE
    more = [f"and {len(rules) - len(shown)} more rules"] if len(rules) > len(shown) else []
    height = max(
        max(y for _, y in centers) + RADIUS + 2 * MARGIN,
        top + LINE * (len(shown) + 1 + len(more)) + MARGIN,
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/>'
        "</marker></defs>",
        _text(MARGIN, MARGIN + 4, machine_line(machine), size=LARGE, weight="bold"),
    ]
    for edge in edges.items():
        parts += _edge(*edge, centers)
    for node, (family, center) in enumerate(zip(machine.states.families, centers, strict=True)):
        parts += _state(family.name, center, first=not node)
    parts += _rules(shown, (left, middle, top))
    parts += [_text(left + 44, top + LINE * (len(shown) + 1), line, color=SOFT) for line in more]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _centers(machine: Machine, edges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The centers of states, in layers by their distance from the first."""
    count = len(machine.states.families)
    layers, left = [{0}], {*range(1, count)}
    while layers[-1]:
        layers.append({target for source, target in edges if source in layers[-1]} & left)
        left -= layers[-1]
    layers[-1] = left  # which cannot be reached
    tallest = max(map(len, layers))
    centers = [(0, 0)] * count
    for number, layer in enumerate(layers):
        for row, state in enumerate(sorted(layer)):
            above = (tallest - len(layer)) / 2
            x = MARGIN + 50 + RADIUS + ACROSS * number
            centers[state] = (x, int(MARGIN + 130 + RADIUS + DOWN * (row + above)))
    return centers


def _state(name: str, center: tuple[int, int], first: bool) -> Iterator[str]:
    x, y = center
    if first:
        yield _path(f"M{x - RADIUS - 42} {y} L{x - RADIUS - 2} {y}")
    yield (
        f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{FILL}" stroke="{INK}" stroke-width="1.6"/>'
    )
    yield _text(x, y + 5, name.removeprefix("state "), size=LARGE, anchor="middle")


def _edge(
    states: tuple[int, int], rules: Sequence[int], centers: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """An arrow with the numbers of its rules."""
    (x, y), (to_x, to_y) = (centers[state] for state in states)
    label = _numbers(rules)
    if states[0] == states[1]:
        yield _path(
            f"M{x - 14} {y - RADIUS + 2} C{x - 52} {y - 105} {x + 52} {y - 105} "
            f"{x + 14} {y - RADIUS + 2}"
        )
        yield _label(x, y - 88, label)
        return
    length = math.hypot(to_x - x, to_y - y)
    across, down = (to_x - x) / length, (to_y - y) / length
    bend = 36 + 0.12 * length  # to the side, so that there is room for the edge back
    middle_x = (x + to_x) / 2 + bend * down
    middle_y = (y + to_y) / 2 - bend * across
    begin = _towards(x, y, middle_x, middle_y)
    end = _towards(to_x, to_y, middle_x, middle_y)
    yield _path(f"M{begin} Q{middle_x:.0f} {middle_y:.0f} {end}")
    yield _label((x + to_x) / 4 + middle_x / 2, (y + to_y) / 4 + middle_y / 2, label)


def _towards(x: float, y: float, to_x: float, to_y: float) -> str:
    """The point of a state's edge that is nearest to another point."""
    length = math.hypot(to_x - x, to_y - y)
    reach = RADIUS + 2
    return f"{x + reach * (to_x - x) / length:.1f} {y + reach * (to_y - y) / length:.1f}"


def _numbers(numbers: Sequence[int]) -> str:
    """Numbers, consecutive ones as a range."""
    named = [
        str(first) if first == last else f"{first}{', ' if last == first + 1 else '–'}{last}"
        for first, last in ranges(numbers)
    ]
    return ", ".join(named[:4]) + (", ..." if len(named) > 4 else "")


def _label(x: float, y: float, label: str) -> str:
    width = len(label) * SMALL * WIDE + 14
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - 12:.1f}" width="{width:.1f}" height="22" rx="11" '
        f'fill="{PAPER}" stroke="{SPOT}"/>'
        + _text(x, y + 4, label, color=SPOT, anchor="middle", weight="bold")
    )


def _rules(rules: Sequence[RuleDescription], at: tuple[int, int, int]) -> Iterator[str]:
    left, middle, top = at
    yield _text(left + 44, top - 4, "when", color=SOFT)
    yield _text(middle, top - 4, "action", color=SOFT)
    for row, rule in enumerate(rules, start=1):
        y = top + LINE * row
        yield _text(left + 28, y, str(rule.number), color=SPOT, anchor="end", weight="bold")
        yield _text(left + 44, y, rule.when)
        yield _text(middle, y, rule.action)


def _path(drawn: str) -> str:
    return (
        f'<path d="{drawn}" fill="none" stroke="{INK}" stroke-width="1.6" marker-end="url(#tip)"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = SMALL,
    color: str = INK,
    anchor: str = "start",
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" '
        f'text-anchor="{anchor}" font-weight="{weight}">{escape(visible(text))}</text>'
    )
