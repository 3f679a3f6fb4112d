"""Linear support vector classification, with scikit-learn's face."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import beside, on_host
from widemargin.data import is_rows
from widemargin.data.devices import DEVICES, is_on_gpu, placed
from widemargin.data.rows import home
from widemargin.estimators.fitting import Fit, brought_near, choose_solver
from widemargin.estimators.folds import CALIBRATION_FOLDS
from widemargin.estimators.problems import LOSSES, MULTI_CLASS, make_problems
from widemargin.estimators.reporting import Reporting
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
    linear_scores,
)
from widemargin.solvers.registry import SOLVERS, names, quoted


def wants_probability(estimator) -> bool:
    """Return True; AttributeError, which says what to do, if there will be no probabilities."""
    if not estimator.probability:
        raise AttributeError("predict_proba is there with probability=True only")
    return True


class LinearSVC(Reporting, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Linear support vector classification with a certificate.

    Minimises, for two classes, ::

        1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i (w.x_i + b))^p      p = 1 or 2

    and one such problem per class, against all others, where there are more; or, with
    ``multi_class="crammer_singer"``, one problem for all k classes together, ::

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
    solver : str, default="auto"
        "auto" chooses by the data and C; the page on solvers lists all there are.
        "dcd" is LIBLINEAR's dual coordinate descent; "acf" visits rows as often as it pays.
        "newton" is Newton's method on a smooth hinge, for many rows of few features.
        Cutting planes follow: "cpa" is SVM-perf's method, "ocas" adds an exact line
        search, and "gca", "gca2" and "tca" approximate ones. "stream" is StreamSVM, for rows
        that `widemargin.open_rows` reads from disk; "bm" and "sbm" are block minimisation.
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
        Seconds for the whole fit. Those that Numba takes to compile kernels, in the first fit
        ever, do not count.
    probability : bool, default=False
        Whether `predict_proba` is wanted: scores are calibrated by scikit-learn, on those that
        models trained without a fifth of the rows each, beginning from this one, give to that
        fifth. For these, `max_time` counts anew.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        "cuda" trains on a GPU by CuPy, with "newton" and cutting planes; rows that do not fit
        are streamed through it. "auto" does so if there is a GPU, and room on it.
    memory_budget : int, str or None, default=None
        For rows on disk: bytes, or "512MB", "4GiB", that training may use besides the interpreter.
        None means 1 GiB. Rows that fit are read into memory, if `solver` is "auto"; else "stream",
        "bm" and "sbm" keep as many there as they can.
    checkpoint : path-like or None, default=None
        For rows on disk: where to keep the state of a run, written every 20 seconds. A run that
        was killed goes on from there when it is started again; one that ends well removes it.
        With several classes, one file for each: the path, a dot and the class's number.
    warm_start : bool, default=False
        Start from the last fit's dual variables, if the number of rows and the classes are
        the same.
    n_jobs : int or None, default=None
        Threads; classes are trained side by side, and cutting planes split the rows among
        threads that are left. None means 1, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Of the order in which rows are visited. The same seed and data give the same bits, but
        with "stream", whose visits depend on when rows arrive.
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
        The solver used. "newton, then acf" (or "ocas", for rows on disk or on a GPU) where
        Newton's method was stuck with a problem, and another solver went on from there.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why training stopped; "converged" only if every class did, "rounding" where float64
        cannot prove `tol` on this data.
    n_iter_ : int
        Whole passes over the rows or iterations, the most that any class took.
    sigmoids_ : ndarray of shape (1, 2) or (n_classes, 2)
        a and b of 1 / (1 + exp(a s + b)), the probability that belongs to a score s; with
        ``probability=True``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

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
        probability=False,
        device="cpu",
        memory_budget=None,
        checkpoint=None,
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
        self.probability = probability
        self.device = device
        self.memory_budget = memory_budget
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @with_callbacks
    @threads.one_for_blas()
    def fit(self, X, y, sample_weight=None):
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            float32 and float64, C-ordered or CSR, are used in place. Or rows on disk, as
            `widemargin.open_rows` returns them. Or an array or sparse matrix on a GPU: CuPy's,
            or any that DLPack knows; then `coef_`, `intercept_` and `dual_variables_` (dense)
            are CuPy arrays.
        y : array-like of shape (n_samples,)
            Class labels; on the host or on a GPU.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a row given twice, a weight of zero a row left out.

        Returns
        -------
        self : LinearSVC
        """
        self._check_parameters()
        previous = self._previous_fit()
        came_on_gpu = is_on_gpu(X)
        X = check_matrix(self, X, reset=True, finite=False)
        rows = placed(X, self.device)
        check_finite(self, X, rows)
        y = check_labels(y)
        check_same_length(X, y)
        classes, codes = classes_of(y, home(rows))
        rows = brought_near(rows, self, len(classes) * (1 + CALIBRATION_FOLDS * self.probability))
        weights = check_weights(sample_weight, X)
        problems = make_problems(self, rows, classes, codes, weights)
        starts = _warm_starts(previous, classes, problems)
        self.classes_ = classes
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        solver = choose_solver(self, problems[0])
        if self.checkpoint is not None and not SOLVERS[solver].keeps_checkpoints:
            keepers = quoted(tuple(name for name in SOLVERS if SOLVERS[name].keeps_checkpoints))
            raise ValueError(
                f"checkpoint goes with {keepers}, for rows on disk; solver {solver!r} keeps none"
            )
        folds = None
        if self.probability:
            # Imported when needed: scikit-learn's calibration loads much else.
            from widemargin.estimators.calibration import calibrate, calibration_folds

            folds = calibration_folds(on_host(codes), classes, weights)
        fit = Fit(self, problems, solver, self._seeds(problems), starts, data)
        fit.run()
        for name, value in problems.attributes(fit.states).items():
            setattr(self, name, beside(value, problems.cost) if came_on_gpu else value)
        in_place = problems.dual_in_place if came_on_gpu else problems.dual
        self.dual_variables_ = in_place(fit.states)
        fit.record()
        vars(self).pop("sigmoids_", None)  # of an earlier fit
        if folds is not None:
            y = on_host(y)
            self.sigmoids_ = calibrate(self, rows, y, weights, folds, fit.states, fit.interruption)
        return self

    def _seeds(self, problems):
        random = check_random_state(self.random_state)
        return random.randint(np.iinfo(np.int32).max, size=len(problems))

    def _check_parameters(self):
        check_positive("C", self.C)
        check_choice("loss", self.loss, tuple(LOSSES))
        check_choice("multi_class", self.multi_class, MULTI_CLASS)
        check_choice("solver", self.solver, ("auto", *names()))
        for name in ("fit_intercept", "penalized_intercept", "probability"):
            check_flag(name, getattr(self, name))
        check_choice("device", self.device, DEVICES)
        check_bytes("memory_budget", self.memory_budget)
        check_training_parameters(self)
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _previous_fit(self):
        """Return (classes, coef, intercept, dual) of the last fit, if this one starts there."""
        if not (self.warm_start and hasattr(self, "dual_variables_")):
            return None
        return self.classes_, self.coef_, self.intercept_, self.dual_variables_

    def decision_function(self, X):
        """Return w.x + b for each row: (n,) for two classes, (n, n_classes) for more."""
        check_is_fitted(self)
        stays_on_gpu = is_on_gpu(X) and not is_rows(X)
        X = check_matrix(self, X, reset=False)
        scores = linear_scores(X, self.coef_.T, self.intercept_)
        if not stays_on_gpu:
            scores = on_host(scores)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Return the predicted class label of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        if self.classes_.dtype.kind not in "biuf":
            places = on_host(places)  # there are no words on a GPU
        return beside(self.classes_, places)[places]

    @available_if(wants_probability)
    def predict_proba(self, X):
        """Return the probability of each class, (n, n_classes); with ``probability=True``."""
        from widemargin.estimators.calibration import probabilities

        scores = on_host(self.decision_function(X))
        check_is_fitted(self, "sigmoids_", msg="%(name)s was fitted with probability=False")
        return probabilities(scores.reshape(scores.shape[0], -1), self.sigmoids_)

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
            setattr(twin, name, on_host(getattr(self, name)))
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
