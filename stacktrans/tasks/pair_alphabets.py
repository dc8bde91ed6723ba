"""The alphabets of pairs in files, with unknown symbols, and with features of sources."""

from collections.abc import Sequence

import numpy as np

from stacktrans.common.errors import StacktransError
from stacktrans.common.visible import counted
from stacktrans.tasks.alphabets import (
    FEATURE,
    OUT_OF_VOCABULARY,
    SYMBOL,
    UNKNOWN_SYMBOL,
    Alphabet,
    Ids,
    Role,
)
from stacktrans.tasks.columns import Tokenizer, normalized


class Feature(str):
    """A feature of a source, distinct from the symbol of a string with the same spelling."""

    __slots__ = ()


class SourceAlphabet(Alphabet):
    """The source alphabet of pairs in files: symbols and features, and an unknown one of each.

    If there are features, a written source has a tab between them and the string.

    Args:
        symbols: the known symbols of strings.
        features: the known features; None if sources have none.
        columns: the columns of a line in their order.
        tokenizer: tokenization of the fields.
    """

    unknown: int

    def __init__(
        self,
        symbols: Sequence[str],
        features: Sequence[str] | None,
        columns: Sequence[str],
        tokenizer: Tokenizer,
    ) -> None:
        known = [*symbols, UNKNOWN_SYMBOL]
        names = [] if features is None else [*features, UNKNOWN_SYMBOL]
        words = tokenizer.source == "words"
        super().__init__([*known, *map(Feature, names)], words=words, unknown=len(symbols))
        self.columns = [column for column in columns if column != "target"]
        self.tokenizer = tokenizer
        self._string_ids = {symbol: index for index, symbol in enumerate(symbols)}
        self._feature_ids = {name: index for index, name in enumerate(names, start=len(known))}

    @property
    def unknown_ids(self) -> frozenset[int]:
        return frozenset([self.unknown, self.unknown_feature])

    @property
    def unknown_feature(self) -> int:
        """The id of the unknown feature; without features, that of the unknown symbol."""
        return len(self) - 1

    def roles(self) -> list[Role]:
        symbols: list[Role] = [(SYMBOL, symbol) for symbol in self.symbols[: self.unknown]]
        features: list[Role] = [(FEATURE, str(each)) for each in self.symbols[self.unknown + 1 :]]
        features[-1:] = [("unknown feature",)] if features else []
        return [*symbols, ("unknown",), *features]

    def split(self, line: str) -> list[str]:
        fields = normalized(line, self.tokenizer.form).split("\t")
        if len(fields) != len(self.columns):
            count = counted(len(fields), "column")
            raise StacktransError(f"expected {', a tab, '.join(self.columns)}; found {count}")
        by_column = dict(zip(self.columns, fields, strict=True))
        names = self.tokenizer.split_features(by_column.get("features", ""))
        features: list[str] = [*map(Feature, names)]
        # Features come first, so that a model knows them when it reads the string.
        return features + super().split(by_column["source"])

    def join(self, symbols: Sequence[str]) -> str:
        string = [symbol for symbol in symbols if not isinstance(symbol, Feature)]
        features = [symbol for symbol in symbols if isinstance(symbol, Feature)]
        fields: dict[str, list[str]] = {"source": string, "features": [*features]}
        return "\t".join(self.tokenizer.joined(name, fields[name]) for name in self.columns)

    def encode(self, symbols: Sequence[str]) -> Ids:
        ids = [
            self._feature_ids.get(str(symbol), self.unknown_feature)
            if isinstance(symbol, Feature)
            else self._string_ids.get(symbol, self.unknown)
            for symbol in symbols
        ]
        return np.array(ids, dtype=np.int64)

    def unknowns(self) -> Ids:
        """[m] for each id, that of the unknown symbol or the unknown feature."""
        ids = np.arange(len(self))
        return np.where(ids <= self.unknown, self.unknown, self.unknown_feature)


class TargetAlphabet(Alphabet):
    """The target alphabet of pairs in files; other symbols are `OUT_OF_VOCABULARY`.

    Args:
        symbols: the known symbols.
        tokenizer: tokenization of the fields.
    """

    def __init__(self, symbols: Sequence[str], tokenizer: Tokenizer) -> None:
        super().__init__(symbols, words=tokenizer.target == "words", unknown=OUT_OF_VOCABULARY)
        self.tokenizer = tokenizer

    def split(self, line: str) -> list[str]:
        return super().split(normalized(line, self.tokenizer.form))
