"""Language modelling: the sentences of a text, of which each next symbol is said (joulin2015, 5.3).

A text is read from files; what the task knows of it is its vocabulary.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.reading import decode_line, read_content, split_words
from stacktrans.tasks.alphabets import Alphabet, Ids, Role
from stacktrans.tasks.base import LengthLaw, Lengths, NotASource, Task
from stacktrans.tasks.layout import ENDING, Layout, Pair
from stacktrans.tasks.lines import read_numbered

END = "</s>"
"""The symbol that ends every sentence, and is said as any other."""
UNITS = ("words", "characters")
PARTS = ("train", "valid", "test")
Symbols = list[str]


class Vocabulary(Alphabet):
    """The symbols that a model of a text knows; all others are one symbol, the unknown one.

    The first is the end of a sentence, the second the unknown symbol. No symbol of a sentence is
    its end, even if it is written like it.

    Args:
        symbols: the others, in the order of their ids.
        unknown: how the unknown symbol is written.
        words: whether they are words separated by spaces, or characters.
    """

    def __init__(self, symbols: Sequence[str], unknown: str, *, words: bool) -> None:
        super().__init__([END, unknown, *symbols], words=words)
        self.unknown = 1

    def roles(self) -> list[Role]:
        return [ENDING, ("unknown",), *super().roles()[2:]]

    def encode(self, symbols: Sequence[str]) -> Ids:
        """The ids of symbols, that of the unknown one for those that are not known."""
        ids = [self._ids.get(symbol, self.unknown) or self.unknown for symbol in symbols]
        return np.array(ids, dtype=np.int64)


class Corpus(Task):
    """A text in three files, a sentence on each line.

    Args:
        train: the file to train on, if there is anything to train.
        valid: the file to stop and to choose by, if there is anything to train.
        test: the file to test on, if there is anything to test.
        unit: what the symbols are, "words" or "characters".
        vocabulary: the most symbols that are known, the end of a sentence and the unknown one
            included: the most frequent of the file to train on.
        unknown: how the unknown symbol is written.
        known: the others that are known, most frequent first, written as a sentence; nothing
            for those that the file to train on will have.

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
            if not isinstance(file, str | None):
                raise ValueError(f"{part} is {file!r}; expected the name of a file")
        if unit not in UNITS:
            raise ValueError(f"unit is {unit!r}; expected {' or '.join(UNITS)}")
        if type(vocabulary) is not int or vocabulary < 3:
            raise ValueError(f"vocabulary is {vocabulary!r}; expected a number of at least 3")
        if not isinstance(unknown, str) or len(split_words(unknown)) != 1 or unknown == END:
            raise ValueError(f"unknown is {unknown!r}; expected a word other than {END}")
        if not isinstance(known, str):
            raise ValueError(f"known is {known!r}; expected the known symbols as a sentence")
        self.limit, self.known, words = vocabulary, known, unit == "words"
        symbols = split_words(known) if words else list(known)
        self.source = self.target = self.vocabulary = Vocabulary(symbols, unknown, words=words)
        if len(self.vocabulary) > vocabulary:
            raise ValueError(f"known has more symbols than a vocabulary of {vocabulary} has")
        self.layout = Layout.text(len(self.vocabulary), end=0)

    def file(self, part: str) -> str:
        """The file of a part; raises `UsageError` if none is named."""
        file = self.files[part]
        if file is None:
            raise UsageError(
                f"task.parameters.{part}: no file given; expected a text in three "
                "files, for training, validation and test"
            )
        return file

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        raise UsageError("a text is read from files; none of it is drawn")

    def answer(self, source: Sequence[str]) -> list[str | None]:
        raise NotASource("a sentence can go on in many ways")


def find_texts(folder: Path) -> dict[str, str]:
    """A text's three files: train.txt, or one that ends so, such as ptb.train.txt, and so on.

    Raises `UsageError` if a part is missing, or could be any of several files.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: expected a folder with train.txt, valid.txt and test.txt")
    found = {}
    for part in PARTS:
        exact = folder / f"{part}.txt"
        files = [exact] if exact.is_file() else sorted(folder.glob(f"*.{part}.txt"))
        if not files:
            raise UsageError(f"{exact}: No such file (nor one whose name ends with .{part}.txt)")
        if len(files) > 1:
            names = ", ".join(path.name for path in files)
            raise UsageError(
                f"{folder}: {names} could each be the text to {part}; name one {exact}"
            )
        found[part] = str(files[0])
    return found


def read_sentences(path: str | Path, alphabet: Alphabet) -> list[Symbols]:
    """The symbols of each sentence of a file, without empty lines.

    Raises `UsageError` if it can't be read, `StacktransError` if it holds something else.
    """
    lines = enumerate(read_content(path).split(b"\n"), start=1)
    texts = read_numbered(f"{path}:", lines, decode_line)
    sentences = [alphabet.split(text) for _, text in texts if text.strip()]
    if not sentences:
        raise StacktransError(f"{path}: holds no sentences")
    return sentences


def vocabulary_of(
    corpus: Corpus, sentences: Sequence[Symbols], kept: Sequence[str] = ()
) -> list[str]:
    """The symbols that a model trained on some sentences is to know, those that are kept first."""
    counts = Counter(symbol for sentence in sentences for symbol in sentence)
    always, vocabulary = corpus.vocabulary.symbols[:2], corpus.vocabulary
    ordered = sorted(counts.keys() - set(always), key=lambda symbol: (-counts[symbol], symbol))
    known = dict.fromkeys([*kept, *ordered[: corpus.limit - len(always)]])
    return [each for each in known if each not in always and vocabulary.split(each) == [each]]


def encode_sentences(vocabulary: Vocabulary, sentences: Sequence[Symbols]) -> Ids:
    """Sentences one after another, [N + 1], each ended; before the first there is an end, too."""
    end = vocabulary.symbols.index(END)
    parts = [np.append(vocabulary.encode(sentence), end) for sentence in sentences]
    return np.concatenate([[end], *parts])
