"""What a model makes of a text: its perplexity, and what it expects after each word."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from stacktrans.common.errors import OVERFLOW, StacktransError, UsageError
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.tasks.corpus import Corpus, Vocabulary, as_stream, read_sentences
from stacktrans.tasks.layouts import Ids

STEPS_AT_ONCE = 512
"""Steps whose logits are held at once."""
LIKELIEST = 5
"""How many of the symbols that are expected next are named."""


@dataclass(frozen=True)
class Perplexity:
    """What a model makes of a text, whose sentences follow one another.

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


@torch.no_grad()
def perplexity(model: Transducer, vocabulary: Vocabulary, stream: Ids) -> Perplexity:
    """The perplexity of all of a stream, [N + 1], but its first symbol.

    The model reads it as one sequence: what it has in mind at the end of a sentence is there at
    the beginning of the next.
    """
    device, run, total = model.classifier.weight.device, model.start(1), 0.0
    ids = torch.from_numpy(stream).to(device)
    for read, said in zip(ids[:-1].split(STEPS_AT_ONCE), ids[1:].split(STEPS_AT_ONCE), strict=True):
        logits = model.read_out(run.step(read.unsqueeze(0)).hidden[0])
        total += float(functional.cross_entropy(logits, said, reduction="sum"))
    count = len(stream) - 1
    unknown = int(np.count_nonzero(stream[1:] == vocabulary.unknown))
    return Perplexity(math.exp(min(total / count, 700.0)), total / count, count, unknown)


def perplexities(checkpoint: Checkpoint, file: Path | None) -> dict[str, Perplexity]:
    """The perplexity of a file, or of the validation and the test text of the model's run.

    Args:
        checkpoint: a model of a text.
        file: the file; None for the others.

    Raises:
        UsageError: the model is another, or a file can't be read.
        StacktransError: a line of it is no text, it has none, or the model's numbers overflow.
    """
    task = checkpoint.task
    if not isinstance(task, Corpus):
        name = checkpoint.config.task.name
        raise UsageError(f"--text: the model is none of a text (its task is {name})")
    files = {str(file): file} if file else {part: task.file(part) for part in ("valid", "test")}
    streams = {
        name: as_stream(task.vocabulary, read_sentences(path, task.vocabulary))
        for name, path in files.items()
    }
    found = {
        name: perplexity(checkpoint.model, task.vocabulary, stream)
        for name, stream in streams.items()
    }
    for name, measured in found.items():
        if math.isnan(measured.nats):
            raise StacktransError(f"{name}: {OVERFLOW}")
    return found


@dataclass(frozen=True)
class Following:
    """What a model expects after a symbol, and what comes.

    Attributes:
        after: the symbol read; the end of a sentence before the first of the next.
        next: the symbol that comes.
        probability: of it.
        log_probability: its logarithm, in nats.
        likeliest: the `LIKELIEST` most probable symbols with their probabilities.
    """

    after: str
    next: str
    probability: float
    log_probability: float
    likeliest: dict[str, float]


@torch.no_grad()
def followings(
    model: Transducer, vocabulary: Vocabulary, sentence: Sequence[str]
) -> list[Following]:
    """What a model expects at each place of a sentence, from before it to after its last symbol."""
    ids = torch.from_numpy(as_stream(vocabulary, [[*sentence]])).to(model.classifier.weight.device)
    hidden = model.start(1).step(ids[:-1].unsqueeze(0)).hidden[0]
    symbols = vocabulary.decode(ids.tolist())
    places = zip(ids[:-1].split(STEPS_AT_ONCE), hidden.split(STEPS_AT_ONCE), strict=True)
    found: list[Following] = []
    for read, states in places:
        logs = torch.log_softmax(model.read_out(states), dim=-1)
        best = logs.exp().topk(min(LIKELIEST, len(vocabulary)), dim=-1)
        for row in range(len(read)):
            place = len(found)
            log_probability = float(logs[row, ids[place + 1]])
            likeliest = zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
            found.append(
                Following(
                    symbols[place],
                    symbols[place + 1],
                    math.exp(log_probability),
                    log_probability,
                    {vocabulary.symbols[index]: probability for index, probability in likeliest},
                )
            )
    return found
