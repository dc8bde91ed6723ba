"""The columns of a file of pairs: named by the user, by a header line, or found out."""

from collections.abc import Sequence

from stacktrans.common.errors import UsageError, clipped, shown

COLUMNS = ("source", "target", "features")
HEADINGS = {
    **dict.fromkeys(("source", "src", "input", "lemma", "word", "grapheme", "graphemes"), "source"),
    **dict.fromkeys(("target", "tgt", "trg", "output", "form", "inflection"), "target"),
    **dict.fromkeys(("phoneme", "phonemes", "pronunciation"), "target"),
    **dict.fromkeys(("features", "feats", "feature", "tags", "tag", "msd"), "features"),
}
"""Names that columns have in files of pairs, and which column each of them means."""
FEWER = 4
"""A column with so many times fewer different values than each other one holds features."""


def columns_of(text: object) -> tuple[str, ...]:
    """The columns in a text with commas; raises `ValueError` for others than there can be."""
    names = text.split(",") if isinstance(text, str) else ()
    columns = headed(names)
    if columns is None:
        expected = "expected source,target or source,target,features"
        raise ValueError(f"columns is {shown(text)}; {expected}")
    return columns


def headed(names: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that names stand for; None unless there is one of each kind that is needed."""
    columns = tuple(HEADINGS.get(name.strip().lower(), "") for name in names)
    complete = {"source", "target"} <= {*columns} <= {*COLUMNS}
    return columns if complete and len({*columns}) == len(columns) else None


def found_columns(name: str, rows: Sequence[Sequence[str]], separator: str) -> tuple[str, ...]:
    """The columns of rows with three fields.

    Features are in the column whose fields mostly contain the separator, or whose different values
    are far fewer than those of the others.

    Args:
        name: of the file, for messages.
        rows: what stands in its lines.
        separator: of features.

    Raises:
        UsageError: it is unclear which of three columns holds the features.
    """
    fields = [*zip(*rows, strict=True)]
    values = [len({*column}) for column in fields]
    separated = [sum(separator in field for field in column) for column in fields]
    able = [place for place in range(3) if 2 * separated[place] >= len(rows)] or [0, 1, 2]
    best, *others = sorted(able, key=values.__getitem__)
    if others and FEWER * values[best] > values[others[0]]:
        readings = ((*COLUMNS,), ("source", "features", "target"))
        raise UsageError(
            f"{name}: it is unclear which of the three columns holds the features; expected one of",
            *(_reading(columns, rows[0]) for columns in readings),
        )
    columns = [*COLUMNS[:2]]
    columns.insert(best, "features")
    return tuple(columns)


def _reading(columns: Sequence[str], row: Sequence[str]) -> str:
    """What the first line of a file means with such columns."""
    meant = (f"{column} {clipped(field)!r}" for column, field in zip(columns, row, strict=True))
    return f"  --columns {','.join(columns)}: {', '.join(meant)}"
