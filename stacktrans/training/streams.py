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
        training = config.training
        if not isinstance(task.layout, Stream):
            raise UsageError(f"training.data.stream: task {config.task.name} is no stream")
        if stream.sequences is None:
            raise UsageError(
                "training.data.stream.sequences: null is for a text; expected a number"
            )
        self._seed, self._drawn_from, self._sequences = config.seed, task, stream.sequences
        self._steps = stream.steps
        self._streams = training.batch_size
        self._validation_count = training.measure.strings
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
        every = StreamConfig.EMPTY_AFTER
        for first in range(0, longest, every):
            parts = [stream[first : first + every] for stream in streams]
            yield from cut(self.layout.joined(parts, True), self._steps)

    def lengths_of(self, epoch: int) -> Lengths:
        """The lengths of an epoch, from 0: the longest grows by one an epoch."""
        shortest, longest = self.task.ranges.train
        first = max(shortest, StreamConfig.FIRST_LONGEST)
        return Lengths(shortest, min(longest, first + epoch))

    def lengths(self, share: float) -> Lengths:
        """Those of the epoch that has just ended."""
        return self.lengths_of(self.epoch - 1)

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        train, count = self.task.ranges.train, self._validation_count
        pairs = self._draws.strings(Purpose.VALIDATION, moment, train, count)
        record.validation = cross_entropy(model, self.layout, pairs, True)
        record.train, record.test = self._draws.measure(model, Purpose.VALIDATION, moment)

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.train, summary.test = self._draws.measure(model, Purpose.SUMMARY, moment)

    def validation(self, moment: Moment) -> list[Pair]:
        return self._draws.validation(moment)
