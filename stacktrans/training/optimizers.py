"""The optimizers of torch, without what they load for `torch.compile`.

That takes each process nearly a second before its first batch, and nothing is compiled here by it.
"""

import inspect
from typing import TypeVar, cast

import torch
from torch.optim import Optimizer

T = TypeVar("T", bound=Optimizer)
_DECORATED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
"""The methods of all optimizers that load it when they are called for the first time."""


def _alone(optimizer: type[T]) -> type[T]:
    """An optimizer whose methods are those of another one without their decorators."""
    methods = {name: inspect.unwrap(getattr(Optimizer, name)) for name in _DECORATED}
    step = torch.no_grad()(inspect.unwrap(optimizer.step))
    return cast(type[T], type(optimizer.__name__, (optimizer,), {**methods, "step": step}))


Adam = _alone(torch.optim.Adam)
RMSprop = _alone(torch.optim.RMSprop)
SGD = _alone(torch.optim.SGD)
