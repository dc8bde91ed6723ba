"""Ensembles: several models as one, by the mean of their probabilities of each output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from stacktrans.common.errors import OVERFLOW
from stacktrans.decoding.decoder import log_softmax
from stacktrans.decoding.model import Discretizable, Numbers, SoftInput
from stacktrans.tasks.alphabets import Ids, Mask


class Ensemble:
    """Models of one layout, without buffers, as one model, whose state is the list of theirs."""

    failure: ClassVar[str] = f"{OVERFLOW}; or a machine has no rule here"
    is_deterministic: ClassVar[bool] = False
    buffers = None

    def __init__(self, members: Sequence[Discretizable]) -> None:
        self._members, self.outputs = members, members[0].outputs
        self.threads = min(member.threads for member in members)
        self.hard = all(member.hard for member in members)

    def discretized(self, hard: bool = True) -> Ensemble:
        """See `Discretizable.discretized`."""
        return Ensemble([member.discretized(hard) for member in self._members])

    def start(self, batch: int, steps: int = 0) -> list[Any]:
        """See `Model.start`."""
        return [member.start(batch, steps) for member in self._members]

    def advance(
        self, state: list[Any], ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        """The logarithms of the mean probabilities; see `Model.advance`."""
        logs = []
        for member, own in zip(self._members, state, strict=True):
            logits = member.advance(own, ids, requested)
            # A machine may have no output here; it then adds nothing to any.
            logs.append(np.where(logits == -np.inf, -np.inf, log_softmax(logits)))
        with np.errstate(invalid="ignore"):  # of a machine without a rule, which gives NaN
            mean: Numbers = np.logaddexp.reduce(logs) - np.log(len(logs))
        return mean

    def select(self, state: list[Any], items: Ids) -> list[Any]:
        """See `Model.select`."""
        return [member.select(own, items) for member, own in zip(self._members, state, strict=True)]
