"""Making a model certain of what it does with its memory (joulin2015, section 3.3)."""

import copy
from collections.abc import Callable, Sequence

import torch

from stacktrans.inference.evaluation import score
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RoundingConfig
from stacktrans.tasks.layouts import Layout, Pair
from stacktrans.training.pruning import least, prunable

Accuracies = tuple[float, float]
"""Coarse accuracy of a model as it is, and hard."""


def accuracies(model: Transducer, layout: Layout, pairs: Sequence[Pair]) -> Accuracies:
    """How many strings are right, with signals as they are and with signals of 0 or 1."""
    soft = score(model, layout, pairs).coarse_accuracy
    model.hard = True
    try:
        return soft, score(model, layout, pairs).coarse_accuracy
    finally:
        model.hard = False


def round_signals(
    model: Transducer,
    rounding: RoundingConfig,
    train: Callable[[], float],
    measured: Callable[[Transducer], Accuracies] | None = None,
) -> None:
    """Fine-tune with signals that are ever less undecided.

    Args:
        model: is changed.
        rounding: how.
        train: on as many batches as it takes in between; gives the mean of s (1 - s) over all
            signals.
        measured: by what the best weights on the way are told, which the model is left with;
            None to leave it with the last.
    """
    operation = model.operation
    if operation is None:
        return
    best, kept = -1.0, model.state_dict()
    for _ in range(rounding.most):
        with torch.no_grad():
            for weight in operation.signals.parameters():
                weight.mul_(rounding.factor)
        undecided = train()
        if measured and (worse := min(measured(model))) >= best:
            best, kept = worse, copy.deepcopy(model.state_dict())
        if undecided < rounding.indecision:
            break
    if measured:
        model.load_state_dict(kept)


def without_needless(model: Transducer, measured: Callable[[Transducer], Accuracies]) -> Transducer:
    """The model without the stacks or lists that it does without, be it hard or not."""
    if not prunable(model):
        return model
    whole = measured(model)

    def as_good(smaller: Transducer) -> bool:
        found = measured(smaller)
        return found[0] >= whole[0] and found[1] >= whole[1]

    return least(model, as_good)
