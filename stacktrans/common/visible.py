"""Text of others, shown so that it can't do anything: not to a terminal, nor to what is around it.

Names, words and paths come from files and arguments. What of them can't be seen, such as a control
character, is written as Python writes it in a string: an escape as `\\x1b`.
"""

import json
import math
import os
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Any


def visible(text: str, keep: str = "") -> str:
    """A text with every character that has no form of its own escaped, such as `\\x1b`.

    Those are control and format characters (so what changes the direction of writing), lone
    surrogates, and what no character is assigned to; spaces stay as they are.

    Args:
        text: of whatever origin.
        keep: characters that stay, such as the line ends of what has several lines.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character in keep or _has_a_form(character) else repr(character)[1:-1]
        for character in text
    )


def in_a_line(text: str) -> str:
    """A text of any number of lines as a single one, with nothing in it that can't be seen."""
    return visible(" ".join(text.split()))


def _has_a_form(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def json_text(value: Any) -> str:
    """A value as JSON in one line, in which what can't be seen is escaped.

    Numbers that are none or infinite, which JSON does not have, are null; what else it has no form
    for is shown as text.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=str)
    if text.isprintable():
        return text
    return "".join(
        character if _has_a_form(character) else json.dumps(character)[1:-1] for character in text
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shell_text(words: Sequence[str]) -> str:
    """A command line that a shell reads as these very words, with nothing that can't be seen.

    A word with such characters is quoted as `$'...'`, which bash, zsh and ksh know.
    """
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if all(map(_has_a_form, word)):
        return shlex.quote(word)
    return "$'" + "".join(map(_shell_character, word)) + "'"


def _shell_character(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if _has_a_form(character):
        return character
    # Three digits always, so that none that comes after is taken for one of them.
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))
