"""Training on a text: epochs that go through it, judged by the perplexity of another.

joulin2015, section 5.3.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose
from stacktrans.inference.perplexity import Perplexity, perplexity
from stacktrans.settings.config import RunConfig
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Lengths
from stacktrans.tasks.corpora import PARTS, as_stream, known_symbols, read_sentences
from stacktrans.tasks.corpus import Corpus
from stacktrans.tasks.layouts import Batch, Ids
from stacktrans.training.pieces import Piece
from stacktrans.training.records import Accuracy, Record
from stacktrans.training.streams import StreamTrainer


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
    for begin in range(0, length, steps):
        part = np.s_[:, begin : begin + steps]
        lengths = [inputs[part].shape[1]] * count
        batch = Batch(inputs[part], targets[part], mask[part], lengths)
        yield Piece(batch, np.full(count, begin == 0))


class LanguageTrainer(StreamTrainer):
    """Runs one training run on a text, in a directory of its own.

    The configuration that is saved has the symbols that the model knows, so that the files are
    needed no more. Arguments and attributes are those of `Trainer`, and:

    Attributes:
        texts: the text's parts, each [N + 1].

    Raises:
        UsageError: a file is not named or can't be read, or a setting is not for a text.
        StacktransError: a file's line is no text, or it has none.
    """

    def __init__(
        self,
        config: RunConfig,
        directory: Path,
        device: torch.device,
        command: str,
        attempt: int = 1,
        rehearsal: bool = False,
    ) -> None:
        _check(config)
        task = config.task
        corpus = make_task(task.name, task.generator, task.parameters)
        assert isinstance(corpus, Corpus)
        sentences = {part: read_sentences(corpus.file(part), corpus.vocabulary) for part in PARTS}
        known = corpus.known or known_symbols(corpus, sentences["train"])
        vocabulary = corpus.with_symbols(known, corpus.vocabulary.symbols[1])
        self.vocabulary = vocabulary
        self.texts = {part: as_stream(vocabulary, lines) for part, lines in sentences.items()}
        parameters = {**task.parameters, "known": known}
        task = task.model_copy(update={"parameters": parameters})
        config = config.model_copy(update={"task": task})
        super().__init__(config, directory, device, command, attempt, rehearsal)

    def _check_draws(self) -> None:
        self._check_carrying()  # that is all: nothing is drawn

    def _prepare(self) -> None:
        count = self.config.training.batch_size
        self._cut = list(pieces_of(self.texts["train"], count, self.stream.steps))
        if self.config.model.biases:
            self._begin_with_frequencies()

    def _begin_with_frequencies(self) -> None:
        """Have a model that knows nothing say each symbol as often as it comes.

        Otherwise it learns that first, by driving all its units the same way until they do not
        react to anything any more, those that see many cells of stacks most of all.
        """
        counts = np.bincount(self.texts["train"][1:], minlength=len(self.vocabulary)) + 1
        with torch.no_grad():
            self.model.classifier.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def _pieces(self) -> list[Piece]:
        return self._cut

    def _lengths_trained(self) -> Lengths | None:
        return None

    def _due(self) -> tuple[bool, bool]:
        ended = self._epoch_ended()
        return ended, ended or self.attempt_step % self.config.training.loss_every == 0

    def _measure_for(self, record: Record) -> None:
        if self._epoch_ended():
            record.validation = self._perplexity("valid").nats

    def _judge(self, record: Record) -> str | None:
        return None if record.validation is None else super()._judge(record)

    def _measure_both(self, purpose: Purpose) -> tuple[Accuracy | None, Accuracy | None]:
        return None, None

    def _perplexities(self) -> dict[str, Perplexity]:
        return {part: self._perplexity(part) for part in ("valid", "test")}

    def _perplexity(self, part: str) -> Perplexity:
        return perplexity(self.evaluated, self.vocabulary, self.texts[part])


def _check(config: RunConfig) -> None:
    training = config.training
    if training.stream is None:
        raise UsageError("training.stream: null is not for a text; expected how it is cut")
    for name, given in (("rounding", training.rounding), ("prune", training.prune)):
        if given:
            raise UsageError(f"training.{name}: not for a text, which has no right answers")
