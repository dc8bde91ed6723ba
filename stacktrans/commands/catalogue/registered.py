"""Memories, controllers and generators, listed: this package's, and those of others."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from stacktrans.commands.catalogue.docstrings import items, summary
from stacktrans.commands.catalogue.entries import Entry, Listing, assigned
from stacktrans.commands.catalogue.settings import defaults
from stacktrans.common.errors import StacktransError
from stacktrans.common.registry import CONTROLLERS, GENERATORS, MEMORIES, Registry
from stacktrans.grammar import Grammar
from stacktrans.tasks.grammatical import Grammatical

FURTHER: Mapping[type, type] = {Grammatical: Grammar}
"""What is made of further parameters that a class takes, but its bases do not."""


def memories() -> Listing:
    """Every memory: its signals, and the settings of a model that concern it."""
    from stacktrans.memory.base import VECTOR_SETTINGS  # waits for torch

    def entry(name: str, memory: Any) -> Entry:
        try:
            made = memory()
        except TypeError:  # it has parameters that have to be given
            return _of_model(name, memory, (*VECTOR_SETTINGS, *memory.settings), {})
        settings = (*(VECTOR_SETTINGS if made.pushes else ()), *memory.settings)
        return _of_model(name, memory, settings, {"signals": list(made.signal_names)})

    return _listing(MEMORIES, entry)


def controllers() -> Listing:
    """Every controller: its gates, and the settings of a model that concern it."""
    return _listing(
        CONTROLLERS,
        lambda name, layer: _of_model(name, layer, layer.settings, {"gates": list(layer.gates)}),
    )


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


def _of_model(
    name: str, kind: Any, settings: tuple[str, ...], facts: Mapping[str, list[str]]
) -> Entry:
    usual: Mapping[str, Any] = defaults()["model"]
    values = {setting: usual[setting] for setting in settings}
    remarks = [f"{fact} {', '.join(names)}" for fact, names in facts.items() if names]
    if values:
        remarks.append(f"settings {assigned(values)}")
    return Entry(name, summary(kind), remarks=remarks, facts={**facts, "settings": values})


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
