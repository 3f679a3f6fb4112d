"""What searches for C claim: which one is best, and what no other one can do."""

from fractions import Fraction

import numpy as np
from exact_points import exact_optimum
from sklearn.model_selection import check_cv

import widemargin
from widemargin.data import as_rows
from widemargin.estimators.folds import check_folds, fold_weights
from widemargin.estimators.problems import make_problems
from widemargin.losses import HINGE, SQUARED_HINGE
from widemargin.monitor import Monitor
from widemargin.problem import State
from widemargin.solvers import auto

_MOST_ADDED = 4
# Sums of weights are rounded.
_ROUNDING = 1e-12


def choice_failures(case, search) -> list[str]:
    """Return what is wrong with the choice of C, and with what is certain of others."""
    found, means = [], search.scores_.mean(axis=0)
    if search.C_ != search.best_estimator_.C:
        found.append(f"C_ is {search.C_!r}, and the best model's {search.best_estimator_.C!r}")
    if search.Cs_[means == means.max()].min() != search.C_:
        found.append(f"C_ is {search.C_!r}, of {search.Cs_} with mean scores {means}")
    if np.isnan(search.relative_gaps_).any():
        found.append(f"gaps of folds are NaN: {search.relative_gaps_}")
    return found or (path_failures(case, search) if case.kind == "LinearSVCCV path" else [])


def path_failures(case, search) -> list[str]:
    """Solve for a C between each two of a path, and return which have too few errors."""
    try:
        path = widemargin.certify_path(search, **case.data, max_added=_MOST_ADDED)
    except ValueError as error:
        refused = "without one of the classes" in str(error) or "more than two classes" in str(
            error
        )
        if refused:
            return []
        raise
    folds = check_cv(2, case.y, classifier=True).split(case.matrix, case.y)
    folds = check_folds(folds, case.y, case.sample_weight)
    random, found = np.random.default_rng(case.matrix.shape), []
    for low, high, lowest in zip(path.Cs[:-1], path.Cs[1:], path.lowest.tolist()):
        C = float(np.clip(low * (high / low) ** random.random(), low, high))
        error = _error(case, search, folds, C)
        if error is not None and error < lowest - _ROUNDING:
            found.append(f"C = {C!r} has an error of {error}, which was to be at least {lowest}")
    return found


def _error(case, search, folds, C):
    """Return the error of the optima at C on held-out rows; None where one is not known."""
    model = search._model().set_params(C=C)
    rows, (classes, codes) = as_rows(case.matrix), np.unique(case.y, return_inverse=True)
    weights = np.ones(codes.size) if case.sample_weight is None else case.sample_weight
    errors = []
    for (_, held_out), costs in zip(folds, fold_weights(folds, case.sample_weight, codes.size)):
        made, scores = make_problems(model, rows, classes, codes, costs.astype(float)), []
        for j in range(len(made)):
            best = _best(made[j])
            if best is None:
                return None
            scores.append([_score(rows.matrix[i].tolist(), best.v) for i in held_out])
        wrong = [
            (max(range(len(classes)), key=row.__getitem__) if len(row) > 1 else int(row[0] > 0))
            != codes[i]
            for i, row in zip(held_out, zip(*scores))
        ]
        errors.append(np.average(wrong, weights=weights[held_out]))
    return float(np.mean(errors))


def _best(problem):
    if problem.risk.loss not in (HINGE, SQUARED_HINGE):
        return None
    with np.errstate(all="ignore"):
        for name in ("newton", "acf"):
            monitor = Monitor(tol=1e-13, max_iter=300, max_time=0.2)
            solver = auto.make(name, problem.risk, 0)
            found = exact_optimum(problem, solver.solve(problem, State.zero(problem), monitor))
            if found is not None:
                return found
    return None


def _score(row, v):
    offset = v[len(row)] if len(v) > len(row) else 0
    return sum((Fraction(x) * w for x, w in zip(row, v) if x), offset)
