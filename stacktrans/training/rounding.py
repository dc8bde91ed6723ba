"""Making a model certain of what it does with its memory (joulin2015, section 3.3)."""

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from stacktrans.inference.evaluation import score
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import ROUNDINGS, RoundingConfig, TrainingConfig
from stacktrans.tasks.layouts import Layout, Pair
from stacktrans.training.objective import indecision
from stacktrans.training.pruning import least, prunable
from stacktrans.training.state import Part, Weights

if TYPE_CHECKING:
    from stacktrans.training.start import Start

Accuracies = tuple[float, float]
"""Coarse accuracy of a model as it is, and hard."""


class Rounding(Part):
    """Rounds and prunes the weights that are kept, if asked for, as far as that does no harm.

    Attributes:
        asked: whether anything is to be done when a rule has ended a start.
        uncertain: the weights of which the others are made; None if nothing is to be done now.
    """

    name = "rounding"
    uncertain: Weights | None = None

    def __init__(self, training: TrainingConfig) -> None:
        self._rounding = ROUNDINGS[training.rounding] if training.rounding else None
        self._first_rate = training.settle.rate if training.settle else 1.0
        self._solved = training.solved.accuracy
        self.asked = self._rounding is not None

    def certain(
        self, start: "Start", go_on: Callable[[], None], may_fail: bool
    ) -> Transducer | None:
        """What becomes of `uncertain`, rounded if it is as good without degrees, and pruned.

        Args:
            start: whose model is trained further; what it has learned is over.
            go_on: called after each batch; may raise what is to end it.
            may_fail: whether to give up if the task is not solved without degrees.

        Returns:
            The model; None if it was given up.
        """
        assert self.uncertain is not None
        assert self._rounding is not None

        def measured(model: Transducer) -> Accuracies:
            return accuracies(model, start.source.layout, start.source.validation(start.moment))

        best = start.new_model()
        best.load_state_dict(self.uncertain)
        best.eval()
        before = measured(best)
        self._fine_tune(self._rounding, start, go_on, measured)
        after = measured(start.model)
        if not start.is_finite():
            start.draw()  # what is saved must be readable
            start.model.load_state_dict(best.state_dict())
        elif min(after) >= min(before):
            best, before = start.model, after
        if may_fail and min(before) < self._solved:
            return None
        return without_needless(best, measured)

    def _fine_tune(
        self,
        rounding: RoundingConfig,
        start: "Start",
        go_on: Callable[[], None],
        measured: Callable[[Transducer], Accuracies],
    ) -> None:
        """Train with signals that are ever less undecided; the last weights or the best stay."""
        start.model.load_state_dict(self.uncertain or {})
        start.renew_optimizer()
        start.multiply_rate(self._first_rate)
        operation, best, kept = start.model.operation, -1.0, self.uncertain or {}
        signals = list(operation.signals.parameters()) if operation else []
        for _ in range(rounding.most if signals else 0):
            with torch.no_grad():
                for weight in signals:
                    weight.mul_(rounding.factor)
            start.multiply_rate(rounding.rate)
            for _ in range(rounding.batches):
                start.train_on_batch()
                go_on()
            undecided = float(indecision(start.signals))
            if rounding.best and (worse := min(measured(start.model))) >= best:
                best, kept = worse, copy.deepcopy(start.model.state_dict())
            if undecided < rounding.indecision:
                break
        if rounding.best:
            start.model.load_state_dict(kept)


def accuracies(model: Transducer, layout: Layout, pairs: Sequence[Pair]) -> Accuracies:
    """How many strings are right, with signals as they are and with signals of 0 or 1."""
    soft = score(model, layout, pairs).coarse_accuracy
    model.hard = True
    try:
        return soft, score(model, layout, pairs).coarse_accuracy
    finally:
        model.hard = False


def without_needless(model: Transducer, measured: Callable[[Transducer], Accuracies]) -> Transducer:
    """The model without the stacks or lists that it does without, be it hard or not."""
    if not prunable(model):
        return model
    whole = measured(model)

    def as_good(smaller: Transducer) -> bool:
        found = measured(smaller)
        return found[0] >= whole[0] and found[1] >= whole[1]

    return least(model, as_good)
