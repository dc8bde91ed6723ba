"""What a run is trained on and measured by, behind one protocol."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from stacktrans.model.controllers import GateNoise
from stacktrans.model.definition import Unrolled
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import TaskConfig
from stacktrans.tasks.base import Lengths
from stacktrans.tasks.layouts import Batch, Layout, Pair
from stacktrans.training.records import Record, Summary
from stacktrans.training.state import Part

Ran = tuple[Batch, Unrolled]
"""A batch, and what came of running a model over it."""


class Moment(NamedTuple):
    """A point in a run.

    Attributes:
        attempt: which start, from 1.
        step: how many of its batches are done.
        share: of the training lengths, from the shortest on, that it is time for.
        loss: the running one, nats a symbol; None before there is one.
    """

    attempt: int
    step: int
    share: float = 1.0
    loss: float | None = None


class Source(Part, ABC):
    """What a run is trained on, start after start, and measured by.

    What it gives depends on the run's seed and on the moment alone, so that a run that is
    interrupted and resumed comes to the same. What it must remember beside is its state.

    Args:
        task: of the run, with all that the source has learned of it.
        layout: how its strings become what a model reads and says.
    """

    name = "source"

    def __init__(self, task: TaskConfig, layout: Layout) -> None:
        self.task, self.layout = task, layout

    @abstractmethod
    def check(self) -> None:
        """Raise `StacktransError` if there is nothing to train on, or to measure by."""

    @abstractmethod
    def begin(self, model: Transducer) -> None:
        """Go to the first batch of a start; its model has just been drawn, and may be changed."""

    @abstractmethod
    def unroll(self, model: Transducer, moment: Moment, noise: GateNoise) -> Ran:
        """Run a model, with some noise, over the batch of a moment, which follows that before."""

    @abstractmethod
    def due(self, step: int) -> tuple[bool, bool]:
        """After so many batches, whether weights are measured and saved, and whether recorded."""

    @property
    def resumable(self) -> bool:
        """Whether the next batch follows from the state that is saved now."""
        return True

    def first_share(self, attempt: int) -> float:
        """The share of the training lengths that a start begins with."""
        return 1.0

    def lengths(self, share: float) -> Lengths | None:
        """The lengths that a record tells of, if there are any."""
        return None

    @abstractmethod
    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        """Fill in what is measured of weights."""

    @abstractmethod
    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        """Fill in how good the weights are that a run has kept."""

    def validation(self, moment: Moment) -> list[Pair]:
        """Strings by which it is told whether rounding or pruning does harm."""
        return []
