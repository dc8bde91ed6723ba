"""Training: batches, steps, restarts, and when to stop."""

import contextlib
import json
import math
import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from io import FileIO
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from stacktrans import __version__
from stacktrans.common.errors import StacktransError
from stacktrans.common.files import locked, tidy, write_atomically
from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.evaluation import Scores, score
from stacktrans.inference.perplexity import Perplexity
from stacktrans.memory import make_memory
from stacktrans.model import checkpoint
from stacktrans.model.controllers import Disturbance
from stacktrans.model.states import Unrolled
from stacktrans.model.transducer import Transducer, kind_of
from stacktrans.settings.config import RoundingConfig, RunConfig
from stacktrans.settings.layers import Layer, overlay, validated
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Lengths
from stacktrans.tasks.layouts import Batch, Pair
from stacktrans.training.ahead import Ahead
from stacktrans.training.averaging import RunningMean
from stacktrans.training.certainty import Accuracies, accuracies, round_signals, without_needless
from stacktrans.training.draws import Draws, Moment
from stacktrans.training.examples import Examples
from stacktrans.training.judging import decided_by, reported_on
from stacktrans.training.model_card import model_card
from stacktrans.training.objective import indecision, objective
from stacktrans.training.optimizers import make_optimizer, stepped
from stacktrans.training.records import (
    BUDGETS,
    METRICS,
    RULES,
    SUMMARY,
    Accuracy,
    Record,
    Summary,
    achieved,
)
from stacktrans.training.room import check_room
from stacktrans.training.runs import Place
from stacktrans.training.state import (
    Progress,
    check_alike,
    check_optimizer,
    check_value,
    read_progress,
)

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


class Trainer:
    """Runs one training run, in a directory of its own.

    Args:
        config: what to do.
        directory: where the run writes.
        device: where the model is.
        command: what to note as the run's command.
        attempt: which start to begin with, from 1.
        rehearsal: check the run alone; without weights, it can't be run.

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
        rehearsal: bool = False,
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
        self.place = Place(directory)
        self._check_run()
        if not rehearsal:
            self._start_attempt()

    def _check_run(self) -> None:
        """Find out before anything is made or written whether this can be trained.

        Raises:
            NoSuchLength: there are no strings to train or to test on.
            UsageError: there is no such kernel, or no room.
        """
        model, weight = self.config.model, torch.empty(0, device=self.device)
        kind_of(model, make_memory(model), weight, model.kernel)
        check_room(self.config, self.layout)
        self._check_draws()

    def _check_draws(self) -> None:
        self.draws.check()

    def _start_attempt(self) -> None:
        """New weights, optimiser and running mean, drawn from the seed and the attempt."""
        self._draw_weights()
        progress = self.progress
        progress.attempt_began, progress.running_loss, progress.settled = progress.step, None, False
        progress.failed, progress.best_of_attempt, progress.since_best = False, [], 0
        progress.share = self._first_share()
        progress.loss_sum, progress.loss_count, progress.solved_in_a_row = 0.0, 0, 0
        self.uncertain: dict[str, Tensor] | None = None

    def _draw_weights(self) -> None:
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

    def _is_finite(self) -> bool:
        """Whether weights and optimiser can be saved and read again."""
        # What follows weights that are no numbers is none, either.
        states = [part for state in self.optimizer.state.values() for part in state.values()]
        tensors = [*self.average.model.parameters(), *filter(torch.is_tensor, states)]
        return all(bool(tensor.isfinite().all()) for tensor in tensors)

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
            TrainingError: the loss is no number any more and restarts are off, or the run's
                directory is another than it was.
        """
        self.report = report
        with self._opened():
            # Last, so that a directory is a run's as soon as there is more in it.
            write_atomically(self.directory / checkpoint.CONFIG, self.config.to_yaml())
            return self._finish(self._train())

    def run_ahead(self, wanted: Callable[[], bool]) -> None:
        """Train one start as far as that can be done without those before it, and save it.

        It ends where the next would begin, where a rule would end the run, and where it would be
        compared with the starts before.

        Args:
            wanted: whether to go on; asked before each batch.
        """
        self.report = lambda _: None
        with self._opened():
            self.ahead = Ahead(self.config, self.directory, self.device)
            while wanted() and not self.stop_requested and not self._waits_for_others():
                self._advance()
            self._check_weights()
            self._save_last()

    def _waits_for_others(self) -> bool:
        """Whether a start can't go on without what came of those before."""
        return self.progress.failed or self.progress.ended is not None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        """Have the run's directory, with a checkpoint in it, for this process alone."""
        with Place(self.directory) as self.place, self._opened_metrics() as self.metrics:
            for name in (checkpoint.CONFIG, SUMMARY):
                tidy(self.directory / name)
            if self.progress.step == 0:
                self._save_last()
            yield

    def _train(self) -> str:
        """Train until something ends the run; what it is."""
        progress = self.progress
        outcome = progress.outcome or (None if progress.ended else self._budget_spent())
        if outcome:
            return outcome
        with Ahead(self.config, self.directory, self.device) as self.ahead:
            return self._train_on()

    def _train_on(self) -> str:
        self._train_ahead()
        while True:
            began = time.monotonic()
            ended = self._go_on()
            self.progress.seconds += time.monotonic() - began
            # What a rule has ended is made certain, whatever the budget.
            outcome = ended or (None if self.progress.ended else self._budget_spent())
            stop = self.stop_requested
            if outcome or stop:
                self._check_weights()
            if outcome:
                return outcome
            if stop:
                self._save_last()
                raise Interrupted(stop)

    def _go_on(self) -> str | None:
        """One batch, or what comes after the last; the rule by which the run has ended, if so."""
        rule = self.progress.ended
        if rule is None:
            self._advance()
            return None
        if self._made_certain():
            return rule
        self._fail("without degrees the model is wrong")
        return None

    def _end(self, rule: str) -> None:
        """Note that a rule has ended the training."""
        self.progress.ended = rule
        if self.config.training.rounding or self.config.training.prune:
            # Made certain, they take the place of what they came from, which is kept until then.
            best = checkpoint.load(self.directory / "best", self.device).model
            self.uncertain = best.state_dict()

    def _made_certain(self) -> bool:
        """Round and prune the kept weights, if asked for, as far as that does no harm.

        Returns:
            Whether what was asked for is done: rounded, they are to be as good without degrees.
        """
        training = self.config.training
        if self.uncertain is None:
            return True
        best = Transducer(self.config.model, self.layout.inputs, self.layout.outputs)
        best.load_state_dict(self.uncertain)
        best = best.to(self.device).eval()
        if training.rounding:
            before = self._accuracies(best)
            rounded = self._rounded(best, training.rounding)
            after = self._accuracies(rounded)
            if not self._is_finite():
                self._draw_weights()  # what is saved must be readable
                self.model.load_state_dict(best.state_dict())
            elif min(after) >= min(before):
                best, before = rounded, after
            if min(before) < training.solved_accuracy and self._may_start_again():
                return False
        if training.prune:
            best = without_needless(best, self._accuracies)
        config = self.config.model_copy(update={"model": best.config})
        self._save("best", config, best.state_dict())
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

    def _opened_metrics(self) -> FileIO:
        path = self.directory / METRICS
        # Without a buffer, which would fail once more when it is closed on a full disk.
        metrics = FileIO(path, "r+" if path.exists() else "w")
        if not locked(metrics):
            metrics.close()
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

    def _advance(self) -> None:
        """One batch and what is due after it; or a new start, if the last one has failed."""
        training, progress = self.config.training, self.progress
        if progress.failed:
            self._restart()
            return
        signals = self._train_on_batch()
        if not math.isfinite(progress.running_loss or 0.0):
            self._diverge()
            return
        rule = None
        accuracy_due, record_due = self._due()
        if accuracy_due or record_due:
            self._check_weights()
        if record_due and not progress.failed:
            rule = self._record(signals)
        if rule is None and not progress.failed:
            rule = self._epochs_over()
        if rule:
            self._end(rule)
        if self.attempt_step == training.restart_after and not rule:
            self._fail_unless_taken_off()
        if self.attempt_step == training.give_up_after and not rule:
            self._fail("the start has not ended the run")
        # Last, so that a resumed run finds every decision taken.
        if accuracy_due or rule:
            self._save_last()

    def _check_weights(self) -> None:
        """Have the start end if its weights are no numbers any more, which are not saved."""
        if not self._is_finite():
            self._diverge()

    def _diverge(self) -> None:
        """Have a start end whose loss or weights are no numbers any more."""
        progress = self.progress
        progress.running_loss, progress.loss_sum, progress.loss_count = None, 0.0, 0
        # What is saved must be readable; of this start nothing is needed any more.
        self._draw_weights()
        self._fail(f"the loss is no number any more after batch {progress.step}")

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
        if torch.isfinite(norm) and stepped(self.optimizer):
            self.average.update()
            self._note_loss(float(found.loss) / found.scored)
        else:
            self._note_loss(math.nan)
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
        elif not self._needed_next():
            self.ahead.stop()

    def _fail(self, reason: str) -> None:
        """Have the run start again, unless its budget is spent."""
        if not self._may_start_again():
            raise TrainingError(f"{reason}; the best weights so far are in {self.directory}")
        self.progress.failed, self.progress.ended, self.uncertain = True, None, None

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
        self.ahead.go_on(self._needed_next())

    def _needed_next(self) -> range:
        """The starts that may be needed next, as many as other processes can train."""
        training, progress = self.config.training, self.progress
        limit, following = training.restart_after or training.give_up_after, progress.attempt + 1
        needed = limit is not None and (self.attempt_step < limit or progress.failed)
        return range(following, following + self.config.workers - 1 if needed else following)

    def _take_over(self, directory: Path) -> None:
        """Go on with the attempt as far as another process has trained it.

        If that can't be read, or is more than may be trained, the attempt begins here.
        """
        before, most = self.progress, self.config.training.max_steps
        best = None
        try:
            last = checkpoint.last_of(directory)
            theirs = self._restore(last, checkpoint.load_training(last))
            # What was recorded after the checkpoint is not part of what is taken over.
            recorded = (directory / METRICS).read_bytes()[: theirs.metrics_size]
            records = [json.loads(line) for line in recorded.decode().splitlines()]
            if theirs.best and self._surpasses(theirs.best, before.best):
                best = checkpoint.load(directory / "best", self.device).model.state_dict()
            fits = most is None or before.step + theirs.step <= most
        except (StacktransError, OSError, ValueError, KeyError, RuntimeError):
            fits = False
        if not fits:
            self._start_attempt()
            return
        for record in records:
            moved = {"step": record["step"] + before.step, "seconds": round(before.seconds, 3)}
            self._write_metrics(json.dumps({**record, **moved}) + "\n")
        self.progress = replace(
            theirs,
            step=theirs.step + before.step,
            attempt_began=before.step,
            seconds=before.seconds,
            best=before.best,
            best_step=before.best_step,
            judged=before.judged,
        )
        if best is not None:
            self.progress.best = theirs.best
            self.progress.best_step = theirs.best_step + before.step
            self._save("best", self.config, best)
        if theirs.ended:
            self._end(theirs.ended)
        if theirs.step:
            self._save_last()

    def _surpasses(self, merit: list[float], best: list[float]) -> bool:
        """Whether weights are to be kept instead of the best so far."""
        # Of weights that are as good, the later: they were trained on for longer.
        return not best or merit >= best

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
        if not math.isfinite(record.validation or 0.0):
            self._diverge()
            return None
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
        if self._surpasses(merit, progress.best):
            progress.best, progress.best_step = merit, progress.step
            self._save_best(record)
        if training.stop != "solved":
            return training.stop if progress.since_best >= training.patience else None
        measured = [record.test, record.train if training.solved_on == "both" else record.test]
        solved = all(part and part.coarse >= training.solved_accuracy for part in measured)
        progress.solved_in_a_row = progress.solved_in_a_row + 1 if solved else 0
        return "solved" if progress.solved_in_a_row >= training.solved_times else None

    def _save(
        self,
        name: str,
        config: RunConfig,
        weights: Mapping[str, Tensor],
        state: Mapping[str, Any] | None = None,
        **described: Any,
    ) -> None:
        with self.place.staying():
            checkpoint.save(self.directory / name, config, weights, state, **described)

    def _save_best(self, measured: Record | None = None) -> None:
        accuracy = achieved(measured) if measured else None
        self._save("best", self.config, self.evaluated.state_dict(), accuracy=accuracy)

    def _save_last(self) -> None:
        os.fsync(self.metrics.fileno())
        self.progress.metrics_size = self.metrics.tell()
        state = {
            "progress": asdict(self.progress),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.state_dict(),
            "uncertain": self.uncertain,
            "command": self.command,
            **self._own_state(),
        }
        self._save("last", self.config, self.model.state_dict(), state)

    def _own_state(self) -> dict[str, Any]:
        """What a kind of run must remember beside what all do."""
        return {}

    def _take_own_state(self, saved: dict[str, Any]) -> None:
        """Take up what `_own_state` gave."""

    def _check_progress(self, progress: Progress) -> None:
        """Raise `ValueError` for what this run can't have come to."""
        first = self.draws.first_share(progress.attempt)
        check_value("share", progress.share, progress.share >= first)

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
            CheckpointError: there is no run, or its last checkpoint is damaged; the message
                names the value.
        """
        last = checkpoint.last_of(directory)
        saved = checkpoint.load_training(last)
        config = checkpoint.read_config(last)
        layers = [
            Layer(str(last / checkpoint.CONFIG), config.model_dump()),
            *budgets,
        ]
        config = validated(RunConfig, overlay(layers), layers)
        trainer = cls(config, directory, device, str(saved.get("command")))
        try:
            trainer._check(saved, directory / METRICS)
        except ValueError as error:
            path = last / checkpoint.TRAINING
            raise checkpoint.CheckpointError(f"{path}: damaged ({error})") from error
        trainer.progress = trainer._restore(last, saved)
        return trainer

    def _restore(self, last: Path, saved: dict[str, Any]) -> Progress:
        """Take up weights and training state of a checkpoint; how far that was."""
        checkpoint.load_weights(self.model, last / checkpoint.WEIGHTS)
        self.optimizer.load_state_dict(saved["optimizer"])
        self.average.load_state_dict(saved["average"])
        self.uncertain = saved["uncertain"]
        self._take_own_state(saved)
        return Progress(**saved["progress"])

    def _check(self, saved: dict[str, Any], metrics: Path) -> None:
        """Raise `ValueError` for a training state that this run can't have saved."""
        names = {"progress", "optimizer", "average", "uncertain", "command", *self._own_state()}
        different = ", ".join(sorted(map(str, names ^ saved.keys())))
        check_value("state", different, not different)
        check_value("command", saved["command"], isinstance(saved["command"], str))
        progress = read_progress(saved["progress"])
        written = metrics.stat().st_size if metrics.exists() else 0
        check_value("metrics_size", progress.metrics_size, progress.metrics_size <= written)
        self._check_progress(progress)
        check_optimizer(saved["optimizer"], self.model, self.config.training)
        self.average.check(saved["average"])
        if saved["uncertain"] is not None:
            check_alike("uncertain", saved["uncertain"], self.model.state_dict())
        for name, state in self._own_state().items():
            check_alike(name, saved[name], state)

    def _finish(self, outcome: str) -> Summary:
        """Measure the kept weights, write the summary and close the run."""
        if outcome not in BUDGETS:
            self.progress.outcome, self.uncertain = outcome, None
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
        with self.place.staying():
            write_atomically(self.directory / SUMMARY, json.dumps(asdict(summary), indent=2) + "\n")
        return summary

    def _describe(self, kept: checkpoint.Checkpoint, summary: Summary) -> None:
        """Say beside the kept weights what they achieve."""
        self._save(
            "best",
            kept.config,
            kept.model.state_dict(),
            accuracy=achieved(summary),
            card=model_card(kept, asdict(summary), self.directory),
        )
