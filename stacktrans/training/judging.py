"""Which strings decide when a run stops, and on which others it is reported, in words.

They are drawn for different purposes (`randomness.Purpose`), and so are never the same draws.
"""

from stacktrans.settings.config import RunConfig


def decided_by(config: RunConfig) -> str:
    """What a run goes by when it stops, and when it keeps weights as its best."""
    training = config.training
    by = _ended_by(config)
    if training.rounding:
        by += (
            f"; what rounding and pruning keep, {training.measure.strings} other fresh validation "
            "strings of either range"
        )
    return by


def _ended_by(config: RunConfig) -> str:
    training = config.training
    if config.task.lengths is None:
        return "the perplexity of the validation text"
    train, test = config.task.lengths.train, config.task.lengths.test
    fresh = f"{training.measure.strings} fresh validation strings"
    if training.stream:
        return f"the loss on {fresh} of lengths {train}, drawn anew after each epoch"
    if training.examples:
        count = training.examples.development
        return f"{count} development strings of lengths {train}, drawn once"
    if training.stop and training.stop.converged:
        return "the training perplexity"
    also = f" and some of lengths {train}" if training.solved.ranges == "both" else ""
    return f"{fresh} of lengths {test}{also}, drawn anew each time"


def reported_on(config: RunConfig) -> str:
    """What the accuracies in a run's summary are measured on."""
    if config.task.lengths is None:
        return "the test text, which decides nothing, and the validation text"
    test, examples = config.task.lengths.test, config.training.examples
    if examples:
        drawn = f"{examples.test} test strings of lengths {test}, which decide nothing"
        return f"{drawn}, and the strings that were trained on"
    return "other strings, drawn for the summary alone"
