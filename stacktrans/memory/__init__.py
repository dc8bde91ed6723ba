"""Differentiable memories, each behind the interface of `stacktrans.memory.base`.

A new memory is one class beside these and one line in `stacktrans.common.registry`.
"""

from typing import Any

from stacktrans.common.registry import MEMORIES
from stacktrans.memory.actions.definition import ActionList, ActionMemory, ActionStack
from stacktrans.memory.base import HeldCells, HeldRows, Memory, MemoryState, Reading
from stacktrans.memory.nothing import Nothing
from stacktrans.memory.strengths.definition import Deque, Queue, Stack, StrengthMemory
from stacktrans.settings.model_config import ModelConfig


def make_memory(config: ModelConfig) -> Memory[Any]:
    """The memory of a model; raises `UsageError` if there is none of its name."""
    memory: Memory[Any] = MEMORIES.load(config.memory.name).from_config(config)
    return memory


__all__ = [
    "ActionList",
    "ActionMemory",
    "ActionStack",
    "Deque",
    "HeldCells",
    "HeldRows",
    "Memory",
    "MemoryState",
    "Nothing",
    "Queue",
    "Reading",
    "Stack",
    "StrengthMemory",
    "make_memory",
]
