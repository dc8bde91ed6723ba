"""The language modelling task on text files: finding and reading them, and their vocabulary.

Each next symbol is predicted (joulin2015, section 5.3). The task's parameters contain the
vocabulary.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import StacktransError, UsageError, check_parameter
from stacktrans.common.reading import decode_line, name_of, read_content, split_words
from stacktrans.tasks.alphabets import Alphabet, Ids, Role
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.columns import UNITS
from stacktrans.tasks.layout import ENDING, Layout, Pair
from stacktrans.tasks.lengths import LengthDistribution, Lengths
from stacktrans.tasks.lines import check_file, read_numbered

END = "</s>"
"""The symbol that ends every sentence, and is predicted as any other."""
PARTS = ("train", "valid", "test")
Symbols = list[str]


class Vocabulary(Alphabet):
    """The alphabet of a text: the end of a sentence, the unknown symbol, and the known symbols.

    A symbol of a sentence is never encoded as its end, even if it is spelled like it.

    Args:
        symbols: the known symbols, in the order of their ids.
        unknown: the notation of the unknown symbol.
        words: whether symbols are words separated by spaces, or characters.
    """

    def __init__(self, symbols: Sequence[str], unknown: str, *, words: bool) -> None:
        super().__init__([END, unknown, *symbols], words=words, unknown=1)
        del self._ids[END]

    def roles(self) -> list[Role]:
        return [ENDING, ("unknown",), *super().roles()[2:]]


class Corpus(Task):
    """A text in three files, a sentence on each line.

    Args:
        train: the file to train on; needed for training only.
        valid: the file to choose weights and to stop by; needed for training only.
        test: the file to test on; needed for tests only.
        unit: the unit of text, "words" or "characters".
        vocabulary: the size of the vocabulary, with the end of a sentence and the unknown symbol;
            the most frequent symbols of the training text are known.
        unknown: the notation of the unknown symbol.
        known: the known symbols, most frequent first, written as a sentence; empty before
            training.

    Raises:
        ValueError: a parameter is wrong; the message says which.
    """

    sampled = False

    def __init__(
        self,
        train: str | None = None,
        valid: str | None = None,
        test: str | None = None,
        unit: str = "words",
        vocabulary: int = 10_000,
        unknown: str = "<unk>",
        known: str = "",
    ) -> None:
        self.files = {"train": train, "valid": valid, "test": test}
        for part, file in self.files.items():
            check_file(part, file)
        check_parameter(unit in UNITS, "unit", unit, " or ".join(UNITS))
        is_size = type(vocabulary) is int and vocabulary >= 3
        check_parameter(is_size, "vocabulary", vocabulary, "a number of at least 3")
        is_word = isinstance(unknown, str) and split_words(unknown) == [unknown] and unknown != END
        check_parameter(is_word, "unknown", unknown, f"a word other than {END}")
        check_parameter(isinstance(known, str), "known", known, "the known symbols as a sentence")
        self.limit, self.known, words = vocabulary, known, unit == "words"
        symbols = split_words(known) if words else list(known)
        self.source = self.target = self.vocabulary = Vocabulary(symbols, unknown, words=words)
        if len(self.vocabulary) > vocabulary:
            raise ValueError(f"known has more symbols than a vocabulary of {vocabulary} has")
        self.layout = Layout.text(len(self.vocabulary), end=0)

    def file(self, part: str) -> str:
        """The path of a part of the text; raises `UsageError` if none is given."""
        file = self.files[part]
        if file is None:
            raise UsageError(
                f"task.parameters.{part}: no file given; expected a text in three "
                "files, for training, validation and test"
            )
        return file

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        raise UsageError("a text is read from files; none of it is drawn")

    def answer(self, source: Sequence[str]) -> list[str | None]:
        raise NotASource("a sentence can continue in many ways")


def find_texts(directory: Path) -> dict[str, str]:
    """The paths of the three parts of a text: train.txt, or such as ptb.train.txt, and so on.

    Raises `UsageError` if a part is missing or ambiguous.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: expected a directory with train.txt, valid.txt, test.txt")
    paths = {}
    for part in PARTS:
        exact = directory / f"{part}.txt"
        files = [exact] if exact.is_file() else sorted(directory.glob(f"*.{part}.txt"))
        if not files:
            raise UsageError(f"{exact}: No such file (nor one whose name ends with .{part}.txt)")
        if len(files) > 1:
            names = ", ".join(path.name for path in files)
            raise UsageError(
                f"{directory}: {names} could each be the text to {part}; name one {exact}"
            )
        paths[part] = str(files[0])
    return paths


def read_sentences(path: str | Path, alphabet: Alphabet) -> list[Symbols]:
    """The symbols of each sentence of a file; blank lines are skipped.

    Raises `UsageError` if it can't be read, `StacktransError` if it is no text.
    """
    lines = enumerate(read_content(path).split(b"\n"), start=1)
    name = name_of(Path(path))
    texts = read_numbered(f"{name}:", lines, decode_line)
    sentences = [alphabet.split(text) for _, text in texts if text.strip()]
    if not sentences:
        raise StacktransError(f"{name}: contains no sentences")
    return sentences


def vocabulary_of(
    corpus: Corpus, sentences: Sequence[Symbols], kept: Sequence[str] = ()
) -> list[str]:
    """The vocabulary of a training text: symbols kept from another model, then frequent ones."""
    counts = Counter(symbol for sentence in sentences for symbol in sentence)
    marks, split = corpus.vocabulary.symbols[:2], corpus.vocabulary.split
    ordered = sorted(counts.keys() - set(marks), key=lambda symbol: (-counts[symbol], symbol))
    known = dict.fromkeys([*kept, *ordered[: corpus.limit - len(marks)]])
    return [symbol for symbol in known if symbol not in marks and split(symbol) == [symbol]]


def encode_sentences(vocabulary: Vocabulary, sentences: Sequence[Symbols]) -> Ids:
    """[N + 1] the ids of sentences, each with its end, after an initial end."""
    end = vocabulary.symbols.index(END)
    parts = [np.append(vocabulary.encode(sentence), end) for sentence in sentences]
    return np.concatenate([[end], *parts])
