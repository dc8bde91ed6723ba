"""The settings of a run, listed."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from stacktrans.commands.catalogue.docstrings import items
from stacktrans.commands.catalogue.entries import Entry, Listing, as_written
from stacktrans.commands.catalogue.plain_types import alternatives, in_words
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import Settings, read_layer
from stacktrans.settings.packaged import recipes

RECIPE = "default"


def defaults() -> Settings:
    """What the default recipe says, whatever the task and the memory."""
    return read_layer(recipes() / f"{RECIPE}.yaml").settings


def settings() -> Listing:
    """Every setting by its path, with the default recipe's value where that has one."""
    return Listing(list(_entries(RunConfig, {"recipe": RECIPE, **defaults()}, "")))


def _entries(model: type[BaseModel], values: Mapping[str, Any], prefix: str) -> Iterator[Entry]:
    meanings = items(model)
    for name, field in model.model_fields.items():
        parts = _section(field)
        if parts is None or len(alternatives(field.annotation)) > 1:
            yield _entry(prefix + name, field, meanings[name], values)
        if parts is not None:
            yield from _entries(parts, values.get(name) or {}, f"{prefix}{name}.")


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The settings that a field is made of, if that is all that it may be besides null."""
    kinds = [kind for kind in alternatives(field.annotation) if kind is not type(None)]
    kind = kinds[0] if len(kinds) == 1 else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _entry(path: str, field: FieldInfo, meaning: str, values: Mapping[str, Any]) -> Entry:
    name = path.rpartition(".")[2]
    usual = {} if field.is_required() else {"default": field.get_default()}
    if name in values:
        usual = {"default": values[name]}
    kind = "settings or null" if _section(field) else in_words(field.annotation, field.metadata)
    shown = as_written(usual["default"]) if usual else ""
    return Entry(
        path, meaning, columns={"default": shown, "type": kind}, facts={"type": kind, **usual}
    )
