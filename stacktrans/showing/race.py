"""A race of strategies, shown as it goes."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType

from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.tables import GAP, Column, Table
from stacktrans.training.race import Race
from stacktrans.training.turns import Standing


class RaceDisplay(ProgressDisplay):
    """Shows who takes part and how far each has come: a live table, or a line for each turn."""

    def __init__(self, console: Console, race: Race) -> None:
        self._race, self._shown = race, dict(race.standings)
        super().__init__(console, transient=True)

    def _open(self) -> None:
        count = len(self._race.standings)
        self._say(f"{count} strategies take turns; in {self._race.directory}")

    def show(self, race: Race) -> None:
        """Show how the runs stand after one more turn."""
        if self.live:
            self._refresh()
        else:
            for name, standing in race.standings.items():
                if self._shown.get(name) != standing:
                    self._say(_line(name, standing))
        self._shown = dict(race.standings)

    def _now(self) -> RenderableType:
        return race_table({name: vars(each) for name, each in self._race.standings.items()})

    def _close(self) -> None:
        if self.live:
            self._print(self._now())


def _line(name: str, standing: Standing) -> str:
    state = _state(vars(standing))
    loss = "" if standing.loss is None else f"loss {standing.loss:.4f} nats/symbol"
    longer = f"longer strings coarse {standing.test:.2f} fine {standing.fine:.2f}"
    parts = (name, f"batch {standing.step}", loss, longer if standing.fine else "", state)
    return GAP.join(filter(None, parts))


def _state(standing: Mapping[str, Any]) -> str:
    return str(standing["failed"] or standing["ended"] or "")


def race_table(standings: Mapping[str, Mapping[str, Any]]) -> Table:
    """How strategies stand, those with the best first."""
    table = Table(
        Column("strategy", left=True),
        "batches",
        Column("seconds", drop=3),
        Column("nats/symbol", drop=2),
        Column("coarse", "training lengths", drop=1),
        Column("coarse", "longer strings"),
        Column("fine", "longer strings", drop=4),
        Column("", left=True),
    )
    for name, each in sorted(
        standings.items(), key=lambda item: Standing(**item[1]).merit, reverse=True
    ):
        loss = "" if each["loss"] is None else f"{each['loss']:.4f}"
        accuracies = (f"{each[part]:.2f}" for part in ("train", "test", "fine"))
        table.add_row(name, each["step"], f"{each['seconds']:.0f}", loss, *accuracies, _state(each))
    return table
