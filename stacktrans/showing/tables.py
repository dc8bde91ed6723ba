"""Tables that fold cells and omit columns to fit a terminal; tables as LaTeX, rows as CSV.

In a narrow terminal, headings and cells with several parts are folded first. Then what is extra in
cells and the least important columns are omitted, with a note. If the others do not fit either, a
row becomes a list of `name: value`.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, OverflowMethod
from rich.text import Text

from stacktrans.common.visible import visible

GAP = "  "
"""The space between columns."""

_FORMULA = ("=", "+", "-", "@")
"""Characters with which a formula of a spreadsheet begins."""
_TEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "≠": r"$\neq$",
    }
)


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: the heading.
        group: a heading above this column and its neighbors of the same group.
        left: whether cells are aligned on the left, as texts are, and not on the right.
        drop: rank among the columns that a narrow table omits one by one, the smallest first, of
            equals the last; None if it is never omitted.
        fold: the separator at which cells may be folded; empty for cells that stay whole.
        extra: a regular expression for the end of cells, or of the heading, that a narrow table
            omits before any column; empty for cells that stay whole.
        least: the least width.
        form: the format of a cell with the fields of an entry; by default, the field `name`.
    """

    name: str
    group: str = ""
    left: bool = False
    drop: int | None = None
    fold: str = ""
    extra: str = ""
    least: int = 0
    form: str = ""

    @property
    def title(self) -> str:
        """The heading with that of the group."""
        return f"{self.group} {self.name}".strip()

    def brief(self, text: str) -> str:
        """A cell or the heading without what is extra."""
        return re.sub(f"{self.extra}$", "", text) if self.extra else text

    def cell(self, entry: Mapping[str, object]) -> str:
        """The cell of an entry; empty if the entry lacks a field, or it is None."""
        known = {name: value for name, value in entry.items() if value is not None}
        try:
            return (self.form or f"{{{self.name}}}").format_map(known)
        except KeyError:
            return ""


class Table:
    """Rows of cells under headings.

    Args:
        columns: the columns; those given as plain names are never omitted.
        rows: the rows, each with a cell for each column.
        continued: whether columns that do not fit follow below, next to the first column again.
    """

    def __init__(
        self, *columns: Column | str, rows: Iterable[Iterable[object]] = (), continued: bool = False
    ) -> None:
        named = [column if isinstance(column, Column) else Column(column) for column in columns]
        self.columns = [
            column._replace(name=visible(column.name), group=visible(column.group))
            for column in named
        ]
        self.rows = [[visible(str(cell)) for cell in row] for row in rows]
        self.continued = continued

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width
        for part in self._parts(width) if self.continued else [self]:
            head, body, note = part.lines(width)
            yield from [*head, *body, *note]

    def lines(self, width: int) -> tuple[list[Text], list[Text], list[Text]]:
        """The headings, the rows, and a note on omitted columns, if any.

        There are no headings if rows are lists of names and values.
        """
        fitting = self._fitting(width)
        if fitting is None:
            # A line that is still too long is wrapped.
            return [], [Text(line) for row in self.rows for line in self._as_list(row, width)], []
        part, widths = fitting
        head = [*part._headings(widths)]
        if any(column.group for column in part.columns):
            head.insert(0, part._groups(widths))
        body = [_text(line) for row in part.rows for line in part._row(widths, row)]
        return [_text(line, "bold") for line in head], body, self._note(part.columns)

    def _note(self, shown: Sequence[Column]) -> list[Text]:
        """A line on the columns and parts of headings that are omitted, if any."""
        titles, omitted = {column.title for column in shown}, list[str]()
        for column in self.columns:
            brief = column.brief(column.title)
            if brief in titles:
                omitted.append(column.title.removeprefix(brief).strip())
            elif column.title not in titles:
                omitted.append(brief)
        names = dict.fromkeys(filter(None, omitted))
        separator = "; " if any("," in name for name in names) else ", "
        return [Text(f"(no room for {separator.join(names)})")] if names else []

    def _brief(self) -> "Table":
        """The table without what is extra in its cells and headings."""
        columns = (each._replace(name=each.brief(each.name)) for each in self.columns)
        return Table(*columns, rows=[[*map(Column.brief, self.columns, row)] for row in self.rows])

    def _only(self, indices: Sequence[int]) -> "Table":
        """A table of some of the columns."""
        rows = [[row[index] for index in indices] for row in self.rows]
        return Table(*(self.columns[index] for index in indices), rows=rows)

    def _parts(self, width: int) -> Iterator["Table"]:
        """Tables of as many columns as fit, each with the first column."""
        table = self if self._widths(width) else self._brief()
        indices = [0]
        for index in range(1, len(table.columns)):
            if len(indices) > 1 and table._only([*indices, index])._widths(width) is None:
                yield table._only(indices)
                indices = [0]
            indices.append(index)
        yield table._only(indices)

    def _fitting(self, width: int) -> "tuple[Table, list[int]] | None":
        """The table of the columns that fit, and their widths; None if too few fit."""
        ranks = {i: each.drop for i, each in enumerate(self.columns) if each.drop is not None}
        order = sorted(ranks, key=lambda index: (ranks[index], -index))
        brief = self._brief()
        for table, count in [(self, 0), *((brief, each) for each in range(len(order) + 1))]:
            kept = {*range(len(self.columns))} - {*order[:count]}
            part = table._only(sorted(kept))
            if widths := part._widths(width):
                return part, widths
        return None

    def _widths(self, width: int) -> list[int] | None:
        """The width of each column, folded where the whole does not fit; None if impossible."""
        natural, widths = self._cell_widths(folded=False), self._cell_widths(folded=True)
        room = width - _gaps(widths) - sum(self._widened(widths))
        if room < 0:
            return None
        while room > 0 and widths != natural:
            missing = [whole - now for whole, now in zip(natural, widths, strict=True)]
            most = missing.index(max(missing))
            step = min(max(1, missing[most] // 2), room)
            widths[most] += step
            room -= step
        return self._widened(widths)

    def _cell_widths(self, folded: bool) -> list[int]:
        """The width of each column, whole, or with headings and cells folded as far as possible."""
        widths = []
        for index, column in enumerate(self.columns):
            cells = [row[index] for row in self.rows]
            if folded and column.fold:
                cells = [part for cell in cells for part in _fold_parts(cell, column.fold)]
            heading = column.name.split(" ") if folded else [column.name]
            widths.append(max(column.least, *map(cell_len, [*heading, *cells])))
        return widths

    def _widened(self, widths: Sequence[int]) -> list[int]:
        """Widths of columns, widened for the headings of groups."""
        widened = list(widths)
        for group, indices in self._spans():
            lacking = cell_len(group) - sum(widened[index] for index in indices) - _gaps(indices)
            widened[indices[-1]] += max(0, lacking)
        return widened

    def _spans(self) -> Iterator[tuple[str, list[int]]]:
        """The groups, with the indices of their columns."""
        indices = range(len(self.columns))
        for group, members in groupby(indices, lambda index: self.columns[index].group):
            yield group, list(members)

    def _groups(self, widths: Sequence[int]) -> str:
        cells = []
        for group, indices in self._spans():
            width = sum(widths[index] for index in indices) + _gaps(indices)
            cells.append(group.rjust(width) if len(indices) == 1 else group.center(width))
        return GAP.join(cells)

    def _headings(self, widths: Sequence[int]) -> Iterator[str]:
        columns = zip(self.columns, widths, strict=True)
        folded = [_folded(column.name, " ", width)[::-1] for column, width in columns]
        for cells in [*zip_longest(*folded, fillvalue="")][::-1]:
            yield self._line(widths, cells)

    def _line(self, widths: Sequence[int], cells: Sequence[str]) -> str:
        padded = []
        for column, width, cell in zip(self.columns, widths, cells, strict=True):
            space = " " * (width - cell_len(cell))
            left = column.left or column is self.columns[0]
            padded.append(cell + space if left else space + cell)
        return GAP.join(padded)

    def _row(self, widths: Sequence[int], row: Sequence[str]) -> Iterator[str]:
        columns = zip(row, self.columns, widths, strict=True)
        folded = [_folded(cell, column.fold, width) for cell, column, width in columns]
        for cells in zip_longest(*folded, fillvalue=""):
            yield self._line(widths, cells)

    def _as_list(self, row: Sequence[str], width: int) -> Iterator[str]:
        """A row as names and values, in a line or, if that is too long, in a line for each."""
        cells = zip(self.columns, row, strict=True)
        pairs = [f"{column.title}: {cell}" for column, cell in cells if cell]
        if cell_len(GAP.join(pairs)) <= width:
            pairs = [GAP.join(pairs)]
        first, *others = pairs
        yield from (first, *(f"{GAP}{line}" for line in others))


def table_of(entries: Sequence[Mapping[str, object]], *columns: Column) -> Table:
    """A table with a row for each entry, without columns whose cells are all empty."""
    cells = {column: [column.cell(entry) for entry in entries] for column in columns}
    kept = [column for column in columns if any(cells[column]) or not entries]
    return Table(*kept, rows=zip(*(cells[column] for column in kept), strict=True))


def _gaps(columns: Sequence[int]) -> int:
    return len(GAP) * (len(columns) - 1)


def _fold_parts(cell: str, fold: str) -> list[str]:
    """The lines of a cell that is folded wherever it can be; a comma stays before the fold."""
    *others, last = cell.split(fold)
    return [*(part + fold.rstrip() for part in others), last]


def _folded(cell: str, fold: str, width: int) -> list[str]:
    """The lines of a cell that is folded to a width."""
    if not fold or cell_len(cell) <= width:
        return [cell]
    first, *parts = _fold_parts(cell, fold)
    lines, space = [first], fold.removeprefix(fold.rstrip())
    for part in parts:
        longer = f"{lines[-1]}{space}{part}"
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


def remark(text: str, command: str = "") -> Text:
    """A line below a table; one with a command is not wrapped, so that this can be copied."""
    overflow: OverflowMethod | None = "ignore" if command else None
    whole = visible(f"{text} {command}" if command else text)
    return Text(whole, no_wrap=bool(command), overflow=overflow)


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV, with numbers in full."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(as_cell, row) for row in rows)
    return stream.getvalue()


def csv_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Entries as CSV, with a column for each field of any entry; missing values are empty."""
    longest = max(entries, key=len)
    names = dict.fromkeys([*longest, *(name for entry in entries for name in entry)])
    return csv_text([[*names], *([entry.get(name) for name in names] for entry in entries)])


def as_cell(value: Any) -> Any:
    """A value as a cell of CSV; a text that a spreadsheet would compute gets a ' before it."""
    if value is None or isinstance(value, int | float):
        return value
    text = visible(str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


def latex_text(table: Table) -> str:
    """A table as a LaTeX tabular with rules of the package booktabs."""
    columns = "".join(
        "l" if index == 0 or column.left else "r" for index, column in enumerate(table.columns)
    )
    head, *body = (
        f"{' & '.join(map(_tex_cell, row))} \\\\"
        for row in [[column.title for column in table.columns], *table.rows]
    )
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _tex_cell(text: str) -> str:
    # After the end of a row, a [ or a * would be its argument.
    return f"{{}}{text.translate(_TEX)}" if text[:1] in {"[", "*"} else text.translate(_TEX)
