"""What a list is made of."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml


@dataclass(frozen=True)
class Entry:
    """Something that there is.

    Attributes:
        name: what it is called.
        meaning: what it is, in a line.
        columns: what is shown beside its name, by heading.
        remarks: what is shown after its meaning.
        parts: what is shown below it: its parameters, and what each means.
        facts: what JSON has beside name and meaning.
    """

    name: str
    meaning: str
    columns: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    parts: Sequence[tuple[str, str]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The entry as `list --json` prints it."""
        return {"name": self.name, "meaning": self.meaning, **self.facts}

    def line(self) -> str:
        """Its meaning and the remarks on it."""
        remarks = f"({'; '.join(self.remarks)})" if self.remarks else ""
        return in_one_line(f"{self.meaning} {remarks}")


class Listing(NamedTuple):
    """All of a kind.

    Attributes:
        entries: in the order of their names, or as they belong together.
        problems: what could not be read, and why.
    """

    entries: Sequence[Entry]
    problems: Sequence[str] = ()


def in_one_line(text: str) -> str:
    """A text that may have been broken into lines."""
    return " ".join(text.split())


def as_written(value: object) -> str:
    """A value as a setting is written: in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True)
    return text.removesuffix("\n...\n").strip()


def assigned(settings: Mapping[str, Any]) -> str:
    """Settings with their values, one after another."""
    return ", ".join(f"{name}={as_written(value)}" for name, value in settings.items())
