"""What a run is trained on and measured by: new strings, sets of pairs, streams or a text."""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.perplexity import Perplexity, cross_entropy, perplexity
from stacktrans.inference.scores import Scores, score
from stacktrans.memory import make_memory
from stacktrans.model import checkpoint
from stacktrans.model.controllers import GateNoise
from stacktrans.model.definition import Unrolled
from stacktrans.model.torch_backend import predictor_of
from stacktrans.model.transducer import Carried, Transducer
from stacktrans.settings.config import RunConfig, TaskLengths
from stacktrans.settings.training_config import ExamplesConfig, StreamConfig
from stacktrans.settings.values import Loss
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLength, Task
from stacktrans.tasks.corpus import PARTS, Corpus, encode_sentences, read_sentences, vocabulary_of
from stacktrans.tasks.layout import Batch, Pair
from stacktrans.tasks.lines import DEV, TEST, TRAIN
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.sets import PairSet, unknown_probabilities
from stacktrans.training.records import Accuracy, Record, Summary
from stacktrans.training.state import Count, StatefulPart

FIRST_LOOK = 100
"""Strings that are looked at first: validation continues only while the task may be solved."""
ENOUGH_SYMBOLS = 10_000
"""Symbols that are enough to tell how frequent each is."""
SYMBOLS_FOR_ALL = 2000
"""A batch of so many symbols has no fewer than a model knows, unless it knows more than this: what
is in every few batches alone is hardly learned."""
MOST_BATCHES = 100
"""Batches that these are taken from at most."""

Ran = tuple[Batch, Unrolled]
"""A batch, and the result of running a model over it."""

LONGEST_SHARE = 0.1
"""The share of the development set, its longest sources, that is measured by itself."""


class Moment(NamedTuple):
    """A point in a run.

    Attributes:
        attempt: number of the attempt, from 1.
        step: number of its batches that are done.
        share: of the training lengths, from the shortest on, that it is time for.
        loss: mean of recent losses, nats a symbol; None before there is one.
    """

    attempt: int
    step: int
    share: float = 1.0
    loss: float | None = None


class Source(StatefulPart, ABC):
    """What a run is trained on, attempt after attempt, and measured by: drawn strings by default.

    What it gives depends on the run's seed and on the moment alone, so that a run that is
    interrupted and resumed comes to the same. What it must remember besides is its state.

    Attributes:
        config: of the run, with all that the source has learned of the task.
        notes: what is to be said of the data before the run begins, a sentence each.
        threads: that measure a model when training is over; meanwhile, others may need the cores.
    """

    name = "source"

    def __init__(self, config: RunConfig, task: Task) -> None:
        self.config, self.task, self.layout = config, task, task.layout
        self.notes: Sequence[str] = ()
        self.threads = config.workers
        self._law = functools.cache(self._law_of)

    @cached_property
    def ranges(self) -> TaskLengths:
        """The lengths of the strings; raises `UsageError` if none are drawn."""
        return self.config.task.ranges

    def check(self) -> None:
        """Raise `StacktransError` if there is nothing to train on, or to measure by."""
        for lengths in (self.ranges.train, self.ranges.test):
            self.strings(Purpose.VALIDATION, Moment(1, 0), lengths, 1)

    def strings(
        self, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *further: int
    ) -> list[Pair]:
        """Draw `count` strings; `further` numbers tell draws of one purpose and moment apart."""
        rng = generator(self.config.seed, purpose, moment.attempt, moment.step, *further)
        return self._sample(rng, lengths, count, self._law(purpose, lengths))

    def _sample(
        self, rng: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        return self.task.sample(rng, lengths, count, law)

    def _law_of(self, purpose: Purpose, lengths: Lengths) -> LengthLaw:
        """How lengths are spread; a part of the training lengths is drawn from as all of them."""
        task, own = self.config.task, self.config.training.length_law
        if purpose is Purpose.TRAINING and own:
            return own
        return task.law_of(lengths if lengths == self.ranges.test else self.ranges.train)

    def begin(self, model: Transducer) -> None:
        """Go to the first batch of an attempt; its newly drawn model may be changed."""

    @abstractmethod
    def unroll(self, model: Transducer, moment: Moment, noise: GateNoise) -> Ran:
        """Run a model, with some noise, over the batch of a moment, which follows the last."""

    @abstractmethod
    def due(self, step: int) -> tuple[bool, bool]:
        """After `step` batches, whether weights are measured and saved, and whether recorded."""

    @property
    def resumable(self) -> bool:
        """Whether the next batch follows from the state that is saved now."""
        return True

    def first_share(self, attempt: int) -> float:
        """The share of the training lengths to begin with, so that some string is that short."""
        curriculum = self.config.training.curriculum
        share = curriculum.share if curriculum else 1.0
        while curriculum and share < 1:
            with suppress(NoSuchLength):
                self.strings(Purpose.TRAINING, Moment(attempt, 0), self._shortest(share), 1)
                return share
            share = min(1.0, share * curriculum.growth)
        return share

    @abstractmethod
    def batch(self, moment: Moment) -> Batch:
        """What is trained on at a moment of the first epoch."""

    @cached_property
    def _guessing(self) -> float:
        """Nats a symbol of guessing by how frequent symbols are in the first batches."""
        counts = np.zeros(self.layout.outputs)
        for step in range(MOST_BATCHES):
            batch = self.batch(Moment(1, step))
            counts += np.bincount(batch.targets[batch.mask], minlength=len(counts))
            if counts.sum() >= ENOUGH_SYMBOLS:
                break
        shares = counts[counts > 0] / counts.sum()
        return float(-(shares * np.log(shares)).sum())

    def nats(self, loss: Loss) -> float:
        """A loss, which may be a share of that of guessing, in nats a symbol."""
        if isinstance(loss, str):
            return float(loss.removesuffix("%")) / 100 * self._guessing
        return loss

    def lengths(self, share: float) -> Lengths | None:
        """The lengths that a record tells of, if there are any."""
        return self._shortest(share)

    def _shortest(self, share: float) -> Lengths:
        shortest, longest = self.ranges.train
        return Lengths(shortest, shortest + math.ceil(share * (longest - shortest)))

    @abstractmethod
    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        """Fill in what is measured of weights."""

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        """Fill in how good the weights are that a run has kept."""
        summary.train, summary.test = self.accuracies(model, Purpose.SUMMARY, moment)

    def tested(self, model: Transducer, moment: Moment, most: int | None = None) -> Accuracy:
        """Accuracy on the strings that the `test` of a summary is measured on, or the first."""
        count = self.config.training.measure.strings
        count = min(count, most or count)
        return self._accuracy(model, Purpose.SUMMARY, moment, self.ranges.test, count)

    def validation(self, moment: Moment) -> list[Pair]:
        """Strings of both ranges that show whether rounding or pruning does harm."""
        ranges, count = (self.ranges.train, self.ranges.test), self.config.training.measure.strings
        drawn = (self.strings(Purpose.VALIDATION, moment, each, count) for each in ranges)
        return [pair for pairs in drawn for pair in pairs]

    def accuracies(
        self, model: Transducer, purpose: Purpose, moment: Moment
    ) -> tuple[Accuracy, Accuracy]:
        """Accuracy on training lengths and on lengths of the test range."""
        count, solved = self.config.training.measure.strings, self.config.training.solved
        # Those of training lengths are few where they do not decide.
        few = min(FIRST_LOOK, count) if solved.ranges == "test" else count
        train = self._accuracy(model, purpose, moment, self.ranges.train, few)
        return train, self._accuracy(model, purpose, moment, self.ranges.test, count)

    def _score(self, model: Transducer, pairs: Sequence[Pair]) -> Scores:
        return score(predictor_of(model), self.layout, pairs)

    def _accuracy_on(self, model: Transducer, pairs: Sequence[Pair]) -> Accuracy:
        return Accuracy.of(self._score(model, pairs))

    def _accuracy(
        self, model: Transducer, purpose: Purpose, moment: Moment, lengths: Lengths, count: int
    ) -> Accuracy:
        """Accuracy on `count` strings; validation stops once too many are wrong."""
        allowed = count
        if purpose is Purpose.VALIDATION:
            allowed -= math.ceil(count * self.config.training.solved.accuracy)
        scores: Scores | None = None
        while scores is None or (scores.count < count and scores.wrong <= allowed):
            done = scores.count if scores else 0
            size = min(max(FIRST_LOOK, 2 * done), count - done)
            found = self._score(model, self.strings(purpose, moment, lengths, size, done))
            scores = scores + found if scores else found
        return Accuracy.of(scores)


class Strings(Source):
    """Draws new strings for each batch, and others to measure by."""

    def __init__(self, config: RunConfig, task: Task) -> None:
        super().__init__(config, task)
        self._in_a_row = config.training.sequences if self.layout.consecutive else 1
        self._rows = functools.cache(self._rows_of)

    def batch(self, moment: Moment) -> Batch:
        """The batch of a moment."""
        lengths = self._shortest(moment.share)
        rows = self._rows(lengths)
        pairs = self.strings(Purpose.TRAINING, moment, lengths, rows * self._in_a_row)
        return self.layout.batch([pairs[row::rows] for row in range(rows)])

    def _rows_of(self, lengths: Lengths) -> int:
        """How many sequences a batch has of strings of these lengths."""
        training = self.config.training
        if not training.batch_symbols:
            return training.batch_strings
        symbols = max(training.batch_symbols, min(self.layout.inputs, SYMBOLS_FOR_ALL))
        drawn = self.strings(Purpose.TRAINING, Moment(1, 0), lengths, FIRST_LOOK)
        mean = sum(pair.length for pair in drawn) / len(drawn)
        return max(1, round(symbols / mean / self._in_a_row))

    def unroll(self, model: Transducer, moment: Moment, noise: GateNoise) -> Ran:
        batch = self.batch(moment)
        inputs = torch.from_numpy(batch.inputs).to(model.classifier.weight.device)
        return batch, model.unroll(inputs, batch.lengths, noise)

    def due(self, step: int) -> tuple[bool, bool]:
        measures = self.config.training.measure
        measured = step % measures.accuracy_every == 0
        return measured, measured or step % measures.loss_every == 0

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        limit, loss = self.config.training.measure.accuracy_loss, moment.loss
        if limit is None or (loss is not None and loss < self.nats(limit)):
            record.train, record.test = self.accuracies(model, Purpose.VALIDATION, moment)


class Examples(Strings):
    """Sets that are drawn once: for training, in a new order each epoch, development and test.

    See hao2018, section 5. An epoch has `epoch` batches, the last of which may be smaller.
    """

    def __init__(self, config: RunConfig, task: Task, sizes: ExamplesConfig) -> None:
        super().__init__(config, task)
        self.train = self._drawn(0, self.ranges.train, sizes.train)
        self.development = self._drawn(1, self.ranges.train, sizes.development)
        self._test_size = sizes.test
        self.epoch = -(-sizes.train // config.training.batch_strings)
        self._order = functools.lru_cache(maxsize=1)(self._ordered)

    def _drawn(self, which: int, lengths: Lengths, count: int) -> list[Pair]:
        rng = generator(self.config.seed, Purpose.EXAMPLES, which)
        return self.task.sample(rng, lengths, count, self.config.task.law_of(lengths))

    @cached_property
    def test(self) -> list[Pair]:
        """Drawn only when it is needed, since long strings take their time."""
        return self._drawn(2, self.ranges.test, self._test_size)

    def batch(self, moment: Moment) -> Batch:
        return self.layout.batch([[pair] for pair in self.chosen(moment)])

    def chosen(self, moment: Moment) -> list[Pair]:
        """The examples of a moment's batch."""
        epoch, place = divmod(moment.step, self.epoch)
        size = self.config.training.batch_strings
        order = self._order(moment.attempt, epoch)[place * size : (place + 1) * size]
        return [self.train[index] for index in order]

    def _ordered(self, attempt: int, epoch: int) -> Ids:
        rng = generator(self.config.seed, Purpose.EXAMPLES, 3, attempt, epoch)
        return rng.permutation(len(self.train))

    def due(self, step: int) -> tuple[bool, bool]:
        ended = step % self.epoch == 0
        return ended, ended

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        record.development = self._accuracy_on(model, self.development)

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.train = self._accuracy_on(model, self.train)
        summary.development = self._accuracy_on(model, self.development)
        summary.test = self.tested(model, moment)

    def tested(self, model: Transducer, moment: Moment, most: int | None = None) -> Accuracy:
        return self._accuracy_on(model, self.test[:most])


class Files(Strings):
    """Draws each batch from the training set, and measures on the others.

    Now and then a symbol that is rare in the training set is read as an unknown one, so that the
    model learns to do without. The test set is used for the summary alone.

    Raises:
        UsageError: a file can't be read, or is not what it was when the run began.
        StacktransError: a line is not a pair.
    """

    def __init__(self, config: RunConfig, task: Pairs) -> None:
        super().__init__(config, task)
        data = task.data
        self._train, development, self._test = (data.sets[part] for part in (TRAIN, DEV, TEST))
        self._chances = unknown_probabilities(self._train, len(task.source))
        self._unknown = task.source.unknowns()
        self.notes = data.notes
        self.development = self._some(development, 0)

    def _some(self, pairs: PairSet, which: int) -> list[Pair]:
        """As many of the pairs as are measured, at random but always the same."""
        most = self.config.training.measure.strings
        if len(pairs) <= most:
            return list[Pair](pairs)
        rng = generator(self.config.seed, Purpose.EXAMPLES, which)
        return [pairs[index] for index in np.sort(rng.permutation(len(pairs))[:most]).tolist()]

    def check(self) -> None:
        self.strings(Purpose.TRAINING, Moment(1, 0), self.ranges.train, 1)

    def _sample(
        self, rng: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        """Draw `count` pairs of the training set, with some rare symbols of sources unknown."""
        pairs = []
        for pair in self._train.draw(rng, lengths, count, law):
            ids = pair.source
            unknown = rng.random(len(ids)) < self._chances[ids]
            pairs.append(pair._replace(source=np.where(unknown, self._unknown[ids], ids)))
        return pairs

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        scores = self._score(model, self.development)
        record.development = Accuracy.of(scores)
        longer = self._longer(moment.share)
        record.train, record.test = (_accuracy(scores, chosen) for chosen in (~longer, longer))
        record.longest = _accuracy(scores, self._longer(1.0))

    def accuracies(
        self, model: Transducer, purpose: Purpose, moment: Moment
    ) -> tuple[Accuracy, Accuracy]:
        """Accuracy on the shorter and the longer development strings, or on all of them."""
        scores = self._score(model, self.development)
        longer, whole = self._longer(moment.share), Accuracy.of(scores)
        return _accuracy(scores, ~longer) or whole, _accuracy(scores, longer) or whole

    def _longer(self, share: float) -> Mask:
        """[n] which development sources are longer than those trained on, or the longest of all."""
        sizes = np.array([pair.length for pair in self.development])
        if share < 1:
            longer: Mask = sizes > self._shortest(share).longest
        else:
            longest = np.argsort(sizes, kind="stable")[-math.ceil(LONGEST_SHARE * len(sizes)) :]
            # If all are equally long, none is longer than others.
            longer = np.isin(np.arange(len(sizes)), longest) & (sizes > sizes.min())
        return longer

    def validation(self, moment: Moment) -> list[Pair]:
        return self.development

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.train = self._accuracy_on(model, self._some(self._train, 1))
        summary.development = self._accuracy_on(model, self.development)
        summary.test = self.tested(model, moment)

    def tested(self, model: Transducer, moment: Moment, most: int | None = None) -> Accuracy:
        return self._accuracy_on(model, [*self._test[:most]])


def _accuracy(scores: Scores, chosen: Mask) -> Accuracy | None:
    """Accuracy on some of the strings, if there are any."""
    if not chosen.any():
        return None
    return Accuracy.of(scores.of(chosen))


class StreamPiece(NamedTuple):
    """T steps of B streams, or fewer at the end of all, and whether the streams begin with them."""

    batch: Batch
    begins: bool


def cut(batch: Batch, steps: int) -> Iterator[StreamPiece]:
    """The pieces, of `steps` steps, of streams that begin anew."""
    count, longest = batch.inputs.shape
    for begin in range(0, longest, steps):
        part = np.s_[:, begin : begin + steps]
        inputs = batch.inputs[part]
        lengths = [inputs.shape[1]] * count
        piece = Batch(inputs, batch.targets[part], batch.mask[part], lengths)
        yield StreamPiece(piece, begin == 0)


class Pieces(Source):
    """Goes through pieces, epoch after epoch; each continues from the state the last one left.

    That state is not saved, so that a run is resumed where an epoch begins.
    """

    epoch: Count = 0
    """The epoch of the attempt that begins next, from 0."""

    def __init__(self, config: RunConfig, task: Task) -> None:
        super().__init__(config, task)
        self._begin_epoch(0)

    @abstractmethod
    def pieces(self, attempt: int, epoch: int) -> list[StreamPiece]:
        """The pieces of an epoch of an attempt."""

    def check(self) -> None:
        make_memory(self.config.model).check_carries()
        if self.task.sampled:
            super().check()

    def batch(self, moment: Moment) -> Batch:
        pieces = self.pieces(moment.attempt, 0)
        return pieces[moment.step % len(pieces)].batch

    def begin(self, model: Transducer) -> None:
        self._begin_epoch(0)

    def _begin_epoch(self, number: int) -> None:
        self.epoch, self._left = number, list[StreamPiece]()
        self._carried: Carried | None = None

    def unroll(self, model: Transducer, moment: Moment, noise: GateNoise) -> Ran:
        self._left = self._left or self.pieces(moment.attempt, self.epoch)[::-1]
        piece = self._left.pop()
        carried = None if piece.begins else self._carried
        inputs = torch.from_numpy(piece.batch.inputs).to(model.classifier.weight.device)
        unrolled, self._carried = model.unroll_piece(inputs, carried, noise)
        if not self._left:
            self._begin_epoch(self.epoch + 1)
        return piece.batch, unrolled

    @property
    def resumable(self) -> bool:
        return not self._left

    def due(self, step: int) -> tuple[bool, bool]:
        return self.resumable, self.resumable


class Streams(Pieces):
    """Unsegmented streams of sequences, others in each epoch (joulin2015, section 4)."""

    def __init__(self, config: RunConfig, task: Task, stream: StreamConfig) -> None:
        super().__init__(config, task)
        if task.layout.kind != "stream":
            raise UsageError(f"training.data.stream: task {config.task.name} is not a stream")
        if stream.sequences is None:
            place = "training.data.stream.sequences"
            raise UsageError(f"{place}: null is for a text; expected a number")
        self._sequences, self._steps = stream.sequences, stream.steps

    def pieces(self, attempt: int, epoch: int) -> list[StreamPiece]:
        rng = generator(self.config.seed, Purpose.TRAINING, attempt, epoch)
        law, rows = self.config.task.law_of(self.ranges.train), self.config.training.batch_strings
        pairs = self.task.sample(rng, self.lengths_of(epoch), self._sequences, law)
        streams, every = [pairs[row::rows] for row in range(rows)], StreamConfig.EMPTY_AFTER
        pieces = list[StreamPiece]()
        for first in range(0, max(map(len, streams)), every):
            parts = [stream[first : first + every] for stream in streams]
            pieces += cut(self.layout.batch(parts, everything=True), self._steps)
        return pieces

    def lengths_of(self, epoch: int) -> Lengths:
        """The lengths of an epoch, from 0: the longest grows by one an epoch."""
        shortest, longest = self.ranges.train
        first = max(shortest, StreamConfig.FIRST_LONGEST)
        return Lengths(shortest, min(longest, first + epoch))

    def lengths(self, share: float) -> Lengths:
        """Those of the epoch that has just ended."""
        return self.lengths_of(self.epoch - 1)

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        count = self.config.training.measure.strings
        pairs = self.strings(Purpose.VALIDATION, moment, self.ranges.train, count)
        record.validation = cross_entropy(predictor_of(model), self.layout, pairs)
        record.train, record.test = self.accuracies(model, Purpose.VALIDATION, moment)


def pieces_of(text: Ids, count: int, steps: int) -> Iterator[StreamPiece]:
    """The pieces of a text, [N + 1], whose `count` parts of equal length are read side by side.

    The last part may be shorter; the first symbol is read but not predicted.
    """
    length = -(-(len(text) - 1) // count)
    shape, padding = (count, length), count * length + 1 - len(text)
    padded = np.pad(text, (0, padding))
    inputs, targets = padded[:-1].reshape(shape), padded[1:].reshape(shape)
    mask = (np.arange(count * length) < len(text) - 1).reshape(shape)
    return cut(Batch(inputs, targets, mask, [length] * count), steps)


class Texts(Pieces):
    """The three parts of a text, one of which is trained on (joulin2015, section 5.3).

    The task that is saved has the symbols that the model knows, so that the files are not needed
    any more.

    Attributes:
        texts: the text's parts, each [N + 1].

    Raises:
        UsageError: a file is not named or can't be read, or a setting is not for a text.
        StacktransError: a file's line is not text, or it has none.
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
            before: Sequence[str] = ()
            if config.start_from:  # whose model knows these
                place = checkpoint.locate(config.start_from.checkpoint)
                before = checkpoint.read_config(place).make_task().source.symbols
            known = vocabulary_of(corpus, sentences["train"], before)
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
        self._cut = list(pieces_of(self.texts["train"], training.batch_strings, steps))

    def begin(self, model: Transducer) -> None:
        """Have a model that knows nothing predict each symbol as often as it comes.

        Otherwise it learns that first, by driving all its units the same way until they do not
        react to anything any more, those that see many cells of stacks most of all.
        """
        super().begin(model)
        if self.config.model.controller.biases:
            counts = np.bincount(self.texts["train"][1:], minlength=len(self.vocabulary)) + 1
            with torch.no_grad():
                model.classifier.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def pieces(self, attempt: int, epoch: int) -> list[StreamPiece]:
        return self._cut

    def due(self, step: int) -> tuple[bool, bool]:
        loss_every = self.config.training.measure.loss_every
        return self.resumable, self.resumable or step % loss_every == 0

    def lengths(self, share: float) -> None:
        return None

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        record.validation = self._perplexity(model, "valid").nats

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.texts = {part: self._perplexity(model, part) for part in ("valid", "test")}

    def _perplexity(self, model: Transducer, part: str) -> Perplexity:
        return perplexity(predictor_of(model), self.vocabulary, self.texts[part])
