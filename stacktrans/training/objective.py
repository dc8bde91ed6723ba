"""What training minimises, and how the weights follow: optimisers, and the mean of weights."""

import copy
import inspect
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stacktrans.memory.buffers import buffer_penalty
from stacktrans.model.definition import Unrolled
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import BUFFER_SIGNALS
from stacktrans.settings.training_config import TrainingConfig
from stacktrans.tasks.layout import Batch
from stacktrans.training.state import check_alike, check_keys, check_value

T = TypeVar("T", bound=Optimizer)
_DECORATED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
"""The methods of all optimizers that load what `torch.compile` needs when they are first called."""


def _alone(optimizer: type[T]) -> type[T]:
    """An optimizer of torch without what it loads for `torch.compile`.

    Loading that takes each process nearly a second before its first batch, and nothing is compiled
    by it here. Its methods are those of the given optimizer without their decorators.
    """
    methods = {name: inspect.unwrap(getattr(Optimizer, name)) for name in _DECORATED}
    step = torch.no_grad()(inspect.unwrap(optimizer.step))
    return cast(type[T], type(optimizer.__name__, (optimizer,), {**methods, "step": step}))


Adam = _alone(torch.optim.Adam)
RMSprop = _alone(torch.optim.RMSprop)
SGD = _alone(torch.optim.SGD)


class Objective(NamedTuple):
    """The losses of a batch.

    Attributes:
        minimised: [] with its gradients.
        loss: [] cross-entropy in nats, summed over all scored symbols.
        scored: number of these; 1 if there are none.
        signals: [steps, signals] of all strings' steps.
    """

    minimised: Tensor
    loss: Tensor
    scored: int
    signals: Tensor


def indecision(strengths: Tensor) -> Tensor:
    """The mean of s (1 - s), which is 0 where every strength is 0 or 1; 0 for no strengths."""
    return (strengths * (1 - strengths)).sum() / max(strengths.numel(), 1)


def objective(
    model: Transducer, config: RunConfig, batch: Batch, unrolled: Unrolled, settled: bool
) -> Objective:
    """Cross-entropy, the cost of undecided signals once `settled`, and that of idle buffers."""
    training = config.training
    device = unrolled.signals.device
    targets, mask = (torch.from_numpy(each).to(device) for each in (batch.targets, batch.mask))
    logits = model.logits(unrolled, mask)
    loss = nn.functional.cross_entropy(logits, targets[mask], reduction="sum")
    scored = max(len(logits), 1)
    # Shorter strings are padded.
    taken = torch.tensor(unrolled.steps or batch.lengths).unsqueeze(1)
    steps = torch.arange(unrolled.signals.shape[1]) < taken
    signals = unrolled.signals[steps.to(device)]
    shares = {"symbol": scored, "string": len(batch.lengths), "batch": 1}
    minimised = loss / shares[training.loss_per]
    if settled and training.settle and training.settle.sharpening:
        minimised = minimised + training.settle.sharpening * indecision(signals)
    if config.model.buffers:
        minimised = minimised + buffer_penalty(signals[:, -len(BUFFER_SIGNALS) :])
    return Objective(minimised, loss.detach(), scored, signals)


def make_optimizer(
    model: Transducer, config: TrainingConfig, beside: nn.Module | None = None
) -> torch.optim.Optimizer:
    """The optimiser that a configuration asks for, of a model and of what is learned beside it."""
    rate = config.learning_rate
    weights: list[Any] = [*model.parameters(), *(beside.parameters() if beside else ())]
    if config.read_rate != 1:
        reading = set(model.controller.read_weights)
        others = [weight for weight in weights if weight not in reading]
        weights = [{"params": others}, {"params": [*reading], "lr": rate * config.read_rate}]
    shared: Any = {"lr": rate, "weight_decay": config.weight_decay}
    if config.optimizer == "adam":
        return Adam(weights, betas=(0.9, 0.999), fused=True, **shared)
    if config.optimizer == "sgd":
        return SGD(weights, foreach=True, **shared)
    return RMSprop(weights, alpha=0.9, foreach=True, **shared)


def stepped(optimizer: torch.optim.Optimizer) -> bool:
    """Change the weights by their gradients; False if the learning rate makes them overflow."""
    try:
        optimizer.step()
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        return False
    return True


def check_optimizer(
    found: Any, model: Transducer, training: TrainingConfig, beside: nn.Module | None = None
) -> None:
    """Raise `ValueError` unless a state is one that the optimiser of `make_optimizer` can have.

    Its learning rates may have fallen, or have changed when the run settled; weights that have
    never had a gradient have no state.
    """
    trained, also = copy.deepcopy((model, beside))
    optimizer = make_optimizer(trained, training, also)
    for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
        weight.grad = torch.zeros_like(weight)
    stepped(optimizer)
    expected = optimizer.state_dict()
    check_keys("optimizer", found, expected)
    groups, state = found["param_groups"], found["state"]
    most = max(1.0, training.settle.rate if training.settle else 1.0) * (1 + 1e-9)
    pairs = zip(groups, expected["param_groups"], strict=False) if isinstance(groups, list) else ()
    for number, (group, other) in enumerate(pairs):
        rate = group.get("lr") if isinstance(group, dict) else None
        right = isinstance(rate, float) and 0 <= rate <= other["lr"] * most
        check_value(f"optimizer.param_groups.{number}.lr", rate, right)
        other["lr"] = rate
    if isinstance(state, dict):
        expected["state"] = {key: part for key, part in expected["state"].items() if key in state}
    check_alike("optimizer", found, expected)


class RunningMean:
    """A model whose weights follow those of another as a running mean.

    `decay` is the share that is kept at each update; at the first, nothing is.
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
        """Take up a state; raises `ValueError` naming what it can't have been."""
        begun = found.get("begun") if isinstance(found, dict) else None
        check_value("average.begun", begun, isinstance(begun, bool))
        check_alike("average", found, {**self.state_dict(), "begun": begun})
        self.model.load_state_dict(found["model"])
        self._begun = bool(begun)


class SourcePrediction(nn.Module):
    """A classifier over a model's own read-out, which is trained with it and not kept.

    An answer of a symbol tells little of what a source should have been remembered by. A source
    that repeats itself tells that at each of its symbols, and what has been learned by that is
    there for the answer.

    Args:
        model: of which sources it is to predict the symbols.
    """

    def __init__(self, model: Transducer) -> None:
        super().__init__()
        self.classifier = nn.Linear(model.classifier.in_features, model.inputs)

    def forward(self, model: Transducer, batch: Batch, unrolled: Unrolled) -> Tensor:
        """The mean cross-entropy, in nats, of what is read after each symbol of a source: [].

        Args:
            model: what was run.
            batch: of sources that are followed by their targets, over which it was run.
            unrolled: what came of that.
        """
        inputs = torch.from_numpy(batch.inputs)
        # All before the first symbol of a target, which the model is trained to say.
        reading = ~torch.from_numpy(batch.mask)
        reading &= torch.arange(inputs.shape[1]) < torch.tensor(batch.lengths).unsqueeze(1)
        shown = model.output(unrolled.hidden[reading.to(unrolled.hidden.device)])
        following = inputs.roll(-1, dims=1)[reading].to(shown.device)
        return nn.functional.cross_entropy(cast(Tensor, self.classifier(shown)), following)
