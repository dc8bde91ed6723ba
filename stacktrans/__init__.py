"""stacktrans: train, evaluate and inspect stack-augmented transducers.

    import stacktrans

    model = stacktrans.load("reverse-stack")
    model.transduce(["hello"])

Names are imported when they are first used.
"""

import importlib

from stacktrans.common import __version__

# Type checkers assume that it is true. To import it from `typing` takes so long that Ctrl-C could
# show a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stacktrans import nn as nn
    from stacktrans.api.models import Model as Model
    from stacktrans.api.models import ensemble as ensemble
    from stacktrans.api.models import load as load
    from stacktrans.api.results import Answer as Answer
    from stacktrans.api.results import Evaluation as Evaluation
    from stacktrans.api.results import Trace as Trace
    from stacktrans.api.results import Verification as Verification
    from stacktrans.api.runs import Run as Run
    from stacktrans.api.runs import resume as resume
    from stacktrans.api.runs import train as train
    from stacktrans.api.tasks import TaskStrings as TaskStrings
    from stacktrans.api.tasks import task as task
    from stacktrans.common.errors import CheckpointError as CheckpointError
    from stacktrans.common.errors import StacktransError as StacktransError
    from stacktrans.common.errors import UsageError as UsageError
    from stacktrans.common.registry import use_plugins as use_plugins


_NAMES = {
    "stacktrans.api.models": ("Model", "ensemble", "load"),
    "stacktrans.api.results": ("Answer", "Evaluation", "Trace", "Verification"),
    "stacktrans.api.runs": ("Run", "resume", "train"),
    "stacktrans.api.tasks": ("TaskStrings", "task"),
    "stacktrans.common.errors": ("CheckpointError", "StacktransError", "UsageError"),
    "stacktrans.common.registry": ("use_plugins",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
"""The modules of the public names, except for the module `nn`."""
__all__ = ["__version__", "nn", *sorted(_MODULES)]


def __getattr__(name: str) -> "Any":
    if name == "nn":
        return importlib.import_module("stacktrans.nn")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'stacktrans' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
