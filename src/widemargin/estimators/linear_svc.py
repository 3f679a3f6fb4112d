"""Linear SVM classifier as a scikit-learn estimator."""

from os import PathLike
from typing import Self

import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, RandomState, Vector, dense, move_to, on_host
from widemargin.data.devices import DEVICES, is_on_gpu, placed
from widemargin.estimators.callbacks import with_callbacks
from widemargin.estimators.fitting import (
    Fit,
    check_checkpoint,
    choose_solver,
    load_if_fits,
    seeds_of,
)
from widemargin.estimators.folds import CALIBRATION_FOLDS
from widemargin.estimators.label_fit import fit_labels
from widemargin.estimators.label_prediction import PredictsLabels
from widemargin.estimators.label_sets import label_matrix
from widemargin.estimators.penalties import check_penalty
from widemargin.estimators.problems import (
    MULTI_CLASS,
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
)
from widemargin.losses import LOSSES
from widemargin.solvers.registry import names


class LinearSVC(Updating, PredictsLabels):
    """Linear support vector classification with a certificate.

    Minimises, for two classes, ::

        penalty(w) + C sum_i weight_i loss(1 - y_i (w.x_i + b))      y_i = +-1

    and for more classes one such problem per class (one versus rest); or, with
    ``multi_class="crammer_singer"``, a single problem for all k classes, ::

        1/2 sum_j |w_j|^2 + C sum_i weight_i max_j ([j != y_i] + s_ij - s_iy),   s = W x + b

    Rows may have any number of labels: `fit` takes a matrix of labels, and solves one problem of
    two classes for each of them.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        "l2" is 1/2 \\|w\\|^2. "l1" is the sum of \\|w_j\\|, and "elasticnet" l1_ratio times that
        and 1 - l1_ratio times 1/2 \\|w\\|^2: most weights are then exactly zero. These two need a
        smooth loss and rows in memory, and not "crammer_singer".
    loss : str, default="squared_hinge"
        Of z = 1 - y_i (w.x_i + b): "hinge" is max(0, z), the loss of ``sklearn.svm.SVC``;
        "squared_hinge" is its square, the default of ``sklearn.svm.LinearSVC``; "smooth_hinge" is
        z^2 / 2 up to z = 1, and z - 1/2 from there on. ``widemargin.losses.LOSSES`` has all
        of them. Ignored by "crammer_singer", as in scikit-learn.
    dual : {"auto", True, False}, default="auto"
        Without effect: `solver` chooses. Combinations that LIBLINEAR does not have, such as the
        hinge with ``dual=False``, are refused as in scikit-learn.
    C : float, default=1.0
        Inverse regularisation strength: the weight of the sum of losses.
    l1_ratio : float, default=0.5
        Of "elasticnet": from 0, which is "l2", to 1, which is "l1".
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        One versus rest, or all classes in one problem. For two classes, "crammer_singer" is
        the hinge loss at 2 C and is solved as such.
    solver : str, default="auto"
        "auto" chooses by the data and C; the page on solvers lists all there are.
        "dcd" is LIBLINEAR's dual coordinate descent; "acf" adapts how often it visits each
        row. "newton" is Newton's method on a smoothed hinge, for many rows of few features.
        Cutting planes: "cpa" is SVM-perf's method, "ocas" adds an exact line search, and "gca",
        "gca2" and "tca" use approximate ones. "stream" is StreamSVM, for rows that
        `widemargin.open_rows` reads from disk; "bm" and "sbm" are block minimisation. The same
        names with "-paper" at the end are the algorithms as published, see the pages on papers.
    tol : float, default=1e-3
        Stop when the certified relative duality gap, (primal - dual) / primal, is at most
        `tol`. More training could then reduce the objective by at most that fraction. Of a
        "-paper" solver it is the paper's own tolerance.
    fit_intercept : bool, default=True
    penalized_intercept : bool, default=False
        By default the intercept is not penalised, as in ``sklearn.svm.SVC``. True adds b^2 / 2
        to the objective, as ``sklearn.svm.LinearSVC`` does; with another penalty than "l2", that
        of b.
    intercept_scaling : float, default=1.0
        A penalised intercept is the weight of a constant feature of this value, times the value,
        so (b / intercept_scaling)^2 / 2 is added to the objective. If it is not 1, the rows are
        copied. An intercept that is not penalised is the limit of large values, and ignores it.
    class_weight : dict, "balanced" or None, default=None
        Factor on the sample weights of each class. For a matrix of labels, a factor on the rows
        that have the label; "balanced" balances each label against the rows without it.
    max_iter : int, default=10000
        Maximum number of passes over the rows per class, or of iterations of Newton's method
        or cutting planes.
    max_time : float or None, default=None
        Maximum time of the fit in seconds, without the time that Numba compiles kernels in the
        first fit.
    probability : bool, default=False
        Whether to calibrate scores, for `predict_proba`. scikit-learn's sigmoids are fitted to
        out-of-fold scores of five-fold cross-validation, whose models are warm-started from
        this one. `max_time` applies to them separately.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        "cuda" trains on a GPU (needs CuPy) with "newton" or cutting planes; rows that do not
        fit are streamed through it. "auto" takes a GPU if there is one and the rows fit on it.
    memory_budget : int, str or None, default=None
        For rows on disk: memory for training in bytes, or as "512MB" or "4GiB", not counting the
        interpreter. None means 1 GiB. With ``solver="auto"``, rows that fit are read into memory.
        "stream", "bm" and "sbm" keep as many rows in memory as fit.
    checkpoint : path-like or None, default=None
        For rows on disk: file for the state of the run, written every 20 seconds. After a crash,
        the same fit resumes from it; a fit that completes removes it. With several classes, each
        has its own file: the path, a dot and the number of the class.
    warm_start : bool, default=False
        Start from the dual variables of the previous fit, if the number of rows and the classes
        are the same.
    n_jobs : int or None, default=None
        Number of threads. Classes are trained in parallel; cutting planes split the rows among
        the remaining threads. None means 1, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Seed of the order in which rows are visited. The same seed and data give the same bits,
        except with "stream", which depends on the speed of the disk.
    sparse_coef : {"auto", True, False}, default="auto"
        For a matrix of labels: whether `coef_` is a sparse matrix of float32, in which the
        smallest weights are zero. As many are left out as `tol` allows; the certificate is that
        of the sparse model. "auto" does so from 100 labels on.
    verbose : int, default=0
        1 prints the duality gap during training, on stderr.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Of a matrix of labels, the numbers or the names of its columns; of sets, the labels.
    multilabel_ : bool
        Whether the model was fitted to a matrix of labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Or a CSC array, see `sparse_coef`.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    dual_variables_ : CSR array of shape (1, n_samples) or (n_classes, n_samples)
        Dual variables, which prove the lower bound; see `widemargin.certify`.
    certificate_ : Certificate
        Primal value, dual value and duality gap; ``certificate_.parts`` has one certificate per
        one-versus-rest problem.
    history_ : list of Record
        One per gap check: time, iteration, primal, dual, gap, rows visited, time per phase.
    solver_ : str
        The solver used. "newton, then acf" (or "ocas", for rows on disk or on a GPU) if Newton's
        method made no progress and another solver continued from its point.
    status_ : {"converged", "max_iter", "max_time", "rounding", "interrupted", "callback"}
        Why training stopped; "converged" only if every class converged, "rounding" if float64
        cannot prove `tol` on this data. Or "published": a "-paper" solver met its paper's rule.
    n_iter_ : int
        Number of complete passes over the rows or of iterations, the maximum over classes.
    sigmoids_ : ndarray of shape (1, 2) or (n_classes, 2)
        a and b of the calibrated probability 1 / (1 + exp(a s + b)) of a score s; with
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
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: bool | str = "auto",
        C: float = 1.0,
        l1_ratio: float = 0.5,
        multi_class: str = "ovr",
        solver: str = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        intercept_scaling: float = 1.0,
        class_weight: dict | str | None = None,
        max_iter: int = 10000,
        max_time: float | None = None,
        probability: bool = False,
        device: str = "cpu",
        memory_budget: int | str | None = None,
        checkpoint: str | PathLike | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        sparse_coef: bool | str = "auto",
        verbose: int = 0,
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.C = C
        self.l1_ratio = l1_ratio
        self.multi_class = multi_class
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.intercept_scaling = intercept_scaling
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
        self.sparse_coef = sparse_coef
        self.verbose = verbose

    @with_callbacks
    @threads.one_for_blas()
    def fit(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            C-ordered arrays and CSR matrices of float32 or float64 are not copied. Or rows on
            disk from `widemargin.open_rows`. Or an array or sparse matrix on a GPU, of CuPy or
            any library with DLPack; then `coef_`, `intercept_` and `dual_variables_` (dense) are
            CuPy arrays.
        y : array-like of shape (n_samples,)
            Class labels; on the host or on a GPU. Or, for rows with any number of labels, a
            {array-like, sparse matrix} of shape (n_samples, n_labels) of zeros and ones, or a set
            of labels for each row.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a repeated row, a weight of zero a row left out.

        Returns
        -------
        self : LinearSVC
        """
        self._check_parameters()
        labels = label_matrix(y)
        if labels is not None:
            fit_labels(self, X, y, labels, sample_weight).record()
            return self
        previous = self._previous_fit()
        came_on_gpu = is_on_gpu(X)
        X = check_matrix(self, X, reset=True, finite=False)
        rows = placed(X, self.device)
        check_finite(self, X, rows)
        y = check_labels(y)
        check_same_length(X, y)
        classes, codes = classes_of(y, rows.like)
        rows = load_if_fits(rows, self, len(classes) * (1 + CALIBRATION_FOLDS * self.probability))
        rows = with_constant(rows, self)
        weights = check_weights(sample_weight, X)
        problems = make_problems(self, rows, classes, codes, weights)
        starts = warm_starts(previous, classes, problems)
        self.classes_, self.multilabel_ = classes, False
        data = {"X": X, "y": y, "metadata": {"sample_weight": sample_weight}}
        solver = choose_solver(self, problems[0])
        check_checkpoint(self, solver)
        folds = None
        if self.probability:
            # Imported when needed: scikit-learn's calibration loads much else.
            from widemargin.estimators.calibration import calibrate, calibration_folds

            folds = calibration_folds(on_host(codes), classes, weights)
        seeds = seeds_of(self.random_state, len(problems))
        fit = Fit(self, problems, solver, seeds, starts, data)
        fit.train()
        for name, value in problems.attributes(fit.states).items():
            setattr(self, name, move_to(value, problems.cost) if came_on_gpu else value)
        in_place = problems.dual_in_place if came_on_gpu else problems.dual
        self.dual_variables_ = in_place(fit.states)
        fit.record()
        self.__dict__.pop("sigmoids_", None)  # of an earlier fit
        if folds is not None:
            y = on_host(y)
            self.sigmoids_ = calibrate(self, rows, y, weights, folds, fit.states, fit.interruption)
        return self

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_positive("intercept_scaling", self.intercept_scaling)
        check_choice("loss", self.loss, tuple(LOSSES))
        check_choice("multi_class", self.multi_class, MULTI_CLASS)
        check_penalty(self, self.loss, LOSSES[self.loss].is_smooth, self.multi_class)
        check_choice("solver", self.solver, ("auto", *names(published=True, penalty=None)))
        if self.sparse_coef != "auto":
            check_flag("sparse_coef", self.sparse_coef)
        for name in ("fit_intercept", "penalized_intercept", "probability"):
            check_flag(name, getattr(self, name))
        check_choice("device", self.device, DEVICES)
        check_bytes("memory_budget", self.memory_budget)
        check_training_parameters(self)
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _previous_fit(self) -> tuple | None:
        """Return (classes, coef, intercept, dual) of the last fit, if this one starts there."""
        if not (self.warm_start and hasattr(self, "dual_variables_")) or self.multilabel_:
            return None
        return self.classes_, dense(self.coef_), self.intercept_, self.dual_variables_

    def sparsify(self) -> Self:
        """Make `coef_` a sparse matrix, which takes less memory if most weights are zero."""
        check_is_fitted(self)
        self.coef_ = scipy.sparse.csr_matrix(on_host(self.coef_))
        return self

    def densify(self) -> Self:
        """Make `coef_` an array again."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.svm.LinearSVC`` that predicts the same.

        With ``probability=True``, it is inside a ``CalibratedClassifierCV`` with the same
        probabilities, which predicts the most probable class. It can be fitted again only with a
        loss that scikit-learn has.
        """
        from widemargin.estimators.twins import classifier_twin

        check_is_fitted(self)
        if self.multilabel_:
            raise ValueError(
                "scikit-learn's LinearSVC takes no matrix of labels, and so the model has no twin"
            )
        return classifier_twin(self)
