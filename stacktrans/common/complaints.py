"""Messages about wrong settings, in the words of a settings file.

Where a setting may be of several types, pydantic says of each, by the name of its class, why the
value does not fit; here only the type that the value resembles is mentioned, in plain words.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

from stacktrans.common.errors import shown, unknown_name
from stacktrans.common.kinds import fields, in_words, plain, without_null

Location = tuple[str | int, ...]
MISSING = "is missing"
_OF_ANOTHER_FORM = {
    *("model_type", "dataclass_type", "dict_type", "named_tuple_type", "list_type"),
    *("literal_error", "missing", "too_long"),
}
"""Pydantic's errors for what is not a mapping, a list of so many items, or one of a few words."""


class Complaint(NamedTuple):
    """What is wrong with a setting: the keys and indices that lead to it, and a message."""

    location: Location
    text: str
    unknown: bool = False  # a setting, which the text names


def complaints(model: type[BaseModel], settings: Any, error: ValidationError) -> list[Complaint]:
    """The complaints about some settings, of which their model raised an error, each once."""
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
