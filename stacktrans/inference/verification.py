"""Verifying a model against the exact answers of its task.

All short strings are tried, then random ones of the lengths that it is trained and tested on, and
then long ones. Nothing is proved by that of any other string; what is found is a counterexample,
which is made as short as it gets. Of a machine there can be a proof.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stacktrans.automata.machine import Machine
from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.grammar.rules import GrammarError
from stacktrans.inference.scores import Prediction, predictions
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.proofs.product import Unproved
from stacktrans.proofs.proof import Counterexample, Proof, prove
from stacktrans.tasks.base import Lengths, NoSuchLength, Task
from stacktrans.tasks.layout import Pair

ALL, RANDOM, LONG = "all strings", "random strings", "long strings"
REFUTED = "counterexample to a proof"
BLOCK = 250
"""Strings that are answered at once."""
ROUNDS = 4
"""Strings of each range of long lengths."""
GROWTH = 1.6
"""How many times as long as those before the next of the long strings are."""


Verdict = Proof | Counterexample | Unproved


@dataclass(frozen=True)
class Stage:
    """A kind of strings that a model was tried on.

    Attributes:
        strings: what they are: `ALL`, `RANDOM`, `LONG`, `REFUTED`, or the name of a set of pairs.
        lengths: the shortest and the longest of them; None if there were none.
        count: how many there were.
        wrong: how many of them were answered wrongly.
    """

    strings: str
    lengths: Lengths | None
    count: int
    wrong: int


@dataclass
class Verification:
    """What came of trying a model.

    Attributes:
        stages: in their order; no more after one in which something was wrong.
        counterexample: the shortest that was found; None if everything was right.
        verdict: of a machine, the attempt to prove that it is right on all strings; None for other
            models, and with a counterexample.
    """

    stages: list[Stage] = field(default_factory=list)
    counterexample: Prediction | None = None
    verdict: Verdict | None = None

    @property
    def right(self) -> bool:
        """Whether nothing wrong was found, be it only where sequences follow one another."""
        return self.counterexample is None and not isinstance(self.verdict, Counterexample)

    @property
    def count(self) -> int:
        """How many strings were tried."""
        return sum(stage.count for stage in self.stages)


@dataclass(frozen=True)
class Effort:
    """How much a model is tried.

    Attributes:
        exhaustive: most strings of which all are tried: those of a length are if there are no more
            of it and of shorter ones.
        count: number of random strings.
        longest: the length of the longest strings.
        seed: random seed of the strings.
    """

    exhaustive: int
    count: int
    longest: int
    seed: int


def verify(checkpoint: Checkpoint, effort: Effort) -> Verification:
    """Try a model until something is wrong, or there is no more to try.

    A model of pairs in files is tried on all of these.

    Raises:
        UsageError: the task has no answers that the model's could be compared with.
    """
    if checkpoint.config.task.lengths is None:
        raise UsageError(f"{checkpoint.path}: a model of a text has no exact answers")
    found = Verification()
    for strings, pairs in _stages(checkpoint, effort):
        stage, wrong = _tried(checkpoint, strings, pairs)
        found.stages.append(stage)
        if wrong:
            shortest = min(wrong, key=lambda each: len(each.pair.source))
            if not checkpoint.task.file_parameters:
                shortest = _reduced(checkpoint, _drawn_shorter(checkpoint, shortest))
            found.counterexample = shortest
            break
    if checkpoint.machine:
        _prove(checkpoint.machine, checkpoint, found)
    return found


def _prove(machine: Machine, checkpoint: Checkpoint, found: Verification) -> None:
    """Try to prove that a machine is right; keep the counterexample to that if it is shorter."""
    task, known = checkpoint.task, found.counterexample
    verdict: Verdict
    try:
        verdict = prove(machine, task)
    except Unproved as reason:
        verdict = reason
    if not isinstance(verdict, Counterexample) or verdict.in_stream:
        found.verdict = None if known else verdict
    elif known is None or len(verdict.source) < len(known.pair.source):
        pair = task.labelled(task.source.decode(verdict.source))
        for wrong in _wrong_answers(checkpoint, [pair] if pair else []):
            found.counterexample, length = wrong, wrong.pair.length
            found.stages.append(Stage(REFUTED, Lengths(length, length), 1, 1))


def _stages(checkpoint: Checkpoint, effort: Effort) -> Iterator[tuple[str, Iterator[Pair]]]:
    """Kinds of strings, and the strings with their answers."""
    task = checkpoint.task
    if task.file_parameters:
        for name, pairs in task.held_out().items():
            yield f"{name} set", iter(pairs)
        return
    yield ALL, _all_pairs(task, effort.exhaustive)
    yield RANDOM, _random_pairs(checkpoint, effort)
    yield LONG, _long_pairs(checkpoint, effort)


def _all_pairs(task: Task, most: int) -> Iterator[Pair]:
    """All sources up to a length, the shortest first, with their answers."""
    symbols, left = task.source.symbols, most
    for length in itertools.count(1):
        left -= len(symbols) ** length
        if left < 0 or length > most:
            return
        for source in itertools.product(symbols, repeat=length):
            if pair := task.labelled(source):
                yield pair


def _random_pairs(checkpoint: Checkpoint, effort: Effort) -> Iterator[Pair]:
    """Strings of all lengths that the model was trained and tested on."""
    ranges = checkpoint.config.task.ranges
    lengths = Lengths(ranges.train.shortest, ranges.test.longest)
    for first in range(0, effort.count, BLOCK):
        drawn = generator(effort.seed, Purpose.VERIFICATION, first)
        count = min(BLOCK, effort.count - first)
        yield from checkpoint.task.sample(drawn, lengths, count, "uniform")


def _long_pairs(checkpoint: Checkpoint, effort: Effort) -> Iterator[Pair]:
    """Longer strings, ever longer, as far as the task has some."""
    length = float(checkpoint.config.task.ranges.test.longest)
    while length < effort.longest:
        shortest, length = int(length) + 1, min(effort.longest, length * GROWTH)
        drawn = generator(effort.seed, Purpose.VERIFICATION, effort.count, shortest)
        lengths = Lengths(shortest, max(shortest, int(length)))
        try:
            yield from checkpoint.task.sample(drawn, lengths, ROUNDS, "uniform")
        except NoSuchLength:
            continue
        except GrammarError:  # its sentences are too long to be drawn
            return


def _tried(
    checkpoint: Checkpoint, strings: str, pairs: Iterator[Pair]
) -> tuple[Stage, list[Prediction]]:
    """How a model answers pairs, up to the first block in which something is wrong."""
    wrong, lengths = list[Prediction](), list[int]()
    size = ROUNDS if strings == LONG else BLOCK
    while not wrong and (block := [*itertools.islice(pairs, size)]):
        wrong = _wrong_answers(checkpoint, block)
        lengths += [pair.length for pair in block]
    tried = Lengths(min(lengths), max(lengths)) if lengths else None
    return Stage(strings, tried, len(lengths), len(wrong)), wrong


def _wrong_answers(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> list[Prediction]:
    """The wrong answers to pairs; that of a machine that has no rule is wrong, too."""
    return [answer for answer in predictions(checkpoint, pairs) if not answer.right]


def _drawn_shorter(checkpoint: Checkpoint, wrong: Prediction) -> Prediction:
    """The shortest wrong answer among random sources, each time of those shorter than the last."""
    shortest = checkpoint.config.task.ranges.train.shortest
    while wrong.pair.length > shortest:
        lengths = Lengths(shortest, wrong.pair.length - 1)
        drawn = generator(1, Purpose.VERIFICATION, wrong.pair.length)
        try:
            pairs = checkpoint.task.sample(drawn, lengths, BLOCK, "uniform")
        except NoSuchLength:
            return wrong
        shorter = _wrong_answers(checkpoint, pairs)
        if not shorter:
            return wrong
        wrong = min(shorter, key=lambda each: each.pair.length)
    return wrong


def _reduced(checkpoint: Checkpoint, wrong: Prediction) -> Prediction:
    """A wrong answer to a source from which no part can be left out without its being right.

    Parts are left out as long as the answer to the rest is wrong, too, ever smaller ones (the
    algorithm ddmin: Zeller and Hildebrandt 2002, "Simplifying and Isolating Failure-Inducing
    Input").
    """
    size = max(1, len(wrong.pair.source) // 2)
    while True:
        rest = _first_wrong_rest(checkpoint, wrong, size)
        if rest is None and size == 1:
            return wrong
        wrong = rest or wrong
        size = max(1, min(size if rest else size // 2, len(wrong.pair.source) // 2))


def _first_wrong_rest(checkpoint: Checkpoint, wrong: Prediction, size: int) -> Prediction | None:
    """A wrong answer to a source without one of its parts of some size; None if all are right."""
    source = checkpoint.task.source.decode(wrong.pair.source)
    rests = (source[:start] + source[start + size :] for start in range(0, len(source), size))
    pairs = (pair for rest in rests if rest and (pair := checkpoint.task.labelled(rest)))
    while block := [*itertools.islice(pairs, BLOCK)]:
        if found := _wrong_answers(checkpoint, block):
            return found[0]
    return None
