"""Training on an unsegmented stream: epochs of pieces, a falling learning rate, several starts.

joulin2015, section 4.
"""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from stacktrans.common.randomness import Purpose
from stacktrans.inference.evaluation import cross_entropy
from stacktrans.memory import make_memory
from stacktrans.model.states import Carried, Unrolled
from stacktrans.settings.config import StreamConfig
from stacktrans.tasks.base import Lengths
from stacktrans.tasks.layouts import Batch
from stacktrans.training.pieces import Epochs, Piece
from stacktrans.training.records import Record
from stacktrans.training.state import Progress, check_value
from stacktrans.training.trainer import Trainer


class StreamTrainer(Trainer):
    """Runs one training run on a stream, in a directory of its own.

    What is resumed is resumed from the end of an epoch. Arguments and attributes are those of
    `Trainer`.
    """

    @property
    def stream(self) -> StreamConfig:
        """How the stream is cut."""
        assert self.config.training.stream is not None
        return self.config.training.stream

    def _check_draws(self) -> None:
        self._check_carrying()
        self.epochs = Epochs(self.config, self.stream, self.task)
        super()._check_draws()

    def _check_carrying(self) -> None:
        """Raise `UsageError` if nothing of the memory goes on from piece to piece."""
        make_memory(self.config.model).check_carries()

    def _start_attempt(self) -> None:
        super()._start_attempt()
        self._prepare()
        self.progress.epoch = 0
        self._keep()
        self._begin_epoch()

    def _prepare(self) -> None:
        """Make ready what is trained on, for an attempt."""

    def _pieces(self) -> list[Piece]:
        """The pieces of the epoch that begins."""
        return self.epochs.epoch(self.progress.attempt, self.progress.epoch)

    def _begin_epoch(self) -> None:
        self.epoch: list[Piece] | None = None
        self.piece = 0
        self.carried: Carried | None = None

    def _keep(self) -> None:
        """Remember the weights as the best of the attempt."""
        self.kept: dict[str, Tensor] = deepcopy(self.model.state_dict())

    def _unrolled(self) -> tuple[Batch, Unrolled]:
        if self._epoch_ended():
            self.progress.epoch += 1  # there is training after the last epoch, too
            self._begin_epoch()
        if self.epoch is None:
            self.epoch = self._pieces()
        piece = self.epoch[self.piece]
        self.piece += 1
        if self.carried is not None:
            self.carried = self.carried.restarted(torch.from_numpy(piece.new))
        inputs = torch.from_numpy(piece.batch.inputs).to(self.device)
        unrolled, self.carried = self.model.unroll_piece(inputs, self.carried, self._disturbance())
        return piece.batch, unrolled

    def _first_share(self) -> float:
        return 1.0  # what grows is the longest sequence of an epoch

    def _lengths_trained(self) -> Lengths | None:
        return self.epochs.lengths(self.progress.epoch)

    def _epoch_ended(self) -> bool:
        return self.epoch is not None and self.piece == len(self.epoch)

    def _due(self) -> tuple[bool, bool]:
        ended = self._epoch_ended()
        return ended, ended

    def _measure_for(self, record: Record) -> None:
        lengths, training = self.config.task.ranges.train, self.config.training
        pairs = self._draw(Purpose.VALIDATION, lengths, training.validation_count)
        everything = training.loss_over == "all"
        record.validation = cross_entropy(self.evaluated, self.epochs.layout, pairs, everything)
        record.train, record.test = self._measure_both(Purpose.VALIDATION)

    def _judge(self, record: Record) -> str | None:
        """Keep the weights if they are the best, or go back to those with a lower rate."""
        assert record.validation is not None
        progress, merit = self.progress, [-record.validation]
        if not progress.best_of_attempt or merit > progress.best_of_attempt:
            progress.best_of_attempt = merit
            self._keep()
        else:
            self.model.load_state_dict(self.kept)
            for group in self.optimizer.param_groups:
                group["lr"] *= self.stream.rate_decay
        if self._surpasses(merit, progress.best):
            progress.best, progress.best_step = merit, progress.step
            self._save_best(record)
        progress.epoch += 1
        self._begin_epoch()
        return self._judge_start()

    def _judge_start(self) -> str | None:
        """End the start if it has come to its end or is a bad one, and the run with the last."""
        progress, stream = self.progress, self.stream
        entropy, thrown_away = -progress.best_of_attempt[0], False
        if progress.epoch == stream.judged_after:
            progress.judged = [*progress.judged, entropy]
            thrown_away = entropy > sum(progress.judged) / len(progress.judged)
        rate = self.optimizer.param_groups[0]["lr"]
        if rate >= stream.least_rate and progress.epoch < stream.epochs and not thrown_away:
            return None
        if progress.attempt == stream.starts:
            return "starts"
        progress.failed = True
        return None

    def _surpasses(self, merit: list[float], best: list[float]) -> bool:
        return not best or merit > best

    def _may_start_again(self) -> bool:
        return self.progress.attempt < self.stream.starts

    def _needed_next(self) -> range:
        """The next starts, which are all needed, as far as they don't depend on those before."""
        first = self.progress.attempt + 1
        after = min(first + self.config.workers - 1, self.stream.starts + 1)
        return range(first, after if self.stream.judged_after > 1 else first)

    def _waits_for_others(self) -> bool:
        judged_next = self.progress.epoch == self.stream.judged_after - 1
        return super()._waits_for_others() or (judged_next and self.epoch is None)

    def _save_last(self) -> None:
        # In the midst of an epoch there is what no checkpoint holds: what the streams carry. It is
        # of no use any more when all is done.
        if self.epoch is None or self.progress.outcome:
            super()._save_last()

    def _own_state(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def _take_own_state(self, saved: dict[str, Any]) -> None:
        self.kept = saved["kept"]

    def _check_progress(self, progress: Progress) -> None:
        check_value("share", progress.share, progress.share == 1)
        check_value("attempt", progress.attempt, progress.attempt <= self.stream.starts)
        over = progress.epoch > self.stream.epochs  # as it may be in the end, when it is rounded
        check_value("epoch", progress.epoch, not over or progress.outcome is not None)
        check_value("judged", progress.judged, len(progress.judged) <= progress.attempt)
