"""A batch in parts, one for each thread."""

import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")

# With fewer rows than this the products would wait for the weights to come from memory.
_LEAST_ITEMS = 4


@functools.cache
def _pool(_process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked one would inherit the pool without its threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="stacktrans")


def in_parts(run: Callable[[slice], Result], batch: int) -> list[Result]:
    """Run for all of a batch, each of torch's threads a part of it, and collect what comes out.

    Compiled code lets go of the interpreter, and items of a batch have nothing to do with each
    other.
    """
    threads = max(1, min(torch.get_num_threads(), batch // _LEAST_ITEMS))
    ends = [batch * part // threads for part in range(threads + 1)]
    first, *rest = (slice(start, end) for start, end in itertools.pairwise(ends))
    others = [_pool(os.getpid(), threads - 1).submit(run, part) for part in rest]
    return [run(first), *(other.result() for other in others)]
