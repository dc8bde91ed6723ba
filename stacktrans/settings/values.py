"""What a single setting can be: bounded numbers, and sections that know their keys."""

import ast
import functools
import inspect
import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from stacktrans.common.reading import LONGEST
from stacktrans.common.registry import Registry
from stacktrans.settings.layers import alternatives, plain
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
