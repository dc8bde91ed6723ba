"""Text for people: escaped so that it can do nothing to a terminal, quoted, and listed."""

import json
import math
import os
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def visible(text: str, keep: str = "") -> str:
    """A text with what can't be seen escaped as in a Python string, such as `\\x1b`.

    That is control and format characters (so what changes the direction of writing), lone
    surrogates, and what no character is assigned to; spaces stay, and the characters of `keep`.
    """
    return _escaped(text, repr, keep)


def one_line(text: str) -> str:
    """A text of any number of lines as a single one, with what can't be seen escaped."""
    return visible(" ".join(text.split()))


def _escaped(text: str, quoted: Callable[[str], str], keep: str = "") -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character in keep or _has_a_form(character) else quoted(character)[1:-1]
        for character in text
    )


def _has_a_form(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def json_text(value: Any) -> str:
    """A value as JSON in one line, with what can't be seen escaped.

    NaN and infinity are null; other values that JSON does not have are text.
    """
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=str)
    return _escaped(text, json.dumps)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shell_text(words: Sequence[str]) -> str:
    """A command line of these words; one that can't be seen is quoted as `$'...'`, as bash does."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if all(map(_has_a_form, word)):
        return shlex.quote(word)
    return "$'" + "".join(f"\\{byte:03o}" for byte in os.fsencode(word)) + "'"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Names in a row: "a", "a and b", "a, b and c"; with another word before the last, if given."""
    *others, final = [*names] or [""]
    return f"{', '.join(others)} {last} {final}" if others else final


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things: "1 rule", "1,200 rules"; `several` is what they are called, if not so."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
