"""What a single setting can be: bounded numbers, sections that know their keys; and what it is not.

Messages about wrong settings are made from their types, in plain words.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from stacktrans.common.errors import shown, unknown_name
from stacktrans.common.reading import LONGEST
from stacktrans.common.registry import Registry
from stacktrans.tasks.base import Lengths, no_truth_values


def _in_order(lengths: Lengths) -> Lengths:
    if not 1 <= lengths.shortest <= lengths.longest <= LONGEST:
        raise ValueError(f"expected 1 <= shortest <= longest <= {LONGEST}")
    return lengths


def _in_single_precision(value: float) -> float:
    if value and not SMALLEST <= abs(value) <= LARGEST:
        raise ValueError(f"expected 0 or a number of a size from {SMALLEST} to {LARGEST}")
    return value


SMALLEST, LARGEST = 1.2e-38, 3.4e38
"""The sizes of the numbers that weights can be."""
MOST_STRINGS = 1_000_000
"""The most strings that are held at once."""

Range = Annotated[Lengths, BeforeValidator(no_truth_values), AfterValidator(_in_order)]
Size = Annotated[int, Field(ge=1, le=65_536)]
Count = Annotated[int, Field(ge=1, le=10**12)]
Strings = Annotated[int, Field(ge=1, le=MOST_STRINGS)]
Number = Annotated[float, BeforeValidator(no_truth_values), AfterValidator(_in_single_precision)]
Scale = Annotated[Number, Field(ge=-1e6, le=1e6)]
Positive = Annotated[float, Field(gt=0), AfterValidator(_in_single_precision)]
Percent = Annotated[
    str, Field(pattern=r"^([1-9]\d{0,2}(\.\d+)?|0\.\d*[1-9]\d*)%$", title="share such as 15%")
]
Loss = Positive | Percent
"""Nats a symbol, or a share of what guessing by how frequent symbols are costs, such as 15%."""
Symbols = Annotated[
    str, Field(pattern=r"^[1-9]\d{0,6} symbols$", title="number such as 500 symbols")
]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(_in_single_precision)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


def _whole(value: Any) -> Any:
    """What is written as 1e3 as a number, if it is a whole one."""
    try:
        number = float(value) if isinstance(value, str) and "e" in value.lower() else math.nan
    except ValueError:
        return value
    return int(number) if number.is_integer() else value


class Strict(BaseModel):
    """Settings that refuse an unknown key."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Numbers are not true or false; 1e3, which is text in YAML, is a whole one."""
        kinds = _kinds_of(cls, info.field_name or "")
        if isinstance(value, bool) and bool not in kinds and kinds & {int, float}:
            raise ValueError("expected a number")
        return _whole(value) if int in kinds and float not in kinds else value


@functools.cache
def _kinds_of(model: type[Strict], field: str) -> set[Any]:
    """The types that a setting may have."""
    return set(map(plain, alternatives(model.model_fields[field].annotation)))


class OneOf(Strict):
    """Alternatives, each under its name, of which one is chosen."""

    ALTERNATIVES: ClassVar[bool] = True

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        chosen = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(chosen) != 1:
            raise ValueError(f"expected one of {', '.join(type(self).model_fields)}")
        return self

    @model_serializer(mode="wrap")
    def _alone(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class Named(Strict):
    """A part of a model that is chosen by its name, which decides what settings it has."""

    REGISTRY: ClassVar[Registry]
    KINDS: ClassVar[dict[str, Any]] = {}
    """The settings of each part of this package, by its name; known without torch."""

    name: str

    @field_validator("name")
    @classmethod
    def _exists(cls, name: str) -> str:
        cls.REGISTRY.check(name)
        return cls.REGISTRY.canonical(name)

    @classmethod
    def of_class(cls, found: type) -> "type[Self]":
        """The settings of a part that comes from elsewhere, by its class."""
        raise NotImplementedError

    @classmethod
    def kind_of(cls, given: Any) -> "type[Self]":
        """The settings that a part has, by what was written of it; those of all if unknown."""
        name = given.get("name") if isinstance(given, Mapping) else given
        if not isinstance(name, str) or name not in cls.REGISTRY:
            return cls
        return cls.KINDS.get(name) or cls.of_class(cls.REGISTRY.load(name))

    @classmethod
    def read(cls, given: Any) -> Self:
        """Settings as written, or a name for a part with its defaults; raises `ValueError`."""
        if isinstance(given, cls):
            return given
        settings = {"name": given} if isinstance(given, str) else given
        if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
            raise ValueError(f"expected the name of a {cls.REGISTRY.kind}")
        if settings["name"] not in cls.REGISTRY:
            return cls.model_validate({"name": settings["name"]})
        kind = cls.kind_of(settings)
        others = cls.known() - kind.model_fields.keys()
        for key in settings:
            if key in others:
                raise ValueError(f"{cls.REGISTRY.kind} {settings['name']} has no {key}")
        return kind.model_validate(settings)

    @classmethod
    def known(cls) -> set[str]:
        """The settings that one part of this package or another has."""
        return {name for kind in cls.KINDS.values() for name in kind.model_fields}


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """What a section's settings mean, by name: what stands below them."""
    known = {name: text for kind in reversed(model.__mro__) for name, text in _written(kind)}
    return {name: known[name] for name in model.model_fields if name in known}


def _written(kind: type) -> Iterator[tuple[str, str]]:
    """The names that a class annotates itself, and what stands below them, if anything does.

    Read when it is asked for: pydantic would read all sources in every command, for 50 ms.
    """
    try:
        source = inspect.getsource(kind) if issubclass(kind, Strict) else ""
    except (OSError, TypeError):  # there is none of a class that is made when it is needed
        return
    for node in ast.parse(textwrap.dedent(source)).body[:1]:
        for name, below in itertools.pairwise(getattr(node, "body", ())):
            match name, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=setting)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    yield setting, " ".join(text.split())


FIELDS_TOLD = 4
"""A section with more settings is not described by them in messages."""
_PLAIN_NAMES = {int: "whole number", float: "number", str: "text", NoneType: "null"}
_BOUNDS = {"ge": "from", "gt": "over", "le": "to", "lt": "to under"}

Location = tuple[str | int, ...]
MISSING = "is missing"
_OF_ANOTHER_FORM = {
    *("model_type", "dataclass_type", "dict_type", "named_tuple_type", "list_type"),
    *("literal_error", "missing", "too_long"),
}
"""Pydantic's errors for what is not a mapping, a list of so many items, or one of a few words."""


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
    elif kind in _PLAIN_NAMES:
        title = next((each.title for each in metadata if getattr(each, "title", None)), None)
        article = "a " if (title or kind in (int, float)) and not brief else ""
        yield f"{article}{title or _PLAIN_NAMES[kind]}{_bounds(kind, metadata)}"
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
    names_it: bool = False  # whether the text names the setting

    def __str__(self) -> str:
        name = "" if self.names_it else ".".join(map(str, self.location))
        separator = (" " if self.text == MISSING else ": ") if name else ""
        return f"{name}{separator}{self.text}"


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
