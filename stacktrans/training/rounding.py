"""Making a model use its memory with hard signals (joulin2015, section 3.3)."""

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from stacktrans.common.randomness import Purpose
from stacktrans.inference.evaluation import score
from stacktrans.model.devices import computing_with
from stacktrans.model.in_torch import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.training_config import ROUNDINGS, TrainingConfig
from stacktrans.tasks.layouts import Layout, Pair
from stacktrans.training.objective import indecision
from stacktrans.training.pruning import Accuracies, as_good, without_needless
from stacktrans.training.state import Part, Weights

if TYPE_CHECKING:
    from stacktrans.training.start import Start

SHARPNESS = 4096.0
"""What the signals of a model are sharpened by that loses nothing when it is hard. Signals are 0 or
1 then, but for those that are within .001 of one half. A power of two, which changes no digit."""

SETTLED_AFTER = 200
"""Batches after which the mean of weights has forgotten those before."""


def rounding_of(training: TrainingConfig) -> "Rounding":
    """What rounds the weights of a run with these settings."""
    chosen = ROUNDINGS[training.rounding] if training.rounding else None
    return LosslessRounding(training) if chosen and chosen.lossless else Rounding(training)


class Rounding(Part):
    """Rounds and prunes the weights that are kept, if asked for, as far as that does no harm."""

    name = "rounding"
    uncertain: Weights | None = None
    """The weights to begin from; None if nothing is to be done now."""

    def __init__(self, training: TrainingConfig) -> None:
        self._rounding = ROUNDINGS[training.rounding] if training.rounding else None
        self._first_rate = training.settle.rate if training.settle else 1.0
        self._solved = training.solved.accuracy

    def certain(
        self, start: "Start", go_on: Callable[[], None], may_fail: bool
    ) -> Transducer | None:
        """The model of the weights `uncertain`: rounded, pruned, and hard where that loses nothing.

        Args:
            start: whose model is trained further; its own weights are lost.
            go_on: called after each batch; may raise what is to end it.
            may_fail: whether to give None if the hard model does not solve the task.
        """
        assert self.uncertain is not None
        best = start.new_model()
        best.load_state_dict(self.uncertain)
        best.eval()
        before = self._measured(best, start)
        if not self._is_certain(before):
            self._fine_tune(start, go_on)
            after = self._measured(start.model, start)
            if not start.is_finite():
                start.draw()  # what is saved must be readable
                start.model.load_state_dict(best.state_dict())
            elif self._is_kept(after, before):
                best, before = start.model, after
            if may_fail and self._has_failed(before):
                return None
        smaller = without_needless(best, lambda model: self._measured(model, start))
        soft, hard = before if smaller is best else self._measured(smaller, start)
        if not hard >= soft > 0:
            return smaller
        sharp = copy.deepcopy(smaller)
        sharp.sharpen(SHARPNESS)
        return sharp

    def _fine_tune(self, start: "Start", go_on: Callable[[], None]) -> None:
        """Train with signals that are ever less undecided; the last weights or the best stay."""
        assert self.uncertain is not None
        assert self._rounding is not None
        rounding = self._rounding
        start.model.load_state_dict(self.uncertain)
        start.renew_optimizer()
        start.multiply_rate(self._first_rate)
        operation, best, kept = start.model.operation, -1.0, self.uncertain
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
            if rounding.best and (worse := min(self._measured(start.model, start))) >= best:
                best, kept = worse, copy.deepcopy(start.model.state_dict())
            if undecided < rounding.indecision:
                break
        if rounding.best:
            start.model.load_state_dict(kept)

    def _measured(self, model: Transducer, start: "Start") -> Accuracies:
        with computing_with(start.source.threads):
            return self._accuracies(model, start)

    def _accuracies(self, model: Transducer, start: "Start") -> Accuracies:
        return accuracies(model, start.source.layout, start.source.validation(start.moment))

    def _is_certain(self, before: Accuracies) -> bool:
        """Whether a model is left as it is; one that is right when hard may not be sure of it."""
        return False

    def _is_kept(self, after: Accuracies, before: Accuracies) -> bool:
        return min(after) >= min(before)

    def _has_failed(self, found: Accuracies) -> bool:
        return min(found) < self._solved


class LosslessRounding(Rounding):
    """Makes a model hard that loses nothing by it, and leaves any other as it is."""

    def _fine_tune(self, start: "Start", go_on: Callable[[], None]) -> None:
        super()._fine_tune(start, go_on)
        # Each of the last weights may be a little wrong, where their mean is not.
        for _ in range(SETTLED_AFTER):
            start.train_on_batch()
            go_on()
        start.model.load_state_dict(start.average.model.state_dict())

    def _accuracies(self, model: Transducer, start: "Start") -> Accuracies:
        """As `accuracies`, on fewer strings if there are wrong ones among the first."""

        def worst() -> float:
            found = start.source.accuracies(model, Purpose.VALIDATION, start.moment)
            return min(each.coarse for each in found)

        soft = worst()
        with model.made_hard(True):
            return soft, worst()

    def _is_certain(self, before: Accuracies) -> bool:
        soft, hard = before
        return hard >= soft

    def _is_kept(self, after: Accuracies, before: Accuracies) -> bool:
        return as_good(after, before)

    def _has_failed(self, found: Accuracies) -> bool:
        return False


def accuracies(model: Transducer, layout: Layout, pairs: Sequence[Pair]) -> Accuracies:
    """How many strings are right, with signals as they are and with signals of 0 or 1."""
    soft = score(predictor_of(model), layout, pairs).coarse_accuracy
    with model.made_hard(True):
        return soft, score(predictor_of(model), layout, pairs).coarse_accuracy
