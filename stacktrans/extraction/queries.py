"""Queries: short and random strings, a model's answers to them, and counterexamples.

A query of a stream is a row of sequences, one after another, since what a sequence leaves behind
can spoil the next. Random rows have 1 to `LONGEST_ROW` sequences, in turn.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.automata.execution import AutomatonModel
from stacktrans.automata.machine import Machine
from stacktrans.common.randomness import Purpose, generator
from stacktrans.decoding.decoder import Observer, decode, predict
from stacktrans.decoding.model import Model
from stacktrans.extraction.limits import Deadline
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import FEW_SYMBOLS, LARGE_ALPHABET, Ids, Mask
from stacktrans.tasks.base import held_out_pairs, random_subset
from stacktrans.tasks.encoding import encode
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lengths import LengthDistribution, Lengths, NoSuchLength

MAX_SHORT = 1500
"""The most short strings, which limits their length."""
MAX_CANDIDATES = 20_000
"""The most strings that are generated to find short ones that the task has an answer for."""
FIRST_CANDIDATES = 1000
"""The most of them among which there has to be such a string."""
LONGEST_ROW = 8
"""The most sequences of a stream in a row."""
FIRST, BLOCK = 30, 250
"""The queries that a simpler model answers first, and those of each block after them."""


class Query(NamedTuple):
    """A query: a string that network and machine answer.

    Attributes:
        ids: the source; of a stream, all that is read.
        scored: of each output, whether it is scored; None where all are.
    """

    ids: Ids
    scored: Mask | None


class ShortQueries(NamedTuple):
    """All strings of a task up to a length, over its first symbols.

    Attributes:
        queries: the strings.
        symbols: the number of symbols that they are made of.
        longest: their greatest length.
    """

    queries: list[Query]
    symbols: int
    longest: int


def short_queries(checkpoint: Checkpoint, deadline: Deadline) -> ShortQueries:
    """All strings up to a length that the task has an answer for.

    They are at most `MAX_SHORT`, and fewer if time runs out.
    """
    task = checkpoint.task
    symbols = FEW_SYMBOLS if len(task.source) > LARGE_ALPHABET else len(task.source)
    queries, candidates, longest = list[Query](), 0, 0
    for length in itertools.count(1):
        candidates += symbols**length
        most = MAX_CANDIDATES if queries else FIRST_CANDIDATES
        if candidates > most or length > checkpoint.config.task.ranges.test.longest:
            break
        sources = itertools.product(task.source.symbols[:symbols], repeat=length)
        in_time = itertools.takewhile(lambda _: not deadline.over(), sources)
        pairs = map(task.exact_pair, in_time)
        of_length = [query_of(checkpoint, [pair]) for pair in pairs if pair]
        if len(queries) + len(of_length) > MAX_SHORT or deadline.over():
            break
        queries += of_length
        longest = length
    return ShortQueries(queries, symbols, longest)


def query_of(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> Query:
    """The query of pairs in a row, of which only a stream has several."""
    task = checkpoint.task
    if checkpoint.layout.consecutive:
        example = encode(checkpoint.layout, [pairs])
        return Query(example.inputs.values, example.scored.values)
    (pair,) = pairs
    if task.same_length:
        return Query(pair.source, np.array([*task.scored(task.source.decode(pair.source))]))
    return Query(pair.source, None)


def random_queries(
    checkpoint: Checkpoint,
    lengths: Lengths,
    count: int,
    seed: int,
    law: LengthDistribution | None = None,
    with_test_set: bool = True,
) -> list[Query]:
    """Random strings of the task of some lengths; none if it has none.

    Of pairs in files they are training pairs, and perhaps test pairs, without repetition.
    """
    rng, task = generator(seed, Purpose.SAMPLE), checkpoint.task
    law = law or checkpoint.config.task.law_of(lengths)
    rows = [1 + n % LONGEST_ROW if checkpoint.layout.consecutive else 1 for n in range(count)]
    pairs = list[Pair]()
    with contextlib.suppress(NoSuchLength):
        pairs = task.sample(rng, lengths, sum(rows), law)
    if task.file_parameters:
        most = count if with_test_set else 0
        with contextlib.suppress(NoSuchLength):
            pairs += random_subset(task, held_out_pairs(task, lengths), most, seed)
        distinct = {pair.source.tobytes(): pair for pair in pairs}
        return [query_of(checkpoint, [pair]) for pair in distinct.values()]
    remaining = iter(pairs)
    return [query_of(checkpoint, [*itertools.islice(remaining, row)]) for row in rows if pairs]


def answers_of(
    layout: Layout, model: Model, queries: Sequence[Query], observe: Observer | None = None
) -> list[tuple[int, ...] | None]:
    """The scored symbols of a model's answer to each query, and whether it was ended.

    None where a machine has no rule or no output, or numbers overflow.

    Args:
        layout: of the task.
        model: the model.
        queries: the queries.
        observe: is called with each step.
    """
    ids = [query.ids for query in queries]
    if layout.consecutive:
        masks = [query.scored for query in queries if query.scored is not None]
        rows = (row.tolist() for row in predict(model, ids, masks, False, observe).symbols)
        return [None if min(row, default=0) < 0 else tuple(row) for row in rows]
    answers: list[tuple[int, ...] | None] = []
    decoded = decode(model, layout, ids, log_probs=False, observe=observe)
    for query, answer in zip(queries, decoded, strict=True):
        scored = query.scored
        symbols = answer.target if scored is None else itertools.compress(answer.target, scored)
        answers.append(None if answer.failed else (*symbols, answer.ended))
    return answers


def same_answers(checkpoint: Checkpoint, queries: Sequence[Query]) -> Callable[[Model], bool]:
    """A test of a simpler model: whether it gives all answers of the hard model to some queries.

    Args:
        checkpoint: of the hard model.
        queries: the most instructive first.
    """
    bounds = [0, *range(FIRST, len(queries) + BLOCK, BLOCK)]
    parts = [queries[first:last] for first, last in itertools.pairwise(bounds)]
    layout, hard = checkpoint.layout, checkpoint.predictor.discretized()
    expected = [answers_of(layout, hard, part) for part in parts]

    def passes(model: Model) -> bool:
        pairs = zip(parts, expected, strict=True)
        return all(answers_of(layout, model, part) == right for part, right in pairs)

    return passes


def counterexamples(network: Model, machine: Machine, queries: Sequence[Query]) -> list[Query]:
    """The queries to which machine and network give different answers, where they are scored."""
    expected = answers_of(machine.layout, network, queries)
    answers = answers_of(machine.layout, AutomatonModel(machine), queries)
    triples = zip(queries, expected, answers, strict=True)
    return [query for query, right, answer in triples if answer is None or answer != right]
