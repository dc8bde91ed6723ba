"""Streams cut into pieces for truncated backpropagation (joulin2015, section 4)."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from stacktrans.memory import make_memory
from stacktrans.model.controllers import GateNoise
from stacktrans.model.transducer import Carried, Transducer
from stacktrans.settings.config import RunConfig, TaskConfig
from stacktrans.tasks.layouts import Batch, Layout, Mask
from stacktrans.training.source import Moment, Ran, Source
from stacktrans.training.state import Count


class Piece(NamedTuple):
    """T steps of B streams, or fewer at the end of all.

    Attributes:
        batch: what is read and scored; where a stream has ended nothing is scored.
        new: [B] which streams begin anew with it.
    """

    batch: Batch
    new: Mask


def cut(batch: Batch, steps: int) -> Iterator[Piece]:
    """The pieces, of so many steps, of streams that begin anew."""
    count, longest = batch.inputs.shape
    for begin in range(0, longest, steps):
        part = np.s_[:, begin : begin + steps]
        inputs = batch.inputs[part]
        lengths = [inputs.shape[1]] * count
        piece = Batch(inputs, batch.targets[part], batch.mask[part], lengths)
        yield Piece(piece, np.full(count, begin == 0))


class InPieces(Source):
    """Goes through pieces, epoch after epoch; what streams carry goes on from piece to piece.

    What they carry is not saved, so that a run is resumed where an epoch begins.

    Attributes:
        epoch: of the start, that begins next, from 0.
    """

    epoch: Count = 0

    def __init__(self, config: RunConfig, task: TaskConfig, layout: Layout) -> None:
        super().__init__(task, layout)
        self._memory = make_memory(config.model)
        self._begin_epoch(0)

    @abstractmethod
    def pieces(self, attempt: int, epoch: int) -> list[Piece]:
        """The pieces of an epoch of a start."""

    def check(self) -> None:
        """Raise `UsageError` if nothing of the memory goes on from piece to piece."""
        self._memory.check_carries()

    def begin(self, model: Transducer) -> None:
        self._begin_epoch(0)

    def _begin_epoch(self, number: int) -> None:
        self.epoch, self._left = number, list[Piece]()
        self._carried: Carried | None = None

    def unroll(self, model: Transducer, moment: Moment, noise: GateNoise) -> Ran:
        self._left = self._left or self.pieces(moment.attempt, self.epoch)[::-1]
        piece = self._left.pop()
        carried = self._carried and self._carried.restarted(torch.from_numpy(piece.new))
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
