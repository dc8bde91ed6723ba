"""Training on pairs in files, and on pairs with their interchangeable symbols permuted."""

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from stacktrans.common.ragged import Ragged
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.visible import visible_symbol
from stacktrans.inference.baselines import baseline_scores
from stacktrans.inference.predictions import predictions
from stacktrans.inference.scores import Scores, counted_pairs, outnumbered_pairs, score
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.base import random_subset
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import Lengths
from stacktrans.tasks.pair_files import DEV, TEST, TRAIN
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.permutation import SymbolClass, interchangeable_classes
from stacktrans.tasks.sets import PairSet, unknown_probabilities
from stacktrans.training.records import MAX_EXCEPTION_SHARE, Accuracy, Record, Summary
from stacktrans.training.sources import SHORTEST_SHARE, DataSource, Moment

MAX_LISTED = 10
"""The most interchangeable symbols that a note lists."""
MIN_PAIRS = 80
"""The fewest pairs that a curriculum begins with if no symbols are permuted; fewer would be
memorized."""
MAX_PERMUTED = 3000
"""The largest training set whose symbols are permuted; a larger one shows each symbol often
enough."""
MAX_SCORED = 3000
"""Training pairs whose answers are tested before a discrete model counts as a solution."""
PERMUTED_STRINGS = 300
"""The fewest development pairs with permuted symbols that a model also has to get right."""
UNPERMUTED_EVERY = 3
"""Attempts whose number is a multiple of this permute no symbols, in case they are not
interchangeable."""
LONGEST_SHARE = 0.1
"""Share of the development set, its longest sources, that is measured separately."""


class FilePairs(DataSource):
    """A source of pairs in files: batches from the training set, measured on the other sets.

    Symbols that are rare in the training set are sometimes replaced by an unknown one, so that the
    model learns to do without them. The test set is used for the summary alone.

    Raises:
        UsageError: a file can't be read, or has changed since the run began.
        StacktransError: a line is not a pair.
    """

    def __init__(self, config: RunConfig, task: Pairs) -> None:
        super().__init__(config, task)
        self._data = data = task.data
        self._train, development, self._test = (data.sets[part] for part in (TRAIN, DEV, TEST))
        self._unknown_chance = unknown_probabilities(self._train, len(task.source))
        self._unknown = task.source.unknowns()
        permutes = task.interchangeable and len(self._train) <= MAX_PERMUTED
        self._classes = _classes_of(self._train, task.source.unknown) if permutes else ()
        self.notes = [*data.notes, *map(self._permutation_note, self._classes)]
        self.development = self._subset(development, config.training.measure.strings)

    def _permutation_note(self, each: SymbolClass) -> str:
        """A note on symbols that are permuted."""
        count, first = len(each.sources), self.task.source.decode(each.sources[:MAX_LISTED])
        symbols = " ".join(map(visible_symbol, first)) + (" …" if count > MAX_LISTED else "")
        seem = f"{count} symbols seem interchangeable and are permuted ({symbols})"
        return f"{seem}; --set parameters.interchangeable=false prevents it"

    def _subset(self, pairs: PairSet, most: int | None, key: int = 0) -> list[Pair]:
        """All pairs, or some of them, which are always the same for a key; see `random_subset`."""
        return random_subset(self.task, pairs, most, self.config.seed, key)

    def check(self) -> None:
        self.strings(Purpose.TRAINING, Moment(1, 0), self.ranges.train, 1)

    def _permuted(self, attempt: int) -> Sequence[SymbolClass]:
        """The classes of symbols that are permuted in an attempt."""
        return self._classes if attempt % UNPERMUTED_EVERY else ()

    def _has_enough(self, lengths: Lengths, attempt: int) -> bool:
        least = 1 if self._permuted(attempt) else min(MIN_PAIRS, len(self._train))
        return len(self._train.of_lengths(lengths)) >= least

    def strings(
        self, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *key: int
    ) -> list[Pair]:
        """Draw training pairs, with some rare symbols of sources unknown."""
        rng = generator(self.config.seed, purpose, moment.attempt, moment.step, *key)
        pairs = self._train.draw(rng, lengths, count, self._law(purpose, lengths))
        sources = Ragged.of([pair.source for pair in pairs])
        ids = sources.values
        unknown = rng.random(len(ids)) < self._unknown_chance[ids]
        sources = Ragged(np.where(unknown, self._unknown[ids], ids), sources.starts)
        drawn = [pair._replace(source=source) for pair, source in zip(pairs, sources, strict=True)]
        return self._permute(drawn, moment)

    def _permute(self, pairs: list[Pair], moment: Moment) -> list[Pair]:
        """Pairs with interchangeable symbols permuted at random, unless this attempt has none."""
        rng = generator(self.config.seed, Purpose.PERMUTATION, moment.attempt, moment.step)
        for each in self._permuted(moment.attempt):
            pairs = [each.permute(rng, pair) for pair in pairs]
        return pairs

    def score(self, model: Transducer, pairs: Sequence[Pair]) -> Scores:
        scores = super().score(model, pairs)
        return scores.of(counted_pairs(self.task, pairs, scores.fine))

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        scores = self.score(model, self.development)
        record.development = Accuracy.of(scores)
        longer = self._longer(scores.lengths, moment.share)
        record.train, record.test = _accuracy(scores, ~longer), _accuracy(scores, longer)
        record.longest = _accuracy(scores, self._longer(scores.lengths, 1.0))

    def accuracies(
        self, model: Transducer, purpose: Purpose, moment: Moment
    ) -> tuple[Accuracy, Accuracy]:
        """Accuracy on the shorter and the longer development strings, or on all of them."""
        scores = self.score(model, self.development)
        longer, whole = self._longer(scores.lengths, moment.share), Accuracy.of(scores)
        return _accuracy(scores, ~longer) or whole, _accuracy(scores, longer) or whole

    def _longer(self, sizes: Ids, share: float) -> Mask:
        """[n] which sources, of lengths `sizes` [n], count as longer.

        They are those longer than all trained on or, once all lengths are, the longest tenth.
        """
        if share < 1:
            longer: Mask = sizes > self._shortest(share).longest
        else:
            longest = np.argsort(sizes, kind="stable")[-math.ceil(LONGEST_SHARE * len(sizes)) :]
            # If all are equally long, none is longer than others.
            longer = np.isin(np.arange(len(sizes)), longest) & (sizes > sizes.min())
        return longer

    def validation(self, moment: Moment) -> list[Pair]:
        return self.development

    def generalization(self, model: Transducer, moment: Moment) -> float:
        """Accuracy with symbols permuted; 0 if too many short or long training pairs are wrong."""
        return self._permuted_accuracy(model, moment) if self._errs_on_few(model) else 0.0

    @functools.cached_property
    def _checked_pairs(self) -> list[Pair]:
        """Training pairs on which `_errs_on_few` tests a model."""
        return self._subset(self._train, MAX_SCORED)

    def _errs_on_few(self, model: Transducer) -> bool:
        """Whether few of the shortest training pairs and few of the longest are wrong.

        A development set has few of these, and their errors may pass for exceptions. Two standard
        deviations above the expected number may be wrong by chance.
        """
        scores = self.score(model, self._checked_pairs)
        wrong = (scores.fine < 1)[np.argsort(scores.lengths, kind="stable")]
        count = math.ceil(SHORTEST_SHARE * len(wrong))
        most = max(wrong[:count].sum(), wrong[-count:].sum())
        expected = MAX_EXCEPTION_SHARE * count
        return bool(most <= expected + 2 * math.sqrt(expected))

    def _permuted_accuracy(self, model: Transducer, moment: Moment) -> float:
        """The share of right development pairs that stay right with symbols permuted."""
        if not self._permuted(moment.attempt):
            return 1.0
        # Where a source has several targets, an answer is right for one of its pairs.
        is_right = super().score(model, self.development).fine == 1
        right = [*itertools.compress(self.development, is_right)]
        if not right:
            return 0.0
        permuted = self._permute(right * math.ceil(PERMUTED_STRINGS / len(right)), moment)
        return self.score(model, permuted).coarse_accuracy

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        strings = self.config.training.measure.strings
        summary.train = self._accuracy_on(model, self._subset(self._train, strings, 1))
        summary.development = self._accuracy_on(model, self.development)
        summary.test = self.test_accuracy(model, moment)
        baselines = baseline_scores(self.task, self._train, self._test).items()
        summary.baselines = {name: Accuracy.of(scores) for name, scores in baselines}

    def contradictions(self, checkpoint: Checkpoint) -> list[dict[str, str]]:
        pairs = [*itertools.chain(*self._data.sets)]
        origins = np.concatenate([each.origins for each in self._data.sets]).tolist()
        fine = score(checkpoint.predictor, self.layout, pairs).fine
        listed = counted_pairs(self.task, pairs, fine) | outnumbered_pairs(pairs, fine)
        wrong = np.flatnonzero(listed & (fine < 1)).tolist()
        wrong.sort(key=origins.__getitem__)
        answers = predictions(checkpoint, [pairs[index] for index in wrong])
        lines = [self._data.location(*origins[index]) for index in wrong]
        return [
            {"line": line, "source": each.source, "target": each.target, "answer": each.answer}
            for line, each in zip(lines, answers, strict=True)
        ]

    def test_accuracy(self, model: Transducer, moment: Moment, most: int | None = None) -> Accuracy:
        return self._accuracy_on(model, self._subset(self._test, most, 2))


_classes_of = functools.lru_cache(maxsize=1)(interchangeable_classes)
"""The classes of interchangeable symbols of a set, which the candidates of a new race share."""


def _accuracy(scores: Scores, chosen: Mask) -> Accuracy | None:
    """Accuracy on the chosen strings, if there are any."""
    return Accuracy.of(scores.of(chosen)) if chosen.any() else None
