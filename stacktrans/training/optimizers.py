"""Optimizers of torch for the weights of a model, their steps, and checks of their states."""

import copy
import inspect
import math
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.optim import Optimizer

from stacktrans.model.transducer import Transducer
from stacktrans.settings.training_config import TrainingConfig
from stacktrans.training.stateful import check_keys, check_same_structure, check_value

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


def check_optimizer(
    state: Any, model: Transducer, training: TrainingConfig, auxiliary: nn.Module | None = None
) -> None:
    """Raise `ValueError` unless a state is one that the optimizer of `make_optimizer` can have.

    Its learning rates may have fallen, or have changed when the run settled; weights that have
    never had a gradient have no state.
    """
    optimizer = make_optimizer(*copy.deepcopy((model, training, auxiliary)))
    for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
        weight.grad = torch.zeros_like(weight)
    update_weights(optimizer)
    expected = optimizer.state_dict()
    check_keys("optimizer", state, expected)
    groups, of_weights = state["param_groups"], state["state"]
    largest = max(1.0, training.settle.rate if training.settle else 1.0) * (1 + 1e-9)
    pairs = zip(groups, expected["param_groups"], strict=False) if isinstance(groups, list) else ()
    for number, (group, fresh) in enumerate(pairs):
        rate = group.get("lr") if isinstance(group, dict) else None
        in_range = isinstance(rate, float) and 0 <= rate <= fresh["lr"] * largest
        check_value(f"optimizer.param_groups.{number}.lr", rate, in_range)
        fresh["lr"] = rate
    if isinstance(of_weights, dict):
        expected["state"] = {
            index: buffers for index, buffers in expected["state"].items() if index in of_weights
        }
    check_same_structure("optimizer", state, expected)
