"""Logistic regression as a scikit-learn estimator."""

from os import PathLike
from typing import ClassVar, Self

import numpy as np
import scipy.sparse
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, RandomState, Vector, dense
from widemargin.data import as_rows
from widemargin.data.devices import is_on_gpu
from widemargin.estimators.callbacks import with_callbacks
from widemargin.estimators.fitting import (
    SOLVERS_ELSEWHERE,
    Fit,
    check_checkpoint,
    choose_solver,
    load_if_fits,
    seeds_of,
)
from widemargin.estimators.linear_classifier import LinearClassifier
from widemargin.estimators.penalties import check_logistic_penalty
from widemargin.estimators.problems import (
    LOGISTIC,
    LOGISTIC_MULTI_CLASS,
    make_problems,
    warm_starts,
    with_constant,
)
from widemargin.estimators.updating import Updating
from widemargin.estimators.validation import (
    check_bytes,
    check_choice,
    check_finite,
    check_flag,
    check_labels,
    check_matrix,
    check_positive,
    check_same_length,
    check_training_parameters,
    check_weights,
    classes_of,
    is_real,
)
from widemargin.sigmoids import one_versus_rest
from widemargin.solvers.registry import RiskKind, names


class LogisticClassifier(LinearClassifier):
    """What fitted logistic regressions do: the common part of both estimators."""

    multi_class: str

    def predict_proba(self, X: Matrix) -> np.ndarray:
        """Return the probability of each class, (n, n_classes).

        For two classes it is 1 / (1 + exp(-s)) of the score s. For more it is the softmax of the
        scores; or, one versus rest, 1 / (1 + exp(-s)) of each score, divided by their sum.
        """
        return self.probabilities_of(self.decision_function(X))

    def predict_log_proba(self, X: Matrix) -> np.ndarray:
        """Return the logarithms of the probabilities, (n, n_classes)."""
        scores = self.decision_function(X)
        if scores.ndim > 1 and self.multi_class == "ovr":
            return np.log(self.probabilities_of(scores))
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return log_softmax(scores, axis=1)

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class, (n, n_classes), from decision values."""
        if scores.ndim > 1 and scores.shape[1] > 1 and self.multi_class != "ovr":
            return softmax(scores, axis=1)
        return one_versus_rest(scores.reshape(scores.shape[0], -1))


class LogisticRegression(Updating, LogisticClassifier):
    """Logistic regression with a certificate.

    Minimises, for two classes, ::

        penalty(w) + C sum_i weight_i log(1 + exp(-y_i (w.x_i + b)))      y_i = +-1

    and for k classes ::

        1/2 sum_j |w_j|^2 + C sum_i weight_i (log sum_j exp(s_ij) - s_iy),   s = W x + b

    or, with ``multi_class="ovr"``, one problem of two classes per class.

    Parameters
    ----------
    penalty : {"auto", "l2", "l1", "elasticnet"}, default="auto"
        As for `LinearSVC`; "auto" is the one that `l1_ratio` says. None is refused. With "l1" and
        "elasticnet" most weights are zero; more than two classes need ``multi_class="ovr"`` then.
    C : float, default=1.0
        Inverse regularisation strength: the weight of the sum of losses.
    l1_ratio : float, default=0.0
        Of "elasticnet" and "auto": from 0, which is "l2", to 1, which is "l1".
    dual : bool, default=False
        Without effect: `solver` chooses.
    multi_class : {"auto", "multinomial", "ovr"}, default="auto"
        All classes in one problem, as in scikit-learn, or one versus rest. "auto" is
        "multinomial". For two classes both are the first problem above.
    solver : str, default="auto"
        "auto" chooses by the data and C. "newton" is Newton's method, for tall data and for small
        tolerances; "dcd" is LIBLINEAR's dual coordinate descent, for wide data; "ocas" and the
        other cutting planes of `LinearSVC` take any rows, too. The names of scikit-learn's
        solvers, such as "lbfgs", mean "auto".
    tol : float, default=1e-4
        Stop when the certified relative duality gap, (primal - dual) / primal, is at most `tol`.
        More training could then reduce the objective by at most that fraction.
    fit_intercept : bool, default=True
    penalized_intercept : bool, default=False
        By default the intercept is not penalised, as in scikit-learn. True adds b^2 / 2 to the
        objective, as scikit-learn's solver "liblinear" does.
    intercept_scaling : float, default=1.0
        A penalised intercept is the weight of a constant feature of this value, times the value,
        as in `LinearSVC`. An intercept that is not penalised ignores it.
    class_weight : dict, "balanced" or None, default=None
        Factor on the sample weights of each class.
    max_iter : int, default=10000
        Maximum number of iterations of Newton's method, each step of conjugate gradients counts,
        or of cutting planes, or of passes over the rows per class.
    max_time : float or None, default=None
        Maximum time of the fit in seconds, without the time that Numba compiles kernels in the
        first fit.
    memory_budget : int, str or None, default=None
        For rows on disk, as for `LinearSVC`.
    checkpoint : path-like or None, default=None
        Refused: the solvers of this model keep none.
    warm_start : bool, default=False
        Start from the previous fit, if the number of rows and the classes are the same.
    n_jobs : int or None, default=None
        Number of threads. Classes are trained in parallel; Newton's method and cutting planes
        split the rows among the remaining threads. None means 1, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Seed of the order in which "dcd" visits rows.
    verbose : int, default=0
        1 prints the duality gap during training, on stderr.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    dual_variables_ : CSR array of shape (1, n_samples) or (n_classes, n_samples)
        Dual variables, which prove the lower bound; see `widemargin.certify`.
    certificate_ : Certificate
        Primal value, dual value and duality gap; ``certificate_.parts`` has one certificate per
        one-versus-rest problem.
    history_ : list of Record
        One per gap check: time, iteration, primal, dual, gap, rows visited, time per phase.
    solver_ : str
        The solver used.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why training stopped; "converged" only if every class converged, "rounding" if float64
        cannot prove `tol` on this data.
    n_iter_ : ndarray of shape (1,)
        Number of iterations or of complete passes over the rows, the maximum over classes.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(tol=1e-8).fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-8
    True
    >>> model.predict_proba(X[:1]).round(3)
    array([[0.982, 0.018, 0.   ]])
    """

    #: the name of the loss, where other classifiers have a parameter
    loss: ClassVar[str] = LOGISTIC

    def __init__(
        self,
        penalty: str = "auto",
        *,
        C: float = 1.0,
        l1_ratio: float | None = 0.0,
        dual: bool = False,
        multi_class: str = "auto",
        solver: str = "auto",
        tol: float = 1e-4,
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        intercept_scaling: float = 1.0,
        class_weight: dict | str | None = None,
        max_iter: int = 10000,
        max_time: float | None = None,
        memory_budget: int | str | None = None,
        checkpoint: str | PathLike | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @threads.one_for_blas()
    def fit(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or rows on
            disk from `widemargin.open_rows`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a repeated row, a weight of zero a row left out.

        Returns
        -------
        self : LogisticRegression
        """
        self._check_parameters()
        previous = self._previous_fit()
        if is_on_gpu(X):
            raise ValueError("X is on a GPU, and logistic regression trains on the host")
        X = check_matrix(self, X, reset=True, finite=False)
        y = check_labels(y)
        check_same_length(X, y)
        rows = as_rows(X)
        check_finite(self, X, rows)
        classes, codes = classes_of(y)
        rows = with_constant(load_if_fits(rows, self, len(classes)), self)
        weights = check_weights(sample_weight, X)
        problems = make_problems(self, rows, classes, codes, weights)
        starts = warm_starts(previous, classes, problems)
        self.classes_ = classes
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        solver = choose_solver(self, problems[0])
        check_checkpoint(self, solver)
        seeds = seeds_of(self.random_state, len(problems))
        fit = Fit(self, problems, solver, seeds, starts, data)
        fit.train()
        for name, value in problems.attributes(fit.states).items():
            setattr(self, name, value)
        self.dual_variables_ = problems.dual(fit.states)
        fit.record()
        return self

    def _check_parameters(self) -> None:
        if is_real(self.C) and np.isposinf(self.C):
            raise ValueError("C=inf is not offered: a large C is nearly without a penalty")
        check_positive("C", self.C)
        check_logistic_penalty(self.penalty, self.l1_ratio)
        check_choice("dual", self.dual, ("auto", True, False))
        check_positive("intercept_scaling", self.intercept_scaling)
        check_choice("multi_class", self.multi_class, LOGISTIC_MULTI_CLASS)
        known = ("auto", *names(risk=RiskKind.LOGISTIC, penalty=None))
        if self.solver not in SOLVERS_ELSEWHERE:
            check_choice("solver", self.solver, known)
        for name in ("fit_intercept", "penalized_intercept"):
            check_flag(name, getattr(self, name))
        check_bytes("memory_budget", self.memory_budget)
        check_training_parameters(self)
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _previous_fit(self) -> tuple | None:
        """Return (classes, coef, intercept, dual) of the last fit, if this one starts there."""
        if not self.warm_start or "dual_variables_" not in vars(self):
            return None
        return self.classes_, dense(self.coef_), self.intercept_, self.dual_variables_

    def sparsify(self) -> Self:
        """Make `coef_` a sparse matrix, which takes less memory if most weights are zero."""
        check_is_fitted(self)
        self.coef_ = scipy.sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Make `coef_` an array again."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.linear_model.LogisticRegression`` that predicts the same.

        One versus rest of more than two classes, it is a ``OneVsRestClassifier`` of these.
        """
        from widemargin.estimators.twins import logistic_twin

        check_is_fitted(self)
        return logistic_twin(self)
