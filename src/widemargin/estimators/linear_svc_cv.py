"""Linear SVM classifier that chooses C by cross-validation."""

from collections.abc import Callable
from typing import Any

from widemargin.arrays import RandomState, Vector
from widemargin.estimators.cost_search import CostSearch
from widemargin.estimators.fitting import like
from widemargin.estimators.linear_svc import LinearSVC


class LinearSVCCV(CostSearch):
    """`LinearSVC` whose C is chosen by cross-validation.

    All folds are trained together from the smallest C to the largest, each warm-started from its
    solution at the last C. They share X: held-out rows have weight zero. The model at the best C
    is then trained on all rows, warm-started from the mean of the folds.

    Parameters
    ----------
    Cs : int or array-like of shape (n_Cs,), default=20
        Values of C, in any order; or the number of values from 1e-3 to 1e3, evenly spaced on a
        logarithmic scale.
    cv : int, splitter or iterable, default=5
        As in scikit-learn: a number of stratified folds, a splitter, or pairs (train, test) of
        row indices; a repeated training row counts twice.
    scoring : str, callable or None, default=None
        A scorer of scikit-learn that takes labels or decision values, not probabilities; or
        scorer(estimator, X, y). None is accuracy.
    probability : bool, default=False
        Whether to calibrate scores, for `predict_proba`. Sigmoids are fitted to the out-of-fold
        scores of the search.
    penalty, l1_ratio, loss, multi_class, solver, tol, fit_intercept, penalized_intercept, \
    class_weight, max_iter, device, memory_budget, n_jobs, random_state
        As in `LinearSVC`; max_iter is per training. Threads train folds and classes.
    max_time : float or None, default=None
        Maximum time of the search in seconds, divided among the values of C and the last training
        on all rows, without the time that Numba compiles kernels in the first fit.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Attributes
    ----------
    C_ : float
        The best C: the smallest one with the highest mean score.
    Cs_ : ndarray of shape (n_Cs,)
        The values of C to try, in the order of Cs.
    scores_ : ndarray of shape (n_folds, n_Cs)
        Scores on the held-out rows; NaN for values of C that were not tried.
    relative_gaps_ : ndarray of shape (n_folds, n_Cs)
        Certified relative duality gap of each training.
    best_estimator_ : LinearSVC
        Model trained on all rows at `C_`. Its attributes are copied: `classes_`, `coef_`,
        `intercept_`, `dual_variables_`, `certificate_`, `history_`, `solver_`, `n_iter_`, and
        `sigmoids_` with ``probability=True``.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why the last training stopped; the last two also say why the search stopped.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVCCV(Cs=10, random_state=0).fit(scale(X), y)
    >>> model.scores_.shape
    (5, 10)
    >>> bool(model.scores_.mean(axis=0).max() > 0.97)
    True
    """

    def __init__(
        self,
        *,
        Cs: Vector = 20,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        probability: bool = False,
        penalty: str = "l2",
        l1_ratio: float = 0.5,
        loss: str = "squared_hinge",
        multi_class: str = "ovr",
        solver: str = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        class_weight: dict | str | None = None,
        max_iter: int = 10000,
        max_time: float | None = None,
        device: str = "cpu",
        memory_budget: int | str | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.probability = probability
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.loss = loss
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.device = device
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _model(self) -> LinearSVC:
        """Return a LinearSVC with the parameters that both classes have."""
        return like(LinearSVC, self).set_params(verbose=0, probability=False)
