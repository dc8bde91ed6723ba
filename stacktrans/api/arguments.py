"""The arguments of public functions, checked before anything is done with them."""

import functools
import inspect
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, ValidationError, validate_call

from stacktrans.common.errors import UsageError, at_least, shown
from stacktrans.tasks.base import Lengths, checked_lengths

Function = TypeVar("Function", bound=Callable[..., Any])


def _whole(value: Any) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # numpy's integers, too
        except TypeError:
            pass
    raise ValueError("expected a whole number")


def _at_least(least: int, value: Any) -> int:
    number = _whole(value)
    if number < least:
        raise ValueError(at_least(least))
    return number


def _path(value: Any) -> str:
    try:
        return str(os.fspath(value))
    except TypeError:
        raise ValueError("expected a name or a path") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a string")
    return value


def _texts(value: Any) -> Any:
    try:
        return _text(value) if isinstance(value, str | bytes) else [_text(each) for each in value]
    except (TypeError, ValueError):
        raise ValueError("expected a string, or several") from None


def _data(value: Any) -> Any:
    if isinstance(value, str | os.PathLike):
        return value
    try:
        return [(_text(source), _text(target)) for source, target in value]
    except (TypeError, ValueError):
        raise ValueError("expected a file, or pairs of strings") from None


def _lengths(value: Any) -> Lengths:
    try:
        shortest, longest = (_whole(each) for each in value)
    except (TypeError, ValueError):
        raise ValueError("expected shortest and longest, such as (65, 128)") from None
    return checked_lengths(shortest, longest, f"lengths {value}")


Count = Annotated[int, BeforeValidator(functools.partial(_at_least, 1))]
Seed = Annotated[int, BeforeValidator(functools.partial(_at_least, 0))]
Named = Annotated[str | os.PathLike[str], BeforeValidator(_path)]
Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[str | Sequence[str], BeforeValidator(_texts)]
Data = Annotated[str | os.PathLike[str] | Sequence[tuple[str, str]], BeforeValidator(_data)]
Range = Annotated[tuple[int, int], BeforeValidator(_lengths)]


def _problems(error: ValidationError, names: Sequence[str]) -> Iterator[str]:
    for item in error.errors():
        place = item["loc"][0]
        name = names[place] if isinstance(place, int) else place
        said = item["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        yield f"{name} {shown(item['input'])}: {said}"


def checked(function: Function) -> Function:
    """A function that raises `UsageError` for an argument that it is not made for."""
    call = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    signature = inspect.signature(function)
    names = list(signature.parameters)

    @functools.wraps(function)
    def wrapper(*given: Any, **named: Any) -> Any:
        signature.bind(*given, **named)  # which says in Python's own words what does not fit
        try:
            return call(*given, **named)
        except ValidationError as error:
            raise UsageError(*_problems(error, names)) from None

    return wrapper  # type: ignore[return-value]
