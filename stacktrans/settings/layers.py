"""Settings as YAML: reading them with line numbers, laying them over one another."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from stacktrans.common.complaints import MISSING, Complaint, complaints
from stacktrans.common.documents import DocumentError, parsed
from stacktrans.common.errors import UsageError, shown
from stacktrans.common.reading import read_text
from stacktrans.settings.renamed import hint

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
            if key == "name" and isinstance(value, str):  # which stands for the whole of a part
                break
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

    def child(self, key: str) -> yaml.Node | None:
        """The YAML that a setting was read from, if it was."""
        return _child(self.node, key)


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


NAMED = {"memory", "controller"}
"""Parts of a model that are chosen by their names, which can stand for the whole of them."""
ALTERNATIVES = {"data", "stop", "gradient_clip"}
"""Blocks of training that hold one of several settings, each of which takes another's place."""


def overlaid(below: Settings, above: Mapping[str, Any], section: str = "") -> Settings:
    """Settings with others laid over them, section by section.

    Args:
        below: the settings.
        above: the others.
        section: what they are settings of.
    """
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if section == "model" and key in NAMED:
            under, value = in_parts(under), in_parts(value)
        if not isinstance(value, Mapping):
            merged[key] = value
            continue
        under = under if isinstance(under, Mapping) else {}
        if section == "training" and key in ALTERNATIVES:
            under = {name: part for name, part in under.items() if name in value}
        merged[key] = overlaid(dict(under), value, key)
    return merged


def in_parts(value: Any) -> Any:
    """A part of a model that may have been given by its name alone, as settings."""
    return {"name": value} if isinstance(value, str) else value


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
    if complaint.unknown:
        return f"{where}: {hint(name) or complaint.text}"
    if not name:
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


def nested(path: str, value: Any) -> Settings:
    """The settings that have `value` under a path such as `training.learning_rate`."""
    for part in reversed(path.split(".")):
        value = {part: value}
    settings: Settings = value
    return settings
