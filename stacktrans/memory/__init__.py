"""Differentiable memories, each behind the interface of `stacktrans.memory.base`.

A new memory is one file beside these and one entry in `MEMORIES`.
"""

from stacktrans.memory.base import Memory, MemoryState
from stacktrans.memory.deque import Deque
from stacktrans.memory.queue import Queue
from stacktrans.memory.stack import Stack

MEMORIES: dict[str, type[Memory]] = {memory.name: memory for memory in (Stack, Queue, Deque)}

__all__ = ["MEMORIES", "Deque", "Memory", "MemoryState", "Queue", "Stack"]
