"""stacktrans: train, evaluate and inspect stack-augmented transducers.

    import stacktrans

    model = stacktrans.load("reverse-stack")
    model.transduce(["hello"])

Nothing heavy is imported before it is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stacktrans import nn as nn
    from stacktrans.api.models import Model as Model
    from stacktrans.api.models import load as load
    from stacktrans.api.runs import Run as Run
    from stacktrans.api.runs import resume as resume
    from stacktrans.api.runs import train as train
    from stacktrans.api.tasks import TaskStrings as TaskStrings
    from stacktrans.api.tasks import task as task
    from stacktrans.common.errors import StacktransError as StacktransError

__version__ = "0.1.0"

_PLACES = {
    "Model": "stacktrans.api.models",
    "Run": "stacktrans.api.runs",
    "StacktransError": "stacktrans.common.errors",
    "TaskStrings": "stacktrans.api.tasks",
    "load": "stacktrans.api.models",
    "resume": "stacktrans.api.runs",
    "task": "stacktrans.api.tasks",
    "train": "stacktrans.api.runs",
}
"""Where the public names are, but for the module `nn`."""
__all__ = ["__version__", "nn", *sorted(_PLACES)]


def __getattr__(name: str) -> Any:
    if name == "nn":
        return importlib.import_module("stacktrans.nn")
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'stacktrans' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
