"""Training: batches, steps, restarts, and when to stop."""

import json
import math
import operator
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from io import FileIO
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from stacktrans import __version__, checkpoint
from stacktrans.ahead import Ahead
from stacktrans.averaging import RunningMean
from stacktrans.certainty import Accuracies, accuracies, round_signals, without_needless
from stacktrans.config import RoundingConfig, RunConfig
from stacktrans.controllers import Disturbance
from stacktrans.draws import Draws, Moment
from stacktrans.errors import StacktransError
from stacktrans.evaluation import Scores, score
from stacktrans.examples import Examples
from stacktrans.files import locked, write_atomically
from stacktrans.judging import decided_by, reported_on
from stacktrans.language import Perplexity
from stacktrans.model_card import model_card
from stacktrans.objective import indecision, objective
from stacktrans.optimizers import make_optimizer
from stacktrans.randomness import Purpose, generator
from stacktrans.records import (
    BUDGETS,
    METRICS,
    RULES,
    SUMMARY,
    Accuracy,
    Record,
    Summary,
    achieved,
)
from stacktrans.sequences import Batch, Pair
from stacktrans.settings import Layer, overlay, validated
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Lengths
from stacktrans.transducer import Transducer, Unrolled

RUNNING_DECAY = 0.95
"""Decay of the running mean of the loss by which a run is judged."""
FIRST_LOOK = 100
"""Validation begins with this many strings, and goes on only while the task may be solved."""


class TrainingError(StacktransError):
    """Training can't go on."""


class Interrupted(Exception):
    """The run was asked to stop by a signal; it has saved itself and can be resumed."""

    def __init__(self, signal_number: int) -> None:
        self.exit_code = 128 + signal_number


@dataclass
class Progress:
    """What a run must remember besides weights and optimiser; plain numbers only."""

    step: int = 0
    attempt: int = 1
    attempt_began: int = 0
    seconds: float = 0.0
    running_loss: float | None = None
    share: float = 1.0
    settled: bool = False
    loss_sum: float = 0.0
    loss_count: int = 0
    best: list[float] = field(default_factory=list)
    best_step: int = 0
    best_of_attempt: list[float] = field(default_factory=list)
    since_best: int = 0
    solved_in_a_row: int = 0
    epoch: int = 0
    judged: list[float] = field(default_factory=list)
    metrics_size: int = 0
    outcome: str | None = None
    failed: bool = False


class Trainer:
    """Runs one training run, in a directory of its own.

    Args:
        config: what to do.
        directory: where the run writes.
        device: where the model is.
        command: what to note as the run's command.
        attempt: which start to begin with, from 1.

    Attributes:
        stop_requested: set to a signal's number, it ends `run` after the batch.
    """

    def __init__(
        self,
        config: RunConfig,
        directory: Path,
        device: torch.device,
        command: str,
        attempt: int = 1,
    ) -> None:
        torch.set_num_threads(config.threads)
        self.config = config
        self.directory = directory
        self.device = device
        self.command = command
        self.task = make_task(config.task.name, config.task.generator, config.task.parameters)
        self.layout = self.task.layout
        sizes = config.training.examples
        self.examples = Examples(config, sizes, self.task) if sizes else None
        self.draws = Draws(config, self.task)
        self.progress = Progress(attempt=attempt)
        self.stop_requested: int = 0
        self._start_attempt()
        # A kernel that can't run and lengths that the task lacks are found out before anything is
        # written.
        self.model.is_fused()
        self._check_draws()

    def _check_draws(self) -> None:
        """Raise `NoSuchLength` if there are no strings to train or to test on."""
        self.draws.check()

    def _start_attempt(self) -> None:
        """New weights, optimiser and running mean, drawn from the seed and the attempt."""
        rng = generator(self.config.seed, Purpose.WEIGHTS, self.progress.attempt)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            model = Transducer(
                self.config.model,
                self.layout.inputs,
                self.layout.outputs,
                self.progress.attempt,
            )
        self.model = model.to(self.device)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(self.model, self.config.training)
        self.average = RunningMean(self.model, self.config.training.averaging)
        progress = self.progress
        progress.attempt_began, progress.running_loss, progress.settled = progress.step, None, False
        progress.failed, progress.best_of_attempt, progress.since_best = False, [], 0
        progress.share = self._first_share()
        progress.loss_sum, progress.loss_count, progress.solved_in_a_row = 0.0, 0, 0

    def _first_share(self) -> float:
        """The share of the training lengths to begin with."""
        return self.draws.first_share(self.progress.attempt)

    def _lengths_trained(self) -> Lengths | None:
        """The lengths that are trained on next, if they have any."""
        return self.draws.shortest(self.progress.share)

    @property
    def evaluated(self) -> Transducer:
        """The model that is measured and kept: the running mean of the weights."""
        return self.average.model

    @property
    def attempt_step(self) -> int:
        """Batches trained on since the attempt began."""
        return self.progress.step - self.progress.attempt_began

    @property
    def _moment(self) -> Moment:
        return self.progress.attempt, self.attempt_step

    def _draw(self, purpose: Purpose, lengths: Lengths, count: int, *further: int) -> list[Pair]:
        return self.draws.strings(purpose, self._moment, lengths, count, *further)

    @property
    def parameter_count(self) -> int:
        """Number of parameters of the model."""
        return sum(weight.numel() for weight in self.parameters)

    def run(self, report: Callable[[Record], None]) -> Summary:
        """Train until a rule or a budget ends the run.

        Args:
            report: called with every record.

        Raises:
            Interrupted: `stop_requested` was set; the run is saved and can be resumed.
            TrainingError: the loss is no number any more and restarts are off.
        """
        self.report = report
        with self._opened_metrics() as self.metrics:
            write_atomically(self.directory / checkpoint.CONFIG, self.config.to_yaml())
            return self._finish(self._train())

    def _train(self) -> str:
        """Train until something ends the run; what it is."""
        if self.progress.step == 0:
            self._save_last()
        outcome = self.progress.outcome or self._epochs_over() or self._budget_spent()
        if outcome:
            return outcome
        with Ahead(self.config, self.directory, self.device) as self.ahead:
            return self._train_on()

    def _made_certain(self) -> bool:
        """Round and prune the kept weights, if asked for, as far as that does no harm.

        Returns:
            Whether what was asked for is done: rounded, they are to be as good without degrees.
        """
        training = self.config.training
        best = checkpoint.load(self.directory / "best", self.device).model
        if training.rounding:
            before = self._accuracies(best)
            rounded = self._rounded(best, training.rounding)
            after = self._accuracies(rounded)
            if min(after) >= min(before):
                best, before = rounded, after
            if min(before) < training.solved_accuracy and self._may_start_again():
                return False
        if training.prune:
            best = without_needless(best, self._accuracies)
        config = self.config.model_copy(update={"model": best.config})
        checkpoint.save(self.directory / "best", config, best.state_dict())
        return True

    def _accuracies(self, model: Transducer) -> Accuracies:
        """On validation strings of both ranges."""
        lengths, count = self.config.task.ranges, self.config.training.validation_count
        pairs = self._draw(Purpose.VALIDATION, lengths.train, count)
        pairs += self._draw(Purpose.VALIDATION, lengths.test, count)
        return accuracies(model, self.layout, pairs)

    def _rounded(self, best: Transducer, rounding: RoundingConfig) -> Transducer:
        """The weights after fine-tuning with signals that are ever less undecided."""
        self.model.load_state_dict(best.state_dict())
        self.optimizer = make_optimizer(self.model, self.config.training)
        for group in self.optimizer.param_groups:
            group["lr"] *= self.config.training.settle_rate
        measured = self._accuracies if self.config.training.rounding_kept == "best" else None
        round_signals(self.model, rounding, lambda: self._train_further(rounding.batches), measured)
        return self.model

    def _train_further(self, batches: int) -> float:
        """Some more batches, at a lower rate; how undecided the signals are then."""
        for group in self.optimizer.param_groups:
            group["lr"] *= self.config.training.rounding_rate
        for _ in range(batches):
            self._train_on_batch()
            if self.stop_requested:
                raise Interrupted(self.stop_requested)
        return self.indecision

    def _train_on(self) -> str:
        outcome = None
        self._train_ahead()
        while outcome is None:
            began = time.monotonic()
            outcome = self._advance() or self._epochs_over()
            if outcome and outcome not in BUDGETS and not self._made_certain():
                self._fail("without degrees the model is wrong")
                outcome = None
            self.progress.seconds += time.monotonic() - began
            outcome = outcome or self._budget_spent()
            if self.stop_requested and outcome is None:
                self._save_last()
                raise Interrupted(self.stop_requested)
        return outcome

    def _opened_metrics(self) -> FileIO:
        path = self.directory / METRICS
        # Without a buffer, which would fail once more when it is closed on a full disk.
        metrics = FileIO(path, "r+" if path.exists() else "w")
        if not locked(metrics):
            raise TrainingError(f"{self.directory}: another process is training here")
        # What was recorded after the checkpoint that is resumed will be recorded again.
        metrics.truncate(min(self.progress.metrics_size, path.stat().st_size))
        metrics.seek(0, os.SEEK_END)
        return metrics

    def _budget_spent(self) -> str | None:
        training, progress = self.config.training, self.progress
        if training.max_steps is not None and progress.step >= training.max_steps:
            return "max_steps"
        if training.time_limit is not None and progress.seconds >= training.time_limit:
            return "time_limit"
        return None

    def _epochs_over(self) -> str | None:
        examples = self.config.training.examples
        if examples and self.examples:
            done, batches = divmod(self.attempt_step, self.examples.epoch)
            return "epochs" if done >= examples.epochs and not batches else None
        return None

    def _advance(self) -> str | None:
        """One batch and what is due after it; a rule's name if it ends the run."""
        training, progress = self.config.training, self.progress
        if progress.failed:
            self._restart()
            return progress.outcome
        if self._solved:  # as a resumed run may be
            return "solved"
        signals = self._train_on_batch()
        if not math.isfinite(progress.running_loss or 0.0):
            self._fail(f"the loss is no number any more after batch {progress.step}")
            return None
        outcome = None
        accuracy_due, record_due = self._due()
        if record_due:
            outcome = self._record(signals)
        if self.attempt_step == training.restart_after and outcome is None:
            self._fail_unless_taken_off()
        if self.attempt_step == training.give_up_after and outcome is None:
            self._fail("the start has not ended the run")
        # Last, so that a resumed run finds every decision taken.
        if accuracy_due:
            self._save_last()
        return outcome

    def _due(self) -> tuple[bool, bool]:
        """Whether accuracy is measured and all is saved, and whether there is a record."""
        training = self.config.training
        every = (training.accuracy_every, training.loss_every)
        if self.examples:
            every = (self.examples.epoch, self.examples.epoch)
        accuracy_due = self.attempt_step % every[0] == 0
        return accuracy_due, accuracy_due or self.attempt_step % every[1] == 0

    def _train_on_batch(self) -> Tensor:
        """One update of the weights; the mean strength of each signal, [signals]."""
        training = self.config.training
        batch, unrolled = self._unrolled()
        found = objective(self.model, self.config, batch, unrolled, self.progress.settled)
        strengths = found.signals.detach()
        self.indecision = float(indecision(strengths))
        self.optimizer.zero_grad()
        found.minimised.backward()
        if training.gradient_limit:
            nn.utils.clip_grad_value_(self.parameters, training.gradient_limit, foreach=True)
        limit = training.gradient_clip or math.inf
        norm = nn.utils.clip_grad_norm_(self.parameters, limit, foreach=True)
        if not torch.isfinite(norm):
            # The weights stay numbers, so that what is saved can be read again.
            self._note_loss(math.nan)
            return strengths.mean(dim=0)
        self.optimizer.step()
        self.average.update()
        self._note_loss(float(found.loss) / found.scored)
        return strengths.mean(dim=0)

    def _unrolled(self) -> tuple[Batch, Unrolled]:
        """A batch, and what came of running the model over it."""
        batch = self._training_batch()
        inputs = torch.from_numpy(batch.inputs).to(self.device)
        return batch, self.model.unroll(inputs, batch.lengths, self._disturbance())

    def _training_batch(self) -> Batch:
        if self.examples:
            pairs = self.examples.batch(self.progress.attempt, self.attempt_step)
            return self.layout.batch(pairs)
        return self.draws.batch(self.layout, self._moment, self.progress.share)

    def _disturbance(self) -> Disturbance:
        """The noise of one batch."""
        return self.draws.disturbance(self._moment)

    def _note_loss(self, loss: float) -> None:
        training, progress = self.config.training, self.progress
        progress.step += 1
        progress.loss_sum += loss
        progress.loss_count += 1
        if progress.running_loss is None:
            progress.running_loss = loss
        progress.running_loss += (1 - RUNNING_DECAY) * (loss - progress.running_loss)
        if progress.share < 1:
            self._lengthen(progress.running_loss)
        elif training.settle_loss and progress.running_loss < training.settle_loss:
            self._settle()

    def _lengthen(self, running_loss: float) -> None:
        """Train on longer strings if those so far are learned well enough."""
        curriculum, progress = self.config.training.curriculum, self.progress
        if curriculum and running_loss < curriculum.loss:
            progress.share = min(1.0, progress.share * curriculum.growth)
            progress.running_loss = None

    def _settle(self) -> None:
        if not self.progress.settled:
            self.progress.settled = True
            for group in self.optimizer.param_groups:
                group["lr"] *= self.config.training.settle_rate

    def _fail_unless_taken_off(self) -> None:
        progress = self.progress
        low = (progress.running_loss or 0.0) <= self.config.training.restart_loss
        if not low and progress.share == self._first_share():
            self._fail("the run has not taken off")
        else:
            self.ahead.stop()

    def _fail(self, reason: str) -> None:
        """Have the run start again, unless its budget is spent."""
        if not self._may_start_again():
            raise TrainingError(f"{reason}; the best weights so far are in {self.directory}")
        self.progress.failed, self.progress.outcome = True, None

    def _may_start_again(self) -> bool:
        training = self.config.training
        return training.restart_after is not None or training.give_up_after is not None

    def _restart(self) -> None:
        self.progress.attempt += 1
        self._start_attempt()
        trained = self.ahead.take(self.progress.attempt)
        if trained is not None:
            self._take_over(trained)
        self._train_ahead()

    def _train_ahead(self) -> None:
        """Have the next starts trained, as long as they may be needed."""
        progress, limit = self.progress, self.config.training.restart_after
        if limit is not None and (self.attempt_step < limit or progress.failed):
            self.ahead.go_on(progress.attempt)

    def _take_over(self, directory: Path) -> None:
        """Go on with the attempt as far as another process has trained it."""
        before, theirs = self.progress, self._restore(checkpoint.last_of(directory))
        most = self.config.training.max_steps
        if most is not None and before.step + theirs.step > most:
            self._start_attempt()
            return
        # What was recorded after the checkpoint is not part of what is taken over.
        recorded = (directory / METRICS).read_bytes()[: theirs.metrics_size]
        for line in recorded.decode().splitlines():
            record = json.loads(line)
            record["step"] += before.step
            self._write_metrics(json.dumps({**record, "seconds": round(before.seconds, 3)}) + "\n")
        self.progress = replace(
            theirs,
            step=theirs.step + before.step,
            attempt_began=before.step,
            seconds=before.seconds,
            best=before.best,
            best_step=before.best_step,
        )
        if theirs.best and (not before.best or theirs.best >= before.best):
            self.progress.best = theirs.best
            self.progress.best_step = theirs.best_step + before.step
            kept = checkpoint.load(directory / "best", self.device).model
            checkpoint.save(self.directory / "best", self.config, kept.state_dict())

    def _record(self, signals: Tensor) -> str | None:
        """Write and report a record; a rule's name if it ends the run."""
        progress = self.progress
        loss = progress.loss_sum / progress.loss_count
        progress.loss_sum, progress.loss_count = 0.0, 0
        record = Record(
            step=progress.step,
            attempt=progress.attempt,
            seconds=round(progress.seconds, 3),
            loss=loss,
            perplexity=math.exp(min(loss, 700.0)),
            learning_rate=self.optimizer.param_groups[0]["lr"],
            lengths=self._lengths_trained(),
            signals=dict(zip(self.model.signal_names, signals.tolist(), strict=True)),
        )
        self._measure_for(record)
        self._write_metrics(json.dumps(asdict(record)) + "\n")
        self.report(record)
        return self._judge(record)

    def _measure_for(self, record: Record) -> None:
        """Fill in what is measured at this point."""
        if self.examples:
            record.development = self._score(self.examples.development)
        elif self._accuracy_due():
            record.train, record.test = self._measure_both(Purpose.VALIDATION)

    def _write_metrics(self, line: str) -> None:
        try:
            left = line.encode()
            while left:
                left = left[self.metrics.write(left) :]
        except OSError as error:
            raise TrainingError(f"{self.directory / METRICS}: {error.strerror}") from error

    def _accuracy_due(self) -> bool:
        training, progress = self.config.training, self.progress
        if self.attempt_step % training.accuracy_every:
            return False
        return training.accuracy_loss is None or (
            progress.running_loss is not None and progress.running_loss < training.accuracy_loss
        )

    def _perplexities(self) -> dict[str, Perplexity]:
        """Of the texts that are measured at the end, if there are any."""
        return {}

    def _measure_both(self, purpose: Purpose) -> tuple[Accuracy | None, Accuracy | None]:
        if self.examples:
            return self._score(self.examples.train), self._score(self.examples.test)
        lengths = self.config.task.ranges
        count = self.config.training.validation_count
        few = self.config.training.solved_on == "test"
        train = self._measure(purpose, lengths.train, min(FIRST_LOOK, count) if few else count)
        return train, self._measure(purpose, lengths.test, count)

    def _score(self, pairs: Sequence[Pair]) -> Accuracy:
        return Accuracy.of(score(self.evaluated, self.layout, pairs))

    def _measure(self, purpose: Purpose, lengths: Lengths, count: int) -> Accuracy:
        """Accuracy on `count` fresh strings; validation stops once too many are wrong."""
        allowed = count
        if purpose is Purpose.VALIDATION:
            allowed -= math.ceil(count * self.config.training.solved_accuracy)
        scores: Scores | None = None
        while scores is None or (scores.count < count and scores.wrong <= allowed):
            done = scores.count if scores else 0
            size = min(max(FIRST_LOOK, 2 * done), count - done)
            drawn = self._draw(purpose, lengths, size, done)
            found = score(self.evaluated, self.layout, drawn)
            scores = scores + found if scores else found
        return Accuracy.of(scores)

    def _judge(self, record: Record) -> str | None:
        """Keep the weights if they are the best so far; a rule's name if it ends the run."""
        training, progress = self.config.training, self.progress
        if record.development:
            merit = [record.development.symbols]
        elif training.stop == "converged":
            merit = [-record.loss]
        elif record.test:
            merit = [record.test.coarse, record.test.fine]
        else:
            return None
        progress.since_best += 1
        better = operator.gt if record.development else operator.ge
        if not progress.best_of_attempt or better(merit, progress.best_of_attempt):
            progress.best_of_attempt, progress.since_best = merit, 0
        # Of weights that are as good, the later: they were trained on for longer.
        if not progress.best or merit >= progress.best:
            progress.best, progress.best_step = merit, progress.step
            self._save_best(record)
        if training.stop != "solved":
            return training.stop if progress.since_best >= training.patience else None
        measured = [record.test, record.train if training.solved_on == "both" else record.test]
        solved = all(part and part.coarse >= training.solved_accuracy for part in measured)
        progress.solved_in_a_row = progress.solved_in_a_row + 1 if solved else 0
        return "solved" if self._solved else None

    @property
    def _solved(self) -> bool:
        training = self.config.training
        return training.stop == "solved" and self.progress.solved_in_a_row >= training.solved_times

    def _save_best(self, measured: Record | None = None) -> None:
        weights, accuracy = self.evaluated.state_dict(), achieved(measured) if measured else None
        checkpoint.save(self.directory / "best", self.config, weights, accuracy=accuracy)

    def _save_last(self) -> None:
        self.progress.metrics_size = self.metrics.tell()
        checkpoint.save(
            self.directory / "last",
            self.config,
            self.model.state_dict(),
            {
                "progress": asdict(self.progress),
                "optimizer": self.optimizer.state_dict(),
                "average": self.average.state_dict(),
                "command": self.command,
                **self._own_state(),
            },
        )

    def _own_state(self) -> dict[str, Any]:
        """What a kind of run must remember beside what all do."""
        return {}

    def _take_own_state(self, saved: dict[str, Any]) -> None:
        """Take up what `_own_state` gave."""

    @classmethod
    def resume(
        cls,
        directory: Path,
        budgets: Sequence[Layer],
        device: torch.device,
    ) -> Self:
        """Take up a run from its last checkpoint.

        Args:
            directory: of the run.
            budgets: changes to the training configuration's `max_steps` and `time_limit`.
            device: where the model is.

        Raises:
            CheckpointError: there is no run, or its last checkpoint is damaged.
        """
        last = checkpoint.last_of(directory)
        saved = checkpoint.load_training(last)
        config = checkpoint.read_config(last)
        layers = [
            Layer(str(last / checkpoint.CONFIG), config.model_dump()),
            *budgets,
        ]
        config = validated(RunConfig, overlay(layers), layers)
        if not isinstance(saved.get("command"), str):
            raise checkpoint.CheckpointError(f"{last / checkpoint.TRAINING}: damaged (no command)")
        trainer = cls(config, directory, device, saved["command"])
        trainer.progress = trainer._restore(last)
        return trainer

    def _restore(self, last: Path) -> Progress:
        """Take weights, optimiser and running mean from a checkpoint; how far that was."""
        saved = checkpoint.load_training(last)
        try:
            progress = Progress(**saved["progress"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.average.load_state_dict(saved["average"])
            self._take_own_state(saved)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            path = last / checkpoint.TRAINING
            raise checkpoint.CheckpointError(f"{path}: damaged ({error})") from error
        checkpoint.load_weights(self.model, last / checkpoint.WEIGHTS)
        return progress

    def _finish(self, outcome: str) -> Summary:
        """Measure the kept weights, write the summary and close the run."""
        if outcome not in BUDGETS:
            self.progress.outcome = outcome
        if not self.progress.best:
            self.progress.best_step = self.progress.step
            self._save_best()
        self._save_last()
        kept = checkpoint.load(self.directory / "best", self.device)
        self.average.model = kept.model
        train, test = self._measure_both(Purpose.SUMMARY)
        summary = Summary(
            outcome=outcome,
            rule=RULES[outcome],
            decided_by=decided_by(self.config),
            reported_on=reported_on(self.config),
            steps=self.progress.step,
            attempts=self.progress.attempt,
            seconds=round(self.progress.seconds, 1),
            best_step=self.progress.best_step,
            train=train,
            test=test,
            development=self._score(self.examples.development) if self.examples else None,
            texts=self._perplexities(),
            parameters=self.parameter_count,
            command=self.command,
            version=__version__,
            torch=torch.__version__,
            seed=self.config.seed,
        )
        self._describe(kept, summary)
        write_atomically(self.directory / SUMMARY, json.dumps(asdict(summary), indent=2) + "\n")
        return summary

    def _describe(self, kept: checkpoint.Checkpoint, summary: Summary) -> None:
        """Say beside the kept weights what they achieve."""
        checkpoint.save(
            self.directory / "best",
            kept.config,
            kept.model.state_dict(),
            accuracy=achieved(summary),
            card=model_card(kept, asdict(summary), self.directory),
        )
