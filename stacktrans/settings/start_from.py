"""What a run takes over of the configuration of a checkpoint that it starts from."""

from collections.abc import Mapping
from typing import Any

from stacktrans import __version__
from stacktrans.common.errors import UsageError
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import Layer
from stacktrans.settings.packaged import AUTO
from stacktrans.settings.task_config import TaskConfig
from stacktrans.tasks.files import READING

NOT_RACED = "a run that starts from a checkpoint is not raced"


def base_of(config: RunConfig, origin: str, recipe: str | None) -> Layer:
    """What all else that is asked for lies over.

    That is the whole configuration of the checkpoint, but with no starts from other weights; or, if
    a recipe is given, which says how to train, what else there is in it.

    Args:
        config: of the checkpoint.
        origin: where it stands, for messages.
        recipe: its name; None to train as the checkpoint was trained.

    Raises:
        UsageError: the recipe is a race.
    """
    if recipe == AUTO:
        raise UsageError(f"recipe {AUTO}: {NOT_RACED}; expected another, or none")
    settings = config.model_dump() | {"version": __version__, "start_from": None}
    training = settings["training"]
    training["restart"] = None
    if config.training.stream:
        training["data"]["stream"]["starts"] = 1
    if recipe is not None:
        settings = {name: settings[name] for name in ("seed", "threads", "task", "model")}
        settings["training"] = {"restart": None}
    return Layer(origin, settings)


def written_like(task: TaskConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """How new pairs in files are to be read: as those of a task were, unless given otherwise.

    Args:
        task: of the checkpoint.
        given: parameters of `stacktrans.tasks.pairs.Pairs`; None for those not given.
    """
    known = task.parameters if task.generator == "pairs" else {}
    like = {name: known.get(name) for name in READING}
    if given.get("columns") is not None:
        like["header"] = None  # which columns that are given decide
    return like | {name: value for name, value in given.items() if value is not None}
