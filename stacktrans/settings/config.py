"""Schemas of the settings of a run, its task, and the checkpoint that it starts from.

Most defaults switch a feature off. The settings of an optional feature form a block that can be
null.
"""

import hashlib
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from stacktrans.common import __version__
from stacktrans.common.documents import yaml_text
from stacktrans.common.errors import UsageError, first_problem
from stacktrans.common.registry import GENERATORS
from stacktrans.settings.layers import Settings, SettingsLayer, merged_settings
from stacktrans.settings.locations import AUTO
from stacktrans.settings.model_config import InitializationConfig, ModelConfig, RecurrentConfig
from stacktrans.settings.training_config import TrainingConfig
from stacktrans.settings.values import LengthRange, Section
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Task
from stacktrans.tasks.lengths import DepthLimit, LengthDistribution, Lengths


class TaskLengths(Section):
    """Lengths of sources, in symbols."""

    train: LengthRange
    """lengths of training strings."""
    test: LengthRange
    """lengths of the strings that generalization is measured on."""


class TaskLaws(Section):
    """The distributions of training and test lengths."""

    train: LengthDistribution
    """over the training range."""
    test: LengthDistribution
    """over the test range."""


def path_parameters(generator: object) -> tuple[str, ...]:
    """The parameters of a generator that are paths of files; none for an unknown generator."""
    if not isinstance(generator, str) or generator not in GENERATORS:
        return ()  # reported when the task is made
    paths: tuple[str, ...] = GENERATORS.load(generator).file_parameters
    return paths


class TaskConfig(Section):
    """The task: its generator, parameters, alphabets and lengths."""

    name: Annotated[str, Field(pattern=r"^[\w.+-]+$", title="name of letters, digits and _ . + -")]
    """its name on the command line."""
    description: str = ""
    """the mapping from sources to targets, for people."""
    generator: str
    """the generator of its strings: one of `stacktrans list generators`."""
    parameters: Settings = Field(default_factory=dict)
    """parameters of the generator."""
    paper: Annotated[
        str, Field(pattern=r"^[a-z]+[0-9]+$", title="name and year such as hao2018")
    ] = "grefenstette2015"
    """the paper that it is from, which has recipes for it."""
    lengths: TaskLengths | None = None
    """training and test lengths; null if no strings are drawn, as with a text."""
    length_law: LengthDistribution | TaskLaws | None = None
    """distribution of lengths over a range, or over each of the two; uniform unless set; null if no
    strings are drawn."""

    @model_validator(mode="after")
    def _only_files_have_empty_sources(self) -> Self:
        if self.lengths and not path_parameters(self.generator):
            for part, lengths in self.lengths:
                if not lengths.shortest:
                    raise ValueError(f"lengths.{part}: expected 1 <= shortest")
        return self

    @model_validator(mode="before")
    @classmethod
    def _lengths_are_uniform(cls, task: Any) -> Any:
        """Make the distribution of lengths uniform unless one is set."""
        if isinstance(task, dict) and task.get("lengths") and task.get("length_law") is None:
            return {**task, "length_law": "uniform"}
        return task

    def deciding_settings(self) -> Settings:
        """All settings that influence results.

        For pairs in files these are the known symbols and checksums, but not the paths.
        """
        deciding = self.model_dump(mode="json", exclude={"description", "paper"})
        for path in path_parameters(self.generator):
            deciding["parameters"].pop(path, None)
        return deciding

    def make(self) -> Task:
        """Make the task by its generator; raises `TaskError` if it can't be made."""
        return make_task(self.name, self.generator, self.parameters)

    @property
    def ranges(self) -> TaskLengths:
        """The lengths of strings that are drawn; raises `UsageError` if none are drawn."""
        if self.lengths is None:
            raise UsageError(
                f"task {self.name}: has no generator of strings; its strings are in files"
            )
        return self.lengths

    @property
    def training_law(self) -> LengthDistribution:
        """The distribution of training lengths; raises `UsageError` if none are drawn."""
        laws = self.length_law
        return laws.train if isinstance(laws, TaskLaws) else self.law_of(self.ranges.train)

    def law_of(self, lengths: Lengths) -> LengthDistribution:
        """The distribution of lengths over any range; raises `UsageError` if none are drawn.

        If training and test strings are equally long, it is that of test strings.
        """
        own, laws = self.ranges, self.length_law
        assert laws is not None  # as there are lengths
        if not isinstance(laws, TaskLaws):
            return laws
        return {own.train: laws.train, own.test: laws.test}.get(lengths, "uniform")

    def range_of(
        self, task: Task, lengths: Lengths | None, depth: int | None, default: Lengths
    ) -> tuple[Lengths, LengthDistribution]:
        """A range of lengths, and the distribution over it.

        Args:
            task: the task.
            lengths: the range; None for the default, or for all lengths up to the depth.
            depth: maximum depth of derivations, all equally likely; None for the task's own
                distribution.
            default: the range without either.

        Raises:
            NoSuchLaw: a depth is given for a task without a grammar.
        """
        if depth is None:
            return lengths or default, self.law_of(lengths or default)
        law = DepthLimit(depth)
        within = task.lengths_within(law)
        return lengths or within, law


PUBLISHED = "paper"
"""The recipe of published settings, the only one that a task may change."""


class TaskFile(TaskConfig):
    """The contents of a file in `tasks/`."""

    recipes: dict[str, Settings] = Field(default_factory=dict)
    """published training settings: changes to the recipe `paper`, under its name."""

    @model_validator(mode="after")
    def _recipes_are_published(self) -> Self:
        for name in self.recipes:
            if name != PUBLISHED:
                raise ValueError(
                    f"recipes.{name}: expected only {PUBLISHED}, for the published settings of the "
                    "task; other training settings belong in a file of settings"
                )
        return self


FORMAT: Literal[3] = 3
"""Version of the layout of configurations and checkpoints."""

NOT_RACED = "a run that starts from a checkpoint is not raced"


class SymbolTransferConfig(Section):
    """The symbols of a run that its initial checkpoint has, lacks, or has in addition."""

    carried_over: Annotated[int, Field(ge=0)]
    """number of symbols that both have."""
    new: Annotated[int, Field(ge=0)]
    """number of symbols that only the run has."""
    dropped: Annotated[int, Field(ge=0)]
    """number of symbols that only the checkpoint has."""

    def __str__(self) -> str:
        return f"{self.carried_over} carried over, {self.new} new, {self.dropped} dropped"


class StartFromConfig(Section):
    """The trained model that a run starts from."""

    checkpoint: str
    """its directory, or the name of a shipped one."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """checksum of the file of its weights."""
    source_symbols: SymbolTransferConfig | None = None
    """comparison of the symbols of sources, features included; filled in by the run."""
    target_symbols: SymbolTransferConfig | None = None
    """comparison of the symbols of targets; filled in by the run."""


SeedNumber = Annotated[int, Field(ge=0, lt=10**18)]


class Seed(Section):
    """The random seed of a run whose other settings are not validated yet."""

    seed: SeedNumber = 1


class RunConfig(Section):
    """The complete configuration of a run."""

    format: Literal[3] = FORMAT
    """version of this layout."""
    version: str = __version__
    """version of stacktrans that wrote it."""
    recipe: str
    """the recipe that it is based on."""
    seed: SeedNumber = 1
    """seed of all random numbers of the run."""
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    """threads of torch."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """processes. In a single run, all but one train the attempts that would come next, which are
    used if it restarts; in a race of a sweep, they train candidates. The number changes the result
    only if time runs out. For the races of `train`, use --workers."""
    start_from: StartFromConfig | None = None
    """the checkpoint with the initial weights; null for new weights."""
    task: TaskConfig
    """the task."""
    model: ModelConfig
    """the model that learns it."""
    training: TrainingConfig
    """how it is trained."""

    @property
    def is_rounded(self) -> bool:
        """Whether the model is rounded to a discrete one when a rule has ended the run."""
        has_strengths = self.model.memory.name != "none" or self.model.buffers is not None
        return self.training.rounding is not None and has_strengths

    @property
    def has_pair_files(self) -> bool:
        """Whether the training data are pairs in files."""
        return bool(path_parameters(self.task.generator))

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        model, training = self.model, self.training
        development = training.stop is not None and training.stop.development is not None
        if (training.examples is not None) != development and not self.has_pair_files:
            raise ValueError("training: stop.development and data.examples need each other")
        if not isinstance(model.controller, RecurrentConfig) and training.read_rate != 1:
            raise ValueError(
                f"training.read_rate: expected 1: a controller {model.controller.name} has no "
                "weights for reads"
            )
        unusable = {"noise.gates": training.noise.gates, "source_loss": training.source_loss}
        if model.encoder_decoder:
            unusable["noise.signals"] = training.noise.signals
        for name, value in unusable.items():
            other = "a buffered model" if model.buffers else f"controller {model.controller.name}"
            if (model.buffers or model.encoder_decoder) and value:
                raise ValueError(f"training.{name}: not for {other}")
        if self.start_from and training.restart:
            raise ValueError(f"training.restart: expected null: {_NO_OTHER_WEIGHTS}")
        if self.start_from and training.stream and training.stream.attempts > 1:
            raise ValueError(f"training.data.stream.attempts: expected 1: {_NO_OTHER_WEIGHTS}")
        for number in range(len(training.restart.attempts) if training.restart else 0):
            try:
                self.model_of(number + 2)
            except ValidationError as error:
                path = f"training.restart.attempts.{number}"
                raise ValueError(first_problem(error, path)) from None
        return self

    @property
    def title(self) -> str:
        """Task, memory and seed, for the name of a directory; without *, a pattern in a shell."""
        return f"{self.task.name}-{self.model.memory.name}-{self.seed}".replace("*", "x")

    def model_of(self, attempt: int) -> ModelConfig:
        """The model with the initial weights of the n-th attempt, from 1."""
        changes = [{}, *(self.training.restart.attempts if self.training.restart else [])]
        change = changes[(attempt - 1) % len(changes)]
        if not change:
            return self.model
        initial = InitializationConfig.model_validate(
            merged_settings(self.model.initialization.model_dump(), change)
        )
        return ModelConfig.model_validate({**dict(self.model), "initialization": initial})

    def make_task(self) -> Task:
        """The task, laid out as the model reads it; raises `TaskError`."""
        made = self.task.make()
        made.padded = self.model.buffers is not None
        made.backwards = self.model.backwards
        return made

    def deciding_settings(self) -> Settings:
        """All settings that influence the results of the run."""
        deciding = self.model_dump(mode="json", exclude=_WITHOUT_INFLUENCE)
        return deciding | {"task": self.task.deciding_settings()}

    def identity(self) -> str:
        """A hash of all settings that influence the results of the run."""
        return digest(self.deciding_settings())

    def to_yaml(self) -> str:
        """The configuration as YAML that `train --config` reads."""
        return yaml_text(self.model_dump(mode="json"))


def digest(settings: Settings) -> str:
    """A hash of settings."""
    return hashlib.sha256(yaml_text(settings).encode()).hexdigest()[:16]


def inherited_layer(config: RunConfig, origin: str, recipe: str | None) -> SettingsLayer:
    """The lowest layer of a run that starts from a checkpoint.

    It is the configuration of the checkpoint, but without restarts from other weights, and without
    training settings if a recipe is given.

    Args:
        config: of the checkpoint.
        origin: its location, for messages.
        recipe: its name; None to train as the checkpoint was trained.

    Raises:
        UsageError: the recipe is a race.
    """
    if recipe == AUTO:
        raise UsageError(f"recipe {AUTO}: {NOT_RACED}; expected another, or none")
    settings = config.model_dump() | {"version": __version__, "start_from": None}
    training = settings["training"]
    training["restart"] = None
    if config.training.stream:
        training["data"]["stream"]["attempts"] = 1
    if recipe is not None:
        settings = {name: settings[name] for name in ("seed", "threads", "task", "model")}
        settings["training"] = {"restart": None}
    return SettingsLayer(origin, settings)


_WITHOUT_INFLUENCE: Any = {
    "format": True,
    "version": True,
    "recipe": True,
    "workers": True,
    "start_from": {"checkpoint", "source_symbols", "target_symbols"},
}
"""Settings that do not influence the results: format, origin, description and processes."""
_NO_OTHER_WEIGHTS = "a run that starts from a checkpoint has no other weights to start from"
