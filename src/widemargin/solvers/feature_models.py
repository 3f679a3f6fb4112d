"""Quadratic models of the losses as functions of some features' weights, and their minima.

A model is made at a point with weights w, offset b and scores X w + b, where the losses of the
rows have slopes and curvatures (n,). Three kinds differ in how they read X: by the columns of a
sparse matrix, by a copy of some columns of a dense one, or by the Gram matrix of all features.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy import ndarray as Array

from widemargin.data.memory import CsrRows, DenseRows, RowsInMemory
from widemargin.kernels import columns as kernels
from widemargin.monitor import Monitor
from widemargin.penalty import Penalty
from widemargin.problem import Intercept, Problem
from widemargin.solvers.feature_settings import FeatureSettings

# Gram matrices of columns that depend on each other are singular, but for this part.
RIDGE_PART = 2.0**-40


class Point(NamedTuple):
    """Weights of a working set (m,), the offset, and the losses' slopes and curvatures (n,)."""

    weights: Array
    offset: float
    slopes: Array
    curvatures: Array


class Move(NamedTuple):
    """Where a model is lowest."""

    weights: Array  # (m,)
    offset: float
    scores: Array  # (n,) by how much the scores change


def features_of(problem: Problem, settings: FeatureSettings) -> "Features":
    """Return the way in which the columns of a problem's rows are best read."""
    rows = problem.rows
    few = rows.n_features <= min(settings.most_in_gram, rows.n_rows)
    if few and isinstance(rows, RowsInMemory):
        return GramFeatures(problem, settings)
    if isinstance(rows, CsrRows):
        return ColumnFeatures(problem, settings)
    assert isinstance(rows, DenseRows)
    return CopiedFeatures(problem, settings)


@dataclass(eq=False)
class Features(ABC):
    """The features of a working set, which `choose` sets."""

    problem: Problem
    settings: FeatureSettings

    #: whether the working set has all features
    takes_all = False

    def __post_init__(self) -> None:
        self.chosen = np.empty(0, dtype=np.int64)
        self.penalty: Penalty = self.problem.penalty

    @abstractmethod
    def choose(self, chosen: Array) -> None:
        """Set the working set: indices of features, (m,)."""

    @abstractmethod
    def gradient(self, slopes: Array) -> Array:
        """Return X^T slopes of the working set, (m,)."""

    @abstractmethod
    def scores(self, weights: Array) -> Array:
        """Return X w for weights of the working set, (n,)."""

    @abstractmethod
    def minimise(self, point: Point, gradient: Array, least: float, monitor: Monitor) -> Move:
        """Return where the model is lowest, nearly; steps that gain less than `least` end it."""


class ColumnFeatures(Features):
    """Columns of a sparse matrix: each step reads and writes the model's slopes."""

    def choose(self, chosen: Array) -> None:
        self.chosen = chosen
        self.columns, self.places = self._columns(chosen)

    def _columns(self, chosen: Array) -> tuple[tuple[Array, ...], Array]:
        return self.problem.rows.columns, chosen

    def gradient(self, slopes: Array) -> Array:
        dots = np.empty(self.chosen.size)
        kernels.column_dots(self.columns, self.places, slopes, dots)
        return dots

    def scores(self, weights: Array) -> Array:
        total = np.zeros(self.problem.rows.n_rows)
        kernels.column_sum(self.columns, self.places, weights, total)
        return total

    def minimise(self, point: Point, gradient: Array, least: float, monitor: Monitor) -> Move:
        squares = np.empty(self.chosen.size)
        kernels.column_squares(self.columns, self.places, point.curvatures, squares)
        descent = _ColumnDescent(self, point, squares)
        descent.run(least, monitor)
        steps = descent.weights - point.weights
        change = self.scores(steps)
        if descent.offset != point.offset:
            change += descent.offset - point.offset
        return Move(descent.weights, descent.offset, change)

    def gram_of(self, support: Array, h: Array) -> tuple[Array, Array]:
        """Return the Gram matrix (m, m) of some of the working set, and their sums (m,)."""
        values, indices, indptr = self.columns
        shape = self.problem.rows.n_rows, indptr.size - 1
        whole = scipy.sparse.csc_array(
            (values, indices.view(np.int32), indptr.view(np.int32)), shape=shape, copy=False
        )
        some = whole[:, self.places[support]].astype(np.float64)
        weighted = some.T.tocsr().multiply(h).tocsr()
        return (weighted @ some).toarray(), np.asarray(weighted.sum(axis=1)).ravel()


class CopiedFeatures(ColumnFeatures):
    """Columns of a dense matrix, of which those of the working set are copied."""

    def _columns(self, chosen: Array) -> tuple[tuple[Array, ...], Array]:
        copied = np.ascontiguousarray(self.problem.rows.matrix[:, chosen].T)
        return (copied,), np.arange(chosen.size)

    def gram_of(self, support: Array, h: Array) -> tuple[Array, Array]:
        some = self.columns[0][support].astype(np.float64)
        weighted = some * h
        return weighted @ some.T, weighted.sum(axis=1)


class _ColumnDescent:
    """Sweeps over the columns of a working set, with the offset after each."""

    def __init__(self, features: ColumnFeatures, point: Point, squares: Array):
        self.features, self.squares, self.h = features, squares, point.curvatures
        self.weights, self.offset = point.weights.copy(), point.offset
        self.slopes = point.slopes.copy()
        intercept = features.problem.intercept
        self.curvature = 0.0 if intercept is Intercept.NONE else float(self.h.sum())
        free = intercept is Intercept.FREE
        self.of_offset = Penalty(0.0, 0.0) if free else features.penalty

    def run(self, least: float, monitor: Monitor) -> None:
        settings = self.features.settings
        total = self._move_offset()
        for _ in range(settings.most_sweeps):
            fell = first = self._sweep(False)
            total += fell
            if fell <= max(settings.enough * total, least) or monitor.must_stop():
                return
            for _ in range(settings.sweeps_between):
                fell = self._sweep(True)
                total += fell
                if fell <= settings.enough_between * first:
                    break
            else:
                self._newton_steps(monitor)

    def _newton_steps(self, monitor: Monitor) -> None:
        """Move the weights that are not zero, and the offset, to the minimum over these."""
        features = self.features
        support = np.flatnonzero(self.weights)
        if not 0 < support.size <= features.settings.largest_support:
            return
        gram, first = features.gram_of(support, self.h)
        kept = np.arange(support.size)
        for _ in range(support.size):
            if not kept.size or monitor.must_stop():
                return
            places = support[kept]
            gradient = features.gradient(self.slopes)[places]
            own, inner, whole = self.weights[places], gram[np.ix_(kept, kept)], self.curvature
            if whole > 0.0 and self.of_offset.l2 == self.of_offset.l1 == 0.0:
                inner = inner - np.outer(first[kept], first[kept] / whole)
                gradient = gradient - first[kept] * (float(self.slopes.sum()) / whole)
            moved, settled = newton_point(inner, features.penalty, own, gradient)
            self.weights[places] = moved
            steps = np.zeros(self.weights.size)
            steps[places] = moved - own
            self.slopes += self.h * features.scores(steps)
            self._move_offset()
            if settled:
                return
            kept = kept[moved != 0.0]

    def _sweep(self, only_nonzero: bool) -> float:
        features, penalty = self.features, self.features.penalty
        fell = kernels.column_sweep(
            features.columns,
            features.places,
            self.squares,
            self.h,
            penalty.l1,
            penalty.l2,
            only_nonzero,
            self.weights,
            self.slopes,
        )
        return fell + self._move_offset()

    def _move_offset(self) -> float:
        if self.curvature == 0.0:
            return 0.0
        lowest = self.of_offset.lowest(float(self.slopes.sum()), self.curvature, self.offset)
        step, self.offset = float(lowest) - self.offset, float(lowest)
        self.slopes += step * self.h
        return 0.5 * (self.curvature + self.of_offset.l2) * step * step


class GramFeatures(Features):
    """All features of rows that are many: steps of coordinate descent read the Gram matrix.

    The Gram matrix is that of the rows about a center. When few curvatures have changed, only
    those rows are added to it and taken off it.
    """

    takes_all = True

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.problem.rows
        self.curvatures = np.zeros(rows.n_rows)
        self.center = np.zeros(rows.n_features)
        if self.problem.intercept is Intercept.FREE:
            self.center = rows.combine(np.ones(rows.n_rows)) / max(1, rows.n_rows)
        self.gram = np.zeros((rows.n_features, rows.n_features))
        self.first = np.zeros(rows.n_features)

    def choose(self, chosen: Array) -> None:
        self.chosen = chosen

    def gradient(self, slopes: Array) -> Array:
        return self.problem.rows.combine(slopes)

    def scores(self, weights: Array) -> Array:
        return self.problem.rows.scores(weights)

    def minimise(self, point: Point, gradient: Array, least: float, monitor: Monitor) -> Move:
        self._weigh(point.curvatures)
        whole = float(point.curvatures.sum())
        total = float(point.slopes.sum())
        gram, start, weights = self.gram, gradient.copy(), point.weights.copy()
        kind = self.problem.intercept
        profiles = kind is Intercept.FREE and whole > 0.0
        if profiles:  # for the best offset of each w
            start -= total * self.center + (total / whole) * self.first
            gram = gram - np.outer(self.first, self.first / whole)
        elif kind is Intercept.PENALIZED:  # one more weight
            gram = np.block([[gram, self.first[:, None]], [self.first, whole]])
            start, weights = np.append(start, total), np.append(weights, point.offset)
        minimise_by_gram(gram, self.penalty, weights, start, least, self.settings)
        offset = point.offset
        if kind is Intercept.PENALIZED:
            weights, offset = weights[:-1], float(weights[-1])
        steps = weights - point.weights
        if profiles:
            offset -= (total + float(self.first @ steps)) / whole + float(self.center @ steps)
        return Move(weights, offset, self.scores(steps) + (offset - point.offset))

    def _weigh(self, curvatures: Array) -> None:
        """Update the Gram matrix to these curvatures."""
        change = curvatures - self.curvatures
        if 2 * np.count_nonzero(change) > np.count_nonzero(curvatures):
            self.gram, self.first = np.zeros_like(self.gram), np.zeros_like(self.first)
            change = curvatures
        for sign in (1.0, -1.0):
            index = np.flatnonzero(sign * change > 0.0)
            if index.size:
                self._add(index, sign * change[index], sign)
        self.curvatures = curvatures

    def _add(self, index: Array, weight: Array, sign: float) -> None:
        rows = self.problem.rows
        assert isinstance(rows, RowsInMemory)
        per_call = max(1, rows.multiplications_per_call // max(1, rows.n_features**2))
        for begin in range(0, index.size, per_call):
            part = slice(begin, begin + per_call)
            second, first = rows.moments(index[part], weight[part], self.center)
            lower = np.tril(second, -1)
            self.gram += sign * (lower + lower.T + np.diag(np.diag(second)))
            self.first += sign * first


def minimise_by_gram(
    gram: Array,
    penalty: Penalty,
    weights: Array,
    gradient: Array,
    least: float,
    settings: FeatureSettings,
) -> None:
    """Minimise a model with a Gram matrix (m, m); weights and gradient (m,) are updated.

    Sweeps of coordinate descent find which weights are not zero, and Newton steps on these their
    values (Lee et al. 2007, feature-sign search). A sweep that gains no more than `least` ends it.
    """
    for _ in range(settings.most_sweeps):
        sweeps = settings.sweeps_between, settings.enough_between
        fell = kernels.gram_sweeps(gram, penalty.l1, penalty.l2, weights, gradient, *sweeps)
        support = np.flatnonzero(weights)
        for _ in range(support.size):
            support = np.flatnonzero(weights)
            inner, own = gram[np.ix_(support, support)], weights[support]
            moved, settled = newton_point(inner, penalty, own, gradient[support])
            gradient += gram[:, support] @ (moved - own)
            weights[support] = moved
            if settled:
                break
        if fell <= least:
            return


def newton_point(
    gram: Array, penalty: Penalty, weights: Array, gradient: Array
) -> tuple[Array, bool]:
    """Return where a model of weights that are not zero is lowest on the way to its Newton point.

    Weights that reach zero there become zero. Also return whether no sign changes on the way.
    """
    diagonal = np.diag_indices(weights.size)
    gram[diagonal] = (1.0 + RIDGE_PART) * gram[diagonal] + penalty.l2
    slopes = gradient + penalty.l2 * weights + penalty.l1 * np.sign(weights)
    try:
        # Unlike `solve`, these warn nobody of a matrix that is nearly singular.
        factor = scipy.linalg.cho_factor(gram, lower=True, check_finite=False)
        steps = -scipy.linalg.cho_solve(factor, slopes, check_finite=False)
    except np.linalg.LinAlgError:
        return weights, True
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = np.where(weights * steps < 0.0, -weights / steps, np.inf)
    slope, bent, reached = float(slopes @ steps), float(steps @ (gram @ steps)), 1.0
    for j in np.argsort(ends):
        jump = 2.0 * penalty.l1 * abs(steps[j])
        if ends[j] >= 1.0 or slope + ends[j] * bent + jump >= 0.0:
            reached = min(1.0, float(ends[j]))
            break
        slope += jump
    if bent > 0.0:
        reached = min(reached, max(-slope / bent, 0.0))
    if not math.isfinite(reached):
        return weights, True
    moved = weights + reached * steps
    moved[ends == reached] = 0.0
    return moved, not np.any(ends <= reached)
