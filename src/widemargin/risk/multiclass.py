"""The multi-class hinge of Crammer and Singer.

    r(S) = sum_i c_i max_j ([j != y_i] + s_ij - s_iy),      y_i the class of row i

With alpha_ij >= 0 for the wrong classes j of row i, dual variables A (n, k) are
A_ij = -alpha_ij there and A_iy = sum_j alpha_ij, and the dual -r*(-A) is

    sum_ij alpha_ij        for  sum_j alpha_ij <= c_i

and minus infinity elsewhere. With two classes and w = w_2 - w_1 this is the two-class hinge at
twice the cost, and half its objective.

Scores are kept class by class (Fortran order): kernels then work on many rows at once.
"""

import numpy as np
from scipy.sparse.csgraph import connected_components

from widemargin import threads
from widemargin.kernels import risk as kernels
from widemargin.risk.base import Cut, LineSums, RowRisk


class CrammerSinger(RowRisk):
    """A sum of multi-class hinge losses.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class of each row, 0 to k - 1.
    cost : ndarray of shape (n,)
        Weight of each row's loss.
    n_classes : int
        k.
    """

    def __init__(self, y, cost, n_classes: int):
        self.y = np.asarray(y).astype(np.min_scalar_type(max(1, n_classes - 1)))
        self.cost = np.asarray(cost, dtype=np.float64)
        self.outputs = (n_classes,)

    def value(self, S):
        rows = np.arange(self.y.size)
        own = S[rows, self.y]
        others = S.copy()
        others[rows, self.y] = -np.inf
        return float(self.cost @ np.maximum(0.0, 1.0 + others.max(axis=1) - own))

    def signed(self, alpha):
        A = -alpha
        A[np.arange(self.y.size), self.y] = alpha.sum(axis=1)
        return A

    def unsigned(self, A):
        alpha = np.maximum(0.0, -A)
        alpha[np.arange(self.y.size), self.y] = 0.0
        return alpha

    def feasible(self, A, balanced=False):
        """Return dual variables near A: rows over their cost are scaled down to it."""
        alpha = self.unsigned(A)
        total = alpha.sum(axis=1)
        over = total > self.cost
        alpha[over] *= (self.cost[over] / total[over])[:, None]
        if balanced:
            alpha *= _balancing_factors(self._flow(alpha))[self.y]
        return self.signed(alpha)

    def _flow(self, alpha):
        """Return what flows from class to class, (k, k): sum of alpha_ij over rows of class a."""
        (k,) = self.outputs
        return np.stack(
            [np.bincount(self.y, weights=column, minlength=k) for column in alpha.T], 1
        )

    def dual(self, A):
        alpha = -A
        alpha[np.arange(self.y.size), self.y] = 0.0
        total = alpha.sum(axis=1)
        # Sums over classes are rounded, so that cost and total may differ in the last place.
        if np.any(alpha < 0.0) or np.any(total > self.cost * (1.0 + 1e-12)):
            return -np.inf
        return float(total.sum())

    def cut(self, S):
        S = np.asfortranarray(S)
        slope = np.empty(S.shape, order="F")
        code = np.empty(self.y.size, dtype=self.y.dtype)
        sums = threads.run(
            kernels.multiclass_cut,
            [
                (self.y, self.cost, S.T, begin, end, slope.T, code)
                for begin, end in threads.shares(self.y.size, 2 * S.size)
            ],
        )
        value, constant, active = np.sum(sums, axis=0)
        return Cut(float(value), slope, float(constant), code, int(active))

    def line(self, S, D):
        return MulticlassLine(self.y, self.cost, S, D)

    def unpack(self, code):
        if code.ndim == 2:
            return code
        slope = np.zeros((self.y.size, *self.outputs))
        lossy = np.flatnonzero(code != self.y)
        slope[lossy, code[lossy]] = self.cost[lossy]
        slope[lossy, self.y[lossy]] = -self.cost[lossy]
        return slope

    def mixed(self, slopes):
        A = np.zeros((self.y.size, *self.outputs), order="F")
        for weight, code in slopes:
            if code.ndim == 2:
                A -= weight * code
            else:
                kernels.multiclass_mix(self.y, self.cost, weight, code, A.T)
        return A


class MulticlassLine:
    """The multi-class hinge along S + step * D."""

    def __init__(self, y, cost, S, D):
        self.y, self.cost = y, cost
        self.S, self.D = np.asfortranarray(S), np.asfortranarray(D)

    def evaluate(self, steps):
        steps = np.asarray(steps, dtype=np.float64)
        pieces = np.empty((steps.size, self.y.size), dtype=self.y.dtype)

        def share(begin, end):
            sums = np.zeros((steps.size, 3))
            kernels.multiclass_line(
                self.y, self.cost, self.S.T, self.D.T, steps, begin, end, sums, pieces
            )
            return sums

        shares = threads.shares(self.y.size, 2 * self.S.size * steps.size)
        return LineSums(*np.sum(threads.run(share, shares), axis=0).T, pieces)

    def take(self, index):
        return MulticlassLine(self.y[index], self.cost[index], self.S[index], self.D[index])


def _balancing_factors(flow):
    """Return factors in [0, 1], (k, k), that make a circulation of `flow`.

    What flows into each class then flows out of it again. Between classes that cannot reach
    one another both ways nothing may flow; among those that can, scaling rows and columns
    against each other (Osborne's balancing) has a solution.
    """
    flow = np.where(np.eye(len(flow), dtype=bool), 0.0, flow)
    flow[flow <= 1e-30 * flow.max()] = 0.0  # rounding, and its products would underflow
    _, component = connected_components(flow > 0.0, connection="strong")
    flow[component[:, None] != component] = 0.0
    wanted = flow.copy()
    # First what is too much is taken away where it is, so that what nearly balances keeps all:
    # the class that is farthest from balance first.
    for _ in range(20 * len(flow)):
        out, into = flow.sum(axis=1), flow.sum(axis=0)
        smaller, larger = np.minimum(out, into), np.maximum(out, into)
        ratio = np.where(larger > 0.0, smaller / np.where(larger > 0.0, larger, 1.0), 1.0)
        a = ratio.argmin()
        if out[a] > into[a]:
            flow[a] *= ratio[a]
        else:
            flow[:, a] *= ratio[a]
    scale = np.ones(len(flow))
    for _ in range(1000):
        scaled = scale[:, None] * flow / scale
        out, into = scaled.sum(axis=1), scaled.sum(axis=0)
        if np.abs(out - into).max() <= 1e-15 * max(out.max(), 1e-300):
            break
        for a in np.flatnonzero(flow.any(axis=1)):
            out = scale[a] * (flow[a] / scale).sum()
            into = (scale * flow[:, a]).sum() / scale[a]
            scale[a] *= np.sqrt(into / out)
    factors = np.where(flow > 0.0, scale[:, None] / scale, 0.0)
    kept = np.divide(flow, wanted, out=np.zeros_like(flow), where=wanted > 0.0)
    return kept * factors / max(1.0, factors.max())
