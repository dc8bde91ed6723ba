"""Registries of memories (also combined), controllers and task generators; loading of plugins.

A built-in one is a class and a line in a table at the end of this file. Others come from entry
points of installed packages, or from plugin files (see docs/extending.md).
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
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import UsageError, shown, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_PACKAGE = str(Path(__file__).parent.parent)
_plugin_modules: dict[str, ModuleType] = {}
"""The modules of plugins, by file. The references keep them alive until Python exits, and clears
modules, which flushes files that they have open."""
PLUGINS = "STACKTRANS_PLUGINS"
"""The environment variable with the paths of plugin files, for processes started from here."""


class LazyModule:
    """A module that is imported when one of its names is first used.

    `LazyModule("torch")` is for files whose classes can be described without torch.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


class UnknownName(UsageError, ValueError):
    """A name that a registry does not have; a `ValueError`, so that pydantic reports it."""


_plugins: dict[str, tuple[str, Mapping[str, Mapping[str, type]], int]] = {}
"""The loaded plugin files by resolved path: the name as given, the classes by kind and name, and
the checksum."""


class Registry:
    """A registry of classes by name, such as the controllers.

    Args:
        kind: such as "memory".
        group: of entry points.
        base: the base class that all have, as `module:name`.
        builtin: the built-in classes, as `module:name`.
    """

    def __init__(self, kind: str, group: str, base: str, builtin: Mapping[str, str]) -> None:
        self.kind, self.group, self.base, self.builtin = kind, group, base, builtin

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self.names()

    def installed(self) -> list[str]:
        """Built-in names and those of installed packages; imports nothing."""
        return [*self.builtin, *self._entry_points]

    def names(self) -> list[str]:
        """All names; raises `UsageError` if a plugin file can't be loaded."""
        use_plugins()
        return [*self.installed(), *self._plugin_classes()]

    def check(self, name: str) -> None:
        """Raise `UnknownName` if a name is unknown."""
        if not Registry.__contains__(self, name):
            message = unknown_name(self.kind, name, self.names())
            hint = "" if "did you mean" in message else "; to use your own, load its plugin file"
            raise UnknownName(f"{message}{hint}")

    def load(self, name: str) -> Any:
        """Load the class of a name; raises `UsageError` if it is unknown or can't be imported."""
        if name in self.builtin:
            module, _, attribute = self.builtin[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        self.check(name)
        plugins = self._plugin_classes()
        return plugins[name][1] if name in plugins else self._load_entry_point(name)

    def origin(self, name: str) -> str | None:
        """The package or plugin file of the class of a name; None if it is built in."""
        if name in self.builtin:
            return None
        if name in self._entry_points:
            return _package(self._entry_points[name])
        return f"plugin {self._plugin_classes()[name][0]}"

    def canonical(self, name: str) -> str:
        """The canonical form of a name."""
        return name

    def has_base(self, value: object) -> bool:
        """Whether a value is a class that extends the base, which is not imported for this."""
        return isinstance(value, type) and self.base in {
            f"{base.__module__}:{base.__qualname__}" for base in value.__mro__[1:]
        }

    @functools.cached_property
    def _entry_points(self) -> "dict[str, EntryPoint]":
        from importlib.metadata import entry_points  # slow to import

        points: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if point.name in self.builtin or point.name in points:
                other = _package(points[point.name]) if point.name in points else "stacktrans"
                raise UsageError(f"{_package(point)}: {self._taken(point.name, other)}")
            points[point.name] = point
        return points

    def _load_entry_point(self, name: str) -> Any:
        point = self._entry_points[name]
        origin = f"{_package(point)}: {self.kind} {name}"
        try:
            value = point.load()
        except (Exception, SystemExit) as error:
            raise UsageError(f"{origin}: {_import_error(error)}") from error
        if not self.has_base(value):
            raise UsageError(f"{origin}: {point.value} does not extend {self.base}")
        if (own := getattr(value, "name", None)) != name:
            raise UsageError(f"{origin}: the name of {point.value} is {own}")
        if problem := self._missing_methods(value):
            raise UsageError(f"{origin}: {problem}")
        _remember(sys.modules[value.__module__])
        return value

    def _plugin_classes(self) -> dict[str, tuple[str, type]]:
        """The plugin file and class of each name that is defined in a plugin file."""
        return {
            name: (file, plugin_class)
            for file, classes, _ in _plugins.values()
            for name, plugin_class in classes[self.kind].items()
        }

    def classes_in(self, module: ModuleType, file: str) -> dict[str, type]:
        """The classes of this kind in a plugin file; raises `UsageError` if one can't be used."""
        classes: dict[str, type] = {}
        for value in vars(module).values():
            defined = self.has_base(value) and value.__module__ == module.__name__
            if not defined or "name" not in vars(value):
                continue
            if problem := self._problem(value, classes, file):
                line = inspect.getsourcelines(value)[1]
                raise UsageError(f"plugin {file}:{line}: {problem}")
            classes[value.name] = value
        return classes

    def _problem(self, plugin: type, others: Mapping[str, type], file: str) -> str | None:
        """The reason why a class of a plugin file can't be used, if any."""
        name = vars(plugin)["name"]
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name):
            return f"the name of {plugin.__name__} is {name!r}; expected a word"
        if name in others:
            return self._taken(name, f"plugin {file}")
        if name in self.installed() or name in self._plugin_classes():
            # The origin of combined memories, too, would load the plugin that is being loaded.
            return self._taken(name, Registry.origin(self, name) or "stacktrans")
        return self._missing_methods(plugin)

    def _missing_methods(self, plugin: type) -> str | None:
        """A message about abstract methods that a class lacks, if any."""
        missing = ", ".join(sorted(getattr(plugin, "__abstractmethods__", ())))
        return f"{self.kind} {plugin.__name__} lacks {missing}" if missing else None

    def _taken(self, name: str, other: str) -> str:
        return f"{self.kind} {name}: the name is taken by {other}"


class Memories(Registry):
    """The registry of memories, several of which can be combined, as in queue+stack.

    The canonical form of a combination has no spaces, and counts repetitions: 2*stack+queue.
    """

    MAX_PARTS = 16
    """The maximum number of memories of a combination."""
    ALONE = ("stack-rnn", "list-rnn", "superposed", "tape", "nondeterministic", "none")
    """Memories that can't be combined: they have their own settings, or nothing to push to."""

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
        return importlib.import_module("stacktrans.memory.combined").combined_memory(parts)

    def origin(self, name: str) -> str | None:
        origins = dict.fromkeys(map(super().origin, self.parts(name)))
        return ", ".join(filter(None, origins)) or None

    def canonical(self, name: str) -> str:
        """The canonical form of a name; an unknown name is returned as it is."""
        return self.combined(self.parts(name)) if name in self else name

    def combined(self, parts: Sequence[str]) -> str:
        """The name of a combination of memories."""
        runs = [(name, len([*run])) for name, run in itertools.groupby(parts)]
        return "+".join(f"{count}*{name}" if count > 1 else name for name, count in runs)

    def parts(self, name: str) -> tuple[str, ...]:
        """The names of the memories of a combination, or the name of a single memory.

        Raises:
            UnknownName: a memory is unknown or can't be combined, or there are too many.
        """
        if not re.search(r"[+*]", name) or super().__contains__(name):
            super().check(name)
            return (name,)
        parts: list[str] = []
        for term in name.split("+"):
            match = re.fullmatch(r"(?:\s*([0-9]+)\s*\*)?\s*([^*]*[^*\s])\s*", term)
            if not match:
                expected = "expected names such as queue+stack or 2*stack+queue"
                raise UnknownName(f"{self.kind} {shown(name)}: {expected}")
            super().check(match[2])
            count = int((match[1] or "1")[:9])
            if not 1 <= count <= self.MAX_PARTS - len(parts):
                expected = f"expected 1 to {self.MAX_PARTS} memories"
                raise UnknownName(f"{self.kind} {shown(name)}: {expected}")
            parts += [match[2]] * count
        alone = next((part for part in parts if part in self.ALONE), None)
        if alone and parts[1:]:
            others = ", ".join(other for other in self.builtin if other not in self.ALONE)
            several = len({*parts}) == 1 and alone not in ("none", "nondeterministic")
            hint = f"; memory.count={len(parts)} gives {len(parts)} of it" if several else ""
            expected = f"can't be combined with others; {others} can{hint}"
            raise UnknownName(f"{self.kind} {alone} {expected}")
        return tuple(parts)


def _package(point: "EntryPoint") -> str:
    return f"package {point.dist.name}" if point.dist else point.value


def _import_file(path: Path, file: str) -> ModuleType:
    """Import a plugin file; raises `UsageError`, with `file` as its name, if that fails."""
    if not path.exists():
        raise UsageError(f"plugin {file}: no such file")
    if not path.is_file() or path.suffix != ".py":
        raise UsageError(f"plugin {file}: expected a Python file, such as registers.py")
    name = f"stacktrans_plugin_{path.stem}_{zlib.crc32(os.fsencode(path)):08x}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"plugin {file}: {_import_error(error)}") from error
    _remember(module)
    return module


def _remember(module: ModuleType) -> None:
    """Record that a module belongs to a plugin."""
    _plugin_modules[str(module.__file__)] = module


def _import_error(error: BaseException) -> str:
    """The location, type and message of an error in the import of a plugin."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", _PACKAGE))
        and "importlib" not in frame.filename
    ]
    return _located(error, [frame for frame in frames if frame.filename == frames[0].filename])


def plugin_error(error: BaseException) -> str | None:
    """The location, type and message of an error raised in a plugin; None for other errors."""
    frames = traceback.extract_tb(error.__traceback__)
    in_plugins = [frame for frame in frames if frame.filename in _plugin_modules]
    return _located(error, in_plugins) if in_plugins else None


def _located(error: BaseException, frames: list[traceback.FrameSummary]) -> str:
    location = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{location}{type(error).__name__}: {error}"


def use_plugins(*files: str | os.PathLike[str]) -> None:
    """Load plugin files, in this process and in those that it will start.

    Raises:
        UsageError: a file does not exist, can't be imported, defines no class of any registry, or
            has changed since it was loaded.
    """
    given = [*map(str, files)]
    named = os.environ.get(PLUGINS, "").split(os.pathsep)
    for file in [*filter(None, named), *given]:
        if file in _plugins and file not in given:  # resolving a path is slow
            continue
        try:
            path = os.path.realpath(file)
        except ValueError as error:  # a NUL
            raise UsageError(f"plugin {file!r}: not the name of a file") from error
        if os.pathsep in path:  # the separator in the environment variable
            raise UsageError(f"plugin {file}: expected a path without {os.pathsep}")
        if path not in _plugins:
            module = _import_file(Path(path), file)
            classes = {registry.kind: registry.classes_in(module, file) for registry in REGISTRIES}
            if not any(classes.values()):
                kinds = "a memory, controller or generator"
                raise UsageError(f"plugin {file}: expected {kinds} with a name in it")
            _plugins[path] = file, classes, _checksum(path)
            os.environ[PLUGINS] = os.pathsep.join(_plugins)
        elif file in given and os.path.exists(path) and _checksum(path) != _plugins[path][2]:
            raise UsageError(f"plugin {file}: changed since it was loaded; restart Python")


def _checksum(path: str) -> int:
    return zlib.crc32(Path(path).read_bytes())


def plugin_files() -> list[str]:
    """The paths of the loaded plugin files."""
    return [*_plugins]


def plugin_options() -> list[str]:
    """The options that load the same plugins in another command."""
    return [word for file, *_ in _plugins.values() for word in ("--plugin", file)]


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
        "superposed": "stacktrans.memory.actions.definition:SuperposedStack",
        "tape": "stacktrans.memory.actions.definition:Tape",
        "nondeterministic": "stacktrans.memory.nondeterministic:NondeterministicStack",
        "none": "stacktrans.memory.strengths.definition:NoMemory",
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
        "second-order": "stacktrans.model.units:SecondOrder",
        "linear": "stacktrans.model.units:Linear",
        "attention": "stacktrans.model.units:Attention",
        "transformer": "stacktrans.model.units:Transformer",
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
        "grammar": "stacktrans.tasks.grammatical:GrammarTask",
        "same-length-grammar": "stacktrans.tasks.grammatical:SameLengthGrammarTask",
        "membership": "stacktrans.tasks.membership:Membership",
        "next-symbol": "stacktrans.tasks.grammatical:NextSymbolTask",
        "waiting-reversal": "stacktrans.tasks.computed:WaitingReversal",
        "parity": "stacktrans.tasks.computed:Parity",
        "delayed-parity": "stacktrans.tasks.computed:DelayedParity",
        "counting": "stacktrans.tasks.streams:Counting",
        "memorization": "stacktrans.tasks.streams:Memorization",
        "addition": "stacktrans.tasks.streams:Addition",
        "even-pairs": "stacktrans.tasks.chomsky:EvenPairs",
        "parity-check": "stacktrans.tasks.chomsky:ParityCheck",
        "cycle-navigation": "stacktrans.tasks.chomsky:CycleNavigation",
        "reverse-string": "stacktrans.tasks.chomsky:ReverseString",
        "duplicate-string": "stacktrans.tasks.chomsky:DuplicateString",
        "missing-duplicate-string": "stacktrans.tasks.chomsky:MissingDuplicateString",
        "odds-first": "stacktrans.tasks.chomsky:OddsFirst",
        "bucket-sort": "stacktrans.tasks.chomsky:BucketSort",
        "stack-manipulation": "stacktrans.tasks.chomsky:StackManipulation",
        "binary-addition": "stacktrans.tasks.chomsky:BinaryAddition",
        "binary-multiplication": "stacktrans.tasks.chomsky:BinaryMultiplication",
        "compute-sqrt": "stacktrans.tasks.chomsky:ComputeSqrt",
        "modular-arithmetic": "stacktrans.tasks.chomsky:ModularArithmetic",
        "modular-arithmetic-brackets": "stacktrans.tasks.chomsky:ModularArithmeticBrackets",
        "solve-equation": "stacktrans.tasks.chomsky:SolveEquation",
        "text": "stacktrans.tasks.corpus:Corpus",
        "pairs": "stacktrans.tasks.pairs:Pairs",
    },
)
REGISTRIES = (MEMORIES, CONTROLLERS, GENERATORS)
