"""The columns of a file of pairs, and the symbols that their fields are made of."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError, UsageError, clipped, shown
from stacktrans.common.reading import split_words
from stacktrans.tasks.alphabets import (
    FEATURE,
    NO_OUTPUT,
    OUT_OF_VOCABULARY,
    SYMBOL,
    UNSCORED_MARK,
    Alphabet,
    Ids,
    Role,
)

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

UNKNOWN_SYMBOL = "<unk>"
"""How a symbol is written that is not in the training set."""
UNITS = ("characters", "words")
FORMS = ("nfc", "nfd", "nfkc", "none")
"""The normalization forms of Unicode that strings can be brought into; none leaves them alone."""
MOSTLY, RATHER, LOOKED_AT = 0.9, 0.75, 100_000
"""Strings are of words if so many of those with several characters, or of the different ones of
these, have a space in them or are among the words of others; and perhaps if it is rather many."""
SHORT = 2.5
"""Words with a shorter mean length seem to be symbols, such as phonemes."""


def columns_of(text: object) -> tuple[str, ...]:
    """The columns in a text with commas; raises `ValueError` for others than there can be."""
    names = text.split(",") if isinstance(text, str) else ()
    columns = columns_of_header(names)
    if columns is None or not {name.strip().lower() for name in names} <= HEADINGS.keys():
        expected = "expected source,target or source,target,features"
        raise ValueError(f"columns is {shown(text)}; {expected}")
    return columns


def columns_of_header(names: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that names stand for, of which one of three may be unknown.

    None unless there is one of each kind that is needed.
    """
    columns = [HEADINGS.get(name.strip().lower(), "") for name in names]
    missing = {*COLUMNS} - {*columns}
    if len(columns) == len(COLUMNS) and len(missing) == 1 and "" in columns:
        columns[columns.index("")] = missing.pop()
    complete = {"source", "target"} <= {*columns} <= {*COLUMNS}
    return tuple(columns) if complete and len({*columns}) == len(columns) else None


def detect_separator(features: Sequence[str]) -> str:
    """What stands between the features of a column."""
    return next(
        (each for each in SEPARATORS if any(each in text for text in features)), SEPARATORS[0]
    )


def detect_columns(
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


class Tokenizer(NamedTuple):
    """How strings are written in files.

    Attributes:
        source: what sources are made of, "characters" or "words"; so is `target`.
        features: whether sources have features.
        separator: what stands between features.
        form: the Unicode normalization form that what is read is brought into, one of `FORMS`;
            None to leave it as it is, as "none" does.
    """

    source: str
    target: str
    features: bool
    separator: str
    form: str | None

    @classmethod
    def of(cls, units: object, features: bool, separator: object, form: Any) -> "Tokenizer":
        """The one of some units: one of `UNITS`, or two with a comma; raises `ValueError`."""
        given = units.split(",") if isinstance(units, str) else []
        if not 1 <= len(given) <= 2 or not {*given} <= {*UNITS}:
            raise ValueError(f"symbols is {shown(units)}; expected {' or '.join(UNITS)}")
        if not isinstance(separator, str) or not separator or {*separator} & {*"\t\r\n"}:
            raise ValueError(f"separator is {shown(separator)}; expected what separates features")
        if form is not None and str(form).lower() not in FORMS:
            raise ValueError(f"normalize is {shown(form)}; expected {', '.join(FORMS)}")
        return cls(given[0], given[-1], features, separator, form)

    @property
    def units(self) -> str:
        """The units as `of` takes them."""
        return self.source if self.source == self.target else f"{self.source},{self.target}"

    @property
    def columns(self) -> list[str]:
        """The columns that hold symbols."""
        return ["source", "target", *(["features"] if self.features else [])]

    def splitter(self, column: str) -> Callable[[str], Sequence[str]]:
        """How what stands in a column is split into symbols."""
        if column == "features":
            return self.split_features
        return split_words if getattr(self, column) == "words" else str

    def joined(self, column: str, symbols: Sequence[str]) -> str:
        """Symbols as they are written in a column."""
        if column == "features":
            return self.separator.join(symbols)
        return (" " if getattr(self, column) == "words" else "").join(symbols)

    def split_features(self, text: str) -> list[str]:
        """The features in a column, without the white space around them."""
        return [*filter(None, map(str.strip, text.split(self.separator)))]


def normalized(text: str, form: str | None) -> str:
    """A text in one of `FORMS`; as it is with "none" or None."""
    if form is None or form.lower() == "none":
        return text
    return unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


def detect_unit(strings: Iterable[str]) -> tuple[str | None, list[int]]:
    """What strings seem to be made of, and the indices of those that contradict it.

    The unit is None if all of them are too short to tell. What contradicts words is a string
    without a space that is no word of the others; what contradicts characters are spaces between
    short words, or in rather many of the strings.
    """
    stripped = enumerate(map(str.strip, islice(strings, LOOKED_AT)))
    longer = {index: text for index, text in stripped if len(text) > 1}
    if not longer:
        return None, []
    spaced, different = [n for n, text in longer.items() if " " in text], {*longer.values()}
    tokens = [word for n in spaced for word in split_words(longer[n])]
    # A word may stand alone, too, but not only so.
    alone = {text for text in different.difference(tokens) if " " not in text}
    joined = [n for n, text in longer.items() if text in alone]
    if min(len(joined) / len(longer), len(alone) / len(different)) <= 1 - MOSTLY:
        return "words", joined
    short = sum(map(len, tokens)) < SHORT * len(tokens)
    return "characters", spaced if short or len(spaced) > RATHER * len(longer) else []


class Feature(str):
    """A feature of a source, which is another symbol than what is written alike in a string."""

    __slots__ = ()


class SourceAlphabet(Alphabet):
    """The symbols that a model can read of a source, and its features.

    If there are features, a written source has a tab between them and the string. Those that are
    not known are read as `UNKNOWN_SYMBOL`; there is one of symbols and one of features.

    Args:
        symbols: of strings.
        features: of sources; None if they have none.
        columns: of lines, in the order in which they are written; those of sources are kept.
        writing: how they are written.
    """

    def __init__(
        self,
        symbols: Sequence[str],
        features: Sequence[str] | None,
        columns: Sequence[str],
        tokenizer: Tokenizer,
    ) -> None:
        own = [] if features is None else [*map(Feature, features), Feature(UNKNOWN_SYMBOL)]
        super().__init__([*symbols, UNKNOWN_SYMBOL, *own], words=tokenizer.source == "words")
        self.columns = [column for column in columns if column != "target"]
        self.unknown, self.tokenizer = len(symbols), tokenizer
        self.string_ids = {symbol: index for index, symbol in enumerate(symbols)}
        self.feature_ids = {str(each): len(symbols) + 1 + index for index, each in enumerate(own)}

    @property
    def unknown_feature(self) -> int:
        """The id of the unknown feature, if there are features."""
        return len(self) - 1

    def roles(self) -> list[Role]:
        symbols: list[Role] = [(SYMBOL, symbol) for symbol in self.symbols[: self.unknown]]
        features: list[Role] = [(FEATURE, str(each)) for each in self.symbols[self.unknown + 1 :]]
        features[-1:] = [("unknown feature",)] if features else []
        return [*symbols, ("unknown",), *features]

    def split(self, line: str) -> list[str]:
        fields = normalized(line, self.tokenizer.form).split("\t")
        if len(fields) != len(self.columns):
            count = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            raise StacktransError(f"expected {', a tab, '.join(self.columns)}; found {count}")
        by_column = dict(zip(self.columns, fields, strict=True))
        marked = self.tokenizer.split_features(by_column.get("features", ""))
        features: list[str] = [*map(Feature, marked)]
        # First, so that they are known when the symbols are read.
        return features + super().split(by_column["source"])

    def join(self, symbols: Sequence[str]) -> str:
        own = [symbol for symbol in symbols if not isinstance(symbol, Feature)]
        features = [symbol for symbol in symbols if isinstance(symbol, Feature)]
        written = {"source": super().join(own), "features": self.tokenizer.separator.join(features)}
        return "\t".join(written[column] for column in self.columns)

    def encode(self, symbols: Sequence[str]) -> Ids:
        ids = [
            self.feature_ids.get(str(symbol), self.unknown_feature)
            if isinstance(symbol, Feature)
            else self.string_ids.get(symbol, self.unknown)
            for symbol in symbols
        ]
        return np.array(ids, dtype=np.int64)

    def ids_of(self, column: str) -> tuple[Mapping[str, int], int]:
        """The ids of what stands in a column, and that of what is not known."""
        if column == "features":
            return self.feature_ids, self.unknown_feature
        return self.string_ids, self.unknown

    def unknowns(self) -> Ids:
        """[m] of each symbol's id that of the unknown one of its kind."""
        ids = np.arange(len(self))
        return np.where(ids <= self.unknown, self.unknown, self.unknown_feature)


class TargetAlphabet(Alphabet):
    """The symbols that a model can say; all others are `OUT_OF_VOCABULARY`.

    Args:
        symbols: of strings.
        writing: how they are written.
    """

    def __init__(self, symbols: Sequence[str], tokenizer: Tokenizer) -> None:
        super().__init__(symbols, words=tokenizer.target == "words")
        self.tokenizer = tokenizer

    def split(self, line: str) -> list[str]:
        return super().split(normalized(line, self.tokenizer.form))

    def encode(self, symbols: Sequence[str]) -> Ids:
        return self.encode_known(symbols)

    def decode(self, ids: Sequence[int] | Ids) -> list[str]:
        named = {OUT_OF_VOCABULARY: UNKNOWN_SYMBOL, NO_OUTPUT: UNSCORED_MARK}
        return [named[index] if index in named else self.symbols[index] for index in ids]

    def ids_of(self, column: str) -> tuple[Mapping[str, int], int]:
        """The ids of symbols, and that of what is not known."""
        return self._ids, OUT_OF_VOCABULARY
