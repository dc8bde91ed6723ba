"""Precision, recall and AUC of a model that labels strings."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class LabelScores:
    """The labels of n strings beside those that a model gives them; undefined scores are None.

    Attributes:
        positive: [n] whether the string is in the language.
        answered: [n] whether the model says so.
        probability: [n] the probability that it gives to that.
    """

    positive: npt.NDArray[np.bool_]
    answered: npt.NDArray[np.bool_]
    probability: npt.NDArray[np.float64]

    @property
    def precision(self) -> float | None:
        """Share of the strings said to be in the language that are."""
        return self._share(self.answered)

    @property
    def recall(self) -> float | None:
        """Share of the strings in the language that are said to be."""
        return self._share(self.positive)

    def _share(self, among: npt.NDArray[np.bool_]) -> float | None:
        return float((self.positive & self.answered).sum() / among.sum()) if among.any() else None

    @property
    def auc(self) -> float | None:
        """Area under the ROC curve: how often a string in the language has the higher probability.

        A tie counts one half (the statistic of Mann and Whitney).
        """
        _, group, counts = np.unique(self.probability, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
        inside, outside = self.positive.sum(), (~self.positive).sum()
        if not inside * outside:
            return None
        above = ranks[self.positive].sum() - inside * (inside + 1) / 2
        return float(above / (inside * outside))

    def as_json(self) -> dict[str, float]:
        """The scores that are defined."""
        scores = {"precision": self.precision, "recall": self.recall, "auc": self.auc}
        return {name: score for name, score in scores.items() if score is not None}
