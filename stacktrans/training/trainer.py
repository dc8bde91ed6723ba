"""The training loop of a run."""

import contextlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

import torch

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.files import CONFIG
from stacktrans.model import checkpoint_files
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import SettingsLayer, merge_layers, validated
from stacktrans.training.initial_weights import weights_from_checkpoint
from stacktrans.training.interrupts import Interrupted
from stacktrans.training.machine_check import lacks_machine
from stacktrans.training.make_source import make_source
from stacktrans.training.model_card import model_card
from stacktrans.training.optimizers import rate_factor
from stacktrans.training.race_state import race_summary
from stacktrans.training.records import SOLUTIONS, SUMMARY, Record, Summary, measurements
from stacktrans.training.run_state import FailedAttempt, RunState
from stacktrans.training.speculation import SpeculativeAttempts, take_over
from stacktrans.training.summarizing import measure_best
from stacktrans.training.wording import started_from


class Trainer:
    """The training loop of one run, in its own directory, beginning with a given attempt.

    A `resumed` run loads the state in its directory, and needs no checkpoint that it started
    from. `data` is the folder of pairs that `make_source` takes.

    Attributes:
        config: configuration of the run, completed with what the source found out about the task.
        state: progress of the run, and its attempt.
        stop_requested: set to a signal's number, it ends `run` after the batch or measurement.
        race_ended_by: the budget that ended the race of the run, after which no attempt begins;
            None if the run has its own budgets.

    Raises what `make_source`, `weights_from_checkpoint` and `RunState.load` do.
    """

    def __init__(
        self,
        config: RunConfig,
        directory: Path,
        device: torch.device,
        command: str = "",
        attempt: int = 1,
        resumed: bool = False,
        data: Path | None = None,
    ) -> None:
        torch.set_num_threads(config.threads)
        self.source = source = make_source(config, device, data)
        start_from = config.start_from
        if start_from and not resumed:
            carried = weights_from_checkpoint(source.config, start_from, source.task)
            source.initialize, start_from = carried
            source.config = source.config.model_copy(update={"start_from": start_from})
        if start_from:
            source.notes = [started_from(start_from), *source.notes]
        self.config = source.config
        self.directory, self.stop_requested = directory, 0
        self.race_ended_by: str | None = None
        self.state = RunState(source, device, command, attempt)
        if resumed:
            self.state.load(directory)

    @classmethod
    def resume(
        cls, directory: Path, budgets: Sequence[SettingsLayer], device: torch.device
    ) -> Self:
        """Resume a run from its last checkpoint, perhaps with another step or time limit.

        Raises:
            CheckpointError: there is no run, or its last checkpoint is damaged.
            UsageError: a limit is out of its range, or the run has gone beyond it already.
        """
        last = checkpoint_files.last_checkpoint(directory)
        before = checkpoint_files.read_config(last)
        layers = [SettingsLayer(str(last / CONFIG), before.model_dump()), *budgets]
        config = validated(RunConfig, merge_layers(layers), layers)
        trainer = cls(config, directory, device, resumed=True)
        _check_limits(trainer.state, budgets)
        attempt = trainer.state.attempt
        now, then = (rate_factor(each.training, attempt.step) for each in (config, before))
        attempt.multiply_rate(now / then)  # a falling rate depends on the limit
        return trainer

    def run(self, report: Callable[[Record], None]) -> Summary:
        """Train until a rule or a budget ends the run; call `report` with every record.

        Raises:
            Interrupted: `stop_requested` was set; the run is saved and can be resumed.
            StacktransError: the loss is not a finite number and restarts are off, or the run's
                directory was moved.
        """
        state = self.state
        with state.opened(self.directory):
            if state.step:
                state.save_last()  # so that new limits survive a kill
            # After the first checkpoint, so that a directory with more in it can be resumed.
            state.write(CONFIG, self.config.to_yaml())
            outcome = self._train_until(lambda: bool(self.stop_requested), report)
            if not outcome:
                state.save_last()
                raise Interrupted(self.stop_requested)
            if self.race_ended_by and outcome in SOLUTIONS and not state.progress.fallback:
                outcome = self.race_ended_by  # it had no time to make sure of the solution
            return self._finish(outcome)

    def run_until(
        self, is_over: Callable[[], bool], report: Callable[[Record], None] = lambda _: None
    ) -> None:
        """Train, and round, until `is_over`, or until a rule or a budget ends the run; save it."""
        try:
            with self.state.opened(self.directory):
                self._train_until(is_over, report)
                self.state.save_last()
        except Interrupted:
            self.state.load(self.directory)  # from where it will be rounded again

    def _train_until(
        self, is_over: Callable[[], bool], report: Callable[[Record], None]
    ) -> str | None:
        """Train, and round, until `is_over` or the run ends; the rule or budget that ended it."""
        self._report, self._is_over, state = report, is_over, self.state
        others = SpeculativeAttempts(self.source, self.directory, state.device, train_attempt)
        with others as self._speculative:
            while not (outcome := self.ended) and not is_over():
                work = self._round
                if state.progress.ended is None:
                    self._speculative.train(state.attempts.speculative(state.attempt.step))
                    work = self._advance
                begin = time.monotonic()
                work()
                state.progress.seconds += time.monotonic() - begin
        self._check_weights()
        return outcome

    @property
    def ended(self) -> str | None:
        """The rule or budget that has ended the run; None before, and while it is rounded."""
        progress, race_ended_by = self.state.progress, self.race_ended_by
        # Rounding has no budget, unless there is a fallback.
        if self.state.rounding.weights and not (progress.fallback and race_ended_by):
            return None
        ended = progress.ended or race_ended_by or self._limit_reached()
        return "no_machine" if ended and progress.fallback else ended

    def _limit_reached(self) -> str | None:
        """The limit on batches or time that is reached, if one is."""
        most, limit = self.state.max_steps, self.config.training.time_limit
        if most is not None and self.state.step >= most:
            return "max_steps"
        return "time_limit" if limit is not None and self.state.progress.seconds >= limit else None

    def _advance(self) -> None:
        """Train on a batch and do what is due then; or, if the attempt failed, begin another."""
        attempt, attempts = self.state.attempt, self.state.attempts
        if attempts.failed:
            self._restart()
            return
        attempt.train_on_batch()
        if not math.isfinite(attempt.losses.running or 0.0):
            self._diverge()
            return
        rule, (measured, recorded) = None, self.source.due(attempt.step)
        if recorded:
            self._check_weights()
        if recorded and not attempts.failed:
            rule = self._record(measured)
        if rule:
            self.state.end(rule)
        elif reason := attempts.failure(attempt):
            self._fail(reason)
        # Last, so that a resumed run finds every decision taken.
        if measured or rule:
            self.state.save_last()

    def _record(self, measured: bool) -> str | None:
        """Write and report a record; return the rule by which the run ends, if it does."""
        attempt = self.state.attempt
        record = attempt.record(self.state.step, round(self.state.progress.seconds, 3))
        if measured:
            self.source.measure(attempt.average, attempt.moment, record)
        if not math.isfinite(record.validation or 0.0):
            self._diverge()
            return None
        self.state.write_record(asdict(record))
        self._report(record)
        return self.state.judge(record)

    def _round(self) -> None:
        """Round and prune the best weights, or fail; raises `Interrupted` if it is to stop."""
        state, ended = self.state, self.state.progress.ended
        is_final = self.race_ended_by is not None or not state.attempts.another_allowed
        rounded = state.rounding.round(self._check_stop, ended in SOLUTIONS and not is_final)
        if rounded:
            state.save_best(rounded)
            state.rounding.weights = None
            if ended == "solved" and not is_final:
                self._judge_solution()
        else:
            lengths = "very short or very long strings"
            self._fail(f"the discrete model does not solve the task, or not for {lengths}")

    def _judge_solution(self) -> None:
        """Begin another attempt if no machine agrees with a solution, which becomes a fallback.

        Raises `Interrupted` if it is to stop.
        """
        state = self.state
        if self.config.training.rounding == "machine":
            solution = replace(state.load_best(), task=self.source.task)
            has_none = lacks_machine(solution, self._is_over)
            self._check_stop()
            if has_none:
                state.keep_fallback()
                self._fail("no machine agrees with the solution")
                return
        state.forget_fallback()

    def _check_weights(self) -> None:
        """End the attempt if its weights are not finite, and so must not be saved."""
        if not self.state.attempt.is_finite():
            self._diverge()

    def _diverge(self) -> None:
        """End an attempt whose loss or weights are not finite."""
        # What is saved must be readable; nothing of this attempt is needed any more.
        self.state.attempt.losses.forget()
        self.state.attempt.draw_weights()
        self._fail(f"the loss is not a finite number after batch {self.state.step}")

    def _fail(self, reason: str) -> None:
        """Have another attempt follow if one may, end the run, or raise `FailedAttempt`."""
        state = self.state
        if not state.attempts.another_allowed:
            if self.config.training.stream and state.progress.best:  # of the attempts before
                state.end("attempts")
                return
            raise FailedAttempt(reason, self.directory, measured=bool(state.progress.best))
        state.attempts.failed, state.progress.ended = True, None
        state.rounding.weights = None

    def _restart(self) -> None:
        state = self.state
        state.attempts.begin_next(state.step)
        del state.attempt, state.rounding
        if trained := self._speculative.take(state.attempts.number):
            take_over(state, trained)
        if state.progress.ended:
            state.end(state.progress.ended)
        if state.attempt.step:
            state.save_last()

    def _finish(self, outcome: str) -> Summary:
        """Save the run, measure the best weights and write the summary."""
        state, progress = self.state, self.state.progress
        if progress.fallback:
            state.fall_back()
        elif not progress.best:
            progress.best_step = state.step
            state.save_best()
        state.save_last()
        state.remove_fallback()
        best, summary = state.load_best(), state.summary(outcome)
        summary.race = race_summary(self.directory)
        measure_best(best, self.source, state.attempt.moment, summary, self._check_stop)
        card = model_card(best, asdict(summary), self.directory)
        state.save_best(best.model, accuracy=measurements(summary), card=card)
        state.write(SUMMARY, json.dumps(asdict(summary), indent=2) + "\n")
        return summary

    def _check_stop(self) -> None:
        """Raise `Interrupted` if the run is to stop now."""
        if self._is_over():
            raise Interrupted(self.stop_requested)


def _check_limits(state: RunState, budgets: Sequence[SettingsLayer]) -> None:
    """Raise `UsageError` if a run has gone beyond one of its new limits already."""
    done = {"max_steps": (state.step, "batches"), "time_limit": (state.progress.seconds, "seconds")}
    for layer in budgets:
        for name, value in layer.settings["training"].items():
            taken, unit = done[name]
            if value < taken:
                problem = f"the run has already taken {taken:.0f} {unit}; expected a larger limit"
                raise UsageError(f"{layer.origin} {value:.15g}: {problem}")


def train_attempt(
    config: RunConfig,
    directory: Path,
    device: torch.device,
    number: int,
    data: Path | None,
    is_cancelled: Callable[[], bool],
) -> None:
    """Train an attempt until it is cancelled, ends, or has to wait for its run, and save it."""
    with contextlib.suppress(StacktransError):  # the run itself will have the same error
        trainer = Trainer(config, directory, device, attempt=number, data=data)
        trainer.run_until(lambda: is_cancelled() or trainer.state.waits_for_run)
