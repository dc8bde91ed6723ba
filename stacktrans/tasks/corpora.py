"""Texts in files: a sentence on each line, and what is known of their symbols."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.tasks.base import Alphabet
from stacktrans.tasks.corpus import END, Corpus, Vocabulary
from stacktrans.tasks.layouts import Ids
from stacktrans.tasks.lines import decode_line, read_lines

PARTS = ("train", "valid", "test")

Symbols = list[str]


def find_files(folder: Path) -> dict[str, str]:
    """The files of a text's three parts: train.txt, or one that ends so, such as ptb.train.txt.

    Raises:
        UsageError: a part is missing, or could be any of several files.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: expected a folder with train.txt, valid.txt and test.txt")
    return {part: str(_file_of(folder, part)) for part in PARTS}


def _file_of(folder: Path, part: str) -> Path:
    exact = folder / f"{part}.txt"
    if exact.is_file():
        return exact
    similar = sorted(folder.glob(f"*.{part}.txt"))
    if len(similar) > 1:
        names = ", ".join(path.name for path in similar)
        raise UsageError(f"{folder}: {names} could each be the text to {part}; name one {exact}")
    if not similar:
        raise UsageError(f"{exact}: No such file (nor one whose name ends with .{part}.txt)")
    return similar[0]


def read_sentences(path: str | Path, alphabet: Alphabet) -> list[Symbols]:
    """The symbols of each sentence of a file; lines with nothing on them are none.

    Raises:
        UsageError: the file can't be read.
        StacktransError: a line is no text, or there is no sentence.
    """
    sentences = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            text = decode_line(line)
        except StacktransError as error:
            raise StacktransError(f"{path}:{number}: {error}") from error
        if text.strip():
            sentences.append(alphabet.split(text))
    if not sentences:
        raise StacktransError(f"{path}: holds no sentences")
    return sentences


def known_symbols(corpus: Corpus, sentences: Sequence[Symbols]) -> str:
    """The symbols that a model trained on some sentences is to know, as `Corpus` takes them."""
    counts = Counter(symbol for sentence in sentences for symbol in sentence)
    always = corpus.vocabulary.symbols[:2]
    ordered = sorted(counts.keys() - set(always), key=lambda symbol: (-counts[symbol], symbol))
    return corpus.vocabulary.join(ordered[: corpus.limit - len(always)])


def as_stream(vocabulary: Vocabulary, sentences: Sequence[Symbols]) -> Ids:
    """Sentences one after another, [N + 1], each ended; before the first there is an end, too."""
    end = vocabulary.symbols.index(END)
    parts = [np.append(vocabulary.encode(sentence), end) for sentence in sentences]
    return np.concatenate([[end], *parts])
