"""What is wrong with settings, in the words of who wrote them.

Pydantic tells of a setting that may be of several kinds why it is none of them, and calls each
by the name of its class; here the kinds are told by how they are written.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from stacktrans.common.errors import shown, unknown_name

Location = tuple[str | int, ...]
MISSING = "is missing"
FIELDS_TOLD = 4
"""A section with more settings is not told by them."""


class Complaint(NamedTuple):
    """What is wrong with a setting.

    Attributes:
        location: keys and indices that lead to the setting.
        text: what is wrong with it.
        unknown: whether there is no such setting, which the text names.
    """

    location: Location
    text: str
    unknown: bool = False


def complaints(model: type[BaseModel], settings: Any, error: ValidationError) -> list[Complaint]:
    """What is wrong with some settings, each once.

    Args:
        model: what they should be.
        settings: what was given.
        error: what came of it.
    """
    found = [(tuple(item["loc"]), item) for item in error.errors()]
    return list(dict.fromkeys(_told(model, settings, (), found)))


Errors = list[tuple[Location, Any]]
"""Errors, each with where it is within what is looked at."""


def _told(kind: Any, value: Any, location: Location, errors: Errors) -> Iterator[Complaint]:
    """The complaints about a value that should be of some kind.

    Args:
        kind: an annotation.
        value: what was given.
        location: where it is.
        errors: of the value and of what is within.
    """
    if hasattr(_plain(kind), "kind_of"):  # what settings there are depends on the value
        kind = _plain(kind).kind_of(value)
    kinds = _alternatives(kind)
    if len(kinds) > 1:
        yield from _told_of_several(kind, kinds, value, location, errors)
        return
    within: dict[str | int, Errors] = {}
    for place, error in errors:
        if place and _part(kind, place[0]) is not None:
            within.setdefault(place[0], []).append((place[1:], error))
        else:
            yield _complaint(kind, (*location, *place), error)
    for key, inner in within.items():
        there = _holds(value, key)
        yield from _told(_part(kind, key), value[key] if there else None, (*location, key), inner)


def _told_of_several(
    kind: Any, kinds: Sequence[Any], value: Any, location: Location, errors: Errors
) -> Iterator[Complaint]:
    """The complaints about a value that may be of several kinds: of the one that it resembles."""
    own = [(place, error) for place, error in errors if not place]
    for place, error in own:
        yield _complaint(kind, (*location, *place), error)
    likeness = {index: _likeness(one, value) for index, one in enumerate(kinds)}
    best = max(likeness, key=likeness.__getitem__)
    if likeness[best]:
        # The first key is what pydantic calls the kind.
        others = [(place, error) for place, error in errors if place]
        inner = [(place[1:], error) for place, error in others if _is(place[0], kinds[best])]
        yield from _told(kinds[best], value, location, inner)
    elif len(own) < len(errors):
        yield Complaint(location, f"expected {form(kind)} (given: {shown(value)})")


def _is(label: str | int, kind: Any) -> bool:
    return str(label) == getattr(kind, "__name__", "") or str(label).startswith(
        f"{getattr(get_origin(kind), '__name__', '-')}["
    )


def _likeness(kind: Any, value: Any) -> int:
    """How much a mapping looks like one of a kind: how many of its keys are settings of it."""
    if not isinstance(value, Mapping):
        return 0
    if get_origin(kind) is dict:
        return 1
    return len(_fields(kind).keys() & value.keys())


def _complaint(kind: Any, location: Location, error: Any) -> Complaint:
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return Complaint(location, unknown_name("setting", str(location[-1]), _fields(kind)), True)
    too_short = error["type"] == "missing" and isinstance(location[-1], int)
    if too_short or error["type"] == "too_long":
        place = location[:-1] if too_short else location
        return Complaint(place, f"expected {form(kind)} (given: {shown(error['input'])})")
    if error["type"] == "missing":
        return Complaint(location, MISSING)
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] in _OF_KINDS:
        message = f"expected {form(kind)}"
    given = "" if isinstance(error["input"], dict) else f" (given: {shown(error['input'])})"
    return Complaint(location, f"{message}{given}")


_OF_KINDS = (
    *("model_type", "dataclass_type", "dict_type", "named_tuple_type", "list_type"),
    "literal_error",
)
"""What pydantic calls a value of another form: no mapping, no list, or none of a few words."""


def _alternatives(kind: Any) -> list[Any]:
    """The kinds that a value may be of, besides null."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0]) if _is_union(get_args(kind)[0]) else [kind]
    if _is_union(kind):
        parts = [part for part in get_args(kind) if part is not NoneType]
        return [inner for part in parts for inner in _alternatives(part)]
    return [kind]


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType)


def _plain(kind: Any) -> Any:
    """A kind without its bounds, and without null."""
    (only,) = kinds if len(kinds := _alternatives(kind)) == 1 else (kind,)
    return get_args(only)[0] if get_origin(only) is Annotated else only


def _fields(kind: Any) -> dict[str, Any]:
    """The settings of a section and their kinds; none of what is no section."""
    kind = _plain(kind)
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


def _part(kind: Any, key: str | int) -> Any:
    """The kind of what is under a key; None if there is nothing known of it."""
    kind = _plain(kind)
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if get_origin(kind) is list:
        return get_args(kind)[0]
    return _fields(kind).get(str(key))


def _holds(value: Any, key: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(key, int) and key < len(value)
    return isinstance(value, Mapping) and key in value


def form(kind: Any) -> str:
    """How a value of a kind is written."""
    *others, last = dict.fromkeys(text for one in _alternatives(kind) for text in _forms(one))
    return f"{', '.join(others)} or {last}" if others else last


def _forms(kind: Any) -> list[str]:
    plain = _plain(kind)
    if getattr(plain, "ALTERNATIVES", False):
        return [f"{{{name}: ...}}" for name in _fields(plain)]
    return [*map(str, get_args(plain))] if get_origin(plain) is Literal else [_form(kind, plain)]


def _form(kind: Any, plain: Any) -> str:
    if get_origin(plain) is tuple:
        return f"[{', '.join('...' for _ in get_args(plain))}]"
    if plain in _NAMES:
        return _NAMES[plain] + _bounds(kind)
    names = _fields(plain)
    if hasattr(plain, "_fields"):
        return f"[{', '.join(names)}]"
    if 0 < len(names) <= FIELDS_TOLD:
        return "{" + ", ".join(f"{name}: ..." for name in names) + "}"
    return "a list" if get_origin(plain) is list else "settings as 'name: value'"


_NAMES = {int: "a whole number", float: "a number", str: "a name", bool: "true or false"}


def _bounds(kind: Any) -> str:
    """The least and greatest number of a kind, in words."""
    given = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    limits = [limit for each in given for limit in [each, *getattr(each, "metadata", ())]]
    least, most = (
        next((getattr(limit, name) for limit in limits if hasattr(limit, name)), None)
        for name in ("ge", "le")
    )
    if least is None or most is None:
        return "" if least is None else f" of at least {least}"
    return f" from {least} to {most}"
