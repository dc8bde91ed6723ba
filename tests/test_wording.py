"""Words that sentences are made of."""

import pytest

from stacktrans.common.visible import counted, listed


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")],
)
def test_names_are_listed_with_a_word_before_the_last(names: list[str], expected: str) -> None:
    assert listed(names, "or") == expected


def test_counted_nouns_are_singular_or_plural() -> None:
    assert counted(1, "rule") == "1 rule"
    assert counted(1200, "rule") == "1,200 rules"
    assert counted(0, "pair of states", "pairs of states") == "0 pairs of states"
