"""Rules of weighted synchronous grammars: how they are read from task files, and checked."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter

from stacktrans.common.errors import abridged, shown, unknown_name

KEYS = ("source", "target", "probability", "each")
"""The keys of an alternative."""
REFERENCE = re.compile(r"[^\s:{}]+:[0-9]+")
PROBABILITY_TOLERANCE = 1e-9
MAX_VALUES = 100_000
"""The maximum number of values of a placeholder."""
MAX_PARTS = 500_000
"""The maximum number of words and nonterminals on all right-hand sides of a grammar."""
SHORT_NUMBER = re.compile(r"[-+\d._/\s]{,100}([eE][-+]?\d{,3}\s*)?")
"""A number or fraction that is short enough to convert."""


class GrammarError(ValueError):
    """An invalid grammar, or a request for what a grammar cannot derive.

    Attributes:
        location: keys and indices of the wrong value in a task file's `parameters`.
    """

    def __init__(self, message: str, *location: str | int) -> None:
        self.location = location
        super().__init__(message)

    @classmethod
    def of(cls, nonterminal: str, message: str, *index: int) -> GrammarError:
        """An error of a nonterminal, or of one of its alternatives."""
        where = "".join(f", alternative {number + 1}" for number in index)
        message = f"nonterminal '{nonterminal}'{where}: {message}"
        return cls(message, "rules", nonterminal, *index)


@dataclass(frozen=True, slots=True)
class Nonterminal:
    """A nonterminal on the right-hand side of an alternative."""

    name: str


Part = str | Nonterminal
"""An item of the right-hand side of a source: a terminal or a nonterminal."""

Sentence = tuple[list[str], list[str]]
"""The source and the target of a derivation."""

Template = tuple[str | int, ...]
"""The right-hand side of a target: i refers to the i-th nonterminal of the source, from 0."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A weighted pair of right-hand sides of a nonterminal."""

    probability: float
    source: tuple[Part, ...]
    target: Template

    @property
    def arity(self) -> int:
        """The number of nonterminals on each side."""
        return sum(isinstance(part, Nonterminal) for part in self.source)

    @property
    def unit(self) -> str | None:
        """The nonterminal of a unit production; None for other alternatives."""
        first = self.source[0]
        return first.name if len(self.source) == 1 and isinstance(first, Nonterminal) else None


Rules = Mapping[str, Sequence[Alternative]]


def read_rules(rules: object) -> dict[str, list[Alternative]]:
    """Read the alternatives of each nonterminal of a task file; raises `GrammarError`."""
    if not isinstance(rules, Mapping) or not rules:
        raise GrammarError(
            f"rules: {shown(rules)}; expected nonterminals with their alternatives", "rules"
        )
    for name in rules:
        if not isinstance(name, str) or not re.fullmatch(r"[^\s:{}]+", name):
            raise GrammarError(
                f"rules: {shown(name)} is not a name of a nonterminal; expected a string (in "
                "quotes if YAML reads it as something else) without spaces, colons and braces",
                "rules",
            )
    read: dict[str, list[Alternative]] = {name: [] for name in rules}
    names, room = set(rules), MAX_PARTS
    for name, listed in rules.items():
        if not isinstance(listed, list) or not listed:
            raise GrammarError.of(name, f"{shown(listed)}; expected a list of alternatives")
        share = _share_of_rest(listed)
        for index, written in enumerate(listed):
            try:
                alternatives = _read_alternative(written, share, names, room)
            except GrammarError as error:
                raise GrammarError.of(name, str(error), index) from None
            room -= sum(len(each.source) + len(each.target) for each in alternatives)
            read[name] += alternatives
    return read


def _share_of_rest(listed: Sequence[object]) -> float:
    """The share of the rest for each alternative without a probability; 1 if all have one."""
    given = [each.get("probability") for each in listed if isinstance(each, Mapping)]
    if None not in given:
        return 1.0
    rest = 1.0
    for probability in filter(None, given):
        with suppress(GrammarError):  # reported where the alternative is read
            rest -= _read_probability(probability)
    return rest / given.count(None)


def _read_alternative(
    written: object, share: float, names: set[str], room: int
) -> list[Alternative]:
    """Read the alternatives of an entry of a list, which are several with `each`.

    Args:
        written: the entry.
        share: its probability if it gives none.
        names: of the nonterminals.
        room: the most words and nonterminals that it may have.
    """
    if not isinstance(written, Mapping):
        raise GrammarError(
            f"{shown(written)}; expected {{probability: ..., source: ..., target: ...}}"
        )
    for key in written:
        if key not in KEYS:
            raise GrammarError(unknown_name("key of an alternative", str(key), KEYS))
    if "source" not in written:
        raise GrammarError("an alternative has no 'source'; expected source")
    if written.get("probability") is not None:
        probability = _read_probability(written["probability"])
    elif share > PROBABILITY_TOLERANCE:
        probability = share
    else:
        raise GrammarError("it has no probability, and the others leave none; expected one")
    source = _read_side("source", written["source"])
    target = _read_side("target", written.get("target", written["source"]))
    _check_words([*source, *target], names)
    name, values = _read_each(written.get("each"))
    if len(values) * (len(source) + len(target)) > room:
        raise GrammarError(f"more than {MAX_PARTS} words and nonterminals so far; expected fewer")
    _check_placeholders(name, source, target)
    return [
        Alternative(
            probability / len(values),
            *_linked(_fill(source, name, value), _fill(target, name, value), names),
        )
        for value in values
    ]


def _read_probability(written: object) -> float:
    probability = math.nan
    if isinstance(written, int | float | str) and not isinstance(written, bool):
        with suppress(ValueError, OverflowError, ZeroDivisionError):
            if not isinstance(written, str) or SHORT_NUMBER.fullmatch(written):
                probability = float(Fraction(written))
    if not 0 < probability <= 1:
        raise GrammarError(
            f"the probability is {shown(written)}; expected a number or fraction above 0, at most 1"
        )
    return probability


def _read_side(side: str, written: object) -> list[str]:
    if isinstance(written, str) and not written.split():
        raise GrammarError(
            f"the {side} is empty, which a grammar can't express; expected words or nonterminals "
            "(where this one may be left out, an alternative without it)"
        )
    if not isinstance(written, str):
        raise GrammarError(f"the {side} is {shown(written)}; expected words or nonterminals")
    return written.split()


def _check_words(tokens: Sequence[str], names: set[str]) -> None:
    """Raise `GrammarError` for words that look like nonterminals, such as S, S1 and S:x for S:1."""
    for token in tokens:
        if not re.fullmatch(REFERENCE, token):
            meant = {token, token.partition(":")[0], token.rstrip("0123456789")} & names
            if meant:
                name = max(meant, key=len)
                raise GrammarError(
                    f"'{token}' looks like the nonterminal {name} without its index; "
                    f"expected '{name}:1', or another word"
                )


def _read_each(each: object) -> tuple[str | None, range]:
    """The placeholder of `each` and its values; None and a single value without one."""
    if each is None:
        return None, range(1)
    match [*each.items()] if isinstance(each, Mapping) else []:
        case [(name, [int(first), int(last)])] if first <= last < first + MAX_VALUES:
            if not (isinstance(first, bool) or isinstance(last, bool)):
                return str(name), range(first, last + 1)
    raise GrammarError(
        f"each is {shown(each)}; expected one name and its values, as in {{k: [first, last]}}, "
        f"at most {MAX_VALUES} of them"
    )


def _check_placeholders(name: str | None, source: Sequence[str], target: Sequence[str]) -> None:
    for used in re.findall(r"{(\w+)}", " ".join([*source, *target])):
        if used != name:
            each = f"each: {{{used}: [first, last]}}" if name is None else f"{{{name}}}, as in each"
            raise GrammarError(f"{{{used}}} has no values; expected {each}")
    if name is not None and f"{{{name}}}" not in " ".join(source):
        raise GrammarError(f"the source has no {{{name}}}; expected one, as each gives it values")


def _fill(tokens: Sequence[str], name: str | None, value: int) -> list[str]:
    return [token.replace(f"{{{name}}}", str(value)) for token in tokens]


def _linked(
    source: Sequence[str], target: Sequence[str], names: set[str]
) -> tuple[tuple[Part, ...], Template]:
    """Both sides, with indices replaced by positions among the nonterminals of the source."""
    positions = {token: index for index, token in enumerate(_references(source, names))}
    if positions.keys() != set(_references(target, names)):
        raise GrammarError(
            f"source {shown(' '.join(source))} and target {shown(' '.join(target))} do not link "
            "the same nonterminals; expected the same names with the same indices"
        )
    parts = (Nonterminal(each.partition(":")[0]) if each in positions else each for each in source)
    return tuple(parts), tuple(positions.get(token, token) for token in target)


def _references(tokens: Sequence[str], names: set[str]) -> list[str]:
    """The tokens that are nonterminals; raises `GrammarError` if two have the same index."""
    references = [token for token in tokens if re.fullmatch(REFERENCE, token)]
    indices: set[str] = set()
    for name, _, index in (reference.partition(":") for reference in references):
        if name not in names:
            raise GrammarError(unknown_name("nonterminal", name, names))
        if index in indices:
            raise GrammarError(
                f"{shown(' '.join(tokens))} has index {index} twice; expected it once"
            )
        indices.add(index)
    return references


def check_rules(root: str, rules: Rules) -> None:
    """Raise `GrammarError` for wrong probabilities, unit cycles, or unproductive nonterminals."""
    if root not in rules:
        raise GrammarError(f"root: {unknown_name('nonterminal', root, rules)}", "root")
    for name, alternatives in rules.items():
        total = math.fsum(each.probability for each in alternatives)
        if abs(total - 1) > PROBABILITY_TOLERANCE:
            raise GrammarError.of(name, f"the probabilities sum to {total:.10g}; expected 1")
    try:
        TopologicalSorter(unit_links(rules)).prepare()
    except CycleError as error:
        circle = " -> ".join(abridged([*reversed(error.args[1])]))
        raise GrammarError.of(
            error.args[1][0],
            f"a cycle of unit productions ({circle}); expected none, since derivations could be "
            "infinite",
        ) from None
    productive = _productive(rules)
    endless = [name for name in rules if name not in productive]
    if endless:
        raise GrammarError(
            f"no derivation from {', '.join(abridged(endless))} ever ends; expected each "
            "nonterminal to have an alternative whose nonterminals can all end in words",
            "rules",
            endless[0],
        )


def _productive(rules: Rules) -> set[str]:
    """The nonterminals with a finite derivation, in time linear in the size of the rules."""
    pending = [
        (name, [part.name for part in each.source if isinstance(part, Nonterminal)])
        for name, alternatives in rules.items()
        for each in alternatives
    ]
    waiting = defaultdict(list)
    productive: set[str] = set()
    while pending:
        name, parts = pending.pop()
        while parts and parts[-1] in productive:
            parts.pop()
        if parts:
            waiting[parts[-1]].append((name, parts))
        elif name not in productive:
            productive.add(name)
            pending += waiting[name]
    return productive


def unit_links(rules: Rules) -> dict[str, list[str]]:
    """For each nonterminal, those of its unit productions."""
    return {
        name: [each.unit for each in alternatives if each.unit is not None]
        for name, alternatives in rules.items()
    }
