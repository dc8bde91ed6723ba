"""Grammars of bracket languages: recognized by the form of their rules."""

from stacktrans.grammar import Grammar
from stacktrans.grammar.rules import Nonterminal, Part


def bracketing(grammar: Grammar) -> tuple[dict[str, str], bool] | None:
    """Recognize a grammar whose sources are a Dyck language: concatenated and nested brackets.

    The rules must have the form S -> S T | T S | T, perhaps without one of the first two, and
    T -> ( X ) | ( ) for each pair, where X is always S or always T. Other grammars of the same
    language are not recognized.

    Returns:
        The closing bracket of each opening one, and whether a pair may contain several pairs side
        by side, and not one at most; None if the rules have another form.
    """
    rules, whole = grammar.rules, Nonterminal(grammar.root)
    row = {each.source for each in rules[grammar.root]}
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
) -> tuple[dict[str, str], bool] | None:
    """The brackets of the alternatives T -> ( X ) | ( ); None if they have another form."""
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
    return {str(first): str(last) for first, last in closing.items()}, inner == whole
