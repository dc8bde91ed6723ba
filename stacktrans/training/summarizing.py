"""Measurements of a run's best weights for its summary: accuracies, also without each part."""

from collections.abc import Callable

from stacktrans.model.ablation import ablatable_parts, ablate
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.devices import computing_with
from stacktrans.training.records import SOLUTIONS, Summary
from stacktrans.training.sources import DataSource, Moment

ABLATION_STRINGS = 200
"""Test strings that a model without one of its parts is measured on."""


def measure_best(
    best: Checkpoint,
    source: DataSource,
    moment: Moment,
    summary: Summary,
    check_stop: Callable[[], None],
) -> None:
    """Complete a summary with what is measured on the best weights.

    Args:
        best: the model with these weights.
        source: what they were trained on.
        moment: the end of training.
        summary: the outcome of the run, to which the measurements are added.
        check_stop: called before each measurement; may raise an exception to end them.
    """
    with computing_with(source.threads):
        check_stop()
        source.report(best.model, moment, summary)
        check_stop()
        if summary.outcome in SOLUTIONS:
            summary.contradictions = source.contradictions(best)
            check_stop()
        if source.config.is_rounded:
            with best.model.hard_signals():
                summary.hard = source.test_accuracy(best.model, moment)
        for part in ablatable_parts(best) if source.config.task.lengths else ():
            check_stop()
            ablated = ablate(best, part).model
            summary.without[part] = source.test_accuracy(ablated, moment, ABLATION_STRINGS)
    summary.model = best.description
