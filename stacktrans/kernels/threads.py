"""Parts of a batch at the same time: compiled code lets go of the interpreter."""

import functools
import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# With fewer rows than this the products would wait for the weights to come from memory.
_LEAST_ITEMS = 4


@functools.cache
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked one would inherit the pool without its threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="stacktrans")


def in_parts(run: Callable[[slice], Result], batch: int, threads: int) -> list[Result]:
    """Run for all of a batch, each thread a part of it, and collect what comes out.

    Items of a batch have nothing to do with each other.
    """
    threads = max(1, min(threads, batch // _LEAST_ITEMS))
    ends = [batch * part // threads for part in range(threads + 1)]
    first, *rest = (slice(start, end) for start, end in itertools.pairwise(ends))
    others = [_pool(os.getpid(), threads - 1).submit(run, part) for part in rest]
    return [run(first), *(other.result() for other in others)]


def of_each(run: Callable[[Item], Result], items: Iterable[Item], threads: int) -> list[Result]:
    """Run for each of some items, and collect what comes out, in their order."""
    if threads <= 1:
        return [run(item) for item in items]
    return list(_pool(os.getpid(), threads).map(run, items))
