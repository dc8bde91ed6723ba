"""Tasks, made by generators.

A new generator is a class beside these and one line in `stacktrans.common.registry`.
"""

import inspect
from typing import Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import GENERATORS
from stacktrans.tasks.base import Task


class TaskError(UsageError):
    """A task can't be made.

    Attributes:
        location: keys and indices that lead to what is wrong in the task's settings.
    """

    def __init__(self, message: str, *location: str | int) -> None:
        self.location = location
        super().__init__(message)


def default_parameters(generator: str) -> dict[str, Any]:
    """The defaults of a generator's parameters that have one."""
    known = inspect.signature(GENERATORS.load(generator)).parameters.values()
    return {each.name: each.default for each in known if each.default is not each.empty}


def make_task(name: str, generator: str, parameters: dict[str, Any]) -> Task:
    """The task that a generator makes with its parameters.

    Raises:
        TaskError: the generator is unknown, or the parameters do not fit it.
    """
    try:
        GENERATORS.check(generator)
    except ValueError as error:
        raise TaskError(f"task {name}: {error}", "generator") from None
    maker = GENERATORS.load(generator)
    known = inspect.signature(maker).parameters
    for parameter in parameters:
        if "parameters" not in known and parameter not in known:
            message = unknown_name("parameter", parameter, known)
            raise TaskError(f"task {name}: {message}", "parameters", parameter)
    try:
        made: Task = maker(**parameters)
        return made
    except (TypeError, ValueError) as error:
        location = getattr(error, "location", ())
        raise TaskError(f"task {name}: parameters: {error}", "parameters", *location) from error
