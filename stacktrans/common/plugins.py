"""The code of others: running plugin files, and messages about errors in it."""

import os
import sys
import traceback
import zlib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from stacktrans.common.errors import UsageError

_PACKAGE = str(Path(__file__).parent.parent)


_foreign: dict[str, ModuleType] = {}
"""Modules with code of others, by their files. Python clears those that are still held when it
ends, which writes what is left in files that they have open."""


def run(path: Path, file: str) -> ModuleType:
    """A plugin file as a module; raises `UsageError`, which calls it `file`, if it can't be run."""
    if not path.exists():
        raise UsageError(f"plugin {file}: no such file")
    if not path.is_file() or path.suffix != ".py":
        raise UsageError(f"plugin {file}: expected a Python file, such as tape.py")
    name = f"stacktrans_plugin_{path.stem}_{zlib.crc32(os.fsencode(path)):08x}"
    spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"plugin {file}: {said(error)}") from error
    note(module)
    return module


def note(module: ModuleType) -> None:
    """Remember that a module is the code of others."""
    _foreign[str(module.__file__)] = module


def said(error: BaseException) -> str:
    """An error while code of others was loaded: where, its type and its message."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", _PACKAGE))
        and "importlib" not in frame.filename
    ]
    return _at(error, [frame for frame in frames if frame.filename == frames[0].filename])


def blamed(error: BaseException) -> str | None:
    """The same of an error raised by code of others at run time; None for any other."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [frame for frame in frames if frame.filename in _foreign]
    return _at(error, foreign) if foreign else None


def _at(error: BaseException, frames: list[traceback.FrameSummary]) -> str:
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {error}"
