"""Races: runs with different strategies get time slices, in parallel, until one solves the task.

A race that is interrupted and resumed has the same result, with any number of processes.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

from stacktrans.common.errors import CheckpointError, StacktransError, UsageError
from stacktrans.common.files import (
    CANDIDATES,
    CONFIG,
    RACE,
    remove_temporary_files,
    temporary_name,
    write_atomically,
)
from stacktrans.common.messages import open_closed_streams
from stacktrans.common.processes import KILLED, Pool
from stacktrans.common.visible import shell_text
from stacktrans.model.checkpoint_files import last_checkpoint, read_config
from stacktrans.model.devices import find_device
from stacktrans.settings.command import single_run_command
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.base import Task
from stacktrans.tasks.pairs import Pairs
from stacktrans.training import scheduling
from stacktrans.training.interrupts import Interrupted, stopping
from stacktrans.training.make_source import save_pairs
from stacktrans.training.race_state import Candidate, RaceState, read_race
from stacktrans.training.records import BUDGET_OUTCOMES, SUMMARY
from stacktrans.training.run_directory import has_last, lock, watched
from stacktrans.training.scheduling import RUNS_PER_ROUND, next_round, round_winner
from stacktrans.training.time_slices import OUT_OF_MEMORY, train_time_slice, trainers
from stacktrans.training.trainer import Trainer

BUDGET = 300.0
"""Default seconds of a race."""
BATCH_SYMBOLS = 500
"""Assumed number of symbols in a batch whose size is not given in symbols."""
MAX_PENDING = 2
"""Time slices that a run may get before its round, if a process is idle."""
LOCK = ".lock"
DATA = ".data"
"""Folder of the pairs in files, which all processes share, and which outlasts a pipe."""


def begin(
    directory: Path,
    configs: Mapping[str, RunConfig],
    command: Sequence[str],
    budget: float | None = None,
) -> dict[str, RunConfig]:
    """Write the candidates and the budget of a race into a free directory.

    Args:
        directory: directory of the race.
        configs: configurations by the names of strategies, in their order.
        command: arguments of the command that trains any of them alone, without --recipe and its
            name.
        budget: seconds; by default, the time limit of the runs, or else `BUDGET`.

    Returns:
        The configurations of the runs, each of which is trained by one process.
    """
    limits = [run.training.time_limit or 0.0 for run in configs.values()]
    folder = directory / temporary_name(CANDIDATES)
    _remove(folder)
    single = {name: config.model_copy(update={"workers": 1}) for name, config in configs.items()}
    for name, config in single.items():
        (folder / name).mkdir(parents=True)
        write_atomically(folder / name / CONFIG, config.to_yaml())
    task = next(iter(single.values())).make_task()
    save_pairs(task, folder / DATA)
    provisional = _provisional(task, configs)
    state = RaceState(
        command=[*command],
        budget=budget or max(limits) or BUDGET,
        candidates={
            name: Candidate(
                stateless=not configs[name].model.has_state, provisional=name in provisional
            )
            for name in sorted(configs, key=provisional.__contains__)
        },
    )
    state.save(directory)
    # Last, so that the directory is a race once it is complete.
    folder.rename(directory / CANDIDATES)
    return single


def _provisional(task: Task, configs: Mapping[str, RunConfig]) -> set[str]:
    """The candidates whose solutions count only if no other has one: LSTMs, for labels in files.

    There are no strings of greater length to test them on, and an LSTM that counts in its cells
    may be right on the whole development set, but not on strings ten times as long.
    """
    if not isinstance(task, Pairs) or task.positive is None:
        return set()
    names = {name for name, config in configs.items() if config.model.controller.name == "lstm"}
    return names if names != configs.keys() else set()


class Race:
    """A race of runs, each in a directory of its own within that of the race.

    Attributes:
        directory: directory of the race, to which its best run is moved.
        notes: remarks on the data, to be shown before the race begins.
        state: the state of the race, once it is opened.
        at_work: the candidates that are being trained.
        stop_requested: set to a signal's number, it ends `run` after the batch.
    """

    state: RaceState

    def __init__(
        self,
        directory: Path,
        device: str,
        workers: int,
        configs: Mapping[str, RunConfig] | None = None,
        notes: Sequence[str] = (),
        budget: float | None = None,
    ) -> None:
        self.directory, self.notes, self.stop_requested = directory, notes, 0
        self._given, self._budget = configs, budget
        self._device, self._workers = device, workers
        self._cut_short = dict[str, Candidate]()
        self.at_work: Sequence[str] = ()
        self._alone = False  # whether this process trains all runs
        data = directory / CANDIDATES / DATA
        self._data = data if data.is_dir() else None

    def directory_of(self, name: str) -> Path:
        """The directory of a candidate."""
        return self.directory / CANDIDATES / name

    @cached_property
    def configs(self) -> Mapping[str, RunConfig]:
        """Configurations by name; raises as `read_race` and `resolve` do."""
        if self._given:
            return self._given
        names = read_race(self.directory).candidates
        return {name: resolve(config=str(self.directory_of(name) / CONFIG)) for name in names}

    @cached_property
    def _batch_symbols(self) -> dict[str, int]:
        """Symbols in a batch of each candidate."""
        configs = self.configs.items()
        return {name: each.training.batch_symbols or BATCH_SYMBOLS for name, each in configs}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the race for this process, perhaps with a new budget.

        Raises:
            StacktransError: another process has it, or its files can't be read.
            UsageError: the race has already taken longer than the new budget.
        """
        open_closed_streams()  # or the lock would take the number of one
        path = self.directory / CANDIDATES / LOCK
        with watched(self.directory) as self._in_place, open(path, "wb") as stream:
            lock(stream, self.directory)
            remove_temporary_files(self.directory / RACE)
            self.state = state = read_race(self.directory)
            _retry_failed(state)
            self._check_files()
            self._began = time.monotonic() - state.seconds
            if (budget := self._budget) is not None:
                if budget < state.seconds:
                    taken = f"the race has already taken {state.seconds:.0f} seconds"
                    raise UsageError(f"budget {budget:.15g}: {taken}; expected a larger budget")
                state.budget = budget
            task = next(iter(self.configs.values())).make_task()
            if isinstance(task, Pairs) and not self._given:
                task.check_files()
            with self._in_place():
                yield

    def _check_files(self) -> None:
        """Raise `CheckpointError` if a file of a run that may get another time slice is missing."""
        if not self.state.can_continue:
            return
        for name, candidate in self.state.latest.items():
            directory, missing = self.directory_of(name), ""
            if not (directory / CONFIG).is_file():
                missing = CONFIG
            elif candidate.step and not has_last(directory):
                missing = "last"
            if missing and candidate.can_continue:
                problem = "missing; the race cannot continue without it"
                raise CheckpointError(f"{directory / missing}: {problem}")

    def run(self, show: Callable[[], None]) -> None:
        """Train the runs in time slices until one has solved the task, or the time is over.

        However short the time is, one batch is trained. `show` is called repeatedly.

        Raises `StacktransError` if no run can be trained, or one can't be read or written.
        """
        state = self.state
        count = min(self._workers, len(state.candidates))
        self._alone = count == 1
        self.at_work = next_round(state.candidates, RUNS_PER_ROUND, self._batch_symbols)[:count]
        show()

        def is_over() -> bool:
            if self._alone:  # there is no other moment to show progress within a time slice
                show()
            return self._is_over()

        try:
            with Pool(count, is_over, in_process=self._alone) as pool:
                while state.can_continue and (self._must_begin or not self._is_over()):
                    self._carry_out(pool, show)
                while pool.at_work:  # on time slices that are cut short
                    self._collect_results(pool, show)
        finally:
            trainers.clear()  # their files may change from now on
        if state.winner or not self.stop_requested:  # otherwise, it will be resumed
            state.candidates, state.pending = state.latest | self._cut_short, {}
            best = state.candidates[state.best]
            if not state.winner and (best.solved or best.has_fallback):
                state.winner = state.best
        self._save()
        failed = {name: each.failed for name, each in state.candidates.items()}
        if all(failed.values()) and not state.winner:
            saved = f"what was saved is in {self.directory / CANDIDATES}"
            reasons = [f"{name}: {reason}" for name, reason in failed.items()]
            raise StacktransError(f"every strategy failed; {saved}", *reasons)

    def run_to_best(self, show: Callable[[], None]) -> Trainer:
        """Run the race and return its `best_run`; raises `Interrupted` if a signal stops it."""
        with stopping(self):
            self.run(show)
        if self.stop_requested:
            raise Interrupted(self.stop_requested)
        return self.best_run()

    def _is_over(self) -> bool:
        """Whether the race is won, stopped, or out of time."""
        stopped = bool(self.state.winner or self.stop_requested)
        return stopped or self.elapsed >= self.state.budget

    @property
    def elapsed(self) -> float:
        """Seconds that the race has taken so far."""
        return time.monotonic() - self._began

    @property
    def _must_begin(self) -> bool:
        """Whether a batch must be trained even if the time is over, so that there is a model."""
        latest = self.state.latest | self._cut_short
        trained = any(candidate.step for candidate in latest.values())
        return not (trained or self.stop_requested)

    def _carry_out(self, pool: Pool, show: Callable[[], None]) -> None:
        """Carry out a round until it is complete or won."""
        state = self.state
        names = next_round(state.candidates, RUNS_PER_ROUND, self._batch_symbols)
        while not (winner := round_winner(names, state.pending)):
            if all(map(state.pending.get, names)):
                break
            self._assign_time_slices(pool, names)
            if not pool.at_work:
                return
            self._collect_results(pool, show)
        state.rounds, state.winner = state.rounds + 1, winner
        for name in filter(state.pending.get, names):
            state.candidates[name] = state.pending[name].pop(0)
        self._save()

    def _collect_results(self, pool: Pool, show: Callable[[], None]) -> None:
        """Record the results of the time slices that end next or are cut short."""
        self.at_work = pool.at_work
        for name, result in pool.finished(show):
            before = self.state.latest[name]
            if result == KILLED:
                result = before.model_copy(update={"failed": KILLED})
            if result.can_continue and result.cut_short:
                self._cut_short[name] = result
            else:
                self._cut_short.pop(name, None)
                self.state.pending.setdefault(name, []).append(result)
                self._save()
            show()

    def _assign_time_slices(self, pool: Pool, names: Sequence[str]) -> None:
        """Assign time slices to free processes: those of this round, then likely next ones."""
        state, latest = self.state, self.state.latest
        begins = self._must_begin and not pool.at_work
        while pool.is_free and (begins or not self._is_over()):
            begins, idle = False, latest.keys() - pool.at_work
            todo = [name for name in names if name in idle and not state.pending.get(name)]
            todo = todo or [
                name
                for name in next_round(latest, len(latest), self._batch_symbols)
                if name in idle and len(state.pending.get(name, ())) < MAX_PENDING
            ]
            if not todo:
                break
            pool.submit({name: self._time_slice(name, latest[name]) for name in todo})

    def _time_slice(self, name: str, before: Candidate) -> Callable[..., Candidate]:
        run = self.directory_of(name), self.configs[name], before
        work = partial(train_time_slice, *run, scheduling.TIME_SLICE, self._device, self._data)
        if not self._alone:
            return work

        def announced(is_cancelled: Callable[[], bool]) -> Candidate:
            self.at_work = [name]
            return work(is_cancelled)

        return announced

    def _save(self) -> None:
        self.state.seconds = self.elapsed
        with self._in_place():
            self.state.save(self.directory)

    def best_run(self) -> Trainer:
        """Copy the best run to the directory of the race, and return its trainer, to be finished.

        If a rule has ended the run, it is still rounded.
        """
        state, name = self.state, self.state.best
        best = self.directory_of(name)
        _remove(self.directory / SUMMARY)  # of an earlier best run
        if best.is_dir():
            for path in best.iterdir():
                _remove(self.directory / path.name)
            shutil.copytree(best, self.directory, dirs_exist_ok=True)
        last = last_checkpoint(self.directory)
        config, device = read_config(last), find_device(self._device)
        trainer = Trainer(config, self.directory, device, resumed=True, data=self._data)
        trainer.source.threads, ended = self._workers, state.candidates[name].ended
        if ended is None or ended in BUDGET_OUTCOMES:
            trainer.race_ended_by = ended or "budget"
        # It may have been cut short in a time slice that does not count.
        steps = None if state.winner and ended else max(1, trainer.state.step)
        trainer.state.command = shell_text(single_run_command(state.command, name, steps))
        return trainer

    def close(self, keep: bool = True) -> None:
        """Remove the directories of the candidates, unless they are kept and may continue."""
        if not (keep and self.state.can_continue):
            # At once, since a race without some of its files could not be read any more.
            gone = self.directory / temporary_name(CANDIDATES)
            (self.directory / CANDIDATES).rename(gone)
            # On NFS, files that are still open, such as the lock, leave others behind.
            shutil.rmtree(gone, ignore_errors=True)


def _retry_failed(state: RaceState) -> None:
    """Let candidates that ran out of memory be tried again; or all, if all have failed."""
    lacked_memory = (KILLED, OUT_OF_MEMORY)
    hopeless = all(each.failed for each in state.candidates.values())
    for name, each in state.candidates.items():
        if hopeless or each.failed in lacked_memory:
            state.candidates[name] = each.model_copy(update={"failed": None})
    for results in state.pending.values():
        if results and results[-1].failed in lacked_memory:
            results.pop()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
