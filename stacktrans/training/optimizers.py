"""Optimizers of torch for the weights of a model, their steps, and their states."""

import inspect
import math
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.optim import Optimizer

from stacktrans.model.transducer import Transducer
from stacktrans.settings.training_config import TrainingConfig

T = TypeVar("T", bound=Optimizer)
WARM_UP = 0.05
"""Share of the batches in which a falling learning rate first rises."""
_DECORATED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
"""Methods of all optimizers whose decorators load `torch.compile` when they are first called."""


def _without_compiler(optimizer: type[T]) -> type[T]:
    """An optimizer class whose methods lack the decorators that load `torch.compile`.

    Loading it takes each process nearly a second before its first batch, for nothing: no optimizer
    is compiled here.
    """
    methods = {name: inspect.unwrap(getattr(Optimizer, name)) for name in _DECORATED}
    step = torch.no_grad()(inspect.unwrap(optimizer.step))
    return cast(type[T], type(optimizer.__name__, (optimizer,), {**methods, "step": step}))


Adam = _without_compiler(torch.optim.Adam)
RMSprop = _without_compiler(torch.optim.RMSprop)
SGD = _without_compiler(torch.optim.SGD)
_BUFFERS = {Adam: ("exp_avg", "exp_avg_sq"), RMSprop: ("square_avg",), SGD: ()}
"""What an optimizer keeps for each weight, and the number of steps; plain SGD keeps neither."""


def make_optimizer(
    model: Transducer, training: TrainingConfig, auxiliary: nn.Module | None = None
) -> Optimizer:
    """The configured optimizer of a model and of an auxiliary module that is trained with it."""
    rate, _ = training.rates
    weights: list[Any] = [*model.parameters(), *(auxiliary.parameters() if auxiliary else ())]
    if training.read_rate != 1:
        reading = set(model.controller.weights_on_reads)
        others = [weight for weight in weights if weight not in reading]
        weights = [{"params": others}, {"params": [*reading], "lr": rate * training.read_rate}]
    options: Any = {"lr": rate, "weight_decay": training.weight_decay}
    if training.optimizer == "adam":
        return Adam(weights, betas=(0.9, 0.999), fused=True, **options)
    if training.optimizer == "sgd":
        return SGD(weights, foreach=True, **options)
    return RMSprop(weights, alpha=0.9, foreach=True, **options)


def rate_factor(training: TrainingConfig, step: int) -> float:
    """The factor on the highest learning rate in the batch after `step` others."""
    if not (isinstance(training.learning_rate, str) and training.max_steps):
        return 1.0
    rising, (highest, last) = math.ceil(WARM_UP * training.max_steps), training.rates
    if step < rising:
        return (step + 1) / rising
    fallen = min((step - rising) / max(training.max_steps - rising, 1), 1.0)
    return float((last / highest) ** fallen)


def update_weights(optimizer: Optimizer) -> bool:
    """Make a step of an optimizer; False if the learning rate makes the weights overflow."""
    try:
        optimizer.step()
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        return False
    return True


def load_optimizer(optimizer: Optimizer, state: Any) -> None:
    """Load a state of `make_optimizer`'s optimizer; of its settings, only the learning rates.

    Raises AttributeError, LookupError, RuntimeError, TypeError or ValueError if it is malformed.
    Shapes and strides are checked because torch does not: some steps read and write as if they were
    those of the weights.
    """
    groups = optimizer.state_dict()["param_groups"]
    for group, saved in zip(groups, state["param_groups"], strict=True):
        group["lr"] = float(saved["lr"])
    optimizer.load_state_dict({"state": state["state"], "param_groups": groups})
    for weight, buffers in optimizer.state.items():
        expected = dict.fromkeys(_BUFFERS[type(optimizer)], (weight.shape, weight.stride()))
        found = {name: (buffer.shape, buffer.stride()) for name, buffer in buffers.items()}
        if found != expected | {"step": ((), ())}:
            raise ValueError("optimizer: its state is that of other weights")
