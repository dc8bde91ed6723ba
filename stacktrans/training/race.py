"""A race: runs with different strategies that take turns, until one has solved the task.

Who is next depends on what the runs have achieved after so many batches, and not on how long that
took; so a race that is interrupted and resumed comes to the same, however many processes there are.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from stacktrans.common.errors import StacktransError
from stacktrans.common.files import write_atomically
from stacktrans.common.processes import Pool
from stacktrans.common.registry import plugin_files
from stacktrans.model.checkpoint import CONFIG
from stacktrans.settings.config import RunConfig
from stacktrans.training.records import RACE
from stacktrans.training.turns import Standing, take_turn

FOLDER = "race"
"""Where in it the runs are that take part."""
TURN = 200
"""Batches of a turn."""
TAKEN_OFF = 0.5
"""A run that is right on so many of the longer strings is likely to be right on all soon."""
PATIENCE = 10
"""Turns in which only runs that have taken off are trained."""

Standings = dict[str, Standing]


def next_round(number: int, standings: Standings, solo: int) -> list[str]:
    """The runs that have a turn in a round, the best first, of those that can go on.

    The best has a turn in each round, the next two in every second one, the next four in every
    fourth, and so on: every tier has the same share of the time. As long as there are not more than
    `PATIENCE` rounds in a row of them, runs that have taken off are alone.

    Args:
        number: of the round, from 0; in the first all have a turn.
        standings: of all runs, by name, in the order of strategies.
        solo: how many rounds in a row were of such runs alone.
    """
    able = [name for name, each in standings.items() if not each.failed and not each.ended]
    ranked = sorted(able, key=lambda name: standings[name].merit, reverse=True)
    if number == 0:
        return ranked
    ahead = [name for name in ranked if standings[name].test >= TAKEN_OFF]
    if ahead and solo < PATIENCE:
        return ahead
    return [
        name
        for place, name in enumerate(ranked, start=1)
        if number % (1 << (place.bit_length() - 1)) == 0
    ]


def winner_of(round_: Sequence[str], standings: Standings) -> str | None:
    """The first run of a round that has solved the task; None if none has."""
    return next((name for name in round_ if standings[name].ended == "solved"), None)


def is_race(directory: Path) -> bool:
    """Whether a directory is that of a race that has not ended."""
    return (directory / RACE).is_file() and (directory / FOLDER).is_dir()


class Race:
    """Runs that take turns, each in a directory of its own within that of the race.

    Attributes:
        standings: of all runs, by name.
        rounds: number of rounds that are done.
        command: the words of a command that trains any of them alone, if its recipe is added.
        winner: the run that has solved the task; None before one has.
        seconds: that the race has taken.
    """

    def __init__(self, directory: Path, device: str, workers: int) -> None:
        self.directory, self.stop_requested = directory, 0
        self._device, self._workers = device, workers
        self.standings: Standings = {}
        self.command: list[str] = []
        self.rounds, self.solo, self.seconds = 0, 0, 0.0
        self.winner: str | None = None

    def begin(self, configs: Mapping[str, RunConfig], command: Sequence[str]) -> None:
        """Write down who takes part."""
        self.command = [*command]
        for name, config in configs.items():
            place = self.place(name)
            place.mkdir(parents=True, exist_ok=True)
            write_atomically(place / CONFIG, config.to_yaml())
            self.standings[name] = Standing()
        self._save()

    def load(self) -> None:
        """Take up what was saved; raises `StacktransError` if it is damaged."""
        path = self.directory / RACE
        try:
            found = json.loads(path.read_text())
            self.standings = {name: Standing(**each) for name, each in found["standings"].items()}
            self.command = [*map(str, found["command"])]
            self.rounds, self.solo = int(found["rounds"]), int(found["solo"])
            self.seconds, self.winner = float(found["seconds"]), found["winner"]
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise StacktransError(f"{path}: damaged ({error})") from error

    def place(self, name: str) -> Path:
        """The directory of a run that takes part."""
        return self.directory / FOLDER / name

    def run(self, budget: float, show: Callable[["Race"], None]) -> str:
        """Have all take turns until one has solved the task, or for so many seconds.

        Returns:
            The run that has solved it, or else the one that has come furthest.
        """
        with Pool(self._workers) as pool:
            while self.winner is None and not self.stop_requested and self.seconds < budget:
                names = next_round(self.rounds, self.standings, self.solo)
                if not names:
                    break
                began = time.monotonic()
                self._carry_out(names, pool, budget - self.seconds, show)
                self.seconds += time.monotonic() - began
        return self.winner or max(self.standings, key=lambda name: self.standings[name].merit)

    def _carry_out(
        self, names: Sequence[str], pool: Pool, left: float, show: Callable[["Race"], None]
    ) -> None:
        """Carry out a round, and note it when it is complete or has a winner."""
        before, ends = dict(self.standings), time.monotonic() + left
        folder, plugins = self.directory / FOLDER, plugin_files()
        work = partial(_turn, before, TURN, folder, self._device, plugins)
        todo, done = list(names), set[str]()
        while todo or pool.is_working:
            if self.stop_requested or time.monotonic() > ends:
                todo = []
            while todo and pool.is_free:
                todo.remove(pool.submit(todo, work))
            for name, standing in pool.finished() if pool.is_working else ():
                self.standings[name] = standing
                done.add(name)
                show(self)
                if standing.ended == "solved":
                    # Those before it in this round may have solved it, too.
                    todo = [each for each in todo if names.index(each) < names.index(name)]
        self.winner = winner_of(names, self.standings)
        if not self.winner and self.stop_requested and len(done) < len(names):
            self.standings = before  # to be done again, from what the runs have saved
            return
        alone = all(before[name].test >= TAKEN_OFF for name in names)
        self.rounds, self.solo = self.rounds + 1, self.solo + 1 if alone else 0
        self._save()

    def _save(self) -> None:
        state = {
            "command": self.command,
            "rounds": self.rounds,
            "solo": self.solo,
            "seconds": round(self.seconds, 1),
            "winner": self.winner,
            "standings": {name: asdict(each) for name, each in self.standings.items()},
        }
        write_atomically(self.directory / RACE, json.dumps(state, indent=2) + "\n")

    def settle(self, name: str) -> None:
        """Make a run that has taken part the run of the race's own directory; remove the others."""
        place = self.place(name)
        for path in sorted(place.iterdir()) if place.is_dir() else []:
            path.replace(self.directory / path.name)
        shutil.rmtree(self.directory / FOLDER, ignore_errors=True)


def _turn(
    before: Standings, size: int, folder: Path, device: str, plugins: list[str], name: str
) -> Standing:
    since = before[name].step
    return take_turn(folder / name, since, since + size, device, plugins)
