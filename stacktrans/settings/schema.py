"""Introspection of schemas: paths, types and meanings of settings, and readable errors."""

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from stacktrans.common.errors import UsageError, plain_words, shown, unknown_name
from stacktrans.common.registry import UnknownName

KeyPath = tuple[str | int, ...]
"""The keys and indices that lead to a setting."""
Problem = tuple[KeyPath, str]
"""An error in a setting: its path and a message."""

MAX_NAMED = 4
"""A section with more settings than this is not described by their names in messages."""
_TYPE_NAMES = {int: "whole number", float: "number", str: "text", NoneType: "null"}
_BOUNDS = {"ge": "from", "gt": "over", "le": "to", "lt": "to under"}
_WRONG_FORM = {
    *("model_type", "dataclass_type", "dict_type", "named_tuple_type", "list_type"),
    *("literal_error", "missing", "too_long", "bool_type", "bool_parsing"),
    *("string_type", "string_pattern_mismatch", "int_type", "int_parsing", "int_from_float"),
    *("float_type", "float_parsing"),
    *("greater_than", "greater_than_equal", "less_than", "less_than_equal"),
}
"""Pydantic's errors that are reported by the type of the setting."""


def setting_path(key: str, root: type[BaseModel], origin: str) -> str:
    """The full path of a setting, from the end of it, such as `learning_rate`.

    What follows the name of a setting in the key is a key within its value.

    Args:
        key: the end of a path, or a whole path.
        root: the section that paths begin at.
        origin: where the key was given, for messages.

    Raises:
        UsageError: the key is unknown or ambiguous.
    """
    if key in root.model_fields:
        return key
    parts = key.split(".")
    # Settings within optional blocks are considered only if no other setting has the name.
    for paths in (setting_paths(root, blocks=False), setting_paths(root)):
        for size in range(len(parts), 0, -1):
            name, rest = ".".join(parts[:size]), parts[size:]
            matches = [path for path in paths if path == name or path.endswith(f".{name}")]
            if name in matches or len(matches) == 1:
                return ".".join([name if name in matches else matches[0], *rest])
            if matches:
                several = ", ".join(matches)
                raise UsageError(f"{origin}: '{name}' could be any of {several}; say which")
    if parts[1:]:  # perhaps a parameter of a task, which may have any name
        paths += tuple(f"{path}.{parts[-1]}" for path in paths if path.endswith("parameters"))
    # Suggestions have as many parts as the key.
    ends = {".".join(path.split(".")[-len(parts) :]) for path in paths}
    raise UsageError(f"{origin}: {unknown_name('setting', key, ends)}")


@functools.cache
def setting_paths(root: type[BaseModel], blocks: bool = True) -> tuple[str, ...]:
    """The paths of settings; with `blocks`, also of sections and of what is in optional blocks."""
    return tuple(_paths(root, "", blocks))


def _paths(section: type[BaseModel], prefix: str, blocks: bool) -> Iterator[str]:
    for name, field in section.model_fields.items():
        classes, block = section_classes(field), is_block(field)
        if len(classes) != 1 or block or (blocks and prefix):
            yield prefix + name
        if blocks or not block:
            inner = (_paths(section_class, f"{prefix}{name}.", blocks) for section_class in classes)
            yield from dict.fromkeys(itertools.chain.from_iterable(inner))


def section_classes(field: FieldInfo) -> list[type[BaseModel]]:
    """The classes of settings that a field may have; none if its value is not a section."""
    section, *others = without_null(field.annotation)
    if others or not (isinstance(section, type) and issubclass(section, BaseModel)):
        return []
    return list(dict.fromkeys(getattr(section, "CONFIG_CLASSES", {}).values())) or [section]


def is_block(field: FieldInfo) -> bool:
    """Whether a field is a section that may be null."""
    return bool(section_classes(field)) and NoneType in alternatives(field.annotation)


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union, nested ones included, or the type itself; metadata is kept."""
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(inner) in (Union, UnionType):
        return [*itertools.chain.from_iterable(map(alternatives, get_args(inner)))]
    return [annotation]


def without_null(annotation: Any) -> list[Any]:
    """The types that a value may have besides null."""
    return [member for member in alternatives(annotation) if member is not NoneType]


def plain(annotation: Any) -> Any:
    """A type without its metadata, and without null if that leaves one type."""
    (only,) = members if len(members := without_null(annotation)) == 1 else (annotation,)
    return get_args(only)[0] if get_origin(only) is Annotated else only


def annotation_of(field: FieldInfo) -> Any:
    """The type of a field with its metadata."""
    return Annotated[field.annotation, field]


def fields(annotation: Any) -> dict[str, Any]:
    """The settings of a section and their types; empty for a type that is not a section."""
    section = plain(annotation)
    if not isinstance(section, type):
        return {}
    if issubclass(section, BaseModel):
        return {name: annotation_of(field) for name, field in section.model_fields.items()}
    if dataclasses.is_dataclass(section) or hasattr(section, "_fields"):
        return inspect.get_annotations(section)
    return {}


def describe_type(annotation: Any, brief: bool = False) -> str:
    """The values of a type and its bounds, such as "a whole number from 1 to 64 or one-hot".

    Args:
        annotation: the type.
        brief: whether the words are for a table of types, which also names null, rather than for a
            message.
    """
    members = alternatives(annotation) if brief else without_null(annotation)
    words = dict.fromkeys(word for member in members for word in _words(member, brief))
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _words(annotation: Any, brief: bool) -> Iterator[str]:
    """The alternatives of a type that is not a union, in words."""
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    inner = plain(annotation)
    names = list(fields(inner)) if brief else [f"{name}: ..." for name in fields(inner)]
    if get_origin(inner) is Literal:
        yield from map(str, get_args(inner))
    elif inner is bool:
        yield from ("true", "false")
    elif inner in _TYPE_NAMES:
        titles = (getattr(constraint, "title", None) for constraint in metadata)
        title = next(filter(None, titles), None)
        article = "a " if (title or inner in (int, float)) and not brief else ""
        yield f"{article}{title or _TYPE_NAMES[inner]}{_bounds(inner, metadata)}"
    elif getattr(inner, "ALTERNATIVES", False):
        yield from (f"{{{name}}}" for name in names)
    elif hasattr(inner, "config_class"):
        yield from ("name", "{name, ...}")
    elif hasattr(inner, "_fields"):
        yield f"[{', '.join(fields(inner))}]"
    elif get_origin(inner) is tuple:
        yield f"[{', '.join('...' for _ in get_args(inner))}]"
    elif names and (brief or len(names) <= MAX_NAMED):
        yield f"{{{', '.join(names)}}}"
    elif get_origin(inner) is list:
        yield f"list of {describe_type(get_args(inner)[0], brief=True)}" if brief else "a list"
    else:
        yield "settings" if brief else "settings as 'name: value'"


def _bounds(number: type, metadata: Sequence[Any]) -> str:
    limits: dict[str, Any] = {}
    for constraint in metadata:
        for limit in (constraint, *getattr(constraint, "metadata", ())):
            limits |= {name: getattr(limit, name) for name in _BOUNDS if hasattr(limit, name)}
    if number is int and "gt" in limits:
        limits["ge"] = limits.pop("gt") + 1
    upper = {"le": "and at most", "lt": "and under"} if "gt" in limits else {}
    words = (_BOUNDS | upper).items()
    return "".join(f" {word} {limits[name]}" for name, word in words if name in limits)


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The meanings of the settings of a section by name: the docstrings below the fields."""
    texts = {name: text for base in reversed(model.__mro__) for name, text in _docstrings(base)}
    return {name: texts[name] for name in model.model_fields if name in texts}


def _docstrings(section: type) -> Iterator[tuple[str, str]]:
    """The fields that a class itself annotates, and the docstrings below them.

    They are read only here: pydantic's `use_attribute_docstrings` would take 50 ms of each command.
    """
    is_schema = issubclass(section, BaseModel) and section is not BaseModel
    try:
        source = inspect.getsource(section) if is_schema else ""
    except (OSError, TypeError):  # a class that `create_model` made has no source
        return
    for node in ast.parse(textwrap.dedent(source)).body[:1]:
        for name, below in itertools.pairwise(getattr(node, "body", ())):
            match name, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=setting)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    yield setting, " ".join(text.split())


def problems_of(model: type[BaseModel], settings: Any, error: ValidationError) -> list[Problem]:
    """The problems of settings that a model rejected, without duplicates.

    For a union, pydantic reports why the value fits none of the members, each called by its class;
    here only the member that the value resembles is reported.
    """
    problems = (_problem(model, settings, dict(detail)) for detail in error.errors())
    return list(dict.fromkeys(problem for problem in problems if problem))


def _problem(annotation: Any, value: Any, error: dict[str, Any]) -> Problem | None:
    """The problem behind an error of pydantic; None for a type that the value does not resemble."""
    path: KeyPath = ()
    keys = list(error["loc"])
    while keys:
        if hasattr(plain(annotation), "config_class"):  # the settings of a part depend on its name
            annotation = plain(annotation).config_class(value)
        if len(members := without_null(annotation)) > 1:
            best = max(members, key=lambda member: _shared_keys(member, value))
            if not _shared_keys(best, value):
                expected = f"expected {describe_type(annotation)} (given: {shown(value)})"
                return _naming(path, expected)
            if not _is_label_of(keys.pop(0), best):  # pydantic puts the name of the member here
                return None
            annotation = best
            continue
        inner = _member(annotation, keys[0])
        if inner is None:
            break
        annotation, value = inner, _value_at(value, keys[0])
        path = (*path, keys.pop(0))
    return _in_plain_words(annotation, (*path, *keys), error)


def _setting_named_in(annotation: Any, message: str) -> tuple[KeyPath, str]:
    """The path of the setting of a section that a message begins with, and the rest of it."""
    name, _, rest = message.partition(": ")
    keys = tuple(int(key) if key.isdecimal() else key for key in name.split("."))
    annotation = functools.reduce(_member, keys, annotation)
    return ((), message) if annotation is None else (keys, rest)


def _shared_keys(annotation: Any, value: Any) -> int:
    """How many keys of a mapping are settings of a type."""
    if not isinstance(value, Mapping):
        return 0
    return 1 if get_origin(annotation) is dict else len(fields(annotation).keys() & value.keys())


def _is_label_of(label: str | int, annotation: Any) -> bool:
    generic = f"{getattr(get_origin(annotation), '__name__', '-')}["
    return str(label) == getattr(annotation, "__name__", "") or str(label).startswith(generic)


def _member(annotation: Any, key: str | int) -> Any:
    """The type of the value under a key; None if it is unknown."""
    container = plain(annotation)
    if get_origin(container) in (dict, list):
        return get_args(container)[-1]
    return fields(container).get(str(key))


def _value_at(value: Any, key: str | int) -> Any:
    try:
        return value[key]
    except (TypeError, LookupError):
        return None


def _naming(path: KeyPath, text: str, separator: str = ": ") -> Problem:
    """A problem whose message begins with the path of the setting."""
    name = ".".join(map(str, path))
    return path, f"{name}{separator}{text}" if name else text


def _in_plain_words(annotation: Any, path: KeyPath, error: dict[str, Any]) -> Problem:
    """An error of pydantic about the setting at a path, of which the type is known."""
    kind, message = error["type"], plain_words(error["msg"])
    if isinstance(error.get("ctx", {}).get("error"), UnknownName):  # which says it all
        return path, message
    if kind == "value_error":  # of a section, which names the setting in its message
        keys, message = _setting_named_in(annotation, message)
        path = (*path, *keys)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        kind = getattr(plain(annotation), "KIND", "setting")
        return path, unknown_name(kind, str(path[-1]), fields(annotation))
    if kind == "missing" and isinstance(path[-1], str):
        return _naming(path, "is missing", " ")
    if kind == "missing":  # an item of the list before
        path = path[:-1]
    if kind == "too_short":
        message = "expected at least one"
    elif kind in _WRONG_FORM:
        message = f"expected {describe_type(annotation)}"
    given = "" if isinstance(error["input"], dict) else f" (given: {shown(error['input'])})"
    return _naming(path, f"{message}{given}")
