"""Types of settings, taken apart, and in words for users."""

import dataclasses
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

FIELDS_TOLD = 4
"""A section with more settings is not described by them in messages."""
_NAMES = {int: "whole number", float: "number", str: "text", NoneType: "null"}
_BOUNDS = {"ge": "from", "gt": "over", "le": "to", "lt": "to under"}


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
