"""Logistic regression that chooses C by cross-validation."""

from collections.abc import Callable
from typing import Any, ClassVar

from widemargin.arrays import RandomState, Vector
from widemargin.estimators.cost_search import CostSearch
from widemargin.estimators.fitting import like
from widemargin.estimators.logistic_regression import LogisticClassifier, LogisticRegression


class LogisticRegressionCV(LogisticClassifier, CostSearch):
    """`LogisticRegression` whose C is chosen by cross-validation.

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
        A scorer of scikit-learn, such as "neg_log_loss"; or scorer(estimator, X, y). None is
        accuracy.
    penalty, l1_ratio, dual, multi_class, solver, tol, fit_intercept, penalized_intercept, \
    class_weight, max_iter, memory_budget, n_jobs, random_state
        As in `LogisticRegression`; max_iter is per training. Threads train folds and classes.
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
    best_estimator_ : LogisticRegression
        Model trained on all rows at `C_`. Its attributes are copied: `classes_`, `coef_`,
        `intercept_`, `dual_variables_`, `certificate_`, `history_`, `solver_`, `n_iter_`.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why the last training stopped; the last two also say why the search stopped.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import LogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegressionCV(Cs=10, scoring="neg_log_loss").fit(scale(X), y)
    >>> model.scores_.shape
    (5, 10)
    >>> 0.01 < model.C_ < 10.0
    True
    """

    #: probabilities are its own: there are no scores to calibrate; and rows are on the host
    probability: ClassVar[bool] = False  # type: ignore[misc]
    device: ClassVar[str] = "cpu"  # type: ignore[misc]

    def __init__(
        self,
        *,
        Cs: Vector = 20,
        cv: Any = 5,
        scoring: str | Callable | None = None,
        penalty: str = "auto",
        l1_ratio: float | None = 0.0,
        dual: bool = False,
        multi_class: str = "auto",
        solver: str = "auto",
        tol: float = 1e-4,
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        class_weight: dict | str | None = None,
        max_iter: int = 10000,
        max_time: float | None = None,
        memory_budget: int | str | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _model(self) -> LogisticRegression:
        """Return a LogisticRegression with the parameters that both classes have."""
        return like(LogisticRegression, self).set_params(verbose=0)
