"""Linear one-class support vector machine as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, RandomState, Vector
from widemargin.data import Rows, as_rows
from widemargin.data.devices import is_on_gpu
from widemargin.estimators.callbacks import CallbackSupportMixin, with_callbacks
from widemargin.estimators.fitting import Fit, load_if_fits
from widemargin.estimators.reporting import Summarised
from widemargin.estimators.scoring import model_scores
from widemargin.estimators.validation import (
    check_choice,
    check_finite,
    check_matrix,
    check_training_parameters,
    check_weights,
    is_real,
)
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import LowestMean
from widemargin.solvers.registry import RiskKind, names


class LinearOneClassSVM(Summarised, CallbackSupportMixin, OutlierMixin, BaseEstimator):
    """Linear one-class support vector machine with a certificate.

    Finds the direction in which rows are farthest from the origin, but for a fraction `nu` of
    them. Minimises ::

        1/2 |w|^2 - rho + 1 / (nu sum_i weight_i) sum_i weight_i max(0, rho - w.x_i)

    as LIBLINEAR's solver 21, ``sklearn.svm.OneClassSVM(kernel="linear")`` and
    ``sklearn.linear_model.SGDOneClassSVM`` do, up to a factor of w and rho. Rows with w.x < rho
    are outliers.

    Parameters
    ----------
    nu : float, default=0.5
        At most this fraction of the training rows are outliers, 0 < nu <= 1.
    solver : {"auto", "ocas"}, default="auto"
        Both are cutting planes with a line search.
    tol : float, default=1e-3
        Stop when the certified relative duality gap is at most `tol`. The objective is negative,
        so the gap is a fraction of -dual, half the squared distance of the rows' soft hull from
        the origin. Distances below a thousandth of the rows' root mean square length count as
        none: then all weights are zero.
    max_iter : int, default=10000
        Maximum number of iterations.
    max_time : float or None, default=None
        Maximum time of the fit in seconds, without the time that Numba compiles kernels in the
        first fit.
    memory_budget : int, str or None, default=None
        For rows on disk, as for `LinearSVC`.
    warm_start : bool, default=False
        Start from the previous fit, if the numbers of rows and of features are the same.
    n_jobs : int or None, default=None
        Number of threads over the rows. None means 1, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Without effect: nothing is random.
    verbose : int, default=0
        1 prints the duality gap during training, on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        -rho. As in scikit-learn, ``offset_`` is rho, a float, and
        ``decision_function(X) = score_samples(X) - offset_``.
    dual_variables_ : CSR array of shape (1, n_samples)
        Weights of the rows, which make the point of their soft hull that is nearest to the
        origin; they prove the lower bound, see `widemargin.certify`.
    certificate_ : Certificate
        Primal value, dual value and duality gap.
    history_ : list of Record
        One per gap check.
    solver_ : str
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why training stopped.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearOneClassSVM
    >>> X = np.array([[2.0, 1.0], [3.0, 1.0], [2.0, 2.0], [-1.0, 0.0]])
    >>> LinearOneClassSVM(nu=0.3).fit_predict(X)
    array([ 1,  1,  1, -1])
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        memory_budget: int | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.nu = nu
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory_budget = memory_budget
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @with_callbacks
    @threads.one_for_blas()
    def fit(self, X: Matrix, y: Any = None, sample_weight: Vector | None = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or rows on
            disk from `widemargin.open_rows`.
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a repeated row, a weight of zero a row left out.

        Returns
        -------
        self : LinearOneClassSVM
        """
        self._check_parameters()
        previous = self._previous_fit()
        if is_on_gpu(X):
            raise ValueError("X is on a GPU, and one-class problems are solved on the host")
        X = check_matrix(self, X, reset=True, finite=False)
        rows = as_rows(X)
        check_finite(self, X, rows)
        weights = check_weights(sample_weight, X)
        problems = OneClassProblem(self, load_if_fits(rows, self), weights)
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        start = None if previous is None else problems.start(*previous)
        fit = Fit(self, problems, "ocas", [0], [start], data)
        fit.train()
        for name, value in problems.attributes(fit.states).items():
            setattr(self, name, value)
        self.dual_variables_ = scipy.sparse.csr_array(fit.states[0].dual[None])
        fit.record()
        return self

    @property
    def offset_(self) -> float:
        """rho: the score from which on rows are no outliers."""
        return -float(self.intercept_[0])

    def score_samples(self, X: Matrix) -> np.ndarray:
        """Return w.x for each row, (n,)."""
        check_is_fitted(self)
        if is_on_gpu(X):
            raise ValueError("X is on a GPU, and one-class models predict on the host")
        return model_scores(self, X, self.coef_[0], 0.0, self.n_jobs)

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return w.x - rho for each row, (n,): negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Matrix) -> np.ndarray:
        """Return -1 for outliers and 1 for other rows, (n,)."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.linear_model.SGDOneClassSVM`` that predicts the same."""
        from widemargin.estimators.twins import one_class_twin

        check_is_fitted(self)
        return one_class_twin(self)

    def _check_parameters(self) -> None:
        if not (is_real(self.nu) and 0.0 < self.nu <= 1.0):
            raise ValueError(f"nu must be a number above 0 and at most 1, not {self.nu!r}")
        check_choice("solver", self.solver, ("auto", *names(risk=RiskKind.ONE_CLASS)))
        check_training_parameters(self)

    def _previous_fit(self) -> tuple | None:
        """Return (coef, intercept, dual) of the last fit, if this one starts there."""
        if not self.warm_start or "dual_variables_" not in vars(self):
            return None
        return self.coef_, self.intercept_, self.dual_variables_


class OneClassProblem:
    """A sequence of one Problem, whose solution is a one-class model."""

    def __init__(self, model: LinearOneClassSVM, rows: Rows, weights: np.ndarray | None) -> None:
        weights = np.ones(rows.n_rows) if weights is None else weights
        self.rows = rows
        self.risk = LowestMean(weights / (model.nu * weights.sum()))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Problem:
        return Problem(self.rows, self.risk, Intercept.NONE)

    def attributes(self, states: Sequence[State]) -> dict[str, np.ndarray]:
        """Return the attributes that the model needs for prediction."""
        (state,) = states
        return {"coef_": state.coef[None], "intercept_": np.array([float(state.offset)])}

    def state(self, model: LinearOneClassSVM) -> State:
        """Return the state of a fitted model."""
        return State(
            model.coef_[0], float(model.intercept_[0]), model.dual_variables_.toarray()[0]
        )

    def start(self, coef: np.ndarray, intercept: np.ndarray, dual: Any) -> State | None:
        """Return a fit as the start of another, if its shape is right."""
        if dual.shape[1] != self.rows.n_rows or coef.shape[1] != self.rows.n_features:
            return None
        return State(coef[0], float(intercept[0]), dual.toarray()[0])
