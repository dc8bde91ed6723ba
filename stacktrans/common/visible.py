"""Text for people: escaping unprintable characters, JSON, shell quoting, lists and counts."""

import json
import math
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def visible(text: str, keep: str = "") -> str:
    """Escape unprintable characters as in a Python string, such as `\\x1b`.

    These are control and format characters (such as those that change the direction of writing),
    lone surrogates and unassigned code points, but not spaces, nor the characters of `keep`.
    """
    return _escaped(text, repr, keep)


def visible_symbol(symbol: str) -> str:
    """A visible form of a symbol: `␣` for a space; white space that is no space is escaped."""
    if symbol and not symbol.strip(" "):
        return "␣" * len(symbol)
    return re.sub(r"[^\S ]", lambda space: repr(space[0])[1:-1], visible(symbol))


def one_line(text: str) -> str:
    """Join the lines of a text, and escape unprintable characters."""
    return visible(" ".join(text.split()))


def _escaped(text: str, quoted: Callable[[str], str], keep: str = "") -> str:
    if text.isprintable():
        return text
    return "".join(
        character if character in keep or _is_visible(character) else quoted(character)[1:-1]
        for character in text
    )


def _is_visible(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def json_text(value: Any) -> str:
    """A value as a line of JSON, with unprintable characters escaped.

    NaN and infinity become null; other values that JSON does not have become text.
    """
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=str)
    return _escaped(text, json.dumps)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def markdown_text(text: str, keep: str = "") -> str:
    """Escape markup of Markdown, and unprintable characters as `visible` does."""
    return _MARKUP.sub(r"\\\g<0>", visible(text, keep).translate(_HTML))


_MARKUP = re.compile(r"[\\`*\[\]~|]|\b_|_\b|^#|(?<=\n)#")
"""Characters that Markdown reads as emphasis, code, a link, a picture, a cell or a heading."""
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;"})


def markdown_table(heading: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown, whose cells have no markup, as from `markdown_text`."""
    first, *others = (f"| {' | '.join(map(str, cells))} |" for cells in (heading, *rows))
    return "\n".join([first, "|" + "---|" * len(heading), *others])


def shell_text(words: Sequence[str]) -> str:
    """Words quoted as a command line; unprintable ones as `$'...'`, which bash understands."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if all(map(_is_visible, word)):
        return shlex.quote(word)
    return f"$'{''.join(map(_shell_character, word))}'"


def _shell_character(character: str) -> str:
    """A character as bash writes it between `$'` and `'`."""
    if character in _SHELL_ESCAPES:
        return _SHELL_ESCAPES[character]
    if _is_visible(character):
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


_SHELL_ESCAPES = {"\t": r"\t", "\n": r"\n", "\\": r"\\", "'": r"\'"}


def listed(names: Iterable[str], last: str = "and") -> str:
    """An enumeration: "a", "a and b", "a, b and c"; `last` is the word before the last name."""
    *others, final = [*names] or [""]
    return f"{', '.join(others)} {last} {final}" if others else final


def counted(count: int, one: str, several: str = "") -> str:
    """A count with a noun: "1 rule", "1,200 rules"; `several` is an irregular plural."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def short_time(seconds: int) -> str:
    """A time as options take it, in minutes if it is a whole number of them: 90s, 5m."""
    return f"{seconds}s" if seconds % 60 else f"{seconds // 60}m"


def duration(seconds: float) -> str:
    """A time in seconds, in minutes from one minute on, or in hours from two hours on."""
    minutes = round(seconds / 60)
    if round(seconds) < 60:
        return counted(round(seconds), "second")
    return counted(minutes, "minute") if minutes < 120 else f"{seconds / 3600:.1f} hours"
