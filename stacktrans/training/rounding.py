"""Fine-tune a trained model to hard signals (joulin2015, 3.3), with no needless memories."""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from stacktrans.common.randomness import Purpose
from stacktrans.model.devices import computing_with
from stacktrans.model.transducer import Transducer
from stacktrans.settings.training_config import RoundingName
from stacktrans.tasks.layout import Pair
from stacktrans.training.attempt import Attempt
from stacktrans.training.objective import indecision
from stacktrans.training.pruning import prunable, pruned, smallest
from stacktrans.training.sources import DataSource
from stacktrans.training.stateful import StatefulPart, Weights

SHARPNESS = 4096.0
"""Factor that sharpens the signals of a model that loses nothing when it is hard. Signals are then
0 or 1, but for those within .001 of one half. A power of two, which changes no digit."""

AVERAGING_BATCHES = 200
"""Batches after which the moving average has forgotten the weights before."""

NEARLY_RIGHT = 0.9
"""Least accuracy on very short and on very long strings for which a discrete model is trained
further: a new attempt would take longer, and might be no better."""
MAX_CORRECTIONS = 5
"""How often it is trained further."""

RELEARNED = ("50%", "5%")
"""Losses under which that of a model without one of its memories must fall within the first and the
second half of `RELEARNING`, or it is given up."""
RELEARNING, LONGEST_RELEARNING = 100, 200
"""Batches after which it is measured whether it has relearned its task, and the most of them."""

SoftHardAccuracy = tuple[float, float]
"""Coarse accuracy of a model as it is, and with hard signals."""


class RoundingKind(NamedTuple):
    """A kind of rounding: fine-tuning that makes signals discrete (joulin2015, section 3.3).

    Attributes:
        factor: on the weights of the signals in each round.
        batches: number of batches in a round.
        indecision: mean of s (1 - s) over all signals s under which the fine-tuning ends.
        max_rounds: largest number of rounds.
        rate: factor on the learning rate in each round.
        keep_best: whether to keep the most accurate weights of all rounds (the last of these),
            instead of those of the last round.
        lossless: whether the result is kept only if no accuracy, soft or hard, is lower.
    """

    factor: float
    batches: int
    indecision: float
    max_rounds: int
    rate: float = 1.0
    keep_best: bool = False
    lossless: bool = False


_LOSSLESS = RoundingKind(factor=1.1, batches=20, indecision=1e-4, max_rounds=80, lossless=True)
ROUNDINGS: dict[RoundingName, RoundingKind] = {
    "quick": RoundingKind(factor=1.2, batches=20, indecision=1e-4, max_rounds=40),
    "lossless": _LOSSLESS,
    "discrete": _LOSSLESS,
    "machine": _LOSSLESS,
    "published": RoundingKind(factor=1.05, batches=100, indecision=1e-3, max_rounds=100),
    "slow": RoundingKind(factor=1.05, batches=100, indecision=1e-6, max_rounds=40, rate=0.97),
    "thorough": RoundingKind(
        factor=1.05, batches=100, indecision=1e-6, max_rounds=20, rate=0.97, keep_best=True
    ),
}
"""The kinds of rounding by name."""


class Rounding(StatefulPart):
    """Rounds and prunes the best weights of a run as far as that does no harm.

    A lossless kind of rounding, as all are that require a discrete solution, keeps a result only if
    no accuracy falls.

    Args:
        attempt: the attempt that ended the training, which is trained further.

    Attributes:
        weights: the weights to be rounded; None if nothing is to be done now.
    """

    name = "rounding"
    weights: Weights | None = None

    def __init__(self, attempt: Attempt) -> None:
        self.attempt, self._source = attempt, attempt.source
        self._training = attempt.source.config.training

    def round(self, check_stop: Callable[[], None], may_fail: bool) -> Transducer | None:
        """A model with the weights rounded and pruned, and sharpened if that loses nothing.

        The attempt goes back to the weights that were to be rounded.

        Args:
            check_stop: called after each batch; may raise an exception to stop.
            may_fail: whether to return None if the hard model does not solve the task or, where a
                discrete solution is required, is wrong on very short or much longer strings.
        """
        attempt, self._check_stop = self.attempt, check_stop
        assert self.weights is not None
        assert self._training.rounding  # otherwise, there are never weights to be rounded
        self._kind = ROUNDINGS[self._training.rounding]
        # All models are measured on the same strings; otherwise, differences could be chance.
        self._moment = attempt.moment
        model, loss = attempt.new_model(), attempt.losses.running
        model.load_state_dict(self.weights)
        try:
            return self._rounded(model, may_fail)
        finally:
            # It has the memories of the configuration, and can be saved and trained further.
            attempt.replace_model(model)
            self._settle_rate()
            # The losses of models that are not kept, some of them not finite, say nothing of it.
            attempt.losses.forget()
            attempt.losses.running = loss

    def _rounded(self, best: Transducer, may_fail: bool) -> Transducer | None:
        attempt, lossless = self.attempt, self._kind.lossless
        discrete = self._training.discrete
        before = self._measured(best)
        if discrete:
            best, before = self._with_fewer_memories(best, before)
        # A model that is right when hard may still have signals close to one half.
        soft, hard = before
        if not lossless or hard < soft:
            attempt.replace_model(copy.deepcopy(best))
            self._fine_tune()
            after = self._measured(attempt.model)
            # Of accuracies that may be lost, the lower counts first.
            better = is_as_good(after, before) if lossless else sorted(after) >= sorted(before)
            if better and attempt.is_finite():
                best, before = attempt.model, after
        may_fail = may_fail and self._training.rounding != "lossless"
        if may_fail and not self._solves(before):
            return None
        if not discrete and prunable(best):
            best = smallest(best, lambda model: is_as_good(self._measured(model), before))
            before = self._measured(best)
        if may_fail and discrete:
            if not (corrected := self._corrected(best, before)):
                return None
            best, before = corrected
        soft, hard = before
        if hard >= soft > 0:
            best = copy.deepcopy(best)
            best.sharpen(SHARPNESS)
        return best

    def _with_fewer_memories(
        self, model: Transducer, before: SoftHardAccuracy
    ) -> tuple[Transducer, SoftHardAccuracy]:
        """Remove, from the last on, each memory without which the model relearns its task."""
        for index in reversed(range(len(model.memory.parts))):
            if prunable(model):
                kept = [other for other in range(len(model.memory.parts)) if other != index]
                self.attempt.replace_model(pruned(model, kept))
                if after := self._relearned(before):
                    model, before = self.attempt.model, after
        return model, before

    def _relearned(self, before: SoftHardAccuracy) -> SoftHardAccuracy | None:
        """The accuracies of an attempt's model once they are as good as those before, if soon."""
        losses, batches = self.attempt.losses, 0
        self._settle_rate()
        losses.running = None
        while not is_as_good(after := self._measured(self.attempt.model), before):
            if batches == LONGEST_RELEARNING:
                return None
            batches += RELEARNING
            for most in RELEARNED:
                self._train(RELEARNING // len(RELEARNED))
                if not losses.are_under(self._source.in_nats(most)):
                    return None
        return after

    def _solves(self, measured: SoftHardAccuracy) -> bool:
        """Whether a model with these accuracies solves the task when hard."""
        soft, hard = measured
        least = self._training.solved.accuracy
        return hard >= min(soft, least) if self._kind.lossless else min(measured) >= least

    def _corrected(
        self, model: Transducer, measured: SoftHardAccuracy
    ) -> tuple[Transducer, SoftHardAccuracy] | None:
        """A model that is right on very short and very long strings when hard; its accuracies.

        A model that is nearly right is trained further; None if that does not help.
        """
        for left in reversed(range(1 + MAX_CORRECTIONS)):
            with computing_with(self._source.threads), model.hard_signals():
                accuracy = self._source.generalization(model, self._moment)
            if accuracy >= self._training.solved.accuracy:
                return model, measured
            if accuracy < NEARLY_RIGHT or not left:
                break
            self.attempt.replace_model(copy.deepcopy(model))
            self._settle_rate()
            model = self._averaged()
            if not self._solves(measured := self._measured(model)):
                break
        return None

    def _averaged(self) -> Transducer:
        """The attempt's model with the mean of its weights over the next batches.

        Each of the last weights may be a little wrong, where their mean is not.
        """
        self._train(AVERAGING_BATCHES)
        model = self.attempt.model
        model.load_state_dict(self.attempt.average.state_dict())
        return model

    def _fine_tune(self) -> None:
        """Train with ever sharper signals; keep the last weights or the best."""
        kind, attempt, model = self._kind, self.attempt, self.attempt.model
        self._settle_rate()
        best, kept = -1.0, copy.deepcopy(model.state_dict())
        signals = [*model.operation.signals.parameters()] if model.operation else []
        for _ in range(kind.max_rounds if signals else 0):
            with torch.no_grad():
                for weight in signals:
                    weight.mul_(kind.factor)
            attempt.multiply_rate(kind.rate)
            self._train(kind.batches)
            undecided = float(indecision(attempt.signals))
            if kind.keep_best and (worse := min(self._measured(model))) >= best:
                best, kept = worse, copy.deepcopy(model.state_dict())
            if undecided < kind.indecision:
                break
        if kind.keep_best:
            model.load_state_dict(kept)
        if kind.lossless:
            self._averaged()

    def _settle_rate(self) -> None:
        """Lower the learning rate if the attempt has settled; otherwise the curriculum will."""
        if self._training.settle and self.attempt.curriculum.settled:
            self.attempt.multiply_rate(self._training.settle.rate)

    def _train(self, batches: int) -> None:
        for _ in range(batches):
            self.attempt.train_on_batch()
            self._check_stop()

    def _measured(self, model: Transducer) -> SoftHardAccuracy:
        """Accuracies on validation strings; if lossless, only on some if the first are wrong."""

        def worst() -> float:
            train, test = self._source.accuracies(model, Purpose.VALIDATION, self._moment)
            return min(train.coarse, test.coarse)

        with computing_with(self._source.threads):
            if not self._kind.lossless:
                return soft_and_hard(model, self._source, self._source.validation(self._moment))
            with model.hard_signals():
                hard = worst()
            # One that is right when hard is sharpened, which makes it right when soft.
            return (1.0 if hard == 1 else worst()), hard


def soft_and_hard(model: Transducer, source: DataSource, pairs: Sequence[Pair]) -> SoftHardAccuracy:
    """Coarse accuracy on pairs of a source, with signals as they are and with hard signals."""
    soft = source.score(model, pairs).coarse_accuracy
    with model.hard_signals():
        return soft, source.score(model, pairs).coarse_accuracy


def is_as_good(after: SoftHardAccuracy, before: SoftHardAccuracy) -> bool:
    """Whether neither accuracy has become worse."""
    return all(now >= was for now, was in zip(after, before, strict=True))
