"""Settings in Python, as the command line has them."""

import json
from collections.abc import Mapping
from typing import Any


def assigned(settings: Mapping[str, Any] | None) -> list[str]:
    """Each setting as `key=value`, the value in JSON, which is YAML."""
    return [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
