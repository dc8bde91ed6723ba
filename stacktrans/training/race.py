"""A race: runs with different strategies that take turns, until one has solved the task.

Who is next depends on what the runs have achieved after so many batches, and not on how long that
took; so a race that is interrupted and resumed comes to the same, however many processes there are.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from stacktrans.common.errors import CheckpointError, StacktransError, UsageError
from stacktrans.common.files import locked, write_atomically
from stacktrans.common.processes import KILLED, MOST_DEATHS, Pool
from stacktrans.common.registry import plugin_files
from stacktrans.common.visible import shell_text
from stacktrans.model.checkpoint import CONFIG, unfinished
from stacktrans.model.devices import find_device
from stacktrans.settings.command import alone as command_alone
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.training.records import BUDGETS, SUMMARY
from stacktrans.training.saving import TrainingError, has_last
from stacktrans.training.standings import FOLDER, RaceState, Standing, read_race
from stacktrans.training.trainer import Trainer
from stacktrans.training.turns import forget, take_turn

BUDGET = 300.0
"""Seconds of a race that is given none."""
TURN = 200
"""Batches of a turn."""
TAKEN_OFF = 0.5
"""A run that is right on so many of the longer strings is likely to be right on all soon."""
PATIENCE = 5
"""Rounds in a row in which only runs that have taken off are trained."""
LOCK = ".lock"

Standings = Mapping[str, Standing]


def next_round(number: int, standings: Standings, alone: int) -> list[str]:
    """The runs that have a turn in a round, the best first, of those that can go on.

    The best has a turn in each round, the next two in every second one, the next four in every
    fourth, and so on: every tier has the same share of the time. As long as there are not more than
    `PATIENCE` rounds in a row of them, runs that have taken off are alone.

    Args:
        number: how many rounds there were in which all could have a turn; in the first all do.
        standings: of all runs, by name, in the order of strategies.
        alone: how many rounds there were since the last of these.
    """
    able = [name for name, each in standings.items() if each.can_go_on]
    ranked = sorted(able, key=lambda name: standings[name].merit, reverse=True)
    if number and alone < PATIENCE and (ahead := _ahead(ranked, standings)):
        return ahead
    return [
        name
        for place, name in enumerate(ranked, start=1)
        if number % (1 << (place.bit_length() - 1)) == 0
    ]


def _ahead(names: Sequence[str], standings: Standings) -> list[str]:
    return [name for name in names if standings[name].test >= TAKEN_OFF]


def begin(
    directory: Path,
    configs: Mapping[str, RunConfig],
    command: Sequence[str],
    budget: float | None = None,
) -> None:
    """Write down, in a directory that is free, who takes part in a race, and how long it takes.

    Args:
        configs: by the names of strategies, in their order.
        command: the words of a command that trains any of them alone, if its recipe is added.
        budget: seconds; unless given, the time limit of each run, or else `BUDGET`.
    """
    limits = (config.training.time_limit for config in configs.values())
    budget = budget or max(filter(None, limits), default=BUDGET)
    folder = directory / unfinished(FOLDER)
    _remove(folder)
    for name, config in configs.items():
        (folder / name).mkdir(parents=True)
        own = config.model_copy(update={"workers": 1})
        write_atomically(folder / name / CONFIG, own.to_yaml())
    standings = {name: Standing() for name in configs}
    RaceState(command=[*command], budget=budget, standings=standings).save(directory)
    # Last, so that it is a race when all is there.
    folder.rename(directory / FOLDER)


class Race:
    """Runs that take turns, each in a directory of its own within that of the race.

    Attributes:
        directory: of the race, where its best run ends.
        state: how the race stands, once it is opened.
        stop_requested: set to a signal's number, it ends `run` after the batch.
    """

    state: RaceState

    def __init__(self, directory: Path, device: str, workers: int) -> None:
        self.directory, self.stop_requested = directory, 0
        self._device, self._workers, self._decided = device, workers, False

    def place(self, name: str) -> Path:
        """The directory of a run that takes part."""
        return self.directory / FOLDER / name

    def configs(self) -> dict[str, RunConfig]:
        """The configurations of those that take part, by name; raises as `resolve` does."""
        names = read_race(self.directory).standings
        return {name: resolve(config=str(self.place(name) / CONFIG)) for name in names}

    @contextmanager
    def opened(self, budget: float | None = None) -> Iterator[None]:
        """Have the race for this process alone, perhaps with a new budget.

        Raises:
            StacktransError: another process has it, or its files can't be read.
            UsageError: it has already taken longer than the new budget.
        """
        with open(self.directory / FOLDER / LOCK, "wb") as stream:
            if not locked(stream):
                raise TrainingError(f"{self.directory}: another process is training here")
            self.state = read_race(self.directory)
            self._check_places()
            self._began = time.monotonic() - self.state.seconds
            if budget is not None:
                if budget < self.state.seconds:
                    had = f"the race has already had {self.state.seconds:.0f} seconds"
                    raise UsageError(f"budget {budget:g}: {had}")
                self.state.budget = budget
            yield

    def _check_places(self) -> None:
        """Raise `CheckpointError` if something is missing of a run that may have another turn."""
        for name, each in self.state.standings.items() if self.state.can_go_on else ():
            place = self.place(name)
            if each.can_go_on and not (place / CONFIG).is_file():
                raise CheckpointError(f"{place / CONFIG}: missing; the race can't go on without it")
            if each.can_go_on and each.step and not has_last(place):
                raise CheckpointError(f"{place / 'last'}: missing; the race can't go on without it")

    def run(self, show: Callable[[], None]) -> None:
        """Have all take turns until one has solved the task, or the time is over.

        One has at least a batch, however short the time is. `show` is called after each turn.

        Raises `StacktransError` if no run can be trained, or one can't be read or written.
        """
        state = self.state
        self._began = time.monotonic() - state.seconds
        try:
            with Pool(min(self._workers, len(state.standings)), self._is_over) as pool:
                while state.can_go_on and (self._must_begin or not self._is_over()):
                    self._carry_out(pool, show)
        finally:
            forget(self.directory / FOLDER)
        state.seconds = self.elapsed
        state.save(self.directory)
        failed = {name: each.failed for name, each in state.standings.items()}
        if all(failed.values()):
            raise StacktransError(
                "no strategy could be trained; what they had learned is in "
                f"{self.directory / FOLDER}",
                *(f"{name}: {reason}" for name, reason in failed.items()),
            )

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
        trained = any(each.step for each in self.state.standings.values())
        return not (trained or self.stop_requested)

    def _carry_out(self, pool: Pool, show: Callable[[], None]) -> None:
        """Carry out a round, and note it when it is complete or nothing can change it any more."""
        state = self.state
        before = dict(state.standings)
        names = next_round(state.rounds, before, state.alone)
        alone = bool(state.rounds and state.alone < PATIENCE and _ahead(names, before))
        work = partial(_turn, before, TURN, self.directory / FOLDER, self._device, plugin_files())
        todo, done, deaths = list(names), set[str](), Counter[str]()
        while todo or pool.at_work:
            first = self._must_begin and not pool.at_work
            while todo and pool.is_free and (first or not self._is_over()):
                first = False
                todo.remove(pool.submit(todo, work))
            if not pool.at_work:
                break
            for name, found in pool.finished():
                if found == KILLED:
                    deaths[name] += 1
                    if deaths[name] < MOST_DEATHS:
                        todo.append(name)
                        continue
                    found = before[name].model_copy(update={"failed": KILLED})
                state.standings[name] = found
                if not found.can_go_on or found.step >= before[name].step + TURN:
                    done.add(name)  # which it has not if it was left off
                show()
            self._decided, todo = _decided(names, state.standings, done, todo)
        if self.stop_requested and not self._decided and done != {*names}:
            state.standings = before  # to be done again, from what the runs have saved
            return
        state.winner = next((name for name in names if state.standings[name].solved), None)
        state.rounds, state.alone = (
            (state.rounds, state.alone + 1) if alone else (state.rounds + 1, 0)
        )
        state.seconds = self.elapsed
        state.save(self.directory)

    @property
    def outcome(self) -> str | None:
        """The budget that has ended the best run; None if a rule has."""
        ended = self.state.standings[self.state.best].ended
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
            if not state.can_go_on:
                path.replace(there)
            elif path.is_dir():
                shutil.copytree(path, there)
            else:
                shutil.copy2(path, there)
        trainer = Trainer.resume(self.directory, [], find_device(self._device))
        trainer.outcome = self.outcome
        steps = None if state.winner else max(1, state.standings[name].step)
        trainer.state.command = shell_text(command_alone(state.command, name, steps))
        return trainer

    def close(self, keep: bool = True) -> None:
        """Remove the runs that took part; unless they are to be kept, and may go on."""
        if not (keep and self.state.can_go_on):
            _remove(self.directory / FOLDER)


def _decided(
    names: Sequence[str], standings: Standings, done: set[str], todo: Sequence[str]
) -> tuple[bool, list[str]]:
    """Whether the winner of a round is known, and who must still have a turn.

    It is the first, in the round's order, that has solved the task.
    """
    solved = next((name for name in names if name in done and standings[name].solved), None)
    if solved is None:
        return False, [*todo]
    earlier = names[: names.index(solved)]
    return done.issuperset(earlier), [name for name in todo if name in earlier]


def _turn(
    before: Standings,
    size: int,
    folder: Path,
    device: str,
    plugins: list[str],
    name: str,
    unwanted: Callable[[], bool],
) -> Standing:
    return take_turn(folder / name, before[name], size, device, plugins, unwanted)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
