"""Types that check arguments of the Python API; mappings of settings turned into `key=value`."""

import functools
import inspect
import json
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, ConfigDict, ValidationError, validate_call

from stacktrans.common.documents import yaml_line
from stacktrans.common.errors import UsageError, plain_words, shown
from stacktrans.tasks.columns import columns_of_headings
from stacktrans.tasks.lengths import Lengths, checked_lengths

Function = TypeVar("Function", bound=Callable[..., Any])
Source = str | tuple[str, ...]
"""A source, or a source and its features."""


def parser(parse: Callable[[Any], Any], expected: str) -> BeforeValidator:
    """A validator that parses an argument, with a message for those that can't be parsed."""

    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"expected {expected}") from None

    return BeforeValidator(validate)


def _whole(value: Any, least: float = -float("inf")) -> int:
    number = operator.index(value)  # numpy's integers, too
    if isinstance(value, bool) or number < least:
        raise ValueError
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> str | list[Source]:
    if isinstance(value, str | bytes):
        return _text(value)
    return [tuple(map(_text, each)) if isinstance(each, tuple) else _text(each) for each in value]


def lines_of(sources: str | Sequence[Source]) -> list[str]:
    """A source, or several, as lines of text, with features after a tab."""
    given = [sources] if isinstance(sources, str) else sources
    return [each if isinstance(each, str) else "\t".join(each) for each in given]


def _data(value: Any) -> Any:
    if isinstance(value, str | os.PathLike):
        return value
    # A DataFrame of pandas, or pairs, perhaps from an iterator.
    rows = [*(value.itertuples(index=False) if hasattr(value, "itertuples") else value)]
    columns = columns_of_headings([*map(str, getattr(value, "columns", ()))])
    if isinstance(value, Mapping) or any(isinstance(fields, str | Mapping) for fields in rows):
        raise TypeError  # characters or keys would be taken for sources and targets
    pairs = [tuple(map(_text, fields)) for fields in rows]
    if not {*map(len, pairs)} <= {2, 3}:
        raise ValueError
    return [dict(zip(columns, pair, strict=True)) for pair in pairs] if columns else pairs


def _lengths(value: Any) -> Lengths:
    shortest, longest = (_whole(length) for length in value)
    return checked_lengths(shortest, longest, f"lengths {value}")


def _seconds(value: Any) -> float:
    if isinstance(value, bool | str) or not 0 < float(value) < math.inf:
        raise ValueError
    return float(value)


def _at_least(least: int) -> BeforeValidator:
    return parser(lambda value: _whole(value, least), f"a whole number of at least {least}")


Count = Annotated[int, _at_least(1)]
Seed = Annotated[int, _at_least(0)]
Seconds = Annotated[float, parser(_seconds, "seconds, more than 0")]
NameOrPath = Annotated[str | os.PathLike[str], parser(os.fspath, "a name or a path")]
Text = Annotated[str, parser(_text, "a string")]
Texts = Annotated[str | Sequence[Source], parser(_texts, "a string, or several")]
Data = Annotated[
    str | os.PathLike[str] | Sequence[Sequence[str] | Mapping[str, str]],
    parser(_data, "a file, or pairs of strings"),
]
Range = Annotated[tuple[int, int], parser(_lengths, "shortest and longest, such as (65, 128)")]


def checked(function: Function) -> Function:
    """Decorate a function so that it raises `UsageError` for arguments of wrong types or values.

    Its signature, which notebooks show, has plain types, without the validators.
    """
    call = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    signature = inspect.signature(function)
    names = list(signature.parameters)

    def problem(error: Any) -> str:
        position, *inner = error["loc"]
        name = names[position] if isinstance(position, int) else position
        index = "".join(f"[{each}]" for each in inner if isinstance(each, int))
        return f"{name}{index} {shown(error['input'])}: {plain_words(error['msg'])}"

    @functools.wraps(function)
    def wrapper(*given: Any, **named: Any) -> Any:
        try:
            signature.bind(*given, **named)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        try:
            return call(*given, **named)
        except ValidationError as error:
            raise UsageError(*map(problem, error.errors())) from None

    plain = get_type_hints(function)
    parameters = [
        parameter.replace(annotation=_with_bars(plain.get(name, parameter.annotation)))
        for name, parameter in signature.parameters.items()
    ]
    shown_as = signature.replace(parameters=parameters, return_annotation=plain["return"])
    wrapper.__signature__ = shown_as  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


def _with_bars(annotation: Any) -> Any:
    """A union written as `X | Y`, not as `Union` or `Optional`, where Python can write it so."""
    if get_origin(annotation) is not Union:
        return annotation
    return functools.reduce(operator.or_, get_args(annotation))


def assignments_of(settings: Mapping[str, Any] | None) -> list[str]:
    """Assignments `key=value` of settings, with values in YAML.

    Raises:
        UsageError: a value is not a number, a string, or a list or mapping of these.
    """
    assignments = []
    for key, value in (settings or {}).items():
        try:
            plain = json.loads(json.dumps(value, default=_plain))
            assignments.append(f"{key}={yaml_line(plain)}")
        except (TypeError, ValueError) as error:
            raise UsageError(f"{key} {shown(value)}: {error}") from error
    return assignments


def _plain(value: Any) -> Any:
    """A path, or a number or array of numpy or torch, as a value of JSON."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("expected numbers, strings, or lists or mappings of them")
