"""From a checkpoint to a machine, with how far the two agree.

The network is run, hard, on strings; what it did becomes rules; machine and network then answer
fresh strings, and those at which they differ are learned from, too, until there are none or it
does not get better. What is reported is measured in the end on strings that nothing was learned
from.

Strings are all short ones over a few symbols, and those that are drawn. Of a stream they are rows
of sequences, one after another: those that are drawn are alone at first, and then ever more in a
row, since what one leaves behind can spoil the next.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stacktrans.automata.machine import Machine, Runner
from stacktrans.common.ends import Ends
from stacktrans.common.randomness import Purpose, generator
from stacktrans.decoding.decoder import decode, predict
from stacktrans.decoding.model import Model
from stacktrans.extraction.network import GRACE, CannotExtract, Deadline, Network, Recorder
from stacktrans.extraction.refinement import Refinement
from stacktrans.extraction.rules import RuleLearner, named
from stacktrans.model.ablation import ablate_signals
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLength, held_out_pairs
from stacktrans.tasks.layout import Pair

FEW = 3
"""The most different symbols in short strings of a task with many."""
MANY = 6
"""With more symbols than this, a task has many."""
MOST_SHORT = 1500
"""How many short strings there are at most, and so up to which length."""
MOST_TRIED = 20_000
"""How many strings are looked at to find short ones that the task has."""
IN_A_ROW = 8
"""How many sequences of a stream stand in a row at most."""
GRID = 1 / 256
"""How far numbers of vectors may be apart that count as the same at first."""
TOLERANCES = (0.02, 0.02, 0.02, 0.01, 0.003, 0.0, 0.0)
"""Of each round, the share of steps that may do otherwise than others that are alike."""
LEARNED_FROM, CHECKED = 60, 100
"""How many strings of the training lengths, and half as many of the test lengths, are drawn to be
learned from, and to be checked with."""
EACH = 2
"""How many more of the training lengths for each symbol of a task with many."""
SECONDS = 60
"""After how many seconds nothing more is learned."""
PATIENCE = 2
"""After how many rounds that bring nothing it ends."""
AT_ONCE, BLOCK = 100, 250
"""How many strings are compared at once, and how many of more random ones."""
ANSWERED = 50
"""How many strings are answered before it is asked whether all answers were the same."""
DIFFERING = 40
"""How many strings at which they differ are learned from at once."""
AGREEING = 0.5
"""With less agreement there is no machine."""
SEED = 1 << 20
"""Random seeds of strings to compare with, which nothing was learned from, begin here."""
Said = tuple[int, ...] | None
"""The scored symbols of an answer, and whether it was ended; None where a machine has no rule."""


class Tried(NamedTuple):
    """A string that network and machine are run on.

    Attributes:
        ids: the source; of a stream, all that is read.
        scored: of each output, whether it is scored; None where all are.
    """

    ids: Ids
    scored: Mask | None

    def scored_of(self, answer: Sequence[int]) -> Iterable[int]:
        """The symbols of an answer that matter."""
        return answer if self.scored is None else itertools.compress(answer, self.scored)


class Short(NamedTuple):
    """All strings of a task up to a length, over its first symbols.

    Attributes:
        strings: themselves.
        symbols: how many symbols they are made of.
        longest: their greatest length.
    """

    strings: list[Tried]
    symbols: int
    longest: int


def short_strings(checkpoint: Checkpoint) -> Short:
    """All short strings that the task has an answer for, `MOST_SHORT` at most."""
    task = checkpoint.task
    symbols = FEW if len(task.source) > MANY else len(task.source)
    found: list[Tried] = []
    tried, longest = 0, 0
    for length in itertools.count(1):
        tried += symbols**length
        if tried > MOST_TRIED:
            break
        sources = itertools.product(task.source.symbols[:symbols], repeat=length)
        pairs = (task.labelled(source) for source in sources)
        own = [tried_on(checkpoint, [pair]) for pair in pairs if pair]
        if len(found) + len(own) > MOST_SHORT:
            break
        found += own
        longest = length
    return Short(found, symbols, longest)


def tried_on(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> Tried:
    """The string of pairs in a row, of which only a stream has several."""
    task = checkpoint.task
    if checkpoint.layout.consecutive:
        ids, _, scored = checkpoint.layout.example(pairs)
        return Tried(ids, scored)
    (pair,) = pairs
    if task.same_length:
        return Tried(pair.source, np.array([*task.scored(task.source.decode(pair.source))]))
    return Tried(pair.source, None)


def drawn_strings(
    checkpoint: Checkpoint, lengths: Lengths, count: int, seed: int, law: LengthLaw | None = None
) -> list[Tried]:
    """Strings of the task of some lengths, drawn as when it is measured; none if it has none.

    Of pairs in files they are some of those to train on and of those to test on, each once.
    """
    drawn = generator(seed, Purpose.SAMPLE)
    law = law or checkpoint.config.task.law_of(lengths)
    stream = checkpoint.layout.consecutive
    rows = [1 + number % IN_A_ROW if stream else 1 for number in range(count)]
    task = checkpoint.task
    try:
        pairs = task.sample(drawn, lengths, sum(rows), law)
    except NoSuchLength:
        pairs = []
    if task.file_parameters:
        with contextlib.suppress(NoSuchLength):
            pairs = [*pairs, *held_out_pairs(task, lengths)[:count]]
        once = {pair.source.tobytes(): pair for pair in pairs}
        return [tried_on(checkpoint, [pair]) for pair in once.values()]
    if not pairs:
        return []
    taken = iter(pairs)
    return [tried_on(checkpoint, [next(taken) for _ in range(row)]) for row in rows]


class Agreement(NamedTuple):
    """How far a machine agrees with its network on some strings.

    Attributes:
        what: which strings.
        strings: how many.
        agreeing: to how many of them they give the same answer.
    """

    what: str
    strings: int
    agreeing: int


@dataclass(frozen=True)
class Extracted:
    """A machine, and how it was found.

    Attributes:
        machine: itself.
        agreement: with the network, on strings that it was not learned from, and all short ones.
        differing: the shortest string that was found at which they differ; None if none was.
        learned_from: how many strings it was learned from.
        rounds: how often.
        undecided: the share of the network's signals that are far from 0 and from 1.
        seconds: how long it took.
    """

    machine: Machine
    agreement: tuple[Agreement, ...]
    differing: str | None
    learned_from: int
    rounds: int
    undecided: float
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether no difference was found."""
        return self.differing is None


def extract(
    checkpoint: Checkpoint, note: Callable[[str], None] = lambda _: None, seconds: float = SECONDS
) -> Extracted:
    """The machine that a model is when its signals are made 0 or 1.

    Args:
        checkpoint: of the model.
        note: is told of each round.
        seconds: after how many nothing more is learned.

    Raises:
        CannotExtract: it is no machine, or none that could be found; the message says why.
        StacktransError: its numbers overflow.
    """
    return _Extraction(checkpoint, note, seconds).run()


def compared_with(
    checkpoint: Checkpoint, found: Extracted, count: int, lengths: Lengths
) -> Extracted:
    """A machine with its agreement on so many more random strings, uniformly of some lengths.

    Raises:
        NoSuchLength: the task has no string of such a length.
    """
    check_lengths(checkpoint, lengths)
    network, wrong = checkpoint.predictor.discretised(), list[Tried]()
    for first in range(0, count, BLOCK):
        own = min(BLOCK, count - first)
        strings = drawn_strings(checkpoint, lengths, own, SEED + first, "uniform")
        wrong += differing(checkpoint, network, found.machine, strings)
    known, shortest = found.differing, min(wrong, key=_length, default=None)
    if shortest and (known is None or _length(shortest) < len(checkpoint.task.source.split(known))):
        known = _written(checkpoint, shortest)
    more = Agreement(f"random of length {lengths}, uniformly", count, count - len(wrong))
    return replace(found, agreement=(*found.agreement, more), differing=known)


def check_lengths(checkpoint: Checkpoint, lengths: Lengths) -> None:
    """Raise `NoSuchLength` if the task has no string of some lengths."""
    if not drawn_strings(checkpoint, lengths, 1, SEED, "uniform"):
        raise NoSuchLength(f"the task has no strings of length {lengths}")


def differing(
    checkpoint: Checkpoint, network: Model, machine: Machine, strings: Sequence[Tried]
) -> list[Tried]:
    """The strings to which machine and network give different answers, where they are scored."""
    expected = answers_of(checkpoint, network, strings)
    found = answers_of(checkpoint, Runner(machine), strings)
    triples = zip(strings, expected, found, strict=True)
    return [string for string, right, own in triples if own is None or own != right]


def answers_of(checkpoint: Checkpoint, model: Model, strings: Sequence[Tried]) -> list[Said]:
    """A model's answer to each string."""
    layout, ids = checkpoint.layout, [string.ids for string in strings]
    if layout.consecutive:
        asked = [string.scored for string in strings if string.scored is not None]
        rows = (symbols.tolist() for symbols in predict(model, ids, asked, log_probs=False).symbols)
        return [None if -1 in symbols else tuple(symbols) for symbols in rows]
    answers = decode(model, layout, ids, log_probs=False)
    return [
        None if answer.failed else (*string.scored_of(answer.target), answer.ended)
        for string, answer in zip(strings, answers, strict=True)
    ]


def simplified(checkpoint: Checkpoint, ends: Ends, strings: Sequence[Tried]) -> Checkpoint:
    """The model without memories that no answer depends on.

    A memory that is pushed to and popped for no reason makes steps differ that are the same in all
    that counts, and there are more of them the more it holds. So it is shut before anything is
    learned of the network, the last memory first, if the answers are the same without it.

    Args:
        checkpoint: of the model.
        ends: of its memory.
        strings: those whose answers have to stay the same, the most telling ones first.
    """
    parts = [strings[first : first + ANSWERED] for first in range(0, len(strings), ANSWERED)]
    right = [answers_of(checkpoint, checkpoint.predictor.discretised(), own) for own in parts]
    for row in sorted(set(ends.alphabets), reverse=True):
        pushes = [signal for signal, end in ends.pushes if ends.alphabets[end // 2] == row]
        tried = ablate_signals(checkpoint, pushes)
        model = tried.predictor.discretised()
        if all(
            None not in own and answers_of(tried, model, part) == own
            for part, own in zip(parts, right, strict=True)
        ):
            checkpoint = tried
    return checkpoint


def _length(string: Tried) -> int:
    return len(string.ids)


def _written(checkpoint: Checkpoint, string: Tried) -> str:
    source = checkpoint.task.source
    return source.join(source.decode(string.ids))


class _Extraction:
    """Finding the machine of a checkpoint; arguments are those of `extract`."""

    def __init__(self, checkpoint: Checkpoint, note: Callable[[str], None], seconds: float) -> None:
        self._checkpoint, self._note = checkpoint, note
        self._deadline = Deadline(seconds)
        self._hard = checkpoint.predictor.discretised()
        self._short = short_strings(checkpoint)
        ranges = checkpoint.config.task.ranges
        self._ranges = (ranges.train, ranges.test)
        ends = Network(checkpoint, self._deadline).ends
        telling = self._trained_on(self._strings(seed=1)[::-1])
        network = Network(simplified(checkpoint, ends, telling), self._deadline)
        self._recorder = Recorder(network, GRID)

    def run(self) -> Extracted:
        """See `extract`."""
        if self._ranges[0].shortest <= self._short.longest:
            self._learn_from(self._trained_on(self._short.strings))
        symbols = len(self._checkpoint.task.source)
        first = LEARNED_FROM + (EACH * symbols if symbols > MANY else 0)
        for strings in self._drawn((first, LEARNED_FROM // 2), seed=1):
            self._learn_from(strings)
        self._deadline.check()
        best, fewest, worse = None, -1, 0
        for number, tolerance in enumerate(TOLERANCES, start=1):
            try:
                machine = self._machine(tolerance)
            except CannotExtract:
                if best is None:
                    raise
                break
            best = best or machine
            strings = self._strings(seed=number + 1)
            tried, wrong = self._compared(machine, strings, GRACE)
            if tried < len(strings):
                break
            self._note(f"round {number}: {len(machine.rules)} rules, {len(wrong)} strings differ")
            worse += 1
            if fewest < 0 or len(wrong) < fewest:
                best, fewest, worse = machine, len(wrong), 0
            instructive = self._trained_on(wrong)
            if not instructive or worse == PATIENCE or self._deadline.over():
                break
            some = np.linspace(0, len(instructive) - 1, min(len(instructive), DIFFERING))
            self._learn_from([instructive[at] for at in some.astype(int).tolist()])
        assert best is not None
        return self._judged(best, number)

    def _learn_from(self, strings: Sequence[Tried]) -> None:
        self._recorder.run(
            [string.ids for string in strings], [string.scored for string in strings]
        )

    def _trained_on(self, strings: Sequence[Tried]) -> list[Tried]:
        """Those that are not much shorter than what it was trained on: there it may do anything."""
        shortest = min(self._ranges[0].shortest, self._short.longest - 1)
        return [string for string in strings if _length(string) >= shortest]

    def _strings(self, seed: int) -> list[Tried]:
        return [*self._short.strings, *itertools.chain(*self._drawn((CHECKED, CHECKED // 2), seed))]

    def _drawn(self, counts: tuple[int, int], seed: int) -> Iterator[list[Tried]]:
        """So many strings of the training lengths, and of the test lengths."""
        for lengths, count in zip(self._ranges, counts, strict=True):
            yield drawn_strings(self._checkpoint, lengths, count, seed)

    def _machine(self, tolerance: float) -> Machine:
        refinement = Refinement(self._recorder, tolerance)
        refinement.refine()
        names = named(self._checkpoint, refinement.partition)
        rules = RuleLearner(refinement.partition, names).learn()
        return replace(names.machine, rules=tuple(rules))

    def _compared(
        self, machine: Machine, strings: Sequence[Tried], grace: float, least: int = 0
    ) -> tuple[int, list[Tried]]:
        """How many strings there was time for, `least` anyway, and those that differ."""
        wrong: list[Tried] = []
        for first in range(0, len(strings), AT_ONCE):
            if first >= least and self._deadline.over(grace):
                return first, wrong
            part = strings[first : first + AT_ONCE]
            wrong += differing(self._checkpoint, self._hard, machine, part)
        return len(strings), wrong

    def _judged(self, machine: Machine, rounds: int) -> Extracted:
        """The machine with its agreement on fresh strings; raises `CannotExtract`."""
        short = self._short
        few = short.symbols < len(self._checkpoint.task.source)
        of = f"over {short.symbols} symbols " if few else ""
        which = "those in the files" if self._checkpoint.task.file_parameters else "random"
        drawn = self._drawn((2 * CHECKED, 2 * (CHECKED // 2)), seed=0)
        checked = [(f"all {of}up to length {short.longest}", short.strings)]
        checked += zip((f"{which} of length {own}" for own in self._ranges), drawn, strict=True)
        agreement, wrong = [], []
        for what, strings in checked:
            tried, found = self._compared(machine, strings, 2 * GRACE, least=1)
            wrong += found
            some = "some of " if tried < len(strings) else ""
            if strings:  # of pairs in files, which are all that is known of the task, may be none
                agreement.append(Agreement(f"{some}{what}", tried, tried - len(found)))
        undecided = self._recorder.undecided / max(self._recorder.signals, 1)
        strings_tried = sum(each.strings for each in agreement)
        overall = sum(each.agreeing for each in agreement) / max(strings_tried, 1)
        if overall < AGREEING:
            raise CannotExtract(
                f"no machine found: after {rounds} rounds the best, of {machine.states.size} "
                f"states and {len(machine.rules)} rules, gives the hard model's answer to only "
                f"{overall:.0%} of strings; {undecided:.1%} of the signals are undecided"
                + ("; there was no time for more" if self._deadline.over() else "")
            )
        shortest = min(wrong, key=_length, default=None)
        return Extracted(
            machine,
            tuple(agreement),
            None if shortest is None else _written(self._checkpoint, shortest),
            self._recorder.strings,
            rounds,
            undecided,
            self._deadline.taken,
        )
