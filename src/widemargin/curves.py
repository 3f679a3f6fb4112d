"""Data of plots and reports: convergence history, time per phase, scores by C.

All of it comes from public attributes of fitted estimators.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from widemargin.fitted import Fitted, FittedSearch, Search, class_names
from widemargin.monitor import Record
from widemargin.solvers.registry import SOLVERS, THEN
from widemargin.words import count, percent_at_most


@dataclass(frozen=True)
class HistoryCurve:
    """The duality gap checks of one problem, or summed over the problems of a model."""

    name: str  # positive class of a one-versus-rest problem; "" for a single problem or the sum
    time: np.ndarray  # (m,) seconds since the fit began
    iteration: np.ndarray  # (m,) passes over the rows, or iterations
    primal: np.ndarray  # (m,) best values so far, and of `dual`
    dual: np.ndarray

    @property
    def relative_gap(self) -> np.ndarray:
        """The duality gap divided by the primal value, (m,); at least zero."""
        gap = np.maximum(self.primal - self.dual, 0.0)
        return np.divide(gap, self.primal, out=np.zeros_like(gap), where=self.primal != 0.0)


def history_curves(model: Fitted) -> list[HistoryCurve]:
    """Return one curve per problem.

    Parameters
    ----------
    model : fitted estimator
        A model loaded from a file has no history and no curves.
    """
    by_problem: dict[int, list[Record]] = {}
    for record in model.history_:
        by_problem.setdefault(record.problem, []).append(record)
    names = part_names(model)
    return [
        HistoryCurve(
            names[problem] if names else "",
            *(
                np.array([getattr(record, name) for record in records])
                for name in ("time", "iteration", "primal", "dual")
            ),
        )
        for problem, records in sorted(by_problem.items())
    ]


def stopped_early(model: Fitted) -> bool:
    """Return whether training stopped before its tolerance, or its paper's rule, was met."""
    return model.status_ not in ("converged", "published")


def part_names(model: Fitted) -> list[str]:
    """Return the classes or targets of several problems; empty for a single problem."""
    parts = model.certificate_.parts
    return (class_names(model) or [f"target {j}" for j in range(len(parts))]) if parts else []


def total_curve(curves: list[HistoryCurve], by: str) -> HistoryCurve:
    """Return the sum over problems, from the first point at which all have been checked.

    Parameters
    ----------
    curves : list of HistoryCurve
        At least one.
    by : {"time", "iteration"}
        What to align the problems by. Problems solved one after another overlap in iterations,
        but not in time.
    """
    moments = np.unique(np.concatenate([getattr(curve, by) for curve in curves]))
    moments = moments[moments >= max(getattr(curve, by)[0] for curve in curves)]
    sums = {name: np.zeros(moments.size) for name in ("primal", "dual")}
    other = "iteration" if by == "time" else "time"
    last = np.zeros(moments.size)
    for curve in curves:
        known = np.searchsorted(getattr(curve, by), moments, side="right") - 1
        for name, values in sums.items():
            values += getattr(curve, name)[known]
        last = np.maximum(last, getattr(curve, other)[known])
    return HistoryCurve("", **{by: moments, other: last}, **sums)


def phase_seconds(model: Fitted) -> dict[str, float]:
    """Return the seconds spent in each phase, summed over problems, in decreasing order."""
    last_phases = {record.problem: record.phases for record in model.history_}
    seconds: dict[str, float] = {}
    for phases in last_phases.values():
        for name, took in phases.items():
            seconds[name] = seconds.get(name, 0.0) + took
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def iterations(model: Fitted) -> int:
    """Return how many iterations the training took; see `iteration_unit`."""
    return int(np.max(model.n_iter_))


def iteration_unit(model: Fitted) -> str:
    """Return what the solver counts: "pass" or "iteration"."""
    return SOLVERS[model.solver_.split(THEN)[0]].counts


@dataclass(frozen=True)
class CostCurve:
    """Scores of a search by C, in increasing order of C."""

    Cs: np.ndarray  # (m,)
    scores: np.ndarray  # (n_folds, m)
    relative_gaps: np.ndarray  # (n_folds, m)
    best_C: float

    @property
    def mean(self) -> np.ndarray:
        return self.scores.mean(axis=0)

    @property
    def deviation(self) -> np.ndarray:
        return self.scores.std(axis=0)

    @property
    def best_score(self) -> float:
        return float(self.mean[self.Cs == self.best_C][0])


def cost_curve(search: Search) -> CostCurve:
    """Return the scores of a fitted `LinearSVCCV`, without values of C it did not try."""
    tried = np.flatnonzero(~np.isnan(search.scores_.mean(axis=0)))
    tried = tried[np.argsort(search.Cs_[tried], kind="stable")]
    return CostCurve(
        search.Cs_[tried], search.scores_[:, tried], search.relative_gaps_[:, tried], search.C_
    )


def score_name(search: Search) -> str:
    """Return the name of the score of a search."""
    scoring = search.scoring or "accuracy"
    return scoring.replace("_", " ") if isinstance(scoring, str) else "score"


def caveats(search: FittedSearch, spelled: Callable[[str], str] = str) -> Iterator[str]:
    """Yield warnings about the result of a search.

    Parameters
    ----------
    spelled : callable(name) -> str
        Format the name of a parameter.
    """
    tried = ~np.isnan(search.scores_[0])
    if search.status_ == "interrupted":
        yield f"interrupted: {tried.sum()} of {count(tried.size, 'value')} of C tried"
    gaps = search.relative_gaps_[:, tried]
    n_loose = int(np.sum(gaps > search.tol))
    if n_loose:
        yield (
            f"{n_loose} of {gaps.size} trainings stopped before {spelled('tol')} {search.tol:g}, "
            f"with gaps of up to {percent_at_most(gaps.max())}: raise {spelled('max_iter')} or "
            f"{spelled('max_time')}"
        )
    if search.status_ in ("max_iter", "max_time", "rounding"):
        yield f"the last training stopped early, {search.certificate_.bound_in_words()}"
    costs = np.sort(search.Cs_[tried])
    if costs[0] < costs[-1] and search.C_ in (costs[0], costs[-1]):
        side = "smallest" if costs[0] == search.C_ else "largest"
        yield f"the best C is the {side} one tried: a better one may be outside of this range"
