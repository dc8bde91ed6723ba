"""Models of the same size: the number of units with which a model is as large as another."""

from bisect import bisect_left

import torch

from stacktrans.common.errors import UsageError
from stacktrans.model import checkpoint_files
from stacktrans.model.transducer import meta_transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.layout import Layout
from stacktrans.training.make_source import make_source

MAX_UNITS = 2**14
"""The largest hidden size that is tried."""
MAX_RATIO = 1.5
"""The greatest ratio of two numbers of parameters that are about the same."""


def trained_layout(config: RunConfig) -> Layout:
    """The layout of a run's task, with all symbols of its data; raises as `make_source` does."""
    return make_source(config, torch.device("cpu")).layout


def count_parameters(model: ModelConfig, layout: Layout) -> int:
    """The number of parameters of a model for tasks with a layout."""
    return meta_transducer(model, layout.inputs, layout.outputs).parameter_count


def matching_units(config: RunConfig, parameters: int) -> int:
    """The hidden size with which the number of parameters is closest to a given one.

    Raises `UsageError` if the controller has no hidden size, or with none the numbers are about the
    same, and as `make_source` does.
    """
    controller = config.model.controller
    if not hasattr(controller, "hidden_size"):
        raise UsageError(f"controller {controller.name} has no hidden size")
    step = getattr(controller, "heads", 1)
    sizes, layout = range(step, MAX_UNITS + 1, step), trained_layout(config)

    def count(size: int) -> int:
        return count_parameters(with_units(config.model, size), layout)

    after = bisect_left(sizes, parameters, hi=len(sizes) - 1, key=count)
    nearest = sizes[max(0, after - 1) : after + 1]
    best = min(nearest, key=lambda size: abs(count(size) - parameters))
    smaller, larger = sorted((count(best), parameters))
    if larger > MAX_RATIO * smaller:
        problem = f"no hidden size gives a model about {parameters:,} parameters"
        raise UsageError(f"{problem}; the nearest, {best}, gives it {count(best):,}")
    return best


def with_units(model: ModelConfig, hidden_size: int) -> ModelConfig:
    """The configuration of a model, with another hidden size."""
    controller = model.controller.model_copy(update={"hidden_size": hidden_size})
    return model.model_copy(update={"controller": controller})


def as_large_as(config: RunConfig, name: str) -> RunConfig:
    """The configuration with the hidden size that gives about the parameters of a trained model.

    Raises `CheckpointError` if there is no checkpoint of that name, or it is damaged, and as
    `matching_units` does.
    """
    trained = checkpoint_files.read_config(checkpoint_files.locate(name))
    wanted = count_parameters(trained.model, trained.make_task().layout)
    model = with_units(config.model, matching_units(config, wanted))
    return config.model_copy(update={"model": model})
