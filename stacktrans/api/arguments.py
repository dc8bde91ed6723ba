"""The arguments of public functions, checked before anything is done with them."""

import functools
import inspect
import json
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, ValidationError, validate_call

from stacktrans.common.errors import UsageError, shown
from stacktrans.tasks.base import Lengths, checked_lengths

Function = TypeVar("Function", bound=Callable[..., Any])


def _reading(read: Callable[[Any], Any], expected: str) -> BeforeValidator:
    """How an argument is read, and what is expected where it can't be."""

    def validated(value: Any) -> Any:
        try:
            return read(value)
        except (TypeError, ValueError):
            raise ValueError(f"expected {expected}") from None

    return BeforeValidator(validated)


def _whole(value: Any, least: float = -float("inf")) -> int:
    number = operator.index(value)  # numpy's integers, too
    if isinstance(value, bool) or number < least:
        raise ValueError
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> str | list[str]:
    return _text(value) if isinstance(value, str | bytes) else [_text(each) for each in value]


def _data(value: Any) -> Any:
    if isinstance(value, str | os.PathLike):
        return value
    if isinstance(value, Mapping) or any(isinstance(fields, str | Mapping) for fields in value):
        raise TypeError  # whose letters or keys would be taken for sources and targets
    pairs = [tuple(map(_text, fields)) for fields in value]
    if not {*map(len, pairs)} <= {2, 3}:
        raise ValueError
    return pairs


def _lengths(value: Any) -> Lengths:
    shortest, longest = (_whole(each) for each in value)
    return checked_lengths(shortest, longest, f"lengths {value}")


def _from(least: int) -> BeforeValidator:
    return _reading(lambda value: _whole(value, least), f"a whole number of at least {least}")


Count = Annotated[int, _from(1)]
Seed = Annotated[int, _from(0)]
Named = Annotated[str | os.PathLike[str], _reading(os.fspath, "a name or a path")]
Text = Annotated[str, _reading(_text, "a string")]
Texts = Annotated[str | Sequence[str], _reading(_texts, "a string, or several")]
Data = Annotated[
    str | os.PathLike[str] | Sequence[tuple[str, ...]],
    _reading(_data, "a file, or pairs of strings"),
]
Range = Annotated[tuple[int, int], _reading(_lengths, "shortest and longest, such as (65, 128)")]


def checked(function: Function) -> Function:
    """A function that raises `UsageError` for an argument that it is not made for."""
    call = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    signature = inspect.signature(function)
    names = list(signature.parameters)

    def problem(item: Any) -> str:
        place = item["loc"][0]
        name = names[place] if isinstance(place, int) else place
        said = item["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        return f"{name} {shown(item['input'])}: {said}"

    @functools.wraps(function)
    def wrapper(*given: Any, **named: Any) -> Any:
        signature.bind(*given, **named)  # which reports what does not fit in Python's own words
        try:
            return call(*given, **named)
        except ValidationError as error:
            raise UsageError(*map(problem, error.errors())) from None

    return wrapper  # type: ignore[return-value]


def assigned(settings: Mapping[str, Any] | None) -> list[str]:
    """Each setting as `key=value`, the value in JSON, which is YAML.

    Raises:
        UsageError: a value is not a number, a string, or a list or mapping of these.
    """
    found = []
    for key, value in (settings or {}).items():
        try:
            found.append(f"{key}={json.dumps(value, default=_plain)}")
        except (TypeError, ValueError) as error:
            raise UsageError(f"{key} {shown(value)}: {error}") from error
    return found


def _plain(value: Any) -> Any:
    """A path, or a number or array of numpy or torch, as JSON has it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("expected numbers, strings, or lists or mappings of them")
