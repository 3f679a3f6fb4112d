"""Confusion matrices, and what follows from them for each class."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from widemargin.report.measures import Judged


@dataclass(frozen=True)
class Confusion:
    """The cells of a confusion matrix that have rows.

    Attributes
    ----------
    true, predicted : ndarray of int, shape (m,)
        Indices of the true and the predicted class.
    counts : ndarray of int, shape (m,)
        Rows in each cell.
    n_classes : int
    """

    true: np.ndarray
    predicted: np.ndarray
    counts: np.ndarray
    n_classes: int

    @classmethod
    def of(cls, judged: Judged) -> "Confusion":
        """Count the rows of a classifier."""
        assert judged.predicted is not None
        k = len(judged.names)
        cells, counts = np.unique(judged.true * k + judged.predicted, return_counts=True)
        return cls(cells // k, cells % k, counts, k)

    @cached_property
    def support(self) -> np.ndarray:
        """Rows of each true class, (n_classes,)."""
        return self._sum(self.true, self.counts)

    @cached_property
    def n_predicted(self) -> np.ndarray:
        """Rows of each predicted class, (n_classes,)."""
        return self._sum(self.predicted, self.counts)

    @cached_property
    def n_correct(self) -> np.ndarray:
        """Correctly classified rows of each class, (n_classes,)."""
        return self._sum(self.true, np.where(self.is_correct, self.counts, 0))

    @property
    def is_correct(self) -> np.ndarray:
        """Whether each cell is on the diagonal, (m,)."""
        return self.true == self.predicted

    @property
    def precision(self) -> np.ndarray:
        """Precision of each class, (n_classes,); nan for a class that was never predicted."""
        return _ratio(self.n_correct, self.n_predicted)

    @property
    def recall(self) -> np.ndarray:
        """Recall of each class, (n_classes,); nan for a class without rows."""
        return _ratio(self.n_correct, self.support)

    @property
    def f1(self) -> np.ndarray:
        """F1 of each class, (n_classes,); nan for a class neither present nor predicted."""
        return _ratio(2 * self.n_correct, self.support + self.n_predicted)

    def dense(self) -> np.ndarray:
        """Return the matrix, (n_classes, n_classes)."""
        matrix = np.zeros((self.n_classes, self.n_classes), dtype=np.int64)
        matrix[self.true, self.predicted] = self.counts
        return matrix

    def errors(self) -> np.ndarray:
        """Return the cells of wrong predictions, most rows first."""
        cells = np.flatnonzero(~self.is_correct)
        return cells[np.argsort(-self.counts[cells], kind="stable")]

    def _sum(self, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return np.bincount(classes, counts, self.n_classes).astype(np.int64)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(part.size, np.nan), where=whole > 0)
