"""The columns of a file of pairs: named by the user, by a header line, or found out."""

from collections.abc import Sequence

from stacktrans.common.errors import UsageError, clipped, shown

COLUMNS = ("source", "target", "features")
HEADINGS = {
    **dict.fromkeys(("source", "src", "input", "lemma", "word", "grapheme", "graphemes"), "source"),
    **dict.fromkeys(("target", "tgt", "output", "form", "phonemes", "pronunciation"), "target"),
    **dict.fromkeys(("features", "feats", "feature", "tags", "tag", "msd"), "features"),
}
"""Names that columns have in files of pairs, and which column each of them means."""
SEPARATORS = (";", "|")
"""What may stand between features, unless a separator is given; the first is the default."""
FEWER = 4
"""A column with so many times fewer different values than each other one may hold features."""


def columns_of(text: object) -> tuple[str, ...]:
    """The columns in a text with commas; raises `ValueError` for others than there can be."""
    names = text.split(",") if isinstance(text, str) else ()
    columns = headed(names)
    if columns is None or not {name.strip().lower() for name in names} <= HEADINGS.keys():
        expected = "expected source,target or source,target,features"
        raise ValueError(f"columns is {shown(text)}; {expected}")
    return columns


def headed(names: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that names stand for, of which one of three may be unknown.

    None unless there is one of each kind that is needed.
    """
    columns = [HEADINGS.get(name.strip().lower(), "") for name in names]
    missing = {*COLUMNS} - {*columns}
    if len(columns) == len(COLUMNS) and len(missing) == 1 and "" in columns:
        columns[columns.index("")] = missing.pop()
    complete = {"source", "target"} <= {*columns} <= {*COLUMNS}
    return tuple(columns) if complete and len({*columns}) == len(columns) else None


def found_separator(features: Sequence[str]) -> str:
    """What stands between the features of a column."""
    return next(
        (each for each in SEPARATORS if any(each in text for text in features)), SEPARATORS[0]
    )


def found_columns(
    name: str, rows: Sequence[Sequence[str]], separator: str | None, usual: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns of rows with three fields.

    Features are in the only column whose fields mostly contain a separator. If there is no such
    column, they are in the one that has far fewer different values than the others, if these are
    more similar to each other than to it.

    Args:
        name: of the file, for messages.
        rows: what stands in its lines.
        separator: of features; None for any of `SEPARATORS`.
        usual: the columns if it is unclear; empty if that is an error.

    Raises:
        UsageError: it is unclear which of three columns holds the features.
    """
    fields = [*zip(*rows, strict=True)]
    separators = (separator,) if separator else SEPARATORS
    separated = [place for place in range(3) if _is_separated(fields[place], separators)]
    values = [len({*column}) for column in fields]
    fewest, second, _ = sorted(range(3), key=values.__getitem__)
    if len(separated) == 1:
        place = separated[0]
    elif FEWER * values[fewest] <= values[second] and _odd_one_out(fields) == fewest:
        place = fewest
    elif usual:
        return usual
    else:
        readings = ((*COLUMNS,), ("source", "features", "target"))
        raise UsageError(
            f"{name}: it is unclear which of the three columns holds the features; expected one "
            "of these, or --separator",
            *(_reading(columns, rows[0]) for columns in readings),
        )
    columns = [*COLUMNS[:2]]
    columns.insert(place, "features")
    return tuple(columns)


def _is_separated(fields: Sequence[str], separators: Sequence[str]) -> bool:
    """Whether at least half of some fields contain one of some separators of features."""
    counts = (sum(each in field for field in fields) for each in separators)
    return 2 * max(counts) >= len(fields)


def _odd_one_out(fields: Sequence[Sequence[str]]) -> int:
    """The place of the column without which the two others share the most characters in a row."""

    def similarity(place: int) -> float:
        one, other = (column for index, column in enumerate(fields) if index != place)
        rows = zip(map(set, one), map(set, other), strict=True)
        return sum(len(a & b) / max(1, len(a | b)) for a, b in rows)

    return max(range(3), key=similarity)


def _reading(columns: Sequence[str], row: Sequence[str]) -> str:
    """What the first line of a file means with such columns."""
    meant = (f"{column} {clipped(field)!r}" for column, field in zip(columns, row, strict=True))
    return f"  --columns {','.join(columns)}: {', '.join(meant)}"
