"""Whether no machine agrees with a run's solution, after which the run looks for another."""

from collections.abc import Callable
from contextlib import suppress

from stacktrans.common.errors import StacktransError
from stacktrans.extraction.learner import Learner, compare
from stacktrans.extraction.limits import CannotExtract
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.lengths import Lengths, NoSuchLaw, NoSuchLength
from stacktrans.training.sources import MUCH_LONGER

TIME_LIMIT = 30.0
"""Seconds after which learning a machine ends."""
STRINGS = 1000
"""Strings on which the machine has to agree with the model."""


def lacks_machine(checkpoint: Checkpoint, is_cancelled: Callable[[], bool]) -> bool:
    """Whether no machine is found that agrees with a model, on much longer strings as well.

    False for a kind of model from which no machine can be extracted.

    Args:
        checkpoint: of the model, which is discrete.
        is_cancelled: whether to give up soon.
    """
    try:
        learner = Learner(checkpoint, TIME_LIMIT, brief=True, is_cancelled=is_cancelled)
    except CannotExtract:
        return False
    shortest, longest = checkpoint.config.task.ranges.train
    try:
        extraction = learner.learn()
        if not checkpoint.task.file_parameters:  # which have no others
            with suppress(NoSuchLaw, NoSuchLength):
                lengths = Lengths(shortest, MUCH_LONGER * longest)
                extraction = compare(checkpoint, extraction, STRINGS, lengths)
    except StacktransError:
        return True
    return any(each.agreeing < each.strings for each in extraction.agreement)
