"""Linear support vector classification, with scikit-learn's face."""

import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import scipy.sparse
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.certificate import Certificate
from widemargin.data import as_rows
from widemargin.estimators.callbacks import LEVELS, GapLevels
from widemargin.estimators.problems import LOSSES, MULTI_CLASS, make_problems
from widemargin.estimators.validation import (
    check_choice,
    check_count,
    check_flag,
    check_labels,
    check_level,
    check_matrix,
    check_positive,
    check_threads,
    check_weights,
)
from widemargin.monitor import Interruption, Monitor
from widemargin.problem import State
from widemargin.progress import ProgressLine
from widemargin.solvers import auto


class LinearSVC(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Linear support vector classification with a certificate.

    Minimises, for two classes,

        1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i (w.x_i + b))^p      p = 1 or 2

    and one such problem per class, against all others, where there are more; or, with
    ``multi_class="crammer_singer"``, one problem for all k classes together,

        1/2 sum_j |w_j|^2 + C sum_i weight_i max_j ([j != y_i] + s_ij - s_iy),   s = W x + b

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses, summed over rows; larger means less regularisation.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        "hinge" is the loss of ``sklearn.svm.SVC``; "squared_hinge" (p = 2) is the default
        of ``sklearn.svm.LinearSVC``. Of no meaning to "crammer_singer", as in scikit-learn.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        One class against the rest, or all classes in one problem. With two classes the latter
        is the hinge loss at 2 C, and is solved as such.
    solver : {"auto", "dcd", "acf", "cpa", "ocas", "gca", "gca2", "tca"}, default="auto"
        "dcd" is LIBLINEAR's dual coordinate descent; "acf" visits rows as often as it pays.
        The others are cutting planes: "cpa" is SVM-perf's method, "ocas" adds an exact line
        search, and "gca", "gca2" and "tca" approximate ones.
    tol : float, default=1e-3
        Stop when the relative duality gap, (primal - dual) / primal, is proved to be at
        most this: at most that fraction of the objective could still be saved.
    fit_intercept : bool, default=True
    penalized_intercept : bool, default=False
        By default the intercept is free, as in ``sklearn.svm.SVC``. True adds b^2 / 2 to
        the objective, as ``sklearn.svm.LinearSVC`` does.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of every row of a class.
    max_iter : int, default=10000
        Passes over the rows, per class; iterations of cutting planes.
    max_time : float or None, default=None
        Seconds for the whole fit.
    warm_start : bool, default=False
        Start from the last fit's dual variables, if the number of rows and the classes are
        the same.
    n_jobs : int or None, default=None
        Threads; classes are trained side by side, and cutting planes split the rows among
        threads that are left. None means 1, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Of the order in which rows are visited.
    verbose : int, default=0
        1 shows the gap as it closes, on stderr.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    dual_variables_ : CSR array of shape (1, n_samples) or (n_classes, n_samples)
        What proves the lower bound; see `widemargin.certify`.
    certificate_ : Certificate
        Primal and dual value and their gap; ``certificate_.parts`` has one per class where
        each had a problem of its own.
    history_ : list of Record
        One per gap check: time, iteration, primal, dual, gap, rows visited, time by phase.
    solver_ : str
        The solver used.
    status_ : {"converged", "max_iter", "max_time", "interrupted", "callback"}
        Why training stopped; "converged" only if every class did.
    n_iter_ : int
        Passes over the rows or iterations, the most that any class took.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC(random_state=0).fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        *,
        C=1.0,
        loss="squared_hinge",
        multi_class="ovr",
        solver="auto",
        tol=1e-3,
        fit_intercept=True,
        penalized_intercept=False,
        class_weight=None,
        max_iter=10000,
        max_time=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
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
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float32 and float64, C-ordered or CSR, are used in place.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a row given twice, a weight of zero a row left out.

        Returns
        -------
        self : LinearSVC
        """
        self._check_parameters()
        previous = self._previous_fit()
        X = check_matrix(self, X, reset=True)
        y = check_labels(y)
        if X.shape[0] != y.shape[0]:
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {X.shape[0]} and {y.shape[0]}"
            )
        classes, codes = np.unique(y, return_inverse=True)
        weights = check_weights(sample_weight, X)
        problems = make_problems(self, as_rows(X), classes, codes, weights)
        starts = _warm_starts(previous, classes, problems)
        self.classes_ = classes
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        fit = _Fit(self, problems, starts, data)
        fit.run()
        self._take_results(fit)
        return self

    def _check_parameters(self):
        check_positive("C", self.C)
        check_choice("loss", self.loss, tuple(LOSSES))
        check_choice("multi_class", self.multi_class, MULTI_CLASS)
        check_choice("solver", self.solver, auto.SOLVERS)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_positive("max_time", self.max_time, optional=True)
        for name in ("fit_intercept", "penalized_intercept", "warm_start"):
            check_flag(name, getattr(self, name))
        check_threads("n_jobs", self.n_jobs)
        check_level("verbose", self.verbose)
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _previous_fit(self):
        """Return (classes, coef, intercept, dual) of the last fit, if this one starts there."""
        if not (self.warm_start and hasattr(self, "dual_variables_")):
            return None
        return self.classes_, self.coef_, self.intercept_, self.dual_variables_

    def _take_results(self, fit):
        states, monitors = fit.states, fit.monitors
        self.coef_, self.intercept_ = fit.problems.planes(states)
        self.dual_variables_ = fit.problems.dual(states)
        self.certificate_ = Certificate.total(monitor.certificate for monitor in monitors)
        self.history_ = [record for monitor in monitors for record in monitor.history]
        self.solver_ = fit.solver
        self.n_iter_ = max(1, math.ceil(max(monitor.iteration for monitor in monitors)))
        statuses = [monitor.status for monitor in monitors]
        self.status_ = next((s for s in statuses if s != "converged"), "converged")
        if self.status_ in ("max_iter", "max_time"):
            worst = max(monitor.certificate.relative_gap for monitor in monitors)
            limit = getattr(self, self.status_)
            warnings.warn(
                f"training stopped at {self.status_}={limit} with a relative duality gap of "
                f"{worst:.2g}, above tol={self.tol:g}. The model can be used, and up to that "
                f"fraction of its objective could still be saved: raise {self.status_}, lower "
                "C or scale the features.",
                ConvergenceWarning,
                stacklevel=4,  # past scikit-learn's callback wrapper, to the caller of fit
            )

    def decision_function(self, X):
        """Return w.x + b for each row: (n,) for two classes, (n, n_classes) for more."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False)
        if scipy.sparse.issparse(X):
            scores = as_rows(X).scores(self.coef_.T) + self.intercept_
        else:
            scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Return the predicted class label of each row."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def to_sklearn(self):
        """Return a plain ``sklearn.svm.LinearSVC`` that predicts the same.

        For exporters that know scikit-learn only, and for machines without widemargin.
        """
        from sklearn.svm import LinearSVC as SklearnLinearSVC

        check_is_fitted(self)
        twin = SklearnLinearSVC(
            C=self.C,
            loss=self.loss,
            multi_class=self.multi_class,
            dual=True,
            fit_intercept=self.fit_intercept,
            class_weight=self.class_weight,
            random_state=self.random_state,
        )
        for name in ("classes_", "coef_", "intercept_", "n_iter_", "n_features_in_"):
            setattr(twin, name, getattr(self, name))
        if hasattr(self, "feature_names_in_"):
            twin.feature_names_in_ = self.feature_names_in_
        return twin


def _warm_starts(previous, classes, problems):
    """Return one State per problem, from the previous fit where it matches."""
    if previous is not None:
        old_classes, coef, intercept, dual = previous
        rows = problems.rows
        if (
            np.array_equal(old_classes, classes)
            and dual.shape[1] == rows.n_rows
            and coef.shape[1] == rows.n_features
        ):
            return problems.states(coef, intercept, dual)
    return [None] * len(problems)


class _Fit:
    """One call of `fit`: solves the binary problems, side by side where threads allow."""

    def __init__(self, estimator, problems, starts, data):
        self.estimator, self.problems, self.starts = estimator, problems, starts
        self.data = data  # for callbacks
        self.solver = estimator.solver
        if self.solver == "auto":
            self.solver = auto.choose(problems.rows, problems[0].risk)
        n_jobs = effective_n_jobs(estimator.n_jobs)
        self.n_threads = min(n_jobs, len(problems))
        self.n_row_threads = n_jobs // self.n_threads if auto.splits_rows(self.solver) else 1
        random = check_random_state(estimator.random_state)
        self.seeds = random.randint(np.iinfo(np.int32).max, size=len(problems))
        self.interruption = Interruption()
        self.states: list = [None] * len(problems)
        self.monitors: list = [None] * len(problems)
        self.unsolved = len(problems)
        self.started = time.perf_counter()
        self.context = None
        self.line = None

    def run(self):
        estimator, count = self.estimator, len(self.problems)
        self.context = estimator._init_callback_context(
            max_subtasks=count, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=estimator, **self.data)
        with ExitStack() as stack:
            if estimator.verbose:
                self.line = stack.enter_context(ProgressLine(count, estimator.tol))
            stack.enter_context(self.interruption.watching())
            if self.n_threads == 1:
                for index in range(count):
                    self._solve(index)
            else:
                with ThreadPoolExecutor(self.n_threads) as pool:
                    list(pool.map(self._solve, range(count)))
            if self.line is not None:
                total = Certificate.total(monitor.certificate for monitor in self.monitors)
                self.line.finish(f"{time.perf_counter() - self.started:.2f} s  {total}")
        self.context.call_on_fit_task_end(
            estimator=estimator, reconstruction_attributes=self._attributes, **self.data
        )

    def _solve(self, index):
        problem = self.problems[index]
        levels = None
        if hasattr(self.estimator, "_skl_callbacks"):
            context = self.context.subcontext(
                task_name="binary problem", task_id=index, max_subtasks=LEVELS
            )
            levels = GapLevels(
                self.estimator, context, self.data, lambda state: self._attributes({index: state})
            )

        def on_check(record, state):
            if self.line is not None:
                self.line.show(record)
            return levels is not None and levels.on_check(record, state)

        self.monitors[index] = monitor = Monitor(
            tol=self.estimator.tol,
            max_iter=self.estimator.max_iter,
            max_time=self._share_of_time(),
            interruption=self.interruption,
            on_check=on_check,
            problem=index,
            started=self.started,
        )
        solver = auto.make(self.solver, problem.risk, int(self.seeds[index]))
        start = self.starts[index] or State.zero(problem)
        with threads.lent(self.n_row_threads):
            self.states[index] = solver.solve(problem, start, monitor)
        self.unsolved -= 1
        if levels is not None:
            levels.end(self.states[index])

    def _share_of_time(self):
        """Return the seconds one problem may take, so that each gets its share."""
        if self.estimator.max_time is None:
            return None
        left = self.started + self.estimator.max_time - time.perf_counter()
        return max(0.0, left) / math.ceil(self.unsolved / self.n_threads)

    def _attributes(self, running=None):
        """Return what a callback needs to predict with the model as it is now."""
        states = [
            (running or {}).get(j) or self.states[j] or State.zero(self.problems[j])
            for j in range(len(self.problems))
        ]
        coef, intercept = self.problems.planes(states)
        return {"coef_": coef, "intercept_": intercept}
