"""Columns of files of pairs: detection of columns and units, and tokenization of fields."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from stacktrans.common.errors import UsageError, check_parameter, shown
from stacktrans.common.reading import split_words

COLUMNS = ("source", "target", "features")
HEADINGS = {
    **dict.fromkeys(("source", "src", "input", "lemma", "word", "base", "singular"), "source"),
    **dict.fromkeys(("grapheme", "graphemes", "spelling", "orthography"), "source"),
    **dict.fromkeys(("target", "tgt", "output", "form", "inflected", "plural"), "target"),
    **dict.fromkeys(("phonemes", "pronunciation", "transcription", "ipa"), "target"),
    **dict.fromkeys(("features", "feats", "feature", "tags", "tag", "msd"), "features"),
}
"""Column headings in files of pairs, and the column that each denotes."""
LABELED = {"string": "source", "text": "source", "label": "target"}
"""Further headings, in files of two columns."""
SEPARATORS = (";", "|")
"""Separators of features that are detected; the first is the default."""
MIN_VALUE_RATIO = 4
"""A column may hold features, or labels, if others have at least this many times as many values."""
UNITS = ("characters", "words")
NORMALIZATION_FORMS = ("nfc", "nfd", "nfkc", "none")
"""The Unicode normalization forms of strings; "none" leaves them unchanged."""
WORDS_SHARE, UNCERTAIN_SHARE = 0.9, 0.75
"""Strings are words if at least the first share of those with several characters, or of the
distinct ones, contain a space or are a word of another string. Otherwise they are characters, and
strings with spaces are reported if they are more than the second share, or have short words."""
MAX_INSPECTED = 100_000
"""The maximum number of lines of which columns and symbols are detected."""
POSITIVE = frozenset(["1", "+", "yes", "true", "accept", "in", "positive", "valid", "correct"])
"""Usual labels of strings that are in a language."""
SHORT_WORD = 2.5
"""Words with a shorter mean length are probably symbols, such as phonemes."""


def parse_columns(text: object) -> tuple[str, ...]:
    """The columns in a list with commas; raises `ValueError` for unknown or missing ones."""
    names = text.split(",") if isinstance(text, str) else ()
    columns = columns_of_headings(names)
    if columns is None or not {name.strip().lower() for name in names} <= HEADINGS.keys():
        expected = "expected source, target and perhaps features, in their order, with commas"
        raise ValueError(f"columns is {shown(text)}; {expected}")
    return columns


def columns_of_headings(names: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that headings denote; one of three headings may be unknown.

    None unless source and target are among them, and none occurs twice.
    """
    known = HEADINGS | (LABELED if len(names) == 2 else {})
    columns = [known.get(name.strip().lower(), "") for name in names]
    missing = {*COLUMNS} - {*columns}
    if len(columns) == len(COLUMNS) and len(missing) == 1 and "" in columns:
        columns[columns.index("")] = missing.pop()
    complete = {"source", "target"} <= {*columns} <= {*COLUMNS}
    return tuple(columns) if complete and len({*columns}) == len(columns) else None


def detect_separator(features: Sequence[str]) -> str:
    """The separator in the fields of the column of features."""
    used = (each for each in SEPARATORS if any(each in text for text in features))
    return next(used, SEPARATORS[0])


def detect_columns(
    name: str, rows: Sequence[Sequence[str]], separator: str | None, default: tuple[str, ...]
) -> tuple[str, ...]:
    """Detect which of three columns holds the features.

    It is the only column whose fields mostly contain a separator. If there is no such column, it
    is the one that has far fewer distinct values than the others, provided that these are more
    similar to each other than to it.

    Args:
        name: the file, for messages.
        rows: the three fields of each line.
        separator: separator of features; None for any of `SEPARATORS`.
        default: the columns if the detection fails; empty if that is an error.

    Raises:
        UsageError: the detection failed.
    """
    fields = [*zip(*rows, strict=True)]
    separators = (separator,) if separator else SEPARATORS
    separated = [index for index in range(3) if _is_separated(fields[index], separators)]
    values = [len({*column}) for column in fields]
    fewest, second, _ = sorted(range(3), key=values.__getitem__)
    if len(separated) == 1:
        features = separated[0]
    elif MIN_VALUE_RATIO * values[fewest] <= values[second] and _odd_one_out(fields) == fewest:
        features = fewest
    elif default:
        return default
    else:
        readings = ((*COLUMNS,), ("source", "features", "target"))
        raise UsageError(
            f"{name}: it is unclear which of the three columns holds the features; expected one "
            "of these, or --separator",
            *(_reading(columns, rows[0]) for columns in readings),
        )
    columns = [*COLUMNS[:2]]
    columns.insert(features, "features")
    return tuple(columns)


def _is_separated(fields: Sequence[str], separators: Sequence[str]) -> bool:
    """Whether at least half of the fields of a column contain the same separator."""
    counts = (sum(each in field for field in fields) for each in separators)
    return 2 * max(counts) >= len(fields)


def _odd_one_out(fields: Sequence[Sequence[str]]) -> int:
    """The index of the column without which the two others share the most characters per row."""

    def similarity_of_others(odd: int) -> float:
        one, other = (column for index, column in enumerate(fields) if index != odd)
        rows = zip(map(set, one), map(set, other), strict=True)
        return sum(len(a & b) / max(1, len(a | b)) for a, b in rows)

    return max(range(3), key=similarity_of_others)


def _reading(columns: Sequence[str], row: Sequence[str]) -> str:
    """The option for columns, with the first line of the file read by it."""
    fields = (f"{column} {shown(field)}" for column, field in zip(columns, row, strict=True))
    return f"  --columns {','.join(columns)}: {', '.join(fields)}"


class Tokenizer(NamedTuple):
    """Tokenization of the fields of files into symbols, and back.

    Attributes:
        source: the unit of sources, "characters" or "words".
        target: the unit of targets.
        features: whether sources have features.
        separator: the separator of features.
        form: the Unicode normalization form of all strings; None for none.
    """

    source: str
    target: str
    features: bool
    separator: str
    form: str | None

    @classmethod
    def of(
        cls, units: str | None, features: bool, separator: str | None, form: str | None
    ) -> "Tokenizer":
        """Check the parameters of a task of files, of any type; raises `ValueError`.

        Args:
            units: one of `UNITS`, or those of sources and of targets with a comma; None for the
                first.
            features: as the attribute.
            separator: as the attribute; None for the first of `SEPARATORS`.
            form: one of `NORMALIZATION_FORMS`, or None.
        """
        units = UNITS[0] if units is None else units
        separator = SEPARATORS[0] if separator is None else separator
        given = units.split(",") if isinstance(units, str) else []
        known = 1 <= len(given) <= 2 and {*given} <= {*UNITS}
        check_parameter(known, "symbols", units, " or ".join(UNITS))
        within_field = isinstance(separator, str) and separator and not {*separator} & {*"\t\r\n"}
        check_parameter(bool(within_field), "separator", separator, "a separator of features")
        known = form is None or str(form).lower() in NORMALIZATION_FORMS
        check_parameter(known, "normalize", form, ", ".join(NORMALIZATION_FORMS))
        form = None if form is None or form.lower() == "none" else form
        return cls(given[0], given[-1], features, separator, form)

    @property
    def units(self) -> str:
        """The units in the notation of `of`."""
        return self.source if self.source == self.target else f"{self.source},{self.target}"

    @property
    def columns(self) -> list[str]:
        """The columns of a pair."""
        return ["source", "target", *(["features"] if self.features else [])]

    def splitter(self, column: str) -> Callable[[str], Sequence[str]]:
        """The function that splits a field of a column into symbols."""
        if column == "features":
            return self.split_features
        return split_words if getattr(self, column) == "words" else str

    def joined(self, column: str, symbols: Sequence[str]) -> str:
        """Symbols as a field of a column."""
        if column == "features":
            return self.separator.join(symbols)
        return (" " if getattr(self, column) == "words" else "").join(symbols)

    def split_features(self, text: str) -> list[str]:
        """The features in a field, without the white space around them."""
        return [*filter(None, map(str.strip, text.split(self.separator)))]


def normalized(text: str, form: str | None) -> str:
    """A text in a normalization form of Unicode; unchanged with "none" or None."""
    if form is None or form.lower() == "none":
        return text
    return unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


def detect_unit(strings: Iterable[str]) -> tuple[str | None, list[int]]:
    """Detect the unit of strings, and the indices of strings that contradict it.

    The unit is None if all strings are too short. Words are contradicted by a string without a
    space that is no word of another string; characters, by spaces between short words, or by
    spaces in a large share of the strings.
    """
    stripped = enumerate(map(str.strip, islice(strings, MAX_INSPECTED)))
    longer = {index: text for index, text in stripped if len(text) > 1}
    if not longer:
        return None, []
    spaced, distinct = [n for n, text in longer.items() if " " in text], {*longer.values()}
    tokens = [word for n in spaced for word in split_words(longer[n])]
    # A string may be a single word, if that occurs in another string.
    unsplit = {text for text in distinct.difference(tokens) if " " not in text}
    contradicting = [n for n, text in longer.items() if text in unsplit]
    if 1 - min(len(contradicting) / len(longer), len(unsplit) / len(distinct)) >= WORDS_SHARE:
        return "words", contradicting
    short = sum(map(len, tokens)) < SHORT_WORD * len(tokens)
    return "characters", spaced if short or len(spaced) > UNCERTAIN_SHARE * len(longer) else []


def positive_label(labels: Sequence[str]) -> int:
    """The index of the label of strings in a language: a usual one, or else the last."""
    usual = [n for n, label in enumerate(labels) if label.lower() in POSITIVE]
    return usual[0] if len(usual) == 1 else len(labels) - 1
