"""Linear ranking SVM as a scikit-learn estimator."""

import warnings
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, Vector, move_to, on_host
from widemargin.data import Rows
from widemargin.data.devices import is_on_gpu, placed
from widemargin.estimators.callbacks import with_callbacks
from widemargin.estimators.fitting import load_if_fits
from widemargin.estimators.order import check_grades
from widemargin.estimators.ranking import NORMALIZATIONS, OrderingModel, OrderingProblem
from widemargin.estimators.validation import (
    check_choice,
    check_groups,
    check_matrix,
    check_same_length,
    check_weights,
)
from widemargin.metrics import pairwise_accuracy


class LinearRanker(OrderingModel):
    """Linear ranking support vector machine with a certificate.

    Learns scores w.x that rank rows by their grades y within each group: the documents of a
    query, or all rows. With two grades it optimises the area under the ROC curve. Minimises ::

        1/2 |w|^2 + sum over pairs (i, j) of one group with y_i > y_j of
                    c_ij max(0, 1 - w.x_i + w.x_j)

    where the c_ij sum to C times the number of rows. Each iteration takes one pass over X and
    O(n log n) time, although there may be n^2 / 2 pairs.

    Parameters
    ----------
    C : float, default=1.0
        Inverse regularisation strength: the weight of the losses.
    normalization : {"pairs", "queries"}, default="pairs"
        "pairs" weights all pairs equally, so large groups dominate; "queries" weights all groups
        equally.
    solver : str, default="auto"
        "cpa" is SVM-perf's cutting-plane method, "ocas" adds an exact line search, and "gca",
        "gca2" and "tca" use approximate ones. "auto" is "ocas".
    tol : float, default=1e-3
        Stop when the certified relative duality gap, (primal - dual) / primal, is at most
        `tol`. More training could then reduce the objective by at most that fraction.
    max_iter : int, default=10000
        Maximum number of iterations.
    max_time : float or None, default=None
        Maximum time in seconds, without the time that Numba compiles kernels in the first fit.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        "cuda" trains on a GPU (needs CuPy); rows that do not fit are streamed through it. "auto"
        takes a GPU if there is one and the rows fit on it.
    warm_start : bool, default=False
        Start from the solution of the previous fit, if the number of features is the same.
    n_jobs : int or None, default=None
        Number of threads. None means 1, -1 all processors.
    verbose : int, default=0
        1 prints the duality gap during training, on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights w. There is no intercept: it would cancel in every pair.
    dual_points_ : ndarray of shape (m, n_features)
        Points at which cutting planes touch the sum of losses.
    dual_weights_ : ndarray of shape (m,)
        Weights of the convex combination of these planes that proves the lower bound; see
        `widemargin.certify`.
    n_pairs_ : int
        Number of pairs in the training set.
    certificate_ : Certificate
        Primal value, dual value and duality gap.
    history_ : list of Record
        One per iteration: time, primal, dual, gap, rows in a pair with a loss, time per phase.
    solver_ : str
        The solver used.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why training stopped; "rounding" if float64 cannot prove `tol` on this data.
    n_iter_ : int
        Number of iterations.
    n_samples_fit_ : int
        Number of rows of the training set.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from widemargin import LinearRanker
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ranker = LinearRanker(C=10).fit(X, y)
    >>> round(ranker.score(X, y), 2)
    0.75
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        normalization: str = "pairs",
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
        self.normalization = normalization
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.device = device
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @threads.one_for_blas()
    def fit(
        self,
        X: Matrix,
        y: Vector,
        qid: Vector | None = None,
        sample_weight: Vector | None = None,
    ) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied.
        y : array-like of shape (n_samples,)
            Grades: numbers, ties allowed; higher grades should rank higher. Or ordered
            categories as in `OrdinalSVC`, which get the grades 0, 1, 2, ...
        qid : array-like of shape (n_samples,), default=None
            Group of each row, in any order; only rows of the same group are compared. None
            means that all rows are one group.
        sample_weight : array-like of shape (n_samples,), default=None
            The weight of a pair is the product of the weights of its rows, so a weight of two
            equals a repeated row. With ``normalization="queries"``, the weight of a group is the
            mean weight of its rows.

        Returns
        -------
        self : LinearRanker
        """
        self._check_parameters()
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        came_on_gpu = is_on_gpu(X)
        X = check_matrix(self, X, reset=True)
        rows = load_if_fits(placed(X, self.device), self)
        problem = self._problem(rows, y, qid, sample_weight)
        if problem.left_out.size:
            _warn_of_groups_without_pairs(problem.left_out, np.unique(np.asarray(qid)))
        metadata = {"qid": qid, "sample_weight": sample_weight}
        self._fit_order(problem, {"X": X, "y": y, "metadata": metadata}).record()
        if came_on_gpu:
            self.coef_ = move_to(self.coef_, rows.like)
        return self

    def _problem(
        self, rows: Rows, y: Vector, qid: Vector | None, sample_weight: Vector | None
    ) -> OrderingProblem:
        grades = check_grades(y)
        check_same_length(rows, grades)
        group = check_groups(qid, grades.size)
        weights = check_weights(sample_weight, rows)
        return OrderingProblem(self, rows, grades, weights, group)

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return the score w.x of each row, (n,); higher scores rank higher."""
        return self._scores(X)

    def predict(self, X: Matrix) -> np.ndarray:
        """Return the score of each row, (n,), as `decision_function` does."""
        return self._scores(X)

    def score(
        self,
        X: Matrix,
        y: Vector,
        qid: Vector | None = None,
        sample_weight: Vector | None = None,
    ) -> float:
        """Return the fraction of pairs that are ranked correctly.

        Ties count one half. With two grades in `y` and no `qid`, this is the area under the ROC
        curve.
        """
        scores = on_host(self.decision_function(X))
        grades = check_grades(y)
        weigh = self.normalization
        return pairwise_accuracy(grades, scores, qid, sample_weight, normalization=weigh)

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.linear_model.LinearRegression`` that predicts the scores."""
        from widemargin.estimators.twins import ranker_twin

        check_is_fitted(self)
        return ranker_twin(self)


def _warn_of_groups_without_pairs(left_out: np.ndarray, names: np.ndarray) -> None:
    several = left_out.size > 1
    warnings.warn(
        f"{left_out.size} {'groups have' if several else 'group has'} no two rows of different "
        f"grades and {'are' if several else 'is'} ignored "
        f"(qid {names[left_out[0]]}{', ...' if several else ''}; "
        f"groups that remain: {names.size - left_out.size})",
        UserWarning,
        stacklevel=5,  # past two decorators, to the caller of fit
    )
