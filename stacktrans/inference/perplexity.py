"""Perplexity of texts, cross-entropy of pairs, and the most probable symbols after each symbol."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stacktrans.common.errors import OVERFLOW, StacktransError, UsageError
from stacktrans.common.ragged import STEPS_AT_ONCE, batches_of
from stacktrans.decoding.decoder import advance_in_chunks, log_softmax
from stacktrans.decoding.model import Model, Numbers, Predictor
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.corpus import Corpus, Vocabulary, encode_sentences, read_sentences
from stacktrans.tasks.encoding import encode_batch, measured_sequences, steps_of
from stacktrans.tasks.layout import Layout, Pair

SYMBOLS_AT_ONCE = 512
"""Symbols of a text whose logits are in memory at the same time."""
LIKELIEST = 5
"""Number of most probable symbols that are reported."""
LARGEST_EXPONENT = 700.0
"""The exponent at which a perplexity is capped, below the overflow of floats."""


def perplexity_of(nats: float) -> float:
    """The perplexity of symbols of so many nats each: finite, as JSON has no infinity."""
    return math.exp(min(nats, LARGEST_EXPONENT))


def cross_entropy(model: Predictor, layout: Layout, pairs: Sequence[Pair]) -> float:
    """Mean nats per symbol of pairs, all symbols scored; pairs of a stream form one sequence."""
    rows = [[pairs[index] for index in row] for row in measured_sequences(layout, pairs)]
    sizes = [sum(steps_of(layout, pair) for pair in row) for row in rows]
    total, count = 0.0, 0
    for group in batches_of(sizes, STEPS_AT_ONCE):
        batch = encode_batch(layout, [rows[index] for index in group], score_all=True)
        state = model.start(len(batch.inputs))
        for columns, logits in advance_in_chunks(model, state, batch.inputs, batch.mask):
            targets = batch.targets[:, columns][batch.mask[:, columns]]
            total += negative_log_likelihood(logits, targets)
            count += len(logits)
    return total / max(count, 1)


def negative_log_likelihood(logits: Numbers, targets: Ids) -> float:
    """Nats of targets [n] under logits [n, outputs], summed."""
    logs = log_softmax(logits)
    return -float(logs[np.arange(len(targets)), targets].sum(dtype=np.float64))


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text, whose sentences follow one another.

    Attributes:
        perplexity: exp(nats).
        nats: mean negative log-likelihood per symbol.
        symbols: number of predicted symbols, the ends of sentences included.
        unknown: number of predicted symbols that are not in the vocabulary.
    """

    perplexity: float
    nats: float
    symbols: int
    unknown: int


def perplexity(model: Model, vocabulary: Vocabulary, stream: Ids) -> Perplexity:
    """The perplexity of a stream of ids [N + 1], whose first symbol is only read.

    The model reads the stream as one sequence: its state is carried over from sentence to sentence.
    """
    total, count = 0.0, len(stream) - 1
    for logits, following in _predictions(model, stream):
        total += negative_log_likelihood(logits, following)
    unknown = int(np.count_nonzero(stream[1:] == vocabulary.unknown))
    nats = total / count
    return Perplexity(perplexity_of(nats), nats, count, unknown)


def _predictions(model: Model, stream: Ids) -> Iterator[tuple[Numbers, Ids]]:
    """Logits [n, outputs] and the symbols [n] that they predict, piece by piece of a stream."""
    state = model.start(1)
    for first in range(0, len(stream) - 1, SYMBOLS_AT_ONCE):
        piece = stream[first : first + SYMBOLS_AT_ONCE + 1]
        yield model.advance(state, piece[None, :-1]), piece[1:]


def perplexities(checkpoint: Checkpoint, file: Path | None) -> dict[str, Perplexity]:
    """The perplexity of a file, or of the validation and the test text of the model's run.

    Raises:
        UsageError: the model is not a language model, or a file can't be read.
        StacktransError: a line is not text, the text is empty, or the model's numbers overflow.
    """
    task = checkpoint.task
    if not isinstance(task, Corpus):
        name = checkpoint.config.task.name
        raise UsageError(f"not a language model: its task is {name}")
    files = {str(file): file} if file else {part: task.file(part) for part in ("valid", "test")}
    words = task.vocabulary
    streams = {
        name: encode_sentences(words, read_sentences(path, words)) for name, path in files.items()
    }
    results = {name: perplexity(checkpoint.predictor, words, ids) for name, ids in streams.items()}
    for name, result in results.items():
        if math.isnan(result.nats):
            raise StacktransError(f"{name}: {OVERFLOW}")
    return results


@dataclass(frozen=True)
class NextSymbolPrediction:
    """A language model's prediction after a symbol, and the symbol that follows.

    Attributes:
        after: the symbol read; the end of a sentence before the first symbol of the next.
        next: the symbol that follows.
        probability: of `next`.
        log_probability: its logarithm, in nats.
        likeliest: the `LIKELIEST` most probable symbols with their probabilities.
    """

    after: str
    next: str
    probability: float
    log_probability: float
    likeliest: dict[str, float]


def next_symbol_predictions(
    model: Model, vocabulary: Vocabulary, sentence: Sequence[str]
) -> list[NextSymbolPrediction]:
    """Predictions from before the first symbol of a sentence to after its last."""
    stream = encode_sentences(vocabulary, [[*sentence]])
    rows = (row for logits, _ in _predictions(model, stream) for row in log_softmax(logits))
    neighbors = itertools.pairwise(vocabulary.decode(stream))
    predictions = []
    for row, following_id, (after, following) in zip(rows, stream[1:], neighbors, strict=True):
        log_probability = float(row[following_id])
        best = np.argsort(-row, kind="stable")[:LIKELIEST].tolist()
        likeliest = dict(zip(vocabulary.decode(best), np.exp(row[best]).tolist(), strict=True))
        predictions.append(
            NextSymbolPrediction(
                after, following, math.exp(log_probability), log_probability, likeliest
            )
        )
    return predictions
