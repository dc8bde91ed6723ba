"""Differentiable memories, each behind the interface of `stacktrans.memory.base`.

A new memory is one class beside these and one line in `stacktrans.common.registry`.
"""

from typing import Any

from stacktrans.common.registry import MEMORIES
from stacktrans.memory.actions import ActionList, ActionMemory, ActionStack
from stacktrans.memory.base import Memory, MemoryState
from stacktrans.memory.deque import Deque
from stacktrans.memory.nothing import Nothing
from stacktrans.memory.queue import Queue
from stacktrans.memory.stack import Stack
from stacktrans.memory.strengths import StrengthMemory
from stacktrans.settings.config import ModelConfig


def make_memory(config: ModelConfig) -> Memory[Any]:
    """The memory of a model; raises `UsageError` if there is none of its name."""
    memory: Memory[Any] = MEMORIES.load(config.memory).from_config(config)
    return memory


__all__ = [
    "ActionList",
    "ActionMemory",
    "ActionStack",
    "Deque",
    "Memory",
    "MemoryState",
    "Nothing",
    "Queue",
    "Stack",
    "StrengthMemory",
    "make_memory",
]
