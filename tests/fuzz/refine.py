"""From a point near the optimum of logistic regression to one that is much nearer.

Newton steps with gradients in eighty digits, and a Hessian in float64, which is near enough.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from fuzz.objective import log_sum
from fuzz.polish import SignedRows

_STEPS = 4


def refined(X, problem, state) -> Fraction | None:
    """Return the least objective of some Newton steps from `state`; None if they fail.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    problem : Problem
        With the logistic loss. Weights that are zero stay so if its penalty is sparse.
    state : State
    """
    return _Steps(X, problem).objective_near(state)


class _Steps(SignedRows):
    def objective_near(self, state):
        v = [Fraction(w) for w in state.coef.tolist()]
        v += [Fraction(state.offset)] * (len(self.l2) - len(v))
        used = [j for j, (w, l1) in enumerate(zip(v, self.l1)) if w or not l1]
        best = None
        for _ in range(_STEPS):
            found = self._step(v, used)
            if found is None:
                break
            for j, step in zip(used, found):
                v[j] += Fraction(step)
            objective = self._objective(v)
            if best is not None and objective >= best:
                break
            best = objective
        return best

    def _step(self, v, used):
        """Return a Newton step of the weights `used`, as floats; None if there is none."""
        gradient = [self.l2[j] * v[j] + self.l1[j] * ((v[j] > 0) - (v[j] < 0)) for j in used]
        slopes = [self._slope(margin) for margin in self.scores(v)]
        for cost, z, p in zip(self.cost, self.rows, slopes):
            for a, j in enumerate(used):
                gradient[a] -= cost * p * z[j]
        Z = np.array([[float(z[j]) for j in used] for z in self.rows])
        with np.errstate(all="ignore"):
            weight = np.array([float(c * p * (1 - p)) for c, p in zip(self.cost, slopes)])
            hessian = (Z.T * weight) @ Z + np.diag([float(self.l2[j]) for j in used])
            scale = np.sqrt(np.diag(hessian))
            if not (np.isfinite(hessian).all() and (scale > 0.0).all()):
                return None
            right = np.array([_float(g) for g in gradient]) / scale
            try:
                steps = -np.linalg.solve(hessian / np.outer(scale, scale), right) / scale
            except np.linalg.LinAlgError:
                return None
        return steps.tolist() if np.isfinite(steps).all() else None

    def _slope(self, margin):
        """Return 1 / (1 + exp(margin)) in eighty digits."""
        if margin > 10**6:
            return Fraction(0)
        with localcontext() as context:
            context.prec = 80
            value = Decimal(margin.numerator) / Decimal(margin.denominator)
            return Fraction(1 / (1 + value.exp())) if value > -(10**6) else Fraction(1)

    def _objective(self, v):
        losses = zip(self.cost, self.scores(v))
        return self.penalty(v) + sum((c * log_sum([-m]) for c, m in losses), Fraction(0))


def _float(value):
    try:
        return float(value)
    except OverflowError:
        return np.inf
