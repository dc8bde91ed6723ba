"""The settings of a sweep's file."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from stacktrans.settings.config import TaskConfig
from stacktrans.settings.layers import Settings
from stacktrans.settings.values import Range, Strict, Strings
from stacktrans.tasks.base import DepthLimit, LengthLaw, Lengths, Task

Condition = Annotated[Settings, BeforeValidator(lambda settings: settings or {})]
"""Settings of a condition, perhaps none."""
BY_TASK = "by_task"
"""What settings or a condition say of single tasks of the grid stands under this, by name."""
Figure = float | tuple[float, float, float]
"""A published figure: a number, or least, median and greatest."""


class Measure(Strict):
    """A number that is measured of every run.

    Attributes:
        of: an accuracy, the share of lengths at which every string is right, the perplexity of a
            text, or `machine`: 1 if a machine can be extracted that answers every string as the
            model with hard signals does, 0 if not.
        strings: those that the run's summary measured on; None draws others.
        lengths: of strings that are drawn; those of the task's test range if not given.
        depth: of derivations, instead of lengths.
        each: whether `count` strings are drawn of every length.
        seed: of the strings that are drawn.
        hard: make the memory's signals 0 or 1.
    """

    of: Literal["coarse", "fine", "symbols", "lengths", "perplexity", "machine"]
    strings: Literal["train", "development", "valid", "test"] | None = None
    lengths: Range | None = None
    depth: PositiveInt | None = None
    each: bool = False
    count: Strings = 1000
    seed: Annotated[int, Field(ge=0)] = 1
    hard: bool = False

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        drawn = self.model_fields_set - {"of", "strings"}
        if self.strings and drawn:
            raise ValueError(f"{min(drawn)}: cannot be used with strings: {self.strings}")
        if self.strings and self.of in ("lengths", "machine"):
            raise ValueError(f"of: {self.of} needs strings that are drawn")
        if self.of == "machine" and (others := drawn - {"lengths", "count"}):
            raise ValueError(f"{min(others)}: cannot be used with of: machine")
        if self.of == "perplexity" and self.strings not in ("valid", "test"):
            raise ValueError("of: perplexity needs strings: valid or test")
        if self.of != "perplexity" and self.strings == "valid":
            raise ValueError(f"strings: valid is a text, which has no {self.of} but a perplexity")
        return self

    def range_of(self, config: TaskConfig, task: Task) -> tuple[Lengths, LengthLaw]:
        """The lengths of strings that are drawn, and how they are spread; may raise `NoSuchLaw`."""
        if self.depth is None:
            lengths = self.lengths or config.ranges.test
            return lengths, config.law_of(lengths)
        law = DepthLimit(self.depth)
        return self.lengths or task.lengths_within(law), law


class Choice(Strict):
    """How a winner is chosen.

    Attributes:
        by: the least perplexity in training or, of a text, of the validation text; or the
            greatest accuracy on the development set or on the run's own strings of the test range.
        among: axes of the grid, along which all runs but the winner are dropped.
    """

    by: Literal[
        "training perplexity", "validation perplexity", "development accuracy", "test accuracy"
    ]
    among: list[str]


class Solved(Strict):
    """When a run counts as solved: if a measure is at least so much."""

    measure: str
    least: float


class Published(Strict):
    """Published figures of a measure: by condition, and by task where the grid has tasks."""

    source: str
    measure: str
    values: dict[str, Figure | dict[str, Figure]]


class Part(Strict):
    """A part of a claim: a bound on a cell of the table.

    Attributes:
        task: of the cell, where the grid has tasks.
        measure: the first one if not given.
        above: a condition whose figure is smaller.
    """

    condition: str
    task: str = ""
    measure: str | None = None
    least: float | None = None
    most: float | None = None
    above: str | None = None

    @model_validator(mode="after")
    def _compares(self) -> Self:
        if sum(value is not None for value in (self.least, self.most, self.above)) != 1:
            raise ValueError("expected one of least, most and above")
        return self


class Claim(Strict):
    """A paper's claim, and the parts of the table that have to agree for it to hold here."""

    claim: str
    source: str
    holds: Annotated[list[Part], Field(min_length=1)]


class SweepFile(Strict):
    """A sweep.

    Attributes:
        plugins: files, beside this one, with memories, controllers or generators of one's own.
        settings: shared by all runs, as in a configuration file; under `by_task`, those of single
            tasks of the grid.
        conditions: rows of the table: settings by name, as in a configuration file.
        grid: settings and the values that they take; all combinations are run. Null, in a
            profile, for an axis that it leaves out.
        percent: whether all figures here are in per cent, that of `solved` and the tolerance, too.
        tolerance: how far a figure may be from the published one without being marked.
        choose: how a winner is chosen; the median counts if not given.
        profiles: changes to all of this, by name; one of them can be laid over it.
    """

    title: str
    description: str = ""
    plugins: list[str] = Field(default_factory=list)
    settings: Settings = Field(default_factory=dict)
    conditions: Annotated[dict[str, Condition], Field(min_length=1)]
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    measures: Annotated[dict[str, Measure], Field(min_length=1)]
    percent: bool = False
    tolerance: Annotated[float, Field(ge=0)] = 0
    solved: Solved | None = None
    choose: Choice | None = None
    published: list[Published] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)
    profiles: dict[str, Settings] = Field(default_factory=dict)

    @property
    def unit(self) -> float:
        """What a figure of the file is divided by to be a share of 1."""
        return 100 if self.percent else 1

    @field_validator("grid", mode="before")
    @classmethod
    def _nothing_is_no_axis(cls, grid: Any) -> Any:
        if isinstance(grid, dict):
            return {key: values for key, values in grid.items() if values is not None}
        return grid

    @model_validator(mode="after")
    def _perplexities_are_no_shares(self) -> Self:
        texts = [name for name, measure in self.measures.items() if measure.of == "perplexity"]
        if texts and (self.percent or (self.solved and self.solved.measure in texts)):
            key = "percent" if self.percent else "solved"
            raise ValueError(f"{key}: cannot be used with {texts[0]}, a perplexity")
        return self
