"""Differentiable memories, each behind the interface of `stacktrans.memory.base`.

A new memory is one class beside these, its name in `stacktrans.common.names`, and one entry in a
table here.
"""

from typing import Any

from stacktrans.common.names import MemoryName
from stacktrans.memory.actions import ActionList, ActionMemory, ActionStack
from stacktrans.memory.base import Memory, MemoryState
from stacktrans.memory.deque import Deque
from stacktrans.memory.queue import Queue
from stacktrans.memory.stack import Stack
from stacktrans.memory.strengths import StrengthMemory
from stacktrans.settings.config import ModelConfig

STRENGTH_MEMORIES: dict[str, type[StrengthMemory]] = {
    memory.name: memory for memory in (Stack, Queue, Deque)
}
ACTION_MEMORIES: dict[str, type[ActionMemory[Any]]] = {
    memory.name: memory for memory in (ActionStack, ActionList)
}
MEMORIES: dict[str, type[Memory[Any]]] = {**STRENGTH_MEMORIES, **ACTION_MEMORIES}


def make_memory(config: ModelConfig) -> Memory[Any] | None:
    """The memory of a model; None for none."""
    if config.memory in ACTION_MEMORIES:
        kind = ACTION_MEMORIES[config.memory]
        return kind(*(getattr(config, setting) for setting in kind.settings))
    return None if config.memory == MemoryName.NONE else STRENGTH_MEMORIES[config.memory]()


__all__ = [
    "ACTION_MEMORIES",
    "MEMORIES",
    "STRENGTH_MEMORIES",
    "ActionList",
    "ActionMemory",
    "ActionStack",
    "Deque",
    "Memory",
    "MemoryState",
    "Queue",
    "Stack",
    "StrengthMemory",
    "make_memory",
]
