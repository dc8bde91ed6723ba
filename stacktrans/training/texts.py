"""A text, which epochs go through, and another by whose perplexity they are judged.

joulin2015, section 5.3.
"""

from collections.abc import Iterator

import numpy as np
import torch

from stacktrans.common.errors import UsageError
from stacktrans.inference.perplexity import Perplexity, perplexity
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig, StreamConfig
from stacktrans.tasks.corpus import PARTS, Corpus, as_stream, known_symbols, read_sentences
from stacktrans.tasks.layouts import Batch, Ids
from stacktrans.training.pieces import InPieces, Piece, cut
from stacktrans.training.records import Record, Summary
from stacktrans.training.source import Moment


def pieces_of(text: Ids, count: int, steps: int) -> Iterator[Piece]:
    """A text in parts of equal length that are read side by side, each cut into pieces.

    Args:
        text: [N + 1] its symbols, the first of which is not said.
        count: of the parts; the last may be shorter.
        steps: of a piece.
    """
    length = -(-(len(text) - 1) // count)
    shape, padding = (count, length), count * length + 1 - len(text)
    padded = np.pad(text, (0, padding))
    inputs, targets = padded[:-1].reshape(shape), padded[1:].reshape(shape)
    mask = (np.arange(count * length) < len(text) - 1).reshape(shape)
    return cut(Batch(inputs, targets, mask, [length] * count), steps)


class Texts(InPieces):
    """The three parts of a text, one of which is trained on.

    The task that is saved has the symbols that the model knows, so that the files are needed no
    more.

    Args:
        config: of the run.
        corpus: its task.

    Attributes:
        texts: the text's parts, each [N + 1].

    Raises:
        UsageError: a file is not named or can't be read, or a setting is not for a text.
        StacktransError: a file's line is no text, or it has none.
    """

    def __init__(self, config: RunConfig, corpus: Corpus) -> None:
        training, stream = config.training, _checked(config)
        sentences = {part: read_sentences(corpus.file(part), corpus.vocabulary) for part in PARTS}
        known = corpus.known or known_symbols(corpus, sentences["train"])
        parameters = {**config.task.parameters, "known": known}
        learned = Corpus(**parameters)
        task = config.task.model_copy(update={"parameters": parameters})
        super().__init__(config, task, learned.layout)
        self.vocabulary = learned.vocabulary
        self.texts = {part: as_stream(self.vocabulary, lines) for part, lines in sentences.items()}
        self._loss_every = training.measure.loss_every
        self._biases = config.model.controller.biases
        self._cut = list(pieces_of(self.texts["train"], training.batch_size, stream.steps))

    def begin(self, model: Transducer) -> None:
        """Have a model that knows nothing say each symbol as often as it comes.

        Otherwise it learns that first, by driving all its units the same way until they do not
        react to anything any more, those that see many cells of stacks most of all.
        """
        super().begin(model)
        if self._biases:
            counts = np.bincount(self.texts["train"][1:], minlength=len(self.vocabulary)) + 1
            with torch.no_grad():
                model.classifier.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def pieces(self, attempt: int, epoch: int) -> list[Piece]:
        return self._cut

    def due(self, step: int) -> tuple[bool, bool]:
        return self.resumable, self.resumable or step % self._loss_every == 0

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        record.validation = self._perplexity(model, "valid").nats

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.texts = {part: self._perplexity(model, part) for part in ("valid", "test")}

    def _perplexity(self, model: Transducer, part: str) -> Perplexity:
        return perplexity(model, self.vocabulary, self.texts[part])


def _checked(config: RunConfig) -> StreamConfig:
    """How a text is cut; raises `UsageError` for settings that are not for one."""
    training = config.training
    if training.stream is None:
        raise UsageError("training.data.stream: null is not for a text; expected how it is cut")
    if training.rounding:
        raise UsageError("training.rounding: not for a text, which has no right answers")
    return training.stream
