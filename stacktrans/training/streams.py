"""Truncated backpropagation over streams or texts: segments, carried state, and validation loss."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.perplexity import Perplexity, cross_entropy, perplexity
from stacktrans.memory import make_memory
from stacktrans.model import checkpoint_files
from stacktrans.model.controllers import Noise
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Carried, Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.training_config import StreamConfig
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.base import Task
from stacktrans.tasks.corpus import PARTS, Corpus, encode_sentences, read_sentences, vocabulary_of
from stacktrans.tasks.encoding import Batch, encode_batch
from stacktrans.tasks.lengths import Lengths
from stacktrans.training.records import Record, Summary
from stacktrans.training.sources import DataSource, Moment, UnrolledBatch
from stacktrans.training.stateful import SavedCount


class StreamSegment(NamedTuple):
    """Consecutive steps of streams that are read side by side.

    Attributes:
        batch: the steps of all streams; fewer at the end.
        begins: whether the streams begin with them.
    """

    batch: Batch
    begins: bool


def cut(batch: Batch, steps: int) -> Iterator[StreamSegment]:
    """Cut streams, which begin with an empty memory, into segments of `steps` steps."""
    count, longest = batch.inputs.shape
    for begin in range(0, longest, steps):
        part = np.s_[:, begin : begin + steps]
        inputs = batch.inputs[part]
        lengths = [inputs.shape[1]] * count
        segment = Batch(inputs, batch.targets[part], batch.mask[part], lengths)
        yield StreamSegment(segment, begin == 0)


class SegmentSource(DataSource, ABC):
    """A source of consecutive segments; each continues from the state after the last one.

    That state is not saved, so that a run is resumed where an epoch begins.

    Attributes:
        epoch: the epoch of the attempt that begins next, from 0.
    """

    epoch: SavedCount = 0

    def __init__(self, config: RunConfig, task: Task) -> None:
        super().__init__(config, task)
        self._begin_epoch(0)

    @abstractmethod
    def segments(self, attempt: int, epoch: int) -> list[StreamSegment]:
        """The segments of an epoch of an attempt."""

    def check(self) -> None:
        make_memory(self.config.model).check_can_carry()
        if self.task.sampled:
            super().check()

    def first_batches(self) -> Iterator[Batch]:
        return itertools.cycle(segment.batch for segment in self.segments(1, 0))

    def begin(self, model: Transducer) -> None:
        self._begin_epoch(0)

    def _begin_epoch(self, number: int) -> None:
        self.epoch, self._left = number, list[StreamSegment]()
        self._carried: Carried | None = None
        self._carrier: Transducer | None = None

    def unroll(self, model: Transducer, moment: Moment, noise: Noise) -> UnrolledBatch:
        self._left = self._left or self.segments(moment.attempt, self.epoch)[::-1]
        segment = self._left.pop()
        # A model that replaces another, such as one with fewer memories, starts without a state.
        carried = None if segment.begins or model is not self._carrier else self._carried
        self._carrier = model
        inputs = torch.from_numpy(segment.batch.inputs).to(model.classifier.weight.device)
        unrolled, self._carried = model.unroll_segment(inputs, carried, noise)
        if not self._left:
            self._begin_epoch(self.epoch + 1)
        return segment.batch, unrolled

    @property
    def resumable(self) -> bool:
        return not self._left

    def due(self, step: int) -> tuple[bool, bool]:
        return self.resumable, self.resumable


class Streams(SegmentSource):
    """Streams of sequences, newly drawn for each epoch (joulin2015, section 4)."""

    def __init__(self, config: RunConfig, task: Task, stream: StreamConfig) -> None:
        super().__init__(config, task)
        if task.layout.kind != "stream":
            raise UsageError(f"training.data.stream: task {config.task.name} is not a stream")
        if stream.sequences is None:
            setting = "training.data.stream.sequences"
            raise UsageError(f"{setting}: null is for a text; expected a number")
        self._epoch_size, self._steps = stream.sequences, stream.steps

    def segments(self, attempt: int, epoch: int) -> list[StreamSegment]:
        rng = generator(self.config.seed, Purpose.TRAINING, attempt, epoch)
        lengths, rows = self.lengths_of(epoch), self.config.training.batch_strings
        law = self._law(Purpose.TRAINING, lengths)
        pairs = self.task.sample(rng, lengths, self._epoch_size, law)
        streams, every = [pairs[row::rows] for row in range(rows)], StreamConfig.EMPTY_AFTER
        segments = list[StreamSegment]()
        for first in range(0, max(map(len, streams)), every):
            parts = [stream[first : first + every] for stream in streams]
            segments += cut(encode_batch(self.layout, parts, score_all=True), self._steps)
        return segments

    def lengths_of(self, epoch: int) -> Lengths:
        """The lengths of an epoch, from 0: the longest grows by one an epoch."""
        shortest, longest = self.ranges.train
        first = max(shortest, StreamConfig.FIRST_LONGEST)
        return Lengths(shortest, min(longest, first + epoch))

    def lengths(self, share: float) -> Lengths:
        """The lengths of the epoch that has just ended."""
        return self.lengths_of(self.epoch - 1)

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        count = self.config.training.measure.strings
        pairs = self.strings(Purpose.VALIDATION, moment, self.ranges.train, count)
        record.validation = cross_entropy(predictor_of(model), self.layout, pairs)
        record.train, record.test = self.accuracies(model, Purpose.VALIDATION, moment)


def segments_of_text(text: Ids, count: int, steps: int) -> Iterator[StreamSegment]:
    """Cut a text, [N + 1], into `count` equal parts, and these into segments of `steps` steps.

    The parts are read side by side. The last one may be shorter; the first symbol is read but not
    predicted.
    """
    length = -(-(len(text) - 1) // count)
    shape, padding = (count, length), count * length + 1 - len(text)
    padded = np.pad(text, (0, padding))
    inputs, targets = padded[:-1].reshape(shape), padded[1:].reshape(shape)
    mask = (np.arange(count * length) < len(text) - 1).reshape(shape)
    return cut(Batch(inputs, targets, mask, [length] * count), steps)


class Texts(SegmentSource):
    """The training, validation and test part of a text (joulin2015, section 5.3).

    The task that is saved has the symbols that the model knows, so that the files are no longer
    needed.

    Attributes:
        texts: the parts of the text by name, each [N + 1].

    Raises:
        UsageError: a file is not named or can't be read, or a setting is not for a text.
        StacktransError: a line of a file is not text, or the file is empty.
    """

    def __init__(self, config: RunConfig, corpus: Corpus) -> None:
        training = config.training
        if training.stream is None:
            raise UsageError("training.data.stream: null is not for a text; expected settings")
        if training.rounding:
            raise UsageError("training.rounding: not for a text, which has no right answers")
        sentences = {part: read_sentences(corpus.file(part), corpus.vocabulary) for part in PARTS}
        parameters = dict(config.task.parameters)
        if not corpus.known:
            inherited: Sequence[str] = ()
            if config.start_from:
                directory = checkpoint_files.locate(config.start_from.checkpoint)
                inherited = checkpoint_files.read_config(directory).make_task().source.symbols
            known = vocabulary_of(corpus, sentences["train"], inherited)
            parameters["known"] = corpus.vocabulary.join(known)
            parameters["vocabulary"] = max(corpus.limit, 2 + len(known))  # the end, the unknown one
        task = config.task.model_copy(update={"parameters": parameters})
        learned = Corpus(**parameters)
        super().__init__(config.model_copy(update={"task": task}), learned)
        self.vocabulary = learned.vocabulary
        self.texts = {
            part: encode_sentences(self.vocabulary, lines) for part, lines in sentences.items()
        }
        steps = training.stream.steps
        self._segments = list(segments_of_text(self.texts["train"], training.batch_strings, steps))

    def begin(self, model: Transducer) -> None:
        """Set the output biases to the log frequencies of symbols.

        Otherwise the model learns these first, by driving all its units the same way until they no
        longer react to anything, above all those that read many cells of stacks.
        """
        super().begin(model)
        if self.config.model.controller.biases:
            counts = np.bincount(self.texts["train"][1:], minlength=len(self.vocabulary)) + 1
            with torch.no_grad():
                model.classifier.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def segments(self, attempt: int, epoch: int) -> list[StreamSegment]:
        return self._segments

    def due(self, step: int) -> tuple[bool, bool]:
        return self.resumable, self.resumable or step % self.config.training.measure.loss_every == 0

    def lengths(self, share: float) -> None:
        return None

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        record.validation = self._perplexity(model, "valid").nats

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.texts = {part: self._perplexity(model, part) for part in ("valid", "test")}

    def _perplexity(self, model: Transducer, part: str) -> Perplexity:
        return perplexity(predictor_of(model), self.vocabulary, self.texts[part])
