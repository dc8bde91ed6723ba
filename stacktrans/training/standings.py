"""How far the runs of a race have come, and the file that says so."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stacktrans.common.errors import CheckpointError, UsageError
from stacktrans.common.files import RACE, write_atomically
from stacktrans.common.reading import MOST_BYTES, read_bytes
from stacktrans.training.records import RULES
from stacktrans.training.state import Count, Number

Name = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]
Seconds = Annotated[Number, Field(ge=0)]
Share = Annotated[Number, Field(ge=0, le=1)]


class Standing(BaseModel):
    """How far a run has come in its turns.

    Attributes:
        step: batches that it was trained on.
        seconds: that this took.
        ended: the rule or the budget that has ended its training, if one has.
        failed: why it can't continue, if it can't.
        loss: mean of its recent losses, nats a symbol; None before there is one.
        train: coarse accuracy after its last turn, as in a `Record`; so is `test`. None before it
            had one.
        best: the `records.merit` of the weights that it has saved as its best, or would save now;
            empty before it had a turn.
        furthest: the best `test` of all turns, and of these the best `train`.
        stalled: turns since it has come so far.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    step: Count = 0
    seconds: Seconds = 0.0
    ended: Annotated[str, Field(pattern=f"^({'|'.join(RULES)})$")] | None = None
    failed: str | None = None
    loss: Number | None = None
    train: Share | None = None
    test: Share | None = None
    best: dict[str, Number] = {}
    furthest: tuple[Share, Share] = (0.0, 0.0)
    stalled: Count = 0

    def after(self, before: "Standing") -> "Standing":
        """This one, if that is how the run stood a turn before."""
        reached = (self.test or 0.0, self.train or 0.0)
        further = reached > before.furthest
        return self.model_copy(
            update={
                "furthest": reached if further else before.furthest,
                "stalled": 0 if further else before.stalled + 1,
            }
        )

    @property
    def solved(self) -> bool:
        """Whether it has solved the task."""
        return self.ended == "solved"

    @property
    def can_go_on(self) -> bool:
        """Whether it can have another turn."""
        return not self.ended and not self.failed

    @property
    def merit(self) -> tuple[Any, ...]:
        """What runs are compared by, the more the better: above all their best weights."""
        return self.solved, not self.failed, *self.best.values()


class RaceState(BaseModel):
    """How a race stands between two rounds.

    Attributes:
        command: the words of a command that trains any of the runs alone, if its recipe is added.
        budget: seconds that the race has.
        seconds: that it has taken.
        rounds: number of rounds.
        winner: the run that has solved the task; None before one has.
        standings: of all runs after the last round, by name, in the order of strategies.
        ahead: after each turn that a run has had since.
        sizes: symbols in a batch of each run whose batches are made by these.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    command: list[str]
    budget: Seconds
    seconds: Seconds = 0.0
    rounds: Count = 0
    winner: str | None = None
    standings: Annotated[dict[Name, Standing], Field(min_length=1)]
    ahead: dict[Name, list[Standing]] = {}
    sizes: dict[Name, Annotated[int, Field(gt=0)]] = {}

    @property
    def latest(self) -> dict[str, Standing]:
        """How each run stands after its last turn."""
        since = {name: turns[-1] for name, turns in self.ahead.items() if turns}
        return self.standings | since

    def close_round(self, names: Sequence[str], winner: str | None) -> None:
        """Note a round of some runs, as far as their turns are known, and who has won in it."""
        for name in filter(self.ahead.get, names):
            self.standings[name] = self.ahead[name].pop(0)
        self.rounds, self.winner = self.rounds + 1, winner

    @property
    def best(self) -> str:
        """The run that has won or, before one has, that has come furthest."""
        return self.winner or max(self.standings, key=lambda name: self.standings[name].merit)

    @property
    def can_go_on(self) -> bool:
        """Whether there would be more to train, if there was time."""
        return not self.winner and any(each.can_go_on for each in self.standings.values())

    def save(self, directory: Path) -> None:
        """Write it into the directory of a race."""
        content = self.model_dump(mode="json") | {"seconds": round(self.seconds, 1)}
        write_atomically(directory / RACE, json.dumps(content, indent=2) + "\n")


def read_race(directory: Path) -> RaceState:
    """How the race in a directory stands; raises `CheckpointError` if that can't be read."""
    path = directory / RACE
    try:
        state = RaceState.model_validate_json(read_bytes(path, MOST_BYTES))
    except UsageError as error:
        raise CheckpointError(*error.problems) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        said = f"{place}: {first['msg']}" if place else first["msg"]
        raise CheckpointError(f"{path}: damaged ({said})") from error
    if state.winner not in (None, *state.standings):
        raise CheckpointError(f"{path}: damaged (winner: {state.winner})")
    return state


def raced(directory: Path) -> dict[str, Any] | None:
    """What a run's summary says of the race that it has come from; None if it comes from none."""
    if not (directory / RACE).is_file():
        return None
    state = read_race(directory)
    strategies = {name: each.model_dump() for name, each in state.standings.items()}
    return {"winner": state.winner, "seconds": round(state.seconds, 1), "strategies": strategies}
