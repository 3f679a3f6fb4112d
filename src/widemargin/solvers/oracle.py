"""Answers that cutting planes need about the rows: objectives, line searches, planes.

The solver knows points and planes; an oracle knows the rows and the risk. An answer costs one
product X w and one X^T g. The scores of the best point, of the solution of the reduced problem and
of all points between them are combinations of two vectors, so the line search needs no other
product.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from widemargin import passes
from widemargin.arrays import as_array, move_to, on_host
from widemargin.certificate import Certificate, certificate_of, lower_bound, upper_bound
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Problem
from widemargin.risk import Cut
from widemargin.solvers.line_search import Penalty
from widemargin.solvers.proof import proof_for

# Sums and differences are zero if they are this small a fraction of their terms.
ROUNDING = 1e-13
# Scores are recomputed if they are sums of terms this many times as large as they are: the
# rounding errors of these terms are in them. So they are after a step this many times as long as
# the way to the target.
LONG_STEP = 1e3

#: (penalty, line) -> step, value
Search = Callable


@dataclass
class Place:
    """A point: the penalised variables, flat; a free intercept; and maybe the scores there."""

    vector: np.ndarray
    free: np.ndarray
    scores: Any = None
    made_of: float = 0.0  # the size of the coefficients and offsets whose scores were summed up

    @property
    def penalty(self) -> float:
        return 0.5 * float(self.vector @ self.vector)


class Plane(NamedTuple):
    """A plane below the risk, a.w + e.b + constant, and its packed slope."""

    a: np.ndarray
    e: np.ndarray
    constant: float
    code: Any


class Answer(NamedTuple):
    """The result of a step."""

    step: float
    center: Place
    value: float  # of the objective at the center
    plane: Plane
    active: int  # rows with a loss where the plane was taken


class Oracle:
    """Answers by rows and a risk; the monitor's phases add up times."""

    def __init__(self, problem: Problem, monitor: Monitor):
        self.problem, self.monitor = problem, monitor
        self.intercept, self.outputs = problem.intercept, problem.risk.outputs
        self.n_features = problem.rows.n_features
        self.proof: Any = proof_for(problem)

    def begin(self, center: Place, dual: Any) -> tuple[list[Plane], Answer]:
        """Return the planes of the dual variables `dual`, and the answer to a step of zero."""
        self._add_scores(center)
        with self.monitor.phase("planes"):
            cut = self.problem.risk.cut(center.scores)
            known = [
                self._plane(self._combine(slope), slope, constant, code)
                for slope, constant, code in self.proof.known(dual, cut)
            ]
        return known, self._answer_at(0.0, center, cut)

    def jump(self, target: Place) -> Answer:
        """Move to the target, and take the plane there."""
        self._add_scores(target)
        with self.monitor.phase("planes"):
            cut = self.problem.risk.cut(target.scores)
        return self._answer_at(1.0, target, cut)

    def _answer_at(self, step: float, place: Place, cut: Cut) -> Answer:
        """Answer with a plane at the place itself, whose scores are new."""
        penalty = place.penalty
        place.made_of = math.sqrt(2.0 * penalty) + _largest(place.free)
        return self._answer(step, place, penalty + cut.value, cut, place)

    def step(
        self,
        center: Place,
        target: Place,
        search: Search,
        instead_of_zero: float,
        plane_at: float,
    ) -> Answer:
        """Move the center towards the target by the step that `search` finds.

        If that is zero, the step is `instead_of_zero`. The target becomes the point of the plane,
        at the fraction `plane_at` of the way from the new center to the target. Both change in
        place.
        """
        coef = self._rounded(target)
        with self.monitor.phase("line search"):
            # Before the scores: a GPU may still compute them while these sums are waited for.
            ahead, sums = passes.of(center.vector).way(center.vector, target.vector)
            a, b, square = on_host(sums).sum(axis=0).tolist()
            penalty = Penalty(a, b, 0.5 * square)
        self._add_scores(target, coef)
        with self.monitor.phase("line search"):
            change = target.scores
            change -= center.scores
            if penalty.a <= ROUNDING**2 * 2.0 * penalty.c:
                # The direction is rounding error, and would be followed very far. Only a free
                # intercept may move.
                ahead[:] = 0.0
                penalty = Penalty(0.0, 0.0, penalty.c)
                moved = target.free - center.free if center.free.size else 0.0
                change[...] = move_to(moved, change)
            line = self.problem.risk.line(center.scores, change)
            step, value = search(penalty, line)
            if step == 0.0 and instead_of_zero > 0.0:
                step = instead_of_zero
                value = penalty.at(step) + float(line.evaluate([step]).values[0])
            beyond = plane_at * (1.0 - step)
            size, way = penalty.length(step), penalty.length(1.0) + _largest(target.free)
            made_of = abs(1.0 - step) * center.made_of + abs(step) * way
            center.vector = center.vector + step * ahead
            center.free = center.free + step * (target.free - center.free)
            passes.of(change).advance(center.scores, change, step, beyond)
            target.vector = center.vector + beyond * ahead
        size += _largest(center.free)
        center.made_of = target.made_of = made_of + size
        if not center.made_of <= LONG_STEP * size:
            return self.jump(center)._replace(step=step)
        with self.monitor.phase("planes"):
            cut = self.problem.risk.cut(target.scores)
        return self._answer(step, center, value, cut, target)

    def certify(self, best: Place, slopes: list, dual: Any) -> tuple[Certificate, Any]:
        """Recompute both values: of the best point, and of the planes' slopes, if there are any.

        Return the certificate and the dual variables.
        """
        tol = self.monitor.tol
        coef, offset = self.split(best)
        primal = upper_bound(self.problem, coef, offset, tol=tol)
        if slopes:
            dual = self.proof.dual(slopes)
        return certificate_of(primal, lower_bound(self.problem, dual, tol)[0]), dual

    def place(self, coef: np.ndarray, offset: Any) -> Place:
        """Return the place of a State's coef and offset."""
        vector, free = as_array(coef, np.float64).ravel(), np.empty(0)
        offset = np.atleast_1d(np.asarray(offset, dtype=np.float64))
        if self.intercept is Intercept.PENALIZED:
            vector = np.concatenate([vector, move_to(offset, vector)])
        elif self.intercept is Intercept.FREE:
            free = offset
        return Place(vector, free)

    def split(self, place: Place) -> tuple[np.ndarray, Any]:
        """Return (coef, offset) of a place, shaped as a State's."""
        coef = place.vector[: self._size()].reshape(-1, *self.outputs)
        return coef, self._offset(place)

    def _size(self) -> int:
        """Return how many coefficients there are."""
        return self.n_features * int(np.prod(self.outputs, dtype=int))

    def _offset(self, place: Place) -> Any:
        if self.intercept is Intercept.NONE:
            return np.zeros(self.outputs) if self.outputs else 0.0
        offset = np.concatenate([on_host(place.vector[self._size() :]), place.free])
        return offset if self.outputs else float(offset[0])

    def _answer(self, step: float, center: Place, value: float, cut: Cut, at: Place) -> Answer:
        code = self.proof.code(cut, self.split(at)[0])
        with self.monitor.phase("planes"):
            plane = self._plane(self._combine(cut.slope), cut.slope, cut.constant, code)
        return Answer(step, center, value, plane, cut.active)

    def _rounded(self, place: Place) -> np.ndarray | None:
        """Round the coefficients of two classes if rows want that; return what `scores` takes."""
        return None if self.outputs else self.problem.rows.round(place.vector[: self.n_features])

    def _add_scores(self, place: Place, coef: np.ndarray | None = None) -> None:
        """Compute the scores of a place; `coef` may be the result of `_rounded`."""
        with self.monitor.phase("scores"):
            coef = self.split(place)[0] if coef is None else coef
            place.scores = self.problem.rows.scores(coef)
            if place.free.size > 1:
                place.free = self.problem.risk.useful_offset(place.scores, place.free)
            if np.any(offset := self._offset(place)):
                place.scores += move_to(offset, place.scores)

    def _combine(self, slope: np.ndarray) -> np.ndarray:
        return self.problem.rows.combine(slope).ravel()

    def _plane(self, a: np.ndarray, slope: np.ndarray, constant: float, code: Any) -> Plane:
        """Return the plane of one slope of the risk; a is X^T of the slope."""
        if self.intercept is Intercept.NONE:
            return Plane(a, np.empty(0), constant, code)
        total, size = on_host(slope.sum(axis=0)), on_host(np.abs(slope).sum(axis=0))
        return self.with_intercept(a, np.atleast_1d(total), size, constant, code)

    def with_intercept(
        self, a: np.ndarray, e: np.ndarray, size: Any, constant: float, code: Any
    ) -> Plane:
        """Return a plane with slopes a in w and e in b; `size` are sums of the |terms| of e."""
        e[np.abs(e) <= ROUNDING * size] = 0.0
        if self.intercept is Intercept.PENALIZED:
            a, e = np.concatenate([a, move_to(e, a)]), np.empty(0)
        return Plane(a, e, constant, code)


def _largest(offsets: np.ndarray) -> float:
    return float(np.abs(offsets).max(initial=0.0))
