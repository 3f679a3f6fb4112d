"""Linear ordinal regression as a scikit-learn estimator."""

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, Vector, move_to, on_host
from widemargin.data import Rows
from widemargin.data.devices import is_on_gpu, placed
from widemargin.data.memory import RowsInMemory
from widemargin.estimators.callbacks import with_callbacks
from widemargin.estimators.fitting import load_if_fits
from widemargin.estimators.order import ordered_classes
from widemargin.estimators.ranking import OrderingModel, OrderingProblem
from widemargin.estimators.scoring import linear_scores
from widemargin.estimators.thresholds import best_thresholds
from widemargin.estimators.validation import (
    check_choice,
    check_matrix,
    check_same_length,
    check_weights,
)
from widemargin.labels import places_of

ERRORS = ("absolute", "zero_one")


class OrdinalSVC(ClassifierMixin, OrderingModel):
    """Linear ordinal regression with a certificate.

    For ordered labels such as grades, stars or stages. Learns scores that rank the rows, as
    `LinearRanker` does, and then the thresholds between the labels that minimise the training
    error for these scores.

    Parameters
    ----------
    C : float, default=1.0
        Inverse regularisation strength: the weight of the losses.
    error : {"absolute", "zero_one"}, default="absolute"
        Error that the thresholds minimise: the mean absolute error in ranks, or the fraction of
        wrong predictions.
    solver, tol, max_iter, max_time, device, warm_start, n_jobs, verbose
        As in `LinearRanker`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the training set, from the lowest to the highest; categories without rows are
        left out.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Non-decreasing. A row is predicted to be of class j if j thresholds are below its score.
        They may be equal or infinite, if a class is best never predicted.
    coef_, dual_points_, dual_weights_, n_pairs_, certificate_, history_, solver_, status_
        As in `LinearRanker`; the certificate is about the ranking problem.
    n_iter_, n_samples_fit_, n_features_in_, feature_names_in_
        As in `LinearRanker`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from widemargin import OrdinalSVC
    >>> X, progression = load_diabetes(return_X_y=True)
    >>> stage = np.digitize(progression, [80, 140, 210])
    >>> model = OrdinalSVC(C=10).fit(X, stage)
    >>> bool(np.abs(model.predict(X) - stage).mean() < 0.7)
    True
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        error: str = "absolute",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        device: str = "cpu",
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.error = error
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.device = device
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on classes without an order
        return tags

    @with_callbacks
    @threads.one_for_blas()
    def fit(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
            Labels: numbers, which may be fractions; or ordered categories: a pandas.Categorical
            with ``ordered=True``, a Series of that type, or a polars Series of type Enum.
            Strings without an order are refused.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a repeated row, a weight of zero a row left out.

        Returns
        -------
        self : OrdinalSVC
        """
        self._check_parameters()
        check_choice("error", self.error, ERRORS)
        came_on_gpu = is_on_gpu(X)
        X = check_matrix(self, X, reset=True)
        self.classes_, ranks = ordered_classes(y)
        check_same_length(X, ranks)
        rows = load_if_fits(placed(X, self.device), self)
        problem = self._rank_problem(rows, ranks, sample_weight)
        labels = self.classes_[ranks]
        data = {"X": X, "y": labels, "metadata": {"sample_weight": sample_weight}}
        self._fit_order(problem, data).record()
        if came_on_gpu:
            self.coef_ = move_to(self.coef_, rows.like)
        return self

    def _problem(
        self, rows: Rows, y: Vector, qid: Vector | None, sample_weight: Vector | None
    ) -> OrderingProblem:
        return self._rank_problem(rows, places_of(y, self.classes_), sample_weight)

    def _rank_problem(
        self, rows: Rows, ranks: np.ndarray, sample_weight: Vector | None
    ) -> OrderingProblem:
        weights = check_weights(sample_weight, rows)
        present = np.unique(ranks if weights is None else ranks[weights > 0.0])
        if present.size < 2:
            raise ValueError(
                "ordinal regression needs rows of at least 2 classes, but the data (rows of "
                f"weight zero not counted) contains only one class: {self.classes_[present[0]]!r}"
            )

        def finish(coef: np.ndarray) -> dict[str, np.ndarray]:
            # Use the same product as predictions do, so that rounding is the same.
            X = rows.matrix if isinstance(rows, RowsInMemory) else rows
            scores = on_host(linear_scores(X, coef))
            thresholds = best_thresholds(scores, ranks, len(self.classes_), weights, self.error)
            return {"thresholds_": thresholds}

        return OrderingProblem(self, rows, ranks, weights, finish=finish)

    def score_samples(self, X: Matrix) -> np.ndarray:
        """Return the score w.x of each row, (n,); `thresholds_` divide scores into classes."""
        return self._scores(X)

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the predicted label of each row."""
        scores = on_host(self.score_samples(X))
        return self.classes_[np.searchsorted(self.thresholds_, scores, side="left")]

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.svm.LinearSVC`` that predicts the same labels.

        A row whose score is within rounding errors of a threshold may get the label next to it.
        """
        from widemargin.estimators.twins import ordinal_twin

        check_is_fitted(self)
        return ordinal_twin(self)
