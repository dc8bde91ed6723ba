"""Memories and controllers, listed."""

from collections.abc import Mapping
from typing import Any

from stacktrans.commands.catalogue.docstrings import summary
from stacktrans.commands.catalogue.entries import Entry, Listing, assigned
from stacktrans.commands.catalogue.settings import defaults
from stacktrans.common.names import MemoryName
from stacktrans.memory import MEMORIES
from stacktrans.memory.base import VECTOR_SETTINGS
from stacktrans.model.controllers import CONTROLLERS


def memories() -> Listing:
    """Every memory: its signals, and the settings of a model that concern it."""
    entries = [
        _entry(
            name,
            summary(memory),
            (*VECTOR_SETTINGS, *memory.settings),
            {"signals": list(memory().signal_names)},
        )
        for name, memory in MEMORIES.items()
    ]
    nothing = Entry(MemoryName.NONE.value, "Nothing: the controller alone.")
    return Listing([*entries, nothing])


def controllers() -> Listing:
    """Every controller: its gates, and the settings of a model that concern it."""
    return Listing(
        [
            _entry(name, summary(layer), layer.settings, {"gates": list(layer.gates)})
            for name, layer in CONTROLLERS.items()
        ]
    )


def _entry(
    name: str, meaning: str, settings: tuple[str, ...], facts: Mapping[str, list[str]]
) -> Entry:
    usual: Mapping[str, Any] = defaults()["model"]
    values = {setting: usual[setting] for setting in settings}
    remarks = [f"{fact} {', '.join(names)}" for fact, names in facts.items()]
    if values:
        remarks.append(f"settings {assigned(values)}")
    return Entry(str(name), meaning, remarks=remarks, facts={**facts, "settings": values})
