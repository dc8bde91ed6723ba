"""Verification of a model: tests on generated strings, shorter counterexamples, and the provers.

The tests are all short strings, random ones of training and test lengths, and long ones. A wrong
answer is a counterexample, which is then shortened. Right answers prove nothing about other
strings, but that a machine is right on all strings can be proved. If there are two models, an
answer of the first is wrong if the second gives another one.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import MAX_LENGTH
from stacktrans.inference.predictions import Prediction, predictions
from stacktrans.inference.scores import counted_pairs
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.proofs.equivalence import Equivalence, prove_equivalent
from stacktrans.proofs.product import Unproved
from stacktrans.proofs.proof import Counterexample, Proof, prove
from stacktrans.proofs.renaming import distinct_symbols
from stacktrans.settings.config import TaskConfig
from stacktrans.tasks.alphabets import FEW_SYMBOLS, LARGE_ALPHABET
from stacktrans.tasks.base import Task, check_alphabets
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import Lengths, NoSuchLaw, NoSuchLength
from stacktrans.tasks.pair_files import SET_NAMES, TRAIN
from stacktrans.tasks.pairs import Pairs

ALL, RANDOM, LONG = "all strings", "random strings", "long strings"
REPRESENTATIVE = "strings over representative symbols"
OVER_FEW = "strings over the first symbols"
REFUTED = "counterexample to a proof"
BLOCK = 250
"""Number of strings that are answered at a time."""
STRINGS_PER_RANGE = 4
"""Number of strings of each range of long lengths."""
GROWTH = 1.6
"""Ratio of the greatest lengths of consecutive ranges of long strings."""
Verdict = Proof | Equivalence | Counterexample | Unproved


@dataclass(frozen=True)
class Stage:
    """The results of one group of tests.

    Attributes:
        strings: the group: `ALL`, `REPRESENTATIVE`, `OVER_FEW`, `RANDOM`, `LONG`, `REFUTED`, or
            the name of a set of pairs.
        lengths: the smallest and the greatest length; None if there were no strings.
        count: number of strings; a source with several targets is counted once.
        wrong: number of strings that were answered wrongly.
        finished: whether all strings of the group were tried, not only those up to a wrong answer.
    """

    strings: str
    lengths: Lengths | None
    count: int
    wrong: int
    finished: bool = True


@dataclass
class Verification:
    """The results of verifying a model.

    Attributes:
        stages: in order; the last is the first with a wrong answer, unless a counterexample to a
            proof is shorter.
        counterexample: the shortest one that was found; None if all answers were right.
        verdict: the result of trying to prove that a machine is right on all strings; None for
            other models, and with a counterexample.
        other: the answer of a second model to the counterexample; None without one.
    """

    stages: list[Stage] = field(default_factory=list)
    counterexample: Prediction | None = None
    verdict: Verdict | None = None
    other: Prediction | None = None

    @property
    def right(self) -> bool:
        """Whether nothing wrong was found, neither in single strings nor in a stream of them."""
        return self.counterexample is None and not isinstance(self.verdict, Counterexample)

    @property
    def proved(self) -> bool:
        """Whether it is proved that no answer is wrong, however long the string."""
        return isinstance(self.verdict, Proof | Equivalence)

    @property
    def shortest(self) -> bool:
        """Whether there is a counterexample, and all shorter strings were tried."""
        return any(stage.wrong and stage.strings == ALL for stage in self.stages)

    @property
    def count(self) -> int:
        """Number of strings that were tested."""
        return sum(stage.count for stage in self.stages)


@dataclass(frozen=True)
class VerifyRequest:
    """The number and the lengths of test strings.

    Attributes:
        exhaustive: all strings up to a length are tested: the greatest for which these are at most
            this many.
        count: number of random strings.
        longest: length of the longest strings.
        seed: random seed of the strings.
    """

    exhaustive: int
    count: int
    longest: int
    seed: int


def verify(
    checkpoint: Checkpoint, request: VerifyRequest, other: Checkpoint | None = None
) -> Verification:
    """Test a model until an answer is wrong or all tests are done; prove that a machine is right.

    A model of pairs in files is tested on all held-out pairs, then on the training pairs, unless
    the files are large.

    Args:
        checkpoint: the model.
        request: the number and the lengths of test strings, which are sources of its task.
        other: a second model, whose answers are required in place of those of the task.

    Raises:
        UsageError: strings are too long; there are none to test, or none with exact answers; or the
            models have different alphabets, or answers that cannot be compared symbol by symbol
            where only some are scored.
    """
    if request.longest > MAX_LENGTH:
        raise UsageError(f"a string of {request.longest} symbols; expected at most {MAX_LENGTH}")
    if checkpoint.config.task.lengths is None:
        raise UsageError(f"{checkpoint.path}: a language model has no exact answers")
    models, result = [checkpoint], Verification()
    if other:
        check_alphabets(checkpoint.task, other.task, str(other.path))
        _check_comparable(checkpoint.task, other.task, str(other.path))
        models.append(other)
    for strings, pairs in _test_sets(models, request):
        stage, wrong = _tested(models, strings, pairs)
        result.stages.append(stage)
        if wrong:
            shortest = min(wrong, key=lambda prediction: prediction.pair.length)
            if not checkpoint.task.file_parameters:
                shortest = _minimized(models, _resampled(models, shortest))
            result.counterexample = shortest
            break
    _prove(models, result)
    if result.right and not (result.count or result.proved):
        raise UsageError(
            f"nothing to test: no string of at most {request.longest} symbols is among those "
            f"requested; expected larger numbers"
        )
    if other and result.counterexample:
        (result.other,) = predictions(other, [result.counterexample.pair])
    return result


def _check_comparable(task: Task, model_task: Task, name: str) -> None:
    """Raise `UsageError` if a task scores only some symbols, and a model is not synchronous."""
    if not (task.scores_all or model_task.same_length):
        why = "as the task scores only some symbols"
        raise UsageError(f"{name}: expected a model with an output for each input, {why}")


def with_task(checkpoint: Checkpoint, config: TaskConfig) -> Checkpoint:
    """A model with another task; raises `UsageError` if its answers are not comparable."""
    task = config.make()
    # The strings of a task without an unknown symbol do not need that of a model.
    check_alphabets(checkpoint.task, task, f"task {config.name}", unknown=False)
    _check_comparable(task, checkpoint.task, str(checkpoint.path))
    changed = checkpoint.config.model_copy(update={"task": config})
    machine = checkpoint.machine and replace(checkpoint.machine, task=config.name)
    return replace(checkpoint, config=changed, task=task, machine=machine)


def _prove(models: Sequence[Checkpoint], result: Verification) -> None:
    """Try to prove that machines are right; a shorter counterexample replaces the known one.

    Args:
        models: the models; nothing is proved unless all are machines.
        result: of the tests, to which the verdict is added.
    """
    task, known = models[0].task, result.counterexample
    verdict: Verdict
    machines = [model.machine for model in models if model.machine]
    if len(machines) < len(models):
        return
    try:
        one, *others = machines
        verdict = prove_equivalent(one, others[0], task) if others else prove(one, task)
    except Unproved as reason:
        verdict = reason
    if not isinstance(verdict, Counterexample) or verdict.in_stream:
        result.verdict = None if known else verdict
    elif known is None or len(verdict.source) < len(known.pair.source):
        pair = task.exact_pair(task.source.decode(verdict.source))
        if not pair:  # of files, whose answers are not known
            both = verdict.source, others[0].run(verdict.source).target
            pair = task.pair(*(np.array(ids, np.int64) for ids in both))
        for wrong in _wrong_answers(models, [pair]):
            result.counterexample, length = wrong, wrong.pair.length
            result.stages.append(Stage(REFUTED, Lengths(length, length), 1, 1))


def _test_sets(
    models: Sequence[Checkpoint], request: VerifyRequest
) -> Iterator[tuple[str, Iterator[Pair]]]:
    """The names of the groups of tests, with their strings and exact answers."""
    task = models[0].task
    if isinstance(task, Pairs):
        for name, pairs in task.held_out().items():
            yield f"{name} set", iter(pairs)
        if training := task.training_pairs():
            yield f"{SET_NAMES[TRAIN]} set", iter(training)
        return
    every, machines = task.source.symbols, [model.machine for model in models if model.machine]
    yield ALL, _all_pairs(task, request, every)
    few = distinct_symbols(machines[0], machines[1]) if machines[1:] else every
    if models[1:] and len(few) > LARGE_ALPHABET:
        yield OVER_FEW, _all_pairs(task, request, few[:FEW_SYMBOLS])
    elif len(few) < len(every):
        yield REPRESENTATIVE, _all_pairs(task, request, few)
    yield RANDOM, _random_pairs(models[0], request)
    yield LONG, _long_pairs(models[0], request)


def _all_pairs(task: Task, request: VerifyRequest, symbols: Sequence[str]) -> Iterator[Pair]:
    """All sources of some symbols up to a length, the shortest first, with their answers."""
    left = request.exhaustive
    for length in range(task.layout.shortest_source, request.longest + 1):
        left -= len(symbols) ** length
        if left < 0:
            return
        for source in itertools.product(symbols, repeat=length):
            pair = task.exact_pair(source)
            if pair and pair.length <= request.longest:
                yield pair


def _random_pairs(checkpoint: Checkpoint, request: VerifyRequest) -> Iterator[Pair]:
    """Strings of training and test lengths, and of those between, as far as the task has some."""
    ranges = checkpoint.config.task.ranges
    shortest = ranges.train.shortest
    lengths = Lengths(shortest, min(max(shortest, ranges.test.longest), request.longest))
    if lengths.longest < shortest:
        return
    with contextlib.suppress(NoSuchLength):
        for first in range(0, request.count, BLOCK):
            rng = generator(request.seed, Purpose.VERIFICATION, first)
            count = min(BLOCK, request.count - first)
            yield from checkpoint.task.sample(rng, lengths, count, "uniform")


def _long_pairs(checkpoint: Checkpoint, request: VerifyRequest) -> Iterator[Pair]:
    """Strings beyond test lengths, in ranges of growing lengths, as far as the task has some."""
    length = float(checkpoint.config.task.ranges.test.longest)
    with contextlib.suppress(NoSuchLaw):  # sentences that are too long to be drawn
        while length < request.longest:
            shortest, length = int(length) + 1, min(request.longest, length * GROWTH)
            rng = generator(request.seed, Purpose.VERIFICATION, request.count, shortest)
            lengths = Lengths(shortest, max(shortest, int(length)))
            with contextlib.suppress(NoSuchLength):
                yield from checkpoint.task.sample(rng, lengths, STRINGS_PER_RANGE, "uniform")


def _tested(
    models: Sequence[Checkpoint], strings: str, pairs: Iterator[Pair]
) -> tuple[Stage, list[Prediction]]:
    """The results of a group of tests, up to the first block with wrong answers, and these."""
    wrong, lengths = list[Prediction](), list[int]()
    size = STRINGS_PER_RANGE if strings == LONG else BLOCK
    # The targets of a source may be anywhere in its set.
    most = None if models[0].task.file_parameters else size
    while not wrong and (block := [*itertools.islice(pairs, most)]):
        answers = _answers(models, block)
        wrong = [answer for answer, right in answers if not right]
        lengths += [answer.pair.length for answer, _ in answers]
    tested = Lengths(min(lengths), max(lengths)) if lengths else None
    finished = not wrong or next(pairs, None) is None
    return Stage(strings, tested, len(lengths), len(wrong), finished), wrong


def _wrong_answers(models: Sequence[Checkpoint], pairs: Sequence[Pair]) -> list[Prediction]:
    """The first model's wrong answers to pairs, those that a machine has no rule for included."""
    return [answer for answer, right in _answers(models, pairs) if not right]


def _answers(models: Sequence[Checkpoint], pairs: Sequence[Pair]) -> list[tuple[Prediction, bool]]:
    """The first model's answers to the pairs that count, and whether each is right."""
    first, *others = (predictions(model, pairs) for model in models)
    if others:
        both = zip(first, *others, strict=True)
        right = [(one.answer, one.ended) == (two.answer, two.ended) for one, two in both]
        fine = np.array(right, np.float64)
    else:
        right = [answer.right for answer in first]
        fine = np.array([answer.fine for answer in first])
    counted = counted_pairs(models[0].task, pairs, fine)
    return [*itertools.compress(zip(first, right, strict=True), counted)]


def _resampled(models: Sequence[Checkpoint], wrong: Prediction) -> Prediction:
    """A wrong answer to a short source; shorter ones are drawn as long as an answer is wrong."""
    task, shortest = models[0].task, models[0].config.task.ranges.train.shortest
    with contextlib.suppress(NoSuchLength):
        while wrong.pair.length > shortest:
            lengths = Lengths(shortest, wrong.pair.length - 1)
            rng = generator(1, Purpose.VERIFICATION, wrong.pair.length)
            shorter = _wrong_answers(models, task.sample(rng, lengths, BLOCK, "uniform"))
            if not shorter:
                break
            wrong = min(shorter, key=lambda prediction: prediction.pair.length)
    return wrong


def _minimized(models: Sequence[Checkpoint], wrong: Prediction) -> Prediction:
    """A wrong answer to a source that is right if any single symbol is left out.

    Smaller and smaller parts are left out as long as the answer stays wrong (the algorithm ddmin:
    Zeller and Hildebrandt 2002, "Simplifying and Isolating Failure-Inducing Input").
    """
    size = max(1, len(wrong.pair.source) // 2)
    while True:
        rest = _wrong_without_part(models, wrong, size)
        if rest is None and size == 1:
            return wrong
        wrong = rest or wrong
        size = max(1, min(size if rest else size // 2, len(wrong.pair.source) // 2))


def _wrong_without_part(
    models: Sequence[Checkpoint], wrong: Prediction, size: int
) -> Prediction | None:
    """A wrong answer to a source without a part of some size; None if all are right."""
    task = models[0].task
    source = task.source.decode(wrong.pair.source)
    rests = (source[:start] + source[start + size :] for start in range(0, len(source), size))
    sources = (rest for rest in rests if len(rest) >= task.layout.shortest_source)
    pairs = filter(None, map(task.exact_pair, sources))
    while block := [*itertools.islice(pairs, BLOCK)]:
        if answers := _wrong_answers(models, block):
            return answers[0]
    return None
