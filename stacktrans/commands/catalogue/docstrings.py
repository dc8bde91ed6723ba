"""What docstrings say: of a class as a whole, and of what it is made with."""

import inspect
import re

from stacktrans.commands.catalogue.entries import in_one_line

_SECTION = re.compile(r"(?:Args|Attributes):")
_ITEM = re.compile(r" {4}(\w+): (.*)")


def summary(documented: object) -> str:
    """The first paragraph of a docstring."""
    return in_one_line((inspect.getdoc(documented) or "").split("\n\n")[0])


def items(documented: object) -> dict[str, str]:
    """What a docstring's sections Args and Attributes say, by name."""
    found: dict[str, str] = {}
    name, within = "", False
    for line in (inspect.getdoc(documented) or "").splitlines():
        if not line.startswith(" "):
            within = bool(_SECTION.fullmatch(line)) or (within and not line)
        elif within and (item := _ITEM.fullmatch(line)):
            name = item[1]
            found[name] = item[2]
        elif within and name:
            found[name] += f" {line.strip()}"
    return found
