"""False claims of searches and of proofs are found."""

from dataclasses import replace

import numpy as np
import pytest
from exact_points import exact_optimum
from fuzz import checks, choices, fits
from fuzz.cases import Case
from fuzz.proofs import exact_failures

import widemargin
from widemargin.estimators.proof import Proof
from widemargin.problem import Intercept
from widemargin.proofs.region import Interval

RNG = np.random.default_rng(5)
X = RNG.standard_normal((30, 3))
Y = (X[:, 0] + RNG.standard_normal(30) > 0.0).astype(int)
SEARCH = Case(
    "LinearSVCCV path",
    X,
    Y,
    {"Cs": [0.01, 1.0], "cv": 2, "loss": "hinge", "fit_intercept": False, "tol": 1e-6},
)


def test_a_choice_that_is_not_the_best_is_found():
    (fit,) = fits.fits(SEARCH)
    assert choices.choice_failures(SEARCH, fit.model) == []
    fit.model.C_ = 17.0
    found = choices.choice_failures(SEARCH, fit.model)
    assert len(found) == 2, found
    assert "C_ is 17.0" in found[0]


def test_a_false_bound_on_other_values_of_C_is_found(monkeypatch):
    (fit,) = fits.fits(SEARCH)
    assert choices.path_failures(SEARCH, fit.model) == []
    honest = widemargin.certify_path(fit.model, X, Y)
    false = replace(honest, lowest=np.ones_like(honest.lowest))
    monkeypatch.setattr(widemargin, "certify_path", lambda *_, **__: false)
    found = choices.path_failures(SEARCH, fit.model)
    assert len(found) == len(honest.lowest) > 0
    assert "which was to be at least 1.0" in found[0]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", Intercept)
def test_false_bounds_on_the_optimum_are_found(intercept, loss, monkeypatch):
    case = Case("LinearSVC", X, Y, {"loss": loss, "tol": 1e-6, "solver": "newton", "C": 0.3})
    case.parameters["fit_intercept"] = intercept is not Intercept.NONE
    case.parameters["penalized_intercept"] = intercept is Intercept.PENALIZED
    (fit,) = fits.fits(case)

    def found():
        proof = widemargin.prove(fit.model, X, Y)
        return exact_failures(proof, fit.problems, X, [1, 2], best)

    def best(problem):
        return exact_optimum(problem, checks.solve_well_scaled(problem, case, "newton"))

    assert found() == []
    n, d = X.shape
    far = Interval(np.full(d, 50.0), np.full(d, 60.0))
    for name, bounds, said in (
        ("weight_bounds", lambda *_: far, "weights of"),
        ("score_bounds", lambda *_: Interval(np.full(n, 50.0), np.full(n, 60.0)), "scores of"),
        ("objective_bounds", property(lambda _: Interval(np.ones(1), np.ones(1))), "objective of"),
        ("leave_one_out", lambda *_: (np.full(n, 50.0), np.full(n, 60.0)), "without rows [1]"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(Proof, name, bounds)
            wrong = found()
        assert said in wrong[0], wrong
