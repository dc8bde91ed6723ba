"""Edits that turn a target into an answer: substitutions, insertions and deletions of symbols."""

from collections.abc import Iterator
from typing import NamedTuple

from stacktrans.tasks.alphabets import Alphabet

KINDS = {"replace": "substitutions", "insert": "insertions", "delete": "deletions"}
"""The kinds of edits, by their names in rapidfuzz."""
THIRDS = ("start", "middle", "end")
"""The positions of edits: thirds of the target."""


class Edit(NamedTuple):
    """A difference of an answer from its target.

    Attributes:
        target: the symbol of the target; empty for an insertion.
        answer: the symbol of the answer instead; empty for a deletion.
        kind: one of the values of `KINDS`.
        third: the third of the target that it is in, one of `THIRDS`.
    """

    target: str
    answer: str
    kind: str
    third: str


def edits_of(alphabet: Alphabet, target: list[int], answer: list[int]) -> Iterator[Edit]:
    """The fewest edits that turn a target into an answer, both given as ids, from left to right."""
    from rapidfuzz.distance import Levenshtein  # waits until it is needed

    before, after = alphabet.decode(target), alphabet.decode(answer)
    for edit in Levenshtein.editops(target, answer):
        third = THIRDS[min(3 * edit.src_pos // max(len(target), 1), 2)]
        old = "" if edit.tag == "insert" else before[edit.src_pos]
        new = "" if edit.tag == "delete" else after[edit.dest_pos]
        yield Edit(old, new, KINDS[edit.tag], third)
