"""A race: runs with different strategies get time slices until one has solved the task.

Who is next depends on what the runs have achieved after so many batches, and not on how long that
took; so a race that is interrupted and resumed comes to the same, however many processes there are.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

from stacktrans.common.errors import CheckpointError, StacktransError, UsageError, is_out_of_memory
from stacktrans.common.files import (
    CANDIDATES,
    RACE,
    remove_temporary_files,
    temporary_name,
    write_atomically,
)
from stacktrans.common.messages import open_closed_streams
from stacktrans.common.processes import KILLED, Pool
from stacktrans.common.registry import plugin_error
from stacktrans.common.visible import shell_text
from stacktrans.model.checkpoint import CONFIG, last_checkpoint, read_config
from stacktrans.model.devices import find_device
from stacktrans.model.transducer import Transducer
from stacktrans.settings.command import single_run_command
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.pairs import Pairs
from stacktrans.training.race_state import Candidate, RaceState, read_race
from stacktrans.training.records import BUDGETS, SUMMARY, Record, merit
from stacktrans.training.run_directory import has_last, lock, watched
from stacktrans.training.saving import FailedAttempt
from stacktrans.training.trainer import Interrupted, Trainer, stopping

BUDGET = 300.0
"""Default seconds of a race."""
TIME_SLICE = 200
"""Batches of a time slice."""
BEGINNING = 200_000
"""Symbols that a run is trained on, once it has begun, before another begins. After fewer, hardly
any run has learned enough to be distinguished from others."""
BATCH_SYMBOLS = 500
"""Assumed number of symbols in a batch whose size is not given in symbols."""
WIDTH = 2
"""Runs that get a time slice in a round."""
STALLED = 3
"""Time slices without progress after which the leader is no longer preferred."""
MOST_PENDING = 2
"""Time slices that a run may get before its round, if a process is idle."""
LOCK = ".lock"
DATA = ".data"
"""Folder of the pairs in files, which all processes share, and which outlasts a pipe."""

Candidates = Mapping[str, Candidate]


def next_round(
    candidates: Candidates, width: int, sizes: Mapping[str, int] = MappingProxyType({})
) -> list[str]:
    """Choose the runs that get a time slice in a round, the most promising first.

    A run promises what it achieves on strings longer than those trained on, in tenths of them:
    less of a difference may be chance, and what is right by chance is soon right more often than
    what has learned nothing yet. Where that is the same its place among the strategies counts and,
    once all have begun, what it achieves on training lengths, whichever says more for it: by the
    one alone what learns slowly would hardly get a time slice, by the other what memorises would
    get them all.

    The most promising gets a time slice in each round, unless it has stalled, beside those that
    will have had the fewest batches in the middle of that time slice, where each batch of the third
    counts three times, of the fourth four times, and so on. So one after another begins, and the
    second need not wait for the last. The first batches do not count until they have `BEGINNING`
    symbols; and those of a run that has stalled count the more, the longer it has.

    Args:
        candidates: of all runs, by name, in the order of strategies.
        width: how many have a time slice in a round.
        sizes: symbols in a batch of each, where that is known.
    """
    able = [name for name, each in candidates.items() if each.can_continue]
    place = _places(candidates, able)
    had = {
        name: place[name] * _counted(candidates[name], sizes.get(name, BATCH_SYMBOLS))
        for name in able
    }
    leading = [name for name in able if place[name] == 1 and candidates[name].stalled < STALLED]
    first = sorted(leading, key=had.__getitem__)[:1]
    others = sorted((name for name in able if name not in first), key=had.__getitem__)
    return [*first, *others[: width - len(first)]]


def _counted(candidate: Candidate, size: int) -> float:
    """The batches that count as those of a run, to the middle of its next time slice."""
    had = candidate.step if candidate.step * size >= BEGINNING else 0
    return (had + TIME_SLICE / 2) * max(1, candidate.stalled / STALLED)


def _places(candidates: Candidates, able: Sequence[str]) -> dict[str, int]:
    """The place of each run by what it promises, from 1; two may have the same."""
    reached = {name: _tenths(candidates[name]) for name in able}
    ranked = sorted(able, key=lambda name: reached[name][0], reverse=True)
    orders = [ranked]
    if all(candidates[name].step for name in able):
        orders.append(sorted(ranked, key=reached.__getitem__, reverse=True))
    return {name: 1 + min(order.index(name) for order in orders) for name in able}


def _tenths(candidate: Candidate) -> tuple[int, ...]:
    """What a run achieves on test lengths and on training lengths, in tenths."""
    return tuple(round(10 * (share or 0.0)) for share in (candidate.test, candidate.train))


_trainers: dict[Path, Trainer] = {}
"""Trainers of this process by directory, so that they need not be read again."""


def train_time_slice(
    directory: Path,
    config: RunConfig,
    before: Candidate,
    size: int,
    device: str,
    data: Path | None,
    unwanted: Callable[[], bool],
) -> Candidate:
    """Train a run, in any process, until its time slice or the run ends or is unwanted; save it.

    Args:
        directory: of the run, with what its time slices before have left.
        config: of the run.
        before: how it stands.
        size: batches of a time slice.
        device: where to compute.
        data: the folder of pairs that all share, for `prepared`.
        unwanted: whether it is to leave off, after one batch at least.

    Returns:
        How it stands then.

    Raises:
        StacktransError: it can't be read or written, or the code of others has failed.
    """
    records: list[Record] = []

    def is_over() -> bool:
        step = trainer.state.step
        return step >= before.step + size or (step > before.step and unwanted())

    try:
        known = _trainers.pop(directory, None)
        if known and known.state.step == before.step:
            trainer = known
        else:  # another process has had the last time slice with it
            resumed = bool(before.step) or has_last(directory)
            trainer = Trainer(config, directory, find_device(device), resumed=resumed, data=data)
        trainer.run_until(is_over, records.append)
        candidate = _candidate(trainer, records).after(before)
    except Exception as error:
        if isinstance(error, FailedAttempt):
            return before.model_copy(update={"failed": error.reason})
        if is_out_of_memory(error):
            return before.model_copy(update={"failed": "not enough memory"})
        if said := plugin_error(error):  # which would be forgotten on the way to another process
            raise StacktransError(said) from error
        raise
    _trainers[directory] = trainer
    return candidate


def _candidate(trainer: Trainer, records: Sequence[Record]) -> Candidate:
    """How a run stands after a time slice in which it had some records."""
    state, progress, attempt = trainer.state, trainer.state.progress, trainer.state.attempt
    now = (state.step, state.attempts.number)
    measured = (each for each in records if (each.step, each.attempt) == now and merit(each))
    record = next(measured, None) or _measured(trainer, attempt.average.model)
    best = merit(record)
    kept = progress.best[-len(best) :]
    if len(kept) == len(best):
        best = dict(zip(best, kept, strict=True))
    elif kept:  # by another rule than accuracy, which was not measured then
        best = merit(_measured(trainer, state.load_best().model))
    train, test = (each or record.development for each in (record.train, record.test))
    return Candidate(
        step=state.step,
        seconds=round(progress.seconds, 1),
        ended=progress.ended or trainer.budget_spent(),
        loss=attempt.losses.running,
        train=train.coarse if train else None,
        test=test.coarse if test else None,
        best=best,
    )


def _measured(trainer: Trainer, model: Transducer) -> Record:
    """A record of a model that was not measured in its time slice, however high its loss is."""
    source, state, attempt = trainer.source, trainer.state, trainer.state.attempt
    loss = source.nats("100%") if attempt.losses.running is None else attempt.losses.running
    # What follows the loss does not matter here.
    record = Record(
        state.step, state.attempts.number, state.progress.seconds, loss, 0.0, attempt.rate, None, {}
    )
    source.measure(model, attempt.moment._replace(loss=0.0), record)
    return record


def begin(
    directory: Path,
    configs: Mapping[str, RunConfig],
    command: Sequence[str],
    budget: float | None = None,
) -> dict[str, RunConfig]:
    """Write down, in a directory that is free, who takes part in a race, and how long it takes.

    Gives the configurations of the runs, each of which is for one process.

    Args:
        configs: by the names of strategies, in their order.
        command: the words of a command that trains any of them alone, if its recipe is added.
        budget: seconds; unless given, the time limit of each run, or else `BUDGET`.
    """
    limits = [run.training.time_limit or 0.0 for run in configs.values()]
    folder = directory / temporary_name(CANDIDATES)
    _remove(folder)
    alone = {name: each.model_copy(update={"workers": 1}) for name, each in configs.items()}
    for name, config in alone.items():
        (folder / name).mkdir(parents=True)
        write_atomically(folder / name / CONFIG, config.to_yaml())
    task = next(iter(alone.values())).make_task()
    if isinstance(task, Pairs):
        task.save_data(folder / DATA)
    state = RaceState(
        command=[*command],
        budget=budget or max(limits) or BUDGET,
        candidates=dict.fromkeys(configs, Candidate()),
        sizes={name: size for name, run in configs.items() if (size := run.training.batch_symbols)},
    )
    state.save(directory)
    # Last, so that it is a race when all is there.
    folder.rename(directory / CANDIDATES)
    return alone


class Race:
    """Runs that take time slices in turn, each in a directory of its own within that of the race.

    Attributes:
        directory: of the race, where its best run ends.
        configs: of all runs, by name; those in the directory, if it is resumed.
        notes: what is to be reported of the data before it begins, a sentence each.
        state: how the race stands, once it is opened.
        stop_requested: set to a signal's number, it ends `run` after the batch.

    Raises what `read_race` and `resolve` do.
    """

    state: RaceState

    def __init__(
        self,
        directory: Path,
        device: str,
        workers: int,
        configs: Mapping[str, RunConfig] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.directory, self.notes, self.stop_requested = directory, notes, 0
        self._given = configs
        self._device, self._workers, self._decided = device, workers, False
        self._left_off = dict[str, Candidate]()
        # The pairs that all processes share, if there are any.
        data = directory / CANDIDATES / DATA
        self._data = data if data.is_dir() else None

    def place(self, name: str) -> Path:
        """The directory of a run that takes part."""
        return self.directory / CANDIDATES / name

    @cached_property
    def configs(self) -> Mapping[str, RunConfig]:
        if self._given:
            return self._given
        names = read_race(self.directory).candidates
        return {name: resolve(config=str(self.place(name) / CONFIG)) for name in names}

    @contextmanager
    def opened(self, budget: float | None = None) -> Iterator[None]:
        """Have the race for this process alone, perhaps with a new budget.

        Raises:
            StacktransError: another process has it, or its files can't be read.
            UsageError: it has already taken longer than the new budget.
        """
        open_closed_streams()  # or the lock would take the number of one
        path = self.directory / CANDIDATES / LOCK
        with watched(self.directory) as self._in_place, open(path, "wb") as stream:
            lock(stream, self.directory)
            remove_temporary_files(self.directory / RACE)
            self.state = state = read_race(self.directory)
            self._check_places()
            self._began = time.monotonic() - state.seconds
            if budget is not None:
                if budget < state.seconds:
                    had = f"the race has already had {state.seconds:.0f} seconds; expected more"
                    raise UsageError(f"budget {budget:g}: {had}")
                state.budget = budget
            task = next(iter(self.configs.values())).make_task()
            if isinstance(task, Pairs) and not self._given:
                task.check_files()
            with self._in_place():
                yield

    def _check_places(self) -> None:
        """Raise `CheckpointError` if a file of a run that may get another time slice is missing."""
        for name, each in self.state.latest.items() if self.state.can_continue else ():
            place = self.place(name)
            if each.can_continue and not (place / CONFIG).is_file():
                raise CheckpointError(f"{place / CONFIG}: missing; the race can't go on without it")
            if each.can_continue and each.step and not has_last(place):
                raise CheckpointError(f"{place / 'last'}: missing; the race can't go on without it")

    def run(self, show: Callable[[], None]) -> None:
        """Have all take time slices in turn until one has solved the task, or the time is over.

        One has at least a batch, however short the time is. `show` is called after each time slice.

        Raises `StacktransError` if no run can be trained, or one can't be read or written.
        """
        state = self.state
        try:
            count = min(self._workers, len(state.candidates))
            with Pool(count, self._is_over, here=count == 1) as pool:
                while state.can_continue and (self._must_begin or not self._is_over()):
                    self._carry_out(pool, show)
                while pool.at_work:  # which leaves off, if that is not wanted any more
                    self._gather(pool, show)
        finally:
            _trainers.clear()  # others may change them from now on
        if not (self._decided or self.stop_requested):  # the time is over: each has what it had
            state.candidates, state.pending = state.latest | self._left_off, {}
            state.winner = state.best if state.candidates[state.best].solved else None
        self._save()
        failed = {name: each.failed for name, each in state.candidates.items()}
        if all(failed.values()):
            raise StacktransError(
                f"every strategy failed; what was saved is in {self.directory / CANDIDATES}",
                *(f"{name}: {reason}" for name, reason in failed.items()),
            )

    def raced(self, show: Callable[[], None]) -> Trainer:
        """Race, and then give the `best_run`; raises `Interrupted` if a signal stops the race."""
        with stopping(self):
            self.run(show)
        if self.stop_requested:
            raise Interrupted(self.stop_requested)
        return self.best_run()

    def _is_over(self) -> bool:
        """Whether nothing more is to be trained: the race is won, or stopped, or out of time."""
        return self._decided or bool(self.stop_requested) or self.elapsed >= self.state.budget

    @property
    def elapsed(self) -> float:
        """Seconds that the race has taken until now."""
        return time.monotonic() - self._began

    @property
    def _must_begin(self) -> bool:
        """Whether a run must be trained, however short the time is, so that there is a model."""
        trained = any(each.step for each in (self.state.latest | self._left_off).values())
        return not (trained or self.stop_requested)

    def _carry_out(self, pool: Pool, show: Callable[[], None]) -> None:
        """Carry out a round, and note it when it is complete or nothing can change it any more."""
        state = self.state
        names = next_round(state.candidates, WIDTH, state.sizes)
        while not self._decided and not all(map(state.pending.get, names)):
            self._employ(pool, names)
            if not pool.at_work:
                return
            self._gather(pool, show)
            self._decided = _winner(names, state.pending) is not None
        state.rounds, state.winner = state.rounds + 1, _winner(names, state.pending)
        for name in filter(state.pending.get, names):
            state.candidates[name] = state.pending[name].pop(0)
        self._save()

    def _gather(self, pool: Pool, show: Callable[[], None]) -> None:
        """Note the time slices that are done next, or left off."""
        for name, found in pool.finished():
            before = self.state.latest[name]
            if found == KILLED:
                found = before.model_copy(update={"failed": KILLED})
            if found.can_continue and found.step < before.step + TIME_SLICE:
                self._left_off[name] = found
            else:
                self._left_off.pop(name, None)
                self.state.pending.setdefault(name, []).append(found)
                self._save()
            show()

    def _employ(self, pool: Pool, names: Sequence[str]) -> None:
        """Give processes time slices: those of a round, then those that are likely to come."""
        state, latest = self.state, self.state.latest
        begins = self._must_begin and not pool.at_work
        while pool.is_free and (begins or not self._is_over()):
            begins, idle = False, latest.keys() - pool.at_work
            todo = [name for name in names if name in idle and not state.pending.get(name)]
            todo = todo or [
                name
                for name in next_round(latest, len(latest), state.sizes)
                if name in idle and len(state.pending.get(name, ())) < MOST_PENDING
            ]
            if not todo:
                break
            pool.submit({name: self._time_slice(name, latest[name]) for name in todo})

    def _time_slice(self, name: str, before: Candidate) -> Callable[..., Candidate]:
        place, config = self.place(name), self.configs[name]
        return partial(
            train_time_slice, place, config, before, TIME_SLICE, self._device, self._data
        )

    def _save(self) -> None:
        self.state.seconds = self.elapsed
        with self._in_place():
            self.state.save(self.directory)

    @property
    def outcome(self) -> str | None:
        """The budget that has ended the best run; None if a rule has."""
        ended = self.state.candidates[self.state.best].ended
        return ended or "budget" if ended in (None, *BUDGETS) else None

    def best_run(self) -> Trainer:
        """The best run, taken to the race's own directory, to be run until it has its summary.

        What a rule has ended is still made certain; all else ends as it is.
        """
        state, name = self.state, self.state.best
        place = self.place(name)
        _remove(self.directory / SUMMARY)  # of the run that was the best before
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            there = self.directory / path.name
            _remove(there)
            if path.is_dir():
                shutil.copytree(path, there)
            else:
                shutil.copy2(path, there)
        last = last_checkpoint(self.directory)
        config, device = read_config(last), find_device(self._device)
        trainer = Trainer(config, self.directory, device, resumed=True, data=self._data)
        trainer.outcome, trainer.source.threads = self.outcome, self._workers
        # It may have been left off in a time slice that does not count.
        steps = None if state.winner else max(1, trainer.state.step)
        trainer.state.command = shell_text(single_run_command(state.command, name, steps))
        return trainer

    def close(self, keep: bool = True) -> None:
        """Remove the runs that took part; unless they are to be kept, and may go on."""
        if not (keep and self.state.can_continue):
            _remove(self.directory / CANDIDATES)


def _winner(names: Sequence[str], pending: Mapping[str, Sequence[Candidate]]) -> str | None:
    """The best run that has solved the task in a round; None if no run has, or one is not done."""
    if not all(map(pending.get, names)):
        return None
    solved = [name for name in names if pending[name][0].solved]
    return max(solved, key=lambda name: pending[name][0].merit, default=None)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
