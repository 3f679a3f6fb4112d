"""What the certificate of a fitted model proves of the optimum: labels, weights, rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from widemargin import threads
from widemargin.arrays import Matrix, Vector, dense
from widemargin.data import Rows, as_rows
from widemargin.data.memory import RowsInMemory
from widemargin.estimators.certify import training_problems
from widemargin.estimators.linear_svc import LinearSVC
from widemargin.estimators.linear_svr import LinearSVR
from widemargin.estimators.problems import (
    OneByOne,
    OneVsRest,
    ProblemSet,
    make_problems,
    with_constant,
)
from widemargin.estimators.targets import PerTarget, target_problems
from widemargin.estimators.validation import (
    check_labels,
    check_matrix,
    check_not_negative,
    check_row_numbers,
    check_same_length,
    check_targets,
    check_weights,
)
from widemargin.labels import places_of
from widemargin.problem import Intercept, Problem, State
from widemargin.proofs.leave_one_out import leave_one_out_scores
from widemargin.proofs.region import Interval, Region, region_of
from widemargin.proofs.screening import dual_bounds, mean_rows, settled_at
from widemargin.risk import MarginRisk
from widemargin.rounding import squares
from widemargin.words import at_most


class Reduced(NamedTuple):
    """A smaller training set with the same optimum; see `Proof.reduced_problem`."""

    X: Matrix
    y: np.ndarray
    sample_weight: np.ndarray


class LeaveOneOut(NamedTuple):
    """Bounds on the score of each training row by the optimum without it, shaped as the scores.

    `least_error` and `most_error` bound the leave-one-out error: the part of the rows that
    the optimum without them labels wrong; rows of weight zero are none of them. NaN for
    regression.
    """

    low: np.ndarray
    high: np.ndarray
    least_error: float
    most_error: float


def can_be_proved(model: BaseEstimator) -> bool:
    """Return whether `prove` takes a fitted model: whether its problems have one score each."""
    model = vars(model).get("best_estimator_", model)
    if not isinstance(model, LinearSVC | LinearSVR) or "dual_variables_" not in vars(model):
        return False
    one_by_one = isinstance(model, LinearSVR) or len(model.classes_) == 2
    return one_by_one or model.multi_class == "ovr"


@threads.one_for_blas()
def prove(
    model: BaseEstimator, X: Matrix, y: Vector, sample_weight: Vector | None = None
) -> "Proof":
    """Say what is certain of the optimum that a fitted model is near to.

    The duality gap bounds how far the weights of the optimum are from those of the model, and so
    all of its scores and labels. It takes two passes over the rows for each class; a free
    intercept takes about ten more.

    Parameters
    ----------
    model : fitted LinearSVC, LinearSVR or LinearSVCCV
        Not with multi_class="crammer_singer", for more than two classes.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    sample_weight : array-like of shape (n_samples,), default=None
        The data that `model` was trained on.

    Returns
    -------
    Proof

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import LinearSVC, prove
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = LinearSVC(tol=1e-6).fit(X[:400], y[:400])
    >>> proof = prove(model, X[:400], y[:400])
    >>> bool(proof.settled_mask(X[400:]).mean() > 0.95)
    True
    """
    model = vars(model).get("best_estimator_", model)
    if not isinstance(model, LinearSVC | LinearSVR):
        kind = f"{type(model).__module__.split('.')[0]}'s {type(model).__name__}"
        raise TypeError(
            f"prove is for LinearSVC and LinearSVR of widemargin, not for {kind}; of models that "
            "audit takes, audit(...).better can be proved"
        )
    if "coef_" in vars(model) and "dual_variables_" not in vars(model):
        raise ValueError(
            "the model has no dual variables, as those of LIBLINEAR's files have none: prove "
            "audit(...).better"
        )
    if scipy.sparse.issparse(model.coef_):
        raise ValueError("prove takes dense coefficients: use densify(), or sparse_coef=False")
    problems, states = training_problems(model, X, y, sample_weight)
    if not isinstance(problems, OneByOne):
        raise ValueError(
            "multi_class='crammer_singer' is one problem for all classes, of which only the gap "
            "is proved: use multi_class='ovr'"
        )
    if problems.rows.device == "cuda":
        raise ValueError("X is on a GPU, and proofs are made on the host")
    return Proof.of(model, problems, states)


@dataclass(frozen=True, eq=False)
class Proof:
    """What is certain of the optimum of a training problem; `prove` makes it.

    Attributes
    ----------
    model : LinearSVC or LinearSVR
    regions : tuple of Region
        Where the weights and the intercept of the optimum are, of each class or target.
    """

    model: LinearSVC | LinearSVR
    problems: OneByOne
    states: tuple[State, ...]
    regions: tuple[Region, ...]

    @classmethod
    def of(
        cls, model: LinearSVC | LinearSVR, problems: OneByOne, states: Sequence[State]
    ) -> "Proof":
        """Return what is certain of the optima of problems, by states of any quality."""
        regions = [
            region_of(problems[j], state.unpacked(), model.tol) for j, state in enumerate(states)
        ]
        return cls(model, problems, tuple(states), tuple(regions))

    def score_bounds(self, X: Matrix) -> Interval:
        """Return bounds on the optimum's scores of rows: (low, high), each shaped as the scores.

        Of regression, these are its predictions.
        """
        return self._shaped([region.scores(self._rows(X)) for region in self.regions])

    def settled_mask(self, X: Matrix, within: float | None = None) -> np.ndarray:
        """Return of which rows the optimum's own prediction is certain, (n,).

        The label that the model predicts of such a row stays, however long it is trained. Of
        regression, all predictions of such a row are `within` this distance of the optimum's.
        """
        low, high = self.score_bounds(X)
        if isinstance(self.model, LinearSVR):
            if within is None:
                raise TypeError("regression has no labels: within= says how close is settled")
            check_not_negative("within", within)
            found = np.asarray(self.model.predict(X))
            near = np.maximum(high - found, found - low) <= within
            return near if near.ndim == 1 else near.all(axis=1)
        if within is not None:
            raise TypeError("within is for regression: labels are settled or not")
        scores = np.asarray(self.model.decision_function(X))
        if scores.ndim == 1:
            return np.where(scores > 0.0, low > 0.0, high <= 0.0)
        place = scores.argmax(axis=1)[:, None]
        lowest = np.take_along_axis(low, place, axis=1)[:, 0]
        np.put_along_axis(high, place, -np.inf, axis=1)
        return np.asarray(lowest > high.max(axis=1))

    def in_words(self, X: Matrix) -> str:
        """Say how many predictions of rows are settled, or how closely."""
        if isinstance(self.model, LinearSVR):
            low, high = self.score_bounds(X)
            found = self.model.predict(X)
            far = float(np.maximum(high - found, found - low).max())
            if not math.isfinite(far):
                return ""
            return f"All predictions are proved to be within {at_most(far)} of the optimum's."
        share = math.floor(1000.0 * float(self.settled_mask(X).mean())) / 10.0
        return f"{share:g} % of the predicted labels are proved to be the optimum's own."

    def weight_bounds(self) -> Interval:
        """Return bounds on the optimum's weights: (low, high), each shaped as `coef_`.

        The sign of a weight is settled if both are on the same side of zero.
        """
        bounds = [region.weights() for region in self.regions]
        n = self.problems.n_features  # without a feature that is the intercept
        low, high = (np.stack(ends)[:, :n] for ends in zip(*bounds))
        shape = np.shape(self.model.coef_)
        return Interval(low.reshape(shape), high.reshape(shape))

    @cached_property
    def dual_bounds(self) -> Interval:
        """Bounds on the optimum's dual variables: (low, high), each (n_problems, n_samples)."""
        found = [dual_bounds(self.problems[j], region) for j, region in enumerate(self.regions)]
        low, high = (np.stack(ends) for ends in zip(*found))
        return Interval(low, high)

    @property
    def irrelevant_rows(self) -> np.ndarray:
        """Which training rows have no dual weight at the optimum, of any class, (n_samples,).

        Without them the optimum is the same.
        """
        return np.all(settled_at(self.dual_bounds)[0], axis=0)

    @property
    def bounded_rows(self) -> np.ndarray:
        """Which training rows have a dual variable at its bound at the optimum, (n_samples,).

        Of several classes, in all problems that they matter in.
        """
        zero, at_bound = settled_at(self.dual_bounds)
        return (zero | at_bound).all(axis=0) & at_bound.any(axis=0)

    def reduced_problem(self) -> Reduced:
        """Return a smaller training set with the same optimum: (X, y, sample_weight).

        Irrelevant rows are left out. Of one problem, rows at a bound become one row for each label
        (or each side of the targets): their mean, with all of their weight. Class weights are in
        `sample_weight`: train with ``class_weight=None``.
        """
        rows = self.problems.rows
        if not isinstance(rows, RowsInMemory):
            raise TypeError("a reduced problem needs rows in memory")
        X, y = rows.matrix[:, : self.problems.n_features], self._labels()
        keep, cost = ~self.irrelevant_rows, self.problems.cost
        C = self.model.C
        if isinstance(self.model, LinearSVC) and self.model.multi_class == "crammer_singer":
            C *= 2.0  # which two classes have in costs
        if len(self.regions) > 1:
            return Reduced(X[keep], y[keep], cost[keep] / C)
        problem, bounded = self.problems[0], self.bounded_rows
        means, targets, costs = mean_rows(problem, self.dual_bounds.low[0], bounded)
        means, keep = means[:, : X.shape[1]], keep & ~bounded
        if isinstance(self.model, LinearSVC):
            targets = self.model.classes_[(targets > 0.0).astype(int)]
        stack = scipy.sparse.vstack if scipy.sparse.issparse(X) else np.vstack
        like = scipy.sparse.csr_matrix if scipy.sparse.issparse(X) else np.asarray
        if len(costs):
            X = stack([X[keep].astype(np.float64), like(means)])
        else:
            X = X[keep]
        X = X.tocsr() if scipy.sparse.issparse(X) else X
        y = np.concatenate([y[keep], targets.astype(y.dtype, copy=False)])
        return Reduced(X, y, np.concatenate([cost[keep], costs]) / C)

    @property
    def objective_bounds(self) -> Interval:
        """Bounds on the optimal objective: (low, high), each (n_problems,)."""
        bases = [region.basis for region in self.regions]
        low = [basis.dual for basis in bases if basis is not None]
        return Interval(
            np.array(low), np.array([basis.primal for basis in bases if basis is not None])
        )

    def leave_one_out(self) -> LeaveOneOut:
        """Return bounds on the scores of all training rows, each by the optimum without it.

        It takes one training and a few passes, in the place of a training for each row.
        """
        found = [
            leave_one_out_scores(self.problems[j], region) for j, region in enumerate(self.regions)
        ]
        low, high = self._shaped(found)
        problems, counted = self.problems, self.problems.cost > 0.0
        if not isinstance(problems, OneVsRest):
            return LeaveOneOut(low, high, np.nan, np.nan)
        if low.ndim == 1:
            positive = problems.codes == 1
            wrong = np.where(positive, high <= 0.0, low > 0.0)
            right = np.where(positive, low > 0.0, high <= 0.0)
        else:
            own = problems.codes[:, None]
            low_own, high_own = (
                np.take_along_axis(each, own, axis=1)[:, 0] for each in (low, high)
            )
            others = [each.copy() for each in (low, high)]
            for each in others:
                np.put_along_axis(each, own, -np.inf, axis=1)
            wrong = high_own < others[0].max(axis=1)
            right = low_own > others[1].max(axis=1)
        least, most = wrong[counted].mean(), 1.0 - right[counted].mean()
        return LeaveOneOut(low, high, float(least), float(most))

    def influence_bounds(
        self, remove: np.ndarray | None = None, add: tuple | None = None
    ) -> "Proof":
        """Return what is certain of the optimum after rows are removed or added, untrained.

        Parameters
        ----------
        remove : array-like of int, or of bool (n_samples,), default=None
            Training rows that are left out. Class weights stay as they are.
        add : tuple of (X, y) or (X, y, sample_weight), default=None
            Rows of known classes that come after the training rows.
        """
        problems, states = self.problems, self.states
        cost = problems.cost.copy()
        if remove is not None:
            cost[check_row_numbers("remove", remove, cost.size)] = 0.0
        if not cost.any() and add is None:
            raise ValueError("remove: no rows are left")
        problems = replace(problems, cost=cost)
        if add is not None:
            problems = self._with_rows(cost, *add)
            states = tuple(_stretched(problems[j], state) for j, state in enumerate(states))
        return Proof.of(self.model, problems, states)

    def _with_rows(
        self, cost: np.ndarray, X: Matrix, y: Vector, sample_weight: Vector | None = None
    ) -> OneByOne:
        """Return the problems with further rows, which come last."""
        model, rows = self.model, self.problems.rows
        if not isinstance(rows, RowsInMemory):
            raise TypeError("add: rows can be added to rows in memory")
        X = check_matrix(model, X, reset=False)
        added: Any = with_constant(as_rows(X), model)
        if scipy.sparse.issparse(rows.matrix):
            whole = scipy.sparse.vstack(
                [rows.matrix, scipy.sparse.csr_matrix(added.matrix)], "csr"
            )
        else:
            whole = np.vstack([rows.matrix, dense(added.matrix)])
        weights = check_weights(sample_weight, X)
        weights = np.ones(X.shape[0]) if weights is None else weights
        weights = np.concatenate([np.ones(cost.size), weights])
        problems: ProblemSet
        if isinstance(self.problems, PerTarget):
            y = check_targets(y)
            check_same_length(X, y)
            if y.shape[1:] != self.problems.y.shape[1:]:
                raise ValueError("add: y has not as many targets as the training rows")
            targets = np.concatenate([self.problems.y, y])
            problems = target_problems(model, as_rows(whole), targets, weights)
        else:
            assert isinstance(self.problems, OneVsRest)
            if isinstance(model.class_weight, str):
                raise ValueError("add: class_weight='balanced' would change with the rows")
            y = check_labels(y)
            check_same_length(X, y)
            codes = np.concatenate([self.problems.codes, places_of(y, model.classes_)])
            problems = make_problems(model, as_rows(whole), model.classes_, codes, weights)
        assert isinstance(problems, OneByOne)
        problems.cost[: cost.size] = cost
        return problems

    def _labels(self) -> np.ndarray:
        """Return labels or targets as they were given."""
        problems = self.problems
        if isinstance(problems, OneVsRest):
            return self.model.classes_[problems.codes]
        assert isinstance(problems, PerTarget)
        return problems.y

    def _rows(self, X: Matrix) -> Rows:
        return with_constant(as_rows(check_matrix(self.model, X, reset=False)), self.model)

    def _shaped(self, found: list[Interval]) -> Interval:
        """Return one interval for each row, or one for each row and class."""
        low, high = (np.stack(ends, axis=-1) for ends in zip(*found))
        return Interval(low[:, 0], high[:, 0]) if len(found) == 1 else Interval(low, high)


def _stretched(problem: Problem, state: State) -> State:
    """Return a state with dual variables for the last rows, as each would have them by itself."""
    risk, n_old = problem.risk, state.unpacked().dual.size
    assert isinstance(risk, MarginRisk)
    residual = risk.residuals(problem.rows.scores(state.coef) + state.offset)
    excess = residual - np.clip(residual, -risk.loss.eps, risk.loss.eps)
    bend = problem.rows.squared_norms() + risk.shift + (problem.intercept is Intercept.PENALIZED)
    alpha = np.clip(excess / np.where(bend > 0.0, bend, np.inf), risk.lower, risk.upper)
    alpha[:n_old] = 0.0
    # Along the ray of alpha the dual is about  f slope - f^2 curvature / 2.
    slope = float(alpha @ excess)
    curvature = squares(problem.rows.combine(risk.signed(alpha)))
    curvature += float(alpha @ (risk.shift * alpha))
    alpha *= min(1.0, slope / curvature) if curvature > 0.0 else 1.0
    alpha[:n_old] = state.unpacked().dual
    return State(state.coef, state.offset, alpha)
