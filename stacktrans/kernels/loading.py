"""When to load numba, which takes half a second, and to compile, which takes some seconds more.

Short work takes less than that in Python.
"""

from stacktrans.kernels import compiling
from stacktrans.kernels.compiling import uses_numba
from stacktrans.kernels.places import has_code

_WORTH_LOADING = 6_000
"""Steps of strings that take as long in Python as it takes to load numba and compiled code."""
_WORTH_COMPILING = 60_000
"""The same where there is no compiled code yet."""
_steps = 0


def prepare(steps: int, entry: str) -> None:
    """Count steps of strings that come now; with too many for Python, `use_numba`.

    `entry`, as `module.function`, is what will run them.
    """
    global _steps
    _steps += steps
    if uses_numba() or _steps <= _WORTH_LOADING:
        return
    if _steps > _WORTH_COMPILING or has_code(entry):
        use_numba()


def use_numba() -> None:
    """Have Python call compiled code from now on, which is compiled when it is first called."""
    if uses_numba():
        return
    from stacktrans.kernels.jit import make_dispatchers  # waits for numba

    make_dispatchers()
    compiling.call_compiled_code()
