"""Functions of compiled code, as numba documents them, and when they are compiled.

A function marked `compiled` is plain Python for Python, and is compiled where compiled code calls
it. A `compiled_entry` is what Python calls: numba compiles it at the first call, with all that it
calls, and keeps the code on disk (see `code`). Short work is done in Python, by the same functions,
and numba is imported only where something is compiled: each takes its time.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from stacktrans.kernels.code import CodeDirectory, announced

Function = TypeVar("Function", bound=Callable[..., Any])

# No fast-math licence is given that lets the compiler assume there is no NaN: a diverged run
# would then show finite numbers.
_EXACT = {"contract"}
_REORDERED = {"contract", "reassoc", "nsz"}
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": _EXACT}
_WORTH_COMPILING = 2000
"""Steps of strings that take about a second in Python."""
_first_calls = threading.RLock()
_registrations: list[Callable[[Any], object]] = []


def before_compiling(register: Callable[[Any], object]) -> None:
    """Call a function before anything is compiled next, with the module `numba.extending`."""
    _registrations.append(register)


def _njit(function: Callable[..., Any], **options: Any) -> Any:
    import numba
    import numba.extending

    while _registrations:
        _registrations.pop(0)(numba.extending)
    # As numba does not say what types its functions have.
    njit: Any = numba.njit
    return njit(function, nogil=True, **_OPTIONS, **options)


def compiled(function: Function) -> Function:
    """Compile a function where compiled code calls it."""
    before_compiling(lambda numba: numba.register_jitable(**_OPTIONS)(function))
    return function


def reordered(function: Function) -> Function:
    """As `compiled`, where the terms of sums may be added in any order."""
    options = {**_OPTIONS, "fastmath": _REORDERED}
    before_compiling(lambda numba: numba.register_jitable(**options)(function))
    return function


class ByMemory(Protocol):
    """A function that each memory may have its own of."""

    def __call__(self, memory: Any, *others: Any) -> Any:
        """Do what it does for the type of the memory."""

    def register(self, kind: type) -> Callable[[Function], Function]:
        """Declare what it does for a type."""


def by_memory(function: Callable[..., Any]) -> ByMemory:
    """A function that each memory may have its own of, for the type of the first argument.

    For Python it is what `functools.singledispatch` makes of it: `@name.register(Type)` declares
    what it is for a type; compiled code calls the same functions.
    """
    generic: Any = functools.singledispatch(function)

    def choose(memory: Any, *_: Any) -> Callable[..., Any]:
        own: Callable[..., Any] = generic.dispatch(getattr(memory, "instance_class", object))
        return own

    before_compiling(
        lambda numba: numba.overload(generic, jit_options=_OPTIONS, strict=False)(choose)
    )
    return cast(ByMemory, generic)


class CompiledFunction:
    """A function that Python calls; its compiled code is kept by the types of its arguments.

    Args:
        function: what is compiled.
        steps: how many steps of strings a call with some arguments is worth.
    """

    _steps_in_python = 0
    _always = False

    def __init__(self, function: Callable[..., Any], steps: Callable[..., int]) -> None:
        functools.update_wrapper(self, function)
        self.function, self._steps = function, steps
        self.code: dict[tuple[type, ...], Any] = {}

    @classmethod
    def compile_from_now_on(cls) -> None:
        """Do nothing in Python any more: there is much to do."""
        cls._always = True

    @classmethod
    def expect(cls, steps: int) -> None:
        """Do nothing in Python any more if so many steps of strings are too many for it."""
        if steps > _WORTH_COMPILING:
            cls.compile_from_now_on()

    def __call__(self, *arguments: Any) -> Any:
        kinds = tuple(map(type, arguments))
        code = self.code.get(kinds)
        if code is not None:
            try:
                return code(*arguments)
            except OSError:  # what it was compiled to for other types of arrays was not written
                return code(*arguments)
        if self._is_short(arguments):
            # In compiled code there are no warnings either.
            with np.errstate(all="ignore"):
                return self.function(*arguments)
        with _first_calls:
            if kinds not in self.code:
                return self._first_call(kinds, arguments)
        return self.code[kinds](*arguments)

    def _first_call(self, kinds: tuple[type, ...], arguments: tuple[Any, ...]) -> Any:
        """Compile, or read what was compiled; with whatever is wrong with the disk, in memory."""
        directory, code = CodeDirectory.of(self.function, kinds), None
        with contextlib.nullcontext() if directory.has_code else announced():
            try:
                with directory.as_cache() as cache:
                    code = _njit(self.function, cache=cache)
                result = code(*arguments)
            except Exception as error:
                # Nothing has been run yet. If the code could only not be written, it is there.
                if not (code and code.signatures):
                    code = _njit(self.function)
                result = code(*arguments)
                directory.give_up(error)
            else:
                directory.complete()
        self.code[kinds] = code
        return result

    def _is_short(self, arguments: tuple[Any, ...]) -> bool:
        """Whether to do it in Python, of which not more than so much is done."""
        if not CompiledFunction._always:
            CompiledFunction._steps_in_python += self._steps(*arguments)
        return (
            not CompiledFunction._always and CompiledFunction._steps_in_python <= _WORTH_COMPILING
        )


def compiled_entry(steps: Callable[..., int]) -> Callable[[Callable[..., Any]], Any]:
    """Compile what Python calls; with how many steps of strings a call is worth, by its arguments.

    In Python a step takes a millisecond or two.
    """
    return functools.partial(CompiledFunction, steps=steps)
