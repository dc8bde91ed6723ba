"""When to load numba, which takes half a second, and to compile, which takes some seconds more.

Short work takes less than that in Python.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from stacktrans.kernels import compiling
from stacktrans.kernels.compiling import Entry, as_entry, uses_numba
from stacktrans.kernels.places import has_code

_WORTH_LOADING = 6_000
"""Steps of strings that take as long in Python as it takes to load numba and compiled code."""
_WORTH_COMPILING = 60_000
"""The same where there is no compiled code yet."""
_steps: Counter[str] = Counter()


def prepare(steps: int, function: Callable[..., Any]) -> None:
    """Count steps of strings that an entry is to run; with too many for Python, `use_numba`."""
    name = as_entry(function).name
    _steps[name] += steps
    if uses_numba() or _steps.total() <= _WORTH_LOADING:
        return
    if _steps.total() > _WORTH_COMPILING or has_code(name):
        use_numba()


def call(function: Callable[..., Any], *arguments: Any) -> None:
    """Call an entry, but in Python if it would have to be compiled, and has few steps so far."""
    entry = as_entry(function)
    few = uses_numba() and _steps[entry.name] <= _WORTH_COMPILING
    if few and not _has_code(entry, arguments):
        entry.in_python(*arguments)
    else:
        entry(*arguments)


def _has_code(entry: Entry, arguments: tuple[Any, ...]) -> bool:
    from stacktrans.kernels.jit import has_code_for, types_of  # waits for numba

    return has_code_for(entry, types_of(arguments))


def use_numba() -> None:
    """Have Python call compiled code from now on, which is compiled when it is first called."""
    if uses_numba():
        return
    from stacktrans.kernels.jit import make_dispatchers  # waits for numba

    make_dispatchers()
    compiling.call_compiled_code()
