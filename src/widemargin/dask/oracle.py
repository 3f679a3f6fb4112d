"""Answers to cutting planes from the workers of a cluster, in one round trip each.

A round sends the reduced problem's solution w_t to the workers and brings back a plane, d numbers
from each. Between the two lies the search for a step, which concerns all workers, but only some
numbers of each: the risk at many steps along the way, found in one pass over vectors (the
multi-point searches of Arnosti 2010). All of it is one graph of tasks,

    line_sums, worker by worker -> choose -> plane, worker by worker -> their sum, up a tree

so that the driver waits once, and what goes from worker to worker in between is small. Workers
keep the scores of the best point, and are told by its name that it is the one they know. It is
sent all the same: who has them not, since a part has just moved there, makes them anew.

The point w_t is rounded to float32 before it is sent, and is that point then: any point will do to
aim at. Planes come back in float64: they are the proof.
"""

import itertools

import numpy as np

from widemargin.certificate import Certificate
from widemargin.dask import tasks
from widemargin.dask.tasks import Point, RankingRecipe, Recipe
from widemargin.data.partitions import ClusterError, Partitions
from widemargin.monitor import Monitor
from widemargin.problem import Intercept, Tangents
from widemargin.solvers.line_search import Penalty
from widemargin.solvers.oracle import PLANE_AT, Answer, Oracle, Place

# Steps at which the risk is asked for are zero, and some from a 50th to 50 times the last one.
_FARTHEST = 50.0
# Points may be rounded to float32 if the gap asked for is at least this.
_TOL_OF_FLOAT32 = 1e-6
# Bytes that points may add to the graph of tasks.
_SMALL = 1 << 20
# Rounds that may fail in a row, each for the loss of a worker.
_PATIENCE = 10


class ClusterOracle(Oracle):
    """Answers from parts of the rows; as `Oracle`.

    Parameters
    ----------
    parts : Partitions
    recipe : Recipe or RankingRecipe
        Of the risk.
    n_features : int
    intercept : Intercept
    monitor : Monitor
    """

    def __init__(
        self,
        parts: Partitions,
        recipe: Recipe | RankingRecipe,
        n_features: int,
        intercept: Intercept,
        monitor: Monitor,
    ):
        self.parts, self.recipe, self.monitor = parts, recipe, monitor
        self.intercept, self.outputs, self.n_features = intercept, recipe.outputs, n_features
        self.proof = TouchingPoints()
        self.names = (f"{recipe.name}-{j}" for j in itertools.count())
        self.center = ""  # the name of the scores that workers have
        self.guess = 0.1

    def begin(self, center, dual):
        return [], self.stay(center)

    def jump(self, target):
        return self.stay(self._rounded(target))

    def stay(self, target):
        """Answer to no step at all, from there."""
        point = self._point(target)
        with self.monitor.phase("round"):
            share = self._ask(lambda: self._sum(tasks.plane_at, self.recipe, self._sent(point)))
        self.center = point.name
        self._count(point.coef.nbytes, share.a.nbytes)
        return self._answer_of(1.0, target, share, target)

    def step(self, center, target, search, instead_of_zero):
        target = self._rounded(target)
        ahead = target.vector - center.vector
        penalty = Penalty(float(ahead @ ahead), float(center.vector @ ahead), center.penalty)
        steps = np.append(
            0.0, self.guess * np.geomspace(1.0 / _FARTHEST, _FARTHEST, self.recipe.n_steps)
        )
        point, named = self._point(target), next(self.names)
        start = self._point(center)._replace(name=self.center)

        def ask():
            begin, end = self._sent(start), self._sent(point)
            line = (self.recipe, begin, end)
            sums = self.parts.each(tasks.line_sums, sum, *line, steps)
            chosen = self.parts.do(tasks.choose, sums, penalty, steps, instead_of_zero)
            return self._sum(tasks.plane, *line, chosen, PLANE_AT, named)

        with self.monitor.phase("round"):
            share = self._ask(ask)
        step = share.step
        self._count(start.coef.nbytes + point.coef.nbytes, share.a.nbytes + 24 * steps.size)
        if step > 0.0:
            self.guess = step
        self.center = named
        moved = target.free - center.free
        center = Place(center.vector + step * ahead, center.free + step * moved)
        beyond = PLANE_AT * (1.0 - step)
        at = Place(center.vector + beyond * ahead, center.free + beyond * moved)
        return self._answer_of(step, center, share, at)

    def certify(self, best, slopes, dual, bound):
        point = self._point(best)
        losses = self._ask(
            lambda: self.parts.total(
                sum, self.parts.each(tasks.loss_at, sum, self.recipe, self._sent(point))
            )
        )
        dual = self.proof.dual(slopes) if slopes else dual
        return Certificate(best.penalty + losses, bound), dual

    def _answer_of(self, step, center, share, at):
        code = self.proof.code(at)
        e = share.e if self.intercept is not Intercept.NONE else np.empty(0)
        plane = self.with_intercept(share.a, e, share.size[: e.size], share.constant, code)
        return Answer(step, center, center.penalty + share.loss, plane, share.active)

    def _point(self, place):
        coef, offset = self.split(place)
        short = coef.astype(np.float32)
        coef = short if np.array_equal(coef, short) else coef
        return Point(next(self.names), coef, offset)

    def _rounded(self, place):
        if self.monitor.tol < _TOL_OF_FLOAT32:
            return place
        return Place(place.vector.astype(np.float32).astype(np.float64), place.free)

    def _sent(self, point):
        """Return a point as a task of its own, whose result workers take from each other.

        A small one goes with each task that needs it: that saves waiting for it.
        """
        if point.coef.nbytes * len(self.parts) <= _SMALL:
            return point
        return self.parts.do(tasks.itself, point)

    def _sum(self, task, *arguments):
        """Return a future of the sum of a task's shares."""
        shares = self.parts.each(task, tasks.add_shares, *arguments)
        return self.parts.total(tasks.add_shares, shares)

    def _ask(self, make):
        """Return the result of the graph that `make` makes; of another, if a worker is lost."""
        from distributed import CancelledError, KilledWorker

        for _ in range(_PATIENCE):
            try:
                return self.parts.result(make())
            except (KilledWorker, CancelledError, OSError) as error:
                self.parts.recover()
                last = error
        raise ClusterError(f"the cluster has failed {_PATIENCE} times in a row") from last

    def _count(self, down, up):
        """Count what goes to each worker, and comes from each."""
        self.monitor.network_bytes += self.parts.n_workers * (down + up)


class TouchingPoints:
    """Remembers planes by where they touch the risk: what is penalised, and a free intercept."""

    def code(self, place: Place):
        return Tangents(np.ones(1), np.concatenate([place.vector, place.free])[None])

    def merge(self, code, weight, other, other_weight):
        return Tangents.mixed([(weight, code), (other_weight, other)])

    def dual(self, slopes):
        return Tangents.mixed(slopes)
