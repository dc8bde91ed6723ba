"""The loop of training: what a run is trained on, batches, records, attempts, and its end."""

import contextlib
import json
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict
from pathlib import Path
from typing import Protocol, Self

import torch

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.messages import print_message
from stacktrans.common.processes import Process
from stacktrans.memory import make_memory
from stacktrans.model import checkpoint
from stacktrans.model.ablation import ablations
from stacktrans.model.devices import computing_with
from stacktrans.model.transducer import Transducer, compiled_architecture, meta_transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import SettingsLayer, merge_layers, validated
from stacktrans.tasks.corpus import Corpus
from stacktrans.tasks.layout import Layout
from stacktrans.tasks.pairs import Pairs
from stacktrans.training.initial_weights import weights_from_checkpoint
from stacktrans.training.model_card import model_card
from stacktrans.training.records import (
    BUDGETS,
    SUMMARY,
    Record,
    Summary,
    achieved,
    raced,
    started_from,
)
from stacktrans.training.saving import FailedAttempt, SavedRun, has_last
from stacktrans.training.sources import Examples, Files, Source, Streams, Strings, Texts

WITHOUT = 200
"""Test strings that a model is measured on without its parts."""

_BYTES = 4
_COPIES = 3
"""Of the weights: themselves, their gradients, and their mean."""


class Interrupted(Exception):
    """The run was asked to stop by a signal; it has saved itself and can be resumed."""

    def __init__(self, signal_number: int) -> None:
        self.exit_code = 128 + signal_number


class Trainer:
    """Runs one training run, in a directory of its own, from its n-th attempt on.

    One that is `resumed` takes up what its directory has, and needs no checkpoint that it has
    started from. `data` is the folder of pairs that `prepared` takes.

    Attributes:
        config: of the run, with all that the source has learned of the task.
        state: how far it is, and what learns.
        stop_requested: set to a signal's number, it ends `run` after the batch.
        outcome: the budget that `run` finds spent at once; None if it has its own budgets.

    Raises what `prepared`, `weights_from_checkpoint` and `SavedRun.load` do.
    """

    def __init__(
        self,
        config: RunConfig,
        directory: Path,
        device: torch.device,
        command: str = "",
        number: int = 1,
        resumed: bool = False,
        data: Path | None = None,
    ) -> None:
        torch.set_num_threads(config.threads)
        self.source = source = prepared(config, device, data)
        first, start_from = None, config.start_from
        if start_from and not resumed:
            first, start_from = weights_from_checkpoint(source.config, start_from, source.task)
            source.config = source.config.model_copy(update={"start_from": start_from})
        if start_from:
            source.notes = [started_from(start_from), *source.notes]
        self.config = source.config
        self.directory, self.stop_requested = directory, 0
        self.outcome: str | None = None
        self.state = SavedRun(source, device, command, number, first)
        self._max_steps, self._time_limit = config.training.max_steps, config.training.time_limit
        if resumed:
            self.state.load(directory)

    @classmethod
    def resume(
        cls, directory: Path, budgets: Sequence[SettingsLayer], device: torch.device
    ) -> Self:
        """Take up a run from its last checkpoint, perhaps with another step or time limit.

        Raises:
            CheckpointError: there is no run, or its last checkpoint is damaged; the message
                names the value.
            UsageError: a limit is out of its range.
        """
        last = checkpoint.last_checkpoint(directory)
        saved = SettingsLayer(
            str(last / checkpoint.CONFIG), checkpoint.read_config(last).model_dump()
        )
        layers = [saved, *budgets]
        config = validated(RunConfig, merge_layers(layers), layers)
        return cls(config, directory, device, resumed=True)

    def run(self, report: Callable[[Record], None]) -> Summary:
        """Train until a rule or a budget ends the run; `report` is called with every record.

        Raises:
            Interrupted: `stop_requested` was set; the run is saved and can be resumed.
            TrainingError: the loss is not a finite number and restarts are off, or the run's
                directory is another than it was.
        """
        self._report = report
        with self.state.opened(self.directory):
            # Last, so that a directory is a run's as soon as there is more in it.
            self.state.write(checkpoint.CONFIG, self.config.to_yaml())
            return self._finish(self._train())

    def run_until(
        self, is_over: Callable[[], bool], report: Callable[[Record], None] = lambda _: None
    ) -> None:
        """Train until `is_over` or the run ends, and save it."""
        self._report, state = report, self.state
        with (
            state.opened(self.directory),
            SpeculativeAttempts(self.config, self.directory, state.device) as self._speculative,
        ):
            while not (state.progress.ended or self.budget_spent() or is_over()):
                began = time.monotonic()
                self._advance()
                state.progress.seconds += time.monotonic() - began
            self._check_weights()
            state.save_last()

    def _train(self) -> str:
        """Train until a rule or a budget ends the run, and say which."""
        progress = self.state.progress
        outcome = progress.outcome or self.outcome or self.budget_spent()
        with SpeculativeAttempts(
            self.config, self.directory, self.state.device
        ) as self._speculative:
            while not outcome and not self.stop_requested:
                began = time.monotonic()
                if progress.ended is None:
                    self._speculative.train(self.state.attempts.needed(self.state.attempt.step))
                    self._advance()
                elif self._made_certain():
                    outcome = progress.ended
                progress.seconds += time.monotonic() - began
                outcome = outcome or self.budget_spent()
            self._check_weights()
            if not outcome:
                self.state.save_last()
                raise Interrupted(self.stop_requested)
        return outcome

    def budget_spent(self) -> str | None:
        """The budget that is spent, if one is."""
        if self.state.progress.ended:  # what a rule has ended is made certain, whatever the budget
            return None
        if self._max_steps is not None and self.state.attempt.run_step >= self._max_steps:
            return "max_steps"
        limit, seconds = self._time_limit, self.state.progress.seconds
        return "time_limit" if limit is not None and seconds >= limit else None

    def _advance(self) -> None:
        """One batch and what is due after it; or a new attempt, if the last one has failed."""
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
        """Write and report a record; a rule's name if it ends the run."""
        attempt = self.state.attempt
        record = attempt.record(round(self.state.progress.seconds, 3))
        if measured:
            self.source.measure(attempt.average.model, attempt.moment, record)
        if not math.isfinite(record.validation or 0.0):
            self._diverge()
            return None
        self.state.write_record(asdict(record))
        self._report(record)
        return self.state.judge(record)

    def _made_certain(self) -> bool:
        """Round and prune the kept weights, if asked for; whether the run ends so."""
        attempt, may_fail = self.state.attempt, self.state.attempts.another_allowed
        if self.state.rounding.uncertain is None:
            return True

        def go_on() -> None:
            if self.stop_requested:
                raise Interrupted(self.stop_requested)

        best = self.state.rounding.certain(attempt, go_on, may_fail)
        if best is None:
            self._fail("the model is wrong when it is hard")
            return False
        self.state.save_best(best)
        return True

    def _check_weights(self) -> None:
        """Have the attempt end if its weights are not finite, and so must not be saved."""
        if not self.state.attempt.is_finite():
            self._diverge()

    def _diverge(self) -> None:
        """Have an attempt end whose loss or weights are not finite."""
        # What is saved must be readable; nothing of this attempt is needed any more.
        self.state.attempt.losses.forget()
        self.state.attempt.draw()
        self._fail(f"the loss is not a finite number after batch {self.state.step}")

    def _fail(self, reason: str) -> None:
        """Have the run attempt again, if another attempt is allowed."""
        state = self.state
        if not state.attempts.another_allowed:
            if self.config.training.stream and state.progress.best:  # of the attempts before
                state.end("attempts")
                return
            raise FailedAttempt(reason, self.directory, measured=bool(state.progress.best))
        state.attempts.failed, state.progress.ended = True, None
        state.rounding.uncertain = None

    def _restart(self) -> None:
        state = self.state
        state.attempts.begin_next(state.step)
        del state.attempt
        if trained := self._speculative.take(state.attempts.number):
            state.take_over(trained, self._max_steps)
        if state.progress.ended:
            state.end(state.progress.ended)
        if state.attempt.step:
            state.save_last()

    def _finish(self, outcome: str) -> Summary:
        """Measure the kept weights, write the summary and close the run."""
        state, progress = self.state, self.state.progress
        if outcome not in BUDGETS:
            progress.outcome, state.rounding.uncertain = outcome, None
        if not progress.best:
            progress.best_step = state.step
            state.save_best()
        state.save_last()
        kept = state.load_best()
        summary = state.summary(outcome)
        summary.race = raced(self.directory)
        with computing_with(self.source.threads):
            self.source.report(kept.model, state.attempt.moment, summary)
            if self.config.is_rounded:
                with kept.model.hard_signals():
                    summary.hard = self.source.tested(kept.model, state.attempt.moment)
            if self.config.task.lengths is not None:
                summary.without = {
                    part: self.source.tested(left.model, state.attempt.moment, WITHOUT)
                    for part, left in ablations(kept)
                }
        card = model_card(kept, asdict(summary), self.directory)
        state.save_best(kept.model, kept.config, accuracy=achieved(summary), card=card)
        state.write(SUMMARY, json.dumps(asdict(summary), indent=2) + "\n")
        return summary


class Stoppable(Protocol):
    """What ends when it can be saved, after `stop_requested` was set to a signal's number."""

    stop_requested: int


@contextlib.contextmanager
def stopping(run: Stoppable) -> Iterator[None]:
    """Ask a run to stop on the first Ctrl-C or SIGTERM; end at once on the second.

    Only the main thread can receive signals; in others nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: object) -> None:
        if run.stop_requested:
            raise KeyboardInterrupt
        run.stop_requested = number
        print_message("stopping after this batch; once more to end at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SpeculativeAttempts:
    """The attempts that a run may need next, trained by other processes meanwhile.

    An attempt depends on nothing but the seed and its number, so it can be trained before it is
    known whether it will be needed. The run takes over its result. There are none with one worker,
    or where nothing restarts.
    """

    FOLDER = ".speculative"
    """Where in the run's directory they are."""

    def __init__(self, config: RunConfig, directory: Path, device: torch.device) -> None:
        self.config, self.folder, self.device = config, directory / self.FOLDER, device
        self.running: dict[int, tuple[Process, Future[None]]] = {}

    def __enter__(self) -> Self:
        self.stop()  # the remains of a run that was killed cannot be used
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def train(self, numbers: Sequence[int]) -> None:
        """Train these attempts, if they are not being trained; end all others if there are none."""
        if not numbers and self.running:
            self.stop()
        for number in numbers:
            if number not in self.running:
                self.running[number] = self._begin(number)

    def _begin(self, number: int) -> tuple[Process, Future[None]]:
        place, process = self.folder / str(number), Process(self.config.workers)
        place.mkdir(parents=True, exist_ok=True)
        return process, process.submit(train_speculatively, self.config, place, self.device, number)

    def take(self, number: int) -> Path | None:
        """The directory of an attempt as far as it was trained; None if it was not."""
        if number not in self.running:
            return None
        (process, done), place = self.running.pop(number), self.folder / str(number)
        if has_last(place):  # if it has not begun, there is nothing to wait for
            process.cancel()
            wait([done])
        process.close()
        return place

    def stop(self) -> None:
        """End all of them and remove their results."""
        for process, _ in self.running.values():
            process.close()
        self.running.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def train_speculatively(
    config: RunConfig,
    directory: Path,
    device: torch.device,
    number: int,
    unwanted: Callable[[], bool],
) -> None:
    """Train an attempt until it is unwanted, ends, or can't go on without others, and save it."""
    with contextlib.suppress(StacktransError):  # which the run itself will meet
        trainer = Trainer(config, directory, device, number=number)
        trainer.run_until(lambda: unwanted() or trainer.state.needs_others)


def prepared(config: RunConfig, device: torch.device, data: Path | None = None) -> Source:
    """What a run is trained on, before anything is made or written.

    Args:
        config: of the run.
        device: where to compute.
        data: a folder that `Pairs.save_data` has written; None to read the files.

    Raises:
        NoSuchLength: there are no strings to train or to test on.
        UsageError: the kernel is unknown, there is no room, or a setting does not fit the task.
    """
    task = config.make_task()
    stream, examples = config.training.stream, config.training.examples
    source: Source
    if isinstance(task, Corpus):
        source = Texts(config, task)
    elif isinstance(task, Pairs):
        if config.training.data:
            raise UsageError("training.data: not for pairs in files; expected null")
        if data:
            task.use_data(data)
        source = Files(config, task)
    elif stream:
        source = Streams(config, task, stream)
    else:
        source = Examples(config, task, examples) if examples else Strings(config, task)
    model, weight = config.model, torch.empty(0, device=device)
    compiled_architecture(model, make_memory(model), weight, model.kernel)
    check_room(config, source.layout)
    source.check()
    return source


def check_room(config: RunConfig, layout: Layout) -> None:
    """Raise `UsageError` if a run surely needs more memory than this machine has."""
    there, training = _bytes_of_machine(), config.training
    model = meta_transducer(config.model, layout.inputs, layout.outputs)
    weights = _BYTES * _COPIES * count_weights(model)
    # Of a batch at least gates, states and outputs are kept.
    rows = sum((len(layer.gates) + 1) * layer.hidden_size for layer in model.controller.all_layers)
    steps = training.batch_symbols or training.batch_strings * _steps(config)
    whole = weights + _BYTES * steps * (rows + layout.outputs)
    size = training.batch_size if training.batch_symbols else f"{training.batch_size} strings"
    parts = {"model: its weights": weights, f"training.batch_size: {size} at once": whole}
    for part, needed in parts.items():
        if needed > there:
            has = f"this machine has {there / 2**30:,.1f}"
            raise UsageError(f"{part} need at least {needed / 2**30:,.1f} GiB; {has}")


def count_weights(model: Transducer) -> int:
    """How many numbers a model holds, those that are not learned included."""
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def _steps(config: RunConfig) -> int:
    """At least how many steps a sequence of a batch has on average."""
    training = config.training
    if training.stream:
        return training.stream.steps
    shortest, longest = config.task.ranges.train
    law = training.length_law or config.task.length_law
    return shortest if law or training.curriculum else (shortest + longest) // 2


def _bytes_of_machine() -> float:
    """The machine's memory; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf
