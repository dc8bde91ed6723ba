"""How numba compiles: without Python objects or the GIL, and what for which types."""

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

import numba
from numba.core import types
from numba.extending import overload, typeof_impl

from stacktrans.common.messages import complain
from stacktrans.kernels import compiling, kernel, single
from stacktrans.kernels.caching import CodeCache
from stacktrans.kernels.compiling import Compilable, Entry, Overloaded
from stacktrans.kernels.pipelines import EntryCompiler, InnerCompiler
from stacktrans.kernels.places import cache_directory

# As numba does not say what types its functions have, nor all that it can be told.
_njit: Any = numba.njit
_MAY_RETURN_ARRAYS: Any = {"_nrt": True}


def make_dispatchers() -> None:
    """Have functions compiled when they are first called."""
    Compilable.made_by = staticmethod(dispatcher_of)
    # Before there are threads, which would all make their own.
    for entry in compiling.entries:
        _ = entry.dispatcher


def dispatcher_of(code: Compilable) -> Any:
    """What compiles a function for the types that it is called with."""
    function = _compiled_function(code)
    if not isinstance(code, Entry):
        return _njit(function, pipeline_class=InnerCompiler, **code.options)
    made = _njit(function, pipeline_class=EntryCompiler, **code.options)
    # Others are kept within it.
    made._cache = CodeCache(code.function, cache_directory(), _say_that_it_compiles)
    return made


def types_of(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """The types for which an entry is compiled if it is called with some arguments."""
    return tuple(map(numba.typeof, arguments))


def has_code_for(entry: Entry, types: tuple[Any, ...]) -> bool:
    """Whether an entry is compiled for some types, in this process or on disk."""
    code = entry.dispatcher
    return types in code.overloads or code._cache.has(types, code.targetctx)


def _compiled_function(code: Compilable) -> Callable[..., Any]:
    if code.loops is None:
        return code.function
    module, _, name = code.loops.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


@functools.cache
def _say_that_it_compiles() -> None:
    complain("compiling for this machine, once (some seconds)")


def _type_of_code(code: Compilable, _context: Any) -> Any:
    return types.Dispatcher(code.dispatcher)


typeof_impl.register(Compilable, _type_of_code)


def _declare(function: Overloaded) -> None:
    def choose(first: Any, *_: Any) -> Callable[..., Any]:
        kind = getattr(first, "instance_class", object)
        return function.own.get(kind, function.function)

    # Written out in the driver, where it may return a part of an array, as nothing else does.
    overload(function, strict=False, inline="always", jit_options=_MAY_RETURN_ARRAYS)(choose)


for _each in compiling.by_type:
    if _each not in single.DECLARED:
        _declare(_each)
assert kernel.step_forward in compiling.by_type  # which are all there, whoever comes first
