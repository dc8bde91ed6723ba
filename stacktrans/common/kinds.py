"""Types of settings, taken apart, and messages about wrong settings in plain words."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from stacktrans.common.errors import shown, unknown_name

FIELDS_TOLD = 4
"""A section with more settings is not described by them in messages."""
_NAMES = {int: "whole number", float: "number", str: "text", NoneType: "null"}
_BOUNDS = {"ge": "from", "gt": "over", "le": "to", "lt": "to under"}

Location = tuple[str | int, ...]
MISSING = "is missing"
_OF_ANOTHER_FORM = {
    *("model_type", "dataclass_type", "dict_type", "named_tuple_type", "list_type"),
    *("literal_error", "missing", "too_long"),
}
"""Pydantic's errors for what is not a mapping, a list of so many items, or one of a few words."""


def no_truth_values(value: Any) -> Any:
    """A value, or several, before it is read as numbers; raises `ValueError` for true and false."""
    several = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(each, bool) for each in several):
        raise ValueError("expected numbers" if several is value else "expected a number")
    return value


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
        return get_type_hints(kind, include_extras=True)
    return {}


def in_words(kind: Any, metadata: Sequence[Any] = (), brief: bool = False) -> str:
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
        yield f"list of {in_words(get_args(kind)[0], brief=True)}" if brief else "a list"
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
    unknown: bool = False  # a setting, which the text names


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
                return Complaint(location, f"expected {in_words(kind)} (given: {shown(value)})")
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
        return Complaint(location, unknown_name("setting", str(location[-1]), fields(kind)), True)
    if problem == "missing" and isinstance(location[-1], str):
        return Complaint(location, MISSING)
    if problem == "missing":  # an item of the list before
        location = location[:-1]
    if problem in _OF_ANOTHER_FORM:
        message = f"expected {in_words(kind)}"
    given = "" if isinstance(error["input"], dict) else f" (given: {shown(error['input'])})"
    return Complaint(location, f"{message}{given}")
