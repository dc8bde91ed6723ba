"""The schema of a sweep's YAML file: grid, conditions, measures, claims and published figures."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from stacktrans.settings.config import TaskConfig
from stacktrans.settings.layers import Settings
from stacktrans.settings.values import LengthRange, Section, StringCount
from stacktrans.tasks.base import Task
from stacktrans.tasks.lengths import LengthDistribution, Lengths

Condition = Annotated[Settings, BeforeValidator(lambda settings: settings or {})]
"""Settings of a condition; null for none."""
BY_TASK = "by_task"
"""The key of settings for single tasks of the grid, by the tasks' names."""
RUN_FACTS = ("outcome", "seconds", "batches", "attempts", "parameters", "perplexity")
"""What is known of each run besides its measures."""
Figure = float | tuple[float, float, float]
"""A published figure: a number, or the least, the median and the greatest."""


class Measure(Section):
    """A quantity that is measured of every run.

    Attributes:
        of: an accuracy, the share of lengths at which every string is right, the share of symbols
            that are right at their positions (averaged over lengths), the perplexity of a text, or
            `machine`: 1 if a machine can be extracted that answers all drawn strings as the hard
            model does, 0 if not.
        strings: the set of strings that the run's summary measured on; None to draw others.
        lengths: the lengths of drawn strings; by default those of the task's test range.
        depth: the greatest depth of drawn derivations, instead of lengths.
        each: whether `count` strings are drawn of every length.
        count: the number of drawn strings.
        seed: the random seed of drawn strings.
        hard: whether the memory's signals are rounded to 0 or 1.
    """

    of: Literal["coarse", "fine", "symbols", "positions", "lengths", "perplexity", "machine"]
    strings: Literal["train", "development", "valid", "test"] | None = None
    lengths: LengthRange | None = None
    depth: PositiveInt | None = None
    each: bool = False
    count: StringCount = 1000
    seed: Annotated[int, Field(ge=0)] = 1
    hard: bool = False

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        given = self.model_fields_set - {"of", "strings"}
        if self.strings and given:
            raise ValueError(f"{min(given)}: cannot be used with strings: {self.strings}")
        if self.strings and self.of in ("positions", "lengths", "machine"):
            raise ValueError(f"of: {self.of} needs strings that are drawn")
        if self.of == "machine" and (others := given - {"lengths", "count"}):
            raise ValueError(f"{min(others)}: cannot be used with of: machine")
        if self.of == "perplexity" and self.strings not in ("valid", "test"):
            raise ValueError("of: perplexity needs strings: valid or test")
        if self.of != "perplexity" and self.strings == "valid":
            raise ValueError(f"strings: valid is a text, which has no {self.of} but a perplexity")
        return self

    def range_of(self, config: TaskConfig, task: Task) -> tuple[Lengths, LengthDistribution]:
        """The range of lengths of drawn strings, and their distribution; may raise `NoSuchLaw`."""
        return config.range_of(task, self.lengths, self.depth, config.ranges.test)


class Choice(Section):
    """The choice of a winner among runs.

    Attributes:
        by: the criterion: least perplexity in training or of the validation text, or greatest
            accuracy on the development set or on the run's own strings of the test range.
        among: axes of the grid; of the runs along them, only the winner counts.
    """

    by: Literal[
        "training perplexity", "validation perplexity", "development accuracy", "test accuracy"
    ]
    among: list[str]


class SolvedCriterion(Section):
    """The criterion of a solved run: a lower bound on a measure."""

    measure: str
    least: float


class Published(Section):
    """Published figures of a measure, by condition and, if the grid has tasks, by task."""

    source: str
    measure: str
    values: dict[str, Figure | dict[str, Figure]]


class ClaimPart(Section):
    """A part of a claim: a bound on a cell of the table.

    Attributes:
        condition: the condition of the cell.
        task: the task of the cell, if the grid has tasks.
        measure: the measure of the cell; the sweep's first one by default.
        least: a lower bound on the figure.
        most: an upper bound on the figure.
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


class Claim(Section):
    """A claim of a paper, and the bounds on cells under which the sweep confirms it."""

    claim: str
    source: str
    holds: Annotated[list[ClaimPart], Field(min_length=1)]


class SweepFile(Section):
    """The schema of a sweep's file.

    Attributes:
        plugins: paths of plugin files, relative to this file.
        settings: settings of all runs, as in a configuration file; under `by_task`, those of single
            tasks of the grid.
        conditions: the rows of the table: settings by name, as in a configuration file.
        grid: settings and the values that they take; all combinations are run. In a profile, null
            removes an axis.
        measures: what is measured of every run, by name.
        percent: whether all figures of this file, with `solved` and the tolerance, are percentages.
        tolerance: the greatest difference to a published figure that is not marked.
        solved: the criterion of a solved run.
        choose: the choice of winners; by default all runs count.
        figure: what tables and plots show of the runs that count: their median, in plots with their
            range, or their mean with its 95% bootstrap interval.
        profiles: changes to this file, by name; one of them can be requested.
    """

    KIND: ClassVar = "key"
    """What its fields are called in messages: those of a run are the settings."""

    title: str
    description: str = ""
    plugins: list[str] = Field(default_factory=list)
    settings: Settings = Field(default_factory=dict)
    conditions: Annotated[dict[str, Condition], Field(min_length=1)]
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    measures: Annotated[dict[str, Measure], Field(min_length=1)]
    percent: bool = False
    tolerance: Annotated[float, Field(ge=0)] = 0
    solved: SolvedCriterion | None = None
    choose: Choice | None = None
    figure: Literal["median", "mean"] = "median"
    published: list[Published] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)
    profiles: dict[str, Settings] = Field(default_factory=dict)

    @property
    def unit(self) -> float:
        """The divisor that turns a figure of the file into a share of 1."""
        return 100 if self.percent else 1

    @property
    def columns(self) -> list[str]:
        """The columns of the results as CSV."""
        return ["condition", *self.grid, *RUN_FACTS, *self.measures, "error", "command"]

    @property
    def shows_best_run(self) -> bool:
        """Whether the figure of a cell is that of its best run, and not of all that count."""
        return bool(self.choose and "seed" in self.choose.among)

    @field_validator("grid", mode="before")
    @classmethod
    def _without_null_axes(cls, grid: Any) -> Any:
        if isinstance(grid, dict):
            return {key: values for key, values in grid.items() if values is not None}
        return grid

    @model_validator(mode="after")
    def _columns_are_distinct(self) -> Self:
        for name in self.measures:
            if self.columns.count(name) > 1:
                raise ValueError(f"measures.{name}: the name of another column of the results")
        return self

    @model_validator(mode="after")
    def _shares_are_at_most_1(self) -> Self:
        texts = [name for name, measure in self.measures.items() if measure.of == "perplexity"]
        if self.solved and self.solved.measure not in texts and self.solved.least > self.unit:
            raise ValueError(f"solved.least: expected at most {self.unit:g}")
        if texts and (self.percent or (self.solved and self.solved.measure in texts)):
            key = "percent" if self.percent else "solved"
            raise ValueError(f"{key}: cannot be used with {texts[0]}, a perplexity")
        return self
