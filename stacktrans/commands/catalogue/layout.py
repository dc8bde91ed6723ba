"""How a list is laid out: names, what is known of them, and what they mean, however wide it is."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from stacktrans.commands.catalogue.entries import Entry, in_one_line

GAP = "  "
INDENT = 4 * " "
LEAST = 32
"""The least width of a last column whose text goes on in further lines."""


def lines(entries: Sequence[Entry], width: int | None) -> Iterator[str]:
    """A list as lines: one for each entry, or as many as it takes.

    What it means stands beside the columns; or below, indented, where there is not room for that.

    Args:
        entries: what is listed.
        width: of the terminal; None where lines may be as long as they like.
    """
    titles = list(dict.fromkeys(title for entry in entries for title in entry.columns))
    rows = [["name", *titles], *([entry.name, *_cells(entry, titles)] for entry in entries)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    beside = sum(widths) + len(widths) * len(GAP)
    below = width is not None and width - beside < LEAST
    margin = INDENT if below else beside * " "
    texts = ["meaning", *(entry.line() for entry in entries)]
    parts = [(), *(entry.parts for entry in entries)]
    for row, text, further in zip(rows, texts, parts, strict=True):
        start = GAP.join(map(_padded, row, widths))
        if below:
            yield from _first(start.rstrip(), row, () if row is rows[0] else titles, width)
            yield from _wrapped(text, margin, margin, width)
        else:
            yield from _wrapped(text, f"{start}{GAP}", margin, width)
        for name, meaning in further:
            yield from _wrapped(f"{name}: {in_one_line(meaning)}", INDENT, 2 * INDENT, width)


def _first(start: str, row: Sequence[str], titles: Sequence[str], width: int | None) -> list[str]:
    """The columns of an entry, one after another if there is not room for them side by side.

    Each has its title before it then; the titles themselves have none.
    """
    if width is None or cell_len(start) <= width:
        return [start]
    name, *cells = row
    known = [f"{title} {cell}" for title, cell in zip(titles, cells, strict=False) if cell]
    return [name, *(_wrapped("; ".join(known), INDENT, 2 * INDENT, width) if known else ())]


def _cells(entry: Entry, titles: Sequence[str]) -> list[str]:
    return [in_one_line(entry.columns.get(title, "")) for title in titles]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cell_len(cell))


def _wrapped(text: str, first: str, further: str, width: int | None) -> list[str]:
    """A text in lines, the first of which begins in another way than those that follow."""
    if width is None:
        return [f"{first}{text}".rstrip()]
    room = max(width - cell_len(further), 1)
    # Longer words stay whole, and what is shown can be copied.
    parts = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    starts = [first, *[further] * len(parts)]
    return [start + part for start, part in zip(starts, parts or [""], strict=False)]
