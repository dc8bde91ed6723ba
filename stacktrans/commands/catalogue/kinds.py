"""What can be listed.

Nothing is imported before it is listed: the names of these are completed in a shell.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stacktrans.commands.catalogue.entries import Listing


def tasks() -> "Listing":
    """Tasks to learn, for --task: shipped ones, and those in ./tasks."""
    from stacktrans.commands.catalogue.tasks import tasks

    return tasks()


def generators() -> "Listing":
    """What tasks of your own are made with, and the parameters of each."""
    from stacktrans.commands.catalogue.registered import generators

    return generators()


def memories() -> "Listing":
    """Memories for a controller to operate, for --memory."""
    from stacktrans.commands.catalogue.registered import memories

    return memories()


def controllers() -> "Listing":
    """Networks that operate a memory, for --controller."""
    from stacktrans.commands.catalogue.registered import controllers

    return controllers()


def recipes() -> "Listing":
    """Complete settings of runs, for --recipe."""
    from stacktrans.commands.catalogue.recipes import recipes

    return recipes()


def checkpoints() -> "Listing":
    """Trained models, for CHECKPOINT: shipped ones, and those in ./checkpoints."""
    from stacktrans.commands.catalogue.checkpoints import checkpoints

    return checkpoints()


def settings() -> "Listing":
    """Settings of a run, which --set changes."""
    from stacktrans.commands.catalogue.settings import settings

    return settings()


KINDS: "dict[str, Callable[[], Listing]]" = {
    kind.__name__: kind
    for kind in (tasks, generators, memories, controllers, recipes, checkpoints, settings)
}
