"""Cutting planes: SVM-perf, OCAS, and OCAS with cheaper line searches.

Problem
    min over w, b   F = 1/2 |w|^2 (+ 1/2 |b|^2 if penalised) + r(X w + b)      any risk, any rows
Each iteration
    1. solves the reduced problem, with planes in place of r (see bundle.py): a point w_t, and a
       lower bound on F that never falls;
    2. goes from the best point so far, w_b, towards w_t:  w_b <- w_b + step (w_t - w_b);
    3. takes a new plane at w_c, a little way from the new w_b towards w_t.

"cpa"   step 1, plane at w_t.                       Joachims 2006, Algorithm 1
"ocas"  the step that minimises F, plane at 0.1.    Franc & Sonnenburg 2008, Algorithm 2;
                                                    Arnosti 2010, section II, for several classes
"gca"   the best step of three grids.               Arnosti 2010, Algorithm 1
"gca2"  grids walked downhill from the last step.   Arnosti 2010, Algorithm 2
"tca"   a window of three steps.                    Arnosti 2010, Algorithm 3

The scores of all three points are combinations of two vectors, so an iteration costs one product
X w and one X^T g, whatever the step rule. A free intercept is a variable of the reduced problem
that no term penalises. After many best steps of 0 in a row, from which nothing is learnt but one
plane each, a small step is taken for once (Arnosti 2010, section V); the best point is remembered.

Memory beyond the rows: five vectors of scores, and the bundle's (its docstring says how much).
"""

from dataclasses import dataclass

import numpy as np

from widemargin import passes
from widemargin.arrays import as_array, beside, on_host
from widemargin.certificate import Certificate, dual_value, primal_value
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import RowRisk
from widemargin.solvers.bundle import Bundle
from widemargin.solvers.line_search import (
    Penalty,
    ThreePoint,
    TruncatedGrid,
    bracketed,
    exact,
    grid,
)
from widemargin.solvers.proof import proof_for

# Where the plane is taken, between the best point and the reduced problem's solution.
_PLANE_AT = 0.1
# Steps of zero in a row, after which a small one is taken.
_PATIENCE = 10
# Sums and differences this small a share of their terms are zero.
_ROUNDING = 1e-13
# The reduced problem is solved to this share of the gap; so is the search for a step, where it
# cannot end exactly.
_REDUCED_TOLERANCE = 0.01
_SEARCH_TOLERANCE = 0.01


@dataclass(frozen=True)
class CuttingPlanes:
    """Solver for any risk over any rows.

    Parameters
    ----------
    method : {"cpa", "ocas", "gca", "gca2", "tca"}
    smallest_step : float
        Taken after repeated steps of 0; 0 leaves them so.
    """

    method: str = "ocas"
    smallest_step: float = 0.02

    def solve(self, problem: Problem, state: State, monitor: Monitor) -> State:
        """Improve `state` until `monitor` says stop; return the best points certified."""
        return _Run(problem, state, monitor, self).run()


@dataclass
class _Place:
    """A point: what is penalised, flat; a free intercept apart; and the scores there."""

    vector: np.ndarray
    free: np.ndarray
    scores: np.ndarray | None = None

    @property
    def penalty(self):
        return 0.5 * float(self.vector @ self.vector)


class _Run:
    """One run: the bundle, the point steps start from, and the best one."""

    def __init__(self, problem, state, monitor, settings):
        self.problem, self.monitor, self.settings = problem, monitor, settings
        self.search = {"gca": grid, "gca2": TruncatedGrid(), "tca": ThreePoint()}.get(
            settings.method, self._exact
        )
        self.last_step = 0.1
        self.zero_steps = 0  # in a row
        vector, free = as_array(state.coef, np.float64).ravel(), np.empty(0)
        offset = np.atleast_1d(np.asarray(state.offset, dtype=np.float64))
        if problem.intercept is Intercept.PENALIZED:
            vector = np.concatenate([vector, beside(offset, vector)])
        elif problem.intercept is Intercept.FREE:
            free = offset
        self.center = _Place(vector, free)
        self.best, self.best_primal = self.center, np.inf
        self.dual = state.dual
        self.active = 0
        self.certified = False
        self.proof = proof_for(problem, free=problem.intercept is Intercept.FREE)
        self.bundle = Bundle(vector, free.size, self.proof.merge)

    def run(self):
        monitor = self.monitor
        self._start()
        while monitor.status == "running":
            self._iterate()
        if not self.certified:  # a callback asked to stop
            self._check(certify=True)
        return self._state()

    def _start(self):
        """Take the planes that are known, and say where we stand."""
        self._add_scores(self.center)
        with self.monitor.phase("planes"):
            cut = self.problem.risk.cut(self.center.scores)
            for plane in self.proof.known(self.dual, cut):
                self._add_plane(*plane)
        self._add_cut(cut, self.center)
        self._remember(self.center, self.center.penalty + cut.value)
        with self.monitor.phase("reduced problem"):
            self.bundle.solve(_REDUCED_TOLERANCE * self.monitor.tol * self.best_primal)
        self._check()

    def _iterate(self):
        monitor, risk = self.monitor, self.problem.risk
        with monitor.phase("reduced problem"):
            gap = self.best_primal - self.bundle.value
            target = _Place(*self.bundle.solve(_REDUCED_TOLERANCE * gap))
        self._add_scores(target)
        if self.settings.method == "cpa":
            at = self.center = target
        else:
            with monitor.phase("line search"):
                at = self._advance(target)
        with monitor.phase("planes"):
            cut = risk.cut(at.scores)
        self._add_cut(cut, at)
        if self.settings.method == "cpa":
            self._remember(target, target.penalty + cut.value)
        monitor.iteration += 1
        self._check()

    def _advance(self, target):
        """Move the center towards `target`, by the method's step; return where to cut.

        In place: the target becomes that point.
        """
        center = self.center
        ahead = target.vector - center.vector
        change = target.scores
        change -= center.scores
        if float(ahead @ ahead) <= _ROUNDING**2 * 2.0 * center.penalty:
            # A direction made of rounding would be followed very far; a free intercept may move.
            ahead[:] = 0.0
            moved = target.free - center.free if center.free.size else 0.0
            change[...] = beside(moved, change)
        penalty = Penalty(float(ahead @ ahead), float(center.vector @ ahead), center.penalty)
        line = self.problem.risk.line(center.scores, change)
        step, value = self.search(penalty, line)
        self.zero_steps = self.zero_steps + 1 if step == 0.0 else 0
        if self.zero_steps >= _PATIENCE and self.settings.smallest_step > 0.0:
            step = self.settings.smallest_step
            value = penalty.at(step) + float(line.evaluate([step]).values[0])
        beyond = _PLANE_AT * (1.0 - step)
        center.vector = center.vector + step * ahead
        center.free = center.free + step * (target.free - center.free)
        self._remember(center, value)
        passes.of(change).advance(center.scores, change, step, beyond)
        target.vector = center.vector + beyond * ahead
        return target

    def _exact(self, penalty, line):
        if isinstance(self.problem.risk, RowRisk):
            step, value = exact(penalty, line, guess=self.last_step)
        else:
            gap = self.best_primal - self.bundle.value
            step, value = bracketed(penalty, line, self.last_step, _SEARCH_TOLERANCE * gap)
        if step > 0.0:
            self.last_step = step
        return step, value

    def _remember(self, place, primal):
        """Keep the place if it is the best so far."""
        if primal < self.best_primal:
            self.best_primal = primal
            self.best = _Place(place.vector, place.free)

    # --- passes over the rows -------------------------------------------------------------

    def _add_scores(self, place):
        coef, offset = self._split(place)
        with self.monitor.phase("scores"):
            place.scores = self.problem.rows.scores(coef)
            if np.any(offset):
                place.scores += beside(offset, place.scores)

    def _add_cut(self, cut, place):
        self.active = cut.active
        code = self.proof.code(cut, self._split(place)[0])
        with self.monitor.phase("planes"):
            self._add_plane(cut.slope, cut.constant, code)

    def _add_plane(self, slope, constant, code):
        """Add the plane that one slope of the risk makes."""
        a = self.problem.rows.combine(slope).ravel()
        e = np.empty(0)
        if self.problem.intercept is not Intercept.NONE:
            e = np.atleast_1d(on_host(slope.sum(axis=0)))
            e[np.abs(e) <= _ROUNDING * on_host(np.abs(slope).sum(axis=0))] = 0.0
        if self.problem.intercept is Intercept.PENALIZED:
            a, e = np.concatenate([a, beside(e, a)]), np.empty(0)
        self.bundle.add(a, e, constant, code)

    def _split(self, place):
        """Return (coef, offset) of a place, shaped as a State's."""
        outputs = self.problem.risk.outputs
        size = self.problem.rows.n_features * int(np.prod(outputs, dtype=int))
        coef = place.vector[:size].reshape(-1, *outputs)
        if self.problem.intercept is Intercept.NONE:
            return coef, np.zeros(outputs) if outputs else 0.0
        offset = np.concatenate([on_host(place.vector[size:]), place.free])
        return coef, offset if outputs else float(offset[0])

    # --- the proof ------------------------------------------------------------------------

    def _state(self):
        coef, offset = self._split(self.best)
        return State(coef, offset, self.dual)

    def _check(self, certify=False):
        monitor = self.monitor
        certificate = Certificate(self.best_primal, self.bundle.value)
        self.certified = certify or certificate.relative_gap <= monitor.tol or monitor.must_stop()
        if self.certified:
            with monitor.phase("certificate"):
                certificate = self._certify()
        monitor.check(certificate, self._state(), self.active)

    def _certify(self):
        """Rebuild both values: from the best point, and from the planes' slopes."""
        problem = self.problem
        self.best_primal = primal_value(problem, *self._split(self.best))
        slopes = self.bundle.slopes()
        if slopes:
            self.dual = self.proof.dual(slopes)
        dual, _ = dual_value(problem, self.dual)
        return Certificate(self.best_primal, dual)
