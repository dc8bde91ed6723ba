"""The extraction of a machine: a learning loop over counterexamples, and its measured agreement.

As in active learning (Angluin 1987), hypotheses are tested for equivalence, and learned again from
counterexamples. Here the network answers not only queries: its states and the vectors in its
memories can be observed, so that a hypothesis is a partition of them, as for recurrent networks
without memory (Omlin & Giles 1996).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from stacktrans.automata.machine import Machine
from stacktrans.common.ends import Ends
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.visible import counted
from stacktrans.decoding.model import Model
from stacktrans.extraction.hypothesis import build_hypothesis
from stacktrans.extraction.limits import GRACE, CannotExtract, Deadline, OutOfTime
from stacktrans.extraction.network import Network, in_compiled_code
from stacktrans.extraction.quantization import QuantizedNetwork, coarsest_quantization
from stacktrans.extraction.queries import (
    Query,
    counterexamples,
    random_queries,
    same_answers,
    short_queries,
)
from stacktrans.extraction.refinement import Refinement
from stacktrans.extraction.symmetry import Symmetry, symmetry_of
from stacktrans.model.ablation import ablate_signals
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import LARGE_ALPHABET
from stacktrans.tasks.lengths import Lengths, NoSuchLength

OBSERVED_STRINGS, TEST_STRINGS = 200, 600
"""Random strings of the training lengths that are observed, and that a hypothesis is tested on;
half as many of the test lengths. The agreement is measured on as many as are observed, but others.
"""
COVERING_SYMBOLS, MAX_COVERING_SYMBOLS = 40, 200_000
"""A hypothesis without a counterexample is tested on further strings, with this many symbols for
each combination of the components that its rules depend on, so that rare ones occur. The second
number is the most of these symbols."""
OBSERVED_PER_SYMBOL = 2
"""Further strings of the training lengths for each symbol of a large alphabet."""
TIME_LIMIT = 60
"""The seconds that learning may take."""
ROUND_SHARE = 1 / 4
"""The share of the time limit that one round may take, and that may be spent on simplifying a right
machine."""
SYMMETRY_SHARE = 1 / 2
"""The share of the time limit that learning from representative symbols may take."""
MAX_ASYMMETRY = 0.01
"""The share of strings up to which counterexamples may only show that the network does not treat
interchangeable symbols quite equally."""
PATIENCE = 8
"""The rounds without an improvement after which learning ends."""
SIMPLIFICATION_ROUNDS = 2
"""The further rounds in which a machine with fewer rules is sought once one is right."""
TEST_BATCH, COMPARISON_BATCH = 100, 1000
"""Strings per batch of a test, and per batch of `compare`."""
MAX_COUNTEREXAMPLES = 40
"""The counterexamples with which a test ends."""
MIN_AGREEMENT = 0.5
"""The share of equal answers below which there is no machine."""
COVERING_SEED = 1 << 16
"""The random seed before those of the further strings."""
SEED = 1 << 20
"""The first random seed of the strings of `compare`, none of which is observed."""


class Agreement(NamedTuple):
    """The agreement of a machine with its network on a set of strings.

    Attributes:
        what: on which strings.
        strings: their number.
        agreeing: the number of those to which both give the same answer.
    """

    what: str
    strings: int
    agreeing: int


@dataclass(frozen=True)
class Extraction:
    """The result of extraction: a machine, and statistics of how it was learned.

    Attributes:
        machine: the best hypothesis.
        agreement: with the network, on strings that were not observed, and on all short ones.
        counterexample: the shortest string with different answers; None if none is known.
        observed: the number of strings that it was learned from.
        rounds: the number of rounds, those without a hypothesis included.
        undecided: the share of the network's signals that are far from 0 and from 1.
        seconds: the time that it took.
    """

    machine: Machine
    agreement: tuple[Agreement, ...]
    counterexample: str | None
    observed: int
    rounds: int
    undecided: float
    seconds: float


def compare(
    checkpoint: Checkpoint, extraction: Extraction, count: int, lengths: Lengths
) -> Extraction:
    """Add the agreement on random strings, uniformly of some lengths.

    Raises:
        NoSuchLength: the task has no string of such a length.
    """
    check_lengths(checkpoint, lengths)
    network, wrong, tested = in_compiled_code(checkpoint).predictor.discretized(), list[Query](), 0
    for queries in _compared_queries(checkpoint, lengths, count):
        tested += len(queries)
        wrong += counterexamples(network, extraction.machine, queries)
    what = f"random of length {lengths}, uniformly"
    if checkpoint.task.file_parameters:
        what = f"random ones in the files of length {lengths}"
    more = Agreement(what, tested, tested - len(wrong))
    shortest = _shortest(checkpoint, wrong, extraction.counterexample)
    return replace(extraction, agreement=(*extraction.agreement, more), counterexample=shortest)


def _compared_queries(
    checkpoint: Checkpoint, lengths: Lengths, count: int
) -> Iterator[list[Query]]:
    """Batches of random strings; of pairs in files, each string at most once."""
    firsts = range(0, count, COMPARISON_BATCH)
    if checkpoint.task.file_parameters:
        known = random_queries(checkpoint, lengths, count, SEED, "uniform")
        generator(SEED, Purpose.SAMPLE).shuffle(known)  # in which training pairs come first
        for first in firsts:
            yield known[first : min(first + COMPARISON_BATCH, count)]
        return
    for first in firsts:
        size = min(COMPARISON_BATCH, count - first)
        yield random_queries(checkpoint, lengths, size, SEED + first, "uniform")


def check_lengths(checkpoint: Checkpoint, lengths: Lengths) -> None:
    """Raise `NoSuchLength` if the task has no string of some lengths."""
    if not random_queries(checkpoint, lengths, 1, SEED, "uniform"):
        raise NoSuchLength(f"the task has no strings of length {lengths}")


def without_needless_memories(
    checkpoint: Checkpoint, ends: Ends, passes: Callable[[Model], bool]
) -> Checkpoint:
    """The model without memories that no answer depends on, the last memory first.

    A memory that is pushed to and popped for no reason makes steps differ that are equivalent in
    all other respects, and more of them the more cells it has.

    Args:
        checkpoint: of the model.
        ends: of its memory.
        passes: tests whether a model gives the same answers.
    """
    for memory in sorted(set(ends.alphabets), reverse=True):
        pushes = [signal for signal, end in ends.pushes if ends.alphabets[end // 2] == memory]
        ablated = ablate_signals(checkpoint, pushes)
        if passes(ablated.predictor.discretized()):
            checkpoint = ablated
    return checkpoint


def _shortest(checkpoint: Checkpoint, queries: Sequence[Query], known: str | None) -> str | None:
    """The shortest of a known string and some queries, as text; None if there are none."""
    alphabet = checkpoint.task.source
    strings = [] if known is None else [alphabet.split(known)]
    strings += (alphabet.decode(query.ids) for query in queries)
    return alphabet.join(min(strings, key=len)) if strings else None


class Learner:
    """An automata learner: refines a partition until machine and network agree.

    Args:
        checkpoint: of the model.
        time_limit: the seconds that learning may take.
        log: is called with a line about each round.
        brief: whether only to find out if there is a machine. Then a right one is not simplified,
            and one that was learned from a few interchangeable symbols and is wrong on few strings
            is not learned again from all symbols. Strings that are much shorter than the training
            strings are not compared, nor those of a test set, which must not decide anything.
        is_cancelled: returns whether learning has to end before the next round.

    Raises:
        CannotExtract: no machine can be learned from a model of this kind.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        time_limit: float = TIME_LIMIT,
        log: Callable[[str], None] = lambda _: None,
        brief: bool = False,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        checkpoint = in_compiled_code(checkpoint)
        self._checkpoint, self._log, self._brief = checkpoint, log, brief
        self._deadline, self._is_cancelled = Deadline(time_limit), is_cancelled
        self._hard = checkpoint.predictor.discretized()
        self._ends = Network(checkpoint, self._deadline).ends
        self._short = short_queries(checkpoint, self._deadline)
        ranges = checkpoint.config.task.ranges
        self._ranges = (ranges.train, ranges.test)
        self._best: Machine | None = None
        self._observed, self._undecided = 0, 0.0  # from which it was learned
        self._wrong, self._differing = list[Query](), math.inf  # its counterexamples, their share
        self._problem, self._rounds = CannotExtract("no machine found"), 0

    def learn(self) -> Extraction:
        """Learn the machine that the model computes with its signals rounded to 0 or 1.

        It is learned from strings of a few of the interchangeable symbols, or else of all.

        Raises:
            CannotExtract: no machine was found; the message gives the reason.
            StacktransError: numbers of the network overflow.
        """
        symmetry = symmetry_of(self._checkpoint, self._hard)
        attempts = [(Symmetry(self._checkpoint), self._deadline)]
        if symmetry.classes:
            self._log(symmetry.description)
            attempts.insert(0, (symmetry, self._deadline.part(SYMMETRY_SHARE)))
        for attempt in attempts:
            with contextlib.suppress(OutOfTime):
                self._learn(*attempt)
            least = MAX_ASYMMETRY if self._brief else 0
            if self._differing <= least or self._deadline.over() or self._is_cancelled():
                break
        if self._best is None:
            self._deadline.check()
            raise self._problem
        return self._evaluated(self._best)

    def _learn(self, symmetry: Symmetry, deadline: Deadline) -> None:
        """Learn hypotheses until one is right, there is no progress, or no time left.

        Raises:
            OutOfTime: there was no time for any.
            StacktransError: numbers of the network overflow.
        """
        self._quantized = self._quantize(symmetry, deadline)
        self._observe_first(symmetry)
        deadline.check()
        worse, soon = 0, deadline.part(ROUND_SHARE)
        while self._quantized.strings and not deadline.over() and not self._is_cancelled():
            self._rounds, worse = self._rounds + 1, worse + 1
            try:
                # The experiments of a refinement depend on the round.
                refinement = Refinement(self._quantized, deadline.part(ROUND_SHARE), self._rounds)
                hypothesis = build_hypothesis(symmetry, refinement.until_consistent())
            except CannotExtract as error:
                self._problem = error
            else:
                wrong, improves = self._test(hypothesis)
                worse = 0 if improves else worse
                recorded = symmetry.reduced(wrong)
                self._record(symmetry, recorded)
                few = 0 < self._differing < MAX_ASYMMETRY
                if improves and few and not counterexamples(self._hard, hypothesis, recorded):
                    break  # the network does not quite treat the symbols equally
            patience = PATIENCE if self._differing else SIMPLIFICATION_ROUNDS
            if worse == patience or (not self._differing and (self._brief or soon.over())):
                break

    def _quantize(self, symmetry: Symmetry, deadline: Deadline) -> QuantizedNetwork:
        """The coarsest quantization with the network's answers; raises `OutOfTime`."""
        random = symmetry.reduced(self._random((OBSERVED_STRINGS, OBSERVED_STRINGS // 2), seed=1))
        instructive = self._as_trained([*random[::5], *random, *self._short.queries[::-1]])
        passes = same_answers(self._checkpoint, instructive)
        simpler = without_needless_memories(self._checkpoint, self._ends, passes)
        return coarsest_quantization(Network(simpler, deadline), passes)

    def _observe_first(self, symmetry: Symmetry) -> None:
        """Observe all short strings, random ones, and counterexamples of an earlier attempt."""
        if self._ranges[0].shortest <= self._short.longest:
            self._record(symmetry, symmetry.reduced(self._as_trained(self._short.queries)))
        symbols = len(self._checkpoint.task.source)
        large = symbols > LARGE_ALPHABET and not symmetry.classes
        more = OBSERVED_PER_SYMBOL * symbols if large else 0
        random = self._random((OBSERVED_STRINGS + more, OBSERVED_STRINGS // 2), seed=1)
        self._record(symmetry, symmetry.reduced([*random, *self._wrong]))

    def _record(self, symmetry: Symmetry, queries: Sequence[Query]) -> None:
        """Record the network's steps over queries, and over those that symmetry makes of them."""
        self._quantized.record(symmetry.orbits(queries), symmetry)

    def _test(self, hypothesis: Machine) -> tuple[list[Query], bool]:
        """Test a hypothesis, unless a simpler one is right, and keep it if it is the best so far.

        Returns:
            its counterexamples, and whether there is progress: it is the best so far, or has fewer
            rules than the best, which is right.
        """
        rules = len(hypothesis.rules)
        if self._best and not self._differing and rules >= len(self._best.rules):
            return [], False
        tested, wrong = self._test_equivalence(hypothesis)
        self._log(f"round {self._rounds}: {rules} rules, {len(wrong)} of {tested} strings differ")
        improves = not self._differing
        if len(wrong) < self._differing * tested or not wrong:
            self._best, improves = hypothesis, True
            self._observed = self._quantized.strings
            self._undecided = self._quantized.undecided / max(self._quantized.signals, 1)
            self._wrong, self._differing = wrong, len(wrong) / max(tested, 1)
        return wrong, improves

    def _test_equivalence(self, hypothesis: Machine) -> tuple[int, list[Query]]:
        """Test a hypothesis with random strings of this round, an approximate equivalence query.

        Returns:
            the number of strings that were tested before time ran out or there were enough
            counterexamples, and the counterexamples.
        """
        random = self._random((TEST_STRINGS, TEST_STRINGS // 2), seed=self._rounds + 1)
        queries = self._as_trained([*self._wrong, *self._short.queries, *random])
        tested, wrong = self._compare(hypothesis, queries, GRACE, MAX_COUNTEREXAMPLES)
        count = self._covering_count(hypothesis)
        if wrong or not count or self._deadline.over(GRACE):
            return tested, wrong
        drawn = self._random((count, count // 2), seed=self._rounds + COVERING_SEED)
        more, wrong = self._compare(hypothesis, self._as_trained(drawn), GRACE, MAX_COUNTEREXAMPLES)
        return tested + more, wrong

    def _covering_count(self, hypothesis: Machine) -> int:
        """The number of further strings of the training lengths that cover rare combinations."""
        parts = hypothesis.components
        combinations = math.prod(parts[component].size for component in hypothesis.relevant)
        symbols = min(COVERING_SYMBOLS * combinations, MAX_COVERING_SYMBOLS)
        train, test = (sum(lengths) / 2 for lengths in self._ranges)
        count = round(symbols / (train + test / 2))
        return max(0, count - TEST_STRINGS)

    def _compare(
        self, machine: Machine, queries: Sequence[Query], grace: float, enough: float = math.inf
    ) -> tuple[int, list[Query]]:
        """Compare the answers of machine and network, until there is no time or enough differ.

        Returns:
            the number of strings that were compared, and those with different answers.
        """
        tested, wrong = 0, list[Query]()
        while tested < len(queries) and len(wrong) < enough:
            if tested and self._deadline.over(grace):
                break
            part = queries[tested : tested + max(TEST_BATCH, tested)]
            wrong += counterexamples(self._hard, machine, part)
            tested += len(part)
        return tested, wrong

    def _as_trained(self, queries: Sequence[Query]) -> list[Query]:
        """The queries that are not much shorter than the training strings.

        The answers of a network to shorter ones may be arbitrary.
        """
        shortest = min(self._ranges[0].shortest, self._short.longest - 1)
        return [query for query in queries if len(query.ids) >= shortest]

    def _random(self, counts: tuple[int, int], seed: int) -> list[Query]:
        """Random strings of the training lengths, and of the test lengths."""
        ranges = zip(self._ranges, counts, strict=True)
        drawn = (self._random_of(*each, seed) for each in ranges)
        return [*itertools.chain(*drawn)]

    def _random_of(self, lengths: Lengths, count: int, seed: int) -> list[Query]:
        """Random strings of some lengths."""
        with_test_set = not self._brief
        return random_queries(self._checkpoint, lengths, count, seed, with_test_set=with_test_set)

    def _evaluated(self, machine: Machine) -> Extraction:
        """The best machine with its agreement on new strings; raises `CannotExtract`."""
        short, files = self._short, self._checkpoint.task.file_parameters
        few = short.symbols < len(self._checkpoint.task.source)
        of_few = f"with {short.symbols} symbols " if few else ""
        counts = zip(self._ranges, (OBSERVED_STRINGS, OBSERVED_STRINGS // 2), strict=True)
        drawn = (self._random_of(*each, seed=0) for each in counts)
        compared = self._as_trained(short.queries) if self._brief else short.queries
        sets = [(f"all {of_few}up to length {short.longest}", compared)]
        which = "random ones in the files" if files else "random"
        sets += zip((f"{which} of length {each}" for each in self._ranges), drawn, strict=True)
        agreement, wrong = [], [*self._wrong]
        for what, queries in sets:
            tested, differing = self._compare(machine, queries, 2 * GRACE)
            wrong += differing
            some = "some of " if tested < len(queries) else ""
            if queries:  # files may have none of some lengths
                agreement.append(Agreement(f"{some}{what}", tested, tested - len(differing)))
        tested = sum(each.strings for each in agreement)
        overall = sum(each.agreeing for each in agreement) / max(tested, 1)
        if overall < MIN_AGREEMENT:
            states, rules = counted(machine.states.size, "state"), len(machine.rules)
            late = " and no time for more" if self._deadline.over() else ""
            raise CannotExtract(
                f"no machine found: after {counted(self._rounds, 'round')}{late}, the best gives "
                f"the hard model's answer to only {overall:.0%} of strings",
                f"it has {states} and {counted(rules, 'rule')}; "
                f"{self._undecided:.1%} of the model's signals are near neither 0 nor 1",
            )
        shortest = _shortest(self._checkpoint, wrong, known=None)
        statistics = self._observed, self._rounds, self._undecided, self._deadline.taken
        return Extraction(machine, tuple(agreement), shortest, *statistics)
