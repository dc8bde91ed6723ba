"""An unsegmented stream of sequences that are drawn (joulin2015, section 4)."""

from collections.abc import Iterator, Sequence

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.evaluation import cross_entropy
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig, StreamConfig
from stacktrans.tasks.base import Lengths, Task
from stacktrans.tasks.layouts import Pair, Stream
from stacktrans.training.pieces import InPieces, Piece, cut
from stacktrans.training.records import Record, Summary
from stacktrans.training.source import Moment
from stacktrans.training.strings import Draws


class Streams(InPieces):
    """Streams of sequences, others in each epoch.

    Args:
        config: of the run.
        stream: how the streams are cut.
        task: what draws the sequences.

    Raises:
        UsageError: the task is no stream, or does not fit how it is cut.
    """

    def __init__(self, config: RunConfig, stream: StreamConfig, task: Task) -> None:
        super().__init__(config, config.task, task.layout)
        training, first = config.training, stream.first_longest
        shortest = config.task.ranges.train.shortest
        if not isinstance(task.layout, Stream):
            raise UsageError(f"training.stream: task {config.task.name} is no stream")
        if stream.sequences is None:
            raise UsageError("training.stream.sequences: null is for a text; expected a number")
        if first is not None and first < shortest:
            raise UsageError(
                f"training.stream.first_longest: {first} is under the shortest training length, "
                f"{shortest}"
            )
        self._seed, self._drawn_from, self._sequences = config.seed, task, stream.sequences
        self._steps, self._empty_after = stream.steps, stream.empty_after
        self._first_longest = first
        self._streams, self._everything = training.batch_size, training.loss_over == "all"
        self._validation_count = training.validation_count
        self._draws = Draws(config, task)

    def check(self) -> None:
        super().check()
        self._draws.check()

    def pieces(self, attempt: int, epoch: int) -> list[Piece]:
        rng = generator(self._seed, Purpose.TRAINING, attempt, epoch)
        law = self.task.law_of(self.task.ranges.train)
        lengths = self.lengths_of(epoch)
        pairs = self._drawn_from.sample(rng, lengths, self._sequences, law)
        return list(self._cut([pairs[row :: self._streams] for row in range(self._streams)]))

    def _cut(self, streams: Sequence[Sequence[Pair]]) -> Iterator[Piece]:
        longest = max(map(len, streams))
        every = self._empty_after or longest
        for first in range(0, longest, every):
            parts = [stream[first : first + every] for stream in streams]
            yield from cut(self.layout.joined(parts, self._everything), self._steps)

    def lengths_of(self, epoch: int) -> Lengths:
        """The lengths of an epoch, from 0: the longest grows by one an epoch."""
        (shortest, longest), first = self.task.ranges.train, self._first_longest
        return Lengths(shortest, longest if first is None else min(longest, first + epoch))

    def lengths(self, share: float) -> Lengths:
        """Those of the epoch that has just ended."""
        return self.lengths_of(self.epoch - 1)

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        train, count = self.task.ranges.train, self._validation_count
        pairs = self._draws.strings(Purpose.VALIDATION, moment, train, count)
        record.validation = cross_entropy(model, self.layout, pairs, self._everything)
        record.train, record.test = self._draws.measure(model, Purpose.VALIDATION, moment)

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.train, summary.test = self._draws.measure(model, Purpose.SUMMARY, moment)

    def validation(self, moment: Moment) -> list[Pair]:
        return self._draws.validation(moment)
