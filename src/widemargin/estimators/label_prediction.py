"""Predictions of classifiers of which a row may have any number of labels."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from widemargin.arrays import Matrix
from widemargin.data import Rows
from widemargin.data.devices import is_on_gpu
from widemargin.estimators.label_sets import indicator
from widemargin.estimators.linear_classifier import LinearClassifier
from widemargin.estimators.scoring import linear_scores
from widemargin.estimators.validation import (
    check_bytes,
    check_count,
    check_finite_matrix,
    check_matrix,
)

# Scores are computed for so many bytes of them at a time, without a `memory_budget`.
_AT_ONCE = 1 << 26


class TopLabels(NamedTuple):
    """The labels with the largest scores, best first.

    Attributes
    ----------
    labels : ndarray of shape (n, k)
    scores : ndarray of shape (n, k)
    """

    labels: np.ndarray
    scores: np.ndarray


class PredictsLabels(LinearClassifier):
    """A classifier that may have been fitted to a matrix of labels."""

    #: whether the model was fitted to a matrix of labels, and whether that was sparse
    multilabel_: bool = False
    sparse_output_: bool = False

    multi_class: str
    penalty: str
    probability: bool
    memory_budget: int | str | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        one_by_one = self.multi_class == "ovr" and self.penalty == "l2"
        tags.classifier_tags.multi_label = one_by_one and not self.probability
        return tags

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return w.x + b for each row: (n,) for two classes, else (n, n_classes)."""
        scores = super().decision_function(X)
        return scores.reshape(-1, 1) if self.multilabel_ and scores.ndim == 1 else scores

    def predict(self, X: Matrix) -> Any:
        """Return the predicted class label of each row.

        After a fit to labels of which rows may have several, this is a matrix of zeros and ones,
        (n, k), with a one for scores above zero. It is sparse if the labels of the fit were a
        sparse matrix or sets. Scores are computed for some rows at a time, in `memory_budget`.
        """
        if not self.multilabel_:
            return super().predict(X)
        check_is_fitted(self)
        starts, columns, k = [np.zeros(1, np.int64)], [], len(self.classes_)
        for scores in self._scores_in_blocks(X):
            rows, found = np.nonzero(scores > 0.0)
            columns.append(found)
            counts = np.bincount(rows, minlength=len(scores))
            starts.append(starts[-1][-1] + np.cumsum(counts))
        ends, index = np.concatenate(starts), np.concatenate(columns)
        ones = np.ones(index.size, dtype=np.int64)
        shape = (ends.size - 1, k)
        return indicator(scipy.sparse.csr_array((ones, index, ends), shape), self.sparse_output_)

    def predict_top(self, X: Matrix, k: int = 5) -> TopLabels:
        """Return the k labels, or classes, with the largest scores for each row, best first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        k : int, default=5
            If there are fewer labels, all of them.

        Returns
        -------
        TopLabels
            ``labels`` and ``scores``, (n_samples, k) each. Of equal scores the first label in
            `classes_` comes first.
        """
        check_is_fitted(self)
        check_count("k", k)
        k = min(int(k), len(self.classes_))
        places, best = [], []
        for scores in self._scores_in_blocks(X):
            if scores.shape[1] < len(self.classes_):  # two classes have one score
                scores = np.column_stack([-scores, scores])
            order = _largest(scores, k)
            places.append(order)
            best.append(np.take_along_axis(scores, order, axis=1))
        return TopLabels(self.classes_[np.concatenate(places)], np.concatenate(best))

    def _scores_in_blocks(self, X: Matrix) -> Iterator[np.ndarray]:
        """Yield the scores of some rows at a time, (m, k), which fit into `memory_budget`."""
        if is_on_gpu(X) or isinstance(X, Rows):
            yield np.asarray(self.decision_function(X)).reshape(-1, len(self.intercept_))
            return
        X = check_matrix(self, X, reset=False, finite=False)
        budget = check_bytes("memory_budget", self.memory_budget) or _AT_ONCE
        if scipy.sparse.issparse(self.coef_):  # weights that are zero hide what is not finite
            check_finite_matrix(self, X)
        # Scores, the mask or the order of the best ones, and a product before it is dense.
        step = max(1, budget // (32 * len(self.intercept_)))
        for begin in range(0, X.shape[0], step):
            part = X[begin : begin + step]
            with np.errstate(over="ignore", invalid="ignore"):
                scores = linear_scores(part, self.coef_.T, self.intercept_)
            if not np.isfinite(scores).all():
                check_finite_matrix(self, X)
            yield scores


def _largest(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the places of the k largest scores of each row, (n, k), largest first.

    Of equal scores the first place comes first.
    """
    n_labels = scores.shape[1]
    if 4 * k < n_labels:
        # Ties at the boundary: all places with the k-th largest score are candidates.
        kth = -np.partition(-scores, k - 1, axis=1)[:, k - 1]
        return np.stack([_first(row, least, k) for row, least in zip(scores, kth)])
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def _first(row: np.ndarray, least: float, k: int) -> np.ndarray:
    places = np.flatnonzero(row >= least)
    return places[np.argsort(-row[places], kind="stable")[:k]]
