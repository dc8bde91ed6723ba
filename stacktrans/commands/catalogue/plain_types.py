"""Types of settings in words that anyone reads who never saw the code."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from stacktrans.settings.values import Named, OneOf


def alternatives(annotation: Any) -> list[Any]:
    """What a value may be: one kind or several, each with what is annotated to it."""
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in alternatives(part)]
    return [annotation]


def in_words(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """A type, as `list settings` says it.

    Args:
        annotation: the type.
        metadata: what is annotated to it as a whole, such as its bounds.
    """
    words = [word for kind in alternatives(annotation) for word in _words(kind, metadata)]
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _words(kind: Any, metadata: Sequence[Any]) -> Iterator[str]:
    if get_origin(kind) is Annotated:
        kind, *own = get_args(kind)
        metadata = [*metadata, *own]
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    elif kind is bool:
        yield from ("true", "false")
    elif kind in (int, float):
        yield f"{_NAMES[kind]}{_bounds(kind, metadata)}"
    elif kind in _NAMES:
        yield _NAMES[kind]
    elif dataclasses.is_dataclass(kind):
        yield _braces(field.name for field in dataclasses.fields(kind))
    elif isinstance(kind, type) and issubclass(kind, Named):
        yield from ("name", "{name, ...}")
    elif isinstance(kind, type) and issubclass(kind, OneOf):
        yield from (f"{{{name}}}" for name in kind.model_fields)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield _braces(kind.model_fields)
    elif hasattr(kind, "_fields"):
        yield f"[{', '.join(kind._fields)}]"
    elif get_origin(kind) is list:
        yield f"list of {in_words(get_args(kind)[0])}"
    else:
        assert get_origin(kind) is dict, kind
        yield "numbers by name" if get_args(kind)[1] is float else "settings"


def _braces(names: Iterable[str]) -> str:
    return f"{{{', '.join(names)}}}"


def _bounds(kind: type, metadata: Sequence[Any]) -> str:
    """What bounds are annotated to a number."""
    found: dict[str, Any] = {}
    for item in metadata:
        for part in item.metadata if isinstance(item, FieldInfo) else [item]:
            names = ("ge", "gt", "le", "lt")
            found |= {name: getattr(part, name) for name in names if hasattr(part, name)}
    if kind is int and "gt" in found:
        found["ge"] = found.pop("gt") + 1
    return "".join(f" {said} {found[name]}" for name, said in _SAID.items() if name in found)


_NAMES = {int: "whole number", float: "number", str: "text", type(None): "null"}
_SAID = {"ge": "from", "gt": "over", "le": "to", "lt": "to under"}
