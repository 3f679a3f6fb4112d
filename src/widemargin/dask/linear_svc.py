"""Linear support vector classification on a Dask cluster."""

import uuid

import numpy as np
import scipy.sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from widemargin.certificate import Certificate
from widemargin.dask import tasks
from widemargin.dask.oracle import ClusterOracle
from widemargin.dask.tasks import Recipe
from widemargin.dask.training import SOLVERS, ClusterModel, Problems, labelled_part
from widemargin.estimators.linear_svc import LinearSVC as LocalLinearSVC
from widemargin.estimators.problems import class_weights
from widemargin.estimators.validation import check_choice, check_flag
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, State, Tangents
from widemargin.solvers.oracle import Place

# Sweeps over its part that a worker makes by itself before all begin, if asked to.
_SWEEPS_ALONE = 5
# What may be left of the planes' slopes in a free intercept, whose sum is to be zero.
_UNBALANCED = 1e-9


class LinearSVC(ClassifierMixin, ClusterModel):
    """Linear support vector classification over rows that a cluster holds, with a certificate.

    The problem is that of `widemargin.LinearSVC`, and so are its parameters. It is solved by
    cutting planes: each iteration sends a vector to the workers and takes one back from each.

    Parameters
    ----------
    C, loss, multi_class, tol, fit_intercept, penalized_intercept, class_weight, max_iter, \
    max_time, verbose
        As in `widemargin.LinearSVC`; max_iter counts iterations.
    solver : {"ocas", "cpa"}, default="ocas"
        OCAS with a multi-point line search, or SVM-perf's method, without one.
    average_first : bool, default=False
        Whether each worker first trains on its own part, and their mean is where all begin; not
        with "crammer_singer".
    client : distributed.Client or None, default=None
        None is the current one.

    Attributes
    ----------
    classes_, coef_, intercept_, certificate_, history_, status_, n_iter_, n_features_in_
        As of `widemargin.LinearSVC`.
    dual_points_ : list of ndarray of shape (m, ...), one per problem
    dual_weights_ : list of ndarray of shape (m,)
        What proves the lower bound: planes under the objective's second term, which touch it at
        these points, and their weights; see `widemargin.dask.certify`.
    n_samples_fit_ : int
    """

    local_class = LocalLinearSVC

    def __init__(
        self,
        *,
        C=1.0,
        loss="squared_hinge",
        multi_class="ovr",
        solver="ocas",
        tol=1e-3,
        fit_intercept=True,
        penalized_intercept=False,
        class_weight=None,
        max_iter=10000,
        max_time=None,
        average_first=False,
        client=None,
        verbose=0,
    ):
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

    def fit(self, X, y=None, sample_weight=None):
        """Fit the model to training data.

        Parameters
        ----------
        X : dask array or DataFrame, list of Delayed, or path
            Rows; the blocks of an array may be dense or SciPy CSR. A path is a folder of rows, as
            `widemargin convert` writes it, which all workers can read.
        y : the same, or array-like of shape (n_samples,)
            Class labels, in parts that match those of X. None where the files have them.
        sample_weight : the same, default=None

        Returns
        -------
        self : LinearSVC
        """
        check_choice("solver", self.solver, SOLVERS)
        check_flag("average_first", self.average_first)
        self._local()._check_parameters()
        return self._train(_Problems(self, X, y, sample_weight))

    def _record(self, problems, states):
        self.classes_ = problems.classes
        complete = states + [problems.zero()] * (len(problems) - len(states))
        if problems.together:
            (state,) = states
            self.coef_ = np.ascontiguousarray(state.coef.T)
            self.intercept_ = np.array(state.offset)
        else:
            self.coef_ = np.stack([state.coef for state in complete])
            self.intercept_ = np.array([state.offset for state in complete])
        self.dual_weights_ = [state.dual.weights for state in states]
        self.dual_points_ = [state.dual.coefs for state in states]

    def to_local(self):
        """Return a `widemargin.LinearSVC` that predicts the same, on one machine.

        Its dual variables are zero: what was proved, by points, is in `certificate_`.
        """
        check_is_fitted(self)
        local = self._local()
        for name in ("classes_", "coef_", "intercept_", "n_features_in_", "n_iter_"):
            setattr(local, name, getattr(self, name))
        for name in ("certificate_", "history_", "status_", "solver_"):
            setattr(local, name, getattr(self, name))
        shape = (self.coef_.shape[0], self.n_samples_fit_)
        local.dual_variables_ = scipy.sparse.csr_array(shape)
        return local


class _Problems(Problems):
    """The problems that make a classifier, over parts of the rows."""

    def __init__(self, model, X, y, sample_weight):
        super().__init__(model.client, labelled_part, tasks.describe_classes, X, y, sample_weight)
        self.model = model
        labels, weights_of = self.described
        self.classes = np.unique(np.concatenate(labels))
        weights = np.zeros(len(self.classes))
        for found, counted in zip(labels, weights_of, strict=True):
            weights[np.searchsorted(self.classes, found)] += counted
        if np.count_nonzero(weights) < 2:
            raise ValueError(
                "a classifier needs rows of at least 2 classes, but the data (rows of weight "
                "zero not counted) contains only one class"
            )
        self.together = model.multi_class == "crammer_singer" and len(self.classes) > 2
        codes = np.arange(len(self.classes))
        self.costs = np.full(len(self.classes), float(model.C))
        if model.class_weight is not None:
            self.costs *= class_weights(model.class_weight, self.classes, codes, weights)
        self.loss = model.loss
        if model.multi_class == "crammer_singer":
            self.loss = "crammer_singer" if self.together else "hinge"
            self.costs = self.costs if self.together else 2.0 * self.costs
        self.intercept = Intercept.NONE
        if model.fit_intercept:
            penalized = model.penalized_intercept
            self.intercept = Intercept.PENALIZED if penalized else Intercept.FREE

    def __len__(self):
        return 1 if self.together or len(self.classes) == 2 else len(self.classes)

    def recipe(self, index):
        positive = 1 if len(self.classes) == 2 else index
        return Recipe(self.classes, self.costs, self.loss, positive, uuid.uuid4().hex)

    def oracle(self, index, monitor):
        return ClusterOracle(
            self.parts, self.recipe(index), self.n_features, self.intercept, monitor
        )

    def zero(self):
        outputs = (len(self.classes),) if self.together else ()
        coef = np.zeros((self.n_features, *outputs))
        dual = Tangents(np.empty(0), coef[None][:0])
        return State(coef, np.zeros(outputs) if outputs else 0.0, dual)

    def start(self, index):
        """Return where to begin: nowhere, or at the mean of what workers find by themselves."""
        start = self.zero()
        if not self.model.average_first or self.together:
            return start
        recipe = self.recipe(index)
        shares = [
            self.parts.client.submit(
                tasks.solve_alone, part, recipe, self.intercept, self.n_rows / size, _SWEEPS_ALONE
            )
            for part, size in zip(self.parts.futures, self.sizes, strict=True)
        ]
        for (coef, offset), size in zip(self.parts.client.gather(shares), self.sizes, strict=True):
            start.coef += size / self.n_rows * coef
            start.offset += size / self.n_rows * offset
        return start


def certify(model: LinearSVC, X, y=None, sample_weight=None) -> Certificate:
    """Recompute the certificate of `model` on its training data, on the cluster.

    From nothing but its coefficients, and the points that its planes touch the risk at: one pass
    over the rows for each.
    """
    check_is_fitted(model)
    problems = _Problems(model, X, y, sample_weight)
    parts = []
    for index in range(len(problems)):
        oracle = problems.oracle(index, Monitor(1e-9, 1))
        coef = model.coef_.T if problems.together else model.coef_[index]
        offset = model.intercept_ if problems.together else model.intercept_[index]
        best = oracle.place(coef, offset)
        weights = np.maximum(model.dual_weights_[index], 0.0)
        weights = weights / max(1.0, weights.sum())
        height, slope = 0.0, np.zeros(best.vector.size)
        free, size = np.zeros(best.free.size), np.zeros(best.free.size)
        for weight, point in zip(weights.tolist(), model.dual_points_[index], strict=True):
            plane = oracle.stay(Place(*np.split(point, [slope.size]))).plane
            height += weight * plane.constant
            slope += weight * plane.a
            free += weight * plane.e
            size += weight * np.abs(plane.e)
        bound = height - 0.5 * float(slope @ slope)
        if np.any(np.abs(free) > _UNBALANCED * size):
            bound = 0.0  # with a free intercept, such planes prove nothing
        parts.append(Certificate(oracle.stay(best).value, bound))
    problems.forget()
    return Certificate.total(parts)
