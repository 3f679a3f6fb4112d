"""Joachims 2006, Algorithm 1, and Franc & Sonnenburg 2008, Algorithm 1, as printed.

R(w) = 1/m sum_i max(0, 1 - y_i w.x_i) and F(w) = 1/2 |w|^2 + C R(w). Planes are those of C R.
"""

import numpy as np
from papers import reduced


def cpa(X, y, C, eps):
    """Return w of each iteration."""
    iterates, W = [], []
    while True:
        w, _ = reduced.solve(W)
        w = np.zeros(X.shape[1]) if w is None else w
        iterates.append(w)
        c = (y * (X @ w) < 1.0).astype(float)
        violated = np.mean(c) - np.mean(c * y * (X @ w))
        xi = max([0.0] + [(a @ w + b) / C for a, b in W])
        if violated <= xi + eps:
            return iterates
        W.append((-C * X.T @ (c * y) / len(y), C * np.mean(c)))


def plane(X, y, C, w):
    active = (y * (X @ w) <= 1.0).astype(float)
    return -C * X.T @ (active * y) / len(y), C * np.mean(active)


def objective(X, y, C, w):
    return 0.5 * w @ w + C * np.mean(np.maximum(0.0, 1.0 - y * (X @ w)))


def exact_search(X, y, C, best, target):
    """Appendix A: all breakpoints sorted; the subdifferential contains 0 at the minimum."""
    D = target - best
    A0, B0 = D @ D, best @ D
    Ci = C / len(y) * (1.0 - y * (X @ best))
    Bi = -C / len(y) * y * (X @ D)
    with np.errstate(divide="ignore", invalid="ignore"):
        k = -Ci / Bi
    breakpoints = np.sort(k[np.isfinite(k) & (k > 0.0)])

    def slope(t):
        """The slope of the piece around t, where t is no breakpoint; without A0 t."""
        return B0 + Bi[Ci + t * Bi > 0.0].sum()

    if B0 + Bi[(Ci > 0.0) | ((Ci == 0.0) & (Bi > 0.0))].sum() >= 0.0:
        return 0.0
    for low, high in zip([0.0, *breakpoints], [*breakpoints, np.inf], strict=True):
        inside = slope(0.5 * (low + high) if high < np.inf else low + 1.0)
        if A0 * high + inside >= 0.0:  # the slope crosses 0 in this piece, or at its left end
            return max(low, -inside / A0)
    raise AssertionError("F is bounded below")


def ocas(X, y, C, eps, mu=0.1):
    """Return the best w of each iteration."""
    best, iterates, planes = np.zeros(X.shape[1]), [], []
    while True:
        target, lower = reduced.solve(planes)
        target = np.zeros(X.shape[1]) if target is None else target
        if planes:
            k = exact_search(X, y, C, best, target)
            best = best * (1.0 - k) + target * k
        iterates.append(best)
        if objective(X, y, C, best) - lower <= eps * objective(X, y, C, best):
            return iterates
        planes.append(plane(X, y, C, best * (1.0 - mu) + target * mu))
