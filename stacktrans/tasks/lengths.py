"""Source lengths of tasks: ranges, distributions, and drawing of lengths and random strings."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import BeforeValidator, ConfigDict, Field

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.reading import DEEPEST_DERIVATION, MAX_LENGTH
from stacktrans.tasks.alphabets import Ids


def reject_booleans(value: Any) -> Any:
    """A number or a list of numbers, unchanged; raises `ValueError` for true and false."""
    if isinstance(value, bool):
        raise ValueError("expected a number")
    if isinstance(value, list | tuple) and any(isinstance(item, bool) for item in value):
        raise ValueError("expected numbers")
    return value


@dataclass(frozen=True)
class NormalLengths:
    """Lengths in symbols from a normal distribution, rounded towards 0 and clipped to the range."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    mean: Annotated[float, BeforeValidator(reject_booleans), Field(ge=0, le=MAX_LENGTH)]
    deviation: Annotated[float, BeforeValidator(reject_booleans), Field(ge=0, le=MAX_LENGTH)]


@dataclass(frozen=True)
class DepthLimit:
    """Uniformly distributed derivations of a grammar up to a depth (of the tree with its words)."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    depth: Annotated[int, BeforeValidator(reject_booleans), Field(ge=1, le=DEEPEST_DERIVATION)]


LengthDistribution = Literal["uniform", "task"] | NormalLengths | DepthLimit
"""The distribution of lengths within a range: uniform over those that exist, the task's own, or one
of the classes above."""


class Lengths(NamedTuple):
    """A range of source lengths in symbols, both ends included."""

    shortest: int
    longest: int

    def __str__(self) -> str:
        one = self.shortest == self.longest
        return str(self.shortest) if one else f"{self.shortest}:{self.longest}"

    def includes(self, length: int) -> bool:
        """Whether a length is in the range."""
        return self.shortest <= length <= self.longest


def checked_lengths(shortest: int, longest: int, argument: str) -> Lengths:
    """A requested range; raises `UsageError`, whose message begins with the argument's name."""
    if not 1 <= shortest <= longest <= MAX_LENGTH:
        raise UsageError(f"{argument}: expected 1 <= shortest <= longest <= {MAX_LENGTH}")
    return Lengths(shortest, longest)


class NoSuchLength(StacktransError):
    """A requested range that contains the length of no string of the task."""


class NoSuchLaw(UsageError):
    """Strings that can't be drawn as requested.

    The task does not support the distribution of lengths, or its grammar takes too long at these
    lengths.
    """


def draw_lengths(
    rng: Generator, lengths: Lengths, count: int, law: LengthDistribution, step: int = 1
) -> Ids:
    """Draw lengths that are multiples of `step`; raises `NoSuchLength` and `NoSuchLaw`."""
    smallest, largest = -(-lengths.shortest // step), lengths.longest // step
    if smallest > largest:
        raise NoSuchLength(f"lengths {lengths}: none is a multiple of {step}")
    if isinstance(law, DepthLimit):
        raise NoSuchLaw("depth: only for tasks with a grammar")
    if isinstance(law, NormalLengths):
        drawn = rng.normal(law.mean, law.deviation, size=count).astype(np.int64)
        return np.clip(drawn // step, smallest, largest) * step
    # The task's own distribution of lengths is the uniform one.
    return rng.integers(smallest, largest, size=count, endpoint=True) * step


def draw_strings(
    rng: Generator, size: int, lengths: Lengths, count: int, law: LengthDistribution, step: int = 1
) -> list[Ids]:
    """Draw uniform random strings of ids below `size`; `draw_lengths` draws their lengths."""
    drawn = draw_lengths(rng, lengths, count, law, step)
    strings = rng.integers(size, size=int(drawn.sum()))
    return np.split(strings, np.cumsum(drawn)[:-1])
