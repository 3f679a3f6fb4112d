"""How much better than the chosen C any other one could be: bounds by the solutions of a search.

See proofs/path.py for the theorem. Values of C are added where the bound is too low.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray as Array
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from widemargin import threads
from widemargin.arrays import Matrix, Vector
from widemargin.data import as_rows
from widemargin.data.memory import RowsInMemory
from widemargin.estimators.folds import Fold, check_folds, fold_weights
from widemargin.estimators.linear_svc_cv import LinearSVCCV
from widemargin.estimators.path import CostPath
from widemargin.estimators.validation import (
    check_count,
    check_labels,
    check_matrix,
    check_positive,
    check_same_length,
    check_weights,
    classes_of,
)
from widemargin.problem import Intercept
from widemargin.proofs.path import Solution, least_over_offsets, scores_between, solution_of
from widemargin.words import percent

# Solutions are this precise: with gaps of 1e-3 nothing would be settled.
_TOL = 1e-6
# An interval between two solutions has so many pieces, each with its own ball.
_PIECES = 16
# More than the rounding of a sum of weights.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class PathCertificate:
    """Bounds on the cross-validation error of every C of an interval.

    Attributes
    ----------
    eps : float
    Cs : ndarray of shape (n_Cs,)
        All values of C that were solved, in order.
    errors : ndarray of shape (n_Cs,)
        Their errors: upper bounds on the lowest error.
    lowest : ndarray of shape (n_Cs - 1,)
        No C between two of them has a lower error, solved exactly.
    n_added : int
        How many values of C were added.
    """

    eps: float
    Cs: Array
    errors: Array
    lowest: Array
    n_added: int

    @property
    def C(self) -> float:
        """The smallest C with the lowest error."""
        return float(self.Cs[self.errors.argmin()])

    @property
    def certified(self) -> bool:
        """Whether no C has an error that is more than `eps` below that of `C`."""
        return bool(np.all(self.lowest >= self.errors.min() - self.eps))

    def __str__(self) -> str:
        lowest = float(np.min(self.lowest, initial=self.errors.min()))
        return (
            f"C = {self.C:.4g} has an error of {percent(self.errors.min())}, and no C from "
            f"{self.Cs[0]:.4g} to {self.Cs[-1]:.4g} has one below {percent(lowest)}"
        )


@threads.one_for_blas()
def certify_path(
    search: LinearSVCCV,
    X: Matrix,
    y: Vector,
    sample_weight: Vector | None = None,
    groups: Vector | None = None,
    *,
    eps: float = 0.01,
    max_added: int = 100,
) -> PathCertificate:
    """Bound the cross-validation error of every C between the smallest and the largest one.

    Values of C are added where the bound is too low, until no C can have an error that is more
    than `eps` below the lowest one found, or `max_added` were added.

    Parameters
    ----------
    search : fitted LinearSVCCV
        With the default scoring. A free intercept may be any number, as far as the bounds know:
        they are close only where many rows are held out, and with more than two classes it must
        be penalised, or there must be none.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight, groups : array-like of shape (n_samples,), default=None
        The data that it was fitted on. `cv` must give the same folds again.
    eps : float, default=0.01
    max_added : int, default=100

    Returns
    -------
    PathCertificate

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import LinearSVCCV, certify_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = LinearSVCCV(Cs=[0.001, 0.01, 0.1], cv=3, penalized_intercept=True)
    >>> search = search.fit(scale(X), y)
    >>> certify_path(search, scale(X), y, eps=0.02).certified
    True
    """
    if not isinstance(search, LinearSVCCV):
        raise TypeError(f"certify_path is for LinearSVCCV, not {type(search).__name__}")
    check_is_fitted(search, "best_estimator_")
    if search.penalty != "l2":
        raise ValueError(f"certify_path is for penalty='l2', not for {search.penalty!r}")
    check_positive("eps", eps)
    check_count("max_added", max_added)
    if search.scoring is not None:
        raise ValueError("bounds are on the error: certify_path needs scoring=None")
    X = check_matrix(search, X, reset=False)
    rows = as_rows(X)
    if not isinstance(rows, RowsInMemory):
        raise TypeError("certify_path needs rows in memory")
    y = check_labels(y)
    check_same_length(X, y)
    weights = check_weights(sample_weight, X)
    classes, codes = classes_of(y)
    free = Intercept.of(search) is Intercept.FREE
    if len(classes) > 2 and (search.multi_class == "crammer_singer" or free):
        raise ValueError(
            "with more than two classes, bounds need multi_class='ovr' and an intercept that is "
            "penalised, or none: each free intercept could be any number"
        )
    folds = check_folds(check_cv(search.cv, y, classifier=True).split(X, y, groups), y, weights)
    for number, (train, _) in enumerate(folds, start=1):
        if np.unique(codes[train]).size < len(classes):
            raise ValueError(f"fold {number} of cv trains on rows without one of the classes")
    model = search._model().set_params(tol=min(search.tol, _TOL), max_time=None)
    known = rows, classes, codes
    path = CostPath(model, *known, fold_weights(folds, weights, y.size), n_costs=2)
    with path:
        bounds = _Bounds(path, folds, codes, weights, eps, max_added)
        return bounds.over(np.unique(search.Cs_))


class _Point(NamedTuple):
    """All folds at one C, and their mean error."""

    C: float
    solutions: list[list[Solution]]
    error: float


class _Bounds:
    """Solves for values of C until the bounds between them are close enough."""

    def __init__(
        self,
        path: CostPath,
        folds: list[Fold],
        codes: Array,
        weights: Array | None,
        eps: float,
        max_added: int,
    ):
        self.path, self.eps, self.max_added, self.n_added = path, eps, max_added, 0
        indexes = [held_out for _, held_out in folds]
        self.held_out: list[Any] = [path.rows.take(index) for index in indexes]
        self.codes = [codes[index] for index in indexes]
        weights = np.ones(codes.size) if weights is None else weights
        self.weights = [weights[index] / weights[index].sum() for index in indexes]
        self.best = math.inf
        self.free = Intercept.of(path.model) is Intercept.FREE

    def over(self, Cs: Array) -> PathCertificate:
        """Return bounds from the smallest C to the largest."""
        first = self._solved(float(Cs[0]))
        points, lowest = [(first.C, first.error)], []
        for C in Cs[1:]:
            waiting = [self._solved(float(C))]
            while waiting:
                second = waiting[-1]
                bound = self._lowest(first, second)
                if bound < self.best - self.eps and self.n_added < self.max_added:
                    self.n_added += 1
                    waiting.append(self._solved(math.sqrt(first.C * second.C)))
                    continue
                first = waiting.pop()
                lowest.append(bound)
                points.append((first.C, first.error))
        costs, errors = np.array(points).T
        return PathCertificate(self.eps, costs, errors, np.array(lowest), self.n_added)

    def _solved(self, C: float) -> _Point:
        self.path.advance(C)
        solutions, errors = [], []
        for which, rows in enumerate(self.held_out):
            states = self.path.states[which]
            problems = [self.path.sets[which][j] for j in range(len(states))]
            solutions.append([solution_of(C, *each, rows, _TOL) for each in zip(problems, states)])
            scores = np.stack([rows.scores(s.coef) + s.offset for s in states], axis=1)
            found = scores[:, 0] > 0.0 if scores.shape[1] == 1 else scores.argmax(axis=1)
            errors.append(float(self.weights[which] @ (found != self.codes[which])))
        point = _Point(C, solutions, float(np.mean(errors)))
        self.best = min(self.best, point.error)
        return point

    def _lowest(self, first: _Point, second: _Point) -> float:
        """Return a lower bound on the error of every C from one point to the next."""
        ends = np.linspace(0.0, 1.0, _PIECES + 1)
        return min(
            float(np.mean([self._certain(first, second, which, s, t) for which in self._folds]))
            for s, t in itertools.pairwise(ends)
        ) * (1.0 - _ROUNDING)

    @property
    def _folds(self) -> range:
        return range(len(self.held_out))

    def _certain(self, first: _Point, second: _Point, which: int, s: float, t: float) -> float:
        """Return the weight of the held-out rows of a fold that are wrong from s to t."""
        width, pairs = second.C - first.C, zip(first.solutions[which], second.solutions[which])
        lowest, highest = zip(*(scores_between(width, *pair, s, t) for pair in pairs))
        codes, weights = self.codes[which], self.weights[which]
        if len(highest) > 1:
            own = codes[:, None]
            high, low = np.stack(highest, axis=1), np.stack(lowest, axis=1)
            own_high = np.take_along_axis(high, own, axis=1)[:, 0]
            np.put_along_axis(low, own, -np.inf, axis=1)
            return float(weights @ (own_high < low.max(axis=1)))
        positive = codes == 1
        if not self.free:
            return float(weights @ np.where(positive, highest[0] <= 0.0, lowest[0] > 0.0))
        return least_over_offsets(-highest[0], -lowest[0], positive, weights)
