"""Coarse and fine accuracy (grefenstette2015, section 4.4), symbol accuracy and perplexity.

Until its first error a greedy decoder has read exactly the true prefix, so both
scores come out of one pass over the true joint sequences.
"""

import contextlib
import functools
import itertools
import math
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stacktrans.common.errors import OVERFLOW, StacktransError, UsageError
from stacktrans.common.ragged import STEPS_AT_ONCE, batches_of
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import name_of
from stacktrans.decoding.beam import search
from stacktrans.decoding.decoder import STEPS_IN_A_PIECE, Answer, log_softmax, predict
from stacktrans.decoding.model import Model, Numbers, Predictor
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.settings.config import TaskConfig
from stacktrans.tasks.alphabets import OUT_OF_VOCABULARY, Ids
from stacktrans.tasks.base import (
    DepthLimit,
    LengthLaw,
    Lengths,
    NoSuchLength,
    Task,
    held_out_pairs,
    mask_unscored,
)
from stacktrans.tasks.corpus import Corpus, Vocabulary, encode_sentences, read_sentences
from stacktrans.tasks.layout import Layout, Pair, measured_sequences
from stacktrans.tasks.lines import pairs_of_strings, read_pairs, written_fields

BLOCK = 250
"""Strings that are drawn and measured at once, so that no more are held."""
SYMBOLS_AT_ONCE = 512
"""Symbols of a text after which logits are held at once."""
LIKELIEST = 5
"""How many of the most probable symbols are named."""


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """The strings that a model is to be measured on.

    Attributes:
        data: pairs as written, or a file of them. Unless given, strings are drawn, or are those of
            the files that were kept apart in training.
        bounds: ranges of lengths; unless given, all of the pairs, or the task's own ranges.
        test_only: whether the usual strings are those of the test range, or test set, alone.
        count: of each range, at most; 1000 that are drawn, or all pairs, unless given.
        each: whether `count` strings of every length are drawn, 100 unless given.
        depth: the greatest of derivations.
        seed: of the strings that are drawn.
        beam: hypotheses of the search for an answer; see `with_predictions`.
        prefix: of the names of options in messages.
    """

    data: str | os.PathLike[str] | Sequence[tuple[str, ...]] | None = None
    bounds: Sequence[Lengths] = ()
    test_only: bool = False
    count: int | None = None
    each: bool = False
    depth: int | None = None
    seed: int = 1
    beam: int | None = None
    prefix: str = ""


@dataclass(frozen=True)
class Prediction:
    """A model's answer to a source with a known target.

    Attributes:
        source: as it is written; `target` and `answer` in the same way, the answer with `·` for
            symbols that are not scored.
        right: whether the answer is the target, and was ended there.
        first_wrong: of a wrong answer, the first place that differs from the target's, from 1; one
            after the target's last symbol if the answer is longer, or was not ended. None of a
            right one.
        edits: the fewest symbols to insert, delete or replace in the answer to make it the target
            (Levenshtein's distance), of those that are scored.
        symbols: how many of the target's symbols are scored.
        fine: the share of the target, its end included, that was output before the first error.
        pair: source and target as ids.
    """

    source: str
    target: str
    answer: str
    right: bool
    first_wrong: int | None
    edits: int
    symbols: int
    fine: float = field(repr=False)
    pair: Pair = field(repr=False, compare=False)


@dataclass(frozen=True)
class Scores:
    """How n strings were transduced.

    Attributes:
        lengths: [n] source lengths.
        fine: [n] share of what is scored of the target, `</s>` included, before the first error.
        right: [n] how many of the scored symbols are right.
        scored: [n] how many there are.
        differing: [n] of a model that is run hard, how many of them differ from its soft answer;
            zeros of any other, and where that was not asked.
        predictions: [n] what the model says to each source of its own accord, as `Prediction`s;
            None where that was not asked.
        name: of the set that they belong to; empty for others.
        unknown: [n] which have symbols that the model does not know, and so are wrong; None where
            that was not asked.
    """

    lengths: npt.NDArray[np.int64]
    fine: npt.NDArray[np.float64]
    right: npt.NDArray[np.int64]
    scored: npt.NDArray[np.int64]
    differing: npt.NDArray[np.int64]
    predictions: npt.NDArray[np.object_] | None = None
    name: str = ""
    unknown: npt.NDArray[np.bool_] | None = None

    @property
    def count(self) -> int:
        """Number of strings."""
        return len(self.lengths)

    @property
    def wrong(self) -> int:
        """Number of strings with an error."""
        return int((self.fine < 1).sum())

    @property
    def unknown_count(self) -> int:
        """Number of strings with symbols that the model does not know."""
        return 0 if self.unknown is None else int(self.unknown.sum())

    @property
    def coarse_accuracy(self) -> float:
        """Share of strings that are right from first to last."""
        return float((self.fine == 1).mean())

    @property
    def fine_accuracy(self) -> float:
        """Mean share of a string before its first error."""
        return float(self.fine.mean())

    @property
    def symbol_accuracy(self) -> float:
        """Share of all scored symbols that are right, those after an error included."""
        return float(self.right.sum() / max(self.scored.sum(), 1))

    @property
    def differing_share(self) -> float:
        """Share of all scored symbols at which the hard model differs from the soft one."""
        return float(self.differing.sum() / max(self.scored.sum(), 1))

    @property
    def symbol_error_rate(self) -> float | None:
        """Edits that make all answers their targets, a symbol of these; None without answers."""
        if self.predictions is None:
            return None
        edits: int = sum(each.edits for each in self.predictions)
        symbols: int = sum(each.symbols for each in self.predictions)
        return edits / max(symbols, 1)

    def by_length(self) -> dict[int, "Scores"]:
        """The scores of the strings of each length, the shortest first."""
        return {each: self.of_lengths(each, each) for each in sorted(set(self.lengths.tolist()))}

    def of_lengths(self, shortest: int, longest: int) -> "Scores":
        """The scores of the strings within a range of lengths."""
        return self.of((self.lengths >= shortest) & (self.lengths <= longest))

    def of(self, chosen: npt.NDArray[np.bool_]) -> "Scores":
        """The scores of some strings: [n] whether each is one of them."""
        return replace(self, **{name: part[chosen] for name, part in self._parts().items()})

    def __add__(self, other: "Scores") -> "Scores":
        own, more = self._parts(), other._parts()
        parts: dict[str, Any] = {name: np.concatenate([own[name], more[name]]) for name in own}
        return replace(self, **parts)

    def _parts(self) -> dict[str, Any]:
        """What there is of each string, by its name."""
        return {name: part for name, part in vars(self).items() if isinstance(part, np.ndarray)}


def score(
    model: Predictor, layout: Layout, pairs: Sequence[Pair], beside_soft: bool = False
) -> Scores:
    """The scores of a model's greedy answers to pairs of sources and targets, in their order.

    In a stream, pairs follow one another: what a model leaves behind of one can spoil the next.
    With `beside_soft`, one that is run hard is run soft, too, which takes as long again.

    Raises:
        ValueError: a buffered model would find its answers in what it reads.
    """
    if model.buffers and layout.feeds_back:
        raise ValueError("a buffered model needs a synchronous layout")
    # Each row of pairs is one sequence; what a model cannot read is wrong, and not asked.
    known = (
        [index for index in row if pairs[index].known] for row in measured_sequences(layout, pairs)
    )
    rows = [row for row in known if row]
    examples = layout.examples([[pairs[index] for index in row] for row in rows])
    read, masks = [inputs for inputs, _, _ in examples], [mask for _, _, mask in examples]
    outputs = predict(model, read, masks, log_probs=False).symbols.values
    soft = outputs
    if beside_soft and model.hard:
        soft = predict(model.discretised(hard=False), read, masks, log_probs=False).symbols.values
    targets = [right[mask] for _, right, mask in examples]
    correct = outputs == np.concatenate([*targets, np.empty(0, np.int64)])
    different = outputs != soft
    fine = np.zeros(len(pairs))
    right, scored, differing = np.zeros((3, len(pairs)), dtype=np.int64)
    first = 0
    for row, mask in zip(rows, masks, strict=True):
        ends = np.cumsum([layout.steps(pairs[index]) for index in row])
        for index, own in zip(row, np.split(mask, ends[:-1]), strict=True):
            part = slice(first, first + int(own.sum()))
            found, first = correct[part], part.stop
            right[index], scored[index] = found.sum(), len(found)
            # The share before the first error; where nothing is scored, nothing is wrong.
            fine[index] = 1 if found.all() else found.argmin() / len(found)
            differing[index] = different[part].sum()
    for index, pair in enumerate(pairs):
        if not pair.known:
            scored[index] = layout.example([pair])[2].sum()
    lengths = np.array([pair.length for pair in pairs], dtype=np.int64)
    return Scores(lengths, fine, right, scored, differing)


def measured(
    checkpoint: Checkpoint, pairs: Sequence[Pair], beam: int | None = None, name: str = ""
) -> Scores:
    """The scores of pairs, and with a beam what the model says to each source, searched with it.

    A greedy answer is known where no error was found; but in a stream, where pairs follow one
    another, and each is answered by itself. With a beam wider than 1, coarse and fine accuracy are
    those of the answers, too.
    """
    layout = checkpoint.layout
    scores = score(checkpoint.predictor, layout, pairs, beside_soft=True)
    unknown = [not pair.known or OUT_OF_VOCABULARY in pair.target for pair in pairs]
    scores = replace(scores, unknown=np.array(unknown, np.bool_), name=name)
    if beam is None:
        return scores
    greedy = beam == 1 or not layout.feeds_back
    known = (scores.fine == 1) & (greedy and not layout.consecutive)
    found = np.empty(len(pairs), dtype=np.object_)
    found[:] = predictions(checkpoint, pairs, known, beam)
    fine = scores.fine if greedy else np.array([each.fine for each in found])
    return replace(scores, fine=fine, predictions=found)


def predictions(
    checkpoint: Checkpoint, pairs: Sequence[Pair], known: npt.NDArray[np.bool_], beam: int
) -> list[Prediction]:
    """What a model says to the sources of pairs, each by itself, in their order.

    An answer is not cut off before its target would end.

    Args:
        checkpoint: the model.
        pairs: sources and targets.
        known: [n] the pairs whose targets the model is known to say: only the others are answered.
        beam: the width of the beam that searches for answers; greedy ones with 1.
    """
    layout, found = checkpoint.layout, dict[int, Answer]()
    asked: dict[int | None, list[int]] = {}  # by limits of answers; None for the usual one
    for index, pair in enumerate(pairs):
        if known[index]:
            found[index] = Answer([*pair.target], 0.0, True)
        elif not pair.known:
            found[index] = Answer([], 0.0, False)
        else:
            needed = len(pair.target)
            usual = not layout.feeds_back or needed <= layout.limit(len(pair.source))
            asked.setdefault(None if usual else needed, []).append(index)
    for limit, group in asked.items():
        sources = [pairs[index].source for index in group]
        answers = search(checkpoint.predictor, layout, sources, beam, limit=limit)
        found.update(zip(group, (best for best, *_ in answers), strict=True))
    return [_compared(checkpoint, pair, found[index]) for index, pair in enumerate(pairs)]


def _compared(checkpoint: Checkpoint, pair: Pair, answer: Answer) -> Prediction:
    """An answer beside its target."""
    from rapidfuzz.distance import Levenshtein  # waits until it is needed

    task = checkpoint.task
    counts_end = checkpoint.layout.end is not None
    said, ended = ([], False) if answer.failed else (answer.target, answer.ended)
    target: list[int] = pair.target.tolist()
    written, edits = task.target.decode(said), Levenshtein.distance(said, target)
    places = [*range(len(target))]
    if pair.scored is not None:  # a symbol for each symbol, or none
        places = np.flatnonzero(pair.scored).tolist()
        own = [said[place] for place in places] if said else []
        edits = Levenshtein.distance(own, [target[place] for place in places])
        written = mask_unscored(written, pair.scored) if said else []
    wrong = _wrong(said, target, places, ended)
    in_turn = checkpoint.layout.in_reading_order
    turned = [in_turn(np.array(each)).tolist() for each in (said, target)]
    first = _wrong(turned[0], turned[1], places, ended)[:1]
    before = sum(place < first[0] for place in places) if first else 0
    by_column = dict(zip(task.columns, written_fields(task, pair), strict=True))
    target_written = by_column.pop("target")
    return Prediction(
        "\t".join(by_column.values()),
        target_written,
        task.target.join(written),
        not wrong,
        wrong[0] + 1 if wrong else None,
        edits,
        len(places),
        before / max(len(places) + counts_end, 1) if wrong else 1.0,
        pair,
    )


def _wrong(said: list[int], target: list[int], places: list[int], ended: bool) -> list[int]:
    """The indices in a target at which the output differs; that of its end follows the last."""
    wrong = [place for place in places if said[place : place + 1] != target[place : place + 1]]
    whole = ended and len(said) == len(target)
    return wrong if whole else [*wrong, len(target)]


def cross_entropy(model: Predictor, layout: Layout, pairs: Sequence[Pair]) -> float:
    """Mean nats a symbol of pairs, which follow one another as for `score`; all are scored."""
    rows = [[pairs[index] for index in row] for row in measured_sequences(layout, pairs)]
    sizes = [sum(map(layout.steps, row)) for row in rows]
    total, count = 0.0, 0
    for group in batches_of(sizes, STEPS_AT_ONCE):
        batch = layout.batch([rows[index] for index in group], everything=True)
        state, steps = model.start(len(batch.inputs)), batch.inputs.shape[1]
        size = max(1, STEPS_IN_A_PIECE // len(batch.inputs))
        for piece in (np.s_[:, start : start + size] for start in range(0, steps, size)):
            asked = batch.mask[piece]
            logits = model.advance(state, batch.inputs[piece], asked)
            total += nats(logits, batch.targets[piece][asked])
            count += len(logits)
    return total / max(count, 1)


def nats(logits: Numbers, targets: Ids) -> float:
    """Minus the logarithm of the probability of outputs [n], by their logits, [n, outputs]."""
    logs = log_softmax(logits)
    return -float(logs[np.arange(len(targets)), targets].sum(dtype=np.float64))


def evaluate(checkpoint: Checkpoint, request: EvalRequest) -> list[tuple[Lengths, Scores]]:
    """The scores of a model on each range of lengths that is asked for.

    Raises:
        StacktransError: there are no such strings, or something is not a pair.
        UsageError: the model is of a text, or what is asked for does not go together.
    """
    config, task = checkpoint.config.task, checkpoint.task
    if config.lengths is None:
        raise UsageError("a model of a text has no accuracy, but a perplexity")
    if request.data is None and not task.file_parameters:
        usual = [config.lengths.test]
        usual = usual if request.test_only else [config.lengths.train, *usual]
        return [
            (range_, scores_of_range(checkpoint, range_, law, request))
            for range_, law in ranges(config, task, request.bounds, usual, request.depth)
        ]
    for name in ("each", "depth"):
        if getattr(request, name):
            why = "for strings that are drawn, not for pairs"
            raise UsageError(f"{request.prefix}{name}: {why}")
    if request.data is None:
        return _scores_of_sets(checkpoint, request)
    if isinstance(request.data, str | os.PathLike):
        path = Path(request.data)
        return scores_of_pairs(checkpoint, read_pairs(path, task), request, name_of(path))
    return scores_of_pairs(checkpoint, pairs_of_strings(request.data, task), request, "data")


def ranges(
    config: TaskConfig,
    task: Task,
    bounds: Sequence[Lengths],
    usual: Sequence[Lengths],
    depth: int | None,
) -> list[tuple[Lengths, LengthLaw]]:
    """Ranges of lengths, each with how they are spread: those asked for, or else the usual."""
    if depth is None:
        return [(range_, config.law_of(range_)) for range_ in bounds or usual]
    law = DepthLimit(depth)
    return [(range_, law) for range_ in bounds or [task.lengths_within(law)]]


def scores_of_range(
    checkpoint: Checkpoint, lengths: Lengths, law: LengthLaw, request: EvalRequest
) -> Scores:
    """The scores of strings that are drawn from a range of lengths.

    Of pairs in files, those of the test set are measured, as many as there are unless the request
    has a number.

    Raises:
        NoSuchLength: the task has no string of such a length.
    """
    if checkpoint.task.file_parameters:
        pairs = held_out_pairs(checkpoint.task, lengths)[: request.count]
        return measured(checkpoint, pairs, request.beam)
    each, count = request.each, request.count or (100 if request.each else 1000)
    every = range(lengths.shortest, lengths.longest + 1)
    found = []
    for part in [Lengths(length, length) for length in every] if each else [lengths]:
        with contextlib.suppress(NoSuchLength) if each else contextlib.nullcontext():
            for start in range(0, count, BLOCK):
                rng = generator(request.seed, Purpose.EVALUATION, start)
                pairs = checkpoint.task.sample(rng, part, min(BLOCK, count - start), law)
                found.append(measured(checkpoint, pairs, request.beam))
    if not found:
        raise NoSuchLength(f"the task has no length in {lengths}")
    return functools.reduce(operator.add, found)


def _scores_of_sets(checkpoint: Checkpoint, request: EvalRequest) -> list[tuple[Lengths, Scores]]:
    """The scores of the pairs of each set that was not trained on, or of the test set alone.

    Of each, those within each range of lengths are measured, without ranges that it lacks.

    Raises:
        UsageError: the files of the sets can't be read, or are not what they were.
        NoSuchLength: none has a pair of such lengths.
    """
    found = [
        (range_, measured(checkpoint, own, request.beam, name))
        for name, pairs in checkpoint.task.held_out().items()
        if name == "test" or not request.test_only
        for range_, own in _by_range(pairs, request)
        if own
    ]
    if not found:
        raise NoSuchLength(f"no pair that is kept apart has a length in {request.bounds[0]}")
    return found


def scores_of_pairs(
    checkpoint: Checkpoint, pairs: Sequence[Pair], request: EvalRequest, name: str
) -> list[tuple[Lengths, Scores]]:
    """The scores of pairs within each range of lengths, or of all of them if there is no range.

    Raises:
        UsageError: there are none, or none of some range; the message begins with their name.
    """
    if not pairs:
        raise UsageError(f"{name}: no pairs")
    parts = _by_range(pairs, request)
    for range_, own in parts:
        if not own:
            raise UsageError(f"lengths {range_}: {name} has no source of such a length")
    return [(range_, measured(checkpoint, own, request.beam)) for range_, own in parts]


def _by_range(pairs: Sequence[Pair], request: EvalRequest) -> list[tuple[Lengths, list[Pair]]]:
    """Ranges of lengths, each with the first pairs in it; one range of all without bounds."""
    bounds, count = request.bounds, request.count
    if not bounds:
        first = list(pairs[:count])
        lengths = [pair.length for pair in first]
        return [(Lengths(min(lengths), max(lengths)), first)]
    found = []
    for range_ in bounds:
        own = (pair for pair in pairs if range_.shortest <= pair.length <= range_.longest)
        found.append((range_, [*itertools.islice(own, count)]))
    return found


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text, whose sentences follow one another.

    Attributes:
        perplexity: exp(nats).
        nats: minus the logarithm of the text's probability, a symbol.
        symbols: how many were predicted, the ends of sentences included.
        unknown: how many of them the model does not know.
    """

    perplexity: float
    nats: float
    symbols: int
    unknown: int


def perplexity(model: Model, vocabulary: Vocabulary, stream: Ids) -> Perplexity:
    """The perplexity of all of a stream, [N + 1], but its first symbol.

    The model reads it as one sequence: its state at the end of a sentence is that at the
    beginning of the next.
    """
    state, total, count = model.start(1), 0.0, len(stream) - 1
    for first in range(0, count, SYMBOLS_AT_ONCE):
        later = min(first + SYMBOLS_AT_ONCE, count)
        logits = model.advance(state, stream[None, first:later])
        total += nats(logits, stream[first + 1 : later + 1])
    unknown = int(np.count_nonzero(stream[1:] == vocabulary.unknown))
    return Perplexity(math.exp(min(total / count, 700.0)), total / count, count, unknown)


def perplexities(checkpoint: Checkpoint, file: Path | None) -> dict[str, Perplexity]:
    """The perplexity of a file, or of the validation and the test text of the model's run.

    Raises:
        UsageError: the model is not of a text, or a file can't be read.
        StacktransError: a line is not text, there is none, or the model's numbers overflow.
    """
    task = checkpoint.task
    if not isinstance(task, Corpus):
        name = checkpoint.config.task.name
        raise UsageError(f"the model is not of a text: its task is {name}")
    files = {str(file): file} if file else {part: task.file(part) for part in ("valid", "test")}
    words = task.vocabulary
    streams = {
        name: encode_sentences(words, read_sentences(path, words)) for name, path in files.items()
    }
    found = {name: perplexity(checkpoint.predictor, words, each) for name, each in streams.items()}
    for name, measured in found.items():
        if math.isnan(measured.nats):
            raise StacktransError(f"{name}: {OVERFLOW}")
    return found


@dataclass(frozen=True)
class Following:
    """A model's prediction after a symbol, and the symbol that follows.

    Attributes:
        after: the symbol read; the end of a sentence before the first of the next.
        next: the symbol that follows.
        probability: of `next`.
        log_probability: its logarithm, in nats.
        likeliest: the `LIKELIEST` most probable symbols with their probabilities.
    """

    after: str
    next: str
    probability: float
    log_probability: float
    likeliest: dict[str, float]


def followings(model: Model, vocabulary: Vocabulary, sentence: Sequence[str]) -> list[Following]:
    """A model's predictions from before the first symbol of a sentence to after its last."""
    ids = encode_sentences(vocabulary, [[*sentence]])
    state, read = model.start(1), ids[None, :-1]
    symbols = vocabulary.decode(ids.tolist())
    found: list[Following] = []
    for first in range(0, read.shape[1], SYMBOLS_AT_ONCE):
        for row in log_softmax(model.advance(state, read[:, first : first + SYMBOLS_AT_ONCE])):
            place = len(found)
            log_probability = float(row[ids[place + 1]])
            best = np.argsort(-row, kind="stable")[:LIKELIEST].tolist()
            found.append(
                Following(
                    symbols[place],
                    symbols[place + 1],
                    math.exp(log_probability),
                    log_probability,
                    dict(zip(vocabulary.decode(best), np.exp(row[best]).tolist(), strict=True)),
                )
            )
    return found
