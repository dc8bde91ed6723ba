"""Making a task from the name of its generator and the parameters of a task file.

A new generator is a class beside these and one line in `stacktrans.common.registry`.
"""

import inspect
from typing import Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import GENERATORS, plugin_error
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.base import Task


class TaskError(UsageError):
    """A task that its settings do not define correctly.

    Attributes:
        location: keys and indices of the wrong value in the task's settings.
    """

    def __init__(self, message: str, *location: str | int) -> None:
        self.location = location
        super().__init__(message)


def default_parameters(generator: str) -> dict[str, Any]:
    """Default values of a generator's parameters; required ones are left out."""
    parameters = inspect.signature(GENERATORS.load(generator)).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def parameters_of(generator: type) -> dict[str, inspect.Parameter]:
    """The parameters of a generator by name, with those that `**` passes on to its base classes."""
    found: dict[str, inspect.Parameter] = {}
    for definer in (base for base in generator.__mro__ if "__init__" in vars(base)):
        own = inspect.signature(definer).parameters.values()
        named = {each.name: each for each in own if each.kind is not each.VAR_KEYWORD}
        found = {**found, **named, **found}  # those of subclasses come first, and prevail
        if len(named) == len(own):
            break
    return found


def make_task(name: str, generator: str, parameters: dict[str, Any]) -> Task:
    """Make a task with a generator; raises `TaskError` for an unknown name or a wrong value."""
    try:
        task_class = GENERATORS.load(generator)
    except ValueError as error:
        raise TaskError(f"task {name}: {error}", "generator") from None
    known = parameters_of(task_class)
    for parameter in parameters:
        if parameter not in known:
            message = unknown_name("parameter", parameter, known)
            raise TaskError(f"task {name}: {message}", "parameters", parameter)
    for parameter, wanted in known.items():
        if wanted.default is wanted.empty and parameter not in parameters:
            message = f"parameters: generator {generator} needs {parameter}"
            raise TaskError(f"task {name}: {message}", "parameters")
    try:
        task: Task = task_class(**parameters)
    except (TypeError, ValueError) as error:
        location = getattr(error, "location", ())
        # A `ValueError` is the generator's message about a wrong value.
        problem = (plugin_error(error) if isinstance(error, TypeError) else None) or error
        raise TaskError(f"task {name}: parameters: {problem}", "parameters", *location) from error
    for side in ("source", "target"):
        if not isinstance(getattr(task, side, None), Alphabet):
            problem = f"generator {generator} does not set {side} to an Alphabet"
            raise TaskError(f"task {name}: {problem}", "generator")
    return task
