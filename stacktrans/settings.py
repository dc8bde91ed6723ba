"""Settings as YAML: reading them with line numbers, laying them over one another."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from stacktrans.documents import DEEPEST, DocumentError, parsed
from stacktrans.errors import LONGEST_SHOWN, UsageError, shown, unknown_name
from stacktrans.reading import read_text

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
        raise UsageError(
            "\n".join(_complaint(model, item, layers) for item in error.errors())
        ) from error


def _complaint(model: type[BaseModel], error: Any, layers: Sequence[Layer]) -> str:
    location = tuple(error["loc"])
    where = nearest_place(layers, location)
    name = ".".join(map(str, location))
    if error["type"] == "extra_forbidden":
        section = _section(model, location[:-1])
        known = section.model_fields if section else ()
        return f"{where}: {unknown_name('setting', str(location[-1]), known)}"
    if error["type"] == "missing":
        return f"{where}: {name} is missing"
    message = error["msg"].removeprefix("Value error, ")
    given = "" if isinstance(error["input"], dict) else f" (given: {shown(error['input'])})"
    return f"{where}: {name + ': ' if name else ''}{message}{given}"


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


def _section(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel] | None:
    section: type[BaseModel] | None = model
    for key in location:
        field = section.model_fields.get(str(key)) if section else None
        section = _model_of(field.annotation) if field else None
    return section


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The settings that a value may be, besides null."""
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not type(None)]
    (kind,) = kinds if len(kinds) == 1 else (None,)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def option_layer(assignment: str, known: type[BaseModel]) -> Layer:
    """Settings from one `--set key=value`.

    The key is a path such as `training.learning_rate`, or the last part of one
    where that is unambiguous; the value is read as YAML.

    Raises:
        UsageError: there is no such key, or it is not of the form `key=value`.
    """
    key, equals, text = assignment.partition("=")
    origin = f"--set {assignment}"
    if not equals or not key:
        raise UsageError(f"{origin}: expected key=value")
    if key.count(".") >= DEEPEST:
        raise UsageError(f"{origin[:LONGEST_SHOWN]}...: nested more than {DEEPEST} deep")
    path = setting_path(key, known, origin)
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
