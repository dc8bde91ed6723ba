"""How numba compiles entries, and what only they call, in less time than by itself."""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

# As numba does not say what types its functions have.
_Compiler: Any = Compiler
_Library: Any = JITCodeLibrary
_Lowering: Any = NativeLowering
_registered: Any = register_pass(mutates_CFG=True, analysis_only=False)


class EntryCompiler(_Compiler):  # type: ignore[misc]
    """Compiles what Python calls, without looking for garbage meanwhile.

    There is little of it, and to look through all that a compiler holds takes a tenth of the time.
    """

    def compile_extra(self, function: Any) -> Any:
        """Compile a function."""
        with _no_collection():
            return super().compile_extra(function)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class InnerCompiler(_Compiler):  # type: ignore[misc]
    """Compiles what only compiled code calls as far as its callers need it, to take it in.

    By itself numba makes machine code of every function, which is never run: that of an entry has
    all that it calls within it. It also optimises every function by itself, and what is optimised
    is longer, so that less of it is written out in its callers, which makes steps slower.
    """

    def define_pipelines(self) -> Any:
        """All passes, in order."""
        (passes,) = super().define_pipelines()
        passes.passes = [
            (_InnerLowering if each is NativeLowering else each, what)
            for each, what in passes.passes
        ]
        passes.finalize()
        return [passes]


@_registered
class _InnerLowering(_Lowering):  # type: ignore[misc]
    """Writes a function down for its callers."""

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Do what numba's own does, but for machine code."""
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()
        description = state.cr.fndesc
        name = description.qualname.rpartition(".")[2]
        # A function that does nothing, by which numba knows the compiled one.
        made = _dynfunc.make_function(
            description.lookup_module(), name, "", 0, state.cr.env, (state.library,)
        )
        state.targetctx.insert_user_function(made, description, [state.library])
        state.cr = state.cr._replace(cfunc=made)
        return True


class _InnerLibrary(_Library):  # type: ignore[misc]
    """A function with all that it calls."""

    def _optimize_final_module(self) -> None:
        """Leave this to the entries."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True
