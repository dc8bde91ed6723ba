"""One start of a run: a model that learns, and what changes meanwhile."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from stacktrans.common.randomness import Purpose, generator
from stacktrans.model.controllers import GateNoise, no_noise
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.training.objective import objective
from stacktrans.training.optimizers import RunningMean, check_optimizer, make_optimizer, stepped
from stacktrans.training.records import Record
from stacktrans.training.rounding import Rounding
from stacktrans.training.source import Moment, Source
from stacktrans.training.starts import Curriculum, Losses, Settling, Starts
from stacktrans.training.state import Part, check_keys
from stacktrans.training.stopping import rule_of


class Noise:
    """Draws the noise of a run's batches, by its seed and by the moment alone."""

    def __init__(self, config: RunConfig) -> None:
        self._seed, self._deviation = config.seed, config.training.gate_noise

    def at(self, moment: Moment) -> GateNoise:
        """The noise of one batch."""
        if not self._deviation:
            return no_noise
        rng = generator(self._seed, Purpose.NOISE, moment.attempt, moment.step)
        source = torch.Generator().manual_seed(int(rng.integers(2**62)))

        def noisy(sums: Tensor) -> Tensor:
            # Drawn on the CPU, so that it is the same on every accelerator.
            noise = torch.randn(sums.shape, generator=source, dtype=sums.dtype)
            return sums + self._deviation * noise.to(sums.device)

        return noisy


class Start:
    """A model that has learned nothing yet, and all that is to change it.

    Args:
        config: of the run.
        source: what it is trained on, which goes to its first batch.
        device: where the model is.
        starts: of the run, which say which it is.

    Attributes:
        model: what learns.
        optimizer: what changes its weights.
        average: their running mean, which is what is measured and kept.
        signals: [steps, signals] of the last batch.
    """

    def __init__(
        self, config: RunConfig, source: Source, device: torch.device, starts: Starts
    ) -> None:
        training = config.training
        self._config, self._training, self._device = config, training, device
        self._starts, self._attempt, self.source = starts, starts.attempt, source
        self._clip = training.gradient_clip
        self._averaging, self._noise = training.averaging, Noise(config)
        self.losses = Losses()
        self.curriculum = Curriculum(training.curriculum, source.first_share(self._attempt))
        self.settling, self.rounding = Settling(training), Rounding(training)
        self.draw()
        self.rule = rule_of(config, starts, self.model.state_dict())

    def draw(self) -> None:
        """Begin with the weights that the seed and the attempt say, and with the first batch."""
        rng = generator(self._config.seed, Purpose.WEIGHTS, self._attempt)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            self.model = self.new_model()
        self.weights = list(self.model.parameters())
        self.average = RunningMean(self.model, self._averaging)
        self.renew_optimizer()
        self.source.begin(self.model)

    def new_model(self) -> Transducer:
        """A model of this shape, with other weights."""
        layout = self.source.layout
        own = self._config.model_of(self._attempt)
        model = Transducer(own, layout.inputs, layout.outputs)
        model.config = self._config.model  # how its weights started is not what it is
        return model.to(self._device)

    def renew_optimizer(self) -> None:
        """Forget the gradients so far, and begin with the first learning rate."""
        self.optimizer = make_optimizer(self.model, self._training)

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
        """Batches that the run was trained on, those of the starts before included."""
        return self._starts.began + self.step

    @property
    def moment(self) -> Moment:
        """Where it is."""
        return Moment(self._attempt, self.step, self.curriculum.share, self.losses.running)

    def train_on_batch(self) -> None:
        """One update of the weights, and what follows from its loss."""
        moment = self.moment
        batch, unrolled = self.source.unroll(self.model, moment, self._noise.at(moment))
        found = objective(self.model, self._config, batch, unrolled, self.settling.settled)
        self.signals = found.signals.detach()
        self.optimizer.zero_grad()
        found.minimised.backward()
        learned = self._learn()
        self.losses.note(float(found.loss) / found.scored if learned else math.nan)
        if moment.share < 1:
            self.curriculum.lengthen(self.losses)
        else:
            self.settling.settle(self)

    def _learn(self) -> bool:
        """Change the weights by their gradients; whether these, and the step, are numbers."""
        if self._clip and self._clip.value:
            nn.utils.clip_grad_value_(self.weights, self._clip.value, foreach=True)
        most = (self._clip and self._clip.norm) or math.inf
        norm = nn.utils.clip_grad_norm_(self.weights, most, foreach=True)
        if not torch.isfinite(norm) or not stepped(self.optimizer):
            return False
        self.average.update()
        return True

    def record(self, seconds: float) -> Record:
        """The record of batches after so many seconds, but for what is measured."""
        loss, means = self.losses.taken(), self.signals.mean(dim=0).tolist()
        return Record(
            step=self.run_step,
            attempt=self._attempt,
            seconds=seconds,
            loss=loss,
            perplexity=math.exp(min(loss, 700.0)),
            learning_rate=self.rate,
            lengths=self.source.lengths(self.curriculum.share),
            signals=dict(zip(self.model.signal_names, means, strict=True)),
        )

    def is_finite(self) -> bool:
        """Whether weights and optimiser can be saved and read again."""
        # What follows weights that are no numbers is none, either.
        states = [part for state in self.optimizer.state.values() for part in state.values()]
        tensors = [*self.average.model.parameters(), *filter(torch.is_tensor, states)]
        return all(bool(tensor.isfinite().all()) for tensor in tensors)

    @property
    def _parts(self) -> tuple[Part, ...]:
        own = (self.losses, self.curriculum, self.settling)
        return (*own, self.rule, self.rounding, self.source)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes; the model's weights are saved apart."""
        state = {part.name: part.state_dict() for part in self._parts}
        return {
            **state,
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.state_dict(),
        }

    def load_state_dict(self, found: Any) -> None:
        """Go on from a state; raises `ValueError` naming what it can't have been."""
        check_keys("start", found, self.state_dict())
        for part in self._parts:
            part.load_state_dict(found[part.name], self.model.state_dict())
        self.average.load_state_dict(found["average"])
        check_optimizer(found["optimizer"], self.model, self._training)
        self.optimizer.load_state_dict(found["optimizer"])
