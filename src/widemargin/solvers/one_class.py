"""Cutting planes for the one-class problem: the distance from the origin to a soft hull.

Problem
    min over w, rho   P = 1/2 |w|^2 - rho + sum_i cap_i max(0, rho - w.x_i)
Dual
    max over a        D = - 1/2 |X^T a|^2      0 <= a_i <= cap_i,  sum_i a_i = 1

For w and its best rho, P = 1/2 |w|^2 - m(w), where m(w) is the mean of the lowest scores. Along a
ray, the best P is - (m(w) / |w|)^2 / 2, or 0 if m(w) <= 0. So P is minimised where m(w) / |w| is
largest. The planes below -m are -w.g for g = X^T a, with the weights a of the rows that are lowest
somewhere: corners of the soft hull. Each iteration
    1. finds the point w_t nearest to the origin of the corners' convex hull: the lower bound;
    2. moves the best point w_b towards w_t to where m(w) / |w| is largest;
    3. adds the corner that is lowest in the direction w_c, a tenth of the way from w_b to w_t, as
       in OCAS (Franc & Sonnenburg 2008).
Step 1 is exact for the corners (Wolfe 1976 does it one corner at a time). An iteration costs one
product X w and one X^T a.

Corners that w_t does not need are merged into one point of the hull when there are many.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy import ndarray as Array
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls

from widemargin.certificate import Certificate, certify_state
from widemargin.hull_bounds import feasible_weights, smallest_objective
from widemargin.monitor import Monitor
from widemargin.problem import Problem, State
from widemargin.risk import LowestMean
from widemargin.solvers.base import Solver
from widemargin.solvers.settings import OneClassSettings

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


@dataclass(frozen=True)
class OneClassPlanes(Solver):
    """Solver for `LowestMean` over any rows."""

    method: str = "ocas"
    settings: OneClassSettings = OneClassSettings()

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        assert isinstance(problem.risk, LowestMean)
        return _Run(problem, problem.risk, state, monitor, self.settings).run()


class _Corners:
    """Points of the soft hull, (m, d), and the weights of the rows that make them."""

    def __init__(self, point: Array, weights: Array, most: int):
        self.points = point[None]
        #: weights of the first point, (n,); of the others those that are not zero
        self.first = weights
        self.others: list[tuple[Array, Array]] = []
        self.gram = np.array([[float(point @ point)]])
        self.share = np.ones(1)
        self.most = most

    def add(self, point: Array, weights: Array) -> None:
        if len(self.points) >= self.most:
            self._merge()
        row = self.points @ point
        self.gram = np.block(
            [[self.gram, row[:, None]], [row[None], np.full((1, 1), point @ point)]]
        )
        self.points = np.vstack([self.points, point])
        index = np.flatnonzero(weights)
        small = index.astype(np.uint32) if weights.size < 1 << 32 else index
        self.others.append((small, weights[index]))
        self.share = np.append(self.share, 0.0)

    def _merge(self) -> None:
        """Keep half of the corners, those with the largest shares; the nearest point stays."""
        point, weights = self.nearest, self.weights()
        kept = np.sort(np.argsort(-self.share[1:], kind="stable")[: self.most // 2]) + 1
        self.first = weights
        self.others = [self.others[j - 1] for j in kept]
        self.points = np.vstack([point, self.points[kept]])
        self.gram = self.points @ self.points.T
        self.share = np.append(1.0, np.zeros(kept.size))

    def solve(self) -> None:
        """Set the shares of the point that is nearest to the origin."""
        before = self.share @ self.gram @ self.share
        scale = float(np.diag(self.gram).min())
        if scale <= 0.0:
            self.share = np.eye(len(self.gram))[int(np.diag(self.gram).argmin())]
            return
        # min |G u|^2 / scale + (sum u - 1)^2 over u >= 0 has the wanted shares u / sum u.
        try:
            scaled = self.gram / scale
            scaled += np.diag(1e-15 * len(scaled) * np.diag(scaled)) + 1.0
            root = cholesky(scaled)
            found = nnls(root, solve_triangular(root, np.ones(len(root)), trans="T"))[0]
        except (LinAlgError, RuntimeError):
            return
        total = found.sum()
        if total > 0.0 and (share := found / total) @ self.gram @ share < before:
            self.share = share

    @property
    def nearest(self) -> Array:
        return self.share @ self.points

    def weights(self) -> Array:
        """Return the weights of the rows that make the nearest point, (n,)."""
        total = self.share[0] * self.first
        for share, (index, values) in zip(self.share[1:], self.others):
            if share > 0.0:
                total[index] += share * values
        return total


class _Run:
    """One run: the corners, and the best direction with its scores."""

    def __init__(
        self,
        problem: Problem,
        risk: LowestMean,
        state: State,
        monitor: Monitor,
        settings: OneClassSettings,
    ):
        self.problem, self.rows, self.risk = problem, problem.rows, risk
        self.monitor, self.settings = monitor, settings
        start = state.dual if state.dual.any() else risk.caps / risk.caps.sum()
        weights = feasible_weights(risk.caps, start)
        with monitor.phase("planes"):
            self.corners = _Corners(self.rows.combine(weights), weights, settings.most_corners)
        self.floor = smallest_objective(self.rows, risk.caps)
        self.way = self.corners.nearest
        self.scores = self._scores(self.way)
        self.mean = risk.mean(self.scores)
        if state.coef.any():
            scores = self._scores(state.coef)
            mean = risk.mean(scores)
            if mean * np.linalg.norm(self.way) > self.mean * np.linalg.norm(state.coef):
                self.way, self.scores, self.mean = state.coef, scores, mean

    def run(self) -> State:
        monitor = self.monitor
        at = self.scores
        while not self._is_done():
            with monitor.phase("scores"):
                lowest = self.risk.lowest(at)
            with monitor.phase("planes"):
                point = self.rows.combine(lowest.weights)
            with monitor.phase("reduced problem"):
                self.corners.add(point, lowest.weights)
                self.corners.solve()
                target = self.corners.nearest
            scores = self._scores(target)
            with monitor.phase("line search"):
                at = self._step(target, scores)
            monitor.iteration += 1
        return self.best

    def _scores(self, w: Array) -> Array:
        with self.monitor.phase("scores"):
            return self.rows.scores(w)

    def _step(self, target: Array, scores: Array) -> Array:
        """Move the best direction towards the target; return the scores of the next corner."""
        step = self._search(target, scores)
        self.way = self.way + step * (target - self.way)
        self.scores = self.scores + step * (scores - self.scores)
        self.mean = self.risk.mean(self.scores)
        if step in (0.0, 1.0) or self.mean <= 0.0:
            return scores
        return self.scores + self.settings.plane_at * (scores - self.scores)

    def _search(self, target: Array, scores: Array) -> float:
        """Return the step from 0 to 1 at which m(w) / |w| is about largest."""
        a, b = float(self.way @ self.way), float(self.way @ target)
        c = float(target @ target)

        def ratio(step: float) -> float:
            square = (1.0 - step) ** 2 * a + 2.0 * step * (1.0 - step) * b + step * step * c
            mean = self.risk.mean(self.scores + step * (scores - self.scores))
            return mean / math.sqrt(square) if square > 0.0 else -math.inf

        low, high = 0.0, 1.0
        found = {0.0: ratio(0.0), 1.0: ratio(1.0)}
        if found[1.0] <= 0.0 and found[0.0] <= 0.0:
            return 1.0
        inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
        values = [ratio(step) for step in inner]
        for _ in range(self.settings.search_steps):
            found |= zip(inner, values)
            if values[0] >= values[1]:
                high, inner[1], values[1] = inner[1], inner[0], values[0]
                inner[0] = high - _GOLDEN * (high - low)
                values[0] = ratio(inner[0])
            else:
                low, inner[0], values[0] = inner[0], inner[1], values[1]
                inner[1] = low + _GOLDEN * (high - low)
                values[1] = ratio(inner[1])
        found |= zip(inner, values)
        return max(found, key=lambda step: found[step])

    # --- certificates -----------------------------------------------------------------------

    def _is_done(self) -> bool:
        """Return whether to stop. The result is certified by products computed afresh."""
        monitor = self.monitor
        primal = 0.0
        if self.mean > 0.0:
            primal = -0.5 * (self.mean / float(np.linalg.norm(self.way))) ** 2
        nearest = self.corners.nearest
        estimate = Certificate(primal, -0.5 * float(nearest @ nearest), floor=self.floor)
        state = self._state()
        active = int(np.count_nonzero(state.dual))
        if estimate.relative_gap > monitor.tol and not monitor.must_stop():
            if monitor.check(estimate, state, active):
                self.best = self._certified(state)[1]
                monitor.settle(self._certified(state)[0])
                return True
            return False
        certificate, self.best = self._certified(state)
        return monitor.check(certificate, self.best, active)

    def _state(self) -> State:
        dual = self.corners.weights()
        if self.mean <= 0.0:
            return State(np.zeros_like(self.way), 0.0, dual)
        factor = self.mean / float(self.way @ self.way)
        return State(factor * self.way, -factor * self.risk.lowest(self.scores).level, dual)

    def _certified(self, state: State) -> tuple[Certificate, State]:
        """Return the certificate of the state, or of no direction if that is better."""
        coef, offset = state.coef, state.offset
        if coef.any():  # the level by products computed afresh
            self.scores, self.way = self._scores(coef), coef
            lowest = self.risk.lowest(self.scores)
            self.mean, offset = float(lowest.weights @ self.scores), -lowest.level
        state = State(coef, offset, state.dual)
        certificate = certify_state(self.problem, state, self.monitor.tol)
        if certificate.primal > 0.0:
            state = State(np.zeros_like(coef), 0.0, state.dual)
            certificate = certify_state(self.problem, state, self.monitor.tol)
        return certificate, state
