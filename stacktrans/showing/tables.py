"""Tables in a terminal, of which no number and no heading is ever cut.

In a narrow one, cells that have parts are first folded; then the least important columns are left
out, with a note; and if the others do not fit either, each row becomes a list of `name value`.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from stacktrans.common.visible import visible

GAP = "  "
"""Between columns."""


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: its heading.
        group: a heading above this and its neighbours of the same group.
        left: whether it is aligned on the left; numbers are on the right.
        drop: its rank among the columns left out of a narrow table, the smallest first; None if
            it never is.
        fold: the separator at which cells may be folded; empty for cells that stay whole.
        least: its least width.
    """

    name: str
    group: str = ""
    left: bool = False
    drop: int | None = None
    fold: str = ""
    least: int = 0

    @property
    def title(self) -> str:
        """Its name without a group above it."""
        return f"{self.group} {self.name}".strip()


class _Form(NamedTuple):
    """The columns of a table that there is room for, by their indices, and how wide they are."""

    shown: Sequence[int]
    widths: Sequence[int]
    left_out: Sequence[int]


class Table:
    """Rows of cells under headings.

    Args:
        columns: of the table; those that are given by their names alone are never left out.
        continued: whether columns that do not fit follow below, beside the first again.
    """

    def __init__(self, *columns: Column | str, continued: bool = False) -> None:
        named = [column if isinstance(column, Column) else Column(column) for column in columns]
        self.columns = [
            column._replace(name=visible(column.name), group=visible(column.group))
            for column in named
        ]
        self.continued = continued
        self.rows: list[list[str]] = []

    def add_row(self, *cells: object) -> None:
        """Add a row; a cell that is missing at its end is empty."""
        missing = len(self.columns) - len(cells)
        self.rows.append([*(visible(str(cell)) for cell in cells), *[""] * missing])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width
        for part in self._parts(width) if self.continued else [self]:
            yield from part.head(width)
            yield from part.body(width)
            yield from part.note(width)

    def head(self, width: int) -> list[Text]:
        """The headings, if the rows stand in columns."""
        form = self._form(width)
        if form is None:
            return []
        lines = [self._line(form, [self.columns[index].name for index in form.shown])]
        if any(self.columns[index].group for index in form.shown):
            lines.insert(0, self._groups(form))
        return [_text(line, "bold") for line in lines]

    def body(self, width: int) -> list[Text]:
        """The rows."""
        form = self._form(width)
        if form is None:
            # A line that is still too long is wrapped.
            return [Text(line) for row in self.rows for line in self._told(row, width)]
        return [_text(line) for row in self.rows for line in self._row(form, row)]

    def note(self, width: int) -> list[Text]:
        """The columns that were left out, if any."""
        form = self._form(width)
        if form is None or not form.left_out:
            return []
        shown = {self.columns[index].group for index in form.shown}
        columns = [self.columns[index] for index in form.left_out]
        # A group of which nothing is left has a name of its own.
        titles = [each.title if each.group in {"", *shown} else each.group for each in columns]
        return [Text(f"(no room for {', '.join(dict.fromkeys(titles))})")]

    def _parts(self, width: int) -> Iterator["Table"]:
        """Tables of as many columns as there is room for."""
        groups: list[list[int]] = [[0]]
        for index in range(1, len(self.columns)):
            if len(groups[-1]) > 1 and self._least([*groups[-1], index]) > width:
                groups.append([0])
            groups[-1].append(index)
        for group in groups:
            part = Table(*(self.columns[index] for index in group))
            part.rows = [[row[index] for index in group] for row in self.rows]
            yield part

    def _form(self, width: int) -> _Form | None:
        """How the table is laid out; None if there is no room for columns."""
        shown = list(range(len(self.columns)))
        ranks = {column.drop for column in self.columns if column.drop is not None}
        for rank in [None, *sorted(ranks)]:
            if rank is not None:
                shown = [index for index in shown if self.columns[index].drop != rank]
            if self._least(shown) <= width:
                left_out = [index for index in range(len(self.columns)) if index not in shown]
                return _Form(shown, self._widths(shown, width), left_out)
        return None

    def _width(self, index: int, folded: bool) -> int:
        """The width of a column whose cells stay whole, or are folded as far as they can be."""
        column = self.columns[index]
        cells = [row[index] for row in self.rows]
        if folded and column.fold:
            cells = [part for cell in cells for part in cell.split(column.fold)]
        return max(column.least, *map(cell_len, [column.name, *cells]))

    def _least(self, shown: Sequence[int]) -> int:
        widths = [self._width(index, folded=True) for index in shown]
        return sum(self._widened(shown, widths)) + _gaps(shown)

    def _widths(self, shown: Sequence[int], width: int) -> list[int]:
        """The natural widths; of columns that are folded, no more than there is room for."""
        natural = [self._width(index, folded=False) for index in shown]
        widths = [self._width(index, folded=True) for index in shown]
        room = width - _gaps(shown) - sum(self._widened(shown, widths))
        while room > 0 and widths != natural:
            missing = [whole - now for whole, now in zip(natural, widths, strict=True)]
            most = missing.index(max(missing))
            step = min(max(1, missing[most] // 2), room)
            widths[most] += step
            room -= step
        return self._widened(shown, widths)

    def _widened(self, shown: Sequence[int], widths: Sequence[int]) -> list[int]:
        """The widths, with room for what stands above several columns."""
        widened = list(widths)
        for group, places in self._spans(shown):
            lacking = cell_len(group) - sum(widened[place] for place in places) - _gaps(places)
            widened[places[-1]] += max(0, lacking)
        return widened

    def _spans(self, shown: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
        """The groups, each with the places of its columns among those that are shown."""
        for group, places in groupby(range(len(shown)), lambda at: self.columns[shown[at]].group):
            yield group, list(places)

    def _groups(self, form: _Form) -> str:
        cells = []
        for group, places in self._spans(form.shown):
            width = sum(form.widths[place] for place in places) + _gaps(places)
            cells.append(group.rjust(width) if len(places) == 1 else group.center(width))
        return GAP.join(cells)

    def _line(self, form: _Form, cells: Sequence[str]) -> str:
        padded = []
        for index, width, cell in zip(form.shown, form.widths, cells, strict=True):
            space = " " * (width - cell_len(cell))
            left = index == 0 or self.columns[index].left
            padded.append(cell + space if left else space + cell)
        return GAP.join(padded)

    def _row(self, form: _Form, row: Sequence[str]) -> Iterator[str]:
        folded = [
            _folded(row[index], self.columns[index].fold, width)
            for index, width in zip(form.shown, form.widths, strict=True)
        ]
        for cells in zip_longest(*folded, fillvalue=""):
            yield self._line(form, cells)

    def _told(self, row: Sequence[str], width: int) -> Iterator[str]:
        """A row as names and values, in lines of no more than some width where that can be."""
        pairs = [
            f"{column.title} {cell}" for column, cell in zip(self.columns, row, strict=True) if cell
        ]
        first, *others = _folded(GAP.join(pairs), GAP, width - len(GAP))
        yield first
        yield from (f"{GAP}{line}" for line in others)


def _gaps(columns: Sequence[int]) -> int:
    return len(GAP) * (len(columns) - 1)


def _folded(cell: str, fold: str, width: int) -> list[str]:
    """The parts of a cell in lines."""
    if not fold or cell_len(cell) <= width:
        return [cell]
    first, *parts = cell.split(fold)
    lines = [first]
    for part in parts:
        longer = f"{lines[-1]}{fold}{part}"
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _text(line: str, style: str = "") -> Text:
    return Text(line.rstrip(), style=style, no_wrap=True, overflow="ignore")


def heading(text: str) -> Text:
    """A line above a table."""
    return Text(visible(text), style="bold")


def remark(text: str) -> Text:
    """A line below a table."""
    return Text(visible(text))
