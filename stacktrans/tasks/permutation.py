"""Interchangeable symbols, inferred from pairs by statistical tests; pairs with them permuted.

If permuting some symbols of a source permutes those of its target in the same way, a pair with
permuted symbols is right, too. Few pairs thus become many. See Gordon et al. 2020, Permutation
Equivariant Models for Compositional Generalization in Language (ICLR); and Akyürek and Andreas
2023, LexSym: Compositionality as Lexical Symmetry, https://arxiv.org/abs/2201.12926.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from stacktrans.common.ragged import Ragged
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layout import Pair

MAX_SYMBOLS = 1000
"""Symbols of an alphabet up to which classes are searched for."""
MIN_SYMBOLS = 5
"""Minimum number of symbols of a class: even few pairs show most combinations of fewer."""
MIN_EXPECTED = 5.0
"""Minimum number of targets expected to have a symbol, by chance, for its absence to be
evidence."""
MIN_EQUAL = 5
"""Minimum number of pairs whose sources are equal up to permutation, for these to be evidence."""
MAX_EXCEPTION_SHARE = 0.05
"""Share of the evidence that may contradict a class, since pairs may be wrong."""
SIGNIFICANCE = 1e-5
"""Probability under which a difference between symbols is not taken for chance."""

_Members = dict[int, tuple[int, int, int]]
"""The class of each symbol, its row and its column there."""
Counts = npt.NDArray[np.float64]


class SymbolClass(NamedTuple):
    """Interchangeable symbols.

    Attributes:
        sources: [k] their ids in sources.
        targets: [k, m] the symbols of targets that stand for each.
    """

    sources: Ids
    targets: Ids

    def permute(self, rng: np.random.Generator, pair: Pair) -> Pair:
        """Permute the symbols of a pair at random."""
        order = rng.permutation(len(self.sources))
        strings = []
        for ids, string in ((self.sources, pair.source), (self.targets, pair.target)):
            images = np.arange(1 + max(ids.max(initial=0), string.max(initial=0)))
            images[ids] = ids[order]
            strings.append(images[string])
        return pair._replace(source=strings[0], target=strings[1])


def interchangeable_classes(pairs: Sequence[Pair], known: int) -> Sequence[SymbolClass]:
    """The classes of symbols that seem interchangeable; none if there are too many symbols.

    A symbol of targets stands for a symbol of sources if it only occurs where the other does. Sets
    of symbols for which as many stand are split, by partition refinement, until they do not differ
    in their neighbors, nor in how often they occur in a source and in its target. The classes
    are kept if enough pairs have sources that are equal up to permutations, and nearly all of their
    targets are equal in the same way.

    Args:
        pairs: the pairs.
        known: the number of symbols of sources; ids from there on are features.
    """
    strings = Ragged.of([pair.source for pair in pairs]), Ragged.of([pair.target for pair in pairs])
    sizes = [1 + int(each.values.max(initial=-1)) for each in strings]
    if not (known and min(sizes)) or max(sizes) > MAX_SYMBOLS:
        return []
    counts = _counts(strings[0], sizes[0])[:, :known], _counts(strings[1], sizes[1])
    neighbors = _neighbors(pairs, *sizes)
    classes, number = _candidates(*counts), 0
    while number < len(classes):
        number = len(classes)
        classes = [part for each in classes for part in _split(each, counts, neighbors)]
    classes = [each for each in classes if len(each.sources) >= MIN_SYMBOLS]
    return classes if _is_supported(pairs, classes) else []


def _counts(strings: Ragged, size: int) -> Counts:
    """[n, size] how often each string has each symbol."""
    cells = strings.row_indices * size + strings.values
    return np.bincount(cells, minlength=len(strings) * size).reshape(-1, size).astype(np.float64)


def _neighbors(pairs: Sequence[Pair], sources: int, answers: int) -> Counts:
    """[m, m] the number of pairs where a symbol follows another.

    Those of sources are counted from 0, those of targets from -2 backwards; -1 is the boundary.
    """
    size = sources + answers + 1
    table = np.zeros(size * size)
    for pair in pairs:
        text = np.concatenate([[-1], pair.source, [-1], -2 - pair.target, [-1]]) % size
        # Counted once a pair, since what an answer repeats is no further evidence.
        table[text[:-1] * size + text[1:]] += 1
    return table.reshape(size, size)


def _candidates(sources: Counts, targets: Counts) -> list[SymbolClass]:
    """Classes of symbols by the number of symbols of targets that stand for them."""
    absent = (sources == 0).astype(np.float64)
    shares = targets.sum(axis=0) / targets.sum()
    # In as many targets whose sources lack x, y is expected if it does not depend on x.
    expected = absent.T @ (1 - (1 - shares) ** targets.sum(axis=1, keepdims=True))
    rates = absent.T @ (targets > 0) / np.maximum(expected, MIN_EXPECTED)
    rates[expected < MIN_EXPECTED] = 0.5
    best = rates.argmin(axis=0)
    stands = rates.min(axis=0) <= MAX_EXCEPTION_SHARE
    images = [np.flatnonzero(stands & (best == symbol)) for symbol in range(len(rates))]
    independent = (rates > 0.5).all(axis=1)
    by_count = defaultdict[int, list[Ids]](list)
    for symbol, each in enumerate(images):
        if len(each) or independent[symbol]:
            by_count[len(each)].append(np.append(symbol, each))
    return [SymbolClass(rows[:, 0], rows[:, 1:]) for rows in map(np.stack, by_count.values())]


def _split(
    whole: SymbolClass, counts: tuple[Counts, Counts], neighbors: Counts
) -> Iterator[SymbolClass]:
    """Split a class into parts whose symbols do not differ."""
    tables = _contingency_tables(whole, *counts, neighbors)

    def fits(symbol: int, part: list[int]) -> bool:
        both = (np.stack([table[part].sum(axis=0), table[symbol]]) for table in tables)
        return all(_g_test(table) > SIGNIFICANCE for table in both)

    members = range(len(whole.sources))
    parts: list[list[int]] = []
    for symbol in members:
        part = next((part for part in parts if fits(symbol, part)), [])
        part.append(symbol)
        if len(part) == 1:
            parts.append(part)
    # A symbol that fits into two parts shows that symbols differ by degrees, as in an order.
    large = [part for part in parts if len(part) >= MIN_SYMBOLS]
    if any(symbol not in part and fits(symbol, part) for part in large for symbol in members):
        parts = [[symbol] for symbol in members]
    return (SymbolClass(*(ids[part] for ids in whole)) for part in parts)


def _contingency_tables(
    whole: SymbolClass, sources: Counts, targets: Counts, neighbors: Counts
) -> list[Counts]:
    """Tables of counts, [k, ...], whose rows do not differ if symbols are interchangeable."""
    in_sources = np.minimum(sources[:, whole.sources], 2)
    tables = []
    if not whole.targets.size:
        tables.append((in_sources > 0).astype(np.float64).T @ (targets > 0))
    for ids in whole.targets.T:
        cells = 3 * np.minimum(targets[:, ids], 3) + in_sources
        tables.append(np.stack([(cells == cell).sum(axis=0) for cell in range(12)], axis=1))
    for ids in (whole.sources, *(-2 - whole.targets.T)):
        for rows in (neighbors[ids], neighbors.T[ids]):
            own, inside = np.diag(rows[:, ids]), rows[:, ids].sum(axis=1)
            tables.append(np.column_stack([own, inside - own, np.delete(rows, ids, axis=1)]))
    return tables


def _g_test(table: Counts) -> float:
    """The p-value of a G-test of homogeneity of rows of counts."""
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    statistic = 2 * sum(map(_n_log_n, (table, -rows, -columns, table.sum())))
    freedom = (np.count_nonzero(rows) - 1) * (np.count_nonzero(columns) - 1)
    halves = torch.tensor([freedom / 2, max(statistic, 0.0) / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(*halves)) if freedom > 0 else 1.0


def _n_log_n(counts: Any) -> float:
    """The sum of n log |n|."""
    return float((counts * np.log(np.maximum(np.abs(counts), 1))).sum())


def _is_supported(pairs: Sequence[Pair], classes: Sequence[SymbolClass]) -> bool:
    """Whether pairs whose sources are equal up to permutations have such targets, too."""
    members: tuple[_Members, _Members] = ({}, {})
    for number, each in enumerate(classes):
        members[0].update((id_, (number, row, 0)) for row, id_ in enumerate(each.sources.tolist()))
        cells = np.ndenumerate(each.targets)
        members[1].update((int(id_), (number, *cell)) for cell, id_ in cells)
    groups = defaultdict[Any, Counter[Any]](Counter)
    for pair in pairs:
        order = dict[tuple[int, int], int]()
        source, target = map(partial(_pattern, order=order), pair[:2], members)
        groups[source][target] += 1
    several = [group for group in groups.values() if group.total() > 1]
    equal = sum(group.total() for group in several)
    agreeing = sum(max(group.values()) for group in several)
    return equal >= MIN_EQUAL and agreeing >= (1 - MAX_EXCEPTION_SHARE) * equal


def _pattern(string: Ids, members: "_Members", order: dict[tuple[int, int], int]) -> Any:
    """A string in which members of classes are replaced by the order of their first appearance."""
    symbols = [members.get(symbol, (-1 - symbol, 0, 0)) for symbol in string.tolist()]
    return tuple((n, order.setdefault((n, row), len(order)), column) for n, row, column in symbols)
