"""Layers of settings: read from YAML or `key=value`, merged, and validated with locations."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from stacktrans.common.documents import MAX_DEPTH, DocumentError, parse_yaml
from stacktrans.common.errors import UsageError, clipped, shown
from stacktrans.common.reading import read_text
from stacktrans.settings.schema import KeyPath, Problem, problems_of, setting_path

Settings = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)

COMPONENTS = {"memory", "controller"}
"""Parts of a model that are chosen by name; the name can stand for all settings of the part."""
ALTERNATIVES = {"data", "stop", "gradient_clip"}
"""Blocks of training with one of several settings; one that is given replaces the others."""


@dataclass(frozen=True)
class SettingsLayer:
    """Settings from one source.

    Attributes:
        origin: the source, for messages: the path of a file, or an option.
        settings: the settings, nested by section.
        node: the YAML node that they were read from, which has line numbers; None for options.
    """

    origin: str
    settings: Settings
    node: yaml.Node | None = None

    def location(self, path: Sequence[str | int]) -> str | None:
        """The location of a setting in this layer, as `origin:line`; None if it is not set here."""
        value: Any = self.settings
        node = self.node
        for key in path:
            if key == "name" and isinstance(value, str):  # the name of a part, given for all of it
                break
            try:
                value = value[key]
            except (LookupError, TypeError):
                return None
            # A setting that is not in the file by this name has the line of its section.
            node = _child(node, key) or node
        return f"{self.origin}:{node.start_mark.line + 1}" if node else self.origin

    def is_option(self, path: Sequence[str | int]) -> bool:
        """Whether this is an option, such as `--hidden`, that sets only what is at a path."""
        value: Any = self.settings
        for key in path:
            if not isinstance(value, dict) or list(value) != [key]:
                return False
            value = value[key]
        return self.origin.startswith("--")

    def section(self, *keys: str) -> "SettingsLayer":
        """The section under `keys`, empty if it is missing; raises `UsageError` for a value."""
        settings, node = self.settings, self.node
        for depth, key in enumerate(keys, start=1):
            value = settings.get(key)
            settings, node = {} if value is None else value, _child(node, key)
            if not isinstance(settings, dict):
                raise UsageError(
                    f"{self.location(keys[:depth])}: {key}: expected settings "
                    f"(given: {shown(value)})"
                )
        return SettingsLayer(self.origin, settings, node)

    def without(self, *keys: str) -> "SettingsLayer":
        """The layer without some keys."""
        kept = {key: value for key, value in self.settings.items() if key not in keys}
        return dataclasses.replace(self, settings=kept)


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    """The YAML node under a key, if there is one."""
    if isinstance(node, yaml.MappingNode):
        # Keys that are merged into a mapping (<<) come before its own.
        for name, child in reversed(node.value):
            if name.value == str(key):
                return child  # type: ignore[no-any-return]
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        return node.value[key]  # type: ignore[no-any-return]
    return None


def read_layer(path: str | os.PathLike[str]) -> SettingsLayer:
    """Read a YAML file of settings; raises `UsageError` if it can't be read."""
    text = read_text(path)
    try:
        content, node = parse_yaml(text)
    except DocumentError as error:
        line = f":{error.line}" if error.line else ""
        raise UsageError(f"{path}{line}: {error}") from error
    if not isinstance(content, dict):
        found = repr(text[:40]) if text.strip() else "an empty file"
        raise UsageError(f"{path}:1: expected settings as 'name: value', found {found}")
    return SettingsLayer(os.fspath(path), content, node)


def option_layer(assignment: str, root: type[BaseModel], section: str = "") -> SettingsLayer:
    """The layer of an assignment `key=value`.

    The key is a path such as `training.learning_rate`, or an unambiguous end of one; the value is
    YAML.

    Args:
        assignment: as it was given.
        root: the class of the settings.
        section: the name of these settings in the configuration of a run; keys may begin with it.

    Raises:
        UsageError: it is not of the form `key=value`, or the key is unknown or ambiguous.
    """
    key, equals, text = assignment.partition("=")
    origin = f"setting {assignment}"
    if not equals or not key or not text.strip():
        raise UsageError(f"{origin}: expected key=value")
    if key.count(".") >= MAX_DEPTH:
        raise UsageError(f"{clipped(origin)}: nested more than {MAX_DEPTH} deep")
    path = setting_path(key.removeprefix(section and f"{section}."), root, origin)
    try:
        value, _ = parse_yaml(text)
    except DocumentError as error:
        raise UsageError(f"{origin}: the value is not readable as YAML ({error})") from error
    return SettingsLayer(origin, nested(path, value))


def nested(path: str, value: Any) -> Settings:
    """Settings with a single value, at a path such as `training.learning_rate`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    settings: Settings = value
    return settings


def merge_layers(layers: Iterable[SettingsLayer]) -> Settings:
    """Merge layers section by section; later layers override earlier ones.

    Raises:
        UsageError: a layer has a value in place of a section, or a recipe that is not a name.
    """
    merged: Settings = {}
    for layer in layers:
        for key, kind in (("model", dict), ("training", dict), ("recipe", str)):
            if not isinstance(layer.settings.get(key, kind()), kind):
                expected = "a name" if kind is str else "settings"
                raise UsageError(f"{layer.location((key,))}: {key}: expected {expected}")
        merged = merged_settings(merged, layer.settings)
    return merged


def merged_settings(below: Settings, above: Mapping[str, Any], section: str = "") -> Settings:
    """Merge the settings of a section, those `above` overriding those `below`."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if section == "model" and key in COMPONENTS:
            under, value = part_settings(under), part_settings(value)
        if not isinstance(value, Mapping):
            merged[key] = value
            continue
        under = under if isinstance(under, Mapping) else {}
        if section == "training" and key in ALTERNATIVES:
            under = {name: part for name, part in under.items() if name in value}
        if key == "length_law" and not under.keys() & value.keys():  # another kind of law
            under = {}
        merged[key] = merged_settings(dict(under), value, key)
    return merged


def part_settings(value: Any) -> Any:
    """The settings of a part of a model, of which perhaps only the name is given."""
    return {"name": value} if isinstance(value, str) else value


def validated(model: type[Model], settings: Settings, layers: Sequence[SettingsLayer]) -> Model:
    """Validate settings merged from layers; raises `UsageError` that lists all problems."""
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        problems = problems_of(model, settings, error)
        raise UsageError(*(_located(problem, layers) for problem in problems)) from error


def _located(problem: Problem, layers: Sequence[SettingsLayer]) -> str:
    """The message of a problem with its location, which stands for the path of an option."""
    path, message = problem
    location = nearest_location(layers, path)
    if any(layer.origin == location and layer.is_option(path) for layer in layers):
        message = message.removeprefix(f"{'.'.join(map(str, path))}: ")
    return f"{location}: {message}"


def nearest_location(layers: Sequence[SettingsLayer], path: KeyPath | Sequence[str]) -> str:
    """The location of a setting, or else of the section around it, in the last layer with it."""
    for size in range(len(path), -1, -1):
        for layer in reversed(layers):
            if location := layer.location(path[:size]):
                return location
    return "settings"
