"""Random small problems for property tests."""

from math import inf

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from widemargin.data import as_rows
from widemargin.losses import SMOOTH_HINGE, TARGET_LOSSES, Loss, Shape
from widemargin.problem import Intercept, Problem
from widemargin.risk import (
    CrammerSinger,
    Hinge,
    MarginRisk,
    PairwiseHinge,
    SquaredHinge,
    TargetRisk,
)


def SmoothHinge(y, cost):
    return MarginRisk(y, cost, SMOOTH_HINGE)


def Tube(y, cost):
    """Kinks on both sides."""
    return MarginRisk(y, cost, Loss("tube", eps=0.25, low=-0.5))


def SquaredTube(y, cost):
    """No bounds on either side, and a flat bottom."""
    return MarginRisk(y, cost, Loss("squared_tube", eps=0.25, low=-inf, high=inf, bend=0.5))


def Huber(y, cost):
    """A parabola between two straight lines."""
    return MarginRisk(y, cost, Loss("huber", low=-0.5, bend=0.25))


#: risks of classes, and losses that nothing but the numbers of a loss knows of
RISKS = [Hinge, SquaredHinge, SmoothHinge, Tube, SquaredTube, Huber]


def of_targets(name):
    """A maker of a risk of regression, whose targets are as different as can be."""

    def make(y, cost):
        sizes = np.resize([1.0, 0.3, 0.0, 20.0, 2.5], len(y))
        shape = Shape(epsilon=0.25, delta=0.5, quantile=0.8)
        return TargetRisk(sizes * y, cost, TARGET_LOSSES[name](shape))

    make.__name__ = name
    return make


#: risks of regression
TARGET_RISKS = [of_targets(name) for name in TARGET_LOSSES]


@st.composite
def problems(draw, scales=(0.1, 1.0, 10.0), costs=(0.01, 1.0, 100.0), risks=tuple(RISKS)):
    """Rows dense or CSR, float32 or float64; some rows zero, repeated or of weight zero."""
    n = draw(st.integers(2, 25))
    d = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d)) * draw(st.sampled_from(scales))
    X[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0.0
    if draw(st.booleans()):
        X[n // 2 :] = X[: n - n // 2]
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[0], y[1] = 1, -1
    cost = draw(st.sampled_from(costs)) * rng.integers(0, 4, n)
    cost[:2] = np.maximum(cost[:2], 0.01)
    risk = draw(st.sampled_from(risks))
    rows = as_rows(sp.csr_matrix(X) if draw(st.booleans()) else X)
    return Problem(rows, risk(y, cost), draw(st.sampled_from(Intercept)))


@st.composite
def multiclass_problems(draw, scales=(0.1, 1.0, 10.0), costs=(0.01, 1.0, 100.0)):
    """As `problems`, for several classes, some of which may have no row."""
    binary = draw(problems(scales, costs))
    n_classes = draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = rng.integers(0, n_classes, binary.rows.n_rows)
    y[0], y[1] = 0, 1
    return Problem(binary.rows, CrammerSinger(y, binary.risk.cost, n_classes), binary.intercept)


@st.composite
def gradings(draw, n):
    """Grades, weights and groups of n rows; the first two always make a pair.

    Grades are real numbers with ties, groups are not contiguous, some rows weigh nothing.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = rng.standard_normal(n)
    y = np.round(y * draw(st.sampled_from([0.5, 2.0, 1e3]))) / 3.0
    weight = draw(st.sampled_from([0.1, 1.0])) * rng.integers(0, 4, n)
    group = rng.integers(0, draw(st.sampled_from([1, 2, 5])), n)
    y[0], weight[:2], group[1] = y[1] + 1.0, np.maximum(weight[:2], 0.1), group[0]
    return y, weight, group


@st.composite
def ranking_problems(draw, scales=(0.1, 1.0, 10.0)):
    """Rows as in `problems`, to be ordered within groups."""
    rows = draw(problems(scales)).rows
    risk = PairwiseHinge(*draw(gradings(rows.n_rows)))
    return Problem(rows, risk, Intercept.NONE)
