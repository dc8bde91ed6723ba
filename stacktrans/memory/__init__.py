"""Differentiable stacks, queues, deques, lists and tapes, and `make_memory` for a configuration.

They implement `stacktrans.memory.base`. A new memory is one class, and one line in
`stacktrans.common.registry`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from stacktrans.common.registry import MEMORIES
from stacktrans.memory.base import CellContents, Memory, MemorySnapshot, MemoryState, RowContents
from stacktrans.settings.model_config import ModelConfig

if TYPE_CHECKING:
    from stacktrans.memory.actions.definition import ActionList as ActionList
    from stacktrans.memory.actions.definition import ActionMemory as ActionMemory
    from stacktrans.memory.actions.definition import ActionStack as ActionStack
    from stacktrans.memory.actions.definition import SuperposedStack as SuperposedStack
    from stacktrans.memory.actions.definition import Tape as Tape
    from stacktrans.memory.nondeterministic import NondeterministicStack as NondeterministicStack
    from stacktrans.memory.strengths.definition import Deque as Deque
    from stacktrans.memory.strengths.definition import Nothing as Nothing
    from stacktrans.memory.strengths.definition import Queue as Queue
    from stacktrans.memory.strengths.definition import Stack as Stack
    from stacktrans.memory.strengths.definition import StrengthMemory as StrengthMemory

__all__ = ["CellContents", "Memory", "MemorySnapshot", "MemoryState", "RowContents", "make_memory"]

_FILES = {
    "actions.definition": ("ActionList", "ActionMemory", "ActionStack", "SuperposedStack", "Tape"),
    "nondeterministic": ("NondeterministicStack",),
    "strengths.definition": ("Deque", "Nothing", "Queue", "Stack", "StrengthMemory"),
}
"""The classes of memories, imported on first use, by their files."""


def __getattr__(name: str) -> Any:
    for file, names in _FILES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{file}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")


def make_memory(config: ModelConfig) -> Memory[Any]:
    """The memory of a model; raises `UsageError` if its name is unknown."""
    memory: Memory[Any] = MEMORIES.load(config.memory.name).from_config(config)
    return memory
