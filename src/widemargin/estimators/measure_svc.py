"""A linear classifier that is trained for a measure, as a scikit-learn estimator."""

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy import ndarray as Array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.data import Rows, as_rows
from widemargin.data.devices import is_on_gpu
from widemargin.data.memory import RowsInMemory
from widemargin.estimators.callbacks import CallbackSupportMixin, with_callbacks
from widemargin.estimators.fitting import fit_one, load_if_fits
from widemargin.estimators.linear_classifier import LinearScores
from widemargin.estimators.measuring import best_threshold, measured_by_group
from widemargin.estimators.problems import check_classes, class_weights, row_costs
from widemargin.estimators.reporting import Reporting
from widemargin.estimators.scoring import linear_scores
from widemargin.estimators.validation import (
    check_choice,
    check_flag,
    check_groups,
    check_labels,
    check_matrix,
    check_positive,
    check_same_length,
    check_training_parameters,
    check_weights,
)
from widemargin.labels import places_of
from widemargin.problem import Intercept, Problem, State, Tangents
from widemargin.risk import (
    AveragePrecision,
    CodedRisk,
    Hinge,
    LabellingRisk,
    PartialArea,
    Risk,
    RowRisk,
    measure_called,
)
from widemargin.solvers.registry import RiskKind, names

# So many repeated rows take memory for tens of bytes each.
_MOST_UNITS = 2**31


class MeasureModel(LinearScores):
    """The predictions of a model of two classes, and their measure."""

    measure: str

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        qid: ArrayLike | None = None,
    ) -> float:
        """Return the measure of the model on these rows: with `qid`, its mean over groups."""
        scores = self.decision_function(X)
        positive = places_of(check_labels(y), self.classes_) == 1
        weights = check_weights(sample_weight, np.reshape(scores, (-1, 1)))
        return self.measure_scores(positive, scores, weights, qid=qid)

    def measure_scores(
        self, positive: Array, scores: Array, weights: Array | None = None, *, qid: Any = None
    ) -> float:
        """Return the measure of scores, (n,), where `positive` rows are to be found.

        NaN without rows of both classes.
        """
        scores = np.asarray(scores, dtype=np.float64)
        group = check_groups(qid, scores.size)
        return measured_by_group(measure_called(self.measure), positive, scores, weights, group)


class MeasureSVC(Reporting, CallbackSupportMixin, MeasureModel):
    """Linear classification of two classes, trained for a measure, with a certificate.

    Minimises ``1/2 |w|^2 + r``, where r is a convex bound on C times the number of rows times the
    loss in the measure, over all rows together: Joachims's structural bounds, as in SVM-perf.

    Parameters
    ----------
    measure : str, default="f1"
        "f1", or "f2", "f0.5" and so on; "prbep", the precision-recall break-even point;
        "precision@k" and "recall@k" of the k highest rows; "recall@precision=p"; "error", the
        error rate; "average_precision"; "roc_auc@p", the area under the ROC curve up to a false
        positive rate. The positive class is the last one of `classes_`.
    C : float, default=1.0
        Inverse regularisation strength, as in `LinearSVC`.
    class_weight : dict, "balanced" or None, default=None
        The costs of errors, for "error".
    solver : str, default="auto"
        As in `LinearRanker`: "ocas", which is "auto", "cpa", "gca", "gca2" or "tca".
    fit_intercept : bool, default=True
        Whether there is an intercept. Measures of ranks, which do not depend on it, are trained
        without one. It is then set to where training rows are divided best.
    penalized_intercept, tol, max_iter, max_time, warm_start, n_jobs, verbose
        As in `LinearSVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    dual_ : Tangents or ndarray
        What proves the lower bound: weights of labellings of the training set, one bit per row; of
        points where planes touch r; or, for "error", dual variables. See `widemargin.certify`.
    certificate_, history_, solver_, status_, n_iter_, n_samples_fit_, n_features_in_
        As in `LinearRanker`. The certificate is about the problem above.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from widemargin import MeasureSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MeasureSVC("f1", C=0.1).fit(X / X.max(axis=0), y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        measure: str = "f1",
        *,
        C: float = 1.0,
        class_weight: dict | str | None = None,
        solver: str = "auto",
        fit_intercept: bool = True,
        penalized_intercept: bool = False,
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.measure = measure
        self.C = C
        self.class_weight = class_weight
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.penalized_intercept = penalized_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        measure = measure_called(self.measure)
        check_positive("C", self.C)
        check_choice("solver", self.solver, ("auto", *names(risk=RiskKind.ANY)))
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("penalized_intercept", self.penalized_intercept)
        check_training_parameters(self)
        if self.class_weight is not None and measure.kind != "error":
            raise ValueError(f"class_weight is for measure='error', not for {self.measure!r}")

    @with_callbacks
    @threads.one_for_blas()
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        start: Any = None,
    ) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Or rows on disk, of `widemargin.open_rows`.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight of two equals a repeated row: weights are whole numbers, except for "error".
        qid : array-like of shape (n_samples,), default=None
            Group of each row. The measure is then the mean over groups, such as the precision at
            10 per query. Groups with one class only are left out. Not for "error".
        start : fitted LinearSVC, MeasureSVC or None, default=None
            A classifier of the same features to start from.

        Returns
        -------
        self : MeasureSVC
        """
        self._check_parameters()
        check_place(X)
        previous = self if self.warm_start and hasattr(self, "dual_") else None
        X = check_matrix(self, X, reset=True)
        if start is not None:
            check_start(start, self.n_features_in_)
        rows = load_if_fits(as_rows(X), self)
        labels = check_labels(y)
        check_same_length(X, labels)
        classes = np.unique(labels)
        if classes.size != 2:
            raise ValueError(
                "Only binary classification is supported: MeasureSVC needs 2 classes, and y has "
                f"{classes.size}" + (" class" if classes.size == 1 else "")
            )
        self.classes_ = classes
        problem = self._problem(rows, labels, qid, sample_weight)
        state = problem.start(start or previous, previous is not None and start is None)
        metadata = {"sample_weight": sample_weight, "qid": qid}
        fit = fit_one(self, problem, state, {"X": X, "y": y, "metadata": metadata})
        self.dual_ = fit.states[0].dual
        fit.record()
        self._warn_of_zero_weights(problem)
        return self

    def to_sklearn(self) -> BaseEstimator:
        """Return a plain ``sklearn.svm.LinearSVC`` that predicts the same."""
        from widemargin.estimators.twins import measure_twin

        check_is_fitted(self)
        return measure_twin(self)

    def _warn_of_zero_weights(self, problem: "MeasureProblem") -> None:
        at_zero = problem.risk.value(np.zeros(problem.rows.n_rows))
        if self.certificate_.primal < (1.0 - self.tol) * at_zero:
            return
        warnings.warn(
            f"zero weights are as good for the bound on the loss in {self.measure!r}, up to "
            f"tol={self.tol:g}, and the model tells next to nothing apart: raise C. If that does "
            f"not help, the classes overlap too much for this bound{problem.demand()}: take "
            "LinearSVC with tune_threshold, or measure='prbep' or 'average_precision'",
            UserWarning,
            stacklevel=5,  # past two decorators, to the caller of fit
        )

    def _problem(
        self, rows: Rows, y: Array, qid: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> "MeasureProblem":
        codes = places_of(y, self.classes_)
        weights = check_weights(sample_weight, rows)
        return MeasureProblem(self, rows, codes, weights, check_groups(qid, codes.size))


def check_place(X: Any) -> None:
    """Refuse rows that are not on this machine's host."""
    if is_on_gpu(X):
        raise TypeError("MeasureSVC trains on the host, and X is on a GPU")
    if type(X).__module__.partition(".")[0] == "dask":
        raise TypeError(
            "MeasureSVC trains on one machine, and X is Dask's: to find the worst labelling, the "
            "rows of all workers are sorted by their scores, which one round trip cannot do"
        )


def check_counts(measure: str, weights: Array | None) -> Array | None:
    """Return how often each row counts, by its weight; None for once."""
    if weights is None:
        return None
    about = f"sample_weight counts how often a row is repeated, for {measure!r}: "
    bad = weights != np.trunc(weights)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{about}it must be whole numbers, and row {row} has {weights[row]:g}")
    if weights.sum() > _MOST_UNITS:
        raise ValueError(f"{about}{weights.sum():g} rows are too many")
    return weights.astype(np.int64)


def check_start(start: Any, n_features: int) -> None:
    """Refuse what is no fitted classifier of two classes and as many features."""
    check_is_fitted(start, "coef_")
    if np.shape(start.coef_) != (1, n_features):
        raise ValueError(
            f"start must be a classifier of two classes and {n_features} features; its coef_ has "
            f"the shape {np.shape(start.coef_)}"
        )


class MeasureProblem:
    """A sequence of one Problem, whose solution is best for a measure.

    codes (n,) are 1 for positive rows, else 0. weights and group (n,) may be None.
    """

    def __init__(
        self, model: MeasureSVC, rows: Rows, codes: Array, weights: Array | None, group: Any
    ):
        self.model, self.rows = model, rows
        self.codes, self.weights = codes, weights
        self.measure = measure_called(model.measure)
        self.risk: Any = self._risk(2 * codes.astype(np.int8) - 1, group)
        self.intercept = Intercept.of(model) if self.risk.takes_intercept else Intercept.NONE

    def _risk(self, y: Array, group: Array | None) -> Risk:
        measure, C, classes = self.measure, float(self.model.C), self.model.classes_
        cost = row_costs(self.model, self.rows, self.weights)
        if self.model.class_weight is not None:
            kind = self.model.class_weight
            cost *= class_weights(kind, classes, self.codes, self.weights)[self.codes]
        check_classes(classes, self.codes, cost)
        if measure.kind == "error":
            if group is not None:
                raise ValueError("qid: measure='error' is a sum over rows, and knows no groups")
            return Hinge(y, cost)
        counts = check_counts(self.model.measure, self.weights)
        risk: Any
        if measure.kind == "average_precision":
            risk = AveragePrecision(y, C, counts, group)
        elif measure.kind == "roc_auc":
            risk = PartialArea(y, C, measure.number, counts, group)
        else:
            risk = LabellingRisk(y, C, measure, counts, group)
        if risk.sides.groups.size == 0:
            raise ValueError("rows of weight above zero are of one class only in each group")
        if measure.is_of_fixed_size and np.all(risk.n_accepted == risk.sides.sizes):
            raise ValueError(
                f"measure={self.model.measure!r} accepts all rows"
                + ("" if group is None else " of each group")
                + f", of which there are {risk.sides.sizes.max()}: no weights change that"
            )
        return risk

    def demand(self) -> str:
        """Return what the bound asks for if fewer rows are accepted than are positive; or ""."""
        if self.measure.is_of_fixed_size:
            size, n_high = self.risk.n_accepted.sum(), self.risk.sides.high.sizes.sum()
            if size < n_high:
                wanted = f"the mean of all {n_high:,} positive rows above the {size:,} highest"
                return f", which wants {wanted} negative ones"
        return ""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Problem:
        return Problem(self.rows, self.risk, self.intercept)

    def attributes(self, states: Sequence[State]) -> dict[str, Array]:
        """Return the attributes with which the model predicts."""
        (state,) = states
        offset = state.offset
        if not self.risk.takes_intercept and self.model.fit_intercept:
            X = self.rows.matrix if isinstance(self.rows, RowsInMemory) else self.rows
            scores = np.asarray(linear_scores(X, state.coef), dtype=np.float64)
            weights = np.ones(scores.size) if self.weights is None else self.weights
            size = float(self.risk.n_accepted.sum()) if self.measure.is_of_fixed_size else None
            offset = -best_threshold(self.measure, self.codes == 1, scores, weights, size)
        return {"coef_": state.coef[None].copy(), "intercept_": np.array([offset])}

    def start(self, model: Any, with_dual: bool) -> State | None:
        """Return the state at a fitted classifier; None for none, or one of other features."""
        if model is None or model.coef_.shape != (1, self.rows.n_features):
            return None
        kept = with_dual and model.n_samples_fit_ == self.rows.n_rows and self._takes(model.dual_)
        dual = model.dual_ if kept else State.zero(self[0]).dual
        return State(np.asarray(model.coef_[0], np.float64), self._offset(model), dual)

    def _offset(self, model: Any) -> float:
        return 0.0 if self.intercept is Intercept.NONE else float(model.intercept_[0])

    def _takes(self, dual: Any) -> bool:
        """Return whether a dual point of an earlier fit is of the kind of this risk's."""
        if isinstance(self.risk, RowRisk) or not isinstance(dual, Tangents):
            return isinstance(self.risk, RowRisk) and not isinstance(dual, Tangents)
        return isinstance(self.risk, CodedRisk) == (dual.coefs.dtype == np.uint8)

    def state(self, model: MeasureSVC) -> State:
        """Return the state of the model that was fitted to this problem."""
        return State(model.coef_[0], self._offset(model), model.dual_)
