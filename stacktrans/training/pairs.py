"""Pairs in files: trained on, chosen by and tested on, each a set of its own."""

import math

import numpy as np

from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.evaluation import Scores, score
from stacktrans.model.in_torch import predictor_of
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.base import LengthLaw, Lengths
from stacktrans.tasks.files import DEV, TEST, TRAIN
from stacktrans.tasks.flat import Chosen
from stacktrans.tasks.layouts import Pair
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.sets import PairSet, chances_of_unknown
from stacktrans.training.records import Accuracy, Record, Summary
from stacktrans.training.sources import Moment, Strings

LONGEST_SHARE = 0.1
"""The share of the development set, its longest sources, that is measured by itself."""


class Files(Strings):
    """Draws each batch from the training set, and measures on the others.

    Now and then a symbol that is rare in the training set is read as an unknown one, so that the
    model learns to do without. The test set is used for the summary alone.

    Attributes:
        development: the pairs that are measured, the same every time.

    Raises:
        UsageError: a file can't be read, or is not what it was when the run began.
        StacktransError: a line is not a pair.
    """

    def __init__(self, config: RunConfig, task: Pairs) -> None:
        super().__init__(config, task)
        data = task.data
        self._train, development, self._test = (data.sets[part] for part in (TRAIN, DEV, TEST))
        self._chances = chances_of_unknown(self._train, len(task.source))
        self._unknown = task.source.unknowns()
        self.notes = data.notes
        self.development = self._some(development, 0)

    def _some(self, pairs: PairSet, which: int) -> list[Pair]:
        """As many of the pairs as are measured, at random but always the same."""
        most = self.config.training.measure.strings
        if len(pairs) <= most:
            return [*pairs]
        rng = generator(self.config.seed, Purpose.EXAMPLES, which)
        return [pairs[index] for index in np.sort(rng.permutation(len(pairs))[:most]).tolist()]

    def check(self) -> None:
        self.strings(Purpose.TRAINING, Moment(1, 0), self.ranges.train, 1)

    @property
    def _law(self) -> LengthLaw:
        law = self.config.training.length_law
        return law or self.config.task.law_of(self.ranges.train)

    def strings(
        self, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *further: int
    ) -> list[Pair]:
        """Draw `count` pairs of the training set, of these lengths."""
        rng = generator(self.config.seed, purpose, moment.attempt, moment.step, *further)
        drawn = self._train.draw(rng, lengths, count, self._law)
        return [self._with_unknowns(pair, rng) for pair in drawn]

    def _with_unknowns(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """A pair with some rare symbols of the source unknown."""
        ids = pair.source
        unknown = rng.random(len(ids)) < self._chances[ids]
        return pair._replace(source=np.where(unknown, self._unknown[ids], ids))

    def measure(self, model: Transducer, moment: Moment, record: Record) -> None:
        scores = score(predictor_of(model), self.layout, self.development)
        record.development = Accuracy.of(scores)
        longer = self._longer(moment.share)
        record.train, record.test = (_accuracy(scores, chosen) for chosen in (~longer, longer))
        record.longest = _accuracy(scores, self._longer(1.0))

    def accuracies(
        self, model: Transducer, purpose: Purpose, moment: Moment
    ) -> tuple[Accuracy, Accuracy]:
        """Accuracy on the shorter and the longer development strings, or on all of them."""
        scores = score(predictor_of(model), self.layout, self.development)
        longer, whole = self._longer(moment.share), Accuracy.of(scores)
        return _accuracy(scores, ~longer) or whole, _accuracy(scores, longer) or whole

    def _longer(self, share: float) -> Chosen:
        """[n] which development sources are longer than those trained on, or the longest of all."""
        sizes = np.array([pair.length for pair in self.development])
        if share < 1:
            longer: Chosen = sizes > self._shortest(share).longest
        else:
            longest = np.argsort(sizes, kind="stable")[len(sizes) - self._longest_count :]
            # If all are equally long, none is longer than others.
            longer = np.isin(np.arange(len(sizes)), longest) & (sizes > sizes.min())
        return longer

    @property
    def _longest_count(self) -> int:
        return math.ceil(LONGEST_SHARE * len(self.development))

    def validation(self, moment: Moment) -> list[Pair]:
        return self.development

    def report(self, model: Transducer, moment: Moment, summary: Summary) -> None:
        summary.train = Accuracy.of(
            score(predictor_of(model), self.layout, self._some(self._train, 1))
        )
        summary.development = Accuracy.of(score(predictor_of(model), self.layout, self.development))
        summary.test = self.tested(model, moment)

    def tested(self, model: Transducer, moment: Moment, most: int | None = None) -> Accuracy:
        return Accuracy.of(score(predictor_of(model), self.layout, [*self._test[:most]]))


def _accuracy(scores: Scores, chosen: Chosen) -> Accuracy | None:
    """Accuracy on some of the strings, if there are any."""
    if not chosen.any():
        return None
    return Accuracy.of(scores.of(chosen))
