"""How weights are changed by gradients."""

from typing import Any

import torch

from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import TrainingConfig


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
            weights, lr=rate, betas=(0.9, config.smoothing), weight_decay=decay, fused=True
        )
    if config.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=rate, weight_decay=decay, foreach=True)
    return torch.optim.RMSprop(
        weights, lr=rate, alpha=config.smoothing, weight_decay=decay, foreach=True
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
