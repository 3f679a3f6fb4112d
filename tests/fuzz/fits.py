"""Fits of cases, and the problems that they claim to have solved."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import widemargin
from widemargin.data import as_rows
from widemargin.estimators import label_fit
from widemargin.estimators.label_problems import label_problems
from widemargin.estimators.label_sets import label_matrix
from widemargin.estimators.problems import make_problems
from widemargin.estimators.targets import target_problems
from widemargin.solvers.settings import WorkingRowsSettings

# Working sets of rows, which else begin with thousands of rows.
_SMALL = WorkingRowsSettings(
    fewest_rows=2, most_positives=0.5, sample=5, listed=8, added=4, largest=1.0, room=60
)


class Fit(NamedTuple):
    """Points and certificates of some problems, which belong to one model."""

    problems: list
    points: list  # (coef, offset) of each
    certificate: Any
    status: str
    model: Any = None


def fits(case) -> list[Fit]:
    """Fit as the case says, and return what came of it."""
    data = case.data
    if case.estimator == "svm_path":
        X, y = data.pop("X"), data.pop("y")
        path = widemargin.svm_path(X, y, **data, **case.parameters)
        return [_of_path(case, path, j) for j in range(path.Cs.size)]
    model = getattr(widemargin, case.estimator)(**(case.first or case.parameters))
    small = partial(label_fit.LabelFit, settings=_SMALL)
    few = mock.patch.object(label_fit, "LabelFit", small) if case.small else nullcontext()
    with few:
        if case.n_first is not None:
            model.fit(**{name: each[: case.n_first] for name, each in data.items()})
            return [_of_model(case, model.update(**data))]
        model.fit(**data)
        if case.first is not None:
            model.set_params(**case.parameters).fit(**data)
    return [_of_model(case, model)]


def _of_model(case, model):
    best = getattr(model, "best_estimator_", model)
    claims = model.certificate_, model.status_, model
    if case.estimator == "LinearOneClassSVM":
        return Fit([], [], *claims)
    if case.constant is not None:
        return _with_constant(case, *_of_problems(case, model, best, claims))
    return _of_problems(case, model, best, claims)


def _with_constant(case, problems, points, *claims):
    """The intercept is the weight of a feature, times its value."""
    points = [
        (np.append(coef, np.divide([offset], case.constant), axis=0), np.zeros_like(offset))
        for coef, offset in points
    ]
    return Fit(problems, points, *claims)


def _of_problems(case, model, best, claims):
    rows = as_rows(case.matrix)
    if case.estimator in ("LinearRanker", "OrdinalSVC"):
        ordering = model._problem(rows, case.y, case.qid, case.sample_weight)
        return Fit([ordering[0]], [(model.coef_, 0.0)], *claims)
    if case.estimator in ("MeasureSVC", "MeasureSVCCV"):
        problems = best._problem(rows, case.y, case.qid, case.sample_weight)
        points = [(model.coef_[0], problems.state(best).offset)]
        return Fit([problems[0]], points, *claims)
    if case.estimator == "LinearSVR":
        problems = target_problems(model, rows, case.y, case.sample_weight)
        points = zip(np.atleast_2d(model.coef_), model.intercept_.tolist())
        return Fit([problems[j] for j in range(len(problems))], list(points), *claims)
    if case.kind == "LinearSVC labels":
        problems = label_problems(model, rows, label_matrix(case.data["y"]), case.sample_weight)
        coef = model.coef_.toarray() if case.parameters["sparse_coef"] else model.coef_
        points = list(zip(coef.astype(np.float64), model.intercept_.tolist()))
        return Fit(
            [_of_label(case, problems[j], c) for j, c in enumerate(model.classes_)],
            points,
            *claims,
        )
    return _of_classifier(case, best, model.coef_, model.intercept_, *claims)


def _of_label(case, problem, label):
    """Return the problem of a label, whose y are made from the matrix of labels afresh."""
    risk = problem.risk.over(2 * case.y[:, label] - 1, problem.risk.cost)
    return replace(problem, risk=risk)


def _of_path(case, path, j):
    given = {name: value for name, value in case.parameters.items() if name != "Cs"}
    model = widemargin.LinearSVC(C=path.Cs[j], **given)
    model.classes_ = path.classes
    numbers = path.coefs[j], path.intercepts[j], path.certificates[j], path.statuses[j]
    return _of_classifier(case, model, *numbers)


def _of_classifier(case, like, coef, intercept, certificate, status, model=None):
    rows = as_rows(case.matrix)
    codes = np.searchsorted(like.classes_, case.y)
    made = make_problems(like, rows, like.classes_, codes, case.sample_weight)
    problems = [made[j] for j in range(len(made))]
    if problems[0].risk.outputs:
        points = [(coef.T, intercept)]
    else:
        points = list(zip(coef, intercept))
    return Fit(problems, points, certificate, status, model)
