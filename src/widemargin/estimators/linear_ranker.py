"""Linear ranking, with scikit-learn's face."""

import warnings

import numpy as np
from sklearn.callback import with_callbacks

from widemargin import threads
from widemargin.arrays import beside, on_host
from widemargin.data.devices import is_on_gpu, placed
from widemargin.data.rows import home
from widemargin.estimators.fitting import brought_near
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

    Learns scores w.x that put rows in the order of their grades y, within each group: the
    documents of a query, or all rows. With two grades it optimises the area under the ROC
    curve. Minimises ::

        1/2 |w|^2 + sum over pairs (i, j) of one group with y_i > y_j of
                    c_ij max(0, 1 - w.x_i + w.x_j)

    where the c_ij sum up to C times the number of rows. Each iteration takes O(n log n) time
    beside one pass over X, however many of the up to n^2 / 2 pairs there are.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses; larger means less regularisation.
    normalization : {"pairs", "queries"}, default="pairs"
        Whether all pairs count alike, so that groups with many rows count for most, or all
        groups do.
    solver : str, default="auto"
        "cpa" is SVM-perf's cutting-plane method, "ocas" adds a line search, and "gca",
        "gca2" and "tca" coarser ones. "auto" is "ocas".
    tol : float, default=1e-3
        Stop when the relative duality gap, (primal - dual) / primal, is proved to be at
        most this: at most that fraction of the objective could still be saved.
    max_iter : int, default=10000
        Iterations.
    max_time : float or None, default=None
        Seconds. Those that Numba takes to compile kernels, in the first fit ever, do not count.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        "cuda" trains on a GPU by CuPy; rows that do not fit are streamed through it. "auto" does
        so if there is a GPU, and room on it.
    warm_start : bool, default=False
        Start from the last fit, if the number of features is the same.
    n_jobs : int or None, default=None
        Threads. None means 1, -1 all processors.
    verbose : int, default=0
        1 shows the gap as it closes, on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        w. There is no intercept: it would cancel in every pair.
    dual_points_ : ndarray of shape (m, n_features)
    dual_weights_ : ndarray of shape (m,)
        What proves the lower bound: a convex combination of planes under the objective's
        second term, which touch it at these points; see `widemargin.certify`.
    n_pairs_ : int
        How many pairs there were to put in order.
    certificate_ : Certificate
        Primal and dual value and their gap.
    history_ : list of Record
        One per iteration: time, primal, dual, gap, rows in a pair with a loss, time by phase.
    solver_ : str
        The solver used.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why training stopped; "rounding" where float64 cannot prove `tol` on this data.
    n_iter_ : int
        Iterations.
    n_samples_fit_ : int
        Rows of the training data.
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
        C=1.0,
        normalization="pairs",
        solver="auto",
        tol=1e-3,
        max_iter=10000,
        max_time=None,
        device="cpu",
        warm_start=False,
        n_jobs=None,
        verbose=0,
    ):
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
    def fit(self, X, y, qid=None, sample_weight=None):
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float32 and float64, C-ordered or CSR, are used in place.
        y : array-like of shape (n_samples,)
            Grades: any numbers, ties allowed; higher ones should rank higher. Or ordered
            categories, as `OrdinalSVC` takes them, which are graded 0, 1, 2, ...
        qid : array-like of shape (n_samples,), default=None
            Group of each row, in any order; only rows of one group are compared. None
            makes all rows one group.
        sample_weight : array-like of shape (n_samples,), default=None
            A pair weighs as much as the product of its rows' weights, so that a weight of two
            equals a row given twice. With ``normalization="queries"`` a group weighs as much
            as its rows do on average: equal weights within a group are the group's weight.

        Returns
        -------
        self : LinearRanker
        """
        self._check_parameters()
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        came_on_gpu = is_on_gpu(X)
        X = check_matrix(self, X, reset=True)
        rows = brought_near(placed(X, self.device), self)
        problem = self._problem(rows, y, qid, sample_weight)
        if problem.left_out.size:
            _say_what_is_left_out(problem.left_out, np.unique(qid))
        metadata = {"qid": qid, "sample_weight": sample_weight}
        self._fit_order(problem, {"X": X, "y": y, "metadata": metadata}).record()
        if came_on_gpu:
            self.coef_ = beside(self.coef_, home(rows))
        return self

    def _problem(self, rows, y, qid, sample_weight):
        grades = check_grades(y)
        check_same_length(rows, grades)
        group = check_groups(qid, grades.size)
        weights = check_weights(sample_weight, rows)
        return OrderingProblem(self, rows, grades, weights, group)

    def decision_function(self, X):
        """Return the score w.x of each row, (n,): the higher, the higher it ranks."""
        return self._scores(X)

    def predict(self, X):
        """Return the score of each row, (n,), as `decision_function` does."""
        return self._scores(X)

    def score(self, X, y, qid=None, sample_weight=None):
        """Return the fraction of pairs that are in the right order.

        Equal scores count one half. With two grades in `y` and no `qid`, it is the area under
        the ROC curve.
        """
        scores = on_host(self.decision_function(X))
        grades = check_grades(y)
        weigh = self.normalization
        return pairwise_accuracy(grades, scores, qid, sample_weight, normalization=weigh)


def _say_what_is_left_out(left_out, names):
    """Warn of groups without pairs."""
    several = left_out.size > 1
    warnings.warn(
        f"{left_out.size} {'groups have' if several else 'group has'} no two rows of different "
        f"grades: nothing to learn from {'them' if several else 'it'}, left out "
        f"(qid {names[left_out[0]]}{', ...' if several else ''}; "
        f"groups that remain: {names.size - left_out.size})",
        UserWarning,
        stacklevel=5,  # past two decorators, to the caller of fit
    )
