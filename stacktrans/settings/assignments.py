"""Settings given as `key=value`: which setting a key stands for."""

from collections.abc import Iterator

from pydantic import BaseModel

from stacktrans.common.documents import DEEPEST, DocumentError, parsed
from stacktrans.common.errors import LONGEST_SHOWN, UsageError, unknown_name
from stacktrans.settings.layers import Layer, nested
from stacktrans.settings.renamed import hint
from stacktrans.settings.values import is_block, sections_of


def option_layer(assignment: str, known: type[BaseModel], section: str = "") -> Layer:
    """Settings from one `--set key=value`.

    The key is a path such as `training.learning_rate`, or the last part of one
    where that is unambiguous; the value is read as YAML.

    Args:
        assignment: what was given.
        known: the settings that there are.
        section: what these are called in a run's configuration, which a key may begin with.

    Raises:
        UsageError: there is no such key, or it is not of the form `key=value`.
    """
    key, equals, text = assignment.partition("=")
    origin = f"--set {assignment}"
    if not equals or not key:
        raise UsageError(f"{origin}: expected key=value")
    if key.count(".") >= DEEPEST:
        raise UsageError(f"{origin[:LONGEST_SHOWN]}...: nested more than {DEEPEST} deep")
    path = setting_path(key.removeprefix(f"{section}."), known, origin)
    try:
        value = parsed(text).value
    except DocumentError as error:
        raise UsageError(f"{origin}: the value is not readable as YAML ({error})") from error
    return Layer(origin, nested(path, value))


def setting_path(key: str, known: type[BaseModel], origin: str) -> str:
    """The path that a key stands for; what follows a setting's name is a key within its value.

    Raises:
        UsageError: there is no such key, it could be several, or it has another name now.
    """
    if key in known.model_fields:
        return key
    parts = key.split(".")
    # What is in a block that may be null is looked for only if there is nothing else of the name.
    for paths in (list(_paths(known)), setting_paths(known)):
        for size in range(len(parts), 0, -1):
            name, within = ".".join(parts[:size]), parts[size:]
            matches = [path for path in paths if path == name or path.endswith(f".{name}")]
            if name in matches or len(matches) == 1:
                return ".".join([name if name in matches else matches[0], *within])
            if matches:
                several = ", ".join(matches)
                raise UsageError(f"{origin}: '{name}' could be any of {several}; say which")
    raise UsageError(f"{origin}: {hint(key) or unknown_name('setting', key, paths)}")


def setting_paths(known: type[BaseModel]) -> list[str]:
    """The paths of all settings, of sections and of what is in blocks that may be null."""
    return list(_paths(known, blocks=True))


def _paths(model: type[BaseModel], prefix: str = "", blocks: bool = False) -> Iterator[str]:
    """The paths of settings; those of sections, and within blocks that may be null, if asked for.

    Args:
        model: what has the settings.
        prefix: of their paths.
        blocks: whether sections and what is in blocks are asked for.
    """
    for name, field in model.model_fields.items():
        sections, block = sections_of(field), is_block(field)
        if len(sections) != 1 or block or (blocks and prefix):
            yield prefix + name
        if blocks or not block:
            inner = [path for part in sections for path in _paths(part, f"{prefix}{name}.", blocks)]
            yield from dict.fromkeys(inner)
