"""Settings from files, recipes and `key=value`, laid over one another, and what is wrong with them.

Messages about wrong settings are made from their types, in plain words.
"""

import dataclasses
import functools
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from stacktrans.common.documents import DEEPEST, DocumentError, parsed
from stacktrans.common.errors import UsageError, clipped, shown, unknown_name
from stacktrans.common.reading import read_text
from stacktrans.common.registry import MEMORIES
from stacktrans.settings import packaged

Settings = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)

FIELDS_TOLD = 4
"""A section with more settings is not described by them in messages."""
_NAMES = {int: "whole number", float: "number", str: "text", NoneType: "null"}
_BOUNDS = {"ge": "from", "gt": "over", "le": "to", "lt": "to under"}

Location = tuple[str | int, ...]
_OF_ANOTHER_FORM = {
    *("model_type", "dataclass_type", "dict_type", "named_tuple_type", "list_type"),
    *("literal_error", "missing", "too_long"),
}
"""Pydantic's errors for what is not a mapping, a list of so many items, or one of a few words."""


@dataclass(frozen=True)
class SettingsLayer:
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
            try:
                value = value[key]
            except (LookupError, TypeError):
                return None
            # What is not in the file, as it was called something else then, is near its section.
            node = _child(node, key) or node
        return f"{self.origin}:{node.start_mark.line + 1}" if node else self.origin

    def section(self, *keys: str) -> "SettingsLayer":
        """The part under `keys`, empty if it is missing; raises `UsageError` if it has no parts."""
        settings, node = self.settings, self.node
        for depth, key in enumerate(keys, start=1):
            found = settings.get(key)
            settings, node = {} if found is None else found, _child(node, key)
            if not isinstance(settings, dict):
                raise UsageError(
                    f"{self.place(keys[:depth])}: {key}: expected settings (given: {shown(found)})"
                )
        return SettingsLayer(self.origin, settings, node)

    def without(self, *keys: str) -> "SettingsLayer":
        """All of it but what stands under some keys."""
        kept = {key: value for key, value in self.settings.items() if key not in keys}
        return dataclasses.replace(self, settings=kept)


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    """The YAML under a key, if there is any."""
    if isinstance(node, yaml.MappingNode):
        # What is merged into a mapping (<<) stands before what it says itself.
        for name, child in reversed(node.value):
            if name.value == str(key):
                return child  # type: ignore[no-any-return]
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        return node.value[key]  # type: ignore[no-any-return]
    return None


def read_layer(path: str | os.PathLike[str]) -> SettingsLayer:
    """The settings of a YAML file, with their lines; raises `UsageError` if it can't be read."""
    text = read_text(path)
    try:
        document = parsed(text)
    except DocumentError as error:
        line = f":{error.line}" if error.line else ""
        raise UsageError(f"{path}{line}: {error}") from error
    if not isinstance(document.value, dict):
        raise UsageError(f"{path}:1: expected settings as 'name: value', found {text[:40]!r}")
    return SettingsLayer(os.fspath(path), document.value, document.node)


def merge_layers(layers: Iterable[SettingsLayer]) -> Settings:
    """Lay settings over one another, later ones on top, section by section."""
    return functools.reduce(merged_settings, (layer.settings for layer in layers), {})


NAMED = {"memory", "controller"}
"""Parts of a model that are chosen by their names, which can stand for the whole of them."""
ALTERNATIVES = {"data", "stop", "gradient_clip"}
"""Blocks of training that hold one of several settings, each of which takes another's place."""


def merged_settings(below: Settings, above: Mapping[str, Any], section: str = "") -> Settings:
    """Settings of a section with others laid over them, section by section."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if section == "model" and key in NAMED:
            under, value = part_settings(under), part_settings(value)
        if not isinstance(value, Mapping):
            merged[key] = value
            continue
        under = under if isinstance(under, Mapping) else {}
        if section == "training" and key in ALTERNATIVES:
            under = {name: part for name, part in under.items() if name in value}
        merged[key] = merged_settings(dict(under), value, key)
    return merged


def part_settings(value: Any) -> Any:
    """A part of a model that may have been given by its name alone, as settings."""
    return {"name": value} if isinstance(value, str) else value


def validated(model: type[Model], settings: Settings, layers: Sequence[SettingsLayer]) -> Model:
    """Settings checked against a model; raises `UsageError`, which names all that are wrong."""
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        found = complaints(model, settings, error)
        problems = (f"{nearest_location(layers, each.location)}: {each.text}" for each in found)
        raise UsageError(*problems) from error


def nearest_location(layers: Sequence[SettingsLayer], location: Sequence[str | int]) -> str:
    """Where the setting at `location`, or what is around it, stands in the last layer with it."""
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


def option_layer(assignment: str, known: type[BaseModel], section: str = "") -> SettingsLayer:
    """Settings from one assignment `key=value`.

    The key is a path such as `training.learning_rate`, or the last part of one where that is
    unambiguous; the value is read as YAML.

    Args:
        assignment: what was given.
        known: the settings that exist.
        section: what these are called in a run's configuration, which a key may begin with.

    Raises:
        UsageError: the key is unknown, or it is not of the form `key=value`.
    """
    key, equals, text = assignment.partition("=")
    origin = f"setting {assignment}"
    if not equals or not key or not text.strip():
        raise UsageError(f"{origin}: expected key=value")
    if key.count(".") >= DEEPEST:
        raise UsageError(f"{clipped(origin)}: nested more than {DEEPEST} deep")
    path = setting_path(key.removeprefix(f"{section}."), known, origin)
    try:
        value = parsed(text).value
    except DocumentError as error:
        raise UsageError(f"{origin}: the value is not readable as YAML ({error})") from error
    return SettingsLayer(origin, nested(path, value))


def setting_path(key: str, known: type[BaseModel], origin: str) -> str:
    """The path that a key stands for; what follows a setting's name is a key within its value.

    Raises `UsageError` if the key is unknown or ambiguous.
    """
    if key in known.model_fields:
        return key
    parts = key.split(".")
    # What is in a block that may be null is looked for only if nothing else has the name.
    for paths in (setting_paths(known, blocks=False), setting_paths(known)):
        for size in range(len(parts), 0, -1):
            name, within = ".".join(parts[:size]), parts[size:]
            matches = [path for path in paths if path == name or path.endswith(f".{name}")]
            if name in matches or len(matches) == 1:
                return ".".join([name if name in matches else matches[0], *within])
            if matches:
                several = ", ".join(matches)
                raise UsageError(f"{origin}: '{name}' could be any of {several}; say which")
    # As much of each path as the key may have meant.
    ends = {".".join(path.split(".")[-len(parts) :]) for path in paths}
    raise UsageError(f"{origin}: {unknown_name('setting', key, ends)}")


@functools.cache
def setting_paths(known: type[BaseModel], blocks: bool = True) -> tuple[str, ...]:
    """The paths of settings; with `blocks`, also of sections, and in blocks that may be null."""
    return tuple(_paths(known, "", blocks))


def _paths(model: type[BaseModel], prefix: str, blocks: bool) -> Iterator[str]:
    for name, field in model.model_fields.items():
        sections, block = sections_of(field), is_block(field)
        if len(sections) != 1 or block or (blocks and prefix):
            yield prefix + name
        if blocks or not block:
            inner = [path for part in sections for path in _paths(part, f"{prefix}{name}.", blocks)]
            yield from dict.fromkeys(inner)


def sections_of(field: FieldInfo) -> list[type[BaseModel]]:
    """The settings that a field is made of, one kind or several; none if it is a plain value."""
    kind, *others = without_null(field.annotation)
    if others or not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return []
    return list(dict.fromkeys(getattr(kind, "KINDS", {}).values())) or [kind]


def is_block(field: FieldInfo) -> bool:
    """Whether a field is made of settings that may be left out together."""
    return bool(sections_of(field)) and NoneType in alternatives(field.annotation)


def recipe_layers(
    recipe: str, paper: str, model: Settings, task_layers: Sequence[SettingsLayer]
) -> list[SettingsLayer]:
    """What a recipe says in general, of a paper's tasks, and of a task, the last on top.

    Args:
        recipe: the name of one that there is.
        paper: of the task, or none.
        model: settings asked for, among them the memory.
        task_layers: of the task, with its changes to the recipe.
    """
    folder = packaged.recipes()
    files = [folder / f"{recipe}.yaml", folder / paper / f"{recipe}.yaml"]
    found = [read_layer(path) for path in dict.fromkeys(files) if path.is_file()]
    found += [layer.section("recipes", recipe) for layer in task_layers]
    kinds = {
        "by_memory": MEMORIES.canonical(name_of(model["memory"])),
        "by_generator": str(merge_layers(task_layers).get("generator")),
    }
    usual = merge_layers(checked(part for layer in found for part in _expanded(layer, kinds)))
    kinds["by_controller"] = name_of(
        merged_settings(usual, {"model": model})["model"]["controller"]
    )
    return checked(part for layer in found for part in _expanded(layer, kinds))


def name_of(part: Any) -> str:
    """The name of a part of a model, which may have been given with settings of its own."""
    return str(part.get("name") if isinstance(part, Mapping) else part)


def checked(layers: Iterable[SettingsLayer]) -> list[SettingsLayer]:
    """Layers whose sections can be put together; raises `UsageError` where they can't."""
    listed = list(layers)
    for layer in listed:
        for key, kind in (("model", dict), ("training", dict), ("recipe", str)):
            if not isinstance(layer.settings.get(key, kind()), kind):
                expected = "a name" if kind is str else "settings"
                raise UsageError(f"{layer.place((key,))}: {key}: expected {expected}")
    return listed


def _expanded(layer: SettingsLayer, kinds: Mapping[str, str]) -> list[SettingsLayer]:
    """A layer, and then what it says of the given memory, controller and generator alone."""
    parts = [layer.without(*packaged.BY_KIND)]
    for key, name in kinds.items():
        special = layer.section(key, name)
        parts += _expanded(special, kinds) if special.settings else []
    return parts


def alternatives(kind: Any) -> list[Any]:
    """The types that a value may have, null included, each with what is annotated to it."""
    inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(inner) in (Union, UnionType):
        return [each for part in get_args(inner) for each in alternatives(part)]
    return [kind]


def without_null(kind: Any) -> list[Any]:
    """The types that a value may have besides null."""
    return [each for each in alternatives(kind) if each is not NoneType]


def plain(kind: Any) -> Any:
    """A type without its bounds, and without null."""
    (only,) = kinds if len(kinds := without_null(kind)) == 1 else (kind,)
    return get_args(only)[0] if get_origin(only) is Annotated else only


def fields(kind: Any) -> dict[str, Any]:
    """The settings of a section and their types; none of what is not a section."""
    kind = plain(kind)
    if not isinstance(kind, type):
        return {}
    if issubclass(kind, BaseModel):
        return {
            name: Annotated[(field.annotation, *field.metadata, None)]
            for name, field in kind.model_fields.items()
        }
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return inspect.get_annotations(kind)
    return {}


def describe_type(kind: Any, metadata: Sequence[Any] = (), brief: bool = False) -> str:
    """The values of a type and its bounds, such as "a whole number from 1 to 64 or one-hot".

    In `brief`, they are for a table of types, which also names null, rather than for a message.
    """
    kinds = alternatives(kind) if brief else without_null(kind)
    words = dict.fromkeys(word for each in kinds for word in _words(each, metadata, brief))
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _words(kind: Any, metadata: Sequence[Any], brief: bool) -> Iterator[str]:
    metadata = [*metadata, *(get_args(kind)[1:] if get_origin(kind) is Annotated else ())]
    kind = plain(kind)
    names = list(fields(kind)) if brief else [f"{name}: ..." for name in fields(kind)]
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    elif kind is bool:
        yield from ("true", "false")
    elif kind in _NAMES:
        title = next((each.title for each in metadata if getattr(each, "title", None)), None)
        article = "a " if (title or kind in (int, float)) and not brief else ""
        yield f"{article}{title or _NAMES[kind]}{_bounds(kind, metadata)}"
    elif getattr(kind, "ALTERNATIVES", False):
        yield from (f"{{{name}}}" for name in names)
    elif hasattr(kind, "kind_of"):
        yield from ("name", "{name, ...}")
    elif hasattr(kind, "_fields"):
        yield f"[{', '.join(fields(kind))}]"
    elif get_origin(kind) is tuple:
        yield f"[{', '.join('...' for _ in get_args(kind))}]"
    elif names and (brief or len(names) <= FIELDS_TOLD):
        yield f"{{{', '.join(names)}}}"
    elif get_origin(kind) is list:
        yield f"list of {describe_type(get_args(kind)[0], brief=True)}" if brief else "a list"
    else:
        yield "settings" if brief else "settings as 'name: value'"


def _bounds(kind: type, metadata: Sequence[Any]) -> str:
    limits = [limit for each in metadata for limit in [each, *getattr(each, "metadata", ())]]
    found: dict[str, Any] = {}
    for limit in limits:
        found |= {name: getattr(limit, name) for name in _BOUNDS if hasattr(limit, name)}
    if kind is int and "gt" in found:
        found["ge"] = found.pop("gt") + 1
    return "".join(f" {said} {found[name]}" for name, said in _BOUNDS.items() if name in found)


class Complaint(NamedTuple):
    """What is wrong with a setting: the keys and indices that lead to it, and a message."""

    location: Location
    text: str

    @classmethod
    def naming(cls, location: Location, problem: str, separator: str = ": ") -> "Complaint":
        """A complaint whose message begins with the setting's name."""
        name = ".".join(map(str, location))
        return cls(location, f"{name}{separator}{problem}" if name else problem)


def complaints(model: type[BaseModel], settings: Any, error: ValidationError) -> list[Complaint]:
    """The complaints about some settings, of which their model raised an error, each once.

    Where a setting may be of several types, pydantic says of each, by the name of its class, why
    the value does not fit; here only the type that the value resembles is mentioned.
    """
    found = (_complaint(model, settings, dict(each)) for each in error.errors())
    return list(dict.fromkeys(each for each in found if each))


def _complaint(kind: Any, value: Any, error: dict[str, Any]) -> Complaint | None:
    """The complaint of an error; None if it is of a type that the value does not resemble."""
    location: Location = ()
    keys = list(error["loc"])
    while keys:
        if hasattr(plain(kind), "kind_of"):  # which settings a part has depends on its name
            kind = plain(kind).kind_of(value)
        if len(kinds := without_null(kind)) > 1:
            best = max(kinds, key=lambda each: _likeness(each, value))
            if not _likeness(best, value):
                expected = f"expected {describe_type(kind)} (given: {shown(value)})"
                return Complaint.naming(location, expected)
            if not _is_called(keys.pop(0), best):  # where pydantic has the name of the type
                return None
            kind = best
            continue
        inner = _part(kind, keys[0])
        if inner is None:
            break
        kind, value = inner, _at(value, keys[0])
        location = (*location, keys.pop(0))
    return _said(kind, (*location, *keys), error)


def _likeness(kind: Any, value: Any) -> int:
    """How many keys of a mapping are settings of a type."""
    if not isinstance(value, Mapping):
        return 0
    return 1 if get_origin(kind) is dict else len(fields(kind).keys() & value.keys())


def _is_called(label: str | int, kind: Any) -> bool:
    generic = f"{getattr(get_origin(kind), '__name__', '-')}["
    return str(label) == getattr(kind, "__name__", "") or str(label).startswith(generic)


def _part(kind: Any, key: str | int) -> Any:
    """The type of what is under a key; None if nothing is known of it."""
    kind = plain(kind)
    if get_origin(kind) in (dict, list):
        return get_args(kind)[-1]
    return fields(kind).get(str(key))


def _at(value: Any, key: str | int) -> Any:
    try:
        return value[key]
    except (TypeError, LookupError):
        return None


def _said(kind: Any, location: Location, error: dict[str, Any]) -> Complaint:
    problem, message = error["type"], error["msg"].removeprefix("Value error, ")
    if problem in ("extra_forbidden", "unexpected_keyword_argument"):
        return Complaint(location, unknown_name("setting", str(location[-1]), fields(kind)))
    if problem == "missing" and isinstance(location[-1], str):
        return Complaint.naming(location, "is missing", " ")
    if problem == "missing":  # an item of the list before
        location = location[:-1]
    if problem in _OF_ANOTHER_FORM:
        message = f"expected {describe_type(kind)}"
    given = "" if isinstance(error["input"], dict) else f" (given: {shown(error['input'])})"
    return Complaint.naming(location, f"{message}{given}")
