"""Linear support vector regression as a scikit-learn estimator."""

from os import PathLike
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, RandomState, Vector
from widemargin.data import as_rows
from widemargin.data.devices import is_on_gpu
from widemargin.estimators.callbacks import CallbackSupportMixin, with_callbacks
from widemargin.estimators.fitting import (
    Fit,
    check_checkpoint,
    choose_solver,
    load_if_fits,
    seeds_of,
)
from widemargin.estimators.penalties import check_penalty
from widemargin.estimators.problems import with_constant
from widemargin.estimators.reporting import Reporting
from widemargin.estimators.scoring import model_scores
from widemargin.estimators.targets import PerTarget, target_problems
from widemargin.estimators.updating import Updating
from widemargin.estimators.validation import (
    check_bytes,
    check_choice,
    check_finite,
    check_flag,
    check_fraction,
    check_matrix,
    check_not_negative,
    check_positive,
    check_same_length,
    check_targets,
    check_training_parameters,
    check_weights,
)
from widemargin.losses import TARGET_LOSSES, Shape
from widemargin.solvers.registry import names


class LinearSVR(Updating, Reporting, CallbackSupportMixin, RegressorMixin, BaseEstimator):
    """Linear support vector regression with a certificate.

    Minimises, for each target, ::

        penalty(w) + C sum_i weight_i loss(y_i - w.x_i - b)

    Parameters
    ----------
    loss : str, default="epsilon_insensitive"
        Of the residual r = y_i - w.x_i - b:

        - "epsilon_insensitive": max(0, \\|r\\| - epsilon), as in ``sklearn.svm.SVR``;
        - "squared_epsilon_insensitive": its square;
        - "huber": r^2 / (2 delta) up to \\|r\\| = delta, \\|r\\| - delta / 2 from there on;
        - "absolute_error": \\|r\\|, for conditional medians;
        - "pinball": quantile r, or (quantile - 1) r for r < 0, for conditional quantiles.

    epsilon : float, default=0.0
        Of the two insensitive losses: residuals up to this size have no loss.
    delta : float, default=1.0
        Of the loss "huber".
    quantile : float, default=0.5
        Of the loss "pinball": the part of the rows that shall be below the prediction, between 0
        and 1.
    C : float, default=1.0
        Inverse regularisation strength: the weight of the sum of losses.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        As for `LinearSVC`. With "squared_epsilon_insensitive" and an epsilon of 0, "l1" is the
        lasso: ``sklearn.linear_model.Lasso(alpha=1 / (2 * n_samples * C))``.
    l1_ratio : float, default=0.5
        Of "elasticnet": from 0, which is "l2", to 1, which is "l1".
    solver : str, default="auto"
        "auto" chooses by the data and C. "dcd" is LIBLINEAR's dual coordinate descent, and the
        others are as for `LinearSVC`, without those named "-paper".
    tol : float, default=1e-3
        Stop when the certified relative duality gap, (primal - dual) / primal, is at most `tol`.
        More training could then reduce the objective by at most that fraction.
    fit_intercept : bool, default=True
    penalized_intercept : bool, default=False
        By default the intercept is not penalised, as in ``sklearn.svm.SVR``. True adds b^2 / 2 to
        the objective, as ``sklearn.svm.LinearSVR`` does.
    intercept_scaling : float, default=1.0
        A penalised intercept is the weight of a constant feature of this value, times the value,
        so (b / intercept_scaling)^2 / 2 is added to the objective. If it is not 1, the rows are
        copied. An intercept that is not penalised ignores it.
    dual : {"auto", True, False}, default="auto"
        Without effect: `solver` chooses. ``dual=False`` with "epsilon_insensitive" is refused, as
        in scikit-learn.
    max_iter : int, default=10000
        Maximum number of passes over the rows per target, or of iterations of Newton's method or
        cutting planes.
    max_time : float or None, default=None
        Maximum time of the fit in seconds, without the time that Numba compiles kernels in the
        first fit.
    memory_budget : int, str or None, default=None
        For rows on disk, as for `LinearSVC`.
    checkpoint : path-like or None, default=None
        For rows on disk, as for `LinearSVC`; with several targets, the path, a dot and the number
        of the target.
    warm_start : bool, default=False
        Start from the dual variables of the previous fit, if the numbers of rows and of targets
        are the same.
    n_jobs : int or None, default=None
        Number of threads. Targets are trained in parallel; cutting planes split the rows among
        the remaining threads. None means 1, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Seed of the order in which rows are visited.
    verbose : int, default=0
        1 prints the duality gap during training, on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : ndarray of shape (1,) or (n_targets,)
    dual_variables_ : CSR array of shape (n_targets, n_samples)
        Dual variables, which prove the lower bound; see `widemargin.certify`.
    certificate_ : Certificate
        Primal value, dual value and duality gap; ``certificate_.parts`` has one certificate per
        target, if there are several.
    history_ : list of Record
        One per gap check: time, iteration, primal, dual, gap, rows visited, time per phase.
    solver_ : str
        The solver used; "newton, then acf" if another one continued from its point.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why training stopped; "converged" only if every target converged, "rounding" if float64
        cannot prove `tol` on this data.
    n_iter_ : int
        Number of complete passes over the rows or of iterations, the maximum over targets.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from widemargin import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVR(C=100.0, epsilon=5.0, random_state=0).fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        *,
        loss: str = "epsilon_insensitive",
        epsilon: float = 0.0,
        delta: float = 1.0,
        quantile: float = 0.5,
        C: float = 1.0,
        penalty: str = "l2",
        l1_ratio: float = 0.5,
        solver: str = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        intercept_scaling: float = 1.0,
        dual: bool | str = "auto",
        max_iter: int = 10000,
        max_time: float | None = None,
        memory_budget: int | str | None = None,
        checkpoint: str | PathLike | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.quantile = quantile
        self.C = C
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags

    @with_callbacks
    @threads.one_for_blas()
    def fit(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or rows on
            disk from `widemargin.open_rows`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. Several of them are several problems, as if each were fitted by itself.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a repeated row, a weight of zero a row left out.

        Returns
        -------
        self : LinearSVR
        """
        self._check_parameters()
        previous = self._previous_fit()
        if is_on_gpu(X):
            raise ValueError("X is on a GPU, and regression trains on the host")
        X = check_matrix(self, X, reset=True, finite=False)
        y = check_targets(y)
        check_same_length(X, y)
        rows = as_rows(X)
        check_finite(self, X, rows)
        rows = load_if_fits(rows, self, 1 if y.ndim == 1 else y.shape[1])
        weights = check_weights(sample_weight, X)
        problems = target_problems(self, with_constant(rows, self), y, weights)
        solver = choose_solver(self, problems[0])
        check_checkpoint(self, solver)
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        seeds = seeds_of(self.random_state, len(problems))
        fit = Fit(self, problems, solver, seeds, _warm_starts(previous, problems), data)
        fit.train()
        for name, value in problems.attributes(fit.states).items():
            setattr(self, name, value)
        self.dual_variables_ = problems.dual(fit.states)
        fit.record()
        return self

    def predict(self, X: Matrix) -> np.ndarray:
        """Return w.x + b for each row: (n,), or (n, n_targets) for several targets."""
        check_is_fitted(self)
        if is_on_gpu(X):
            raise ValueError("X is on a GPU, and regression predicts on the host")
        return model_scores(self, X, self.coef_.T, self.intercept_, self.n_jobs)

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.linear_model.LinearRegression`` that predicts the same."""
        from widemargin.estimators.twins import regressor_twin

        check_is_fitted(self)
        return regressor_twin(self)

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_choice("loss", self.loss, tuple(TARGET_LOSSES))
        check_not_negative("epsilon", self.epsilon)
        check_positive("delta", self.delta)
        check_fraction("quantile", self.quantile)
        check_positive("intercept_scaling", self.intercept_scaling)
        check_penalty(self, self.loss, TARGET_LOSSES[self.loss](Shape()).is_smooth)
        check_choice("solver", self.solver, ("auto", *names(penalty=None)))
        for name in ("fit_intercept", "penalized_intercept"):
            check_flag(name, getattr(self, name))
        check_bytes("memory_budget", self.memory_budget)
        check_training_parameters(self)

    def _previous_fit(self) -> tuple | None:
        """Return (coef, intercept, dual) of the last fit, if this one starts there."""
        if not self.warm_start or "dual_variables_" not in vars(self):
            return None
        return self.coef_, self.intercept_, self.dual_variables_


def _warm_starts(previous: tuple | None, problems: PerTarget) -> list:
    """Return one State per target, from the previous fit where it matches."""
    if previous is not None:
        coef, intercept, dual = previous
        same_rows = dual.shape == (len(problems), problems.rows.n_rows)
        if same_rows and coef.shape[-1] == problems.n_features:
            return problems.states(coef, intercept, dual)
    return [None] * len(problems)
