"""Attempts: a model with its losses and curriculum, trained by batches; and when to try again."""

import copy
import math
from typing import Annotated, Any

import torch
from pydantic import Field, StrictBool
from torch import nn

from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.perplexity import perplexity_of
from stacktrans.memory import Memory
from stacktrans.memory.strengths.definition import NoMemory, StrengthMemory
from stacktrans.model.controllers import NO_NOISE, Noise
from stacktrans.model.transducer import Transducer
from stacktrans.model.weight_tying import tie_initial_weights
from stacktrans.settings.config import RunConfig
from stacktrans.training.objective import SourcePrediction, indecision, objective
from stacktrans.training.optimizers import (
    load_optimizer,
    make_optimizer,
    rate_factor,
    update_weights,
)
from stacktrans.training.records import Record
from stacktrans.training.sources import DataSource, Moment
from stacktrans.training.stateful import SavedCount, SavedNumber, StatefulPart
from stacktrans.training.stopping import EarlyStopping, RateDecay

RUNNING_DECAY = 0.95
"""Decay of the mean of recent losses."""


class Losses(StatefulPart):
    """The losses of an attempt's batches, in nats per symbol.

    Attributes:
        step: number of batches.
        running: running mean of recent losses; None before there is one.
        total: sum of the losses since the last record.
        count: number of the losses since the last record.
    """

    name = "losses"
    step: SavedCount = 0
    running: SavedNumber | None = None
    total: SavedNumber = 0.0
    count: SavedCount = 0

    def add(self, loss: float) -> None:
        """Record the loss of a batch."""
        self.step += 1
        self.total += loss
        self.count += 1
        if self.running is None:
            self.running = loss
        self.running += (1 - RUNNING_DECAY) * (loss - self.running)

    def are_under(self, threshold: float) -> bool:
        """Whether the mean of recent losses is under a threshold."""
        return self.running is not None and self.running < threshold

    def pop_mean(self) -> float:
        """Return the mean since the last record, and begin a new one."""
        mean = self.total / self.count
        self.total, self.count = 0.0, 0
        return mean

    def forget(self) -> None:
        """Forget all losses but their number."""
        self.running, self.total, self.count = None, 0.0, 0


class Curriculum(StatefulPart):
    """Lengthens the strings of an attempt as its loss falls, and then settles it, once.

    Attributes:
        share: share of the training lengths, from the shortest on, that is trained on.
        since: number of the attempt's batches when it reached these lengths.
        settled: whether the loss on all lengths was once low enough to settle.
    """

    name = "curriculum"
    share: Annotated[SavedNumber, Field(gt=0, le=1)]
    since: SavedCount = 0
    settled: StrictBool = False

    def __init__(self, source: DataSource, number: int) -> None:
        training, self._source = source.config.training, source
        self._growing, self._settle = training.curriculum, training.settle
        self.share = source.first_share(number)

    def update(self, losses: Losses) -> float:
        """Lengthen the strings or settle if losses are low; the factor on the learning rate."""
        growing, settle, nats = self._growing, self._settle, self._source.in_nats
        if growing and self.share < 1:
            if losses.are_under(nats(growing.loss)):
                self.share = min(1.0, self.share * growing.growth)
                self.since, losses.running = losses.step, None
        elif settle and not self.settled and losses.are_under(nats(settle.loss)):
            self.settled = True
            return settle.rate
        return 1.0


class Attempts(StatefulPart):
    """The attempts of a run: until one succeeds or, for a stream, as many as are configured.

    Attributes:
        number: number of the present attempt, from 1.
        first_step: batches of all attempts before.
        failed: whether the present attempt is over, so that the next begins.
        validation: validation losses of the attempts that were compared with those before.
    """

    name = "attempts"
    number: Annotated[SavedCount, Field(ge=1)]
    first_step: SavedCount = 0
    failed: StrictBool = False
    validation: list[SavedNumber]

    def __init__(self, config: RunConfig, number: int = 1) -> None:
        training = config.training
        self._restart, self._workers = training.restart, config.workers
        self._most = training.stream.attempts if training.stream else None
        self.number, self.validation = number, []

    @property
    def more_wanted(self) -> bool:
        """Whether another attempt follows even if the present one succeeds."""
        return self._most is not None and self.number < self._most

    @property
    def another_allowed(self) -> bool:
        """Whether another attempt may follow if the present one fails."""
        return self._restart is not None if self._most is None else self.more_wanted

    def failure(self, attempt: "Attempt") -> str | None:
        """The reason to give up an attempt after a batch, if there is one."""
        if self._restart is None:
            return None
        low = (attempt.losses.running or 0.0) <= attempt.source.in_nats(self._restart.loss)
        after, since = self._restart.after, attempt.curriculum.since
        if attempt.step - since == after and not low:
            batches = f"{after} batches"
            when = f"{batches} after strings grew longer" if since else f"after {batches}"
            return f"the loss is not below training.restart.loss {when}"
        if attempt.step == self._restart.give_up_after:
            return f"no stopping rule ended the attempt within {attempt.step} batches"
        return None

    def speculative(self, step: int) -> range:
        """The numbers of the next attempts to train in advance, one for each other worker.

        Args:
            step: number of batches of the present attempt.
        """
        first, restart = self.number + 1, self._restart
        after = first + self._workers - 1
        if self._most is not None:  # all are needed
            return range(first, min(after, self._most + 1))
        limit = (restart.after or restart.give_up_after) if restart else None
        safe = limit is None or (step >= limit and not self.failed)
        return range(first, first if safe else after)

    def add_validation(self, loss: float) -> bool:
        """Add a validation loss; whether it is above the mean of all so far, itself included."""
        self.validation = [*self.validation, loss]
        return loss > sum(self.validation) / len(self.validation)

    def begin_next(self, step: int) -> None:
        """Go to the next attempt, after some batches of the run."""
        self.number, self.first_step, self.failed = self.number + 1, step, False


def noise_seed(config: RunConfig, moment: Moment) -> int:
    """The seed of noise and dropout in a batch, by the run's seed and the moment alone."""
    rng = generator(config.seed, Purpose.NOISE, moment.attempt, moment.step)
    return int(rng.integers(2**62))


def noise_of(config: RunConfig, moment: Moment, memory: Memory[Any]) -> Noise:
    """The noise of a batch; on signals only if they are strengths.

    Where actions are mixed, a mistaken one spoils what all later steps read.
    """
    noise = config.training.noise
    source = torch.Generator().manual_seed(noise_seed(config, moment))
    strengths = all(isinstance(part, StrengthMemory | NoMemory) for part in memory.parts)
    return Noise(noise.gates, noise.signals if strengths else 0.0, source)


class Attempt:
    """An attempt: a model in training, with its optimizer and curriculum.

    Args:
        source: the data.
        device: where to compute.
        attempts: those of the run, of which this is the latest.

    Attributes:
        rule: the rule that ends the attempt.
        average: the model with the moving average of the weights, which is measured and kept.
        signals: [steps, signals] of the last batch.
    """

    def __init__(self, source: DataSource, device: torch.device, attempts: Attempts) -> None:
        self._config, self._training = source.config, source.config.training
        self.attempts, self.source = attempts, source
        self._device = device
        self.losses = Losses()
        self.curriculum = Curriculum(source, self.attempts.number)
        self.draw_weights()
        if source.initialize:
            for model in (self.model, self.average):
                source.initialize(model)
            if not self._training.stream:  # whose sequences grow longer by themselves
                self._skip_learned_lengths()
        stream, weights = self._training.stream, self.model.state_dict()
        self.rule = RateDecay(stream, weights) if stream else EarlyStopping(self._config)

    def draw_weights(self) -> None:
        """Draw weights by the seed and the attempt's number, and go to the first batch."""
        rng = generator(self._config.seed, Purpose.WEIGHTS, self.attempts.number)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            model, wanted = self.new_model(), self._training.source_loss
            self._prediction = SourcePrediction(model).to(self._device) if wanted else None
        self.replace_model(model)
        self.source.begin(model)

    def replace_model(self, model: Transducer) -> None:
        """Train another model from now on, with a new optimizer at the scheduled learning rate."""
        auxiliary = self._prediction.parameters() if self._prediction else ()
        self.model, self.weights = model, [*model.parameters(), *auxiliary]
        self.average = copy.deepcopy(model)
        self._averaged = [*zip(self.average.parameters(), model.parameters(), strict=True)]
        self.optimizer = make_optimizer(model, self._training, self._prediction)
        self.multiply_rate(rate_factor(self._training, self.step))

    def new_model(self) -> Transducer:
        """A model of the same shape with newly drawn weights."""
        layout, task = self.source.layout, self.source.task
        config = self._config.model_of(self.attempts.number)
        model = Transducer(config, layout.inputs, layout.outputs)
        if config.initialization.same_symbols:
            tie_initial_weights(model, *layout.roles(task.source, task.target))
        model.config = self._config.model  # without changes to the initialization
        return model.to(self._device).eval()

    @property
    def rate(self) -> float:
        """The learning rate."""
        return float(self.optimizer.param_groups[0]["lr"])

    def multiply_rate(self, factor: float) -> None:
        """Change the learning rates of all weights by a factor."""
        for group in self.optimizer.param_groups:
            group["lr"] *= factor

    @property
    def step(self) -> int:
        """Number of batches of the attempt."""
        return self.losses.step

    @property
    def moment(self) -> Moment:
        """The present point of the run."""
        return Moment(self.attempts.number, self.step, self.curriculum.share, self.losses.running)

    def train_on_batch(self) -> None:
        """Update the weights once, and adapt lengths and learning rate to the loss."""
        moment, settled = self.moment, self.curriculum.settled
        if self._config.model.encoder_decoder:
            torch.manual_seed(noise_seed(self._config, moment))
            self.model.train()
        noise = noise_of(self._config, moment, self.model.memory)
        batch, unrolled = self.source.unroll(self.model, moment, noise)
        losses = objective(self.model, self._config, batch, unrolled, settled)
        minimized = losses.minimized
        if self._prediction and not settled:
            cost = self._prediction(self.model, batch, unrolled)
            minimized = minimized + self._training.source_loss * cost
        self.signals = losses.signals.detach()
        self.optimizer.zero_grad()
        minimized.backward()
        finite = self._update()
        self.losses.add(float(losses.loss) / losses.scored if finite else math.nan)
        now, before = (rate_factor(self._training, self.step - back) for back in (0, 1))
        self.multiply_rate(now / before * self.curriculum.update(self.losses))

    def _update(self) -> bool:
        """Update the weights by their gradients; whether gradients and step are finite."""
        clip = self._training.gradient_clip
        if clip and clip.value:
            nn.utils.clip_grad_value_(self.weights, clip.value, foreach=True)
        largest = (clip and clip.norm) or math.inf
        norm = nn.utils.clip_grad_norm_(self.weights, largest, foreach=True)
        if not torch.isfinite(norm) or not update_weights(self.optimizer):
            return False
        # The exponential moving average of the weights; the first update copies them.
        share = 1 - self._training.averaging if self.step else 1.0
        with torch.no_grad():
            for mean, weight in self._averaged:
                mean.lerp_(weight, share)
        return True

    @torch.no_grad()
    def _skip_learned_lengths(self) -> None:
        """Lengthen strings and settle as far as the loss allows before the first update.

        Otherwise the first updates, whose size does not depend on how small gradients are, would
        be those of a model that has everything to learn, and would ruin one that has solved its
        task.
        """
        measured = None
        while measured != (now := (self.curriculum.share, self.curriculum.settled)):
            measured = now
            batch, unrolled = self.source.unroll(self.model, self.moment, NO_NOISE)
            losses = objective(self.model, self._config, batch, unrolled, settled=False)
            self.losses.running = float(losses.loss) / losses.scored
            self.multiply_rate(self.curriculum.update(self.losses))
        self.losses.forget()

    def record(self, step: int, seconds: float) -> Record:
        """The record of the batches since the last one, without measurements.

        Args:
            step: number of batches of the run, including those of the attempts before.
            seconds: training time of the run.
        """
        loss, means = self.losses.pop_mean(), self.signals.mean(dim=0).tolist()
        return Record(
            step=step,
            attempt=self.attempts.number,
            seconds=seconds,
            loss=loss,
            perplexity=perplexity_of(loss),
            learning_rate=self.rate,
            lengths=self.source.lengths(self.curriculum.share),
            signals=dict(zip(self.model.signal_names, means, strict=True)),
            discreteness=1 - 4 * float(indecision(self.signals)),
        )

    def is_finite(self) -> bool:
        """Whether weights and optimizer can be saved and read again."""
        states = [part for state in self.optimizer.state.values() for part in state.values()]
        tensors = [*self.weights, *self.average.parameters(), *filter(torch.is_tensor, states)]
        return all(bool(tensor.isfinite().all()) for tensor in tensors)

    @property
    def _parts(self) -> tuple[StatefulPart, ...]:
        return (self.losses, self.curriculum, self.rule, self.source)

    def state_dict(self) -> dict[str, Any]:
        """The state that `load_state_dict` takes, without the model's weights."""
        state = {part.name: part.state_dict() for part in self._parts}
        state |= {"optimizer": self.optimizer.state_dict(), "average": self.average.state_dict()}
        return state | ({"prediction": self._prediction.state_dict()} if self._prediction else {})

    def load_state_dict(self, state: Any) -> None:
        """Load a state; raises as `load_optimizer` does if it is malformed."""
        for part in self._parts:
            part.load_state_dict(state[part.name], self.model)
        self.average.load_state_dict(state["average"])
        if self._prediction:
            self._prediction.load_state_dict(state["prediction"])
        load_optimizer(self.optimizer, state["optimizer"])
