"""Modules that are not imported before they are used."""

import importlib
from typing import Any


class Late:
    """A module, imported when one of its names is first asked for.

    `Late("torch")` stands at the top of a file whose classes are described without torch, and
    compute with it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._name), name)
        setattr(self, name, found)
        return found
