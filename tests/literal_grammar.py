"""Reference derivation by a grammar's rules as written, for comparison with `Grammar`."""

import itertools
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

TASKS = Path(__file__).parent.parent / "tasks"

Parameters = dict[str, Any]
Literal = dict[str, list[tuple[float, list[str], list[str]]]]
"""Each nonterminal's alternatives as they are written: probability, source, target."""


def parameters_of(name: str) -> Parameters:
    """The parameters of a shipped grammar task."""
    task = yaml.safe_load((TASKS / f"{name}.yaml").read_text())
    assert task["name"] == name
    assert task["generator"] == "grammar"
    parameters: Parameters = task["parameters"]
    return parameters


def rules(**alternatives: list[str]) -> Parameters:
    """Parameters from lines `probability: source / target`; the first nonterminal is the root."""
    return {
        "root": next(iter(alternatives)),
        "rules": {
            name: [alternative(line) for line in lines] for name, lines in alternatives.items()
        },
    }


def alternative(line: str) -> dict[str, str]:
    probability, _, sides = line.partition(": ")
    source, slash, target = sides.partition(" / ")
    return {"probability": probability, "source": source} | ({"target": target} if slash else {})


def literal(parameters: Parameters) -> Literal:
    read: Literal = {}
    for name, alternatives in parameters["rules"].items():
        read[name] = []
        for written in alternatives:
            ((key, (first, last)),) = written.get("each", {"k": [1, 1]}).items()
            share = float(Fraction(written["probability"])) / (last - first + 1)
            for value in range(first, last + 1):
                source, target = (
                    side.replace(f"{{{key}}}", str(value)).split()
                    for side in (written["source"], written.get("target", written["source"]))
                )
                read[name].append((share, source, target))
    return read


Form = tuple[float, tuple[str, ...], tuple[str, ...]]
"""Probability, source and target of a derivation that need not have ended."""


def rewritten(form: Form, grammar: Literal, fresh: Iterator[int]) -> list[Form]:
    """The forms with the leftmost nonterminal rewritten; none if there is no nonterminal."""
    probability, source, target = form
    places = [place for place, token in enumerate(source) if ":" in token]
    if not places:
        return []
    place, token = places[0], source[places[0]]
    forms = []
    for share, left, right in grammar[token.partition(":")[0]]:
        # Links of the replacement must not be mistaken for those already there.
        mark = next(fresh)
        new_source, new_target = (
            tuple(f"{part}.{mark}" if ":" in part else part for part in side)
            for side in (left, right)
        )
        at = target.index(token)
        forms.append(
            (
                probability * share,
                source[:place] + new_source + source[place + 1 :],
                target[:at] + new_target + target[at + 1 :],
            )
        )
    return forms


def sentences(parameters: Parameters, longest: int) -> list[Form]:
    """All complete derivations of at most `longest` source words.

    A sentential form never becomes shorter, so longer ones are dropped.
    """
    grammar, fresh = literal(parameters), itertools.count()
    root = f"{parameters['root']}:0"
    pending: list[Form] = [(1.0, (root,), (root,))]
    ended = []
    while pending:
        form = pending.pop()
        if not any(":" in token for token in form[1]):
            ended.append(form)
            continue
        pending += [each for each in rewritten(form, grammar, fresh) if len(each[1]) <= longest]
    return ended


def begins_sentence(parameters: Parameters, words: Sequence[str]) -> bool:
    """Whether a sentence begins with these words, by search through sentential forms.

    Every symbol yields at least one word, so symbols beyond the number of words are cut off, which
    leaves finitely many forms.
    """
    grammar = literal(parameters)
    seen: set[tuple[int, tuple[str, ...]]] = set()
    pending: list[tuple[int, tuple[str, ...]]] = [(0, (parameters["root"],))]
    while pending:
        read, rest = pending.pop()
        if read == len(words):
            return True
        state = (read, rest[: len(words) - read])
        if state in seen or not rest:
            continue
        seen.add(state)
        head, tail = rest[0], state[1][1:]
        if head not in grammar:
            pending += [(read + 1, tail)] if head == words[read] else []
            continue
        for _, source, _ in grammar[head]:
            pending.append((read, tuple(part.partition(":")[0] for part in source) + tail))
    return False


def drawn_literally(
    grammar: Literal, root: str, generator: random.Random, longest: int
) -> tuple[str, ...] | None:
    """The source of a derivation by the rules as written; None if it becomes too long."""
    source: list[str] = []
    pending = [root]
    while pending:
        if len(source) + len(pending) > longest:
            return None
        name = pending.pop()
        if name not in grammar:
            source.append(name)
            continue
        ((_, parts, _),) = generator.choices(
            grammar[name], [share for share, _, _ in grammar[name]]
        )
        pending += [part.partition(":")[0] for part in reversed(parts)]
    return tuple(source)


@st.composite
def small_grammars(draw: st.DrawFn) -> Parameters:
    """Grammars of three nonterminals, each with a word of its own to end in."""
    names = ["S", "T", "U"]
    written: dict[str, list[dict[str, object]]] = {}
    for rank, name in enumerate(names):
        alternatives = [[draw(st.sampled_from("ab"))]]
        for _ in range(draw(st.integers(1, 2))):
            parts = draw(st.lists(st.sampled_from([*names, "a", "b", "c"]), min_size=1, max_size=4))
            # Unit productions to later names alone cannot go round in a circle.
            if len(parts) > 1 or parts[0] not in names[: rank + 1]:
                alternatives.append(parts)
        weights = [draw(st.integers(1, 5)) for _ in alternatives]
        written[name] = []
        for weight, parts in zip(weights, alternatives, strict=True):
            source = [f"{p}:{i}" if p in names else p for i, p in enumerate(parts)]
            target = draw(st.permutations([part for part in source if ":" in part]))
            target += draw(st.lists(st.sampled_from("xy"), min_size=not target, max_size=1))
            written[name].append(
                {
                    "probability": f"{weight}/{sum(weights)}",
                    "source": " ".join(source),
                    "target": " ".join(target),
                }
            )
    return {"root": "S", "rules": written}
