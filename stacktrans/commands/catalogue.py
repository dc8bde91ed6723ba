"""Entries of `list`: tasks, memories, checkpoints, settings and more, with their meanings."""

import contextlib
import inspect
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from stacktrans.commands.options import items
from stacktrans.common.documents import yaml_line
from stacktrans.common.errors import StacktransError, UsageError, abridged
from stacktrans.common.files import CONFIG, MACHINE, real_path
from stacktrans.common.reading import MAX_BYTES, parse_json, read_bytes
from stacktrans.common.registry import GENERATORS, MEMORIES, Registry
from stacktrans.common.visible import one_line, shell_text
from stacktrans.model.description import controller_name
from stacktrans.settings import locations
from stacktrans.settings.config import RunConfig, TaskConfig
from stacktrans.settings.layers import Settings, part_settings, read_layer
from stacktrans.settings.locations import AUTO
from stacktrans.settings.model_config import ControllerConfig, InitializationConfig, MemoryConfig
from stacktrans.settings.resolve import requested_part
from stacktrans.settings.resolve import strategies as known_strategies
from stacktrans.settings.schema import (
    annotation_of,
    describe_type,
    is_block,
    meanings,
    section_classes,
)
from stacktrans.settings.task_files import load_task
from stacktrans.settings.training_config import DataConfig, TrainingConfig
from stacktrans.settings.values import PartConfig
from stacktrans.tasks import parameters_of
from stacktrans.tasks.lengths import Lengths

RACE = (
    "A race of strategies, won by the first with an accepted solution (see --accept). The default."
)
"""The meaning of the recipe `AUTO`, which has no file."""
UNLISTED = {
    RunConfig: {"format", "version", "recipe", "start_from"},
    TaskConfig: {"name", "description", "paper"},
}
"""Descriptive fields of a configuration and of a task, which are not listed as settings."""
LISTED_AS_ONE = {
    (TaskConfig, "lengths"),
    (InitializationConfig, "scale"),
    (TrainingConfig, "gradient_clip"),
    (TrainingConfig, "noise"),
    (DataConfig, "examples"),
}
"""Sections that are listed as one setting."""


@dataclass(frozen=True)
class Entry:
    """An entry of a list: a name, its meaning and its columns.

    Attributes:
        name: its name.
        meaning: its meaning, in a sentence.
        columns: cells by their headings.
        remarks: shown after the meaning.
        parts: parameters or settings and their meanings, shown below the entry.
        facts: further values for JSON.
    """

    name: str
    meaning: str
    columns: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    parts: Sequence[tuple[str, str]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """The meaning and remarks in one line."""
        remarks = f"({'; '.join(self.remarks)})" if self.remarks else ""
        return one_line(f"{self.meaning} {remarks}")


Listing = Iterator[Entry | StacktransError]
"""The entries of a list in order, with errors in place of those that can't be read."""


def _listing(names: Iterable[str], entry: Callable[[str], Entry]) -> Listing:
    for name in names:
        try:
            yield entry(name)
        except StacktransError as error:
            yield error


def tasks() -> Listing:
    """All tasks, with their lengths and generators."""
    files = locations.task_files()
    return _listing(sorted(files), lambda name: _task(name, files[name]))


def _task(name: str, path: Path) -> Entry:
    task = load_task(str(path))
    lengths, shown = task.lengths, ("generator", "parameters", "paper", "lengths", "length_law")
    plain = {
        key: value
        for key, value in task.parameters.items()
        if value is not None and not isinstance(value, dict)
    }
    generator = f"{task.generator}: {assignment_text(plain)}" if plain else task.generator
    is_shipped = real_path(path).parent == real_path(locations.shipped("tasks"))
    return Entry(
        name,
        task.description,
        columns={part: str(bounds) for part, bounds in lengths or ()},
        remarks=[f"generator {generator}", *([] if is_shipped else [shell_text([str(path)])])],
        facts={**task.model_dump(mode="json", include={*shown}), "file": str(path)},
    )


def memories() -> Listing:
    """All memories, with their signals and settings."""
    for entry in _parts_of_a_model(MemoryConfig, "signals", lambda memory: memory().signal_names):
        if isinstance(entry, Entry) and entry.name not in MEMORIES.ALONE:
            entry = replace(entry, remarks=[*entry.remarks, "several as in queue+2*stack"])
        yield entry


def controllers() -> Listing:
    """All controllers, with their gates and settings."""
    return _parts_of_a_model(ControllerConfig, "gates", lambda layer: layer.gates)


def _parts_of_a_model(
    config: type[PartConfig], fact: str, names_of: Callable[[Any], Iterable[str]]
) -> Listing:
    """The memories or controllers, with their signals or gates (the `fact`) and their settings."""

    def entry(name: str, part: Any) -> Entry:
        settings, names = config.config_class(name), list(names_of(part))
        texts = {**items(part), **meanings(settings)}
        values = {
            setting: field.default
            for setting, field in settings.model_fields.items()
            if not field.is_required()
        }
        return Entry(
            name,
            summary(part),
            remarks=[f"{fact} {', '.join(abridged(names))}"] if names else [],
            parts=[
                (assignment_text({key: value}), texts.get(key, "")) for key, value in values.items()
            ],
            facts={fact: names, "settings": values},
        )

    return _registered(config.REGISTRY, entry)


def generators() -> Listing:
    """All generators, with their parameters."""

    def entry(name: str, generator: Any) -> Entry:
        parameters = list(_parameters(generator))
        parts = [(_parameter_text(parameter), parameter["meaning"]) for parameter in parameters]
        return Entry(name, summary(generator), parts=parts, facts={"parameters": parameters})

    return _registered(GENERATORS, entry)


def _parameter_text(parameter: Mapping[str, Any]) -> str:
    """A parameter with its default, or the remark that it is required."""
    if "default" in parameter:
        return assignment_text({parameter["name"]: parameter["default"]})
    return f"{parameter['name']} (required)"


def _registered(registry: Registry, entry: Callable[[str, Any], Entry]) -> Listing:
    """The entries of a registry, with the packages or files that they come from."""

    def with_origin(name: str) -> Entry:
        made, origin = entry(name, registry.load(name)), registry.origin(name)
        if origin is None:
            return made
        facts = {**made.facts, "origin": origin}
        return replace(made, remarks=[*made.remarks, origin], facts=facts)

    return _listing(registry.names(), with_origin)


def _parameters(generator: type) -> Iterator[dict[str, Any]]:
    """The name, meaning and default, if any, of each parameter of a generator."""
    meanings = ChainMap(*map(items, generator.__mro__))
    for name, parameter in parameters_of(generator).items():
        default = {} if parameter.default is parameter.empty else {"default": parameter.default}
        yield {"name": name, "meaning": meanings.get(name, ""), **default}


def recipes() -> Listing:
    """All recipes, with what they change for the tasks of single papers."""
    yield Entry(AUTO, RACE, facts={"settings": {}, "papers": {}})
    folder = locations.recipes()
    for name in locations.recipe_names():
        paths = {path.parent.name: path for path in sorted(folder.glob(f"*/{name}.yaml"))}
        papers = {paper: (_comment(path), read_layer(path)) for paper, path in paths.items()}
        own = folder / f"{name}.yaml"
        yield Entry(
            name,
            _comment(own),
            parts=[(f"for tasks of {paper}", text) for paper, (text, _) in papers.items()],
            facts={
                "settings": read_layer(own).settings,
                "papers": {
                    paper: {"meaning": text, "settings": layer.settings}
                    for paper, (text, layer) in papers.items()
                },
            },
        )


def _comment(path: Path) -> str:
    """The comment that a file begins with, in one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = takewhile(lambda line: line.startswith("#"), lines)
    return one_line(" ".join(comment.lstrip("#") for comment in comments))


def strategies() -> Listing:
    """All strategies, in the order in which they are tried."""
    for name, strategy in known_strategies().items():
        columns = {"tasks": ", ".join(strategy.kinds), "memory": strategy.memory}
        facts = {"kinds": strategy.kinds, "memory": strategy.memory, "settings": strategy.settings}
        yield Entry(name, strategy.idea, columns, facts=facts)


def checkpoints() -> Listing:
    """All checkpoints, with their tasks, models and accuracy; weights are not read."""
    paths = locations.checkpoints()
    return _listing(sorted(paths), lambda name: _checkpoint(name, paths[name]))


def _checkpoint(name: str, path: Path) -> Entry:
    directory = locations.checkpoint_in(path) or path
    layer, machine = read_layer(directory / CONFIG), (directory / MACHINE).is_file()
    task, model = layer.section("task").settings, layer.section("model").settings
    known = {
        "task": task.get("name"),
        # The configuration of a machine is that of the model that it was extracted from.
        "controller": "machine" if machine else requested_part(layer.settings, "controller"),
        "memory": requested_part(layer.settings, "memory"),
    }
    evaluation, summary = _json_of(path / "evaluation.json"), _json_of(path / "summary.json")
    columns = {column: str(fact or "") for column, fact in known.items()}
    if known["controller"] and not machine:
        recurrent = part_settings(model["controller"]).get("recurrent", True)
        columns["controller"] = controller_name(columns["controller"], recurrent)
    return Entry(
        name,
        str(task.get("description") or ""),
        columns={**columns, "measured": _measured(evaluation, summary, task)},
        facts={
            **known,
            "machine": machine,
            "recipe": layer.settings.get("recipe"),
            "seed": layer.settings.get("seed"),
            "path": str(path),
            "results": evaluation.get("results"),
            "summary": summary or None,
        },
    )


def _json_of(path: Path) -> Settings:
    """The content of a JSON file; empty if it does not exist."""
    if not path.exists():
        return {}
    try:
        content = parse_json(read_bytes(path, MAX_BYTES))
        if not isinstance(content, dict):
            raise ValueError("expected an object")
    except ValueError as error:
        raise UsageError(f"{path}: not readable as JSON ({error})") from error
    return content


def _measured(evaluation: Settings, summary: Settings, task: Settings) -> str:
    """The accuracy or perplexity in the files of a run, if they have the current format."""
    with contextlib.suppress(LookupError, TypeError, ValueError):
        if evaluation:
            measured = evaluation["results"][0]
            return _accuracy(measured, measured["lengths"])
        if texts := summary.get("texts"):
            return f"test perplexity {texts['test']['perplexity']:.2f}"
        return _accuracy(summary["test"], task["lengths"]["test"])
    return "nothing yet"


def _accuracy(measured: Mapping[str, Any], lengths: Sequence[int]) -> str:
    return f"coarse {measured['coarse']:.3f} on {Lengths(*lengths)}"


def settings(
    model: type[BaseModel] = RunConfig, prefix: str = "", block: str = ""
) -> Iterator[Entry]:
    """All settings of a section by path, with their types and defaults.

    Args:
        model: the section.
        prefix: its path and a period; empty for the whole configuration of a run.
        block: the outermost optional block around it, if any.
    """
    texts = meanings(model)
    for name, setting in model.model_fields.items():
        path, sections = prefix + name, section_classes(setting)
        if name in UNLISTED.get(model, ()):
            continue
        if not sections or issubclass(sections[0], PartConfig) or (model, name) in LISTED_AS_ONE:
            yield _setting(path, setting, texts[name], block)
        else:
            inner = path if is_block(setting) else ""
            yield from settings(sections[0], f"{path}.", block or inner)


def _setting(path: str, setting: FieldInfo, meaning: str, block: str) -> Entry:
    facts: dict[str, Any] = {"type": type_of(setting)}
    if not setting.is_required():
        default = setting.get_default(call_default_factory=True)
        facts["default"] = default.model_dump() if isinstance(default, BaseModel) else default
    shown = yaml_line(facts["default"]) if "default" in facts else ""
    return Entry(
        path,
        meaning,
        columns={"default": shown, "block": block, "type": facts["type"]},
        facts={**facts, **({"block": block} if block else {})},
    )


def type_of(setting: FieldInfo) -> str:
    """The values that a setting may have, in words."""
    return describe_type(annotation_of(setting), brief=True)


def assignment_text(settings: Mapping[str, Any]) -> str:
    """Settings with their values, as `name=value, ...`."""
    return ", ".join(f"{name}={yaml_line(value)}" for name, value in settings.items())


def summary(documented: object) -> str:
    """The first paragraph of a docstring."""
    return one_line((inspect.getdoc(documented) or "").split("\n\n")[0])
