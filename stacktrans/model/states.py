"""What comes of running a transducer, and what is carried from step to step."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

from torch import Tensor

from stacktrans.memory import MemoryState
from stacktrans.model.controllers import ControllerState


@dataclass(frozen=True, slots=True)
class TransducerState:
    """Everything that a transducer carries from one step to the next.

    Attributes:
        controller: the state of every layer.
        memory: what the memory holds.
        reads: [B, reads * m] the vectors read at the step before; [B, 0] without a memory.
    """

    controller: tuple[ControllerState, ...]
    memory: MemoryState
    reads: Tensor


class Unrolled(NamedTuple):
    """What came of running a transducer over T steps.

    Attributes:
        hidden: [B, T, H] the controller's outputs.
        signals: [B, T, len(signal_names)] strengths of each signal.
        steps: how many of the T each item took; None for all.
    """

    hidden: Tensor
    signals: Tensor
    steps: list[int] | None = None


class Run(Protocol):
    """A transducer at work on B sequences, a piece at a time, without gradients."""

    def step(self, inputs: Tensor) -> Unrolled:
        """The next T steps: ids [B, T]."""


class Carried(Protocol):
    """What B sequences carry from one piece to the next, as constants."""

    def restarted(self, items: Tensor) -> Self:
        """The same, but some of them, [B] bool, begin anew."""


@dataclass(frozen=True, slots=True, eq=False)
class CarriedByDefinition:
    """What is carried in torch; see `Carried`.

    Attributes:
        state: after the last step.
        new: [B] which of the sequences begin anew.
    """

    state: TransducerState
    new: Tensor

    def restarted(self, items: Tensor) -> "CarriedByDefinition":
        """The same, but some of them, [B] bool, begin anew."""
        return replace(self, new=self.new | items)
