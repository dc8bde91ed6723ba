"""Weights that follow others as a running mean."""

import copy
from typing import Any

import torch

from stacktrans.model.transducer import Transducer
from stacktrans.training.state import check_alike, check_value


class RunningMean:
    """A model whose weights follow those of another as a running mean.

    Args:
        model: the other.
        decay: share that is kept at each update; at the first, nothing is.

    Attributes:
        model: the model that follows.
    """

    def __init__(self, model: Transducer, decay: float) -> None:
        self.model = copy.deepcopy(model)
        self._from = [weight.detach() for weight in model.parameters()]
        self._to = [weight.detach() for weight in self.model.parameters()]
        self._share = 1 - decay
        self._begun = False

    @torch.no_grad()
    def update(self) -> None:
        """Follow the other model's weights."""
        torch._foreach_lerp_(self._to, self._from, self._share if self._begun else 1.0)
        self._begun = True

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        return {"model": self.model.state_dict(), "begun": self._begun}

    def check(self, state: Any) -> None:
        """Raise `ValueError` naming what `load_state_dict` can't be given."""
        begun = state.get("begun") if isinstance(state, dict) else None
        check_value("average.begun", begun, isinstance(begun, bool))
        check_alike("average", state, {**self.state_dict(), "begun": begun})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another running mean was."""
        self.model.load_state_dict(state["model"])
        self._begun = bool(state["begun"])
