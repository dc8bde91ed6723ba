"""Decorators that compile functions with numba on first use, or dispatch by type of memory.

Python runs a `compiled` function as it is, and compiled code calls its compiled form. A
`compiled_entry` is called by Python: numba compiles it at the first call, with everything that it
calls, and caches the code on disk (see `code_cache`). Short computations run the same functions
uncompiled, and numba is imported only if something is compiled, because both take seconds.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from stacktrans.kernels.code_cache import CodeDirectory, announced

Function = TypeVar("Function", bound=Callable[..., Any])

# These fast-math flags do not let the compiler assume that there are no NaNs: otherwise, a run
# that diverged could show finite numbers.
_EXACT = {"contract"}
_REORDERED = {"contract", "reassoc", "nsz"}
# Wrappers by which C, or Python, could call a function would be compiled, too.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": _EXACT, "no_cfunc_wrapper": True}
_CALLED: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True}
_WORTH_COMPILING = 2000
"""Steps that take about a second in Python."""
_first_calls = threading.RLock()
_registrations: list[Callable[[Any], object]] = []


def before_compiling(register: Callable[[Any], object]) -> None:
    """Call `register` with the module `numba.extending` before the next compilation."""
    _registrations.append(register)


def _njit(function: Callable[..., Any], **options: Any) -> Any:
    import numba
    import numba.extending

    while _registrations:
        _registrations.pop(0)(numba.extending)
    # numba does not declare the types of its functions.
    njit: Any = numba.njit
    return njit(function, nogil=True, **_OPTIONS, **options)


def compiled(function: Function, options: dict[str, Any] = _CALLED) -> Function:
    """Declare a function that is compiled when compiled code calls it."""
    before_compiling(lambda extending: extending.register_jitable(**options)(function))
    return function


def reordered(function: Function) -> Function:
    """Declare a `compiled` function whose sums may be added in any order."""
    return compiled(function, {**_CALLED, "fastmath": _REORDERED})


class MemoryFunction(Protocol):
    """A function with an implementation for each type of memory."""

    def __call__(self, memory: Any, *others: Any) -> Any:
        """Call the implementation for the type of the memory."""

    def register(self, memory_type: type) -> Callable[[Function], Function]:
        """Declare the implementation for a type of memory."""


def memory_function(function: Callable[..., Any]) -> MemoryFunction:
    """A function that is dispatched by the type of its first argument, a memory.

    In Python it is a `functools.singledispatch` function, whose implementations are declared by
    `@name.register(Type)`; compiled code calls the same implementations.
    """
    generic: Any = functools.singledispatch(function)

    def choose(memory: Any, *_: Any) -> Callable[..., Any]:
        own: Callable[..., Any] = generic.dispatch(getattr(memory, "instance_class", object))
        return own

    before_compiling(
        lambda extending: extending.overload(generic, jit_options=_CALLED, strict=False)(choose)
    )
    return cast(MemoryFunction, generic)


class CompiledFunction:
    """A function that Python calls, with its compiled code for each combination of argument types.

    Args:
        function: the function to compile.
        steps: gives the number of steps that a call with some arguments takes.
    """

    _steps_in_python = 0
    _always = False

    def __init__(self, function: Callable[..., Any], steps: Callable[..., int]) -> None:
        functools.update_wrapper(self, function)
        self.function, self._steps = function, steps
        self.code: dict[tuple[type, ...], Any] = {}

    @classmethod
    def always_compile(cls) -> None:
        """Compile every function from now on, however short its work is."""
        cls._always = True

    @classmethod
    def compile_if_long(cls, steps: int) -> None:
        """Compile from now on if a number of steps is too large for plain Python."""
        if steps > _WORTH_COMPILING:
            cls.always_compile()

    def __call__(self, *arguments: Any) -> Any:
        types = tuple(map(type, arguments))
        code = self.code.get(types)
        if code is not None:
            try:
                return code(*arguments)
            except OSError:  # code for new array types is compiled, but could not be cached
                return code(*arguments)
        if self._is_short(arguments):
            # Compiled code gives no warnings either.
            with np.errstate(all="ignore"):
                return self.function(*arguments)
        with _first_calls:
            if types not in self.code:
                return self._first_call(types, arguments)
        return self.code[types](*arguments)

    def _first_call(self, types: tuple[type, ...], arguments: tuple[Any, ...]) -> Any:
        """Compile or load the code; in memory, if anything is wrong with the cache directory."""
        directory, code = CodeDirectory.of(self.function, types), None
        with contextlib.nullcontext() if directory.has_code else announced():
            try:
                with directory.as_cache() as cache:
                    code = _njit(self.function, cache=cache)
                result = code(*arguments)
            except Exception as error:
                # Nothing has run yet. If only writing failed, the code is compiled.
                if not (code and code.signatures):
                    code = _njit(self.function)
                result = code(*arguments)
                directory.discard(error)
            else:
                directory.write_checksums()
        self.code[types] = code
        return result

    def _is_short(self, arguments: tuple[Any, ...]) -> bool:
        """Whether to run in Python, which takes a limited number of steps in a process."""
        if CompiledFunction._always:
            return False
        CompiledFunction._steps_in_python += self._steps(*arguments)
        return CompiledFunction._steps_in_python <= _WORTH_COMPILING


def compiled_entry(steps: Callable[..., int]) -> Callable[[Callable[..., Any]], Any]:
    """Declare a function that Python calls, by the number of steps that a call takes."""
    return functools.partial(CompiledFunction, steps=steps)
