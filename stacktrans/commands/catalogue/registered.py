"""Memories, controllers and generators, listed: this package's, and those of others."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from stacktrans.commands.catalogue.docstrings import items, summary
from stacktrans.commands.catalogue.entries import Entry, Listing, assigned
from stacktrans.common.errors import StacktransError
from stacktrans.common.registry import CONTROLLERS, GENERATORS, MEMORIES, Registry
from stacktrans.grammar import Grammar
from stacktrans.settings.config import ControllerConfig, MemoryConfig
from stacktrans.settings.values import Named, meanings
from stacktrans.tasks.grammatical import Grammatical

FURTHER: Mapping[type, type] = {Grammatical: Grammar}
"""What is made of further parameters that a class takes, but its bases do not."""


def memories() -> Listing:
    """Every memory: its signals, and the settings that it has."""

    def entry(name: str, memory: Any) -> Entry:
        facts = {"signals": list(memory().signal_names)}
        return _of_model(name, memory, MemoryConfig.kind_of(name), facts)

    return _listing(MEMORIES, entry)


def controllers() -> Listing:
    """Every controller: its gates, and the settings that it has."""

    def entry(name: str, layer: Any) -> Entry:
        facts = {"gates": list(layer.gates)}
        return _of_model(name, layer, ControllerConfig.kind_of(name), facts)

    return _listing(CONTROLLERS, entry)


def generators() -> Listing:
    """Every generator with its parameters."""
    return _listing(GENERATORS, _generator)


def _listing(registry: Registry, entry: Callable[[str, Any], Entry]) -> Listing:
    entries, problems = [], []
    for name in registry.names():
        try:
            made = entry(name, registry.load(name))
        except StacktransError as error:
            problems.append(str(error))
            continue
        if origin := registry.origin(name):
            facts = {**made.facts, "origin": origin}
            made = replace(made, remarks=[*made.remarks, origin], facts=facts)
        entries.append(made)
    return Listing(entries, problems)


def _of_model(name: str, made: Any, settings: type[Named], facts: Mapping[str, list[str]]) -> Entry:
    said = {**items(made), **meanings(settings)}
    values = {
        setting: field.default
        for setting, field in settings.model_fields.items()
        if not field.is_required()
    }
    return Entry(
        name,
        summary(made),
        remarks=[f"{fact} {', '.join(names)}" for fact, names in facts.items() if names],
        parts=[
            (assigned({setting: value}), said.get(setting, "")) for setting, value in values.items()
        ],
        facts={**facts, "settings": values},
    )


def _generator(name: str, maker: Any) -> Entry:
    parameters = list(_parameters(maker))
    return Entry(
        name,
        summary(maker),
        parts=[(_shown(parameter), parameter["meaning"]) for parameter in parameters],
        facts={"parameters": parameters},
    )


def _shown(parameter: Mapping[str, Any]) -> str:
    if "default" not in parameter:
        return f"{parameter['name']} (required)"
    return assigned({parameter["name"]: parameter["default"]})


def _parameters(made: Any) -> Iterator[dict[str, Any]]:
    """What a class is made with: each parameter's name, meaning, and default if it has one.

    Where it takes further ones, they are those of its base, or of what `FURTHER` says.
    """
    kind, *bases = (kind for kind in made.__mro__ if "__init__" in vars(kind))
    if kind is object:
        return
    meanings = items(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from _parameters(FURTHER.get(kind, bases[0]))
            continue
        usual = {} if parameter.default is parameter.empty else {"default": parameter.default}
        yield {"name": name, "meaning": meanings.get(name, ""), **usual}
