"""The settings of a run, listed."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from stacktrans.commands.catalogue.entries import Entry, Listing, as_written
from stacktrans.commands.catalogue.plain_types import in_words
from stacktrans.settings.config import RunConfig, StartConfig, TaskConfig, TrainingConfig
from stacktrans.settings.layers import is_block, sections_of
from stacktrans.settings.values import Named, meanings

NO_SETTINGS = {"format", "version", "recipe"}
"""What a run's configuration says of itself."""
NO_SETTINGS_OF_A_TASK = {"name", "description", "paper"}
"""What a task's file says of itself."""
TOGETHER = {(TaskConfig, "lengths"), (StartConfig, "scale"), (TrainingConfig, "gradient_clip")}
"""Sections that are shown as one setting."""


def settings() -> Listing:
    """Every setting by its path, with its default; recipes say what they change of it."""
    return Listing(list(_entries(RunConfig, "", "")))


def _entries(model: type[BaseModel], prefix: str, off: str) -> Iterator[Entry]:
    """The settings of a section.

    Args:
        model: the section.
        prefix: of their paths.
        off: the block that they are in, if it is one that may be null.
    """
    said = meanings(model)
    unlisted = {RunConfig: NO_SETTINGS, TaskConfig: NO_SETTINGS_OF_A_TASK}.get(model, set())
    for name, field in model.model_fields.items():
        path = prefix + name
        sections = sections_of(field)
        if name in unlisted:
            continue
        if not sections or issubclass(sections[0], Named) or (model, name) in TOGETHER:
            yield _entry(path, field, said[name], off)
        else:
            block = path if is_block(field) else off
            yield from _entries(sections[0], f"{path}.", off or block)


def _entry(path: str, field: FieldInfo, meaning: str, off: str) -> Entry:
    kind = in_words(field.annotation, field.metadata)
    facts = {"type": kind} if field.is_required() else {"type": kind, "default": _default(field)}
    shown = as_written(facts["default"]) if "default" in facts else ""
    return Entry(
        path,
        meaning,
        columns={"default": shown, "block": off, "type": kind},
        facts={**facts, **({"block": off} if off else {})},
    )


def _default(field: FieldInfo) -> object:
    default = field.get_default(call_default_factory=True)
    return default.model_dump() if isinstance(default, BaseModel) else default
