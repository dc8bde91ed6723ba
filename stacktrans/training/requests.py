"""Training requests, by command or Python: options of a run or race, and how it begins or resumes.

Nothing here imports torch before the settings are known to fit together.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from stacktrans.common.errors import UsageError
from stacktrans.common.files import CONFIG, is_race
from stacktrans.common.processes import cores
from stacktrans.model import checkpoint_files
from stacktrans.model.devices import find_device
from stacktrans.settings.candidates import candidate_configs, title_of
from stacktrans.settings.command import OPTIONS, inherited_reading, option_layers, training_command
from stacktrans.settings.config import NOT_RACED, RunConfig, inherited_layer
from stacktrans.settings.layers import SettingsLayer, merge_layers, option_layer
from stacktrans.settings.locations import AUTO
from stacktrans.settings.resolve import requested_layers
from stacktrans.tasks.corpus import find_texts
from stacktrans.tasks.pairs import task_from_files
from stacktrans.training.run_directory import check_free, check_resumable, create_run_directory

if TYPE_CHECKING:
    from stacktrans.training.race import Race
    from stacktrans.training.trainer import Trainer

NameOrPath = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A request to train a run, or a race of strategies.

    Attributes:
        task: name or file of a task.
        text: folder with a text, instead of a task.
        data: file of pairs, instead of a task.
        reading: further parameters of `Pairs` for reading `data`; None for the defaults.
        from_: checkpoint to start from.
        config: file of settings.
        options: values by the names of `OPTIONS`; None for the defaults.
        assignments: further settings as `key=value`.
        recipe: name of a recipe; a race by default.
        strategies: strategies to race; by default, all that fit.
        as_large_as: checkpoint whose number of parameters the hidden size is chosen by.
        budget: seconds of a race.
        out: directory; by default, one in checkpoints/.
        device: where to compute.
        command: the command that trained the run, for its summary.
        candidate_command: arguments of the command that trains any run of a race alone, without
            --recipe and its name; by default, made from the settings.
        prefix: prefix of the names of options in messages.
    """

    task: NameOrPath | None = None
    text: Path | None = None
    data: NameOrPath | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    from_: NameOrPath | None = None
    config: NameOrPath | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    assignments: Sequence[str] = ()
    recipe: str | None = None
    strategies: Sequence[str] = ()
    as_large_as: str | None = None
    budget: float | None = None
    out: Path | None = None
    device: str = "auto"
    command: str = "stacktrans.train"
    candidate_command: Sequence[str] | None = None
    prefix: str = ""
    DATA_OPTIONS: ClassVar = ("dev", "test", "columns", "symbols", "separator", "normalize")

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **attributes: Any) -> Self:
        """The request of some arguments, by the names of attributes and options.

        Args:
            arguments: of the command or function; those of other names have no effect.
            attributes: that take precedence.
        """
        own = {each.name: arguments[each.name] for each in fields(cls) if each.name in arguments}
        own["reading"] = {name: arguments[name] for name in cls.DATA_OPTIONS}
        own["options"] = {name: arguments.get(name) for name in OPTIONS}
        return cls(**own | attributes)

    @cached_property
    def configs(self) -> Mapping[str, RunConfig]:
        """The configurations by recipe, several for a race; raises as `candidate_configs` does."""
        layers = self._layers(self.recipe, OPTIONS)
        configs = candidate_configs(layers, self.strategies, self.budget, self.prefix)
        if (name := self.as_large_as) is None:
            return configs
        hidden = option_layers({"hidden": self.options.get("hidden")})
        assigned = (option_layer(text, RunConfig) for text in self.assignments)
        given = merge_layers([*hidden, *assigned])
        if "hidden_size" in given.get("model", {}).get("controller", {}):
            refused = "cannot be combined with a hidden size, since it chooses one"
            raise UsageError(f"{self.prefix}as-large-as: {refused}")
        from stacktrans.training.equal_size import as_large_as  # loads torch

        return {recipe: as_large_as(config, name) for recipe, config in configs.items()}

    def arguments_of_candidate(self) -> Sequence[str]:
        """The arguments of the command that trains any run of a race alone, but for its recipe."""
        if self.candidate_command is not None:
            return self.candidate_command
        deciding = [name for name in OPTIONS if name != "workers"]
        return training_command(self._layers(None, deciding))

    def _layers(
        self, recipe: str | None, names: Sequence[str] | Mapping[str, str]
    ) -> list[SettingsLayer]:
        """The layers of the requested settings, with a recipe and only the named options."""
        base, options, reading = None, list[SettingsLayer](), self.reading
        if self.from_ is not None:
            config, base, start_from = self._starting_point(self.from_)
            options = [start_from]
            reading = reading if self.data is None else inherited_reading(config.task, reading)
        task = self.text if self.task is None else self.task
        pairs = task_from_files(task, self.data, reading, self.prefix)
        given = {**self.options, "text": self.text and find_texts(self.text), "data": pairs}
        options += option_layers({name: given.get(name) for name in names}, self.prefix)
        if self.task is None:
            task = "text" if self.text and not self.config else None
        return requested_layers(
            recipe,
            prefix=self.prefix,
            base=base,
            task=None if task is None else os.fspath(task),
            config=None if self.config is None else os.fspath(self.config),
            options=options,
            assignments=self.assignments,
        )

    def _starting_point(self, name: NameOrPath) -> tuple[RunConfig, SettingsLayer, SettingsLayer]:
        """A checkpoint's configuration, the layer that a run inherits, and that which names it.

        Raises:
            CheckpointError: there is no checkpoint, or it is damaged.
            UsageError: a race is requested.
        """
        if self.options.get("memory") == AUTO:
            expected = "expected that of the checkpoint, or none"
            raise UsageError(f"memory {AUTO}: {NOT_RACED}; {expected}")
        directory = checkpoint_files.locate(os.fspath(name))
        config = checkpoint_files.read_config(directory)
        base = inherited_layer(config, str(directory / CONFIG), self.recipe)
        from stacktrans.training.initial_weights import checksum_of  # loads torch

        start_from = {"checkpoint": os.fspath(name), "sha256": checksum_of(directory)}
        return config, base, SettingsLayer(os.fspath(name), {"start_from": start_from})


def begin(request: TrainRequest, dry_run: bool = False) -> "Trainer | Race":
    """A new run or race, with a directory of its own.

    With `dry_run`, only check that it could be run, and write nothing.

    Raises:
        CheckpointError: the checkpoint to start from is missing or damaged.
        UsageError: something else is missing, or does not fit.
    """
    configs = request.configs
    from stacktrans.training.trainer import Trainer

    if request.out is not None:
        check_free(request.out)
    if len(configs) > 1:
        return begin_race(configs, request, dry_run)
    (config,) = configs.values()
    # Nothing is written before all that was requested is known to exist.
    trainer = Trainer(config, Path(), find_device(request.device), request.command)
    if not dry_run:
        trainer.directory = create_run_directory(request.out, config.title)
    return trainer


def begin_race(
    configs: Mapping[str, RunConfig], request: TrainRequest, dry_run: bool = False
) -> "Race":
    """A new race of strategies.

    Args:
        configs: configurations of the strategies by name.
        request: the request with everything else.
        dry_run: only check that the race could be run.

    Raises:
        UsageError: something is missing, or does not fit.
    """
    from stacktrans.training import race
    from stacktrans.training.make_source import make_source

    device = find_device(request.device)
    sources = [make_source(config, device) for config in configs.values()]
    directory, words = Path(), request.arguments_of_candidate()
    if not dry_run:
        directory = create_run_directory(request.out, title_of(configs))
        configs = race.begin(directory, configs, words, request.budget)
    workers = request.options.get("workers") or cores()
    return race.Race(directory, request.device, workers, configs, sources[0].notes)


def resume(
    directory: Path,
    device: str,
    limits: Sequence[SettingsLayer] = (),
    budget: float | None = None,
    workers: int | None = None,
) -> "Trainer | Race":
    """A run to be continued, perhaps with new limits; or a race that is not over.

    Args:
        directory: of the run.
        device: where to compute.
        limits: of a run.
        budget: seconds of a race.
        workers: number of processes of a race; one on each core unless given.

    Raises:
        CheckpointError: there is no run, or it is damaged.
        UsageError: it has gone beyond one of the limits already, or is not what they are for.
    """
    from stacktrans.training.race import Race
    from stacktrans.training.trainer import Trainer

    if is_race(directory):
        if limits:
            instead = "which has a budget instead"
            raise UsageError(f"{limits[0].origin}: does not apply to a race, {instead}")
        return Race(directory, device, workers or cores(), budget=budget)
    check_resumable(directory)
    if budget is not None or workers is not None:
        single = f"{directory} is a single run, or all that was kept of a race"
        raise UsageError(f"budget and workers apply only to a race; {single}")
    return Trainer.resume(directory, limits, find_device(device))
