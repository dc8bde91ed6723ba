"""Settings as YAML: reading them with line numbers, laying them over one another."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from stacktrans.common.complaints import MISSING, Complaint, complaints
from stacktrans.common.documents import DEEPEST, DocumentError, parsed
from stacktrans.common.errors import LONGEST_SHOWN, UsageError, shown, unknown_name
from stacktrans.common.reading import read_text

Settings = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Layer:
    """Settings from one place.

    Attributes:
        origin: where they stand, for messages: a file's path or an option.
        settings: the settings, nested by section.
        node: the YAML they were read from, which knows lines; None for options.
    """

    origin: str
    settings: Settings
    node: yaml.Node | None = None

    def place(self, location: Sequence[str | int]) -> str | None:
        """Where the setting at `location` stands here, as `origin:line`; None if it does not."""
        value: Any = self.settings
        node = self.node
        for key in location:
            if not _holds(value, key):
                return None
            value, node = value[key], _child(node, key)
        return f"{self.origin}:{node.start_mark.line + 1}" if node else self.origin

    def section(self, *keys: str) -> "Layer":
        """The part of the layer under `keys`; empty if it is not there.

        Raises:
            UsageError: what is there has no parts.
        """
        settings, node = self.settings, self.node
        for depth, key in enumerate(keys, start=1):
            found = settings.get(key)
            settings, node = {} if found is None else found, _child(node, key)
            if not isinstance(settings, dict):
                raise UsageError(
                    f"{self.place(keys[:depth])}: {key}: expected settings (given: {shown(found)})"
                )
        return Layer(self.origin, settings, node)


def _holds(value: Any, key: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(key, int) and key < len(value)
    return isinstance(value, Mapping) and key in value


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        # What is merged into a mapping (<<) stands before what it says itself.
        for name, child in reversed(node.value):
            if name.value == str(key):
                return child  # type: ignore[no-any-return]
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        return node.value[key]  # type: ignore[no-any-return]
    return None


def read_layer(path: str | os.PathLike[str]) -> Layer:
    """Read a YAML file whose top is a mapping.

    Raises:
        UsageError: the file can't be read, is not YAML, or holds something else.
    """
    text = read_text(path)
    try:
        document = parsed(text)
    except DocumentError as error:
        line = f":{error.line}" if error.line else ""
        raise UsageError(f"{path}{line}: {error}") from error
    if not isinstance(document.value, dict):
        raise UsageError(f"{path}:1: expected settings as 'name: value', found {text[:40]!r}")
    return Layer(os.fspath(path), document.value, document.node)


def overlay(layers: Sequence[Layer]) -> Settings:
    """Lay settings over one another, later ones on top, section by section."""
    merged: Settings = {}
    for layer in layers:
        merged = overlaid(merged, layer.settings)
    return merged


def overlaid(below: Settings, above: Mapping[str, Any]) -> Settings:
    """Settings with others laid over them, section by section."""
    merged = dict(below)
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = overlaid(merged[key], value)
        else:
            merged[key] = value
    return merged


def validated(model: type[Model], settings: Settings, layers: Sequence[Layer]) -> Model:
    """Check settings against a model.

    Args:
        model: what they should be.
        settings: the settings, as `overlay` made them.
        layers: where they came from, for the message.

    Raises:
        UsageError: a setting is missing, unknown or wrong; all of them are named.
    """
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        found = complaints(model, settings, error)
        raise UsageError(*(_said(complaint, layers) for complaint in found)) from error


def _said(complaint: Complaint, layers: Sequence[Layer]) -> str:
    """A complaint with where the setting stands."""
    where = nearest_place(layers, complaint.location)
    name = ".".join(map(str, complaint.location))
    if not name or complaint.unknown:
        return f"{where}: {complaint.text}"
    return f"{where}: {name}{' ' if complaint.text == MISSING else ': '}{complaint.text}"


def nearest_place(layers: Sequence[Layer], location: Sequence[str | int]) -> str:
    """Where the setting at `location` stands, or what is around it: in the last layer that has it.

    Args:
        layers: where settings came from, the last laid over the others.
        location: keys and indices that lead to the setting.
    """
    for size in range(len(location), -1, -1):
        for layer in reversed(layers):
            if place := layer.place(location[:size]):
                return place
    return "settings"


def option_layer(assignment: str, known: type[BaseModel], section: str = "") -> Layer:
    """Settings from one `--set key=value`.

    The key is a path such as `training.learning_rate`, or the last part of one
    where that is unambiguous; the value is read as YAML.

    Args:
        assignment: what was given.
        known: the settings that there are.
        section: what these are called in a run's configuration, which a key may begin with.

    Raises:
        UsageError: there is no such key, or it is not of the form `key=value`.
    """
    key, equals, text = assignment.partition("=")
    origin = f"--set {assignment}"
    if not equals or not key:
        raise UsageError(f"{origin}: expected key=value")
    if key.count(".") >= DEEPEST:
        raise UsageError(f"{origin[:LONGEST_SHOWN]}...: nested more than {DEEPEST} deep")
    path = setting_path(key.removeprefix(f"{section}."), known, origin)
    try:
        value = parsed(text).value
    except DocumentError as error:
        raise UsageError(f"{origin}: the value is not readable as YAML ({error})") from error
    return Layer(origin, nested(path, value))


def nested(path: str, value: Any) -> Settings:
    """The settings that have `value` under a path such as `training.learning_rate`."""
    for part in reversed(path.split(".")):
        value = {part: value}
    settings: Settings = value
    return settings


def setting_path(key: str, known: type[BaseModel], origin: str) -> str:
    """The path that a key stands for; what follows a setting's name is a key within its value.

    Raises:
        UsageError: there is no such key, or it could be several.
    """
    if key in known.model_fields:
        return key
    paths, parts = _paths(known), key.split(".")
    for size in range(len(parts), 0, -1):
        name, within = ".".join(parts[:size]), parts[size:]
        matches = [path for path in paths if path == name or path.endswith(f".{name}")]
        if name in matches or len(matches) == 1:
            return ".".join([name if name in matches else matches[0], *within])
        if matches:
            raise UsageError(f"{origin}: '{name}' could be any of {', '.join(matches)}; say which")
    raise UsageError(f"{origin}: {unknown_name('setting', key, paths)}")


def _paths(model: type[BaseModel], prefix: str = "") -> list[str]:
    paths: list[str] = []
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            paths += _paths(section, f"{prefix}{name}.")
        else:
            paths.append(prefix + name)
    return paths
