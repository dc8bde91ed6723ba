"""Items of similar size, together."""

from collections.abc import Iterator, Sequence

STEPS_AT_ONCE = 2**16
"""The most steps of all strings that are run at once, unless one alone takes more."""


def batches_of(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Group indices of items of similar size, so that count times largest size stays within `most`.

    An item larger than `most` gets a group of its own.
    """
    group: list[int] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        if group and (len(group) + 1) * sizes[index] > most:
            yield group
            group = []
        group.append(index)
    if group:
        yield group
