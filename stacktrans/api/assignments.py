"""Settings in Python, as the command line has them."""

import json
import os
from collections.abc import Mapping
from typing import Any

from stacktrans.common.errors import UsageError, shown


def assigned(settings: Mapping[str, Any] | None) -> list[str]:
    """Each setting as `key=value`, the value in JSON, which is YAML.

    Raises:
        UsageError: a value is not a number, a string, or a list or mapping of these.
    """
    return [f"{key}={_json(key, value)}" for key, value in (settings or {}).items()]


def _json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{key} {shown(value)}: {error}") from error


def _plain(value: Any) -> Any:
    """A path, or a number or array of numpy or torch, as JSON has it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("expected numbers, strings, or lists or mappings of them")
