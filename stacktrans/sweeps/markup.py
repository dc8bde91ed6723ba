"""Texts of others in Markdown and CSV, where they say nothing but what they are."""

import re
from typing import Any

_MARKUP = re.compile(r"[\\`*\[\]~]|\b_|_\b|^#|(?<=\n)#")
"""What Markdown would take for emphasis, code, a link, a picture or a heading."""
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet would take for the beginning of a formula."""


def as_text(text: str) -> str:
    """A text as it is written in Markdown to be read as it stands."""
    for sign, entity in _HTML.items():
        text = text.replace(sign, entity)
    return _MARKUP.sub(r"\\\g<0>", text)


def as_code(text: str) -> str:
    """A text in one line as code in Markdown."""
    text = " ".join(text.split())
    runs = {len(run) for run in re.findall("`+", text)}
    fence = next("`" * size for size in range(1, len(runs) + 2) if size not in runs)
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def as_cell(value: Any) -> Any:
    """A value as it is written in CSV: texts that a spreadsheet would compute begin with a '."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
