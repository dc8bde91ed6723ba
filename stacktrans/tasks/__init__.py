"""Task generators. A new one is one file beside these and one entry in `GENERATORS`."""

import inspect
from collections.abc import Callable
from typing import Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.tasks.base import Task
from stacktrans.tasks.corpus import Corpus
from stacktrans.tasks.grammatical import Grammatical, NextSymbol, SameLengthGrammar
from stacktrans.tasks.rearrangement import BigramFlip, Copy, Reverse
from stacktrans.tasks.same_length import DelayedParity, Parity, WaitingReversal
from stacktrans.tasks.streams import Addition, Counting, Memorization

GENERATORS: dict[str, Callable[..., Task]] = {
    "copy": Copy,
    "reverse": Reverse,
    "bigram-flip": BigramFlip,
    "grammar": Grammatical,
    "same-length-grammar": SameLengthGrammar,
    "next-symbol": NextSymbol,
    "waiting-reversal": WaitingReversal,
    "parity": Parity,
    "delayed-parity": DelayedParity,
    "counting": Counting,
    "memorization": Memorization,
    "addition": Addition,
    "text": Corpus,
}


class TaskError(UsageError):
    """There is no such task.

    Attributes:
        location: keys and indices that lead to what is wrong in the task's settings.
    """

    def __init__(self, message: str, *location: str | int) -> None:
        self.location = location
        super().__init__(message)


def default_parameters(generator: str) -> dict[str, Any]:
    """What a generator's parameters are that are not given, of those that need not be."""
    known = inspect.signature(GENERATORS[generator]).parameters.values()
    return {each.name: each.default for each in known if each.default is not each.empty}


def make_task(name: str, generator: str, parameters: dict[str, Any]) -> Task:
    """The task that a generator makes with its parameters.

    Raises:
        TaskError: there is no such generator, or the parameters do not fit it.
    """
    if generator not in GENERATORS:
        message = unknown_name("generator", generator, GENERATORS)
        raise TaskError(f"task {name}: {message}", "generator")
    maker = GENERATORS[generator]
    known = inspect.signature(maker).parameters
    for parameter in parameters:
        if "parameters" not in known and parameter not in known:
            message = unknown_name("parameter", parameter, known)
            raise TaskError(f"task {name}: {message}", "parameters", parameter)
    try:
        return maker(**parameters)
    except (TypeError, ValueError) as error:
        location = getattr(error, "location", ())
        raise TaskError(f"task {name}: parameters: {error}", "parameters", *location) from error
