"""The settings of a task: their types, their defaults and what they mean."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from stacktrans.common.errors import UsageError
from stacktrans.common.registry import GENERATORS
from stacktrans.settings.layers import Settings
from stacktrans.settings.values import Range, Strict
from stacktrans.tasks.base import LengthLaw, Lengths


class TaskLengths(Strict):
    """Lengths of sources, in symbols."""

    train: Range
    """what is trained on."""
    test: Range
    """what generalisation is measured on."""


class TaskLaws(Strict):
    """How lengths are spread over each range."""

    train: LengthLaw
    """over the training range."""
    test: LengthLaw
    """over the test range."""


def paths_of(generator: object) -> tuple[str, ...]:
    """Which parameters of a generator are files; none of one that is unknown."""
    if not isinstance(generator, str) or generator not in GENERATORS:
        return ()  # which will be said when it is made
    paths: tuple[str, ...] = GENERATORS.load(generator).paths
    return paths


class TaskConfig(Strict):
    """What is learned."""

    name: Annotated[str, Field(pattern=r"^[\w.+-]+$")]
    """how the command line calls it."""
    description: str = ""
    """what it maps to what, for people."""
    generator: str
    """what makes its strings: one of `stacktrans list generators`."""
    parameters: Settings = Field(default_factory=dict)
    """what the generator is made with."""
    paper: Annotated[str, Field(pattern=r"^[a-z]+[0-9]+$")] = "grefenstette2015"
    """the paper that it is from, whose recipes it is trained with."""
    lengths: TaskLengths | None = None
    """training and test lengths; null where nothing is drawn, as of a text."""
    length_law: LengthLaw | TaskLaws | None = None
    """how lengths are spread over a range, or over each: uniformly if a file does not say; null
    likewise."""

    @model_validator(mode="before")
    @classmethod
    def _lengths_are_uniform(cls, task: Any) -> Any:
        """Where lengths are drawn and nothing is said of how, they are drawn uniformly."""
        if isinstance(task, dict) and task.get("lengths") and task.get("length_law") is None:
            return {**task, "length_law": "uniform"}
        return task

    @property
    def ranges(self) -> TaskLengths:
        """The lengths of strings that are drawn; raises `UsageError` if none are."""
        if self.lengths is None:
            raise UsageError(f"task {self.name}: nothing is drawn; its strings are in files")
        return self.lengths

    def law_of(self, lengths: Lengths) -> LengthLaw:
        """The law of any range, the task's own or another; raises `UsageError` as `ranges`."""
        own, laws = self.ranges, self.length_law
        assert laws is not None  # as there are lengths
        if not isinstance(laws, TaskLaws):
            return laws
        return {own.train: laws.train, own.test: laws.test}.get(lengths, "uniform")


class TaskFile(TaskConfig):
    """What a file in `tasks/` says."""

    recipes: dict[str, Settings] = Field(default_factory=dict)
    """what was published of how it is trained: changes to the recipe `paper`, under its name."""
