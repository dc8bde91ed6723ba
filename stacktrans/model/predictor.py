"""What a trained model is to those who use it, whatever runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from stacktrans.decoding.model import Model, Numbers
from stacktrans.settings.model_config import ModelConfig

if TYPE_CHECKING:
    from stacktrans.memory import Memory, Reading


class Predictor(Model, Protocol):
    """A model that is only run."""

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""

    @property
    def memory(self) -> Memory[Any]:
        """Its memory."""

    @property
    def hard(self) -> bool:
        """Whether signals are made 0 or 1."""

    def made_hard(self, hard: bool) -> Self:
        """The same where signals are made 0 or 1, or not."""

    def pushed(self, state: Any) -> Numbers:
        """The vectors that the first string pushed in the last step, [pushes, m]."""

    def reading(self, state: Any, contents: bool = True) -> Reading:
        """What the memory of the first string holds, of a state with room for all its steps.

        Args:
            state: of the model.
            contents: whether all that it holds is asked for, which takes time by the number of
                steps; without, it may be left out.
        """
