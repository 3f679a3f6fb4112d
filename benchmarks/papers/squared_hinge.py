"""Two solvers of Joachims' time for the squared hinge, in short: L2-SVM-MFN and LSVM.

    min over w   1/2 |w|^2 + C sum_i max(0, 1 - y_i w.x_i)^2

Keerthi & DeCoste 2005 and Mangasarian & Musicant 2001. Both need X (n, d), dense or sparse, and
y (n,) of -1 and +1. They are rivals of cutting planes, and no part of the library.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import issparse

# How well L2-SVM-MFN solves its least-squares problems, and how near to 1 a margin counts as
# either side: at first, and once the active rows have settled so far, or after so many steps.
_ROUGH, _FINE, _ROUGH_STEPS = (1e-3, 1e-2), (1e-6, 1e-3), 5

# A step that lowers the objective by no more than this fraction of it is the last one.
_NO_GAIN = 1e-9


def objective(X, y, C: float, w) -> float:
    """Return the value that both minimise."""
    return 0.5 * float(w @ w) + C * float(np.sum(np.maximum(0.0, 1.0 - y * (X @ w)) ** 2))


def finite_newton(X, y, C: float, max_iter: int = 100) -> tuple[np.ndarray, int]:
    """L2-SVM-MFN: return w and the number of steps.

    Each step goes towards the solution of the least-squares problem of the active rows, by an
    exact line search.
    """
    w, scores, rough, value = np.zeros(X.shape[1]), np.zeros(len(y)), True, np.inf
    for step in range(1, max_iter + 1):
        active = np.flatnonzero(y * scores < 1.0)
        tol, near = _ROUGH if rough else _FINE
        target = _least_squares(X[active], y[active], C, w, tol)
        new = X @ target
        inside = y * new < 1.0 + near
        outside = y * new > 1.0 - near
        settled = inside[active].all() and np.delete(outside, active).all()
        if settled and not rough:
            return target, step
        rough = rough and not settled and step < _ROUGH_STEPS
        length = _search(y, C, w, target - w, scores, new - scores)
        w, scores = w + length * (target - w), scores + length * (new - scores)
        before, value = value, objective(X, y, C, w)
        if not rough and before - value <= _NO_GAIN * value:
            return w, step
    return w, max_iter


def _least_squares(X, y, C, w, tol):
    """Conjugate gradients on  w + 2 C X^T (X w - y) = 0,  from w on."""
    w = w.copy()
    residual = 2.0 * C * (X.T @ (y - X @ w)) - w
    ahead, square = residual.copy(), float(residual @ residual)
    enough = tol**2 * float(np.sum((2.0 * C * (X.T @ y)) ** 2))
    for _ in range(10 * X.shape[1]):
        if square <= enough:
            break
        image = ahead + 2.0 * C * (X.T @ (X @ ahead))
        step = square / float(ahead @ image)
        w += step * ahead
        residual -= step * image
        before, square = square, float(residual @ residual)
        ahead = residual + square / before * ahead
    return w


def _search(y, C, w, ahead, scores, change):
    """Return the step at which the objective's slope, piecewise linear, is zero."""
    slack, rate = 1.0 - y * scores, -y * change
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = -slack / rate
    order = np.argsort(kinks)
    order = order[(kinks[order] > 0.0) & np.isfinite(kinks[order])]
    active = (slack > 0.0) | ((slack == 0.0) & (rate > 0.0))
    level = float(w @ ahead) + 2.0 * C * float(np.sum((slack * rate)[active]))
    tilt = float(ahead @ ahead) + 2.0 * C * float(np.sum((rate * rate)[active]))
    joins = np.where(rate[order] > 0.0, 1.0, -1.0)  # or leaves the sum, beyond its kink
    levels = level + np.cumsum(np.append(0.0, 2.0 * C * joins * (slack * rate)[order]))
    tilts = tilt + np.cumsum(np.append(0.0, 2.0 * C * joins * (rate * rate)[order]))
    zeros = -levels / tilts
    at = np.flatnonzero(zeros <= np.append(kinks[order], np.inf))
    return float(zeros[at[0]])


def lagrangian(X, y, C: float, tol: float = 1e-5, max_iter: int = 10_000) -> tuple:
    """LSVM: return w, the number of iterations, and whether u has settled to `tol`.

    It inverts a matrix (d, d) once. An iteration is two products with X.
    """
    H = (X.multiply(y[:, None]) if issparse(X) else X * y[:, None]).astype(np.float64)
    H = H.tocsr() if issparse(H) else H
    nu = 2.0 * C
    gram = H.T @ H
    gram = gram.toarray() if issparse(gram) else gram
    factor = cho_factor(gram + np.eye(X.shape[1]) / nu)

    def inverse(v):
        return nu * (v - H @ cho_solve(factor, H.T @ v))

    u, alpha = inverse(np.ones(len(y))), 1.9 / nu
    for iteration in range(1, max_iter + 1):
        slope = u / nu + H @ (H.T @ u) - 1.0 - alpha * u
        before, u = u, inverse(np.maximum(slope, 0.0) + 1.0)
        if np.linalg.norm(u - before) <= tol * np.linalg.norm(u):
            return H.T @ u, iteration, True
    return H.T @ u, max_iter, False
