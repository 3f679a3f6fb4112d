"""Tasks of the workers: functions of a part of the rows, and sums of their results.

A task is a function of its arguments alone, so a task that is lost with its worker can be repeated
elsewhere. To save time, workers also cache, for each part and problem, the risk and the scores of
the points last asked for. A worker without them recomputes them.

Problems over the same rows, of classes and folds, share passes: one product with X computes the
scores of all their points, and one with its transpose all their planes.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from widemargin import threads
from widemargin.certificate import Sums, dual_sums, score_errors, tangent_sums
from widemargin.dask.questions import (
    AnyRecipe,
    Line,
    Part,
    Point,
    Proof,
    Questions,
    Recipe,
    Spot,
    mean_weights,
    ranking_risk,
)
from widemargin.data.rows import Rows
from widemargin.problem import Intercept, Problem, State
from widemargin.risk import Bound, Cut, LineSums, Risk, RowRisk
from widemargin.solvers.line_search import best_of


class PlaneSums(NamedTuple):
    """A part's sums for a plane, and for the objective's losses at the point before it."""

    step: float  # to that point: the same for all parts
    a: np.ndarray
    e: np.ndarray
    size: np.ndarray  # sum of |slope|, to bound rounding in e
    constant: float
    loss: float
    active: int

    def plus(self, other: "PlaneSums") -> "PlaneSums":
        """Return the sum over two parts."""
        pairs: Any = zip(self[1:], other[1:], strict=True)
        return PlaneSums(self.step, *(one + two for one, two in pairs))


class ProofSums(NamedTuple):
    """A part's sums for a certificate: the losses at a point, and a lower bound."""

    losses: Bound
    sums: Sums

    @property
    def a(self) -> np.ndarray:
        return self.sums.combined

    def plus(self, other: "ProofSums") -> "ProofSums":
        """Return the sum over two parts."""
        losses = Bound(*(one + two for one, two in zip(self.losses, other.losses)))
        return ProofSums(losses, self.sums.plus(other.sums))


# --- products with the rows, for several vectors at once ----------------------------------------


def scores_at(rows: Rows, points: Sequence[Point]) -> list[np.ndarray]:
    """Return the scores of the rows at each point, by one pass over them."""
    if len(points) == 1:
        (point,) = points
        return [rows.scores(np.asarray(point.coef, dtype=np.float64)) + point.offset]
    width = [point.coef.size // rows.n_features for point in points]
    ends = np.cumsum(width)
    W = np.empty((rows.n_features, ends[-1]))
    for point, count, end in zip(points, width, ends, strict=True):
        W[:, end - count : end] = point.coef.reshape(rows.n_features, count)
    columns = np.split(rows.scores(W), ends[:-1], axis=1)
    return [
        (S if point.coef.ndim == 2 else S[:, 0]) + point.offset
        for point, S in zip(points, columns, strict=True)
    ]


def combinations(rows: Rows, slopes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return X^T G of each slope, flat, by one pass over the rows."""
    if len(slopes) == 1:
        return [rows.combine(slopes[0]).ravel()]
    columns = [slope if slope.ndim == 2 else slope[:, None] for slope in slopes]
    ends = np.cumsum([G.shape[1] for G in columns])
    G = np.empty((rows.n_rows, ends[-1]), order="F")
    np.concatenate(columns, axis=1, out=G)
    return [A.ravel() for A in np.split(rows.combine(G), ends[:-1], axis=1)]


# --- the cache of a worker ----------------------------------------------------------------------


class _Memory:
    """A risk and the scores of a few points, for each part and slot."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.risks: dict[str, dict[str, tuple]] = {}
        self.scores: dict[str, dict[str, dict[str, np.ndarray]]] = {}

    def risk(self, part: Part, recipe: AnyRecipe) -> Risk:
        name, risk = self.risks.get(part.name, {}).get(recipe.slot, (None, None))
        if name != recipe.name:
            risk = recipe.risk(part)
            with self.lock:
                self.risks.setdefault(part.name, {})[recipe.slot] = recipe.name, risk
        return risk

    def at(self, part: Part, questions: Sequence[Line | Spot]) -> list[list[np.ndarray]]:
        """Return the scores at the points of each question, and cache just these."""
        known = self.scores.get(part.name, {})
        found = [dict(known.get(question.recipe.slot, {})) for question in questions]
        missing = [
            (scores, point)
            for question, scores in zip(questions, found, strict=True)
            for point in question.points
            if point.name not in scores
        ]
        if missing:
            points = [point for _, point in missing]
            for (scores, point), S in zip(missing, scores_at(part.rows, points), strict=True):
                scores[point.name] = S
        result = []
        for question, scores in zip(questions, found, strict=True):
            names = [point.name for point in question.points]
            self.keep(part, question.recipe, {name: scores[name] for name in names})
            result.append([scores[name] for name in names])
        return result

    def keep(self, part: Part, recipe: AnyRecipe, scores: dict[str, np.ndarray]) -> None:
        with self.lock:
            self.scores.setdefault(part.name, {})[recipe.slot] = scores

    def forget(self, names: Iterable[str]) -> None:
        with self.lock:
            for name in names:
                self.risks.pop(name, None)
                self.scores.pop(name, None)


_memory = _Memory()


def forget(names: Iterable[str]) -> None:
    """Forget everything about some parts."""
    _memory.forget(names)


# --- tasks --------------------------------------------------------------------------------------


def itself(sent: Any) -> Any:
    """Return the argument: as a task, so that workers can get it from each other."""
    return sent


def join(lists: Iterable[list]) -> list:
    """Return the members of all lists."""
    return [member for some in lists for member in some]


def describe_classes(part: Part) -> tuple:
    """Return name, rows, features, labels, number and weight of rows per label.

    And whether rows have weights.
    """
    labels, codes = np.unique(part.y, return_inverse=True)
    counts = np.bincount(codes, minlength=labels.size)
    weights = np.bincount(codes, weights=part.all_weights, minlength=labels.size)
    size = part.rows.n_rows, part.rows.n_features
    return part.name, *size, labels, counts, weights, part.weights is not None


def describe_ranking(part: Part) -> tuple:
    """Return name, rows, features, groups or None, the number of pairs, and sums of weights.

    The sums are over rows in pairs, over pairs, and over groups, of the means of their rows.
    Groups are None if none were given.
    """
    risk = ranking_risk(part)
    groups = None
    if part.qid is not None or part.rows.n_rows == 0:
        groups = np.unique([] if part.qid is None else part.qid)
    sums = np.array([risk.weight.sum(), risk.weigh_pairs().sum(), mean_weights(risk).sum()])
    n_pairs = int(risk.count_pairs().sum())
    return part.name, part.rows.n_rows, part.rows.n_features, groups, n_pairs, sums


@threads.one_for_blas()
def line_sums(part: Part, questions: Questions) -> np.ndarray:
    """Return values, slopes and curvatures, (q, 3, p), of the part's losses along the q lines."""
    sums = []
    scores = _memory.at(part, questions.all)  # of spots, too: the next task needs them
    for line, (S, T) in zip(questions.lines, scores):
        found = _memory.risk(part, line.recipe).line(S, T - S).evaluate(line.steps)
        sums.append([found.values, found.slopes, found.curvatures])
    return np.array(sums)


def choose(sums: Sequence[np.ndarray], questions: Questions) -> list[float]:
    """Return the best step along each line, from the sums over all parts at several steps."""
    chosen = []
    for line, total in zip(questions.lines, np.sum(sums, axis=0), strict=True):
        values, slopes, curvatures = total
        found = LineSums(values, slopes, curvatures, np.empty((0, 0)))
        chosen.append(best_of(line.penalty, line.steps, found) or line.instead_of_zero)
    return chosen


@threads.one_for_blas()
def answers(part: Part, questions: Questions, steps: list[float]) -> list[PlaneSums | ProofSums]:
    """Return the part's answers to all questions, lines first and proofs last.

    The losses are those at the end of a line's step, and the plane is taken a little farther on.
    """
    risks = [_memory.risk(part, asked.recipe) for asked in questions.all]
    scores = _memory.at(part, questions.all)
    cuts, losses = [], []
    for line, step, (S, T), risk in zip(questions.lines, steps, scores, risks):
        D = T - S
        here = S + step * D
        _memory.keep(part, line.recipe, {line.named: here})
        cuts.append(risk.cut(here + line.plane_at * (1.0 - step) * D))
        losses.append(risk.value(here))
    n_lines = len(questions.lines)
    for (S,), risk in zip(scores[n_lines:], risks[n_lines:], strict=True):
        cuts.append(risk.cut(S))
        losses.append(cuts[-1].value)
    planes = combinations(part.rows, [cut.slope for cut in cuts]) if cuts else []
    steps = [*steps, *(1.0 for _ in questions.spots)]
    of_planes: list[PlaneSums | ProofSums] = [
        _plane_sums(step, plane, cut, loss)
        for step, plane, cut, loss in zip(steps, planes, cuts, losses, strict=True)
    ]
    return of_planes + [_proof_sums(part, proof) for proof in questions.proofs]


def _proof_sums(part: Part, proof: Proof) -> ProofSums:
    """Return a part's sums for a proof, from its points alone: no cached scores are used."""
    rows, risk = part.rows, proof.recipe.risk(part)
    coef = np.asarray(proof.best.coef, dtype=np.float64)
    (S,) = scores_at(rows, [proof.best])
    losses = risk.bound(S, score_errors(rows, coef, proof.best.offset)[:])
    cuts = (risk.cut(T) for point in proof.touching for T in scores_at(rows, [point]))
    if not isinstance(risk, RowRisk):
        return ProofSums(losses, tangent_sums(rows, proof.weights, cuts))
    A = np.zeros_like(S)
    for weight, cut in zip(proof.weights, cuts, strict=True):
        A -= weight * cut.slope
    A = risk.feasible(A)
    return ProofSums(losses, dual_sums(rows, risk, A, rows.combine(A)))


def _plane_sums(step: float, a: np.ndarray, cut: Cut, loss: float) -> PlaneSums:
    e, size = cut.slope.sum(axis=0), np.abs(cut.slope).sum(axis=0)
    return PlaneSums(
        step, a, np.atleast_1d(e), np.atleast_1d(size), cut.constant, loss, cut.active
    )


def add_answers(parts: list[list]) -> list:
    """Return the sums of answers to each question, added in their order."""
    total = parts[0]
    for some in parts[1:]:
        total = [one.plus(other) for one, other in zip(total, some, strict=True)]
    return total


@threads.one_for_blas()
def solve_alone(
    part: Part, recipe: Recipe, intercept: Intercept, n_rows: int, sweeps: int
) -> tuple[np.ndarray, float]:
    """Return a good coef and offset for this part alone, times its fraction of all rows."""
    from widemargin.monitor import Monitor
    from widemargin.solvers import auto
    from widemargin.solvers.base import place_of
    from widemargin.solvers.registry import Place

    fraction = part.rows.n_rows / n_rows
    risk = recipe.risk(part)
    if not risk.cost.any():
        return np.zeros(part.rows.n_features), 0.0
    risk.cost = risk.cost / fraction
    problem = Problem(part.rows, risk, intercept)
    descent = auto.make("stream" if place_of(part.rows) is Place.DISK else "acf", risk, seed=0)
    state = descent.solve(problem, State.zero(problem), Monitor(1e-3, sweeps))
    return fraction * state.coef, fraction * state.offset


def add_solutions(solutions: Sequence[tuple[np.ndarray, float]]) -> tuple[np.ndarray, float]:
    """Return the sums of coefs and of offsets."""
    coefs, offsets = zip(*solutions, strict=True)
    return np.sum(coefs, axis=0), float(sum(offsets))
