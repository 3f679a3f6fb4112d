"""An oracle for cutting planes over the workers of a cluster, with one round trip per answer.

A round sends the solution of the reduced problem, w_t, to the workers, and brings back a plane,
with d numbers from each. The line search is in between. It concerns all workers, but only a few
numbers of each: the risk at many steps along the way, computed in one pass over vectors (the
multi-point searches of Arnosti 2010). See rounds.py.

Workers cache the scores of the best point under its name. The point is sent all the same: a worker
without the scores, because a part has just moved there, recomputes them.

The point w_t is rounded to float32 before it is sent, and the rounded point is used everywhere:
any target will do. Planes come back in float64: they are the proof.
"""

import itertools
from typing import Any

import numpy as np

from widemargin.certificate import Certificate, certificate_of, convex_weights
from widemargin.dask.questions import Line, Point, Proof, RankingRecipe, Recipe, Spot
from widemargin.dask.rounds import Rounds
from widemargin.dask.tasks import PlaneSums, ProofSums
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Tangents
from widemargin.risk import Bound
from widemargin.rounding import SUM, squares
from widemargin.solvers.line_search import Penalty
from widemargin.solvers.oracle import LONG_STEP, Answer, Oracle, Place

# The risk is evaluated at zero, and at steps from a 50th to 50 times the last one.
_FARTHEST = 50.0
# Points may be rounded to float32 if the tolerance is at least this.
_TOL_OF_FLOAT32 = 1e-6


class ClusterOracle(Oracle):
    """An oracle over parts of the rows; as `Oracle`.

    Parameters
    ----------
    recipe : Recipe or RankingRecipe
        Of the risk.
    """

    def __init__(
        self,
        rounds: Rounds,
        recipe: Recipe | RankingRecipe,
        n_features: int,
        intercept: Intercept,
        monitor: Monitor,
    ):
        self.rounds, self.recipe, self.monitor = rounds, recipe, monitor
        self.intercept, self.outputs, self.n_features = intercept, recipe.outputs, n_features
        self.proof = TouchingPoints()
        self.names = (f"{recipe.name}-{j}" for j in itertools.count())
        self.center = ""  # the name under which workers cache its scores
        self.guess = 0.1

    def begin(self, center: Place, dual: Any) -> tuple[list, Answer]:
        return [], self._stay(center)

    def jump(self, target: Place) -> Answer:
        return self._stay(self._in_single_precision(target))

    def _stay(self, target: Place) -> Answer:
        """Answer with the plane at the target, and a step of zero."""
        spot = self.spot(target)
        answer = self._ask(spot)
        self.center = spot.point.name
        return self.answer_of(1.0, target, answer, target)

    def step(
        self, center: Place, target: Place, search: Any, instead_of_zero: float, plane_at: float
    ) -> Answer:
        target = self._in_single_precision(target)
        ahead = target.vector - center.vector
        penalty = Penalty(float(ahead @ ahead), float(center.vector @ ahead), center.penalty)
        steps = np.append(
            0.0, self.guess * np.geomspace(1.0 / _FARTHEST, _FARTHEST, self.recipe.n_steps)
        )
        point, named = self._point(target), next(self.names)
        start = self._point(center)._replace(name=self.center)
        how = steps, penalty, instead_of_zero, plane_at
        answer = self._ask(Line(self.recipe, start, point, *how, named))
        step = answer.step
        if step > 0.0:
            self.guess = step
        self.center = named
        moved = target.free - center.free
        center = Place(center.vector + step * ahead, center.free + step * moved)
        if step > LONG_STEP:
            return self._stay(center)._replace(step=step)
        beyond = plane_at * (1.0 - step)
        at = Place(center.vector + beyond * ahead, center.free + beyond * moved)
        return self.answer_of(step, center, answer, at)

    def certify(self, best: Place, slopes: list, dual: Any) -> tuple[Certificate, Any]:
        dual = self.proof.dual(slopes) if slopes else dual
        return self.certificate(best, self._ask(self.question(best, dual))), dual

    def question(self, best: Place, tangents: Tangents) -> Proof:
        """Return the question for the bounds by a point and planes."""
        size = best.vector.size
        places = [Place(point[:size], point[size:]) for point in tangents.coefs]
        touching = [self._point(place) for place in places]
        return Proof(self.recipe, self._point(best), touching, convex_weights(tangents))

    def certificate(self, best: Place, answer: ProofSums) -> Certificate:
        """Return the certificate that the answer to that question gives."""
        losses, total = answer.losses, 0.5 * squares(best.vector) + answer.losses.value
        primal = Bound((1.0 + 2.0 * SUM) * total, losses.rounding + 2.0 * SUM * total)
        return certificate_of(primal, answer.sums.bound(self.intercept))

    def spot(self, place: Place) -> Spot:
        """Return the question for the plane at a place, as it is."""
        return Spot(self.recipe, self._point(place))

    def answer_of(self, step: float, center: Place, answer: PlaneSums, at: Place) -> Answer:
        """Return what all parts together answer: a plane at the place `at`."""
        code = self.proof.code(at)
        e = answer.e if self.intercept is not Intercept.NONE else np.empty(0)
        plane = self.with_intercept(answer.a, e, answer.size[: e.size], answer.constant, code)
        return Answer(step, center, center.penalty + answer.loss, plane, answer.active)

    def _ask(self, question: Line | Spot | Proof) -> Any:
        """Return the answer; count the bytes sent to each worker and back."""
        with self.monitor.phase("round"):
            answer = self.rounds.ask(question)
        numbers = sum(point.coef.nbytes for point in question.points) + answer.a.nbytes
        if isinstance(question, Line):
            numbers += 24 * question.steps.size
        self.monitor.network_bytes += self.rounds.parts.n_workers * numbers
        return answer

    def _point(self, place: Place) -> Point:
        coef, offset = self.split(place)
        short = coef.astype(np.float32)
        coef = short if np.array_equal(coef, short) else coef
        return Point(next(self.names), coef, offset)

    def _in_single_precision(self, place: Place) -> Place:
        if self.monitor.tol < _TOL_OF_FLOAT32:
            return place
        return Place(place.vector.astype(np.float32).astype(np.float64), place.free)


class TouchingPoints:
    """Stores planes by the points where they touch: penalised variables and a free intercept."""

    def code(self, place: Place) -> Tangents:
        return Tangents(np.ones(1), np.concatenate([place.vector, place.free])[None])

    def merge(
        self, code: Tangents, weight: float, other: Tangents, other_weight: float
    ) -> Tangents:
        return Tangents.weighted_sum([(weight, code), (other_weight, other)])

    def dual(self, slopes: list[tuple[float, Tangents]]) -> Tangents:
        return Tangents.weighted_sum(slopes)
