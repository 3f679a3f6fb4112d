"""Linear support vector classification on a Dask cluster."""

from collections.abc import Sequence
from typing import Any

import scipy.sparse
from distributed import Client
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.certificate import Certificate
from widemargin.dask.class_problems import ClassProblems
from widemargin.dask.training import ClusterModel, Job, Training, labelled_part
from widemargin.estimators.linear_svc import LinearSVC as LocalLinearSVC
from widemargin.estimators.validation import check_choice, check_flag
from widemargin.monitor import Interruption
from widemargin.problem import State, Tangents
from widemargin.solvers.registry import Place, names


class LinearSVC(ClassifierMixin, ClusterModel):
    """Linear support vector classification over rows that a cluster holds, with a certificate.

    The problem is that of `widemargin.LinearSVC`, and so are its parameters. It is solved by
    cutting planes: each iteration sends a vector to the workers and takes one back from each.
    Classes that are told from all others are trained side by side, and share rounds.

    Parameters
    ----------
    C, loss, multi_class, tol, fit_intercept, penalized_intercept, class_weight, max_iter, \
    max_time, verbose
        As in `widemargin.LinearSVC`; max_iter counts iterations.
    solver : str, default="ocas"
        "ocas" is OCAS with a multi-point line search, "cpa" SVM-perf's method, without one.
    average_first : bool, default=False
        Whether each worker first trains on its own part, and the mean of the results is the
        starting point; not with "crammer_singer".
    client : distributed.Client or None, default=None
        None is the current one.

    Attributes
    ----------
    classes_, coef_, intercept_, certificate_, history_, status_, n_iter_, n_features_in_
        As of `widemargin.LinearSVC`.
    dual_points_ : list of ndarray of shape (m, ...), one per problem
    dual_weights_ : list of ndarray of shape (m,)
        The proof of the lower bound: planes below the objective's second term, given by the points
        where they touch it, and their weights; see `widemargin.dask.certify`.
    n_rounds_ : int
        Round trips to the workers; classes share them.
    n_samples_fit_ : int
    """

    local_class = LocalLinearSVC

    def __init__(
        self,
        *,
        C: float = 1.0,
        loss: str = "squared_hinge",
        multi_class: str = "ovr",
        solver: str = "ocas",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        class_weight: dict | str | None = None,
        max_iter: int | None = 10000,
        max_time: float | None = None,
        average_first: bool = False,
        client: Client | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.loss = loss
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.average_first = average_first
        self.client = client
        self.verbose = verbose

    @threads.one_for_blas()
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "LinearSVC":
        """Fit the model to training data.

        Parameters
        ----------
        X : dask array or DataFrame, list of Delayed, or path
            Rows; the blocks of an array may be dense or SciPy CSR. A path is a folder of rows, as
            `widemargin convert` writes it, which all workers can read.
        y : the same, or array-like of shape (n_samples,)
            Class labels, in parts that match those of X. None if the files have them.
        sample_weight : the same, default=None

        Returns
        -------
        self : LinearSVC
        """
        self._check_parameters()
        return self._train(ClassProblems(self, labelled_part, X, y, sample_weight))

    def _check_parameters(self) -> None:
        check_choice("solver", self.solver, names(Place.CLUSTER))
        check_flag("average_first", self.average_first)
        self._local()._check_parameters()

    def _record(self, problems: Any, states: Sequence[State]) -> None:
        self.classes_ = problems.classes
        self.coef_, self.intercept_ = problems.arrays(states)
        self.dual_weights_ = [state.dual.weights for state in states]
        self.dual_points_ = [state.dual.coefs for state in states]

    def to_local(self) -> LocalLinearSVC:
        """Return a `widemargin.LinearSVC` that makes the same predictions on one machine.

        Its dual variables are zero: the proof by points remains in `certificate_`.
        """
        check_is_fitted(self)
        local = self._local()
        names = ("classes_", "coef_", "intercept_", "n_features_in_", "n_iter_", "certificate_")
        for name in (*names, "history_", "status_", "solver_"):
            setattr(local, name, getattr(self, name))
        shape = (self.coef_.shape[0], self.n_samples_fit_)
        local.dual_variables_ = scipy.sparse.csr_array(shape)
        return local


@threads.one_for_blas()
def certify(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
    """Recompute the certificate of a `LinearSVC` or `LinearSVCCV` on its training data.

    It is computed on the cluster from the coefficients and the points where planes touch the risk:
    one round for each class.
    """
    check_is_fitted(model, "coef_")
    model = getattr(model, "best_estimator_", model)
    problems = ClassProblems(model, labelled_part, X, y, sample_weight)
    try:
        training = Training(problems, model, Interruption())
        return Certificate.total(
            _certified(model, problems, training, index) for index in range(len(problems))
        )
    finally:
        problems.forget()


def _certified(
    model: LinearSVC, problems: ClassProblems, training: Training, index: int
) -> Certificate:
    """Return the certificate of one of a model's problems."""
    oracle = training.oracle(Job(problems.recipe(index, model.C), problems.zero()))
    together = problems.together
    best = oracle.place(
        model.coef_.T if together else model.coef_[index],
        model.intercept_ if together else model.intercept_[index],
    )
    tangents = Tangents(model.dual_weights_[index], model.dual_points_[index])
    (answer,) = training.rounds.answers([oracle.question(best, tangents)])
    return oracle.certificate(best, answer)
