"""Memories, controllers and task generators by name; none is imported before it is asked for.

A new one of this package is a class and a line in a table at the end of this file. One of
others comes from an installed package, through an entry point, or from a plugin file (see
docs/extending.md).
"""

import functools
import importlib
import inspect
import itertools
import os
import re
import sys
import traceback
import zlib
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from stacktrans.common.errors import UsageError, shown, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_PACKAGE = str(Path(__file__).parent.parent)
_foreign: dict[str, ModuleType] = {}
"""Modules with code of others, by their files. Python clears those that are still held when it
ends, which writes what is left in files that they have open."""
PLUGINS = "STACKTRANS_PLUGINS"
"""The environment variable with the plugin files, so that processes started from here know them."""


class LazyModule:
    """A module, imported when one of its names is first asked for.

    `LazyModule("torch")` stands at the top of a file whose classes are described without torch, and
    compute with it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._name), name)
        setattr(self, name, found)
        return found


class UnknownName(UsageError, ValueError):
    """A name is not of any class of a kind; where values are validated, it is a wrong value."""


class Plugin(NamedTuple):
    """A plugin file, by the name it was given by, and its classes of each kind by their names."""

    name: str
    classes: Mapping[str, Mapping[str, type]]


_loaded: dict[str, Plugin] = {}
"""By their paths."""


class Registry:
    """The classes of a kind such as "memory", which extend a base, as `module:name`.

    Those of this package are given by their names, others are in a group of entry points.
    """

    def __init__(self, kind: str, group: str, base: str, builtin: Mapping[str, str]) -> None:
        self.kind, self.group, self.base, self.builtin = kind, group, base, builtin

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self.names()

    def installed(self) -> list[str]:
        """The names of this package's and of installed packages', for which nothing is run."""
        return [*self.builtin, *self._entry_points]

    def names(self) -> list[str]:
        """All names; raises `UsageError` if a plugin file cannot be used."""
        use_plugins()
        return [*self.installed(), *self._in_files()]

    def check(self, name: str) -> None:
        """Raise `UnknownName` if a name is unknown."""
        if not Registry.__contains__(self, name):
            message = unknown_name(self.kind, name, self.names())
            hint = "" if "did you mean" in message else "; one of your own needs its plugin file"
            raise UnknownName(f"{message}{hint}")

    def load(self, name: str) -> Any:
        """The class of a name; raises `UsageError` if it is unknown or can't be loaded."""
        if name in self.builtin:
            module, _, attribute = self.builtin[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        self.check(name)
        in_files = self._in_files()
        return in_files[name][1] if name in in_files else self._imported(name)

    def origin(self, name: str) -> str | None:
        """Where the class of a name comes from, to say so; None if it is of this package."""
        if name in self.builtin:
            return None
        if name in self._entry_points:
            return _package(self._entry_points[name])
        return f"plugin {self._in_files()[name][0]}"

    def canonical(self, name: str) -> str:
        """The one way in which a name is written."""
        return name

    def holds(self, found: object) -> bool:
        """Whether something is a class of this kind; its base need not have been imported."""
        return isinstance(found, type) and self.base in {
            f"{each.__module__}:{each.__qualname__}" for each in found.__mro__[1:]
        }

    @functools.cached_property
    def _entry_points(self) -> "dict[str, EntryPoint]":
        from importlib.metadata import entry_points  # takes its time

        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if point.name in self.builtin or point.name in found:
                other = _package(found[point.name]) if point.name in found else "stacktrans"
                raise UsageError(f"{_package(point)}: {self._clash(point.name, other)}")
            found[point.name] = point
        return found

    def _imported(self, name: str) -> Any:
        point = self._entry_points[name]
        where = f"{_package(point)}: {self.kind} {name}"
        try:
            found = point.load()
        except (Exception, SystemExit) as error:
            raise UsageError(f"{where}: {_said(error)}") from error
        if not self.holds(found):
            raise UsageError(f"{where}: {point.value} does not extend {self.base}")
        if problem := self._lack(found):
            raise UsageError(f"{where}: {problem}")
        _note(sys.modules[found.__module__])
        return found

    def _in_files(self) -> dict[str, tuple[str, type]]:
        """The plugin files and classes of names in plugin files."""
        return {
            name: (plugin.name, each)
            for plugin in _loaded.values()
            for name, each in plugin.classes[self.kind].items()
        }

    def defined_in(self, module: ModuleType, file: str) -> dict[str, type]:
        """The classes of this kind in a plugin file; raises `UsageError` if one can't be used."""
        found: dict[str, type] = {}
        own = (each for each in vars(module).values() if self.holds(each))
        for each in own:
            if each.__module__ != module.__name__ or "name" not in vars(each):
                continue
            if problem := self._problem(each, found, file):
                # A line is looked for only now, since that takes long in a file of many classes.
                line = inspect.getsourcelines(each)[1]
                raise UsageError(f"plugin {file}:{line}: {problem}")
            found[vars(each)["name"]] = each
        return found

    def _problem(self, found: type, known: Mapping[str, type], file: str) -> str | None:
        """Why a class of a plugin file can't be used beside those known of it, if it can't."""
        name = vars(found)["name"]
        if not isinstance(name, str) or not re.fullmatch(r"[\w.+-]+", name):
            return f"the name of {found.__name__} is {name!r}; expected a word"
        if name in known:
            return self._clash(name, f"plugin {file}")
        if name in self.installed() or name in self._in_files():
            return self._clash(name, self.origin(name) or "stacktrans")
        return self._lack(found)

    def _lack(self, found: type) -> str | None:
        """What a class lacks that every one of its kind has, if anything."""
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        return f"{self.kind} {found.__name__} lacks {missing}" if missing else None

    def _clash(self, name: str, other: str) -> str:
        return f"{self.kind} {name}: {other} has one of this name"


class Memories(Registry):
    """Those of memories, of which several may stand side by side: queue+stack, 2*stack+queue.

    Such a name is written in one way: without spaces, and the same in a row counted.
    """

    MOST = 16
    """The most that stand side by side."""
    ALONE = ("stack-rnn", "list-rnn", "none")
    """What can't stand beside others: what has settings of its own, or nothing to push to."""

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self.parts(name))
        except UnknownName:
            return False

    def check(self, name: str) -> None:
        self.parts(name)

    def load(self, name: str) -> Any:
        parts = self.parts(name)
        if len(parts) == 1:
            return super().load(*parts)
        return importlib.import_module("stacktrans.memory.several").several(parts)

    def origin(self, name: str) -> str | None:
        origins = dict.fromkeys(map(super().origin, self.parts(name)))
        return ", ".join(filter(None, origins)) or None

    def canonical(self, name: str) -> str:
        """A name in the one way in which it is written; an unknown one as it is."""
        return self.combined(self.parts(name)) if name in self else name

    def combined(self, parts: Sequence[str]) -> str:
        """The name of memories side by side."""
        runs = [(name, len([*run])) for name, run in itertools.groupby(parts)]
        return "+".join(f"{count}*{name}" if count > 1 else name for name, count in runs)

    def parts(self, name: str) -> tuple[str, ...]:
        """The names of the memories that stand side by side, or the name of a single one.

        Raises:
            UnknownName: one is unknown, or can't stand beside others; or there are too many.
        """
        if not re.search(r"[+*]", name) or super().__contains__(name):
            super().check(name)
            return (name,)
        found: list[str] = []
        for term in name.split("+"):
            count, times, each = term.rpartition("*")
            if not each.strip() or (times and not re.fullmatch(r"\s*[0-9]+\s*", count)):
                expected = "expected names such as queue+stack or 2*stack+queue"
                raise UnknownName(f"{self.kind} {shown(name)}: {expected}")
            super().check(each.strip())
            number = int(count) if times and len(count) < 9 else self.MOST + 1 if times else 1
            if not 1 <= number <= self.MOST - len(found):
                expected = f"expected 1 to {self.MOST} side by side"
                raise UnknownName(f"{self.kind} {shown(name)}: {expected}")
            found += [each.strip()] * number
        alone = next((each for each in found if each in self.ALONE and found[1:]), None)
        if alone:
            others = ", ".join(each for each in self.builtin if each not in self.ALONE)
            raise UnknownName(f"{self.kind} {alone} can't stand beside others; {others} can")
        return tuple(found)


def _package(point: "EntryPoint") -> str:
    return f"package {point.dist.name}" if point.dist else point.value


def _run(path: Path, file: str) -> ModuleType:
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
        raise UsageError(f"plugin {file}: {_said(error)}") from error
    _note(module)
    return module


def _note(module: ModuleType) -> None:
    """Remember that a module is the code of others."""
    _foreign[str(module.__file__)] = module


def _said(error: BaseException) -> str:
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


def plugin_error(error: BaseException) -> str | None:
    """The same of an error raised by code of others at run time; None for any other."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [frame for frame in frames if frame.filename in _foreign]
    return _at(error, foreign) if foreign else None


def _at(error: BaseException, frames: list[traceback.FrameSummary]) -> str:
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {error}"


def use_plugins(*files: str | os.PathLike[str]) -> None:
    """Know what plugin files define, here and in processes that are started from here.

    Raises:
        UsageError: a file does not exist, can't be run, or defines nothing that can be used.
    """
    named = os.environ.get(PLUGINS, "").split(os.pathsep)
    for file in map(str, filter(None, [*named, *files])):
        if file in _loaded:  # which costs less than to look where it is
            continue
        path = str(Path(file).resolve())
        if os.pathsep in path:  # by which processes are told of several
            raise UsageError(f"plugin {file}: expected a path without {os.pathsep}")
        if path not in _loaded:
            module = _run(Path(path), file)
            classes = {each.kind: each.defined_in(module, file) for each in REGISTRIES}
            if not any(classes.values()):
                kinds = "a memory, controller or generator"
                raise UsageError(f"plugin {file}: expected {kinds} with a name in it")
            _loaded[path] = Plugin(file, classes)
            os.environ[PLUGINS] = os.pathsep.join(_loaded)


def plugin_files() -> list[str]:
    """The paths of the plugin files in use."""
    return [*_loaded]


def plugin_options() -> list[str]:
    """The options with which another command knows the same plugins."""
    return [word for plugin in _loaded.values() for word in ("--plugin", plugin.name)]


def resume_command(directory: str | Path) -> list[str]:
    """The words of a command that resumes the run, or race, in a directory, with these plugins."""
    return ["stacktrans", "train", "--resume", str(directory), *plugin_options()]


MEMORIES = Memories(
    "memory",
    "stacktrans.memories",
    "stacktrans.memory.base:Memory",
    {
        "stack": "stacktrans.memory.strengths.definition:Stack",
        "queue": "stacktrans.memory.strengths.definition:Queue",
        "deque": "stacktrans.memory.strengths.definition:Deque",
        "stack-rnn": "stacktrans.memory.actions.definition:ActionStack",
        "list-rnn": "stacktrans.memory.actions.definition:ActionList",
        "none": "stacktrans.memory.strengths.definition:Nothing",
    },
)
CONTROLLERS = Registry(
    "controller",
    "stacktrans.controllers",
    "stacktrans.model.controllers:Layer",
    {
        "lstm": "stacktrans.model.units:LSTM",
        "gru": "stacktrans.model.units:GRU",
        "rnn": "stacktrans.model.units:RNN",
        "sigmoid": "stacktrans.model.units:Sigmoid",
        "linear": "stacktrans.model.units:Linear",
    },
)
GENERATORS = Registry(
    "generator",
    "stacktrans.generators",
    "stacktrans.tasks.base:Task",
    {
        "copy": "stacktrans.tasks.computed:Copy",
        "reverse": "stacktrans.tasks.computed:Reverse",
        "bigram-flip": "stacktrans.tasks.computed:BigramFlip",
        "grammar": "stacktrans.tasks.grammatical:Grammatical",
        "same-length-grammar": "stacktrans.tasks.grammatical:SameLengthGrammar",
        "next-symbol": "stacktrans.tasks.grammatical:NextSymbol",
        "waiting-reversal": "stacktrans.tasks.computed:WaitingReversal",
        "parity": "stacktrans.tasks.computed:Parity",
        "delayed-parity": "stacktrans.tasks.computed:DelayedParity",
        "counting": "stacktrans.tasks.streams:Counting",
        "memorization": "stacktrans.tasks.streams:Memorization",
        "addition": "stacktrans.tasks.streams:Addition",
        "text": "stacktrans.tasks.corpus:Corpus",
        "pairs": "stacktrans.tasks.pairs:Pairs",
    },
)
REGISTRIES = (MEMORIES, CONTROLLERS, GENERATORS)
