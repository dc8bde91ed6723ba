"""Differentiable stacks, queues, deques, lists and tapes, and `make_memory` for a configuration.

They implement `stacktrans.memory.base`. A new memory is one class, and one line in
`stacktrans.common.registry`.
"""

from typing import TYPE_CHECKING, Any

from stacktrans.common.registry import MEMORIES
from stacktrans.memory.base import CellContents, Memory, MemorySnapshot, MemoryState, RowContents
from stacktrans.settings.model_config import ModelConfig

if TYPE_CHECKING:
    from stacktrans.memory.actions.definition import ActionList as ActionList
    from stacktrans.memory.actions.definition import ActionStack as ActionStack
    from stacktrans.memory.actions.definition import SuperposedStack as SuperposedStack
    from stacktrans.memory.actions.definition import Tape as Tape
    from stacktrans.memory.nondeterministic import NondeterministicStack as NondeterministicStack
    from stacktrans.memory.strengths.definition import Deque as Deque
    from stacktrans.memory.strengths.definition import NoMemory as NoMemory
    from stacktrans.memory.strengths.definition import Queue as Queue
    from stacktrans.memory.strengths.definition import Stack as Stack

__all__ = ["CellContents", "Memory", "MemorySnapshot", "MemoryState", "RowContents", "make_memory"]


def __getattr__(name: str) -> Any:
    """The class of a registered memory, which is imported on first use."""
    for registered, target in MEMORIES.builtin.items():
        if target.endswith(f":{name}"):
            return MEMORIES.load(registered)
    raise AttributeError(f"module {__name__} has no attribute {name}")


def make_memory(config: ModelConfig) -> Memory[Any]:
    """The memory of a model; raises `UsageError` if its name is unknown."""
    memory: Memory[Any] = MEMORIES.load(config.memory.name).from_config(config)
    return memory
