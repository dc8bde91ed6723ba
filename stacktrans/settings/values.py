"""Constrained types of settings, such as bounded numbers, and base classes of schemas."""

import functools
import math
from collections.abc import Mapping
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

from stacktrans.common.reading import MAX_LENGTH
from stacktrans.common.registry import Registry
from stacktrans.settings.schema import alternatives, plain
from stacktrans.tasks.lengths import Lengths, reject_booleans


def _in_order(lengths: Lengths) -> Lengths:
    if not 0 <= lengths.shortest <= lengths.longest <= MAX_LENGTH:
        raise ValueError(f"expected 0 <= shortest <= longest <= {MAX_LENGTH}")
    return lengths


def _in_single_precision(value: float) -> float:
    if value and not MIN_SINGLE <= abs(value) <= MAX_SINGLE:
        raise ValueError(f"expected 0 or a number of a size from {MIN_SINGLE} to {MAX_SINGLE}")
    return value


MIN_SINGLE, MAX_SINGLE = 1.2e-38, 3.4e38
"""The smallest and largest magnitude of a number in single precision."""
MAX_STRINGS = 1_000_000
"""The most strings in memory at once."""

LengthRange = Annotated[Lengths, BeforeValidator(reject_booleans), AfterValidator(_in_order)]
Size = Annotated[int, Field(ge=1, le=65_536)]
PositiveCount = Annotated[int, Field(ge=1, le=10**12)]
StringCount = Annotated[int, Field(ge=1, le=MAX_STRINGS)]
SinglePrecision = Annotated[
    float, BeforeValidator(reject_booleans), AfterValidator(_in_single_precision)
]
Scale = Annotated[SinglePrecision, Field(ge=-1e6, le=1e6)]
Positive = Annotated[float, Field(gt=0), AfterValidator(_in_single_precision)]
Percent = Annotated[
    str, Field(pattern=r"^([1-9]\d{0,2}(\.\d+)?|0\.\d*[1-9]\d*)%$", title="share such as 15%")
]
Loss = Positive | Percent
"""Nats per symbol, or a share of the loss of a model of symbol frequencies alone, such as 15%."""
SymbolCount = Annotated[
    str, Field(pattern=r"^[1-9]\d{0,6} symbols$", title="number such as 500 symbols")
]
_RATE = r"\d+(\.\d+)?(e-\d+)?"
FallingRate = Annotated[
    str, Field(pattern=f"^{_RATE} to {_RATE}$", title="range such as 0.002 to 0.0001")
]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(_in_single_precision)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


def _whole(value: Any) -> Any:
    """The whole number that text such as 1e3 stands for, or else the value unchanged."""
    try:
        number = float(value) if isinstance(value, str) and "e" in value.lower() else math.nan
    except ValueError:
        return value
    return int(number) if number.is_integer() else value


class Section(BaseModel):
    """A section of settings that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject true and false as numbers; read 1e3, which is text in YAML, as a whole number."""
        types = _types_of(cls, info.field_name or "")
        if isinstance(value, bool) and bool not in types and types & {int, float}:
            raise ValueError("expected a number")
        return _whole(value) if int in types and float not in types else value


@functools.cache
def _types_of(model: type[Section], field: str) -> set[Any]:
    """The types that a setting may have."""
    return set(map(plain, alternatives(model.model_fields[field].annotation)))


class OneOf(Section):
    """A section of alternatives by name, of which exactly one is given."""

    ALTERNATIVES: ClassVar[bool] = True

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        chosen = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(chosen) != 1:
            raise ValueError(f"expected one of {', '.join(type(self).model_fields)}")
        return self

    @model_serializer(mode="wrap")
    def _without_others(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class PartConfig(Section):
    """Settings of a memory or a controller, whose name determines the schema."""

    REGISTRY: ClassVar[Registry]
    CONFIG_CLASSES: ClassVar[dict[str, Any]] = {}
    """The class of settings of each built-in part, by its name; needs no torch."""

    name: str

    @field_validator("name")
    @classmethod
    def _exists(cls, name: str) -> str:
        cls.REGISTRY.check(name)
        return cls.REGISTRY.canonical(name)

    @classmethod
    def config_class_of(cls, part: type) -> "type[Self]":
        """The class of settings of a part that is not built in, from the class of the part."""
        raise NotImplementedError

    @classmethod
    def config_class(cls, given: Any) -> "type[Self]":
        """The class of settings of a part, from its settings or name; this one if it is unknown."""
        name = given.get("name") if isinstance(given, Mapping) else given
        if not isinstance(name, str) or name not in cls.REGISTRY:
            return cls
        return cls.CONFIG_CLASSES.get(name) or cls.config_class_of(cls.REGISTRY.load(name))

    @classmethod
    def read(cls, given: Any) -> Self:
        """Validate settings, or a name for a part with its defaults; raises `ValueError`."""
        if isinstance(given, cls):
            return given
        settings = {"name": given} if isinstance(given, str) else given
        if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
            raise ValueError(f"expected the name of a {cls.REGISTRY.kind}")
        if settings["name"] not in cls.REGISTRY:
            return cls.model_validate({"name": settings["name"]})
        config = cls.config_class(settings)
        of_others = cls.all_settings() - config.model_fields.keys()
        for key in settings:
            if key in of_others:
                raise ValueError(f"{cls.REGISTRY.kind} {settings['name']} has no {key}")
        return config.model_validate(settings)

    @classmethod
    def all_settings(cls) -> set[str]:
        """The names of the settings of all built-in parts."""
        return {name for config in cls.CONFIG_CLASSES.values() for name in config.model_fields}
