"""Models of the same size: the number of units with which a model is as large as another."""

from bisect import bisect_left

from stacktrans.common.errors import UsageError
from stacktrans.model import checkpoint
from stacktrans.model.transducer import meta_transducer
from stacktrans.settings.config import RunConfig

MOST_UNITS = 2**14
"""The largest hidden size that is tried."""


def count_parameters(config: RunConfig, **changes: int) -> int:
    """The number of parameters of a model, with some settings of its controller changed."""
    controller = config.model.controller.model_copy(update=changes)
    layout = config.make_task().layout
    model = config.model.model_copy(update={"controller": controller})
    transducer = meta_transducer(model, layout.inputs, layout.outputs)
    return sum(weight.numel() for weight in transducer.parameters())


def matching_units(config: RunConfig, parameters: int) -> int:
    """The hidden size with which the number of parameters is closest to a given one.

    Raises:
        UsageError: the controller has no hidden size.
    """
    controller = config.model.controller
    if not hasattr(controller, "hidden_size"):
        raise UsageError(f"controller {controller.name} has no hidden size")
    step = getattr(controller, "heads", 1)
    sizes = range(step, MOST_UNITS + 1, step)

    def count(size: int) -> int:
        return count_parameters(config, hidden_size=size)

    after = bisect_left(sizes, parameters, hi=len(sizes) - 1, key=count)
    nearest = sizes[max(0, after - 1) : after + 1]
    return min(nearest, key=lambda size: abs(count(size) - parameters))


def as_large_as(config: RunConfig, name: str) -> RunConfig:
    """The configuration with the hidden size that gives about the parameters of a trained model.

    Raises:
        CheckpointError: there is no checkpoint of that name, or it is damaged.
        UsageError: the controller has no hidden size.
    """
    wanted = count_parameters(checkpoint.read_config(checkpoint.locate(name)))
    size = {"hidden_size": matching_units(config, wanted)}
    model = config.model
    controller = model.controller.model_copy(update=size)
    return config.model_copy(update={"model": model.model_copy(update={"controller": controller})})
