"""An attempt of a run: a model that learns, its loss and its updates, and when the next begins."""

import copy
import inspect
import math
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import torch
from pydantic import Field, StrictBool
from torch import Tensor, nn
from torch.optim import Optimizer

from stacktrans.common.randomness import Purpose, generator
from stacktrans.memory.buffers import buffer_penalty
from stacktrans.model.controllers import GateNoise, no_noise
from stacktrans.model.definition import Unrolled
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import BUFFER_SIGNALS
from stacktrans.settings.training_config import CurriculumConfig, TrainingConfig
from stacktrans.tasks.layout import Batch
from stacktrans.training.initial_weights import FirstWeights, start_tied
from stacktrans.training.records import Record
from stacktrans.training.sources import Moment, Source
from stacktrans.training.state import (
    Count,
    Number,
    StatefulPart,
    check_keys,
    check_same_structure,
    check_value,
)
from stacktrans.training.stopping import rule_of

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
    check_same_structure("optimizer", found, expected)


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
        check_same_structure("average", found, {**self.state_dict(), "begun": begun})
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


RUNNING_DECAY = 0.95
"""Decay of the mean of recent losses."""


class Losses(StatefulPart):
    """The losses of an attempt's batches, nats a symbol.

    Attributes:
        step: number of all of them.
        running: mean of recent ones; None before there is one.
        total: sum of those since the last record.
        count: number of these.
    """

    name = "losses"
    step: Count = 0
    running: Number | None = None
    total: Number = 0.0
    count: Count = 0

    def note(self, loss: float) -> None:
        """Note the loss of a batch."""
        self.step += 1
        self.total += loss
        self.count += 1
        if self.running is None:
            self.running = loss
        self.running += (1 - RUNNING_DECAY) * (loss - self.running)

    def under(self, loss: float) -> bool:
        """Whether the mean of recent losses is under another."""
        return self.running is not None and self.running < loss

    def taken(self) -> float:
        """The mean since the last record, for the next."""
        mean = self.total / self.count
        self.total, self.count = 0.0, 0
        return mean

    def forget(self) -> None:
        """Forget all but how many there were."""
        self.running, self.total, self.count = None, 0.0, 0

    def check_state(self) -> None:
        check_value("losses.count", self.count, self.count <= self.step)


class Curriculum(StatefulPart):
    """Has the strings of an attempt grow longer.

    Attributes:
        share: of the training lengths, from the shortest on, that is trained on.
        since: the batches that the attempt had when these lengths began.
    """

    name = "curriculum"
    share: Annotated[Number, Field(gt=0, le=1)]
    since: Count = 0

    def __init__(self, settings: CurriculumConfig | None, source: Source, number: int) -> None:
        self._settings, self._source = settings, source
        self._first = self.share = source.first_share(number)

    def lengthen(self, losses: Losses) -> None:
        """Train on longer strings if those so far are learned well enough."""
        settings = self._settings
        if settings and losses.under(self._source.nats(settings.loss)):
            self.share = min(1.0, self.share * settings.growth)
            self.since = losses.step
            losses.running = None

    def check_state(self) -> None:
        check_value("curriculum.share", self.share, self.share >= self._first)


class Settling(StatefulPart):
    """Whether the loss has been so low that the learning rate has fallen, which it does once."""

    name = "settling"
    settled: StrictBool = False


class Attempts(StatefulPart):
    """The attempts of a run: one after another until one takes off, or as many as asked for.

    Attributes:
        number: number of the attempt, from 1.
        began: the batches of those before.
        failed: whether it has come to its end, so that the next begins.
        judged: the loss of each that was compared with those before.
    """

    name = "attempts"
    number: Annotated[Count, Field(ge=1)]
    began: Count = 0
    failed: StrictBool = False
    judged: list[Number]

    def __init__(self, config: RunConfig, number: int = 1) -> None:
        training = config.training
        self._restart, self._workers = training.restart, config.workers
        self._most = training.stream.attempts if training.stream else None
        self.number, self.judged = number, []

    @property
    def more_wanted(self) -> bool:
        """Whether attempts come after this one even if it comes to its end."""
        return self._most is not None and self.number < self._most

    @property
    def another_allowed(self) -> bool:
        """Whether another may begin if this one fails."""
        return self._restart is not None if self._most is None else self.more_wanted

    def failure(self, attempt: "Attempt") -> str | None:
        """Why an attempt is to be given up after a batch, if it is."""
        if self._restart is None:
            return None
        low = (attempt.losses.running or 0.0) <= attempt.source.nats(self._restart.loss)
        if attempt.step - attempt.curriculum.since == self._restart.after and not low:
            return (
                "the run has not taken off" if not attempt.curriculum.since else "the run is stuck"
            )
        over = attempt.step == self._restart.give_up_after
        return "the attempt has not ended the run" if over else None

    def needed(self, step: int) -> range:
        """The next attempts that may be needed after `step` batches, one for each other worker."""
        first, restart = self.number + 1, self._restart
        after = first + self._workers - 1
        if self._most is not None:  # all are needed, as far as they don't depend on this one
            return range(first, min(after, self._most + 1))
        limit = (restart.after or restart.give_up_after) if restart else None
        over = limit is None or (step >= limit and not self.failed)
        return range(first, first if over else after)

    def worse_than_before(self, loss: float) -> bool:
        """Whether an attempt with this loss is worse than the mean so far."""
        self.judged = [*self.judged, loss]
        return loss > sum(self.judged) / len(self.judged)

    def begin_next(self, step: int) -> None:
        """Go to the next attempt, after so many batches of the run."""
        self.number, self.began, self.failed = self.number + 1, step, False

    def check_state(self) -> None:
        allowed = self._most is None or self.number <= self._most
        check_value("attempts.number", self.number, allowed)
        check_value("attempts.judged", self.judged, len(self.judged) <= self.number)


def gate_noise(config: RunConfig, moment: Moment) -> GateNoise:
    """The noise of a batch, drawn by the run's seed and by the moment alone."""
    deviation = config.training.gate_noise
    if not deviation:
        return no_noise
    rng = generator(config.seed, Purpose.NOISE, moment.attempt, moment.step)
    source = torch.Generator().manual_seed(int(rng.integers(2**62)))

    def noisy(sums: Tensor) -> Tensor:
        # Drawn on the CPU, so that it is the same on every accelerator.
        noise = torch.randn(sums.shape, generator=source, dtype=sums.dtype)
        return sums + deviation * noise.to(sums.device)

    return noisy


class Attempt:
    """A model that has learned nothing yet in this run, and all that is to change it.

    Args:
        source: of what is learned.
        device: where to compute.
        attempts: of the run, of which this is the latest.
        rounding: what is saved with it of how it will be rounded.
        first: gives the weights to begin with; None for those that are drawn.

    Attributes:
        average: the running mean of its weights, which is measured and kept.
        signals: [steps, signals] of the last batch.
    """

    def __init__(
        self,
        source: Source,
        device: torch.device,
        attempts: Attempts,
        rounding: StatefulPart,
        first: FirstWeights | None = None,
    ) -> None:
        self._config, self._training = source.config, source.config.training
        self._attempts, self._number, self.source = attempts, attempts.number, source
        self._device, self._clip = device, self._training.gradient_clip
        self.losses, self.settling = Losses(), Settling()
        self.curriculum = Curriculum(self._training.curriculum, source, self._number)
        self._rounding = rounding
        self.draw()
        if first:
            for model in (self.model, self.average.model):
                first(model)
            if not self._training.stream:  # which has sequences grow longer by itself
                self._pass_over_what_is_learned()
        self.rule = rule_of(self._config, attempts.worse_than_before, self.model.state_dict())

    def draw(self) -> None:
        """Begin with the weights that the seed and the attempt say, and with the first batch."""
        rng = generator(self._config.seed, Purpose.WEIGHTS, self._number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            self.model = self.new_model()
            self._prediction: SourcePrediction | None = None
            if self._training.source_loss:
                self._prediction = SourcePrediction(self.model).to(self._device)
        beside = self._prediction.parameters() if self._prediction else ()
        self.weights = [*self.model.parameters(), *beside]
        self.average = RunningMean(self.model, self._training.averaging)
        self.renew_optimizer()
        self.source.begin(self.model)

    def new_model(self) -> Transducer:
        """A model of this shape, with other weights."""
        layout = self.source.layout
        own = self._config.model_of(self._number)
        model = Transducer(own, layout.inputs, layout.outputs)
        if own.initialization.same_symbols:
            start_tied(model, *layout.roles(self.source.task.source, self.source.task.target))
        model.config = self._config.model  # how its weights started is not what it is
        return model.to(self._device)

    def renew_optimizer(self) -> None:
        """Forget the gradients so far, and begin with the first learning rate."""
        self.optimizer = make_optimizer(self.model, self._training, self._prediction)

    @property
    def rate(self) -> float:
        """The learning rate."""
        rate: float = self.optimizer.param_groups[0]["lr"]
        return rate

    def multiply_rate(self, factor: float) -> None:
        """Change the learning rate, and those that are shares of it."""
        for group in self.optimizer.param_groups:
            group["lr"] *= factor

    @property
    def step(self) -> int:
        """Batches trained on."""
        return self.losses.step

    @property
    def run_step(self) -> int:
        """Batches that the run was trained on, those of the attempts before included."""
        return self._attempts.began + self.step

    @property
    def moment(self) -> Moment:
        """Where it is."""
        return Moment(self._number, self.step, self.curriculum.share, self.losses.running)

    def train_on_batch(self) -> None:
        """One update of the weights, and what follows from its loss."""
        moment = self.moment
        noise = gate_noise(self._config, moment)
        batch, unrolled = self.source.unroll(self.model, moment, noise)
        found = objective(self.model, self._config, batch, unrolled, self.settling.settled)
        minimised = found.minimised
        if self._prediction and not self.settling.settled:
            cost = self._prediction(self.model, batch, unrolled)
            minimised = minimised + self._training.source_loss * cost
        self.signals = found.signals.detach()
        self.optimizer.zero_grad()
        minimised.backward()
        learned = self._learn()
        self.losses.note(float(found.loss) / found.scored if learned else math.nan)
        self._follow_loss()

    def _learn(self) -> bool:
        """Change the weights by their gradients; whether these, and the step, are finite."""
        if self._clip and self._clip.value:
            nn.utils.clip_grad_value_(self.weights, self._clip.value, foreach=True)
        most = (self._clip and self._clip.norm) or math.inf
        norm = nn.utils.clip_grad_norm_(self.weights, most, foreach=True)
        if not torch.isfinite(norm) or not stepped(self.optimizer):
            return False
        self.average.update()
        return True

    def _follow_loss(self) -> None:
        """Train on longer strings, or settle, if the loss is low enough."""
        settle, settling = self._training.settle, self.settling
        if self.curriculum.share < 1:
            self.curriculum.lengthen(self.losses)
        elif settle and not settling.settled and self.losses.under(self.source.nats(settle.loss)):
            settling.settled = True
            self.multiply_rate(settle.rate)

    @torch.no_grad()
    def _pass_over_what_is_learned(self) -> None:
        """Lengthen strings and settle as far as the loss allows before anything is trained.

        Otherwise the first updates, whose size does not depend on how small gradients are, would
        be those of a model that has everything to learn, and have a solved one fail.
        """
        looked_at = None
        while looked_at != (now := (self.curriculum.share, self.settling.settled)):
            looked_at = now
            batch, unrolled = self.source.unroll(self.model, self.moment, no_noise)
            found = objective(self.model, self._config, batch, unrolled, settled=False)
            self.losses.running = float(found.loss) / found.scored
            self._follow_loss()
        self.losses.forget()

    def record(self, seconds: float) -> Record:
        """The record of the batches after so many seconds, without measurements."""
        loss, means = self.losses.taken(), self.signals.mean(dim=0).tolist()
        return Record(
            step=self.run_step,
            attempt=self._number,
            seconds=seconds,
            loss=loss,
            perplexity=math.exp(min(loss, 700.0)),
            learning_rate=self.rate,
            lengths=self.source.lengths(self.curriculum.share),
            signals=dict(zip(self.model.signal_names, means, strict=True)),
            discreteness=1 - 4 * float(indecision(self.signals)),
        )

    def is_finite(self) -> bool:
        """Whether weights and optimiser can be saved and read again."""
        states = [part for state in self.optimizer.state.values() for part in state.values()]
        averaged = self.average.model.parameters()
        tensors = [*self.weights, *averaged, *filter(torch.is_tensor, states)]
        return all(bool(tensor.isfinite().all()) for tensor in tensors)

    @property
    def _parts(self) -> tuple[StatefulPart, ...]:
        own = (self.losses, self.curriculum, self.settling)
        return (*own, self.rule, self._rounding, self.source)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes; the model's weights are saved apart."""
        state = {part.name: part.state_dict() for part in self._parts}
        more = {"optimizer": self.optimizer.state_dict(), "average": self.average.state_dict()}
        if self._prediction:
            more["prediction"] = self._prediction.state_dict()
        return state | more

    def load_state_dict(self, found: Any) -> None:
        """Take up a state; raises `ValueError` naming what it can't have been."""
        check_keys("attempt", found, self.state_dict())
        for part in self._parts:
            part.load_state_dict(found[part.name], self.model.state_dict())
        self.average.load_state_dict(found["average"])
        if self._prediction:
            check_same_structure("prediction", found["prediction"], self._prediction.state_dict())
            self._prediction.load_state_dict(found["prediction"])
        check_optimizer(found["optimizer"], self.model, self._training, self._prediction)
        self.optimizer.load_state_dict(found["optimizer"])
