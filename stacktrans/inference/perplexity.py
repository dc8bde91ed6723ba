"""The perplexity of a text, and what a model predicts after each of its symbols."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stacktrans.common.errors import OVERFLOW, StacktransError, UsageError
from stacktrans.decoding.decoder import log_softmax
from stacktrans.decoding.model import Model
from stacktrans.inference.evaluation import nats
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.corpus import Corpus, Vocabulary, as_stream, read_sentences

STEPS_AT_ONCE = 512
"""Steps whose logits are held at once."""
LIKELIEST = 5
"""How many of the most probable symbols are named."""


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text, whose sentences follow one another.

    Attributes:
        perplexity: exp(nats).
        nats: minus the logarithm of the text's probability, a symbol.
        symbols: how many were predicted, the ends of sentences included.
        unknown: how many of them the model does not know.
    """

    perplexity: float
    nats: float
    symbols: int
    unknown: int


def perplexity(model: Model, vocabulary: Vocabulary, stream: Ids) -> Perplexity:
    """The perplexity of all of a stream, [N + 1], but its first symbol.

    The model reads it as one sequence: its state at the end of a sentence is that at the
    beginning of the next.
    """
    state, total, count = model.start(1), 0.0, len(stream) - 1
    for first in range(0, count, STEPS_AT_ONCE):
        later = min(first + STEPS_AT_ONCE, count)
        logits = model.advance(state, stream[None, first:later])
        total += nats(logits, stream[first + 1 : later + 1])
    unknown = int(np.count_nonzero(stream[1:] == vocabulary.unknown))
    return Perplexity(math.exp(min(total / count, 700.0)), total / count, count, unknown)


def perplexities(checkpoint: Checkpoint, file: Path | None) -> dict[str, Perplexity]:
    """The perplexity of a file, or of the validation and the test text of the model's run.

    Raises:
        UsageError: the model is not of a text, or a file can't be read.
        StacktransError: a line is not text, there is none, or the model's numbers overflow.
    """
    task = checkpoint.task
    if not isinstance(task, Corpus):
        name = checkpoint.config.task.name
        raise UsageError(f"the model is not of a text: its task is {name}")
    files = {str(file): file} if file else {part: task.file(part) for part in ("valid", "test")}
    words = task.vocabulary
    streams = {name: as_stream(words, read_sentences(path, words)) for name, path in files.items()}
    found = {name: perplexity(checkpoint.predictor, words, each) for name, each in streams.items()}
    for name, measured in found.items():
        if math.isnan(measured.nats):
            raise StacktransError(f"{name}: {OVERFLOW}")
    return found


@dataclass(frozen=True)
class Following:
    """A model's prediction after a symbol, and the symbol that follows.

    Attributes:
        after: the symbol read; the end of a sentence before the first of the next.
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


def followings(model: Model, vocabulary: Vocabulary, sentence: Sequence[str]) -> list[Following]:
    """A model's predictions from before the first symbol of a sentence to after its last."""
    ids = as_stream(vocabulary, [[*sentence]])
    state, read = model.start(1), ids[None, :-1]
    symbols = vocabulary.decode(ids.tolist())
    found: list[Following] = []
    for first in range(0, read.shape[1], STEPS_AT_ONCE):
        for row in log_softmax(model.advance(state, read[:, first : first + STEPS_AT_ONCE])):
            place = len(found)
            log_probability = float(row[ids[place + 1]])
            best = np.argsort(-row, kind="stable")[:LIKELIEST].tolist()
            found.append(
                Following(
                    symbols[place],
                    symbols[place + 1],
                    math.exp(log_probability),
                    log_probability,
                    dict(zip(vocabulary.decode(best), np.exp(row[best]).tolist(), strict=True)),
                )
            )
    return found
