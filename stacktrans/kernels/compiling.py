"""Functions that compiled code is made of: plain Python, until compiling is worth its time.

What is marked here is called as it is written until `stacktrans.kernels.loading` has loaded numba;
from then on, what Python calls is compiled code.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

Array = np.ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

# No array is made or kept in compiled code, so references to them need not be counted, which would
# take as long as all else that a step does.
_ALL = {"error_model": "numpy", "_nrt": False}
# Without what lets Python or C call it, which would take a tenth of the time to compile.
_INNER = {**_ALL, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# No fast-math licence is given that lets the compiler assume there is no NaN: a diverged run
# would then show finite numbers.
_EXACT = {"contract"}
_REORDERED = {"contract", "reassoc", "nsz"}


class Compilable:
    """A function that is Python for Python, and compiled code for compiled code.

    Attributes:
        function: as it is written.
        options: with which numba compiles it.
        loops: `module:name` of what is compiled in its place, where it is written in whole arrays.
        made_by: what makes its dispatcher, once numba is loaded.
    """

    made_by: ClassVar[Callable[["Compilable"], Any]]

    def __init__(
        self, function: Callable[..., Any], options: Mapping[str, Any], loops: str | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options, self.loops = function, options, loops

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What numba makes of it."""
        return Compilable.made_by(self)

    # Under these two names numba finds what is to be written out in its caller.

    @property
    def targetoptions(self) -> Any:
        """With which it is compiled."""
        return self.dispatcher.targetoptions

    @property
    def py_func(self) -> Callable[..., Any]:
        """What is compiled."""
        return cast(Callable[..., Any], self.dispatcher.py_func)


class Entry(Compilable):
    """A function whose compiled code is called by Python, too; it is kept on disk."""

    def __call__(self, *args: Any) -> Any:
        return self._tried(self.dispatcher, *args) if _numba else self.in_python(*args)

    def compile_for(self, types: tuple[Any, ...]) -> None:
        """Compile it for some types of arguments, if it is not."""
        self._tried(self.dispatcher.compile, types)

    def _tried(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except BaseException:
            # It may have been compiling, for which other processes wait.
            self.dispatcher._cache.give_up()
            raise

    def in_python(self, *args: Any) -> Any:
        """Do in Python what the compiled code does."""
        # In compiled code there are no warnings either.
        with np.errstate(all="ignore"):
            return self.function(*args)

    @property
    def name(self) -> str:
        """`module.function`."""
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"


class Overloaded:
    """A function that is another one for some types of its first argument.

    Attributes:
        function: what it is for all others.
        own: what it is for a type.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.own: dict[type, Callable[..., Any]] = {}
        by_type.append(self)

    def __call__(self, first: Any, *others: Any) -> Any:
        return self.own.get(type(first), self.function)(first, *others)


by_type: list[Overloaded] = []
"""All of them that there are."""
entries: list[Entry] = []
"""The same."""
_numba = False


def call_compiled_code() -> None:
    """Have Python call compiled code from now on; see `stacktrans.kernels.loading`."""
    global _numba
    _numba = True


def uses_numba() -> bool:
    """Whether Python calls compiled code."""
    return _numba


def compiled(function: Function) -> Function:
    """Compile what only compiled code calls; as all of it, it makes no arrays and returns none."""
    return cast(Function, Compilable(function, {"fastmath": _EXACT, **_INNER}))


def inlined(function: Function) -> Function:
    """As `compiled`, written out in whatever calls it; it may return a part of an array.

    A call with a dozen arrays would take a while by itself.
    """
    options = {"fastmath": _EXACT, "inline": "always", **_INNER}
    return cast(Function, Compilable(function, options))


def compiled_as(loops: str, any_order: bool = False) -> Callable[[Function], Function]:
    """As `compiled`, for what is written in whole arrays: compiled are the loops of `module:name`.

    With `any_order`, the terms of sums may be added in any order.
    """
    options = {"fastmath": _REORDERED if any_order else _EXACT, **_INNER}

    def marked(function: Function) -> Function:
        return cast(Function, Compilable(function, options, loops))

    return marked


def compiled_entry(function: Function) -> Function:
    """Compile what Python calls, at the first call; kept on disk with all that it calls."""
    entry = Entry(function, {**_ALL, "nogil": True, "fastmath": _EXACT})
    entries.append(entry)
    if _numba:
        _ = entry.dispatcher
    return cast(Function, entry)


def as_entry(function: Callable[..., Any]) -> Entry:
    """What `compiled_entry` has made."""
    assert isinstance(function, Entry)
    return function


def overloaded(function: Function) -> Function:
    """A function of compiled code that is another for some types of its first argument."""
    return cast(Function, Overloaded(function))
