"""How weights are changed by gradients, and their running mean."""

import copy
from typing import Any

import torch

from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import TrainingConfig
from stacktrans.training.state import check_alike, check_keys, check_value

SMOOTHING = {"adam": 0.999, "rmsprop": 0.9}
"""Decay of the running mean of squared gradients."""


def make_optimizer(model: Transducer, config: TrainingConfig) -> torch.optim.Optimizer:
    """The optimiser that a configuration asks for."""
    rate, decay = config.learning_rate, config.weight_decay
    weights: list[Any] = list(model.parameters())
    if config.read_rate != 1:
        reading = set(model.controller.read_weights)
        others = [weight for weight in weights if weight not in reading]
        weights = [{"params": others}, {"params": [*reading], "lr": rate * config.read_rate}]
    if config.optimizer == "adam":
        return torch.optim.Adam(
            weights, lr=rate, betas=(0.9, SMOOTHING["adam"]), weight_decay=decay, fused=True
        )
    if config.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=rate, weight_decay=decay, foreach=True)
    return torch.optim.RMSprop(
        weights, lr=rate, alpha=SMOOTHING["rmsprop"], weight_decay=decay, foreach=True
    )


def stepped(optimizer: torch.optim.Optimizer) -> bool:
    """Change the weights by their gradients, unless the learning rate is more than they can hold.

    Returns:
        Whether they were.
    """
    try:
        optimizer.step()
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        return False
    return True


def check_optimizer(found: Any, model: Transducer, training: TrainingConfig) -> None:
    """Raise `ValueError` unless a state is one that the optimiser of a model can have.

    Its learning rates may have fallen, or have changed when the run settled; weights that have
    never had a gradient have no state.
    """
    expected = _state_after_a_batch(model, training)
    check_keys("optimizer", found, expected)
    groups, others = found["param_groups"], expected["param_groups"]
    right = isinstance(groups, list) and len(groups) == len(others)
    check_value("optimizer.param_groups", groups, right)
    most = max(1.0, training.settle.rate if training.settle else 1.0) * (1 + 1e-9)
    for number, (group, other) in enumerate(zip(groups, others, strict=True)):
        name = f"optimizer.param_groups.{number}"
        rate = group.get("lr") if isinstance(group, dict) else None
        right = isinstance(rate, float) and 0 <= rate <= other["lr"] * most
        check_value(f"{name}.lr", rate, right)
        check_alike(name, {**group, "lr": other["lr"]}, other)
    check_value("optimizer.state", found["state"], isinstance(found["state"], dict))
    for key, part in found["state"].items():
        check_value("optimizer.state", key, key in expected["state"])
        check_alike(f"optimizer.state.{key}", part, expected["state"][key])


def _state_after_a_batch(model: Transducer, training: TrainingConfig) -> dict[str, Any]:
    trained = copy.deepcopy(model)
    for weight in trained.parameters():
        weight.grad = torch.zeros_like(weight)
    rate = min(training.learning_rate, 1.0)  # of whatever size, it can be taken a step with
    optimizer = make_optimizer(trained, training.model_copy(update={"learning_rate": rate}))
    optimizer.step()
    state = optimizer.state_dict()
    for group, real in zip(
        state["param_groups"], make_optimizer(trained, training).param_groups, strict=True
    ):
        group["lr"] = real["lr"]
    return state


class RunningMean:
    """A model whose weights follow those of another as a running mean.

    Args:
        model: the other.
        decay: share that is kept at each update; at the first, nothing is.

    Attributes:
        model: the model that follows.
    """

    def __init__(self, model: Transducer, decay: float) -> None:
        self.model = copy.deepcopy(model)
        self._from = [weight.detach() for weight in model.parameters()]
        self._to = [weight.detach() for weight in self.model.parameters()]
        self._share = 1 - decay
        self._begun = False

    @torch.no_grad()
    def update(self) -> None:
        """Follow the other model's weights."""
        torch._foreach_lerp_(self._to, self._from, self._share if self._begun else 1.0)
        self._begun = True

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        return {"model": self.model.state_dict(), "begun": self._begun}

    def load_state_dict(self, found: Any) -> None:
        """Go on from a state; raises `ValueError` naming what it can't have been."""
        begun = found.get("begun") if isinstance(found, dict) else None
        check_value("average.begun", begun, isinstance(begun, bool))
        check_alike("average", found, {**self.state_dict(), "begun": begun})
        self.model.load_state_dict(found["model"])
        self._begun = bool(begun)
