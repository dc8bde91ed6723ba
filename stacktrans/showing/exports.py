"""Tables for other programs: CSV, and LaTeX with booktabs."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stacktrans.common.visible import visible
from stacktrans.showing.tables import Table

_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet would take for the beginning of a formula."""
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


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV, with numbers in full."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(as_cell, row) for row in rows)
    return stream.getvalue()


def csv_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Entries as CSV under the names in any of them; what an entry lacks is empty."""
    longest = max(entries, key=len)
    names = dict.fromkeys([*longest, *(name for entry in entries for name in entry)])
    return csv_text([[*names], *([entry.get(name, "") for name in names] for entry in entries)])


def as_cell(value: Any) -> Any:
    """A value as it is written in CSV: texts that a spreadsheet would compute begin with a '."""
    if isinstance(value, int | float):
        return value
    text = visible(str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


def latex_text(table: Table) -> str:
    """A table as a LaTeX tabular, with the rules of the package booktabs."""
    columns = "".join(
        "l" if place == 0 or column.left else "r" for place, column in enumerate(table.columns)
    )
    head, *body = (
        f"{' & '.join(map(_tex_cell, row))} \\\\"
        for row in [[column.title for column in table.columns], *table.rows]
    )
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _tex_cell(text: str) -> str:
    # After the end of a row, a [ or a * would be an argument to it.
    return f"{{}}{text.translate(_TEX)}" if text[:1] in {"[", "*"} else text.translate(_TEX)
