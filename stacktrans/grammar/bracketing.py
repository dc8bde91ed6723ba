"""Recognizing grammars of brackets by the shape of their rules."""

from __future__ import annotations

from typing import NamedTuple

from stacktrans.grammar.rules import Nonterminal, Part, Rules


class Bracketing(NamedTuple):
    """A language of pairs of brackets, side by side and within one another.

    Attributes:
        closing: the closing bracket of each opening one.
        inner: whether pairs stand side by side within a pair, too; otherwise there is one at most.
    """

    closing: dict[str, str]
    inner: bool


def bracketing(root: str, rules: Rules) -> Bracketing | None:
    """The brackets that a grammar's source side derives.

    These have rules like S -> S T | T S | T, or without one of the first two, and
    T -> ( X ) | ( ) for each pair, where X is always S or always T. Others derive the same strings
    and are not recognized.

    Args:
        root: the nonterminal that derives sentences.
        rules: the alternatives of each nonterminal.

    Returns:
        None if the rules have another shape.
    """
    row, whole = {each.source for each in rules[root]}, Nonterminal(root)
    alone = [side[0] for side in row if len(side) == 1]
    pair = alone[0] if len(alone) == 1 else whole
    if not isinstance(pair, Nonterminal) or pair == whole:
        return None
    longer = row - {(pair,)}
    if not longer or not longer <= {(whole, pair), (pair, whole)}:
        return None
    return _pairs({each.source for each in rules[pair.name]}, whole, pair)


def _pairs(
    sides: set[tuple[Part, ...]], whole: Nonterminal, pair: Nonterminal
) -> Bracketing | None:
    """The brackets of pairs; None if these are none."""
    closing = {side[0]: side[1] for side in sides if len(side) == 2}
    inside = {side[1] for side in sides if len(side) == 3}
    for inner in (whole, pair):
        nested = {(first, inner, last) for first, last in closing.items()}
        if inside == {inner} and sides == {*closing.items()} | nested:
            break
    else:
        return None
    opening, closed = {*closing}, {*closing.values()}
    if opening & closed or any(isinstance(each, Nonterminal) for each in opening | closed):
        return None
    return Bracketing({str(first): str(last) for first, last in closing.items()}, inner == whole)
