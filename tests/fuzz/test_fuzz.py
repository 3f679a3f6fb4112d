"""The fuzzer finds what it looks for, and nothing else."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from exact import optimum_of
from fuzz import certificates, checks
from fuzz.cases import KINDS, Case, random_case
from fuzz.objective import ExactProblem
from fuzz.one_class import OneClass, one_class_failures
from fuzz.polish import polished
from fuzz.proofs import proof_failures
from fuzz.refine import refined

import widemargin
from widemargin.certificate import lower_bound
from widemargin.losses import HINGE, SMOOTH_HINGE, SQUARED_HINGE, Loss
from widemargin.penalty import Penalty
from widemargin.problem import Intercept
from widemargin.risk import (
    CrammerSinger,
    Hinge,
    LogisticRisk,
    MarginRisk,
    PairwiseHinge,
    SquaredHinge,
)


def test_nothing_is_found_in_some_cases():
    said = []
    failed = certificates.run(1, cases=50, slack=0.0, report=said.append)
    assert failed == 0, "\n".join(said)
    assert said[-1].startswith("certificates: seed 1, 50 cases (")


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_the_same_again_and_as_code(kind):
    case = random_case(7, 3, kind)
    assert case.code() == random_case(7, 3, kind).code() != random_case(7, 4, kind).code()
    names = {}
    exec(case.code(), names)
    assert "path" in names or names["model"].certificate_.primal is not None
    exec(replace(case, layout="dense", y_layout="dense", features=None).code(), names)
    np.testing.assert_array_equal(names["X"], case.X)
    assert names["X"].dtype == case.X.dtype
    np.testing.assert_array_equal(names.get("y"), case.y)


SHIFTED = Case(
    "LinearSVC",
    np.array([[1e16, 1.0], [1e16, 2.0], [1e16, 3.0], [1e16, 4.0]]),
    np.array([0, 1, 0, 1]),
    {"tol": 1e-3, "solver": "ocas"},
)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"primal": 1.0 - 2.0**-53}, "below the model's exact objective"),
        ({"primal": 2.0}, "too loose"),
        ({"dual": 1.0 + 2.0**-52}, "above an objective"),
        ({"dual": np.nan}, "not finite"),
    ],
)
def test_false_claims_are_found(change, named):
    """Even by the last digit: at w = 0 the objective is 4 exactly."""
    risk = Hinge(np.where(SHIFTED.y > 0, 1, -1), np.ones(4))
    problem = checks.Problem(checks.as_rows(SHIFTED.X), risk, Intercept.NONE)
    factors = {"primal": 1.0, "dual": 0.0} | change
    claim = widemargin.Certificate(4.0 * factors["primal"], 4.0 * factors["dual"])
    found = checks.check_part(problem, (np.zeros(2), 0.0), claim, SHIFTED)
    assert any(named in each for each in found), found
    honest = checks.check_part(
        problem, (np.zeros(2), 0.0), widemargin.Certificate(4.0, 0.0), SHIFTED
    )
    assert honest == []


def test_false_bounds_on_weights_are_found():
    rng = np.random.default_rng(0)
    data = {"X": rng.standard_normal((30, 3)), "y": np.arange(30) % 2}
    model = widemargin.LinearSVC(tol=1e-6).fit(**data)
    coef, excess = model.coef_[0], Fraction(model.certificate_.gap)
    assert proof_failures(model, data, [(coef, excess)]) == []
    (found,) = proof_failures(model, data, [(coef + 1.0, excess)])
    assert "leave the optimum out" in found
    assert proof_failures(model, data, [(coef + 1.0, Fraction(10) ** 400)]) == []


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize("penalty", [Penalty(), Penalty(1.0, 0.0), Penalty(0.5, 0.5)])
def test_a_point_nearer_to_the_optimum_of_logistic_regression(penalty, intercept):
    """Its lower bound is as near as float64 can have it."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((20, 4)), np.where(rng.random(20) < 0.5, 1, -1)
    risk = LogisticRisk(y, 2.0 * rng.random(20))
    problem = checks.Problem(checks.as_rows(X), risk, intercept, penalty)
    case = replace(SHIFTED, X=X, y=y)
    state = checks.solve_well_scaled(problem, case, "proximal" if penalty.l1 else "newton")
    found = ExactProblem(X, risk, intercept, penalty).objective(state.coef, state.offset)
    rough = replace(state, coef=state.coef * (1.0 + 1e-4))
    for start in (state, rough):
        least = refined(X, problem, start)
        assert found * (1 - Fraction(1, 10**12)) < least <= found
    bound = lower_bound(problem, state.dual, 1e-12)[0]
    assert Fraction(bound.value) <= least


ONE_CLASS = Case(
    "LinearOneClassSVM", np.array([[1.0], [2.0], [4.0]]), None, {"nu": 0.5, "tol": 1e-3}
)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"primal": -8.0 / 9.0 - 1e-15}, "below it"),
        ({"primal": 2.0}, "too loose"),
        ({"dual": -8.0 / 9.0 + 1e-15}, "above an objective"),
        ({"dual": np.nan}, "not finite"),
        ({"dual": -10.0}, "converged, with a gap"),
    ],
)
def test_false_claims_of_one_class_are_found(change, named):
    """The lowest mean is 4/3, of the first row and half of the second; so P is -8/9."""
    model = widemargin.LinearOneClassSVM(nu=0.5, tol=1e-3).fit(ONE_CLASS.X)
    assert one_class_failures(ONE_CLASS, model) == []
    assert float(OneClass(ONE_CLASS).best_multiple([3.0])) == -8.0 / 9.0
    model.certificate_ = replace(model.certificate_, **change)
    found = one_class_failures(ONE_CLASS, model)
    assert any(named in each for each in found), found


def test_the_exact_optimum_of_one_class():
    X = np.random.default_rng(3).standard_normal((20, 3)) + 1.0
    case = replace(ONE_CLASS, X=X)
    model = widemargin.LinearOneClassSVM(nu=0.5, tol=1e-10).fit(X)
    exact = OneClass(case)
    (least,) = exact.polished(model.dual_variables_.toarray()[0])
    assert least <= exact.best_multiple(model.coef_[0].tolist())
    assert model.certificate_.dual <= least <= model.certificate_.primal
    assert float(exact.objective(model.coef_[0].tolist(), model.offset_)) == pytest.approx(
        float(least), rel=1e-9
    )


@pytest.mark.parametrize("intercept", Intercept)
def test_exact_objectives(intercept):
    """As the formulas say, in fractions."""
    rng = np.random.default_rng(0)
    X, w, cost = rng.standard_normal((5, 2)), rng.standard_normal(2), rng.random(5)
    b = 0.0 if intercept is Intercept.NONE else 0.3
    y = np.array([1, -1, 1, 1, -1])
    F = np.vectorize(Fraction, otypes=[object])
    scores = F(X) @ F(w) + Fraction(b)
    penalty = sum(F(w) ** 2) / 2
    if intercept is Intercept.PENALIZED:
        penalty += Fraction(b) ** 2 / 2
    slack = [max(Fraction(0), 1 - int(sign) * s) for sign, s in zip(y, scores)]
    for risk, power in ((Hinge, 1), (SquaredHinge, 2)):
        exact = ExactProblem(X, risk(y, cost), intercept).objective(w, b)
        assert exact == penalty + sum(c * z**power for c, z in zip(F(cost), slack))
    net = Penalty(0.25, 0.75)
    exact = ExactProblem(X, SquaredHinge(y, cost), intercept, net).objective(w, b)
    sizes = abs(F(w)).sum() + (abs(Fraction(b)) if intercept is Intercept.PENALIZED else 0)
    lost = sum(c * z**2 for c, z in zip(F(cost), slack))
    assert exact == (sizes + 3 * penalty) / 4 + lost
    # Two classes together, with opposite scores: the hinge of twice the scores.
    W = np.stack([-w, w], axis=1)
    together = CrammerSinger((y > 0).astype(int), cost, 2)
    exact = ExactProblem(X, together, intercept).objective(W, np.array([-b, b]))
    doubled = [max(Fraction(0), 1 - 2 * int(sign) * s) for sign, s in zip(y, scores)]
    assert exact == 2 * penalty + sum(c * z for c, z in zip(F(cost), doubled))
    pairs = PairwiseHinge(y, cost)
    exact = ExactProblem(X, pairs, Intercept.NONE).objective(w)
    lost = sum(
        Fraction(cost[i]) * Fraction(cost[j]) * max(Fraction(0), 1 - scores[i] + scores[j])
        for i in range(5)
        for j in range(5)
        if y[i] > y[j]
    )
    assert exact == sum(F(w) ** 2) / 2 + lost


_RIDGE, _NET, _LASSO = Penalty(), Penalty(0.5, 0.5), Penalty(1.0, 0.0)


@pytest.mark.parametrize("intercept", Intercept)
@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        (HINGE, _RIDGE),
        (SQUARED_HINGE, _RIDGE),
        (SQUARED_HINGE, _LASSO),
        (SMOOTH_HINGE, _NET),
        (Loss("tube", eps=0.3, low=-1.0, high=0.5, bend=0.4), _LASSO),
    ],
)
def test_the_exact_optimum(loss, penalty, intercept):
    """It is below what a solver finds, by rounding only, and near Clarabel's."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 3)), np.where(np.arange(20) % 3 > 0, 1, -1)
    risk = MarginRisk(y, 3.0 * rng.random(20), loss)
    problem = checks.Problem(checks.as_rows(X), risk, intercept, penalty)
    case = replace(SHIFTED, X=X, y=y)
    state = checks.solve_well_scaled(problem, case, "proximal" if penalty.l1 else "newton")
    found = ExactProblem(X, risk, intercept, penalty).objective(state.coef, state.offset)
    least = polished(X, problem, state)
    assert found * (1 - Fraction(1, 10**12)) < least <= found
    other = optimum_of(problem)
    assert float(least) == pytest.approx(other, rel=1e-8)
