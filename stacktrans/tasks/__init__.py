"""Task generators. A new one is one file beside these and one entry in `GENERATORS`."""

import inspect
from collections.abc import Callable

from stacktrans.errors import UsageError, unknown_name
from stacktrans.settings import Settings
from stacktrans.tasks.base import Task
from stacktrans.tasks.grammatical import Grammatical
from stacktrans.tasks.rearrangement import BigramFlip, Copy, Reverse

GENERATORS: dict[str, Callable[..., Task]] = {
    "copy": Copy,
    "reverse": Reverse,
    "bigram-flip": BigramFlip,
    "grammar": Grammatical,
}


def make_task(name: str, generator: str, parameters: Settings) -> Task:
    """The task that a generator makes with its parameters.

    Raises:
        UsageError: there is no such generator, or the parameters do not fit it.
    """
    if generator not in GENERATORS:
        raise UsageError(f"task {name}: {unknown_name('generator', generator, GENERATORS)}")
    maker = GENERATORS[generator]
    known = inspect.signature(maker).parameters
    for parameter in parameters:
        if "parameters" not in known and parameter not in known:
            raise UsageError(f"task {name}: {unknown_name('parameter', parameter, known)}")
    try:
        return maker(**parameters)
    except (TypeError, ValueError) as error:
        raise UsageError(f"task {name}: parameters: {error}") from error
