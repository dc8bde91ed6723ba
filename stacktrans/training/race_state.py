"""Saved state of a race between rounds: the progress of its candidates, and which is the best."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stacktrans.common.errors import CheckpointError, UsageError, first_problem
from stacktrans.common.files import RACE, write_atomically
from stacktrans.common.reading import MAX_BYTES, read_bytes
from stacktrans.training.records import SOLUTIONS, STRING_SETS, Outcome
from stacktrans.training.stateful import SavedCount, SavedNumber

Name = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]
Seconds = Annotated[SavedNumber, Field(ge=0)]
Share = Annotated[SavedNumber, Field(ge=0, le=1)]


class Candidate(BaseModel):
    """The progress of a candidate of a race after a time slice.

    Attributes:
        step: batches that it was trained on.
        seconds: training time.
        ended: the rule or the budget that has ended its training, if one has.
        failed: the reason why it can't continue, if it can't.
        loss: running mean of recent losses before rounding, in nats per symbol; None before there
            is one.
        train: coarse accuracy after the last time slice, as in a `Record`; None before there is
            one.
        test: coarse accuracy on longer strings, as in a `Record`; None before there is one.
        stateless: whether its controller has no state, so that it has to use its memory.
        provisional: whether its solution counts only if no other candidate has one when the time is
            over.
        has_fallback: whether it has a solution with which no machine agrees, and no other.
        best: `records.ranking_measures` of its fallback, or else of the best weights that it has
            saved, or would save now; empty before the first time slice.
        cut_short: whether its last time slice was cancelled, and so does not count.
        furthest: the best `test` of all time slices, and the best `train` among these.
        stalled: number of time slices since then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    step: SavedCount = 0
    seconds: Seconds = 0.0
    ended: Outcome | None = None
    failed: str | None = None
    loss: SavedNumber | None = None
    train: Share | None = None
    test: Share | None = None
    stateless: bool = False
    provisional: bool = False
    has_fallback: bool = False
    best: dict[str, SavedNumber] = {}
    cut_short: bool = False
    furthest: tuple[Share, Share] = (0.0, 0.0)
    stalled: SavedCount = 0

    def after(self, before: "Candidate") -> "Candidate":
        """Fill in what a time slice does not determine, from the candidate before it."""
        reached = (self.test or 0.0, self.train or 0.0)
        stalled = 0 if reached > before.furthest else before.stalled + 1
        furthest = max(reached, before.furthest)
        kept = {"stateless": before.stateless, "provisional": before.provisional}
        return self.model_copy(update={"furthest": furthest, "stalled": stalled} | kept)

    @property
    def solved(self) -> bool:
        """Whether it has solved the task."""
        return self.ended in SOLUTIONS

    @property
    def can_continue(self) -> bool:
        """Whether it can get another time slice."""
        return not self.ended and not self.failed

    @property
    def is_right(self) -> bool:
        """Whether its best weights are right on all strings that were measured."""
        coarse = [value for name, value in self.best.items() if name in STRING_SETS]
        return bool(coarse) and min(coarse) == 1

    @property
    def ranking_key(self) -> tuple[Any, ...]:
        """Quantities that candidates are compared by, the greater the better.

        A candidate that is right on all measured strings is better than any other. Otherwise
        accuracies are rounded to hundredths, and the likelihood is ignored: smaller differences may
        be chance. Of candidates that are about equally good, the best is one without a state, which
        is more likely to generalize to longer strings, and the first of these. A provisional one
        has to be more accurate than others on the strings that are compared first.
        """
        sure = not self.provisional
        rounded = [round(each, 2) for name, each in self.best.items() if name != "log_likelihood"]
        first, *others = rounded or [0]
        solved = (self.solved or self.has_fallback) and sure
        return (
            solved,
            solved and not self.has_fallback,
            bool(self.best),
            not self.failed,
            self.is_right and sure,
            first,
            sure,
            *others,
            self.stateless,
        )


class RaceState(BaseModel):
    """The state of a race between two rounds.

    Attributes:
        command: arguments of the command that trains any candidate alone, without --recipe and its
            name.
        budget: seconds that the race may take.
        seconds: seconds that it has taken.
        rounds: number of rounds.
        winner: the candidate that has solved the task, if one has.
        candidates: candidates after the last round, by name, in the order of strategies.
        pending: later results, of time slices that no round has counted yet.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    command: list[str]
    budget: Seconds
    seconds: Seconds = 0.0
    rounds: SavedCount = 0
    winner: str | None = None
    candidates: Annotated[dict[Name, Candidate], Field(min_length=1)]
    pending: dict[Name, list[Candidate]] = {}

    @property
    def latest(self) -> dict[str, Candidate]:
        """Each candidate after its last time slice."""
        return self.candidates | {name: each[-1] for name, each in self.pending.items() if each}

    @property
    def best(self) -> str:
        """The winner or, before there is one, the candidate that has come furthest."""
        return self.winner or max(self.candidates.items(), key=lambda each: each[1].ranking_key)[0]

    @property
    def can_continue(self) -> bool:
        """Whether there would be more to train, if there was time."""
        return not self.winner and any(each.can_continue for each in self.candidates.values())

    def save(self, directory: Path) -> None:
        """Write the state into the directory of the race."""
        content = self.model_dump(mode="json") | {"seconds": round(self.seconds, 1)}
        write_atomically(directory / RACE, json.dumps(content, indent=2) + "\n")


def read_race(directory: Path) -> RaceState:
    """Read the state of the race in a directory; raises `CheckpointError` if that can't be done."""
    path = directory / RACE
    try:
        state = RaceState.model_validate_json(read_bytes(path, MAX_BYTES))
    except UsageError as error:
        raise CheckpointError(*error.problems) from error
    except ValidationError as error:
        raise CheckpointError(f"{path}: damaged ({first_problem(error)})") from error
    if state.winner not in (None, *state.candidates):
        raise CheckpointError(f"{path}: damaged (winner: {state.winner})")
    return state


def race_summary(directory: Path) -> dict[str, Any] | None:
    """The entry of a run's summary on the race that it comes from; None if there was none."""
    if not (directory / RACE).is_file():
        return None
    state = read_race(directory)
    strategies = {name: each.model_dump() for name, each in state.candidates.items()}
    return {"winner": state.winner, "seconds": round(state.seconds, 1), "strategies": strategies}
